"""``sash count``: count the tokens of messages or a text for a model, without a server."""

from typing import TYPE_CHECKING, Any

import click
import msgspec

from sash.commands.source_error import SourceError
from sash.commands.terminal import console, grid, own_models, plain_errors, print_json, read_bytes, wants_json
from sash_tools.history_file import history_options, one_conversation, preview, tools_of

if TYPE_CHECKING:
    from sash.windows.counted import Count

_TAKEN = ("tools", "tool_choice", "functions", "function_call", "response_format", "prediction")


@click.command()
@click.argument("file")
@click.option("--model", help="Model to count for. [default: the file's model]")
@click.option("--text", is_flag=True, help="Count FILE as one plain text.")
@history_options
def count(
    file: str,
    *,
    model: str | None,
    text: bool,
    tools: str | None,
    conversation: str | None,
    models_file: str | None,
    as_json: bool | None,
) -> None:
    """Count the tokens of FILE, - for standard input.

    FILE holds chat messages as JSON: a list, an object with "messages" and perhaps "tools", or a message a line. A
    system prompt and few-shots in it count as messages; documents do not count. The total predicts the provider's
    prompt_tokens.
    """
    from sash.core.chat.mistakes import invalid  # noqa: PLC0415
    from sash.core.counts.models.models import countable_model  # noqa: PLC0415
    from sash.windows.counted import CountRequest, count_of  # noqa: PLC0415

    with plain_errors(format_is="POST /count?format="):
        if text:
            request: dict[str, Any] = {"text": _decoded(file)}
        else:
            source = one_conversation(file, conversation)
            model = model or source.settings.get("model")
            request = {key: source.settings[key] for key in _TAKEN if key in source.settings}
            request["messages"] = _messages(source.settings, source.entries)
        if tools is not None:
            request["tools"] = tools_of(tools)
        if model is None:
            raise click.UsageError("Name a model: --model gpt-4o-mini.")
        try:
            wanted = msgspec.convert(request | {"model": model}, CountRequest)
        except msgspec.ValidationError:
            wrong = invalid("", of=CountRequest, value=request | {"model": model})
            raise SourceError(f"{file}: {wrong.detail}") from None
        counted = count_of(wanted, countable_model(model, own_models(models_file)))
    if wants_json(as_json):
        print_json(counted)
    else:
        _print(counted, wanted.messages or [])


def _decoded(file: str) -> str:
    try:
        return read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"{file}: not UTF-8 at byte {error.start}") from None


def _messages(settings: dict[str, Any], entries: list[dict[str, Any]]) -> list[Any]:
    system = [{"role": "system", "content": settings["system"]}] if settings.get("system") else []
    return [*system, *(settings.get("few_shots") or ()), *(entry["message"] for entry in entries)]


def _print(counted: "Count", messages: list[dict[str, Any]]) -> None:
    exact = "exact" if counted.exact else "an estimate, on the high side"
    out = console()
    out.print(f"{counted.model}: {counted.encoding}, {exact}\n")
    if counted.text is not None:
        out.print(f"{counted.text:,} tokens")
        return
    table = grid("#no.", "role", "#tokens", "content")
    for place, (message, tokens) in enumerate(zip(messages, counted.messages, strict=True), 1):
        table.add_row(str(place), str(message["role"]), f"{tokens:,}", preview(message))
    table.add_row("", "tools", f"{counted.tools:,}", "")
    table.add_row("", "priming", f"{counted.priming:,}", "")
    table.add_row("", "total", f"{counted.tokens:,}", "", style="bold")
    out.print(table)
