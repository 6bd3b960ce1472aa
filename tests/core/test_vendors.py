"""The tokens that Claude and Gemini bill around text, computed from a message's measure."""

import base64
from typing import Any

import msgspec
import pytest

from sash.core.counts.costs.counting import count_request, message_tokens, tools_tokens
from sash.core.counts.costs.estimates import estimate_text
from sash.core.counts.measures.attachments import AUTO, image_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import find_model
from sash.core.counts.models.vendors import VENDORS
from sash.core.law.records.costs import message_costs
from sash.core.law.records.records import Records
from sash.core.stored.record import Record

CLAUDE, GEMINI = find_model("claude-sonnet-4-5"), find_model("gemini-2.5-flash")
TEXT = "Who brought the spare jib on Sunday?"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Kiel"}'}}


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("claude-3-opus-20240229", "claude-3-opus"),
        ("anthropic.claude-3-5-sonnet-20240620-v1:0", "claude-3"),
        ("claude-3-7-sonnet-20250219", "claude-4"),
        ("claude-opus-4-1-20250805", "claude-4"),
        ("claude-sonnet-4-20250514", "claude-4"),
        ("anthropic/claude-haiku-4.5", "claude-4.5"),
        ("claude-sonnet-4-6", "claude-4.6"),
        ("claude-opus-4-7", "claude-4.7"),
        ("claude-fable-5", "claude-5"),
        ("gemini-1.5-flash", "gemini-1.5"),
        ("gemini-2.0-flash-001", "gemini-2.0"),
        ("gemini-2.5-flash-lite", "gemini-2.5"),
        ("gemini-3-pro-preview", "gemini-3"),
        ("gemini-3.6-flash", "gemini-3.1"),
    ],
)
def test_a_model_counts_as_its_generation(name: str, family: str) -> None:
    """Each generation of a vendor's models has its own rules; a new name has the rules of the newest generation."""
    assert find_model(name).rules == VENDORS[family]


def test_a_short_question_costs_claude_seven_more_than_its_text() -> None:
    """Claude bills 4 tokens for a request and 3 for a message, in addition to the text."""
    counted = count_request(CLAUDE, messages=[{"role": "user", "content": TEXT}])
    assert (counted.priming, counted.messages) == (4, [3 + estimate_text(TEXT, "claude")])


@pytest.mark.parametrize(
    "text", ["Order 1234567890 of 2024-11-24", "Sail 2048, jib 4096 and spare 81920 are in hall 12345"]
)
def test_numbers_cost_only_where_they_are(text: str) -> None:
    """Numbers in a text, whose digits are a token each, do not make the names of the calls beside it dearer."""
    said = {"role": "assistant", "content": text}
    both, *apart = (
        count_request(GEMINI, messages=[message]).tokens
        for message in (
            said | {"tool_calls": [CALL]},
            said,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
        )
    )
    assert both <= sum(apart) + 1


def test_a_system_text_costs_one_more_than_its_words() -> None:
    """A system text costs two tokens less than a user message, because it is not a message of its own."""
    system, asked = (count_request(CLAUDE, messages=[{"role": role, "content": TEXT}]) for role in ("system", "user"))
    assert asked.tokens - system.tokens == 2


@pytest.mark.parametrize(("name", "around"), [("gemini-2.0-flash", 0), ("gemini-2.5-flash", 1)])
def test_gemini_bills_a_token_around_a_message_from_2_5_on(name: str, around: int) -> None:
    """Gemini 2.0 bills the text alone, later models a token besides."""
    message = measure({"role": "user", "content": TEXT})
    assert message_tokens(message, find_model(name)) == estimate_text(TEXT, "gemini") + around


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("Hello", 1), ("13", 2), ("What is the capital of France?", 7), ("Use get_weather now.", 6)],
)
def test_a_short_english_text_has_geminis_tokens(text: str, tokens: int) -> None:
    """A short English text is estimated at its tokens in Gemma's vocabulary, which has each digit and each mark apart."""
    assert estimate_text(text, "gemini") == tokens


def test_paragraphs_of_a_system_text_have_a_token_between_them() -> None:
    """The blank line between two paragraphs is a token of Gemini's, as where the text is one part."""
    alone, both = (
        message_tokens(measure({"role": "system", "content": text}), GEMINI)
        for text in ("Be brief.", "Be brief.\n\nAsk.")
    )
    assert both - alone == 1 + estimate_text("Ask.", "gemini")


def test_a_column_costs_what_its_messages_cost() -> None:
    """The costs of a column of plain messages equal each message's cost, also with a corrected margin."""
    learnt = msgspec.structs.replace(CLAUDE, margin=1.137)
    records = [
        Record(flags=0, measure=measure({"role": role, "content": TEXT * n}), size=9, calls=0, content_digest=b"8" * 8)
        for n, role in enumerate(["system", "user", "assistant", "user"] * 9)
    ]
    for model in (CLAUDE, GEMINI, learnt):
        assert message_costs(Records.of(records), model).tolist() == [message_tokens(r.measure, model) for r in records]


@pytest.mark.parametrize("name", ["claude-3-haiku-20240307", "claude-sonnet-4-5", "claude-opus-4-8"])
def test_a_forced_call_costs_claude_more(name: str) -> None:
    """A choice that forces a call costs Claude's instructions for it; ``auto`` costs the same as no choice."""
    model = find_model(name)
    free, may, must, this = (
        tools_tokens(model, tools=[WEATHER], tool_choice=choice)
        for choice in (None, "auto", "required", {"type": "function", "function": {"name": "get_weather"}})
    )
    assert free == may < must == this
    assert must - may == pytest.approx(model.rules.forced, abs=1)


def test_definitions_stand_behind_instructions_of_claudes() -> None:
    """The first definition also costs Claude's instructions, and the second only itself; Gemini has no instructions."""
    first, second = (tools_tokens(CLAUDE, tools=[WEATHER] * n) for n in (1, 2))
    assert first > 500
    assert second - first < 120
    assert tools_tokens(GEMINI, tools=[WEATHER]) < 60


def test_a_schema_without_a_property_is_free() -> None:
    """A function with an empty schema costs as much as a function without a schema."""
    said, unsaid = dict(WEATHER["function"]), dict(WEATHER["function"])
    said["parameters"] = {"type": "object", "properties": {}, "additionalProperties": False}
    del unsaid["parameters"]
    costs = {tools_tokens(GEMINI, tools=[{"type": "function", "function": each}]) for each in (said, unsaid)}
    assert len(costs) == 1


def test_an_object_in_an_object_costs_gemini_more() -> None:
    """For Gemini, properties in a nested object cost over 20 tokens more than the same properties at the top level."""
    inner = {"type": "object", "properties": {name: {"type": "string"} for name in ("city", "street", "number")}}
    outer = {"type": "object", "properties": {"address": inner}}
    flat, deep = (
        tools_tokens(GEMINI, tools=[{"type": "function", "function": {"name": "move", "parameters": schema}}])
        for schema in (inner, outer)
    )
    assert deep > flat + 20


def test_a_function_without_parameters_makes_no_other_cheaper() -> None:
    """Each of Gemini's definitions costs the same beside others, also one with an object in an object."""
    place = {"type": "object", "properties": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}}}
    nested = {"type": "function", "function": {"name": "get_weather", "parameters": place}}
    bare = {"type": "function", "function": {"name": "stop"}}
    each = [tools_tokens(GEMINI, tools=[tool]) for tool in (nested, bare)]
    apart = sum(each) - GEMINI.rules.definitions  # which is added once
    assert apart - 2 <= tools_tokens(GEMINI, tools=[nested, bare]) <= apart


def test_a_property_called_description_is_structure() -> None:
    """A parameter named ``description`` costs as much as one with another name."""
    schema = {"type": "object", "properties": {"description": {"type": "string"}}}
    named = {"type": "object", "properties": {"city": {"type": "string"}}}
    costs = [
        tools_tokens(CLAUDE, tools=[{"type": "function", "function": {"name": "move", "parameters": each}}])
        for each in (schema, named)
    ]
    assert costs[0] == costs[1]


def test_a_call_costs_its_words_and_its_wrapping() -> None:
    """Each call costs its wrapping and its result's, with or without text beside it."""
    one, two = (measure({"role": "assistant", "content": None, "tool_calls": [CALL] * n}) for n in (1, 2))
    beside = measure({"role": "assistant", "content": TEXT, "tool_calls": [CALL]})
    cost = message_tokens(one, CLAUDE)
    assert cost > CLAUDE.rules.call + 3
    assert message_tokens(two, CLAUDE) - cost >= CLAUDE.rules.call
    assert message_tokens(beside, CLAUDE) - cost == pytest.approx(estimate_text(TEXT, "claude"), abs=1)


def test_a_result_costs_its_text() -> None:
    """A tool result costs only its text, alone or as one of several."""
    result = measure({"role": "tool", "tool_call_id": "c1", "content": TEXT})
    costs = {message_tokens(result, CLAUDE, parallel=parallel) for parallel in (True, False)}
    assert costs == {estimate_text(TEXT, "claude")}


@pytest.mark.parametrize("said", ["The wind was fair. ", "Der Wind stand günstig. ", "காற்று சாதகமாக இருந்தது. "])
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "gemini-2.5-flash", "qwen3.5-plus", "llama-3.3-70b-instruct"])
def test_a_text_file_costs_at_least_its_text(name: str, said: str) -> None:
    """A text file costs its text in the model's own tokens, whatever its script, and at most a quarter more."""
    model, text = find_model(name), said * 100
    url = f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}"
    parts = {"file": [{"type": "file", "file": {"file_data": url}}], "text": [{"type": "text", "text": text}]}
    costs = {kind: message_tokens(measure({"role": "user", "content": part}), model) for kind, part in parts.items()}
    assert costs["text"] <= costs["file"] <= costs["text"] * 1.25


def test_a_response_format_is_free_with_gemini() -> None:
    """The schema of a response format costs tokens for Claude, and none for Gemini."""
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": WEATHER["function"]["parameters"]}}
    assert tools_tokens(GEMINI, response_format=schema) == 0
    assert tools_tokens(CLAUDE, response_format=schema) > 110
    assert tools_tokens(CLAUDE, response_format={"type": "json_object"}) == 0


@pytest.mark.parametrize(
    ("family", "width", "height", "tokens"),
    [
        ("claude-4.5", 1, 1, 4),
        ("claude-4.5", 540, 360, 263),
        ("claude-4.5", 283, 330, 135),
        ("claude-5", 300, 346, 146),
        ("gemini-2.0", 640, 480, 1_290),
        ("gemini-2.0", 540, 360, 1_806),
        ("gemini-2.5", 283, 330, 258),
        ("gemini-3", 1, 1, 1_120),
    ],
)
def test_images_of_known_size(family: str, width: int, height: int, tokens: int) -> None:
    """Claude bills patches of 28 pixels and 3 tokens; Gemini bills the image and crops, and from Gemini 3 a fixed number."""
    assert image_tokens((width, height, AUTO), VENDORS[family].images) == tokens


@pytest.mark.parametrize("family", ["gemini-2.0", "gemini-2.5", "gemini-3"])
def test_an_unknown_size_costs_what_a_photo_costs(family: str) -> None:
    """An image of unknown size costs Gemini at least what one of any size up to 12 megapixels costs."""
    rules = VENDORS[family].images
    sizes = [(4_000, 3_000), (3_024, 4_032), *((width, 3_072) for width in range(1, 3_073, 10))]
    assert image_tokens((0, 0, AUTO), rules) >= max(image_tokens((*size, AUTO), rules) for size in sizes)


@pytest.mark.parametrize("family", ["claude-4.5", "claude-5"])
def test_a_large_image_stays_within_its_limit(family: str) -> None:
    """An image over the model's limit costs no more than an image of unknown size."""
    rules = VENDORS[family].images
    assert image_tokens((9_000, 6_000, AUTO), rules) <= image_tokens((0, 0, AUTO), rules)
