"""The client batches commands, matches replies to callers, and loses or repeats no write when a connection breaks."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import redis
import uvloop
from conftest import ROOT, kill, opened
from redis.exceptions import MovedError, ResponseError
from rigs.entries import said, texts_of
from rigs.relay import relayed

from sash.problems import StoreUnavailable
from sash.store.data.layout import life_of, target_at
from sash.store.data.tails import Reach
from sash.store.redis.addresses import read_url
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.lua import SCRIPTS
from sash.store.redis.redis_parts import NOT_ENOUGH_DATA, ask, connect_to, key_slot, primary_of, take_over

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncIterator[Client]:
    client = Client(url, **{"connections": 1, **options})
    await client.open()
    try:
        await client.commands([("PING",)])
        yield client
    finally:
        await client.close()


async def echo(client: Client, text: str) -> str:
    """Return the server's reply to ECHO."""
    (reply,) = await client.commands([("ECHO", text)])
    return str(reply, "utf-8")


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, for at most a minute."""
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


async def test_one_tick_is_a_few_writes(store: EmbeddedStore, tmp_path: Path) -> None:
    """Commands of one loop tick leave four in a write, and each caller gets its own reply."""
    async with relayed(store.url, tmp_path) as (relay, url), connected(url) as client:
        before = relay.writes

        replies = await asyncio.gather(*(echo(client, f"q{n}") for n in range(100)))

        assert replies == [f"q{n}" for n in range(100)]
        assert relay.writes - before <= 25


def test_calls_while_a_connection_closes_wait_for_the_next(store: EmbeddedStore) -> None:
    """Calls made when their connection was closed, and this is not yet noticed, get their replies from a new one."""

    async def ask() -> None:
        async with connected(store.url) as client:
            for _ in range(5):
                client._only.connections[0].pipeline.abort()  # type: ignore[union-attr]
                assert await asyncio.gather(*(echo(client, f"q{n}") for n in range(20))) == [f"q{n}" for n in range(20)]

    uvloop.run(ask())  # the service's loop, on which a write to a closed socket raises


async def test_commands_of_one_call_run_in_order(store: EmbeddedStore) -> None:
    """Commands of one call run in order; an error among them is raised, and neither stops the rest nor shifts a reply."""
    async with connected(store.url) as client:
        key = "t{order}"
        replies = await client.commands([("SET", key, "1"), ("INCR", key), ("GET", key), ("DEL", key)])
        assert replies == [b"OK", 2, b"2", 1]

        other = asyncio.create_task(echo(client, "mine"))
        with pytest.raises(ResponseError, match="wrong kind"):
            await client.commands([("SET", key, "x"), ("LPUSH", key, "y"), ("DEL", key)])
        assert await other == "mine"
        assert await client.commands([("EXISTS", key)]) == [0]


async def test_a_call_without_commands_asks_nothing(store: EmbeddedStore) -> None:
    """A call without commands returns no replies."""
    async with connected(store.url) as client:
        assert await client.commands([]) == []


@pytest.mark.parametrize("seed", range(4))
async def test_cancelled_requests_shift_no_reply(store: EmbeddedStore, seed: int) -> None:
    """When other requests are cancelled at random moments, every request that remains gets its own reply."""
    chance = random.Random(seed)
    async with connected(store.url, connections=2) as client:

        async def ask(n: int) -> bool:
            text = f"{seed}-{n}-{'x' * chance.randrange(2000)}"
            return await echo(client, text) == text

        async def cancelled(n: int) -> None:
            task = asyncio.create_task(ask(n))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() / 500)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        kept: list[asyncio.Task[bool]] = []
        gone = []
        for n in range(600):
            if chance.random() < 0.5:
                gone.append(asyncio.create_task(cancelled(n)))
            else:
                kept.append(asyncio.create_task(ask(n)))
            if chance.random() < 0.2:
                await asyncio.sleep(0)

        assert all(await asyncio.gather(*kept))
        await asyncio.gather(*gone)
        assert await echo(client, "after") == "after"


async def test_a_cancelled_request_does_not_hold_the_next(store: EmbeddedStore) -> None:
    """A request that is cancelled while it waits behind a slow one does not block later requests."""
    async with connected(store.url) as client:
        slow = asyncio.create_task(client.commands([("BLPOP", "t{none}", "0.2")]))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(echo(client, "gone"))
        await asyncio.sleep(0.02)
        waiting.cancel()

        assert await echo(client, "next") == "next"
        assert (await slow, waiting.cancelled()) == ([None], True)


async def test_calls_take_a_connection_on_which_nothing_waits(store: EmbeddedStore) -> None:
    """While a slow call holds one connection, later calls take the other, one by one, together, or tick after tick."""
    async with connected(store.url, connections=2) as client:
        await until(lambda: client.load.idle == 2)
        slow = asyncio.create_task(client.commands([("BLPOP", "t{none}", "2")]))
        await asyncio.sleep(0.02)

        assert [await echo(client, f"q{n}") for n in range(10)] == [f"q{n}" for n in range(10)]
        assert await asyncio.gather(*(echo(client, f"r{n}") for n in range(100))) == [f"r{n}" for n in range(100)]
        ticks = []
        for n in range(10):
            ticks += [asyncio.create_task(echo(client, f"s{n}")) for _ in range(10)]
            await asyncio.sleep(0)
        assert await asyncio.gather(*ticks) == [f"s{n}" for n in range(10) for _ in range(10)]
        assert not slow.done()
        assert await slow == [None]


async def test_a_call_that_is_half_answered_is_asked_again(store: EmbeddedStore, tmp_path: Path) -> None:
    """When the connection is lost between two replies of a call, all its commands and the calls behind it are sent again."""
    async with relayed(store.url, tmp_path) as (relay, url), connected(url) as client:
        half = asyncio.create_task(client.commands([("ECHO", "first"), ("BLPOP", "t{none}", "0.3"), ("ECHO", "last")]))
        behind = asyncio.create_task(echo(client, "behind"))
        await asyncio.sleep(0.1)
        await relay.close()

        assert await half == [b"first", None, b"last"]
        assert (await behind, relay.connections) == ("behind", 2)


async def test_a_connection_that_cannot_be_made_holds_nobody(tmp_path: Path) -> None:
    """When the server takes no more connections, a call waits for an open one, even if that is busy."""
    with (
        EmbeddedStore(tmp_path, fsync="everysec") as store,
        redis.Redis.from_url(store.url) as admin,
    ):
        async with connected(store.url, connections=2) as client:
            await until(lambda: client.load.idle == 2)
            admin.config_set("maxclients", 2)
            admin.client_kill_filter(_id=max({int(each["id"]) for each in admin.client_list()} - {admin.client_id()}))
            await until(lambda: client.load.down == 1)
            slow = asyncio.create_task(client.commands([("BLPOP", "t{none}", "0.2")]))
            await asyncio.sleep(0.05)

            assert await echo(client, "next") == "next"
            assert await slow == [None]


@pytest.mark.usefixtures("nothing_left")
async def test_a_lost_reply_is_no_second_turn(store: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """After a lost reply the client repeats the append; its messages are stored once and are not reported as duplicates."""
    async with relayed(store.url, tmp_path) as (relay, url), opened(url, connections=1) as conversations:
        await conversations.append(target_at("default", conversation), said("one"), **APPEND)
        relay.lose_reply = True

        reply = await conversations.append(target_at("default", conversation), said("two", "three"), **APPEND)

        assert relay.lost == 1
        assert [(entry.seq, entry.duplicate) for entry in reply.entries] == [(2, False), (3, False)]
        assert reply.version == 2
        assert len(await texts_of(conversations, "default", conversation)) == 3


@pytest.mark.usefixtures("nothing_left")
async def test_a_state_is_of_one_moment(store: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """A state is the one before or after each write of another client, also where the request arrives in pieces."""
    async with (
        relayed(store.url, tmp_path) as (relay, url),
        opened(url, connections=1) as slow,
        opened(store.url, connections=1) as other,
    ):
        await other.append(target_at("default", conversation), said("one"), **APPEND)
        await slow.reader.get(target_at("default", conversation))
        relay.piece_bytes = 40

        async def write() -> None:
            for n in range(100):
                await other.append(target_at("default", conversation), said(f"m{n}"), **APPEND)

        writing = asyncio.create_task(write())
        while not writing.done():
            state = await slow.reader.get(target_at("default", conversation))
            assert state.version == state.length
        await writing


@pytest.mark.usefixtures("nothing_left")
async def test_lost_replies_of_other_writes(store: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """A create or a change that is repeated after a lost reply returns its first result and changes nothing more."""
    async with relayed(store.url, tmp_path) as (relay, url), opened(url, connections=1) as conversations:
        await conversations.append(target_at("default", f"{conversation}-warm"), said("one"), **APPEND)
        relay.lose_reply = True
        etag = await conversations.create(target_at("default", conversation), b"{}", ttl_ms=None, now_ms=1, token="t1")
        relay.lose_reply = True
        changed = await conversations.change(
            target_at("default", conversation),
            life=life_of(etag),
            settings=b'{"reserve":1}',
            standing=b"{}",
            ttl_ms=None,
            if_match=etag,
            now_ms=2,
            token="t2",
        )

        assert (relay.lost, changed.version) == (2, 2)
        state = await conversations.reader.get(target_at("default", conversation))
        assert (state.version, state.settings) == (2, b'{"reserve":1}')


@pytest.mark.usefixtures("nothing_left")
async def test_broken_connections_under_load(store: EmbeddedStore, fresh: Any, tmp_path: Path) -> None:
    """When replies are lost again and again under load, every append is acknowledged and stored once."""
    names = [fresh() for _ in range(4)]
    async with relayed(store.url, tmp_path) as (relay, url), opened(url, connections=2) as conversations:

        async def talk(name: str, n: int) -> None:
            await conversations.append(target_at("default", name), said(f"{name} {n}", identity=f"m{n}-"), **APPEND)
            if n % 7 == 0:
                relay.lose_reply = True

        for start in range(0, 60, 10):
            await asyncio.gather(*(talk(name, n) for name in names for n in range(start, start + 10)))

        assert relay.lost > 3
        for name in names:
            found = await texts_of(conversations, "default", name)
            assert sorted(found) == sorted(f'{{"role":"user","content":"{name} {n}"}}'.encode() for n in range(60))


@pytest.mark.usefixtures("nothing_left")
async def test_flushed_scripts_are_loaded_again(store: EmbeddedStore, conversation: str, server: redis.Redis) -> None:
    """Appends succeed after SCRIPT FLUSH, by an operator or a restart of another node: the scripts are loaded again."""
    async with opened(store.url) as conversations:
        await conversations.append(target_at("default", conversation), said("one"), **APPEND)
        server.script_flush()
        await conversations.append(target_at("default", conversation), said("two"), **APPEND)
        server.script_flush()
        reply = await conversations.append(target_at("default", conversation), said("three"), **APPEND, reach=Reach())

        tail = await conversations.reader.tails.opened(target_at("default", conversation), reply.tail)

        assert (reply.entries[0].seq, len(tail.records)) == (3, 3)


async def test_a_server_that_hangs(tmp_path: Path) -> None:
    """A hundred calls without a reply end together at their deadline, each sent once; late replies reach no later call."""
    with EmbeddedStore(tmp_path, fsync="everysec") as hung:
        async with connected(hung.url, timeout_seconds=3.0) as client:
            os.kill(hung.pid, signal.SIGSTOP)
            started = time.monotonic()
            try:
                replies = await asyncio.gather(*(echo(client, f"late{n}") for n in range(100)), return_exceptions=True)
            finally:
                os.kill(hung.pid, signal.SIGCONT)
            waited = time.monotonic() - started

            assert {type(reply) for reply in replies} == {StoreUnavailable}
            assert 3.0 <= waited < 20
            assert [await echo(client, f"now{n}") for n in range(20)] == [f"now{n}" for n in range(20)]
            with redis.Redis.from_url(hung.url) as connection:
                assert connection.info("commandstats")["cmdstat_echo"]["calls"] <= 120


async def test_a_machine_that_pauses_blames_no_store(tmp_path: Path) -> None:
    """Where the service itself was kept from running, as on a busy machine, this time is no silence of the store."""
    with EmbeddedStore(tmp_path, fsync="everysec") as own:
        async with connected(own.url, timeout_seconds=2.0) as client:
            await asyncio.sleep(0.3)
            os.kill(own.pid, signal.SIGSTOP)
            try:
                asked = asyncio.ensure_future(echo(client, "hello"))
                await asyncio.sleep(0.01)
                time.sleep(1.5)  # noqa: ASYNC251 - the machine's pause
                await asyncio.sleep(0.3)
                is_down = client.is_down
            finally:
                os.kill(own.pid, signal.SIGCONT)
            assert not is_down
            assert await asked == "hello"


async def test_a_server_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Appends that run while the server is killed and started again on its data are all stored, once and in order."""
    store = EmbeddedStore(tmp_path)
    store.start()
    try:
        async with opened(store.url, connections=2) as conversations:

            async def talk(n: int) -> None:
                for turn in range(40):
                    await conversations.append(target_at("t", f"c{n}"), said(f"{turn}", identity=f"{turn}-"), **APPEND)

            talks = asyncio.gather(*(talk(n) for n in range(4)))
            await asyncio.sleep(0.05)
            kill(store)
            await asyncio.to_thread(store.start)
            await talks

            expected = [f'{{"role":"user","content":"{turn}"}}'.encode() for turn in range(40)]
            for n in range(4):
                assert await texts_of(conversations, "t", f"c{n}") == expected
    finally:
        store.stop()


async def test_closing_tells_who_waits(store: EmbeddedStore) -> None:
    """Closing the client raises StoreUnavailable in a call that waits."""
    client = Client(store.url, connections=1)
    await client.open()
    waiting = asyncio.create_task(client.commands([("BLPOP", "t{none}", "5")]))
    await asyncio.sleep(0.05)

    await client.close()

    with pytest.raises(StoreUnavailable):
        await waiting


async def test_a_server_that_refuses(tmp_path: Path) -> None:
    """A command refused for now, as by READONLY, is repeated until its deadline, and succeeds once the server accepts it."""
    with (
        EmbeddedStore(tmp_path, fsync="everysec") as store,
        redis.Redis.from_url(store.url) as admin,
    ):
        async with connected(store.url, timeout_seconds=20) as client:
            admin.execute_command("REPLICAOF", "127.0.0.1", "1")
            writing = asyncio.create_task(client.commands([("SET", "t", "1")]))
            await asyncio.sleep(0.15)
            assert not writing.done()
            admin.execute_command("REPLICAOF", "NO", "ONE")

            assert await writing == [b"OK"]


async def test_what_cannot_be_sent_harms_nobody(store: EmbeddedStore) -> None:
    """A command that cannot be encoded fails for its own caller only; commands beside it are answered."""
    async with connected(store.url) as client:
        bad = asyncio.create_task(echo(client, "\ud800"))
        good = asyncio.create_task(echo(client, "good"))

        assert await good == "good"
        with pytest.raises((UnicodeEncodeError, StoreUnavailable)):
            await bad
        assert await echo(client, "later") == "later"


async def test_the_private_parts_of_redis_py_are_what_we_take_them_for(store: EmbeddedStore) -> None:
    """redis-py has the private parts that redis_parts.py lists; an upgrade of redis-py starts at that file."""
    pinned = {line for line in (ROOT / "pyproject.toml").read_text().split('"') if line.startswith("redis[")}
    assert pinned == {f"redis[hiredis]=={version('redis')}"}
    connection = await connect_to(read_url(store.url), 1)()
    try:
        pong, error = await ask(connection, [("PING",), ("NONE",)])
        assert (pong, type(error)) == (b"PONG", ResponseError)
        transport, reader = take_over(connection)
        assert callable(transport.set_protocol)
        assert reader.gets() is NOT_ENOUGH_DATA
        reader.feed(b"-MOVED 7 there:1\r\n-LOADING\r\n+OK\r\n")
        moved, loading = reader.gets(), reader.gets()
        assert (type(moved), moved.slot_id, moved.host, moved.port) == (MovedError, 7, "there", 1)
        assert (isinstance(loading, redis.ConnectionError), reader.gets()) == (True, b"OK")
    finally:
        await connection.disconnect(nowait=True)
    assert key_slot(b"sash:{t/c}:log") == key_slot(b"t/c") == 3797


async def test_connections_that_are_made_at_once_lose_no_sentinel(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first sentinel is down, eight connections ask the second at once; it is the first then, and none is lost."""
    connect, sentinel = primary_of(read_url("redis+sentinel://a,b,c/main"), 1)
    first, second, third = sentinel.sentinels
    nowhere = {"ip": "127.0.0.1", "port": 1, "is_master": True, "is_sdown": False, "is_odown": False}

    async def down() -> Any:
        raise redis.ConnectionError

    async def answers() -> Any:
        await asyncio.sleep(0)
        return {"main": nowhere | {"num-other-sentinels": 2}}

    monkeypatch.setattr(first, "sentinel_masters", down)
    monkeypatch.setattr(second, "sentinel_masters", answers)
    made = await asyncio.gather(*(connect() for _ in range(8)), return_exceptions=True)
    assert {type(each) for each in made} == {redis.ConnectionError}
    assert sentinel.sentinels == [second, first, third]


def test_scripts_say_what_they_do() -> None:
    """Every script begins with a Lua shebang and a comment, and its hash has 40 characters."""
    for script in SCRIPTS.values():
        lines = script.source.decode().splitlines()
        assert lines[0].startswith("#!lua")
        assert lines[1].startswith("-- ")
        assert len(script.sha) == 40
