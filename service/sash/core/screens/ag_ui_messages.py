"""The messages of AG-UI 1.0: one for an entry, and one before it for a thought.

``{"id", "role", "content", "toolCalls"?}``, and results with ``toolCallId``. A thought is a message of the role
``reasoning``, and documents are an ``activity``. What a frontend sends of these, and members that only it knows, are kept in
the metadata of the entry behind them, under ``sash``::

    {"before": [message, …], "more": {…}, "calls": {id: members}, "id": …}
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.messages import ENVELOPE, Entry, wrapped
from sash.core.chat.mistakes import converted
from sash.core.law.history.lines import NO_RESULT
from sash.core.providers.reading.native import compaction_of
from sash.core.screens.media_parts import as_content, file_part
from sash.core.screens.screen_entries import chat_entry, entry_id
from sash.core.screens.screen_form import (
    KEPT,
    Object,
    ScreenForm,
    ShownEntry,
    ShownUnit,
    calls_of,
    results_of,
    text_of,
    thought_of,
    waiting_of,
)
from sash.problems import Unprocessable

_OF_CHAT: Final = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal", "native", "parts"})
_PARTS_OF_CHAT: Final = frozenset({"image_url", "input_audio", "file", "refusal"})
_KINDS: Final = {"image": "image", "audio": "audio", "video": "video", "document": "application"}
_APART: Final = ("reasoning", "activity")
_SOURCES: Final = "sources"
_OWN: Final = frozenset({"role", "content", "toolCalls", "toolCallId", "id", "metadata"})


# ---- what a screen is shown


def show(unit: ShownUnit, address: str) -> Sequence[Object]:
    """The messages of a unit."""
    if unit.is_users:
        return _users(unit.entries[0], address)
    results, waiting = results_of(unit), waiting_of(unit)
    shown: list[Object] = []
    lines: list[Object] = []
    for told in unit.entries:
        if told.role == "assistant":
            shown += lines
            lines = []
            shown += _replys(
                told, is_begun=unit.is_newest and told is unit.entries[-1] and told.status == "in_progress"
            )
            missing = [identity for identity, _, _ in calls_of(told) if identity not in results]
            if told is not waiting or told.status == "interrupted":
                lines = [
                    {"id": f"{told.id}-{n}", "role": "tool", "toolCallId": identity, "content": NO_RESULT}
                    for n, identity in enumerate(missing, 1)
                ]
        else:
            call = next(
                (identity for identity, each in results.items() if each is told), told.message.get("tool_call_id")
            )
            if call is not None:
                shown.append(_message(told, {"role": "tool", "toolCallId": call, "content": text_of(told)}))
    return shown + lines


def _message(told: ShownEntry, message: Object) -> Object:
    own = {name: each for name, each in told.metadata.items() if name != KEPT}
    metadata = {**own, KEPT: ShownUnit([told], is_newest=False).told()}
    return {"id": told.kept.get("id", told.id), **told.kept.get("more", {}), **message, "metadata": metadata}


def _users(told: ShownEntry, address: str) -> list[Object]:
    content = told.message.get("content")
    said: Any = text_of(told)
    if isinstance(content, list) and not told.is_redacted:
        said = [part if part["type"] == "text" else _source(file_part(part, address)) for part in content]
    shown = [*told.kept.get("before", ()), _message(told, {"role": "user", "content": said})]
    if told.documents:
        documents = [{"id": identity, "title": title} for identity, title in told.documents]
        name = f"{told.id}-{_SOURCES}"
        content = {"documents": documents}
        shown.append({"id": name, "role": "activity", "activityType": _SOURCES, "content": content})
    return shown


def _source(part: Object) -> Object:
    """A part with a picture, a sound or a file."""
    if part["type"] != "file":
        return {"type": "text", "text": ""}
    kind, url = part["mediaType"], part["url"]
    name = next((name for name, begins in _KINDS.items() if kind.startswith(f"{begins}/")), "document")
    head, comma, data = url.partition(";base64,")
    source: Object = {"type": "url", "value": url, "mimeType": kind}
    if head.startswith("data:") and comma:
        source = {"type": "data", "value": data, "mimeType": kind}
    return {"type": name, "source": source}


def _replys(told: ShownEntry, *, is_begun: bool) -> list[Object]:
    kept = told.kept
    shown: list[Object] = [*kept.get("before", ())]
    if thought := thought_of(told):
        shown.append({"id": f"{told.id}-r", "role": "reasoning", "content": thought})
    if compaction_of(told.message) is not None:
        return shown
    more = kept.get("calls", {})
    calls = [
        {
            "id": identity,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
            **more.get(identity, {}),
        }
        for identity, name, arguments in calls_of(told)
    ]
    said = text_of(told)
    if said or calls or is_begun or told.is_redacted:
        message: Object = {"role": "assistant", "content": said}
        shown.append(_message(told, message | ({"toolCalls": calls} if calls else {})))
    return shown


# ---- what a screen sends


class _Function(msgspec.Struct):
    name: str
    arguments: str = "{}"


class _ToolCall(msgspec.Struct):
    id: str
    function: _Function


class _Result(msgspec.Struct, rename={"call": "toolCallId"}):
    call: str
    content: str = ""


def stands_before(value: Object) -> bool:
    """Whether a message is a thought or an activity, which is kept with the message behind it."""
    message = value.get("message", value)
    return isinstance(message, dict) and message.get("role") in _APART


def read(value: Object, pointer: str) -> Sequence[Entry]:
    """Read a message, alone or in an entry, or a chat message. None is a line in place of a result."""
    within = value.get("message", value)
    if not isinstance(within, dict) or _is_chat(within):
        return [chat_entry(value, pointer)]
    given = value if "message" in value else wrapped(value, ENVELOPE)
    pointer = f"{pointer}/message" if "message" in value else pointer
    role, kept = within["role"], {name: each for name, each in within.items() if name not in _OWN | ENVELOPE}
    beside: Object = {"more": kept} if kept else {}
    message: Object = {"role": role}
    if role == "user":
        message["content"] = _content(within.get("content"), pointer)
    elif role == "tool":
        result = converted(within, _Result, pointer)
        if result.content == NO_RESULT:
            return []
        message |= {"tool_call_id": result.call, "content": result.content}
    else:
        message["content"] = within.get("content") or ("" if not within.get("toolCalls") else None)
        if calls := within.get("toolCalls"):
            message["tool_calls"] = _calls(calls, beside, f"{pointer}/toolCalls")
    named = given.get("id", within.get("id"))
    identity = entry_id(named)
    if identity is not None and identity != named:
        beside["id"] = named
    metadata = given.get("metadata", within.get("metadata"))
    own = {name: each for name, each in metadata.items() if name != KEPT} if isinstance(metadata, dict) else {}
    facts = {name: each for name, each in given.items() if name not in ("id", "metadata", "message")}
    entry: Entry = converted({**facts, "message": {}}, Entry, pointer)
    entry.message, entry.id = message, identity
    entry.metadata = {**own, **({KEPT: beside} if beside else {})} or None
    return [entry]


def _is_chat(message: Object) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    is_of_chat = any(isinstance(part, dict) and part.get("type") in _PARTS_OF_CHAT for part in parts)
    roles = ("user", "assistant", "tool")
    is_result = message.get("role") == "tool" and "toolCallId" not in message
    is_list = message.get("role") != "user" and content is not None and not isinstance(content, str)
    return is_of_chat or is_list or is_result or message.get("role") not in roles or not _OF_CHAT.isdisjoint(message)


def _content(content: Any, pointer: str) -> Any:
    if not isinstance(content, list):
        return "" if content is None else content
    found: list[Object] = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            found.append({"type": "text", "text": part["text"]})
        elif kind in _KINDS or kind == "binary":
            found.append(_medium(part, f"{pointer}/content/{place}"))
        else:
            what = "A part is a text, or an image, audio, video or document with its source"
            raise Unprocessable.at(f"#{pointer}/content/{place}", what)
    return found


def _medium(part: Object, pointer: str) -> Object:
    source = part.get("source", part)
    value = source.get("value", source.get("data", source.get("url"))) if isinstance(source, dict) else None
    if not isinstance(value, str):
        raise Unprocessable.at(f"#{pointer}/source", "The part has no source with a value")
    kind = source.get("mimeType") or f"{_KINDS.get(part['type'], 'application')}/*"
    is_data = source.get("type") == "data" or "data" in source
    url = f"data:{kind};base64,{value}" if is_data and not value.startswith("data:") else value
    name = {"filename": part["filename"]} if isinstance(part.get("filename"), str) else {}
    return as_content({"mediaType": str(kind), "url": url, **name})


def _calls(calls: Any, beside: Object, pointer: str) -> list[Object]:
    found = []
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        read_call = converted(call, _ToolCall, f"{pointer}/{place}")
        function = {"name": read_call.function.name, "arguments": read_call.function.arguments}
        found.append({"id": read_call.id, "type": "function", "function": function})
        if more := {name: each for name, each in call.items() if name not in ("id", "type", "function")}:
            beside.setdefault("calls", {})[read_call.id] = more
    return found


AG_UI: Final = ScreenForm(name="ag-ui", show=show, read=read, stands_before=stands_before)
