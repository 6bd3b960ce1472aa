"""When the store's user may not run a command, the service names the command and writes nothing."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import redis
from conftest import ROOT, http, lifespan
from redis.crc import key_slot
from rigs.dialogue import user
from rigs.servers import Cluster, Sentinels, Server, binaries, linked, server, wait_until
from store.test_configuration import UNKNOWN_TO_7_0
from store.whole import until_named, until_ready

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.permissions import ELSEWHERE, NEEDED, SOMETIMES, command_name, denied_commands, is_denial

PRESENT = {name: path for name, path in binaries().items() if path is not None}
VALKEY = PRESENT["valkey-9"]
ACL = (ROOT / "deploy" / "redis" / "sash.acl").read_text()
HANDSHAKE = {"PING", "AUTH", "CLIENT SETINFO", "SELECT"}
"""Commands that redis-py sends when it connects, and a health check of the operator's."""
DENIED = {
    "script": ("-script", "SCRIPT LOAD"),
    "eval": ("-eval", "EVAL"),
    "evalsha": ("-evalsha", "EVALSHA"),
    "rename": ("-rename", "RENAME"),
    "hrandfield": ("-hrandfield", "HRANDFIELD"),
    "info": ("-info", "INFO"),
    "time": ("-time", "TIME"),
    "several": ("-script -rename", "RENAME, SCRIPT LOAD"),
    "keys": ("resetkeys ~mine:*", "Sash's keys"),
}


def rules() -> str:
    """Return the rules of the ACL file's user, with a password filled in."""
    line = next(line for line in ACL.splitlines() if line.startswith("user sash "))
    return re.sub(r"#0+", ">pw", line.removeprefix("user sash "))


def is_7_0(running: Server) -> bool:
    return running.connect().info("server")["redis_version"].startswith("7.0.")


def enter(running: Server, change: str = "") -> str:
    """Create the ACL file's user with ``change`` applied, and return the server's URL for this user."""
    unknown = UNKNOWN_TO_7_0 if is_7_0(running) else ()
    known = [rule for rule in rules().split(" ") if rule not in unknown]
    running.connect().execute_command("ACL SETUSER sash reset", *known, *change.split())
    return running.url.replace("://", "://sash:pw@")


@pytest.fixture(scope="module", params=PRESENT)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server for this file alone."""
    with server(PRESENT[request.param], tmp_path_factory.mktemp("acl")) as running:
        yield running


@asynccontextmanager
async def service(url: str, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    """Yield an HTTP client of a service on the store at ``url``."""
    given = {"redis_url": url, "store_connections": 2, "rate_limit": 1000.0, **settings}
    async with lifespan(create_app(Settings(**given))) as app, http(app) as client:  # type: ignore[arg-type]
        yield client


async def append(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/conversations/p-1/messages", json={"messages": [user("hello")]})


def conversations(link: redis.Redis) -> list[str]:
    """Return the keys of conversations on a server."""
    return [key for key in link.keys("sash:{default/*") if not key.endswith(":rate")]


def assert_denied(answer: httpx.Response, name: str) -> None:
    """Check that the answer is 503 store-permission-denied and names the permission."""
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-permission-denied"), answer.text
    assert name in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("what", DENIED)
async def test_a_missing_permission_is_named_and_nothing_is_written(running: Server, what: str) -> None:
    """Without a permission appends are 503 with its name, which readiness tells; nothing is written until it is granted."""
    change, name = DENIED[what]
    running.connect().flushall()
    async with service(enter(running, change)) as client:
        await until_named(client, name)
        assert_denied(await append(client), name)
        assert conversations(running.connect()) == []

        enter(running)

        await until_ready(client)
        assert (await append(client)).status_code == 201


async def test_what_one_connection_finds_holds_for_all(running: Server) -> None:
    """When one connection finds a permission granted again, the service is ready and accepts writes on every connection."""
    link = running.connect()
    link.flushall()
    async with service(enter(running, "-rename")) as client:
        assert_denied(await append(client), "RENAME")
        enter(running)
        ours = [each["id"] for each in link.client_list() if each["user"] == "sash"]
        link.client_kill_filter(_id=max(ours, key=int))
        await until_ready(client)
        assert (await append(client)).status_code == 201


async def test_a_permission_that_is_taken_away_is_noticed(running: Server) -> None:
    """When a permission is taken away from open connections, writes are 503 and readiness names it; reads go on."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await append(client)).status_code == 201
        before = {key: running.connect().type(key) for key in conversations(running.connect())}

        enter(running, "-hrandfield")

        await until_ready(client, refused="HRANDFIELD")
        assert_denied(await client.post("/conversations/p-1/rewind", json={"to_seq": 0}), "HRANDFIELD")
        assert (await client.get("/conversations/p-1")).status_code == 200
        assert {key: running.connect().type(key) for key in conversations(running.connect())} == before


async def test_a_call_that_is_denied_is_a_problem_of_its_own(running: Server) -> None:
    """A read that is denied between two checks of the server answers 503 store-permission-denied."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await append(client)).status_code == 201
        enter(running, "-pexpiretime")
        named = "GET /readyz names it" if is_7_0(running) else "PEXPIRETIME"
        assert_denied(await client.get("/conversations/p-1"), named)


async def test_a_first_append_that_is_denied_in_its_middle_can_be_sent_again(running: Server) -> None:
    """When a command is denied between two checks of the server, a conversation that was half made is made anew."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await client.post("/conversations", json={"id": "other"})).status_code == 201
        enter(running, "-rpush")
        assert_denied(await append(client), "RPUSH")

        enter(running)

        await until_ready(client)
        assert (await client.get("/conversations/p-1")).status_code == 404
        assert (await append(client)).status_code == 201


APPENDS = ("POST", "/conversations/p-1/messages", {"messages": [user("hello")]})
REDACTS = ("DELETE", "/conversations/p-1/messages/1", None)
REWINDS = ("POST", "/conversations/p-1/rewind", {"to_seq": 1})


@pytest.mark.parametrize(
    ("call", "command"),
    [
        *((APPENDS, command) for command in ("APPEND", "HSET", "RPUSH")),
        *((REDACTS, command) for command in ("LSET", "HDEL", "HINCRBY", "UNLINK")),
        *((REWINDS, command) for command in ("LTRIM", "HINCRBY", "UNLINK")),
    ],
)
async def test_a_write_that_is_denied_in_its_middle_changes_nothing(
    running: Server, call: tuple[str, str, object], command: str
) -> None:
    """When a command is denied between two checks of the server, a conversation stays as it was."""
    running.connect().flushall()
    method, path, body = call
    async with service(enter(running)) as client:
        await append(client)
        await append(client)
        before = (await client.get("/conversations/p-1/export")).text
        enter(running, f"-{command.lower()}")

        answer = await client.request(method, path, json=body)

        assert_denied(answer, command)
        enter(running)
        await until_ready(client)
        assert (await client.get("/conversations/p-1/export")).text == before
        assert (await client.request(method, path, json=body)).status_code < 300


async def test_waiting_for_a_replica_needs_a_permission(tmp_path: Path) -> None:
    """WAIT is needed at the level ``replicated`` alone."""
    with server(VALKEY, tmp_path / "a") as primary:
        url = enter(primary, "-wait")
        with server(VALKEY, tmp_path / "b", replicaof=f"127.0.0.1 {primary.port}") as replica:
            wait_until(lambda: linked(replica.connect()))
            async with service(url) as client:
                await until_ready(client)
            async with service(url, durability="replicated") as client:
                await until_ready(client, refused="WAIT")
                assert_denied(await append(client), "WAIT")
                assert conversations(primary.connect()) == []


@pytest.mark.parametrize("change", ["-role", "-rename"])
async def test_a_permission_that_is_missing_behind_sentinels_is_named(change: str, tmp_path: Path) -> None:
    """Behind sentinels a missing permission is named, even for ROLE, which is asked of the primary before anything else."""
    trio = Sentinels(VALKEY, tmp_path)
    try:
        trio.start()
        enter(trio.primary, change)
        async with service(trio.url.replace("://", "://sash:pw@")) as client:
            await until_named(client, change[1:].upper())
            assert_denied(await append(client), change[1:].upper())
            assert conversations(trio.primary.connect()) == []
    finally:
        trio.kill()


async def test_a_permission_that_one_node_of_a_cluster_denies_is_named(tmp_path: Path) -> None:
    """A permission that any primary of a cluster denies is named, also that to read the slot map."""
    cluster = Cluster(VALKEY, tmp_path)
    try:
        cluster.start()
        for each in cluster.servers:
            enter(each, "-cluster")
        async with service(cluster.url.replace("://", "://sash:pw@")) as client:
            await until_named(client, "CLUSTER SLOTS")
        for each in cluster.servers:
            enter(each)
        untouched = cluster.primary_of(
            key_slot(b"sash:{stats}:start")
        )  # statistics are written only after five seconds
        enter(untouched, "-hscan")
        async with service(cluster.url.replace("://", "://sash:pw@")) as client:
            async with asyncio.timeout(4):
                await until_ready(client, refused="HSCAN")
            enter(untouched)
            await until_ready(client)
    finally:
        cluster.kill()


# ---- the list of commands


def sent() -> set[str]:
    """Return the commands in the sources: those of scripts, and the first words of plain commands."""
    package = ROOT / "service" / "sash"
    scripts = "".join(path.read_text() for path in (package / "store" / "data" / "scripts").rglob("*.lua"))
    plain = [
        path for path in (package / "store").rglob("*.py") if path.stem not in {"checks", "foreign", "permissions"}
    ]
    python = "".join(path.read_text() for path in [*plain, package / "operations" / "statistics.py"])
    assert not re.search(r"redis\.p?call\((?!')", scripts), "a script that computes a command's name"
    words = re.findall(r"redis\.p?call\('([A-Z]+)'", scripts + python)
    tuples = re.findall(r'(?<!= )\(\s*"([A-Z]+)",(?: "([A-Z]+)")?', python)
    return {*words, *(command_name(each) for each in tuples), *re.findall(r'send_command\("([A-Z]+)"', python)}


def test_the_list_has_every_command_of_the_sources_and_no_other() -> None:
    """The lists have every command of the sources and no other: a new command must be added to them."""
    listed = {command_name(words) for words in (*NEEDED, *SOMETIMES)} | set(ELSEWHERE)
    assert sent() | {"SCAN"} == listed  # SCAN is sent to one server after the other


def test_the_acl_file_allows_the_list_and_nothing_else() -> None:
    """deploy/redis/sash.acl allows the listed commands and those of the handshake, and no other."""
    allowed = {rule[1:].upper().replace("|", " ") for rule in rules().split(" ") if rule.startswith("+")}
    listed = {command_name(words) for words in (*NEEDED, *SOMETIMES)} | set(ELSEWHERE)
    assert allowed == listed | HANDSHAKE


def test_a_server_without_a_way_to_ask_is_served() -> None:
    """An error that is no denial, or an empty answer, denies nothing: each call finds out for itself."""
    busy = redis.ResponseError("BUSY Redis is busy running a script.")
    assert (denied_commands(busy), is_denial(busy)) == ((), False)
    assert denied_commands([]) == ()


async def test_an_append_whose_window_is_denied_is_stored(running: Server) -> None:
    """When the tail of an append's window may not be read, the answer tells that, and that the message is stored."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await append(client)).status_code == 201
        enter(running, "-lrange")
        body = {"messages": [user("again")]}
        answer = await client.post("/conversations/p-1/messages?model=gpt-4o", json=body)
        assert (answer.status_code, answer.json()["messages"][0]["seq"]) == (201, 2)
        told = answer.json()
        assert (told["window"], told["window_error"]["type"]) == (None, "/problems/store-permission-denied")
        assert running.connect().llen("sash:{default/p-1}:log") == 2
