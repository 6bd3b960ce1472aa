"""PUT …/messages: the log agrees with the sender's chat."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from conftest import Served, http, lifespan, serving_alone
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from readme_blocks import block
from rigs.agree_chats import changed_lists, screen, screens
from rigs.agreeing import Log, Message, said
from rigs.dialogue import append, assistant, calling, contents, etag_of, history, problem, result, texts, user, window
from rigs.reading_events import following

from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore

MODEL = "gpt-4o-mini"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service for this file, which streams events."""
    with serving_alone(tmp_path_factory.mktemp("agree")) as process:
        yield process


async def put(
    client: httpx.AsyncClient, conversation: str, *messages: Any, headers: Any = None, **query: Any
) -> dict[str, Any]:
    """Put a list, and return the answer's body."""
    answer = await put_answer(client, conversation, *messages, headers=headers, **query)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def put_answer(
    client: httpx.AsyncClient, conversation: str, *messages: Any, headers: Any = None, **query: Any
) -> httpx.Response:
    path = f"/conversations/{conversation}/messages"
    return await client.put(path, json={"messages": messages}, params=query, headers=headers)


def branch_of(body: dict[str, Any]) -> dict[str, int] | None:
    """Return where the branch hangs that an agreement made, and its messages."""
    branch = body["branch"]
    return branch and {name: branch[name] for name in ("after_seq", "messages")}


async def branches(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    """Return the branches, the newest first."""
    return (await client.get(f"/conversations/{conversation}/branches")).json()["branches"]


async def hanging(client: httpx.AsyncClient, conversation: str) -> list[list[Any]]:
    """Return the seqs behind which each branch and its parents hang, its length and its first text; sorted."""
    found = {each["id"]: each for each in await branches(client, conversation)}

    def places(branch: dict[str, Any]) -> list[int]:
        return [*(places(found[branch["parent"]]) if branch["parent"] else []), branch["after_seq"]]

    return sorted([places(each), each["messages"], each["first"]["text"]] for each in found.values())


async def test_a_list_begins_a_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """The first list is stored, its answer has the window, and the same again changes nothing."""
    first = await put_answer(client, conversation, user("hello", id="u1"), model=MODEL)
    body = first.json()
    assert (first.status_code, body["version"], body["agreed"], branch_of(body)) == (201, 1, 0, None)
    assert body["messages"] == [{"seq": 1, "id": "u1", "duplicate": False}]
    assert contents(body["window"]) == ["hello"]
    assert first.headers["etag"] == await etag_of(client, conversation) == body["etag"]

    again = await put_answer(client, conversation, user("hello", id="u1"), model=MODEL)

    assert (again.status_code, again.json()["version"], again.json()["agreed"]) == (200, 1, 1)
    assert (again.json()["messages"], contents(again.json()["window"])) == ([], ["hello"])
    assert again.headers["etag"] == body["etag"]


RICH = [
    user("is there a talk?", id="u1", grounding={"documents": [{"text": "a document"}]}, metadata={"k": 1}),
    {**calling("c1", text="Let me look."), "id": "a1"},
    result("c1", id="r1"),
    assistant("Yes, at two.", id="a2", metadata={"rating": 5}),
]


async def stored(client: httpx.AsyncClient, conversation: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the whole history, and the conversation."""
    state = (await client.get(f"/conversations/{conversation}")).json()
    return await history(client, conversation), state


async def changes_nothing(client: httpx.AsyncClient, conversation: str, *messages: Any, **query: Any) -> dict[str, Any]:
    """Put a list that agrees: the history, the version and the ETag stay."""
    before = await stored(client, conversation)
    body = await put(client, conversation, *messages, **query)
    assert (body["messages"], branch_of(body)) == ([], None)
    assert await stored(client, conversation) == before
    return body


async def test_a_poorer_copy_changes_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """A screen that shows a turn's last words, without documents, calls and results, agrees with all of it."""
    await append(client, conversation, *RICH)

    body = await changes_nothing(client, conversation, user("is there a talk?"), assistant("Yes, at two."))

    assert body["agreed"] == 4
    joined = assistant("Let me look.\n\nYes, at two.")
    await changes_nothing(client, conversation, user("is there a talk?", id="other"), joined)


async def test_what_get_gives_changes_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """The history's own messages agree, with their ids and without."""
    await append(client, conversation, *RICH, {"role": "system", "content": "be brief"}, user("thanks"), assistant(""))
    given = await history(client, conversation)
    await changes_nothing(client, conversation, *[each["message"] for each in given])
    named = [{"id": each["id"], "message": each["message"]} for each in given]
    await changes_nothing(client, conversation, *named)
    await changes_nothing(client, conversation, *named[-3:], list="end")
    await changes_nothing(client, conversation, *named[4:], after_seq=4)


PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 300


@pytest.mark.parametrize("media", ["described", "inline"])
async def test_pictures_agree_in_each_form_of_the_history(
    client: httpx.AsyncClient, conversation: str, media: str
) -> None:
    """A picture that is stored beside the log agrees as its address, and as it came; another one is another question."""
    see = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    await append(client, conversation, {"role": "user", "content": see}, assistant("a cat"))
    given = await history(client, conversation, media)

    messages = [each["message"] for each in given]
    if media == "described":
        messages[0]["content"][1]["image_url"].pop("media")
    await changes_nothing(client, conversation, *messages)

    other = [see[0], {"type": "image_url", "image_url": {"url": PICTURE.replace("AfFcSJ", "AfFcSK")}}]
    body = await put(client, conversation, {"role": "user", "content": other}, assistant("a cat"))
    assert [each["duplicate"] for each in body["messages"]] == [False, True]


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini", "interactions", "converse", "ollama"])
async def test_what_get_gives_changes_nothing_in_each_format(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """The history in a provider's format, put in that format, agrees; one more question in it is appended."""
    await append(
        client, conversation, *RICH, user("and another?"), calling("c2", "c3"), result("c2"), result("c3", "none")
    )
    path = f"/conversations/{conversation}/messages"
    page = (await client.get(path, params={"format": form})).json()["messages"]
    own = [each for message in page for each in message["own"]]

    await changes_nothing(client, conversation, *own, format=form)

    asked = {"role": "user", "parts": [{"text": "more"}]} if form == "gemini" else {"role": "user", "content": "more"}
    asked = {"role": "user", "content": [{"text": "more"}]} if form == "converse" else asked
    body = await put(client, conversation, *own, {"message": asked, "id": "new"}, format=form)
    assert [each["id"] for each in body["messages"]] == ["new"]
    assert (await texts(client, conversation))[-1] == "more"


async def test_an_append_is_the_list_with_one_more(client: httpx.AsyncClient, fresh: Any) -> None:
    """PUT of all with one more leaves what an append of that one leaves: history, totals, and window."""
    once, twice = fresh(), fresh()
    for each in (once, twice):
        await append(client, each, *RICH)
    more = user("more", id="m", grounding={"documents": [{"text": "doc"}]}, metadata={"k": 2})

    appended = await append(client, once, more, model=MODEL)
    agreed = await put(client, twice, user("is there a talk?"), assistant("Yes, at two."), more, model=MODEL)

    assert agreed["messages"] == [{"seq": 5, "id": "m", "duplicate": False}]
    assert agreed["version"] == appended["version"]
    assert agreed["window"]["request"] == appended["window"]["request"]
    for found in zip(await history(client, once), await history(client, twice), strict=True):
        one, other = ({**each, "created_at": 0, "id": 0} for each in found)
        assert one == other


async def test_a_regenerated_reply_is_displaced(client: httpx.AsyncClient, conversation: str) -> None:
    """The list cut before the reply puts the reply away; the same again changes nothing."""
    await append(client, conversation, *RICH)
    for _ in range(2):
        body = await put(client, conversation, user("is there a talk?", id="u1"), model=MODEL)
        assert contents(body["window"])[0].startswith("is there a talk?")
        assert (body["version"], await texts(client, conversation)) == (2, ["is there a talk?"])


async def test_an_edit_of_the_last_question(client: httpx.AsyncClient, conversation: str) -> None:
    """The edited question keeps its id, and stands in place of the old one and its reply."""
    await append(client, conversation, *RICH, user("when?", id="u2"), assistant("At two."))
    shown = [user("is there a talk?", id="u1"), assistant("Yes, at two.")]

    body = await put(client, conversation, *shown, user("where?", id="u2"))

    assert branch_of(body) == {"after_seq": 4, "messages": 2}
    assert [(each["seq"], each["id"]) for each in body["messages"]] == [(5, "u2")]
    assert (await texts(client, conversation))[4:] == ["where?"]


async def test_an_edit_of_the_first_question(client: httpx.AsyncClient, conversation: str) -> None:
    """An edit in place keeps the rest as the log has it: calls, results, documents, metadata, ids, times."""
    await append(client, conversation, *RICH, user("when?", id="u2"), assistant("At two.", metadata={"rating": 1}))
    before = await history(client, conversation)

    body = await put(
        client,
        conversation,
        user("any talk?", id="u1"),
        assistant("Yes, at two."),
        user("when?"),
        assistant("At two."),
    )

    after = await history(client, conversation)
    assert [each["duplicate"] for each in body["messages"]] == [False, True, True, True, True, True]
    assert branch_of(body) == {"after_seq": 0, "messages": 6}
    assert after[1:] == before[1:]
    assert (after[0]["id"], after[0]["message"]["content"], after[0].get("grounding")) == ("u1", "any talk?", None)
    alone = await put(client, conversation, user("another talk?", id="u1"))
    assert (branch_of(alone), await texts(client, conversation)) == (
        {"after_seq": 0, "messages": 6},
        ["another talk?"],
    )


async def test_a_retry_after_a_fault(client: httpx.AsyncClient, conversation: str) -> None:
    """A turn begun in one call, of which nothing came, is begun anew: nothing is doubled."""
    await put(client, conversation, user("q", id="u1"), begun("r1"))
    ended = {"status": "interrupted", "continues": True, "id": "r1"}
    await append(client, conversation, {**assistant(""), **ended})

    body = await put(client, conversation, user("q", id="u1"), begun("r2"), model=MODEL)

    assert [each["id"] for each in await history(client, conversation)] == ["u1", "r2"]
    assert contents(body["window"]) == ["q"]
    again = await put(client, conversation, user("q", id="u1"), begun("r2"))
    assert (again["version"], again["messages"]) == (body["version"], [{"seq": 2, "id": "r2", "duplicate": True}])


def begun(name: str) -> dict[str, Any]:
    return {"id": name, "role": "assistant", "content": "", "status": "in_progress"}


async def test_stop_and_retry_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """The new request comes before the old writer ends: that one is told 410, and nothing of it comes back."""
    await put(client, conversation, user("q", id="u1"), begun("r1"))
    half = {**assistant("Once upon"), "id": "r1", "status": "in_progress", "continues": True}
    await append(client, conversation, half)

    await put(client, conversation, user("q", id="u1"), begun("r2"))

    path = f"/conversations/{conversation}/messages"
    for status in ("in_progress", "completed", "interrupted"):
        late = {**half, "message": {"role": "assistant", "content": "Once upon a time"}, "status": status}
        problem(await client.post(path, json={"messages": [late]}), 410, "reply-gone")
    assert [each["id"] for each in await history(client, conversation)] == ["u1", "r2"]


async def test_stop_and_ask_on(client: httpx.AsyncClient, conversation: str) -> None:
    """After a stop the screen's longer half stands, and the next question follows it."""
    await append(client, conversation, user("q"), assistant("Once", status="interrupted", id="r", metadata={"k": 1}))

    body = await put(client, conversation, user("q"), assistant("Once upon", status="interrupted"), user("go on"))

    found = await history(client, conversation)
    assert [each["message"]["content"] for each in found] == ["q", "Once upon", "go on"]
    assert (found[1]["id"], found[1]["metadata"], found[1]["status"]) == ("r", {"k": 1}, "interrupted")
    assert branch_of(body) is None


async def test_a_client_tools_result_is_taken(client: httpx.AsyncClient, conversation: str) -> None:
    """A result for a call that nobody answered is appended, with the begun reply of the next step."""
    await append(client, conversation, user("q"), calling("c1", text="Let me look.", metadata={"k": 1}))
    shown = [user("q"), calling("c1", text="Let me look."), result("c1", "clicked")]

    body = await put(client, conversation, *shown, begun("r2"), model=MODEL)

    assert contents(body["window"]) == ["q", "Let me look.", "clicked"]
    assert await texts(client, conversation) == ["q", "Let me look.", "clicked", ""]


async def test_a_part_of_the_chat(client: httpx.AsyncClient, conversation: str) -> None:
    """A list that begins in the middle is refused; ``list=end`` takes it, ``list=whole`` puts away what is before."""
    chat = [each for turn in range(4) for each in (user(f"u{turn}", id=f"u{turn}"), assistant(f"a{turn}"))]
    await append(client, conversation, *chat)
    part = [*chat[4:], user("new", id="new")]

    refused = problem(await put_answer(client, conversation, *part), 409, "part-of-the-chat")
    assert "list=end" in refused["errors"][0]["detail"]

    ended = await put(client, conversation, *part, list="end")
    assert ([each["id"] for each in ended["messages"]], branch_of(ended)) == (["new"], None)
    edited = await put(client, conversation, user("edited", id="u1"), list="end")
    assert branch_of(edited) == {"after_seq": 2, "messages": 7}
    whole = await put(client, conversation, user("edited", id="u1"), list="whole")
    assert (branch_of(whole), await texts(client, conversation)) == ({"after_seq": 0, "messages": 3}, ["edited"])


async def test_the_end_of_a_long_chat(client: httpx.AsyncClient, conversation: str) -> None:
    """An id leads to a message far from the end, and a new question is appended without reading the chat."""
    chat = [each for turn in range(120) for each in (user(f"u{turn}", id=f"u{turn}"), assistant("ok"))]
    for first in range(0, len(chat), 80):
        await append(client, conversation, *chat[first : first + 80])

    await put(client, conversation, user("new", id="new"), list="end")
    assert len(await history(client, conversation)) == 241
    body = await put(client, conversation, user("u10", id="u10"), list="end")
    assert (body["agreed"], branch_of(body)) == (1, {"after_seq": 21, "messages": 220})


async def test_a_question_is_asked_again(client: httpx.AsyncClient, conversation: str) -> None:
    """The same words under another id are the question that waits for its reply; once it has one, they are a new one."""
    for identity in ("one", "two"):
        await put(client, conversation, user("go on", id=identity), list="end", model=MODEL)
    assert await texts(client, conversation) == ["go on"]
    await append(client, conversation, assistant("yes"))
    await put(client, conversation, user("go on", id="three"), list="end")
    assert await texts(client, conversation) == ["go on", "yes", "go on"]


async def test_an_edit_of_the_first_question_of_a_long_chat(client: httpx.AsyncClient, conversation: str) -> None:
    """However long the chat is, an edited first question is no part of it; one that stands in its middle is."""
    chat = [each for turn in range(40) for each in (user(f"u{turn}", id=f"u{turn}"), assistant("ok"))]
    await append(client, conversation, *chat)
    problem(await put_answer(client, conversation, user("u30"), user("x")), 409, "part-of-the-chat")
    body = await put(client, conversation, user("edited", id="u0"))
    assert (branch_of(body), await texts(client, conversation)) == ({"after_seq": 0, "messages": 80}, ["edited"])


async def test_many_questions_that_agree(client: httpx.AsyncClient, conversation: str) -> None:
    """A list of more questions than an append may have agrees, where they are not new."""
    chat = [user(f"u{turn}") for turn in range(120)]
    for first in (0, 60):
        await append(client, conversation, *chat[first : first + 60])
    await changes_nothing(client, conversation, *chat)


async def test_a_carried_picture_stays(client: httpx.AsyncClient, conversation: str) -> None:
    """A picture of a message that is appended again is there, and is gone with the last message that has it."""
    see = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    await append(client, conversation, user("q"), {"role": "user", "content": see}, assistant("a cat"))
    (address,) = re.findall(r"/conversations/[^\"]*/media/[0-9a-f]{32}", str(await history(client, conversation)))

    await put(client, conversation, user("edited"), {"role": "user", "content": see}, assistant("a cat"))
    assert (await client.get(address)).status_code == 200
    whole = (await history(client, conversation, "inline"))[1]["message"]["content"]
    assert whole[1]["image_url"]["url"] == PICTURE

    await put(client, conversation, user("edited"))
    assert (await client.get(address)).status_code == 200  # branches have it
    for branch in await branches(client, conversation):
        await client.delete(f"/conversations/{conversation}/branches/{branch['id']}")
    assert (await client.get(address)).status_code == 404


async def test_behind_a_message(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``after_seq`` the list is what stands behind that message, by its seq or id; one that is not there is 422."""
    await append(client, conversation, *RICH, user("when?", id="u2"), assistant("At two."))

    body = await put(client, conversation, user("when?"), assistant("At three."), after_seq="id:a2")

    assert (body["agreed"], branch_of(body)) == (1, {"after_seq": 5, "messages": 1})
    for name in ("99", "id:nobody"):
        problem(await put_answer(client, conversation, user("x"), after_seq=name), 422, "unprocessable")
    problem(await put_answer(client, conversation, user("x"), after_seq="1", list="end"), 422, "unprocessable")


async def test_the_system_prompt(client: httpx.AsyncClient, conversation: str) -> None:
    """Leading system messages become the conversation's, in the same version as what is new; one in the middle is told."""
    await put(client, conversation, {"role": "system", "content": "today is 1"}, user("q"))
    body = await put(
        client, conversation, {"role": "system", "content": "today is 2"}, user("q"), assistant("a"), model=MODEL
    )
    state = (await client.get(f"/conversations/{conversation}")).json()
    assert (state["system"], state["version"], body["version"]) == ("today is 2", 2, 2)
    assert contents(body["window"]) == ["today is 2", "q", "a"]

    alone = await put(client, conversation, {"role": "system", "content": "today is 3"}, user("q"), assistant("a"))
    assert (alone["version"], alone["messages"], branch_of(alone)) == (3, [], None)
    sent = [
        {"role": "system", "content": "today is 3"},
        user("q"),
        {"role": "system", "content": "note"},
        assistant("a"),
    ]
    ignored = await put(client, conversation, *sent)
    assert (ignored["version"], ignored["ignored"]) == (3, ["#/messages/2"])
    retried = await put(client, conversation, {"role": "system", "content": "today is 4"}, user("q"), model=MODEL)
    assert (retried["version"], contents(retried["window"])) == (4, ["today is 4", "q"])


async def test_an_overtaken_tab(client: httpx.AsyncClient, conversation: str) -> None:
    """If-Match refuses a list that was made of another state, though nothing would change; ``*`` needs a conversation."""
    missing = await put_answer(client, conversation, user("q"), headers={"If-Match": "*"})
    problem(missing, 412, "precondition-failed")
    first = await put_answer(client, conversation, user("q"), headers={"If-Match": '"0"'})
    tag = first.headers["etag"]
    await append(client, conversation, assistant("a"))
    for sent in ([user("q"), user("q2")], [user("q"), assistant("a")]):
        answer = await put_answer(client, conversation, *sent, headers={"If-Match": tag})
        assert problem(answer, 412, "precondition-failed")["version"] == 2
    tag = await etag_of(client, conversation)
    assert (await put(client, conversation, user("q"), headers={"If-Match": tag}))["version"] == 3


async def test_a_repeated_request_changes_nothing_more(client: httpx.AsyncClient, conversation: str) -> None:
    """Under an Idempotency-Key a list takes effect once, whatever the chat became since, with the same ids."""
    key = {"Idempotency-Key": f"key-{conversation}"}
    first = await put_answer(client, conversation, user("q"), headers=key, model=MODEL)
    again = await put_answer(client, conversation, user("q"), headers=key, model=MODEL)
    assert first.status_code == again.status_code == 201
    (one,), (other,) = first.json()["messages"], again.json()["messages"]
    assert (one["id"], other) == (other["id"], {**one, "duplicate": True})
    await append(client, conversation, assistant("a"), user("q2"))

    late = await put_answer(client, conversation, user("q"), headers=key)

    problem(late, 422, "idempotency-key-reused")
    late = await put_answer(client, conversation, user("q"), headers=key, model=MODEL)
    assert (late.status_code, late.headers["idempotency-replayed"]) == (201, "true")
    assert await texts(client, conversation) == ["q", "a", "q2"]


async def test_ids_that_are_taken(client: httpx.AsyncClient, conversation: str) -> None:
    """An id that the list has twice, or that stands in what agrees, is 409 with its place, and nothing is stored."""
    await append(client, conversation, user("q", id="u1"), assistant("a", id="a1"))
    twice = await put_answer(client, conversation, user("q", id="x"), assistant("a", id="x"))
    assert problem(twice, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/1/id"
    taken = await put_answer(client, conversation, user("q"), assistant("a"), user("more"), user("new", id="u1"))
    assert problem(taken, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/3/id"
    same = await put_answer(client, conversation, user("q"), assistant("a"), user("q", id="u1"))
    problem(same, 409, "entry-conflict")
    assert await texts(client, conversation) == ["q", "a"]


async def test_what_is_refused(client: httpx.AsyncClient, conversation: str) -> None:
    """Bad lists are 4xx with their places, and change nothing."""
    await append(client, conversation, *RICH)
    before = await stored(client, conversation)
    shown = [user("is there a talk?"), assistant("Yes, at two.")]
    wrong = await put_answer(client, conversation, *shown, {"role": "user", "content": 5})
    assert problem(wrong, 400, "invalid-entry")["errors"][0]["pointer"] == "#/messages/2/content"
    orphaned = await put_answer(client, conversation, *shown, user("x"), result("nobody"))
    assert problem(orphaned, 422, "orphan-tool-result")["errors"][0]["pointer"].startswith("#/messages/3")
    many = await put_answer(client, conversation, *shown, *[user(f"n{each}") for each in range(101)])
    assert problem(many, 413, "too-large")["limit"] == 100
    long = await put_answer(client, conversation, *[user("n") for _ in range(2501)])
    assert problem(long, 413, "too-large")["unit"] == "units"
    problem(await put_answer(client, conversation), 400, "bad-request")
    for form in ("anthropic", "responses"):
        problem(await put_answer(client, conversation, 5, format=form), 400, "bad-request")
    problem(await put_answer(client, conversation, *shown, model="nobodys-model"), 422, "unknown-model")
    problem(await put_answer(client, conversation, *shown, list="middle"), 400, "bad-request")
    assert await stored(client, conversation) == before


async def test_what_an_agent_does_not_see_stays(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``view`` the messages that this agent does not see are in no unit: they stay, with their calls and results."""
    hidden = {"author": "billing", "audience": ["billing"]}
    await append(
        client,
        conversation,
        user("q"),
        {**calling("c1"), **hidden},
        result("c1"),
        assistant("secret", **hidden),
        assistant("a"),
    )
    await changes_nothing(client, conversation, user("q"), assistant("a"), view="front")
    body = await put(client, conversation, user("q"), assistant("b"), view="front")
    assert await texts(client, conversation) == ["q", None, "found", "secret", "b"]
    assert branch_of(body) == {"after_seq": 4, "messages": 1}


async def test_an_erased_message_does_not_come_back(client: httpx.AsyncClient, conversation: str) -> None:
    """A screen that still shows erased words agrees, and the words stay erased."""
    await append(client, conversation, user("my secret", id="u1"), assistant("ok"), user("q2"))
    await client.delete(f"/conversations/{conversation}/messages/1")
    await put(client, conversation, user("my secret", id="u1"), assistant("ok"), user("q2"), assistant("a2"))
    assert await texts(client, conversation) == ["[redacted]", "ok", "q2", "a2"]


async def test_receipts_tell_what_was_displaced(client: httpx.AsyncClient, conversation: str) -> None:
    """A window that had the displaced messages cannot be made again: 410, and its reason is that they were taken away."""
    await append(client, conversation, user("q"), assistant("a"), user("q2"))
    path = f"/conversations/{conversation}/window"
    receipt = (await client.get(path, params={"model": MODEL})).json()["receipt"]
    await put(client, conversation, user("q"), assistant("a"), user("q2"), assistant("a2"))
    assert (await client.get(path, params={"receipt": receipt})).status_code == 200

    await put(client, conversation, user("q"), user("q3"))

    gone = problem(await client.get(path, params={"receipt": receipt}), 410, "receipt-gone")
    assert (gone["reason"], gone["version"]) == ("rewound", 3)


async def test_two_tabs_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Lists that come at the same time are taken one after the other: the chat is that of one of them."""
    await append(client, conversation, *RICH)
    shown = [user("is there a talk?"), assistant("Yes, at two.")]
    answers = await asyncio.gather(
        *[
            put_answer(client, conversation, *shown, user(f"tab {each}", id=f"t{each}"), begun(f"tr{each}"))
            for each in range(4)
        ]
    )
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    found = await history(client, conversation)
    assert len(found) == 6
    assert found[4]["id"].replace("t", "tr") == found[5]["id"]
    versions = sorted(answer.json()["version"] for answer in answers)
    assert versions == [2, 3, 4, 5]


async def test_one_event_tells_what_was_replaced_by_what(alone: Served, conversation: str) -> None:
    """Each agreement that changes something is one event: to which message the log went back, and what was appended."""
    async with httpx.AsyncClient(base_url=alone.url, timeout=20) as one:
        await append(one, conversation, user("q", id="u1"), assistant("a", id="a1"), user("q2", id="u2"))
        async with following(one, f"/conversations/{conversation}/events", after=1) as followed:
            await put(one, conversation, user("q"), assistant("a"), user("q3", id="u3"), begun("r3"))
            await put(one, conversation, user("q"), assistant("a"), user("q3", id="u3"), begun("r3"))
            await put(
                one, conversation, {"role": "system", "content": "be brief"}, user("edited", id="u1"), assistant("a")
            )
            await followed.until(lambda: len(followed.events) == 2)
    first, second = followed.events
    assert (first["to_seq"], [each["id"] for each in first["messages"]]) == (2, ["u3", "r3"])
    assert (second["to_seq"], [each["id"] for each in second["messages"]]) == (0, ["u1", "a1"])
    assert followed.versions == [2, 3]
    assert second["conversation"]["system"] == "be brief"


async def test_two_tenants_never_meet(store: EmbeddedStore) -> None:
    """The same list of another tenant makes a conversation of its own, and changes nothing of the first one's."""
    keys = (ApiKey("acme", "key-of-acme-0123456789"), ApiKey("beta", "key-of-beta-0123456789"))
    app = create_app(Settings(redis_url=store.url, store_connections=1, durability="fast", api_keys=keys))
    async with lifespan(app), http(app) as client:
        path, (acme, beta) = "/conversations/same/messages", ({"Authorization": f"Bearer {key.key}"} for key in keys)
        sent = {"messages": [user("q", id="u1"), assistant("of acme", id="a1")]}
        assert (await client.put(path, json=sent, headers=acme)).status_code == 201
        other = {"messages": [user("q", id="u1"), assistant("of beta", id="a1")]}
        assert (await client.put(path, json=other, headers=beta)).status_code == 201
        assert (await client.put(path, json=sent, headers=acme)).json()["version"] == 1
        for headers in (acme, beta):
            assert (await client.delete("/conversations/same", headers=headers)).status_code == 204


async def test_a_conversation_that_expires_is_renewed(client: httpx.AsyncClient, conversation: str) -> None:
    """An agreement keeps a conversation's time to live, as an append does, also where it displaces messages."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 1000})
    await put(client, conversation, user("q"), assistant("a"))
    await put(client, conversation, user("q2"))
    state = (await client.get(f"/conversations/{conversation}")).json()
    assert (state["ttl_seconds"], state["messages"]["count"]) == (1000, 1)
    assert state["expires_at"] is not None


async def test_totals_are_those_of_the_messages(client: httpx.AsyncClient, fresh: Any) -> None:
    """After edits in place, pins and documents are counted as if the chat had been appended so."""
    once, twice = fresh(), fresh()
    chat = [*RICH, user("pinned", id="p", pinned=True), calling("c2", id="a3"), result("c2", id="r2", pinned=True)]
    await append(client, once, *chat)
    shown = [user("edited", id="u1"), assistant("Yes, at two."), user("pinned"), calling("c2"), result("c2")]
    await put(client, once, *shown)
    await append(client, twice, user("edited", id="u1"), *chat[1:])
    states = [(await client.get(f"/conversations/{each}")).json() for each in (once, twice)]
    assert states[0]["tokens"] == states[1]["tokens"]
    windows = [await window(client, each) for each in (once, twice)]
    assert windows[0]["request"] == windows[1]["request"]
    assert windows[0]["tokens"] == windows[1]["tokens"]


@given(screens(), st.data())
@examples(0.7)
async def test_the_service_agrees_as_the_rule_does(
    client: httpx.AsyncClient, fresh: Any, found: tuple[list[Message], str, str], data: st.DataObject
) -> None:
    """Whatever a person pressed, the stored chat is what the rule makes of it; the same again changes nothing."""
    chat, style, between = found
    conversation, log = fresh(), Log([{**each, "hidden": False} for each in chat])
    if not chat:
        return
    await append(client, conversation, *[sendable(each) for each in log.messages])
    for _ in range(2):
        sent = data.draw(changed_lists(screen(log.messages, style, between)))
        if not sent:
            return
        how = {"list": "whole"}
        answer = await put_answer(client, conversation, *map(sendable, sent), **how)
        assert answer.status_code == 200, answer.text
        log.put(sent, is_whole=True)
        after = await history(client, conversation)
        assert [content_of(each["message"]) for each in after] == [content_of(each) for each in log.messages]
        assert await hanging(client, conversation) == sorted(
            [places, len(messages), said(messages[0]).text[:200]] for places, messages in log.hanging()
        )
        again = await put(client, conversation, *map(sendable, sent), **how)
        assert (again["version"], again["messages"]) == (answer.json()["version"], [])


def sendable(message: Message) -> dict[str, Any]:
    """The message as an entry."""
    beside = {name: message[name] for name in ("id", "status") if message.get(name)}
    members = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content")
    return {"message": {name: message[name] for name in members if name in message}, **beside}


def content_of(message: dict[str, Any]) -> tuple[Any, ...]:
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    return message["role"], message["content"], calls, message.get("reasoning_content"), message.get("tool_call_id")


async def test_the_page_s_list_begins_a_turn(client: httpx.AsyncClient, conversation: str) -> None:
    """The page's list stores the question and begins the reply; the window has the question alone."""
    body = json.loads(block("json", "service/sash/api/README.md", "## Your frontend has its own list? PUT it"))
    answer = await put(client, conversation, *body["messages"], model=MODEL)
    assert contents(answer["window"]) == ["Is there a talk about Gradle?"]
    assert [each["status"] for each in (await history(client, conversation))[1:]] == ["in_progress"]
