"""A store that is known to be down: calls fail at once, one at a time tries, and log lines say which call and whose. A store
that only pauses is not taken for one."""

import asyncio
import json
import signal
import time
from pathlib import Path
from statistics import median

import httpx
import pytest
from conftest import Served, serving_alone
from rigs.dialogue import user
from rigs.servers import binaries, server

KEY = {"authorization": "Bearer key-of-acme-0123456789"}


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_an_outage_is_told_at_once(tmp_path: Path, how: str) -> None:
    """Once the store is known to be down, an append, a read and a write under a key are 503 with Retry-After within 200 ms,
    while one call tries; when the store is back, the next calls succeed."""
    binary = binaries()["valkey-9"]
    assert binary is not None
    with server(binary, tmp_path, appendfsync="everysec") as store:
        environment = {
            "SASH_REDIS_URL": store.url,
            "SASH_DURABILITY": "fast",
            "SASH_API_KEYS": "acme:key-of-acme-0123456789",
            "SASH_LOG_FORMAT": "json",
        }
        (tmp_path / "own").mkdir()
        with serving_alone(tmp_path / "own", **environment) as served:
            async with httpx.AsyncClient(base_url=served.url, headers=KEY, timeout=20) as client:
                await client.post("/conversations/c/messages", json={"messages": [user("hello")]})
                if how == "killed":
                    store.kill()
                else:
                    store.signal(signal.SIGSTOP)
                await known_to_be_down(client)
                trying = asyncio.create_task(client.get("/conversations/c"))
                await asyncio.sleep(0.1)
                took = await refusals(client)
                store.signal(signal.SIGCONT) if how == "stopped" else store.start()
                assert (await trying).status_code in (200, 503)
                await back(client)
            assert max(map(min, took.values())) < 0.2, took  # of each kind the quickest, as the machine may be busy
            said = lines_of(served)
            refused = [
                line for line in said if line.get("problem") == "store-unavailable" and line.get("operation") != "ready"
            ]
            assert {"appendMessages", "getWindow", "rewindConversation"} <= {line["operation"] for line in refused}
            assert {line["tenant"] for line in refused} == {"acme"}


async def test_a_store_that_pauses_refuses_nobody(tmp_path: Path) -> None:
    """A store that is silent for 1.5 s, as during a slow sync, delays calls and refuses none, and is not called lost. The
    service stays ready, and says so at once."""
    binary = binaries()["valkey-9"]
    assert binary is not None
    with server(binary, tmp_path, appendfsync="everysec") as store:
        environment = {"SASH_REDIS_URL": store.url, "SASH_DURABILITY": "fast", "SASH_LOG_FORMAT": "json"}
        (tmp_path / "own").mkdir()
        with serving_alone(tmp_path / "own", **environment) as served:
            async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
                store.signal(signal.SIGSTOP)
                asking = [asyncio.create_task(one_after_another(client, number)) for number in range(8)]
                probes, end = [], time.monotonic() + 1.5
                while time.monotonic() < end:
                    probes.append(await probe(client))
                store.signal(signal.SIGCONT)
                answers = [answer for task in asking for answer in await task]
            assert set(answers) == {201}
            assert lines_of(served, "store lost") == []
            assert {status for status, _ in probes} == {200}
            assert median(seconds for _, seconds in probes) < 0.05, probes


async def probe(client: httpx.AsyncClient) -> tuple[int, float]:
    """Ask whether the service is ready, 0.1 s later; return the status and the seconds of the answer."""
    await asyncio.sleep(0.1)
    began = time.monotonic()
    return (await client.get("/readyz")).status_code, time.monotonic() - began


async def one_after_another(client: httpx.AsyncClient, number: int) -> list[int]:
    """Append to a conversation while the store pauses and after; return the statuses."""
    found = []
    for _ in range(13):
        answer = await client.post(f"/conversations/c-{number}/messages", json={"messages": [user("hello")]})
        found.append(answer.status_code)
        await asyncio.sleep(0.02)
    return found


async def known_to_be_down(client: httpx.AsyncClient) -> None:
    """Wait until the service knows it: the answer to a call says that nothing was sent."""
    for _ in range(100):
        asking = [client.get("/conversations/c/messages") for _ in range(2)]  # one of them tries
        answers = await asyncio.gather(*asking)
        if any("nothing was sent" in answer.text for answer in answers):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("never known")


async def refusals(client: httpx.AsyncClient) -> dict[str, list[float]]:
    """Make calls of every kind, each of which must be refused unsent; return how long those of a kind took, in seconds."""
    took: dict[str, list[float]] = {}
    for number in range(4):
        for method, path, body, more in (
            ("POST", "/conversations/c/messages", {"messages": [user("x", id="x")]}, {}),
            ("GET", "/conversations/c/window?model=gpt-4o", None, {}),
            ("POST", "/conversations/c/rewind", {"to_seq": 0}, {"idempotency-key": f"k-{number}"}),
        ):
            began = time.monotonic()
            answer = await client.request(method, path, json=body, headers=more)
            took.setdefault(path, []).append(time.monotonic() - began)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
            assert "nothing was sent to it" in answer.json()["detail"]
    return took


async def back(client: httpx.AsyncClient) -> None:
    """Wait until calls succeed again."""
    for _ in range(600):
        if (await client.get("/conversations?owner=x")).status_code == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("never back")


def lines_of(served: Served, event: str = "request") -> list[dict[str, str]]:
    """Return the log lines of an event."""
    log = (served.data_dir.parent / "serve.log").read_text().splitlines()
    return [
        line for line in map(json.loads, (each for each in log if each.startswith("{"))) if line.get("event") == event
    ]
