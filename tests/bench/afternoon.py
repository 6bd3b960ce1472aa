"""A chat history service as a good engineer writes it in an afternoon, with Litestar, redis-py and msgspec.

A conversation is a list of JSON messages, each with its token count, which is computed once, at the append. A window is
filled from the newest message until the budget is full. The service takes Sash's requests, but has no keys, logs, tool
groups, entry ids or problems, and only one way of counting.
"""

import os

import msgspec
import toktok
from litestar import Litestar, get, post
from redis.asyncio import Redis

from tests.bench.others import settled

_PRIMING = 3
_A_MESSAGE = 4
_ENCODING = "o200k_base"
_EVERYTHING = 1 << 62


class Message(msgspec.Struct):
    role: str
    content: str


class Stored(msgspec.Struct):
    tokens: int
    message: msgspec.Raw


class Entry(msgspec.Struct):
    message: Message


class Turn(msgspec.Struct):
    messages: list[Entry]


class Window(msgspec.Struct):
    messages: list[msgspec.Raw]
    tokens: int


class Appended(msgspec.Struct):
    length: int
    window: Window | None = None


_store = Redis.from_url(os.environ.get("SASH_REDIS_URL", "redis://localhost"))
_encoder = msgspec.json.Encoder()
_stored = msgspec.json.Decoder(Stored)


def _key(conversation_id: str) -> str:
    return f"afternoon:{conversation_id}"


def _count(message: Message) -> int:
    tokens: int = toktok.truncate(message.content, _EVERYTHING, _ENCODING)[1]
    return _A_MESSAGE + tokens


def _line(message: Message) -> bytes:
    return _encoder.encode(Stored(_count(message), msgspec.Raw(_encoder.encode(message))))


def _window(lines: list[bytes], max_tokens: int) -> Window:
    tokens, kept = _PRIMING, []
    for line in reversed(lines):
        stored = _stored.decode(line)
        if tokens + stored.tokens > max_tokens:
            break
        tokens += stored.tokens
        kept.append(stored.message)
    return Window(kept[::-1], tokens)


@post("/conversations/{conversation_id:str}/messages")
async def append(conversation_id: str, data: Turn, max_tokens: int | None = None) -> Appended:
    """Store a turn; with ``max_tokens``, the answer contains the window."""
    key, lines = _key(conversation_id), [_line(entry.message) for entry in data.messages]
    if max_tokens is None:
        return Appended(await _store.rpush(key, *lines))
    async with _store.pipeline(transaction=False) as pipeline:
        length, stored = await pipeline.rpush(key, *lines).lrange(key, 0, -1).execute()
    return Appended(length, _window(stored, max_tokens))


@get("/conversations/{conversation_id:str}/window")
async def window(conversation_id: str, max_tokens: int) -> Window:
    """Return the newest messages that fit the budget."""
    return _window(await _store.lrange(_key(conversation_id), 0, -1), max_tokens)


@get("/readyz")
async def ready() -> bool:
    return await _store.ping()


def application() -> Litestar:
    return settled(Litestar([append, window, ready], openapi_config=None))
