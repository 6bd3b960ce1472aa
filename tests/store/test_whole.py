"""Every call of the HTTP contract on every server and kind of deployment, also as the ACL file's user."""

from hashlib import sha256
from pathlib import Path

import pytest
import redis
from rigs.servers import Cluster, Sentinels, Server, binaries, linked, server, wait_until
from store.whole import one_turn, whole_dialogue

PRESENT = {name: path for name, path in binaries().items() if path is not None}
ROOT = Path(__file__).resolve().parent.parent.parent
ACL = (ROOT / "deploy" / "redis" / "sash.acl").read_text()
ELSEWHERE = {
    "asking": "a slot that moves; the tests of clusters move some",
    "ping": "a health check of the operator's",
    "pttl": "recall of a conversation with a retention, and counts in other vocabularies",
    "hscan": "a rewind of a history of many thousand messages",
    "role": "a primary that sentinels named",
    "sadd": "keys for encryption at rest",
    "srem": "a master key that is replaced",
    "ssubscribe": "a conversation that is followed",
    "sunsubscribe": "a conversation that is followed no more",
}
"""Allowed commands that the dialogue does not use, and what uses them."""
BEHIND_THE_BACK = {"acl|setuser", "config|resetstat"}


@pytest.mark.parametrize("name", PRESENT)
async def test_the_whole_dialogue_on_one_server(name: str, tmp_path: Path) -> None:
    """The whole dialogue works on Valkey 9, Redis 8 and Redis 7."""
    with server(PRESENT[name], tmp_path) as running:
        await whole_dialogue(running.url, tmp_path)


@pytest.mark.parametrize("name", [name for name in PRESENT if name != "redis-7"])
async def test_the_whole_dialogue_on_a_cluster(name: str, tmp_path: Path) -> None:
    """The whole dialogue works on three primaries with a replica each: no call spans two slots."""
    cluster = Cluster(PRESENT[name], tmp_path)
    try:
        await whole_dialogue(cluster.start().url, tmp_path, durability="replicated")
    finally:
        cluster.kill()


@pytest.mark.parametrize("name", [name for name in PRESENT if name != "redis-7"])
async def test_the_whole_dialogue_behind_sentinels(name: str, tmp_path: Path) -> None:
    """The whole dialogue works behind sentinels, on a primary with a replica."""
    trio = Sentinels(PRESENT[name], tmp_path)
    try:
        await whole_dialogue(trio.start().url, tmp_path, durability="replicated")
    finally:
        trio.kill()


def allowed() -> set[str]:
    """Return the commands that the ACL file allows."""
    rules = next(line for line in ACL.splitlines() if line.startswith("user sash")).split(" ")
    return {rule[1:] for rule in rules if rule.startswith("+")}


def enter(running: Server) -> str:
    """Create the ACL file's user, reset the server's counters, and return the user's URL."""
    rules = next(line for line in ACL.splitlines() if line.startswith("user sash"))
    link = running.connect()
    link.execute_command("ACL SETUSER", *rules.replace("0" * 64, sha256(b"pw").hexdigest()).split(" ")[1:])
    link.config_resetstat()
    return running.url.replace("://", "://sash:pw@")


def used(*links: redis.Redis) -> set[str]:
    """Return the commands that servers counted, including those of scripts."""
    found = {name.removeprefix("cmdstat_") for link in links for name in link.info("commandstats")}
    return found - BEHIND_THE_BACK


async def test_the_acl_file_allows_what_is_used_and_nothing_else(tmp_path: Path) -> None:
    """The whole dialogue and a replicated append use exactly the allowed commands, except those of ELSEWHERE."""
    counted: set[str] = set()
    with server(PRESENT["valkey-9"], tmp_path / "one") as running:
        await whole_dialogue(enter(running) + "/1", tmp_path)
        counted |= used(running.connect())
    with (
        server(PRESENT["redis-8"], tmp_path / "a", appendfsync="everysec") as primary,
        server(PRESENT["redis-8"], tmp_path / "b", replicaof=f"127.0.0.1 {primary.port}") as replica,
    ):
        wait_until(lambda: linked(replica.connect()))
        await one_turn(enter(primary), durability="replicated", store_timeout_seconds=9)
        counted |= used(primary.connect()) - {"psync", "replconf"}
    cluster = Cluster(PRESENT["valkey-9"], tmp_path / "cluster")
    try:
        cluster.start()
        for each in cluster.servers:
            enter(each)
        await whole_dialogue(cluster.url.replace("://", "://sash:pw@"), tmp_path)
        counted |= used(*(each.connect() for each in cluster.primaries()))
    finally:
        cluster.kill()
    replicas = {"psync", "replconf", "cluster|myid", "cluster|info"}
    assert counted - replicas - allowed() == set()
    assert allowed() - counted == set(ELSEWHERE)
