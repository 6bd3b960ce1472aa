"""Export and import of conversations as streamed, newline-delimited JSON."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import http, lifespan
from rigs.dialogue import append, etag_of
from rigs.everything import EVERYTHING, result, said, seen

from sash.app import create_app
from sash.settings import Settings

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
    lives = {"expires_at": "", "etag": ""}
    assert {**after, **lives} == {**state, **lives}
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


async def test_digests_of_twice_the_length(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """An export of layout 1, whose digests have 16 bytes, is taken, and retries are duplicates."""
    source, copy = fresh(), fresh()
    await append(client, source, *EVERYTHING)
    exported = [json.loads(line) for line in (await client.get(f"/conversations/{source}/export")).text.splitlines()]
    older = [line | {"digest": line["digest"] + "0" * 16} if "digest" in line else line for line in exported]

    assert (await post(client, lines(*older), f"?id={copy}")).status_code == 201

    assert all(m["duplicate"] for m in (await append(client, copy, *EVERYTHING))["messages"])


async def test_first_lines(client: httpx.AsyncClient, conversation: str) -> None:
    """An export has the settings in its first line, then one line per entry."""
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    await append(client, conversation, said("one", "a"), said("two", "b"))

    head, *entries = (await client.get(f"/conversations/{conversation}/export")).text.splitlines()

    assert {name: json.loads(head)[name] for name in SETTINGS} == SETTINGS
    assert [json.loads(entry)["message"]["content"] for entry in entries] == ["one", "two"]


async def test_written_by_hand(client: httpx.AsyncClient, conversation: str) -> None:
    """An import needs only settings and messages, wrapped or bare; blank lines at its end are ignored."""
    wrapped, bare = {"message": {"role": "user", "content": "x"}}, {"role": "assistant", "content": "y"}
    body = lines({"id": conversation, "system": "Hi."}, wrapped, bare) + b"\n \n"

    answer = await post(client, body)

    assert answer.status_code == 201, answer.text
    assert (answer.json()["messages"]["count"], answer.json()["version"]) == (2, 1)
    stored = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]
    assert [each["message"] for each in stored] == [wrapped["message"], bare]


async def test_messages_without_settings(client: httpx.AsyncClient) -> None:
    """The error about messages alone says that the first line has the settings."""
    answer = await post(client, lines({"role": "user", "content": "x"}))
    assert answer.status_code == 400
    assert "the first line has the conversation's settings, {} for none" in answer.json()["detail"]


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
        (lines({}, GOOD, result("call-1")["message"]), 422, 3, "#/lines/3/tool_call_id"),
        (lines({}, {"role": "usr", "content": "x"}), 400, 2, "#/lines/2/role"),
        (lines({}, {**GOOD, "created_at": "yesterday"}), 400, 2, "#/lines/2/created_at"),
        (lines({}, {**GOOD, "created_at": "0001-01-01T00:00:00+02:00"}), 400, 2, "#/lines/2/created_at"),
        (lines({}, {**GOOD, "created_at": "1970-01-01T00:00:00Z"}), 400, 2, "#/lines/2/created_at"),
        (lines({}, {**GOOD, "created_at": "2527-01-01T00:00:00Z"}), 400, 2, "#/lines/2/created_at"),
        (lines({"created_at": "1969-12-31T00:00:00Z"}), 400, 1, "#/lines/1/created_at"),
        (lines({"updated_at": "9999-12-31T23:59:59Z"}), 400, 1, "#/lines/1/updated_at"),
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
    """An import may be larger than the limit of other bodies; a line of it has 32 MiB at most."""

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

    long = await post(client, lines({}) + b'"' + b"x" * (32 * 1024 * 1024 + 1))
    assert (long.status_code, long.json()["line"], long.json()["limit"]) == (413, 2, 32 * 1024 * 1024)


BODY_BYTES = 100_000
PARTS = b'{"messages":[{"role":"model","parts":[%s]}]}'
ARGS = PARTS % b'{"functionCall":{"name":"f","args":{"a":[%s]}}}'


def filled(body: bytes, unit: bytes) -> bytes:
    """The largest body that has as many of ``unit`` in it as fit."""
    units = (unit * ((BODY_BYTES - len(body)) // len(unit))).rstrip(b",")
    return (body % units).ljust(BODY_BYTES)


@asynccontextmanager
async def limited(url: str, max_body_bytes: int) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a new application that takes bodies of this size."""
    settings = Settings(redis_url=url, store_connections=2, durability="fast", max_body_bytes=max_body_bytes)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "query"),
    [
        (filled(b'{"messages":[{"role":"user","content":"%s"}]}', b"x"), ""),
        (filled(b'{"messages":[{"role":"user","content":"x","n":[%s]}]}', b"1e15,"), ""),
        (filled(b'{"messages":[{"message":{"role":"user","content":"x"},"metadata":{"n":[%s]}}]}', b"1e9,"), ""),
        (filled(ARGS % b'"%s"', rb"\""), "?format=gemini"),
        (filled(ARGS, b"1e15,"), "?format=gemini"),
        (filled(PARTS, b'{"text":"a"},'), "?format=gemini"),
    ],
    ids=["text", "numbers", "metadata", "quotes", "arguments", "parts"],
)
@pytest.mark.usefixtures("nothing_left")
async def test_the_largest_body(conversation: str, store: Any, body: bytes, query: str) -> None:
    """What came in a body of the largest size can be imported again, also after the limit of bodies was lowered."""
    headers = {"Content-Type": "application/json"}
    async with limited(store.url, BODY_BYTES) as large:
        path = f"/conversations/{conversation}"
        appended = await large.post(f"{path}/messages{query}", content=body, headers=headers)
        assert appended.status_code == 201, appended.text
        exported = (await large.get(f"{path}/export")).content
        await large.delete(path)
        assert (await post(large, exported)).status_code == 201
        assert (await large.get(f"{path}/export")).content.splitlines()[1:] == exported.splitlines()[1:]
        await large.delete(path)
    async with limited(store.url, 1024) as small:
        assert (await post(small, exported)).status_code == 201
        assert (await small.get(f"{path}/export")).content.splitlines()[1:] == exported.splitlines()[1:]


@pytest.mark.parametrize("form", ["openai", "gemini", "anthropic", "responses"])
async def test_the_deepest_message(client: httpx.AsyncClient, fresh: Callable[[], str], form: str) -> None:
    """What is nested as deep as an append takes it can be imported again, in every form."""
    part: dict[str, Any] = {"text": "x", "type": "input_text" if form == "responses" else "text"}
    content = {"parts": [part]} if form == "gemini" else {"role": "user", "content": [part]}
    for levels in range(90, 200):
        part["extra"] = [1]
        for _ in range(levels):
            part["extra"] = [part["extra"]]
        path = f"/conversations/{fresh()}"
        answer = await client.post(f"{path}/messages?format={form}", json={"messages": [content]})
        if answer.status_code == 400:
            break
        exported = (await client.get(f"{path}/export")).content
        imported = await post(client, exported, f"?id={fresh()}")
        assert imported.status_code == 201, imported.text
    assert levels > 90


@pytest.mark.usefixtures("nothing_left")
async def test_settings_of_many_patches(conversation: str, store: Any) -> None:
    """Settings over the limit are 413 when a conversation is created or changed; those of an export can be imported."""
    path, half = f"/conversations/{conversation}", "x" * 60_000
    async with limited(store.url, BODY_BYTES) as large:
        numbers = b'{"metadata":{"n":[' + b"1e15," * 10_000 + b"1]}}"
        refused = await large.post("/conversations", content=numbers, headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.json()["limit"], refused.json()["unit"]) == (413, BODY_BYTES, "bytes")
        assert (await large.post("/conversations", json={"id": conversation, "system": half})).status_code == 201
        refused = await large.patch(path, json={"metadata": {"note": half}})
        assert (refused.status_code, refused.json()["limit"]) == (413, BODY_BYTES)
        assert "metadata" not in (await large.get(path)).json()
        exported = (await large.get(f"{path}/export")).content
        await large.delete(path)
    async with limited(store.url, 1024) as small:
        assert (await post(small, exported)).json()["system"] == half
        assert (await small.patch(path, json={"reserve": 5})).status_code == 413
        assert (await small.patch(path, json={"system": half[1:]})).status_code == 413  # the body itself
        assert (await small.patch(path, json={"system": None})).status_code == 200


async def test_conditions(client: httpx.AsyncClient, conversation: str) -> None:
    """An export of a version that the client has is 304; one of an absent conversation is 404."""
    assert (await client.get(f"/conversations/{conversation}/export")).status_code == 404
    await append(client, conversation, said("here"))
    tag = await etag_of(client, conversation)
    answer = await client.get(f"/conversations/{conversation}/export", headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
