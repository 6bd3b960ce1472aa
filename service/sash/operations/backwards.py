"""Notices what goes back: the store, when an older copy takes its place, and this machine's clock."""

import time
from datetime import UTC, datetime
from typing import Any, Final

from sash.operations.logging import get_logger
from sash.store.data.entries import ID_TIMES, wall_ms
from sash.store.data.marks import Marks, WentBack
from sash.store.redis.client import Client

STORE: Final = "store went back"
CLOCK: Final = "clock went back"
_MOVE_SECONDS: Final = 60.0
"""Seconds from one mark to the next while clients write nothing. After a write, the mark follows within a second."""
_BEHIND_MS: Final = 2_000
"""Clocks of machines differ by less."""
_SHOWN_MS: Final = 24 * 3600 * 1000
_log = get_logger()


class Backwards:
    """This process's view. ``look`` is called each second. Every process moves the mark after its own writes; the one that
    ``leads`` its machine also moves it while nobody writes, and logs."""

    def __init__(self, client: Client, *, leads: bool) -> None:
        self._client = client
        self._marks = Marks(client)
        self._leads = leads
        self._moved = -_MOVE_SECONDS
        self._writes = 0
        self._is_behind = False
        self._told_ms = 0
        self._latest: WentBack | None = None

    @property
    def went_back(self) -> WentBack | None:
        """When the store went back, within the last day; None if it did not."""
        found = self._latest
        return found if found is not None and wall_ms() - found.at_ms < _SHOWN_MS else None

    def seen_ms(self) -> int:
        """When the store was last seen to go back, in milliseconds since 1970; 0 if it did not within a day."""
        found = self.went_back
        return found.at_ms if found is not None else 0

    async def look(self) -> list[str]:
        """Look at the store and at the clock; returns the events that were logged. Raises StoreUnavailable, StoreFull."""
        events: list[str] = []
        if self._client.is_down:
            return events
        first = not self._marks.known_ms
        seen = await self._marks.look()
        self._latest = seen.went_back
        at_ms = seen.went_back.at_ms if seen.went_back is not None else 0
        if seen.went_back is not None and at_ms > self._told_ms and not first and self._leads:
            events.append(self._tell_store(seen.went_back))
        self._told_ms = max(self._told_ms, at_ms)
        ID_TIMES.saw(seen.time_ms)
        if self._leads:
            events += self._tell_clock(seen.time_ms)
        await self._move()
        return events

    async def _move(self) -> None:
        now, writes = time.monotonic(), self._client.writes
        if writes != self._writes or (self._leads and now > self._moved + _MOVE_SECONDS):
            await self._marks.move(wall_ms())
            self._moved, self._writes = now, writes + 1  # the mark's own

    def _tell_store(self, went: WentBack) -> str:
        look = (
            "It was emptied, a backup was restored, or a fail-over lost the newest writes: repeat erasures since then; "
            "clients get 412."
        )
        lost = {"seconds": round((went.from_ms - went.to_ms) / 1000, 1), "to": _shown(went.to_ms)} if went.to_ms else {}
        _log.error(STORE, **lost, was=_shown(went.from_ms), look=look, alert="SashStoreWentBack")
        return STORE

    def _tell_clock(self, store_ms: int) -> list[str]:
        behind_ms = max(store_ms, ID_TIMES.largest_ms) - wall_ms()
        was, self._is_behind = self._is_behind, behind_ms > _BEHIND_MS
        if self._is_behind == was:
            return []
        fields: dict[str, Any] = {"seconds": round(behind_ms / 1000, 1)} if self._is_behind else {}
        look = "This machine's clock is behind times that it, or another replica, used: new ids follow the largest of them."
        (_log.warning if self._is_behind else _log.info)(
            CLOCK if self._is_behind else f"{CLOCK}: over", **fields, **({"look": look} if self._is_behind else {})
        )
        return [CLOCK] if self._is_behind else []


def _shown(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
