"""What OpenAI's Responses answer 400 to, written from its reference, its SDK's types and reported answers.

It never calls the code that writes requests. The types are ``openai.types.responses.response_input_item_param``, 3.52.
"""

import re
from collections.abc import Iterator
from typing import Any

LONGEST = 64
"""'Invalid input[2].id: string too long. Expected a string with maximum length 64', of ids of items and of calls."""
ID = re.compile(r"[a-zA-Z0-9_-]+")
"""'Expected an ID that contains letters, numbers, underscores, or dashes': langchain-ai/langchainjs 11044."""
BEGINS = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "reasoning": "rs",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "computer_call": "cu",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
}
"""'Expected an ID that begins with 'msg'': of the same report, nodetool 4252, sub2api 3785 and 3981, codex 33176."""
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
STATUSES = ("in_progress", "completed", "incomplete")
NEEDS: dict[str, tuple[str, ...]] = {
    "file_search_call": ("id", "queries", "status"),
    "computer_call": ("id", "call_id", "pending_safety_checks", "status"),
    "computer_call_output": ("call_id", "output"),
    "web_search_call": ("id", "action", "status"),
    "function_call": ("arguments", "call_id", "name"),
    "function_call_output": ("call_id", "output"),
    "reasoning": ("id", "summary"),
    "image_generation_call": ("id", "status"),
    "code_interpreter_call": ("id", "container_id", "status"),
    "local_shell_call": ("id", "action", "call_id", "status"),
    "local_shell_call_output": ("call_id", "id", "output"),
    "shell_call": ("action", "call_id"),
    "shell_call_output": ("call_id", "output"),
    "apply_patch_call": ("call_id", "operation", "status"),
    "apply_patch_call_output": ("call_id", "status"),
    "mcp_list_tools": ("id", "server_label", "tools"),
    "mcp_approval_request": ("id", "arguments", "name", "server_label"),
    "mcp_approval_response": ("approval_request_id", "approve"),
    "mcp_call": ("id", "arguments", "name", "server_label"),
    "custom_tool_call": ("call_id", "input", "name"),
    "custom_tool_call_output": ("call_id", "output"),
    "item_reference": ("id",),
}
"""Members that each item must have."""
_OF_CALL = {"type", "id", "call_id", "status", "name", "namespace", "caller"}
MEMBERS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": _OF_CALL | {"arguments", "async"},
    "custom_tool_call": _OF_CALL | {"input", "async"},
    "function_call_output": _OF_CALL | {"output"},
    "custom_tool_call_output": _OF_CALL | {"output"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
}
"""Members that items may have: 'Unknown parameter: input[0].timestamp' is the answer to others."""
OF_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
INPUT_PARTS = {"input_text": ("text",), "input_image": ("detail",), "input_file": ()}
OUTPUT_PARTS = {"output_text": ("text", "annotations"), "refusal": ("refusal",)}


def refused(request: dict[str, Any], model: str) -> list[str]:
    """Return why OpenAI would refuse this request; an empty list if it takes it."""
    del model
    items = request["input"]
    found = [f"input[{index}]: {why}" for index, item in enumerate(items) for why in _item(item)]
    # 'You can drop items that came before the most recent compaction item': its request has none (guides/compaction).
    found += [
        f"input[{index}]: not the first" for index, item in enumerate(items) if index and _kind(item) == "compaction"
    ]
    return [*found, *_pairs(items), *_thoughts(items), *_twice(items)]


def _twice(items: list[dict[str, Any]]) -> Iterator[str]:
    """OpenAI answers "Duplicate item found with id"."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        identity = item.get("id")
        if isinstance(identity, str) and identity in seen:
            yield f"input[{index}].id: duplicate item found with id {identity}"
        seen |= {identity} if isinstance(identity, str) else set()


def _kind(item: dict[str, Any]) -> str:
    return str(item.get("type") or ("message" if "role" in item else "item_reference"))


def _item(item: dict[str, Any]) -> Iterator[str]:
    for name in ("id", "call_id", "approval_request_id"):
        identity = item.get(name)
        if isinstance(identity, str) and not 0 < len(identity) <= LONGEST:
            yield f"{name} of {len(identity)} characters"
    kind = _kind(item)
    yield from _named(item, kind)
    for name in sorted(item.keys() - MEMBERS.get(kind, item.keys())):
        yield f"Unknown parameter: '{name}'"
    if kind == "message":
        yield from _message(item)
        return
    for name in NEEDS.get(kind, ()):
        if item.get(name) is None:
            yield f"{kind} without {name}"
    if kind in ("function_call", "custom_tool_call") and not NAME.fullmatch(str(item.get("name"))):
        yield f"name {item.get('name')!r}"
    if kind in ("function_call", "custom_tool_call") and item.get("status", STATUSES[0]) not in STATUSES:
        yield f"status {item.get('status')!r}"
    if kind in ("function_call_output", "custom_tool_call_output") and not isinstance(
        output := item.get("output"), str
    ):
        yield from _parts(output, INPUT_PARTS)


def _named(item: dict[str, Any], kind: str) -> Iterator[str]:
    identity, action = item.get("id"), item.get("action")
    begins = BEGINS.get(kind, "")
    if begins and isinstance(identity, str) and not (ID.fullmatch(identity) and identity.startswith(begins)):
        yield f"id {identity!r}: expected an ID that begins with {begins!r}"
    if kind == "web_search_call" and isinstance(action, dict) and None in action.values():
        yield "null in an action"


def _message(item: dict[str, Any]) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"role {role!r}"
    if isinstance(content, str):
        return
    if role != "assistant":
        yield from _parts(content, INPUT_PARTS)
        return
    yield from _parts(content, OUTPUT_PARTS)
    if not isinstance(item.get("id"), str) or item.get("status") not in STATUSES or item.get("type") != "message":
        yield "an assistant's parts without id, status or type"


def _parts(parts: Any, known: dict[str, tuple[str, ...]]) -> Iterator[str]:
    if not isinstance(parts, list) or not parts:
        yield "content is no string and no list of parts"
        return
    for part in parts:
        kind = part.get("type")
        if kind not in known:
            yield f"a part {kind!r}"
        for name in known.get(kind, ()):
            if part.get(name) is None:
                yield f"{kind} without {name}"
        if kind == "input_image" and not isinstance(part.get("image_url") or part.get("file_id"), str):
            yield "an image without a place, or with an object as its URL"
        if kind == "input_file" and not any(part.get(name) for name in ("file_data", "file_id", "file_url")):
            yield "a file without a place"
        if kind == "input_image" and isinstance(url := part.get("image_url"), str):
            yield from _image(url)


def _image(url: str) -> Iterator[str]:
    """'You uploaded an unsupported image. Please make sure your image has of one the following formats'."""
    head, _, data = url.partition(",")
    taken = ("png", "jpeg", "jpg", "gif", "webp")
    is_taken = data and data.split() == [data] and head in [f"data:image/{each};base64" for each in taken]
    if not is_taken and not url.startswith(("https://", "http://")):
        yield f"an image {head[:40]!r}"


def _pairs(items: list[dict[str, Any]]) -> Iterator[str]:
    """'No tool output found for function call', 'No tool call found for function call output': both are of one kind."""
    waiting: dict[str, str] = {}
    for index, item in enumerate(items):
        kind = _kind(item)
        if kind in OF_CALLS:
            waiting[str(item.get("call_id"))] = OF_CALLS[kind]
        elif kind in OF_CALLS.values():
            if waiting.pop(str(item.get("call_id")), None) != kind:
                yield f"input[{index}]: an output without its call"
        elif waiting and kind == "message" and item.get("role") == "user":
            yield f"input[{index}]: a call without its output before it"
            waiting = {}


def _thoughts(items: list[dict[str, Any]]) -> Iterator[str]:
    """'Item 'rs_…' of type 'reasoning' was provided without its required following item'."""
    for index, item in enumerate(items):
        if _kind(item) != "reasoning":
            continue
        later = next((each for each in items[index + 1 :] if _kind(each) != "reasoning"), {"type": "item_reference"})
        kind = _kind(later)
        is_input = kind == "message" and later.get("role") != "assistant"
        if is_input or kind.endswith("_output") or kind in ("item_reference", "mcp_approval_response"):
            yield f"input[{index}]: reasoning without its item"
