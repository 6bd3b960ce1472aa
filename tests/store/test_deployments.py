"""The same calls on every server and every kind of deployment, and the failures that each kind can have."""

import asyncio
import re
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from conftest import http, lifespan
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError
from rigs.servers import Cluster, Sentinels, Server, binaries, server, wait_until

from sash.app import create_app
from sash.core.chat.messages import Entry
from sash.core.law.documents.grounding import parse_template
from sash.problems import NotFound, Problem, StorePermissionDenied
from sash.settings import Settings
from sash.store.data.conversations import Conversations
from sash.store.data.datakeys import DataKeys, Rewrapped
from sash.store.data.entries import prepare
from sash.store.data.layout import keys_of, target_at
from sash.store.data.replies import Tail
from sash.store.data.tails import Reach
from sash.store.redis.addresses import read_url
from sash.store.redis.checks import check_store
from sash.store.redis.client import Client

PRESENT = {name: path for name, path in binaries().items() if path is not None}
ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATE = parse_template()
_PATIENT_SECONDS = 60
"""A timeout that no busy machine reaches, for calls that are to succeed."""


@asynccontextmanager
async def opened(
    url: str, masters: tuple[bytes, ...] = (), **options: Any
) -> AsyncIterator[tuple[Client, Conversations]]:
    client = Client(url, **{"timeout_seconds": _PATIENT_SECONDS, **options})
    await client.open()
    try:
        yield client, Conversations(client, data_keys=DataKeys(client, masters))
    finally:
        await client.close()


async def say(conversations: Conversations, conversation: str, *texts: str) -> int:
    """Append user messages whose ids are their texts, and return the newest seq."""
    entries = [Entry(message={"role": "user", "content": text}, id=text) for text in texts]
    reply = await conversations.append(
        target_at("t", conversation), prepare(entries, TEMPLATE, 1), settings=b"{}", if_match="", now_ms=1
    )
    return reply.entries[-1].seq


async def heard(conversations: Conversations, conversation: str) -> list[str]:
    """Return the texts of a conversation's window."""
    tail = await conversations.reader.tails.read(target_at("t", conversation), Reach(10**9))
    assert isinstance(tail, Tail)
    return re.findall(r'"content":"([^"]*)"', b",".join(tail.bodies).decode())


async def talk(conversations: Conversations) -> None:
    """Append to, read and erase conversations in many slots."""
    names = [f"c{i}" for i in range(30)]
    assert await asyncio.gather(*(say(conversations, name, "a", "b") for name in names)) == [2] * 30
    assert await asyncio.gather(*(say(conversations, name, "b", "c") for name in names)) == [3] * 30
    assert await asyncio.gather(*(heard(conversations, name) for name in names)) == [["a", "b", "c"]] * 30
    assert (await conversations.reader.get(target_at("t", "c7"))).length == 3
    page = await conversations.reader.page(target_at("t", "c7"), 2, 3)
    assert [message.seq for message in page.messages] == [2, 3]
    await asyncio.gather(*(conversations.erase(target_at("t", name), if_match="") for name in names))
    with pytest.raises(NotFound):
        await conversations.reader.get(target_at("t", "c7"))


@pytest.mark.parametrize("name", PRESENT)
async def test_a_talk_on_one_server(name: str, tmp_path: Path) -> None:
    """Valkey 9, Redis 8 and Redis 7 give the same answers, and keep no key after the erasures."""
    with server(PRESENT[name], tmp_path) as running:
        async with opened(running.url, durability="durable") as (_, conversations):
            await talk(conversations)
        assert running.connect().dbsize() == 0


@pytest.mark.parametrize("name", [name for name in PRESENT if name != "redis-7"])
async def test_a_talk_as_the_user_of_the_acl_file(name: str, tmp_path: Path) -> None:
    """The commands and keys of deploy/redis/sash.acl are enough, and another key is refused."""
    given = (ROOT / "deploy" / "redis" / "sash.acl").read_text()
    lines = [line for line in given.splitlines() if line.startswith("user sash")]
    rules = lines[0].replace("0" * 64, sha256(b"pw").hexdigest()).split(" ")[1:]
    with server(PRESENT[name], tmp_path) as running:
        running.connect().execute_command("ACL SETUSER", *rules)
        url = running.url.replace("://", "://sash:pw@")
        async with opened(url, durability="durable") as (client, conversations):
            await talk(conversations)
            with pytest.raises(StorePermissionDenied):
                await client.commands([("GET", "other:key")])
        async with opened(url, (b"k" * 32,), durability="durable") as (_, conversations):
            await talk(conversations)
            await conversations.data_keys.rotate("t")
        async with opened(url, (b"n" * 32, b"k" * 32)) as (_, conversations):
            assert [done async for done in conversations.data_keys.rewrap()] == [Rewrapped("t", 3, unlisted=False)]
        async with opened(url) as (_, conversations):
            assert "is not set" in await conversations.data_keys.refusal()


async def test_a_wrong_password_is_a_problem_within_the_deadline(tmp_path: Path) -> None:
    """A call with a wrong password fails with a problem."""
    with server(PRESENT["valkey-9"], tmp_path, requirepass="right") as running:
        url = running.url.replace("://", "://:wrong@")
        async with opened(url, timeout_seconds=0.5) as (client, _):
            with pytest.raises(Problem):
                await client.commands([("PING",)])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a self-signed certificate made for these tests."""
    folder = tmp_path_factory.mktemp("tls")
    options = (
        "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -keyout key.pem -out cert.pem "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    subprocess.run(["openssl", "req", *options.split(" ")], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    "scheme",
    ["rediss", *(pytest.param(f"rediss+{each}", marks=pytest.mark.nightly) for each in ("cluster", "sentinel"))],
)
async def test_a_certificate_that_is_not_trusted_is_named_in_the_status(scheme: str, certificates: Path) -> None:
    """While the store's certificate is not trusted, the condition in ``/status``, which is logged too, says so."""
    trusted = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trusted.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=trusted)
    port = listener.sockets[0].getsockname()[1]
    url = f"{scheme}://127.0.0.1:{port}" + ("/main" if "sentinel" in scheme else "")
    app = create_app(Settings(redis_url=url, store_timeout_seconds=10.0))
    async with listener, lifespan(app), http(app) as client:

        async def is_named() -> bool:
            condition = (await client.get("/status")).json()["condition"]
            return "certificate verify failed: self-signed certificate" in condition["look"]

        await eventually(is_named, 60)


@pytest.mark.parametrize("name", PRESENT)
async def test_a_talk_over_tls(name: str, tmp_path: Path, certificates: Path) -> None:
    """All calls work over rediss:// with a trusted certificate, and an untrusted certificate is refused."""
    port = Server(PRESENT[name], tmp_path).port
    tls = {"tls_port": str(port), "tls_cert_file": str(certificates / "cert.pem"), "tls_auth_clients": "no"}
    tls |= {"tls_key_file": str(certificates / "key.pem"), "tls_ca_cert_file": str(certificates / "cert.pem")}
    running = Server(PRESENT[name], tmp_path, **tls)
    try:
        running.start()
    except AssertionError:
        pytest.skip(f"{name} was built without TLS")
    try:
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificates / 'cert.pem'}"
        async with opened(url) as (_, conversations):
            await talk(conversations)
        async with opened(f"rediss://127.0.0.1:{port}", timeout_seconds=0.5) as (client, _):
            with pytest.raises(Problem):
                await client.commands([("PING",)])
    finally:
        running.kill()


@pytest.fixture(scope="module")
def encrypting(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first server that was built with TLS: of those that packages bring, Debian's."""
    for name, binary in PRESENT.items():
        trial = Server(binary, tmp_path_factory.mktemp(name), tls=certificates)
        try:
            trial.start()
        except AssertionError:
            continue
        finally:
            trial.kill()
        return binary
    pytest.skip("no server here was built with TLS")


async def talk_and_check(url: str, certificates: Path, tmp_path: Path) -> None:
    """Run ``talk`` and the doctor's checks; a call without the authority's certificate must fail."""
    trusting = f"{url}?ssl_ca_certs={certificates / 'cert.pem'}"
    async with opened(trusting) as (_, conversations):
        await talk(conversations)
    findings = await check_store(trusting, tmp_path, "fast")
    assert [finding for finding in findings if finding.verdict == "problem"] == []
    async with opened(url, timeout_seconds=0.5) as (client, _):
        with pytest.raises(Problem):
            await client.commands([("GET", "sash:{t/c}:x")])


@pytest.mark.parametrize("deployment", [Sentinels, Cluster])
async def test_a_talk_over_tls_with_several_servers(
    deployment: type[Sentinels | Cluster], encrypting: Path, certificates: Path, tmp_path: Path
) -> None:
    """All servers of a deployment are reached over TLS, also those that sentinels or other nodes name."""
    made = deployment(encrypting, tmp_path, tls=certificates)
    try:
        await talk_and_check(made.start().url, certificates, tmp_path)
    finally:
        made.kill()


@pytest.mark.parametrize(("more", "seen"), [("", "ours.pem"), ("&sentinel_ssl_ca_certs=theirs.pem", "theirs.pem")])
def test_sentinels_are_trusted_as_the_primary_is(more: str, seen: str) -> None:
    """The authority in the URL is for primary and sentinels, unless the URL names another one for the sentinels."""
    address = read_url(f"rediss+sentinel://:pw@a,b/main?ssl_ca_certs=ours.pem{more}")
    assert (address.options["ssl_ca_certs"], address.sentinel_options) == ("ours.pem", {"ssl_ca_certs": seen})


@pytest.fixture(scope="module", params=[name for name in PRESENT if name != "redis-7"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster of three primaries and three replicas."""
    made = Cluster(PRESENT[request.param], tmp_path_factory.mktemp("cluster"))
    try:
        yield made.start()
    finally:
        made.kill()


async def test_a_talk_on_a_cluster(cluster: Cluster) -> None:
    """All calls work on a cluster, where each goes to the node of its slot."""
    async with opened(cluster.url) as (_, conversations):
        await talk(conversations)


async def test_an_encrypted_talk_on_a_cluster(cluster: Cluster) -> None:
    """A tenant's keys, which lie in slots of their own, are found, rotated and rewrapped on a cluster."""
    async with opened(cluster.url, (b"k" * 32,)) as (_, conversations):
        await talk(conversations)
        await conversations.data_keys.rotate("t")
    async with opened(cluster.url, (b"n" * 32, b"k" * 32)) as (_, conversations):
        await talk(conversations)
        assert [done async for done in conversations.data_keys.rewrap()] == [Rewrapped("t", 3, unlisted=False)]


async def test_a_primary_that_became_a_replica_is_left_out(cluster: Cluster) -> None:
    """After a planned failover, as for an upgrade, only servers of slots are asked, and the store is not failing over."""
    async with opened(cluster.url) as (client, conversations):
        await say(conversations, "failover", "before")
        slot = key_slot(keys_of("t/failover").log.encode())
        primary = cluster.primary_of(slot)
        links = [each.connect() for each in cluster.servers]
        follower = next(link for link in links if link.info("replication").get("master_port") == primary.near_port)
        follower.execute_command("CLUSTER FAILOVER")
        await asyncio.to_thread(wait_until, lambda: cluster.primary_of(slot) is not primary)
        assert await say(conversations, "failover", "after") == 2
        await asyncio.to_thread(wait_until, lambda: len(client.servers) == 3)
        assert {found.info["role"] for found in client.servers} == {"master"}


async def test_tenants_with_keys_are_found_on_every_node(cluster: Cluster) -> None:
    """Tenants with keys on any node are found, even when their list, which lies in one slot, is lost."""
    tenants = [f"tenant-{number}" for number in range(12)]
    async with opened(cluster.url, (b"k" * 32,)) as (client, conversations):
        for tenant in tenants:
            await conversations.data_keys.sealer(tenant, f"{tenant}/c")
        await client.commands([("DEL", "sash:{keys}:tenants")])

        found = await conversations.data_keys.tenants()

        await client.commands([("DEL", f"sash:{{{tenant}/keys/data}}:wrapped") for tenant in tenants])
    assert set(tenants) <= set(found)
    nodes = {cluster.primary_of(key_slot(f"{tenant}/keys/data".encode())).port for tenant in tenants}
    assert len(nodes) == 3


async def test_a_cluster_behind_a_plain_url_is_said_so(cluster: Cluster) -> None:
    """A redis:// URL of a cluster's node, which serves a third of the slots, raises a problem that names redis+cluster."""
    async with opened(cluster.servers[0].url) as (client, _):
        with pytest.raises(Problem, match="redis\\+cluster"):
            await client.commands([("GET", f"sash:{{t/{i}}}:x") for i in range(20)])


async def test_commands_of_several_slots_are_answered_in_their_order(cluster: Cluster) -> None:
    """Replies from several nodes come back in the order of the commands."""
    async with opened(cluster.url) as (client, conversations):
        await asyncio.gather(*(say(conversations, f"m{i}", "x") for i in range(20)))
        keys = [keys_of(f"t/m{i}").conversation for i in range(20)]
        replies = await client.commands([("HGET", key, "id") for key in keys])
        await asyncio.gather(*(conversations.erase(target_at("t", f"m{i}"), if_match="") for i in range(20)))
    assert replies == [f"t/m{i}".encode() for i in range(20)]


async def test_keys_are_found_on_every_node(cluster: Cluster) -> None:
    """A scan finds the keys of all primaries."""
    keys = [f"sash:{{scan/{number}}}:x" for number in range(12)]
    assert len({cluster.primary_of(key_slot(key.encode())).port for key in keys}) == 3
    async with opened(cluster.url) as (client, _):
        await client.commands([("SET", key, "1") for key in keys])
        found = {f"sash:{{scan/{name}}}:x" async for name in client.scan("sash:{scan/*}:x")}
        await client.commands([("UNLINK", key) for key in keys])
    assert found == set(keys)


@pytest.mark.parametrize("key", ["sash:{barrier/1}:x", "sash:barrier-1", "sash:barrier-2", "sash:barrier-3"])
async def test_a_replicated_write_on_a_cluster_is_acknowledged(cluster: Cluster, key: str) -> None:
    """A replicated write is acknowledged, with and without a hash tag in its key: the wait goes to the slot of the write."""
    async with opened(cluster.url, timeout_seconds=20, durability="replicated") as (client, _):
        assert await client.commands([("SET", key, "1")]) == [b"OK"]
        assert await client.commands([("UNLINK", key)]) == [1]


async def test_a_replicated_write_to_a_slot_on_its_way_is_acknowledged(cluster: Cluster) -> None:
    """A replicated write to a slot that is moving is acknowledged: the importing node waits for its own replica."""
    slot = key_slot(b"barrier/moving")
    source = cluster.primary_of(slot)
    target = next(each for each in cluster.primaries() if each is not source)
    here, there = source.connect(), target.connect()
    there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", here.execute_command("CLUSTER MYID"))
    here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", there.execute_command("CLUSTER MYID"))
    try:
        async with opened(cluster.url, timeout_seconds=20, durability="replicated") as (client, _):
            assert await client.commands([("SET", "sash:{barrier/moving}:x", "1")]) == [b"OK"]
            assert await client.commands([("UNLINK", "sash:{barrier/moving}:x")]) == [1]
    finally:
        there.execute_command("CLUSTER SETSLOT", slot, "STABLE")
        here.execute_command("CLUSTER SETSLOT", slot, "STABLE")


async def test_keys_on_two_nodes_are_read_when_they_are_together(cluster: Cluster) -> None:
    """While a slot moves and some keys of a call have moved and some have not, none of them is taken for missing."""
    slot = key_slot(b"half/moved")
    source = cluster.primary_of(slot)
    target = next(each for each in cluster.primaries() if each is not source)
    here, there = source.connect(), target.connect()
    names = here.execute_command("CLUSTER MYID"), there.execute_command("CLUSTER MYID")
    first, second = "sash:{half/moved}:first", "sash:{half/moved}:second"
    async with opened(cluster.url, timeout_seconds=5) as (client, _):
        await client.commands([("SET", first, "1"), ("SET", second, "2")])
        there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[0])
        here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[1])
        here.execute_command("MIGRATE", "127.0.0.1", target.port, second, 0, 5000)
        reading = asyncio.create_task(client.commands([("GET", first), ("GET", second)]))
        await asyncio.wait([reading], timeout=0.5)
        here.execute_command("MIGRATE", "127.0.0.1", target.port, first, 0, 5000)
        for link in (there, here):
            link.execute_command("CLUSTER SETSLOT", slot, "NODE", names[1])
        assert await reading == [b"1", b"2"]
        await client.commands([("UNLINK", first, second)])


class Talks:
    """Talks that go on in several conversations at once, in the background.

    ``turns`` is how many appends of each conversation were acknowledged, ``failed`` the conversations in which one failed.
    """

    def __init__(self, conversations: Conversations, names: list[str]) -> None:
        self.turns = dict.fromkeys(names, 0)
        self.failed: list[str] = []
        self._conversations = conversations
        self._stopped = False
        self._talking = asyncio.gather(*(self._talk(name) for name in names))

    async def _talk(self, name: str) -> None:
        while not self._stopped:
            turn = self.turns[name] + 1
            try:
                assert await say(self._conversations, name, f"{name}-{turn}") == turn
            except Problem:
                self.failed.append(name)
            else:
                self.turns[name] = turn
            await asyncio.sleep(0)

    async def go_on(self, *names: str) -> None:
        """Wait until five more appends of each of these conversations, or of all, are acknowledged."""
        wanted = {name: self.turns[name] + 5 for name in names or self.turns}

        async def reached() -> bool:
            if self._talking.done():
                await self._talking  # raises what ended the talks
            return all(self.turns[name] >= turn for name, turn in wanted.items())

        await eventually(reached, 100)

    async def has_failed(self) -> bool:
        return self.failed != []

    async def stop(self) -> None:
        """Stop; each acknowledged append must be stored once and in its place, with at most one after them that failed."""
        self._stopped = True
        await self._talking
        for name, turn in self.turns.items():
            texts = await heard(self._conversations, name)
            assert texts == [f"{name}-{i + 1}" for i in range(len(texts))]
            assert turn <= len(texts) <= turn + (name in self.failed)

    def cancel(self) -> None:
        self._stopped = True
        self._talking.cancel()


@asynccontextmanager
async def talking(conversations: Conversations, names: list[str]) -> AsyncIterator[Talks]:
    """Yield talks that end with the test, also if it fails."""
    talks = Talks(conversations, names)
    try:
        yield talks
    finally:
        talks.cancel()


async def test_a_slot_that_moves_under_load_costs_no_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """MOVED and ASK under load cause no error, as calls are repeated, and fewer than ten reads of the slot map."""
    names = [f"s{i}" for i in range(12)]
    met: set[type[Exception]] = set()
    redirect = Client._redirect

    async def noted(self: Client, error: Exception) -> Any:
        met.add(type(error))
        return await redirect(self, error)

    monkeypatch.setattr(Client, "_redirect", noted)
    async with opened(cluster.url) as (client, conversations), talking(conversations, names) as talks:
        await talks.go_on()
        for slot in [key_slot(keys_of(f"t/{name}").log.encode()) for name in names[:4]]:
            before = cluster.primary_of(slot)
            await cluster.move(slot)
            await talks.go_on()
            assert cluster.primary_of(slot) is not before
        await talks.stop()
        refreshes = client._cluster.refreshes  # type: ignore[union-attr]
        await asyncio.gather(*(conversations.erase(target_at("t", name), if_match="") for name in names))
    assert talks.failed == []
    assert met >= {MovedError, AskError}
    assert refreshes < 10


async def test_a_primary_that_is_killed_costs_its_own_slots_seconds(cluster: Cluster) -> None:
    """After a primary is killed only its slots fail: they are read again, are written to again once
    it is back as a replica, and keep all acknowledged messages.
    """
    names = [f"k{i}" for i in range(12)]
    victim = cluster.primary_of(key_slot(b"t/k0"))
    hit = {name for name in names if cluster.primary_of(key_slot(f"t/{name}".encode())) is victim}
    async with (
        opened(cluster.url, timeout_seconds=5.0, durability="replicated") as (_, conversations),
        talking(conversations, names) as talks,
    ):
        await talks.go_on()
        victim.kill()
        try:
            await talks.go_on(*set(names) - hit)
            for name in hit:
                await eventually(lambda name=name: healed(conversations, name), 80)
            await eventually(talks.has_failed, 80)  # where the replica took over at once, no other has a write
        finally:
            victim.start()
        await talks.go_on()
        await talks.stop()
    cluster.wait()
    assert set() < set(talks.failed) <= hit < set(names)


@pytest.mark.parametrize("cluster", ["valkey-9"], indirect=True)  # Redis has no command to drop all packets
async def test_a_primary_that_is_cut_off_from_the_others_is_left(cluster: Cluster) -> None:
    """Where clients reach a primary and the other nodes do not, its slots are served by the replica that took over."""
    primary = cluster.primary_of(key_slot(b"t/cut-off"))
    async with opened(cluster.url, timeout_seconds=1.0) as (_, conversations):
        await say(conversations, "cut-off", "before")
        primary.connect().execute_command("DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-2")
        try:
            await asyncio.to_thread(wait_until, lambda: primary.connect().cluster("info")["cluster_state"] == "fail")
            await eventually(lambda: healed(conversations, "cut-off"), 80)
        finally:
            primary.connect().execute_command("DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-1")
    cluster.wait()


async def healed(conversations: Conversations, name: str) -> bool:
    try:
        await conversations.reader.get(target_at("t", name))
    except Problem:
        return False
    return True


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float) -> int:
    """Return how often the condition did not hold, asked every 50 ms, until it held."""
    give_up, tries = time.monotonic() + seconds, 0
    while not await condition():
        assert time.monotonic() < give_up, "it did not heal in time"
        tries += 1
        await asyncio.sleep(0.05)
    return tries


@pytest.mark.parametrize("name", [name for name in PRESENT if name != "redis-7"])
async def test_sentinels_name_the_next_primary(name: str, tmp_path: Path) -> None:
    """When the primary dies the replica takes over, with the acknowledged messages."""
    trio = Sentinels(PRESENT[name], tmp_path)
    try:
        trio.start()
        async with opened(trio.url, durability="replicated") as (_, conversations):
            assert await say(conversations, "c", *(str(i) for i in range(50))) == 50
        trio.primary.kill()
        async with opened(trio.url, durability="durable") as (_, conversations):
            assert await say(conversations, "c", "after") == 51
            assert (await heard(conversations, "c"))[:3] == ["0", "1", "2"]
    finally:
        trio.kill()


async def test_a_server_that_comes_later_is_found_within_a_second(tmp_path: Path) -> None:
    """A call fails while the server is absent, and succeeds after the server's start, within twenty tries 50 ms apart."""
    running = Server(PRESENT["valkey-9"], tmp_path)
    async with opened(running.url, timeout_seconds=0.5) as (client, _):
        with pytest.raises(Problem):
            await client.commands([("PING",)])
        running.start()
        try:
            assert await eventually(lambda: answers(client), 100) < 20
        finally:
            running.kill()


async def answers(client: Client) -> bool:
    try:
        return await client.commands([("PING",)]) == [b"PONG"]
    except Problem:
        return False
