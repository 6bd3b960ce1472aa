"""Calls of one message that came with one id, as some models make them and as cut streams leave them.

Their results answer them in order, and each is sent with an id of its own, which is in its result too.
"""

from typing import Any

import msgspec

from sash.core.providers.messages.mends import Mends
from sash.core.providers.openai.chat_mends import LONGEST_ID, shorter
from sash.core.providers.openai.server_mends import short_id, whole_body
from sash.core.providers.writing.shared_mends import CALL_ID


class _Read(msgspec.Struct):
    role: str
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str = ""


_read = msgspec.json.Decoder(_Read).decode


def with_own_ids(bodies: list[Any], mends: Mends, *, are_short: bool) -> list[Any]:
    """Return the bodies of a request's messages with an id for each call of a message.

    A body is bytes, or pieces of them. ``are_short``: ids are Mistral's, of nine letters and digits.
    """
    found: list[Any] = []
    waiting: dict[str, list[str]] = {}  # the ids that are sent of the newest calls, by the one with which they came
    for body in bodies:
        message = _read(whole_body(body))
        if message.tool_calls:
            waiting = {}
            for call in message.tool_calls:
                sent = waiting.setdefault(call["id"], [])
                sent.append(_nth(call["id"], len(sent), are_short=are_short))
                call["id"] = sent[-1]
        if message.tool_calls and max(map(len, waiting.values())) > 1:
            mends.add(CALL_ID, 0)
            found.append(_with(body, tool_calls=message.tool_calls))
        elif message.role == "tool" and (sent := waiting.get(message.tool_call_id, [])):
            identity = sent.pop(0)
            found.append(body if identity == message.tool_call_id else _with(body, tool_call_id=identity))
        else:
            found.append(body)
    return found


def _nth(identity: str, before: int, *, are_short: bool) -> str:
    """The id of a call with so many ``before`` it that came with the same."""
    if not before:
        return identity
    named = f"{identity}_{before}"
    return short_id(named) if are_short else shorter(named, LONGEST_ID)


def _with(body: Any, **members: Any) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(whole_body(body)), **members})
