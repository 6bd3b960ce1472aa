"""All readers of events on this worker: how many there may be, when they are looked at, and how they end."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from sash.api.events.event_steps import HEARTBEAT_SECONDS, EventMaker, EventReader
from sash.api.events.event_stream import EventStream
from sash.api.events.feed import Feed
from sash.operations.event_metrics import EventMetrics
from sash.operations.logging import describe, get_logger
from sash.problems import NotFound, Problem, TenantFollowers, TooManyFollowers, Unauthorized
from sash.store.data.following import LEASE_SECONDS, Following
from sash.store.data.layout import Target

_LOOK_SECONDS: Final = 0.25
_RETRY_MS: Final = (500, 3000)
"""When readers come back after a drain: not all at once."""
_BEAT: Final = b":\n\n"
_log = get_logger()


class Woken(Protocol):
    """What a message of the store wakes."""

    def told(self, what: bytes) -> None:
        """Look at what has changed."""


class ListFeed(Woken, Protocol):
    """The events of all conversations on a list."""

    users: int

    def close(self) -> None:
        """Stop."""


L = TypeVar("L", bound=ListFeed)


class Followers:
    """The feeds of this worker. ``went_back`` returns when the store last went back (milliseconds since 1970), or 0.

    It takes ``limit`` followers, and ``tenant_limit`` of one tenant.
    """

    def __init__(
        self,
        following: Following,
        events: EventMaker,
        metrics: EventMetrics,
        *,
        limit: int,
        tenant_limit: int,
        went_back: Callable[[], int],
    ) -> None:
        self.events = events
        self._following = following
        self._metrics = metrics
        self._limit = limit
        self._tenant_limit = tenant_limit
        self._of_tenants: Counter[str] = Counter()
        self._went_back = went_back
        self._seen_back = 0
        self._feeds: dict[str, Feed] = {}
        self._channels: dict[str, Woken] = {}
        self._lists: dict[str, ListFeed] = {}
        self._streams: set[EventStream] = set()
        self._is_draining = False
        following.listen(self._told, self._gap)

    @property
    def count(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    # ---- readers

    def enter(self, stream: EventStream) -> None:
        """Count a reader. Where the worker is stopping, its stream ends at once: a browser never comes back after a 503.

        Raises TenantFollowers, TooManyFollowers.
        """
        if self._of_tenants[stream.tenant] >= self._tenant_limit:
            raise TenantFollowers(
                f"This worker has {self._tenant_limit} followers of this tenant, its share: come back later, or follow an "
                "owner in place of each conversation.",
                members={"limit": self._tenant_limit},
            )
        if len(self._streams) >= self._limit:
            raise TooManyFollowers(
                f"This worker has {self._limit} followers, the most that it takes: come back later, or to another worker.",
                members={"limit": self._limit},
            )
        self._streams.add(stream)
        self._of_tenants[stream.tenant] += 1
        if self._is_draining:
            self._send_away(stream)
        self._metrics.followers(len(self._streams), len(self._feeds))

    def leave(self, stream: EventStream) -> None:
        """Count a reader no more."""
        self._streams.discard(stream)
        self._of_tenants[stream.tenant] -= 1
        if not self._of_tenants[stream.tenant]:
            del self._of_tenants[stream.tenant]
        self._metrics.ended(stream.ended or "gone")
        self._metrics.followers(len(self._streams), len(self._feeds))

    async def feed(self, target: Target) -> Feed:
        """The feed of a conversation; it is used until ``release``. Raises NotFound, StoreUnavailable."""
        feed = self._feeds.get(target.name)
        if feed is None:
            feed = self._feeds[target.name] = Feed(target, self._following, self.events, sent=self._metrics.sent)
            self._channels[target.keys.conversation] = feed
        feed.users += 1
        try:
            await feed.ready()
        except BaseException:
            self.release(feed, None)
            raise
        return feed

    def release(self, feed: Feed, reader: EventReader | None) -> None:
        """Use a feed no more; the last one closes it."""
        feed.users -= 1
        if reader is not None:
            feed.readers.discard(reader)
        if feed.users == 0 and self._feeds.get(feed.target.name) is feed:
            self._forget(feed)

    async def list_feed(self, channel: str, make: Callable[[], L]) -> L:
        """The feed of a list, made where there is none; it is used until ``release_list``. Raises StoreUnavailable."""
        feed: L = self._lists.get(channel) or make()  # type: ignore[assignment] # a list has one kind of feed
        self._lists[channel] = self._channels[channel] = feed
        feed.users += 1
        try:
            await self._following.watch(channel)
        except BaseException:
            self.release_list(channel)
            raise
        return feed

    def release_list(self, channel: str) -> None:
        """Use the feed of a list no more; the last one closes it."""
        feed = self._lists[channel]
        feed.users -= 1
        if feed.users == 0:
            del self._lists[channel], self._channels[channel]
            self._following.unwatch(channel)
            feed.close()

    def _forget(self, feed: Feed) -> None:
        del self._feeds[feed.target.name]
        del self._channels[feed.target.keys.conversation]
        feed.close()

    # ---- wake-ups

    def _told(self, channel: str, what: bytes) -> None:
        if feed := self._channels.get(channel):
            feed.told(what)

    def _gap(self, channel: str, is_elsewhere: bool) -> None:  # noqa: FBT001 - as it is called
        if feed := self._channels.get(channel):
            if isinstance(feed, Feed):
                feed.renewed = 0.0  # a fail-over may have lost the note that somebody follows
                feed.is_doubted |= is_elsewhere
            feed.told(b"")

    async def run(self) -> None:
        """Look at feeds every 15 seconds: beat, renew, check keys, and read what a lost message would have told."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - the look goes on
                _log.error("events failed", **describe(error))

    async def _look(self) -> None:
        now = time.monotonic()
        back = self._went_back()
        if back != self._seen_back:
            self._seen_back = back
            for feed in self._feeds.values():
                feed.reset()
        for feed in list(self._feeds.values()):
            with suppress(Problem):
                if not feed.renewed or now - feed.renewed > LEASE_SECONDS / 2:
                    await self._renew(feed, now)
            if now - feed.looked > HEARTBEAT_SECONDS:
                feed.looked = now
                feed.told(b"")
        for stream in self._streams:
            stream.look(now)
        await self._beat([each for each in self._streams if now - each.beaten > HEARTBEAT_SECONDS], now)

    async def _renew(self, feed: Feed, now: float) -> None:
        with suppress(NotFound):  # reading it tells so too
            await self._following.renew(feed.target)
        feed.renewed = now
        feed.told(b"")

    async def _beat(self, streams: Sequence[EventStream], now: float) -> None:
        """Send a comment to each reader, which keeps proxies from closing the connection, and end those without a key."""
        for stream in streams:
            stream.beaten = now
            if stream.is_idle:
                stream.put(_BEAT)
            await self._check_key(stream)

    async def _check_key(self, stream: EventStream) -> None:
        try:
            is_valid = (await stream.keys.caller(stream.authorization)).tenant == stream.tenant
        except Unauthorized:
            is_valid = False
        except Problem:
            return  # the store is away: the key stands until it is back
        if not is_valid:
            stream.end("revoked")

    # ---- the end

    def drain(self) -> None:
        """End all streams, each with another time to come back."""
        self._is_draining = True
        for stream in list(self._streams):
            self._send_away(stream)

    def _send_away(self, stream: EventStream) -> None:
        stream.end("drained", b"retry: %d\n\n" % random.randint(*_RETRY_MS))  # noqa: S311 - it spreads them

    async def close(self) -> None:
        """End all streams and feeds."""
        self.drain()
        for feed in list(self._feeds.values()):
            self._forget(feed)
        await self._following.close()
