"""Log lines: one JSON object each, on standard output, and never what people wrote.

A line has ``timestamp`` (UTC), ``level``, ``event`` and the fields it was given. What a field may hold is guarded here,
in one place, because a log lives longer than a conversation and more people read it: texts under a name that speaks of
content or of secrets are withheld, long ones are cut, and an exception is its type and where it came from. Its message
is left out unless it is one of ours or the system's, since others quote what they choked on (msgspec the wrong value,
redis-py the whole command).

What libraries log through the standard library takes the same way, its first line only, from warnings on: an HTTP client
tells of each request at the level info, with its URL. Secrets in URLs are masked in every text, ours too.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Literal, TextIO, cast

import msgspec
import structlog

from service.problems import Problem
from service.settings import mask_urls

RequestLog = Callable[[dict[str, Any]], None]
"""Writes the line of a request: its fields in their order."""

_LONGEST_TEXT = 500  # characters: more than any name, path or sentence of ours
_DEEPEST = 4
_FRAMES_SHOWN = 20
_SERVER_ERROR = 500
_WITHHELD = "[withheld]"

# The last word of a field's name. Numbers under such a name are figures (messages=7) and pass.
_GUARDED_WORDS = frozenset(
    word
    for line in (
        "argument arguments body content contents document documents grounding input message messages metadata note",
        "output payload prompt query request response shots summary system template text texts tool tools",
        "authorization cookie cookies credential credentials header headers key keys passwd password secret token",
    )
    for word in line.split()
)


def configure_logging(
    format: Literal["json", "console"] = "json",  # noqa: A002 - its name
    level: str = "info",
    library_level: str = "warning",
) -> RequestLog | None:
    """Send every log line of this process to standard output, libraries' from both levels on. May be called again.

    Gives what writes the lines of requests, None where the level holds all of them back.
    """
    stream = _stdout()
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _describe_exception,
            guard,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([_to_json] if format == "json" else [structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=(
            structlog.BytesLoggerFactory(cast("BinaryIO", _Lossy(stream)))
            if format == "json"
            else structlog.PrintLoggerFactory(cast("TextIO", _Lossy(sys.stdout)))
        ),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[_FromStandardLibrary()], level=library_level.upper(), force=True)
    if threshold > logging.ERROR:
        return None
    write = in_json(stream) if format == "json" else log_request
    return write if threshold <= logging.INFO else _failures_to(write)


def _stdout() -> BinaryIO:
    """Standard output without a buffer: a line is one write, so that worker processes do not cut into each other's."""
    return cast("BinaryIO", os.fdopen(1, "wb", buffering=0, closefd=False))


class _Lossy:
    """A stream that loses what it cannot write: a log on a full disk must not end the task that reports what is wrong."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream

    def write(self, line: Any) -> None:
        """Write a line, or none of it, or the part that there is room for."""
        with contextlib.suppress(OSError):
            self._stream.write(line)

    def flush(self) -> None:
        """Write what the stream holds back."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """A logger for the shell; the core has nothing to log."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger())


def log_request(line: dict[str, Any]) -> None:
    """Write the line of a request as any other."""
    level = "error" if line["status"] >= _SERVER_ERROR else "info"
    getattr(get_logger(), level)("request", **line)


def in_json(stream: BinaryIO) -> RequestLog:
    """Writes the line of a request straight to the stream: its values are numbers, checked ids and names of ours."""
    encode, write = msgspec.json.Encoder().encode, stream.write

    def write_line(line: dict[str, Any]) -> None:
        level = "error" if line["status"] >= _SERVER_ERROR else "info"
        try:  # noqa: SIM105 - no context manager on the way of every request
            write(encode({"timestamp": datetime.now(UTC), "level": level, "event": "request", **line}) + b"\n")
        except OSError:  # as _Lossy
            pass

    return write_line


def _failures_to(write: RequestLog) -> RequestLog:
    """Writes only the lines of requests that failed on our side."""

    def write_line(line: dict[str, Any]) -> None:
        if line["status"] >= _SERVER_ERROR:
            write(line)

    return write_line


def guard(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Withhold what may be content or a secret, and cut what is long; a structlog processor.

    >>> guard(None, "info", {"event": "appended", "messages": 2, "content": "hello", "api_key": "k1"})
    {'event': 'appended', 'messages': 2, 'content': '[withheld]', 'api_key': '[withheld]'}
    """
    return {name: _guarded(name, value, _DEEPEST) for name, value in event.items()}


def _guarded(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if name.rpartition("_")[2].lower() in _GUARDED_WORDS or isinstance(value, bytes | bytearray | memoryview):
        return _WITHHELD
    if isinstance(value, str | Path):
        return printable(value)
    if isinstance(value, Mapping) and depth:
        return {printable(inner): _guarded(str(inner), item, depth - 1) for inner, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_guarded(name, item, depth - 1) for item in value]
    return f"[{type(value).__name__}]"


def printable(value: object) -> str:
    """The text, its URLs masked, cut, and half surrogate pairs escaped: a path that is not UTF-8 has them."""
    text = mask_urls(str(value))
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _describe_exception(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    info = event.pop("exc_info", None)
    if info:
        error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else sys.exc_info()[1]
        if error is not None:
            event["exception"] = describe(error)
    return event


def describe(error: BaseException) -> dict[str, Any]:
    """An exception without what it quotes: types, from the last to the first cause, and the way of the last."""
    causes: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < _FRAMES_SHOWN:
        causes.append(f"{type(cause).__module__}.{type(cause).__qualname__}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    described: dict[str, Any] = {"type": causes[0], "at": _frames(error.__traceback__)}
    if causes[1:]:
        described["causes"] = causes[1:]
    if isinstance(error, Problem | OSError):
        described["detail"] = str(error)
    return described


def _frames(at: TracebackType | None) -> list[str]:
    frames = []
    while at is not None:
        code = at.tb_frame.f_code
        frames.append(f"{at.tb_frame.f_globals.get('__name__', '?')}:{at.tb_lineno} {code.co_qualname}")
        at = at.tb_next
    return frames[-_FRAMES_SHOWN:]


def _to_json(_logger: object, _method: str, event: MutableMapping[str, Any]) -> bytes:
    ordered = {
        "timestamp": event.pop("timestamp"),
        "level": event.pop("level"),
        "event": event.pop("event", ""),
        **event,
    }
    return msgspec.json.encode(ordered)


class _FromStandardLibrary(logging.Handler):
    """Passes on what libraries log, its first line: asyncio puts the repr of a task, and of its error, after that."""

    def __init__(self) -> None:
        super().__init__()
        self._log = get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        event = record.getMessage().partition("\n")[0]
        self._log.log(level, event, logger=record.name, exc_info=record.exc_info)
