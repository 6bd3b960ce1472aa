"""Reads and writes the index of recall: the words of messages, as numbers, and their vectors, in blocks (blocks.py).

::

    log      1 2 3 4 5 6 7 8 9
    words    1 2 3 4 5 6 7          written after the appends, never longer than the log
    vectors  1 2 3 4                of one model, whose name stands in the conversation's hash

A reader uses the index, and computes the words of up to a thousand newer messages itself. A writer continues at the end of
the index, so the next writer resumes after any failure. Where two writers write the same messages, one of them is refused.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from sash.core.chat.packed import Packed
from sash.core.law.records.records import Records
from sash.core.search.words import Numbering, pack_words, said_in, words_of
from sash.core.stored.record import DIGEST_BYTES, RECORD_BYTES
from sash.processor import PROCESSOR
from sash.store.data import write_scripts
from sash.store.data.blocks import read_blocks, values_of
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import Target, places
from sash.store.data.reading import Reader
from sash.store.data.replies import Made, State, check_history
from sash.store.data.sealing import PLAIN, Purpose
from sash.store.redis.client import Client

_DIGEST = slice(3, 3 + DIGEST_BYTES)
"""The bytes of details that are the digest of their entry (layout.py)."""
_STEP_MESSAGES = 4000
SHORT_BYTES = 16_384
"""Words of at most this many bytes of messages are computed at once, in one millisecond, or in four if the messages are in
many encrypted conversations. Words of more bytes are computed in a thread."""
_ON_THE_SPOT = 1000
"""Messages whose words a reader computes itself, in some ten microseconds each."""


class Indexed(NamedTuple):
    """Messages from ``first_seq`` on: records without details, and the words and vectors of those that are indexed.

    ``lacks`` tells whether the stored index lacks some of them.
    """

    first_seq: int
    records: Records
    words: Packed
    vectors: Packed
    lacks: bool


class Progress(NamedTuple):
    """How many messages are indexed, from the first on: by words, and by vectors that ``model`` made."""

    words: int
    vectors: int
    model: str


class Index:
    """The indexes of all conversations."""

    def __init__(self, client: Client, reader: Reader, data_keys: DataKeys) -> None:
        self._client = client
        self._reader = reader
        self._data_keys = data_keys

    async def progress(self, target: Target) -> Progress:
        """Return how many messages are indexed."""
        words, vectors, model = await self._client.commands(
            [
                ("HGET", target.keys.word_blocks, "n"),
                ("HGET", target.keys.vector_blocks, "n"),
                ("HGET", target.keys.conversation, "embedded"),
            ]
        )
        return Progress(int(words or 0), int(vectors or 0), (model or b"").decode())

    async def numbers(self, target: Target, text: str) -> list[tuple[int, ...]]:
        """Return, for each word, its numbers in this conversation: two where encryption was switched on later."""
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        ways = (sealer, PLAIN) if sealer.active else (PLAIN,)
        return [tuple(way.number(word) for way in ways) for word in dict.fromkeys(words_of(text))]

    async def read(
        self, target: Target, first_seq: int, last_seq: int, *, state: State, model: str = "", ahead: Sequence[Any] = ()
    ) -> Indexed:
        """Return the index of ``first_seq`` to ``last_seq``; the words of up to a thousand newer messages are computed.

        Vectors are read where ``model`` made them. ``ahead`` is what was read with the tail of this state (``TailReply``).
        Raises HistoryEdited.
        """
        packed: list[bytes]
        words: list[Packed]
        vectors: list[Packed]
        if ahead and not model and first_seq == 1:
            packed, words, vectors = [ahead[0][: last_seq * RECORD_BYTES]], [values_of(ahead[1], 1, last_seq)], []
        else:
            packed, words, vectors = await self._in_steps(target, first_seq, last_seq, state, model)
        records, indexed = Records(b"".join(packed)), sum(map(len, words))
        lacks = indexed < len(records) or (bool(model) and sum(map(len, vectors)) < len(records))
        if 0 < len(records) - indexed <= _ON_THE_SPOT:
            newest = await self.words(target, first_seq + indexed, records[indexed:], state=state)
            words.append(Packed.of(newest))
        return Indexed(first_seq, records, Packed.concatenated(words), Packed.concatenated(vectors), lacks)

    async def _in_steps(
        self, target: Target, first_seq: int, last_seq: int, state: State, model: str
    ) -> tuple[list[bytes], list[Packed], list[Packed]]:
        """Return the records, words and vectors of these messages, as far as they are indexed. Raises HistoryEdited."""
        packed: list[bytes] = []
        words: list[Packed] = []
        vectors: list[Packed] = []
        for first in range(first_seq, last_seq + 1, _STEP_MESSAGES):
            last = min(first + _STEP_MESSAGES - 1, last_seq)
            wanted: list[tuple[Any, ...]] = [
                ("GETRANGE", target.keys.counts, *places(first, last)),
                read_blocks(target.keys.word_blocks, first, last),
                ("HMGET", target.keys.conversation, "life", "edited", "embedded"),
            ]
            if model:
                wanted.append(read_blocks(target.keys.vector_blocks, first, last))
            counts, some_words, (*made, embedded), *some_vectors = await self._client.commands(wanted)
            check_history(made, state.made)
            packed.append(counts)
            words.append(values_of(some_words, first, last))
            if some_vectors and embedded == model.encode():
                vectors.append(values_of(some_vectors[0], first, last))
        return packed, words, vectors

    async def texts(self, target: Target, first_seq: int, records: Records, *, state: State) -> list[str]:
        """Return the texts of messages from ``first_seq`` on. Raises HistoryEdited."""
        bodies = await self._reader.bodies(target, [(first_seq, records)], state=state)
        return [said_in(msgspec.json.decode(body)) for body in bodies]

    async def words(self, target: Target, first_seq: int, records: Records, *, state: State) -> list[bytes]:
        """Return the words of messages from ``first_seq`` on, as the index keeps them. Raises HistoryEdited."""
        bodies = await self._reader.bodies(target, [(first_seq, records)], state=state)
        (words,) = await self.words_of_bodies([(target, bodies)])
        return words

    async def digests(self, target: Target, first_seq: int, last_seq: int) -> list[bytes]:
        """Return the stored digests of the entries ``first_seq`` to ``last_seq``.

        Read them before the bodies: then words of a body that was replaced meanwhile are not written.
        """
        (details,) = await self._client.commands([("LRANGE", target.keys.details, first_seq - 1, last_seq - 1)])
        return [each[_DIGEST] for each in details]

    async def stored_digests(self, target: Target, plain: Sequence[bytes]) -> list[bytes]:
        """Return the digests of entries as this conversation stores them; ``plain`` are those without encryption."""
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        return [sealer.digest(Purpose.ENTRY, digest) for digest in plain]

    async def words_of_bodies(self, wanted: Sequence[tuple[Target, Sequence[bytes]]]) -> list[list[bytes]]:
        """Return the words of each conversation's messages, as its index keeps them."""
        sealers = [await self._data_keys.sealer(target.tenant, target.name) for target, _ in wanted]
        parts = [(sealer.number, bodies) for sealer, (_, bodies) in zip(sealers, wanted, strict=True)]
        size = sum(len(body) for _, bodies in parts for body in bodies)
        return _words_of(parts) if size <= SHORT_BYTES else await PROCESSOR.run(_words_of, parts)

    async def write(
        self,
        target: Target,
        part: str,
        length: int,
        elements: Sequence[bytes],
        *,
        made: Made,
        digests: Sequence[bytes],
        model: str = "",
    ) -> tuple[int, int] | None:
        """Write ``elements`` at the end of the index of ``part`` (``words``, ``vectors``), which has ``length`` messages.

        ``made`` is the history that they belong to, and ``digests`` are those of the entries. Returns the lengths of the
        index and of the log; None if the history has changed, or the index has another length.
        """
        call = write_scripts.index(
            target.keys,
            life=made[0].decode(),
            edited=made[1],
            part=part,
            length=length,
            model=model,
            digests=b"".join(digests),
            elements=elements,
        )
        return await self._client.run(call)


def _words_of(parts: Sequence[tuple[Numbering, Sequence[bytes]]]) -> list[list[bytes]]:
    """Return the words of each part's messages. Parts with the same numbering share the work, which is faster."""
    texts: defaultdict[Numbering, list[str]] = defaultdict(list)
    for number, bodies in parts:
        texts[number] += [said_in(msgspec.json.decode(body)) for body in bodies]
    packed = {number: iter(pack_words(each, number)) for number, each in texts.items()}
    return [[next(packed[number]) for _ in bodies] for number, bodies in parts]
