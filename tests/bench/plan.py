"""How large a deployment is: shards, workers, memory and money, from measured figures. Used by ``tests.bench.sizing``.

A turn is two messages: a user's message, appended with the window in one call, and the answer, appended. So a conversation
has ``2 * turns_a_day * retention_days / conversations`` messages.
"""

import math
from typing import NamedTuple

from tests.bench.rig import markdown

DAY_SECONDS = 86_400
HOURS_A_MONTH = 730


class Assumed(NamedTuple):
    """Assumed values, explained by ``MEANINGS``. Each is a flag of ``tests.bench.sizing``.

    Prices are in dollars: AWS's on demand in us-east-1 as known in 2025: https://aws.amazon.com/ec2/pricing/on-demand/ and
    https://aws.amazon.com/ebs/pricing/.
    """

    peak: float = 3.0
    busy: float = 0.6
    room: float = 1.5
    node_gb: float = 64.0
    node_dollars: float = 0.4284
    processor_dollars: float = 0.0363
    disk: float = 3.0
    disk_dollars: float = 0.08


MEANINGS = {
    "peak": "turns of the busiest hour against the average",
    "busy": "how much of a processor is used at the peak",
    "room": "memory of a node for each stored byte: allocator, buffers, a rewrite of the append-only file",
    "node_gb": "memory of a node of the store",
    "node_dollars": "a node of the store, an hour: r7g.2xlarge",
    "processor_dollars": "a worker's processor, an hour: half a c7g.large",
    "disk": "disk of a node for each stored byte: the append-only file doubles, and is rewritten into one beside it",
    "disk_dollars": "a gigabyte of disk, a month: EBS gp3",
}


class Measured(NamedTuple):
    """Measurements on one store: bytes of conversations, and microseconds of processor time."""

    one_bytes: float
    """Bytes of a conversation of one message."""
    twenty_bytes: float
    worker_us: float
    """The worker's time for a turn: an append with its window, and an append."""
    store_us: float

    def conversation_bytes(self, messages: float) -> float:
        """Return the stored bytes of a conversation of so many messages."""
        return self.one_bytes + (messages - 1) * (self.twenty_bytes - self.one_bytes) / 19


class Wanted(NamedTuple):
    """What a deployment must hold and serve."""

    conversations: float
    turns_a_day: float
    retention_days: float
    replicas: int = 1
    """Replicas of each shard."""

    @property
    def messages(self) -> float:
        """Messages of a conversation."""
        return max(1.0, 2 * self.turns_a_day * self.retention_days / self.conversations)


class Plan(NamedTuple):
    """What a deployment needs."""

    memory_gb: float
    """Memory of all primaries, without replicas and room."""
    peak_turns: float
    """Turns a second at the peak."""
    by_memory: int
    """Shards that the memory needs."""
    by_processor: int
    workers: int
    nodes_dollars: float
    """Dollars a month, like the two below."""
    disks_dollars: float
    workers_dollars: float

    @property
    def shards(self) -> int:
        """Shards that memory or processor time needs, whichever is more; at least the three that a cluster has."""
        return max(3, self.by_memory, self.by_processor)


def plan_of(wanted: Wanted, measured: Measured, assumed: Assumed) -> Plan:
    """Return what a deployment needs, from what was measured and what is assumed."""
    memory_gb = wanted.conversations * measured.conversation_bytes(wanted.messages) / 1e9
    peak = wanted.turns_a_day / DAY_SECONDS * assumed.peak
    workers = max(2, math.ceil(peak * measured.worker_us / 1e6 / assumed.busy))
    by_memory = math.ceil(memory_gb * assumed.room / assumed.node_gb)
    by_processor = math.ceil(peak * measured.store_us / 1e6 / assumed.busy)
    copies = 1 + wanted.replicas
    plan = Plan(memory_gb, peak, by_memory, by_processor, workers, 0, 0, 0)
    return plan._replace(
        nodes_dollars=plan.shards * copies * assumed.node_dollars * HOURS_A_MONTH,
        disks_dollars=memory_gb * copies * assumed.disk * assumed.disk_dollars,
        workers_dollars=workers * assumed.processor_dollars * HOURS_A_MONTH,
    )


def table(wanted: Wanted, measured: Measured, assumed: Assumed) -> str:
    """Return the plan as a table: a row for each figure, with its source."""
    plan, copies = plan_of(wanted, measured, assumed), 1 + wanted.replicas
    each = measured.conversation_bytes(wanted.messages)
    month = plan.nodes_dollars + plan.disks_dollars + plan.workers_dollars
    busy = f"assumed: {assumed.busy * 100:g} % busy at the peak"
    nodes = f"assumed: {plan.shards * copies:,} at ${assumed.node_dollars} an hour"
    disks = f"assumed: {assumed.disk:g} bytes for each stored, on each node; ${assumed.disk_dollars} a GB"
    shards = f"shards of {assumed.node_gb:g} GB, each with {wanted.replicas} replica"
    rows = (
        ("messages a conversation", "given: two a turn", f"{wanted.messages:,.0f}"),
        ("stored, all primaries", f"measured: {each:,.0f} bytes a conversation", f"{plan.memory_gb:,.0f} GB"),
        ("turns a second at the peak", f"assumed: {assumed.peak:g} times the average", f"{plan.peak_turns:,.0f}"),
        (shards, "the larger of the next two", f"{plan.shards:,}"),
        ("by memory", f"assumed: {assumed.room:g} bytes of a node for each stored", f"{plan.by_memory:,}"),
        ("by processor", f"measured: {measured.store_us:,.0f} µs a turn; {busy}", f"{plan.by_processor:,}"),
        ("workers", f"measured: {measured.worker_us:,.0f} µs a turn; {busy}", f"{plan.workers:,}"),
        ("nodes, a month", nodes, f"${plan.nodes_dollars:,.0f}"),
        ("their disks, a month", disks, f"${plan.disks_dollars:,.0f}"),
        ("workers, a month", f"assumed: ${assumed.processor_dollars} an hour", f"${plan.workers_dollars:,.0f}"),
        ("a month", "", f"${month:,.0f}"),
    )
    head = f"{wanted.conversations:,.0f} conversations, {wanted.turns_a_day:,.0f} turns a day"
    return markdown((f"{head}, kept {wanted.retention_days:g} days", "from", ""), rows, numbers=2)
