"""``sash window``: build the window of a history in a file, without a server and a store."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from sash.commands.source_error import SourceError
from sash.commands.terminal import Number, console, grid, own_models, plain_errors, print_json, wants_json
from sash.core.law.records.parameters import WindowQuery
from sash_tools.history_file import history_options, one_conversation, preview, tools_of
from sash_tools.sources.conversation import SourceConversation

_NOT_SENT = {
    "id", "owner", "metadata", "ttl_seconds", "version", "etag", "created_at", "updated_at", "expires_at", "messages",
    "tokens",
}  # fmt: skip
"""Members of a stored conversation that do not change its window."""


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each parameter of a window, as ``core/law/records/parameters.py`` declares it."""
    for field in reversed(msgspec.structs.fields(WindowQuery)):
        command = _option(field)(command)
    return command


def _option(field: msgspec.structs.FieldInfo) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    schema = msgspec.json.schema(field.type)
    if {"type": "null"} in schema.get("anyOf", ()):
        schema = {**next(each for each in schema["anyOf"] if each != {"type": "null"}), **schema}
    flag = f"--{field.encode_name.replace('_', '-')}"
    text = schema["description"].replace("`", "")
    if schema.get("type") == "boolean":
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=text)
    if words := [
        word for each in schema.get("anyOf", ()) for word in each.get("enum", ())
    ]:  # the flag alone, or with a word after it
        choice = click.Choice(["true", "false", *words])
        return click.option(flag, is_flag=False, flag_value="true", type=choice, callback=_said, help=text)
    if field.default is not None:
        text += f" [default: {field.default}]"
    return click.option(flag, type=_type_of(schema), help=text)


def _said(_: click.Context, __: click.Parameter, word: str | None) -> bool | str | None:
    return {"true": True, "false": False}.get(word or "", word)


def _type_of(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return click.Choice(schema["enum"])
    low, high = schema.get("minimum"), schema.get("maximum")
    match schema.get("type"):
        case "integer":
            return click.IntRange(low, high)
        case "number":
            return Number(low, high)
        case _:
            return str


@click.command()
@click.argument("file")
@window_options
@click.option("--system", metavar="TEXT", help="System prompt, in place of the file's.")
@history_options
def window(
    file: str,
    *,
    tools: str | None,
    conversation: str | None,
    models_file: str | None,
    as_json: bool | None,
    **parameters: Any,
) -> None:
    """Build the window of FILE, - for standard input.

    FILE holds a history as JSON: a list of chat messages, an object with "messages" (a POST /window body), or a message
    or entry a line. The output is the answer of POST /window; its "request" is ready to send.
    """
    from sash.windows.stateless import window_of_request  # noqa: PLC0415 - help needs no tokeniser

    with plain_errors(format_is="POST /window?format="):
        source = one_conversation(file, conversation)
        given = {name: value for name, value in parameters.items() if value is not None}
        if tools is not None:
            given["tools"] = tools_of(tools)
        wanted = _request(file, source, given)
        if wanted.model is None:
            raise click.UsageError("Name a model: --model gpt-4o-mini.")
        built = window_of_request(wanted, own_models(models_file))[0].body
    if wants_json(as_json):
        print_json(built)
    else:
        _print(msgspec.json.decode(built), source)


def _request(file: str, source: SourceConversation, given: dict[str, Any]) -> Any:
    """Return the body of POST /window: the file's settings and parameters; options take precedence."""
    from sash.windows.request import WindowRequest  # noqa: PLC0415

    settings = {name: value for name, value in source.settings.items() if name not in _NOT_SENT}
    if isinstance(settings.get("summary"), dict):  # the conversation's summary, not the window's parameter
        del settings["summary"]
    unknown = sorted(settings.keys() - set(WindowRequest.__struct_fields__))
    if unknown:
        raise SourceError(f"{file}: a window has no parameter {unknown[0]!r}")
    try:
        return msgspec.convert(settings | given | {"messages": source.entries}, WindowRequest)
    except msgspec.ValidationError as error:
        raise SourceError(f"{file}: {error}") from None


def _print(built: dict[str, Any], source: SourceConversation) -> None:
    exact = "exact" if built["exact"] else "an estimate, on the high side"
    out = console()
    out.print(f"{built['model']}: {built['encoding']}, {exact}; {built['format']} format\n")
    out.print(_figures(built))
    kept, dropped, documents = built["kept"], built["dropped"], built["grounding"]
    out.print()
    span = f" (seq {kept['first_seq']} to {kept['last_seq']})" if kept["messages"] else ""
    out.print(f"kept       {kept['messages']:,} messages{span}; {documents['documents_kept']:,} documents")
    out.print(f"left out   {dropped['messages']:,} messages of {dropped['tokens']:,} tokens; documents of "
              f"{dropped['grounding_messages']:,} messages, {dropped['grounding_tokens']:,} tokens")  # fmt: skip
    out.print(f"stopped by {built['stop_reason']}")
    if built.get("explain") is not None:
        out.print()
        out.print(_explained(built["explain"], source))


def _figures(built: dict[str, Any]) -> Any:
    table = grid("", "#tokens")
    for name, tokens in built["tokens"].items():
        if tokens and name != "total":
            table.add_row(name.replace("_", " "), f"{tokens:,}")
    total, budget = built["tokens"]["total"], built["budget"]
    table.add_row("total", f"{total:,}", style="bold")
    table.add_row("budget", f"{budget:,}")
    table.add_row("free", f"{budget - total:,}")
    return table


def _explained(lines: list[dict[str, Any]], source: SourceConversation) -> Any:
    messages = list({entry["id"]: entry["message"] for entry in source.entries}.values())  # an id is stored once
    table = grid("#seq", "role", "#tokens", "kept", "why", "content")
    for line in lines:
        kept = "yes" if line["kept"] else "no"
        style = None if line["kept"] else "dim"
        content = preview(messages[line["seq"] - 1])
        table.add_row(str(line["seq"]), line["role"], f"{line['tokens']:,}", kept, line["reason"], content, style=style)
    return table
