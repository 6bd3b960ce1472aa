"""FastAPI's users: README's streaming chat with readers that go away, and Sash mounted in an application.

FastAPI and uvicorn are in a folder of their own: ``python -m pytest -m clients tests/clients/test_fastapi.py``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from readme_blocks import ROOT, SERVER, block, blocks, printed, run, section
from readme_provider import ANSWER, Provider, provided
from store.servers import free_port

from sash.store.redis.embedded import EmbeddedStore

pytestmark = pytest.mark.clients
PACKAGES = ["fastapi==0.165.0", "uvicorn==0.54.0"]
HALF = ANSWER[: (len(ANSWER) + 1) // 2]
STREAMING, MOUNT = "### Streaming, with FastAPI", "## Inside an application of your own"
ASKED = """
@app.get("/asked")
async def asked():
    return {"models": (await inside.get("/models")).is_success}
"""
_START_SECONDS = 60


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with FastAPI and uvicorn, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("fastapi")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *PACKAGES]
    subprocess.run(pip, check=True, timeout=300)
    return folder


@contextmanager
def running(folder: Path, packages: Path, program: str, **environment: str) -> Iterator[str]:
    """Yield the URL of ``uvicorn chat:app`` in a folder with this program."""
    (folder / "chat.py").write_text(program)
    port = free_port()
    path = os.pathsep.join(map(str, (packages, ROOT / "service")))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "chat:app", "--port", str(port)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=log,
            stderr=log,
        )
    url, give_up = f"http://127.0.0.1:{port}", time.monotonic() + _START_SECONDS
    try:
        while b"startup complete" not in (folder / "log").read_bytes():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < give_up, (folder / "log").read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(30)
    assert "Application shutdown complete" in (folder / "log").read_text()


@pytest.fixture
def provider(served: Served) -> Iterator[Provider]:
    with provided(served.url) as provider:
        yield provider


@pytest.fixture
def chat(tmp_path: Path, packages: Path, served: Served, provider: Provider) -> Iterator[str]:
    """Yield the URL of README's streaming chat; its conversation is new."""
    httpx.delete(f"{served.url}/conversations/talks-5")
    program = block("python", "README.md", STREAMING).replace(SERVER, served.url)
    with running(tmp_path, packages, program, **provider.environment) as url:
        yield f"{url}/chats/talks-5"


def told(url: str, **question: Any) -> tuple[str, str]:
    """Ask, and return the streamed text and the last event."""
    answer = httpx.post(url, json=question, timeout=30).raise_for_status()
    *pieces, end = answer.text.strip().split("\n\n")
    return "".join(json.loads(piece.removeprefix("data: ")) for piece in pieces), end


def left(url: str, pieces: int, **question: Any) -> str:
    """Ask, read some pieces of text, and go away."""
    text = ""
    with httpx.stream("POST", url, json=question, timeout=30) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                text += json.loads(line.removeprefix("data: "))
                pieces -= bool(text)
                if not pieces:
                    return text
    raise AssertionError(text)


def stored(served: Served) -> list[tuple[str, str, str | None]]:
    """The stored messages, each with its status, when no reply is in progress any more."""
    give_up = time.monotonic() + 20
    while True:
        page = httpx.get(f"{served.url}/conversations/talks-5/messages").raise_for_status().json()["messages"]
        found = [(each["message"]["role"], each["message"]["content"], each.get("status")) for each in page]
        if time.monotonic() > give_up or not any(status == "in_progress" for *_, status in found):
            return found
        time.sleep(0.05)


def test_the_command_asks(chat: str, served: Served) -> None:
    """README's curl gets the reply as events, and both messages are stored."""
    code = blocks("sh", section("README.md", STREAMING))[-1].replace("http://127.0.0.1:8002/chats/talks-5", chat)
    lines = [line for line in printed(run(["sh"], code, server=served.url)) if line]
    assert lines[-2:] == ["event: end", "data: completed"]
    assert "".join(json.loads(line.removeprefix("data: ")) for line in lines[:-2]) == ANSWER
    assert stored(served) == [("user", "is there a talk?", None), ("assistant", ANSWER, "completed")]


def test_a_reader_that_goes_away_leaves_half_a_reply(chat: str, served: Served, provider: Provider) -> None:
    """What came is stored as interrupted. A retry gets it, and the model is not asked again."""
    provider.pause_seconds = 0.4
    assert left(chat, 1, id="q-1", text="is there a talk?") == HALF
    assert stored(served) == [("user", "is there a talk?", None), ("assistant", HALF, "interrupted")]

    retry = httpx.post(chat, json={"id": "q-1", "text": "is there a talk?"}).json()

    assert (retry["message"]["content"], retry["status"]) == (HALF, "interrupted")
    assert len(provider.requests) == 1
    assert len(stored(served)) == 2


def test_a_reply_is_regenerated_and_a_question_edited(chat: str, served: Served, provider: Provider) -> None:
    """A new id behind the message before takes the place of question and reply, and windows never have the old ones."""
    told(chat, id="q-1", text="is there a talk?")
    told(chat, id="q-2", text="were is it?")
    provider.pause_seconds = 0.4
    left(chat, 1, id="q-3", text="where is it?", after_seq="id:q-1-reply")
    provider.pause_seconds = 0

    assert told(chat, id="q-4", text="where is it?", after_seq="id:q-1-reply") == (
        ANSWER,
        "event: end\ndata: completed",
    )

    first = [("user", "is there a talk?", None), ("assistant", ANSWER, "completed")]
    assert stored(served) == [*first, ("user", "where is it?", None), ("assistant", ANSWER, "completed")]
    sent = [[message["content"] for message in request["messages"]] for request in provider.requests]
    assert sent[2] == sent[3] == ["is there a talk?", ANSWER, "where is it?"]
    assert told(chat, id="q-5", text="again", after_seq=0)[0] == ANSWER
    assert [content for _, content, _ in stored(served)] == ["again", ANSWER]


def test_a_retry_while_it_streams_asks_nobody(chat: str, provider: Provider) -> None:
    """A retry that overtakes the first request gets a reply in progress, and nothing is stored twice."""
    provider.pause_seconds = 0.4
    with httpx.stream("POST", chat, json={"id": "q-1", "text": "is there a talk?"}, timeout=30) as answer:
        assert httpx.post(chat, json={"id": "q-1", "text": "is there a talk?"}).json()["status"] == "in_progress"
        assert answer.read().endswith(b"event: end\ndata: completed\n\n")
    assert len(provider.requests) == 1


def test_sash_is_mounted(tmp_path: Path, packages: Path, own: EmbeddedStore) -> None:
    """The page's application answers Sash's calls under its own path, and stops cleanly."""
    program = block("python", "deploy/README.md", MOUNT) + ASKED
    with running(tmp_path, packages, program, SASH_REDIS_URL=own.url, SASH_DURABILITY="fast") as url:
        assert httpx.get(f"{url}/sash/readyz").json()["status"] == "ready"
        made = httpx.post(f"{url}/sash/conversations", json={"id": "mounted-1", "owner": "a/b"})
        assert httpx.get(url + made.headers["location"]).json()["id"] == "mounted-1"
        said = {"messages": [{"role": "user", "content": "hello"}]}
        answer = httpx.post(f"{url}/sash/conversations/mounted-1/messages?model=gpt-4o-mini", json=said)
        assert answer.json()["window"]["request"]["messages"] == said["messages"]
        assert httpx.delete(f"{url}/sash/owners/a%2Fb").status_code == 204
        assert httpx.get(f"{url}/asked").json() == {"models": True}
