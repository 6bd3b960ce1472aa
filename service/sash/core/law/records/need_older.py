"""The request for older messages where the tail is too short to choose a window."""

import msgspec

_TYPICAL_COST = 16
"""Tokens of a short chat message, to estimate how many messages fit into a budget."""


class NeedOlder(msgspec.Struct, frozen=True):
    """The tail is too short: call again with so many ``messages`` more, or back to ``place`` on the line of counted tokens.

    From which message on, only what was read of the log can tell (``windows.needs.SeenHistory.older``).
    """

    messages: int = 0
    place: int | None = None


def older(room: int = 0) -> NeedOlder:
    """Request enough messages to fill the room."""
    return NeedOlder(room // _TYPICAL_COST)
