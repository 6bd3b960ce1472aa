"""Histories that are read and built in pieces, with edits during a read and collisions or expiry during a build."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sash.core.chat.messages import Entry
from sash.core.law.documents.grounding import parse_template
from sash.problems import Conflict, ConversationExists, NotFound, StoreUnavailable
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry, prepare
from sash.store.data.histories import Histories
from sash.store.data.layout import target_at
from sash.store.data.redactions import Redactions
from sash.store.data.replies import Page
from sash.store.data.staging import OrphanEntry, StagedTwice, Staging
from sash.store.data.summaries import Summaries, make_summary
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

TEMPLATE = parse_template()


class Shelf:
    """Everything that reads and builds copies of conversations, on one client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.conversations = Conversations(client)
        self.histories = Histories(client, self.conversations)
        self.redactions = Redactions(client, self.conversations)
        self.summaries = Summaries(client, self.conversations)

    async def read(self, conversation: str, last_seq: int) -> AsyncIterator[Page]:
        state = await self.conversations.reader.get(target_at("t", conversation))
        async for page in self.conversations.reader.chunks(target_at("t", conversation), last_seq, state):
            yield page

    async def life(self, conversation: str) -> str:
        return (await self.conversations.reader.get(target_at("t", conversation))).life

    async def fill(self, conversation: str, count: int, size: int = 10, *, now_ms: int = 1) -> None:
        for start in range(0, count, 100):
            entries = [
                Entry(message={"role": "user", "content": f"{start + n} " + "x" * size})
                for n in range(min(100, count - start))
            ]
            prepared = prepare(entries, TEMPLATE, 1)
            await self.conversations.append(
                target_at("t", conversation), prepared, settings=b"{}", if_match="", now_ms=now_ms
            )

    def staging(self, conversation: str, token: str = "token") -> Staging:
        return Staging(self.client, target_at("t", conversation), token=token, conversations=self.conversations)


@pytest_asyncio.fixture
async def shelf(store: EmbeddedStore, nothing_left: None) -> AsyncIterator[Shelf]:  # noqa: ARG001 - it checks afterwards
    """Yield a shelf on the tests' store."""
    client = Client(store.url)
    await client.open()
    yield Shelf(client)
    await client.close()


def built(*contents: str, ids: tuple[str, ...] = ()) -> list[NewEntry]:
    entries = [Entry(message={"role": "user", "content": content}) for content in contents]
    for entry, identity in zip(entries, ids, strict=False):
        entry.id = identity
    return prepare(entries, TEMPLATE, 1)


async def published(staging: Staging, ttl_ms: int | None = None) -> None:
    await staging.publish(settings=b"{}", version=1, created_ms=1, updated_ms=1, ttl_ms=ttl_ms, summary=None)


async def test_every_message_once_in_order(shelf: Shelf, conversation: str) -> None:
    """A read returns every message of a history once and in order, in pages of at most 1.3 MB of bodies."""
    await shelf.fill(conversation, 1010)
    await shelf.fill(conversation, 20, size=300_000)

    pages = [page async for page in shelf.read(conversation, 1030)]

    assert [message.seq for page in pages for message in page.messages] == list(range(1, 1031))
    assert max(sum(len(message.body) for message in page.messages) for page in pages) < 1_300_000


async def test_appends_do_not_matter(shelf: Shelf, conversation: str) -> None:
    """Messages that are appended during the read of a history are not part of it and do not disturb it."""
    await shelf.fill(conversation, 1200)
    seqs: list[int] = []
    async for page in shelf.read(conversation, 1200):
        seqs += [message.seq for message in page.messages]
        await shelf.fill(conversation, 1)
    assert seqs == list(range(1, 1201))


@pytest.mark.parametrize("edit", ["rewind", "rewind and append", "redact", "erase", "another"])
async def test_an_edit_ends_it(shelf: Shelf, conversation: str, edit: str) -> None:
    """An edit, erasure or replacement of the conversation during a read ends it in an error: two histories never mix."""
    await shelf.fill(conversation, 1200)

    async def read() -> None:
        async for page in shelf.read(conversation, 1200):
            if page.messages[0].seq == 1:
                await do(edit)

    async def do(edit: str) -> None:
        if edit.startswith("rewind"):
            await shelf.histories.rewind(
                target_at("t", conversation), 900, life=await shelf.life(conversation), if_match="", now_ms=1, token="r"
            )
        if edit == "rewind and append":
            await shelf.fill(conversation, 300)
        if edit == "redact":
            await shelf.redactions.redact(
                target_at("t", conversation),
                1000,
                life=await shelf.life(conversation),
                if_match="",
                now_ms=1,
                token="r",
            )
        if edit in ("erase", "another"):
            await shelf.conversations.erase(target_at("t", conversation), if_match="")
        if edit == "another":
            await shelf.fill(conversation, 1200, now_ms=2)

    with pytest.raises(NotFound if edit == "erase" else Conflict):
        await read()


async def test_nobody_sees_what_is_staged(shelf: Shelf, conversation: str) -> None:
    """A staged conversation cannot be read before it is published."""
    building = shelf.staging(conversation)
    await building.add(built("a", "b"))
    with pytest.raises(NotFound):
        await shelf.conversations.reader.get(target_at("t", conversation))
    await building.abandon()


async def test_the_first_to_end_wins(shelf: Shelf, conversation: str) -> None:
    """Of two builds of one name, the second to publish gets ConversationExists; the first may publish again."""
    one, other = shelf.staging(conversation, "one"), shelf.staging(conversation, "other")
    await one.add(built("a"))
    await other.add(built("b", "c"))
    await published(one)
    with pytest.raises(ConversationExists):
        await published(other)
    await published(one)
    assert (await shelf.conversations.reader.get(target_at("t", conversation))).length == 1
    await other.abandon()


async def test_what_expired_is_not_published(shelf: Shelf, conversation: str) -> None:
    """Adding to a build or publishing it raises StoreUnavailable when its staged keys are gone."""
    building = shelf.staging(conversation)
    await building.add(built("a"))
    await building.abandon()
    with pytest.raises(StoreUnavailable):
        await published(building)
    with pytest.raises(StoreUnavailable):
        await building.add(built("b"))


async def test_two_of_one_id(shelf: Shelf, conversation: str) -> None:
    """An id that comes twice, in one call or in two, raises StagedTwice with the second entry's place in its call."""
    building = shelf.staging(conversation)
    with pytest.raises(StagedTwice) as twice:
        await building.add(built("a", "b", "c", ids=("x", "y", "x")))
    assert twice.value.index == 2
    later = shelf.staging(conversation)
    await later.add(built("a", ids=("x",)))
    with pytest.raises(StagedTwice) as twice:
        await later.add(built("b", "c", ids=("y", "x")))
    assert twice.value.index == 1
    await later.abandon()


async def test_an_orphan(shelf: Shelf, conversation: str) -> None:
    """A tool result without an open call raises OrphanEntry with its place."""
    entry = Entry(message={"role": "tool", "tool_call_id": "call-1", "content": "x"})
    (prepared,) = prepare([entry], TEMPLATE, 1)
    with pytest.raises(OrphanEntry) as orphan:
        await shelf.staging(conversation).add([*built("a"), prepared])
    assert orphan.value.index == 1


@pytest.mark.parametrize("change", ["rewind", "redact", "summary"])
async def test_a_change_asked_for_twice_is_made_once(shelf: Shelf, conversation: str, change: str) -> None:
    """A change repeated with the same token, as after a lost reply, takes effect once, even with an append in between."""
    await shelf.fill(conversation, 5)

    life = await shelf.life(conversation)

    async def ask() -> int:
        how = {"life": life, "if_match": "", "now_ms": 1, "token": "x"}
        if change == "rewind":
            return (await shelf.histories.rewind(target_at("t", conversation), 3, **how)).version
        if change == "redact":
            return (await shelf.redactions.redact(target_at("t", conversation), 2, **how)).version
        summary = make_summary("so far", 2)
        return (await shelf.summaries.put(target_at("t", conversation), summary, **how)).version

    first = await ask()
    await shelf.fill(conversation, 1)
    assert (first, await ask()) == (2, 3)
    assert (await shelf.conversations.reader.get(target_at("t", conversation))).length == (
        4 if change == "rewind" else 6
    )
