"""The lists of known kinds have everything that the vendors' SDKs have."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from anthropic.types import content_block_param, tool_result_block_param
from anthropic.types.beta import beta_content_block_param, beta_tool_result_block_param
from google.genai import types as gemini
from openai.types.beta import beta_response_input_item_param
from openai.types.conversations import message
from openai.types.responses import response_input_item_param

from sash.core.providers.anthropic.claude_kinds import BLOCKS, RESULT_BLOCKS
from sash.core.providers.google.gemini_kinds import PARTS, unknown_parts
from sash.core.providers.openai.item_kinds import CONTENTS, ITEMS, unknown_items


def literals(kind: Any) -> Iterator[str]:
    """Yield the words in a type."""
    for each in get_args(kind):
        if isinstance(each, str):
            yield each
        else:
            yield from literals(each)


def types_of(union: Any) -> set[str]:
    """Return the values of ``type`` in a union of typed dictionaries."""
    members = get_args(get_args(union)[0] if get_origin(union) is Annotated else union)
    dicts = [each for each in members if isinstance(each, type) and hasattr(each, "__total__")]
    return {word for each in dicts for word in literals(get_type_hints(each).get("type"))}


@pytest.mark.parametrize(
    ("known", "unions"),
    [
        (
            ITEMS,
            (
                response_input_item_param.ResponseInputItemParam,
                beta_response_input_item_param.BetaResponseInputItemParam,
            ),
        ),
        (BLOCKS, (content_block_param.ContentBlockParam, beta_content_block_param.BetaContentBlockParam)),
        (RESULT_BLOCKS, (tool_result_block_param.Content, beta_tool_result_block_param.Content)),
    ],
)
def test_every_type_of_an_sdk_is_known(known: Iterable[str], unions: tuple[Any, ...]) -> None:
    """Each type of an item or block in the installed SDK is in the list, and the list has no other."""
    assert set(known) == set().union(*map(types_of, unions))


def test_every_type_of_a_messages_part_is_known() -> None:
    """Each type of a part of a message in OpenAI's SDK is in the list, which has sounds besides."""
    union = get_args(get_args(message.Content)[0])
    assert {word for each in union for word in literals(each.model_fields["type"].annotation)} == {*CONTENTS} - {
        *("input_audio", "output_audio", "audio")
    }


def test_every_member_of_a_part_is_known_in_both_spellings() -> None:
    """Each member of the SDK's parts is known in camel case and in snake case."""
    fields = gemini.Part.model_fields
    assert {str(field.alias) for field in fields.values()} == set(PARTS)
    for name, field in fields.items():
        assert not list(unknown_parts({"parts": [{name: {}}, {str(field.alias): {}}]}, ""))


def test_what_is_null_or_without_a_type_is_no_unknown_kind() -> None:
    """A dump has members of tomorrow as null, and a message of Responses needs no type."""
    assert not list(unknown_parts({"parts": [{"text": "x", "hologram": None}]}, ""))
    assert not list(unknown_items({"role": "user", "content": "x"}, ""))
