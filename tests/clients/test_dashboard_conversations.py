"""The dashboard's list of conversations, and one conversation: the log beside the request, the cut, live events, status."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served, serving_alone
from rigs.browser import Browser
from test_dashboard import CARDS, browsed
from validators.media import png

LONG = 10_000
HOSTILE = "<img src=x onerror=alert(1)> \u202eevil"
ROWS = "[...document.querySelectorAll('#list tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a conversation of 10,000 messages, one of several agents, and a short one."""
    with serving_alone(tmp_path_factory.mktemp("list")) as served, httpx.Client(base_url=served.url) as client:
        for settings, messages in CONVERSATIONS:
            client.post("/conversations", json=settings).raise_for_status()
            for first in range(0, len(messages), 100):
                body = {"messages": messages[first : first + 100]}
                client.post(f"/conversations/{settings['id']}/messages", json=body).raise_for_status()
        yield served


CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"at": 9}'}}
CONVERSATIONS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (
        {"id": "long", "model": "gpt-4o-mini", "owner": "user-7", "metadata": {"title": "A very long chat"}},
        [{"role": ("user", "assistant")[at % 2], "content": f"Word {at}. " * 20} for at in range(LONG)],
    ),
    (
        {"id": "agents", "model": "claude-sonnet-4-5", "owner": "user-7", "metadata": {"channel": "web"}},
        [
            {"role": "user", "content": "Who speaks at nine?", "author": "anna"},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "author": "planner"},
            {"role": "user", "content": HOSTILE, "author": "anna", "audience": ["critic"]},
        ],
    ),
    ({"id": "short", "owner": "user-8", "model": "gpt-4o-mini"}, [{"role": "user", "content": "Hello"}]),
]


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A browser; the test fails if the console logs an error or a warning."""
    one_browser.prefer("light")
    one_browser.size(1280, 1000)
    one_browser.open("about:blank")
    one_browser.log()
    yield one_browser
    one_browser.open("about:blank")
    assert one_browser.log() == []


def open_conversation(browser: Browser, served: Served, conversation: str, query: str = "") -> None:
    browser.open(f"{served.url}/dashboard#conversation?id={conversation}{query}")
    browser.wait("document.querySelectorAll('#strip button').length && document.querySelector('[data-log]')")


@browsed
def test_conversations_are_listed_sorted_and_found(browser: Browser, filled: Served):
    """The list has the newest activity first, is sorted by fullness, and shows one owner's or those of a title alone."""
    browser.open(f"{filled.url}/dashboard#conversations")
    browser.wait("document.querySelectorAll('#list tbody tr').length === 3")
    assert [row[0] for row in browser.run(f"return {ROWS}")] == ["short", "agents", "A very long chat"]
    choose = "const e = document.querySelector('#l-order'); e.value = 'fill'; e.dispatchEvent(new Event('change'))"
    browser.run(choose)
    (fullest, *_) = browser.run(f"return {ROWS}")
    assert fullest[:3] == ["A very long chat", "user-7", "gpt-4o-mini"]
    assert int(fullest[5].rstrip("\u202f% ")) > 100
    browser.type("#l-title", "LONG")
    browser.wait("document.querySelectorAll('#list tbody tr').length === 1")
    browser.open("about:blank")
    browser.open(f"{filled.url}/dashboard#conversations?owner=user-8&title=&order=activity")
    browser.wait("document.querySelectorAll('#list tbody tr').length === 1")
    browser.click("#list tbody a")
    browser.wait("document.querySelector('#strip button')")
    assert browser.run("return location.hash").startswith("#conversation?id=short")


@browsed
def test_the_cut_of_a_long_log_is_on_the_page(browser: Browser, filled: Served):
    """Of 10,000 messages the strip and the list show both sides of the cut; the list holds only the rows in sight."""
    open_conversation(browser, filled, "long")
    window = httpx.get(f"{filled.url}/conversations/long/window").json()
    first = window["kept"]["first_seq"]
    around = "[...document.querySelectorAll('#strip button')].map((e) => [+e.dataset.seq, e.classList.contains('out')])"
    shown = browser.run(f"return {around}")
    assert [first - 1, True] in shown
    assert [first, False] in shown
    assert [LONG, False] in shown
    assert len(shown) < 300
    browser.run("[...document.querySelectorAll('.side button')].find((e) => e.innerText === 'The cut').click()")
    browser.wait(f"document.querySelector('[data-log=\"{first}\"].begins .words')?.innerText.startsWith('Word')")
    assert browser.run("return document.querySelectorAll('[data-log]').length") < 60
    browser.run(f"document.querySelector('[data-log=\"{first - 1}\"]').click()")
    said = f"Left out: older than the budget of {window['budget']:,}"
    browser.wait(f"document.querySelector('#detail').innerText.includes('{said}')")
    browser.run("[...document.querySelectorAll('.side button')].find((e) => e.innerText === 'Oldest').click()")
    browser.wait("document.querySelector('[data-log=\"1\"] .words')?.innerText.startsWith('Word 0.')")


@browsed
def test_the_log_is_beside_the_request(browser: Browser, filled: Served):
    """Each message of the log, with its author, is beside each part of the request in the chosen form, as text alone."""
    open_conversation(browser, filled, "agents", "&format=anthropic")
    browser.wait("[...document.querySelectorAll('[data-log] .words')].every((each) => each.innerText !== '…')")
    log = browser.run("return [...document.querySelectorAll('[data-log]')].map((e) => e.innerText)")
    assert ["anna" in log[0], "find" in log[1], "onerror=alert(1)> ⟨U+202E⟩evil" in log[2]] == [True, True, True]
    sent = httpx.get(f"{filled.url}/conversations/agents/window?format=anthropic&explain=true").json()
    parts = browser.run("return [...document.querySelectorAll('[data-piece] .chip')].map((e) => e.innerText)")
    assert parts == [message["role"] for message in sent["request"]["messages"]]
    browser.click("#strip button[data-seq='2']")
    browser.wait("document.querySelector('#detail').innerText.includes('unanswered call')")
    browser.click("[data-piece='1']")
    browser.wait("document.querySelector('#piece').innerText.includes('tool_use')")
    pairs = "[...document.querySelectorAll('#seen dt')].map((e) => [e.innerText, e.nextElementSibling?.innerText])"
    told = {name: value.replace("\n", "") for name, value in browser.run(f"return {pairs}")}
    assert told["receipt"] == sent["receipt"]
    assert told["changed: unanswered call"] == "1 time"
    assert told["metadata"] == '{"channel":"web"}'
    assert browser.run("return document.querySelectorAll('img').length") == 0


@browsed
def test_what_is_for_others_is_not_called_older(browser: Browser, filled: Served):
    """As an agent sees it, a message for others is said to be theirs, and the strip counts no older one."""
    open_conversation(browser, filled, "agents", "&view=planner")
    browser.wait("document.querySelector('[data-log=\"3\"] .fate')?.innerText === 'for other agents'")
    assert browser.run("return document.querySelectorAll('#strip .older').length") == 0


@browsed
def test_a_long_title_leaves_the_columns_on_the_page(browser: Browser, filled: Served):
    """A title of 300 letters without a space is cut, so that every column is in sight."""
    given = {"id": "titled", "metadata": {"title": HOSTILE + "A" * 300}}
    httpx.post(f"{filled.url}/conversations", json=given).raise_for_status()
    browser.open(f"{filled.url}/dashboard#conversations")
    browser.wait("document.querySelector('#list table')?.innerText.includes('AAA')")
    httpx.delete(f"{filled.url}/conversations/titled").raise_for_status()
    width = "[document.querySelector('#list .scroll').scrollWidth, document.querySelector('#list .scroll').clientWidth]"
    inner, outer = browser.run(f"return {width}")
    assert inner <= outer


@browsed
def test_a_reply_in_progress_is_left_out_and_is_no_cut(browser: Browser, filled: Served):
    """The reply says why it is left out, no line of the cut stands behind it, and a question's picture is shown."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(100, 100)}"}}
    begun = {"id": "r-1", "role": "assistant", "content": "It is", "status": "in_progress"}
    messages = [{"role": "user", "content": [picture]}, begun, {"role": "user", "content": "And?"}]
    body = {"messages": messages}
    httpx.post(f"{filled.url}/conversations/begun/messages", json=body).raise_for_status()
    open_conversation(browser, filled, "begun", "&model=gpt-4o-mini")
    assert browser.run("return document.querySelectorAll('#strip .cut, .begins').length") == 0
    browser.click("#strip button[data-seq='2']")
    browser.wait("document.querySelector('#detail .fate')?.innerText === 'Left out: a reply in progress.'")
    browser.click("#strip button[data-seq='1']")
    browser.wait("document.querySelector('#detail img')?.naturalWidth === 100")
    browser.open("about:blank")
    httpx.delete(f"{filled.url}/conversations/begun").raise_for_status()


@browsed
def test_events_are_shown_as_they_happen(browser: Browser, filled: Served):
    """A message that is appended while the page is open is an event of the page, and is in the list."""
    open_conversation(browser, filled, "short")
    body = {"messages": [{"role": "user", "content": "And now?"}]}
    httpx.post(f"{filled.url}/conversations/short/messages", json=body).raise_for_status()
    browser.wait("document.querySelector('#events').innerText.includes('appended: message 2')")
    browser.wait("document.querySelector('[data-log=\"2\"] .words')?.innerText === 'And now?'")


@browsed
def test_a_replaced_end_is_a_branch_of_the_page(browser: Browser, filled: Served):
    """After a regeneration the page lists the end that was replaced, with its text."""
    with httpx.Client(base_url=filled.url) as client:
        for query, said in ("", "Is it on?"), ("", "No."), ("?after_seq=1", "Yes, at noon."):
            role = "user" if said.endswith("?") else "assistant"
            body = {"messages": [{"role": role, "content": said}]}
            client.post(f"/conversations/again/messages{query}", json=body).raise_for_status()
    open_conversation(browser, filled, "again", "&model=gpt-4o-mini")
    browser.wait("document.querySelector(\"section[aria-label^='Branches'] tbody\")")
    row = browser.run("return document.querySelector(\"section[aria-label^='Branches'] tbody tr\").innerText")
    assert ["assistant: No." in row, "message 1" in row] == [True, True]
    browser.open("about:blank")
    httpx.delete(f"{filled.url}/conversations/again").raise_for_status()


@browsed
def test_status_is_a_page_for_people(browser: Browser, filled: Served):
    """A browser gets the state of the store and of this worker as a page; a program gets it as JSON."""
    browser.open(f"{filled.url}/status")
    browser.wait("document.querySelector('#verdict h1')?.innerText === 'The store answers.'")
    rows = browser.run(CARDS)["What the store\u2019s servers serve"]["rows"]
    assert rows == [["store", "yes", "yes", "yes", "\u2013"]]
    assert httpx.get(f"{filled.url}/status").json()["condition"]["name"] == "well"


@browsed
@pytest.mark.parametrize("view", ["conversations", "conversation?id=agents", "conversation?id=long"])
def test_a_phone_does_not_scroll_sideways(browser: Browser, filled: Served, view: str):
    """At 390 pixels the list and a conversation are as wide as the screen."""
    browser.size(390, 844)
    browser.open(f"{filled.url}/dashboard#{view}")
    browser.wait("document.querySelector('#list table, [data-log]')")
    assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@browsed
def test_a_title_is_found_among_all_conversations(browser: Browser, tmp_path: Path):
    """What is typed is looked for among the loaded conversations; the button looks through all titles."""
    with serving_alone(tmp_path) as served, httpx.Client(base_url=served.url) as client:
        client.post("/conversations", json={"metadata": {"title": "A very long chat"}}).raise_for_status()
        for _ in range(60):
            client.post("/conversations", json={}).raise_for_status()
        browser.open(f"{served.url}/dashboard#conversations")
        browser.wait("document.querySelectorAll('#list tbody tr').length === 50")
        browser.type("#l-title", "Very Long")
        browser.wait("document.querySelector('#list').innerText.includes('Show looks through all titles')")
        browser.click(".primary")
        browser.wait("document.querySelectorAll('#list tbody tr').length === 1")
        assert browser.run(f"return {ROWS}")[0][0] == "A very long chat"
        browser.open("about:blank")
