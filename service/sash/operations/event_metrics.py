"""Figures of events and of those who follow conversations."""

import time
from collections.abc import Mapping
from typing import Any

from sash.operations.registry import SECONDS, Registry


class EventMetrics:
    """One worker's figures."""

    def __init__(self, registry: Registry) -> None:
        self._followers = registry.gauge("sash_followers", "Open streams of events.")
        self._followed = registry.gauge("sash_followed_conversations", "Conversations that somebody follows.")
        self._sent = registry.counter("sash_events_total", "Events sent to followers, by type.", "type")
        self._delay = registry.histogram(
            "sash_event_delay_seconds", "From a change to its event, of changes that were followed.", SECONDS
        )
        self._ended = registry.counter(
            "sash_followers_ended_total",
            "Streams that ended: the reader left, was too slow, lost its key, the worker stopped, the conversation is gone.",
            "reason",
        )

    def followers(self, streams: int, conversations: int) -> None:
        """Set the numbers of open streams and of followed conversations."""
        self._followers.set(streams)
        self._followed.set(conversations)

    def sent(self, streams: Mapping[Any, int], written_ms: int = 0) -> None:
        """Count an event to so many streams, by the type that they got.

        ``written_ms`` is when the change was made, 0 where that is not known.
        """
        for kind, number in streams.items():
            if number:
                self._sent(kind).inc(number)
        if written_ms and any(streams.values()):
            self._delay.observe(max(0.0, time.time() - written_ms / 1000))

    def ended(self, reason: str) -> None:
        """Count a stream that ended."""
        self._ended(reason).inc()
