"""What the store is about to answer, so that a window can be made while the store still writes the turn that it ends with.

A durable append is an fsync, in which a worker would wait for nothing but the reply. What the read behind a plain turn will
answer follows from what is held of the conversation and from the turn; where something else comes, because somebody else
wrote meanwhile or the turn was there already, what was made of the forecast is thrown away.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from service.core.units import USER
from service.store.layout import pack
from service.store.messages import NewEntry
from service.store.recent import Held
from service.store.replies import Reply, Tail, joined, tail_of
from service.store.sealing import PLAIN

# As in read_window.lua:
_ENOUGH, _SLACK, _NEAR_BYTES = 64, 1.2, 131_072


class Likely(NamedTuple):
    """What ``read_window`` will likely answer, that with what was held before it, and the tail that they are."""

    answer: Reply
    reply: Reply
    tail: Tail


def likely_after(
    had: Held | None, name: str, asked: tuple[int, int, int], entries: Sequence[NewEntry], now_ms: int
) -> Likely | None:
    """What comes of an append of ``entries`` to what is held; None where nothing is, or it cannot be told.

    ``asked`` is the budget in tokens, the encoding's place and the most messages.
    """
    if had is None or had.tail is None:
        return None
    answer = _answer(had.reply, asked, entries, now_ms)
    if answer is None:
        return None
    reply = joined(had.reply, answer)
    return Likely(answer, reply, tail_of(PLAIN, name, reply))


def _answer(had: Reply, asked: tuple[int, int, int], entries: Sequence[NewEntry], now_ms: int) -> Reply | None:
    """The reply after a plain turn; None after another."""
    fields = dict(zip(had.fields[::2], had.fields[1::2], strict=True))
    if b"rich" in fields or fields[b"open"] or not all(map(_plain, entries)):
        return None
    length = had.length + len(entries)
    for column, name in enumerate((b"t0", b"t1")):
        fields[name] = b"%d" % (int(fields[name]) + sum(entry.tokens[column] for entry in entries))
    asking = [had.length + place for place, entry in enumerate(entries, 1) if entry.record.measure.role == USER]
    if asking:
        fields[b"user"] = b"%d" % asking[-1]
    version, updated = had.version + 1, b"%d" % now_ms
    fields |= {b"v": b"%d" % version, b"updated": updated}
    first = _first(length, int(fields[(b"t0", b"t1")[asked[1]]]), asked[0], asked[2])
    packed, details = zip(*(pack(entry.record, entry.identity) for entry in entries), strict=True)
    bodies = [entry.body for entry in entries]
    if not had.first <= first <= had.length or int(fields[b"user"]) < first or not _near(entries, asked):
        return None
    return had._replace(
        version=version,
        updated=updated,
        last=details[-1],
        fields=[word for pair in fields.items() for word in pair],
        length=length,
        first=first,
        records=b"".join(packed),
        bodies=bodies,
        question=[],
        since=had.length,
    )


def _near(entries: Sequence[NewEntry], asked: tuple[int, int, int]) -> bool:
    """Whether the store sends all bodies of a turn: it leaves out what is long."""
    budget, column, _ = asked
    tokens = sum(entry.tokens[column] for entry in entries)
    return sum(len(entry.body) for entry in entries) <= _NEAR_BYTES and (budget <= 0 or tokens <= budget)


def _plain(entry: NewEntry) -> bool:
    """Whether the store needs to know nothing of it but what every message has."""
    measure, grounding = entry.record.measure, entry.record.grounding
    return not (entry.makes or entry.answers or measure.extra or grounding)


def _first(length: int, tokens: int, budget: int, most: int) -> int:
    """Where the tail begins that ``read_window`` gives."""
    wanted = _ENOUGH
    if budget > 0:
        wanted = length if tokens <= budget else math.ceil(budget * length / tokens * _SLACK) + _ENOUGH
    if 0 < most < wanted:
        wanted = most + 1
    return max(1, length - wanted + 1)
