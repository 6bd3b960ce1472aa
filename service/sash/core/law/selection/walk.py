"""walk: keeps units of history, from the newest to the oldest, while they fit into the remaining budget."""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from sash.core.counts.models.families import DEVELOPER, FUNCTION, USER
from sash.core.law.documents.documents import Documents
from sash.core.law.documents.grounding import Grounded
from sash.core.law.history.view import History, View, since
from sash.core.law.records.figures import WindowTokens
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import Allowed, Stop
from sash.core.stored.stored_grounding import StoredDocument
from sash.core.stored.stored_summary import Summary

SKIP_HORIZON = 256
"""Messages that ``overflow=skip`` considers after the first that is too large: its cost does not grow with the history."""


class Walk(msgspec.Struct):
    """A walk over the units of a view: its bounds, its state, and its result."""

    view: View
    costs: Sequence[int]
    """The tokens of each unit."""
    fixed: WindowTokens
    """Tokens of the fixed parts."""
    room: int
    """The rest of the budget, in tokens."""
    cost: int = 0
    """The tokens of the messages: first of the required ones."""
    firsts: Sequence[tuple[Stop, int]] = ()
    """The first rows that history may have, each with the reason why not the rows before; of several the first is told. A
    row before the tail's first stands for so many messages before the tail."""
    skip: bool = False
    dedupe: bool = False
    user_first: bool = False
    documents: Documents | None = None
    """Those of all messages; None if not all have theirs."""
    grounding: dict[int, Grounded] = {}
    """The documents that are sent, by the seq of their message."""
    seen: set[StoredDocument] = set()
    """Which these are."""
    spent: int = 0
    """Their tokens."""
    kept: Sequence[int] = ()
    """The indexes of the window's units, ascending: the required ones are among them."""
    stop: Stop = "complete"
    """Why it ended; ``older`` for too short a tail."""
    reasons: dict[int, Reason] = {}
    """Why single units are left out."""
    rest: Stop | None = None
    """Why all others are left out; None if it is the reason for which the walk ended."""
    skipped: int | None = None
    """The first row that was too large."""
    held: int = 0
    """Tokens of the budget that history leaves free."""
    cut: Cut | None = None
    """Where a stable cut lets history begin."""
    opening: int = 0
    """The tokens that the request costs more because its first message is the assistant's."""
    left_out: int = 0
    """The number of messages that the window leaves out."""
    rows: Sequence[int] = ()
    """The rows of the window's messages, ascending."""
    summary: Summary | None = None
    noted: bool = False
    """Whether it has room for a note."""
    note: int = 0
    """The number of messages in the note; 0 without a note."""

    @property
    def oldest(self) -> int:
        """The oldest unit that it keeps beside the required ones; the number of units if there is none."""
        required = self.view.required
        return next((index for index in self.kept if index not in required), len(self.view.units))

    @property
    def passed(self) -> frozenset[int]:
        """The seqs of the units that it passed over although they would fit, or although it kept older ones."""
        oldest, passed = self.oldest, (Reason.UNANSWERED, Reason.DUPLICATE)
        units = sorted(index for index, why in self.reasons.items() if index > oldest or why in passed)
        return frozenset(map(self.view.history.seqs.__getitem__, self.view.units.members(units)))

    def take_away(self, oldest: int, why: Reason) -> None:
        """Take the oldest kept unit away."""
        at, cost = self.kept.index(oldest), self.costs[oldest]
        self.kept = [*self.kept[:at], *self.kept[at + 1 :]] if at else self.kept[1:]
        self.reasons[oldest] = why
        self.room += cost
        self.cost -= cost

    def add_documents(self, row: int, grounded: Grounded) -> None:
        """Send the documents with the message of a row."""
        self.grounding[self.view.history.seqs[row]] = grounded
        self.seen.update(grounded.documents)
        self.spent += grounded.cost
        self.room -= grounded.cost


def walk(state: Walk) -> None:
    """Keep units from the newest to the oldest while they fit into the room.

    Where room and bounds alone decide, this is the longest run of the newest units that fits.
    """
    view, units, costs, required = state.view, state.view.units, state.costs, state.view.required
    oldest = max([least for _, least in state.firsts]) if state.firsts else 0
    begins, count = units.front + view.headless, len(costs)
    if state.dedupe or state.skip or state.documents or (units.broken and max(units.broken) >= begins):
        stop = _one_by_one(state, oldest)
        state.kept = sorted(state.kept)
    else:
        least = left = max(begins, oldest if units.single else bisect_left(units.starts, oldest, 0, count))
        before = sorted(filter(left.__gt__, required)) if left else []
        room, cost = state.room + state.cost, sum(costs[left:]) + sum(map(costs.__getitem__, before))
        while cost > room:  # from the oldest: most of what was read is kept
            if left in required:
                before.append(left)
            else:
                cost -= costs[left]
            left += 1
        state.room, state.cost, state.kept = room - cost, cost, range(left, count)
        if before:
            state.kept = [*before, *state.kept]
        stop = "budget" if left > least else _bound(state, begins, least) if least > begins else None
    if stop is None:
        history = view.history
        is_all = history.first_seq == 1 and history.seen is None and not history.covered
        stop = "complete" if is_all else _at_the_beginning(state)
    state.stop = stop  # the units that it did not reach are left out
    if state.skipped is not None and stop != "older":
        state.rest, state.stop = stop, "budget"
    if state.user_first and stop != "older":
        _begin_with_user(state)


def _bound(state: Walk, begins: int, least: int) -> Stop | None:
    """Why the newest of the units before ``least`` must not be in history; None if all of these are required."""
    starts, required = state.view.units.starts, state.view.required
    for index in range(least - 1, begins - 1, -1):
        if index not in required and (stop := _stop(state, starts[index])):
            return stop
    return None


def _one_by_one(state: Walk, oldest: int) -> Stop | None:
    """Keep one unit after the other. Returns why it ended before the beginning of the tail; None if it did not."""
    view, dedupe, documents = state.view, state.dedupe, state.documents
    starts, broken, required = view.units.starts, view.units.broken, view.required
    records = view.history.records
    said = {records.words(starts[index]) for index in required} if dedupe else set()
    costs, covered = state.costs, view.covered
    state.kept = kept = [*required]
    for index in range(len(view.units) - 1, view.units.front - 1, -1):
        row, cost = starts[index], costs[index]
        stop = _stop(state, row) if row < oldest or state.skipped is not None else None
        if index in required:
            if documents is not None and not stop and view.history.seqs[row] not in state.grounding:
                _ground(state, documents, index)
            continue
        if index == view.units.front and view.headless:
            break
        if stop and index not in covered:
            return stop
        words = records.words(row) if dedupe else None
        if index in broken:
            state.reasons[index] = Reason.UNANSWERED
        elif words is not None and words in said:
            state.reasons[index] = Reason.DUPLICATE
        elif cost <= state.room and (documents is None or _ground(state, documents, index, cost)):
            state.room -= cost
            state.cost += cost
            kept.append(index)
            said.add(words)
        elif state.skip and state.room > 0:
            state.skipped = row if state.skipped is None else state.skipped
            state.reasons[index] = Reason.TOO_LARGE
        else:
            return "budget"
    return None


def _stop(state: Walk, row: int) -> Stop | None:
    """Why history must not include a row; None if it may."""
    for why, least in state.firsts:
        if row < least:
            return why
    return "budget" if state.skipped is not None and row < state.skipped - SKIP_HORIZON else None


def _at_the_beginning(state: Walk) -> Stop:
    """Why a walk that saw the whole tail ends: the messages before are all left out for one reason, or must be read."""
    view = state.view
    history, covered, seen_by = view.history, view.history.covered, view.history.seen
    before = history.first_seq - 1
    complete: Stop = "summary" if covered else "complete"
    if state.documents is not None and history.is_whole:
        _ground_required(state, state.documents)
    # Those before a view's may all be for others.
    stop = None if seen_by is not None else _stop(state, history.records.front - 1)
    if seen_by is not None and seen_by.horizon > covered + 1:
        return "horizon"
    seen = before <= covered + sum(seq > covered for seq in history.seqs[: history.records.front]) and not view.headless
    if seen and (before <= covered or stop or state.documents is None):
        return complete
    if seen_by is not None and seen_by.is_whole:
        return complete
    alone = view.headless and view.role(view.units.front) == FUNCTION  # its call may be before the tail
    return "older" if stop is None or stop != _stop(state, history.oldest_bound) or alone else stop


def _ground_required(state: Walk, documents: Documents) -> None:
    """Add the documents of the required messages before the tail, as where they were reached in it."""
    view = state.view
    for index in range(view.units.front - 1, -1, -1):
        seq = view.history.seqs[view.units.starts[index]]
        if seq not in state.grounding and not _stop(state, since(view.history, seq)):
            _ground(state, documents, index)


def _ground(state: Walk, documents: Documents, index: int, cost: int = 0) -> bool:
    """Add a user message's documents; ``cost`` is the message's own. False if they do not fit and may not be trimmed."""
    view, history, row, room = state.view, state.view.history, state.view.units.starts[index], state.room - cost
    if view.role(index) != USER:
        return True
    seq, record = history.seqs[row], history.records[row]
    grounded = documents.choose(seq, record, view.model, room, state.seen, spent=state.spent)
    if grounded is not None and grounded.cost <= room:
        state.add_documents(row, grounded)
    return grounded is None or grounded.cost <= room


def _begin_with_user(state: Walk) -> None:
    """Remove kept units before the first user message, except system and developer messages.

    Required units are not removed, so history that begins with one is not changed.
    """
    view = state.view
    starts, first_must = view.units.starts, first_required(view)
    while (oldest := state.oldest) < len(view.units) and view.role(oldest) != USER and starts[oldest] < first_must:
        state.take_away(oldest, Reason.START)


def first_required(view: View) -> int:
    """The row of the first required message, without system and developer messages; the number of rows if there is none."""
    roles = view.history.records.roles
    return next((row for row in view.required_rows if roles[row] > DEVELOPER), len(roles))


def firsts_of(history: History, query: WindowQuery, allowed: Allowed, taken: Walk) -> list[tuple[Stop, int]]:
    """The first rows that history may have, each with the reason."""
    summary = taken.summary
    firsts: list[tuple[Stop, int]] = [] if taken.cut is None else [("budget", taken.cut.row)]
    firsts += [("limit", _limit_row(history, query.limit))] if query.limit else []
    firsts += [("limit", _turn_row(history, query.turns))] if query.turns else []
    firsts += allowed.firsts
    # The messages that are not covered may be among older ones.
    if summary is not None and not (history.covered and history.is_whole):
        firsts.append(("summary", since(history, summary.through_seq + 1)))
    return firsts


def _limit_row(history: History, limit: int) -> int:
    """The first row whose unit has, or is behind, the first of so many newest messages of the log."""
    row = len(history.records) - limit
    if history.order is None or row < history.records.front:
        return row
    return since(history, history.order.original.seqs[row])


def _turn_row(history: History, count: int) -> int:
    """The row of the user's message that begins the last ``count`` turns.

    If it was not read, this is the bound of the newest question for one turn, and ``oldest_bound`` for more.
    """
    row, roles = len(history.records), history.records.sent_roles
    for _ in range(count):
        row = roles.rfind(USER, history.records.front, row)
        if row < 0:
            is_before = count == 1 and history.asked >= 0
            return since(history, history.seqs[history.asked]) if is_before else history.oldest_bound
    return row
