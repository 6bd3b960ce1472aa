"""Read the AI SDK's UIMessages: ``{"id", "role", "parts": [{"type": "text", …}, {"type": "tool-weather", …}]}``.

ModelMessages have ``content`` in place of ``parts``, with ``tool-call`` parts, and ``tool-result`` parts in a message of the
role ``tool``. Seen in ``ai`` 4 (``tool-invocation`` parts), 5 and 6 (``tool-NAME`` and ``dynamic-tool`` parts).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sash_tools.sources.assistant_turns import AssistantTurn, Object, as_text, file_part, user_content

_PARTIAL = frozenset({"input-streaming", "partial-call"})


def to_messages(values: Sequence[Mapping[str, Any]], left_out: Counter[str]) -> list[Object]:
    """Return the chat messages; ``left_out`` counts parts without a place in them."""
    messages: list[Object] = []
    for value in values:
        role, parts = value["role"], value.get("parts") or value.get("content") or ""
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        if role == "assistant":
            messages += _assistant(parts, left_out)
            continue
        if role == "tool":
            messages += [_result(part) for part in parts if part["type"] == "tool-result"]
            continue
        texts = [part["text"] for part in parts if part["type"] == "text"]
        files = [each for part in parts for each in _file(part, left_out)] if role == "user" else []
        content = user_content(texts, files)
        if content is None:
            left_out["empty messages"] += 1
        else:
            messages.append({"role": role, "content": content})
    return messages


def _file(part: Mapping[str, Any], left_out: Counter[str]) -> list[Object]:
    if part["type"] == "image":
        return file_part(part["image"], part.get("mediaType") or "image", None, left_out)
    if part["type"] == "file":
        return file_part(
            part.get("url", part.get("data")),
            part.get("mediaType") or part.get("mimeType"),
            part.get("filename"),
            left_out,
        )
    if part["type"] not in ("text", "step-start"):
        left_out[part["type"]] += 1
    return []


def _assistant(parts: Sequence[Mapping[str, Any]], left_out: Counter[str]) -> list[Object]:
    turn = AssistantTurn()
    for part in parts:
        match part["type"]:
            case "text":
                turn.say(part["text"])
            case "step-start":
                turn.end()
            case "tool-invocation":
                _call(turn, part["toolInvocation"], part["toolInvocation"]["toolName"], left_out)
            case "dynamic-tool" | "tool-call":
                _call(turn, part, part["toolName"], left_out)
            case str(kind) if kind.startswith("tool-"):
                _call(turn, part, kind.removeprefix("tool-"), left_out)
            case kind:
                left_out[kind] += 1
    return turn.end()


def _result(part: Mapping[str, Any]) -> Object:
    output = part.get("output", part.get("result"))
    if isinstance(output, dict) and "value" in output:
        output = output["value"]
    return {"role": "tool", "tool_call_id": part["toolCallId"], "content": as_text(output)}


def _call(turn: AssistantTurn, part: Mapping[str, Any], name: str, left_out: Counter[str]) -> None:
    if part.get("state") in _PARTIAL:
        left_out["unfinished calls"] += 1
        return
    result = next((part[key] for key in ("output", "result", "errorText") if part.get(key) is not None), None)
    arguments = part.get("input", part.get("args", part.get("rawInput")))
    turn.call(part["toolCallId"], name, arguments, result)
