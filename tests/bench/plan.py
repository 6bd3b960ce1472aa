"""How large a deployment is: shards, workers, memory and money, from measured figures. Used by ``tests.bench.sizing``.

A turn is a user's message, appended with the window in one call, and the answer, appended. So conversations that are kept
``retention_days`` have twice the turns a day, times the days, over the conversations, messages each.
"""

import math
from typing import NamedTuple

from tests.bench.rig import markdown

DAY_SECONDS = 86_400
HOURS_A_MONTH = 730
PEAK = 3.0
"""The busiest hour against the average."""
BUSY = 0.6
"""How much of a processor is used at the peak."""
ROOM = 1.5
"""Memory of a node for each stored byte: allocator, buffers, a rewrite of the append-only file."""
NODE_GB, NODE_DOLLARS = 64.0, 0.4284
"""A node of the store, and its price an hour: AWS r7g.2xlarge on demand, us-east-1."""
CPU_DOLLARS = 0.0363
"""A processor of a worker, an hour: half an AWS c7g.large."""


class Measured(NamedTuple):
    """What was measured on one store: bytes of conversations, and microseconds of processor time."""

    one_bytes: float
    """A conversation of one message."""
    twenty_bytes: float
    worker_us: float
    """A turn: an append with its window, and an append."""
    store_us: float

    def conversation_bytes(self, messages: float) -> float:
        """Stored bytes of a conversation of so many messages."""
        return self.one_bytes + (messages - 1) * (self.twenty_bytes - self.one_bytes) / 19


class Wanted(NamedTuple):
    """What a deployment is to hold and to serve."""

    conversations: float
    turns_a_day: float
    retention_days: float
    replicas: int = 1
    """Of each shard."""

    @property
    def messages(self) -> float:
        """Messages of a conversation."""
        return max(1.0, 2 * self.turns_a_day * self.retention_days / self.conversations)


class Plan(NamedTuple):
    """What it takes."""

    messages: float
    memory_gb: float
    """Of all primaries, without replicas and room."""
    peak_turns: float
    """A second."""
    shards: int
    limited_by: str
    workers: int
    dollars_a_month: float


def plan_of(wanted: Wanted, measured: Measured) -> Plan:
    """Shards by memory or by processor time, whichever asks for more, at least the three that a cluster has."""
    memory_gb = wanted.conversations * measured.conversation_bytes(wanted.messages) / 1e9
    peak = wanted.turns_a_day / DAY_SECONDS * PEAK
    by_memory = math.ceil(memory_gb * ROOM / NODE_GB)
    by_processor = math.ceil(peak * measured.store_us / 1e6 / BUSY)
    shards, workers = max(3, by_memory, by_processor), max(2, math.ceil(peak * measured.worker_us / 1e6 / BUSY))
    hourly = shards * (1 + wanted.replicas) * NODE_DOLLARS + workers * CPU_DOLLARS
    limit = "memory" if by_memory >= by_processor else "processor"
    return Plan(wanted.messages, memory_gb, peak, shards, limit, workers, hourly * HOURS_A_MONTH)


def table(wanted: Wanted, plan: Plan) -> str:
    """The plan, a line each."""
    rows = (
        ("messages a conversation", f"{plan.messages:,.0f}"),
        ("stored, all primaries", f"{plan.memory_gb:,.0f} GB"),
        ("turns a second at the peak", f"{plan.peak_turns:,.0f}"),
        (f"shards of {NODE_GB:.0f} GB, each with {wanted.replicas} replica", f"{plan.shards:,} (by {plan.limited_by})"),
        ("workers", f"{plan.workers:,}"),
        ("a month", f"${plan.dollars_a_month:,.0f}"),
    )
    head = f"{wanted.conversations:,.0f} conversations, {wanted.turns_a_day:,.0f} turns a day"
    return markdown((f"{head}, kept {wanted.retention_days:g} days", ""), rows)
