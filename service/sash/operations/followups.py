"""Estimates the part of a window that is in the provider's prompt cache, because the window before began the same.

Each process remembers the last window of a limited number of conversations, so the figures are a lower bound: with
several workers, the window before may be another worker's, and an older window or none is compared. Windows are compared
by their messages' seqs, not their bytes: an edited message is not noticed, an erased one is.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import msgspec

_LIMIT = 10_000
"""Conversations that are remembered, in about 3 MB."""


class Beginning(msgspec.Struct, frozen=True):
    """The facts of a window that the next window is compared with.

    ``fixed`` is a hash of the parts before the messages. ``tokens`` are the whole window's, and ``documents`` the tokens
    of its documents, which begin at message ``documents_from`` and stay only while ``question`` is the newest question.
    """

    fixed: int
    count: int
    first_seq: int
    last_seq: int
    question: int
    tokens: int
    documents: int = 0
    documents_from: int = 0


class Followups:
    """The last window of each of the latest ``limit`` conversations."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._last: OrderedDict[Hashable, Beginning] = OrderedDict()

    def follow(
        self, key: Hashable, seqs: Sequence[int], now: Beginning, tokens_of: Callable[[int, int], int]
    ) -> int | None:
        """Tokens at the start of this window that also began the window before; None if no window before is known.

        ``tokens_of`` counts the window's messages from one seq to another, both included, without documents.
        """
        before = self._last.pop(key, None)
        self._last[key] = now
        if before is None:
            if len(self._last) > self._limit:
                self._last.popitem(last=False)
            return None
        is_longer = before.fixed == now.fixed and 0 < before.count <= len(seqs)
        if not is_longer or seqs[0] != before.first_seq or seqs[before.count - 1] != before.last_seq:
            return 0
        if not before.documents or (before.question, before.documents) == (now.question, now.documents):
            return before.tokens
        return max(0, before.tokens - before.documents - tokens_of(before.documents_from, before.last_seq))
