"""What the log line of the request being answered will say besides: figures that only the work itself knows."""

from contextvars import ContextVar
from typing import Any

LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)
"""The line of the present request, in threads that work for it too; None where there is no request."""


def took(name: str, seconds: float) -> None:
    """Add so long to a field in milliseconds: what a request waited for, or worked at, more than once."""
    line = LINE.get()
    if line is not None:
        line[name] = round(line.get(name, 0.0) + seconds * 1000, 2)
