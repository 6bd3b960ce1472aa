"""The size of each reply from the store is limited in bytes, and the reader asks for the rest."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from conftest import opened
from rigs.entries import said

from sash.core.law.records.records import Records
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry
from sash.store.data.layout import target_at
from sash.store.data.replies import Tail
from sash.store.data.stored_messages import in_steps
from sash.store.data.tails import Reach
from sash.store.redis.embedded import EmbeddedStore

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}
MEGABYTE = 1024 * 1024


@pytest_asyncio.fixture
async def conversations(store: EmbeddedStore, nothing_left: None) -> AsyncIterator[Conversations]:  # noqa: ARG001
    """Yield the store's conversations, on the test's own client."""
    async with opened(store.url) as each:
        yield each


@pytest.mark.parametrize(("newest_first", "read"), [(False, [1]), (True, [3])])
async def test_a_message_of_any_size_is_a_page(
    conversations: Conversations, conversation: str, *, newest_first: bool, read: list[int]
) -> None:
    """A page in either order has at least one message, however low the limit in bytes."""
    await conversations.append(target_at("default", conversation), said("a", "b", "c"), **APPEND)
    page = await conversations.reader.page(
        target_at("default", conversation), 1, 3, newest_first=newest_first, limit_bytes=1
    )
    assert [message.seq for message in page.messages] == read


async def test_a_tail_brings_the_newest_bodies(conversations: Conversations, conversation: str) -> None:
    """A tail has the records of all messages and, up to a limit in bytes, the newest bodies; the others are read by seq."""
    entries = [said("x" * 40_000, identity=f"m{n}-")[0] for n in range(10)]
    for entry in entries:
        await conversations.append(target_at("default", conversation), [entry], **APPEND)
    tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(100_000_000))
    assert isinstance(tail, Tail)
    assert (len(tail.records), tail.bodies_seq, len(tail.bodies)) == (10, 8, 3)

    wanted = [(1, tail.records[:2]), (4, tail.records[3:10])]
    bodies = await conversations.reader.bodies(target_at("default", conversation), wanted, state=tail.state)
    assert bodies == [entries[index].body for index in (0, 1, 3, 4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize("column", [0, 1])
async def test_bodies_that_no_window_holds_are_not_read(
    conversations: Conversations, conversation: str, column: int
) -> None:
    """A tail has all records, but bodies only as far back as their text fits the budget."""
    await conversations.append(target_at("default", conversation), said(*["несколько слов"] * 60), **APPEND)
    tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(90, column=column))
    assert isinstance(tail, Tail)
    assert len(tail.records) == 60
    texts = tail.records.tokens(column)
    assert sum(texts[-len(tail.bodies) :]) <= 90 < sum(texts[-len(tail.bodies) - 1 :])


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize(
    "entries",
    [
        [*said("one"), *said("two", pinned=True), *said(*["more"] * 50)],
        [*said("one", "two"), *said(*["more"] * 50, role="assistant")],
    ],
    ids=["pinned", "question"],
)
async def test_what_every_window_holds_comes_with_the_tail(
    conversations: Conversations, conversation: str, entries: list[NewEntry], column: int
) -> None:
    """A tail's bodies begin at its pinned message or newest question, however far back, so that one read is enough."""
    await conversations.append(target_at("default", conversation), entries, **APPEND)
    tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(10, column=column))
    assert isinstance(tail, Tail)
    assert (tail.first_seq, tail.bodies_seq) == (1, 2)
    assert tail.bodies == [entry.body for entry in entries[1:]]


async def test_a_newest_message_of_any_size_comes(conversations: Conversations, conversation: str) -> None:
    """The newest message's body is read, however large it is."""
    (entry,) = said("x" * 5 * MEGABYTE)
    await conversations.append(target_at("default", conversation), [entry], **APPEND)
    tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(1000))
    assert isinstance(tail, Tail)
    assert tail.bodies == [entry.body]


async def test_pinned_messages_come_without_bodies_when_they_are_large(
    conversations: Conversations, conversation: str
) -> None:
    """Of large pinned messages outside the tail, all records and ids are read, but at most 5 MB of bodies."""
    for n in range(7):
        await conversations.append(
            target_at("default", conversation), said("x" * MEGABYTE, pinned=True, identity=f"p{n}-"), **APPEND
        )
    await conversations.append(target_at("default", conversation), said(*["word " * 20] * 100), **APPEND)
    tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(10))
    assert isinstance(tail, Tail)
    assert [message.seq for message in tail.outside] == [1, 2, 3, 4, 5, 6, 7]
    assert all(message.record.size > MEGABYTE for message in tail.outside)
    assert sorted(message.identity.id for message in tail.outside) == [f"p{n}-0" for n in range(7)]
    assert sum(len(message.body) for message in tail.outside) <= 5 * MEGABYTE


def test_steps() -> None:
    """Bodies are read in steps of limited bytes: no body is left out or read twice, and a step has at least one."""
    (entry,) = said("x" * 66)  # 100 bytes
    five = Records.of([entry.record] * 5)
    steps = [[(first, len(records)) for first, records in step] for step in in_steps([(1, five), (9, five[:2])], 250)]
    assert steps == [[(1, 2)], [(3, 2)], [(5, 1), (9, 1)], [(10, 1)]]
    assert [len(step) for step in in_steps([(1, five)], 1)] == [1] * 5
    assert list(in_steps([])) == []


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_of_any_size_holds_each_message_with_its_body(
    conversations: Conversations, conversation: str, *, newest_first: bool
) -> None:
    """A page's bodies are those of its messages, whether they come with the page or in a second read."""
    entries = said(*(f"{n} " + "x" * size for n, size in enumerate((10, 70_000, 20, 200_000, 30, 70_000, 40))))
    await conversations.append(target_at("default", conversation), entries, **APPEND)
    stored = {n: (entry.identity.id, entry.body) for n, entry in enumerate(entries, 1)}
    for first in range(1, 8):
        for last in range(first, 8):
            page = await conversations.reader.page(
                target_at("default", conversation), first, last, newest_first=newest_first
            )
            assert {m.seq: (m.identity.id, m.body) for m in page.messages} == {
                seq: stored[seq] for seq in range(first, last + 1)
            }


async def test_a_large_page_is_of_one_history(
    conversations: Conversations, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the history is replaced between the reads of a page's records and bodies, the page shows only the new history."""
    await conversations.append(target_at("default", conversation), said("old " * 50_000, "old"), **APPEND)
    new = said("new " * 60_000, "new")
    asked, commands = 0, conversations._client.commands

    async def replaced(words: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            await conversations.erase(target_at("default", conversation), if_match="")
            await conversations.append(
                target_at("default", conversation), new, **{**APPEND, "now_ms": APPEND["now_ms"] + 1}
            )
        return await commands(words)

    monkeypatch.setattr(conversations._client, "commands", replaced)
    page = await conversations.reader.page(target_at("default", conversation), 1, 2)
    assert [message.body for message in page.messages] == [entry.body for entry in new]
    assert asked == 2
