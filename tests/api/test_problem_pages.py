"""Every problem type is the address of a page that says what the problem means and what to do."""

import httpx
import pytest
from conftest import http, lifespan

from sash.app import create_app
from sash.problems import Problem, problem_types
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore

EVERY_TYPE = pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.slug) for kind in problem_types()])


@EVERY_TYPE
async def test_a_type_leads_to_its_meaning(client: httpx.AsyncClient, kind: type[Problem]) -> None:
    """The page of a problem type has its title and status and two texts: what it means and what to do."""
    page = (await client.get(f"/problems/{kind.slug}")).json()
    assert (page["type"], page["title"], page["status"]) == (f"/problems/{kind.slug}", kind.title, kind.status)
    assert page["means"].endswith(".")
    assert page["do"].endswith(".")
    assert page["means"] != page["do"]


async def test_a_type_of_an_answer_leads_somewhere(client: httpx.AsyncClient) -> None:
    """The ``type`` of an error is a path of the service that leads to the page with the same title."""
    error = (await client.get("/conversations/c-absent")).json()
    assert (await client.get(error["type"])).json()["title"] == error["title"]


async def test_browsers_get_a_page(client: httpx.AsyncClient) -> None:
    """A browser gets the page as HTML, with code marked as code."""
    answer = await client.get("/problems/unauthorized", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer.headers["content-type"].startswith("text/html")
    assert "<h1>An API key is needed</h1>" in answer.text
    assert "<code>Authorization: Bearer &lt;key&gt;</code>" in answer.text
    assert "`" not in answer.text


async def test_an_unknown_type_is_not_found(client: httpx.AsyncClient) -> None:
    """The page of an unknown problem type is 404."""
    assert (await client.get("/problems/nonsense")).status_code == 404


async def test_a_page_needs_no_key(store: EmbeddedStore) -> None:
    """Problem pages need no key, so that a client without one can read what ``unauthorized`` means."""
    settings = Settings(
        redis_url=store.url,
        store_connections=1,
        durability="fast",
        api_keys=(ApiKey("acme", "key-of-acme-0123456789"),),
    )
    async with lifespan(create_app(settings)) as running, http(running) as keyless:
        assert (await keyless.get("/problems/unauthorized")).status_code == 200
