"""Which counting rules a bill rests on, by vendor. A bill that is not predicted to the token names one of them.

Rules with figures are OpenAI's, whose text is counted to the token. Those of others name the part that was estimated; its
figures are in ``core/counts/models/vendors.py`` and ``core/counts/models/templates.py``.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final

from sash.core.counts.costs.definitions import declared_function, render_functions
from sash.core.counts.measures.measures import recipient
from sash.core.counts.models.families import FAMILIES, PatchRules, Rules
from sash.core.counts.requests.provider_requests import asks_for_reasoning
from sash.core.counts.text import both
from sash_tools.bills.bill import OTHERS, Bill
from sash_tools.bills.request_kinds import has_schema

Condition = Callable[[Bill], bool]
Rulebook = Mapping[str, Condition]


def rules_of(bill: Bill) -> list[str]:
    """Return the names of the rules that bear on a bill."""
    return [name for name, bears_on in RULES[bill.vendor].items() if bears_on(bill)]


def doubtful_rules(bills: Iterable[Bill]) -> list[str]:
    """Return for each bill the rule that its error rests on most likely; "" where no rule bears on it.

    That is the rule whose bills are furthest off by their median; among equals, the one with the smallest share of bills
    predicted to the token, then the one with the fewest bills. If the request does not show all that is billed, it is the
    last rule, which says so.
    """
    found = [(bill, rules_of(bill)) for bill in bills]
    bearing: dict[tuple[str, str], list[float]] = {}
    for bill, names in found:
        for name in names:
            bearing.setdefault((bill.vendor, name), []).append(abs(bill.error) / max(1, bill.billed))
    doubts = {rule: (-median(errors), errors.count(0.0) / len(errors), len(errors)) for rule, errors in bearing.items()}
    return [
        min(names, key=lambda name: doubts[bill.vendor, name]) if bill.is_shown and names else (names or [""])[-1]
        for bill, names in found
    ]


# ---- conditions on chat requests of OpenAI


def _calls(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return message.get("tool_calls") or ()


def _declared(bill: Bill) -> str:
    """The text that a request's definitions are rendered to; empty without definitions."""
    functions = [*map(declared_function, bill.request.get("tools") or ()), *(bill.request.get("functions") or ())]
    return render_functions(functions, _family(bill).dialects[-1]) if functions else ""


def _family(bill: Bill) -> Rules:
    return FAMILIES[bill.family]


def _has_definitions(bill: Bill) -> bool:
    return bool(bill.request.get("tools") or bill.request.get("functions"))


def _spelled(dialects: frozenset[str], pattern: str = "") -> Condition:
    def bears_on(bill: Bill) -> bool:
        if not _has_definitions(bill) or not dialects.intersection(_family(bill).dialects):
            return False
        return not pattern or bool(re.search(pattern, _declared(bill)))

    return bears_on


def _any_call(most: int, least: int = 1) -> Condition:
    return lambda bill: any(least <= len(_calls(message)) <= most for message in bill.request["messages"])


def _split_name(bill: Bill) -> bool:
    calls = (calls[0] for message in bill.request["messages"] if len(calls := _calls(message)) == 1)
    names = [call["function"]["name"] for call in calls if "function" in call]
    return any(recipient(name) != both(name) for name in names)


def _instructed(bill: Bill) -> bool:
    return any(message["role"] in ("system", "developer") for message in bill.request["messages"])


def _of(*families: str) -> Condition:
    return lambda bill: bill.family.startswith(families)


def _all(*conditions: Condition) -> Condition:
    return lambda bill: all(condition(bill) for condition in conditions)


def _not(condition: Condition) -> Condition:
    return lambda bill: not condition(bill)


def _formatted(bill: Bill) -> bool:
    return has_schema(bill.request.get("response_format"))


def _spoken(bill: Bill) -> bool:
    return any(message["role"] == "assistant" and message.get("content") for message in bill.request["messages"])


def _foreign_results(bill: Bill) -> bool:
    results = [m["content"] for m in bill.request["messages"] if m["role"] == "tool" and isinstance(m["content"], str)]
    return _any_call(128, 2)(bill) and not "".join(results).isascii()


def _kind(*kinds: str) -> Condition:
    return lambda bill: bill.kind in kinds


def _by_patches(bill: Bill) -> bool:
    return isinstance(_family(bill).images, PatchRules)


_NEW: Final = frozenset({"2024", "2025"})
_CHAT: Final[Rulebook] = {
    "text: 3 a message, its role, its text; 3 a request": _kind("text"),
    "search models: the text alone": _of("search"),
    "definitions or a format behind a system text: a blank line": lambda bill: (
        _instructed(bill) and (_has_definitions(bill) or _formatted(bill))
    ),
    "format: a section of compact ASCII JSON": _formatted,
    "format: its name and 2 before the reply": _all(_formatted, _not(_has_definitions)),
    "format: its name and 2 before each assistant text": _all(_formatted, _spoken),
    "format: behind definitions, a blank line": _all(_formatted, _has_definitions),
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
    "`tool_choice` of a named function: 7 and its name": _all(
        lambda bill: isinstance(bill.request.get("tool_choice"), dict), _not(_of("gpt-5"))
    ),
    "`tool_choice` required, 2023: 2": _all(
        lambda bill: bill.request.get("tool_choice") == "required", _of("gpt-2023")
    ),
    "images by tiles": _all(_kind("images"), _not(_by_patches)),
    "images by patches, and 1 each": _all(_kind("images"), _by_patches),
    "images of unknown size: the largest": _kind("images of unknown size"),
    "files and audio: an estimate by their size": _kind("files and audio"),
}


# ---- conditions on Responses requests


def _items(bill: Bill, kind: str) -> list[Mapping[str, Any]]:
    items = bill.request["input"]
    return [item for item in items if item.get("type") == kind] if isinstance(items, list) else []


def _declares(*families: str) -> Condition:
    return _all(_has_definitions, _of(*families))


def _item_calls(least: int, *families: str) -> Condition:
    return _all(lambda bill: len(_items(bill, "function_call")) >= least, _of(*families))


def _item_formats(*families: str) -> Condition:
    return _all(lambda bill: has_schema((bill.request.get("text") or {}).get("format")), _of(*families))


_OLDER: Final = ("gpt-4o", "gpt-4.1")
_NEWER: Final = ("gpt-5", "o")
_RESPONSES: Final[Rulebook] = {
    "text: as in chat completions": _kind("text"),
    "gpt-4o, gpt-4.1: definitions cost their text and 3": _declares(*_OLDER),
    "gpt-4o, gpt-4.1: `tool_choice` required, 9": _all(
        lambda bill: bill.request.get("tool_choice") == "required", _of(*_OLDER)
    ),
    "gpt-5, o-series: definitions without 78 tokens before them": _declares(*_NEWER),
    "gpt-4o, gpt-4.1: one call, 11, or 14 as it came": _item_calls(1, *_OLDER),
    "gpt-4o, gpt-4.1: several calls, 11 each": _item_calls(2, *_OLDER),
    "gpt-5, o4-mini: one call, 17; from gpt-5.2 on 20": _item_calls(1, *_NEWER),
    "gpt-5: several calls, 22 and 14 each": _item_calls(2, *_NEWER),
    "gpt-4o, gpt-4.1: a format is its section and 1": _item_formats(*_OLDER),
    "gpt-5, o-series: a format is its section alone": _item_formats(*_NEWER),
    "reasoning before the newest question: nothing": _all(
        _not(_kind("reasoning")), lambda bill: bool(_items(bill, "reasoning"))
    ),
    "reasoning behind the newest question: an estimate": _kind("reasoning"),
    "hosted tools: their definitions as billed": _kind("hosted tools"),
    "items that only OpenAI has: 40 each": _kind("items kept by OpenAI"),
    "images by their size": _kind("images"),
    "images of unknown size: the largest": _kind("images of unknown size"),
    "files and audio: an estimate by their size": _kind("files and audio"),
}


# ---- conditions on requests in chat form, of any provider


def _has_tools(bill: Bill) -> bool:
    return bill.chat is not None and bool(bill.chat.tools)


def _forces(bill: Bill) -> bool:
    return bill.chat is not None and (bill.chat.tool_choice == "required" or isinstance(bill.chat.tool_choice, dict))


def _has_calls(least: int) -> Condition:
    return lambda bill: bill.chat is not None and any(len(_calls(each)) >= least for each in bill.chat.messages)


def _has_format(bill: Bill) -> bool:
    return bill.chat is not None and bill.chat.response_format is not None


def _thinks(kind: str) -> Condition:
    return lambda bill: (bill.request.get("thinking") or {}).get("type") == kind


def _begins_with_reply(bill: Bill) -> bool:
    roles = [each["role"] for each in bill.chat.messages if each["role"] != "system"] if bill.chat is not None else []
    return roles[:1] == ["assistant"]


def _is_signed(bill: Bill) -> bool:
    sent = json.dumps(bill.request.get("contents"))
    return "thoughtSignature" in sent or "thought_signature" in sent


_TEXT: Final = "text: its words by script, and what stands around a message"
_CLAUDE: Final[Rulebook] = {
    _TEXT: _kind("text"),
    "definitions: instructions, and a line of JSON each": _has_tools,
    "definitions with a forced call": _all(_has_tools, _forces),
    "a call with its result": _has_calls(1),
    "several calls": _has_calls(2),
    "`thinking` enabled": _all(_thinks("enabled"), _not(_has_tools)),
    "`thinking` enabled, with definitions": _all(_thinks("enabled"), _has_tools),
    "`thinking` adaptive": _thinks("adaptive"),
    "a schema for the reply: indented JSON": _has_format,
    "a history that begins with the assistant": _begins_with_reply,
    "images by width and height": _kind("images"),
    "files: pages of a PDF, or their text": _kind("files and audio"),
    "hosted tools: their definitions as billed": _kind("hosted tools, caches"),
}
_GEMINI: Final[Rulebook] = {
    _TEXT: _kind("text"),
    "definitions: a parameter twice, as in Python": _has_tools,
    "a call with its result": _has_calls(1),
    "several calls": _has_calls(2),
    "signed thoughts: by their length": _is_signed,
    "a schema for the reply": _has_format,
    "images by crops": _kind("images"),
    "files: pages of a PDF, or their length": _kind("files and audio"),
    "hosted tools": _kind("hosted tools, caches"),
}
_OTHERS: Final[Rulebook] = {
    _TEXT: lambda bill: (
        not (_has_tools(bill) or _has_calls(1)(bill) or _has_format(bill) or bill.request.get("documents"))
    ),
    "definitions in the family's template": _has_tools,
    "a call with its result": _has_calls(1),
    "several calls": _has_calls(2),
    "a schema for the reply": _has_format,
    "calls without definitions": _all(_has_calls(1), _not(_has_tools)),
    "documents of the request": lambda bill: bool(bill.request.get("documents")),
    "instructions to think": lambda bill: asks_for_reasoning(bill.request),
}
RULES: Final[Mapping[str, Rulebook]] = {
    "OpenAI": _CHAT,
    "OpenAI Responses": _RESPONSES,
    "Claude": _CLAUDE,
    "Gemini": _GEMINI,
    OTHERS: _OTHERS,
}
"""The rules of each vendor, by what they say."""
