"""Sash mounted in an application of FastAPI.

FastAPI and uvicorn are in a folder of their own: ``python -m pytest -m clients tests/clients/test_fastapi.py``.
"""

from pathlib import Path

import httpx
import pytest
from clients.fastapi_apps import install, running
from readme_blocks import block

from sash.store.redis.embedded import EmbeddedStore

pytestmark = pytest.mark.clients
MOUNT = "## Inside an application of your own"
ASKED = """
@app.get("/asked")
async def asked():
    return {"models": (await inside.get("/models")).is_success}
"""


def test_sash_is_mounted(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, own: EmbeddedStore) -> None:
    """The page's application answers Sash's calls under its own path, and stops cleanly."""
    packages = install(tmp_path_factory.mktemp("fastapi"))
    program = block("python", "deploy/README.md", MOUNT) + ASKED
    with running(tmp_path, packages, program, SASH_REDIS_URL=own.url, SASH_DURABILITY="fast") as application:
        url = application.url
        assert httpx.get(f"{url}/sash/readyz").json()["status"] == "ready"
        made = httpx.post(f"{url}/sash/conversations", json={"id": "mounted-1", "owner": "a/b"})
        assert httpx.get(url + made.headers["location"]).json()["id"] == "mounted-1"
        said = {"messages": [{"role": "user", "content": "hello"}]}
        answer = httpx.post(f"{url}/sash/conversations/mounted-1/messages?model=gpt-4o-mini", json=said)
        assert answer.json()["window"]["request"]["messages"] == said["messages"]
        assert httpx.delete(f"{url}/sash/owners/a%2Fb").status_code == 204
        assert httpx.get(f"{url}/asked").json() == {"models": True}
