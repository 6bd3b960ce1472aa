"""Tests the dashboard in a real Chromium: figures, live updates, keyboard use and accessibility."""

import json
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients.browser import CHROMIUM, DRIVER, Browser, chromium
from clients.conference import SYSTEM, turns
from conftest import Served
from store.servers import Server, binaries

from service.operations.dashboard import dashboard
from service.store.embedded import _bundled_binary

browsed = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
ARROW_LEFT, ARROW_RIGHT, HOME, TAB, SPACE, ENTER = "\ue012", "\ue014", "\ue011", "\ue004", " ", "\ue007"
DECODED = "document.querySelectorAll('#strip button').length"


def test_the_page_asks_nobody_else():
    """The page contains no address of another host, and its Content-Security-Policy allows no other source."""
    page = dashboard()
    text = page.body.decode().replace("http://www.w3.org/2000/svg", "")  # the namespace of SVG, which is not fetched
    assert "http:" not in text
    assert "https:" not in text
    assert "innerHTML" not in text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in page.headers["Content-Security-Policy"]


async def test_the_page_needs_no_key(client: httpx.AsyncClient):
    """The dashboard's page is served without a key, because it contains no data and asks for a key itself."""
    answer = await client.get("/dashboard")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


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


@pytest.fixture(scope="module")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.size(1280, 1000)
        yield browser


@pytest.fixture
def browser(one_browser: Browser, keyed: Served) -> Iterator[Browser]:
    """A browser with both keys stored; the test fails if the console logs an error or a warning."""
    one_browser.prefer("light")
    one_browser.open(f"{keyed.url}/dashboard")
    one_browser.run("sessionStorage.setItem('sash.key', 'k1'); sessionStorage.setItem('sash.metrics-key', 'm1')")
    one_browser.open("about:blank")
    one_browser.log()
    yield one_browser
    assert one_browser.log() == []


def open_conversation(browser: Browser, keyed: Served, query: str = "", conversation: str = "visitor-1") -> None:
    browser.open(f"{keyed.url}/dashboard#conversation?id={conversation}{query}")
    browser.wait(DECODED)


@browsed
def test_the_figures_are_there(browser: Browser, keyed: Served):
    """The dashboard shows a verdict, rates, fullness, losses, savings, predictions, models, tenants and the store."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    assert "windows in the last 15 minutes" in browser.text("#verdict")
    for title in ("Windows a minute", "How full windows are", "What was left out", "What was saved", "By model"):
        assert title in browser.text("#cards")
    assert "gpt-4o-mini" in browser.text("section[aria-label='By model']")
    assert "Window tokens" in browser.text("section[aria-label='By tenant']")
    assert "keys" in browser.text("section[aria-label='The store']")
    browser.wait("document.querySelector('#clock').innerText.includes('version')")
    assert "100" in browser.text("section[aria-label='Predicted against billed']")


@browsed
def test_the_figures_follow(browser: Browser, keyed: Served):
    """A new window appears in the figures without a reload."""
    browser.open(f"{keyed.url}/dashboard")
    rows = "[...document.querySelectorAll('#cards tbody th')].map(e => e.innerText)"
    browser.wait(f"{rows}.length")
    body = {"model": "gpt-5-nano", "messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert httpx.post(f"{keyed.url}/window", json=body, headers={"Authorization": "Bearer k1"}).status_code == 200
    browser.wait(f"{rows}.includes('gpt-5-nano')")


@browsed
def test_what_failed_is_said_first(browser: Browser, keyed: Served):
    """The verdict reports a window that could not be made."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    headers = {"Authorization": "Bearer k1"}
    assert httpx.get(f"{keyed.url}/conversations/visitor-1/window?max_tokens=5", headers=headers).status_code == 422
    browser.wait("document.querySelector('#verdict').innerText.includes('could not be made')")
    assert "to look at" in browser.text("#verdict h1")


@browsed
def test_ranges_and_models_by_keyboard(browser: Browser, keyed: Served):
    """Arrow keys change the time range, and typing a letter chooses a model."""
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    browser.run("document.querySelector('#ranges input:checked').focus()")
    browser.press(ARROW_RIGHT, ARROW_RIGHT)
    browser.wait("document.querySelector('#cards').innerText.includes('by the hour')")
    browser.press(ARROW_RIGHT)
    browser.wait("document.querySelector('#cards').innerText.includes('since ')")
    browser.run("document.querySelector('#model').focus()")
    browser.press("g")
    browser.wait("document.querySelector('#model').value.startsWith('gpt')")


@browsed
def test_the_window_of_a_conversation(browser: Browser, keyed: Served):
    """The strip shows each message as sent or left out, as ``explain`` does, and marks the pinned message and the cut."""
    open_conversation(browser, keyed, "&max_tokens=400")
    url = f"{keyed.url}/conversations/visitor-1/window?max_tokens=400&explain=true"
    window = httpx.get(url, headers={"Authorization": "Bearer k1"}).json()
    shown = browser.run(
        "return [...document.querySelectorAll('#strip button')].map(b => [+b.dataset.seq, !b.classList.contains('out')])"
    )
    assert shown == [[line["seq"], line["kept"]] for line in window["explain"]]
    assert browser.run("return document.querySelector('#strip .pinned').dataset.seq") == "1"
    assert browser.run("return document.querySelectorAll('#strip .cut').length") == 1
    assert f"{window['tokens']['total']} of 400 tokens" in browser.text("#seen")


@browsed
def test_recalled_messages_are_lit_up_and_searched(browser: Browser, keyed: Served):
    """The strip marks recalled messages, and a result of the search can be chosen."""
    headers = {"Authorization": "Bearer k1"}
    said = [{"role": "user", "content": "my dog is called Rex"}, *[{"role": "user", "content": "and then?"}] * 60]
    with httpx.Client(base_url=keyed.url, headers=headers) as client:
        client.post("/conversations", json={"id": "rex-1", "model": "gpt-4o-mini", "recall": "lexical"})
        for message in said:
            client.post("/conversations/rex-1/messages", json={"messages": [{"message": message}]})
    open_conversation(browser, keyed, "&max_tokens=150&recall_max_tokens=50&recall_query=dogs", "rex-1")
    browser.wait("document.querySelector('#strip .recalled')")
    assert browser.run("return document.querySelector('#strip .recalled').dataset.seq") == "1"
    assert "my dog is called Rex" in browser.text(".hits")
    browser.run("document.querySelector('[data-hit]').click()")
    browser.wait("document.querySelector('#detail').innerText.includes('bears on the question')")


@browsed
def test_controls_turn_the_window(browser: Browser, keyed: Served):
    """Changes of the budget, the model and the stable cut change the view, and the address keeps ``stable=true``."""
    open_conversation(browser, keyed)
    out = "document.querySelectorAll('#strip .out').length"
    assert browser.run(f"return {out}") == 0
    browser.run("document.querySelector('#c-slide').focus()")
    browser.press(HOME, *[ARROW_RIGHT] * 20)
    browser.wait(f"{out} > 0")
    browser.type("#c-model", "gpt-4" + ENTER)
    browser.wait("document.querySelector('#seen').innerText.includes('gpt-4 ')")
    browser.run("document.querySelector('#c-stable').focus()")
    browser.press(SPACE)
    browser.wait("location.hash.includes('stable=true')")


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
    assert set(of_one) - told_of_all == {"Windows a minute", "Building one", "Tokens a window", "Budget used"}
    assert "95 % within" in of_one["Building one"]
    assert of_one["Windows a minute"] != all_models["Windows a minute"]


@browsed
def test_messages_by_keyboard(browser: Browser, keyed: Served):
    """Arrow keys move along the strip, which has a single tab stop, and the chosen message's text is shown below."""
    open_conversation(browser, keyed)
    browser.run("document.querySelector('#strip [tabindex=\"0\"]').focus()")
    browser.press(HOME)
    browser.wait("document.querySelector('#detail').innerText.includes('wheelchair')")
    assert "always: pinned" in browser.text("#detail")
    browser.press(ARROW_RIGHT, ARROW_RIGHT, ARROW_LEFT)
    browser.wait("document.querySelector('#detail').innerText.includes('ground floor')")
    assert browser.run("return document.querySelectorAll('#strip [tabindex=\"0\"]').length") == 1


@browsed
def test_a_conversation_flows_in(browser: Browser, keyed: Served):
    """A new message appears without a reload, and its HTML is shown as text."""
    open_conversation(browser, keyed)
    before = browser.run(f"return {DECODED}")
    body = {"messages": [{"message": {"role": "user", "content": "<img src=x onerror=alert(1)> Anything else?"}}]}
    headers = {"Authorization": "Bearer k1"}
    assert httpx.post(f"{keyed.url}/conversations/visitor-1/messages", json=body, headers=headers).status_code == 201
    browser.wait(f"{DECODED} === {before + 1}")
    browser.run("document.querySelector('#strip li:last-child button').click()")
    browser.wait("document.querySelector('#detail').innerText.includes('<img src=x onerror=alert(1)>')")


@browsed
def test_an_unchanged_window_is_not_sent_again(browser: Browser, keyed: Served):
    """While the window does not change, each of the page's periodic requests is answered with 304."""
    open_conversation(browser, keyed)
    browser.open(f"{keyed.url}/dashboard#conversation?id=visitor-1&model=gpt-4o-mini")
    browser.wait(DECODED)
    browser.run("""const ask = fetch; window.said = [];
        window.fetch = async (...all) => { const answer = await ask(...all); said.push(answer.status); return answer; }""")
    browser.wait("said.includes(304)")
    assert browser.run("return said.filter((status) => status !== 304).length") == 0


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
    assert browser.text("#heard").endswith("It holds the whole history.")


def refused(log: list[str]) -> list[str]:
    """Return the console's lines without those of expected 4xx answers, which the browser logs."""
    return [line for line in log if "the server responded with a status of 4" not in line]


@browsed
def test_what_cannot_be_shown_is_explained(browser: Browser, keyed: Served):
    """For a budget that is too small and for an unknown conversation, the page shows the problem's text."""
    open_conversation(browser, keyed)
    browser.type("#c-max", "5")
    browser.wait("document.querySelector('.problem')?.innerText.includes('the budget is 5')")
    browser.open(f"{keyed.url}/dashboard#conversation?id=nobody")
    browser.wait("document.querySelector('.problem')?.innerText.includes('no such conversation')")
    assert refused(browser.log()) == []


@browsed
def test_it_asks_for_a_model(browser: Browser, keyed: Served):
    """For a conversation without a model, the page focuses the model field, and shows the window when one is typed."""
    with httpx.Client(base_url=keyed.url, headers={"Authorization": "Bearer k1"}) as client:
        entry = {"message": {"role": "user", "content": "hello"}}
        client.post("/conversations/modelless/messages", json={"messages": [entry]}).raise_for_status()
    browser.open(f"{keyed.url}/dashboard#conversation?id=modelless")
    browser.wait("document.querySelector('#seen .notice')?.innerText.includes('names no model')")
    assert browser.run("return document.querySelector('.problem')") is None
    assert browser.run("return document.activeElement.id") == "c-model"
    browser.type("#c-model", "gpt-4o-mini")
    browser.click("form.controls button")
    browser.wait("document.querySelector('#strip button')")
    assert refused(browser.log()) == []


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
    browser.open(f"{keyed.url}/dashboard#conversation?id=visitor-1")
    browser.wait("document.querySelector('#ask').open && document.querySelector('#ask').innerText.includes('API key')")
    browser.type("#ask-key", "k1" + ENTER)
    browser.wait(DECODED)
    kept = (
        "return [sessionStorage.getItem('sash.metrics-key'), sessionStorage.getItem('sash.key'), localStorage.length]"
    )
    assert browser.run(kept) == ["m1", "k1", 0]
    assert refused(browser.log()) == []


@browsed
def test_silence_is_said_first(one_browser: Browser, tmp_path: Path):
    """If the service stops answering, the verdict says so and says when the figures are from."""
    served = Served(tmp_path / "data")
    served.start()
    feed(served.url, "visitor-1", 1)
    one_browser.open(f"{served.url}/dashboard")
    one_browser.wait("document.querySelector('#verdict').innerText.includes('in the last 15 minutes')")
    assert served.process is not None
    served.process.send_signal(signal.SIGKILL)
    served.process.wait()
    one_browser.wait("document.querySelector('#verdict.bad h1')?.innerText === 'Sash does not answer.'")
    assert "figures below are from" in one_browser.text("#verdict")
    one_browser.run("document.querySelector('#ranges input[value=day]').click()")
    assert one_browser.text("#verdict h1") == "Sash does not answer."
    one_browser.open(f"{served.url}/dashboard#conversation?id=visitor-1")
    one_browser.wait("document.querySelector('.problem')?.innerText.includes('Sash does not answer')")
    one_browser.open("about:blank")
    one_browser.log()


@browsed
def test_a_store_that_is_down_is_said_first(one_browser: Browser, tmp_path: Path):
    """The verdict names a store that is down within two seconds, and where to look.

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
        killed = time.monotonic()
        one_browser.wait("document.querySelector('#verdict.bad h1')?.innerText === 'The store is down.'")
        assert time.monotonic() - killed < 2
        assert "SASH_REDIS_URL" in one_browser.text("#verdict")
        httpx.get(f"{served.url}/conversations/visitor-1", timeout=10)
        one_browser.open("about:blank")
        one_browser.open(f"{served.url}/dashboard")
        one_browser.wait("document.querySelector('#cards')?.innerText.includes('of this worker alone')")
        refused = one_browser.text("section[aria-label^='Refused lately']")
        assert "The store does not answer" in refused
        assert "visitor-1" in refused
        store.start()
        one_browser.wait("document.querySelector('#verdict h1').innerText !== 'The store is down.'")
    finally:
        one_browser.open("about:blank")
        one_browser.log()
        served.stop()
        store.kill()


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
    """The page shows the window's request as JSON, and the copy button reports a result."""
    open_conversation(browser, keyed)
    browser.run("document.querySelector('#request summary').focus(); document.activeElement.click()")
    text = browser.run("return document.querySelector('#request pre').textContent")
    url = f"{keyed.url}/conversations/visitor-1/window?model=gpt-4o-mini"
    window = httpx.get(url, headers={"Authorization": "Bearer k1"}).json()
    assert json.loads(text)["messages"][-1] == window["request"]["messages"][-1]
    browser.run("document.querySelector('#copy').click()")
    browser.wait("document.querySelector('#request [role=status]').innerText !== ''")


@browsed
def test_small_shares_are_not_rounded_up(browser: Browser, keyed: Served):
    """A window of 8 of 126,976 tokens is shown as under 0.1 % of its budget."""
    headers = {"Authorization": "Bearer k1"}
    body = {"messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert httpx.post(f"{keyed.url}/conversations/tiny/messages", json=body, headers=headers).status_code == 201
    open_conversation(browser, keyed)
    browser.open(f"{keyed.url}/dashboard#conversation?id=tiny&model=gpt-4o-mini")
    browser.wait("document.querySelector('#seen').innerText.includes('under 0.1')")


@browsed
def test_a_phone_shows_the_glance_first_and_every_column(browser: Browser, keyed: Served):
    """On a narrow screen the figures are above the chart, and each table cell names its column and is fully visible."""
    browser.size(390, 900)
    browser.open(f"{keyed.url}/dashboard")
    browser.wait("document.querySelector('#cards table')")
    top = "document.querySelector(\"section[aria-label='{}']\").getBoundingClientRect().top"
    glance, drawing = top.format("At a glance"), top.format("Windows a minute, all models")
    assert browser.run(f"return {glance} < {drawing}")
    cells = "[...document.querySelectorAll(\"section[aria-label='By model'] td\")]"
    assert browser.run(f"return {cells}.every(e => e.dataset.name && e.getBoundingClientRect().right <= innerWidth)")
    browser.size(1280, 1000)


@browsed
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
@pytest.mark.parametrize("view", ["deployment", "conversation?id=visitor-1&max_tokens=400"])
def test_nobody_is_shut_out(browser: Browser, keyed: Served, view: str, width: int, scheme: str):
    """In both colour schemes and widths, axe finds no accessibility violation and the page does not scroll sideways."""
    spec = find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core-python, which carries axe, is not installed")
    browser.prefer(scheme)
    browser.size(width, 1000)
    browser.open(f"{keyed.url}/dashboard#{view}")
    browser.wait("document.querySelector('#cards table, #strip button')")
    browser.run(Path(spec.origin).with_name("axe.min.js").read_text("utf-8"))
    found = browser.run("return axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    browser.size(1280, 1000)
    told = [f"{each['id']}: {node['html'][:120]} {node['failureSummary']}" for each in found for node in each["nodes"]]
    assert told == []
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
