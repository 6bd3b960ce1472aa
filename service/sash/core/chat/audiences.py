"""Who may see a message: everybody, or the agents of its audience and its author.

An entry's ``author`` and ``audience`` stand in its details, and the last bytes of these are a digest of both, the message's
*party*. Few parties are in a conversation, so the messages of thousands are told apart by one comparison of numbers, and
only one message of each party is decoded.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

PARTY_BYTES: Final = 8
"""Bytes of a party's digest."""

_encode = msgspec.msgpack.Encoder().encode


class Party(NamedTuple):
    """The agent that a message is of, if one is named, and the agents that it is for; with an empty audience, all are."""

    author: str | None = None
    audience: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it names."""
        return self.audience if self.author is None else (self.author, *self.audience)

    def is_seen(self, view: str) -> bool:
        """Whether this agent may see the message."""
        return not self.audience or view in self.audience or view == self.author

    def is_others(self, view: str) -> bool:
        """Whether the message is another agent's."""
        return self.author is not None and self.author != view

    def narrowed(self, names: frozenset[str] | None) -> frozenset[str] | None:
        """Those of ``names`` that may see the message, too; None are all agents."""
        if not self.audience:
            return names
        may = frozenset(self.audience) | ({self.author} if self.author is not None else frozenset())
        return may if names is None else names & may


EVERYBODY: Final = Party()
"""The party of a message without author and audience."""


def party_digest(author: str | None, audience: Sequence[str]) -> bytes:
    """The digest of a party that is not ``EVERYBODY``, in whatever order its audience is given."""
    return blake2b(_encode([author, *sorted(audience)]), digest_size=PARTY_BYTES).digest()
