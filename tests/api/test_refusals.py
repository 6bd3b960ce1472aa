"""A refused request leaves a log line and a line of /status with the cause, both without message text."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from conftest import ROOT, Served
from rigs.dialogue import append, user
from rigs.servers import wait_until
from structlog.testing import capture_logs


async def refused(client: httpx.AsyncClient, path: str, **query: Any) -> tuple[dict[str, Any], httpx.Response]:
    """Send a GET and return its log line and its answer."""
    with capture_logs() as logs:
        answer = await client.get(path, params=query)
    (line,) = [each for each in logs if each["event"] == "request"]
    return dict(line), answer


async def know_the_key(client: httpx.AsyncClient) -> None:
    """Wait until the service has read the key of its hashes, a second after it first reached the store."""
    for _ in range(600):
        line, _ = await refused(client, "/conversations/nobody")
        if line["conversation"] is not None:
            return
        await asyncio.sleep(0.1)


async def test_a_refused_request_says_why(client: httpx.AsyncClient, fresh: Callable[[], str]):
    """The log line has the problem type, the tenant, and a hash of the conversation that is the same for each request."""
    await know_the_key(client)
    identity, other = fresh(), fresh()
    await append(client, identity, user("plover"))
    line, answer = await refused(client, f"/conversations/{identity}/window", model="gpt-4o-mini", max_tokens=1)
    again, _ = await refused(client, f"/conversations/{identity}/window", model="nobody's")
    foreign, _ = await refused(client, f"/conversations/{other}")
    assert (line["problem"], line["tenant"], line["log_level"]) == ("window-does-not-fit", "default", "info")
    assert answer.json()["type"].endswith(line["problem"])
    assert len(line["conversation"]) == 16
    assert line["conversation"] == again["conversation"] != foreign["conversation"]
    assert not any(word in str(line) for word in ("plover", identity))


async def test_a_good_request_says_no_more(client: httpx.AsyncClient):
    """The line of a successful request has no problem, tenant or conversation."""
    line, _ = await refused(client, "/models")
    assert line.keys().isdisjoint({"problem", "tenant", "conversation"})


async def test_status_lists_refusals_and_conversations(client: httpx.AsyncClient, fresh: Callable[[], str]):
    """GET /status lists refusals with their cause, the latest first; an erased conversation is removed."""
    identity = fresh()
    await append(client, identity, user("plover"))
    await client.get(f"/conversations/{identity}/window", params={"model": "gpt-4o-mini"})
    await client.get(f"/conversations/{identity}/window", params={"model": "gpt-4o-mini", "max_tokens": 1})
    told = (await client.get("/status")).json()["worker"]
    latest = told["refusals"][0]
    assert (latest["problem"], latest["status"], latest["conversation"]) == ("window-does-not-fit", 422, identity)
    assert latest["title"] == "What must be in the window does not fit"
    assert (told["conversations"][0]["conversation"], told["conversations"][0]["messages"]) == (identity, 1)
    assert {"problem": "window-does-not-fit"}.items() <= told["problems"][0].items() or len(told["problems"]) > 1
    assert "plover" not in str(told)
    assert (await client.delete(f"/conversations/{identity}")).status_code == 204
    assert identity not in (await client.get("/status")).text


async def test_status_names_the_wrong_place(client: httpx.AsyncClient, fresh: Callable[[], str]):
    """A refusal has the pointer of its first mistake; a name in it that may be text is not shown."""
    path = f"/conversations/{fresh()}/messages"
    await client.post(path, json={"messages": [{"role": "user", "contnt": "hi"}]})
    await client.post(path, json={"messages": [{"message": {"role": "user", "content": "hi"}, "my plover secret": 1}]})
    told = (await client.get("/status")).json()["worker"]["refusals"]
    assert [each["pointer"] for each in told[:2]] == ["#/messages/0/…", "#/messages/0/contnt"]
    assert "plover" not in str(told)


async def test_asking_whether_an_entry_is_stored_is_no_mistake(client: httpx.AsyncClient, fresh: Callable[[], str]):
    """A 404 for an entry's own id is not among the refusals; one for a seq or a conversation is."""
    identity = fresh()
    await append(client, identity, user("plover"))
    before = (await client.get("/status")).json()["worker"]
    assert (await client.get(f"/conversations/{identity}/messages/id:m-1")).status_code == 404
    after = (await client.get("/status")).json()["worker"]
    assert (after["refusals"], after["problems"]) == (before["refusals"], before["problems"])
    assert (await client.get(f"/conversations/{identity}/messages/7")).status_code == 404
    latest = (await client.get("/status")).json()["worker"]["refusals"][0]
    assert (latest["operation"], latest["conversation"], latest["pointer"]) == ("getMessage", identity, None)


async def test_status_says_how_the_store_is(client: httpx.AsyncClient):
    """GET /status shows the store's memory and connections, and the condition and uptime of the service."""
    told = (await client.get("/status")).json()
    for _ in range(600):  # read four times a second, once the store is reached
        if told["store"]["memory"]["used"] and not told["store"]["connections"]["down"]:
            break
        await asyncio.sleep(0.1)
        told = (await client.get("/status")).json()
    assert told["store"]["memory"]["used"] > 500_000
    assert told["store"]["connections"]["down"] == 0
    assert told["condition"]["name"] in {"well", "slow", "not-ready"}  # a busy machine, or one that has just started
    assert told["uptime_seconds"] >= 0


@pytest.fixture
def served(tmp_path: Path) -> Any:
    """Yield a service that only this test uses."""
    service = Served(tmp_path / "data")
    service.start()
    yield service
    service.stop()


def test_logs_hash_finds_a_conversation(served: Served):
    """``logs-hash`` prints a conversation's hash as in the log, while the service runs, and refuses an invalid id."""
    command = [sys.executable, "-m", "sash", "logs-hash"]
    environment = {"SASH_DATA_DIR": str(served.data_dir), "PATH": "/usr/bin"}
    hashed = subprocess.run([*command, "c-1"], cwd=ROOT, env=environment, capture_output=True, check=True, text=True)
    wrong = subprocess.run([*command, "no id"], cwd=ROOT, env=environment, capture_output=True, check=False, text=True)

    def found() -> list[str]:
        """Ask for it, and return what its lines of the log say: none before the service has read the key in the store."""
        httpx.get(f"{served.url}/conversations/c-1")
        httpx.get(f"{served.url}/nothing/here")
        lines = (served.data_dir.parent / "serve.log").read_text().splitlines()
        logged = [msgspec.json.decode(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [line["problem"] for line in logged if line.get("conversation") == hashed.stdout.strip()]

    wait_until(lambda: found() != [])
    assert {*found()} == {"not-found"}
    assert (wrong.returncode, "is no id" in wrong.stderr) == (2, True)


def test_logs_hash_needs_the_services_store(tmp_path: Path):
    """On a store that no service has used, ``logs-hash`` prints no hash, because no log line has it."""
    command = [sys.executable, "-m", "sash", "logs-hash", "c-1"]
    environment = {"SASH_DATA_DIR": str(tmp_path / "data"), "PATH": "/usr/bin"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no service has run on this store" in done.stderr
