"""Counts of messages in vendors' vocabularies, made when a window first needs them.

A window waits until all of its messages are counted, so its first total is as good as later ones. The store keeps counts
(``store/data/columns.py``), so each message is counted once.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import groupby

import msgspec

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.stored.record import Flags, Record
from sash.core.stored.runs import runs
from sash.problems import Problem
from sash.processor import PROCESSOR
from sash.store.data.columns import BLOCK, Column, Columns
from sash.store.data.layout import Target
from sash.store.data.media_contents import MediaContents
from sash.store.data.reading import Reader
from sash.store.data.replies import State
from sash.store.data.stored_messages import SMALL_STEP_BYTES, in_steps
from sash.windows.lost_media import filled_with
from sash.windows.tail import GrowingTail

_AT_ONCE_BYTES = 8 * 1024
"""Text that is counted during a request. At 0.7 µs a byte, the slowest vocabulary blocks the event loop for 6 ms."""
_A_MESSAGE_BYTES = 32
"""The cost of counting a message, in addition to its bytes, in bytes of text."""
_LIMIT = 2**32 - 1
_decode = msgspec.json.Decoder().decode


class Counts:
    """Counts messages for windows. It holds a conversation's data only while it counts."""

    def __init__(self, reader: Reader, columns: Columns, media: MediaContents) -> None:
        self._reader = reader
        self._media = media
        self._columns = columns

    async def count(self, read: GrowingTail, vocabulary: Vocabulary) -> None:
        """Count what was read, where it is not counted yet. Raises HistoryEdited, StoreUnavailable."""
        if len(read.own_tokens) < len(read.tail.records):
            read.own_tokens = await self.of(read, vocabulary)
        if uncounted := read.uncounted():
            read.count(await self.each(read, vocabulary, uncounted))

    async def of(self, read: GrowingTail, vocabulary: Vocabulary) -> "array[int]":
        """Tokens + 1 of each message of the tail. Raises HistoryEdited, StoreUnavailable."""
        first, last = read.tail.first_seq, read.tail.state.length
        if last < first:
            return array("I")
        column = await self._counted(read, vocabulary, range(first, last + 1), read.tail.records)
        return column.since(first)

    async def each(self, read: GrowingTail, vocabulary: Vocabulary, records: Mapping[int, Record]) -> dict[int, Record]:
        """The records of single messages with their tokens, ``own_tokens``. Raises HistoryEdited, StoreUnavailable."""
        found = dict(records)
        for _, seqs in groupby(sorted(records), key=lambda seq: (seq - 1) // BLOCK):
            block = list(seqs)
            column = await self._counted(read, vocabulary, block, Records.of([records[seq] for seq in block]))
            for seq in block:
                found[seq] = msgspec.structs.replace(records[seq], own_tokens=column.counts[seq - column.first_seq] - 1)
        return found

    async def _counted(
        self, read: GrowingTail, vocabulary: Vocabulary, seqs: Sequence[int], records: Records
    ) -> Column:
        """The column of the messages ``seqs``, which are ascending, with all of these counted."""
        target, state = read.target, read.tail.state
        last = min(-(-seqs[-1] // BLOCK) * BLOCK, state.length)  # whole blocks, because they are written again whole
        column = await self._columns.read(target, vocabulary.name, seqs[0], last, made=state.made)
        missing = [seq for seq in seqs if not column.counts[seq - column.first_seq]]
        if missing:
            files = {seq for seq, found in read.media(missing).items() if any(each.is_text for each in found)}
            at_once = _count_at_once(column, missing, seqs, records.sizes().tolist(), read.bodies, vocabulary, files)
            await self._keep(target, column, missing[at_once:], state)
            stretches = runs(missing, 0, at_once)
            left = [(at, records[bisect_left(seqs, at) : bisect_left(seqs, end) + 1]) for at, end in stretches]
            await self._count_in_steps(target, column, left, state, vocabulary)
        return column

    async def _count_in_steps(
        self,
        target: Target,
        column: Column,
        left: Sequence[tuple[int, Records]],
        state: State,
        vocabulary: Vocabulary,
    ) -> None:
        """Count the messages of ``left`` in a thread, block by block. Raises HistoryEdited."""
        for first, records in _blocks(left):
            short: set[int] = set()
            for step in in_steps([(first, records)], SMALL_STEP_BYTES):
                bodies, lacking = await self._bodies(target, step[0][0], step[0][1], state)
                await PROCESSOR.run(_count, column, step[0][0], bodies, vocabulary)
                short |= lacking
            whole = {seq - column.first_seq: column.counts[seq - column.first_seq] for seq in short}
            for place in whole:  # a file that is lost may come back
                column.counts[place] = 0
            await self._keep(target, column, range(first, first + len(records)), state)
            for place, count in whole.items():
                column.counts[place] = count

    async def _keep(self, target: Target, column: Column, counted: Sequence[int], state: State) -> None:
        """Store counts. A store that cannot take them fails no window."""
        if counted:
            with suppress(Problem):
                await self._columns.write(target, column, counted[0], counted[-1], made=state.made)

    async def _bodies(
        self, target: Target, first: int, records: Records, state: State
    ) -> tuple[list[bytes], AbstractSet[int]]:
        """The bodies of messages from ``first`` on, with their text files, which are counted, too; and the seqs of those
        whose file is lost. Raises HistoryEdited."""
        bodies = await self._reader.bodies(target, [(first, records)], state=state)
        media = {place: records.details[place].media for place in records.where(Flags.MEDIA)}
        texts = {place: found for place, found in media.items() if any(each.is_text for each in found)}
        if not texts:
            return bodies, frozenset()
        contents = await self._media.read(target, (each for found in texts.values() for each in found), made=state.made)
        whole = {place: b"".join(filled_with(bodies[place], found, contents).pieces) for place, found in texts.items()}
        lacking = {first + place for place, found in texts.items() if any(each.name not in contents for each in found)}
        return [whole.get(place, body) for place, body in enumerate(bodies)], lacking


def _count_at_once(
    column: Column,
    missing: Sequence[int],
    seqs: Sequence[int],
    sizes: Sequence[int],
    bodies: Bodies,
    vocabulary: Vocabulary,
    files: AbstractSet[int],
) -> int:
    """Count the newest ``missing`` messages if they were read and are short, up to one with a text file beside it
    (``files``). Returns where these begin in ``missing``."""
    place, room = len(missing), _AT_ONCE_BYTES
    while place and bodies.have(missing[place - 1 : place]):
        seq = missing[place - 1]
        room -= sizes[bisect_left(seqs, seq)] + _A_MESSAGE_BYTES
        if room < 0 or seq in files:
            break
        place -= 1
        _count(column, seq, [bodies.body(seq)], vocabulary)
    return place


def _count(column: Column, first_seq: int, bodies: Sequence[bytes], vocabulary: Vocabulary) -> None:
    """Write the tokens of messages from ``first_seq`` on into the column."""
    for place, body in enumerate(bodies, first_seq - column.first_seq):
        column.counts[place] = min(spoken_tokens(_decode(body), vocabulary) + 1, _LIMIT)


def _blocks(stretches: Sequence[tuple[int, Records]]) -> Iterator[tuple[int, Records]]:
    """The stretches of messages, split at the ends of blocks."""
    for first, records in stretches:
        start = first
        while start < first + len(records):
            end = min(first + len(records), (start - 1) // BLOCK * BLOCK + BLOCK + 1)
            yield start, records[start - first : end - first]
            start = end
