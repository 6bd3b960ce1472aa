"""Turn checked entries into stored values, and stored messages into entries. All slow work is here, before the script.

::

    Entry ──prepare──▶ NewEntry ──seal_message──▶ Stored
    a stored message ──stored_entry──▲
"""

import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from os import urandom
from typing import Final, NamedTuple

import msgspec

from sash.core.chat.messages import Entry, is_text_alone
from sash.core.chat.tool_groups import NO_CALLS, Calls, calls_of
from sash.core.counts.costs.counting import reference_tokens
from sash.core.counts.models.families import TOOL
from sash.core.law.documents.grounding import Template
from sash.core.measured_entries import content_digest, entry_digest, measure_entry
from sash.core.providers.messages.members import NO_NAMES, Names, keep_foreign
from sash.core.providers.reading.native import compaction_of
from sash.core.stored.identities import (
    CHANCE_DIGITS,
    DIGIT_OF_BYTE,
    DIGIT_PAIRS,
    STAMP_CHANCE_BITS,
    Identity,
    ulid_of,
)
from sash.core.stored.record import Flags, Record, pack
from sash.core.stored.redaction import NO_DIGEST
from sash.core.stored.split_media import LARGE, Text, split
from sash.core.stored.stored_grounding import StoredGrounding, encode_grounding
from sash.store.data.beside_entries import packed_beside
from sash.store.data.media_texts import plain_contents, stored_media
from sash.store.data.replies import Message
from sash.store.data.sealing import AnySealer, Kind, Purpose
from sash.store.data.stored_messages import associated_data

_NO_CONTENTS: Mapping[bytes, Text] = {}
_CHANCE_BYTES: Final = 10
"""Bytes of a ULID behind its time."""
_STAMP_BYTES: Final = 3
"""Bytes that have the chance of a stamp, and four bits more."""


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class IdTimes:
    """The times with which ids of Sash's begin: they never go back, although a machine's clock may.

    The largest time that was seen, in milliseconds since 1970, is this process's own, or the store's mark.
    """

    def __init__(self) -> None:
        self.largest_ms = 0

    def next(self, now_ms: int) -> int:
        """Return the time for an id that is made at ``now_ms``: one more than the largest where the clock is behind it."""
        self.largest_ms = now_ms if now_ms >= self.largest_ms else self.largest_ms + 1
        return self.largest_ms

    def saw(self, time_ms: int) -> None:
        """Note a time that another process used."""
        self.largest_ms = max(self.largest_ms, time_ms)


ID_TIMES: Final = IdTimes()


def new_id(now_ms: int | None = None, *, seed: str | None = None) -> str:
    """Return a ULID, which sorts by its time in milliseconds.

    With ``seed``, the same time and seed give the same id.
    """
    milliseconds = ID_TIMES.next(wall_ms()) if now_ms is None else now_ms
    chance = urandom(_CHANCE_BYTES) if seed is None else blake2b(seed.encode(), digest_size=_CHANCE_BYTES).digest()
    return ulid_of(milliseconds << 8 * _CHANCE_BYTES | int.from_bytes(chance))


def _stamp_digits(time_ms: int, chance: int) -> str:
    """The 14 digits with which an id of this stamp begins, as ``ulid_of`` writes them. A loop takes twice as long."""
    pairs = DIGIT_PAIRS
    return (
        f"{pairs[time_ms >> 40]}{pairs[time_ms >> 30 & 1023]}{pairs[time_ms >> 20 & 1023]}{pairs[time_ms >> 10 & 1023]}"
        f"{pairs[time_ms & 1023]}{pairs[chance >> 10]}{pairs[chance & 1023]}"
    )


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


def prepare(entries: Sequence[Entry], template: Template, now_ms: int, send: Names = NO_NAMES) -> list[NewEntry]:
    """Return checked entries, measured and encoded; those without an id get one that begins with their stamp.

    ``send`` are names of members that are sent although no provider is known to take them.
    """
    random = urandom(_STAMP_BYTES + CHANCE_DIGITS * len(entries))
    chance, digits = int.from_bytes(random[:_STAMP_BYTES]) >> 4, random[_STAMP_BYTES:].translate(DIGIT_OF_BYTE).decode()
    stamp = now_ms << STAMP_CHANCE_BITS | chance
    named = _stamp_digits(ID_TIMES.next(now_ms), chance)
    prepared: list[NewEntry] = []
    for place, entry in enumerate(entries):
        message, calls = entry.message, NO_CALLS
        if not is_text_alone(message):
            message = keep_foreign(message, send)
            calls = calls_of(message)
        name = entry.id or named + digits[CHANCE_DIGITS * place : CHANCE_DIGITS * (place + 1)]
        record, body, grounding = measure_entry(entry, message, calls, template, content_digest(message, name))
        contents, compaction = _NO_CONTENTS, None
        if len(body) > LARGE:
            body, media, contents = split(message)
            record = msgspec.structs.replace(record, size=len(body), media=media)
        if record.flags:
            if record.flags & Flags.COMPACTION and (found := compaction_of(message)):
                compaction = found.form
            if record.flags & Flags.IN_PROGRESS:
                calls = NO_CALLS
        tokens = record.reference_tokens
        new = NewEntry(
            identity=Identity(id=name, stamp=stamp, digest=entry_digest(entry), status=entry.status),
            record=record,
            body=body,
            contents=contents,
            grounding=grounding,
            metadata=packed_beside(entry.metadata, entry.receipt) if entry.metadata or entry.receipt else b"",
            calls=calls,
            tokens=tokens,
            tokens_parallel=reference_tokens(record.measure, parallel=True) if calls.answers else tokens,
            compaction=compaction,
            continues=entry.continues,
        )
        prepared.append(new)
    return prepared


def stored_entries(
    messages: Sequence[Message],
    grounding: Mapping[int, StoredGrounding],
    metadata: Mapping[int, bytes],
    contents: Mapping[bytes, Text],
) -> list[NewEntry]:
    """Return the messages of a page as entries of a new conversation. ``contents`` are of their media, by stored name."""
    return [
        stored_entry(
            message.identity,
            message.record,
            message.body,
            encode_grounding(grounding[message.seq]) if message.seq in grounding else b"",
            metadata.get(message.seq, b""),
            contents,
        )
        for message in messages
    ]


def stored_entry(
    identity: Identity,
    record: Record,
    body: bytes,
    grounding: bytes,
    metadata: bytes,
    contents: Mapping[bytes, Text],
) -> NewEntry:
    """Return an entry from the stored values of a message. ``contents`` are as in ``stored_entries``."""
    media, texts = plain_contents(body, record.media, contents)
    message = msgspec.json.decode(body) if record.grouped else {}
    calls = calls_of(message) if message else NO_CALLS
    compaction = compaction_of(message) if record.flags & Flags.COMPACTION else None
    placed = Flags.PARALLEL | Flags.LATE if record.measure.role == TOOL else 0  # the append tells them anew
    return NewEntry(
        identity=identity,
        record=msgspec.structs.replace(record, flags=record.flags & ~placed, links=calls.links, media=media),
        body=body,
        contents=texts,
        lost=frozenset(each.name for each in media) - texts.keys(),
        grounding=grounding,
        metadata=metadata,
        calls=NO_CALLS if record.flags & Flags.IN_PROGRESS else calls,
        tokens=reference_tokens(record.measure),
        tokens_parallel=reference_tokens(record.measure, parallel=True),
        compaction=compaction.form if compaction else None,
    )


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
