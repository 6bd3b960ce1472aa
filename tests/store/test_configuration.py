"""Servers start from the files in deploy/redis, replicate to each other, and take an append and an erasure."""

from hashlib import sha256
from pathlib import Path

import pytest
from conftest import http, lifespan
from rigs.servers import Server, binaries, wait_until
from store.whole import one_turn, until_ready

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.checks import check_store

PRESENT = {name: path for name, path in binaries().items() if path is not None}
FILES = Path(__file__).resolve().parent.parent.parent / "deploy" / "redis"
ZEROS = "#" + "0" * 64
UNKNOWN_TO_7_0 = ("+client|setinfo", "+waitaof")
"""Commands that Redis 7.0 does not know; redis.conf says to remove them there."""
OPTIONAL = {
    "replicas": ("min-replicas-to-write 1", "min-replicas-max-lag 10", "masteruser replica", "masterauth ..."),
    "valkey": ("commandlog-request-larger-than -1", "commandlog-reply-larger-than -1", "hide-user-data-from-log yes"),
    "memory": ("maxmemory 3gb",),
    "cluster": ("cluster-enabled yes", "cluster-require-full-coverage no"),
}
"""Optional settings that redis.conf has as comments."""


def configured(binary: Path, folder: Path, *parts: str, **settings: str) -> Server:
    """Return a server on the files of deploy/redis, with passwords filled in and the optional ``parts`` enabled."""
    folder.mkdir()
    users = (FILES / "sash.acl").read_text()
    for password in ("pw-sash", "pw-replica"):
        users = users.replace(ZEROS, "#" + sha256(password.encode()).hexdigest(), 1)
    if binary == PRESENT.get("redis-7"):
        for word in UNKNOWN_TO_7_0:
            assert word in users
            users = users.replace(f" {word}", "")
    (folder / "sash.acl").write_text(users)
    text = (FILES / "redis.conf").read_text().replace("/etc/redis/sash.acl", str(folder / "sash.acl"))
    for line in (line for part in parts for line in OPTIONAL[part]):
        assert f"\n# {line}\n" in text
        text = text.replace(f"\n# {line}\n", f"\n{line}\n".replace("...", "pw-replica"))
    (folder / "redis.conf").write_text(text)
    return Server(binary, folder, file=folder / "redis.conf", **settings)


def started(running: Server) -> Server:
    """Start the server, and return it when it answers the user ``sash``."""
    running.start(wait=False)
    wait_until(lambda: bool(running.connect(username="sash", password="pw-sash").ping()))
    return running


@pytest.mark.parametrize("name", PRESENT)
async def test_a_server_alone_starts_from_the_file_and_takes_a_turn(name: str, tmp_path: Path) -> None:
    """Valkey 9, Redis 8 and Redis 7 start from the file, and a durable append waits for no replica."""
    running = configured(PRESENT[name], tmp_path / "one")
    try:
        await one_turn(started(running).url.replace("://", "://sash:pw-sash@"), durability="durable")
    finally:
        running.kill()


@pytest.mark.parametrize("name", PRESENT)
async def test_a_server_from_the_files_is_ready(name: str, tmp_path: Path) -> None:
    """A server from the files with a memory limit is ready under appendfsync always, and the doctor finds no problem."""
    running = configured(PRESENT[name], tmp_path / "one", "memory")
    try:
        url = started(running).url.replace("://", "://sash:pw-sash@")
        async with lifespan(create_app(Settings(redis_url=url))) as app, http(app) as client:
            answer = await until_ready(client)
        assert (answer.status_code, answer.json()["store"]["how"]) == (200, "appendfsync always")
        findings = await check_store(url, tmp_path, "durable")
        assert [each for each in findings if each.verdict == "problem"] == []
    finally:
        running.kill()


@pytest.mark.parametrize("name", PRESENT)
async def test_a_replica_follows_as_the_user_of_the_acl_file(name: str, tmp_path: Path) -> None:
    """With the lines for replicas enabled, a replica follows and a replicated append is acknowledged."""
    quick = {"repl_diskless_sync_delay": "0"}
    primary = configured(PRESENT[name], tmp_path / "a", "replicas", **quick)
    replica = configured(PRESENT[name], tmp_path / "b", "replicas", replicaof=f"127.0.0.1 {primary.port}", **quick)
    try:
        started(primary)
        started(replica)
        link = replica.connect(username="sash", password="pw-sash")
        wait_until(lambda: link.info("replication")["master_link_status"] == "up")
        await one_turn(primary.url.replace("://", "://sash:pw-sash@"), durability="replicated")
    finally:
        replica.kill()
        primary.kill()


@pytest.mark.parametrize("part", ["valkey", "cluster"])
def test_what_stands_there_as_a_remark_is_known_to_valkey(part: str, tmp_path: Path) -> None:
    """Valkey starts with the optional lines for Valkey, and with those for a cluster."""
    running = configured(PRESENT["valkey-9"], tmp_path / "one", part)
    try:
        started(running)
    finally:
        running.kill()
