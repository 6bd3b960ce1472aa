"""Pages of screens tell at each fork which way of how many they are, and a screen goes to another by its id."""

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.dialogue import append, assistant, calling, etag_of, result, user
from rigs.screens import SCREENS, put, shown

Object = dict[str, Any]


def words(message: Object) -> str:
    """The text of a UIMessage or of an AG-UI message."""
    if "parts" in message:
        return "".join(part.get("text", "") for part in message["parts"])
    return message.get("content") or ""


def ways(message: Object) -> list[Any] | None:
    """Which way of how many a message is, as its picker says, with the ids."""
    told = message.get("metadata", {}).get("sash", {}).get("ways")
    return [told["at"], told["ids"]] if told else None


async def page(client: httpx.AsyncClient, conversation: str, **query: Any) -> Object:
    """One page with what stands beside its messages."""
    answer = await client.get(f"/conversations/{conversation}/messages", params={"format": "ui", **query})
    assert answer.headers["content-type"] == SCREENS
    body: Object = answer.json()
    return body


async def ask(client: httpx.AsyncClient, conversation: str, *texts: str) -> None:
    """Put a chat of these texts, questions and answers in turn."""
    messages = [
        {"role": "assistant" if place % 2 else "user", "content": text, "id": f"{text}-{place}"}
        for place, text in enumerate(texts)
    ]
    path = f"/conversations/{conversation}/messages?list=whole"
    assert (await client.put(path, json={"messages": messages})).status_code in (200, 201)


@pytest.mark.parametrize("form", ["ui", "ag-ui"])
async def test_a_fork_says_which_of_how_many(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """Three answers stand in the order in which they came, whichever is shown, and each of them is a call away."""
    for answer in ("a1", "a2", "a3"):
        await ask(client, conversation, "q1", answer)
    seen = []
    for _ in range(4):
        newest = (await shown(client, conversation, form=form))[-1]
        seen.append((words(newest), newest["metadata"]["sash"]["ways"]["at"]))
        ids = newest["metadata"]["sash"]["ways"]["ids"]
        assert ids.index(None) == newest["metadata"]["sash"]["ways"]["at"] - 1
        left = ids[ids.index(None) - 1]
        await client.post(f"/conversations/{conversation}/branches/{left}")
    assert seen == [("a3", 3), ("a2", 2), ("a1", 1), ("a3", 3)]


async def test_a_path_that_ends_at_a_fork_says_so_beside_it(client: httpx.AsyncClient, conversation: str) -> None:
    """After a rewind, and where a model failed before a word, the old answer is found beside the messages, on the last
    page alone."""
    await ask(client, conversation, "q1", "a1", "q2", "a2")
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 3})
    assert (await page(client, conversation))["ways"] == {"at": 2, "ids": ["b-1", None]}
    assert (
        "ways" not in (await page(client, conversation, limit=2))
        or not (await page(client, conversation, limit=2))["ways"]
    )
    await append(
        client, conversation, {"id": "R", "message": {"role": "assistant", "content": ""}, "status": "interrupted"}
    )
    assert (await page(client, conversation))["ways"] == {"at": 2, "ids": ["b-1", None]}
    assert (await page(client, conversation, order="desc", limit=1))["ways"] == {"at": 2, "ids": ["b-1", None]}
    await client.post(f"/conversations/{conversation}/branches/b-1")
    assert [words(each) for each in await shown(client, conversation)] == ["q1", "a1", "q2", "a2"]


async def test_a_fork_inside_a_turn_is_its_messages(client: httpx.AsyncClient, conversation: str) -> None:
    """A turn whose end was made anew behind a result is one of two, in both forms at the message behind the fork."""
    await append(client, conversation, user("q", id="q"), calling("c1", id="s"), result("c1", "here", id="t"))
    await append(client, conversation, assistant("one", id="a"))
    await client.post(f"/conversations/{conversation}/messages?after_seq=3", json={"messages": [assistant("two")]})
    assert [ways(each) for each in await shown(client, conversation)] == [None, [2, ["b-1", None]]]
    told = await shown(client, conversation, form="ag-ui")
    assert [ways(each) for each in told] == [None, None, None, [2, ["b-1", None]]]


async def test_a_system_message_before_the_fork_hides_it_on_no_page(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """The first message that a screen has behind a fork tells it, also where a page begins between both."""
    await ask(client, conversation, "q1", "a1")
    await append(client, conversation, {"message": {"role": "system", "content": "brief"}}, user("old"))
    note = {"message": {"role": "system", "content": "briefer"}}
    path = f"/conversations/{conversation}/messages?after_seq=2"
    assert (await client.post(path, json={"messages": [note, user("new")]})).status_code == 201
    for limit in (1, 2, 3):
        told = await shown(client, conversation, limit=limit)
        assert [(words(each), ways(each)) for each in told] == [
            ("q1", None),
            ("a1", None),
            ("new", [2, ["b-1", None]]),
        ]


async def test_ways_that_come_back_are_told_anew(client: httpx.AsyncClient, conversation: str) -> None:
    """What a page was told is no part of a message: sent back, it changes nothing and is not kept."""
    await ask(client, conversation, "q1", "a1")
    await ask(client, conversation, "q1", "a2")
    told = await shown(client, conversation)
    tag = await etag_of(client, conversation)
    await put(client, conversation, told)
    assert await etag_of(client, conversation) == tag
    await client.delete(f"/conversations/{conversation}/branches/b-1")
    assert [ways(each) for each in await shown(client, conversation)] == [None, None]


@pytest.mark.parametrize("form", ["ui", "ag-ui"])
async def test_a_list_of_branches_has_their_messages(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """A screen that draws the whole tree gets each branch's messages as the page had them, and else no content."""
    await ask(client, conversation, "q1", "a1", "q2", "a2")
    before = await shown(client, conversation, form=form)
    await ask(client, conversation, "q1", "a1", "q3", "a3")
    path = f"/conversations/{conversation}/branches"
    (branch,) = (await client.get(path, params={"messages": True, "format": form})).json()["branches"]
    assert branch["content"] == before[2:]
    assert "content" not in (await client.get(path)).json()["branches"][0]


_presses = st.lists(
    st.tuples(st.sampled_from(["ask", "again", "edit", "go"]), st.integers(0, 5)), min_size=2, max_size=10
)


@given(_presses)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_every_way_is_reached(
    client: httpx.AsyncClient, conversation: str, presses: list[tuple[str, int]]
) -> None:
    """Whatever was pressed: pages of each size and order tell the same; going to a way leads there, as many ways stand at
    the place then, in the same order, and back again all is as it was."""
    await client.delete(f"/conversations/{conversation}")
    chat: list[str] = []
    for number, (press, at) in enumerate(presses):
        if press == "go" and chat:
            told = [way for each in await shown(client, conversation) if (way := ways(each))]
            ids = [name for _, names in told for name in names if name]
            if ids:
                await client.post(f"/conversations/{conversation}/branches/{ids[at % len(ids)]}")
                chat = [words(each) for each in await shown(client, conversation)]
            continue
        turns = len(chat) // 2
        keep = 2 * (turns if press == "ask" or not turns else at % turns)
        question = chat[keep] if press == "again" and keep < len(chat) else f"q{number}"
        chat = [*chat[:keep], question, f"a{number}"]
        await ask(client, conversation, *chat)
    whole = await shown(client, conversation)
    assert await shown(client, conversation, limit=1) == whole
    assert (await shown(client, conversation, limit=2, order="desc"))[::-1] == whole
    for place, message in enumerate(whole):
        for at, name in enumerate((ways(message) or [0, []])[1], 1):
            if name is None:
                continue
            await client.post(f"/conversations/{conversation}/branches/{name}")
            there = (await shown(client, conversation))[place]
            told = ways(there)
            assert told is not None
            assert (told[0], len(told[1])) == (at, len(ways(message)[1]))  # type: ignore[index]
            own = ways(message)[0]  # type: ignore[index]
            await client.post(f"/conversations/{conversation}/branches/{told[1][own - 1]}")
            back = await shown(client, conversation)
            assert [(words(each), bool(ways(each))) for each in back] == [
                (words(each), bool(ways(each))) for each in whole
            ]
            whole = back
