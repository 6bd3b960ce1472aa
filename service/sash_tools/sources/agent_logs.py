"""Read the logs of coding agents: Codex's rollouts and Claude Code's sessions, one JSON object on each line.

Codex (0.8 to 0.12x)::

    {"timestamp", "type": "session_meta" | "turn_context" | "event_msg" | "response_item", "payload"}

A ``response_item`` holds an item of OpenAI's Responses. Events repeat what the items say.

Claude Code (1 and 2)::

    {"type": "user" | "assistant", "message": {"role", "content", "id"}, "uuid", "sessionId", "isSidechain"}

The blocks of one reply are on several lines, with the same ``message.id``.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sash.core.providers.anthropic.claude_kinds import BLOCKS, RESULT_BLOCKS
from sash_client.ids import safe_id
from sash_tools.sources import agents_sdk
from sash_tools.sources.conversation import SourceConversation, from_steps
from sash_tools.sources.provider_files import native_entries

Object = dict[str, Any]


def from_codex(lines: Sequence[Mapping[str, Any]], identity: str, where: str) -> SourceConversation:
    """Return the conversation of a rollout. Raises SourceError."""
    items: list[tuple[int, Object]] = []
    left_out: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        payload = line.get("payload")
        if line.get("type") == "response_item" and isinstance(payload, dict):
            items.append((number, _item(payload)))
        elif line.get("type") == "session_meta" and isinstance(payload, dict) and isinstance(payload.get("id"), str):
            identity = payload["id"]
        else:
            left_out[str(line.get("type"))] += 1
    steps, unread = agents_sdk.to_steps(items, where)
    return from_steps(identity, [step for step in steps if _says_something(step.message)], left_out + unread)


def _says_something(message: Mapping[str, Any]) -> bool:
    return message.get("content") not in ("", []) or message["role"] == "tool"


def _item(payload: Object) -> Object:
    """Return an item with a local shell's call as a function's, and with its output as text."""
    if payload.get("type") == "local_shell_call":
        arguments = json.dumps(payload.get("action") or {}, ensure_ascii=False, separators=(",", ":"))
        identity = payload.get("call_id") or payload.get("id")
        return {"type": "function_call", "call_id": identity, "name": "local_shell", "arguments": arguments}
    if payload.get("type") == "local_shell_call_output":
        payload = {**payload, "type": "function_call_output", "call_id": payload.get("call_id") or payload.get("id")}
    match payload.get("output"):
        case {"content": str(text)} if "type" not in payload["output"]:
            return {**payload, "output": text}
        case dict(output) if "type" not in output:
            return {**payload, "output": json.dumps(output, ensure_ascii=False)}
    return payload


def from_claude_code(lines: Sequence[Mapping[str, Any]], identity: str, where: str) -> SourceConversation:
    """Return the conversation of a session, with Claude's own messages. Raises SourceError."""
    entries: list[Object] = []
    replies: dict[str, Object] = {}
    left_out: Counter[str] = Counter()
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        message, identity_of_line = line.get("message"), str(line.get("uuid") or number)
        if identity_of_line in seen:
            left_out["repeated lines"] += 1
            continue
        seen.add(identity_of_line)
        if line.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            left_out[str(line.get("type"))] += 1
        elif line.get("isSidechain") or line.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
            left_out["messages of subagents" if line.get("isSidechain") else "errors"] += 1
        elif message.get("id") in replies:
            replies[message["id"]]["content"] += _blocks(message, left_out)
        elif content := message["content"] if isinstance(message["content"], str) else _blocks(message, left_out):
            own = {"role": message["role"], "content": content}
            if isinstance(message.get("id"), str) and isinstance(content, list):
                replies[message["id"]] = own
            entries.append({"id": safe_id(line.get("uuid") or f"import-{number}"), "message": own})
    named = next((line[key] for line in lines for key in ("sessionId", "session_id") if line.get(key)), identity)
    return SourceConversation(
        id=safe_id(named),
        settings={},
        entries=native_entries(entries, where, "anthropic") if entries else [],
        left_out=dict(left_out),
    )


def _blocks(message: Mapping[str, Any], left_out: Counter[str]) -> list[Object]:
    """Return the blocks that Claude takes."""
    content = message["content"]
    return _known([{"type": "text", "text": content}] if isinstance(content, str) else content, BLOCKS, left_out)


def _known(blocks: Sequence[Object], kinds: Sequence[str], left_out: Counter[str]) -> list[Object]:
    found = []
    for block in blocks:
        if block["type"] not in kinds or (block["type"] == "text" and not block["text"].strip()):
            left_out[str(block["type"]) if block["type"] not in kinds else "empty texts"] += 1
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            found.append({**block, "content": _known(block["content"], RESULT_BLOCKS, left_out)})
        else:
            found.append(block)
    return found
