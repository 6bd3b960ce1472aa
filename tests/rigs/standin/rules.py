"""What the stand-in answers 400 to: what ``tests/validators`` know, a request over its vendor's limits, and one that ends
with calls that wait."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from validators import anthropic, cohere, gemini, interactions, limits, openai, responses

Object = dict[str, Any]


def _by_sdk(judge: str, request: Object, model: str) -> list[str]:
    """What a judge says that needs its provider's SDK, imported when it is first asked: README's programs need none."""
    found: list[str] = import_module(f"validators.{judge}").refused(request, model)
    return found


_JUDGES: dict[str, Callable[[Object, str], list[str]]] = {
    "openai": openai.refused,
    "responses": responses.refused,
    "anthropic": anthropic.refused,
    "gemini": gemini.refused_by_server,
    "interactions": interactions.refused,
    "converse": lambda request, model: _by_sdk("converse", request, model),
    "ollama": lambda request, model: _by_sdk("ollama", request, model),
    "cohere": cohere.refused,
}
_COUNTED = {
    "openai": ("messages", "tools", "tool_choice", "response_format"),
    "responses": ("input", "instructions", "tools", "tool_choice"),
    "anthropic": ("messages", "system", "tools", "tool_choice"),
    "interactions": ("input", "store", "system_instruction", "tools", "generation_config", "response_format"),
    "converse": ("messages", "system", "toolConfig"),
    "ollama": ("messages", "tools", "format"),
    "cohere": ("messages", "tools", "tool_choice", "documents", "response_format"),
}
_BY_PATH = {"/api/chat": "ollama", "/v2/chat": "cohere"}
_CONFIG = ("systemInstruction", "tools", "toolConfig")


def form_of(path: str) -> str:
    """Return the format of a request by its path."""
    if path.endswith(("/chat/completions", "/messages", "/count_tokens")):
        return "openai" if path.endswith("completions") else "anthropic"
    if path.endswith("/interactions"):
        return "interactions"
    if path in _BY_PATH:
        return _BY_PATH[path]
    if path.endswith(("/converse", "/count-tokens")):
        return "converse"
    return "gemini" if path.endswith(("enerateContent", ":countTokens")) else "responses"


def is_count(path: str) -> bool:
    """Return whether a path is of an endpoint that only counts."""
    return path.endswith(("/input_tokens", "/count_tokens", "/count-tokens", ":countTokens"))


def window_of(form: str, body: Object) -> Object:
    """Return what a body has of a window's request. Google's SDKs write the members of ``config`` beside ``contents``."""
    if form == "gemini":
        config = {name: body[name] for name in _CONFIG if name in body}
        return {"contents": body.get("contents"), **({"config": config} if config else {})}
    found = {name: body[name] for name in _COUNTED[form] if name in body}
    if form == "responses" and isinstance(found.get("input"), str):
        found["input"] = [{"role": "user", "content": found["input"]}]
    return found


def refused(form: str, request: Object, model: str) -> list[str]:
    """Return why the provider answers 400 to a window's request; nothing where it takes the request."""
    waiting: dict[str, None] = {}
    for kind, identity in _EVENTS[form](request):
        if kind == "call":
            waiting[identity] = None
        else:
            waiting.pop(identity, None)
    told = [f"calls without results at the end of the request: {', '.join(waiting)}"] if waiting else []
    large = [f"the request is too large: {each}" for each in limits.over(request, limits.of_model(model))]
    return [*_JUDGES[form](request, model), *told, *large]


def error(form: str, message: str) -> Object:
    """Return the body of an answer 400, as the provider writes it."""
    if form == "anthropic":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    if form in ("converse", "ollama", "cohere"):
        return {"error" if form == "ollama" else "message": message}
    if form in ("gemini", "interactions"):
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    param = "messages" if form == "openai" else "input"
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


def _of_chat(request: Object) -> Iterator[tuple[str, str]]:
    for message in request.get("messages") or ():
        yield from (("call", str(call.get("id"))) for call in message.get("tool_calls") or ())
        if message.get("role") == "tool":
            yield "result", str(message.get("tool_call_id"))


def _of_items(request: Object) -> Iterator[tuple[str, str]]:
    for item in request.get("input") or ():
        kind = str(item.get("type"))
        if kind in responses.OF_CALLS:
            yield "call", str(item.get("call_id"))
        elif kind in responses.OF_CALLS.values():
            yield "result", str(item.get("call_id"))


def _of_blocks(request: Object) -> Iterator[tuple[str, str]]:
    for message in request.get("messages") or ():
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                yield "call", str(block.get("id"))
            elif block.get("type") == "tool_result":
                yield "result", str(block.get("tool_use_id"))


def _of_converse(request: Object) -> Iterator[tuple[str, str]]:
    for message in request.get("messages") or ():
        for block in message.get("content") or ():
            for kind, name in (("call", "toolUse"), ("result", "toolResult")):
                if name in block:
                    yield kind, str(block[name].get("toolUseId"))


def _of_names(request: Object) -> Iterator[tuple[str, str]]:
    waiting: list[str] = []
    for index, message in enumerate(request.get("messages") or ()):
        if message.get("role") == "tool" and waiting:
            yield "result", waiting.pop(0)
        for place, _ in enumerate(message.get("tool_calls") or ()):
            waiting.append(f"{index}.{place}")
            yield "call", waiting[-1]


def _of_parts(request: Object) -> Iterator[tuple[str, str]]:
    for content in request.get("contents") or ():
        for part in content.get("parts") or ():
            for kind, name in (("call", "functionCall"), ("result", "functionResponse")):
                if name in part:
                    yield kind, str(part[name].get("id") or part[name].get("name"))


def _of_steps(request: Object) -> Iterator[tuple[str, str]]:
    for step in request.get("input") or ():
        if step.get("type") == "function_call":
            yield "call", str(step.get("id"))
        elif step.get("type") == "function_result":
            yield "result", str(step.get("call_id"))


_EVENTS: dict[str, Callable[[Object], Iterator[tuple[str, str]]]] = {
    "openai": _of_chat,
    "responses": _of_items,
    "anthropic": _of_blocks,
    "gemini": _of_parts,
    "interactions": _of_steps,
    "converse": _of_converse,
    "ollama": _of_names,
    "cohere": _of_chat,
}
