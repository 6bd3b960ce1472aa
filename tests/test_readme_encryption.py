"""The commands of the page on encryption at rest, run unchanged on a store with encrypted messages."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from conftest import ROOT, http, lifespan
from readme_blocks import block

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

OLD = "b2xk" * 10 + "b28="


@asynccontextmanager
async def service(own: EmbeddedStore, key: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings.read({"SASH_REDIS_URL": own.url, "SASH_DURABILITY": "fast", "SASH_ENCRYPTION_KEY": key})
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


def commands(own: EmbeddedStore) -> str:
    """Run the page's block, and return the new master key."""
    told = f'sash() {{ {sys.executable} -m sash "$@"; }}\nset -eu\n'
    done = subprocess.run(
        ["sh"],
        input=told + block("sh", "deploy/encryption.md", "## Changing keys") + 'echo "$NEW"\n',
        env={"PATH": "/usr/bin:/bin", "SASH_REDIS_URL": own.url, "SASH_ENCRYPTION_KEY": OLD, "SASH_DURABILITY": "fast"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


async def test_both_kinds_of_keys_are_changed(own: EmbeddedStore) -> None:
    """The block's commands succeed, and the new key alone decrypts what the service encrypted with the old key."""
    turn = {"messages": [{"message": {"role": "user", "content": "is there a talk about gradle?"}}]}
    async with service(own, OLD) as client:
        assert (await client.post("/conversations/c/messages", json=turn)).status_code == 201
    new = await asyncio.to_thread(commands, own)
    async with service(own, new) as client:
        page = (await client.get("/conversations/c/messages")).json()
        assert [each["message"] for each in page["messages"]] == [turn["messages"][0]["message"]]
        assert (await client.post("/conversations/c/messages", json=turn)).status_code == 201
