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
from rich.text import Text

from sash.commands.sources.conversation import SourceConversation, SourceError
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


def history_options(command: F) -> F:
    """Add the options of a command on one history: its tools, its conversation, own models, and the output."""
    options = (
        click.option("--tools", metavar="FILE", help="JSON file with tool definitions."),
        click.option("--conversation", metavar="ID", help="Id of the conversation, if FILE holds several."),
        click.option(
            "--models-file", metavar="FILE", envvar="SASH_MODELS_FILE", help="TOML file with your own models."
        ),
        shape_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


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


def preview(message: dict[str, Any]) -> Text:
    """Return the beginning of a message on one line; without content, the names of its tool calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = " ".join(str(part.get("text") or f"[{part.get('type')}]") for part in parts if isinstance(part, dict))
    if not content:
        calls = message.get("tool_calls") or ()
        text = ", ".join(f"{call['function']['name']}(…)" for call in calls if "function" in call)
    line = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return Text(line if len(line) <= _PREVIEW_CHARACTERS else line[: _PREVIEW_CHARACTERS - 1] + "…")


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


def read_conversations(name: str, order: Any = "auto", form: str | None = None) -> list[SourceConversation]:
    """Return the conversations of a file or of standard input; ``form`` names the provider of its messages.

    Raises SourceError.
    """
    from sash.commands.sources import agents_sdk, detect, provider_files  # noqa: PLC0415 - only commands that read these wait

    data = read_bytes(name)
    if form is not None:
        return provider_files.native_conversations_in(data, "standard input" if name == "-" else name, form)
    if data.startswith(agents_sdk.SQLITE_MAGIC):
        if name == "-":
            raise SourceError("a SQLite file cannot be read from standard input: name it")
        return detect.from_sqlite(Path(name))
    return detect.conversations_in(data, "standard input" if name == "-" else name, order=order)


def one_conversation(name: str, wanted: str | None) -> SourceConversation:
    """Return the conversation to work on: the one with the id ``wanted``, or the only one. Raises SourceError."""
    conversations = read_conversations(name)
    if wanted is not None:
        conversations = [each for each in conversations if each.id == wanted]
        if not conversations:
            raise SourceError(f"{name}: holds no conversation {wanted}")
    if len(conversations) > 1:
        ids = ", ".join(each.id for each in conversations[:3])
        raise SourceError(f"{name}: holds {len(conversations)} conversations ({ids}, …): choose one, --conversation ID")
    if not conversations:
        raise SourceError(f"{name}: holds no conversation")
    return conversations[0]


def tools_of(name: str) -> list[Any]:
    """Return the tool definitions of a JSON file: a list, or an object with ``tools``. Raises SourceError."""
    try:
        value = msgspec.json.decode(read_bytes(name))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{name}: not JSON: {error}") from None
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list):
        raise SourceError(f"{name}: holds no list of tool definitions")
    return tools


def own_models(path: str | None) -> Any:
    """Return the models of the user's file, with the vocabularies of SASH_TOKENIZERS. Raises SourceError."""
    folder = environ.get("SASH_TOKENIZERS", "").strip()
    try:
        return read_models(Path(path) if path else None, Path(folder) if folder else None)
    except SettingsError as error:
        raise SourceError(str(error)) from None
