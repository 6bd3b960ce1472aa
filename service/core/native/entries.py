"""Entries whose messages are a provider's own, as entries of chat messages.

An entry is a message, or wraps one to say more about it; for Responses ``message`` may be the list of a reply's items. What
is written as a chat message (a tool message, ``tool_calls``, an ``image_url`` part) is taken as one.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from service.core.bounds import LONGEST_ID
from service.core.messages import Entry, whole_numbers
from service.core.mistakes import invalid
from service.core.native import Turn, read_messages
from service.problems import BadRequest, Pointer, Problem

Object = dict[str, Any]

_CHAT_PARTS: Final = {
    "anthropic": frozenset({"image_url", "input_audio", "file"}),
    "responses": frozenset({"image_url", "text", "file"}),
}
_MEMBERS: Final = frozenset({"role", "type", "parts", "content"})
"""A bare message has one of them; what has none is an entry that is wrong."""
_PLACE: Final = re.compile(r"#/messages/(\d+)")


class NativeEntry(Entry, forbid_unknown_fields=True, kw_only=True):
    """An entry as a client appends it; ``message`` is a provider's, or the items of a reply."""

    message: Object | list[Object]  # type: ignore[assignment] # an entry's is an object alone


class ReadEntries(msgspec.Struct, frozen=True):
    """Entries of chat messages; ``places`` are those of the client's entries that they were made of.

    A problem that is raised in a ``with`` block of it is said of the client's entries.
    """

    entries: list[Entry]
    places: list[int]
    sent: int
    """How many entries the client sent."""

    def __enter__(self) -> None:
        """Begin to work with the entries."""

    def __exit__(self, _kind: object, problem: object, _trace: object) -> None:
        """Say a problem of the client's entries."""
        if isinstance(problem, Problem):
            problem.detail = _PLACE.sub(self._placed, problem.detail)
            problem.errors = tuple(Pointer(_PLACE.sub(self._placed, e.pointer), e.detail) for e in problem.errors)

    def _placed(self, found: re.Match[str]) -> str:
        index = int(found[1])
        return f"#/messages/{self.places[index] if index < len(self.places) else index}"


class _Message(msgspec.Struct, frozen=True):
    """One message of the client's; ``place`` is its entry's."""

    value: Any
    pointer: str
    place: int


def read_entries(form: str, values: Sequence[Object], prefix: str = "/messages") -> ReadEntries:
    """The entries of a request's ``values``. Raises BadRequest, InvalidEntry."""
    given = [_entry(value, f"{prefix}/{place}") for place, value in enumerate(values)]
    messages = [
        message for place, entry in enumerate(given) for message in _messages(entry, values[place], place, prefix)
    ]
    entries: list[Entry] = []
    places: list[int] = []
    counts: dict[int, int] = {}
    for run in _runs(form, messages):
        for turn in run[1]:
            sources = sorted({message.place for message in run[0][turn.first : turn.last + 1]})
            named = next((place for place in sources if given[place].id is not None), sources[0])
            number = counts.get(named, 0)
            counts[named] = number + 1
            entries.append(_chat_entry(turn.message, [given[place] for place in sources], given[named].id, number))
            places.append(sources[0])
    _ground(entries, places, given)
    return ReadEntries(entries, places, len(values))


def _entry(value: Object, pointer: str) -> NativeEntry:
    if "message" not in value and (value.keys() & _MEMBERS or value.keys() == {"id"}):
        return NativeEntry(message=value)
    try:
        return msgspec.convert(whole_numbers(value), NativeEntry)
    except msgspec.ValidationError as error:
        raise invalid(error, pointer, BadRequest, of=NativeEntry, value=lambda: value) from None


def _messages(entry: NativeEntry, value: Object, place: int, prefix: str) -> list[_Message]:
    pointer = f"{prefix}/{place}/message" if "message" in value else f"{prefix}/{place}"
    if isinstance(entry.message, list):
        return [_Message(each, f"{pointer}/{index}", place) for index, each in enumerate(entry.message)]
    return [_Message(entry.message, pointer, place)]


def _runs(form: str, messages: Sequence[_Message]) -> list[tuple[list[_Message], list[Turn]]]:
    """Neighbours that are the provider's, with the chat messages that they become; and each chat message by itself."""
    runs: list[tuple[list[_Message], list[Turn]]] = []
    native: list[_Message] = []
    for message in messages:
        if is_chat(form, message.value):
            runs += _read(form, native)
            native = []
            runs.append(([message], [Turn(message.value, 0, 0)]))
        else:
            native.append(message)
    return runs + _read(form, native)


def _read(form: str, messages: list[_Message]) -> list[tuple[list[_Message], list[Turn]]]:
    if not messages:
        return []
    values, pointers = [message.value for message in messages], [message.pointer for message in messages]
    return [(messages, read_messages(form, values, pointers))]


def is_chat(form: str, message: Mapping[str, Any]) -> bool:
    """Whether a message can only be a chat message."""
    if "tool_calls" in message or "native" in message or message.get("role") == "tool":
        return True
    content = message.get("content")
    if form == "gemini":
        return content is not None and "parts" not in message
    if form == "anthropic" and message.get("role") == "developer":
        return True
    parts = [part.get("type") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return any(part in _CHAT_PARTS[form] for part in parts if isinstance(part, str))


def _chat_entry(message: Object, sources: Sequence[NativeEntry], identity: str | None, number: int) -> Entry:
    """The entry of a chat message that was made of ``sources``, the ``number``-th under this id."""
    metadata = {key: value for source in sources for key, value in (source.metadata or {}).items()}
    return Entry(
        message=message,
        id=derived_id(identity, number) if identity is not None else None,
        pinned=any(source.pinned for source in sources),
        status=sources[-1].status,
        metadata=metadata if metadata and number == 0 else None,
    )


def derived_id(identity: str, number: int) -> str:
    """The id of an entry's ``number``-th message: the entry's own, then ``m-7.1`` and so on.

    >>> derived_id("m-7", 0), derived_id("m-7", 2)
    ('m-7', 'm-7.2')
    """
    if number == 0:
        return identity
    derived = f"{identity}.{number}"
    if len(derived) <= LONGEST_ID:
        return derived
    return f"{identity[:80]}.{blake2b(identity.encode(), digest_size=8).hexdigest()}.{number}"


def _ground(entries: list[Entry], places: list[int], given: list[NativeEntry]) -> None:
    """Put documents and sizes of images where their entry's user message is; its first message where there is none."""
    for place, source in enumerate(given):
        if source.grounding is None and source.image_sizes is None:
            continue
        own = [entry for entry, its_place in zip(entries, places, strict=True) if its_place == place]
        users = [entry for entry in own if entry.message.get("role") == "user"]
        for entry in (users or own)[-1:]:
            entry.grounding, entry.image_sizes = source.grounding, source.image_sizes
