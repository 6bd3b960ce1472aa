"""The place of a mistake is found where the decoder refuses, and only there, and is told in JSON's words."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from sash.api.schemas import AppendMessages, CreateConversation
from sash.core.chat.messages import ChatMessage, Entry
from sash.core.chat.shapes import misfits
from sash.core.law.records.parameters import WindowQuery
from sash.windows.counted import CountRequest

KINDS: list[Any] = [ChatMessage, Entry, AppendMessages, CountRequest, CreateConversation, WindowQuery]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "user", "text", "function", "auto", "a b", "in_progress", "x" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def first(kind: Any, value: Any) -> Any:
    """Return the first place where a value does not fit; None if it fits."""
    return next(misfits(kind, value), None)


def like(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Return values of a type, any part of which may be something else."""
    match kind:
        case inspect.Metadata():
            return like(kind.type)
        case inspect.UnionType():
            return st.one_of([like(each) for each in kind.types])
        case inspect.StructType():
            members = {field.encode_name: like(field.type) for field in kind.fields}
            needed = {field.encode_name for field in kind.fields if field.required}
            tag = {} if kind.tag_field is None else {kind.tag_field: st.just(kind.tag)}
            full = st.fixed_dictionaries(
                tag | {name: each for name, each in members.items() if name in needed},
                optional={name: each for name, each in members.items() if name not in needed},
            )
            spoilt = st.dictionaries(st.sampled_from([*members, "zzz"]), VALUES, min_size=1, max_size=1)
            return (
                full | st.builds(dict.__or__, full, spoilt) | st.builds(without_one, full, st.integers(0, 5)) | VALUES
            )
        case inspect.ListType():
            return st.lists(like(kind.item_type), max_size=3) | VALUES
        case inspect.TupleType():
            return st.tuples(*map(like, kind.item_types)).map(list) | VALUES
        case inspect.LiteralType():
            return st.sampled_from(kind.values) | VALUES
        case _:
            return VALUES


def without_one(value: dict[str, Any], place: int) -> dict[str, Any]:
    """Return an object without one of its members."""
    return {name: each for at, (name, each) in enumerate(value.items()) if at != place}


LIKE = [like(inspect.type_info(kind)) for kind in KINDS]


@st.composite
def near(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw a type, and a value that is like its values."""
    place = draw(st.integers(0, len(KINDS) - 1))
    return KINDS[place], draw(LIKE[place])


@given(near())
def test_a_misfit_is_found_exactly_where_the_decoder_refuses(pair: tuple[Any, Any]) -> None:
    """For any value, a misfit is found if and only if the decoder refuses the value."""
    kind, value = pair
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        refused = True
    else:
        refused = False
    assert (first(kind, value) is not None) == refused


@given(near())
def test_a_misfit_speaks_of_json(pair: tuple[Any, Any]) -> None:
    """No message has a word of Python, or a pattern."""
    found = first(*pair)
    assert found is None or re.search(r"\b(int|str|float|bool|None|dict|Struct)\b|\^\[", found.what) is None


def tool_message(call: str) -> dict[str, Any]:
    """Return a result for a call."""
    return {"role": "tool", "tool_call_id": call, "content": ""}


@pytest.mark.parametrize(
    ("kind", "value", "steps", "what"),
    [
        (CreateConversation, {"ttl_seconds": "x"}, ("ttl_seconds",), "Expected a whole number from 1 to 315360000"),
        (CreateConversation, {"id": "a/b"}, ("id",), "Expected 1 to 128 letters, digits, '.', '_' and '-'"),
        (Entry, {"message": {}, "pinned": 1}, ("pinned",), "Expected true or false, not 1"),
        (Entry, {"message": {}, "image_sizes": [[1]]}, ("image_sizes", "0"), "Expected a list of 2 items"),
        (ChatMessage, {"role": "tool", "content": "x"}, (), "The field 'tool_call_id' is missing"),
        (ChatMessage, tool_message(""), ("tool_call_id",), "Expected a string of 1 to 4096 characters"),
    ],
)  # fmt: skip
def test_what_is_expected(kind: Any, value: Any, steps: tuple[str, ...], what: str) -> None:
    """A mistake's place is followed by what fits there."""
    found = first(kind, value)
    assert found is not None
    assert found.steps == steps
    assert found.what.startswith(what)
