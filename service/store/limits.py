"""Requests a second for each tenant, over all replicas and processes.

The bucket is in the store, one for each tenant and one for each key that has a rate of its own, and a script takes from it,
so nothing is counted twice or missed. A process takes a tenth of a second's worth at once and hands it out itself: a busy
tenant costs ten small calls a second and not one for each request. What it does not hand out within a second it forgets,
which errs on the side of less.

While the store does not answer nobody is refused here: a request that needs the store learns of it soon enough.
"""

import asyncio
import math
import time
from collections.abc import Callable

from service.problems import StoreFull, StoreUnavailable, TooManyRequests
from service.store import scripts
from service.store.client import Client

_SHARE = 0.1  # of a second's requests, taken at once
_KEPT_SECONDS = 1.0
_PATIENCE_SECONDS = 0.25  # for a store that does not answer; the request goes on without
_BUCKETS = 10_000  # that are remembered; the idlest are forgotten first


class _Lease:
    """What a process may still hand out of one bucket, and until when."""

    __slots__ = ("blind_until", "left", "refused_until", "taking", "until")

    def __init__(self) -> None:
        self.left = 0
        self.blind_until = 0.0
        self.until = 0.0
        self.refused_until = 0.0
        self.taking: asyncio.Task[None] | None = None


class RateLimits:
    """``rate`` requests a second for each tenant, with bursts of a second's worth; None for as many as come."""

    def __init__(self, client: Client, rate: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self.rate = rate
        self._clock = clock
        self._leases: dict[str, _Lease] = {}

    async def take(self, tenant: str, rate: float | None = None, key: str = "") -> None:
        """Count one request; at a rate of its own if there is one, out of the bucket of the key of that id.

        Raises TooManyRequests, which says when to come back.
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
            now = self._clock()
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
            await asyncio.wait((lease.taking,), timeout=_PATIENCE_SECONDS)
            if not lease.taking.done() or lease.blind_until > now:
                return

    async def _refill(self, bucket: str, lease: _Lease, rate: float) -> None:
        key = f"sash:{{{bucket}}}:rate"
        most, wanted = max(1.0, rate), max(1, int(rate * _SHARE))
        try:
            taken = await self._client.run(scripts.take(key, rate=rate, burst=most, wanted=wanted))
        except (StoreUnavailable, StoreFull):
            lease.blind_until = self._clock() + _KEPT_SECONDS
            return
        now = self._clock()
        lease.left, lease.until = taken.granted, now + _KEPT_SECONDS
        if not taken.granted:
            lease.refused_until = now + taken.wait_ms / 1000
