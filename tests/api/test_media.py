"""Pictures and files over 8 KB: apart from the log, in windows and exports as they came, at a path of their own."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import redis
from conftest import http, lifespan
from rigs.dialogue import append
from rigs.pictures import blob, in_base64, media_in, picture_part, pictured, png

from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.data.layout import keys_of
from sash.store.data.media_contents import MediaContents
from sash.store.redis.embedded import EmbeddedStore

CALL = {"id": "call-1", "type": "function", "function": {"name": "screen", "arguments": "{}"}}
WINDOW = {"model": "gpt-4o-mini", "max_tokens": 900_000}
BLOB = in_base64(blob(1))
URL_SAFE = base64.urlsafe_b64encode(blob(2)).decode()
WRAPPED = base64.encodebytes(blob(3)).decode()

CHAT: dict[str, list[dict[str, Any]]] = {
    "picture": [pictured("look", 1)],
    "two pictures": [pictured("look", 1, 2)],
    "file": [
        {
            "role": "user",
            "content": [
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BLOB}"}}
            ],
        }
    ],
    "bare file": [{"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": BLOB}}]}],
    "text file": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "read"},
                {
                    "type": "file",
                    "file": {
                        "filename": "a.txt",
                        "file_data": f"data:text/plain;base64,{in_base64(b'lorem ipsum ' * 2000)}",
                    },
                },
            ],
        }
    ],
    "sound": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": BLOB, "format": "wav"}}]}],
    "result": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call-1", "content": [{"type": "text", "text": "seen"}, picture_part(3)]},
    ],
    "lines": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{WRAPPED}"}}]}
    ],
    "percent": [
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg%3E" + "é%20" * 9000}}],
        }
    ],
}
NATIVE: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "anthropic": (
        "claude-sonnet-4-5",
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": in_base64(png(4))},
                    },
                    {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": BLOB}},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "screen", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": in_base64(png(5))},
                            }
                        ],
                    }
                ],
            },
        ],
    ),
    "gemini": (
        "gemini-2.5-pro",
        [
            {"role": "user", "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": URL_SAFE}}]},
            {"role": "model", "parts": [{"inlineData": {"mimeType": "image/png", "data": in_base64(png(6))}}]},
            {"role": "user", "parts": [{"text": "more"}, {"inlineData": {"mimeType": "audio/wav", "data": BLOB}}]},
        ],
    ),
    "responses": (
        "gpt-5",
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64," + in_base64(png(7)),
                        "detail": "auto",
                    },
                    {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{BLOB}"},
                ],
            },
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": in_base64(png(8))},
            {"role": "user", "content": "more"},
        ],
    ),
}


@pytest.fixture
def raw(store: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a connection to the session's server that gives bytes."""
    with redis.Redis.from_url(store.url) as connection:
        yield connection


def kept(server: redis.Redis, conversation: str) -> dict[bytes, bytes]:
    """Return what the store has of a conversation's pictures and files, in bytes."""
    return server.hgetall(keys_of(f"default/{conversation}").media)


def log(server: redis.Redis, conversation: str) -> bytes:
    return b"".join(server.lrange(keys_of(f"default/{conversation}").log, 0, -1))


async def sent(client: httpx.AsyncClient, conversation: str, **query: Any) -> list[dict[str, Any]]:
    """Return the messages of a window."""
    answer = await client.get(f"/conversations/{conversation}/window", params=WINDOW | query)
    assert answer.status_code == 200, answer.text
    request = answer.json()["request"]
    return request.get("messages") or request.get("contents") or request["input"]


@pytest.mark.parametrize("name", CHAT)
async def test_a_message_comes_back_as_it_was(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis, name: str
) -> None:
    """Windows, messages with ``media=inline`` and exports have every picture and file in its place; the log has none."""
    messages = CHAT[name]
    answer = await client.post(f"/conversations/{conversation}/messages", params=WINDOW, json={"messages": messages})
    page = (await client.get(f"/conversations/{conversation}/messages?media=inline")).json()["messages"]
    exported = (await client.get(f"/conversations/{conversation}/export")).text.splitlines()[1:]

    assert answer.json()["window"]["request"]["messages"] == await sent(client, conversation)
    heard = await sent(client, conversation, model="gpt-audio" if name == "sound" else WINDOW["model"])
    assert [each["message"] for each in page] == messages
    assert [json.loads(line)["message"] for line in exported] == messages
    assert len(log(raw, conversation)) < 3000
    if name in ("picture", "two pictures", "sound"):  # files are sent as OpenAI takes them
        assert heard == messages


@pytest.mark.parametrize("form", NATIVE)
async def test_a_providers_own_message_comes_back_as_it_was(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis, form: str
) -> None:
    """A window in the form in which the messages came has them as they came, and so have ``own`` and an export."""
    model, messages = NATIVE[form]
    await client.post(f"/conversations/{conversation}/messages?format={form}", json={"messages": messages})

    assert await sent(client, conversation, model=model, format=form) == messages
    whole = (await client.get(f"/conversations/{conversation}/messages?media=inline&format={form}")).json()["messages"]
    assert [own for each in whole for own in each["own"]] == messages
    assert len(log(raw, conversation)) < 6000
    shown = (await client.get(f"/conversations/{conversation}/messages?format={form}")).text
    assert len(shown) < 12_000
    exported = await client.get(f"/conversations/{conversation}/export")
    copy = await client.post(
        f"/conversations/import?id={conversation}-2",
        content=exported.content,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert copy.status_code == 201, copy.text
    assert await sent(client, f"{conversation}-2", model=model, format=form) == messages


async def test_a_page_tells_a_picture(client: httpx.AsyncClient, conversation: str) -> None:
    """In place of a picture stand its path, and beside that its digest, type, bytes, width and height."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})

    page = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"][0]["message"]
    one = (await client.get(f"/conversations/{conversation}/messages/1")).json()["message"]

    (facts,) = media_in(page)
    path = f"/conversations/{conversation}/media/{facts['digest']}"
    assert page == one
    assert page["content"][0] == {"type": "text", "text": "look"}
    assert page["content"][1] == {"type": "image_url", "image_url": {"url": path, "media": facts}}
    assert facts == {**facts, "type": "image/png", "bytes": len(png(1)), "width": 90, "height": 90}
    assert in_base64(png(1))[:100] not in json.dumps(page)


async def test_a_search_tells_a_picture(client: httpx.AsyncClient, conversation: str) -> None:
    """A search shows a picture like a page, and with ``media=inline`` itself."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, {"id": "a", "message": pictured("the harbour", 1)})

    for _ in range(100):
        found = await client.get(f"/conversations/{conversation}/search?query=harbour")
        if found.json()["messages"]:
            break
    whole = await client.get(f"/conversations/{conversation}/search?query=harbour&media=inline")

    assert len(media_in(found.json())) == 1
    assert whole.json()["messages"][0]["message"] == pictured("the harbour", 1)


@pytest.mark.parametrize(
    ("edit", "where", "status"),
    [
        ("/messages/id:a", "/conversations/{0}", 200),
        ("/messages/id:a", "/owners/o-{0}", 200),
        ("", "/conversations/{0}", 404),
        ("", "/owners/o-{0}", 200),
    ],
)
async def test_what_is_erased_while_a_search_reads_its_picture_is_not_found(
    client: httpx.AsyncClient, conversation: str, monkeypatch: pytest.MonkeyPatch, edit: str, where: str, status: int
) -> None:
    """A search leaves out a message that is redacted meanwhile, and is 404 if its whole conversation is erased."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical", "owner": f"o-{conversation}"})
    await append(client, conversation, {"id": "a", "message": pictured("the harbour", 1)})
    read = MediaContents.read

    async def edited_first(contents: MediaContents, *given: Any, **named: Any) -> Any:
        assert (await client.delete(f"/conversations/{conversation}{edit}")).status_code == 204
        return await read(contents, *given, **named)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(MediaContents, "read", edited_first)
        answer = await client.get(f"{where.format(conversation)}/search?query=harbour&media=inline")

    assert (answer.status_code, answer.json().get("messages", [])) == (status, [])


async def test_a_picture_has_a_path(client: httpx.AsyncClient, conversation: str) -> None:
    """The path gives the picture with its type and an ETag, and tells browsers not to guess."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages")).json())
    path = f"/conversations/{conversation}/media/{facts['digest']}"

    whole = await client.get(path)
    known = await client.get(path, headers={"If-None-Match": whole.headers["etag"]})
    head = await client.head(path)

    assert (whole.status_code, whole.content) == (200, png(1))
    assert whole.headers["content-type"] == "image/png"
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert whole.headers["content-disposition"].startswith("inline")
    assert whole.headers["etag"] == f'"{facts["digest"]}"'
    assert (known.status_code, known.content) == (304, b"")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-99", 0, 99), ("bytes=100-", 100, None), ("bytes=-50", -50, None), ("bytes=10-999999999", 10, None)],
)
async def test_a_part_of_a_picture(
    client: httpx.AsyncClient, conversation: str, asked: str, first: int, last: int | None
) -> None:
    """``Range`` gives a part."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages")).json())

    part = await client.get(f"/conversations/{conversation}/media/{facts['digest']}", headers={"Range": asked})

    content = png(1)
    wanted = content[first:] if last is None else content[first : last + 1]
    start = first if first >= 0 else len(content) + first
    assert (part.status_code, part.content) == (206, wanted)
    assert part.headers["content-range"] == f"bytes {start}-{start + len(wanted) - 1}/{len(content)}"


async def test_what_is_no_range(client: httpx.AsyncClient, conversation: str) -> None:
    """A range behind the end is 416; several ranges, another state's, and what is none give the whole."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages")).json())
    path = f"/conversations/{conversation}/media/{facts['digest']}"

    behind = await client.get(path, headers={"Range": "bytes=99999999-"})
    others = [
        await client.get(path, headers=headers)
        for headers in (
            {"Range": "bytes=0-1,5-6"},
            {"Range": "lines=1-2"},
            {"Range": "bytes=9-3"},
            {"Range": "bytes=0-1", "If-Range": '"another"'},
        )
    ]

    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(png(1))}")
    assert [(each.status_code, each.content == png(1)) for each in others] == [(200, True)] * 4


@pytest.mark.parametrize("name", ["text file", "lines", "percent", "file", "sound"])
async def test_a_file_has_its_bytes(client: httpx.AsyncClient, conversation: str, name: str) -> None:
    """The path gives a file's own bytes, whichever way its message writes them, as an attachment."""
    wanted = {
        "text file": (b"lorem ipsum " * 2000, "text/plain", "attachment"),
        "lines": (blob(3), "image/png", "inline"),
        "percent": (("<svg>" + "é " * 9000).encode(), "image/svg+xml", "attachment"),
        "file": (blob(1), "application/pdf", "attachment"),
        "sound": (blob(1), "audio/wav", "inline"),
    }[name]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": CHAT[name]})
    (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages")).json())

    answer = await client.get(f"/conversations/{conversation}/media/{facts['digest']}")

    said = answer.headers["content-type"].partition(";")[0], answer.headers["content-disposition"].partition(";")[0]
    assert (answer.content, *said) == wanted
    assert facts["bytes"] == len(wanted[0])


async def test_no_such_picture(client: httpx.AsyncClient, conversation: str) -> None:
    """An unknown digest, one of another conversation, and no conversation are 404."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    await append(client, f"{conversation}-2", {"id": "a", "message": pictured("look", 2)})
    (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages")).json())

    for path in (
        f"{conversation}/media/{'0' * 32}",
        f"{conversation}/media/what",
        f"{conversation}-2/media/{facts['digest']}",
        f"{conversation}-3/media/{facts['digest']}",
    ):
        assert (await client.get(f"/conversations/{path}")).status_code == 404


async def test_another_tenant_gets_no_picture(store: EmbeddedStore, conversation: str) -> None:
    """A picture is its tenant's alone."""
    keys = (ApiKey("acme", "acme-key"), ApiKey("other", "other-key"))
    async with (
        lifespan(create_app(Settings(redis_url=store.url, durability="fast", api_keys=keys))) as app,
        http(app) as client,
    ):
        mine, theirs = ({"Authorization": f"Bearer {name}-key"} for name in ("acme", "other"))
        sent = {"messages": [pictured("look", 1)]}
        await client.post(f"/conversations/{conversation}/messages", json=sent, headers=mine)
        (facts,) = media_in((await client.get(f"/conversations/{conversation}/messages", headers=mine)).json())
        path = f"/conversations/{conversation}/media/{facts['digest']}"
        found = [(await client.get(path, headers=each)).status_code for each in (mine, theirs)]
        await client.delete(f"/conversations/{conversation}", headers=mine)

    assert found == [200, 404]


async def test_a_picture_is_stored_once(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """The same picture in two messages, and in another provider's form, is stored once."""
    anthropic = {
        "role": "user",
        "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": in_base64(png(1))}}
        ],
    }
    await append(client, conversation, {"id": "a", "message": pictured("look", 1, 1)})
    await append(client, conversation, {"id": "b", "message": pictured("again", 1)})
    await client.post(f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [anthropic]})

    assert len(kept(raw, conversation)) == 2  # its facts and its text
    assert len(await sent(client, conversation)) == 3


async def test_a_repeated_entry_is_a_duplicate(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """The same picture under the same id is stored once; another picture under that id is a conflict."""
    entry = {"id": "a", "message": pictured("look", 1)}
    first = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})
    again = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})
    other = await client.post(
        f"/conversations/{conversation}/messages", json={"messages": [{"id": "a", "message": pictured("look", 2)}]}
    )

    assert [each.status_code for each in (first, again, other)] == [201, 200, 409]
    assert again.json()["messages"][0]["duplicate"]
    assert len(kept(raw, conversation)) == 2


async def test_what_no_message_has_is_erased(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """A redaction and a rewind erase a picture once no other message of the conversation has it."""
    await append(
        client,
        conversation,
        *({"id": str(n), "message": pictured("look", *both)} for n, both in enumerate([(1, 2), (2, 3), (3,)])),
    )
    counts = [len(kept(raw, conversation))]

    await client.delete(f"/conversations/{conversation}/messages/1")
    counts.append(len(kept(raw, conversation)))
    rest = await sent(client, conversation)
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2, "forget": True})
    counts.append(len(kept(raw, conversation)))
    await client.delete(f"/conversations/{conversation}/messages/2")
    counts.append(len(kept(raw, conversation)))

    assert counts == [6, 4, 4, 0]
    assert rest[1:] == [pictured("look", 2, 3), pictured("look", 3)]


async def test_a_rewind_to_the_beginning_erases_all(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis
) -> None:
    """No picture outlives its messages."""
    await append(
        client, conversation, {"id": "a", "message": pictured("look", 1)}, {"id": "b", "message": pictured("look", 2)}
    )

    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 0, "forget": True})

    assert kept(raw, conversation) == {}


async def test_an_edit_takes_the_pictures_behind_it_away(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis
) -> None:
    """An append after an earlier message forgets the pictures of the later ones, but those that it brings again."""
    await append(client, conversation, *({"id": str(n), "message": pictured("look", n)} for n in range(3)))
    edited = await client.post(
        f"/conversations/{conversation}/messages",
        params={"forget": "true"},
        json={"after_seq": 1, "messages": [pictured("again", 1)]},
    )

    assert edited.status_code == 201, edited.text
    assert await sent(client, conversation) == [pictured("look", 0), pictured("again", 1)]
    assert len(kept(raw, conversation)) == 4


async def test_a_fork_has_the_pictures(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """A fork has its own copy, which the original's erasure leaves."""
    await append(client, conversation, *({"id": str(n), "message": pictured("look", n)} for n in range(3)))
    forked = await client.post(f"/conversations/{conversation}/fork", json={"id": f"{conversation}-2", "at_seq": 2})
    await client.delete(f"/conversations/{conversation}")

    assert forked.status_code == 201, forked.text
    assert await sent(client, f"{conversation}-2") == [pictured("look", 0), pictured("look", 1)]
    assert len(kept(raw, f"{conversation}-2")) == 4


async def test_pictures_expire_with_their_conversation(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis
) -> None:
    """A conversation's time to live is its pictures' too, and each change renews it."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 1000})
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    key = keys_of(f"default/{conversation}").media

    left = [raw.pttl(key)]
    await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": 5000})
    left.append(raw.pttl(key))
    await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": None})
    left.append(raw.pttl(key))

    assert 900_000 < left[0] <= 1_000_000 < 4_900_000 < left[1] <= 5_000_000
    assert left[2] == -1


async def test_a_reply_in_progress_keeps_its_latest_picture(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis
) -> None:
    """A later state of a reply brings its pictures, and takes away those that it no longer has."""

    def reply(*numbers: int) -> dict[str, Any]:
        parts = [{"inlineData": {"mimeType": "image/png", "data": in_base64(png(n))}} for n in numbers]
        return {"role": "model", "parts": [{"text": "see " * (1 + numbers[-1])}, *parts]}

    path = f"/conversations/{conversation}/messages?format=gemini"
    await client.post(path, json={"messages": [{"role": "user", "parts": [{"text": "draw"}]}]})
    states = [(reply(1), "in_progress"), (reply(1, 2), "in_progress"), (reply(2, 3), "completed")]
    sizes = []
    for message, status in states:
        entry = {"id": "r", "message": message, "status": status}
        answer = await client.post(path, json={"messages": [entry]})
        assert answer.status_code == 201, answer.text
        sizes.append(len(kept(raw, conversation)))
    contents = await sent(client, conversation, model="gemini-2.5-pro", format="gemini")

    assert sizes == [2, 4, 4]
    assert contents[-1] == reply(2, 3)


async def test_a_text_file_is_counted_as_its_text(client: httpx.AsyncClient, conversation: str) -> None:
    """A model with a vocabulary of its own counts a text file's words, also where the file stands beside the log."""
    messages = CHAT["text file"]
    query = {"model": "qwen3.5-plus", "max_tokens": 500_000}
    await client.post(f"/conversations/{conversation}/messages", json={"messages": messages})
    expected = (await client.post("/window", json={**query, "messages": messages})).json()["tokens"]

    for _ in range(1200):
        window = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
        if window["tokens"] == expected:
            break
        await asyncio.sleep(0.05)

    assert window["tokens"] == expected
    assert window["request"]["messages"] == messages


async def test_documents_beside_a_text_file(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents beside a text file have the tokens and the place that they have in a history that is sent."""
    entry = {"message": CHAT["text file"][0], "grounding": {"documents": [{"text": "a lighthouse", "id": "d"}]}}
    await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})

    for model in ("gpt-4o-mini", "claude-sonnet-4-5"):
        query = {"model": model, "format": "openai", "grounding": "all"}
        stored = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
        given = (await client.post("/window", json={**query, "messages": [entry]})).json()
        assert (stored["tokens"], stored["request"]) == (given["tokens"], given["request"])


async def test_documents_beside_a_picture(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents go into the text of a question that has pictures, too."""
    question = {"role": "user", "content": [picture_part(1), {"type": "text", "text": "what is this?"}]}
    entry = {"id": "a", "message": question, "grounding": {"documents": [{"text": "a lighthouse", "id": "d"}]}}
    await append(client, conversation, entry)

    (message,) = await sent(client, conversation)

    assert message["content"] == [*question["content"], {"type": "text", "text": "\n\nSources:\na lighthouse"}]


async def test_a_text_that_looks_like_a_picture_stays(client: httpx.AsyncClient, conversation: str) -> None:
    """A data URL in a text, and a base64 in a call's arguments, are words of the message."""
    url = "data:image/png;base64," + in_base64(png(1))
    call = {
        **CALL,
        "function": {"name": "show", "arguments": json.dumps({"data": in_base64(png(2)), "mimeType": "image/png"})},
    }
    messages = [
        {"role": "user", "content": url},
        {"role": "user", "content": [{"type": "text", "text": url}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": messages})

    page = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]

    assert [each["message"] for each in page] == messages


async def test_a_picture_of_8_kb_stays(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """8,192 characters of base64 stay in their message; four more leave it."""
    sizes = []
    for size in (6144, 6147):
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + in_base64(blob(1, size))}}
        await append(client, conversation, {"id": str(size), "message": {"role": "user", "content": [part]}})
        sizes.append(len(kept(raw, conversation)))

    assert sizes == [0, 2]


async def test_a_lost_picture_is_told(client: httpx.AsyncClient, conversation: str, raw: redis.Redis) -> None:
    """Where the store lost the key of the pictures, a window tells one line for each; the same picture brings it back."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    raw.delete(keys_of(f"default/{conversation}").media)

    window = await client.get(f"/conversations/{conversation}/window", params=WINDOW)
    page = await client.get(f"/conversations/{conversation}/messages")
    await append(client, conversation, {"id": "b", "message": pictured("again", 1)})

    assert window.json()["mended"] == {"messages": 1, "reasons": {"lost_medium": 1}}
    assert "not stored any more" in window.json()["request"]["messages"][0]["content"][1]["text"]
    assert page.status_code == 200
    assert await sent(client, conversation) == [pictured("look", 1), pictured("again", 1)]


async def test_a_page_of_whole_pictures_is_short(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``media=inline`` a page has at most some megabytes, and a cursor leads on, in both orders."""
    for n in range(5):
        await append(client, conversation, {"id": str(n), "message": pictured("look", n, side=640)})

    for order in ("asc", "desc"):
        seqs, cursor = [], ""
        while cursor is not None:
            path = f"/conversations/{conversation}/messages?media=inline&order={order}{cursor}"
            page = (await client.get(path)).json()
            seqs += [each["seq"] for each in page["messages"]]
            assert len(page["messages"]) <= 2
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert seqs == [1, 2, 3, 4, 5][:: 1 if order == "asc" else -1]


@pytest.fixture
async def sealed(own: EmbeddedStore) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service with encryption at rest."""
    settings = Settings(redis_url=own.url, durability="fast", encryption_key=(b"master".ljust(32),))
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


async def test_pictures_are_sealed(sealed: httpx.AsyncClient, own: EmbeddedStore, conversation: str) -> None:
    """With encryption at rest the store has neither a picture nor its digest; clients get the same."""
    await append(
        sealed, conversation, {"id": "a", "message": pictured("look", 1)}, {"id": "b", "message": pictured("more", 1)}
    )
    (facts, _) = media_in((await sealed.get(f"/conversations/{conversation}/messages")).json())
    with redis.Redis.from_url(own.url) as raw:
        stored = raw.hgetall(keys_of(f"default/{conversation}").media)

    assert await sent(sealed, conversation) == [pictured("look", 1), pictured("more", 1)]
    assert (await sealed.get(f"/conversations/{conversation}/media/{facts['digest']}")).content == png(1)
    assert len(stored) == 2
    assert bytes.fromhex(facts["digest"]) not in stored
    assert not any(in_base64(png(1)).encode()[:40] in value for value in stored.values())
    forked = await sealed.post(f"/conversations/{conversation}/fork", json={"id": f"{conversation}-2"})
    assert forked.status_code == 201
    assert await sent(sealed, f"{conversation}-2") == [pictured("look", 1), pictured("more", 1)]
    await sealed.delete(f"/conversations/{conversation}/messages/1")
    await sealed.delete(f"/conversations/{conversation}/messages/2")
    with redis.Redis.from_url(own.url) as raw:
        assert not raw.exists(keys_of(f"default/{conversation}").media)


async def test_a_picture_from_before_encryption_is_found(
    sealed: httpx.AsyncClient, own: EmbeddedStore, conversation: str
) -> None:
    """Pictures that were stored before encryption had a key are sent, and found at their path."""
    async with lifespan(create_app(Settings(redis_url=own.url, durability="fast"))) as app, http(app) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    await append(sealed, conversation, {"id": "b", "message": pictured("more", 1)})
    (facts, same) = media_in((await sealed.get(f"/conversations/{conversation}/messages")).json())

    assert facts == same
    assert await sent(sealed, conversation) == [pictured("look", 1), pictured("more", 1)]
    await sealed.delete(f"/conversations/{conversation}/messages/2")
    assert (await sealed.get(f"/conversations/{conversation}/media/{facts['digest']}")).content == png(1)
