"""The plan of a deployment's size equals calculations by hand."""

from tests.bench.plan import Assumed, Measured, Plan, Wanted, plan_of

MEASURED = Measured(one_bytes=1_000, twenty_bytes=10_500, worker_us=800, store_us=300)  # 500 bytes each further message
ASSUMED = Assumed(
    peak=3, busy=0.5, room=1.5, node_gb=64, node_dollars=0.5, processor_dollars=0.1, disk=3, disk_dollars=0.1
)


def plan(conversations: float, turns_a_day: float, retention_days: float, replicas: int = 1) -> Plan:
    return plan_of(Wanted(conversations, turns_a_day, retention_days, replicas), MEASURED, ASSUMED)


def test_memory_decides_where_much_is_kept() -> None:
    """64 million conversations of 20 messages are 672 GB; with half as much again for room, that is 16 nodes of 64 GB."""
    found = plan(64e6, 64e5, 100)
    assert (round(found.memory_gb), found.by_memory, found.shards) == (672, 16, 16)
    assert found.nodes_dollars == 16 * 2 * 0.5 * 730
    assert found.disks_dollars == 672 * 2 * 3 * 0.1


def test_processors_decide_where_many_write() -> None:
    """864 million turns a day are 30,000 a second at the peak: at half load, 18 processors for the store, 48 for workers."""
    found = plan(1e6, 864e6, 0.001)
    assert (found.peak_turns, found.by_processor, found.shards, found.workers) == (30_000, 18, 18, 48)
    assert round(found.workers_dollars) == round(48 * 0.1 * 730)


def test_a_small_one_has_a_cluster_and_a_spare_worker() -> None:
    """The smallest plan has a cluster's three shards, and two workers so that one can be replaced."""
    found = plan(1_000, 1_000, 30, replicas=0)
    assert (found.shards, found.workers) == (3, 2)
    assert found.nodes_dollars == 3 * 0.5 * 730
