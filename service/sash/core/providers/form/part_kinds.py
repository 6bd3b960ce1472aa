"""Kinds of parts in a provider's own messages: by their type, or by a member where parts have no type.

``thinking`` names the parts of this type, ``.toolUse`` those with this member, and ``.image.source`` those whose member
``image`` is an object with an object ``source``.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Kinds(msgspec.Struct, frozen=True):
    """Some kinds of parts: types, and members with the object that must be in them; empty for any value."""

    types: frozenset[str]
    members: Mapping[str, str]

    def has(self, part: Mapping[str, Any]) -> bool:
        """Whether a part is of one of these kinds."""
        if isinstance(kind := part.get("type"), str) and kind in self.types:
            return True
        return bool(self.members) and any(self.has_member(name, value) for name, value in part.items())

    def has_member(self, name: str, value: Any) -> bool:
        """Whether a part with this member is of one of these kinds. One that is null or false counts as missing."""
        within = self.members.get(name)
        if within is None or value is None or value is False:
            return False
        return not within or (isinstance(value, dict) and isinstance(value.get(within), dict))


def kinds(*names: str) -> Kinds:
    """Return the kinds of these names.

    >>> kinds("thinking", ".image.source").has({"image": {"source": {}}})
    True
    """
    paths = (name[1:].partition(".") for name in names if name[0] == ".")
    return Kinds(frozenset(name for name in names if name[0] != "."), {member: within for member, _, within in paths})


NO_KINDS: Final = kinds()


class PartKinds(msgspec.Struct, frozen=True, kw_only=True):
    """What the parts of own messages are, as far as the rest of the service asks. An item alone is a part, too."""

    reasoning: Kinds = NO_KINDS
    """Reasoning alone. Where a message has such a member beside its parts, the member is reasoning."""
    images: Kinds = NO_KINDS
    """Pictures, whatever their media type says."""
    files: Kinds = NO_KINDS
    """Other media, of which the media type tells what they are."""
    made: Mapping[str, str] = {}
    """Types of items that are a picture of the model's, and the member with its base64."""
    seals: frozenset[str] = frozenset()
    """Members of any part with reasoning that only the provider can read, besides those of ``reasoning``."""
    sealed_calls: Kinds = NO_KINDS
    """Parts whose seals are billed by the rules of seals on calls."""
    sealed: frozenset[str] = frozenset()
    """Members with content that only the provider can read, and bills."""
    unread: frozenset[str] = frozenset()
    """Members that models do not read as text, beside those that many forms have."""
    named_results: Kinds = NO_KINDS
    """Results with a name, which is counted with the names of calls."""
    nested: Kinds = NO_KINDS
    """Parts with parts of their own, under the same member as a message's."""
    stored: frozenset[str] = frozenset()
    """Types of items that only the provider has the content of. It may keep any item under its id, and refuses the id
    without the reasoning before it."""

    def is_medium(self, part: Mapping[str, Any]) -> bool:
        """Whether a part is a picture, a file or a sound."""
        if self.is_medium_type(part):
            return True
        has_members = self.images.members or self.files.members
        return bool(has_members) and any(self.holds_medium(name, value) for name, value in part.items())

    def is_medium_type(self, part: Mapping[str, Any]) -> bool:
        """Whether a part's type says that it is a picture, a file or a sound."""
        kind = part.get("type")
        return isinstance(kind, str) and (kind in self.images.types or kind in self.files.types)

    def holds_medium(self, name: str, value: Any) -> bool:
        """Whether a part's member of this name is what holds a picture, a file or a sound."""
        return isinstance(value, dict) and (self.images.has_member(name, value) or self.files.has_member(name, value))
