"""Sash stores chat conversations and returns the messages to send to a model.

A functional core and an imperative shell. Imports go in one direction::

    cli -> app -> api -> windows -> { store, core }

- ``core`` counts tokens, chooses the messages of windows and writes requests. It has no I/O and no clock.
- ``store`` keeps conversations in Redis or Valkey: ``redis`` speaks to it, ``data/layout.py`` describes what is kept.
- ``windows`` makes a window: reads the messages, calls the core, encodes the answer.
- ``api`` decodes a request, calls the others and encodes the answer.
- ``operations`` has logs, metrics, statistics and the dashboard, and background tasks.
- ``app.create_app(settings)`` makes the application. ``cli`` is the command line.

Beside this package, ``sash_client`` speaks HTTP to a service, and ``sash_tools`` has the commands on files.
"""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sash.library import WindowAnswer, count, window

__all__ = ["WindowAnswer", "count", "window"]


def __getattr__(name: str) -> Any:
    """The library's functions, imported when they are asked for: the command line starts without a tokeniser."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sash import library  # noqa: PLC0415

    return getattr(library, name)
