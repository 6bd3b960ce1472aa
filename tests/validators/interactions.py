"""What Google's Interactions refuse with 400, of requests without state.

Sources: the types of google-genai's SDK (required members), ai.google.dev/gemini-api/docs (interactions, thought-signatures,
function-calling), and googleapis/js-genai 1735: a thought step without a signature is refused. What contents may not be, by
the rules of generateContent, steps may not be either: the models are the same.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

Object = dict[str, Any]

_REQUIRED = {
    "user_input": {"content"},
    "model_output": {"content"},
    "thought": {"signature"},
    "function_call": {"id", "name", "arguments"},
    "function_result": {"call_id", "result"},
}
_KNOWN = {
    "user_input": {"content"},
    "model_output": {"content", "error"},
    "thought": {"signature", "summary"},
    "function_call": {"id", "name", "arguments"},
    "function_result": {"call_id", "result", "name", "is_error"},
}
_CONTENTS = {"text", "image", "document", "audio", "video"}
_STRICT = re.compile(r"gemini-(?:[3-9]|[1-9]\d)")
_USERS = ("user_input", "function_result")


def refused(request: Object, model: str) -> list[str]:
    """Return why the provider answers 400 to this request for this model; nothing where it takes it."""
    steps = request["input"]
    found = [] if steps else ["input is required"]
    for index, step in enumerate(steps):
        found += _step(step, f"input[{index}]", model)
    found += [*_turns(steps), *_beside(request)]
    if _STRICT.search(model) and "-image" not in model:
        found += _signed(steps)
    return found


def _step(step: Object, at: str, model: str) -> Iterator[str]:
    kind = step.get("type")
    if not isinstance(kind, str):
        yield f"{at}.type: required"
        return
    for name in _REQUIRED.get(kind, set()):
        if step.get(name) is None or (name in ("content", "signature", "id", "name", "call_id") and not step[name]):
            yield f"{at}.{name}: required"
    if unknown := step.keys() - _KNOWN.get(kind, step.keys()) - {"type"}:
        yield f"{at}: unknown members {sorted(unknown)}"
    if kind == "function_call" and not isinstance(step.get("arguments"), dict):
        yield f"{at}.arguments: is an object"
    contents = step.get("content") if kind in ("user_input", "model_output") else None
    if kind == "function_result" and isinstance(step.get("result"), list):
        contents = step["result"]
        if "gemini-2" in model:
            yield f"{at}.result: Multimodal function responses are not supported for this model"
    for place, content in enumerate(contents or ()):
        yield from _content(content, f"{at}[{place}]")


def _content(content: Object, at: str) -> Iterator[str]:
    if content.get("type") not in _CONTENTS:
        yield f"{at}.type: {content.get('type')}"
    elif content["type"] == "text":
        if not content.get("text"):
            yield f"{at}.text: required"
    elif (content.get("data") is None) == (content.get("uri") is None):
        yield f"{at}: has either data or a uri"


def _turns(steps: list[Object]) -> Iterator[str]:
    """Calls follow the user or results, and are answered before anything else is said, or by the client's next steps."""
    leading = [step["type"] for step in takewhile(lambda step: step["type"] not in _USERS, steps)]
    if "function_call" in leading:
        yield "input: Please ensure that function call turn comes immediately after a user turn"
    waiting: list[str] = []
    for index, step in enumerate(steps):
        match step["type"]:
            case "function_call":
                if step["id"] in waiting:
                    yield f"input[{index}]: an id of two open calls"
                waiting.append(step["id"])
            case "function_result":
                if step["call_id"] not in waiting:
                    yield f"input[{index}]: a result without a call"
                else:
                    waiting.remove(step["call_id"])
            case "user_input" if waiting:
                media = all(content["type"] != "text" for content in step["content"])
                if not (media and index == len(steps) - 1):  # pictures stand behind their results
                    yield f"input[{index}]: calls {waiting} without results"
                waiting = []


def _signed(steps: list[Object]) -> Iterator[str]:
    asked = max((place for place, step in enumerate(steps) if step["type"] == "user_input"), default=-1)
    is_signed = False
    for index, step in enumerate(steps[asked + 1 :], asked + 1):
        match step["type"]:
            case "thought":
                is_signed = bool(step.get("signature"))
            case "function_call" if not is_signed:
                yield f"input[{index}]: Function call is missing a thought_signature"
            case "function_result":
                is_signed = False


def _beside(request: Object) -> Iterator[str]:
    if request.get("store") is not False:
        yield "store: the history would be kept by the provider"
    if request.get("system_instruction") == "":
        yield "system_instruction: empty"
    names = [tool.get("name") for tool in request.get("tools") or ()]
    if len(names) != len(set(names)):
        yield "tools: Duplicate function declaration found"
    if (request.get("generation_config") or {}).get("tool_choice") and not names:
        yield "generation_config.tool_choice: is set without tools"
