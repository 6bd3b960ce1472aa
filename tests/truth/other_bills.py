"""Recorded bills of other makers' models, most behind chat completions, with predictions for the requests as sent."""

import json
from functools import cache
from typing import Any

from bills import Bill
from recordings import TRUTH

from sash.core.chat.regular import regular_choice
from sash.core.counts.counting import count_request
from sash.core.counts.models import Model, find_model
from sash.core.counts.provider_requests import asks_for_thoughts, count_provider_request

FILE = "new_others"
_FIELDS = ("messages", "tools", "functions", "function_call", "response_format", "prediction")


@cache
def other_bills() -> tuple[Bill, ...]:
    """Return every recording with its current prediction. A bill's ``kind`` is the family that its model is counted as."""
    return tuple(map(_bill, json.loads((TRUTH / f"{FILE}.json").read_bytes())))


def _bill(row: dict[str, Any]) -> Bill:
    model = find_model(row["model"])
    request = row["request"] | (row.get("also_sent") or {})
    count = _count(row["format"], request, model)
    family = model.rules.family
    return Bill("Others", row["id"], FILE, family, family, row["prompt_tokens"], count.tokens, count.exact, request)


def _count(form: str, request: dict[str, Any], model: Model) -> Any:
    if form != "openai":
        return count_provider_request(form, request, model)
    fields = {name: value for name, value in request.items() if name in _FIELDS}
    choice = regular_choice(request.get("tool_choice"))
    return count_request(model, **fields, tool_choice=choice, thinks=asks_for_thoughts(request))
