"""``sash doctor``: its findings about settings, store and service, and the change that each problem needs."""

import asyncio
import base64
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from click.testing import CliRunner
from conftest import Served
from rigs.servers import Cluster, Sentinels, binaries, free_port, wait_until
from rigs.servers import server as one_server

from sash.cli import main
from sash.commands import doctor
from sash.commands.asked_upstreams import check_upstreams
from sash.core.counts.text import count_text
from sash.settings import Settings
from sash.store.redis import checks
from sash.store.redis.checks import Finding, check_at
from sash.store.redis.durability import Inspection, Level
from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.versions import LAYOUT, LAYOUT_KEY, OLDEST_LAYOUT

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """Yield a store that only this file uses, for tests to misconfigure."""
    with EmbeddedStore(tmp_path_factory.mktemp("patient")) as store:
        yield store


@pytest.fixture
def server(patient: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a connection to ``patient``, and restore the settings that a test changes."""
    names = ("appendonly", "appendfsync", "maxmemory-policy", "maxmemory")
    with redis.Redis.from_url(patient.url, decode_responses=True) as connection:
        before = connection.config_get(*names)
        yield connection
        connection.replicaof("NO", "ONE")
        for name, value in before.items():
            connection.config_set(name, value)


def check_server(server: redis.Redis, durability: Level = "durable") -> list[Finding]:
    """Return the doctor's findings about the server of a connection, as its user."""
    known = server.connection_pool.connection_kwargs
    login = f"{known['username']}:{known['password']}@" if known.get("username") else ""
    return asyncio.run(check_at(f"unix://{login}{known['path']}", durability, "start it"))


def check_store(url: str, data_dir: Path, durability: Level) -> list[Finding]:
    """Return the doctor's findings about a deployment's store."""
    return asyncio.run(checks.check_store(url, data_dir, durability))


def worst(findings: list[Finding]) -> dict[str, Finding]:
    """Return findings that are not good, by subject, but not the store's distance, which depends on the machine's load."""
    return {each.subject: each for each in findings if each.verdict != "good" and each.subject != "store distance"}


def test_a_store_as_we_start_it_is_well(server: redis.Redis) -> None:
    """A store that Sash started has only good findings, and the key that the check writes is gone soon after."""
    assert worst(check_server(server)) == {}
    wait_until(lambda: server.pttl("sash:{doctor}:check") == -2, 2)  # -2: no such key; -1 is one that never expires


@pytest.mark.parametrize("layout", [OLDEST_LAYOUT - 1, LAYOUT + 1])
def test_data_of_another_version_is_a_problem(server: redis.Redis, layout: int) -> None:
    """Data of an older or a newer layout is a problem, and the finding says to run the version that wrote it."""
    server.set(LAYOUT_KEY, layout)
    try:
        (found,) = worst(check_server(server)).values()
    finally:
        server.delete(LAYOUT_KEY)
    assert (found.subject, found.verdict) == ("store layout", "problem")
    assert f"layout {layout}" in found.found
    assert "run the version that wrote it" in str(found.change)


@pytest.mark.parametrize(
    ("name", "value", "durability", "subject", "verdict", "change"),
    [
        ("appendonly", "no", "durable", "store persistence", "problem", "set appendonly yes"),
        ("appendfsync", "everysec", "durable", "store persistence", "problem", "set appendfsync always"),
        ("appendonly", "no", "fast", "store persistence", "problem", "set appendonly yes"),
        ("appendfsync", "no", "fast", "store persistence", "problem", "set appendfsync always"),
        ("maxmemory", "1mb", "durable", "store memory", "problem", "raise maxmemory, "),
    ],
)
def test_a_wrong_setting_of_the_store_is_found(
    server: redis.Redis, name: str, value: str, durability: str, subject: str, verdict: str, change: str
) -> None:
    """A wrong setting of the store is a finding that says which setting to change."""
    server.config_set(name, value)
    found = worst(check_server(server, durability))[subject]
    assert (found.verdict, str(found.change)[: len(change)]) == (verdict, change)


def test_a_policy_that_evicts_is_found(server: redis.Redis) -> None:
    """A policy that evicts keys is a problem, because conversations would lose some of their keys."""
    server.config_set("maxmemory", "1gb")
    server.config_set("maxmemory-policy", "allkeys-lru")
    found = worst(check_server(server, "fast"))["store memory"]
    assert (found.verdict, found.change) == ("problem", "maxmemory-policy noeviction")


def test_syncing_every_second_is_well_where_fast_was_asked_for(server: redis.Redis) -> None:
    """A sync every second is good with SASH_DURABILITY=fast, which promises no more."""
    server.config_set("appendfsync", "everysec")
    assert worst(check_server(server, "fast")) == {}


def test_a_replica_takes_no_writes(server: redis.Redis) -> None:
    """A replica has findings about its role and about scripts, which may not write there."""
    server.replicaof("127.0.0.1", "1")
    found = worst(check_server(server))
    assert (found["store role"].verdict, found["store scripts"].verdict) == ("problem", "problem")
    assert found["store role"].change == "name its primary in SASH_REDIS_URL"


def test_replicated_durability_needs_a_replica(server: redis.Redis) -> None:
    """Replicated durability without a replica is a problem, because no append would be acknowledged."""
    assert worst(check_server(server, "replicated"))["store replicas"].verdict == "problem"
    assert checks._replicas({"connected_slaves": "2"}, "replicated").verdict == "good"


@contextmanager
def guest(server: redis.Redis, url: str, *rules: str) -> Iterator[redis.Redis]:
    """Yield a connection as a user with these ACL rules."""
    server.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">pw", "~sash:*", "&sash:*", "+@all", *rules)
    try:
        with redis.Redis.from_url(url, username="guest", password="pw") as connection:
            yield connection
    finally:
        server.execute_command("ACL", "DELUSER", "guest")


def test_a_user_who_may_not_scan_is_told_what_to_allow(patient: EmbeddedStore, server: redis.Redis) -> None:
    """If SCAN is denied, the doctor cannot check the data keys, and names the permission that it needs."""
    with guest(server, patient.url, "-scan"):
        url, key = patient.url.replace("unix://", "unix://guest:pw@"), base64.b64encode(bytes(32)).decode()
        status, findings = examined(SASH_REDIS_URL=url, SASH_ENCRYPTION_KEY=key)
    (found,) = [each for each in findings if each["subject"] == "encryption"]
    assert (status, found["verdict"], found["change"]) == (1, "problem", "ACL SETUSER the store's user with +scan")


@pytest.mark.parametrize(("durability", "verdict"), [("durable", "problem"), ("fast", "advice")])
def test_a_user_who_may_not_look_at_settings(
    server: redis.Redis, patient: EmbeddedStore, durability: str, verdict: str
) -> None:
    """Hosted servers refuse CONFIG: the finding suggests SASH_DURABILITY=assume, with which there is no finding."""
    with guest(server, patient.url, "-config") as hosted:
        found = worst(check_server(hosted, durability))
        assert worst(check_server(hosted, "assume")) == {}
    assert found.keys() == {"store persistence"}
    assert found["store persistence"].verdict == verdict
    assert "SASH_DURABILITY=assume" in str(found["store persistence"].change)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("-script", "SCRIPT LOAD"),
        ("-eval", "EVAL"),
        ("-evalsha", "EVALSHA"),
        ("-rename", "RENAME"),
        ("-hrandfield", "HRANDFIELD"),
        ("-info", "INFO"),
        ("-time", "TIME"),
        ("-wait", "WAIT"),
        ("-ping -get", "GET"),
        ("-@all", "EVAL"),
        ("resetkeys", "Sash's keys"),
    ],
)
def test_a_permission_that_is_missing_is_a_problem_that_names_it(
    server: redis.Redis, patient: EmbeddedStore, rules: str, name: str
) -> None:
    """A missing permission is a problem that names what is denied and says to allow it."""
    with guest(server, patient.url, *rules.split()) as denied:
        found = worst(check_server(denied, "replicated"))["store permissions"]
    assert (found.verdict, name in found.found) == ("problem", True)
    assert "allow it" in str(found.change)


@pytest.mark.parametrize("rules", ["-@all", "-hgetall -smembers", "resetkeys"])
def test_the_command_ends_well_whatever_is_denied(server: redis.Redis, patient: EmbeddedStore, rules: str) -> None:
    """The command reports missing permissions and exits with status 1, even if its check of encryption is denied."""
    with guest(server, patient.url, *rules.split()):
        status, findings = examined(SASH_REDIS_URL=patient.url.replace("unix://", "unix://guest:pw@"))
    problems = {each["subject"] for each in findings if each["verdict"] == "problem"}
    assert (status, "store permissions" in problems) == (1, True)


def test_a_policy_without_a_limit_is_advice(server: redis.Redis) -> None:
    """An evicting policy without a limit is only advice, because nothing is evicted while maxmemory is 0."""
    server.config_set("maxmemory-policy", "volatile-lru")
    assert worst(check_server(server))["store memory"].verdict == "advice"


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        ({"redis_version": "6.2.14"}, "problem"),
        ({"redis_version": "7.0.15"}, "good"),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.9"}, "problem"),
        ({"redis_version": "7.2.4", "valkey_version": "9.0.0"}, "good"),
        ({}, "problem"),
    ],
)
def test_old_servers_are_found(facts: dict[str, Any], verdict: str) -> None:
    """The oldest supported servers are Redis 7.0 and Valkey 8.0; an unknown version is a problem."""
    assert checks._version(facts).verdict == verdict


def test_a_slow_way_and_clocks_apart_are_found() -> None:
    """A slow answer is advice, and a clock difference is found in both directions."""
    assert [checks._speed(took).verdict for took in (0.001, 0.5)] == ["good", "advice"]
    ahead, behind = checks._clock(100.0, 10.0), checks._clock(10.0, 100.0)
    assert (ahead.verdict, ahead.found) == ("problem", "90.0 s ahead of the store's")
    assert (behind.verdict, behind.found) == ("problem", "90.0 s behind the store's")
    assert checks._clock(100.0, 101.0).verdict == "good"


def test_a_disk_that_failed_is_found() -> None:
    """A failed last write to the append-only file is a problem."""
    found = checks._persistence(Inspection("yes", "always", "", info={"aof_last_write_status": "err"}), "durable")
    assert found.verdict == "problem"


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1/0",
        "redis+sentinel://user:pw@127.0.0.1:1,127.0.0.1/primary/0?password=x",
        "redis+cluster://127.0.0.1:1,127.0.0.1:2",
        "unix:///nonexistent/socket",
    ],
)
def test_a_store_that_is_not_there_is_a_finding(url: str, tmp_path: Path) -> None:
    """A store that does not answer is one problem for each form of URL, and the change names SASH_REDIS_URL."""
    (found,) = check_store(url, tmp_path, "durable")
    assert (found.verdict, found.subject) == ("problem", "store")
    assert found.change is not None
    assert "SASH_REDIS_URL" in found.change


def test_a_wrong_password_is_said_to_be_one(server: redis.Redis, patient: EmbeddedStore, tmp_path: Path) -> None:
    """With a wrong password, the finding says to correct user and password, not that the store is down."""
    server.execute_command("ACL", "SETUSER", "guest", "on", ">right", "~*", "&*", "+@all")
    try:
        url = patient.url.replace("unix://", "unix://guest:wrong@")
        (found,) = check_store(url, tmp_path, "durable")
    finally:
        server.execute_command("ACL", "DELUSER", "guest")
    assert found.change == "put user and password into SASH_REDIS_URL"


def test_a_data_directory_without_room_or_rights_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of the directory is a problem, and so is a disk with too little free space."""
    (tmp_path / "file").write_text("")
    assert checks._room(tmp_path / "file" / "data").verdict == "problem"
    assert checks._room(tmp_path / "new" / "data").verdict == "good"
    assert not checks._writable(tmp_path / "absent")
    monkeypatch.setattr(checks, "_LEAST_FREE_BYTES", 1 << 62)
    assert checks._room(tmp_path).verdict == "problem"


# ---- the command


def examined(*arguments: str, **variables: str) -> tuple[int, list[dict[str, Any]]]:
    """Return exit status and findings of ``sash doctor`` with these variables and no other ``SASH_`` variables."""
    others = {name: None for name in os.environ if name.startswith("SASH_")}
    result = CliRunner().invoke(main, ["doctor", *arguments], env={**others, **variables}, catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout)


def test_object_storage_is_tried(tmp_path: Path) -> None:
    """The doctor writes, reads and erases an object, and names what is wrong with a URL or a storage."""
    folder = tmp_path / "media"
    good = examined(SASH_DATA_DIR=str(tmp_path / "data"), SASH_MEDIA_URL=folder.as_uri())[1]
    (tmp_path / "file").touch()
    bad = examined(SASH_DATA_DIR=str(tmp_path / "data"), SASH_MEDIA_URL=(tmp_path / "file" / "media").as_uri())
    away = examined(
        SASH_DATA_DIR=str(tmp_path / "data"),
        SASH_MEDIA_URL="s3://bucket/prefix",
        SASH_STORE_TIMEOUT_SECONDS="1",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}",
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_REGION="us-east-1",
    )

    found = {each["subject"]: each for each in good}["SASH_MEDIA_URL"]
    assert found["verdict"] == "good", found
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    for status, findings in (bad, away):
        wrong = {each["subject"]: each for each in findings}["SASH_MEDIA_URL"]
        assert (status, wrong["verdict"]) == (1, "problem")
        assert wrong["change"]


class Answering(ThreadingHTTPServer):
    """An endpoint that answers every request with one status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        self.answer = status, body
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    server: Answering

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


NO_QUOTA = b'{"error": {"type": "insufficient_quota", "message": "sk-4711 has no quota"}}'


@pytest.mark.parametrize(
    ("status", "body", "verdict", "change"),
    [
        (200, b"{}", "good", None),
        (401, b"{}", "problem", "give {}_KEY anew"),
        (404, b"{}", "problem", "correct {}_URL or {}_MODEL"),
        (429, NO_QUOTA, "problem", "raise its quota"),
        (503, b"down", "problem", "start it, or correct {}_URL"),
    ],
)
@pytest.mark.parametrize("name", ["SASH_SUMMARIZER", "SASH_EMBEDDINGS"])
def test_endpoints_are_asked_for_a_word(name: str, status: int, body: bytes, verdict: str, change: str | None) -> None:
    """An endpoint of summaries or embeddings is asked, and a refusal has its own error, without a key, and what to do."""
    with Answering(status, body) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/some"
        settings = Settings.read({f"{name}_URL": url, f"{name}_MODEL": "small", f"{name}_KEY": "sk-1"})
        (found,) = check_upstreams(settings)
        server.shutdown()
    assert (found.subject, found.verdict) == (f"{name}_URL", verdict)
    assert found.change == (change and change.replace("{}", name))
    assert (body != NO_QUOTA) or ("insufficient_quota" in found.found and "4711" not in found.found)


def test_an_endpoint_where_nobody_listens_is_named(tmp_path: Path) -> None:
    """``sash doctor`` names a summariser that refuses the connection, as a problem."""
    url = f"http://127.0.0.1:{free_port()}/v1/chat/completions"
    given = {"SASH_SUMMARIZER_URL": url, "SASH_SUMMARIZER_MODEL": "small", "SASH_DATA_DIR": str(tmp_path / "data")}
    status, findings = examined(**given)
    (found,) = [each for each in findings if each["subject"] == "SASH_SUMMARIZER_URL"]
    assert (status, found["verdict"]) == (1, "problem")
    assert "ConnectError" in found["found"]


def test_all_is_well_with_the_defaults(tmp_path: Path) -> None:
    """With default settings the embedded store is tried without a problem, and no data directory is made."""
    status, findings = examined(SASH_DATA_DIR=str(tmp_path / "data"))
    assert [each for each in findings if each["verdict"] == "problem"] == []
    assert status == 0
    assert {"settings", "data directory", "store version", "tokeniser", "clock"} <= {
        each["subject"] for each in findings
    }
    assert list(tmp_path.iterdir()) == []


def test_models_that_drift_are_named(served: Served) -> None:
    """Reports that agree are well; ten bills above the prediction name the model, its tenant and what to do."""
    with httpx.Client(base_url=served.url) as client:
        client.post("/conversations/drift/messages", json={"messages": [{"role": "user", "content": "hello"}]})

        def report(model: str, billed: int) -> None:
            body = {"model": model, "prompt_tokens": billed, "window_tokens": 1000}
            client.post("/conversations/drift/usage", json=body).raise_for_status()

        report("gpt-4o", 1000)
        _, before = examined(SASH_DATA_DIR=str(served.data_dir))
        for _ in range(10):
            report("ft:gpt-4.1:drifting", 1040)
        _, after = examined(SASH_DATA_DIR=str(served.data_dir))

    (good,) = [each for each in before if each["subject"] == "predictions"]
    assert (good["verdict"], "agree with what was predicted" in good["found"]) == ("good", True)
    (bad,) = [each for each in after if each["subject"] == "predictions"]
    assert bad["verdict"] == "advice"
    assert "ft:gpt-4.1:drifting of tenant default drifts: billed 1.040 times the prediction by median" in bad["found"]
    assert bad["change"] == "sash truth --live --model ft:gpt-4.1:drifting shows which rule has changed"


def test_the_embedded_store_that_runs_is_looked_at(patient: EmbeddedStore, tmp_path: Path) -> None:
    """A running embedded store is checked and its process named; if none runs, a temporary one is tried."""
    (data_dir,) = {Path(patient.url.removeprefix("unix://")).parent}
    _, findings = examined(SASH_DATA_DIR=str(data_dir))
    (found,) = [each for each in findings if each["subject"] == "embedded store"]
    assert f"its server is process {patient.pid}" in found["found"]
    _, findings = examined(SASH_DATA_DIR=str(tmp_path))
    (found,) = [each for each in findings if each["subject"] == "embedded store"]
    assert found["found"] == "none runs here; one was tried in a temporary directory"


def test_an_embedded_store_that_hangs_is_found(tmp_path: Path) -> None:
    """An embedded store that does not answer is a problem, and the change names its process."""
    with EmbeddedStore(tmp_path) as store:
        process = store.pid
        os.kill(process, signal.SIGSTOP)
        try:
            status, findings = examined(SASH_DATA_DIR=str(tmp_path))
        finally:
            os.kill(process, signal.SIGCONT)
    (found,) = [each for each in findings if each["verdict"] == "problem"]
    assert (status, found["subject"]) == (1, "store")
    assert "does not answer" in found["found"]
    assert f"look at process {os.getpid()} (its server is process {process})" in found["change"]


def test_an_embedded_store_on_a_long_path_is_looked_at(tmp_path: Path) -> None:
    """An embedded store on a long path is checked; its socket is elsewhere, because a socket's path is limited."""
    data_dir = tmp_path / ("long" * 30)
    with EmbeddedStore(data_dir) as store:
        status, findings = examined(SASH_DATA_DIR=str(data_dir))
        assert (status, f"process {store.pid}" in json.dumps(findings)) == (0, True)


def test_files_that_are_gone_under_the_running_store_are_found(tmp_path: Path) -> None:
    """Deleted files of a running store are a problem, although the server does not notice and still answers."""
    with EmbeddedStore(tmp_path):
        shutil.rmtree(tmp_path / "appendonlydir")
        status, findings = examined(SASH_DATA_DIR=str(tmp_path))
    (found,) = [each for each in findings if each["verdict"] == "problem"]
    assert (status, found["subject"]) == (1, "store files")
    assert "export what you need" in found["change"]


def test_a_running_service_is_asked(served: Served) -> None:
    """With ``--url`` the first finding is the service's own state, with its address."""
    _, findings = examined("--url", served.url, SASH_DATA_DIR=str(served.data_dir))
    assert (findings[0]["subject"], findings[0]["verdict"]) == ("service", "good")
    assert findings[0]["found"] == f"{served.url} is ready, durability durable (appendfsync always)"


def test_a_service_that_serves_in_part_says_why(tmp_path: Path) -> None:
    """If a service serves reads alone, the finding gives the reason of its ``/readyz``, and the change says what to do."""
    served = Served(tmp_path / "data")
    served.start()
    try:
        wait_until(lambda: shutil.rmtree(tmp_path / "data") is None)  # again where the store wrote a file meanwhile
        wait_until(lambda: httpx.get(f"{served.url}/readyz").json().get("degraded"))
        status, findings = examined("--url", served.url, SASH_DATA_DIR=str(tmp_path / "data"))
    finally:
        served.stop()
    assert (status, findings[0]["subject"], findings[0]["verdict"]) == (1, "service", "problem")
    assert "were deleted" in findings[0]["found"]
    assert "export what you need" in findings[0]["change"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_a_service_that_is_not_there_is_a_finding(url: str, tmp_path: Path) -> None:
    """A service that does not answer, or a wrong address, is a problem."""
    status, findings = examined("--url", url, SASH_DATA_DIR=str(tmp_path))
    assert (status, findings[0]["subject"], findings[0]["verdict"]) == (1, "service", "problem")


def test_something_else_at_the_address_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is a problem if its answer is not Sash's or not HTTP, or if it accepts a connection and does not answer."""
    monkeypatch.setattr(doctor, "_SERVICE_SECONDS", 1.0)
    bodies = (b"200 OK\r\nContent-Length: 2\r\n\r\nhi", b'200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}')
    for answer in (*(b"HTTP/1.1 " + body for body in bodies), b"hello\r\n\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=_answer, args=(listener, answer), daemon=True).start()
            status, findings = examined(
                "--url", f"http://127.0.0.1:{listener.getsockname()[1]}", SASH_DATA_DIR=str(tmp_path)
            )
        assert (status, findings[0]["subject"], findings[0]["verdict"]) == (1, "service", "problem")


def _answer(listener: socket.socket, answer: bytes) -> None:
    """Send this answer to one client; if it is empty, keep the connection open until the client closes it."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)
        if not answer:
            connection.recv(1)


def test_a_store_of_ones_own_is_looked_at(patient: EmbeddedStore) -> None:
    """The store that SASH_REDIS_URL names is checked instead of the data directory."""
    status, findings = examined(SASH_REDIS_URL=patient.url)
    assert status == 0
    subjects = {each["subject"]: each["found"] for each in findings}
    assert "data directory" not in subjects
    assert subjects["store address"] == patient.url


def test_bad_settings_are_problems_and_the_rest_is_still_looked_at() -> None:
    """Each wrong variable is a problem with a change, and tokenisers and clock are still checked."""
    status, findings = examined(SASH_PORT="x", SASH_HSOT="1.2.3.4")
    assert status == 1
    assert {each["subject"]: each["verdict"] for each in findings} == {
        "SASH_HSOT": "problem",
        "SASH_PORT": "problem",
        "tokeniser": "good",
        "vocabularies": "good",
        "clock": "good",
    }
    assert all(each["change"] for each in findings if each["verdict"] == "problem")


def test_weak_keys_and_open_doors_are_found(tmp_path: Path) -> None:
    """A short key and a broken models file are problems; listening on all addresses without a key is advice."""
    models = tmp_path / "models.toml"
    models.write_text("nonsense")
    shared = {"SASH_DATA_DIR": str(tmp_path / "data")}
    status, findings = examined(SASH_API_KEYS="acme:1234", SASH_MODELS_FILE=str(models), **shared)
    found = {each["subject"]: each for each in findings}
    assert status == 1
    assert "1234" not in json.dumps(findings)
    assert found["SASH_API_KEYS"]["verdict"] == found["SASH_MODELS_FILE"]["verdict"] == "problem"
    models.write_text('[models."mine"]\ncontext_window = 5000\n')
    variables = {"SASH_HOST": "0.0.0.0", "SASH_ALLOW_ANONYMOUS": "1", "SASH_MODELS_FILE": str(models)}
    status, findings = examined(**variables, **shared)
    found = {each["subject"]: each for each in findings}
    assert status == 0
    assert found["SASH_ALLOW_ANONYMOUS"]["verdict"] == "advice"
    assert found["SASH_MODELS_FILE"]["found"] == "1 models"


def test_the_table_says_what_to_change() -> None:
    """``--table`` shows the problems and how many there are; brackets in a finding stay text."""
    result = CliRunner().invoke(main, ["doctor", "--table"], env={"SASH_PORT": "[x]", "COLUMNS": "160"})
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("PROBLEM")]
    assert line.split()[1] == "SASH_PORT"
    assert "[x]" in line
    assert result.stdout.splitlines()[-1] == "problems: 1, advice: 0"


def test_samples_are_counted_as_they_should_be() -> None:
    """The tokenisers count the doctor's samples as its table says, so the table itself is right."""
    for text, o200k, cl100k in doctor._PARITY:
        assert (count_text(text, "o200k_base"), count_text(text, "cl100k_base")) == (o200k, cl100k)


def test_a_tokeniser_that_counts_wrongly_or_slowly_is_found() -> None:
    """A wrong count is a problem; tiktoken in place of toktok is advice."""
    assert doctor.judge_tokeniser("toktok-rs 0.3.0", 1).verdict == "problem"
    assert doctor.judge_tokeniser("tiktoken 0.14.0", 0).verdict == "advice"


def test_a_clock_from_the_past_is_found() -> None:
    """A clock in 1970 is a problem, because ids and ages follow the clock."""
    assert doctor._check_clock(datetime(1970, 1, 1, tzinfo=UTC)).verdict == "problem"


# ---- deployments of more than one server

VALKEY = binaries()["valkey-9"]


def test_every_primary_of_a_cluster_is_looked_at(tmp_path: Path) -> None:
    """All three primaries are checked, and a script whose slot is on another primary is no problem."""
    assert VALKEY is not None
    cluster = Cluster(VALKEY, tmp_path, appendonly="yes", appendfsync="always")
    try:
        findings = check_store(cluster.start().url, tmp_path, "durable")
    finally:
        cluster.kill()
    assert worst(findings) == {}
    assert [each.subject for each in findings].count("store version") == 3


def test_a_cluster_can_be_tried(tmp_path: Path) -> None:
    """``--url`` tries each command on a cluster, too; of a dead primary it reports the loss, and tries nothing."""
    assert VALKEY is not None
    cluster = Cluster(VALKEY, tmp_path, node_timeout_ms=20_000, appendonly="yes", appendfsync="always")  # no fail-over
    try:
        whole = examined("--url", cluster.start().url)
        cluster.servers[0].kill()
        parts = examined("--url", cluster.url)
    finally:
        cluster.kill()
    assert whole[0] == 0
    assert {each["subject"] for each in whole[1]} > {"command WAITAOF", "scripts"}
    assert (parts[0], subjects(parts, "store"), subjects(parts, "store version")) == (1, 1, 2)
    assert subjects(parts, "scripts") == 0


def subjects(examination: tuple[int, list[dict[str, Any]]], subject: str) -> int:
    """Return the number of findings about a subject."""
    return [each["subject"] for each in examination[1]].count(subject)


def test_a_cluster_that_denies_its_map_is_said_to(tmp_path: Path) -> None:
    """If CLUSTER SLOTS is denied, the finding says so, although redis-py reports that the server is no cluster."""
    assert VALKEY is not None
    with one_server(VALKEY, tmp_path, cluster_enabled="yes") as running:
        running.connect().execute_command(
            "ACL", "SETUSER", "guest", "on", ">pw", "~sash:*", "&sash:*", "+@all", "-cluster"
        )
        (found,) = check_store(f"redis+cluster://guest:pw@127.0.0.1:{running.port}", tmp_path, "durable")
    assert found.found == "The store's user may not run CLUSTER SLOTS"


def test_the_primary_that_sentinels_name_is_looked_at(tmp_path: Path) -> None:
    """The primary that the sentinels name is checked, and its sync every second, which the service refuses, is found."""
    assert VALKEY is not None
    sentinels = Sentinels(VALKEY, tmp_path, appendonly="yes", appendfsync="everysec")
    try:
        findings = check_store(sentinels.start().url, tmp_path, "durable")
    finally:
        sentinels.kill()
    assert {subject: each.verdict for subject, each in worst(findings).items()} == {"store persistence": "problem"}


def test_any_store_can_be_tried(patient: EmbeddedStore, server: redis.Redis) -> None:
    """``--url`` with a store's address tries each command and the scripts, finds no problem and leaves no key."""
    code, found = examined("--url", patient.url)
    assert [each for each in found if each["verdict"] == "problem"] == []
    tried = {each["subject"]: each["verdict"] for each in found}
    assert (code, tried["command HRANDFIELD"], tried["command WAITAOF"], tried["scripts"]) == (
        0,
        "good",
        "good",
        "good",
    )
    wait_until(lambda: server.keys("sash:{doctor*") == [], 2)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "redis+cluster://127.0.0.1:1"])
def test_a_store_that_is_not_there_is_not_tried(url: str) -> None:
    """``--url`` with an address where nothing listens gives one finding."""
    code, found = examined("--url", url)
    assert (code, [each["subject"] for each in found]) == (1, ["store"])


def test_a_layout_that_is_no_number_is_found(server: redis.Redis) -> None:
    """A layout key that another application wrote is a finding."""
    server.set(LAYOUT_KEY, "theirs")
    try:
        (found,) = worst(check_server(server)).values()
    finally:
        server.delete(LAYOUT_KEY)
    assert (found.subject, "theirs" in found.found) == ("store layout", True)


def test_a_command_that_a_store_lacks_is_named(tmp_path: Path) -> None:
    """A missing command is a problem if Sash needs it, as PEXPIRETIME, and advice if not, as WAITAOF."""
    binary = binaries()["valkey-9"]
    assert binary is not None
    lacking = tmp_path / "lacking.conf"
    lacking.write_text('rename-command PEXPIRETIME ""\nrename-command WAITAOF ""\nappendonly yes\nappendfsync always\n')
    with one_server(binary, tmp_path / "store", file=lacking) as store:
        code, found = examined("--url", store.url)
    wrong = {each["subject"]: each["verdict"] for each in found if each["subject"].startswith("command")}
    assert (code, {name for name, verdict in wrong.items() if verdict != "good"}) == (
        1,
        {"command PEXPIRETIME", "command WAITAOF"},
    )
    assert (wrong["command PEXPIRETIME"], wrong["command WAITAOF"]) == ("problem", "advice")


def test_an_address_that_is_no_stores_is_refused() -> None:
    """A wrong store address exits with status 2 and a line that shows a correct one."""
    found = CliRunner().invoke(main, ["doctor", "--url", "redis://host:six"])
    assert (found.exit_code, "redis://host:6379/0" in found.output) == (2, True)


def test_the_vocabularies_that_are_here_are_listed_and_tried(tmp_path: Path) -> None:
    """Each of an operator's files is tried; a broken file or a missing folder is a problem, an empty folder advice."""
    ranks = b"".join(base64.b64encode(bytes([i])) + f" {i}\n".encode() for i in range(256))
    (tmp_path / "llama-3.tiktoken").write_bytes(ranks)
    (tmp_path / "kimi.json").write_text("{}")
    (tmp_path / "empty").mkdir()

    found = list(doctor._check_vocabularies(str(tmp_path)))

    assert "qwen3.5 (toktok-rs)" in found[0].found
    said = {finding.found.rpartition("/")[2]: finding.verdict for finding in found[1:]}
    assert [verdict for said, verdict in said.items() if said.startswith("kimi.json cannot")] == ["problem"]
    assert said["llama-3.tiktoken)"] == "good"
    assert [each.verdict for each in doctor._check_vocabularies(str(tmp_path / "empty"))] == ["good", "advice"]
    assert [each.verdict for each in doctor._check_vocabularies(str(tmp_path / "none"))] == ["good", "problem"]
    assert len(list(doctor._check_vocabularies(None))) == 1
