"""The project's pages at /docs/pages: listed, searched, linked with each other, and without another host."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from readme_blocks import ROOT, headings, read, section, without_blocks
from rigs.conformity import CONTRACT

from sash.api.page_links import PAGE_OF
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
    "cohere": "cohere",
    "regenerate": "regenerate-or-edit-the-last-question",
    "window-does-not-fit": "../problems/window-does-not-fit",
    "sashstorefull": "runbook",
    "upgrade": "upgrades",
    "encryption": "encryption",
}


TRIES = {  # what a stranger has, by the kind of link that they look for
    "useChat": "framework",
    "LangGraph": "framework",
    "Pydantic AI": "framework",
    "OpenAI Agents SDK": "framework",
    "LiteLLM": "framework",
    "MCP": "framework",
    "Anthropic": "provider",
    "Bedrock": "provider",
    "Cohere": "provider",
    "DeepSeek": "provider",
    "window-does-not-fit": "error",
    "receipt-gone": "error",
    "reply-gone": "error",
}
_MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_HTML_LINK = re.compile(r"<a href=[\"']?([^\"'> ]*)[\"']?>(.*?)</a>", re.DOTALL)


@pytest.mark.parametrize("words", TRIES)
def test_two_clicks_from_the_readme(words: str) -> None:
    """A link of README that names the kind, or what is looked for, leads there, or to a place with a link that does."""
    clicked = [each for each in links_of("README.md") if {words.lower(), TRIES[words]} & named_in(each[0], words)]
    places = [place_of("README.md", target) for _, target in clicked]
    behind = [
        place_of(page, target)
        for page, anchor in places
        for text, target in _MARKDOWN_LINK.findall(part_of(page, anchor))
        if words.lower() in text.lower()
    ]
    assert any(says(page, words) for page, _ in (*places, *behind))


def links_of(page: str) -> list[tuple[str, str]]:
    """The texts and targets of a page's links into the project."""
    return [each for each in _MARKDOWN_LINK.findall(without_blocks(read(page))) if "://" not in each[1]]


def named_in(text: str, words: str) -> set[str]:
    """Which of what is looked for and its kind a link's text names."""
    return {each for each in (words.lower(), TRIES[words]) if each in text.lower()}


def place_of(page: str, target: str) -> tuple[str, str]:
    """The page and the anchor that a link of a page leads to."""
    path, _, anchor = target.partition("#")
    return (str(((ROOT / page).parent / path).resolve().relative_to(ROOT)) if path else page), anchor


def part_of(page: str, anchor: str) -> str:
    """What is read behind a link: a section, or a page."""
    if not (ROOT / page).is_file() or Path(page).suffix != ".md":
        return ""
    for heading in headings(page) if anchor else ():
        if re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-") == anchor:
            return section(page, heading)
    return read(page)


def says(page: str, words: str) -> bool:
    """Whether a heading of a page, not of README, has these words."""
    return (
        page.endswith(".md") and page != "README.md" and any(words.lower() in each.lower() for each in headings(page))
    )


@pytest.mark.parametrize("words", TRIES)
async def test_two_clicks_from_the_docs(client: httpx.AsyncClient, words: str) -> None:
    """The page that tries the API has a link to the list of pages, and the list one to the page, which is there."""
    first = (await client.get("/docs")).text.partition("<script>")[0]
    (listed,) = (urljoin("/docs", href) for href, text in _HTML_LINK.findall(first) if text == "Pages")
    listing = (await client.get(listed)).text
    found = [href for href, text in _HTML_LINK.findall(listing) if words.lower() in unescape(text).lower()]
    page = await client.get(urljoin(listed, unescape(found[0])), headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert words.lower() in unescape(page.text).lower()


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


def test_each_operation_leads_to_a_page_that_names_it() -> None:
    """The page that tries the API links each operation to a page, which has the last word of the operation's path."""
    operations = {each["operationId"]: path for path, item in CONTRACT["paths"].items() for each in item.values()}
    assert set(PAGE_OF) == set(operations)
    for operation, path in operations.items():
        word = re.sub(r"/\{\w+\}", "", path).rpartition("/")[2]
        assert word in pages()[PAGE_OF[operation]].text, (operation, PAGE_OF[operation])


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
