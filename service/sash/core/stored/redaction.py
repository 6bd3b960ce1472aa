"""Redaction: a stored message without its content."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.chat.messages import digest, encode_message
from sash.core.counts.measures.measures import measure
from sash.core.stored.record import DIGEST_BYTES, Flags, Record

REDACTED_TEXT = "[redacted]"
"""The text of a redacted message. Not empty, because some providers refuse an empty message."""

NO_DIGEST = bytes(DIGEST_BYTES)
"""The digest of a redacted entry. With the true digest, short texts could be guessed."""


def redact_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without its content: only the role, calls' ids and functions' names are kept."""
    role = message["role"]
    if kept := {"tool": "tool_call_id", "function": "name"}.get(role):
        return {"role": role, kept: message[kept], "content": REDACTED_TEXT}
    if role == "assistant" and (calls := message.get("tool_calls")):
        return {"role": role, "content": None, "tool_calls": list(map(_redact_call, calls))}
    if role == "assistant" and (call := message.get("function_call")):
        return {"role": role, "content": None, "function_call": {"name": call["name"], "arguments": "{}"}}
    return {"role": role, "content": REDACTED_TEXT}


def _redact_call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = call["type"]
    empty = {"input": ""} if kind == "custom" else {"arguments": "{}"}
    return {"id": call["id"], "type": kind, kind: {"name": call[kind]["name"], **empty}}


def redact_record(record: Record, body: bytes) -> tuple[Record, bytes]:
    """The record and the body of a stored message without its content."""
    message = redact_message(msgspec.json.decode(body))
    encoded, _, _ = encode_message(message)
    flags = (record.flags | Flags.REDACTED) & ~(Flags.GROUNDED | Flags.NOTED | Flags.COMPACTION)
    redacted = msgspec.structs.replace(
        record,
        flags=flags,
        measure=measure(message),
        size=len(encoded),
        content_digest=digest([message["role"], message["content"]], DIGEST_BYTES),
        grounding=None,
        media=(),
    )
    return redacted, encoded
