"""Ending a worker without failed requests.

A server that closes idle connections at once also closes some on which a request is just arriving. So after SIGTERM:

* The worker goes on listening and answering.
* Each answer has ``Connection: close``, so that clients open their next connection to another worker.
* ``/readyz`` answers 503, so that a balancer sends no more requests.
* After one second without a request, or after four seconds in any case, the server ends as on SIGINT: running requests
  are finished, and the remaining connections are idle.
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
    """The end of a process. ``idle_seconds`` returns the seconds since the latest request; 0 while a request runs."""

    def __init__(self, idle_seconds: Callable[[], float]) -> None:
        self.began = False
        self.also: list[Callable[[], None]] = []
        """Functions to call when the drain begins."""
        self._idle_seconds = idle_seconds
        self._last = 0.0

    def take_sigterm(self) -> None:
        """Call ``begin`` on SIGTERM."""
        with contextlib.suppress(NotImplementedError, RuntimeError):  # this loop handles no signals
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.begin)

    def begin(self) -> None:
        """Begin the drain; the process ends within four seconds. A second call changes nothing."""
        if not self.began:
            self.began, self._last = True, time.monotonic() + _LONGEST_SECONDS
            for each in self.also:
                each()
            self._look()

    def _look(self) -> None:
        if self._idle_seconds() > _QUIET_SECONDS or time.monotonic() > self._last:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)
