"""Log lines: one JSON object each, on standard output, without message text.

A line has ``timestamp`` (UTC), ``level``, ``event`` and its fields. A log lives longer than a conversation and more people
read it, so every field is guarded here:

* Texts are withheld if the field's name suggests content or a secret. Long texts are cut. Secrets in URLs are masked.
* An exception is logged as its type and traceback. Its message is logged only for a problem of Sash or an OSError: others
  quote data (msgspec the wrong value, redis-py the whole command).
* Log records of libraries are guarded in the same way, and only their first line is logged. The default level is warning,
  because an HTTP client logs each request's URL at the level info.
"""

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Literal, TextIO, cast

import msgspec
import structlog

from sash.problems import Problem
from sash.settings import mask_urls

_LONGEST_TEXT = 500  # characters: longer than any name, path or sentence of Sash
_DEEPEST = 4
_FRAMES_SHOWN = 20
_NOT_TAKEN = "Future exception was never retrieved"
_WITHHELD = "[withheld]"

# Compared with the last word of a field's name. Numbers under such a name are figures (messages=7) and are logged.
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
    format: Literal["json", "console"] = "json",  # noqa: A002 - the setting's name
    level: str = "info",
    library_level: str = "warning",
) -> None:
    """Write this process's log lines to standard output. Libraries' lines must reach both levels. May be called again."""
    # Unbuffered: each line is one write, so that the lines of several workers do not mix.
    stream = cast("BinaryIO", os.fdopen(1, "wb", buffering=0, closefd=False))
    threshold = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.ExceptionRenderer(lambda raised: describe(raised[1])),
            guard,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _to_json if format == "json" else _for_people(),
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


class _Lossy:
    """A stream that drops lines that cannot be written, so that a full disk does not end the task that logs."""

    def __init__(self, stream: IO[Any]) -> None:
        self._stream = stream

    def write(self, line: Any) -> None:
        """Write a line, or none of it, or the part that there is room for."""
        with contextlib.suppress(OSError):
            self._stream.write(line)

    def flush(self) -> None:
        """Write the buffered lines."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """A logger. The core does not log."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger())


def guard(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor that withholds texts that may be content or a secret, and cuts long ones.

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
    """The text, cut, with secrets in URLs masked and lone surrogates escaped (a path that is not UTF-8 has them)."""
    text = mask_urls(str(value))
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def log_beside(error: Exception) -> None:
    """Log an error in work beside an answer."""
    get_logger().error("something beside the answer failed", **describe(error))


class _BestEffort:
    """For work beside an answer, such as metrics: an exception is logged and suppressed, so that the answer is sent.

    A stored write must never be answered with an error.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, Exception):
            log_beside(error)
        return isinstance(error, Exception)


best_effort = _BestEffort()
"""Use ``with best_effort:`` around work that no answer depends on."""


def describe(error: BaseException) -> dict[str, Any]:
    """An exception as log fields, without its message: its type, its causes' types, and its traceback."""
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


def _for_people() -> Callable[[object, str, MutableMapping[str, Any]], str]:
    """A structlog processor that makes a line for people."""
    render = structlog.dev.ConsoleRenderer(colors=sys.stdout.isatty())

    def line(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        if "exception" in event:  # under this name the renderer takes text alone
            event["error"] = event.pop("exception")
        return render(logger, method, event)

    return line


class _FromStandardLibrary(logging.Handler):
    """Logs the first line of libraries' records: asyncio writes the repr of a task and its error on later lines.

    A name that is looked up for a connection attempt, and not found after the attempt has ended, is no line: uvloop never
    takes that error, and with a slow name server each attempt would be one. The store's condition says what is wrong.
    """

    def __init__(self) -> None:
        super().__init__()
        self._log = get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        event = record.getMessage().partition("\n")[0]
        if event == _NOT_TAKEN and record.exc_info and isinstance(record.exc_info[1], socket.gaierror):
            return
        self._log.log(level, event, logger=record.name, exc_info=record.exc_info)
