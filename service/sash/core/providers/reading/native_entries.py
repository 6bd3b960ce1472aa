"""Read entries with a provider's own messages as entries with chat messages.

An entry is a message, or an object with a message and facts about it. For Responses, ``message`` may be the list of a
reply's items. A message that is clearly a chat message (a tool message, ``tool_calls``, ``function_call``, an ``image_url``
part) is taken as one.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

import msgspec

from sash.core.chat.audiences import Party
from sash.core.chat.bounds import LONGEST_ID
from sash.core.chat.json_bodies import whole_numbers
from sash.core.chat.messages import ENVELOPE, MEMBERS, BareEntry, Entry, wrapped
from sash.core.chat.mistakes import invalid
from sash.core.chat.programs import recognise
from sash.core.providers import PROVIDERS
from sash.core.providers.form.known_kinds import unknown_kind
from sash.core.providers.messages.members import NO_NAMES, Names
from sash.core.providers.reading.native import Turn, compaction_of, read_messages
from sash.problems import BadRequest, Pointer, Problem

Object = dict[str, Any]

_CHAT_MEMBERS: Final = frozenset({"tool_calls", "function_call", "refusal", "native"})
_PLACE: Final = re.compile(r"#/messages/(\d+)(/message\b[\w/]*)?")


class NativeEntry(Entry, forbid_unknown_fields=True, kw_only=True):
    """An entry as a client appends it; ``message`` is a provider's message, or the items of a reply."""

    message: Object | list[Object]  # type: ignore[assignment] # Entry.message is an object


class ReadEntries(msgspec.Struct, frozen=True):
    """Entries with chat messages; ``places`` has, for each, the place of the client's entry that it was made of."""

    entries: Sequence[Entry]
    places: Sequence[int]
    are_chat: bool = False
    """Whether the client sent chat messages only."""
    are_made: bool = False
    """Whether the client's messages have other members than those that were made of them."""

    def point(self, problem: Problem) -> None:
        """Change the pointers of a problem to lead to the client's entries."""
        problem.detail = _PLACE.sub(self._placed, problem.detail)
        problem.errors = tuple(Pointer(_PLACE.sub(self._placed, e.pointer), e.detail) for e in problem.errors)

    def _placed(self, found: re.Match[str]) -> str:
        index, within = int(found[1]), found[2] or ""
        if index >= len(self.places):
            return found[0]
        entry = self.entries[index]
        if self.are_made or ("native" in entry.message and not self.are_chat):
            within = ""  # the client sent no chat message, so it has none of the chat form's members
        elif isinstance(entry, BareEntry):
            within = within.removeprefix("/message")
        return f"#/messages/{self.places[index]}{within}"


class _Placed(msgspec.Struct, frozen=True):
    """One message that the client sent; ``place`` is the place of its entry in the request."""

    value: Any
    pointer: str
    place: int


def chat_entries(entries: Sequence[Entry]) -> ReadEntries:
    """Return the entries of a request whose messages are chat messages."""
    return ReadEntries(entries, range(len(entries)), are_chat=True)


def read_entries(
    form: str,
    values: Sequence[Object],
    prefix: str = "/messages",
    send: Names = NO_NAMES,
    *,
    allowed: Sequence[str] = (),
) -> ReadEntries:
    """Return the entries of a request's ``values``. Raises BadRequest, InvalidEntry.

    ``send`` is as in ``read_messages``. ``allowed`` are kinds of items, blocks and parts that are taken though the provider
    is not known to have them; ``*`` are all.
    """
    given = [_entry(form, value, f"{prefix}/{place}") for place, value in enumerate(values)]
    messages = [
        message for place, entry in enumerate(given) for message in _messages(entry, values[place], place, prefix)
    ]
    entries: list[Entry] = []
    places: list[int] = []
    counts: dict[int, int] = {}

    def kind_of(message: _Placed) -> tuple[bool, Party]:
        return is_chat(form, message.value), _party_of(given[message.place])

    # Neighbours in the provider's form are read together, because several can become one chat message: of one party.
    for (are_chat, _), group in groupby(messages, key=kind_of):
        run = list(group)
        if are_chat:
            turns = [Turn(each.value, index, index) for index, each in enumerate(run)]
        else:
            turns = read_messages(
                form, [each.value for each in run], [each.pointer for each in run], send.union(allowed)
            )
            _refuse_unknown(form, run, allowed)
        for index, turn in enumerate(turns):
            sources = sorted({each.place for each in run[turn.first : turn.last + 1]})
            named = next((place for place in sources if given[place].id is not None), sources[0])
            number = counts.get(named, 0)
            counts[named] = number + 1
            kind = Entry if "native" in turn.message or "message" in values[named] else BareEntry
            entry = _chat_entry(kind, turn.message, [given[place] for place in sources], given[named].id, number)
            if (index + 1 < len(turns) and run[turns[index + 1].first].place == sources[-1]) or compaction_of(
                turn.message
            ):
                entry.status = None  # only the last message of an entry may still be written, and a compaction is whole
            entries.append(entry)
            places.append(sources[0])
    _ground(entries, places, given)
    return ReadEntries(entries, places)


def _party_of(entry: NativeEntry) -> Party:
    return Party(entry.author, tuple(sorted({*(entry.audience or ())})))


def _refuse_unknown(form: str, run: Sequence["_Placed"], allowed: Sequence[str]) -> None:
    if "*" in allowed:
        return
    provider = PROVIDERS[form]
    for each in run:
        for found in provider.unknown_kinds(provider.regular(each.value), each.pointer):
            if found.name not in allowed:
                raise unknown_kind(found)


def as_entry(form: str, value: Object) -> Object:
    """Return a message alone as an entry: what is the entry's stands beside the message. An entry is returned as it is.

    A reply's message or item has a type; an item that is an id alone refers to one. Its own members stay in it.
    """
    if "message" in value or not (value.keys() & (MEMBERS | PROVIDERS[form].shape.members) or value.keys() == {"id"}):
        return value
    is_of_reply = "type" in value or len(value) == 1
    return wrapped(value, ENVELOPE - PROVIDERS[form].of_reply if is_of_reply else ENVELOPE)


def _entry(form: str, value: Object, pointer: str) -> NativeEntry:
    entry = as_entry(form, value)
    if entry is not value and len(entry) == 1:
        return NativeEntry(message=entry["message"])
    given, value = value, entry
    try:
        return msgspec.convert(whole_numbers(value), NativeEntry)
    except msgspec.ValidationError:
        if program := recognise(given) or recognise(given.get("message")):
            raise program.refused(pointer) from None
        raise invalid(pointer, BadRequest, of=NativeEntry, value=whole_numbers(value)) from None


def _messages(entry: NativeEntry, value: Object, place: int, prefix: str) -> list[_Placed]:
    pointer = f"{prefix}/{place}/message" if "message" in value else f"{prefix}/{place}"
    if isinstance(entry.message, list):
        return [_Placed(each, f"{pointer}/{index}", place) for index, each in enumerate(entry.message)]
    return [_Placed(entry.message, pointer, place)]


def is_chat(form: str, message: Mapping[str, Any]) -> bool:
    """Return whether a message is a chat message, and not one of the provider's."""
    provider = PROVIDERS[form]
    if provider.is_like_chat:
        return provider.is_chat(message)
    is_shown = provider.shape.parts_show and provider.shape.parts in message
    is_item = provider.has_openais_items and "type" in message and "content" not in message
    is_result = message.get("role") in ("tool", "function") and not (is_shown or is_item)
    return is_result or bool(message.keys() & _CHAT_MEMBERS) or provider.is_chat(message)


def _chat_entry(
    kind: type[Entry], message: Object, sources: Sequence[NativeEntry], identity: str | None, number: int
) -> Entry:
    """Return the entry of a chat message that was made of ``sources``: the ``number``-th message under this id."""
    metadata = {key: value for source in sources for key, value in (source.metadata or {}).items()}
    return kind(
        message=message,
        id=derived_id(identity, number) if identity is not None else None,
        pinned=any(source.pinned for source in sources),
        status=sources[-1].status,
        continues=number == 0 and any(source.continues for source in sources),
        metadata=metadata if metadata and number == 0 else None,
        author=sources[0].author,
        audience=sources[0].audience,
        receipt=sources[0].receipt,
    )


def derived_id(identity: str, number: int) -> str:
    """Return the id of an entry's ``number``-th message: the entry's own id, then ``m-7.1`` and so on.

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
    """Give documents and image sizes to the last user message of their entry, or to its last message."""
    for place, source in enumerate(given):
        if source.grounding is None and source.image_sizes is None:
            continue
        own = [entry for entry, its_place in zip(entries, places, strict=True) if its_place == place]
        users = [entry for entry in own if entry.message.get("role") == "user"]
        for entry in (users or own)[-1:]:
            entry.grounding, entry.image_sizes = source.grounding, source.image_sizes
