"""The displaced messages, of which those that the sender still has are appended as the log had them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sash.core.agree.chat_lines import ChatLines
from sash.core.agree.chat_units import WHOLE, Unit, compare, units_of
from sash.core.law.lazily import lazy

_UNFINISHED: Final = "\0unfinished"


class Displaced:
    """The displaced messages: those of the log from ``at`` on. Their units are taken in order."""

    def __init__(self, log: ChatLines, at: int, sender: ChatLines) -> None:
        self._log = log
        self._at = at
        self._sender = sender
        self._next = 0
        self._taken: list[int] = []
        self._calls: set[str | None] | None = None

    @lazy
    def _units(self) -> Sequence[Unit]:
        return units_of(self._log, self._at)

    @lazy
    def _ids(self) -> Mapping[str | None, int]:
        """The places of the sender's messages by their ids."""
        return {each.id: place for place, each in enumerate(self._sender) if each.id}

    @lazy
    def _by_words(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """The places of units by their words, of a turn also by those of its last texts."""
        found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for place, unit in enumerate(self._units):
            if unit.is_unfinished:
                found[unit.kind, _UNFINISHED].append(place)
            words = ""
            for _, text in reversed(unit.texts):
                words = text + words
                found[unit.kind, words].append(place)
            if not words:
                found[unit.kind, ""].append(place)
        return found

    def take(self, unit: Unit, *, is_part: bool) -> list[int]:
        """The indexes of the next displaced unit that is the same, with what no screen shows before it; empty if none is."""
        found = next((place for place in self._places(unit) if self._is_same(unit, place, is_part=is_part)), None)
        if found is None:
            return []
        first = self._units[found - 1].end if found else self._at
        self._next = found + 1
        return self._with_calls(range(first, self._units[found].end), self._units[found])

    def _places(self, unit: Unit) -> Sequence[int]:
        """The places of units that may be the same, from the next one on."""
        if unit.is_bare:
            return ()
        if unit.is_unfinished:
            return range(self._next, len(self._units))
        said = (self._by_words.get((unit.kind, words), ()) for words in (unit.words, _UNFINISHED))
        return sorted({place for places in said for place in places if place >= self._next})

    def _is_same(self, unit: Unit, place: int, *, is_part: bool) -> bool:
        stored = self._units[place]
        if compare(unit, stored) != WHOLE:
            return False
        if is_part and [words for _, words in unit.texts] != [words for _, words in stored.texts]:
            return False
        # An id that the list gives to another message stays that one's.
        mine = {*unit.at}
        return all(self._ids.get(each.id, unit.first) in mine for each in stored.of)

    def _with_calls(self, indexes: Sequence[int], unit: Unit) -> list[int]:
        """These messages, but for results that no turn has and whose call is gone."""
        kept = []
        for index in indexes:
            each = self._log[index]
            if each.answers is not None and index not in unit.at:
                if self._calls is None:
                    standing = [*self._log[: self._at], *(self._log[place] for place in self._taken)]
                    self._calls = {call[0] for one in standing for call in one.made_calls}
                if each.answers not in self._calls:
                    continue
            kept.append(index)
            self._taken.append(index)
            if self._calls is not None:
                self._calls |= {call[0] for call in each.made_calls}
        return kept
