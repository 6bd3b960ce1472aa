"""The agents of a conversation: every author and audience so far, each with the version that it first came with.

::

    field ``agents`` of the conversation's hash     "3\tplanner\n3\tbilling\n7\tBilling Agent\n"

The append script adds a line where an entry names somebody new (parts/agents.lua), and nothing takes one away: not a rewind
or a redaction. With 16 KiB the field is full, and ends with an empty line. A copy has those of what was copied.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

MOST_BYTES: Final = 16 * 1024
"""Bytes of a full field. parts/agents.lua writes it."""


class Agents(msgspec.Struct, frozen=True):
    """The first version of each agent, in the order in which they came; ``is_all`` if there are no others."""

    since: dict[str, int]
    is_all: bool

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*self.since]

    def before(self, version: int) -> list[str]:
        """Those that there were with a version."""
        return [name for name, since in self.since.items() if since <= version]


NO_AGENTS: Final = Agents({}, is_all=False)
"""Those of a conversation without the field: it may have come from a version that did not write it."""


def read_agents(field: bytes) -> Agents:
    """Return the agents in the field.

    >>> read_agents(b"3\\tplanner\\n7\\tBilling Agent\\n").before(5)
    ['planner']
    """
    lines = field.decode().split("\n")[:-1]
    split = (line.partition("\t") for line in lines if line)
    return Agents({name: int(version) for version, _, name in split}, is_all="" not in lines)


def packed_agents(names: Iterable[str]) -> bytes:
    """Return the field of a conversation that begins with these agents."""
    packed = b""
    for name in names:
        line = f"1\t{name}\n".encode()
        if len(packed) + len(line) > MOST_BYTES:
            return packed + b"\n"
        packed += line
    return packed
