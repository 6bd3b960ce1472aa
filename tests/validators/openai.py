"""What OpenAI's chat completions answer 400 to, written from its reference, its SDK's types and reported answers.

It never calls the code that writes requests. What hosts and other makers refuse is judged by
``served``. The reference is developers.openai.com/api/reference/chat-completions.
"""

import re
from collections.abc import Iterator
from typing import Any

from validators import served

ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
}
"""Types of content parts by role. 'image_url is only supported by user messages' is the answer to others."""
PICTURES = {"png", "jpeg", "jpg", "gif", "webp"}
"""'Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp']'."""
SOUNDS = {"wav", "mp3"}
"""The SDK's values of an input_audio's format."""
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARTICIPANT = re.compile(r"[^\s<|\\/>]{1,64}")
"""'Expected a string that matches the pattern ^[^\\s<|\\\\/>]+$', at most 64."""
LONGEST_ID = 40
"""'string too long. Expected a string with maximum length 40': dify 28987, autogen 6377, agno 5382."""
MEMBERS = {
    "system": {"content", "name"},
    "developer": {"content", "name"},
    "user": {"content", "name"},
    "assistant": {"content", "name", "refusal", "audio", "tool_calls", "function_call", "annotations"},
    "tool": {"content", "tool_call_id", "name"},
    "function": {"content", "name"},
}
"""Members by role. Replies have ``annotations``, and OpenAI's guides append a reply as it came (guides/function-calling)."""


def refused(request: dict[str, Any], model: str) -> list[str]:
    """Return why OpenAI would refuse this request; an empty list if it takes it."""
    is_openais = model.rpartition("/")[2].startswith(("gpt-", "o1", "o3", "o4", "chatgpt")) and "oss" not in model
    messages = request["messages"]
    found = [
        f"messages[{i}]: {why}" for i, each in enumerate(messages) for why in _message(each, is_openais=is_openais)
    ]
    tools = [tool[tool["type"]]["name"] for tool in request.get("tools") or ()]
    if is_openais and not all(map(FUNCTION_NAME.fullmatch, tools)):
        found.append("Invalid 'tools[0].function.name': string does not match pattern")
    return [*found, *_pairs(messages, is_openais=is_openais), *served.refused("openai", request, model)]


def _message(message: dict[str, Any], *, is_openais: bool) -> Iterator[str]:
    role = message.get("role")
    if role not in ROLES:
        yield f"unknown role {role!r}"
        return
    if is_openais and (unknown := message.keys() - MEMBERS[role] - {"role"}):
        yield f"unknown members {sorted(unknown)}"
    yield from _content(message, role, is_openais=is_openais)
    if "name" in message:
        yield from _name(message["name"], role, is_openais=is_openais)
    if role == "assistant":
        yield from _calls(message, is_openais=is_openais)
    if role == "tool":
        yield from _id(message.get("tool_call_id"), is_openais=is_openais)


def _content(message: dict[str, Any], role: str, *, is_openais: bool) -> Iterator[str]:
    content = message.get("content")
    if content is None:
        has_more = any(message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio"))
        if role != "function" and not (role == "assistant" and has_more):
            yield "content is null"
    elif isinstance(content, list):
        if not content:
            yield "content is an empty list"
        for part in content:
            if is_openais or not str(part.get("type")).endswith("_url"):
                yield from _part(part, role)
            yield from _medium(part, is_openais=is_openais)
    elif not isinstance(content, str):
        yield "content is no string"


def _part(part: Any, role: str) -> Iterator[str]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in PARTS.get(role, set()):
        yield f"a part {kind!r} in a message of {role}"
    elif kind == "image_url":
        url = part["image_url"]
        if not isinstance(url, str) and not isinstance(url.get("url"), str):
            yield "an image without url"
    elif not isinstance(part.get(kind), dict if kind in ("input_audio", "file") else str):
        yield f"a part {kind!r} without {kind}"


def _medium(part: Any, *, is_openais: bool) -> Iterator[str]:
    """'Invalid image URL', 'You uploaded an unsupported image', 'Invalid value: 'm4a''. Other servers take other types."""
    if part.get("type") == "input_audio":
        sound = part["input_audio"]
        if not sound.get("data") or (is_openais and sound.get("format") not in SOUNDS):
            yield f"a sound {sound.get('format')!r} of {len(sound.get('data') or '')} characters"
    elif part.get("type") == "image_url":
        held = part["image_url"]
        url = str(held if isinstance(held, str) else held.get("url"))
        head, _, data = url.partition(",")
        if not url or (head.startswith("data:") and not data):
            yield "an image that is empty"
        elif is_openais and not url.startswith(("https://", "http://")):
            kind = head.removeprefix("data:image/").partition(";")[0]
            if kind not in PICTURES or head != f"data:image/{kind};base64" or data.split() != [data]:
                yield f"an image {head[:40]!r}"


def _name(name: Any, role: str, *, is_openais: bool) -> Iterator[str]:
    fits = FUNCTION_NAME if role == "function" else PARTICIPANT
    if not isinstance(name, str) or not name or (is_openais and not fits.fullmatch(name)):
        yield f"name {name!r}"


def _calls(message: dict[str, Any], *, is_openais: bool) -> Iterator[str]:
    if isinstance(audio := message.get("audio"), dict) and audio.keys() != {"id"}:
        yield f"audio with {sorted(audio)}"
    if legacy := message.get("function_call"):
        yield from _called(legacy, "arguments", is_openais=is_openais)
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        yield "tool_calls is null or empty"
        return
    for call in calls:
        kind = call.get("type")
        if kind not in ("function", "custom"):
            yield f"a call of type {kind!r}"
            continue
        yield from _id(call.get("id"), is_openais=is_openais)
        yield from _called(call.get(kind) or {}, "arguments" if kind == "function" else "input", is_openais=is_openais)
    if len({call.get("id") for call in calls}) < len(calls):
        yield "two calls with one id"


def _called(called: dict[str, Any], said: str, *, is_openais: bool) -> Iterator[str]:
    name = called.get("name")
    if not isinstance(name, str) or not name or (is_openais and not FUNCTION_NAME.fullmatch(name)):
        yield f"function name {name!r}"
    if not isinstance(called.get(said), str):
        yield f"{said} is no string"


def _id(identity: Any, *, is_openais: bool) -> Iterator[str]:
    if not isinstance(identity, str) or not identity or (is_openais and len(identity) > LONGEST_ID):
        yield f"call id {identity!r}"


def _pairs(messages: list[dict[str, Any]], *, is_openais: bool) -> Iterator[str]:
    """'An assistant message with tool_calls must be followed by tool messages responding to each tool_call_id', and the
    other way round. Calls at the end are still waiting, elsewhere also where each is a message."""
    waiting: set[str] = set()
    end = len(messages)
    while end and not is_openais and messages[end - 1].get("tool_calls"):
        end -= 1
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"messages[{index}]: a result without its call"
            waiting.discard(str(message.get("tool_call_id")))
            continue
        if waiting and index <= end:
            yield f"messages[{index}]: calls without results before it"
        waiting = {str(call.get("id")) for call in message.get("tool_calls") or ()}
