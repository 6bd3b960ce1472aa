"""Export and import of conversations as streamed, newline-delimited JSON."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from dialogue import append, etag_of
from everything import EVERYTHING, result, said, seen

NDJSON = {"Content-Type": "application/x-ndjson"}
SETTINGS = {
    "owner": "ann",
    "model": "gpt-4o-mini",
    "system": "Hello.",
    "few_shots": [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "metadata": {"k": 1},
    "ttl_seconds": 3600,
}


async def post(client: httpx.AsyncClient, body: bytes, query: str = "") -> httpx.Response:
    return await client.post(f"/conversations/import{query}", content=body, headers=NDJSON)


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


async def test_there_and_back(client: httpx.AsyncClient, conversation: str) -> None:
    """An imported export equals the conversation: places, ids, times, pins, documents, metadata, redactions, summary."""
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    await append(client, conversation, *EVERYTHING)
    await client.put(f"/conversations/{conversation}/summary", json={"text": "So far.", "through_seq": 2})
    await client.delete(f"/conversations/{conversation}/messages/4")
    before = await seen(client, conversation)
    exported = await client.get(f"/conversations/{conversation}/export")
    tag, state = await etag_of(client, conversation), (await client.get(f"/conversations/{conversation}")).json()
    await client.delete(f"/conversations/{conversation}")

    imported = await post(client, exported.content)

    assert exported.headers["content-type"].startswith("application/x-ndjson")
    assert exported.headers["etag"] == tag
    assert imported.status_code == 201, imported.text
    assert imported.headers["location"] == f"/conversations/{conversation}"
    after = imported.json()
    assert {**after, "expires_at": ""} == {**state, "expires_at": ""}
    assert await seen(client, conversation) == before
    again = await client.get(f"/conversations/{conversation}/export")
    assert again.content.splitlines()[1:] == exported.content.splitlines()[1:]


async def test_it_goes_on(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """After an import, retries are duplicates, changed entries are conflicts, and open tool calls still accept results."""
    source, copy = fresh(), fresh()
    await append(client, source, *EVERYTHING)
    await client.delete(f"/conversations/{source}/messages/2")
    exported = await client.get(f"/conversations/{source}/export")

    assert (await post(client, exported.content, f"?id={copy}")).status_code == 201

    answer = await append(client, copy, *EVERYTHING, result("call-2", "k"))
    assert [m["duplicate"] for m in answer["messages"]] == [*[True] * len(EVERYTHING), False]
    changed = {"messages": [said("something else", "e", "assistant")]}
    assert (await client.post(f"/conversations/{copy}/messages", json=changed)).status_code == 409


async def test_first_lines(client: httpx.AsyncClient, conversation: str) -> None:
    """An export has the settings in its first line, then one line per entry."""
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    await append(client, conversation, said("one", "a"), said("two", "b"))

    head, *entries = (await client.get(f"/conversations/{conversation}/export")).text.splitlines()

    assert {name: json.loads(head)[name] for name in SETTINGS} == SETTINGS
    assert [json.loads(entry)["message"]["content"] for entry in entries] == ["one", "two"]


async def test_written_by_hand(client: httpx.AsyncClient, conversation: str) -> None:
    """An import needs only settings and messages; blank lines at its end are ignored."""
    body = lines({"id": conversation, "system": "Hi."}, {"message": {"role": "user", "content": "x"}}) + b"\n \n"

    answer = await post(client, body)

    assert answer.status_code == 201, answer.text
    assert (answer.json()["messages"]["count"], answer.json()["version"]) == (1, 1)


async def test_without_an_id(client: httpx.AsyncClient) -> None:
    """An import without an id gets a generated one."""
    answer = await post(client, b"{}")
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/conversations/{answer.json()['id']}"


GOOD = {"message": {"role": "user", "content": "x"}}


@pytest.mark.parametrize(
    ("body", "status", "line", "pointer"),
    [
        (lines({"system": 1}), 400, 1, "#/lines/1/system"),
        (lines({"few_shots": [{"role": "x"}]}), 400, 1, "#/lines/1/few_shots/0/role"),
        (lines({}, GOOD, {"message": {"role": "user", "content": 1}}), 400, 3, "#/lines/3/message/content"),
        (lines({}, GOOD) + b"{\n", 400, 3, "#/lines/3"),
        (lines({}, GOOD) + b"\xff\n", 400, 3, "#/lines/3"),
        (lines({}, GOOD) + b"[" * 500 + b"\n", 400, 3, "#/lines/3"),
        (lines({}, GOOD, {**GOOD, "x": 1}), 400, 3, "#/lines/3/x"),
        (lines({}, {**GOOD, "seq": 2}), 400, 2, "#/lines/2/seq"),
        (lines({}, {**GOOD, "id": "a"}, GOOD, {**GOOD, "id": "a"}), 400, 4, "#/lines/4/id"),
        (lines({}, GOOD, result("call-1")), 422, 3, "#/lines/3/message/tool_call_id"),
        (lines({}, {**GOOD, "created_at": "yesterday"}), 400, 2, "#/lines/2/created_at"),
        (lines({"summary": {"text": "x", "through_seq": 2}}, GOOD), 400, 1, "#/lines/1/summary/through_seq"),
        (lines({"messages": {"count": 2}}, GOOD), 400, 2, None),
        (b"", 400, None, None),
    ],
)
async def test_wrong_lines(
    client: httpx.AsyncClient,
    conversation: str,
    server: Any,
    body: bytes,
    status: int,
    line: int | None,
    pointer: str | None,
) -> None:
    """A problem names the wrong line, and nothing of the file is stored."""
    answer = await post(client, body, f"?id={conversation}")

    assert (answer.status_code, answer.json().get("line")) == (status, line), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    if pointer is not None:
        assert answer.json()["errors"][0]["pointer"] == pointer
    assert list(server.scan_iter(f"sash:{{default/{conversation}}}:*")) == []


async def test_an_existing_one_stays(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """An import under an id that exists is 409, and changes nothing of the conversation or of its keys."""
    await append(client, conversation, said("here"))
    before = await seen(client, conversation)
    keys = sorted(server.scan_iter(f"sash:{{default/{conversation}}}:*"))

    answer = await post(client, lines({"id": conversation}, *[GOOD] * 1200))

    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conversation-exists")
    assert sorted(server.scan_iter(f"sash:{{default/{conversation}}}:*")) == keys
    assert await seen(client, conversation) == before


async def test_other_media_types(client: httpx.AsyncClient) -> None:
    """A body that is not uncompressed newline-delimited JSON is 415."""
    plain = await client.post("/conversations/import", content=b"{}", headers={"Content-Type": "application/json"})
    packed = await client.post("/conversations/import", content=b"{}", headers=NDJSON | {"Content-Encoding": "gzip"})
    assert (plain.status_code, packed.status_code) == (415, 415)


async def test_larger_than_a_body_may_be(client: httpx.AsyncClient, conversation: str) -> None:
    """An import may be larger than the limit of other bodies; a line of it may not."""

    async def pieces() -> AsyncIterator[bytes]:
        yield lines({"id": conversation})
        for n in range(60):
            text = lines({"message": {"role": "user", "content": f"{n} " + "word " * 20_000}})
            for start in range(0, len(text), 65_536):
                yield text[start : start + 65_536]

    answer = await client.post("/conversations/import", content=pieces(), headers=NDJSON)
    assert (answer.status_code, answer.json()["messages"]["count"]) == (201, 60), answer.text
    exported = await client.get(f"/conversations/{conversation}/export")
    assert len(exported.content) > 5 * 1024 * 1024

    long = await post(client, lines({}) + b'"' + b"x" * (4 * 1024 * 1024 + 1))
    assert (long.status_code, long.json()["line"]) == (413, 2)


async def test_conditions(client: httpx.AsyncClient, conversation: str) -> None:
    """An export of a version that the client has is 304; one of an absent conversation is 404."""
    assert (await client.get(f"/conversations/{conversation}/export")).status_code == 404
    await append(client, conversation, said("here"))
    tag = await etag_of(client, conversation)
    answer = await client.get(f"/conversations/{conversation}/export", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
