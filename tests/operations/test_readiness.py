"""What each server of the store serves, and so whether a replica of the service is ready."""

import pytest
from operations.test_conditions import FINE, HANGS, LOST, server

from sash.operations.conditions import Observation
from sash.operations.readiness import Shard, shards_of
from sash.store.redis.lua import SCRIPTS
from sash.store.redis.permissions import NEEDED, OF_READS
from sash.store.redis.servers import Health

ALL = ["read", "append", "erase"]


def serves(*servers: Health, **seen: object) -> list[list[str]]:
    found = shards_of(Observation(kind="cluster", servers=servers, **seen))  # type: ignore[arg-type]
    assert [bool(each.why) for each in found] == [each.serves != ALL for each in found]
    return [list(each.serves) for each in found]


@pytest.mark.parametrize(
    ("one", "verbs"),
    [
        (FINE, ALL),
        (LOST, []),
        (HANGS, []),
        (Health(server(loading=1)), []),
        (Health(server("the store keeps no append-only file")), ["read"]),
        (Health(server(aof_last_write_status="err")), ["read"]),
        (Health(server(used_memory=101, maxmemory=100)), ["read", "erase"]),
    ],
)
def test_a_server_serves_what_it_can(one: Health, verbs: list[str]) -> None:
    """A lost, silent or loading server serves nothing; one that refuses writes still reads; a full one also erases."""
    assert serves(one) == [verbs]


def test_each_server_is_told_apart() -> None:
    """Of a cluster, the servers that are well serve on while another is lost."""
    assert serves(FINE, LOST, FINE) == [ALL, [], ALL]


def test_a_server_of_several_is_told_by_name() -> None:
    """The reason of a cluster's node has its address, that of a single store has none."""
    assert Shard("10.0.0.1:6379", [], "it is loading its data").told == "10.0.0.1:6379: it is loading its data"
    assert Shard("store", [], "it is loading its data").told == "it is loading its data"


def test_reads_need_the_commands_of_the_scripts_that_read() -> None:
    """A denied command takes reads away exactly if a script that reads, or the call of a script, sends it."""
    named = {words[0] for words in NEEDED}
    sent = {
        name
        for name in named
        for script in SCRIPTS.values()
        if script.effect == "reads" and f"'{name}'".encode() in script.source
    }
    writes = {"HDEL", "HSET"}  # of functions that these scripts include and do not call
    assert sent - writes | {"EVALSHA", "GET"} == OF_READS
