"""OpenAI's recorded bills for chat completions, and which counting rule applies to which bill."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from bills import Bill
from recordings import TRUTH

from sash.core.counts.attachments import image_size
from sash.core.counts.counting import count_request
from sash.core.counts.definitions import declared_function, render_functions
from sash.core.counts.families import FAMILIES, PatchRules
from sash.core.counts.measures import recipient
from sash.core.counts.models import find_model
from sash.core.counts.text import both

FILES = (
    *("vcr_chat", "kani_chat", "cookbook", "openai_chat_tokens", "openai_messages_token_helper", "more_chat"),
    "new_chat",
)
_FIELDS = ("messages", "tools", "tool_choice", "functions", "function_call", "response_format", "prediction")


def rows(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((TRUTH / f"{file}.json").read_bytes())
    return found


@cache
def openai_bills() -> tuple[Bill, ...]:
    """Return every recording of OpenAI with its current prediction."""
    return tuple(_bill(file, row) for file in FILES for row in rows(file))


def _bill(file: str, row: dict[str, Any]) -> Bill:
    sent = row["request"] | (row.get("also_sent") or {})
    request = {field: value for field, value in sent.items() if field in _FIELDS}
    model = find_model(row["model"])
    count = count_request(model, **request)
    family = model.rules.family
    billed = row["prompt_tokens"]
    return Bill("OpenAI", row["id"], file, family, kind(request), billed, count.tokens, count.exact, request)


def kind(request: Mapping[str, Any]) -> str:
    """Return a request's kind, named after the part that is hardest to predict."""
    parts = {part["type"] for part in _parts(request)}
    if parts & {"file", "input_audio"}:
        return "files and audio"
    if "image_url" in parts:
        return "images" if all(map(_is_sized, _images(request))) else "images of unknown size"
    if _format(request):
        return "response format"
    if any(message["role"] in ("tool", "function") or _calls(message) for message in request["messages"]):
        return "tool history"
    return "tool definitions" if request.get("tools") or request.get("functions") else "text"


def _parts(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for message in request["messages"]:
        if isinstance(message.get("content"), list):
            yield from message["content"]


def _images(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    images = (part["image_url"] for part in _parts(request) if part["type"] == "image_url")
    return [image if isinstance(image, dict) else {"url": image} for image in images]


def _is_sized(image: Mapping[str, Any]) -> bool:
    return image.get("detail") == "low" or image_size(image["url"]) is not None


def _format(request: Mapping[str, Any]) -> bool:
    return (request.get("response_format") or {}).get("type") == "json_schema"


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


# ---- which rule applies to which bill


def _declared(bill: Bill) -> str:
    """Return the text that a request's definitions are rendered to; empty without definitions."""
    functions = [*map(declared_function, bill.request.get("tools") or ()), *(bill.request.get("functions") or ())]
    return render_functions(functions, FAMILIES[bill.family].dialects[-1]) if functions else ""


def _spelled(dialects: set[str], pattern: str = "") -> Callable[[Bill], bool]:
    def bears_on(bill: Bill) -> bool:
        declared = _declared(bill)
        spelled = set(FAMILIES[bill.family].dialects) & dialects
        return bool(declared and spelled and re.search(pattern, declared))

    return bears_on


def _any_call(most: int, least: int = 1) -> Callable[[Bill], bool]:
    return lambda bill: any(least <= len(_calls(message)) <= most for message in bill.request["messages"])


def _split_name(bill: Bill) -> bool:
    calls = (calls[0] for message in bill.request["messages"] if len(calls := _calls(message)) == 1)
    names = [call["function"]["name"] for call in calls if "function" in call]
    return any(recipient(name) != both(name) for name in names)


def _instructed(bill: Bill) -> bool:
    return any(message["role"] in ("system", "developer") for message in bill.request["messages"])


def _of(*families: str) -> Callable[[Bill], bool]:
    return lambda bill: bill.family.startswith(families)


def _all(*conditions: Callable[[Bill], bool]) -> Callable[[Bill], bool]:
    return lambda bill: all(condition(bill) for condition in conditions)


def _formatted(bill: Bill) -> bool:
    return _format(bill.request)


def _has_definitions(bill: Bill) -> bool:
    return bool(_declared(bill))


def _spoken(bill: Bill) -> bool:
    return any(message["role"] == "assistant" and message.get("content") for message in bill.request["messages"])


def _foreign_results(bill: Bill) -> bool:
    results = [m["content"] for m in bill.request["messages"] if m["role"] == "tool" and isinstance(m["content"], str)]
    return _any_call(128, 2)(bill) and not "".join(results).isascii()


_NEW = {"2024", "2025"}
RULES: Mapping[str, Callable[[Bill], bool]] = {
    "text: 3 a message, its role, its text; 3 a request": lambda bill: bill.kind == "text",
    "search models: the text alone": _of("search"),
    "definitions or a format behind a system text: a blank line": lambda bill: (
        _instructed(bill) and (_has_definitions(bill) or _formatted(bill))
    ),
    "format: a section of compact ASCII JSON": _formatted,
    "format: its name and 2 before the reply": lambda bill: _formatted(bill) and not _has_definitions(bill),
    "format: its name and 2 before each assistant text": lambda bill: _formatted(bill) and _spoken(bill),
    "format: behind definitions, a blank line": lambda bill: _formatted(bill) and _has_definitions(bill),
    "definitions of 2023: indent, commas, few descriptions": _all(_of("gpt-2023", "gpt-3.5"), _has_definitions),
    "definitions of 2024 and later": _spelled(_NEW),
    "gpt-5: 93 tokens of instructions before definitions": _all(_of("gpt-5"), _has_definitions),
    "gpt-5: the system text before definitions gets a heading": _all(_of("gpt-5"), _has_definitions, _instructed),
    "a title and a description: // between them (seen in cl100k_base)": _all(
        _of("gpt-4-turbo"), _spelled(_NEW, r"\n// \w+\n//\n// ")
    ),
    "parameters with a title: on lines of their own": _spelled(_NEW, r"\n\) => any"),
    "items of several lines: Array<…>": _spelled(_NEW, "Array<\n"),
    "types in a list: each repeats the description": _spelled(_NEW, r"\n \| \w+ // "),
    "variants without comments: on one line": _spelled(_NEW, r": [^\n\"]* \| "),
    "the last property keeps its comma before a comment": _spelled(_NEW, r", // [^\n]*\n}"),
    "bounds as floating-point numbers": _spelled(_NEW, r"imum: \d+\.0"),
    "custom tools: 24 around a grammar": _spelled(_NEW, "FREEFORM\\)"),
    "one call: 13, its name bare and as the recipient": _all(_any_call(1), _of("gpt-4o", "gpt-4.1", "gpt-4-turbo")),
    "one call: its name differs from the recipient's": _split_name,
    "one call, 2023: 10": _all(_any_call(1), _of("gpt-2023")),
    "one call, gpt-5: 19": _all(_any_call(1), _of("gpt-5")),
    "several calls: 20, and one list of results": _all(_any_call(128, 2), _of("gpt-4")),
    "several calls, gpt-5: 26": _all(_any_call(128, 2), _of("gpt-5")),
    "several calls: results escaped to ASCII": _foreign_results,
    "tool_choice of a named function: 7 and its name": lambda bill: (
        isinstance(bill.request.get("tool_choice"), dict) and not bill.family.startswith("gpt-5")
    ),
    "tool_choice required, 2023: 2": lambda bill: (
        bill.request.get("tool_choice") == "required" and bill.family == "gpt-2023"
    ),
    "images by tiles": lambda bill: bill.kind == "images" and not isinstance(FAMILIES[bill.family].images, PatchRules),
    "images by patches, and 1 each": lambda bill: (
        bill.kind == "images" and isinstance(FAMILIES[bill.family].images, PatchRules)
    ),
}
