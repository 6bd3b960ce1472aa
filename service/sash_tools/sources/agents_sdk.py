"""Read sessions of the OpenAI Agents SDK: items of the Responses API, one in each row or list element, oldest first.

``SQLiteSession`` keeps them in the table ``agent_messages`` (id, session_id, message_data), ``RedisSession`` in the list
``agents:session:{id}:messages``. Calls become the tool calls of one assistant message, which has the text right before
them; reasoning between calls does not separate them. The SDK sends them to chat completions in the same way. (Seen in
openai-agents 0.24.)
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sash.commands.source_error import SourceError
from sash_tools.sources.conversation import Step

SQLITE_MAGIC = b"SQLite format 3\0"
_PART_TYPES = ("input_text", "output_text", "input_image", "input_file")  # not a set: a type in a file may be a list
_ITEM = re.compile(
    r"reasoning|compaction|item_reference|\w+_(?:call|output|list_tools|approval_request|approval_response)"
)
_ROWS = "SELECT session_id, id, message_data FROM agent_messages ORDER BY session_id, id"


def is_item(value: Any) -> bool:
    """Return whether a JSON value is an item that is no chat message, or a message with parts of the Responses API."""
    if not isinstance(value, dict):
        return False
    if "role" not in value:
        return isinstance(value.get("type"), str) and _ITEM.fullmatch(value["type"]) is not None
    content = value.get("content")
    parts = content if isinstance(content, list) else []
    return value.get("type") == "message" or any(isinstance(p, dict) and p.get("type") in _PART_TYPES for p in parts)


def read_sqlite(path: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Return the rows of every session of a file, in order: the row's number and the item's JSON. Raises SourceError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(_ROWS).fetchall()
    except sqlite3.Error as error:
        raise SourceError(f"{path}: not a file of the Agents SDK's SQLiteSession: {error}") from None
    sessions: dict[str, list[tuple[int, bytes]]] = {}
    for session, row, data in rows:
        sessions.setdefault(str(session), []).append((row, data if isinstance(data, bytes) else str(data).encode()))
    return sessions


def to_steps(items: Sequence[tuple[int, Any]], where: str) -> tuple[list[Step], Counter[str]]:
    """Return chat messages, and counts of left-out items and parts by type; ``items`` have places. Raises SourceError."""
    found = _Steps()
    for place, item in items:
        at = f"{where}: item {place}"
        try:
            found.take(place, item, at)
        except (AttributeError, KeyError, TypeError):
            raise SourceError(f"{at} is not as the Agents SDK writes items") from None
    return found.steps, found.left_out


class _Steps:
    """The messages so far, and the assistant message that calls may still join."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.left_out: Counter[str] = Counter()
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
        raise SourceError(f"{at} is a call without its name or call_id")
    if item["type"] == "custom_tool_call":
        custom = {"name": item["name"], "input": item.get("input", "")}
        return {"id": item["call_id"], "type": "custom", "custom": custom}
    function = {"name": item["name"], "arguments": item.get("arguments") or "{}"}
    return {"id": item["call_id"], "type": "function", "function": function}


def _message(item: Mapping[str, Any], at: str) -> dict[str, Any]:
    role, content = item.get("role"), item.get("content")
    if role not in {"user", "assistant", "system", "developer"}:
        raise SourceError(f"{at} has the role {role!r}")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if not isinstance(content, list):
        raise SourceError(f"{at} has no content")
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
        raise SourceError(f"{at} has no output")
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
            raise SourceError(f"{at} has a part of type {kind!r}, which a chat message cannot contain")
