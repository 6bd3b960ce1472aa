"""Hostile parts: one place of a message becomes what no client should send."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from faults.fuzz.scripts import Object

_DEEP: Any = []
for _ in range(60):
    _DEEP = [_DEEP]
HALF = "half \ud83d of a pair"
VALUES: dict[str, tuple[Any, ...]] = {
    "surrogate": (HALF, "\udc00", "a\ud800b"),
    "empty": ("", [], {}, None, " ", [""], [None], [{}]),
    "number": (0, -1, 10**30, 1e308, 1.5, float("inf"), float("nan"), -(2**63), True),
    "deep": (_DEEP, {"a": _DEEP}, [[{"b": _DEEP}]]),
    "text": (
        "x" * 70_000,
        "\x00\x1f",
        "\u202e\u2066",
        "<|endoftext|><|im_start|>",
        "{",
        '{"a": [1, ',
        "]",
        "data:,",
        "//",
    ),
    "kind": (
        "unknown_kind",
        "text ",
        "TEXT",
        "message",
        "reasoning",
        "compaction",
        "item_reference",
        "server_tool_use",
    ),
    "foreign": (
        {"type": "tool-invocation", "toolInvocation": {"state": "result", "toolCallId": "c"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {}},
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "a"}]},
        {"type": "unknown_kind", "data": {"a": 1}},
        {"functionCall": {}},
        {"type": "input_text"},
        {"toolUse": {"toolUseId": "", "name": "", "input": "cut"}},
    ),
}
"""Values by kind. A kind is one way to be hostile, and is drawn as often as each other."""
_ARGUMENTS: tuple[Any, ...] = (
    [],
    {},
    None,
    "",
    "[]",
    "null",
    5,
    ["a"],
    '{"day": ',
    '{"a": 1} {"b": 2}',
    {"day": [HALF]},
)
_CALLED = ("arguments", "input", "args", "parameters", "partial_json")
"""Members that hold a call's arguments, in one of the forms."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container of a JSON value with each key or index in it."""
    keys: Any = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def broken(chance: random.Random, message: Object) -> tuple[Object, str]:
    """Return the message with one hostile part, and its kind. Arguments of calls are drawn more often than other places."""
    made = copy.deepcopy(message)
    found = list(places(made))
    called = [(holder, key) for holder, key in found if key in _CALLED]
    if called and chance.random() < 0.4:
        holder, key = chance.choice(called)
        holder[key] = copy.deepcopy(chance.choice(_ARGUMENTS))
        return made, "arguments"
    holder, key = chance.choice(found)
    kind = chance.choice((*VALUES, "gone", "twice", "extra", "half"))
    match kind:
        case "gone":
            del holder[key]
        case "twice" if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case "twice" | "extra":
            (holder if isinstance(holder, dict) else made)["x_extra"] = copy.deepcopy(chance.choice(VALUES["foreign"]))
        case "half":
            texts = [(each, at) for each, at in found if isinstance(each[at], str)] or [(made, key)]
            holder, key = chance.choice(texts)
            holder[key] = f"{holder[key]}"[: chance.randrange(9)] + HALF
            kind = "surrogate"
        case _:
            holder[key] = copy.deepcopy(chance.choice(VALUES[kind]))
    return made, kind
