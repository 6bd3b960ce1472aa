"""The recall index in the store: blocks of eight messages, after appends, redactions and rewinds."""

from collections.abc import Iterator

import httpx
import pytest
import redis
from rigs.dialogue import append, indexed, user
from rigs.entries import indexed_values

from sash.core.search.words import pack_words
from sash.store.data.blocks import BLOCK
from sash.store.data.layout import Keys, keys_of
from sash.store.redis.embedded import EmbeddedStore


@pytest.fixture
def raw(store: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a client of the same server that returns bytes."""
    with redis.Redis.from_url(store.url, socket_timeout=60) as connection:
        yield connection


def keys_in(conversation: str) -> Keys:
    return keys_of(f"default/{conversation}")


def words_at(raw: redis.Redis, conversation: str, first: int, last: int) -> list[bytes]:
    """Return the indexed words of the messages from ``first`` to ``last``."""
    return indexed_values(raw, keys_in(conversation).word_blocks, first, last)


async def talk(client: httpx.AsyncClient, conversation: str, said: list[str]) -> None:
    """Append texts, and wait until the conversation is indexed."""
    for start in range(0, len(said), 100):
        await append(client, conversation, *map(user, said[start : start + 100]))
    await indexed(client, conversation)


def words_in(said: list[str]) -> list[bytes]:
    return pack_words(said)


def texts(count: int, about: str = "heron") -> list[str]:
    return [f"{about}{number} " + "and so on " * (number % 3) for number in range(count)]


@pytest.fixture
async def remembering(client: httpx.AsyncClient, conversation: str) -> str:
    """Return the id of an empty conversation with recall."""
    assert (await client.post("/conversations", json={"id": conversation, "recall": "lexical"})).status_code == 201
    return conversation


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
async def test_words_are_written_turn_after_turn(
    client: httpx.AsyncClient, remembering: str, raw: redis.Redis, count: int
) -> None:
    """After several appends the index holds the words of each message; an append continues a block that is not full."""
    said = texts(count + 3)
    for turn in (said[:1], said[1:count], said[count:]):
        await talk(client, remembering, turn)
    assert words_at(raw, remembering, 1, len(said)) == words_in(said)
    for first in (1, 2, count, count + 1):
        assert words_at(raw, remembering, first, first + 1) == words_in(said[first - 1 : first + 1])


@pytest.mark.parametrize("keep", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
async def test_rewound_words_are_gone_and_others_take_their_places(
    client: httpx.AsyncClient, remembering: str, raw: redis.Redis, keep: int
) -> None:
    """After a rewind, at block edges and beside them, the removed words are gone, and later words take their places."""
    said, others = texts(3 * BLOCK + 1), texts(2 * BLOCK, "walrus")
    await talk(client, remembering, said)
    assert (await client.post(f"/conversations/{remembering}/rewind", json={"to_seq": keep})).status_code == 200
    assert words_at(raw, remembering, 1, len(said)) == words_in(said[:keep])
    every = b"".join(raw.hgetall(keys_in(remembering).word_blocks).values())
    gone = set(words_in([f"heron{number}" for number in range(keep, len(said))]))
    assert not [word for word in gone if word in every]
    await talk(client, remembering, others)
    assert words_at(raw, remembering, 1, 5 * BLOCK) == words_in(said[:keep] + others)


@pytest.mark.parametrize("seq", [1, BLOCK, BLOCK + 1, 2 * BLOCK + 3])
async def test_a_redacted_message_has_no_words(
    client: httpx.AsyncClient, remembering: str, raw: redis.Redis, seq: int
) -> None:
    """A redacted message has no words in the index; the other messages keep theirs."""
    said = texts(2 * BLOCK + 3)
    await talk(client, remembering, said)
    assert (await client.delete(f"/conversations/{remembering}/messages/{seq}")).status_code == 204
    assert words_at(raw, remembering, 1, len(said)) == words_in([*said[: seq - 1], "", *said[seq:]])


async def test_a_very_long_index_is_dropped_by_a_rewind(
    client: httpx.AsyncClient, remembering: str, raw: redis.Redis
) -> None:
    """A rewind drops a very long index, because one script must not drop 100,000 blocks; the rest is indexed again."""
    said = texts(2 * BLOCK)
    await talk(client, remembering, said)
    key = keys_in(remembering).word_blocks
    raw.hset(key, "n", 1_000_000)
    assert (await client.post(f"/conversations/{remembering}/rewind", json={"to_seq": BLOCK})).status_code == 200
    assert not raw.exists(key)
    await talk(client, remembering, said[BLOCK:])
    assert words_at(raw, remembering, 1, len(said)) == words_in(said)
