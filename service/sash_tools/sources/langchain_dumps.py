"""Read LangChain's messages, as ``message_to_dict`` writes them: ``{"type": "ai", "data": {"content": …, …}}``.

``dumpd`` writes ``{"lc": 1, "type": "constructor", "id": […, "AIMessage"], "kwargs": {…}}``, ``model_dump`` the data alone.

``RedisChatMessageHistory`` of langchain-community keeps a JSON text for each message in a Redis list. It pushes on the left,
so the newest comes first. The class of langchain-redis keeps a JSON document for each message, with ``session_id`` and
``timestamp``, and with only those tool calls that ``additional_kwargs`` holds. (Seen in langchain-core 1.8,
langchain-community 0.4 and langchain-redis 0.2.) A state of LangGraph's has such messages in its ``messages``.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sash.commands.source_error import SourceError
from sash.core.chat.programs import LANGCHAIN, recognise
from sash_tools.sources.conversation import Step
from sash_tools.sources.values import decoded

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
_CHAT_ROLES = {"user", "assistant", "system", "developer"}
_REASONING = {"thinking", "redacted_thinking", "reasoning", "reasoning_content"}
_CALLS = {"tool_use", "tool_call", "function_call", "invalid_tool_call", "input_json_delta"}
"""Blocks that repeat ``tool_calls``."""


def is_langchain(value: Any) -> bool:
    """Return whether a JSON value is one of LangChain's messages."""
    if recognise(value) is LANGCHAIN:
        return True
    return isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("data"), dict)


def is_session(value: Mapping[str, Any]) -> bool:
    """Return whether an object is a session of a chat memory in a database of documents, with its messages."""
    held = value.get("messages")
    return isinstance(held, list) and "sessionId" in value and all(map(is_langchain, held))


def without_rows(values: list[Any]) -> list[Any]:
    """Return messages out of rows of a database, ``{"session_id": …, "message": …}``; another list as it is.

    LangChain's SQL histories and n8n's chat memory keep such rows, with the message as an object or as its JSON.
    """
    found = []
    for value in values:
        message = value.get("message") if isinstance(value, dict) and "session_id" in value else None
        if isinstance(message, str):
            try:
                message = decoded(message.encode(), "")
            except SourceError:
                return values
        if not isinstance(message, dict) or not is_langchain(message):
            return values
        found.append({**message, "session_id": value["session_id"]})
    return found


def to_steps(values: Sequence[Mapping[str, Any]], where: str) -> tuple[list[Step], Counter[str]]:
    """Return the chat messages, in the given order, and counts of left-out parts. Raises SourceError."""
    steps: list[Step] = []
    left_out: Counter[str] = Counter()
    for place, value in enumerate(values, 1):
        at = f"{where}: message {place}"
        try:
            message = _message(*_kind_and_data(value), at, left_out)
        except (AttributeError, KeyError, TypeError):
            raise SourceError(f"{at} is not as LangChain writes messages") from None
        if message is not None:
            steps.append(Step(place, message))
    return steps, left_out


def _kind_and_data(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    match value:
        case {"lc": _, "id": [*_, str(name)], "kwargs": dict(data)}:
            return name, data
        case {"data": dict(data)}:
            return value["type"], data
    return value["type"], value


def _message(kind: str, data: Mapping[str, Any], where: str, left_out: Counter[str]) -> dict[str, Any] | None:
    role = _role(kind.removesuffix("MessageChunk").removesuffix("Message").lower(), data)
    if role is None:
        if kind == "remove":
            left_out[kind] += 1
            return None
        raise SourceError(f"{where} has the type {kind!r}: no chat role is known for it")
    message: dict[str, Any] = {"role": role, "content": _content(data.get("content"), role, where, left_out)}
    if data.get("name") and role not in {"tool", "function"}:
        message["name"] = data["name"]
    if role == "tool":
        message["tool_call_id"] = data.get("tool_call_id")
    elif role == "function":
        message["name"] = data.get("name")
    elif role == "assistant":
        message |= _assistant(data)
        if not message["content"] and ("tool_calls" in message or "function_call" in message or "refusal" in message):
            message["content"] = None
    return message


def _role(kind: str, data: Mapping[str, Any]) -> str | None:
    if kind == "chat":
        role = str(data.get("role", "")).lower()
        return role if role in _CHAT_ROLES else ROLES.get(role)
    if kind == "system" and _extra(data).get("__openai_role__") == "developer":
        return "developer"
    return ROLES.get(kind)


def _extra(data: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = data.get("additional_kwargs")
    return extra if isinstance(extra, dict) else {}


def _assistant(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return calls and refusal. The provider's form of a call is preferred, because its arguments were billed."""
    extra = _extra(data)
    fields: dict[str, Any] = {}
    original = {call["id"]: call for call in extra.get("tool_calls") or () if isinstance(call, dict) and call.get("id")}
    parsed = [*(data.get("tool_calls") or ()), *(data.get("invalid_tool_calls") or ())]
    calls = [original.get(call.get("id")) or _call(call, place) for place, call in enumerate(parsed)]
    if calls or original:
        fields["tool_calls"] = calls or list(original.values())
    elif isinstance(extra.get("function_call"), dict):
        fields["function_call"] = extra["function_call"]
    if extra.get("refusal"):
        fields["refusal"] = extra["refusal"]
    return fields


def _call(call: Mapping[str, Any], place: int) -> dict[str, Any]:
    arguments = call.get("args")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    identity = call.get("id") or f"call_{place}"
    return {"id": identity, "type": "function", "function": {"name": call.get("name"), "arguments": text}}


def _content(content: Any, role: str, where: str, left_out: Counter[str]) -> Any:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise SourceError(f"{where} has content that is neither text nor a list of blocks")
    parts = list(_parts(content, where, left_out))
    if role != "user":
        for part in parts:
            if part["type"] not in {"text", "refusal"}:
                left_out[f"{part['type']} of {role}"] += 1
        parts = [part for part in parts if part["type"] in {"text", "refusal"}]
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _parts(blocks: Iterable[Any], where: str, left_out: Counter[str]) -> Iterable[dict[str, Any]]:
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            yield {"type": "text", "text": block}
        elif kind in _REASONING:
            left_out[str(kind)] += 1
        elif kind not in _CALLS:
            yield _part(block, kind, where)


def _part(block: Any, kind: Any, where: str) -> dict[str, Any]:
    match kind:
        case "text" | "output_text" | "input_text":
            return {"type": "text", "text": block.get("text", "")}
        case "refusal" | "input_audio":
            return {"type": kind, kind: block.get(kind)}
        case "image_url":
            url = block.get("image_url")
            return {"type": "image_url", "image_url": url if isinstance(url, dict) else {"url": url}}
        case "image":
            return {"type": "image_url", "image_url": {"url": _url(block, where)}}
        case "file" if isinstance(block.get("file"), dict):
            return {"type": "file", "file": block["file"]}
        case "file":
            name = block.get("filename") or "file"
            return {"type": "file", "file": {"file_data": _url(block, where), "filename": name}}
        case _:
            raise SourceError(f"{where} has a block of type {kind!r}, which a chat message cannot contain")


def _url(block: Mapping[str, Any], where: str) -> str:
    """Return the URL of a block: LangChain has three spellings, and Anthropic has ``source``."""
    given = block.get("source")
    source = given if isinstance(given, dict) else block
    media = source.get("media_type") or source.get("mime_type")
    data = source.get("base64") or source.get("data")
    if isinstance(data, str) and media:
        return f"data:{media};base64,{data}"
    if isinstance(source.get("url"), str):
        return str(source["url"])
    raise SourceError(f"{where} has an image or file without its bytes and without a URL")
