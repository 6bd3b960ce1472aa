"""Every string that a window sends costs tokens: a shorter one in its place makes the count of the request smaller.

Free are ids, kinds, roles and the base64 of media, as in ``test_every_string.py``.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from test_every_string import MEDIA, SEALED, STRUCTURE

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
    {"role": "user", "content": _said("question")},
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


def without(request: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """Return the request with a short string at this path; arguments stay JSON."""
    changed = copy.deepcopy(request)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = "{}" if path[-1] == "arguments" else "x"
    return changed


@pytest.mark.no_cover
@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "model",
    ["gpt-4o", "gpt-5.4", "o4-mini", "claude-opus-4-5", "gemini-3-flash-preview", "qwen3-max", "deepseek-v4-pro"],
)
async def test_a_string_that_is_taken_away_makes_the_count_smaller(
    client: httpx.AsyncClient, form: str, model: str
) -> None:
    """Wherever a string stands in a window's request, a shorter one in its place costs less."""
    asked = {"model": model, "system": _said("system"), "tools": TOOLS, "messages": HISTORY, "max_tokens": 100_000}
    made = (await client.post("/window", json={**asked, "format": form})).json()

    async def counted(request: dict[str, Any]) -> int:
        answer = await client.post(f"/count?format={form}", json={"model": model, **request})
        assert answer.status_code == 200, answer.text
        tokens: int = answer.json()["tokens"]
        return tokens

    whole, free = await counted(made["request"]), []
    found = list(places(made["request"]))
    for path, _ in found:
        if path[-1] != "name" and await counted(without(made["request"], path)) >= whole:
            free.append(path)
    assert len(found) >= len(HISTORY)
    assert free == []
