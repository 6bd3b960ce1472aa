"""Measure again the messages that an older version measured, and store the result: for ``sash doctor --repair``.

A window measures such a message each time it reads it (``windows/tail.py``); after a repair it need not. The service may
run meanwhile: each step is one script, which skips a message that has changed since it was read. A repair can be stopped
and started again at any time.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

import msgspec

from sash.core.counts.counting import reference_tokens
from sash.core.law.records import GENERATION, RECORD_BYTES, Records
from sash.core.law.redaction import measure_again
from sash.problems import CannotOpen, ConversationDamaged, NotFound, Problem
from sash.store.data import scripts
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import encode_grounding, keys_of, pack, places
from sash.store.data.reading import Reader
from sash.store.data.replies import Message, Page
from sash.store.data.scripts import Remeasured
from sash.store.data.sealing import AnySealer
from sash.store.data.stored_messages import SMALL_STEP_BYTES, Stored, seal_message
from sash.store.redis.client import Client
from sash.tasks import end_tasks

_LOOK_RECORDS = 4000
"""Records that one command reads: 96 KB."""
_LOOK_CONVERSATIONS = 50
_AT_ONCE = 8
"""Conversations that are repaired together: while one pauses, others go on."""
_SAMPLE_RECORDS = 100
"""Records that are read from a conversation's beginning, where its oldest messages are."""
_STEP_MESSAGES = 100
"""Messages that one script writes at most, in 2 to 4 ms where the list is short."""
_LEAST_MESSAGES = 5
_STEP_NODES = 500_000
"""Nodes of a list that one script passes: each message is sought from the list's nearer end, at some 8 ns a node."""
_NODE_BYTES = 8192
_BURST_STEPS = 4
_PAUSE_SECONDS = 0.25
"""Pause after every ``_BURST_STEPS`` writes, so that a reader of several steps can end meanwhile. Such a reader starts over
after each write, eight times at most (``windows/stored.py``)."""


class Repaired(msgspec.Struct, frozen=True):
    """The repair of one conversation: the number of messages measured, the tokens that this added to its totals as
    (o200k_base, cl100k_base), and the problem that ended it early, or None."""

    name: str
    messages: int = 0
    tokens: tuple[int, int] = (0, 0)
    problem: Problem | None = None


class Repair:
    """Repairs the conversations of all tenants of a deployment. Its methods raise StoreUnavailable, StoreFull."""

    def __init__(self, client: Client, data_keys: DataKeys) -> None:
        self._client = client
        self._data_keys = data_keys
        self._reader = Reader(client, data_keys)
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def count(self) -> int:
        """Return the approximate number of conversations. Scans all keys of the store."""
        return sum([1 async for _ in self._client.scan(keys_of("*").counts)])

    async def sample(self, limit: int) -> tuple[int, int]:
        """Return how many conversations were read, and how many of them begin with messages to be measured again."""
        names: list[str] = await anext(self._named(limit, keys_of("*").counts), [])
        return len(names), sum([records.is_stale for records in await self._beginnings(names, _SAMPLE_RECORDS)])

    async def all(self) -> AsyncIterator[Repaired]:
        """Repair every conversation. A scan may name one twice; the second repair finds nothing to do."""
        async for names in self._named(_LOOK_CONVERSATIONS, keys_of("*").counts):
            older = []
            beginnings = await self._beginnings(names, _LOOK_RECORDS)
            damage = await asyncio.gather(*map(self._damage, names))
            for name, records, problem in zip(names, beginnings, damage, strict=True):
                if problem is None and (records.is_stale or len(records) == _LOOK_RECORDS):
                    older.append(name)
                else:
                    yield Repaired(name, problem=problem)
            repairing = [asyncio.create_task(self._when_there_is_room(name)) for name in older]
            try:
                for done in asyncio.as_completed(repairing):
                    yield await done
            finally:
                await end_tasks(*repairing)
        async for names in self._named(_LOOK_CONVERSATIONS, keys_of("*").conversation):
            sizes = await self._client.commands([("STRLEN", keys_of(name).counts) for name in names])
            for name in [name for name, size in zip(names, sizes, strict=True) if not size]:
                if problem := await self._damage(name):  # it has messages, and lost their counts
                    yield Repaired(name, problem=problem)

    async def _damage(self, name: str) -> ConversationDamaged | None:
        """Return the problem of a conversation that lost its hash, or whose lists differ in length; None for a whole one."""
        try:
            await self._client.run(scripts.read_state(keys_of(name), ("id",)))
        except NotFound:  # erased meanwhile
            return None
        except ConversationDamaged as why:
            return why
        return None

    async def _when_there_is_room(self, name: str) -> Repaired:
        async with self._room:
            return await self.conversation(name)

    async def conversation(self, name: str) -> Repaired:
        """Repair the conversation called ``tenant/conversation``."""
        messages, o200k, cl100k = 0, 0, 0
        problem: Problem | None = None
        try:
            async for page in self._pages(name):
                done = await self._measure(name, page)
                messages, o200k, cl100k = messages + done.messages, o200k + done.tokens[0], cl100k + done.tokens[1]
        except NotFound:  # erased meanwhile
            pass
        except (CannotOpen, ConversationDamaged) as why:
            problem = why
        return Repaired(name, messages, (o200k, cl100k), problem)

    async def _named(self, limit: int, pattern: str) -> AsyncIterator[list[str]]:
        """Yield the names of conversations that have a key of ``pattern``, in lists of up to ``limit``."""
        names: list[str] = []
        async for name in self._client.scan(pattern):
            names.append(name)
            if len(names) == limit:
                yield names
                names = []
        if names:
            yield names

    async def _beginnings(self, names: list[str], limit: int) -> list[Records]:
        """Return the first ``limit`` records of each conversation, without details."""
        wanted = [("GETRANGE", keys_of(name).counts, *places(1, limit)) for name in names]
        return [Records(packed) for packed in await self._client.commands(wanted)]

    async def _pages(self, name: str) -> AsyncIterator[Page]:
        """Yield pages that hold all messages to be measured again. The newest come first, because windows use them.

        Raises NotFound, ConversationDamaged, CannotOpen.
        """
        tenant, _, conversation = name.partition("/")
        keys, read = keys_of(name), 0
        (size,) = await self._client.commands([("STRLEN", keys.counts)])
        length = size // RECORD_BYTES
        for end in range(length, 0, -_LOOK_RECORDS):
            begin = max(1, end - _LOOK_RECORDS + 1)
            (packed,) = await self._client.commands([("GETRANGE", keys.counts, *places(begin, end))])
            records = Records(packed)
            limit = _step_messages(records, min(end, length - begin))
            stretches = [*_stretches((begin + index for index in records.stale()), limit)]
            for first, newest in reversed(stretches):
                last = newest
                while first <= last:
                    if read and read % _BURST_STEPS == 0:
                        await asyncio.sleep(_PAUSE_SECONDS)
                    read += 1
                    page = await self._reader.page(
                        tenant, conversation, first, last, newest_first=True, limit_bytes=SMALL_STEP_BYTES
                    )
                    if not page.messages:  # rewound meanwhile
                        return
                    yield page
                    last = page.messages[0].seq - 1

    async def _measure(self, name: str, page: Page) -> Remeasured:
        """Measure the older messages of a page again, and store their new measures."""
        sealer = await self._data_keys.sealer(name.partition("/")[0], name)
        older = [message for message in page.messages if message.record.generation < GENERATION]
        if not older:
            return Remeasured(0, (0, 0))
        messages = await asyncio.to_thread(lambda: [_measured(sealer, message, page) for message in older])
        return await self._client.run(scripts.remeasure(keys_of(name), life=page.life, messages=messages))


def _step_messages(records: Records, distance: int) -> int:
    """Return how many messages one script may write, ``distance`` messages away from the nearer end of the list."""
    bytes_away = distance * sum(records.sizes()) // max(len(records), 1)
    return min(_STEP_MESSAGES, max(_LEAST_MESSAGES, _STEP_NODES * _NODE_BYTES // max(bytes_away, 1)))


def _stretches(seqs: Iterable[int], limit: int) -> Iterator[tuple[int, int]]:
    """Yield stretches of at most ``limit`` messages that hold all of the ascending ``seqs``, as (first, last)."""
    first = last = 0
    for seq in seqs:
        if first and seq - first >= limit:
            yield first, last
            first = 0
        first, last = first or seq, seq
    if first:
        yield first, last


def _measured(sealer: AnySealer, message: Message, page: Page) -> tuple[int | bytes, ...]:
    """Return a message as the script ``remeasure`` takes it.

    Encrypted values are written again, because each is bound to the record.
    """
    seq, before, identity = message.seq, message.record, message.identity
    record = measure_again(before, message.body)
    if sealer.active:
        documents = encode_grounding(page.grounding[seq]) if seq in page.grounding else b""
        stored = seal_message(sealer, record, identity, message.body, documents, page.metadata.get(seq, b""))
    else:
        stored = Stored(*pack(record, identity), body=b"", grounding=b"", metadata=b"")
    old, new = (reference_tokens(each.measure, parallel=each.parallel) for each in (before, record))
    return seq, message.standing, *stored, new[0] - old[0], new[1] - old[1]
