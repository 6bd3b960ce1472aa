"""What one of several agents sees of consecutive messages: all, their text alone, or nothing."""

from typing import Final, NamedTuple

import msgspec
import numpy as np

from sash.core.counts.measures.measures import Extra
from sash.core.counts.models.families import ASSISTANT, USER
from sash.core.counts.text.numbers import Number
from sash.core.law.records.records import Records
from sash.core.law.records.units import callers
from sash.core.providers.openai.chat_mends import NAMES
from sash.core.stored.record import Flags, Record, WindowFlags

_KEPT_FLAGS: Final = Flags.PINNED | Flags.NOTED | Flags.REDACTED
_PLAIN: Final = Extra()
_OF_TEXTS: Final = ("name", "mix", "odd")
"""Fields of a message's row that its text has without its calls."""


class Visible(NamedTuple):
    """Which messages an agent sees, as arrays of truth values: ``kept``, and of ``texts`` the text alone.

    ``pinned`` are those of the texts whose tool groups are in every window. ``retired`` are those that its earlier windows
    had, and later ones do not have any more: texts that are not kept, and whole messages, as of a tool group that has a
    message for others now.
    """

    kept: Number
    texts: Number
    pinned: Number
    retired: Number


def visible_to(records: Records, heads: Number, view: str) -> Visible:
    """What the agent ``view`` sees of these messages. Their details must have been read; ``heads`` are by ``heads_of``."""
    numbers, parties = records.parties()
    is_seen = np.array([party.is_seen(view) for party in parties])[numbers]
    is_others = np.array([party.is_others(view) for party in parties])[numbers]
    roles = np.frombuffer(records.roles, np.uint8)
    is_call, is_before = callers(records), np.arange(len(records)) < records.front
    # A tool group that is another agent's, or has a message for others, is not sent as one.
    gone = is_others | ~is_seen
    np.logical_or.at(gone, heads, ~is_seen)
    is_gone = gone[heads] & is_call[heads]
    says = is_seen & (records.tokens(0) > 0) & (roles == ASSISTANT) & (np.frombuffer(records.unsent, np.uint8) == 0)
    is_text = is_gone & is_call & says
    is_pinned = is_before.copy()
    is_pinned[heads[list(records.where(Flags.PINNED))]] = True  # a pinned member pins its group
    author = np.unique([party.author or "" for party in parties], return_inverse=True)[1][numbers]
    asks = np.flatnonzero((np.frombuffer(records.sent_roles, np.uint8) == USER) & is_seen)
    is_later = ~is_pinned & _superseded(is_text & is_others, says & (is_text | ~is_call), author, asks)
    is_retired = is_later | is_gone & is_seen & ~is_others[heads] & ~is_before
    return Visible(is_seen & ~is_gone | is_text & ~is_later, is_text, is_text & is_pinned, is_retired)


def _superseded(is_text: Number, says: Number, author: Number, asks: Number) -> Number:
    """Whether each of these texts was followed by words of the same author in the same turn, as an array."""
    found = np.zeros(len(says), bool)
    texts = np.flatnonzero(is_text)
    ends = np.append(asks, len(says))[np.searchsorted(asks, texts, side="right")]
    for each in np.unique(author[texts]).tolist():
        mine = author[texts] == each
        words = np.append(np.flatnonzero(says & (author == each)), len(says))
        found[texts[mine]] = words[np.searchsorted(words, texts[mine], side="right")] < ends[mine]
    return found


def taken(records: Records, kept: Number, texts: Number, pinned: Number) -> Records:
    """The records that are ``kept``; of ``texts`` the text alone, which is ``pinned`` where its group was.

    Of a text that is plain without its calls no detail is decoded.
    """
    part = records if kept.all() else records.taken(np.flatnonzero(kept))
    if not texts.any():
        return part
    at, is_pinned = np.flatnonzero(texts[kept]), pinned[texts]
    part = part.with_flag(at, WindowFlags.TEXT_ONLY)
    # Where no row tells it, a text is not plain.
    is_plain: Number = ~(is_pinned | part.details.is_rare[at] | part.details.rows.have(at, _OF_TEXTS))
    others = zip(at[~is_plain].tolist(), is_pinned[~is_plain].tolist(), strict=True)
    part = part.replaced({row: text_record(part[row], is_pinned=is_pinned) for row, is_pinned in others})
    return part.as_plain(at[is_plain], _KEPT_FLAGS)


def text_record(record: Record, *, is_pinned: bool = False) -> Record:
    """The record of a message that is sent as its text alone: an upper bound of its cost. ``is_pinned``: its group is."""
    given = record.measure.extra or _PLAIN
    extra = Extra(name=given.name, mix=given.mix, parts=given.parts, odd=given.odd & NAMES)
    measure = msgspec.structs.replace(record.measure, extra=extra if extra != _PLAIN else None)
    flags = record.flags & _KEPT_FLAGS | (Flags.PINNED if is_pinned else 0)
    return msgspec.structs.replace(record, flags=flags, measure=measure, calls=0, digits=0, links="", media=())
