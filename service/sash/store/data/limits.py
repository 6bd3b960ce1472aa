"""Limit the requests a second of each tenant, over all replicas and processes.

The store has a bucket for each tenant, and for each key with a rate of its own. A script takes from it, so that no request
is missed or counted twice. A process takes the requests of a tenth of a second at once and grants them itself: a busy
tenant costs ten small calls a second, and not one call for each request. Requests that were taken and are not granted within
a second are dropped, so that a tenant may get too few, but not too many.

While the store does not answer, no request is refused here: a request that needs the store fails by itself.
"""

import asyncio
import math
import time

import msgspec

from sash.problems import StoreFull, StoreUnavailable, TooManyRequests
from sash.store.data.script_calls import script
from sash.store.redis.client import Client

_SHARE = 0.1  # of a second: the requests that are taken at once
_KEPT_SECONDS = 1.0
_LOOK_SECONDS = 0.05
_LOOKS = 6  # for the store's answer; then the request goes on without it
_BUCKETS = 10_000  # in memory; the least recently used is dropped first


class Taken(msgspec.Struct, frozen=True):
    """Requests granted from a bucket, and milliseconds until there is one more."""

    granted: int
    wait_ms: int


class _Take(msgspec.Struct, frozen=True, kw_only=True):
    """Requests ``wanted`` from a bucket that fills at ``rate`` a second up to ``burst``."""

    rate: float
    burst: float
    wanted: int


_take = script("take", _Take, lambda reply: Taken(*reply))


class _Lease:
    """How many requests of one bucket a process may still accept, and until when.

    Until ``refused_until`` the bucket is empty. Until ``blind_until`` all requests are accepted: the store gave no answer.
    """

    __slots__ = ("blind_until", "left", "refused_until", "taking", "until")

    def __init__(self) -> None:
        self.left = 0
        self.blind_until = 0.0
        self.until = 0.0
        self.refused_until = 0.0
        self.taking: asyncio.Task[None] | None = None


class RateLimits:
    """``rate`` requests a second for each tenant, with bursts of one second's requests; None for no limit."""

    def __init__(self, client: Client, rate: float | None) -> None:
        self._client = client
        self.rate = rate
        self._leases: dict[str, _Lease] = {}

    async def take(self, tenant: str, rate: float | None = None, key: str = "") -> None:
        """Count one request of a tenant, or of the key with id ``key`` where that has its own ``rate``.

        Raises TooManyRequests, which says when to try again.
        """
        rate = rate or self.rate
        if rate is None:
            return
        bucket = f"{tenant}/key/{key}" if key else tenant
        lease = self._leases.pop(bucket, None) or _Lease()
        self._leases[bucket] = lease
        while len(self._leases) > _BUCKETS:
            del self._leases[next(iter(self._leases))]
        while True:
            now = time.monotonic()
            if lease.left > 0 and now < lease.until:
                lease.left -= 1
                return
            if now < lease.refused_until:
                wait = max(1, math.ceil(lease.refused_until - now))
                raise TooManyRequests(
                    f"{'This key' if key else 'A tenant'} may send {rate:g} requests a second: try again in {wait} s.",
                    members={"limit": rate, "unit": "requests a second"},
                    headers={"Retry-After": str(wait)},
                )
            if now < lease.blind_until:
                return
            if lease.taking is None or lease.taking.done():
                lease.taking = asyncio.create_task(self._refill(bucket, lease, rate))
            taking = lease.taking  # another request may start the next one while this one waits
            if not await _is_answered(taking) or lease.blind_until > now:
                return

    async def _refill(self, bucket: str, lease: _Lease, rate: float) -> None:
        key, wanted = f"sash:{{{bucket}}}:rate", max(1, int(rate * _SHARE))
        try:
            taken = await self._client.run(_take((key,), rate=rate, burst=max(1.0, rate), wanted=wanted))
        except (StoreUnavailable, StoreFull):
            lease.blind_until = time.monotonic() + _KEPT_SECONDS
            return
        now = time.monotonic()
        lease.left, lease.until = taken.granted, now + _KEPT_SECONDS
        if not taken.granted:
            lease.refused_until = now + taken.wait_ms / 1000


async def _is_answered(taking: asyncio.Task[None]) -> bool:
    """Whether a call of the store ends in these looks. A stall of this process counts as one of them, however long it is."""
    for _ in range(_LOOKS):
        await asyncio.wait((taking,), timeout=_LOOK_SECONDS)
        if taking.done():
            return True
    return False
