"""Tests the format of log lines, and that no content or secret is in them."""

import logging
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

import httpx2
import msgspec
import pytest
import structlog

from sash.operations.logging import configure_logging, describe, get_logger, guard
from sash.operations.requests import RequestLog, request_log
from sash.problems import NotFound


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Restore the process-wide logging, which each of these tests configures."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def lines(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[[], list[dict[str, Any]]]:
    """A function that returns the JSON lines written since its last call."""
    return lambda: [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]


def guarded(**fields: object) -> dict[str, Any]:
    return dict(guard(None, "info", fields))


def fail(error: Exception, cause: Exception | None = None) -> NoReturn:
    raise error from cause


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """Return the error after raising it, so that it has a traceback."""
    try:
        fail(error, cause)
    except Exception as caught:  # noqa: BLE001
        return caught


def test_a_line_is_one_json_object(lines: Callable[[], list[dict[str, Any]]]):
    """A line has the timestamp in UTC, the level and the event first, then the given fields."""
    configure_logging("json", "info")

    get_logger().info("appended", conversation="c-1", messages=2, seconds=0.25, duplicate=False, owner=None)

    (line,) = lines()
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert datetime.now(UTC) - datetime.fromisoformat(line.pop("timestamp")) < timedelta(minutes=1)
    assert line == {
        "level": "info",
        "event": "appended",
        "conversation": "c-1",
        "messages": 2,
        "seconds": 0.25,
        "duplicate": False,
        "owner": None,
    }


def test_the_level_is_a_threshold(lines: Callable[[], list[dict[str, Any]]]):
    """Lines below the level are not written, neither Sash's nor a library's."""
    configure_logging("json", "warning")

    get_logger().info("quiet")
    logging.getLogger("library").info("quiet")
    get_logger().warning("loud")

    assert [line["event"] for line in lines()] == ["loud"]


def test_console_lines_are_for_people(capsys: pytest.CaptureFixture[str]):
    """The console format is plain text with the fields, and withholds content like the JSON format."""
    configure_logging("console", "info")

    get_logger().info("started", port=8000, content="hello", path="\udcff")

    written = capsys.readouterr().out
    assert "started" in written
    assert "8000" in written
    assert "hello" not in written


def test_an_exception_is_in_a_line_for_people(capsys: pytest.CaptureFixture[str]):
    """A library's error is one line of the console's format, with its type and without its message."""
    configure_logging("console", "info")

    logging.getLogger("asyncio").error("Task exception was never retrieved", exc_info=ValueError("hello"))

    written = capsys.readouterr().out
    assert "Task exception was never retrieved" in written
    assert "builtins.ValueError" in written
    assert "hello" not in written
    assert written.count("\n") == 1


def test_a_name_that_nobody_waits_for_is_no_line(lines: Callable[[], list[dict[str, Any]]]):
    """A look-up of a name that fails after its connection attempt has ended is not logged; other errors are."""
    configure_logging("json", "info")

    for error in (socket.gaierror(-2, "Name or service not known"), OSError("disk")):
        text = "Future exception was never retrieved\nfuture: <Future finished>"
        logging.getLogger("asyncio").error(text, exc_info=error)

    (line,) = lines()
    assert line["exception"]["type"] == "builtins.OSError"


@pytest.mark.parametrize("name", ["content", "text", "message", "messages", "body", "Authorization", "key", "api_key"])
def test_texts_under_a_telling_name_are_withheld(name: str):
    """A text or list is withheld if its field's name suggests content or a secret, nested fields included."""
    assert guarded(**{name: "hello"}) == {name: "[withheld]"}
    assert guarded(**{name: ["hello"]}) == {name: "[withheld]"}
    assert guarded(nested={name: "hello"}) == {"nested": {name: "[withheld]"}}


def test_figures_under_a_telling_name_pass():
    """A number, flag or None is logged under any name: messages=7 is a count."""
    figures = {"messages": 7, "grounding": 0, "body": 1.5, "summary": None, "tools": True}

    assert guarded(**figures) == figures


def test_other_values_are_made_plain():
    """Bytes are withheld, long texts cut, lone surrogates escaped, and an unknown object is logged as its type's name."""
    assert guarded(data=b"hello") == {"data": "[withheld]"}
    assert guarded(name="n" * 501) == {"name": "n" * 500 + "…"}
    assert guarded(path=Path("/a/b")) == {"path": "/a/b"}
    assert guarded(path="\udcff ü") == {"path": "\\udcff ü"}
    assert guarded(thing=object()) == {"thing": "[object]"}
    assert guarded(ids=("a", {"text": "hello"})) == {"ids": ["a", {"text": "[withheld]"}]}


def test_nesting_is_bounded():
    """A list that contains itself is cut after four levels."""
    endless: list[object] = []
    endless.append(endless)

    assert guarded(endless=endless) == {"endless": [[[["[list]"]]]]}


def test_an_exception_is_its_type_and_where_it_came_from(lines: Callable[[], list[dict[str, Any]]]):
    """A library's message may quote a conversation, so only types and places are logged, causes included."""
    configure_logging("json", "info")
    error = raised(ValueError("hello"), raised(KeyError("hello")))

    get_logger().error("it failed", exc_info=error)

    (line,) = lines()
    assert "hello" not in repr(line)
    assert line["exception"]["type"] == "builtins.ValueError"
    assert line["exception"]["causes"] == ["builtins.KeyError"]
    assert [place.split()[-1] for place in line["exception"]["at"]] == ["raised", "fail"]


def test_the_exception_at_hand_is_logged(lines: Callable[[], list[dict[str, Any]]]):
    """Inside an except block the current exception is logged; outside, the line has no exception."""
    configure_logging("json", "info")
    try:
        fail(TimeoutError("the store did not answer"))
    except TimeoutError:
        get_logger().exception("it failed")
    get_logger().error("nothing at hand", exc_info=True)

    first, second = lines()
    assert first["level"] == "error"
    assert first["exception"]["detail"] == "the store did not answer"
    assert "exception" not in second


def test_messages_of_ours_and_of_the_system_are_kept():
    """The text of a problem and of an operating system's error is logged, because it never contains message text."""
    assert describe(NotFound("there is no conversation here"))["detail"] == "there is no conversation here"
    assert describe(FileNotFoundError(2, "No such file", "/a"))["detail"] == "[Errno 2] No such file: '/a'"
    assert "detail" not in describe(UnicodeDecodeError("utf-8", b"hello", 0, 1, "bad"))


def test_a_suppressed_context_is_not_a_cause():
    """An exception handled while another was raised is a cause, unless `raise … from None` suppresses it."""
    errors = {}
    for name, suppress in (("broke out", False), ("from None", True)):
        try:
            fail(KeyError("hello"))
        except KeyError as first:
            errors[name] = ValueError("hello")
            errors[name].__context__, errors[name].__suppress_context__ = first, suppress

    assert describe(errors["broke out"])["causes"] == ["builtins.KeyError"]
    assert "causes" not in describe(errors["from None"])


def test_what_libraries_log_takes_the_same_way(lines: Callable[[], list[dict[str, Any]]]):
    """Lines of the standard library's loggers have the same format, and only the first line of their message."""
    configure_logging("json", "info")

    logging.getLogger("asyncio").error("Task exception was %s\nfuture: <Task hello>", "never retrieved")
    logging.getLogger("odd").log(35, "between two levels")

    first, second = lines()
    assert (first["event"], first["level"], first["logger"]) == (
        "Task exception was never retrieved",
        "error",
        "asyncio",
    )
    assert "hello" not in repr(first)
    assert second["level"] == "warning"


SECRET_URL = "https://user:hunter1@llm.example/v1?api-version=2&api%5Fkey=hunter2&sig=hunter3#token=hunter4"
MASKED_URL = "https://***@llm.example/v1?api-version=2&api%5Fkey=***&sig=***#token=***"


def ask(url: str) -> None:
    """Send a request with httpx2, the library that requests summaries."""
    answering = httpx2.MockTransport(lambda _: httpx2.Response(200))
    with httpx2.Client(transport=answering) as client:
        client.get(url)


def test_libraries_log_warnings_alone(lines: Callable[[], list[dict[str, Any]]]):
    """httpx2 does not log the endpoint's URL even at level debug, which applies to Sash's lines alone."""
    configure_logging("json", "debug")

    ask(SECRET_URL)

    assert lines() == []


def test_libraries_log_more_when_asked(lines: Callable[[], list[dict[str, Any]]]):
    """If libraries have the level info, httpx2 logs each request, without the secrets in its URL."""
    configure_logging("json", "info", "info")

    ask(SECRET_URL)

    (line,) = lines()
    assert line["logger"] == "httpx2"
    assert "https://***@llm.example/v1?api-version=2&" in line["event"]
    assert "hunter" not in repr(line)


def test_no_field_shows_a_secret_in_a_url(lines: Callable[[], list[dict[str, Any]]]):
    """Secrets in URLs are masked in the event and in every field, an exception's text included."""
    configure_logging()

    get_logger().info(f"asked {SECRET_URL} twice", at=SECRET_URL, places=[SECRET_URL])
    get_logger().error("failed", **describe(raised(OSError(f"no route to {SECRET_URL}"))))

    asked, failed = lines()
    assert asked["event"] == f"asked {MASKED_URL} twice"
    assert (asked["at"], asked["places"]) == (MASKED_URL, [MASKED_URL])
    assert failed["detail"] == f"no route to {MASKED_URL}"


def test_fields_bound_for_a_request_are_on_every_line(lines: Callable[[], list[dict[str, Any]]]):
    """Fields bound in the context, such as the request's id, are on every line that is logged there."""
    configure_logging("json", "info")
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        get_logger().info("inside")
    get_logger().info("outside")

    inside, outside = lines()
    assert inside["request_id"] == "r-1"
    assert "request_id" not in outside


REQUEST = {"request_id": "r-1", "method": "GET", "operation": None, "status": 200, "milliseconds": 1.25, "bytes": 2}


def requests_logged(form: Literal["json", "console"], level: str) -> RequestLog | None:
    """Configure logging as a worker does, and return what writes the lines of requests."""
    configure_logging(form, level)
    return request_log(form, level)


def test_the_line_of_a_request_is_a_line_like_others(lines: Callable[[], list[dict[str, Any]]]):
    """The direct writer of request lines, which skips the processors, writes the same line as the logger."""
    write = requests_logged("json", "info")
    assert write is not None

    write({**REQUEST, "model": "gpt-4o"})
    get_logger().info("request", **REQUEST, model="gpt-4o")

    direct, logged = lines()
    assert list(direct) == list(logged)
    at, then = (datetime.fromisoformat(line.pop("timestamp")) for line in (direct, logged))
    assert timedelta() <= then - at < timedelta(minutes=1)
    assert direct == logged


def test_the_line_of_a_request_goes_at_once(lines: Callable[[], list[dict[str, Any]]]):
    """Each request's line is written at once, without a buffer."""
    write = requests_logged("json", "info")
    assert write is not None
    for number in range(3):
        write({**REQUEST, "status": number})
        assert [line["status"] for line in lines()] == [number]


def test_lines_of_requests_for_people(capsys: pytest.CaptureFixture[str]):
    """In the console format, a request's line is written with its fields."""
    write = requests_logged("console", "info")
    assert write is not None

    write(REQUEST)

    assert "milliseconds" in capsys.readouterr().out


@pytest.mark.parametrize(("level", "statuses"), [("info", [200, 422, 503]), ("warning", [503]), ("critical", [])])
def test_the_level_of_a_requests_line_is_its_statuses(
    level: str, statuses: list[int], capfdbinary: pytest.CaptureFixture[bytes]
):
    """A request's line has level error for status 503 and level info for 422, so the configured level filters it."""
    write = requests_logged("json", level)
    for status in (200, 422, 503):
        if write is not None:
            write({**REQUEST, "status": status})
    lines = [msgspec.json.decode(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["status"] for line in lines] == statuses
    assert {line["status"]: line["level"] for line in lines}.get(503, "error") == "error"
    assert {line["status"]: line["level"] for line in lines}.get(422, "info") == "info"
