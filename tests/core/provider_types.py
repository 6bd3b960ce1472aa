"""Strategies for providers' messages, from the types of their SDKs: every kind of item, block and part."""

import io
import os
import typing
from collections.abc import Iterable
from types import UnionType
from typing import Any

from anthropic.types import content_block_param
from anthropic.types.beta import beta_content_block_param
from google.genai import types as gemini
from hypothesis import strategies as st
from openai.types.responses import response_input_item_param
from pydantic import BaseModel

NAMED = frozenset({"id", "call_id", "tool_use_id", "name", "approval_request_id"})
"""Members that no API accepts empty, although the types allow it."""

for bytes_or_path in (os.PathLike, io.IOBase, typing.IO):
    st.register_type_strategy(bytes_or_path, st.text(max_size=8))
st.register_type_strategy(
    object, st.none() | st.text(max_size=5) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


def _members(union: Any) -> list[Any]:
    """Return the TypedDicts of a union, which are the types of requests."""
    return [each for each in typing.get_args(union) if isinstance(each, type) and hasattr(each, "__total__")]


ITEMS = _members(response_input_item_param.ResponseInputItemParam)
BLOCKS = _members(content_block_param.ContentBlockParam) + _members(beta_content_block_param.BetaContentBlockParam)
_OF_USERS = ("Text", "Image", "Document", "SearchResultBlock", "ToolResultBlock", "Upload")
_OF_ASSISTANTS = ("CodeExecution", "WebSearch", "ToolSearch", "Advisor", "MCP", "Editor")
USER_BLOCKS = [
    block
    for block in BLOCKS
    if any(word in block.__name__ for word in _OF_USERS) and not any(word in block.__name__ for word in _OF_ASSISTANTS)
]


def as_json(value: Any, key: str = "") -> Any:
    """Return a drawn value as JSON: iterables become lists, and no id or name is empty."""
    match value:
        case dict():
            return {str(name): as_json(each, str(name)) for name, each in value.items()}
        case str():
            return value or ("x" if key in NAMED else "")
        case bool() | int() | float() | None:
            return value if value == value and value not in (float("inf"), float("-inf")) else 0.5
        case _ if isinstance(value, Iterable):
            return [as_json(each) for each in value]
        case _:
            return str(value)


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw items of the Responses API, each of any kind."""
    kinds = draw(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=5))
    return [as_json(draw(st.from_type(kind))) for kind in kinds]


@st.composite
def anthropic_messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw Anthropic's messages, with blocks of any kind."""
    messages = []
    for role in draw(st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=4)):
        kinds = draw(st.lists(st.sampled_from(USER_BLOCKS if role == "user" else BLOCKS), max_size=5))
        blocks = [as_json(draw(st.from_type(kind))) for kind in kinds]
        messages.append({"role": role, "content": draw(st.sampled_from([blocks, blocks, draw(st.text(max_size=9))]))})
    return messages


@st.composite
def of_model(draw: st.DrawFn, kind: type[BaseModel]) -> BaseModel:
    """Draw a pydantic model with up to three of its fields."""
    names = draw(st.lists(st.sampled_from(sorted(kind.model_fields)), max_size=3, unique=True))
    return kind(**{name: draw(of_annotation(kind.model_fields[name].annotation)) for name in names})


def of_annotation(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a field's values, without None."""
    inner = [each for each in typing.get_args(annotation) if each is not type(None)]
    if typing.get_origin(annotation) is list:
        return st.lists(of_annotation(inner[0]), max_size=2)
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        return st.one_of(*map(of_annotation, inner))
    if typing.get_origin(annotation) is dict or annotation in (Any, dict):
        return st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers(), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return of_model(annotation)
    return st.from_type(annotation)


PARTS = sorted(set(gemini.Part.model_fields) - {"thought", "thought_signature", "part_metadata"})


@st.composite
def contents(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw Gemini's contents as the SDK writes them, in camel case or in snake case."""
    camel = draw(st.booleans())
    messages = []
    for role in draw(st.lists(st.sampled_from(["user", "model"]), min_size=1, max_size=4)):
        parts = []
        for name in draw(st.lists(st.sampled_from(PARTS), max_size=4)):
            part = gemini.Part(**{name: draw(of_annotation(gemini.Part.model_fields[name].annotation))})
            if draw(st.booleans()):
                part.thought_signature = draw(st.binary(max_size=9))
            part.thought = draw(st.sampled_from([None, False, True]))
            for named in (part.function_call, part.function_response):
                if named is not None:
                    named.name, named.id = named.name or "look", None
            parts.append(part.model_dump(mode="json", exclude_none=True, by_alias=camel))
        messages.append({"role": role, "parts": parts})
    return messages
