"""Recall: older messages that are relevant to the newest question.

* What it is for: what was said long ago, and matters again.
* When it can matter: with ``recall_max_tokens``, in conversations with recall.
* What wakes it: messages that a window leaves out.
* What it does: the best ones stand before the tail, or in a block, in a reserved part of the budget. A message is recalled
  with its whole tool group, and with its question or its answer, because an answer without its question is worth little. A
  unit that does not fit is skipped. Content that is already in the window is not recalled.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, ROLES, USER
from sash.core.law.records.figures import Explained
from sash.core.law.records.records import Records
from sash.core.law.records.units import Units, unit_at
from sash.core.stored.record import Flags, Record

BOUND = 20_000
"""The number of newest messages that recall searches."""
DEFAULT_RECALL_TEMPLATE = "Earlier in this conversation:\n{messages}"


def bound(length: int) -> int:
    """The seq of the oldest message that recall searches, in a history of ``length`` messages."""
    return max(1, length - BOUND + 1)


class Searched(msgspec.Struct, frozen=True):
    """The number and range of the searched messages; the range is null if none was searched."""

    messages: int
    first_seq: int | None
    last_seq: int | None


class Recollection(msgspec.Struct, frozen=True):
    """A window's recalled messages: a line for each, by seq, and their tokens.

    If they are not sent in their places, ``block`` is the message with all of them, which is sent behind the first ``place``
    messages of the window.
    """

    lines: Mapping[int, Explained]
    searched: Searched
    tokens: int = 0
    block: bytes = b""
    place: int = 0


class Candidate(msgspec.Struct, frozen=True):
    """Messages that are recalled together: the seqs of the found unit; and all, with those of its question or its answer."""

    score: float
    found: tuple[int, ...]
    seqs: tuple[int, ...]


def candidates(
    ranked: Iterable[tuple[int, float]], records: Records, first_seq: int, sent: AbstractSet[int]
) -> Iterator[Candidate]:
    """Candidates for recall, best first. ``ranked`` are places in ``records`` and scores, ``sent`` the window's seqs."""
    passed: set[int] = set()
    units = records.units
    for place, score in ranked:
        is_new = place not in passed and records.roles[place] > DEVELOPER
        if is_new and (unit := _unit_at(records, units, place)):
            passed.update(unit)
            found = range(first_seq + unit.start, first_seq + unit.stop)
            if sent.isdisjoint(found):
                companion = _companion(records, units, unit)
                others = range(first_seq + companion.start, first_seq + companion.stop)
                yield Candidate(score, (*found,), (*found, *[seq for seq in others if seq not in sent]))


def choose(
    wanted: Iterable[Candidate], room: int, records: Mapping[int, Record], costs: Mapping[int, int], said: set[bytes]
) -> list[Candidate]:
    """The best candidates that fit into ``room`` tokens. No content comes twice.

    ``said`` are digests of the contents that the window has already. ``costs`` are the messages' tokens by seq.
    """
    taken: list[Candidate] = []
    chosen: set[int] = set()
    for candidate in wanted:
        new = [seq for seq in candidate.seqs if seq not in chosen]
        tokens = sum(map(costs.__getitem__, new))
        repeats = len(candidate.found) == 1 and records[candidate.found[0]].content_digest in said
        if tokens <= room and not repeats:
            room -= tokens
            said |= {records[seq].content_digest for seq in new}
            chosen.update(new)
            taken.append(candidate)
    return taken


def explained(
    taken: Iterable[Candidate], records: Mapping[int, Record], costs: Mapping[int, int]
) -> dict[int, Explained]:
    """A line for each recalled message by ascending seq, with its score and its reason."""
    lines: dict[int, Explained] = {}
    for candidate in taken:
        score, found = round(candidate.score, 3), candidate.found[0]
        for seq in candidate.seqs:
            is_found, beside = seq in candidate.found, f"{'asked' if seq < found else 'answered'} with {found}"
            if is_found or seq not in lines:
                role, why = ROLES[records[seq].measure.role], "bears on the question" if is_found else beside
                lines[seq] = Explained(seq, role, costs[seq], kept=True, reason=f"recalled: {why}", score=score)
    return dict(sorted(lines.items()))


def _unit_at(records: Records, units: Units, place: int) -> range:
    """The places of a message's tool group, or the message's own place; empty if it may not be sent.

    A call at the end of ``records`` does not wait for its results: newer messages came after it.
    """
    index = unit_at(units, place)
    start, end = units.starts[index], units.starts[index + 1]
    calls = records.calls[start] or int(bool(records.flags[start] & Flags.LEGACY_CALL))
    is_whole = index not in units.broken and end - start > calls and records.roles[start] != FUNCTION
    return range(start, end) if is_whole else range(0)


def _companion(records: Records, units: Units, unit: range) -> range:
    """The places of a unit's question; for a question, those of its answer: the last unit before the next question."""
    roles = records.roles
    if roles[unit.start] != USER:
        question = roles.rfind(USER, 0, unit.start)
        is_sent = question >= 0 and records.sent_roles[question] == USER
        return range(question, question + 1) if is_sent else range(0)
    following = roles.find(USER, unit.stop)
    last = (following if following >= 0 else len(roles)) - 1
    answer = _unit_at(records, units, last) if last >= unit.stop else range(0)
    return answer if answer and roles[answer.start] == ASSISTANT else range(0)
