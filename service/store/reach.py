"""How many of the newest messages a conversation's windows are made of, so that the next one's are asked for at once.

A script could send them too, but what passes through it is copied once more where all clients wait; a plain LRANGE
beside the script is not. Only the worker that made the last window knows; any other lets the script send them.

A plain LRANGE knows no bytes, so it is for conversations of short messages: where the ones to ask for are large together,
nothing is learnt, and the script sends as many as are not. What other workers append between two windows of this one may
be large all the same; it is asked for once, and then no more.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

_MOST = 10_000
"""Conversations remembered; about 2 MB."""
_SPARE = 8
_BYTES = 2 * 1024 * 1024


class Reach:
    """Numbers of messages by conversation and question, the most recent ``most`` of them."""

    def __init__(self, most: int = _MOST, most_bytes: int = _BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._known: OrderedDict[Hashable, int] = OrderedDict()

    def guess(self, key: Hashable) -> int:
        """How many to ask for; 0 when nothing is known, or when they are large."""
        return self._known.get(key, 0)

    def learn(self, key: Hashable, needed: int, sizes: Sequence[int], *, whole: bool) -> None:
        """The last window needed so many; ``sizes`` are the bytes of the newest messages, of all where that is the whole
        history. The next may need a few more: histories grow."""
        asked = needed + needed // 8 + _SPARE
        if not whole:
            asked = min(asked, len(sizes))
        if sum(sizes[-asked:]) > self._most_bytes:
            self._known.pop(key, None)
            return
        self._known[key] = asked
        self._known.move_to_end(key)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
