"""What Ollama's /api/chat refuses with 400, and what it would pair or read wrongly.

Sources: ``ollama`` 0.6.3 for Python (the types of messages, which its client validates), github.com/ollama/ollama
(api/types.go, docs/api.md), and the error messages of public reports, which are quoted. A result answers by its
tool's name and its place, as it has no id (ollama/ollama 11417).
A request may end with calls that wait for results, of which some may be there.
"""

import base64
import binascii
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ollama import Message, Tool
from pydantic import ValidationError

Object = dict[str, Any]

_KNOWN = {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}
_ROLES = ("system", "user", "assistant", "tool")


def refused(request: Object, model: str) -> list[str]:
    """Return why the server refuses this request, or reads it wrongly; nothing where it takes it."""
    del model
    messages = request["messages"]
    found = [why for index, message in enumerate(messages) for why in _message(message, f"messages[{index}]")]
    return [*found, *_pairs(messages), *refused_by_sdk(request)]


def refused_by_sdk(request: Object) -> list[str]:
    """Return what the SDK has no type for."""
    told = []
    kinds = ((Message, request["messages"]), (Tool, request.get("tools") or ()))
    for kind, values in kinds:
        for value in values:
            try:
                kind.model_validate({name: each for name, each in value.items() if name != "images"})
            except ValidationError as error:
                told.append(f"{str(error)[:300]} in {value}")
    return told


def _message(message: Object, at: str) -> Iterator[str]:
    if message.get("role") not in _ROLES:
        yield f"{at}: invalid role: {message.get('role')!r}"
    if not isinstance(message.get("content", ""), str | None):
        yield f"{at}: json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
    if unknown := message.keys() - _KNOWN:
        yield f"{at}: unknown members {sorted(unknown)}"
    for call in message.get("tool_calls") or ():
        if not isinstance(call["function"].get("arguments"), dict):
            yield f"{at}: json: cannot unmarshal string into Go struct field … of type api.ToolCallFunctionArguments"
    for image in message.get("images") or ():
        try:
            base64.b64decode(image, validate=True)
        except binascii.Error:
            yield f"{at}: illegal base64 data at input byte 4"
    if message["role"] == "tool" and not message.get("tool_name") and not message.get("tool_call_id"):
        yield f"{at}: a result of no tool"


def _pairs(messages: list[Object]) -> Iterator[str]:
    waiting: list[str] = []
    runs = [(key, list(group)) for key, group in groupby(messages, key=lambda message: message["role"] == "tool")]
    for number, (is_result, run) in enumerate(runs):
        if is_result:
            names = [str(message.get("tool_name")) for message in run]
            is_end = number == len(runs) - 1 or all(
                _is_picture(each) for _, later in runs[number + 1 :] for each in later
            )
            if names != waiting and not (is_end and _is_part(names, waiting)):
                yield f"results {names} of calls {waiting}"
            waiting = []
            continue
        for message in run:
            if waiting:
                yield f"calls {waiting} without results"
            waiting = [call["function"]["name"] for call in message.get("tool_calls") or ()]


def _is_picture(message: Object) -> bool:
    return message["role"] == "user" and not message["content"] and bool(message.get("images"))


def _is_part(names: list[str], of: list[str]) -> bool:
    left = iter(of)
    return all(name in left for name in names)
