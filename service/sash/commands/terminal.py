"""Functions for commands: read a file or standard input, print tables or JSON, print errors without a traceback."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table

from sash.commands.source_error import SourceError
from sash.problems import Problem
from sash.settings import SettingsError, read_models

F = TypeVar("F", bound=Callable[..., Any])
_PREVIEW_CHARACTERS = 48


class Number(click.FloatRange):
    """A number in a range. Click's own type takes ``nan`` into every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


shape_option = click.option(
    "--json/--table", "as_json", default=None, help="What to print. [default: a table on a terminal, else JSON]"
)


def wants_json(as_json: bool | None) -> bool:  # noqa: FBT001 - click hands the flag over as it is
    """Return whether to print JSON. Without ``--json`` and ``--table``, a terminal gets a table and a pipe gets JSON."""
    return not sys.stdout.isatty() if as_json is None else as_json


def print_json(value: Any) -> None:
    """Print one JSON value, indented on a terminal."""
    encoded = value if isinstance(value, bytes) else msgspec.json.encode(value)
    click.echo(msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded)


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables, without colour on a pipe and under NO_COLOR."""
    return Console(stderr=stderr, highlight=False)


def progress_bar() -> Any:
    """Return a progress bar on standard error, which is shown on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def grid(*columns: str) -> Table:
    """Return a table without lines; a column whose name begins with ``#`` holds figures and is aligned right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.lstrip("#"), justify="right" if column.startswith("#") else "left", overflow="fold")
    return table


@contextmanager
def plain_errors(*, format_is: str = "?format=") -> Iterator[None]:
    """Turn errors that a user can cause into one line and exit status 1; it says ``format_is`` for ``?format=``."""
    try:
        yield
    except SourceError as error:
        raise click.ClickException(str(error).replace("?format=", format_is)) from None
    except Problem as problem:
        raise click.ClickException(problem.detail.replace("?format=", format_is)) from None


def read_bytes(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for ``-``. Raises SourceError."""
    if name == "-":
        if sys.stdin is None:  # Python's answer to a closed descriptor
            raise SourceError("standard input is closed")
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror}") from None


def own_models(path: str | None) -> Any:
    """Return the models of the user's file, with the vocabularies of SASH_TOKENIZERS. Raises SourceError."""
    folder = environ.get("SASH_TOKENIZERS", "").strip()
    try:
        return read_models(Path(path) if path else None, Path(folder) if folder else None)
    except SettingsError as error:
        raise SourceError(str(error)) from None
