"""The page at /docs in a real Chromium: every operation is there, and can be sent with a key."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from api.conformity import CONTRACT
from clients.browser import CHROMIUM, DRIVER, Browser, chromium
from conftest import Served

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
SENT = "document.querySelector('#{0} [aria-live] strong:not(.quiet)')?.textContent"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that asks for keys."""
    served = Served(tmp_path_factory.mktemp("docs") / "data", SASH_API_KEYS="acme:k1")
    served.start()
    yield served
    served.stop()


@pytest.fixture(scope="module")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(one_browser: Browser, keyed: Served) -> Browser:
    """The page as somebody finds it who has been given a key."""
    one_browser.open(f"{keyed.url}/docs")
    one_browser.run("sessionStorage.clear()")
    one_browser.open(f"{keyed.url}/docs")
    one_browser.wait("document.querySelector('main section details')")
    one_browser.log()
    return one_browser


def send(page: Browser, operation: str) -> str:
    """Open an operation, send it as it stands, and tell the line that begins its answer."""
    page.run("document.getElementById(arguments[0]).open = true", operation)
    page.click(f"#{operation} form button")
    return str(page.wait(SENT.format(operation)))


def test_every_operation_is_there(page: Browser) -> None:
    """One form for each operation of the document, and a quiet console."""
    ids = page.run("return [...document.querySelectorAll('main > section > details')].map((each) => each.id)")
    assert sorted(ids) == sorted(each["operationId"] for item in CONTRACT["paths"].values() for each in item.values())
    assert page.log() == []


def test_the_examples_can_be_sent_with_a_key(page: Browser) -> None:
    """With the key that was typed, the forms as they stand create, append and read a window."""
    page.type("#key", "k1")
    assert send(page, "createConversation").startswith("201")
    assert send(page, "appendMessages").startswith("201")
    assert send(page, "getWindow").startswith("200")
    assert '"stop_reason": "complete"' in page.text("#getWindow [aria-live]")
    assert send(page, "deleteConversation").startswith("204")
    assert page.log() == []


def test_without_a_key_the_answer_says_so(page: Browser) -> None:
    """A refusal is shown as it came."""
    assert send(page, "listModels").startswith("401")
    assert "/problems/unauthorized" in page.text("#listModels [aria-live]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(page: Browser, scheme: str) -> None:
    """axe finds nothing: names, roles, order and contrast, with a form open, light and dark."""
    spec = find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core-python, which carries axe, is not installed")
    page.prefer(scheme)
    assert send(page, "getModel").startswith("401")
    page.run(Path(spec.origin).with_name("axe.min.js").read_text("utf-8"))
    found = page.run("return axe.run(document, {resultTypes: ['violations']}).then(r => r.violations)")
    assert [(each["id"], [node["html"][:80] for node in each["nodes"]]) for each in found] == []
