"""The page of the documentation that follows a conversation, in a real Chromium: its EventSource comes back by itself."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from conftest import Served
from readme_blocks import block
from rigs.browser import CHROMIUM, DRIVER, chromium

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="needs chromium and chromedriver: apt-get install chromium chromium-driver",
)
PAGE = block("html", "service/sash/api/README.md", "## Follow a conversation")
LINES = "[...document.querySelectorAll('li')].map((each) => each.textContent).join('|')"


@contextmanager
def on_a_page(folder: Path) -> Iterator[str]:
    """Serve a folder as `python3 -m http.server` does; yields its origin."""
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def say(url: str, *entries: dict[str, str], **query: str) -> None:
    path = f"{url}/conversations/talks-1/messages"
    httpx.post(path, json={"messages": list(entries)}, params=query).raise_for_status()


def test_the_page_follows_a_conversation(tmp_path: Path) -> None:
    """What is appended, rewritten, redacted or rewound is seen at once, also after the service was started again."""
    with on_a_page(tmp_path) as origin, chromium(tmp_path / "profile") as browser:
        served = Served(tmp_path / "data", SASH_CORS_ORIGINS=origin)
        served.start()
        (tmp_path / "follow.html").write_text(PAGE.replace("http://127.0.0.1:8000", served.url))
        say(served.url, {"role": "user", "content": "one"})
        browser.open(f"{origin}/follow.html")
        browser.wait(f"{LINES} === 'user: one'")
        reply = {"id": "r", "role": "assistant", "status": "in_progress"}
        say(served.url, reply | {"content": "tw"})
        say(served.url, reply | {"content": "two"})
        browser.wait(f"{LINES} === 'user: one|assistant: two'")
        say(served.url, reply | {"content": "two!", "status": "completed"}, {"role": "user", "content": "three"})
        browser.wait(f"{LINES} === 'user: one|assistant: two!|user: three'")
        port = served.url.rpartition(":")[2]
        served.stop()
        served.start(port=int(port))
        say(served.url, {"role": "user", "content": "four"}, after_seq="1")
        browser.wait(f"{LINES} === 'user: one|user: four'")
        httpx.delete(f"{served.url}/conversations/talks-1/messages/1").raise_for_status()
        browser.wait(f"{LINES} === 'user: [redacted]|user: four'")
        httpx.delete(f"{served.url}/conversations/talks-1").raise_for_status()
        browser.wait("document.querySelectorAll('li').length === 0")
        served.stop()
