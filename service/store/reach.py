"""How many of the newest messages a conversation's windows are made of, so that the next one's are asked for at once.

A script could send them too, but what passes through it is copied once more where all clients wait; a plain LRANGE
beside the script is not. Only the worker that made the last window knows; any other lets the script send them.
"""

from collections import OrderedDict
from collections.abc import Hashable

_MOST = 10_000
"""Conversations remembered; about 2 MB."""
_SPARE = 8


class Reach:
    """Numbers of messages by conversation and question, the most recent ``most`` of them."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, int] = OrderedDict()

    def guess(self, key: Hashable) -> int:
        """How many to ask for; 0 when nothing is known. A little more than last time: histories grow."""
        known = self._known.get(key)
        return 0 if known is None else known + known // 8 + _SPARE

    def learn(self, key: Hashable, needed: int) -> None:
        """The last window needed so many."""
        self._known[key] = needed
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
