"""What is true of one screen's form, and the entries and units that each of them shows and reads."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from sash.core.chat.messages import Entry
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.reasoning_members import BLOCKS, PLAIN
from sash.core.providers.messages.sharing import restore

Object = dict[str, Any]
KEPT: Final = "sash"
"""The member of a message's metadata that is Sash's: of the screen's message what is told, of the entry what is kept."""
_WORDS: Final = ("text", "thinking", "reasoning", "summary")
"""Members with the words of a thought that a person can read."""


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A stored entry, as a screen is told of it. ``in_window``: whether a window has it; None where none was named."""

    seq: int
    id: str
    created_at: str
    message: Object
    status: str | None
    is_redacted: bool
    is_sent: bool
    metadata: Object
    documents: Sequence[tuple[str | None, str]] = ()
    in_window: bool | None = None

    @property
    def role(self) -> str:
        """Its message's role."""
        role: str = self.message["role"]
        return role

    @property
    def kept(self) -> Object:
        """What is kept of the screen's message beside the model's."""
        found = self.metadata.get(KEPT)
        return found if isinstance(found, dict) else {}


class ToldUnit(msgspec.Struct, frozen=True):
    """A user's message, or a turn. ``is_newest``: nothing stands behind it, so that its last calls still wait."""

    entries: Sequence[Told]
    is_newest: bool

    @property
    def is_users(self) -> bool:
        """Whether it is a user's message."""
        return self.entries[0].role == "user"

    def told(self) -> Object:
        """What ``metadata.sash`` says of it."""
        first, last = self.entries[0], self.entries[-1]
        found: Object = {"seq": first.seq, "last_seq": last.seq, "created_at": first.created_at}
        found["status"] = next((each.status for each in reversed(self.entries) if each.status), "completed")
        if any(each.is_redacted for each in self.entries):
            found["redacted"] = True
        if not all(each.is_sent for each in self.entries):
            found["sent"] = False
        said = [each for each in self.entries if each.role != "tool" and text_of(each)] or self.entries
        if said[-1].in_window is not None:
            found["in_window"] = said[-1].in_window
        return found

    def metadata(self) -> Object:
        """The metadata of its last entry that has some, with what is told of it."""
        own = ({name: each for name, each in one.metadata.items() if name != KEPT} for one in reversed(self.entries))
        return {**next((each for each in own if each), {}), KEPT: self.told()}


class ScreenForm(msgspec.Struct, frozen=True, kw_only=True):
    """One screen's form of a history."""

    name: str
    show: Callable[[ToldUnit, str], Sequence[Object]]
    """The screen's messages of a unit, none where a screen shows nothing. The text is the address of the service, with
    which paths of media become absolute."""
    read: Callable[[Object, str], Sequence[Entry]]
    """Reads one of the screen's messages at this pointer as entries. Raises BadRequest, Unprocessable."""
    stands_before: Callable[[Object], bool] = lambda _: False
    """Whether one of the screen's messages is none of a model's, and is kept with the one behind it."""


def units_of(entries: Sequence[Told], starts: Sequence[int], *, is_end: bool) -> Iterator[ToldUnit]:
    """The units of entries in order. ``starts`` are the seqs with which units begin, ascending. ``is_end``: the last one is
    the newest of the conversation. System messages are in none."""
    units: list[list[Told]] = [[] for _ in starts]
    for each in entries:
        place = bisect_right(starts, each.seq) - 1
        if place >= 0 and each.role not in ("system", "developer"):
            units[place].append(each)
    for place, unit in enumerate(units, 1):
        if unit:
            yield ToldUnit(unit, is_end and place == len(units))


def text_of(told: Told) -> str:
    """All text of an entry; that of a redacted one is empty."""
    return "".join(texts_of(told))


def texts_of(told: Told) -> Sequence[str]:
    """The texts of an entry, part by part, with a refusal; none of a redacted one."""
    if told.is_redacted:
        return ()
    content = told.message.get("content")
    parts: Sequence[Any] = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    found = [part.get(part["type"]) or "" for part in parts if part.get("type") in ("text", "refusal")]
    return [text for text in (*found, told.message.get("refusal") or "") if text]


def calls_of(told: Told) -> Sequence[tuple[str, str, str]]:
    """The id, the name and the arguments of each call that an entry makes. One in the old form has its entry's id."""
    found = [(call["id"], call[call["type"]]) for call in told.message.get("tool_calls") or ()]
    if old := told.message.get("function_call"):
        found.append((told.id, old))
    return [(identity, call["name"], call.get("arguments", call.get("input", ""))) for identity, call in found]


def results_of(unit: ToldUnit) -> Mapping[str, Told]:
    """The newest result of each call, by the call's id."""
    found: dict[str, Told] = {}
    caller = ""
    for each in unit.entries:
        if each.role == "tool":
            found[each.message["tool_call_id"]] = each
        elif each.role == "function":
            found[caller] = each
        caller = each.id
    return found


def waiting_of(unit: ToldUnit) -> Told | None:
    """The entry whose calls still wait for results: the newest turn's last, if it makes calls; else None."""
    said = [each for each in unit.entries if each.role == "assistant"]
    return said[-1] if unit.is_newest and said else None


def thought_of(told: Told) -> str:
    """The words of an entry's reasoning that a person can read, with blank lines between; empty if there are none."""
    if told.is_redacted:
        return ""
    message = told.message
    native = message.get("native")
    found: list[str] = []
    if isinstance(native, dict) and native.get("format") in PROVIDERS:
        kinds = PROVIDERS[native["format"]].kinds.reasoning
        with suppress(LookupError, TypeError, ValueError):  # a page has paths in place of media
            found = [text for own in restore(message) for text in _thoughts(own, kinds.has)]
    if not found:
        plain = next((message[name] for name in PLAIN if message.get(name)), message.get(BLOCKS))
        found = [plain] if isinstance(plain, str) else [*_words(plain)]
    return "\n\n".join(text for text in found if text)


def _thoughts(value: Any, is_thought: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    if isinstance(value, dict):
        if is_thought(value):
            yield "".join(_words(value))
        else:
            yield from (text for each in value.values() for text in _thoughts(each, is_thought))
    elif isinstance(value, list):
        yield from (text for each in value for text in _thoughts(each, is_thought))


def _words(value: Any) -> Iterator[str]:
    """The strings under members that have words."""
    match value:
        case dict():
            for name, each in value.items():
                if isinstance(each, str):
                    yield from [each] if name in _WORDS else []
                else:
                    yield from _words(each)
        case list():
            for each in value:
                yield from _words(each)
