"""The displaced messages, of which those that the sender still has are appended as the log had them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from sash.core.law.agree.chat_lines import REPLY, USER, ChatLines
from sash.core.law.agree.chat_units import WHOLE, Unit, compare, units_of


class Displaced:
    """The displaced messages, of which units are taken in order."""

    def __init__(self, log: ChatLines, at: int, sender: ChatLines) -> None:
        self._log = log
        self._at = at
        self._sender = sender
        self._ids: Mapping[str | None, int] = {}
        self._units: list[Unit] | None = None
        self._by_words: Mapping[tuple[str, str], list[int]] = {}
        self._next = 0
        self._taken: list[int] = []
        self._calls: set[str | None] | None = None

    def take(self, unit: Unit, *, is_part: bool) -> list[int]:
        """The indexes of the next displaced unit that is the same, with what no screen shows before it; empty if none is."""
        if self._at == len(self._log):
            return []
        if self._units is None:
            self._ids = {each.id: place for place, each in enumerate(self._sender) if each.id}
            self._units = units_of(self._log, self._at)
            self._by_words = _by_words(self._units)
        found = next((place for place in self._places(unit) if self._is_same(unit, place, is_part=is_part)), None)
        if found is None:
            return []
        first = self._units[found - 1].end if found else self._at
        self._next = found + 1
        return self._with_calls(range(first, self._units[found].end), self._units[found])

    def _places(self, unit: Unit) -> Sequence[int]:
        """The places of units that may be the same, from the next one on."""
        assert self._units is not None  # noqa: S101 - made before
        if unit.is_bare:
            return ()
        if unit.is_unfinished:
            return range(self._next, len(self._units))
        places = self._by_words.get((unit.kind, unit.of[0].words if unit.kind == USER else unit.words), [])
        unfinished = self._by_words.get((unit.kind, _UNFINISHED), [])
        return [place for place in sorted({*places, *unfinished}) if place >= self._next]

    def _is_same(self, unit: Unit, place: int, *, is_part: bool) -> bool:
        assert self._units is not None  # noqa: S101 - made before
        stored = self._units[place]
        if compare(unit, stored) != WHOLE or (stored.is_redacted and unit.is_bare):
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


_UNFINISHED: Final = "\0unfinished"


def _by_words(units: Sequence[Unit]) -> Mapping[tuple[str, str], list[int]]:
    """The places of units by their words, of a turn also by those of its last texts."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for place, unit in enumerate(units):
        if unit.kind == USER:
            found[USER, unit.of[0].words].append(place)
            continue
        if unit.is_unfinished:
            found[REPLY, _UNFINISHED].append(place)
        words = ""
        for _, text in reversed(unit.texts):
            words = text + words
            found[REPLY, words].append(place)
        if not words:
            found[REPLY, ""].append(place)
    return found
