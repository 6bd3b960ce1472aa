"""The body of ``GET /status``: the state of this worker and, as last seen, of the store."""

import os
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from sash import __version__
from sash.operations.conditions import Condition, Disk, Memory
from sash.operations.lately import Lately, Minute, ProblemCount, Refusal, Seen
from sash.operations.readiness import Shard
from sash.operations.upstreams import Away, Upstreams
from sash.operations.watch import Watch
from sash.processor import PROCESSOR
from sash.store.data.entries import wall_ms
from sash.store.data.marks import WentBack
from sash.store.redis.client import Client, Connections

_BEGAN = time.time()


class StoreStatus(msgspec.Struct, frozen=True):
    """The store's state when this worker last saw it."""

    connections: Connections
    memory: Memory
    shards: Annotated[Sequence[Shard], Meta(description="What each server of the store serves.")]
    disk: Disk | None
    """The disk of the embedded store; null for another store."""
    went_back: Annotated[
        WentBack | None,
        Meta(description="When an older store took the place of this one, such as a restored backup; for a day."),
    ]
    media_erasures_waiting: Annotated[
        int | None,
        Meta(
            description="Erasures of pictures and files that wait for object storage, 1,000 at most; null without one."
        ),
    ]
    media_storage_away: Annotated[
        str | None,
        Meta(
            description="Why the object storage of pictures and files cannot be used, and what was expected there; null "
            "where it can, and without one."
        ),
    ]


class OfWorker(msgspec.Struct, frozen=True):
    """This worker's requests of the last fifteen minutes, and its long jobs."""

    jobs_waiting: Annotated[
        int, Meta(description="Long windows, counts and appends that wait for this worker's processor.")
    ]
    followers: Annotated[int, Meta(description="Open streams of events of this worker.")]
    minutes: list[Minute]
    problems: list[ProblemCount]
    conversations: Annotated[list[Seen], Meta(description="Conversations whose windows were read, latest first.")]
    refusals: Annotated[
        list[Refusal], Meta(description="The latest refused requests, newest first, without message text.")
    ]


class Status(msgspec.Struct, frozen=True):
    """The state of the service, as seen by the worker that answers."""

    at_ms: int
    version: str
    process: int
    uptime_seconds: int
    condition: Condition
    keys_required: Annotated[bool, Meta(description="Whether a request without an API key is refused.")]
    store: StoreStatus
    upstreams_away: Annotated[
        Sequence[Away],
        Meta(
            description="Endpoints of summaries and embeddings that did not serve when this worker last asked, and why."
        ),
    ]
    worker: OfWorker


def status(
    watch: Watch, lately: Lately, client: Client, upstreams: Upstreams, *, keys_required: bool, followers: int
) -> Status:
    """The current status."""
    return Status(
        at_ms=wall_ms(),
        version=__version__,
        process=os.getpid(),
        uptime_seconds=int(time.time() - _BEGAN),
        condition=watch.condition,
        keys_required=keys_required,
        store=StoreStatus(
            client.load,
            watch.memory,
            watch.shards,
            watch.disk,
            watch.backwards.went_back,
            watch.media.waiting,
            watch.media.away,
        ),
        upstreams_away=upstreams.away,
        worker=OfWorker(
            PROCESSOR.waiting,
            followers,
            lately.by_minute(),
            lately.by_problem(),
            lately.conversations(),
            lately.refusals(),
        ),
    )
