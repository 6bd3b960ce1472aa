"""A provider's whole request in chat form, and the pieces that readers of such requests share."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sash.core.providers.messages.pieces import Object, rest_of

ReadAsChat = Callable[[Sequence[Any], str], list[Object]]
"""Reads own messages at this pointer as chat messages."""


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's whole request in chat form.

    ``hosted`` are definitions of tools that the provider itself runs. ``rest`` are the members without a place in a chat
    request. Both are as they came.
    """

    messages: list[Object]
    tools: list[Object] = []
    tool_choice: Any = None
    response_format: Object | None = None
    hosted: list[Object] = []
    rest: Object = {}


def chat_function(tool: Object, parameters: Any, *others: str) -> Object:
    """Return a function's definition in chat form, without members that are None and without ``others``."""
    named = {"name": tool.get("name"), "description": tool.get("description"), "parameters": parameters}
    fields = named | rest_of(tool, *named, *others)
    return {"type": "function", "function": {key: value for key, value in fields.items() if value is not None}}


def one_tool(name: Any, kind: str = "function") -> Object:
    """Return the choice of one tool, in chat form."""
    return {"type": kind, kind: {"name": name}}


def schema_format(schema: Any, name: Any = "response", **extra: Any) -> Object | None:
    """Return a response format with a JSON schema, in chat form; None without a schema."""
    if not isinstance(schema, dict):
        return None
    fields = {"name": name or "response", "schema": schema, **extra}
    return {"type": "json_schema", "json_schema": {key: value for key, value in fields.items() if value is not None}}
