"""Pictures in Azure: the service keeps them in Azurite, Microsoft's own emulator.

Needs npm and node: ``python -m pytest -m clients tests/clients/test_azure.py``.
"""

import base64
import hashlib
import hmac
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from clients.test_generated import needs
from conftest import http, lifespan
from rigs.dialogue import append
from rigs.pictures import pictured
from rigs.servers import free_port

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

pytestmark = pytest.mark.clients

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's account and key, which are the same everywhere."""
WINDOW = {"model": "gpt-4o-mini"}


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an account of Azurite's, with a container."""
    needs("node", "npm")
    folder, port = tmp_path_factory.mktemp("azurite"), free_port()
    (folder / "package.json").write_text('{"private": true, "dependencies": {"azurite": "3.35.0"}}')
    install = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True)
    command = [
        "node_modules/.bin/azurite-blob",
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--blobPort",
        str(port),
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}/{ACCOUNT}"
            give_up = time.monotonic() + 60
            while True:
                try:
                    assert asked("PUT", url, "/pictures", restype="container").status_code == 201
                    break
                except httpx.TransportError:
                    assert time.monotonic() < give_up, "Azurite did not start"
                    time.sleep(0.1)
            yield url
        finally:
            process.kill()


def asked(method: str, url: str, path: str, **query: str) -> httpx.Response:
    """Ask Azurite, signed with the account's key."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-08-06"}
    named = [f"{name}:{value}" for name, value in headers.items()]
    resource = [f"/{ACCOUNT}/{ACCOUNT}{path}", *(f"{name}:{value}" for name, value in sorted(query.items()))]
    signed = "\n".join([method, *[""] * 11, *named, *resource])
    seal = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    return httpx.request(
        method,
        url + path,
        params=query,
        headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{seal}"},
        timeout=10,
    )


@pytest_asyncio.fixture
async def client(blobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a service that keeps pictures in the container."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", blobs)
    with EmbeddedStore(tmp_path, fsync="everysec") as store:
        url = f"az://{ACCOUNT}/pictures/of-sash"
        given = Settings(redis_url=store.url, durability="fast", media_url=url)
        async with lifespan(create_app(given)) as app, http(app) as client:
            yield client


def objects(blobs: str) -> int:
    """Return the number of pictures in the container."""
    text = asked("GET", blobs, "/pictures", comp="list", prefix="of-sash/default/", restype="container").text
    return text.count("<Blob>")


async def test_pictures_are_kept_in_azure(client: httpx.AsyncClient, blobs: str) -> None:
    """Windows have the pictures that are objects in Azure, and an erasure erases them."""
    messages = [pictured("look", 1), pictured("again", 1, 2)]
    await append(client, "c-1", *({"message": each} for each in messages))
    window = (await client.get("/conversations/c-1/window", params=WINDOW)).json()
    kept = objects(blobs)
    await client.delete("/conversations/c-1")

    assert window["request"]["messages"] == messages
    assert (kept, objects(blobs)) == (2, 0)
