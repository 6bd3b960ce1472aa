"""The walk down both chats, unit by unit, until they differ."""

from collections.abc import Sequence
from typing import NamedTuple

from sash.core.agree.chat_lines import REPLY, RESULT, USER, ChatLine, ChatLines
from sash.core.agree.chat_units import WHOLE, Match, Unit, compare, units_of


class Longer(NamedTuple):
    """The displaced message at ``at`` of the log is appended with the sender's longer ``text``."""

    at: int
    text: str


class ChatWalk:
    """How far both lists agree: ``at`` is the first displaced message, ``left`` the first of the sender's units that is not
    in the log, ``part`` what an agreeing turn of the sender's has more."""

    def __init__(
        self, log: ChatLines, units: Sequence[Unit], start: int, alike: ChatLines, begins: ChatLine | None = None
    ) -> None:
        self.log = log
        self.begins = begins
        self.units = units
        self.own = units_of(log, start)
        self.start = start
        self.alike = alike
        self.at = len(log)
        self.left = 0
        self.agreed = alike.counted()
        self.part: Unit | None = None
        self.longer: Longer | None = None
        self.results: list[int] = []
        self.is_within = True
        """Whether it did not come to the last unit of the log, which may go on behind what was read."""
        self._answered = {each.answers for each in log[start:] if each.kind == RESULT or each.is_hidden}
        self._walk()

    @property
    def new(self) -> list[Unit]:
        """The sender's units that are not in the log."""
        return [*([self.part] if self.part else ()), *self.units[self.left :]]

    def _walk(self) -> None:
        own, place = self.own, 0
        while self.left < len(self.units):
            unit = self.units[self.left]
            if unit.is_bare and (place == len(own) or own[place].kind == USER):
                self.left += 1
                continue
            if place == len(own):
                break
            stored = own[place]
            match = self._compare(unit, stored)
            if match is None:
                is_unseen = stored.kind == REPLY and unit.kind == USER and not stored.texts and not stored.media
                if is_unseen and place + 1 < len(own):
                    place += 1
                    continue
                break
            place += 1
            self.left += 1
            if match == WHOLE and self.left == len(self.units):
                match = self._without_half(unit, stored)
            if not self._take(unit, stored, match, is_last=place == len(own)):
                self.is_within = place < len(own)
                return
        if place < len(own):
            self.at = own[place].first
        self.is_within = place < len(own) - 1

    def _compare(self, unit: Unit, stored: Unit) -> Match | None:
        """How the next units are the same. A screen may still show words that were erased, but for those of its last
        question, which may be a new one."""
        is_erased = stored.is_redacted and unit.kind == stored.kind and self.left + 1 < len(self.units)
        return WHOLE if is_erased else compare(unit, stored)

    def _without_half(self, unit: Unit, stored: Unit) -> Match:
        """How the sender's last turn is the same as the log's, where it begins a reply behind that: half a reply that the
        turn does not have makes room for the new one."""
        half, begins = stored.of[-1], self.begins
        if begins is None or stored.kind != REPLY or not (half.is_unfinished and half.words):
            return WHOLE
        is_missing = unit.words + half.words == stored.words and half.id != begins.id
        return Match("cut", len(stored.of) - 1) if is_missing else WHOLE

    def _take(self, unit: Unit, stored: Unit, match: Match, *, is_last: bool) -> bool:
        """Take in a unit that is the same; gives whether both lists go on behind it."""
        self._note_results(unit, stored, match)
        if match.how == "cut":
            self.at = stored.at[match.place]
            self.agreed += match.place
            return False
        self.agreed += len(stored.of)
        if match.how == "extend":
            self.part, self.at = unit.since(match.place), stored.end
            return False
        if match.how == "longer" and is_last:
            at = next(place for place in reversed(range(len(stored.of))) if stored.of[place].is_unfinished)
            if stored.of[at].status == "interrupted":
                self.longer = Longer(stored.at[at], match.text)
        return True

    def _note_results(self, unit: Unit, stored: Unit, match: Match) -> None:
        """Note the sender's results of calls that nobody answered."""
        until = match.place if match.how == "extend" else len(unit.of)
        results = [place for place in range(until) if unit.of[place].kind == RESULT]
        if not results:
            return
        calls = {call[0] for call in stored.calls}
        for place in results:
            answers = unit.of[place].answers
            if answers in calls and answers not in self._answered:
                self._answered.add(answers)
                self.results.append(unit.at[place])
