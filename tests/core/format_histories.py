"""Short ways to write histories, for the tests of the providers' formats."""

from typing import Any

import pytest

from sash.core.providers import render_request
from sash.core.providers.writing.turns import Outgoing
from sash.problems import FormatCannotCarry

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
PNG = f"data:image/png;base64,{PIXEL}"
PDF = "data:application/pdf;base64,JVBERi0xLjQK"
QUESTION = {"role": "user", "content": "Which talks are on today?"}
ELSEWHERE = ("responses", "anthropic", "gemini")


def history(*messages: dict[str, Any], first_seq: int = 1) -> list[Outgoing]:
    return [Outgoing(first_seq + i, message) for i, message in enumerate(messages)]


def rendered(form: str, *messages: dict[str, Any], **tools: Any) -> dict[str, Any]:
    return render_request(form, history(*messages), **tools)


def calling(*calls: tuple[str, str, str], content: str | None = None) -> dict[str, Any]:
    functions = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    return {"role": "assistant", "content": content, "tool_calls": functions}


def result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function(name: str, parameters: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": body}


def pointers(form: str, *messages: dict[str, Any], **tools: Any) -> list[str]:
    with pytest.raises(FormatCannotCarry) as caught:
        rendered(form, *messages, **tools)
    return [error.pointer for error in caught.value.errors]
