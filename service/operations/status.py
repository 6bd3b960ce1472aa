"""How this worker is, without asking the store: the body of ``GET /status``, declared once."""

import os
import time
from typing import Annotated

import msgspec
from msgspec import Meta

from service import __version__
from service.operations.conditions import Condition, Disk, Memory
from service.operations.requests import Minute, ProblemCount, Refusal, Requests, Seen
from service.operations.watch import Watch
from service.store.client import Client

_BEGAN = time.time()


class Connections(msgspec.Struct, frozen=True):
    """This worker's connections to the store, and commands that wait for it."""

    waiting: int
    idle: int
    busy: int
    down: int


class StoreStatus(msgspec.Struct, frozen=True):
    """The store as this worker last saw it."""

    connections: Connections
    memory: Memory
    disk: Disk | None
    """Of the embedded store; null for another."""


class OfWorker(msgspec.Struct, frozen=True):
    """What this worker alone answered in the last fifteen minutes."""

    minutes: list[Minute]
    problems: list[ProblemCount]
    conversations: Annotated[list[Seen], Meta(description="Those whose windows were read, the latest first.")]
    refusals: Annotated[
        list[Refusal], Meta(description="The latest, newest first: what was refused, never whose words.")
    ]


class Status(msgspec.Struct, frozen=True):
    """How the service is, by the worker that answers."""

    at_ms: int
    version: str
    process: int
    uptime_seconds: int
    condition: Condition
    store: StoreStatus
    worker: OfWorker


def status(watch: Watch, requests: Requests, client: Client) -> Status:
    """How this worker is now."""
    return Status(
        at_ms=time.time_ns() // 1_000_000,
        version=__version__,
        process=os.getpid(),
        uptime_seconds=int(time.time() - _BEGAN),
        condition=watch.condition,
        store=StoreStatus(Connections(*client.load), watch.memory, watch.disk),
        worker=OfWorker(
            requests.minutes(), requests.problems(), requests.conversations(), list(reversed(requests.refusals))
        ),
    )
