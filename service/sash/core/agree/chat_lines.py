"""A message as a comparison of two chats reads it: what is seen of it, and what it calls or answers."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.calls import arguments_of, compact, functions_called
from sash.core.law.lazily import lazy
from sash.core.providers.reading.enclosures import Enclosure, enclosed
from sash.core.stored.details import Details
from sash.core.stored.split_media import name_of

USER: Final = "user"
REPLY: Final = "reply"
RESULT: Final = "result"
SYSTEM: Final = "system"
_KINDS: Final = {"user": USER, "assistant": REPLY, "tool": RESULT, "function": RESULT}
_TEXTS: Final = ("text", "refusal")
_DIGEST: Final = re.compile(r"(?:.*/media/)?([0-9a-f]{32})\Z")
"""What stands in a message in place of a large medium, or its address in the answers."""
UNFINISHED: Final = ("in_progress", "interrupted")

Call = tuple[str | None, str]
"""A call's id, and its name with its arguments without spaces."""


class ChatLine(msgspec.Struct, frozen=True, dict=True, kw_only=True, eq=False):
    """One message: of the sender's list, or of the log. What it says is read when it is asked for.

    ``is_hidden``: the sender does not see it. ``is_redacted``: its content was erased. ``body`` is the message as JSON, or
    the message itself. ``details`` are those of a stored one, which tell its id; ``named`` is that of another.
    """

    body: bytes | Mapping[str, Any]
    role: str
    named: str | None = None
    status: str | None = None
    is_hidden: bool = False
    is_redacted: bool = False
    details: Details | None = None

    @lazy
    def kind(self) -> str:
        """What it is for a comparison: a hidden message, as a system message, is in no unit."""
        return SYSTEM if self.is_hidden else _KINDS.get(self.role, SYSTEM)

    @property
    def id(self) -> str | None:
        """The entry's id, if it has one."""
        return self.named if self.details is None else self.details.identity.id

    @property
    def is_unfinished(self) -> bool:
        """Whether it is a reply that is being written, or was interrupted."""
        return self.status in UNFINISHED

    @lazy
    def message(self) -> Mapping[str, Any]:
        """The chat message."""
        return msgspec.json.decode(self.body) if isinstance(self.body, bytes) else self.body

    @lazy
    def text(self) -> str:
        """All of its text, with a refusal, as it was written; that of a redacted message is empty."""
        content = self.message.get("content")
        if self.is_redacted:
            return ""
        if type(content) is str:
            return content if "refusal" not in self.message else content + (self.message["refusal"] or "")
        parts = content if isinstance(content, list) else ()
        said = [part.get(part["type"]) or "" for part in parts if part.get("type") in _TEXTS]
        return "".join((*said, self.message.get("refusal") or ""))

    @lazy
    def words(self) -> str:
        """The text in its normal form: a reply's without white space, since screens join texts with any; else as it is.

        >>> ChatLine(body={"content": "let me  see\\n"}, role="assistant").words
        'letmesee'
        """
        text = self.text if self.text.isascii() else unicodedata.normalize("NFC", self.text)
        return "".join(text.split()) if self.kind == REPLY else text.replace("\r\n", "\n").strip()

    @property
    def calls(self) -> Sequence[Call]:
        """The calls that it is seen to make."""
        return () if self.is_hidden else self.made_calls

    @lazy
    def made_calls(self) -> Sequence[Call]:
        """The calls that it makes."""
        if self.role != "assistant" or not (self.message.get("tool_calls") or self.message.get("function_call")):
            return ()
        ids = [call.get("id") for call in self.message.get("tool_calls") or ()]
        called = functions_called(self.message)
        named = [f"{each.get('name')} {compact(arguments_of(each))}" for each in called]
        return tuple(zip((*ids, None)[: len(named)], named, strict=True))

    @property
    def answers(self) -> str | None:
        """The id of the call that it is the result of."""
        return self.message.get("tool_call_id") if _KINDS.get(self.role) == RESULT else None

    @lazy
    def media(self) -> Sequence[str | None]:
        """The digest of each picture or file, None where only an address is known."""
        found = [_digest(each) for each in enclosed({"content": self.message.get("content")})]
        return (*found, None) if self.kind == REPLY and self.message.get("audio") else tuple(found)

    @lazy
    def is_bare(self) -> bool:
        """Whether it is a reply without a word, a call or a medium."""
        if self.kind != REPLY or self.is_redacted:
            return False
        content = self.message.get("content")
        if type(content) is str and content.strip():
            return False  # as nearly always
        return not (self.words or self.calls or self.media)


def _digest(medium: Enclosure) -> str | None:
    """The digest of a medium that stands in the message, or that its address names."""
    head, _, data = medium.data.partition(",")
    held = data if head.startswith("data:") else medium.data if medium.kind == "audio" else ""
    found = _DIGEST.match(held or medium.data)
    if found is not None:
        return found[1]
    return name_of(msgspec.json.encode(held)[1:-1]).hex() if held else None


class ChatLines(Sequence[ChatLine]):
    """A list's messages, each made when it is read, so that a long chat that agrees makes few.

    ``odd`` are the places of those that are unfinished, hidden or erased. ``encode`` returns all messages as JSON, and
    ``make`` the one at a place.
    """

    def __init__(
        self,
        encode: Callable[[], Sequence[bytes]],
        roles: Sequence[str],
        odd: frozenset[int],
        make: Callable[[int], ChatLine],
    ) -> None:
        self._encode = encode
        self.roles = roles
        self.odd = odd
        self._make = make
        self._made: dict[int, ChatLine] = {}

    @lazy
    def bodies(self) -> Sequence[bytes]:
        """The messages as JSON."""
        return self._encode()

    def before(self, end: int) -> "ChatLines":
        """The first messages, up to the place ``end``."""
        if end >= len(self):
            return self
        odd = frozenset(place for place in self.odd if place < end)
        return ChatLines(lambda: self.bodies[:end], self.roles[:end], odd, self.__getitem__)

    def counted(self) -> int:
        """The number of messages that are no system messages, where none is hidden."""
        return sum(map(_KINDS.__contains__, self.roles))

    def __len__(self) -> int:
        return len(self.roles)

    def __getitem__(self, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if place < 0 or place >= len(self):
            place = range(len(self))[place]
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = self._make(place)
        return found
