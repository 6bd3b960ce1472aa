"""What the log line of the request being answered will say besides: figures that only the work itself knows."""

from contextvars import ContextVar
from typing import Any

_LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)


def begin_line() -> dict[str, Any]:
    """An empty line for a new request; ``say`` adds to it, in threads that work for the request too."""
    line: dict[str, Any] = {}
    _LINE.set(line)
    return line


def took(name: str, seconds: float) -> None:
    """Add so long to a field in milliseconds: what a request waited for, or worked at, more than once."""
    line = _LINE.get()
    if line is not None:
        line[name] = round(line.get(name, 0.0) + seconds * 1000, 2)


def say(**fields: Any) -> None:
    """Add fields to the line of the present request; where there is none, nobody hears it."""
    line = _LINE.get()
    if line is not None:
        line.update(fields)
