"""The append script's short way, for usual entries, does what its long way does."""

from itertools import count
from typing import Any

import pytest
import redis
from conftest import opened
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.entries import said

from sash.core.chat.messages import Entry
from sash.core.law.documents.grounding import parse_template
from sash.problems import Problem
from sash.store.data.append_script import AppendReply
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry, prepare
from sash.store.data.layout import Target, target_at
from sash.store.redis.embedded import EmbeddedStore

NOW = 1_700_000_000_000
NAMED = (b"id", b"life", b"change")
"""Fields that name a conversation, its life or its last write."""
_template = parse_template()
_numbers = count()

TEXTS = st.sampled_from(["", "one", "два слова", "日本語の文", "a word " * 30])
PLAIN = st.builds(
    lambda role, text, name: {"role": role, "content": text} | ({"name": name} if name else {}),
    st.sampled_from(["user", "assistant"]),
    TEXTS,
    st.sampled_from(["", "", "ann"]),
)
CALLS = st.integers(1, 3).map(lambda calls: {"role": "assistant", "content": None, "tool_calls": _calls(calls)})
RESULT = st.builds(
    lambda call, text: {"role": "tool", "tool_call_id": f"call-{call}", "content": text}, st.integers(0, 2), TEXTS
)
GROUP = st.builds(lambda made, results: [made, *results], CALLS, st.lists(RESULT, max_size=3))
REQUESTS = st.lists(
    st.lists(st.one_of(PLAIN, PLAIN, CALLS, RESULT), min_size=1, max_size=4) | GROUP, min_size=1, max_size=8
)


def _calls(calls: int) -> list[dict[str, Any]]:
    called = {"name": "find", "arguments": "{}"}
    return [{"id": f"call-{n}", "type": "function", "function": called} for n in range(calls)]


def entries_of(messages: list[dict[str, Any]], *, pinned: bool) -> list[NewEntry]:
    return prepare([Entry(message=message, pinned=pinned) for message in messages], _template, now_ms=NOW)


async def reply_to(
    conversations: Conversations, target: Target, entries: list[NewEntry]
) -> AppendReply | type[Problem]:
    try:
        return await conversations.append(target, entries, settings=b"{}", if_match="", now_ms=NOW)
    except Problem as problem:
        return type(problem)


def stored_under(server: redis.Redis, target: Target) -> dict[str, Any]:
    """Return all that is stored, without the names that each conversation has of its own."""
    keys = target.keys
    hashes = (keys.conversation, keys.ids, keys.grounding, keys.metadata, keys.pinned)
    found = {key.rpartition(":")[2]: server.hgetall(key) for key in hashes}
    for field in NAMED:
        del found["conversation"][field]
    lists = {part: server.lrange(key, 0, -1) for part, key in (("log", keys.log), ("details", keys.details))}
    return found | lists | {"counts": server.get(keys.counts)}


def told(reply: AppendReply | type[Problem], count: int) -> Any:
    """Return what a reply says of its first ``count`` entries, without the names of a conversation's life and write."""
    return reply if isinstance(reply, type) else (reply.version, reply.settings, reply.edited, reply.entries[:count])


@pytest.mark.parametrize("pinned", [False, True])
@given(role=st.sampled_from(["user", "system"]), requests=REQUESTS)
@examples(0.6)
async def test_both_ways_do_the_same(
    store: EmbeddedStore,
    role: str,
    requests: list[list[dict[str, Any]]],
    pinned: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Requests leave the same keys and get the same replies when a known entry in each makes it take the long way."""
    usual, long = (target_at("ways", f"{way}-{next(_numbers)}") for way in ("usual", "long"))
    known = said("hello", role=role)
    async with opened(store.url) as conversations:
        with redis.Redis.from_url(store.url) as server:
            for target in (usual, long):
                await reply_to(conversations, target, known)
            for place, messages in enumerate(requests):
                entries = entries_of(messages, pinned=pinned and place % 2 == 0)
                one = await reply_to(conversations, usual, entries)
                other = await reply_to(conversations, long, [*entries, *known])
                assert told(one, len(entries)) == told(other, len(entries))
                assert stored_under(server, usual) == stored_under(server, long)
        for target in (usual, long):
            await conversations.erase(target)


async def test_thousands_of_calls_are_stored_at_once(store: EmbeddedStore) -> None:
    """A script can give a command some 8,000 values at once, and one that fails then has written a part."""
    target = target_at("ways", f"calls-{next(_numbers)}")
    messages = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [dict(call, id=f"{place}-{call['id']}") for call in _calls(60)],
        }
        for place in range(100)
    ]
    async with opened(store.url) as conversations:
        await reply_to(conversations, target, said("hello"))
        reply = await reply_to(conversations, target, entries_of(messages, pinned=False))
        assert not isinstance(reply, type)
        assert (await conversations.reader.get(target)).length == 101
        await conversations.erase(target)
