"""Pieces: the part of a provider's message that becomes one chat message."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Final, TypeVar

import msgspec

from sash.core.chat.mistakes import invalid
from sash.core.providers.messages.hosted import line_of, media_line
from sash.core.providers.messages.sharing import share

T = TypeVar("T")
Object = dict[str, Any]
_TEXTS: Final = frozenset({"text", "search_result", "input_text", "output_text"})
"""Types of parts with a text in a tool result."""
_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
SOUNDS: Final = frozenset(_SOUNDS.values())
"""The formats of sounds that chat messages have."""
Keeps = Callable[["Object"], bool]
"""Whether a part of a tool result stays beside another text."""
Name = Annotated[str, msgspec.Meta(min_length=1)]


class Piece(msgspec.Struct, kw_only=True):
    """One chat message, with the provider's message that it was made of.

    ``own`` is the provider's message, or the part of it that became this chat message. ``at`` are the places of its parts in
    the whole message, where they do not follow the parts of the piece before. ``answers`` is the id of the call that a tool
    result answers. ``only`` names the kinds of part that cannot be sent to other providers. ``told`` are the kinds of the
    parts at these places, which other providers get as a line of text, or which some have no place for in a result.
    ``beside`` are the client's own members of the message, which are not sent. ``stands``: it is a compaction, which stands
    for all before it, and is a message of its own.
    """

    role: str
    own: Object
    parts: list[Object] = []
    calls: list[Object] = []
    answers: str = ""
    only: list[str] = []
    at: list[int] = []
    beside: Sequence[tuple[str, str, Any]] = ()
    told: dict[int, str] = {}
    stands: bool = False

    def add_text(self, text: str) -> None:
        """Add a text to the chat message."""
        if text:
            self.parts.append({"type": "text", "text": text})

    def add_told(self, kind: str, part: Object) -> None:
        """Add a part in place of a provider's own part of this kind."""
        self.told[len(self.parts)] = kind
        self.parts.append(part)

    def add_medium(self, kind: str, part: Object) -> None:
        """Add a picture, a file or a sound: a line in a reply, where other forms have no place for it."""
        if self.role == "user":
            self.parts.append(part)
        else:
            self.add_told(kind, part if self.role == "tool" else {"type": "text", "text": media_line(part)})

    def tell(self, kind: str, part: Mapping[str, Any]) -> None:
        """Add the line that tells a hosted tool's part, for other providers; without words, only its own can have it."""
        if line := line_of(part, kind):
            self.add_told(kind, {"type": "text", "text": line})
        else:
            self.only.append(kind)

    def lines(self) -> list[bool]:
        """For each part, whether it is a line that tells a provider's own part."""
        return [place in self.told and "text" in part for place, part in enumerate(self.parts)]

    def without_told(self) -> "Piece":
        """The piece as it was read before parts were told: they are only their own provider's."""
        parts = [part for place, part in enumerate(self.parts) if place not in self.told]
        return msgspec.structs.replace(self, parts=parts, only=[*self.only, *self.told.values()], told={})

    def add_call(self, identity: str, name: str, arguments: str, *, custom: bool = False) -> None:
        """Add a call to the chat message."""
        kind, member = ("custom", "input") if custom else ("function", "arguments")
        self.calls.append({"id": identity, "type": kind, kind: {"name": name, member: arguments}})


def chat_message(form: str, pieces: Sequence[Piece], place: tuple[int, int] = (0, 1)) -> Object:
    """Return the chat message of a piece, or of neighbouring pieces of the assistant, with its ``native`` member.

    ``place`` is the piece's index among the pieces of its message, and their number.
    """
    first = pieces[0]
    message: Object = {"role": first.role}
    if first.role == "tool":
        message["tool_call_id"] = first.answers
    parts = [part for piece in pieces for part in piece.parts]
    message["content"] = content_of(parts, empty=None if first.role == "assistant" else "")
    if calls := [call for piece in pieces for call in piece.calls]:
        message["tool_calls"] = calls
    native: Object = {"format": form, "messages": share([piece.own for piece in pieces], message)}
    if place[1] > 1:
        native["piece"] = list(place)
    if first.at:
        native["at"] = first.at
    told = [place for place, line in enumerate(line for piece in pieces for line in piece.lines()) if line]
    if told:
        native["told"] = told
    if only := sorted({kind for piece in pieces for kind in piece.only}):
        native["only"] = only
    if beside := [[f"{at}/{path}", name, value] for at, one in enumerate(pieces) for path, name, value in one.beside]:
        native["beside"] = beside
    return message | {"native": native}


def content_of(parts: list[Object], empty: str | None) -> Any:
    """Return the content of a chat message with these parts: a lone text as it is, without parts ``empty``."""
    match parts:
        case []:
            return empty
        case [{"type": "text", "text": text}]:
            return text
        case _:
            return parts


def convert(value: Any, kind: type[T], pointer: str) -> T:
    """Return the members of a provider's object that Sash reads. Raises InvalidEntry with the place below ``pointer``."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise invalid(pointer, of=kind, value=value) from None


def to_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return msgspec.json.encode(value).decode()


def data_url(media_type: str, data: str) -> str:
    """Return base64 as a data URL; the URL-safe alphabet, which some SDKs write, becomes the usual one."""
    return f"data:{media_type};base64,{_usual(data)}"


def _usual(data: str) -> str:
    """Return base64 in its usual alphabet."""
    return data.replace("-", "+").replace("_", "/")


def file_part(**file: Any) -> Object:
    """Return a file in chat form, without the members that are None."""
    return {"type": "file", "file": {name: value for name, value in file.items() if value is not None}}


def medium_part(
    kind: str, media_type: str, *, data: str | None = None, uri: str = "", filename: str | None = None
) -> Object:
    """Return a medium in chat form, from its base64 or its address. ``kind`` is ``image``, ``audio`` or another word."""
    if kind == "audio" and data is not None and (form := _SOUNDS.get(media_type)):
        return {"type": "input_audio", "input_audio": {"data": _usual(data), "format": form}}
    url = uri if data is None else data_url(media_type, data)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    return file_part(file_id=url) if data is None else file_part(filename=filename, file_data=url)


Read = Callable[[Object, Piece, str], None]
"""Reads one part of a message, at this pointer, into a piece."""


def read_turn(
    role: str,
    own: Object,
    key: str,
    parts: Sequence[Object],
    pointer: str,
    *,
    is_result: Callable[[Object], bool],
    read_result: Read,
    read_part: Read,
    stands: Callable[[Object], bool] = lambda _: False,
    is_behind: Callable[[Object], bool] = lambda _: False,
) -> list[Piece]:
    """Return the pieces of a message: one for each of the user's tool results, then one for the other parts.

    ``parts`` are the member ``key`` of the message ``own``. If the pieces change their order, each has its places in ``at``.
    A part of the assistant's that ``stands`` for all before it is a piece, too, and so are the parts around it. A part that
    ``is_behind`` another belongs to it.
    """
    results: list[list[int]] = []
    others: list[int] = []
    for index, part in enumerate(parts):
        if role == "user" and is_result(part):
            results.append([index])
        elif results and results[-1][-1] == index - 1 and is_behind(part):
            results[-1].append(index)
        else:
            others.append(index)
    if role == "assistant" and any(map(stands, parts)):
        said = [[*run] for _, run in groupby(others, lambda index: index if stands(parts[index]) else -1)]
    else:
        said = [others] if others or not results else []
    groups = [*results, *said]
    pieces = []
    for number, group in enumerate(groups):
        is_answer = number < len(results)
        held = {**own, key: [parts[index] for index in group]} if len(groups) > 1 or results else own
        piece = Piece(role="tool" if is_answer else role, own=held)
        piece.stands = role == "assistant" and len(group) == 1 and stands(parts[group[0]])
        for index in group:
            (read_result if is_answer else read_part)(parts[index], piece, f"{pointer}/{index}")
        pieces.append(piece)
    order = [index for group in groups for index in group]
    if order != sorted(order):
        for piece, group in zip(pieces, groups, strict=True):
            piece.at = group
    return pieces


class Text(msgspec.Struct):
    """A part of which Sash reads the text."""

    text: str


def rest_of(request: Mapping[str, Any], *known: str) -> Object:
    """Return the members of a request that are not ``known``."""
    return {name: value for name, value in request.items() if name not in known}


def has_part(message: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    """Return whether a part of the message's content has one of these types."""
    content = message.get("content")
    types = (part.get("type") for part in content if isinstance(part, dict)) if isinstance(content, list) else ()
    return any(isinstance(kind, str) and kind in kinds for kind in types)


def result_content(given: Any, text: str, kind: str, keeps: Keeps) -> Any:
    """The content of a result with one text in place of all its parts, except those that stay."""
    is_list = isinstance(given, list) and all(isinstance(part.get("type"), str) for part in given)
    parts = given if is_list else []
    places = [index for index, part in enumerate(parts) if part["type"] in _TEXTS]
    marks = [{"cache_control": parts[index]["cache_control"]} for index in places if "cache_control" in parts[index]]
    others = [part for part in parts if part["type"] not in _TEXTS and keeps(part)]
    if not (others or marks):
        return text
    place = places[0] if places else 0
    return [*others[:place], {"type": kind, "text": text, **(marks[-1] if marks else {})}, *others[place:]]
