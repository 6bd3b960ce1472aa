"""Which part of a window the provider may have in its prompt cache, because the window before it began alike.

What a conversation's last window was is remembered in this process alone, for a bounded number of conversations. So the
figures are a lower bound: with several workers some windows follow one that another worker made, and then an older
one is compared with, or none. Windows are told apart by their messages' seqs, not their bytes: an edited message is
not noticed, and one that was erased is.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import msgspec

_MOST = 10_000
"""Conversations remembered; about 3 MB."""


class Beginning(msgspec.Struct, frozen=True):
    """A window, as far as the next one is compared with it.

    ``fixed`` stands for all that goes before the messages. ``tokens`` is the whole window's; ``documents`` are those of
    its documents, which begin at message ``documents_from`` and stay only while the same ``question`` is asked.
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
    """The last window of each conversation, the most recent ``most`` of them."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._last: OrderedDict[Hashable, Beginning] = OrderedDict()

    def follow(
        self, key: Hashable, seqs: Sequence[int], now: Beginning, tokens_of: Callable[[int, int], int]
    ) -> int | None:
        """Tokens at the start of this window that stood there in the one before; None when none is known.

        ``tokens_of`` counts the messages of this window from one seq to another, both included, without documents.
        """
        before = self._last.get(key)
        self._last[key] = now
        if before is None:
            if len(self._last) > self._most:
                self._last.popitem(last=False)
            return None
        self._last.move_to_end(key)
        return _alike(before, seqs, now, tokens_of)


def _alike(before: Beginning, seqs: Sequence[int], now: Beginning, tokens_of: Callable[[int, int], int]) -> int:
    count = before.count
    if before.fixed != now.fixed or not 0 < count <= now.count:
        return 0
    if seqs[0] != before.first_seq or seqs[count - 1] != before.last_seq:
        return 0
    if not before.documents or (before.question, before.documents) == (now.question, now.documents):
        return before.tokens
    return max(0, before.tokens - before.documents - tokens_of(before.documents_from, before.last_seq))
