"""The event on which ``sash serve`` waits for a signal, or for the end of a worker."""

import threading
import time

_LOOK_SECONDS = 0.1


class Interrupt(threading.Event):
    """An event that a signal's handler may set: it takes no lock, and its wait looks again ten times a second.

    Python runs handlers in the main thread, when that next runs Python. A process that was stopped may get its signal in
    another thread, which does not wake a main thread that waits for a lock: the handler would never run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it."""
        self._is_set = True

    def clear(self) -> None:
        """Unset it."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for at most ``timeout`` seconds. Returns whether it is set."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set and (end is None or time.monotonic() < end):
            time.sleep(_LOOK_SECONDS)
        return self._is_set
