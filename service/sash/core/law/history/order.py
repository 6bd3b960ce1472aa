"""arranged: the tail in the order in which a provider takes it, each result behind its call.

* What it is for: a log takes what happened. A user stops a call, a note comes between a call and its result, a result comes
  turns later, or twice. A provider answers 400 to each of these.
* When it can matter: in every window. ``unanswered`` says what becomes of a call without a result.
* What wakes it: a late result, a result without its call, or a call without its result before another message.
* What it does: the rows of the tail get another order, and an ``Order`` that tells it; most tails stay as they are::

    seq     1 call a,b   2 result a   3 "stop"   4 result a, late   5 result b, late
    row     0 call a,b   1 late a     2 late b   3 result a         4 "stop"
                                                 └ left out: a newer result of its call counts

  A late result stands behind its call, and the newest result of a call counts. A call without a result gets one constant
  line, or is left out; calls at the very end wait. A late result whose call is not in the tail is left out where it is.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np

from sash.core.chat.tool_groups import links_in
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, TOOL
from sash.core.law.history.lines import Way
from sash.core.law.history.view import History, Order, View
from sash.core.law.records.records import Records
from sash.core.law.records.units import callers, late_in
from sash.core.stored.record import RESULTS, Flags, WindowFlags
from sash.core.stored.runs import runs


def arranged(history: History, *, drops: bool) -> History | None:
    """The history in the order in which it is sent, itself if that is the log's; None if older messages are needed to tell.

    ``drops`` leaves calls without a result out, in place of a line as their result.
    """
    records, front, is_whole = history.records, history.records.front, history.is_whole
    if front and history.first_seq > 1 and _is_unfinished(records[:front], history.seqs[:front]):
        return None
    if not records.details or _is_in_order(history.tail, is_whole=is_whole):
        return history
    read = _read(records, is_whole=is_whole)
    if not is_whole and _is_one_required(records, read.apart):
        return None  # its call is before the tail
    return _reordered(history, read, drops=drops)


def last_reply(view: View) -> int | None:
    """The row of a reply that a request may end with; None without one.

    System messages stand first, so the last of the other units that may be sent decides. A reply whose calls are left out
    has its words.
    """
    records, units, order = view.history.records, view.units, view.history.order
    for unit in reversed(range(len(units))):
        row = units.starts[unit + 1] - 1
        if records.roles[row] > DEVELOPER and unit not in units.broken:
            calls = records.calls[row] and not (order is not None and row in order.missing["dropped"])
            return None if calls or records.roles[row] != ASSISTANT else row
    return None


def _is_in_order(records: Records, *, is_whole: bool) -> bool:
    """Whether each result stands behind its call, and each call has its result. ``is_whole``: no message is before."""
    if records.units.single:
        return True
    if records.marked or FUNCTION in records.roles:
        is_legacy = callers(records) & (np.frombuffer(records.calls, np.uint8) == 0)
        is_answer = np.frombuffer(records.sent_roles, np.uint8) == FUNCTION
        if late_in(records) or (is_legacy[:-1] != is_answer[1:]).any() or is_legacy[-1] or (is_whole and is_answer[0]):
            return False
    return not records.units.lacks_results


def _is_unfinished(records: Records, seqs: Sequence[int]) -> bool:
    """Whether results are missing or late among messages before the tail, so that they cannot be sent as they are."""
    if records.units.single:
        return False
    stretches = (records[seqs.index(first) : seqs.index(last) + 1] for first, last in runs(seqs))
    return any(not _is_in_order(run, is_whole=True) or bool(run.units.broken) for run in stretches)


def _is_one_required(records: Records, apart: AbstractSet[int]) -> bool:
    """Whether one of the results that are ``apart`` must be in the window: the newest message that may be sent, or pinned.

    A result in the form before tool calls is not: its call would be right before it.
    """
    functions = {row for row in apart if records.roles[row] == FUNCTION}
    rows = reversed(range(records.front, len(records)))
    newest = next((row for row in rows if not records.unsent[row] and row not in functions), None)
    return newest in apart or not apart.isdisjoint(records.where(Flags.PINNED))


class _Group(msgspec.Struct):
    """A message with calls: its row and those of all its results, the links of its calls, and each one's newest result by
    its number. Results of calls that came with one id answer them in their order."""

    head: int
    links: Sequence[str]
    members: list[int]
    results: dict[int, int] = {}

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the calls without a result."""
        return tuple(number for number in range(len(self.links)) if number not in self.results)

    def answered(self, link: str) -> int:
        """The number of the call with this link that a further result answers."""
        alike = [number for number, each in enumerate(self.links) if each == link]
        return next((number for number in alike if number not in self.results), alike[-1])


class _Read(msgspec.Struct):
    """The tail's tool groups, and the results that are ``apart``: without their call here, or with a newer result. The rest
    is as in ``Order``. All are rows of the log."""

    groups: list[_Group] = []
    apart: set[int] = set()
    interrupted: dict[int, tuple[int, int]] = {}
    brings: dict[int, Sequence[int]] = {}


def _read(records: Records, *, is_whole: bool) -> _Read:
    """A result in the form before tool calls has no id. It answers the message right before it, or nothing."""
    read, makers = _Read(), dict[str, _Group]()
    leading = records.front + records.leading_results  # the call of results before this row may be before the tail
    before = -1  # the newest message that is no result
    newest: _Group | None = None  # if no other message that may be sent came behind its calls
    is_caller, left_out = callers(records).tolist(), records.having(Flags.LEFT_OUT)
    for row in range(records.front, len(records)):
        role = records.roles[row]
        if role not in RESULTS:
            before = row
            if newest is not None and newest.missing and not records.unsent[row]:
                read.interrupted[row] = newest.head, len(newest.missing)
            newest = newest if records.unsent[row] else None
            if is_caller[row]:
                read.groups.append(newest := _Group(row, links_in(records.details[row].links), [row]))
                makers |= dict.fromkeys(newest.links, newest)
            continue
        is_late, link = role == TOOL and bool(records.flags[row] & Flags.LATE), records.details[row].links
        maker = makers.get(link) if role == TOOL else newest
        if role == FUNCTION and maker is not None and (maker.head < row - 1 or records.calls[maker.head]):
            maker = None
        if maker is not None and not left_out[row]:
            number = maker.answered(link) if role == TOOL else 0
            read.apart |= {maker.results[number]} if number in maker.results else set()  # an older result of the call
            maker.results[number] = row
            if is_late or maker.head != before:
                read.brings[row] = [*maker.members]
            maker.members.append(row)
        elif left_out[row] or is_late or is_whole or row >= (leading if role == TOOL else records.front + 1):
            read.apart.add(row)
    return read


def _reordered(history: History, read: _Read, *, drops: bool) -> History:
    records, apart = history.records, read.apart
    answers = {result: group.head for group in read.groups for result in group.results.values()}
    heads = [answers.get(row, row) for row in range(len(records))]
    log_rows = sorted(range(len(records)), key=lambda row: (heads[row], row))
    row_of: list[int] = np.argsort(log_rows).tolist()
    last_head = max((heads[row] for row in log_rows if row not in apart and not records.unsent[row]), default=-1)
    packed, flags = records.rows(), records.of_window().copy()
    packed[np.frombuffer(records.roles, np.uint8) >= TOOL, 0] &= 255 - Flags.LATE
    packed[list(apart), 0] |= Flags.LATE  # late are those that are left out
    missing: dict[Way, dict[int, Sequence[int]]] = {"line": {}, "dropped": {}, "gone": {}, "waiting": {}}
    for group in read.groups:
        if group.missing:
            way, row = _way(records, group, last_head, drops=drops), row_of[group.head]
            missing[way][row] = group.missing
            flags[group.head] |= WindowFlags.MENDED if way != "gone" else 0
            flags[log_rows[row + len(group.results)]] |= WindowFlags.GOES_ON if way == "line" else 0
            if way == "dropped" and len(group.results) == 1:
                packed[[*group.results.values()], 0] &= 255 - Flags.PARALLEL
    order = Order(
        original=history,
        missing=missing,
        late=frozenset(row_of[row] for row in read.brings.keys() - apart),
        interrupted=read.interrupted,
        brings=read.brings,
    )
    return msgspec.structs.replace(
        history,
        order=order,
        records=records.flagged(packed, flags).taken(np.array(log_rows)),
        seqs=[history.seqs[row] for row in log_rows],
        asked=row_of[history.asked] if history.asked >= 0 else -1,
    )


def _way(records: Records, group: _Group, last_head: int, *, drops: bool) -> Way:
    """What becomes of a group's missing results. ``last_head`` is the row of the last message that is sent, or calls."""
    if group.head == last_head:
        return "waiting"
    says = bool(records.tokens(0)[group.head])
    if not drops or not (records.calls[group.head] or says):  # a legacy call is all that its message has
        return "line"
    return "dropped" if group.results or says else "gone"
