"""A chat in units, and which units of two chats are the same.

A unit is a user's message, or a turn: all of the assistant's messages between two of the user's. The words of both decide. A
turn of the log may be shown as one text, as several, by its last texts, or by the first ones of a reply that is still being
written.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from sash.core.agree.chat_lines import REPLY, RESULT, SYSTEM, USER, Call, ChatLine
from sash.core.law.lazily import lazy


class Unit(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A user's message, or a turn. ``at`` are the places of its messages, ``of``, in their list."""

    kind: str
    at: list[int]
    of: list[ChatLine]

    @property
    def first(self) -> int:
        """The place of its first message."""
        return self.at[0]

    @property
    def end(self) -> int:
        """The place behind its last message."""
        return self.at[-1] + 1

    @lazy
    def texts(self) -> Sequence[tuple[int, str]]:
        """The words of each message that has some, with its place in the unit."""
        return [(place, each.words) for place, each in enumerate(self.of) if each.kind != RESULT and each.words]

    @lazy
    def words(self) -> str:
        """The words of all its messages."""
        return "".join(words for _, words in self.texts)

    @lazy
    def calls(self) -> Sequence[Call]:
        """All calls of its messages."""
        return [call for each in self.of for call in each.calls]

    @lazy
    def media(self) -> Sequence[str | None]:
        """The media of its messages, but for those of results."""
        return [medium for each in self.of if each.kind != RESULT for medium in each.media]

    @lazy
    def is_unfinished(self) -> bool:
        """Whether one of its replies is."""
        return any(each.is_unfinished for each in self.of)

    @lazy
    def is_bare(self) -> bool:
        """Whether it is a turn without a word, a call or a medium."""
        return self.kind == REPLY and all(each.is_bare or each.kind == RESULT for each in self.of)

    @lazy
    def is_redacted(self) -> bool:
        """Whether the content of one of its messages was erased."""
        return any(each.is_redacted for each in self.of)

    def since(self, place: int) -> "Unit":
        """The unit from one of its messages on."""
        return Unit(self.kind, self.at[place:], self.of[place:])


def units_of(messages: Sequence[ChatLine], start: int = 0) -> list[Unit]:
    """The units of messages from ``start`` on. System messages and hidden ones are in none, nor are results behind a later
    question, nor replies without a word that are complete."""
    found: list[Unit] = []
    for place in range(start, len(messages)):
        each, is_in_turn = messages[place], bool(found) and found[-1].kind == REPLY
        kind = each.kind
        if kind == SYSTEM or (kind == RESULT and not is_in_turn) or (not each.is_unfinished and each.is_bare):
            continue
        if kind == USER or not is_in_turn:
            found.append(Unit(USER if kind == USER else REPLY, [], []))
        found[-1].at.append(place)
        found[-1].of.append(each)
    return found


class Match(NamedTuple):
    """How a sender's unit is the same as the log's.

    ``cut``: the sender has the first texts of the log's, which goes on with message ``place`` of the unit. ``extend``: the
    log's has the first texts of the sender's, which goes on with message ``place``. ``longer``: the sender's has more of the
    reply that was interrupted, whose whole ``text`` it is.
    """

    how: str
    place: int = 0
    text: str = ""


WHOLE: Final = Match("whole")


def compare(sent: Unit, stored: Unit) -> Match | None:
    """How the sender's unit is the same as the log's; None where it is another."""
    if sent.kind != stored.kind:
        return None
    if sent.kind == USER:
        is_same = sent.of[0].text == stored.of[0].text or sent.of[0].words == stored.of[0].words
        return WHOLE if is_same and same_media(sent.media, stored.media) else None
    if len(sent.of) == len(stored.of) == 1 and not sent.calls and sent.of[0].text == stored.of[0].text != "":
        return WHOLE  # as nearly always
    return _compare_turns(sent, stored)


def same_media(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    """Whether these may be the same media: as many, and no two of which both digests are known and differ."""
    return len(one) == len(other) and all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def _compare_turns(sent: Unit, stored: Unit) -> Match | None:
    known = _known(stored.of)
    if sent.calls and stored.calls and not any(_is_known(call, known) for call in sent.calls):
        return None
    if not (sent.words or stored.words or sent.calls or stored.calls):
        is_same = same_media(sent.media, stored.media)
        return WHOLE if is_same and (stored.media or stored.is_unfinished or stored.is_redacted) else None
    if sent.words == stored.words or _is_end(sent.words, stored.texts):
        return _with_new_calls(sent, stored, known)
    return _compare_beginnings(sent, stored) or _first_texts(sent, stored)


def _known(messages: Sequence[ChatLine]) -> frozenset[str]:
    """The ids of all calls, and what they call."""
    return frozenset(word for each in messages for call in each.calls for word in call if word)


def _is_known(call: Call, known: frozenset[str]) -> bool:
    return call[0] in known or call[1] in known


def _with_new_calls(sent: Unit, stored: Unit, known: frozenset[str]) -> Match:
    """The same turn; where the sender's ends with calls that the log's does not have, it goes on with these."""
    new = (place for place, each in enumerate(sent.of) if not all(_is_known(call, known) for call in each.calls))
    place = next(new, 0) if stored.calls else 0
    return Match("extend", place) if place and all(at < place for at, _ in sent.texts) else WHOLE


def _is_end(words: str, texts: Sequence[tuple[int, str]]) -> bool:
    """Whether these words are those of the last texts, from any one on."""
    rest = words
    for _, text in reversed(texts):
        if not rest.endswith(text):
            return False
        rest = rest[: len(rest) - len(text)]
        if not rest:
            return True
    return False


def _begins(words: str, stored: Unit) -> bool:
    """Whether all texts, or the last one, begin with these words."""
    return stored.words.startswith(words) or stored.texts[-1][1].startswith(words)


def _compare_beginnings(sent: Unit, stored: Unit) -> Match | None:
    """The match of two turns of which one is unfinished, and the shorter words are the beginning of the longer ones."""
    words, stored_words = sent.words, stored.words
    if (stored.is_unfinished or sent.is_unfinished) and stored.texts and _begins(words, stored):
        return WHOLE
    if not stored.is_unfinished or not words.startswith(stored_words) or len(sent.texts) > max(1, len(stored.texts)):
        return None
    before = sum(len(text) for _, text in stored.texts[:-1])
    texts = [sent.of[place].text for place, _ in sent.texts]
    if len(texts) == max(1, len(stored.texts)):
        return Match("longer", text=texts[-1])
    return Match("longer", text=_behind("".join(texts), before))


def _behind(text: str, count: int) -> str:
    """The text behind its first ``count`` characters that are no white space."""
    for place, sign in enumerate(text):
        if not count:
            return text[place:].lstrip()
        count -= not sign.isspace()
    return ""


def _first_texts(sent: Unit, stored: Unit) -> Match | None:
    """The match of a turn with another that has only its first texts, or none of them, but its first calls."""
    place = _behind_words(stored, sent.words)
    known = _known(stored.of[:place])
    if place and (sent.words or sent.calls) and all(_is_known(call, known) for call in sent.calls):
        return Match("cut", place)
    place = _behind_words(sent, stored.words)
    return Match("extend", place) if place and (stored.words or (stored.calls and sent.calls)) else None


def _behind_words(unit: Unit, words: str) -> int:
    """The place of the text in a turn before which it has these words; 0 if there is none, or it is the first message."""
    before = accumulate((text for _, text in unit.texts), initial="")
    return next((place for (place, _), said in zip(unit.texts, before, strict=False) if said == words), 0)
