"""Readers that are slow and steady get the whole of an answer that is a stream, whatever its parts weigh."""

import asyncio
import json
from pathlib import Path

import httpx
from conftest import serving_alone
from rigs.dialogue import user

TEXT = "long " * 20_000
"""100 KB."""


async def test_a_slow_export_is_whole(tmp_path: Path) -> None:
    """An export that is read at 500 KB a second comes whole, though a part of it takes longer than a request may."""
    with serving_alone(tmp_path, SASH_REQUEST_TIMEOUT_SECONDS="1") as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
            for _ in range(40):
                (await client.post("/conversations/c-1/messages", json={"messages": [user(TEXT)]})).raise_for_status()
            got = b""
            async with client.stream("GET", "/conversations/c-1/export") as answer:
                async for piece in answer.aiter_bytes():
                    got += piece
                    await asyncio.sleep(len(piece) / 500_000)
            assert [json.loads(line).get("seq") for line in got.splitlines()] == [None, *range(1, 41)]
