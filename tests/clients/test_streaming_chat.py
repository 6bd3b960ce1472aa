"""README's streaming chat, run unchanged: readers that go away, providers that fail, crashes, two tabs, and retries.

FastAPI and uvicorn are in a folder of their own: ``python -m pytest -m clients tests/clients/test_streaming_chat.py``.
"""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from clients.fastapi_apps import Application, install, running
from conftest import Served
from readme_blocks import SERVER, block, blocks, printed, run, section
from readme_provider import ANSWER, Provider, provided
from rigs.servers import free_port

pytestmark = pytest.mark.clients
STREAMING = "### Streaming, with FastAPI"
HALF = ANSWER[: (len(ANSWER) + 1) // 2]
FIRST = {"id": "q-1", "text": "is there a talk?"}
ASKED = ("user", FIRST["text"], None)
ANSWERED = ("assistant", ANSWER, "completed")
BROKEN_OFF = ("assistant", HALF, "interrupted")
NEVER_BEGUN = ("assistant", "", "interrupted")
_SECONDS = 60
"""The longest time for a request: a reply whose writer died is written anew after ten."""


class Told(NamedTuple):
    """A reply as a reader got it: its text and its end."""

    text: str
    status: str
    seq: int


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with FastAPI and uvicorn, for PYTHONPATH."""
    return install(tmp_path_factory.mktemp("fastapi"))


@pytest.fixture
def provider(served: Served) -> Iterator[Provider]:
    with provided(served.url) as provider:
        yield provider


@pytest.fixture
def application(tmp_path: Path, packages: Path, served: Served, provider: Provider) -> Iterator[Application]:
    """Yield README's streaming chat; its conversation is new."""
    httpx.delete(f"{served.url}/conversations/talks-5")
    program = block("python", "README.md", STREAMING).replace(SERVER, served.url)
    with running(tmp_path, packages, program, **provider.environment) as application:
        yield application


@pytest.fixture
def chat(application: Application) -> str:
    """The address of a chat."""
    return f"{application.url}/chats/talks-5"


def told(url: str, **question: Any) -> Told:
    """Ask, and return what was streamed."""
    answer = httpx.post(url, json=question, timeout=_SECONDS).raise_for_status()
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    return told_in(answer.text)


def told_in(events: str) -> Told:
    *pieces, end = events.strip().split("\n\n")
    text = "".join(json.loads(piece.removeprefix("data: ")) for piece in pieces if piece.startswith("data: "))
    return Told(text, **json.loads(end.removeprefix("event: end\ndata: ")))


def left(url: str, **question: Any) -> str:
    """Ask, read the first piece of text, and go away."""
    with httpx.stream("POST", url, json=question, timeout=_SECONDS) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and (text := json.loads(line.removeprefix("data: "))):
                return str(text)
    raise AssertionError(question)


def crash(application: Application, url: str, text: str) -> None:
    """Ask the first question, and kill the application when this text came, and was stored."""
    with suppress(httpx.RemoteProtocolError), httpx.stream("POST", url, json=FIRST, timeout=_SECONDS) as answer:
        for line in answer.iter_lines():
            if text in line:
                time.sleep(2.2 if text else 0)  # what came is stored every two seconds
                application.kill()


def stored(served: Served) -> list[tuple[str, str, str | None]]:
    """The stored messages, each with its status, when no reply is in progress any more."""
    give_up = time.monotonic() + 20
    while True:
        page = httpx.get(f"{served.url}/conversations/talks-5/messages").raise_for_status().json()["messages"]
        found = [(each["message"]["role"], each["message"]["content"], each.get("status")) for each in page]
        if time.monotonic() > give_up or not any(status == "in_progress" for *_, status in found):
            return found
        time.sleep(0.05)


def sent(provider: Provider) -> list[list[str]]:
    """The texts of each request to the model."""
    return [[message["content"] for message in request["messages"]] for request in provider.requests]


def test_the_command_asks(chat: str, served: Served) -> None:
    """README's curl gets the reply as events, and both messages are stored."""
    code = blocks("sh", section("README.md", STREAMING))[-1].replace("http://127.0.0.1:8002/chats/talks-5", chat)
    printed_events = "\n".join(printed(run(["sh"], code, server=served.url)))
    assert told_in(printed_events) == Told(ANSWER, "completed", 2)
    assert stored(served) == [ASKED, ANSWERED]


def test_a_retry_is_told_the_whole_reply(chat: str, served: Served, provider: Provider) -> None:
    """The same question again is told what is stored, as events, and the model is not asked."""
    assert told(chat, **FIRST) == told(chat, **FIRST) == Told(ANSWER, "completed", 2)
    assert len(provider.requests) == 1
    assert stored(served) == [ASKED, ANSWERED]


def test_a_reader_that_goes_away_leaves_a_whole_reply(chat: str, served: Served, provider: Provider) -> None:
    """The reply is written to its end, and stored whole. A retry is told it as it grows, and asks the model nothing."""
    provider.pause_seconds = 0.4
    assert left(chat, **FIRST) == HALF

    assert told(chat, **FIRST) == told(chat, **FIRST) == Told(ANSWER, "completed", 2)

    assert sent(provider) == [[FIRST["text"]]]
    assert stored(served) == [ASKED, ANSWERED]


def test_a_second_tab_goes_on_when_the_first_one_leaves(chat: str, served: Served, provider: Provider) -> None:
    """Two tabs read one reply: the one that stays gets all of it."""
    provider.pause_seconds = 0.6
    with ThreadPoolExecutor(2) as tabs:
        leaves = tabs.submit(left, chat, **FIRST)
        stays = tabs.submit(told, chat, **FIRST)
        assert leaves.result() == HALF
        assert stays.result() == Told(ANSWER, "completed", 2)
    assert len(provider.requests) == 1
    assert stored(served) == [ASKED, ANSWERED]


def test_a_chat_goes_on_behind_half_a_reply(chat: str, served: Served, provider: Provider) -> None:
    """The next question's window has the half reply. A late retry of the first one is told the half, and asks nobody."""
    provider.whole_events = 2
    told(chat, **FIRST)
    assert stored(served)[-1] == BROKEN_OFF
    provider.whole_events = None

    assert told(chat, id="q-2", text="go on").text == ANSWER

    assert sent(provider)[-1] == [FIRST["text"], HALF, "go on"]
    assert told(chat, **FIRST) == Told(HALF, "interrupted", 2)
    assert len(provider.requests) == 2


def test_a_provider_that_fails_leaves_no_empty_reply(
    chat: str, application: Application, served: Served, provider: Provider
) -> None:
    """A provider's 500 ends the stream as interrupted. The next window has no empty message, and a retry asks again."""
    provider.failures = 3  # the SDK tries three times
    assert told(chat, **FIRST) == Told("", "interrupted", 2)
    assert stored(served) == [ASKED, NEVER_BEGUN]
    assert "The model's reply broke off: InternalServerError" in application.log
    provider.failures = 3
    told(chat, id="q-2", text="hello?")

    assert told(chat, id="q-2", text="hello?") == Told(ANSWER, "completed", 4)

    assert sent(provider) == [[FIRST["text"], "hello?"]]
    assert stored(served) == [ASKED, NEVER_BEGUN, ("user", "hello?", None), ANSWERED]


def test_a_provider_that_breaks_off_leaves_half_a_reply(chat: str, served: Served, provider: Provider) -> None:
    """A stream that breaks off is stored as interrupted, and a retry gets a whole reply."""
    provider.whole_events = 2
    assert told(chat, **FIRST) == Told(HALF, "interrupted", 2)
    assert stored(served) == [ASKED, BROKEN_OFF]
    provider.whole_events = None

    assert told(chat, **FIRST) == Told(ANSWER, "completed", 2)
    assert stored(served) == [ASKED, ANSWERED]


def test_a_crash_leaves_a_reply_that_a_retry_writes_anew(
    chat: str, application: Application, served: Served, provider: Provider
) -> None:
    """After a kill -9 in the middle, a retry sees that the reply no longer grows, and gets a whole one in its place."""
    provider.pause_seconds = 3
    crash(application, chat, HALF)
    page = httpx.get(f"{served.url}/conversations/talks-5/messages/2").json()
    assert (page["message"]["content"], page["status"]) == (HALF, "in_progress")
    provider.pause_seconds = 0
    application.start()

    assert told(chat, **FIRST) == Told(ANSWER, "completed", 2)
    assert stored(served) == [ASKED, ANSWERED]


def test_a_crash_does_not_stop_the_chat(
    chat: str, application: Application, served: Served, provider: Provider
) -> None:
    """After a kill -9 the next question is answered. A retry of the first ends what the crash left as interrupted."""
    provider.pause_seconds = 3
    crash(application, chat, "")
    provider.pause_seconds = 0
    application.start()

    assert told(chat, id="q-2", text="hello?") == Told(ANSWER, "completed", 4)
    assert told(chat, **FIRST) == Told("", "interrupted", 2)
    assert stored(served) == [ASKED, NEVER_BEGUN, ("user", "hello?", None), ANSWERED]


def test_two_tabs_ask_the_same(chat: str, served: Served, provider: Provider) -> None:
    """Of requests with one id at the same time one asks the model, and all are told the whole reply as it grows."""
    provider.pause_seconds = 0.6
    with ThreadPoolExecutor(4) as tabs:
        asked = [tabs.submit(told, chat, **FIRST) for _ in range(4)]
    assert {each.result() for each in asked} == {Told(ANSWER, "completed", 2)}
    assert len(provider.requests) == 1
    assert stored(served) == [ASKED, ANSWERED]


def test_a_reply_is_regenerated_and_a_question_edited(chat: str, served: Served, provider: Provider) -> None:
    """A question instead of an earlier one takes its place, and windows never have what was forgotten."""
    told(chat, **FIRST)
    told(chat, id="q-2", text="were is it?")
    first = [ASKED, ANSWERED]

    for number in (3, 4):
        edited = {"id": f"q-{number}", "text": "where is it?", "instead_of": f"q-{number - 1}"}
        assert told(chat, **edited) == told(chat, **edited) == Told(ANSWER, "completed", 4)
        assert stored(served) == [*first, ("user", "where is it?", None), ANSWERED]

    assert sent(provider)[1:] == [[FIRST["text"], ANSWER, text] for text in ("were is it?", *["where is it?"] * 2)]
    assert told(chat, id="q-5", text="again", instead_of="q-1").seq == 2
    assert stored(served) == [("user", "again", None), ANSWERED]
    gone = httpx.post(chat, json={"id": "q-6", "text": "x", "instead_of": "q-2"})
    assert (gone.status_code, "took it away" in gone.json()["detail"]) == (404, True)


def test_regenerating_while_the_provider_is_down_keeps_the_good_reply(
    chat: str, application: Application, served: Served, provider: Provider
) -> None:
    """A provider's 500 before the first word puts question and reply back; the browser is told why and what stands."""
    told(chat, **FIRST)
    provider.failures = 3  # the SDK tries three times
    answer = httpx.post(chat, json={"id": "q-2", "text": "once more", "instead_of": "q-1"}, timeout=_SECONDS)
    assert told_in(answer.text) == Told("", "kept", 2)
    assert 'event: failed\ndata: {"type": "/problems/model-failed"' in answer.text
    assert "InternalServerError" in answer.text
    assert "HTTP 500" in application.log
    assert stored(served) == [ASKED, ANSWERED]
    provider.failures = 0
    assert told(chat, id="q-2", text="once more", instead_of="q-1") == Told(ANSWER, "completed", 2)
    assert stored(served) == [("user", "once more", None), ANSWERED]


def test_a_reply_that_another_tab_regenerates_does_not_come_back(chat: str, served: Served, provider: Provider) -> None:
    """While a tab streams another one regenerates: the first stream ends as gone, and the new reply stands alone."""
    provider.pause_seconds = 1.5
    first: list[Told] = []
    tab = threading.Thread(target=lambda: first.append(told(chat, **FIRST)))
    tab.start()
    give_up = time.monotonic() + 20
    while not provider.requests and time.monotonic() < give_up:
        time.sleep(0.05)
    provider.pause_seconds = 0

    assert told(chat, id="q-2", text="is there any talk?", instead_of="q-1") == Told(ANSWER, "completed", 2)

    tab.join(_SECONDS)
    assert [each.status for each in first] == ["gone"]
    assert stored(served) == [("user", "is there any talk?", None), ANSWERED]


def test_a_question_that_does_not_fit_says_so(chat: str, served: Served, provider: Provider) -> None:
    """It is 422 with Sash's problem, again at each retry, and leaves no reply in progress; a shorter one takes its place."""
    long = {"id": "q-1", "text": "word " * 150_000}
    for _ in range(2):
        answer = httpx.post(chat, json=long, timeout=_SECONDS)
        assert (answer.status_code, answer.json()["type"]) == (422, "/problems/window-does-not-fit")
    assert [each[2] for each in stored(served)] == [None, "interrupted"]
    assert told(chat, id="q-2", text="is there a talk?", instead_of="q-1").text == ANSWER
    assert sent(provider) == [["is there a talk?"]]


def test_another_text_under_the_same_id_is_refused(chat: str, served: Served, provider: Provider) -> None:
    """It is 409 with Sash's problem, and nothing is stored; a wrong id is 400."""
    told(chat, **FIRST)
    answer = httpx.post(chat, json={"id": "q-1", "text": "another question"})
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/entry-conflict")
    assert httpx.post(chat, json={"id": "q 1", "text": "x"}).status_code == 400
    assert stored(served) == [ASKED, ANSWERED]
    assert len(provider.requests) == 1


def test_an_erased_reply_stays_erased(chat: str, served: Served, provider: Provider) -> None:
    """A reply that is erased while it streams ends as gone, and nothing of it is stored."""
    provider.pause_seconds = 0.8
    with httpx.stream("POST", chat, json=FIRST, timeout=_SECONDS) as answer:
        lines = answer.iter_lines()
        next(lines)
        httpx.delete(f"{served.url}/conversations/talks-5/messages/2").raise_for_status()
        rest = "\n".join(lines)
    assert '"status": "gone"' in rest
    assert stored(served)[1][1] == "[redacted]"


def test_without_sash_the_chat_says_so(tmp_path: Path, packages: Path, provider: Provider) -> None:
    """If Sash does not answer, the chat is 503 with a problem and no address, which the log has."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    program = block("python", "README.md", STREAMING).replace(SERVER, nowhere)
    with running(tmp_path, packages, program, **provider.environment) as application:
        answer = httpx.post(f"{application.url}/chats/talks-5", json=FIRST, timeout=_SECONDS)
        log = application.log
    told_problem = answer.json()
    assert (answer.status_code, told_problem["type"], told_problem["status"]) == (503, "/problems/unreachable", 503)
    assert "does not answer" in told_problem["detail"]
    assert "127.0.0.1" not in answer.text
    assert (answer.headers["content-type"], answer.headers["retry-after"]) == ("application/problem+json", "2")
    assert f"{nowhere}/ does not answer" in log
