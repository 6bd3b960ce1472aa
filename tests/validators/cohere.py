"""What Cohere's /v2/chat refuses with 400.

Sources: docs.cohere.com/v2/reference/chat (the members of messages and the choice of a tool) and
docs.cohere.com/reference/errors (names of tools, results of calls that no message made).
"""

import re
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

_KNOWN = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "tool_plan", "citations"},
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refused(request: Object, model: str) -> list[str]:
    """Return why the server refuses this request; nothing where it takes it."""
    del model
    called: set[str] = set()
    found = [why for index, message in enumerate(request["messages"]) for why in _message(message, index, called)]
    names = (tool["function"]["name"] for tool in request.get("tools") or ())
    found += [f"tool names have A-Za-z0-9_ alone: {name}" for name in names if not _NAME.fullmatch(name)]
    if request.get("tool_choice", "NONE") not in ("REQUIRED", "NONE"):
        found.append(f"invalid tool_choice: {request['tool_choice']}")
    return found


def _message(message: Object, index: int, called: set[str]) -> Iterator[str]:
    role = message.get("role")
    if role not in _KNOWN:
        yield f"messages[{index}]: invalid role: {role!r}"
    elif unknown := message.keys() - _KNOWN[role]:
        yield f"messages[{index}]: unknown members {sorted(unknown)}"
    if not message.get("content") and not message.get("tool_calls"):
        yield f"messages[{index}]: neither content nor tool calls"
    if role == "tool" and message.get("tool_call_id") not in called:
        yield f"messages[{index}]: no call has the id {message.get('tool_call_id')!r}"
    called |= {str(call["id"]) for call in message.get("tool_calls") or ()}
