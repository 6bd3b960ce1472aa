"""A store's user who may not run every command: the service says which is missing, and writes nothing."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import redis
from api.dialogue import user
from conftest import ROOT, http, lifespan
from redis.crc import key_slot
from store.servers import Cluster, Sentinels, Server, binaries, linked, server, wait_until
from store.whole import until_ready

from service.app import create_app
from service.settings import Settings
from service.store.permissions import ELSEWHERE, NEEDED, SOMETIMES, command_name, denied_commands, is_denial

PRESENT = {name: path for name, path in binaries().items() if path is not None}
VALKEY = PRESENT["valkey-9"]
ACL = (ROOT / "deploy" / "redis" / "sash.acl").read_text()
HANDSHAKE = {"PING", "HELLO", "AUTH", "CLIENT SETINFO", "SELECT", "COMMAND"}
"""What redis-py and ``sash doctor`` send besides."""
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
    """The rules of the ACL file's user, with a password put in."""
    line = next(line for line in ACL.splitlines() if line.startswith("user sash "))
    return re.sub(r"#0+", ">pw", line.removeprefix("user sash "))


def enter(running: Server, change: str = "") -> str:
    """Make the user of the ACL file, changed so; the URL of the server as that user."""
    running.connect().execute_command("ACL SETUSER sash reset", *rules().split(" "), *change.split())
    return running.url.replace("://", "://sash:pw@")


@pytest.fixture(scope="module", params=PRESENT)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of this file's own."""
    with server(PRESENT[request.param], tmp_path_factory.mktemp("acl")) as running:
        yield running


@asynccontextmanager
async def service(url: str, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
    """A service on the store at ``url``."""
    given = {"redis_url": url, "store_connections": 2, "rate_limit": 1000.0, **settings}
    async with lifespan(create_app(Settings(**given))) as app, http(app) as client:  # type: ignore[arg-type]
        yield client


async def append(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/conversations/p-1/messages", json={"messages": [user("hello")]})


def conversations(link: redis.Redis) -> list[str]:
    """The keys of conversations on a server."""
    return [key for key in link.keys("sash:{default/*") if not key.endswith(":rate")]


def assert_denied(answer: httpx.Response, name: str) -> None:
    """The answer is the problem of a permission that is missing, and names it."""
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-permission-denied"), answer.text
    assert name in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("what", DENIED)
async def test_a_missing_permission_is_named_and_nothing_is_written(running: Server, what: str) -> None:
    """Readiness and an append are 503 with the command's name, the store stays as it was, and both are well when it is."""
    change, name = DENIED[what]
    running.connect().flushall()
    async with service(enter(running, change)) as client:
        assert_denied(await client.get("/readyz"), name)
        assert_denied(await append(client), name)
        assert conversations(running.connect()) == []

        enter(running)

        await until_ready(client)
        assert (await append(client)).status_code == 201


async def test_what_one_connection_finds_holds_for_all(running: Server) -> None:
    """A service that says it is ready accepts writes, also when only one of its connections has looked since."""
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
    """Without a new connection: the next look, a second later at most, refuses writes; reads go on."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await append(client)).status_code == 201
        before = {key: running.connect().type(key) for key in conversations(running.connect())}

        enter(running, "-hrandfield")

        assert_denied(await until_ready(client, status=503), "HRANDFIELD")
        assert_denied(await client.post("/conversations/p-1/rewind", json={"to_seq": 0}), "HRANDFIELD")
        assert (await client.get("/conversations/p-1")).status_code == 200
        assert {key: running.connect().type(key) for key in conversations(running.connect())} == before


async def test_a_call_that_is_denied_is_a_problem_of_its_own(running: Server) -> None:
    """Between two looks at the server too: not a 500, and not taken for a store that does not answer."""
    running.connect().flushall()
    async with service(enter(running)) as client:
        assert (await append(client)).status_code == 201
        enter(running, "-pexpiretime")
        assert_denied(await client.get("/conversations/p-1"), "PEXPIRETIME")


async def test_waiting_for_a_replica_needs_a_permission(tmp_path: Path) -> None:
    """WAIT is needed at the level ``replicated`` alone."""
    with server(VALKEY, tmp_path / "a") as primary:
        url = enter(primary, "-wait")
        with server(VALKEY, tmp_path / "b", replicaof=f"127.0.0.1 {primary.port}") as replica:
            wait_until(lambda: linked(replica.connect()))
            async with service(url) as client:
                assert (await client.get("/readyz")).status_code == 200
            async with service(url, durability="replicated") as client:
                assert_denied(await client.get("/readyz"), "WAIT")
                assert_denied(await append(client), "WAIT")
                assert conversations(primary.connect()) == []


@pytest.mark.parametrize("change", ["-role", "-rename"])
async def test_a_permission_that_is_missing_behind_sentinels_is_named(change: str, tmp_path: Path) -> None:
    """ROLE is asked of the primary before anything else is."""
    trio = Sentinels(VALKEY, tmp_path)
    try:
        trio.start()
        enter(trio.primary, change)
        async with service(trio.url.replace("://", "://sash:pw@")) as client:
            assert_denied(await client.get("/readyz"), change[1:].upper())
            assert_denied(await append(client), change[1:].upper())
            assert conversations(trio.primary.connect()) == []
    finally:
        trio.kill()


async def test_a_permission_that_one_node_of_a_cluster_denies_is_named(tmp_path: Path) -> None:
    """Every primary is asked, whoever serves the conversation; and a map that may not be read is said to be so."""
    cluster = Cluster(VALKEY, tmp_path)
    try:
        cluster.start()
        for each in cluster.servers:
            enter(each, "-cluster")
        async with service(cluster.url.replace("://", "://sash:pw@")) as client:
            assert_denied(await client.get("/readyz"), "CLUSTER SLOTS")
        for each in cluster.servers:
            enter(each)
        untouched = cluster.primary_of(
            key_slot(b"sash:{stats}:start")
        )  # the first figures are added after five seconds
        enter(untouched, "-hscan")
        async with service(cluster.url.replace("://", "://sash:pw@")) as client:
            async with asyncio.timeout(4):
                assert_denied(await until_ready(client, status=503), "HSCAN")
            enter(untouched)
            await until_ready(client)
    finally:
        cluster.kill()


# ---- the list


def sent() -> set[str]:
    """The commands in the sources: those of scripts, and the first words of plain commands."""
    store = ROOT / "service" / "store"
    scripts = "".join(path.read_text() for path in (store / "scripts").glob("*.lua"))
    plain = [path for path in store.glob("*.py") if path.stem not in {"checks", "foreign", "permissions"}]
    python = "".join(path.read_text() for path in [*plain, ROOT / "service" / "operations" / "statistics.py"])
    assert not re.search(r"redis\.p?call\((?!')", scripts), "a script that computes a command's name"
    words = re.findall(r"redis\.p?call\('([A-Z]+)'", scripts + python)
    tuples = re.findall(r'(?<!= )\(\s*"([A-Z]+)",(?: "([A-Z]+)")?', python)
    return {*words, *(command_name(each) for each in tuples), *re.findall(r'send_command\("([A-Z]+)"', python)}


def test_the_list_has_every_command_of_the_sources_and_no_other() -> None:
    """A command that somebody adds to a script or a call fails this test until the list has it."""
    listed = {command_name(words) for words in (*NEEDED, *SOMETIMES)} | set(ELSEWHERE)
    assert sent() | {"SCAN"} == listed  # which goes to one server after the other


def test_the_acl_file_allows_the_list_and_nothing_else() -> None:
    """deploy/redis/sash.acl agrees with what the service says that it needs."""
    allowed = {rule[1:].upper().replace("|", " ") for rule in rules().split(" ") if rule.startswith("+")}
    listed = {command_name(words) for words in (*NEEDED, *SOMETIMES)} | set(ELSEWHERE)
    assert allowed == listed | HANDSHAKE


def test_a_server_without_a_way_to_ask_is_served() -> None:
    """Errors that are no denials deny nothing: each call finds out for itself."""
    busy = redis.ResponseError("BUSY Redis is busy running a script.")
    assert (denied_commands(busy), is_denial(busy)) == ((), False)
    assert denied_commands([]) == ()
