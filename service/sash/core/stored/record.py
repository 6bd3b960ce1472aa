"""Records: the facts about a message that a window needs, stored apart from the body, so that no body is decoded.

A record has 28 bytes for every message, so that a tail of records is read as columns: the cost of a thousand plain
messages takes one addition for each. Facts that few messages have (tool calls, names, images, documents) are in
``Details``, which are read only if a flag says so::

    0  flags   1  role   2  calls   3  more flags   4-7  tokens in o200k_base   8-11  in cl100k_base
    12-15  bytes of the body   16-17  further flags   18-19  tag   20-27  digest of role and content

Numbers are little-endian. The store's scripts know the size, and flags of the bytes 0 and 3; a test compares them.
"""

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from struct import Struct
from typing import Any, Final

import msgspec

from sash.core.chat.audiences import EVERYBODY, Party, party_digest
from sash.core.counts.costs.counting import REFERENCE_MODELS, reference_tokens
from sash.core.counts.costs.message_cost import LIST_BEGINS, LIST_ENDS
from sash.core.counts.measures.measures import ZERO, Extra, Measure
from sash.core.counts.measures.media_facts import IMAGE, Medium
from sash.core.counts.measures.rows import stored_row
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, TOOL
from sash.core.counts.text import Pair
from sash.core.stored.details import encode_details
from sash.core.stored.identities import CHANCE_BITS, DIGITS, ULID_BYTES, Identity
from sash.core.stored.split_media import GAP, StoredMedium

LAYOUT: Final = Struct("<BBBBIIIHH8s")
"""A record's 28 bytes."""
RECORD_BYTES: Final = LAYOUT.size
DIGEST_BYTES: Final = 8
"""The size of a content's digest, at the end of a record, and of an entry's, in its details."""
FLAG_BYTES: Final = (0, 3, 16, 17)
"""The bytes of a record that have flags, the lowest ones first."""
FLAG_BITS: Final = 8 * len(FLAG_BYTES)
_ULID: Final = re.compile(f"[0-7][{DIGITS}]{{25}}")
_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PYTHONS_DIGITS: Final = bytes.maketrans(DIGITS.encode(), b"0123456789abcdefghijklmnopqrstuv")


class Flags:
    """A record's flags: the lowest eight are its byte 0, the next eight its byte 3, the others its bytes 16 and 17.

    PARALLEL: a result of one of several calls. LATE: a result that does not stand directly behind its call and the call's
    other results, or is not its first (``order.py``). RICH: the message's cost depends on its details. MIXED: its details
    have its writing systems, which only estimates need, or its author and audience, which only views need. NAMED: the
    message has an author or an audience. WORDLESS: it is a reply that was interrupted before a word came. MEDIA: it has
    pictures or files that are stored beside it. COMPACTION: it is a provider's compaction, which windows have as their
    summary. IN_PROGRESS: it is still being written. LEFT_OUT: a client left it out of windows (``sent`` is false).
    WITHHELD: in progress, wordless or left out, which no window has.
    """

    PINNED: Final = 1
    GROUNDED: Final = 2
    NOTED: Final = 4
    PARALLEL: Final = 8
    REDACTED: Final = 16
    LEGACY_CALL: Final = 32
    LATE: Final = 32  # of a result; the flag above is of the assistant's
    RICH: Final = 64
    MIXED: Final = 128
    LEFT_OUT: Final = 1 << 8
    NAMED: Final = 1 << 10
    WORDLESS: Final = 1 << 11
    MEDIA: Final = 1 << 12
    COMPACTION: Final = 1 << 14
    IN_PROGRESS: Final = 1 << 15
    WITHHELD: Final = IN_PROGRESS | WORDLESS | LEFT_OUT


class WindowFlags:
    """A message's flags of one window, which are not stored.

    COVERED: a compaction stands for the message. MENDED: its calls may be sent although results are missing. GOES_ON: lines
    in place of results follow it. RECALLED: recall found it. TEXT_ONLY: it is sent as its text alone.
    """

    COVERED: Final = 1
    MENDED: Final = 2
    GOES_ON: Final = 4
    RECALLED: Final = 8
    TEXT_ONLY: Final = 16


STORED_FLAGS: Final[int] = reduce(or_, (flag for name, flag in vars(Flags).items() if name.isupper()))
_IN_DETAILS = Flags.RICH | Flags.MIXED
OF_DETAILS = _IN_DETAILS | Flags.MEDIA | Flags.NAMED
"""Flags that follow from the details."""
ITS_OWN = STORED_FLAGS & ~OF_DETAILS
"""Flags that a record has of itself."""
_ENDS = LIST_BEGINS | LIST_ENDS
UNSENT = Flags.WITHHELD | Flags.COMPACTION
"""Flags of messages that no window has as messages."""
GROUPED = Flags.LEGACY_CALL | UNSENT
"""Flags of messages that are not sent alone."""
RESULTS: Final = bytes((TOOL, FUNCTION))
"""The roles of results."""
_AROUND: Final = [model.rules.role_costs for model in REFERENCE_MODELS]
"""Tokens around a text alone, by role, in both encodings."""


class Record(msgspec.Struct, frozen=True):
    """One message. ``size`` is the body's bytes in the log, ``calls`` its number of tool calls. ``grounding``, ``digits``,
    ``links``, ``media`` and ``party`` are as in its details, which must have been read. The flags of a result of several
    calls have LIST_BEGINS and LIST_ENDS, too, which are not stored: the neighbours tell."""

    flags: int
    measure: Measure
    size: int
    calls: int
    content_digest: bytes
    grounding: tuple[int, int] | None = None
    own_tokens: int | None = None
    """Tokens of its text in the model's own vocabulary, if counted; not stored in the record."""
    digits: int = 0
    links: str = ""
    media: tuple[StoredMedium, ...] = ()
    party: Party = EVERYBODY
    tag: int = 0
    """A number of 16 bits, which nothing gives yet."""

    @property
    def makes_calls(self) -> bool:
        """Whether it is an assistant's message with calls, also in the form before tool calls."""
        return self.measure.role == ASSISTANT and (self.calls > 0 or bool(self.flags & Flags.LEGACY_CALL))

    @property
    def whole_size(self) -> int:
        """The body's bytes with its media in their places."""
        return self.size + sum(each.length - GAP for each in self.media)

    @property
    def enclosed(self) -> Sequence[Medium]:
        """What the message encloses: pictures, files and sounds.

        A message that was stored by a version without these facts has pictures of known sides alone.
        """
        extra = self.measure.extra
        if extra is None or extra.media or not extra.images or extra.estimated or extra.beside is not None:
            return extra.media if extra is not None else ()
        size = self.whole_size // len(extra.images)
        return [Medium(IMAGE, "", size, width, height) for width, height, _ in extra.images]

    @property
    def has_text(self) -> bool:
        """Whether it has a text."""
        return self.measure.extra is None or self.measure.extra.has_text

    @property
    def pinned(self) -> bool:
        """Whether the message is in every window."""
        return bool(self.flags & Flags.PINNED)

    @property
    def is_always(self) -> bool:
        """Whether the message is in every window by itself: a pinned one, or a system or developer message."""
        if self.measure.role <= DEVELOPER:
            return not self.flags & Flags.LEFT_OUT
        return self.flags & (Flags.PINNED | Flags.WITHHELD) == Flags.PINNED

    @property
    def is_left_out(self) -> bool:
        """Whether a client left the message out of windows."""
        return bool(self.flags & Flags.LEFT_OUT)

    @property
    def grouped(self) -> bool:
        """Whether the message is not sent alone: it is a call, a result, withheld, or a compaction."""
        return bool(self.calls) or self.measure.role in RESULTS or bool(self.flags & GROUPED)

    @property
    def lone_text(self) -> bool:
        """Whether it is a text whose own tokens its record tells. Its details may tell what the text behind it costs."""
        extra = self.measure.extra
        is_plain = extra is None or msgspec.structs.replace(extra, padding=None, heading=ZERO) == _NO_EXTRA
        return is_plain and not (self.grouped or self.grounding or self.media or any(self.party))

    @property
    def reference_tokens(self) -> Pair:
        """The message's tokens in its conversation's totals: with reasoning, for the reference models."""
        one = self.measure
        if one.extra is None or one.extra.is_mix:  # no estimate is made for these models
            return _AROUND[0][one.role] + one.o200k, _AROUND[1][one.role] + one.cl100k
        return reference_tokens(one, parallel=self.parallel)

    @property
    def parallel(self) -> int:
        """Not 0 if the message answers one of several calls; LIST_BEGINS and LIST_ENDS mark the first and the last."""
        return self.flags & (Flags.PARALLEL | _ENDS)


def encode_record(record: Record) -> bytes:
    """The record's 28 bytes. Its other facts are in its details."""
    one, extra, flags = record.measure, record.measure.extra, record.flags & ITS_OWN
    if record.grounding is not None or (extra is not None and not extra.is_mix):
        flags |= Flags.RICH
    if record.media:
        flags |= Flags.MEDIA | Flags.RICH
    if record.party != EVERYBODY:
        flags |= Flags.MIXED | Flags.NAMED
    elif extra is not None and extra.mix is not None:
        flags |= Flags.MIXED
    low, high, further, said = flags & 255, flags >> 8 & 255, flags >> 16, record.content_digest
    return LAYOUT.pack(low, one.role, record.calls, high, one.o200k, one.cl100k, record.size, further, record.tag, said)


def pack(record: Record, identity: Identity) -> tuple[bytes, bytes]:
    """The record's 28 bytes, and its ``Details``, which end where the message has no more of them.

    Its numbers are a row, or whole where a row cannot have all.
    """
    extra, party = record.measure.extra, record.party
    if extra is not None and extra.media:
        extra = _ending(extra, identity.created_ms // 1000)
    row = stored_row(extra) if extra is not None else None
    name, stamp = short_form(identity)
    more = (row or b"", None if row else extra, record.grounding, identity.status, record.digits, record.links)
    if party != EVERYBODY:
        details: tuple[Any, ...] = (stamp, *more, record.media, (), *party, party_digest(*party))
    elif record.media:
        details = (stamp, *more, record.media)
    elif any(more):
        details = (stamp, *more)
    else:
        details = () if stamp is None else (stamp,)
    return encode_record(record), encode_details((identity.digest, name, *details))


def short_form(identity: Identity) -> tuple[bytes | str, int | None]:
    """An identity's id in the form in which it is stored, and its stamp where this id does not tell it."""
    name, stamp = identity.id, identity.stamp
    if _ULID.fullmatch(name):
        value = int(name.encode().translate(_PYTHONS_DIGITS), 32)
        return value.to_bytes(ULID_BYTES), None if value >> CHANCE_BITS == stamp else stamp
    if _UUID.fullmatch(name):
        return b"\0" + bytes.fromhex(name.replace("-", "")), stamp
    return name, stamp


def _ending(extra: Extra, came: int) -> Extra:
    """What a message has beside its text; what lasts for a time after it ``came``, in seconds since 1970, has an end."""
    if not came or not any(each.lasts for each in extra.media):
        return extra
    media = [
        msgspec.structs.replace(each, until=came + each.lasts, lasts=0) if each.lasts else each for each in extra.media
    ]
    return msgspec.structs.replace(extra, media=tuple(media))


_NO_EXTRA = Extra()
