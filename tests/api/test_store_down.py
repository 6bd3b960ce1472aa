"""A store that is known to be down: calls fail at once, one at a time tries, and log lines say which call and whose."""

import asyncio
import json
import signal
import time
from pathlib import Path

import httpx
import pytest
from conftest import Served, serving_alone
from dialogue import user
from store.servers import binaries, server

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
            assert max(took) < 0.2, took
            said = lines_of(served)
            refused = [
                line for line in said if line.get("problem") == "store-unavailable" and line.get("operation") != "ready"
            ]
            assert {"appendMessages", "getWindow", "rewindConversation"} <= {line["operation"] for line in refused}
            assert {line["tenant"] for line in refused} == {"acme"}


async def known_to_be_down(client: httpx.AsyncClient) -> None:
    """Wait until the service knows it, which takes about a second."""
    for _ in range(100):
        status = (await client.get("/readyz")).status_code
        if status == 503:
            await asyncio.sleep(1.5)
            return
        await asyncio.sleep(0.1)
    raise AssertionError("never known")


async def refusals(client: httpx.AsyncClient) -> list[float]:
    """Make calls of every kind, each of which must be refused; return how long each took, in seconds."""
    took = []
    for number in range(4):
        for method, path, body, more in (
            ("POST", "/conversations/c/messages", {"messages": [user("x", id="x")]}, {}),
            ("GET", "/conversations/c/window?model=gpt-4o", None, {}),
            ("POST", "/conversations/c/rewind", {"to_seq": 0}, {"idempotency-key": f"k-{number}"}),
        ):
            began = time.monotonic()
            answer = await client.request(method, path, json=body, headers=more)
            took.append(time.monotonic() - began)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
            assert "nothing was sent to it" in answer.json()["detail"]
    return took


async def back(client: httpx.AsyncClient) -> None:
    """Wait until calls succeed again."""
    for _ in range(100):
        if (await client.get("/conversations?owner=x")).status_code == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("never back")


def lines_of(served: Served) -> list[dict[str, str]]:
    """Return the log lines of requests."""
    log = (served.data_dir.parent / "serve.log").read_text().splitlines()
    return [
        line
        for line in map(json.loads, (each for each in log if each.startswith("{")))
        if line.get("event") == "request"
    ]
