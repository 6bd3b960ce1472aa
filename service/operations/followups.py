"""Which part of a window the provider may have in its prompt cache, because the window before it began alike.

What a conversation's last window was is remembered in this process alone, for a bounded number of conversations. So the
figures are a lower bound: with several workers some windows follow one that another worker made, and then an older
one is compared with, or none. Windows are told apart by their messages' seqs, not their bytes: an edited message is
not noticed, and one that was erased is.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import msgspec

_MOST = 10_000
"""Conversations remembered; about 3 MB."""


class Beginning(msgspec.Struct, frozen=True):
    """A window, as far as the next one is compared with it.

    ``fixed`` stands for all that goes before the messages. ``tokens`` is the whole window's prefix, ``plain_tokens`` what
    comes before its first message with documents: those stay only while the same ``question`` is asked.
    """

    fixed: int
    count: int
    first_seq: int
    last_seq: int
    question: int
    documents: int
    tokens: int
    plain_tokens: int


class Followups:
    """The last window of each conversation, the most recent ``most`` of them."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._last: OrderedDict[Hashable, Beginning] = OrderedDict()

    def follow(self, key: Hashable, seqs: Sequence[int], now: Beginning) -> int | None:
        """Tokens at the start of this window that stood there in the one before; None when none is known."""
        before = self._last.get(key)
        self._last[key] = now
        if before is None:
            if len(self._last) > self._most:
                self._last.popitem(last=False)
            return None
        self._last.move_to_end(key)
        return _alike(before, seqs, now)


def _alike(before: Beginning, seqs: Sequence[int], now: Beginning) -> int:
    count = before.count
    if before.fixed != now.fixed or not 0 < count <= now.count:
        return 0
    if seqs[0] != before.first_seq or seqs[count - 1] != before.last_seq:
        return 0
    same_documents = (before.question, before.documents) == (now.question, now.documents)
    return before.tokens if same_documents or not before.documents else before.plain_tokens
