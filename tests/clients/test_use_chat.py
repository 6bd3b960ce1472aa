"""The docs' page with ``useChat`` in a real Chromium: each thing that people press, with the AI SDK 6 and 7.

They need npm and a browser: ``python -m pytest -m clients tests/clients/test_use_chat.py``.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients.test_dashboard import browsed
from clients.test_generated import needs, run
from conftest import Served
from readme_blocks import block, rows, section
from readme_provider import Provider, Said, provided
from rigs.browser import Browser, chromium

from sash.api.docs import TYPESCRIPT_CLIENT

pytestmark = [pytest.mark.clients, browsed]
HERE = Path(__file__).parent
PAGE, SECTION = "service/docs/frameworks/use-chat.md", "# useChat"
PACKAGES = {
    "6": {"ai": "6.0.326", "@ai-sdk/react": "3.0.328", "@ai-sdk/openai": "3"},
    "7": {"ai": "7.0.173", "@ai-sdk/react": "4.0.177", "@ai-sdk/openai": "4.0.118"},
}
SLOW_SECONDS = 1.3
TEXTS = "[...document.querySelectorAll('p .text')].map((each) => each.textContent)"
STATUS = "document.querySelector('main')?.dataset.status"


class Model:
    """Answers r0, r1 and so on, and knows what it was sent."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def __call__(self, _: str, body: dict[str, Any]) -> Said:
        """The next reply."""
        self.sent.append([str(each["content"]) for each in body["messages"]])
        return Said(f"r{len(self.sent) - 1} has some words")


class Page:
    """A person at the page, with the log behind it."""

    def __init__(self, browser: Browser, url: str, sash: str, name: str, provider: Provider, model: Model) -> None:
        self.browser, self.url, self.sash, self.name = browser, url, sash, name
        self.provider, self.model = provider, model
        self.open()

    def open(self) -> None:
        """Load the page anew."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.url}#{self.name}")
        self.browser.wait(f"{STATUS} !== undefined")

    def say(self, text: str) -> None:
        """Write a text and send it."""
        self.browser.run("arguments[0]", "")
        self.browser.type("input", text)
        self.browser.click("#send")

    def send(self, *texts: str) -> None:
        """Ask questions, each when the last one is answered."""
        for text in texts:
            count = len(self.texts)
            self.say(text)
            self.until(count + 2)

    def edit(self, place: int, text: str) -> None:
        """Ask the question at this place in other words."""
        self.browser.run(f"document.querySelectorAll('.edit')[{place}].click()")
        self.browser.wait("document.querySelector('input').value !== ''")
        self.browser.run("document.querySelector('input').select()")
        self.say(text)

    def until(self, count: int) -> None:
        """Wait until the page has so many messages, and nothing goes on."""
        self.browser.wait(f"{STATUS} === 'ready' && {TEXTS}.length === {count} && {TEXTS}.at(-1).endsWith('words')")
        deadline = time.monotonic() + 20
        while self.log != self.texts and time.monotonic() < deadline:
            time.sleep(0.05)

    @property
    def texts(self) -> list[str]:
        """What the page shows."""
        found: list[str] = self.browser.run(f"return {TEXTS}")
        return found

    @property
    def ways(self) -> list[str]:
        """What its pickers say."""
        script = "return [...document.querySelectorAll('.ways')].map((each) => each.textContent.replace(/[←→]/g, ''))"
        found: list[str] = self.browser.run(script)
        return found

    @property
    def log(self) -> list[str]:
        """What the log has."""
        answer = httpx.get(f"{self.sash}/conversations/{self.name}/messages").json()
        return [each["message"]["content"] for each in answer["messages"]]

    def is_now(self, *texts: str) -> None:
        """Check what the page and the log have, and that the model was sent just that, without its last reply."""
        expected = [f"{text} has some words" if text.startswith("r") else text for text in texts]
        assert self.texts == expected
        assert self.log == expected
        assert self.model.sent[-1] == expected[:-1]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser."""
    with chromium(tmp_path_factory.mktemp("use-chat")) as opened:
        yield opened


@pytest.fixture(scope="session", params=PACKAGES)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page and its server, with one version of the AI SDK."""
    needs("node", "npm")
    folder = tmp_path_factory.mktemp(f"use_chat_{request.param}")
    (folder / "sash.ts").write_bytes(TYPESCRIPT_CLIENT)
    (folder / "server.ts").write_text(block("ts", PAGE, SECTION))
    (folder / "page.tsx").write_text(block("tsx", PAGE, SECTION))
    package = {"private": True, "type": "module", "dependencies": PACKAGES[request.param]}
    (folder / "package.json").write_text(json.dumps(package))
    wanted = [word for word in block("sh", PAGE, SECTION).split() if "@" in word or word == "esbuild"]
    others = [word for word in wanted if word.rpartition("@")[0] not in PACKAGES[request.param]]
    run("npm", "install", *others, "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    if request.param == "7":
        shutil.copy(HERE / "sash_ts" / "tsconfig.json", folder)
        settings = json.loads((folder / "tsconfig.json").read_text())
        settings["compilerOptions"] |= {"jsx": "react-jsx", "lib": ["es2022", "dom", "dom.iterable"]}
        settings["include"] = ["*.ts", "*.tsx"]
        (folder / "tsconfig.json").write_text(json.dumps(settings))
        run("npx", "tsc", cwd=folder)
    run("npx", "esbuild", "page.tsx", "--bundle", "--outfile=page.js", "--jsx=automatic", "--format=esm", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def site(built: Path, served: Served) -> Iterator[tuple[str, Provider]]:
    """The page's address, and the provider behind its server."""
    with provided(served.url) as provider:
        environment = {**os.environ, **provider.environment, "PORT": "0"}
        program = (built / "server.ts").read_text().replace("http://127.0.0.1:8000", served.url)
        (built / "server.ts").write_text(program)
        command = [built / "node_modules" / ".bin" / "tsx", "server.ts"]
        with subprocess.Popen(command, cwd=built, env=environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            yield server.stdout.readline().strip(), provider
            server.terminate()


@pytest.fixture
def page(browser: Browser, site: tuple[str, Provider], served: Served, conversation: str) -> Page:
    """The page with a chat of its own, and a model that answers at once."""
    url, provider = site
    provider.plan = model = Model()
    provider.pause_seconds, provider.failures = 0.0, 0
    return Page(browser, url, served.url, conversation, provider, model)


def test_the_page_has_each_button() -> None:
    """The page's table has each of these tests, for both versions."""
    (head,) = [line for line in section(PAGE, SECTION).splitlines() if line.startswith("| `useChat` in Chromium")]
    buttons = [cell.strip().replace(" ", "_") for cell in head.strip("| ").split("|")][1:]
    found = [row[1:] for row in rows(section(PAGE, SECTION)) if row[0].startswith("AI SDK ")]
    assert found == [["yes"] * len(buttons)] * len(PACKAGES)
    assert {f"test_{button}" for button in buttons} <= globals().keys()


def test_send(page: Page) -> None:
    """Each question and each reply stands once on the page and in the log, and is sent once."""
    page.send("one", "two")
    page.is_now("one", "r0", "two", "r1")


def test_the_same_words_again(page: Page) -> None:
    """A question in the words of another one is another question."""
    page.send("go on", "go on")
    page.is_now("go on", "r0", "go on", "r1")


def test_regenerate(page: Page) -> None:
    """The new reply takes the place of the old one, which is one of two."""
    page.send("one", "two")
    page.browser.click("#again")
    page.browser.wait(f"{TEXTS}.at(-1).startsWith('r2')")
    page.until(4)
    page.is_now("one", "r0", "two", "r2")
    page.browser.wait("document.querySelectorAll('.ways').length === 1")
    assert page.ways == ["2 of 2"]
    page.send("three")
    page.is_now("one", "r0", "two", "r2", "three", "r3")


def test_edit_the_first(page: Page) -> None:
    """The chat begins anew with the other words; the old one is one of two."""
    page.send("one", "two")
    page.edit(0, "uno")
    page.until(2)
    page.is_now("uno", "r2")
    page.browser.wait("document.querySelectorAll('.ways').length === 1")
    assert page.ways == ["2 of 2"]
    page.send("three")
    page.is_now("uno", "r2", "three", "r3")


def test_edit_the_last(page: Page) -> None:
    """What stands before stays."""
    page.send("one", "two")
    page.edit(1, "due")
    page.browser.wait(f"{TEXTS}.at(-1).startsWith('r2')")
    page.until(4)
    page.is_now("one", "r0", "due", "r2")


def test_retry_after_500(page: Page) -> None:
    """A question that the model failed to answer stands once, also when it is asked again."""
    page.send("one")
    page.provider.failures = 1
    page.say("two")
    page.browser.wait(f"{STATUS} === 'error'")
    page.browser.click("#again")
    page.until(4)
    page.is_now("one", "r0", "two", "r1")


def test_a_regenerate_that_fails_brings_the_old_reply_back(page: Page) -> None:
    """The log has the reply again that the failing model was to replace."""
    page.send("one")
    page.provider.failures = 1
    page.browser.click("#again")
    page.browser.wait(f"{STATUS} === 'error'")
    page.open()
    page.until(2)
    page.is_now("one", "r0")


def test_stop_and_retry(page: Page) -> None:
    """The half reply is stopped, stands so in the log, and gives way to a whole one."""
    page.send("one")
    page.provider.pause_seconds = SLOW_SECONDS
    page.say("two")
    page.browser.wait(f"{TEXTS}.length === 4 && {TEXTS}[3].startsWith('r1')")
    page.browser.click("#stop")
    page.browser.wait(f"{STATUS} === 'ready'")
    page.provider.pause_seconds = 0.0
    page.browser.click("#again")
    page.browser.wait(f"{TEXTS}.at(-1).startsWith('r2')")
    page.until(4)
    page.is_now("one", "r0", "two", "r2")


def test_reload(page: Page) -> None:
    """The page that is loaded anew has the log, and goes on."""
    page.send("one")
    page.open()
    page.send("two")
    page.is_now("one", "r0", "two", "r1")


def test_reload_in_mid_stream(page: Page) -> None:
    """The reply goes on in the log while nobody reads it, and on the page that is loaded anew, in one message."""
    page.provider.pause_seconds = SLOW_SECONDS
    page.say("one")
    page.browser.wait(f"{TEXTS}.length === 2 && {TEXTS}[1].startsWith('r0')")
    page.open()
    page.browser.wait(f"{STATUS} === 'streaming'")
    page.until(2)
    page.is_now("one", "r0")


def test_two_tabs(page: Page) -> None:
    """What a tab asks that did not see the other's turn is another way; none of both is lost, and none stands twice."""
    page.send("one")
    post = (
        "await fetch('/api/chat', {method: 'POST', body: JSON.stringify({id: arguments[0], messages: arguments[1]})})"
    )
    seen = httpx.get(f"{page.sash}/conversations/{page.name}/messages", params={"format": "ui"}).json()["messages"]
    page.send("two")
    asked = {"id": "other", "role": "user", "parts": [{"type": "text", "text": "three"}]}
    page.browser.run(
        f"return (async () => (await ({post.removeprefix('await ')})).text())()", page.name, [*seen, asked]
    )
    page.open()
    page.until(4)
    page.is_now("one", "r0", "three", "r2")
    assert page.ways == ["2 of 2"]
    page.browser.click(".older")
    page.browser.wait(f"{TEXTS}[2] === 'two'")
    assert page.log == page.texts == ["one", "r0 has some words", "two", "r1 has some words"]


def test_back_to_the_old_answer(page: Page) -> None:
    """The arrows lead to each answer, and the chat goes on from the one that is shown."""
    page.send("one", "two")
    page.browser.click("#again")
    page.browser.wait(f"{TEXTS}.at(-1).startsWith('r2')")
    page.until(4)
    page.browser.wait("document.querySelector('.older')")
    page.browser.click(".older")
    page.browser.wait(f"{TEXTS}.at(-1).startsWith('r1')")
    assert page.ways == ["1 of 2"]
    page.send("three")
    page.is_now("one", "r0", "two", "r1", "three", "r3")
