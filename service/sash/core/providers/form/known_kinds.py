"""The kinds of items, blocks and parts that providers have, so that a misspelt or invented one is not stored for ever.

Each provider's own file enumerates them, from the types of the vendor's SDK.
tests/core/test_known_kinds.py compares them with the SDKs that are installed. ``SASH_ALLOW_ITEMS`` opens the lists.
"""

import difflib
from collections.abc import Iterator
from typing import Any, NamedTuple

from sash.core.chat.mistakes import did_you_mean
from sash.problems import InvalidEntry, Pointer


class UnknownKind(NamedTuple):
    """A kind that a provider does not have, its place, what it is called, and the kinds that the provider has there."""

    name: str
    pointer: str
    what: str
    known: tuple[str, ...]


def objects_at(values: Any, pointer: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects in a list, each with its pointer."""
    for index, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, dict):
            yield value, f"{pointer}/{index}"


def unknown_name(name: Any, pointer: str, what: str, known: tuple[str, ...]) -> Iterator[UnknownKind]:
    """Yield the name as an unknown kind, unless it is known."""
    if name not in known:
        yield UnknownKind(str(name), pointer, what, known)


def unknown_kind(found: UnknownKind) -> InvalidEntry:
    """Return the problem of an unknown kind: the nearest known one, all known ones, and the setting that lets it pass."""
    if found.name == "None":
        return InvalidEntry.at(f"#{found.pointer.removesuffix('/type')}", "The field 'type' is missing")
    near = difflib.get_close_matches(found.name.lower(), [name.lower() for name in found.known], n=1)
    meant = did_you_mean([name for name in found.known if name.lower() in near])
    names = ", ".join(f"'{name}'" for name in found.known)
    shown = found.name[:100]
    what = f"An unknown {found.what} {shown!r}{meant or ';'} The provider has {names}"
    opened = f"SASH_ALLOW_ITEMS={shown} lets the service take it"
    return InvalidEntry(f"{what}; {opened}: see #{found.pointer}.", errors=[Pointer(f"#{found.pointer}", what)])
