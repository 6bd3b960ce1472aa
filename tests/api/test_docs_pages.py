"""The project's pages at /docs/pages: listed, searched, linked with each other, and without another host."""

import re
from html import unescape

import httpx
import pytest

from sash.operations.pages import pages

HREF = re.compile(r"<a href=[\"']([^\"'>]*)[\"']>")
FOUND = {  # what a stranger looks for, and the page that should be among the first three
    "langchain": "langchain",
    "pydantic ai": "pydantic-ai",
    "vercel": "ai-sdk",
    "litellm": "litellm",
    "anthropic sdk": "anthropic",
    "bedrock": "bedrock",
    "ollama": "ollama",
    "regenerate": "regenerate-or-edit-the-last-question",
    "window-does-not-fit": "../problems/window-does-not-fit",
    "sashstorefull": "runbook",
    "upgrade": "upgrades",
    "encryption": "encryption",
}


async def test_every_page_is_listed_and_leads_on(client: httpx.AsyncClient) -> None:
    """The list names every page, and each link of each page leads to a page and to a heading that is there."""
    listed = {unescape(each).removeprefix("pages/") for each in HREF.findall((await client.get("/docs/pages")).text)}
    assert listed >= set(pages())
    for name in pages():
        answer = await client.get(f"/docs/pages/{name}")
        assert answer.status_code == 200
        for href in map(unescape, HREF.findall(answer.text)):
            if "://" in href or href.startswith("../"):
                assert (await client.get(f"/docs/pages/{href}")).status_code == 200 or "://" in href, (name, href)
                continue
            target, _, anchor = href.partition("#")
            assert target in pages(), (name, href)
            assert not anchor or f'id="{anchor}"' in pages()[target].html, (name, href)


@pytest.mark.parametrize("words", FOUND)
async def test_a_stranger_finds_the_page(client: httpx.AsyncClient, words: str) -> None:
    """The page for a framework, a provider, a task or an error is among the first three that a search finds."""
    answer = await client.get("/docs/pages", params={"q": words})
    hits = answer.text.partition("<ol>")[2]
    assert FOUND[words] in [href.removeprefix("pages/") for href in HREF.findall(hits)][:3]


async def test_what_is_searched_for_is_shown_as_text(client: httpx.AsyncClient) -> None:
    """Words of a search are escaped, and where no page has them the list says so."""
    answer = await client.get("/docs/pages", params={"q": "<script>alert(1)</script>"})
    assert "<script>alert" not in answer.text
    assert "No page has all of these words" in answer.text


async def test_a_page_that_is_not_there_is_404(client: httpx.AsyncClient) -> None:
    """An unknown name is a problem that says where the list is."""
    answer = await client.get("/docs/pages/nobody")
    assert (answer.status_code, "/docs/pages" in answer.json()["detail"]) == (404, True)


async def test_alerts_find_their_entry_in_the_runbook(client: httpx.AsyncClient) -> None:
    """/runbook has an entry with the name of each alert in small letters, and its links lead to the pages."""
    text = (await client.get("/runbook")).text
    assert 'id="sashstorefull"' in text
    assert 'href="docs/pages/network#network"' in text
