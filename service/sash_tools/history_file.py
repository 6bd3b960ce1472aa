"""Functions for commands on one history: its options, its file, the beginning of a message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.text import Text

from sash.commands.source_error import SourceError
from sash.commands.terminal import read_bytes, shape_option
from sash_tools.sources.conversation import SourceConversation

F = TypeVar("F", bound=Callable[..., Any])
_PREVIEW_CHARACTERS = 48


def history_options(command: F) -> F:
    """Add the options of a command on one history: tools, which conversation of the file, own models, and the output."""
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


def read_conversations(name: str, order: Any = "auto", form: str | None = None) -> list[SourceConversation]:
    """Return the conversations of a file or of standard input; ``form`` names the provider of its messages.

    Raises SourceError.
    """
    from sash_tools.sources import agents_sdk, detect, provider_files  # noqa: PLC0415 - only commands that read these wait

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
