"""Requests to ask a provider about a new model: one for each thing that is billed by a rule of its own.

They are written as chat messages and sent as windows of the provider's format, so that they are what Sash sends.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from sash.core.counts.models.models import Model
from sash.core.providers.reading.native import read_request
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from sash_tools.bills.request_kinds import kinds_of
from sash_tools.bills.token_endpoints import TOKEN_ENDPOINTS
from sash_tools.bills.truth_rows import TruthRow

Object = dict[str, Any]

_SYSTEM: Final = "You plan the evenings of a small town's library. Answer in two sentences."
_QUESTION: Final = "Which evening in March suits a reading for children, and why?"
_REPLY: Final = (
    "The second Friday: the school has no lessons on the day after, and the hall is free from five o'clock on."
)
_GERMAN: Final = "Größere Säle hätten für fünfzig Gäste genügend Stühle, doch fehlt oft die Heizung. "
_JAPANESE: Final = "図書館の夜の朗読会は、子どもたちにとって楽しい時間になります。"
_RUSSIAN: Final = "Вечер в библиотеке начинается в пять часов, и все места бесплатны. "
_CITY: Final = {"type": "string", "description": "A city, as its people write it"}
_WEATHER: Final = {
    "name": "weather",
    "description": "The weather of a day.",
    "parameters": {"type": "object", "properties": {"city": _CITY}, "required": ["city"]},
}
_BOOKING: Final = {
    "name": "book_hall",
    "description": "Book a hall for an evening. Ask before you book.",
    "parameters": {
        "type": "object",
        "properties": {
            "hall": {"type": "string", "enum": ["north", "south", "garden"]},
            "guests": {"type": "integer", "description": "Expected guests"},
            "times": {
                "type": "object",
                "properties": {"from": {"type": "string"}, "to": {"type": "string"}},
                "required": ["from"],
            },
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["hall", "times"],
    },
}
_FREE: Final = {"name": "free_evenings", "parameters": {"type": "object", "properties": {}}}
_SCHEMA: Final = {
    "type": "object",
    "properties": {"evening": {"type": "string"}, "reasons": {"type": "array", "items": {"type": "string"}}},
    "required": ["evening", "reasons"],
    "additionalProperties": False,
}
_PIXELS: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAlgAAAGQAQAAAABaTiM1AAAANElEQVR42u3BAQ0AAADCoPdPbQ8HFAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAjwZ2"
    "wAABTwrGEAAAAABJRU5ErkJggg=="
)
"""A black PNG of 600 by 400 pixels."""


def _user(text: str) -> Object:
    return {"role": "user", "content": text}


def _said(text: str) -> Object:
    return {"role": "assistant", "content": text}


def _called(*cities: str) -> list[Object]:
    calls = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": "weather", "arguments": f'{{"city":"{city}"}}'},
        }
        for place, city in enumerate(cities)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": '{"sky":"clear","degrees":14}'} for call in calls
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def _tools(*functions: Object) -> list[Object]:
    return [{"type": "function", "function": function} for function in functions]


_ASKED: Final = _user("What will the weather be in Ulm and in Bern?")
PROBES: Final[Mapping[str, Object]] = {
    "text": {"messages": [_user(_QUESTION)]},
    "text-long": {"messages": [_user(f"{_QUESTION} {_REPLY} " * 12)]},
    "text-german": {"messages": [_user(_GERMAN * 6)]},
    "text-japanese": {"messages": [_user(_JAPANESE * 6)]},
    "text-russian": {"messages": [_user(_RUSSIAN * 6)]},
    "text-digits": {"messages": [_user("2026-03-13 17:00 4711 0815 1234567890 3.14159 " * 6)]},
    "system": {"system": _SYSTEM, "messages": [_user(_QUESTION)]},
    "turns": {"system": _SYSTEM, "messages": [_user(_QUESTION), _said(_REPLY), _user("And in April?")]},
    "tool": {"tools": _tools(_WEATHER), "messages": [_ASKED]},
    "tool-system": {"system": _SYSTEM, "tools": _tools(_WEATHER), "messages": [_ASKED]},
    "tool-nested": {"tools": _tools(_BOOKING), "messages": [_user(_QUESTION)]},
    "tools": {"tools": _tools(_WEATHER, _BOOKING, _FREE), "messages": [_user(_QUESTION)]},
    "tool-required": {"tools": _tools(_WEATHER), "tool_choice": "required", "messages": [_ASKED]},
    "tool-named": {
        "tools": _tools(_WEATHER, _FREE),
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "messages": [_ASKED],
    },
    "call": {"tools": _tools(_WEATHER), "messages": [_ASKED, *_called("Ulm")]},
    "calls": {"tools": _tools(_WEATHER), "messages": [_ASKED, *_called("Ulm", "Bern")]},
    "calls-then-question": {
        "system": _SYSTEM,
        "tools": _tools(_WEATHER, _FREE),
        "messages": [_ASKED, *_called("Ulm"), _said("Clear, 14 degrees."), _user(_QUESTION)],
    },
    "format": {"messages": [_user(_QUESTION)]},
    "format-system": {"system": _SYSTEM, "messages": [_user(_QUESTION)]},
    "image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXELS}"}},
                ],
            }
        ]
    },
}
"""Bodies of ``POST /window``, by the names of their rows. Messages stand without their entries."""


def probes_for(model: Model, form: str, models: Mapping[str, Model]) -> Iterator[TruthRow]:
    """Yield the requests for a model in a format, with the model's name and without a bill."""
    for name, probe in PROBES.items():
        entries = [{"message": message} for message in probe["messages"]]
        body = {**probe, "messages": entries, "model": model.id, "format": form, "reserve": 0}
        wanted = msgspec.convert(body, WindowRequest)
        request: Object = msgspec.json.decode(window_of_request(wanted, models)[0].body)["request"]
        if name.startswith("format"):
            schema = TOKEN_ENDPOINTS[form].schema
            request |= schema("evening", _SCHEMA) if schema is not None else {}
        kinds = kinds_of(read_request(form, request))
        yield TruthRow(id=f"{form}-{name}", model=model.id, request=request, format=form, kinds=kinds)
