"""Leaving messages out of windows, and having them in again: ``sent``."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import (
    LATE_RESULT,
    OLD_CALL,
    append,
    assistant,
    calling,
    contents,
    etag_of,
    history,
    problem,
    result,
    user,
    window,
)

LINES = {"content-type": "application/x-ndjson"}
GROUPS = {
    "one call": [calling("c1", id="call"), result("c1", id="first")],
    "two calls": [calling("c1", "c2", id="call"), result("c2", id="first"), result("c1", id="late")],
    "a late result": LATE_RESULT,
    "the old form": OLD_CALL,
}


async def send(client: httpx.AsyncClient, conversation: str, name: Any, *, sent: bool | None) -> dict[str, Any]:
    """Patch one entry, and return it."""
    answer = await client.patch(f"/conversations/{conversation}/messages/{name}", json={"sent": sent})
    assert answer.status_code == 200, answer.text
    entry: dict[str, Any] = answer.json()
    return entry


async def left_out(client: httpx.AsyncClient, conversation: str) -> list[str]:
    """Return the ids of the entries that are not sent."""
    return [entry["id"] for entry in await history(client, conversation) if entry.get("sent") is False]


async def test_a_message_is_left_out_and_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """It stays in the log, and windows are those before once it is sent again."""
    await append(client, conversation, user("one"), assistant("a blunder", id="r"), user("two"))
    before = await window(client, conversation)

    entry = await send(client, conversation, "id:r", sent=False)
    without = await window(client, conversation, explain="true")
    again = await send(client, conversation, "id:r", sent=None)
    after = await window(client, conversation)

    assert entry == {**again, "sent": False}
    assert contents(without) == ["one", "two"]
    assert (without["explain"][1]["kept"], without["explain"][1]["reason"]) == (False, "not sent: left out by a client")
    assert (without["stop_reason"], without["dropped"]["messages"]) == ("complete", 1)
    assert [entry["message"]["content"] for entry in await history(client, conversation)] == ["one", "a blunder", "two"]
    assert after["request"] == before["request"]


@pytest.mark.parametrize("kind", GROUPS)
async def test_a_tool_group_is_left_out_whole(client: httpx.AsyncClient, conversation: str, kind: str) -> None:
    """Whichever of a call and its results is left out, all of them are, and all come back."""
    ids = [entry["id"] for entry in GROUPS[kind] if "id" in entry]
    await append(client, conversation, user("one"), *GROUPS[kind], user("two"))
    before = await window(client, conversation)

    for name in ids:
        await send(client, conversation, f"id:{name}", sent=False)
        assert await left_out(client, conversation) == ids
        told = contents(await window(client, conversation))
        assert told == (["one", "meanwhile", "two"] if kind == "a late result" else ["one", "two"])
        await send(client, conversation, f"id:{name}", sent=True)
        assert await left_out(client, conversation) == []
        assert (await window(client, conversation))["request"] == before["request"]


async def test_a_result_that_comes_later_is_left_out_with_its_call(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """No window has it, pinned or not, until its call is sent again."""
    await append(client, conversation, user("one"), calling("c1", "c2", id="call"))
    await send(client, conversation, "id:call", sent=False)
    await append(
        client, conversation, result("c1", "first", pinned=True), user("two"), result("c2", "second", pinned=True)
    )
    without = contents(await window(client, conversation))
    await send(client, conversation, "id:call", sent=True)

    assert without == ["one", "two"]
    assert contents(await window(client, conversation)) == ["one", None, "first", "second", "two"]


async def test_the_newest_question_is_the_newest_that_is_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents and the place in every window go to it, also behind a rewind and a question that is appended unsent."""
    document = {"grounding": {"documents": [{"text": "a document"}]}}
    long = [assistant("filler " * 30) for _ in range(4)]
    await append(client, conversation, user("one", id="q", **document), *long, user("two", id="r"), *long)
    await send(client, conversation, "id:r", sent=False)
    await append(client, conversation, user("three", id="s", sent=False))

    told = await window(client, conversation, max_tokens="100")
    assert "a document" in contents(told)[0]
    await send(client, conversation, "id:s", sent=True)
    assert contents(await window(client, conversation, max_tokens="100"))[-1] == "three"
    assert (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": "id:r"})).status_code == 200
    assert "a document" in contents(await window(client, conversation, max_tokens="100"))[0]
    await send(client, conversation, "id:r", sent=True)
    assert contents(await window(client, conversation, max_tokens="100"))[-1] == "two"


async def test_what_is_always_sent_can_be_left_out(client: httpx.AsyncClient, conversation: str) -> None:
    """Also a pinned message far back and a system message, which both are in every window again afterwards."""
    system = {"message": {"role": "system", "content": "be brief"}, "id": "s"}
    filler = [assistant("filler " * 20) for _ in range(80)]
    await append(client, conversation, system, user("the blue door", id="p", pinned=True), *filler, user("?"))
    asked = {"max_tokens": "150"}
    before = (await window(client, conversation, **asked))["request"]
    for name in ("s", "p"):
        await send(client, conversation, f"id:{name}", sent=False)
    without = contents(await window(client, conversation, **asked))
    for name in ("s", "p"):
        await send(client, conversation, f"id:{name}", sent=True)

    assert not {"be brief", "the blue door"} & {*without}
    assert (await window(client, conversation, **asked))["request"] == before


async def test_copies_and_exports_have_it(client: httpx.AsyncClient, conversation: str) -> None:
    """A fork and an import leave out what the original does, and the import exports the same."""
    await append(client, conversation, user("one"), *LATE_RESULT, user("two"))
    await send(client, conversation, "id:first", sent=False)
    exported = (await client.get(f"/conversations/{conversation}/export")).text
    fork = (await client.post(f"/conversations/{conversation}/fork", json={})).json()["id"]
    await client.delete(f"/conversations/{conversation}")
    assert (await client.post("/conversations/import", content=exported, headers=LINES)).status_code == 201

    assert await left_out(client, fork) == await left_out(client, conversation) == ["call", "first", "late"]
    assert contents(await window(client, fork)) == contents(await window(client, conversation))
    assert (await client.get(f"/conversations/{conversation}/export")).text == exported
    put = await client.put(
        f"/conversations/{conversation}/messages", json={"messages": await entries_of(client, conversation)}
    )
    assert (put.status_code, await left_out(client, conversation)) == (200, ["call", "first", "late"])


async def entries_of(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    """Return the history as entries that can be sent."""
    names = ("id", "message", "sent", "pinned")
    return [{name: each[name] for name in names if name in each} for each in await history(client, conversation)]


async def test_a_receipt_of_before_is_gone(client: httpx.AsyncClient, conversation: str) -> None:
    """A window that had the message is not made again without it; it is once the message is sent again."""
    await append(client, conversation, user("one"), assistant("two", id="r"))
    receipt = (await window(client, conversation))["receipt"]
    await send(client, conversation, "id:r", sent=False)
    gone = await client.get(f"/conversations/{conversation}/window", params={"receipt": receipt})
    await send(client, conversation, "id:r", sent=True)

    assert problem(gone, 410, "receipt-gone")["reason"] == "amended"
    assert (await client.get(f"/conversations/{conversation}/window", params={"receipt": receipt})).status_code == 200


async def test_what_cannot_be_left_out_is_refused(client: httpx.AsyncClient, conversation: str) -> None:
    """A value that is no boolean is 400, and a reply in progress 422; nothing changes. The same again is a version too."""
    await append(client, conversation, user("one"), assistant("tw", id="r", status="in_progress"))
    tag = await etag_of(client, conversation)
    path = f"/conversations/{conversation}/messages"

    problem(await client.patch(f"{path}/1", json={"sent": "no"}), 400, "bad-request")
    problem(await client.patch(f"{path}/id:r", json={"sent": False}), 422, "unprocessable")
    assert await etag_of(client, conversation) == tag
