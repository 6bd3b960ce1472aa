"""Rewinding: removing all messages after a given one."""

import asyncio
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, etag_of

from sash.store.data import histories
from sash.store.data.layout import id_field

CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": f"call-{n}", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}}
        for n in (1, 2)
    ],
}


def said(text: str, identity: str | None = None, **fields: Any) -> dict[str, Any]:
    entry = {"message": {"role": "user", "content": text}, **fields}
    return entry | ({"id": identity} if identity else {})


def result(call: str, identity: str) -> dict[str, Any]:
    return {"id": identity, "message": {"role": "tool", "tool_call_id": call, "content": "42 é"}}


async def state(client: httpx.AsyncClient, conversation: str) -> dict[str, Any]:
    """Return what must be equal for equal histories: the totals, the messages and the window."""
    settings = (await client.get(f"/conversations/{conversation}")).json()
    messages = (await client.get(f"/conversations/{conversation}/messages?limit=1000")).json()["messages"]
    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o")).json()
    return {
        "tokens": settings["tokens"],
        "messages": [{**message, "created_at": ""} for message in messages],
        "window": {**window, "version": 0, "etag": "", "receipt": "", "conversation_id": ""},
    }


ENTRIES = (
    {"id": "s", "message": {"role": "system", "content": "Be brief."}},
    said("hello", "a", grounding={"documents": [{"text": "one document"}]}, metadata={"k": 1}),
    {"id": "b", "message": CALLS},
    result("call-2", "c"),
    {**result("call-1", "d"), "pinned": True},
    {"id": "e", "message": {"role": "assistant", "content": "done"}},
    {
        "id": "g",
        "message": {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
    },
    {"id": "h", "message": {"role": "function", "name": "look", "content": "43"}, "pinned": True},
    said("and?", "f", pinned=True, grounding={"documents": [{"text": "two"}, {"text": "documents"}]}),
)


@pytest.mark.parametrize("to_seq", range(len(ENTRIES)))
async def test_a_rewound_history_is_the_shorter_history(client: httpx.AsyncClient, fresh: Any, to_seq: int) -> None:
    """A rewound conversation equals one that was never longer, also after the same further appends."""
    long, short = fresh(), fresh()
    await append(client, long, *ENTRIES)
    await client.post("/conversations", json={"id": short})
    if to_seq:
        await append(client, short, *ENTRIES[:to_seq])

    answer = await client.post(f"/conversations/{long}/rewind", json={"to_seq": to_seq})

    assert answer.status_code == 200
    assert answer.json()["version"] == 2
    assert answer.headers["etag"] == await etag_of(client, long)
    assert answer.json()["messages"]["count"] == to_seq
    assert await state(client, long) == await state(client, short)
    await append(client, long, *ENTRIES[to_seq:])
    await append(client, short, *ENTRIES[to_seq:])
    assert await state(client, long) == await state(client, short)


async def test_ids_are_free_again(client: httpx.AsyncClient, conversation: str) -> None:
    """An id that a rewind removed can name another entry; a kept id still names its own."""
    await append(client, conversation, said("one", "a"), said("two", "b"), said("three", "c"))
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 1})

    again = await append(client, conversation, said("another", "c"), said("one", "a"), said("more", "b"))

    assert [(m["seq"], m["duplicate"]) for m in again["messages"]] == [(2, False), (1, True), (3, False)]


async def test_an_id_left_behind_is_free_too(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """Ids that a crash between a rewind and its cleanup leaves in the store can be used again."""
    await append(client, conversation, said("one", "a"), said("two", "b"))
    server.hset(f"sash:{{default/{conversation}}}:ids", mapping={id_field("lost"): 2, id_field("z" * 40): 7})

    again = await append(client, conversation, said("x", "lost"), said("y", "z" * 40))

    assert [(m["seq"], m["duplicate"]) for m in again["messages"]] == [(3, False), (4, False)]


async def test_nothing_to_forget(client: httpx.AsyncClient, conversation: str) -> None:
    """Rewinding to the last message changes nothing, not even the version; so a rewind may be sent twice."""
    await append(client, conversation, said("one"))

    answer = await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 1})

    assert (answer.status_code, answer.json()["version"]) == (200, 1)


async def test_beyond_the_end(client: httpx.AsyncClient, conversation: str) -> None:
    """Rewinding beyond the last message is 422, which names the field and the last message."""
    await append(client, conversation, said("one"))

    answer = await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})

    assert answer.status_code == 422
    detail = "The conversation ends with message 1: name one that is there"
    assert answer.json()["errors"] == [{"pointer": "#/to_seq", "detail": detail}]


@pytest.mark.parametrize("body", [{}, {"to_seq": -1}, {"to_seq": "1"}, {"to_seq": 1, "x": 1}, {"to_seq": 10**400}])
async def test_wrong_bodies(client: httpx.AsyncClient, conversation: str, body: Any) -> None:
    """An invalid body is 400."""
    await append(client, conversation, said("one"))
    assert (await client.post(f"/conversations/{conversation}/rewind", json=body)).status_code == 400


async def test_conditions(client: httpx.AsyncClient, conversation: str) -> None:
    """If-Match with an older version is 412, and no message is removed."""
    await append(client, conversation, said("one"))
    older = await etag_of(client, conversation)
    await append(client, conversation, said("two"))
    now = await etag_of(client, conversation)
    path = f"/conversations/{conversation}/rewind"

    assert (await client.post(path, json={"to_seq": 1}, headers={"If-Match": older})).status_code == 412
    assert (await client.get(f"/conversations/{conversation}")).json()["messages"]["count"] == 2
    assert (await client.post(path, json={"to_seq": 1}, headers={"If-Match": now})).status_code == 200


async def test_absent(client: httpx.AsyncClient, conversation: str) -> None:
    """Rewinding an absent conversation is 404."""
    assert (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 0})).status_code == 404


async def test_a_summary_of_what_is_forgotten_goes(client: httpx.AsyncClient, conversation: str) -> None:
    """A rewind keeps a summary if all messages that it covers remain, and deletes it otherwise."""
    await append(client, conversation, *(said(f"line {n}") for n in range(5)))
    await client.put(f"/conversations/{conversation}/summary", json={"text": "Lines.", "through_seq": 3})

    kept = (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 3})).json()
    gone = (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})).json()

    assert kept["summary"]["through_seq"] == 3
    assert gone["summary"] is None


async def test_a_very_long_way_back(
    client: httpx.AsyncClient, conversation: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the removed ids are too many to hold in memory, the rewind finds them in the store and leaves none of them."""
    monkeypatch.setattr(histories, "_MOST_NAMED", 100)
    for start in range(0, 300, 100):
        await append(client, conversation, *(said(f"line {start + n}", f"m-{start + n}") for n in range(100)))

    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 7})

    left = [server.hget(f"sash:{{default/{conversation}}}:ids", id_field(f"m-{n}")) for n in range(300)]
    assert left == [*map(str, range(1, 8)), *[None] * 293]


async def test_a_long_way_back(client: httpx.AsyncClient, conversation: str) -> None:
    """A rewind removes thousands of messages with their ids and metadata, and the newest question left is in the window."""
    await append(client, conversation, said("the question", "q"))
    for start in range(0, 4500, 100):
        answers = [
            {
                "id": f"m-{start + n}",
                "message": {"role": "assistant", "content": f"answer {start + n}"},
                "metadata": {"n": n},
            }
            for n in range(100)
        ]
        await append(client, conversation, *answers)
    await append(client, conversation, said("the last question"))

    body = (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})).json()
    again = await append(client, conversation, said("new", "m-4000"))
    page = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]

    assert body["messages"] == {"count": 2, "first_seq": 1, "last_seq": 2}
    assert again["messages"][0]["seq"] == 3
    assert [message.get("metadata") for message in page] == [None, {"n": 0}, None]
    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o")).json()
    assert [m["content"] for m in window["request"]["messages"]] == ["the question", "answer 0", "new"]


@pytest.mark.parametrize("other", ["rewind", "erase"])
async def test_rewinds_at_once(client: httpx.AsyncClient, fresh: Any, other: str) -> None:
    """Two concurrent rewinds, or a rewind and an erasure, each succeed or are refused; the one that removes more wins."""
    for turn in range(40):
        conversation = fresh()
        path = f"/conversations/{conversation}"
        await append(client, conversation, *ENTRIES)
        against = client.delete(path) if other == "erase" else client.post(f"{path}/rewind", json={"to_seq": turn % 3})

        answers = await asyncio.gather(client.post(f"{path}/rewind", json={"to_seq": 3 + turn % 5}), against)

        assert {answer.status_code for answer in answers} <= {200, 204, 404, 409, 422}, [a.text for a in answers]
        assert any(answer.is_success for answer in answers)
        left = await client.get(path)
        assert left.status_code == (404 if other == "erase" else 200)
        assert other == "erase" or left.json()["messages"]["count"] == turn % 3
