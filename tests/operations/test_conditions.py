"""Tests the store's conditions, and when their changes are logged."""

from typing import Any

import pytest

from sash.operations.conditions import WELL, Condition, Disk, Observation, condition
from sash.operations.watch import Story
from sash.store.redis.durability import Inspection
from sash.store.redis.servers import Health


def server(refusal: str = "", **info: Any) -> Inspection:
    """Return the inspection of a server with these fields of INFO."""
    return Inspection(
        "yes", "always", "appendfsync always", refusal, info={name: str(value) for name, value in info.items()}
    )


FINE = Health(server(used_memory=10, maxmemory=100), 0.001)
LOST = Health(None)
HANGS = Health(server(), 3.0, silent_seconds=3.0, is_silent=True)


def named(*servers: Health, kind: str = "single", **seen: Any) -> str:
    return condition(Observation(kind=kind, servers=servers, **seen)).name


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("well", {"servers": [FINE]}),
        ("down", {"servers": [LOST]}),
        ("down", {"servers": []}),
        ("down", {"servers": [HANGS]}),
        ("down", {"servers": [Health(server(loading=1))]}),
        ("failing-over", {"servers": [LOST], "kind": "sentinel"}),
        ("failing-over", {"servers": [FINE, LOST, FINE], "kind": "cluster"}),
        ("failing-over", {"servers": [FINE, HANGS, FINE], "kind": "cluster"}),
        ("failing-over", {"servers": [Health(server(role="slave"))], "kind": "sentinel"}),
        ("down", {"servers": [LOST, LOST, LOST], "kind": "cluster"}),
        ("full", {"servers": [Health(server(used_memory=101, maxmemory=100))]}),
        ("full", {"servers": [FINE], "refused_as_full": True}),
        ("full", {"servers": [LOST], "shortage": "the disk is full"}),
        ("full", {"servers": [FINE], "shortage": "the disk is full"}),
        ("read-only", {"servers": [Health(server("the store is a replica", role="slave"))]}),
        ("read-only", {"servers": [Health(server(aof_last_write_status="err"))]}),
        ("read-only", {"servers": [Health(server("the store evicts keys"))]}),
        ("read-only", {"servers": [FINE], "lost_files": "the store's files were deleted"}),
        ("not-ready", {"servers": [FINE], "closed": "the data has layout 2"}),
        ("slow", {"servers": [Health(server(), 0.3)]}),
        ("slow", {"servers": [FINE], "call_seconds": 0.3}),
        ("slow", {"servers": [Health(server(), 1.8, silent_seconds=1.8)]}),
        ("nearly-full", {"servers": [Health(server(used_memory=81, maxmemory=100))]}),
        ("nearly-full", {"servers": [FINE], "disk": Disk(10**9, 10**11)}),
        ("well", {"servers": [FINE], "disk": Disk(20 * 10**9, 10**12)}),
        ("well", {"servers": [Health(server(used_memory=10**12, maxmemory=0))]}),
    ],
)
def test_what_is_wrong_is_named(name: str, seen: dict[str, Any]):
    """Each observation gives the expected condition; all but ``well`` say where to look and have an alert."""
    found = condition(Observation(**{"kind": "single", **seen}))
    assert found.name == name
    assert bool(found.look) == (name != "well")
    assert found.alert.startswith("Sash") == (name != "well")


@pytest.mark.parametrize("kind", ["single", "sentinel", "cluster"])
def test_a_store_that_refuses_is_not_called_down(kind: str):
    """A store that refuses the login, whose certificate is not trusted, or that is of another kind, says what to change."""
    for trouble, change in [
        ("invalid username-password pair or user is disabled.", "Put user and password into SASH_REDIS_URL."),
        ("Error 1. certificate verify failed: self-signed certificate (_ssl.c:1006).", "ssl_ca_certs"),
        ("certificate verify failed: Hostname mismatch", "as its certificate does"),
        ('Protocol error, got "H" as reply type byte', "the store's port"),
        ("This instance has cluster support disabled", "redis://"),
        ("DB index is out of range", "such as /0"),
    ]:
        found = condition(Observation(kind=kind, servers=[LOST], trouble=trouble))
        assert (found.name, found.title) == ("down", "The store refuses Sash")
        assert change in found.look


def test_a_node_that_refuses_leaves_the_others():
    """Where one of several primaries refuses the login, the store is failing over."""
    trouble = "Authentication required."
    assert named(FINE, LOST, kind="cluster", trouble=trouble) == "failing-over"


def test_the_worst_is_named():
    """If one server is lost and another is slow, the worse condition is reported."""
    assert named(LOST, Health(server(), 0.5), kind="cluster") == "failing-over"


DOWN = Condition("down", "The store is down", "its process", "SashStoreFailing")
OVER = Condition("failing-over", "The store is failing over", "who is elected", "SashStoreFailing")
SLOW = Condition("slow", "The store is slow", "its disk", "SashStoreSlow")


def told(*turns: tuple[float, Condition, set[str]]) -> list[str]:
    """Return the events of these observations: seconds, condition and primaries."""
    story = Story()
    return [event for at, now, primaries in turns for event, _, _ in story.goes_on(now, primaries, at)]


def test_an_outage_is_told_once_and_its_end_once():
    """An outage is logged as one start and one end, even if the store answers for a moment in between."""
    turns = [(0, WELL, {"a"}), (1, DOWN, set()), (2, DOWN, set()), (3, WELL, {"a"}), (4, DOWN, set())]
    turns += [(5, WELL, {"a"}), (6, WELL, {"a"}), (7.5, WELL, {"a"}), (9, WELL, {"a"})]
    assert told(*turns) == ["store lost", "store found"]


def test_another_primary_is_a_failover():
    """If another primary answers after an outage, a failover is logged."""
    turns = [(0, WELL, {"a"}), (1, OVER, set()), (3, WELL, {"b"}), (6, WELL, {"b"})]
    assert told(*turns) == ["store failing over", "store failed over"]


def test_slowness_is_told_when_it_lasts():
    """Slowness is logged only when it lasts, because a store that hangs is slow for a moment first."""
    assert told((0, WELL, {"a"}), (1, SLOW, {"a"}), (3.5, DOWN, set())) == ["store lost"]
    assert told((0, WELL, {"a"}), (1, SLOW, {"a"}), (4.5, SLOW, {"a"})) == ["store slow"]
    assert told((0, WELL, {"a"}), (1, SLOW, {"a"}), (3.5, WELL, {"a"}), (5, SLOW, {"a"})) == []


def test_what_remains_is_told_when_the_worst_is_over():
    """If the store is slow after an outage, the end of the outage is logged, then the slowness."""
    turns = [
        (0, WELL, {"a"}),
        (1, DOWN, set()),
        (2, SLOW, {"a"}),
        (5, SLOW, {"a"}),
        (8, WELL, {"a"}),
        (11, WELL, {"a"}),
    ]
    assert told(*turns) == ["store lost", "store found", "store slow", "store slow: over"]


@pytest.mark.parametrize(
    ("state", "title", "word"),
    [("D", "The store's disk does not answer", "disk"), ("T", "The store does not answer", "-CONT")],
)
def test_a_silent_embedded_store_names_its_disk_or_its_stop(state: str, title: str, word: str) -> None:
    """Of a store that does not answer, the process's state says whether it waits for its disk, or is stopped."""
    found = condition(Observation(kind="single", servers=[HANGS], process_state=state))
    assert found.title == title
    assert word in found.look
