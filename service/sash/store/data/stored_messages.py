"""Messages as they are stored: records, and the text of users, which is sealed where encryption is on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from sash.core.chat.tool_groups import Calls
from sash.core.law.records.records import Records
from sash.core.stored.identities import Identity
from sash.core.stored.record import DIGEST_BYTES, RECORD_BYTES, Flags, Record, encode_record
from sash.core.stored.redaction import NO_DIGEST
from sash.core.stored.split_media import Text
from sash.core.stored.stored_grounding import StoredGrounding, decode_grounding
from sash.store.data.layout import pack
from sash.store.data.media_texts import stored_media
from sash.store.data.sealing import OVERHEAD, AnySealer, Kind, Purpose, is_sealed

_DIGESTS_BYTES = 2 * DIGEST_BYTES  # the digests of the entry and of its content, before a sealed body
_MORE, _LEFT_OUT = 3, Flags.LEFT_OUT >> 8  # the byte of a record that has this flag
SEALED_BYTES = OVERHEAD + _DIGESTS_BYTES
"""Bytes by which a sealed body is longer than the plain one."""
STEP_BYTES = 4 * 1024 * 1024
"""Bytes of text in one reply of the store, unless a single message has more."""
_STRETCHES = 250
SMALL_STEP_BYTES = 1024 * 1024
"""Like ``STEP_BYTES``, for many replies in a row: each blocks the event loop for some milliseconds."""


class NewEntry(msgspec.Struct, frozen=True):
    """An entry ready to be stored; all slow work is done."""

    identity: Identity
    record: Record
    body: bytes
    grounding: bytes
    metadata: bytes
    calls: Calls
    """The calls that it makes or answers; none while it is in progress."""
    tokens: tuple[int, int]
    tokens_parallel: tuple[int, int]
    compaction: str | None = None
    """The form of the compaction that it is."""
    continues: bool = False
    """Whether it may only replace an entry in progress."""
    as_before: bool = False
    """Whether to compare it with an entry that was stored before encryption had a key."""
    contents: Mapping[bytes, Text] = {}
    """The texts of its media in the message, by name."""
    lost: frozenset[bytes] = frozenset()
    """The names of its media whose texts are lost, in a copy of a stored message."""


class Stored(NamedTuple):
    """A message's bytes in the store, in the order that scripts take; empty where there is nothing."""

    record: bytes
    details: bytes
    body: bytes
    grounding: bytes
    metadata: bytes


def seal_message(
    sealer: AnySealer,
    record: Record,
    identity: Identity,
    body: bytes,
    grounding: bytes = b"",
    metadata: bytes = b"",
    *,
    as_before: bool = False,
) -> Stored:
    """Return a message as it is stored.

    In a sealed message the plain digests stand before the body and are sealed with it, for copies and exports. The record
    and the details have digests made with the tenant's key, because plain ones would confirm a guess at the text.

    ``as_before`` keeps the entry's plain digest, to compare it with an entry that was stored before encryption had a key.
    """
    if not sealer.active:
        return Stored(*pack(record, identity), body, grounding, metadata)
    plain = identity.digest + record.content_digest
    if identity.digest != NO_DIGEST and not as_before:
        identity = msgspec.structs.replace(identity, digest=sealer.digest(Purpose.ENTRY, identity.digest))
    media = stored_media(sealer, record.media) if record.media else ()
    said = sealer.digest(Purpose.CONTENT, record.content_digest)
    record = msgspec.structs.replace(record, content_digest=said, media=media)
    packed, details = pack(record, identity)
    owner = associated_data(packed)
    return Stored(
        packed,
        details,
        sealer.seal(Kind.BODY, plain + body, owner),
        sealer.seal(Kind.GROUNDING, grounding, owner),
        sealer.seal(Kind.METADATA, metadata, owner),
    )


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
    if records.left_out:
        return [associated_data(packed[start : start + RECORD_BYTES]) for start in range(0, len(packed), RECORD_BYTES)]
    return [packed[start : start + RECORD_BYTES - 1] for start in range(1, len(packed), RECORD_BYTES)]


def open_grounding(sealer: AnySealer, value: bytes, record: Record) -> StoredGrounding:
    """Return a message's documents. Raises CannotOpen, UnknownKey."""
    return decode_grounding(sealer.open(Kind.GROUNDING, value, bound_to(record)))
