"""Readers that are slow and steady get the whole of an answer that is a stream, whatever its parts weigh."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
from conftest import serving_alone
from rigs.dialogue import user
from rigs.reading_events import following

TEXT = "long " * 20_000
"""100 KB."""


@pytest.mark.long
async def test_a_slow_export_is_whole(tmp_path: Path) -> None:
    """An export that is read at 300 KB a second comes whole, though a part of it takes longer than a request may."""
    with serving_alone(tmp_path, SASH_REQUEST_TIMEOUT_SECONDS="3") as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
            for _ in range(40):
                (await client.post("/conversations/c-1/messages", json={"messages": [user(TEXT)]})).raise_for_status()
            got = b""
            async with client.stream("GET", "/conversations/c-1/export") as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
                    await asyncio.sleep(len(piece) / 300_000)
            assert [json.loads(line).get("seq") for line in got.splitlines()] == [None, *range(1, 41)]


@pytest.mark.long
async def test_a_slow_reader_of_one_large_event_gets_it(tmp_path: Path) -> None:
    """A version of 1.8 MB comes to a steady reader that takes three times a request's time for it."""
    with serving_alone(tmp_path, SASH_REQUEST_TIMEOUT_SECONDS="5") as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
            (await client.post("/conversations/c-1/messages", json={"messages": [user("hi")]})).raise_for_status()
            body = {"messages": [user(TEXT) for _ in range(18)]}
            (await client.post("/conversations/c-1/messages", json=body)).raise_for_status()
            got = b""
            async with client.stream("GET", "/conversations/c-1/events?after=1&body=true") as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
                    if got.endswith(b"\n\n"):
                        break
                    await asyncio.sleep(len(piece) / 120_000)
            event = json.loads(got.split(b"data: ")[1])
            assert (event["version"], len(event["messages"])) == (2, 18)
            async with following(client, "/conversations/c-1/events", after=2) as heard:
                await client.post("/conversations/c-1/messages", json={"messages": [user("on")]})
                await heard.until(lambda: heard.versions == [3])
