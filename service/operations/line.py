"""What the log line of the request being answered will say besides: figures that only the work itself knows."""

from contextvars import ContextVar
from typing import Any

_LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)


def begin_line() -> dict[str, Any]:
    """An empty line for a new request; ``say`` adds to it, in threads that work for the request too."""
    line: dict[str, Any] = {}
    _LINE.set(line)
    return line


def say(**fields: Any) -> None:
    """Add fields to the line of the present request; where there is none, nobody hears it."""
    line = _LINE.get()
    if line is not None:
        line.update(fields)
