"""Stored messages: their records, and the text of users, which is opened where it is sealed."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sash.core.law.records.records import Records
from sash.core.stored.identities import Identity
from sash.core.stored.record import DIGEST_BYTES, RECORD_BYTES, Flags, Record, encode_record
from sash.core.stored.stored_grounding import StoredGrounding, decode_grounding
from sash.store.data.sealing import OVERHEAD, AnySealer, Kind, is_sealed

_DIGESTS_BYTES = 2 * DIGEST_BYTES  # the digests of the entry and of its content, before a sealed body
_MORE, _LEFT_OUT = 3, Flags.LEFT_OUT >> 8  # the byte of a record that has this flag
SEALED_BYTES = OVERHEAD + _DIGESTS_BYTES
"""Bytes by which a sealed body is longer than the plain one."""
STEP_BYTES = 4 * 1024 * 1024
"""Bytes of text in one reply of the store, unless a single message has more."""
_STRETCHES = 250
SMALL_STEP_BYTES = 1024 * 1024
"""Like ``STEP_BYTES``, for many replies in a row: each blocks the event loop for some milliseconds."""


def bound_to(record: Record) -> bytes:
    """Return the associated data of a message's values: its record without the flags that change."""
    return associated_data(encode_record(record))


def associated_data(packed: bytes) -> bytes:
    """Return the associated data of the values of a message with this record: without byte 0 and LEFT_OUT, which change."""
    more = packed[_MORE]
    return packed[1:] if not more & _LEFT_OUT else packed[1:_MORE] + bytes([more - _LEFT_OUT]) + packed[_MORE + 1 :]


def open_bodies(sealer: AnySealer, records: Records, bodies: Sequence[bytes]) -> list[bytes]:
    """Return the bodies of ``records``, each sealed or plain, as plain text. Raises CannotOpen, UnknownKey."""
    return sealer.open_each(Kind.BODY, bodies, _owners(records), skip=_DIGESTS_BYTES)


def in_steps(
    stretches: Iterable[tuple[int, Records]], most_bytes: int = STEP_BYTES
) -> Iterator[list[tuple[int, Records]]]:
    """Yield the steps in which the store's replies are read: each a list of stretches, as first seq and records.

    The bodies of a step have at most ``most_bytes`` together, or are one body; a step has at most ``_STRETCHES`` stretches.
    """
    step: list[tuple[int, Records]] = []
    held = 0
    for first, records in stretches:
        if len(step) == _STRETCHES:
            yield step
            step, held = [], 0
        sizes = records.sizes().tolist()
        if held + (total := sum(sizes)) <= most_bytes:  # as nearly always
            step.append((first, records))
            held += total
            continue
        start = 0
        for index, size in enumerate(sizes):
            if held and held + size > most_bytes:
                yield [*step, (first + start, records[start:index])] if index > start else step
                step, held, start = [], 0, index
            held += size
        step.append((first + start, records[start:]))
    if step:
        yield step


def open_messages(
    sealer: AnySealer, records: Records, bodies: Sequence[bytes]
) -> Iterator[tuple[Identity, Record, bytes]]:
    """Yield messages as they were before they were stored, with their digests. ``records`` must have details.

    Raises CannotOpen, UnknownKey.
    """
    replace = msgspec.structs.replace
    opened = sealer.open_each(Kind.BODY, bodies, _owners(records))
    for index, (stored, body) in enumerate(zip(bodies, opened, strict=True)):
        identity, record = records.details[index].identity, records[index]
        if not is_sealed(stored):
            yield identity, record, body
            continue
        entry, content, text = body[:DIGEST_BYTES], body[DIGEST_BYTES:_DIGESTS_BYTES], body[_DIGESTS_BYTES:]
        yield replace(identity, digest=entry), replace(record, content_digest=content), text


def _owners(records: Records) -> list[bytes]:
    """Return the associated data of each message's values, as ``bound_to`` does."""
    packed = records.packed
    if 1 in records.having(Flags.LEFT_OUT):
        return [associated_data(packed[start : start + RECORD_BYTES]) for start in range(0, len(packed), RECORD_BYTES)]
    return [packed[start : start + RECORD_BYTES - 1] for start in range(1, len(packed), RECORD_BYTES)]


def open_grounding(sealer: AnySealer, value: bytes, record: Record) -> StoredGrounding:
    """Return a message's documents. Raises CannotOpen, UnknownKey."""
    return decode_grounding(sealer.open(Kind.GROUNDING, value, bound_to(record)))
