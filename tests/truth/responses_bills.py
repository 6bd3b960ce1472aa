"""OpenAI's recorded bills for the Responses API, with predictions for the requests as they were sent."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from bills import Bill
from recordings import TRUTH

from sash.core.counts.models import find_model
from sash.core.counts.provider_requests import count_provider_request

FILE = "kani_responses"


@cache
def responses_bills() -> tuple[Bill, ...]:
    """Return every recording of the Responses API with its current prediction."""
    return tuple(map(_bill, json.loads((TRUTH / f"{FILE}.json").read_bytes())))


def _bill(row: dict[str, Any]) -> Bill:
    model, request = find_model(row["model"]), row["request"]
    count = count_provider_request("responses", request, model)
    return Bill(
        "OpenAI Responses",
        row["id"],
        FILE,
        model.rules.family,
        kind(request),
        row["prompt_tokens"],
        count.tokens,
        count.exact,
        request,
    )


def kind(request: Mapping[str, Any]) -> str:
    """Return a request's kind, named after the part that is hardest to predict.

    Encrypted reasoning is billed from the newest user message on.
    """
    items = request["input"]
    asked = max(index for index, item in enumerate(items) if item.get("role") == "user")
    if any(item.get("type") == "reasoning" for item in items[asked:]):
        return "encrypted reasoning"
    return "tool definitions" if request.get("tools") else "text"
