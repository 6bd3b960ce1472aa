"""What the store will answer is foretold where it can be, and what was made of a forecast is of no other turn's answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from conftest import http, lifespan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.app import create_app
from service.core.grounding import DEFAULT_SEPARATOR, DEFAULT_TEMPLATE, parse_template
from service.core.messages import Entry
from service.settings import Settings
from service.store.client import Client
from service.store.conversations import SCRIPTS, Conversations
from service.store.embedded import EmbeddedStore
from service.store.entries import new_id, prepare
from service.store.messages import NewEntry
from service.store.replies import Tail

TEMPLATE = parse_template(DEFAULT_TEMPLATE, DEFAULT_SEPARATOR)
NOW_MS = 1_700_000_000_000
TEXTS = st.sampled_from(["", "one", "two words", "здравствуй, мир " * 5, "word " * 40])
LENGTHS = st.sampled_from([1, 400])
TURNS = st.lists(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), TEXTS), min_size=1, max_size=3), max_size=12
)


def turn(*messages: tuple[str, str]) -> list[NewEntry]:
    return prepare([Entry(message={"role": role, "content": text}) for role, text in messages], TEMPLATE, NOW_MS)


@pytest_asyncio.fixture
async def conversations(own: EmbeddedStore) -> AsyncIterator[Conversations]:
    """A worker's, which holds what it read."""
    client = Client(own.url, scripts=SCRIPTS)
    await client.open()
    yield Conversations(client, recent_bytes=2**20)
    await client.close()


async def told(conversations: Conversations, name: str, entries: list[NewEntry], **asked: int) -> tuple[bool, Tail]:
    """Whether the tail that came is the one that was foretold, and that tail."""
    foretold: list[Tail] = []

    async def ahead(tail: Tail) -> None:
        foretold.append(tail)

    appending = {"settings": b"{}", "if_match": "", "now_ms": NOW_MS + len(name), "ahead": ahead}
    _, tail = await conversations.append_and_read("default", name, entries, **asked, **appending)  # type: ignore[arg-type]
    return any(each is tail for each in foretold), tail


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length=LENGTHS,
    turns=TURNS,
    budget=st.integers(0, 3000),
    column=st.integers(0, 1),
    most=st.integers(0, 6),
)
async def test_plain_turns_are_foretold(
    conversations: Conversations,
    length: int,
    turns: list[list[tuple[str, str]]],
    budget: int,
    column: int,
    most: int,
) -> None:
    """Every one of a chat that is held, but where its question lies before the tail, or no window can hold the turn."""
    asked, name = {"budget": budget, "column": column, "most": most}, new_id()
    await told(conversations, name, turn(*[("user", "hello")] * length), **asked)
    for messages in turns:
        entries = turn(*messages)
        foretold, tail = await told(conversations, name, entries, **asked)
        too_long = sum(entry.tokens[column] for entry in entries) > budget > 0
        assert foretold or 0 < tail.state.question < tail.first_seq or len(messages) > most > 0 or too_long


@pytest.mark.parametrize(
    "entry",
    [
        Entry(message={"role": "user", "name": "ann", "content": "hello"}),
        Entry(
            message={
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            }
        ),
    ],
    ids=["named", "calls"],
)
async def test_what_is_not_plain_is_not_foretold(conversations: Conversations, entry: Entry) -> None:
    """What the store decides about is waited for."""
    asked, name = {"budget": 1000, "column": 0, "most": 0}, new_id()
    await told(conversations, name, turn(("user", "hello")), **asked)
    foretold, tail = await told(conversations, name, prepare([entry], TEMPLATE, NOW_MS), **asked)
    assert (foretold, tail.state.length) == (False, 2)


async def test_a_turn_that_was_there_already_is_not_foretold(conversations: Conversations) -> None:
    """The forecast has it twice, the store once."""
    asked, name, entries = {"budget": 1000, "column": 0, "most": 0}, new_id(), turn(("user", "hello"))
    for _ in range(2):
        foretold, tail = await told(conversations, name, entries, **asked)
        assert (foretold, tail.state.length) == (False, 1)


async def test_writers_at_once_are_told_what_is_stored(own: EmbeddedStore) -> None:
    """Two workers that hold a conversation append to it at once: each answer's window ends with messages as they stand."""
    same: dict[str, Any] = {"redis_url": own.url, "durability": "fast"}
    path = f"/conversations/{new_id()}/messages"
    async with (
        lifespan(create_app(Settings(**same))) as one,
        lifespan(create_app(Settings(**same))) as two,
        http(one) as first,
        http(two) as second,
    ):

        async def write(who: int) -> list[dict[str, Any]]:
            windows = []
            for n in range(60):
                entry = {"message": {"role": "user", "content": f"{who} {n}"}}
                answer = await (first, second)[who % 2].post(f"{path}?model=gpt-4o", json={"messages": [entry]})
                said = answer.json()
                assert said["window"]["kept"]["last_seq"] >= said["last_seq"]
                windows.append(said["window"])
            return windows

        windows = [window for each in await asyncio.gather(*map(write, range(4))) for window in each]
        stored = [m["message"]["content"] for m in (await first.get(f"{path}?limit=1000")).json()["messages"]]
    assert len(stored) == 240
    for window in windows:
        assert [m["content"] for m in window["request"]["messages"]] == stored[: window["version"]]
