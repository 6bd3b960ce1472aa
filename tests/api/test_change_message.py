"""Changing what stands beside a message: thumbs up, a rating, a title, a pin."""

import asyncio
from typing import Any

import httpx
import pytest
from rigs.dialogue import (
    LATE_RESULT,
    OLD_CALL,
    append,
    assistant,
    calling,
    etag_of,
    history,
    problem,
    result,
    user,
    window,
)


async def change(client: httpx.AsyncClient, conversation: str, name: Any, body: Any, **headers: str) -> httpx.Response:
    """Send the patch of one entry."""
    return await client.patch(f"/conversations/{conversation}/messages/{name}", json=body, headers=headers)


async def test_a_rating_is_stored_beside_a_reply(client: httpx.AsyncClient, conversation: str) -> None:
    """A merge patch changes the metadata; message, tokens, time and id stay, and the version grows by one."""
    await append(
        client, conversation, user("one"), assistant("two", id="r", metadata={"model": "m", "cost": {"in": 1}})
    )
    (_, before), tag = await history(client, conversation), await etag_of(client, conversation)

    answer = await change(client, conversation, "id:r", {"metadata": {"rating": "up", "cost": {"in": None, "out": 2}}})

    assert answer.status_code == 200, answer.text
    assert answer.json() == {**before, "metadata": {"model": "m", "cost": {"out": 2}, "rating": "up"}}
    assert answer.headers["etag"] == await etag_of(client, conversation) != tag
    assert (await history(client, conversation))[1] == answer.json()
    removed = await change(client, conversation, 2, {"metadata": None})
    assert removed.json() == {name: each for name, each in before.items() if name != "metadata"}
    assert (await client.get(f"/conversations/{conversation}")).json()["version"] == 3


async def test_a_pin_keeps_a_message_in_every_window(client: httpx.AsyncClient, conversation: str) -> None:
    """A message that was pinned later is in windows that cannot hold its neighbours, until the pin is taken away."""
    await append(
        client, conversation, user("remember the blue door", id="a"), *[user("filler " * 20) for _ in range(20)]
    )
    seen = []
    for pinned in (False, True, None):
        answer = await change(client, conversation, "id:a", {"pinned": pinned})
        assert (answer.status_code, answer.json()["pinned"]) == (200, bool(pinned))
        told = await window(client, conversation, max_tokens="120")
        seen.append("remember the blue door" in str(told["request"]))

    assert seen == [False, True, False]


GROUPS = {
    "one call": [calling("c1", id="call"), result("c1", id="first")],
    "two calls": [calling("c1", "c2", id="call"), result("c2", id="first"), result("c1", id="second")],
    "a late result": LATE_RESULT,
    "the old form": OLD_CALL,
    "a late result between": [
        calling("c0", id="other"),
        user("meanwhile"),
        calling("c1", "c2", id="call"),
        result("c2", id="first"),
        result("c0", id="late"),
        result("c1", id="second"),
    ],
    "an id used again": [
        calling("c1", id="other"),
        user("x"),
        calling("c1", id="call"),
        user("y"),
        result("c1", id="late"),
    ],
}


@pytest.mark.parametrize("name", GROUPS)
async def test_a_pin_is_that_of_an_append(client: httpx.AsyncClient, fresh: Any, name: str) -> None:
    """After a pin, or its removal, the windows are those of a history that was appended with these pins."""
    entries: list[dict[str, Any]] = [user("begin"), *GROUPS[name], *[user("filler " * 20) for _ in range(12)]]
    named = [entry["id"] for entry in entries if "id" in entry]
    for chosen in named:
        patched, told, plain = fresh(), fresh(), fresh()
        await append(client, patched, *entries)
        await append(client, plain, *entries)
        await append(client, told, *[{**entry, "pinned": entry.get("id") == chosen} for entry in entries])
        query = {"max_tokens": "170", "explain": "true"}

        assert (await change(client, patched, f"id:{chosen}", {"pinned": True})).status_code == 200
        assert await same(client, patched, query) == await same(client, told, query)
        await change(client, patched, f"id:{chosen}", {"pinned": False})
        assert await same(client, patched, query) == await same(client, plain, query)


async def same(client: httpx.AsyncClient, conversation: str, query: dict[str, str]) -> dict[str, Any]:
    """Return a window without what names its conversation."""
    told = await window(client, conversation, **query)
    return {name: each for name, each in told.items() if name not in ("conversation_id", "version", "etag", "receipt")}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"message": {"role": "user", "content": "other"}}, "#/message"),
        ({"grounding": None}, "#/grounding"),
        ({"metadata": [1]}, "#/metadata"),
        ({"pinned": "yes"}, "#/pinned"),
        ([1], "#"),
    ],
)
async def test_nothing_else_can_be_changed(
    client: httpx.AsyncClient, conversation: str, body: Any, pointer: str
) -> None:
    """Another member, or a value of the wrong type, is 400 and changes nothing."""
    await append(client, conversation, user("one"))
    tag = await etag_of(client, conversation)

    told = problem(await change(client, conversation, 1, body), 400, "bad-request")

    assert [each["pointer"] for each in told["errors"]] == [pointer]
    assert await etag_of(client, conversation) == tag


async def test_conditions_and_repetitions(client: httpx.AsyncClient, conversation: str) -> None:
    """If-Match holds for a patch; under an Idempotency-Key it takes effect once; a retried append is still a duplicate."""
    await append(client, conversation, user("one", id="a"))
    tag = await etag_of(client, conversation)
    await append(client, conversation, user("two", id="b"))

    problem(await change(client, conversation, 1, {"pinned": True}, **{"if-match": tag}), 412, "precondition-failed")
    now = {"if-match": await etag_of(client, conversation), "idempotency-key": f"k-{conversation}"}
    once = await change(client, conversation, 1, {"metadata": {"n": 1}}, **now)
    again = await change(client, conversation, 1, {"metadata": {"n": 1}}, **now)

    assert (once.status_code, once.content) == (200, again.content)
    assert (await append(client, conversation, user("one", id="a")))["messages"][0]["duplicate"] is True
    problem(await change(client, conversation, 9, {"pinned": True}), 404, "not-found")
    problem(await change(client, f"{conversation}-x", 1, {"pinned": True}), 404, "not-found")


async def test_patches_and_appends_of_entries_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Concurrent patches of one entry and appends are all applied."""
    await append(client, conversation, user("one"))

    answers = await asyncio.gather(
        *(change(client, conversation, 1, {"metadata": {f"k{n}": n}}) for n in range(8)),
        *(client.post(f"/conversations/{conversation}/messages", json={"messages": [user("x")]}) for _ in range(8)),
    )

    assert {answer.status_code for answer in answers} == {200, 201}
    assert (await history(client, conversation))[0]["metadata"] == {f"k{n}": n for n in range(8)}


async def test_a_reply_in_progress_waits(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply that is being written is 422, because its next part would replace the change."""
    await append(client, conversation, user("one"), assistant("half", id="r", status="in_progress"))

    told = problem(await change(client, conversation, "id:r", {"pinned": True}), 422, "unprocessable")

    assert "send metadata and pinned with that" in told["detail"]


async def test_an_export_has_the_change(client: httpx.AsyncClient, conversation: str, fresh: Any) -> None:
    """A fork and an import have the new metadata and the pin."""
    await append(client, conversation, user("one", id="a"), user("two"))
    await change(client, conversation, 1, {"metadata": {"n": 1}, "pinned": True})

    copy = fresh()
    await client.post(f"/conversations/{conversation}/fork", json={"id": copy})
    lines = (await client.get(f"/conversations/{conversation}/export")).content
    moved = fresh()
    kind = {"content-type": "application/x-ndjson"}
    await client.post(f"/conversations/import?id={moved}", content=lines, headers=kind)

    for each in (copy, moved):
        first = (await history(client, each))[0]
        assert (first["metadata"], first["pinned"]) == ({"n": 1}, True)
