"""Write OpenAI's Responses: a flat list of messages, calls and results; ``call_id`` joins a result with its call.

Three rules of the server are not in its schema. A call and its result are of one kind. An assistant's content list takes
only ``output_text``, which needs the id of a stored reply, so an assistant's text is sent as a plain string. ``strict`` is
true by default, unlike in chat completions, so it is always written.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sash.core.providers.responses_in import as_function
from sash.core.providers.turns import Block, Call, Outgoing, Part, Refusals, Result, Said, only_text, read, words
from sash.core.providers.whole import Whole


def render(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, refusals: Refusals
) -> dict[str, Any]:
    """Return ``instructions`` and ``input``, with ``tools`` and ``tool_choice`` when there are any."""
    history = list(read(messages, refusals))
    request: dict[str, Any] = {}
    match history:
        case [Said(role="system" | "developer") as first, *rest]:
            request["instructions"] = words(first.parts, refusals, "system")
            history = rest
    items = [item for step in history for item in _items(step, refusals)]
    functions = {step.call.id for step in history if isinstance(step, Result)}  # their results were cut or redacted
    request["input"] = [as_function(item) if _id_of_call(item) in functions else item for item in items]
    if tools:
        request["tools"] = [_tool(tool) for tool in tools]
    if tool_choice:
        request["tool_choice"] = _choice(tool_choice)
    return request


def _items(step: Said | Result | Whole, refusals: Refusals) -> Iterator[Block]:
    match step:
        case Whole():
            yield from step.messages
        case Result():
            yield {
                "type": "custom_tool_call_output" if step.call.custom else "function_call_output",
                "call_id": step.call.id,
                "output": words(step.parts, refusals, "tool"),
            }
        case Said(role="assistant"):
            if text := words(step.parts, refusals, "assistant"):
                yield {"role": "assistant", "content": text}
            yield from map(_call, step.calls)
        case Said(role="user"):
            yield {"role": "user", "content": _content(step.parts, refusals)}
        case _:
            yield {"role": step.role, "content": _content(list(only_text(step.parts, refusals, "system")), refusals)}


def _id_of_call(item: Block) -> str:
    identity = item.get("id" if item.get("type") == "mcp_approval_request" else "call_id")
    return identity if isinstance(identity, str) else ""


def _call(call: Call) -> Block:
    if call.custom:
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments}
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _content(parts: Sequence[Part], refusals: Refusals) -> str | list[Block]:
    """Return the content as a string where it is one text, else as blocks."""
    if not parts or (len(parts) == 1 and parts[0].text is not None):
        return parts[0].text or "" if parts else ""
    return list(_blocks(parts, refusals))


def _blocks(parts: Iterable[Part], refusals: Refusals) -> Iterator[Block]:
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield {"type": "input_text", "text": part.text}
            case {"type": "image_url", "image_url": str(url)}:
                yield {"type": "input_image", "image_url": url, "detail": "auto"}
            case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
                yield {"type": "input_image", "image_url": url, "detail": rest.get("detail") or "auto"}
            case {"type": "file", "file": dict(file)}:
                known = {key: file[key] for key in ("file_id", "file_data", "filename") if file.get(key)}
                yield {"type": "input_file", **known}
            case _:
                refusals.add(part.place, "has no place in the Responses API, which takes text, images and files")


def _tool(tool: dict[str, Any]) -> Block:
    """Return a function or custom tool without its wrapping member; OpenAI's own tools, such as web search, have none."""
    kind = tool.get("type")
    body = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(body, dict):
        return tool
    flat = {"type": kind, **body}
    if kind == "function":
        flat["parameters"] = body.get("parameters") or {"type": "object", "properties": {}}
        flat["strict"] = bool(body.get("strict"))
    match body.get("format"):
        case {"type": "grammar", "grammar": dict(grammar)}:
            flat["format"] = {"type": "grammar", **grammar}
    return flat


def _choice(tool_choice: Any) -> Any:
    match tool_choice:
        case {"type": "function" | "custom" as kind, **rest} if isinstance(named := rest.get(kind), dict):
            return {"type": kind, "name": named.get("name")}
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(allowed)}}:
            return {"type": "allowed_tools", "mode": mode, "tools": [_choice(tool) for tool in allowed]}
        case _:
            return tool_choice
