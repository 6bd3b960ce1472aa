"""Messages as they are stored: records beside what people wrote, which is sealed where a key is set."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from service.core.records import RECORD_BYTES, Identity, Record, Records, StoredGrounding, encode_record
from service.core.redaction import NO_DIGEST
from service.store.layout import decode_grounding, pack
from service.store.sealing import OVERHEAD, AnySealer, Kind, Purpose, is_sealed

_ENTRY_BYTES = 16
_DIGESTS_BYTES = 24  # of the entry and of its content, before a sealed body
SEALED_BYTES = OVERHEAD + _DIGESTS_BYTES
"""What a sealed body is longer than the plain one."""
STEP_BYTES = 4 * 1024 * 1024
"""How much of what people wrote one reply of the store holds, unless a single message is more."""
_STRETCHES = 250
SMALL_STEP_BYTES = 1024 * 1024
"""The same where many replies follow each other: reading one keeps the event loop for some milliseconds."""


class NewEntry(msgspec.Struct, frozen=True):
    """An entry ready to be stored; everything that costs time was done before."""

    identity: Identity
    record: Record
    body: bytes
    grounding: bytes
    metadata: bytes
    makes: Sequence[str] | None
    answers: str | None
    always: bool
    tokens: tuple[int, int]
    tokens_parallel: tuple[int, int]
    grounding_tokens: tuple[int, int]
    as_before: bool = False
    """Whether it is to be found equal to an entry that was stored before a key was set."""


class Stored(NamedTuple):
    """A message's bytes in the store, in the order in which scripts take them; empty where there is nothing."""

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
    """A message as it is stored. Where it is sealed, so are its digests, before the body: a copy of the conversation, or an
    export of it, has them as they are, and beside the record stand others that tell nothing to who guesses what was said.

    ``as_before`` leaves the entry's digest as it is: to be found equal to one that was stored before a key was set.
    """
    if not sealer.active:
        return Stored(*pack(record, identity), body, grounding, metadata)
    plain = identity.digest + record.content_digest
    if identity.digest != NO_DIGEST and not as_before:
        identity = msgspec.structs.replace(identity, digest=sealer.digest(Purpose.ENTRY, identity.digest))
    record = msgspec.structs.replace(record, content_digest=sealer.digest(Purpose.CONTENT, record.content_digest))
    packed, details = pack(record, identity)
    owner = packed[1:]
    return Stored(
        packed,
        details,
        sealer.seal(Kind.BODY, plain + body, owner),
        sealer.seal(Kind.GROUNDING, grounding, owner),
        sealer.seal(Kind.METADATA, metadata, owner),
    )


def bound_to(record: Record) -> bytes:
    """What a message's values are bound to: its record without the flags, which change."""
    return encode_record(record)[1:]


def open_bodies(sealer: AnySealer, records: Records, bodies: Sequence[bytes]) -> list[bytes]:
    """Bodies of ``records``, each of them sealed or plain. Raises CannotOpen, UnknownKey."""
    return sealer.open_each(Kind.BODY, bodies, _owners(records), skip=_DIGESTS_BYTES)


def in_steps(
    stretches: Iterable[tuple[int, Records]], most_bytes: int = STEP_BYTES
) -> Iterator[list[tuple[int, Records]]]:
    """Stretches of messages, each with its first seq, cut so that the bodies of a step are ``most_bytes`` at most, or one
    body; and at most ``_STRETCHES`` of them."""
    step: list[tuple[int, Records]] = []
    held = 0
    for first, records in stretches:
        if len(step) == _STRETCHES:
            yield step
            step, held = [], 0
        start = 0
        for index, size in enumerate(records.sizes()):
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
    """Messages as they were before they were stored, their digests too; of ``records`` the details must be there.

    Raises CannotOpen, UnknownKey.
    """
    replace = msgspec.structs.replace
    opened = sealer.open_each(Kind.BODY, bodies, _owners(records))
    for index, (stored, body) in enumerate(zip(bodies, opened, strict=True)):
        identity, record = records.identity(index), records[index]
        if not is_sealed(stored):
            yield identity, record, body
            continue
        entry, content, text = body[:_ENTRY_BYTES], body[_ENTRY_BYTES:_DIGESTS_BYTES], body[_DIGESTS_BYTES:]
        yield replace(identity, digest=entry), replace(record, content_digest=content), text


def _owners(records: Records) -> list[bytes]:
    """What each message's values are bound to, as ``bound_to`` has it."""
    packed = records.packed
    return [packed[start : start + RECORD_BYTES - 1] for start in range(1, len(packed), RECORD_BYTES)]


def open_grounding(sealer: AnySealer, value: bytes, record: Record) -> StoredGrounding:
    """A message's documents. Raises CannotOpen, UnknownKey."""
    return decode_grounding(sealer.open(Kind.GROUNDING, value, bound_to(record)))
