"""What a provider's limits beside tokens allow a window of a history, as ``fitting.py`` finds it."""

from typing import Final

import msgspec

from sash.core.law.stable import Cut


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """``bytes_seq`` and ``messages_seq`` are the oldest messages that a request has room for. ``cut`` is a stable cut that
    is known already. ``is_lined``: pictures are sent as lines that may be whole in another window, and ``changed_seq`` is
    the newest message whose arrival turned pictures into lines, or 0."""

    bytes_seq: int = 1
    messages_seq: int = 1
    cut: Cut | None = None
    is_lined: bool = False
    changed_seq: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the limits leave nothing out, so that a sum of tokens is enough."""
        return self.bytes_seq == self.messages_seq == 1 and self.cut is None


ALL: Final = Allowed()
