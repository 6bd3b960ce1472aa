"""Tests the dashboard in a real Chromium: figures, live updates, keyboard use and accessibility."""

import json
import re
import signal
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients.conference import SYSTEM, turns
from conftest import Served, serving_alone
from rigs.browser import CHROMIUM, DRIVER, Browser
from rigs.servers import Server, binaries
from validators.media import png

from sash.operations.dashboard import dashboard
from sash.store.redis.embedded import _bundled_binary

browsed = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
ARROW_LEFT, ARROW_RIGHT, HOME, TAB, SPACE, ENTER = "\ue012", "\ue014", "\ue011", "\ue004", " ", "\ue007"
DECODED = "document.querySelectorAll('#strip button').length"
DESKTOP = 1280, 1000


def test_the_page_asks_nobody_else():
    """The page contains no address of another host, and its policy allows its own style, script and service alone."""
    page = dashboard()
    text = page.body.decode().replace("http://www.w3.org/2000/svg", "")  # the namespace of SVG, which is not fetched
    assert re.findall(r"https?:|[\"'`(=]//", text) == []
    assert "innerHTML" not in text
    policy = dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))
    assert policy == {
        **dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'"),
        "script-src": digest_of(page.body, b"script"),
        "style-src": digest_of(page.body, b"style"),
        "img-src": "data:",
        "connect-src": "'self'",
    }


def test_each_function_of_the_page_has_a_name_of_its_own():
    """The page's scripts are joined, so a second function of one name would take the first one's place."""
    script = dashboard().body.decode()
    names = re.findall(r"^(?:async )?(?:function\*?|const|let) (\w+)", script, re.MULTILINE)
    assert [name for name in set(names) if names.count(name) > 1] == []


def digest_of(page: bytes, element: bytes) -> str:
    """Return the source that a policy names for the page's only element of this kind."""
    (content,) = re.findall(b"<%b>(.*?)</%b>" % (element, element), page, re.DOTALL)
    return f"'sha256-{b64encode(sha256(content).digest()).decode()}'"


def test_the_page_needs_no_key(keyed: Served):
    """The page is served without a key where conversations and figures need one, and is the same for everybody."""
    needs = {path: httpx.get(keyed.url + path) for path in ("/dashboard", "/stats", "/conversations/visitor-1")}
    assert [answer.status_code for answer in needs.values()] == [200, 401, 401]
    assert needs["/dashboard"].headers["content-type"].startswith("text/html")
    assert needs["/dashboard"].content == dashboard().body


def feed(url: str, conversation: str, rounds: int, **options: Any) -> None:
    """Create a conversation, and for each question read a window of at most 600 tokens and report its usage."""
    with httpx.Client(base_url=url, **options) as client:
        settings = {"id": conversation, "system": SYSTEM, "model": "gpt-4o-mini"}
        assert client.post("/conversations", json=settings).status_code == 201
        for turn in turns(rounds):
            answer = client.post(f"/conversations/{conversation}/messages", json={"messages": turn})
            assert answer.status_code == 201, answer.text
            if turn[-1]["message"]["role"] != "assistant":
                read = client.get(f"/conversations/{conversation}/window?max_tokens=600&stable=true").json()
                tokens = read["tokens"]["total"]
                usage = {"model": "gpt-4o-mini", "prompt_tokens": tokens, "window_tokens": tokens}
                assert client.post(f"/conversations/{conversation}/usage", json=usage).status_code == 200


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that requires API keys and a metrics key."""
    served = Served(tmp_path_factory.mktemp("dashboard") / "data", SASH_API_KEYS="acme:k1", SASH_METRICS_KEY="m1")
    served.start()
    feed(served.url, "visitor-1", 12, headers={"Authorization": "Bearer k1"})
    yield served
    served.stop()


@pytest.fixture
def browser(one_browser: Browser, keyed: Served) -> Iterator[Browser]:
    """A browser with both keys stored; the test fails if the console logs an error or a warning."""
    one_browser.prefer("light")
    one_browser.size(*DESKTOP)
    keys = "sessionStorage.setItem('sash.key', 'k1'); sessionStorage.setItem('sash.metrics-key', 'm1')"
    one_browser.store(f"{keyed.url}/dashboard", keys)
    one_browser.log()
    yield one_browser
    one_browser.size(*DESKTOP)  # tests of phones make it small
    assert one_browser.log() == []


def open_conversation(browser: Browser, keyed: Served, query: str = "", conversation: str = "visitor-1") -> None:
    browser.open(f"{keyed.url}/dashboard#conversation?id={conversation}{query}")
    browser.wait(DECODED)


def asked(keyed: Served, path: str, key: str = "m1") -> Any:
    return httpx.get(f"{keyed.url}/{path}", headers={"Authorization": f"Bearer {key}"}).json()


def agree(shown: Callable[[], Any], wanted: Callable[[], Any]) -> None:
    """Wait until the page shows what the service said since: figures by the minute change all the time.

    The page asks every five seconds, the service sums up every few.
    """
    give_up, said = time.monotonic() + 100, [wanted()]
    while (left := shown()) not in said and time.monotonic() < give_up:
        time.sleep(0.1)
        said.append(wanted())
    assert left in said, said[-1]


CARDS = """return Object.fromEntries([...document.querySelectorAll('#cards > section')].map((card) => {
    const texts = (inside, each) => [...inside.querySelectorAll(each)].map((e) => e.innerText);
    const named = (list) => Object.fromEntries([...card.querySelectorAll(`dl.${list} dd:not(.note)`)].map(
        (e) => [e.parentElement.querySelectorAll('dt').length > 1 ? e.previousElementSibling.innerText
            : e.parentElement.querySelector('dt').innerText, e.innerText]));
    return [card.getAttribute('aria-label'), {
        lead: card.querySelector('.lead')?.innerText, pairs: named('pairs'), figures: named('figures'),
        drawn: [...card.querySelectorAll('[role=img]')].map((e) => e.getAttribute('aria-label')),
        rows: [...card.querySelectorAll('tbody tr')].map((row) => texts(row, 'th, td'))}];
}))"""


def short(number: float) -> str:
    return f"{number / 1e3:.3g} k" if number >= 1e4 else f"{int(number + 0.5):,}"


def share(part: float | None) -> str:
    if part is None:
        return "\u2013"
    if 0 < part < 0.01:
        return "under 0.1\u202f%" if part < 0.001 else f"{part * 100:.1f}\u202f%"
    return f"{int(part * 100 + 0.5)}\u202f%"


def dollars(sum_: float) -> str:
    return "$0" if sum_ == 0 else "under 1¢" if sum_ < 0.01 else f"${sum_:.2f}"


@browsed
def test_the_figures_are_there(browser: Browser, keyed: Served):
    """The verdict, rates, fullness, losses, savings, predictions, models, tenants and store show the service's figures."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait(
        "document.querySelector('#cards table') && document.querySelector('#clock').innerText.includes('version')"
    )
    agree(lambda: shown_figures(browser), lambda: wanted_figures(asked(keyed, "stats"), asked(keyed, "status")))
    assert browser.text("#clock").startswith(
        f"Live, every five seconds · version {asked(keyed, 'status')['version']}, up "
    )


def shown_figures(browser: Browser) -> dict[str, Any]:
    cards = browser.run(CARDS)
    saved = cards["What was saved"]
    return {
        "windows": browser.text("#verdict p").partition(";")[0],
        "rates": cards["Windows a minute, all models"]["drawn"][0].partition(": ")[2],
        "fullness": (cards["How full windows are"]["drawn"], cards["How full windows are"]["pairs"]),
        "losses": (cards["What was left out"]["lead"], cards["What was left out"]["drawn"]),
        "tokens left out": cards["What was left out"]["pairs"]["tokens left out"],
        "savings": (saved["lead"], saved["pairs"]["tokens"], saved["pairs"]["tokens it can serve"]),
        "predictions": (cards["Predicted against billed"]["lead"], cards["Predicted against billed"]["drawn"]),
        "models": [row[:5] for row in cards["By model"]["rows"]],
        "tenant": [row for row in cards["By tenant"]["rows"] if row[0] == "acme"],
        "keys": cards["The store"]["pairs"]["keys"],
    }


def wanted_figures(stats: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """Return what ``shown_figures`` should find for these answers of the service."""
    quarter, everything = stats["quarter"], stats["quarter"]["all"]
    windows, kept, dropped = everything["windows"], everything["kept_messages"], everything["dropped_messages"]
    most = max(point["windows"] for point in quarter["timeline"])
    failed = sum(point["server_errors"] for point in quarter["timeline"])
    nearly = sum(everything["fill"]["histogram"][18:]) / windows
    prediction, reasons, saved = everything["prediction"], everything["stop_reasons"], everything["saved"]
    known = [part for part in saved.values() if part is not None]
    names = {"exact": "exact", "over": "predicted more", "under": "predicted less"}
    reports = ", ".join(f"{name} {prediction[which]}" for which, name in names.items())
    assert reasons["limit"] == reasons["summary"] == 0
    return {
        "windows": f"{windows:,} windows in the last 15 minutes",
        "rates": f"{windows:,} windows in all, at most {most if most >= 10 else f'{most:.1f}'} a minute, "
        f"{failed} failed requests.",
        "fullness": (
            [f"How full {windows:,} windows were: {share(nearly)} of them over nine tenths of their budget."],
            {"held the whole history": short(reasons["complete"]), "ended by the budget": short(reasons["budget"])},
        ),
        "losses": (
            f"{share(dropped / (kept + dropped))} of messages",
            [f"Messages: sent {kept:,}, left out {dropped:,}."],
        ),
        "tokens left out": short(everything["dropped_tokens"]),
        "savings": (
            dollars(sum(known)),
            short(everything["grounding_tokens_saved"]),
            short(everything["stable"]["reused_tokens"]),
        ),
        "predictions": (
            f"{share(prediction['exact'] / prediction['reports'])} of {prediction['reports']} reports exact",
            [f"Reports: {reports}."],
        ),
        "models": [
            [
                each["model"],
                f"{each['windows']:,}",
                short(each["tokens"]["p95"]),
                share(each["fill"]["p95"]),
                share(each["dropped_messages"] / (each["kept_messages"] + each["dropped_messages"])),
            ]
            for each in quarter["models"]
        ],
        "tenant": [
            [
                each["tenant"],
                *(f"{each[name]:,}" for name in ("requests", "client_errors", "server_errors")),
                short(each["window_tokens"]),
            ]
            for each in quarter["tenants"]
            if each["tenant"] == "acme"  # requests for the figures themselves are another tenant's
        ],
        "keys": short(status["store"]["memory"]["keys"]),
    }


@browsed
def test_the_figures_follow(browser: Browser, keyed: Served):
    """A new window appears in the figures without a reload."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    browser.run("window.loaded = 'once'")
    body = {"model": "gpt-5-nano", "messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert httpx.post(f"{keyed.url}/window", json=body, headers={"Authorization": "Bearer k1"}).status_code == 200
    rows = "[...document.querySelectorAll(\"section[aria-label='By model'] tbody tr\")]"
    row = browser.wait(f"{rows}.find(e => e.cells[0].innerText === 'gpt-5-nano')?.innerText")
    assert row.split()[:2] == ["gpt-5-nano", "1"]
    assert browser.run("return window.loaded") == "once"


@browsed
def test_what_failed_is_said_first(browser: Browser, keyed: Served):
    """The verdict counts one window more that could not be made, and says why."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    window = f"{keyed.url}/conversations/visitor-1/window?max_tokens=5"
    for _ in range(2):  # so that there are several, whichever tests came before
        assert httpx.get(window, headers={"Authorization": "Bearer k1"}).status_code == 422

    def wanted() -> str:
        number = asked(keyed, "stats")["quarter"]["all"]["does_not_fit"]
        return f"{number} windows could not be made: what must be in them is over the budget."

    agree(lambda: browser.text("#verdict li:last-child"), wanted)
    assert browser.text("#verdict h1").endswith(" to look at.")


@browsed
def test_ranges_and_models_by_keyboard(browser: Browser, keyed: Served):
    """Arrow keys change the time range, and typing a letter chooses a model, whose figures are shown."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    browser.run("document.querySelector('#ranges input:checked').focus()")
    verdict = "document.querySelector('#verdict').innerText.includes('{}')"
    for key, said in (
        (ARROW_RIGHT, "in the last hour"),
        (ARROW_RIGHT, "in the last day"),
        (ARROW_LEFT, "in the last hour"),
        (ARROW_RIGHT, "in the last day"),
    ):
        browser.press(key)
        browser.wait(verdict.format(said))
    assert "Windows a minute, all models, by the hour" in browser.run(CARDS)
    browser.press(ARROW_RIGHT)
    browser.wait(verdict.format("in the last 30 days"))
    browser.press(ARROW_RIGHT)
    browser.wait(verdict.format("windows since "))
    browser.run("document.querySelector('#model').focus()")
    browser.press("g")
    chosen = browser.wait(
        "document.querySelector('#model').value.startsWith('gpt') && document.querySelector('#model').value"
    )
    agree(lambda: one_models(browser), lambda: wanted_of(chosen, asked(keyed, "stats")["start"]))


def one_models(browser: Browser) -> dict[str, str]:
    """Return the figures that the page shows of the chosen model."""
    cards = browser.run(CARDS)
    figures = {name: cards["At a glance"]["figures"][name] for name in _OF_ONE}
    return {**figures, **cards["How full windows are"]["pairs"], "left out": cards["What was left out"]["lead"]}


_OF_ONE = ("Windows a minute", "Building one", "Tokens a window", "Budget used")


def wanted_of(model: str, period: dict[str, Any]) -> dict[str, str]:
    """Return what ``one_models`` should find for this model in these statistics."""
    (found,) = [each for each in period["models"] if each["model"] == model]
    rate, p95 = found["windows"] * 60 / period["seconds"], found["milliseconds"]["p95"]
    return {
        "Windows a minute": f"{rate:.1f}" if rate < 10 else short(rate),
        "Building one": f"{p95:.1f}ms" if p95 < 10 else f"{short(p95)}ms",
        "Tokens a window": short(found["tokens"]["p50"]),
        "Budget used": share(found["fill"]["p50"]),
        "held the whole history": short(found["stop_reasons"]["complete"]),
        "ended by the budget": short(found["stop_reasons"]["budget"]),
        "left out": share(found["dropped_messages"] / (found["kept_messages"] + found["dropped_messages"]))
        + " of messages",
    }


@browsed
def test_the_window_of_a_conversation(browser: Browser, keyed: Served):
    """The strip shows each message as sent or left out, as ``explain`` does, and marks the pinned message and the cut."""
    open_conversation(browser, keyed, "&max_tokens=400")
    url = f"{keyed.url}/conversations/visitor-1/window?max_tokens=400&explain=true"
    window = httpx.get(url, headers={"Authorization": "Bearer k1"}).json()
    lines = window["explain"]
    assert browser.run(STRIP) == [[line["seq"], line["kept"]] for line in lines]
    assert marked(browser, "pinned") == [line["seq"] for line in lines if line["reason"] == "always: pinned"] == [1]
    cut = 1 + max(line["seq"] for line in lines if not line["kept"])
    after = "return [...document.querySelectorAll('#strip .cut + li button')].map(b => +b.dataset.seq)"
    assert browser.run(after) == [cut]
    assert browser.run("return document.querySelectorAll('#strip .cut').length") == 1
    assert f"{window['tokens']['total']} of 400 tokens" in browser.text("#seen")


STRIP = (
    "return [...document.querySelectorAll('#strip button')].map(b => [+b.dataset.seq, !b.classList.contains('out')])"
)


def marked(browser: Browser, mark: str) -> list[int]:
    """Return the numbers of the strip's messages with this mark."""
    seqs: list[int] = browser.run(f"return [...document.querySelectorAll('#strip .{mark}')].map(b => +b.dataset.seq)")
    return seqs


@browsed
def test_recalled_messages_are_lit_up_and_searched(browser: Browser, keyed: Served):
    """The strip marks the recalled messages alone, and a result of the search, once chosen, is shown below."""
    headers = {"Authorization": "Bearer k1"}
    said = [{"role": "user", "content": "my dog is called Rex"}, *[{"role": "user", "content": "and then?"}] * 60]
    with httpx.Client(base_url=keyed.url, headers=headers) as client:
        client.post("/conversations", json={"id": "rex-1", "model": "gpt-4o-mini", "recall": "lexical"})
        for message in said:
            client.post("/conversations/rex-1/messages", json={"messages": [{"message": message}]})
    query = "&max_tokens=150&recall_max_tokens=50&recall_query=dogs"
    open_conversation(browser, keyed, query, "rex-1")
    browser.wait("document.querySelector('#strip .recalled')")
    lines = asked(keyed, f"conversations/rex-1/window?explain=true{query}", "k1")["explain"]
    recalled = [line["seq"] for line in lines if "score" in line]
    assert (marked(browser, "recalled"), recalled[0], len(recalled) < len(said)) == (recalled, 1, True)
    assert browser.text(".hits") == "1 · user · my dog is called Rex"
    assert browser.run(CHOSEN) == [str(len(said))]
    browser.click("[data-hit]")
    browser.wait("document.querySelector('#detail').innerText.includes('bears on the question')")
    assert browser.text("#detail pre") == "my dog is called Rex"
    assert browser.run(CHOSEN) == ["1"]


CHOSEN = "return [...document.querySelectorAll('#strip [aria-current]')].map(b => b.dataset.seq)"


@browsed
def test_controls_turn_the_window(browser: Browser, keyed: Served):
    """Changes of the budget, the model and the stable cut change address and view, which shows that address's window."""
    open_conversation(browser, keyed)
    out = "document.querySelectorAll('#strip .out').length"
    assert browser.run(f"return {out}") == 0

    def shows_its_address() -> dict[str, Any]:
        query = browser.run("return location.hash").partition("&")[2]
        window: dict[str, Any] = asked(keyed, f"conversations/visitor-1/window?{query}&explain=true", "k1")
        assert browser.run(STRIP) == [[line["seq"], line["kept"]] for line in window["explain"]]
        assert browser.text("#seen .lead").startswith(f"{window['tokens']['total']:,} of {window['budget']:,} tokens")
        return window

    browser.run("document.querySelector('#c-slide').focus()")
    browser.press(HOME, *[ARROW_RIGHT] * 20)
    browser.wait(f"{out} > 0 && document.querySelector('#seen').innerText.includes('The budget ended it.')")
    at_most = browser.run("return document.querySelector('#c-max').value")
    browser.wait(f"document.querySelector('#seen .lead').innerText.includes(' of {at_most} tokens')")
    assert shows_its_address()["budget"] == int(at_most)
    browser.type("#c-model", "gpt-4" + ENTER)
    browser.wait("document.querySelector('#seen').innerText.includes('gpt-4 ')")
    assert shows_its_address()["model"] == "gpt-4"
    browser.run("document.querySelector('#c-stable').focus()")
    browser.press(SPACE)
    browser.wait("document.querySelector('#seen').innerText.includes('A stable cut ended it')")
    browser.wait("location.hash.includes('stable=true')")
    shows_its_address()


@browsed
def test_a_larger_reserve_leaves_less_of_the_window(browser: Browser, keyed: Served):
    """A larger reserve for the reply makes the window's budget smaller, and the window leaves messages out."""
    open_conversation(browser, keyed, "&model=gpt-4")
    out = "document.querySelectorAll('#strip .out').length"
    assert browser.run(f"return {out}") == 0
    browser.type("#c-reserve", "7800")
    browser.wait(f"{out} > 0")
    browser.wait("document.querySelector('#seen').innerText.includes('of 392 tokens')")  # 8,192 - 7,800
    assert "reserve=7800" in browser.run("return location.hash")


@browsed
def test_a_message_whose_documents_were_cut_is_marked(browser: Browser, keyed: Served):
    """Only while its documents are cut, the newest question is marked, and the strip's legend has an entry for the mark."""
    documents = [{"id": "a", "text": "The cloakroom is in the basement. " * 40}]
    question = {
        "message": {"role": "user", "content": "Where is the cloakroom?"},
        "grounding": {"documents": documents},
    }
    url, headers = f"{keyed.url}/conversations/cut-1/messages", {"Authorization": "Bearer k1"}
    hello = {"message": {"role": "user", "content": "Hello"}}
    assert httpx.post(url, json={"messages": [hello, question]}, headers=headers).status_code == 201
    browser.open(f"{keyed.url}/dashboard#conversation?id=cut-1&model=gpt-4o-mini&max_tokens=200")
    browser.wait(DECODED)
    trimmed = "[...document.querySelectorAll('#strip .trimmed')].map(e => e.dataset.seq).join()"
    assert browser.run(f"return {trimmed}") == "2"
    assert browser.run("return document.querySelector('#strip .trimmed').title").endswith("; its documents were cut")
    assert "cut" in browser.text("section[aria-label=Messages] .key").splitlines()
    browser.run("document.querySelector('#c-max').value = ''")
    browser.type("#c-max", "2000")
    browser.wait(f"{trimmed} === '' && {DECODED} === 2")
    assert "cut" not in browser.text("section[aria-label=Messages] .key").splitlines()


@browsed
def test_one_models_figures_are_its_own(browser: Browser, keyed: Served):
    """If a model is chosen, each figure is that model's, or says that it covers all models."""
    body = {"model": "gpt-4.1-nano", "messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert httpx.post(f"{keyed.url}/window", json=body, headers={"Authorization": "Bearer k1"}).status_code == 200
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("[...document.querySelectorAll('#model option')].some(e => e.value === 'gpt-4.1-nano')")
    cells = "[...document.querySelectorAll('.figures > div')]"
    notes = f"Object.fromEntries({cells}.map(e => [e.children[0].innerText, e.innerText]))"
    all_models = browser.run(f"return {notes}")
    assert not any("all models" in text for text in all_models.values())
    browser.run(
        "const m = document.querySelector('#model'); m.value = 'gpt-4.1-nano'; m.dispatchEvent(new Event('change'))"
    )
    of_one = browser.run(f"return {notes}")
    told_of_all = {name for name, text in of_one.items() if "all models: " in text}
    assert told_of_all == {"Appending", "Failed"}
    assert set(of_one) - told_of_all == set(_OF_ONE)
    assert "95 % within" in of_one["Building one"]
    agree(lambda: one_models(browser), lambda: wanted_of("gpt-4.1-nano", asked(keyed, "stats")["quarter"]))
    assert of_one["Windows a minute"] != all_models["Windows a minute"]


@browsed
def test_messages_by_keyboard(browser: Browser, keyed: Served):
    """Arrow keys move along the strip, which has a single tab stop, and the chosen message's text is shown below."""
    open_conversation(browser, keyed)
    browser.run("document.querySelector('#strip [tabindex=\"0\"]').focus()")
    browser.press(HOME)
    browser.wait("document.querySelector('#detail').innerText.includes('wheelchair')")
    assert "always: pinned" in browser.text("#detail")
    stops = "return [...document.querySelectorAll('#strip [tabindex=\"0\"]')].map(b => b.dataset.seq)"
    for key, seq in ((ARROW_RIGHT, "2"), (ARROW_RIGHT, "3"), (ARROW_LEFT, "2")):
        browser.press(key)
        assert browser.run("return document.activeElement.dataset.seq") == seq
        assert browser.run(CHOSEN) == browser.run(stops) == [seq]
    browser.wait("document.querySelector('#detail').innerText.includes('ground floor')")


@browsed
def test_a_conversation_flows_in(browser: Browser, keyed: Served):
    """A new message appears without a reload, and its HTML is shown as text."""
    open_conversation(browser, keyed)
    browser.run("window.loaded = 'once'")
    before = browser.run(f"return {DECODED}")
    body = {"messages": [{"message": {"role": "user", "content": "<img src=x onerror=alert(1)> Anything else?"}}]}
    headers = {"Authorization": "Bearer k1"}
    assert httpx.post(f"{keyed.url}/conversations/visitor-1/messages", json=body, headers=headers).status_code == 201
    browser.wait(f"{DECODED} === {before + 1}")
    browser.run("document.querySelector('#strip li:last-child button').click()")
    browser.wait("document.querySelector('#detail pre')?.innerText === '<img src=x onerror=alert(1)> Anything else?'")
    assert browser.run("return window.loaded") == "once"


@browsed
def test_an_unchanged_window_is_not_sent_again(browser: Browser, keyed: Served):
    """While the window does not change, the page's periodic request is for the window alone, and is answered with 304."""
    open_conversation(browser, keyed, "&model=gpt-4o-mini")
    browser.wait("[...document.querySelectorAll('[data-log] .words')].every((each) => each.innerText !== '…')")
    browser.run("""const ask = fetch; window.said = [];
        window.fetch = async (path, ...rest) => {
            const answer = await ask(path, ...rest); said.push([path, answer.status]); return answer;
        }""")
    browser.wait("said.length")
    path = "conversations/visitor-1/window?model=gpt-4o-mini&explain=true"
    assert browser.run("return said") == [[path, 304]]
    assert browser.run(f"return {DECODED}") > 0


@browsed
def test_the_newest_message_is_followed_until_another_is_chosen(browser: Browser, keyed: Served):
    """The newest message is shown below the strip; a message that the user chose stays shown and keeps the focus."""
    feed(keyed.url, "visitor-2", 2, headers={"Authorization": "Bearer k1"})
    browser.open(f"{keyed.url}/dashboard#conversation?id=visitor-2")
    browser.wait(DECODED)
    before = browser.run(f"return {DECODED}")
    current = "document.querySelector('#strip [aria-current]')?.dataset.seq"
    assert browser.wait(current) == str(before)

    def append(text: str) -> None:
        body = {"messages": [{"message": {"role": "user", "content": text}}]}
        url = f"{keyed.url}/conversations/visitor-2/messages"
        assert httpx.post(url, json=body, headers={"Authorization": "Bearer k1"}).status_code == 201

    append("Is there a lift?")
    browser.wait(f"{current} === '{before + 1}'")
    browser.wait("document.querySelector('#detail').innerText.includes('lift')")
    browser.run("document.querySelector('#strip [tabindex=\"0\"]').focus()")
    browser.press(HOME)
    append("And a ramp?")
    browser.wait(f"{DECODED} === {before + 2}")
    assert browser.run(f"return {current}") == "1"
    assert browser.run("return document.activeElement.dataset.seq") == "1"
    browser.wait("document.querySelector('#detail').innerText.includes('wheelchair')")
    assert browser.text("#heard").endswith("It holds the whole history.")


def refused(log: list[str]) -> list[str]:
    """Return the console's lines without those of expected 4xx answers, which the browser logs."""
    return [line for line in log if "the server responded with a status of 4" not in line]


@browsed
def test_what_cannot_be_shown_is_explained(browser: Browser, keyed: Served):
    """For a budget that is too small and for an unknown conversation, the page shows the problem's title and text."""
    open_conversation(browser, keyed)
    browser.type("#c-max", "5")
    browser.wait("document.querySelector('.problem')?.innerText.includes('the budget is 5')")
    said = "return ['.problem h2', '.problem p'].map((each) => document.querySelector(each).textContent)"
    problem = asked(keyed, "conversations/visitor-1/window?max_tokens=5", "k1")
    assert browser.run(said) == [problem["title"], problem["detail"]]
    assert browser.run("return document.querySelector('#strip')") is None
    browser.open(f"{keyed.url}/dashboard#conversation?id=nobody")
    browser.wait("document.querySelector('.problem')?.innerText.includes('no such conversation')")
    problem = asked(keyed, "conversations/nobody/window?max_tokens=5", "k1")
    assert browser.run(said) == [problem["title"], problem["detail"]]
    assert refused(browser.log()) == []


@browsed
def test_a_conversation_without_a_model_is_shown(browser: Browser, keyed: Served):
    """For a conversation without a model, the page shows the window for a usual one, says so, and takes another."""
    with httpx.Client(base_url=keyed.url, headers={"Authorization": "Bearer k1"}) as client:
        entry = {"message": {"role": "user", "content": "hello"}}
        client.post("/conversations/modelless/messages", json={"messages": [entry]}).raise_for_status()
    browser.open(f"{keyed.url}/dashboard#conversation?id=modelless")
    browser.wait(
        "document.querySelector('#seen')?.innerText.includes('names no model: this is its window for gpt-4o-mini')"
    )
    assert browser.run("return document.querySelector('.problem')") is None
    assert browser.text("#seen h2").startswith("gpt-4o-mini · ")
    assert browser.run(STRIP) == [[1, True]]
    assert "model=" not in browser.run("return location.hash")
    browser.type("#c-model", "gpt-4o")
    browser.click("form.controls button")
    browser.wait("document.querySelector('#seen h2')?.innerText.startsWith('gpt-4o · ')")
    assert "names no model" not in browser.text("#seen")
    assert refused(browser.log()) == []


@browsed
def test_the_message_panel_has_id_status_and_metadata(browser: Browser, keyed: Served):
    """The panel of a message shows the entry's own id, its status and its metadata beside its text."""
    with httpx.Client(base_url=keyed.url, headers={"Authorization": "Bearer k1"}) as client:
        reply = {"id": "q-1-reply", "role": "assistant", "content": "Yes, in", "status": "interrupted"}
        entries = [{"id": "q-1", "role": "user", "content": "Is there?"}, {**reply, "metadata": {"rating": "good"}}]
        client.post("/conversations/stopped/messages", json={"messages": entries}).raise_for_status()
    open_conversation(browser, keyed, "&model=gpt-4o-mini", "stopped")
    browser.click("#strip button[data-seq='2']")
    browser.wait("document.querySelector('#detail h2')?.innerText === 'Message 2'")
    names = "[...document.querySelectorAll('#detail dt')].map((e) => [e.innerText, e.nextElementSibling.innerText])"
    shown = dict(browser.run(f"return {names}"))
    assert {"id": "q-1-reply", "status": "interrupted", "metadata": '{"rating":"good"}'}.items() <= shown.items()


@browsed
@pytest.mark.parametrize("width", [390, 1280])
def test_the_time_ranges_are_on_one_line(browser: Browser, keyed: Served, width: int):
    """The buttons of the time ranges and their names are on one line, on a phone and beside the model on a desktop."""
    browser.size(width, 900)
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    places = "[...document.querySelectorAll('#ranges label')].map((e) => e.getBoundingClientRect())"
    tops = browser.run(f"return {places}.map((each) => [each.top, each.height < 45, each.right <= innerWidth])")
    assert len({top for top, _, _ in tops}) == 1
    assert all(low and seen for _, low, seen in tops)
    bottom = "document.querySelector('{}').getBoundingClientRect().bottom"
    if width > 1000:
        assert browser.run(f"return {bottom.format('#ranges')} === {bottom.format('#model')}")


@browsed
def test_it_asks_for_a_key(browser: Browser, keyed: Served):
    """The page asks for a key until the right one is typed, and keeps it in the tab's session storage.

    A conversation belongs to a tenant, so its view asks for an API key.
    """
    browser.open(f"{keyed.url}/dashboard")
    browser.run("sessionStorage.clear()")
    browser.open("about:blank")
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#ask').open")
    assert browser.text("#verdict h1") == "A key is needed."
    browser.type("#ask-key", "wrong" + ENTER)
    browser.wait(
        "document.querySelector('#ask').open && document.querySelector('#ask').innerText.includes('opens no figures')"
    )
    browser.type("#ask-key", "m1" + ENTER)
    browser.wait("document.querySelector('#cards table')")
    assert browser.run("return document.querySelector('#ask').open") is False
    browser.open(f"{keyed.url}/dashboard#conversation?id=visitor-1")
    browser.wait("document.querySelector('#ask').open && document.querySelector('#ask').innerText.includes('API key')")
    browser.type("#ask-key", "k1" + ENTER)
    browser.wait(DECODED)
    assert browser.run("return document.querySelector('#ask').open") is False
    kept = (
        "return [sessionStorage.getItem('sash.metrics-key'), sessionStorage.getItem('sash.key'), localStorage.length]"
    )
    assert browser.run(kept) == ["m1", "k1", 0]
    assert refused(browser.log()) == []


@browsed
def test_a_key_that_was_replaced_meanwhile_is_not_asked_for(browser: Browser, keyed: Served):
    """A refusal that comes late, of the key before, does not ask for a key again."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("shown.stats")
    is_asked = """
        const kept = sessionStorage.getItem("sash.metrics-key");
        sessionStorage.setItem("sash.metrics-key", "older");
        const late = api.get("stats").catch((error) => error.problem.status);
        sessionStorage.setItem("sash.metrics-key", kept);
        return late.then((status) => [status, document.querySelector("#ask").open]);
    """
    assert browser.run(is_asked) == [401, False]
    assert refused(browser.log()) == []


@browsed
def test_one_window_in_twenty_is_said_of_twenty(browser: Browser, keyed: Served):
    """The first window of a worker is slow, and no finding: one in twenty is said of no fewer than twenty."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("shown.stats")
    said = """
        const range = structuredClone(shown.stats.quarter);
        range.all.milliseconds.p95 = 148;
        range.all.windows = arguments[0];
        return concerns(range).some(([, line]) => line.startsWith("Windows are slow: one in twenty takes over 148 ms"));
    """
    assert [browser.run(said, windows) for windows in (1, 19, 20)] == [False, False, True]


@browsed
def test_silence_is_said_first(one_browser: Browser, tmp_path: Path):
    """If the service stops answering, the verdict says so and says when the figures are from."""
    served = Served(tmp_path / "data")
    served.start()
    feed(served.url, "visitor-1", 1)
    opened = time.time()
    one_browser.open(f"{served.url}/dashboard")
    one_browser.wait("document.querySelector('#verdict').innerText.includes('in the last 15 minutes')")
    assert served.process is not None
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    killed = time.time()
    one_browser.wait("document.querySelector('#verdict.bad h1')?.innerText === 'Sash does not answer.'")
    times = [time.strftime("%H:%M:%S", time.localtime(at)) for at in range(int(opened), int(killed) + 1)]
    assert one_browser.text("#verdict p") in [f"The figures below are from {at}." for at in times]
    one_browser.run("document.querySelector('#ranges input[value=day]').click()")
    assert one_browser.text("#verdict h1") == "Sash does not answer."
    one_browser.open(f"{served.url}/dashboard#conversation?id=visitor-1")
    one_browser.wait("document.querySelector('.problem')?.innerText.includes('Sash does not answer')")
    one_browser.open("about:blank")
    one_browser.log()


@browsed
def test_what_limits_left_out_is_shown(one_browser: Browser, tmp_path: Path):
    """Pictures that were sent as lines, their bytes, windows that a limit ended, and reasoning that a provider dropped."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(100, 100, 300)}"}}
    dropped = [{"type": "thinking_dropped", "reason": f"{cause}_binding_mismatch"} for cause in ("prefix", "model")]
    with serving_alone(tmp_path) as served, httpx.Client(base_url=served.url) as client:
        album = {"messages": [{"role": "user", "content": [picture] * 51}, {"role": "user", "content": [picture] * 52}]}
        window = client.post("/conversations/album/messages?model=claude-haiku-4-5", json=album).json()["window"]
        assert (window["stop_reason"], window["dropped"]["images"]) == ("images", 3)
        usage = {"model": "claude-haiku-4-5", "prompt_tokens": 9, "window_tokens": 9, "input_transformations": dropped}
        assert client.post("/conversations/album/usage", json=usage).status_code == 200
        one_browser.open(f"{served.url}/dashboard")
        try:
            one_browser.wait("document.querySelector('section[aria-label^=\"Reasoning that\"]')")
            cards = one_browser.run(CARDS)
        finally:
            one_browser.open("about:blank")
            one_browser.log()
    assert cards["How full windows are"]["pairs"]["whole, without all pictures"] == "1"
    left_out = cards["What was left out"]["pairs"]
    assert left_out["pictures and files sent as lines"] == "3"
    assert left_out["their bytes"].endswith("B")
    assert float(left_out["their bytes"].split()[0]) > 0
    reasoning = cards["Reasoning that providers dropped"]
    assert reasoning["lead"] == "2 blocks"
    assert reasoning["pairs"] == {"something before it has changed": "1", "another model": "1"}


@browsed
def test_a_store_that_is_down_is_said_first(one_browser: Browser, tmp_path: Path):
    """The verdict names a store that is down, and where to look.

    A page that is opened then shows the figures of the answering worker alone.
    """
    store = Server(binaries()["valkey-9"] or _bundled_binary(), tmp_path / "store").start()
    served = Served(tmp_path / "data", SASH_REDIS_URL=store.url)
    try:
        served.start()
        feed(served.url, "visitor-1", 1)
        one_browser.open(f"{served.url}/dashboard")
        one_browser.wait("document.querySelector('#verdict h1').innerText === 'All is well.'")
        store.kill()
        one_browser.wait("document.querySelector('#verdict.bad h1')?.innerText === 'The store is down.'")
        assert "SASH_REDIS_URL" in one_browser.text("#verdict")
        httpx.get(f"{served.url}/conversations/visitor-1", timeout=10)
        one_browser.open("about:blank")
        one_browser.open(f"{served.url}/dashboard")
        one_browser.wait("document.querySelector('#cards')?.innerText.includes('of this worker alone')")
        agree(lambda: worker_shown(one_browser), lambda: worker_wanted(asked(served, "status")))
        refused = one_browser.text("section[aria-label^='Refused lately']")
        assert "The store cannot be used now" in refused
        assert "visitor-1" in refused
        store.start()
        one_browser.wait("document.querySelector('#verdict h1').innerText !== 'The store is down.'")
    finally:
        one_browser.open("about:blank")
        one_browser.log()
        served.stop()
        store.kill()


def worker_shown(browser: Browser) -> tuple[list[str], dict[str, str]]:
    """Return the headings of the requests that the page shows, and the figures below the first."""
    cards = {name: card for name, card in browser.run(CARDS).items() if "a minute" in name}
    (pairs,) = [card["pairs"] for card in cards.values()]
    return list(cards), {name: pairs[name] for name in ("in the last fifteen minutes", "failed")}


def worker_wanted(status: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    minutes = status["worker"]["minutes"]
    figures = {"in the last fifteen minutes": "requests", "failed": "server_errors"}
    return ["Requests a minute, of this worker alone: the deployment\u2019s figures cannot be read"], {
        name: f"{sum(minute[which] for minute in minutes):,}" for name, which in figures.items()
    }


@browsed
def test_refusals_are_folded_on_a_phone(browser: Browser, keyed: Served):
    """Thirty refused requests are one closed line on a phone, equal ones are one row, and an opened list stays open."""
    for number in range(30):
        headers = {"Authorization": "Bearer k1", "X-Request-ID": f"r-{number}"}
        path = f"/conversations/visitor-1/window?model=gpt-4o-mini&max_tokens={number % 3 + 1}"
        assert httpx.get(keyed.url + path, headers=headers).status_code == 422
    browser.size(390, 844)
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#refusals summary')?.innerText.match(/\\d\\d requests/)")
    card = "document.querySelector('#refusals').closest('section')"
    assert browser.run(f"return {card}.offsetHeight") < 150
    browser.click("#refusals summary")
    rows = "[...document.querySelectorAll('#refusals tbody tr')].filter(e => e.innerText.includes('not fit')).length"
    browser.wait(f"{rows} === 1")
    time.sleep(1.5)  # the page reads the status again meanwhile
    assert browser.run("return document.querySelector('#refusals').open")


@browsed
def test_a_refusal_leads_to_its_conversation(browser: Browser, keyed: Served):
    """A refused request is listed with its request id, its cause and a link to its conversation."""
    headers = {"Authorization": "Bearer k1", "X-Request-ID": "r-dashboard"}
    path = "/conversations/visitor-1/window?model=gpt-4o-mini&max_tokens=2"
    assert httpx.get(keyed.url + path, headers=headers).status_code == 422
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards')?.innerText.includes('r-dashboard')")
    rows = "[...document.querySelectorAll(\"section[aria-label^='Refused lately'] tr\")]"
    row = f"{rows}.find(e => e.innerText.includes('r-dashboard'))"
    assert "does not fit" in browser.run(f"return {row}.innerText")
    assert browser.run(f"return {row}.querySelector('a[href*=conversation]').hash") == "#conversation?id=visitor-1"


@browsed
def test_the_request_itself_can_be_copied(browser: Browser, keyed: Served):
    """The page shows the window's whole request as JSON, and the copy button copies it or says that it may not."""
    open_conversation(browser, keyed)
    browser.click("#request summary")
    text = browser.run("return document.querySelector('#request pre').textContent")
    window = asked(keyed, "conversations/visitor-1/window?model=gpt-4o-mini", "k1")
    assert json.loads(text) == window["request"]
    assert browser.text("#request pre") == text
    said = "document.querySelector('#request [role=status]').innerText"
    for name, setting, told in (
        ("clipboard-write", "denied", "The browser does not let it be copied here: select it below."),
        ("clipboard-write", "granted", "Copied."),
    ):
        browser.devtools("Browser.setPermission", permission={"name": name}, setting=setting)
        browser.click("#copy")
        browser.wait(f"{said} === '{told}'")
    browser.devtools("Browser.setPermission", permission={"name": "clipboard-read"}, setting="granted")
    assert browser.run("return navigator.clipboard.readText()") == text
    browser.devtools("Browser.resetPermissions")


@browsed
def test_small_shares_are_not_rounded_up(browser: Browser, keyed: Served):
    """A window of a few of over 100,000 tokens is shown as under 0.1 % of its budget, with both numbers."""
    headers = {"Authorization": "Bearer k1"}
    body = {"messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert httpx.post(f"{keyed.url}/conversations/tiny/messages", json=body, headers=headers).status_code == 201
    open_conversation(browser, keyed, "&model=gpt-4o-mini", "tiny")
    window = asked(keyed, "conversations/tiny/window?model=gpt-4o-mini", "k1")
    assert 0 < window["tokens"]["total"] < window["budget"] / 1000
    line = f"{window['tokens']['total']} of {window['budget']:,} tokens under 0.1 % full. It holds the whole history."
    assert " ".join(browser.text("#seen .lead").split()) == line


@browsed
def test_a_phone_shows_the_glance_first_and_every_column(browser: Browser, keyed: Served):
    """On a narrow screen the figures are above the chart, and each table cell names its column and is fully visible."""
    browser.size(390, 900)
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    top = "document.querySelector(\"section[aria-label='{}']\").getBoundingClientRect().top"
    glance, drawing = top.format("At a glance"), top.format("Windows a minute, all models")
    assert browser.run(f"return {glance} < {drawing}")
    cells = browser.run("""return [...document.querySelectorAll('#cards table')].flatMap((table) => {
        const heads = [...table.querySelectorAll('thead th')].map((e) => e.textContent);
        return [...table.querySelectorAll('tbody tr')].flatMap((row) => [...row.cells].slice(1).map((e, at) => {
            const { left, right, height } = e.getBoundingClientRect();
            const seen = left >= 0 && right <= innerWidth && e.scrollWidth <= e.clientWidth && height > 0;
            return [heads[at + 1], JSON.parse(getComputedStyle(e, '::before').content), seen];
        }));
    })""")
    assert cells
    assert {(head, head, True) for head, _, _ in cells} == {tuple(cell) for cell in cells}


@browsed
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
@pytest.mark.parametrize("view", ["deployment", "status", "conversations", "conversation?id=visitor-1&max_tokens=400"])
def test_nobody_is_shut_out(browser: Browser, keyed: Served, view: str, width: int, scheme: str):
    """In both colour schemes and widths, axe finds no accessibility violation and the page does not scroll sideways."""
    spec = find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core-python, which carries axe, is not installed")
    browser.prefer(scheme)
    browser.size(width, 1000)
    browser.open(f"{keyed.url}/dashboard#{view}")
    browser.wait("document.querySelector('#cards table, #list table, #strip button')")
    assert browser.run("return innerWidth") == width
    assert browser.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    browser.run(Path(spec.origin).with_name("axe.min.js").read_text("utf-8"))
    found = browser.run("return axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    told = [f"{each['id']}: {node['html'][:120]} {node['failureSummary']}" for each in found for node in each["nodes"]]
    assert told == []
