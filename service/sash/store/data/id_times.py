"""The times with which ids of Sash's begin: they never go back, although a machine's clock may."""

from typing import Final


class IdTimes:
    """The largest time that was seen, in milliseconds since 1970: this process's own, or the store's mark."""

    def __init__(self) -> None:
        self.largest_ms = 0

    def next(self, now_ms: int) -> int:
        """Return the time for an id that is made at ``now_ms``: one more than the largest where the clock is behind it."""
        self.largest_ms = now_ms if now_ms >= self.largest_ms else self.largest_ms + 1
        return self.largest_ms

    def saw(self, time_ms: int) -> None:
        """Note a time that another process used."""
        self.largest_ms = max(self.largest_ms, time_ms)


ID_TIMES: Final = IdTimes()
