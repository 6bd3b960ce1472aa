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

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from sash.core.chat.tool_groups import links_in
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, TOOL
from sash.core.law.history.lines import Gap
from sash.core.law.history.view import History, Order
from sash.core.law.records.records import Records
from sash.core.law.records.units import callers, group_units, late_in
from sash.core.stored.record import RESULTS, Flags, WindowFlags
from sash.core.stored.runs import runs


def arranged(history: History, *, drops: bool) -> History | None:
    """The history in the order in which it is sent, itself if that is the log's; None if older messages are needed to tell.

    ``drops`` leaves calls without a result out, in place of a line as their result.
    """
    front = history.records.front
    if front and history.first_seq > 1 and _is_unfinished(history.records[:front], history.seqs[:front]):
        return None
    is_whole, records = history.is_whole, history.tail
    if not records.details or _is_in_order(records, is_whole=is_whole):
        return history
    groups, apart = _read(records, is_whole=is_whole)
    if not is_whole and (
        _newest(records, apart) in apart or any(records.flags[index] & Flags.PINNED for index in apart)
    ):
        return None  # a result that must be in the window: its call is before the tail
    return _reordered(history, groups, apart, drops=drops)


def last_reply(history: History) -> int | None:
    """The row of a reply that a request may end with; None without one.

    System messages stand first, and neither calls without results nor results without calls are sent: the reply before them
    is the last. A reply whose calls are left out has its words.
    """
    records, order = history.records, history.order
    gone, dropped = (order.gone, order.dropped) if order is not None else ({}, {})
    for row in reversed(range(len(records))):
        role = records.roles[row]
        is_apart = role >= TOOL and records.flags[row] & Flags.LATE
        if role > DEVELOPER and not records.unsent[row] and row not in gone and not is_apart:
            return row if role == ASSISTANT and (not records.calls[row] or row in dropped) else None
    return None


def _is_in_order(records: Records, *, is_whole: bool) -> bool:
    """Whether each result stands behind its call, and each call has its result. ``is_whole``: no message is before."""
    if records.plain:
        return True
    if records.marked or FUNCTION in records.roles:
        _, is_legacy = callers(records)
        is_answer = np.frombuffer(records.sent_roles, np.uint8) == FUNCTION
        if late_in(records) or (is_legacy[:-1] != is_answer[1:]).any() or is_legacy[-1] or (is_whole and is_answer[0]):
            return False
    return not group_units(records).lacks_results


def _newest(records: Records, apart: set[int]) -> int:
    """The index of the newest message that may be sent, whose call may be before the tail; -1 if there is none."""
    is_alone = (index for index in apart if records.roles[index] == FUNCTION)  # its call would be right before it
    unsent = bytearray(records.unsent)
    for index in is_alone:
        unsent[index] = 1
    return unsent.rfind(0)


class _Group(msgspec.Struct):
    """A message with calls: its index, the links of its calls, and the index of each one's newest result, by its number.

    Results of calls that came with one id answer them in their order. ``members`` are the indexes of the message and all
    results. ``late`` are the results that do not stand directly behind the message, or are not a call's first.
    """

    head: int
    links: Sequence[str]
    results: dict[int, int] = {}
    members: list[int] = []
    late: set[int] = set()

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers of the calls without a result."""
        return tuple(number for number in range(len(self.links)) if number not in self.results)

    def answered(self, link: str) -> int:
        """The number of the call with this link that a further result answers."""
        alike = [number for number, each in enumerate(self.links) if each == link]
        return next((number for number in alike if number not in self.results), alike[-1])


def _read(records: Records, *, is_whole: bool) -> tuple[list[_Group], set[int]]:
    """The tool groups, and the indexes of results that are apart: without their call here, or with a newer result.

    A result in the form before tool calls has no id. It answers the message right before it, or nothing.
    """
    groups: list[_Group] = []
    makers: dict[str, _Group] = {}
    apart: set[int] = set()
    leading = records.leading_results  # the call of these may be before the tail
    before = -1  # the newest message that is no result
    is_caller = np.logical_or(*callers(records)).tolist()
    for index, role in enumerate(records.roles):
        if role not in RESULTS:
            before = index
            if is_caller[index]:
                groups.append(group := _Group(index, links_in(records.details[index].links), members=[index]))
                makers |= dict.fromkeys(group.links, group)
            continue
        is_late = role == TOOL and bool(records.flags[index] & Flags.LATE)
        if records.left_out and records.left_out[index]:
            apart.add(index)
            continue
        link = records.details[index].links
        right_before = groups[-1] if groups and groups[-1].head == index - 1 and not records.calls[index - 1] else None
        maker = makers.get(link) if role == TOOL else right_before
        if maker is not None:
            number = maker.answered(link) if role == TOOL else 0
            apart |= {maker.results[number]} if number in maker.results else set()  # an older result of the call
            maker.results[number] = index
            maker.members.append(index)
            maker.late |= {index} if is_late or maker.head != before else set()
        elif is_late or is_whole or index >= (leading if role == TOOL else 1):
            apart.add(index)
    return groups, apart


def _reordered(history: History, groups: Sequence[_Group], apart: set[int], *, drops: bool) -> History:
    records, front, seqs = history.tail, history.records.front, history.seqs
    heads = list(range(len(records)))
    for group in groups:
        for result in group.results.values():
            heads[result] = group.head
    indexes = range(len(records))
    order = sorted(indexes, key=lambda index: (heads[index], index))
    row_of = {index: front + place for place, index in enumerate(order)}
    log_rows = [*range(front), *(front + index for index in order)]
    sent = (heads[index] for index in indexes if index not in apart and not records.unsent[index])
    lines, dropped, gone, waiting = _gaps(history, groups, max(sent, default=-1), row_of, drops=drops)
    rows, flags = history.records.rows(), history.records.of_window().copy()
    tail, tail_flags = rows[front:], flags[front:]
    tail[np.frombuffer(records.roles, np.uint8) >= TOOL, 0] &= 255 - Flags.LATE
    tail[list(apart), 0] |= Flags.LATE  # late are those that are left out
    for group in groups:
        if row_of[group.head] in dropped and len(group.results) == 1:
            tail[[*group.results.values()], 0] &= 255 - Flags.PARALLEL
    tail_flags[[order[row - front] for row in (*lines, *dropped, *waiting)]] |= WindowFlags.MENDED
    tail_flags[[order[gap.last - front] for gap in lines.values()]] |= WindowFlags.GOES_ON
    order_of = Order(
        original=history,
        log_rows=log_rows,
        heads=[*seqs[:front], *(seqs[front + heads[index]] for index in order)],
        lines=lines,
        dropped=dropped,
        gone=gone,
        waiting=waiting,
        late=frozenset(row_of[index] for group in groups for index in group.late - apart),
        interrupted=_interrupted(records, groups, front),
        brings={
            front + index: ([front + each for each in group.members if each < index], len(group.links))
            for group in groups
            for index in group.late
        },
    )
    return msgspec.structs.replace(
        history,
        order=order_of,
        records=history.records.flagged(rows, flags).taken(np.array(log_rows)),
        seqs=[seqs[row] for row in log_rows],
        asked=row_of.get(history.asked - front, history.asked),
    )


def _gaps(
    history: History, groups: Sequence[_Group], last_head: int, row_of: Mapping[int, int], *, drops: bool
) -> tuple[dict[int, Gap], ...]:
    """Calls without a result, by the row of their message, as ``Order`` has them: its lines, dropped, gone and waiting."""
    records = history.tail
    ways: tuple[dict[int, Gap], ...] = {}, {}, {}, {}
    lines, dropped, gone, waiting = ways
    for group in groups:
        if not group.missing:
            continue
        says = bool(records.tokens(0)[group.head])
        if group.head == last_head:
            way = waiting
        elif not drops or not (records.calls[group.head] or says):  # a legacy call is all that its message has
            way = lines
        else:
            way = dropped if group.results or says else gone
        row = row_of[group.head]
        way[row] = Gap(row + len(group.results), group.missing)
    return ways


def _interrupted(records: Records, groups: Sequence[_Group], front: int) -> dict[int, tuple[int, int]]:
    """The rows of messages that came while calls waited, each with the row of the message that called, and their number."""
    found: dict[int, tuple[int, int]] = {}
    heads = {group.head: group for group in groups}
    waiting = Counter[str]()
    caller = 0
    for index, role in enumerate(records.roles):
        if role in RESULTS:
            waiting -= Counter([records.details[index].links])
        elif not records.unsent[index]:
            if waiting:
                found[front + index] = front + caller, waiting.total()
            waiting = Counter(heads[index].links if index in heads else ())
            caller = index
    return found


def _is_unfinished(records: Records, seqs: Sequence[int]) -> bool:
    """Whether results are missing or late among messages before the tail, so that they cannot be sent as they are."""
    if records.plain:
        return False
    stretches = (records[seqs.index(first) : seqs.index(last) + 1] for first, last in runs(seqs))
    return any(not _is_in_order(run, is_whole=True) or bool(group_units(run).broken) for run in stretches)
