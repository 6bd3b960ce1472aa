"""Items of the Responses API and entries: there and back without loss.

An entry's chat message is what windows are made of; the items it was made from are kept in its metadata, where the
message alone would not give them back: ids, statuses, annotations, reasoning, calls of hosted tools.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from service.commands.sources.agents import to_steps
from service.commands.sources.conversation import SourceError

METADATA = "agents_items"
_IN_MESSAGES = {
    "message",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
}


def to_entries(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Entries for items, in order, the items' own order in them. Raises ValueError for what no chat message can say.

    Reasoning and hosted tools' calls go with the message after them; items that are nothing else become an empty message.
    """
    try:
        steps, _ = to_steps(list(enumerate(items)), "session")
    except SourceError as error:
        raise ValueError(str(error)) from None
    if not steps:
        return [_entry({"role": "assistant", "content": ""}, items)] if items else []
    starts = [0, *(_start(items, step.place) for step in steps[1:]), len(items)]
    runs = [items[start:end] for start, end in pairwise(starts)]
    return [_entry(step.message, run) for step, run in zip(steps, runs, strict=True)]


def to_items(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items that an entry was made from; for one that another client appended, those that say the same."""
    kept = (entry.get("metadata") or {}).get(METADATA)
    return list(kept) if isinstance(kept, list) else list(_from_message(entry["message"]))


def _start(items: Sequence[Mapping[str, Any]], place: int) -> int:
    """Where the items of the message at ``place`` begin: with what led to it."""
    while place and items[place - 1].get("type", "message") not in _IN_MESSAGES:
        place -= 1
    return place


def _entry(message: dict[str, Any], items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    kept = [dict(item) for item in items]
    if list(_from_message(message)) == kept:
        return {"message": message}
    return {"message": message, "metadata": {METADATA: kept}}


def _from_message(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message.get("content")
    match message["role"]:
        case "tool":
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": text}
        case "assistant":
            text = content if isinstance(content, str) else "".join(_texts(content or ()))
            if text := text or message.get("refusal") or "":
                yield {"role": "assistant", "content": text}
            yield from map(_call, message.get("tool_calls") or ())
        case role:
            yield {"role": role, "content": content if isinstance(content, str) else list(map(_part, content or ()))}


def _texts(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (part.get("text") or part.get("refusal") or "" for part in parts)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    if call["type"] == "custom":
        custom = call["custom"]
        return {"type": "custom_tool_call", "call_id": call["id"], "name": custom["name"], "input": custom["input"]}
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": text}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": str(url)}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "image_url", "image_url": {"url": url, **more}}:
            return {"type": "input_image", "image_url": url, "detail": more.get("detail") or "auto"}
        case {"type": "file", "file": file}:
            return {"type": "input_file", **file}
        case _:
            return dict(part)
