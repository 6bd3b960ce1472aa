"""What makes the log say what the sender's chat says: the messages that stay, and those that are appended.

::

    log      q1  a1 ─┬─ q2  a2            stays: q1 a1            displaced: q2 a2
    sender   q1  a1' └─ q2' a2            appended: q2' of the sender's, a2 as the log had it

A walk compares both, unit by unit, until they differ. What is behind that in the log is displaced. Of the sender's rest, a
unit that is the same as a displaced one is appended as the log had it, so that no poorer copy replaces a richer message.
Ids decide nothing about words: an edited question keeps its id, and a reply that is shown has another.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, takewhile
from typing import Final, NamedTuple

import msgspec

from sash.core.agree.chat_lines import REPLY, RESULT, SYSTEM, USER, ChatLine, ChatLines
from sash.core.agree.chat_units import WHOLE, compare, units_of
from sash.core.agree.chat_walk import ChatWalk, Longer
from sash.core.agree.displaced import Displaced
from sash.core.agree.ways import Way, Ways, joined


class Given(NamedTuple):
    """The sender's message at ``place`` is appended."""

    place: int


class Carried(NamedTuple):
    """The displaced message at ``at`` of the log is appended as it is."""

    at: int


Piece = Given | Carried | Longer


class Agreement(msgspec.Struct, frozen=True):
    """What makes the log agree. The first ``keep`` messages stay, the others are displaced, then ``pieces`` are appended.

    ``agreed`` messages of the log are the sender's. ``ignored`` are the places of the sender's system messages that are in
    neither. ``system`` is the conversation's new system prompt, None where it stays. ``begun`` is the index of the begun
    reply, where it stands already. ``taken`` are the branches that the sender's chat goes on in: all indexes are those of
    the log with these at its end.
    """

    agreed: int
    keep: int
    pieces: tuple[Piece, ...] = ()
    ignored: tuple[int, ...] = ()
    system: str | None = None
    begun: int | None = None
    taken: tuple[Way, ...] = ()

    def branch_of(self, seq: int) -> int:
        """The number of the branch that has the message ``seq`` of the log with ``taken``; 0 for the log itself."""
        return next((each.number for each in reversed(self.taken) if each.after_seq < seq), 0)


class AskWays(msgspec.Struct, frozen=True):
    """The lists part, and the chat may go on in a branch: the branches are needed."""


class More(msgspec.Struct, frozen=True):
    """The log that was read ends too early: all of it is needed."""


class IsPart(msgspec.Struct, frozen=True):
    """The list begins in the middle of the chat, and does not say so."""


ANYWHERE: Final = -1
"""The list is the end of the chat; it begins where its first message stands."""


def agree(
    log: ChatLines,
    sender: ChatLines,
    *,
    base: int | None = None,
    is_whole: bool = False,
    is_all: bool = True,
    system: str | None = None,
    opening: Sequence[ChatLine] | None = None,
    ways: Ways | None = None,
) -> Agreement | More | IsPart | AskWays:
    """Return what makes ``log`` agree with the ``sender``'s list.

    The list begins behind ``base`` messages of the log; None: it is the whole chat, which ``is_whole`` says expressly;
    ``ANYWHERE``: it is the chat's end, and the log may lack its beginning. ``is_all`` is false where more of the log was not
    read. ``system`` is the conversation's system prompt, and ``opening`` the first messages of a log that lacks them.
    ``ways`` are the branches; None where they were not read.
    """
    begins = sender[-1] if sender and sender[-1].status == "in_progress" and sender[-1].is_bare else None
    listed = sender if begins is None else sender.before(len(sender) - 1)
    if base == ANYWHERE:
        start = _anchor(log, listed, is_all=is_all)
        if start is None:
            return More()
        is_all = True
    else:
        start = base or 0
    alike = _alike(log, listed, start)
    walk = ChatWalk(log, units_of(listed, alike), start + alike, listed.before(alike), begins)
    if walk.left < len(walk.units) and walk.part is None and (is_all or walk.is_within):
        if ways is None:
            return AskWays()
        if (way := ways.next(walk.at, walk.units[walk.left])) is not None:
            base, opening = None if base is None else start, log if opening is None else opening
            log, ways = joined(log, walk.at, way), ways.along(way)
            return agree(log, sender, base=base, is_whole=True, system=system, opening=opening, ways=ways)
    is_doubtful = base is None and not is_whole and not walk.agreed and bool(walk.units and log)
    if is_doubtful and any(compare(walk.units[0], each) == WHOLE for each in units_of(log)[1:]):
        return IsPart()
    if not is_all and (is_doubtful or not walk.is_within or walk.left < len(walk.units)):
        return More()
    return _Pieces(walk, sender).agreement(system, log if opening is None else opening, ways.taken if ways else ())


def _alike(log: ChatLines, sender: ChatLines, start: int) -> int:
    """The number of messages at the start, up to a question, that are equal byte for byte. They need not be divided into
    units."""
    odd = (*sender.odd, *(place - start for place in log.odd if place >= start))
    count = max(0, min(len(sender), len(log) - start, *odd))
    stored, sent = log.bodies[start : start + count], sender.bodies[:count]
    if stored != sent:
        count = next(place for place, (one, other) in enumerate(zip(stored, sent, strict=True)) if one != other)
    return next((place for place in reversed(range(count)) if sender[place].kind == USER), 0)


def _anchor(log: ChatLines, sender: ChatLines, *, is_all: bool) -> int | None:
    """The place in the log of the first unit of a list that is the chat's end; behind the log where it is new.

    An id tells it, else the words: of a unit that a list of this length can reach. A lone question under an id that the log
    does not have is new, whatever was asked before; but it is the log's last one if that waits for its reply, and is the
    same: whoever asks again after a failure has no better id. None where more of the log is needed.
    """
    units = units_of(sender)
    if not units:
        return len(log)
    own = units_of(log)
    if not is_all and own and own[0].kind == REPLY:
        own = own[1:]  # which may have begun before
    first = units[0]
    if named := first.of[0].id:
        for each in reversed(own):
            if any(message.id == named for message in each.of):
                return each.first
        if len(units) == 1 and first.kind == USER:
            waiting = next((each for each in reversed(own) if not each.is_bare), None)
            return waiting.first if waiting is not None and compare(first, waiting) is not None else len(log)
    reach = len(units) + 1
    if not is_all and len(own) < reach:
        return None
    return next((each.first for each in reversed(own[-reach:]) if compare(first, each)), len(log))


class _Pieces:
    """The messages to append, behind those that stay."""

    def __init__(self, walk: ChatWalk, sender: ChatLines) -> None:
        self._walk = walk
        self._log = walk.log
        self._sender = sender
        self._listed = len(sender) - (walk.begins is not None)
        self._pieces: list[Piece] = []
        self._ignored: list[int] = []

    def agreement(self, system: str | None, opening: Sequence[ChatLine], taken: tuple[Way, ...]) -> Agreement:
        """What makes the log agree. ``opening`` are the first messages of the log."""
        walk, log, begun = self._walk, self._log, self._begun()
        keep = at = walk.at if begun is None else len(log)
        self._append(at)
        if walk.begins is not None and begun is None:
            self._pieces.append(Given(self._listed))
        while self._pieces and keep > walk.start and log[keep - 1].is_bare and log[keep - 1].is_unfinished:
            keep -= 1
        pieces: list[Piece] = [Given(place) for place in walk.results]
        if walk.longer is not None and walk.longer.at < keep == len(log):
            kept = [Carried(index) for index in range(walk.longer.at + 1, keep)]
            pieces, keep = [walk.longer, *kept, *pieces], walk.longer.at
        pieces += self._pieces
        while pieces and isinstance(pieces[0], Carried) and pieces[0].at == keep:
            keep, pieces = keep + 1, pieces[1:]
        prompt = _prompt(leading(self._sender), chain(opening, log), system or "")
        return Agreement(walk.agreed, keep, tuple(pieces), tuple(self._ignored), prompt, begun, taken)

    def _begun(self) -> int | None:
        """The index of the begun reply, where it stands already, at the place where the comparison ended."""
        walk, log = self._walk, self._log
        if walk.new or walk.begins is None or not walk.begins.id:
            return None
        return next((place for place in range(max(0, walk.at - 1), len(log)) if log[place].id == walk.begins.id), None)

    def _append(self, at: int) -> None:
        """Append the sender's units that are not in the log, each as the log had it where it was displaced."""
        walk, new = self._walk, self._walk.new
        first = max(len(walk.alike), len(leading(self._sender)))
        if not new:
            self._tell_agreed(range(first, self._listed), at)
            return
        behind = [first, *(unit.end for unit in walk.units[: walk.left] if unit.end <= new[0].first)][-1]
        self._tell_agreed(range(first, behind), at)
        displaced = Displaced(self._log, at, self._sender)
        standing = _Standing([*walk.alike, *self._log[walk.start : at]])
        for unit in new:
            kept = displaced.take(unit, is_part=unit is walk.part)
            standing.add([self._log[index] for index in kept])
            if unit is not walk.part:
                self._pieces += map(Given, standing.lacks(self._sender, range(behind, unit.first)))
            if kept:
                self._pieces += map(Carried, kept)
            elif not unit.is_bare:
                inside = standing.lacks(self._sender, range(unit.first, unit.end))
                self._pieces += map(Given, sorted({*unit.at, *inside}))
            behind = unit.end
        self._pieces += map(Given, standing.lacks(self._sender, range(behind, self._listed)))

    def _tell_agreed(self, places: range, at: int) -> None:
        """Note the system messages and late results among what agrees that the log does not have."""
        inside = {place for unit in self._walk.units[: self._walk.left] for place in unit.at}
        apart = [place for place in places if place not in inside and self._sender[place].kind in (SYSTEM, RESULT)]
        if not apart:
            return
        calls = {call[0] for each in self._log[:at] for call in each.calls}
        for place in _Standing(self._log).lacks(self._sender, apart):
            if self._sender[place].kind == SYSTEM:
                self._ignored.append(place)
            elif self._sender[place].answers in calls:
                self._walk.results.append(place)


class _Standing:
    """System messages and results that stand already."""

    def __init__(self, messages: Sequence[ChatLine]) -> None:
        self._texts: set[str] = set()
        self._answered: set[str | None] = set()
        self.add(messages)

    def add(self, messages: Sequence[ChatLine]) -> None:
        """Note more messages."""
        self._texts |= {each.text for each in messages if each.kind == SYSTEM and not each.is_hidden}
        self._answered |= {each.answers for each in messages if each.kind == RESULT or each.is_hidden}

    def lacks(self, sender: ChatLines, places: Sequence[int]) -> list[int]:
        """The places of the system messages and results of these that do not stand. Those of a unit are not asked."""
        return [place for place in places if self._is_new(sender[place])]

    def _is_new(self, each: ChatLine) -> bool:
        if each.kind == SYSTEM:
            return each.text not in self._texts
        return each.kind == RESULT and each.answers not in self._answered


def _prompt(said: Sequence[str], messages: Iterable[ChatLine], system: str) -> str | None:
    """The system prompt that the sender's first messages make; None where they are the log's own, or the present one."""
    if not said:
        return None
    standing = {each.text for each in messages if each.kind == SYSTEM and not each.is_hidden}
    prompt = "\n\n".join(said)
    return None if standing.issuperset(said) or prompt == system else prompt


def leading(messages: Sequence[ChatLine]) -> list[str]:
    """The texts of the system messages at the beginning."""
    return [each.text for each in takewhile(lambda each: each.kind == SYSTEM and not each.is_hidden, messages)]
