"""The result of every source: conversations with settings and entries, each entry with a stable id."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from sash.commands.source_error import SourceError
from sash.core.chat.messages import wrapped
from sash.core.providers import CHAT, PROVIDERS
from sash_client.ids import safe_id

_ENTRY_FIELDS = (
    "id",
    "message",
    "grounding",
    "pinned",
    "metadata",
    "image_sizes",
    "status",
    "author",
    "audience",
    "receipt",
)
_LISTED_FIELDS = {"seq", "created_at", "tokens", "grounding_tokens", "redacted", "digest"}
"""Members that Sash's listings and exports add to an entry, and that a client does not send."""


_NAMES_A_CONVERSATION = tuple(
    f"{what}{end}" for what in ("session", "thread", "conversation", "chat") for end in ("_id", "Id")
)
"""Members with which other programs' messages name their conversation."""


class Step(NamedTuple):
    """A chat message, and its place in the source, from which its id is made."""

    place: int
    message: dict[str, Any]


_REQUIRED: Final = ("max_tokens", "anthropic")
"""A member that each request has in one format alone, and the format."""


class SourceConversation(msgspec.Struct, kw_only=True):
    """One conversation of a source, in Sash's form.

    ``left_out`` counts parts without a place in chat messages, by kind: a reasoning item, a hosted tool's call.
    """

    id: str
    settings: dict[str, Any]
    entries: list[dict[str, Any]]
    left_out: dict[str, int]
    exported: list[dict[str, Any]] = []
    """The lines of an export as they are, branches among them; a server takes them back with their times and seqs."""


def format_hint(value: Any) -> str:
    """Return the end of a sentence that names the ``?format=`` of a provider's whole request; empty for other values."""
    members = value.keys() if isinstance(value, Mapping) else ()
    chat = PROVIDERS[CHAT].shape.messages
    lists = [(each.shape.messages, each.name) for each in PROVIDERS.values() if each.shape.messages != chat]
    for name, form in (*lists, _REQUIRED):
        if name in members:
            return f"; ?format={form} takes a provider's request with {name!r}"
    return ""


def from_entries(identity: str, settings: Mapping[str, Any], entries: Iterable[Any], where: str) -> SourceConversation:
    """Return a conversation of entries and bare chat messages; one without an id gets an id from its place.

    Raises SourceError for an element that is neither.
    """
    refuse_several(entries := list(entries), where)
    named = []
    for place, element in enumerate(entries, 1):
        if not isinstance(element, dict) or not ("message" in element or "role" in element):
            detail = f"element {place} is no chat message: a message has a role"
            raise SourceError(f"{where}: {detail}{format_hint(element)}")
        entry = _entry(element if "message" in element else wrapped(element))
        given = entry.get("id")
        entry["id"] = safe_id(given) if isinstance(given, str) and given else f"import-{place}"
        named.append(entry)
    return SourceConversation(id=safe_id(identity), settings=dict(settings), entries=named, left_out={})


def refuse_several(records: Sequence[Any], where: str) -> None:
    """Raise SourceError where records of one list name different conversations, which nobody may join to one."""
    for name in _NAMES_A_CONVERSATION:
        named: dict[str, int] = {}
        for place, record in enumerate(records, 1):
            if isinstance(record, dict) and isinstance(found := record.get(name), str | int):
                named.setdefault(str(found), place)
        if len(named) > 1:
            first, second, *_ = named.values()
            raise SourceError(
                f"{where}: elements {first} and {second} are of two conversations, by their {name!r}: "
                "write a file for each conversation"
            )


def _entry(element: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry without the members of listings; unknown members stay, so that validation names them."""
    known = {name: element[name] for name in _ENTRY_FIELDS if element.get(name) is not None}
    sizes = known.get("image_sizes")
    if isinstance(sizes, list) and None in sizes:  # an export of a message with images of unknown size has such a list
        del known["image_sizes"]
    return known | {name: element[name] for name in element.keys() - _LISTED_FIELDS - set(_ENTRY_FIELDS)}


def from_steps(identity: str, steps: Iterable[Step], left_out: Mapping[str, int]) -> SourceConversation:
    """Return a conversation of messages that were made from another program's records."""
    entries = [{"id": f"import-{step.place}", "message": step.message} for step in steps]
    return SourceConversation(id=safe_id(identity), settings={}, entries=entries, left_out=dict(left_out))
