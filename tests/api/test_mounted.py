"""The application inside another one: mounted under a path, with the other's lifespan."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from rigs.conformity import conform

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

ROOT = "/in here/sash"


@asynccontextmanager
async def under(root: str, own: EmbeddedStore) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application that another one mounts under a path, and whose lifespan it enters."""
    app = create_app(Settings(redis_url=own.url, store_connections=2, durability="fast"), log=None)
    transport = httpx.ASGITransport(app, root_path=root)
    hooks = {"response": [conform]}
    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=transport, base_url="http://localhost", event_hooks=hooks) as client,
    ):
        yield client


async def test_calls_are_answered_under_the_mount(own: EmbeddedStore) -> None:
    """Creation, append, window, owners with a slash and pages work, and paths in headers begin with the mount."""
    async with under(ROOT, own) as client:
        client.base_url = httpx.URL(f"http://localhost{ROOT}")
        created = await client.post("/conversations", json={"id": "m-1", "owner": "a/b"})
        assert (created.status_code, created.headers["location"]) == (201, "/in%20here/sash/conversations/m-1")
        said = {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]}
        appended = await client.post("/conversations/m-1/messages?model=gpt-4o-mini", json=said)
        assert appended.json()["window"]["kept"]["messages"] == 2
        page = await client.get("/conversations/m-1/messages?limit=1")
        assert page.headers["link"].startswith("</in%20here/sash/conversations/m-1/messages?")
        assert (await client.get("/docs")).status_code == 200
        again = await client.post("/conversations", json={"id": "m-1"}, headers={"idempotency-key": "k"})
        assert again.json()["type"] == "/problems/conversation-exists"
        assert (await client.delete("/owners/a%2Fb")).status_code == 204


async def test_a_proxy_may_take_the_path_off(own: EmbeddedStore) -> None:
    """Where the path does not begin with the mount, it is the service's own."""
    async with under("/sash", own) as client:
        answer = await client.get("/conversations/sash-1")
        assert (answer.status_code, answer.json()["instance"]) == (404, "/conversations/sash-1")
        assert (await client.get("/livez")).status_code == 200


async def test_another_path_is_not_the_mount(own: EmbeddedStore) -> None:
    """A path that only begins like the mount is not stripped."""
    async with under("/live", own) as client:
        assert (await client.get("/livez")).status_code == 200
