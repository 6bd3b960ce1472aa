"""Watches pictures and files: whether their storage is there, what it has lost, and the erasures that wait for it.

Log lines have numbers alone: no conversation, and no name of a picture.
"""

import time
from collections import Counter
from typing import Final

from sash.operations.logging import get_logger
from sash.operations.registry import Registry
from sash.store.data.media_contents import MediaContents
from sash.store.data.media_erasures import MediaErasures

_BETWEEN_SECONDS: Final = 60.0
"""Between two log lines of lost media."""
_log = get_logger()


class MediaWatch:
    """What a worker has last seen. ``leads``: it is the worker of its machine that logs whether the storage is there."""

    def __init__(self, contents: MediaContents, erasures: MediaErasures, registry: Registry, *, leads: bool) -> None:
        self._contents = contents
        self._erasures = erasures
        self._leads = leads
        self._told: Counter[str] = Counter()
        self._logged: Counter[str] = Counter()
        self._next = 0.0
        self._was_away = ""
        self._waiting = registry.gauge(
            "sash_media_erasures_waiting",
            "Erasures of pictures and files that wait for object storage, 1,000 at most.",
            workers="livemax",
        )
        self._away = registry.gauge(
            "sash_media_storage_away", "Whether object storage cannot be used: 1 or 0.", workers="livemax"
        )
        self._lost = registry.counter(
            "sash_media_lost_total", "Reads of pictures and files whose bytes the storage has lost, by how.", "how"
        )
        for how in ("missing", "altered"):
            self._lost(how)  # created at 0, so that a rate includes the first event

    @property
    def waiting(self) -> int | None:
        """The number of erasures that wait for object storage, 1,000 at most; None without one."""
        return self._erasures.waiting

    @property
    def away(self) -> str | None:
        """Why object storage cannot be used, and what was expected; None where it can, or there is none."""
        return self._erasures.away or None

    def look(self) -> None:
        """Set the gauges, and log what has changed."""
        self._waiting.set(self.waiting or 0)
        self._away.set(self.away is not None)
        new = self._contents.lost - self._told
        for how, number in new.items():
            self._lost(how).inc(number)
        self._told += new
        if self._told != self._logged and time.monotonic() >= self._next:
            _log.warning("pictures or files lost", **(self._told - self._logged), look="restore them from a backup")
            self._logged, self._next = Counter(self._told), time.monotonic() + _BETWEEN_SECONDS
        self._tell_away()

    def _tell_away(self) -> None:
        now, before = self.away or "", self._was_away
        self._was_away = now
        if self._leads and now and not before:
            _log.error("object storage away", look=now)
        elif self._leads and before and not now:
            _log.info("object storage found")
