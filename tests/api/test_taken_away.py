"""Every string that is sent costs tokens: a shorter one in its place makes the count of the request smaller.

Free are ids, kinds, roles and the base64 of media, as in ``test_every_string.py``, and what recorded bills show to be free
(``FREE``).
"""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from recordings import NO_TRUTH, TRUTH
from rigs.core_windows import count_of
from test_every_string import MEDIA, SEALED, STRUCTURE

from sash.core.counts.models.models import find_model
from sash_tools.bills.bill import predicted_tokens
from sash_tools.bills.truth_rows import rows_in

LONG = " ".join(["zebra", "gradle", "harbour", "lantern", "orchard", "violet"] * 3)


def _said(place: str) -> str:
    return f"{place}: {LONG}"


HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": _said("one part")}, {"type": "text", "text": _said("two")}]},
    {"role": "assistant", "content": None, "audio": {"id": "audio_1", "transcript": _said("spoken")}},
    {"role": "user", "name": "harbour_lantern_orchard_violet_gradle_zebra", "content": _said("named")},
    {
        "role": "assistant",
        "content": _said("beside calls"),
        "tool_calls": [
            {
                "id": each,
                "type": "function",
                "function": {"name": "look_up_harbour_lantern", "arguments": json.dumps({"q": _said(each)})},
            }
            for each in ("call_a", "call_b")
        ],
    },
    {"role": "tool", "tool_call_id": "call_a", "content": _said("first result")},
    {"role": "tool", "tool_call_id": "call_b", "content": _said("second result")},
    {"role": "assistant", "content": _said("reply")},
    {"role": "user", "content": _said("a request that is refused")},
    {"role": "assistant", "content": None, "refusal": _said("refusal")},
    {"role": "system", "content": _said("a late system text")},
    {"role": "user", "content": _said("asked before thinking")},
    {"role": "assistant", "content": _said("thought over"), "reasoning_content": _said("reasoning")},
    {
        "message": {"role": "user", "content": _said("question")},
        "grounding": {"documents": [{"id": "d", "text": _said("document")}]},
    },
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up_harbour_lantern",
            "description": _said("a function"),
            "parameters": {
                "type": "object",
                "properties": {
                    "q": {"type": "string", "description": _said("a parameter"), "enum": [_said("a value")]}
                },
            },
        },
    }
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the path and the text of every long string in a request that is not free."""
    key = str(path[-1]) if path else ""
    if key in SEALED | STRUCTURE or key == "id" or key.endswith("_id") or key in MEDIA:
        return
    match value:
        case str() if len(value) > 20:
            yield path, value
        case list():
            for index, each in enumerate(value):
                yield from places(each, (*path, index))
        case dict():
            for name, each in value.items():
                yield from places(each, (*path, name))


REASONING = ("reasoning", "reasoning_content")
FREE = {
    ("openai", r"messages\.\*\.name"): "a result's name, which repeats its call's",
    ("openai", r"prediction\.content"): "a prediction costs 12 at most: 3 bills",
    ("openai", r".*\.\$schema"): "left out of definitions and formats: 46 bills",
    ("openai", r"messages.*\.document_url"): "a PDF is billed by its pages",
    ("openai", r"response_format\..*"): "other makers' hosts bill a schema, or do not",
    ("responses", r".*\.\$schema"): "left out of definitions and formats: 18 bills",
    ("responses", r"input\.\*\.summary.*"): "summaries of reasoning: 24 bills",
    (
        "responses",
        r"input\.\*\.encrypted_content",
    ): "reasoning before the newest question, and the first 900 characters",
    ("responses", r"tool_choice\.name"): "a chosen function",
    ("anthropic", r"tools\.\*\.name"): "a hosted tool's name is in its cost",
    ("anthropic", r"tool_choice\.name"): "a chosen function costs as any forced call: 61 bills",
    ("anthropic", r"mcp_servers\..*"): "a server's address; its tools are billed, and not shown",
    ("anthropic", r"messages.*\.(thinking|data)"): "thinking of earlier turns, and sealed thoughts: 14 bills",
    ("gemini", r"contents.*\.function_?[rR]esponse\.name"): "a result's name, which repeats its call's",
    ("gemini", r"cachedContent"): "what is cached is billed, and not shown",
    ("gemini", r"toolConfig\..*"): "allowed functions",
    (
        "gemini",
        r"(generationConfig|config)\.response_?(json_?)?[sS]chema\..*|generationConfig\.responseJsonSchema\..*",
    ): ("a schema for the reply: 63 bills"),
}
"""Strings that cost nothing, by format and path, and why."""


def _is_free(form: str, path: tuple[Any, ...]) -> bool:
    shown = ".".join("*" if isinstance(step, int) else step for step in path)
    return any(form == of and re.fullmatch(pattern, shown) for of, pattern in FREE)


def _stands_twice(request: dict[str, Any], path: tuple[Any, ...], text: str) -> bool:
    """Whether two members of a message have the same reasoning, as servers of one model write it, which counts once."""
    message: Any = request
    for step in path[:-1]:
        message = message[step]
    return path[-1] in REASONING and all(message.get(name) == text for name in REASONING)


def without(request: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """Return the request with a short string at this path; arguments stay JSON."""
    changed = copy.deepcopy(request)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = "{}" if path[-1] == "arguments" else "x"
    return changed


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-5.4", "o4-mini", "claude-opus-4-5", "gemini-3-flash-preview", "qwen3-max", "deepseek-v4-pro"],
)
async def test_a_string_that_is_taken_away_makes_the_count_smaller(
    client: httpx.AsyncClient, form: str, model: str
) -> None:
    """Wherever a string stands in a window's request, a shorter one in its place costs less."""
    asked = {
        "model": model,
        "system": _said("system"),
        "tools": TOOLS,
        "messages": HISTORY,
        "max_tokens": 100_000,
        "reasoning": "all",
    }
    made = (await client.post("/window", json={**asked, "format": form})).json()

    whole, free = count_of(model, made["request"], form), []
    found = list(places(made["request"]))
    for path, _ in found:
        if not _is_free(form, path) and count_of(model, without(made["request"], path), form) >= whole:
            free.append(path)
    assert len(found) >= len(HISTORY)
    assert free == []
    assert whole <= made["tokens"]["total"] <= made["budget"]


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize("pattern", ["*chat", "*responses", "*anthropic", "*gemini", "new_others"])
def test_a_string_that_is_taken_out_of_a_recorded_request(pattern: str) -> None:
    """In recorded requests, one for each set of places of strings, every string costs, unless bills call it free."""
    seen, free = set(), {}
    for file in sorted(TRUTH.glob(f"{pattern}.json")):
        for row in rows_in(file.read_bytes(), file.stem):
            found = [(path, text) for path, text in places(row.sent) if not _is_free(row.form, path)]
            shape = row.form, frozenset(tuple(step for step in path if isinstance(step, str)) for path, _ in found)
            if shape in seen:
                continue
            seen.add(shape)
            model = find_model(row.model)
            whole = predicted_tokens(row, model)
            for path, text in found[:50]:
                if _stands_twice(row.sent, path, text):
                    continue
                less = msgspec.structs.replace(row, request=without(row.sent, path), also_sent=None)
                if predicted_tokens(less, model) >= whole:
                    free[row.id, path] = text[:40]
    assert seen
    assert free == {}
