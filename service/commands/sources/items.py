"""Items of the Responses API as chat messages, for windows in every format."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """A chat message, and its place in the source, from which its id is made."""

    place: int
    message: dict[str, Any]


def to_steps(items: Sequence[tuple[int, Any]], where: str) -> tuple[list[Step], Counter[str]]:
    """Chat messages, and counts of left-out items and parts by type; ``items`` have their places. Raises ValueError."""
    found = _Steps([], Counter())
    for place, item in items:
        at = f"{where}: item {place}"
        try:
            found.take(place, item, at)
        except (AttributeError, KeyError, TypeError):
            raise ValueError(f"{at} is not as the Agents SDK writes items") from None
    return found.steps, found.left_out


class _Steps:
    """The messages so far, and the assistant message that calls may still join."""

    def __init__(self, steps: list[Step], left_out: Counter[str]) -> None:
        self.steps = steps
        self.left_out = left_out
        self._open: Step | None = None

    def take(self, place: int, item: Mapping[str, Any], at: str) -> None:
        match item.get("type", "message"):
            case "message":
                step = self._add(place, _message(item, at))
                self._open = step if step.message["role"] == "assistant" else None
            case "function_call" | "custom_tool_call":
                if self._open is None:
                    self._open = self._add(place, {"role": "assistant", "content": None})
                self._open.message.setdefault("tool_calls", []).append(_call(item, at))
            case "function_call_output" | "custom_tool_call_output":
                self._open = None
                output = _text_content(item.get("output"), at, self.left_out)
                self._add(place, {"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
            case kind:
                self.left_out[str(kind)] += 1

    def _add(self, place: int, message: dict[str, Any]) -> Step:
        self.steps.append(Step(place, message))
        return self.steps[-1]


def _call(item: Mapping[str, Any], at: str) -> dict[str, Any]:
    if not isinstance(item.get("call_id"), str) or not isinstance(item.get("name"), str):
        raise ValueError(f"{at} is a call without its name or call_id")  # noqa: TRY004 - the value is wrong
    if item["type"] == "custom_tool_call":
        custom = {"name": item["name"], "input": item.get("input", "")}
        return {"id": item["call_id"], "type": "custom", "custom": custom}
    function = {"name": item["name"], "arguments": item.get("arguments") or "{}"}
    return {"id": item["call_id"], "type": "function", "function": function}


def _message(item: Mapping[str, Any], at: str) -> dict[str, Any]:
    role, content = item.get("role"), item.get("content")
    if role not in {"user", "assistant", "system", "developer"}:
        raise ValueError(f"{at} has the role {role!r}")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if not isinstance(content, list):
        raise ValueError(f"{at} has no content")  # noqa: TRY004
    parts = [_part(part, at) for part in content]
    if role != "assistant":
        return {"role": role, "content": _plain(parts)}
    texts = [part["text"] for part in parts if part["type"] == "text"]
    message: dict[str, Any] = {"role": role, "content": "\n".join(texts) if texts else None}
    if refusals := [part["refusal"] for part in parts if part["type"] == "refusal"]:
        message["refusal"] = "\n".join(refusals)
    return message


def _plain(parts: list[dict[str, Any]]) -> Any:
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _text_content(output: Any, at: str, left_out: Counter[str]) -> Any:
    """A tool's output without parts that are not text, which a chat tool message cannot have."""
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        output = [output]
    if not isinstance(output, list):
        raise ValueError(f"{at} has no output")  # noqa: TRY004
    parts = [_part(part, at) for part in output]
    for part in parts:
        if part["type"] != "text":
            left_out[f"{part['type']} of tool"] += 1
    texts = [part for part in parts if part["type"] == "text"]
    return _plain(texts) if texts else ""


def _part(part: Any, at: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    match kind:
        case "input_text" | "output_text" | "text":
            return {"type": "text", "text": part.get("text", "")}
        case "refusal":
            return {"type": "refusal", "refusal": part.get("refusal", "")}
        case "input_image" if isinstance(part.get("image_url"), str):
            image = {"url": part["image_url"]}
            return {
                "type": "image_url",
                "image_url": image | ({"detail": part["detail"]} if part.get("detail") else {}),
            }
        case "input_image" | "input_file":
            file = {name: part[name] for name in ("file_id", "file_data", "filename") if part.get(name)}
            return {"type": "file", "file": file}
        case "input_audio" | "image_url" | "file":
            return {"type": kind, kind: part.get(kind)}
        case _:
            raise ValueError(f"{at} has a part of type {kind!r}, which chat messages have no place for")
