"""Write Gemini's contents: turns of parts; the turn after calls has as many function responses as there were calls.

Keys are in snake case, as in the SDK; the server reads snake case and camel case. Parameters go as JSON Schema, because the
older member ``parameters`` takes a dialect of OpenAPI without many members of ordinary schemas.

Gemini 3 requires its ``thought_signature`` with each call of the running turn. Google's OpenAI endpoint gives it in
``extra_content.google.thought_signature``; where a client keeps that member, the signature is sent. A missing signature is
not replaced: the replacement that Google accepts depends on the model, which this module does not know.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from sash.core.providers.gemini_in import member
from sash.core.providers.media import Media, guess_type, is_web, read_data_url, read_file
from sash.core.providers.tools import Choice, Function, read_choice, read_functions
from sash.core.providers.turns import (
    NOTHING_SAID,
    Block,
    Call,
    Outgoing,
    Part,
    Refusals,
    Result,
    Said,
    only_text,
    read,
    words,
)
from sash.core.providers.whole import Whole, in_turns

_MODES: Final = {"none": "NONE", "auto": "AUTO", "required": "ANY"}


def render(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, refusals: Refusals
) -> dict[str, Any]:
    """Return ``contents``, and ``config`` with the system text and the tools; callers may add settings to ``config``."""
    history = list(read(messages, refusals))
    system = [step for step in history if isinstance(step, Said) and step.is_system]
    said = (step for step in history if not (isinstance(step, Said) and step.is_system))
    turns = [_turn(step, refusals) for step in _in_call_order(said)]
    config: dict[str, Any] = {}
    if text := "\n\n".join(filter(None, (words(said.parts, refusals, "system") for said in system))):
        config["system_instruction"] = text
    if functions := list(read_functions(tools, refusals)):
        config["tools"] = [{"function_declarations": [_declaration(function) for function in functions]}]
    if choice := read_choice(tool_choice, refusals):
        config["tool_config"] = {"function_calling_config": _calling(choice)}
    return {"contents": _joined(in_turns(turns, {"text": NOTHING_SAID}, "parts")), "config": config}


def _joined(contents: Iterable[Block]) -> list[Block]:
    """The contents; those that Gemini accepts only as one content are joined."""
    joined: list[Block] = []
    for content in contents:
        if joined and _goes_on(joined[-1], content):
            joined[-1] = {**joined[-1], "parts": [*joined[-1]["parts"], *content["parts"]]}
        else:
            joined.append(content)
    return joined


def _goes_on(before: Block, content: Block) -> bool:
    """Whether results came one by one, or calls follow the model's text from a turn whose question was left out.

    Gemini answers 400 to fewer results than the turn before has calls, and to calls that follow the model's words.
    """
    if {**before, "parts": 0} != {**content, "parts": 0}:  # another role, or other members
        return False
    if _has(before, "function_response") and _has(content, "function_response"):
        return True
    return content.get("role") == "model" and _has(before, "text") and _has(content, "function_call")


def _has(content: Block, kind: str) -> bool:
    parts = content.get("parts")
    return isinstance(parts, list) and any(member(part, kind) is not None for part in parts)


def _turn(step: Said | Result | Whole, refusals: Refusals) -> tuple[str, list[Block]] | Whole:
    match step:
        case Whole():
            return step
        case Result():
            return "user", [_result(step, refusals)]
        case Said(role="assistant"):
            texts = [{"text": part.text} for part in only_text(step.parts, refusals, "assistant")]
            return "model", texts + [_call(call) for call in step.calls]
        case _:
            return "user", list(_parts(step.parts, refusals)) or [{"text": NOTHING_SAID}]


def _call(call: Call) -> Block:
    part: Block = {"function_call": {"id": call.id, "name": call.name, "args": call.arguments_object()}}
    return part | ({"thought_signature": call.signature} if call.signature else {})


def _result(result: Result, refusals: Refusals) -> Block:
    """Return a result with its text under ``output``, the key that Gemini looks for."""
    response = {"output": words(result.parts, refusals, "tool")}
    made = result.call.as_it_came and result.call.id.startswith(f"call_{result.call.name}")  # the call had no id
    named = {} if made else {"id": result.call.id}
    return {"function_response": {**named, "name": result.call.name, "response": response}}


def _in_call_order(steps: Iterable[Said | Result | Whole]) -> Iterator[Said | Result | Whole]:
    """Yield the steps with results in the order of their calls, because models before Gemini 3 pair them by order."""
    for _, run in groupby(steps, key=lambda step: isinstance(step, Result)):
        yield from sorted(run, key=lambda step: step.call.order if isinstance(step, Result) else 0)


def _parts(parts: Iterable[Part], refusals: Refusals) -> Iterator[Block]:
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield {"text": part.text}
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                if is_web(url) or url.startswith("gs://"):
                    yield _by_uri(url)
                else:
                    yield from _inline(read_data_url(url, part.place, refusals))
            case {"type": "file", "file": {"file_id": str(uri)}} if "://" in uri:  # as Google's Files API names them
                yield _by_uri(uri)
            case {"type": "file", "file": dict(file)}:
                yield from _inline(read_file(file, part.place, refusals))
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
                yield from _inline(read_data_url(f"data:audio/{form};base64,{data}", part.place, refusals))
            case _:
                refusals.add(part.place, "has no place in Gemini's contents, which take text, images, files and audio")


def _by_uri(uri: str) -> Block:
    media_type = guess_type(uri)
    return {"file_data": {"file_uri": uri} | ({"mime_type": media_type} if media_type else {})}


def _inline(media: Media | None) -> Iterator[Block]:
    if media:
        yield {"inline_data": {"mime_type": media.media_type, "data": media.data}}


def _declaration(function: Function) -> Block:
    declaration: Block = {"name": function.name, "parameters_json_schema": function.schema}
    return declaration | ({"description": function.description} if function.description is not None else {})


def _calling(choice: Choice) -> Block:
    """Return the calling mode; names need ``ANY``, or ``VALIDATED`` where the model may also answer with text."""
    if choice.names is None:
        return {"mode": _MODES[choice.mode]}
    return {"mode": "ANY" if choice.mode == "required" else "VALIDATED", "allowed_function_names": choice.names}
