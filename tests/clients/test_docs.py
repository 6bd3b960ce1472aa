"""Tests the page at /docs in a real Chromium: every operation is listed, and can be sent with a key."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import Served, serving_alone
from rigs.browser import CHROMIUM, DRIVER, Browser
from rigs.conformity import CONTRACT

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
SENT = "document.querySelector('#{0} [aria-live] strong:not(.quiet)')?.textContent"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that requires API keys."""
    with serving_alone(tmp_path_factory.mktemp("docs"), SASH_API_KEYS="acme:k1") as served:
        yield served


@pytest.fixture
def page(one_browser: Browser, keyed: Served) -> Browser:
    """The page as a new user opens it, without a stored key."""
    one_browser.store(f"{keyed.url}/docs", "sessionStorage.clear()")
    one_browser.open(f"{keyed.url}/docs")
    one_browser.wait("document.querySelector('main section details')")
    one_browser.log()
    return one_browser


def send(page: Browser, operation: str) -> str:
    """Open an operation, send its unchanged form, and return the first line of the answer."""
    page.run("document.getElementById(arguments[0]).open = true", operation)
    page.click(f"#{operation} form button")
    return str(page.wait(SENT.format(operation)))


def name(page: Browser, operation: str, conversation: str) -> None:
    """Name a conversation in an operation's form, so that the examples' own stays free for other tests."""
    page.run("document.querySelector(`#${arguments[0]} .fields input`).value = arguments[1]", operation, conversation)


def test_every_operation_is_there(page: Browser) -> None:
    """The page lists each operation of the contract once, and the console has no errors or warnings."""
    ids = page.run("return [...document.querySelectorAll('main > section > details')].map((each) => each.id)")
    assert sorted(ids) == sorted(each["operationId"] for item in CONTRACT["paths"].values() for each in item.values())
    assert page.log() == []


def test_a_phone_needs_no_sideways_scrolling(page: Browser) -> None:
    """Long paths break, so that the page is as wide as a phone's screen, also with an operation open."""
    page.size(360, 800)
    try:
        page.run("document.getElementById('appendMessages').open = true")
        assert page.run("return document.documentElement.scrollWidth") <= 360
    finally:
        page.size(1300, 1000)


def test_the_examples_can_be_sent_with_a_key(page: Browser) -> None:
    """With a typed key, the unchanged forms create a conversation, append, read a window and erase the conversation."""
    page.type("#key", "k1")
    assert send(page, "createConversation").startswith("201")
    assert send(page, "appendMessages").startswith("201")
    assert send(page, "getWindow").startswith("200")
    assert '"stop_reason": "complete"' in page.text("#getWindow [aria-live]")
    assert send(page, "deleteConversation").startswith("204")
    assert page.log() == []


def test_the_body_stands_before_what_is_optional(page: Browser) -> None:
    """An append's body with its example is near the top; its window's parameters are folded behind it, but for the model."""
    page.type("#key", "k1")
    page.run("document.getElementById('appendMessages').open = true")
    top = "document.querySelector('#appendMessages {}').getBoundingClientRect().top"
    head, body = (page.run(f"return {top.format(each)}") for each in ("summary", "textarea"))
    assert 0 < body - head < 300
    shown = page.run(
        "return [...document.querySelectorAll('#appendMessages form > .fields label')].map(e => e.innerText)"
    )
    assert shown == ["conversation_id *", "model"]
    assert page.text("#appendMessages .optional summary").endswith(" optional parameters")

    name(page, "appendMessages", "c-body")
    assert send(page, "appendMessages").startswith("20")
    answer = page.text("#appendMessages [aria-live]")
    assert '"window": {' in answer
    assert '"model": "gpt-4o-mini"' in answer


def test_an_optional_parameter_is_sent_from_its_fold(page: Browser) -> None:
    """A parameter that is typed into the folded part goes into the request."""
    page.type("#key", "k1")
    for operation in ("appendMessages", "getWindow"):
        name(page, operation, "c-fold")
    assert send(page, "appendMessages").startswith("20")
    page.run("document.getElementById('getWindow').open = true")
    page.click("#getWindow .optional summary")
    place = "[...document.querySelectorAll('#getWindow .optional label')].find(e => e.innerText === 'limit')"
    page.type(f"#{page.run(f'return {place}.htmlFor')}", "1")
    page.click("#getWindow form button")
    page.wait(SENT.format("getWindow"))
    assert "limit=1" in page.text("#getWindow [aria-live]")


def test_without_a_key_the_answer_says_so(page: Browser) -> None:
    """Without a key, the page shows the service's 401 problem."""
    assert send(page, "listModels").startswith("401")
    assert "/problems/unauthorized" in page.text("#listModels [aria-live]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(page: Browser, scheme: str) -> None:
    """axe finds no accessibility violation with a form open, in light and in dark colours."""
    spec = find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core-python, which carries axe, is not installed")
    page.prefer(scheme)
    assert send(page, "getModel").startswith("401")
    page.run(Path(spec.origin).with_name("axe.min.js").read_text("utf-8"))
    found = page.run("return axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    assert [(each["id"], [node["html"][:80] for node in each["nodes"]]) for each in found] == []
