"""OpenAI's recorded bills for the Responses API, with predictions for the requests as they were sent."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from bills import Bill
from recordings import TRUTH

from sash.core.counts.attachments import image_size
from sash.core.counts.models import find_model
from sash.core.counts.provider_requests import count_provider_request

FILES = ("kani_responses", "new_responses")
ESTIMATED = ("files and audio", "hosted tools", "images of unknown size", "items kept by OpenAI", "reasoning")
"""Kinds of request that do not show all that is billed."""


@cache
def responses_bills() -> tuple[Bill, ...]:
    """Return every recording of the Responses API with its current prediction."""
    return tuple(_bill(file, row) for file in FILES for row in json.loads((TRUTH / f"{file}.json").read_bytes()))


def _bill(file: str, row: dict[str, Any]) -> Bill:
    model, request = find_model(row["model"]), row["request"]
    count = count_provider_request("responses", request, model)
    family, billed = model.rules.family, row["prompt_tokens"]
    return Bill("OpenAI Responses", row["id"], file, family, kind(row), billed, count.tokens, count.exact, request)


def kind(row: Mapping[str, Any]) -> str:
    """Return a request's kind, named after the part that is hardest to predict.

    Reasoning is billed from the newest user message on.
    """
    request, kinds = row["request"], set(row.get("kinds") or ())
    items = request["input"] if isinstance(request["input"], list) else []
    types = {str(item.get("type")) for item in items}
    if any(each.startswith(("hosted", "ran hosted")) for each in kinds):
        return "hosted tools"
    if "file/audio" in kinds:
        return "files and audio"
    if "item_reference" in types:
        return "items kept by OpenAI"
    if "image" in kinds:
        return "images" if all(map(_is_sized, _images(items))) else "images of unknown size"
    asked = max((index for index, item in enumerate(items) if item.get("role") == "user"), default=0)
    if any(item.get("type") == "reasoning" for item in items[asked:]):
        return "reasoning"
    if "response_format" in kinds:
        return "response format"
    if "function_call" in types:
        return "tool history"
    return "tool definitions" if request.get("tools") else "text"


def _images(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    contents = [item.get("content") or item.get("output") for item in items]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part for part in parts if part.get("type") == "input_image"]


def _is_sized(image: Mapping[str, Any]) -> bool:
    return image.get("detail") == "low" or image_size(str(image.get("image_url"))) is not None


# ---- which rule applies to which bill


def _items(bill: Bill, kind: str) -> list[dict[str, Any]]:
    items = bill.request["input"]
    return [item for item in items if item.get("type") == kind] if isinstance(items, list) else []


def _declares(*families: str) -> Callable[[Bill], bool]:
    return lambda bill: bool(bill.request.get("tools")) and bill.family.startswith(families)


def _calls(least: int, *families: str) -> Callable[[Bill], bool]:
    return lambda bill: len(_items(bill, "function_call")) >= least and bill.family.startswith(families)


def _formats(*families: str) -> Callable[[Bill], bool]:
    return lambda bill: (
        ((bill.request.get("text") or {}).get("format") or {}).get("type") == "json_schema"
        and bill.family.startswith(families)
    )


_OLDER = ("gpt-4o", "gpt-4.1")
_NEWER = ("gpt-5", "o")
RULES: Mapping[str, Callable[[Bill], bool]] = {
    "text: as in chat completions": lambda bill: bill.kind == "text",
    "gpt-4o, gpt-4.1: definitions cost their text and 3": _declares(*_OLDER),
    "gpt-4o, gpt-4.1: `tool_choice` required, 9": lambda bill: (
        bill.request.get("tool_choice") == "required" and bill.family.startswith(_OLDER)
    ),
    "gpt-5, o-series: definitions without 78 tokens before them": _declares(*_NEWER),
    "gpt-4o, gpt-4.1: one call, 11, or 14 as it came": _calls(1, *_OLDER),
    "gpt-4o, gpt-4.1: several calls, 11 each": _calls(2, *_OLDER),
    "gpt-5, o4-mini: one call, 17; from gpt-5.2 on 20": _calls(1, *_NEWER),
    "gpt-5: several calls, 22 and 14 each": _calls(2, *_NEWER),
    "gpt-4o, gpt-4.1: a format is its section and 1": _formats(*_OLDER),
    "gpt-5, o-series: a format is its section alone": _formats(*_NEWER),
    "reasoning before the newest question: nothing": lambda bill: (
        bill.kind != "reasoning" and bool(_items(bill, "reasoning"))
    ),
}
