"""as_seen_by: the history as one of several agents sees it.

* What it is for: agents that share a conversation, each of which reads its own part.
* When it can matter: in windows with ``view``, before anything else looks at the tail: nothing for others can be sent.
* What wakes it: a message with an author or an audience.
* What it does: takes rows out of the tail, and makes others their text alone::

    seq     1 user   2 triage calls   3 result   4 triage: "…"   5 for refunds   6 billing: "…"
    row     0        ─ another agent's tool group ─  1            ─ for others   2

Another agent's tool group becomes its text: calls and results are left out, and what the calling message said is sent as an
assistant's message. It is left out once the same agent said something later in the same turn, so that a group's last text
stays. A group of which one result is for others becomes its text too.

A view looks back to the beginning of the second block before the newest one (``choice.BLOCK``), however few messages it may
see, so that it costs what a window costs. Blocks do not move as messages are appended, nor does a stable cut then. A tool
group whose call is before this horizon is left out whole. What must be in the window is found before, among the newest
20,000 messages: the newest question that the agent sees, and the newest message that can be sent to it. So a larger budget,
whose blocks are longer, has no more that must be in.

A stable cut must not move back, although a text that was sent once is left out later. So on the line of tokens
(``stable.py``) these *retired* messages cost what they cost, with the message behind them.
"""

from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
import numpy as np

from sash.core.counts.models.families import DEVELOPER, FUNCTION, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.history.view import History, Perspective
from sash.core.law.history.visibility import Visible, taken, visible_to
from sash.core.law.recall import bound
from sash.core.law.records.costs import message_costs
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.records import Records
from sash.core.law.records.units import heads_of, late_orphans
from sash.core.stored.record import RESULTS, Flags

HORIZON_BLOCKS: Final = 2


def as_seen_by(history: History, view: str, model: Model, block: int) -> History | None:
    """The history without what this agent may not see; None if older messages are needed to tell.

    ``block`` are the reference tokens of a stable cut's block. The messages are counted before they are taken, all at once.
    """
    records, front, seqs = history.records, history.records.front, np.array(history.seqs)
    message_costs(records, model)
    starts = history.tokens - np.cumsum(history.log_lengths()[::-1])[::-1]
    horizon = _horizon(history, block)
    is_whole = history.first_seq == 1 or bool(horizon and (starts[:1] <= horizon).any())
    heads = heads_of(records)
    visible, apart = visible_to(records, heads, view), set[int]()
    if history.first_seq > 1:  # the call of these results may be another agent's: they count as before the tail
        leading = range(front, front + records.leading_results)
        apart = {*leading, *late_orphans(records)}
        is_of_required = leading and history.first_seq - 1 in history.seqs[:front]
        must_be_in = is_of_required or not apart.isdisjoint(records.where(Flags.PINNED))  # their group, whole
        if must_be_in or (not is_whole and apart.difference(leading)):
            return None
    kept = np.flatnonzero(visible.kept)
    question, newest = _question(history, kept, seqs), _newest(history, kept, heads, apart)
    if question is None or newest is None:
        return None
    visible.kept[[*apart]] = False
    if is_whole:
        is_near = _must_be_in(history, heads, [each for each in (question, newest) if each >= 0])
        is_near[front:] |= starts[np.maximum(0, heads[front:] - front)] >= horizon
        _add_before_functions(is_near, records, np.flatnonzero(visible.kept))
        visible = Visible(*(each & is_near for each in visible))
    kept = np.flatnonzero(visible.kept)
    tail = kept[kept >= front]
    if not (is_whole or len(tail)):
        return None
    # What is left out before the first one that it sees counts as before the tail.
    first = history.seqs[tail[0]] if len(tail) else history.length + 1
    return msgspec.structs.replace(
        history,
        first_seq=first,
        records=taken(records, visible.kept, visible.texts & visible.kept, visible.pinned),
        seqs=seqs[kept].tolist(),
        asked=int(np.searchsorted(kept, question)) if question >= 0 else -1,
        seen=Perspective(
            lengths=np.diff(starts[tail - front], append=history.tokens),
            retired=taken(records, visible.retired, visible.texts & ~visible.kept, visible.pinned),
            behind=np.minimum(np.searchsorted(tail, np.flatnonzero(visible.retired)), len(tail) - 1),
            is_whole=is_whole,
            horizon=history.first_seq + int(np.count_nonzero(starts < horizon)) if is_whole else 1,
        ),
    )


def back_for_view(
    history: History, seen: History, least: NeedOlder, model: Model, budget: int, block: int
) -> NeedOlder:
    """Request older messages, so that those that the agent sees likely fill the budget.

    The request goes back at least to ``least``, and otherwise not before the horizon. ``seen`` is what the agent sees of the
    history that was read.
    """
    read, sees = int(history.log_lengths().sum()), int(message_costs(seen.records, model)[seen.records.front :].sum())
    place = max(history.tokens - read * budget // max(1, sees), _horizon(history, block))
    return NeedOlder(least.messages, place if least.place is None else min(place, least.place))


def _add_before_functions(is_near: Number, records: Records, kept: Number) -> None:
    """Make near what an agent sees right before a near result of a function: it may be its call."""
    is_function = np.frombuffer(records.roles, np.uint8)[kept] == FUNCTION
    for place in np.flatnonzero(is_function)[::-1].tolist():
        is_near[kept[place - 1]] |= place > 0 and is_near[kept[place]]


def _horizon(history: History, block: int) -> int:
    """The place on the line of counted tokens to which a view looks back; 0 is the beginning."""
    return max(0, history.tokens // block - HORIZON_BLOCKS) * block


def _question(history: History, kept: Number, seqs: Number) -> int | None:
    """The index of the newest user message that the agent sees, -1 without one; None if it may be before the tail."""
    roles, last = np.frombuffer(history.records.sent_roles, np.uint8), bound(history.length)
    is_near = (kept >= history.records.front) & (seqs[kept] >= last)
    asked = kept[(roles[kept] == USER) & (is_near | (kept == history.asked))]
    if len(asked):
        return int(asked[-1])
    return -1 if history.asked < 0 or history.first_seq <= last else None


def _newest(history: History, kept: Number, heads: Number, apart: AbstractSet[int]) -> int | None:
    """The index of the newest message that can be sent to the agent, -1 without one; None if it may be before the tail.

    The group of results that are ``apart`` would be in the window, if the call can be sent.
    """
    records, front, last = history.records, history.records.front, bound(history.length)
    for index in kept[::-1].tolist():
        if index < front or (index in apart and history.first_seq > last and not records.unsent[index]):
            break
        if index in apart or records.unsent[index] or records.roles[heads[index]] in RESULTS:
            continue
        if heads[index] < front or history.seqs[heads[index]] >= last:
            return int(index)
    return -1 if history.first_seq <= last else None


def _must_be_in(history: History, heads: Number, indexes: list[int]) -> Number:
    """Which messages are in every window, with their tool groups: these, those before the tail, and pinned, system and
    recalled ones."""
    records = history.records
    is_in = np.frombuffer(records.sent_roles, np.uint8) <= DEVELOPER
    is_in[: records.front] = True
    is_in[[*indexes, *records.where(Flags.PINNED), *history.recalled]] = True
    is_in &= np.frombuffer(records.having(Flags.LEFT_OUT), np.uint8) == 0
    return np.isin(heads, heads[is_in])
