"""How a worker ends so that no client notices.

A server that is told to end and closes idle connections at once closes some on which a request is just arriving. So on
SIGTERM the worker goes on listening and answering for as long as requests come, says ``Connection: close`` with each
answer, so that clients go elsewhere by themselves, and is not ready, so that a balancer sends no more. When a second has
passed without a request, or four in any case, the server ends as it does on SIGINT: what runs is finished, and the
connections that are left are idle ones.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable

_QUIET_SECONDS = 1.0
_LONGEST_SECONDS = 4.0
_LOOK_SECONDS = 0.05


class Drain:
    """The end of a process. ``idle_seconds`` says how long ago the latest request came; 0 while any runs."""

    def __init__(self, idle_seconds: Callable[[], float]) -> None:
        self.began = False
        self._idle_seconds = idle_seconds
        self._last = 0.0

    def take_sigterm(self) -> None:
        """Begin on SIGTERM."""
        with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals on this loop: nothing to do
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.begin)

    def begin(self) -> None:
        """Go on for a while, then end. Asked again, it changes nothing."""
        if not self.began:
            self.began, self._last = True, time.monotonic() + _LONGEST_SECONDS
            self._look()

    def _look(self) -> None:
        if self._idle_seconds() > _QUIET_SECONDS or time.monotonic() > self._last:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
