"""Recorded bills of Claude and Gemini, with predictions for the requests as they were sent."""

import json
from functools import cache
from typing import Any

from bills import Bill
from recordings import TRUTH

from sash.core.counts.models import find_model
from sash.core.counts.provider_requests import count_provider_request

FILES = {"anthropic": ("more_anthropic", "new_anthropic"), "gemini": ("more_gemini", "new_gemini")}
SHOWN = ("text", "tool definitions", "tool history", "response formats")
"""Kinds of request whose text shows all that is billed."""


@cache
def claude_bills() -> tuple[Bill, ...]:
    """Return every recording of Claude with its current prediction."""
    return tuple(_bill("Claude", "anthropic", row) for row in rows("anthropic"))


@cache
def gemini_bills() -> tuple[Bill, ...]:
    """Return every recording of Gemini with its current prediction."""
    return tuple(_bill("Gemini", "gemini", row) for row in rows("gemini"))


def rows(form: str) -> list[dict[str, Any]]:
    """Return the recordings of one vendor."""
    return [{**row, "file": file} for file in FILES[form] for row in json.loads((TRUTH / f"{file}.json").read_bytes())]


def _bill(vendor: str, form: str, row: dict[str, Any]) -> Bill:
    model = find_model(row["model"])
    count = count_provider_request(form, row["request"], model)
    family, billed = model.rules.family, row["prompt_tokens"]
    return Bill(vendor, row["id"], row["file"], family, kind(row), billed, count.tokens, count.exact, row["request"])


def kind(row: dict[str, Any]) -> str:
    """Return a request's kind, named after the part that is hardest to predict."""
    kinds, request = set(row["kinds"]), row["request"]
    if is_hosted(request):
        return "hosted tools, caches"
    if "signature_REDACTED" in json.dumps(request):
        return "thoughts left out by the recorder"
    for name, mark in (("files and audio", "file/audio"), ("images", "image"), ("response formats", "response_format")):
        if mark in kinds:
            return name
    return "tool history" if "tool_calls" in kinds else "tool definitions" if "tools" in kinds else "text"


def is_hosted(request: dict[str, Any]) -> bool:
    """Return whether the bill covers parts that the request does not show: results of hosted tools, cached content."""
    if request.get("mcp_servers") or "cachedContent" in request:
        return True
    tools = request.get("tools") or []
    return any(map(_runs_itself, tools if isinstance(tools, list) else [tools]))


def _runs_itself(tool: dict[str, Any]) -> bool:
    if "functionDeclarations" in tool or "function_declarations" in tool:
        tool = {name: value for name, value in tool.items() if value is not None and not name.startswith("function")}
        return bool(tool)
    return "input_schema" not in tool
