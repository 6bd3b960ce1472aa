"""The tokens of messages and requests: a golden table of the project's own requests, and properties."""

import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from format_histories import PNG
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.costs.counting import (
    count_request,
    is_estimate,
    message_tokens,
    messages_tokens,
    reference_tokens,
    tools_tokens,
)
from sash.core.counts.costs.definitions import render_format
from sash.core.counts.measures.measures import Measure, measure, measure_each
from sash.core.counts.models.families import ROLES
from sash.core.counts.models.models import Model, find_model, list_models, unknown_model
from sash.core.counts.text import count_text
from sash.core.providers import PROVIDERS

GOLDEN = json.loads(Path(__file__).with_name("golden_counts.json").read_bytes())
GPT_4O, GPT_4, GPT_5, O3 = map(find_model, ("gpt-4o", "gpt-4", "gpt-5", "o3"))
CLAUDE = find_model("claude-sonnet-4-5")
MODELS = (GPT_4O, GPT_4, GPT_5, O3, CLAUDE)

TEXTS = st.text(max_size=60)
ARGUMENTS = st.one_of(TEXTS, st.dictionaries(TEXTS, st.integers(), max_size=3).map(json.dumps))
MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": TEXTS},
        optional={"name": st.sampled_from(["ann", "user"])},
    ),
    st.fixed_dictionaries(
        {"role": st.just("user"), "content": st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}))}
    ),
)
FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"properties": {"at": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]


@given(st.lists(MESSAGES, max_size=30), st.sampled_from([GPT_4O, GPT_4, CLAUDE, find_model("gemini-2.5-flash")]))
@examples(1)
def test_messages_are_measured_and_priced_together_as_alone(messages: list[dict[str, Any]], model: Model) -> None:
    """Many messages have the measures and tokens that each has alone."""
    for alone in {False, model.counts_o200k_alone}:
        measures = measure_each(messages, o200k_alone=alone)
        assert measures == [measure(message, o200k_alone=alone) for message in messages]
        assert messages_tokens(measures, model) == [messages_tokens([each], model)[0] for each in measures]


def calling(*arguments: str, content: str | None = None) -> dict[str, Any]:
    calls = [{"id": f"c{i}", "function": {"name": "look", "arguments": text}} for i, text in enumerate(arguments)]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def answering(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c0", "content": text}


@pytest.mark.parametrize("row", GOLDEN, ids=[f"{row['name']}, {row['model']}, {i}" for i, row in enumerate(GOLDEN)])
def test_golden_counts(row: dict[str, Any]) -> None:
    """Each request of the golden table has the expected tokens and exactness."""
    count = count_request(find_model(row["model"]), **row["request"])
    assert (count.tokens, count.exact) == (row["tokens"], row["exact"])


@examples(0.6)
@given(
    messages=st.lists(MESSAGES, max_size=6),
    model=st.sampled_from(MODELS),
    tools=st.sampled_from([None, [], TOOLS]),
    choice=st.sampled_from([None, "none", "auto", "required", {"function": {"name": "look"}}]),
)
def test_a_request_costs_the_sum_of_its_terms(messages: list[Any], model: Any, tools: Any, choice: Any) -> None:
    """The total is the sum of priming, tools and messages, and each message costs what ``message_tokens`` returns."""
    count = count_request(model, messages=messages, tools=tools, tool_choice=choice)
    measures = [measure(message) for message in messages]

    assert count.messages == [message_tokens(m, model) for m in measures]
    assert count.priming == model.priming
    assert count.tokens == count.priming + count.tools + sum(count.messages)
    assert min([count.tools, *count.messages]) >= 0


@examples(0.6)
@given(message=MESSAGES, form=st.sampled_from(sorted(PROVIDERS)))
def test_the_one_encoding_of_a_model_is_enough(message: dict[str, Any], form: str) -> None:
    """Models with o200k_base and no estimates count a message alike where it was measured for them alone."""
    for model in {each.rules.family: each.sent_as(form) for each in list_models() if each.counts_o200k_alone}.values():
        alone = measure(message, o200k_alone=True)
        assert message_tokens(measure(message), model) == message_tokens(alone, model)


@examples(0.4)
@given(message=MESSAGES)
def test_a_measure_survives_storage(message: dict[str, Any]) -> None:
    """A measure that is stored as msgpack decodes to an equal measure."""
    measured = measure(message)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(measured), type=Measure) == measured


def test_a_plain_message_is_stored_in_a_few_bytes() -> None:
    """A plain text message's measure has no extra and takes at most six bytes."""
    measured = measure({"role": "user", "content": "is there a talk about gradle?"})
    assert measured.extra is None
    assert len(msgspec.msgpack.encode(measured)) <= 6


@pytest.mark.parametrize("role", [role for role in ROLES if role != "tool"])
def test_reference_tokens_are_those_of_gpt_4o_and_gpt_4(role: str) -> None:
    """A message's reference tokens are its tokens for gpt-4o and for gpt-4."""
    measured = measure({"role": role, "content": "Привет, мир", "name": "x"})
    assert reference_tokens(measured) == (message_tokens(measured, GPT_4O), message_tokens(measured, GPT_4))


@examples(0.4)
@given(margin=st.floats(1.0, 3.0), text=TEXTS)
def test_a_margin_is_rounded_up_in_every_term(margin: float, text: str) -> None:
    """With a margin, each term is multiplied by it and rounded up, and the terms still sum to the total."""
    wider = msgspec.structs.replace(GPT_4O, margin=margin)
    messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
    exact, count = (count_request(model, messages=messages, tools=TOOLS) for model in (GPT_4O, wider))

    pairs = [
        (exact.priming, count.priming),
        (exact.tools, count.tools),
        *zip(exact.messages, count.messages, strict=True),
    ]
    assert all(term * margin <= wide < term * margin + 1 for term, wide in pairs)
    assert count.tokens == count.priming + count.tools + sum(count.messages)


def test_a_group_costs_its_wrapping_on_the_assistant_message() -> None:
    """A result costs its text; the tokens around the call and the result count on the assistant message."""
    result = measure(answering("sunny"))
    assert message_tokens(result, GPT_4O) == result.o200k
    assert message_tokens(measure(calling('{"at":"x"}')), GPT_4O) == 13 + 2 + measure(answering('{"at":"x"}')).o200k


def test_arguments_cost_what_they_say_and_not_how_they_are_spaced() -> None:
    """Spaces between JSON tokens are free; arguments that are not JSON cost their text."""
    spaced, compact = measure(calling('{ "at" :  [1, 2] }')), measure(calling('{"at":[1,2]}'))
    assert spaced == compact
    broken = message_tokens(measure(calling('{"at": ')), GPT_4O)
    assert broken == 13 + 2 + measure(answering('{"at": ')).o200k


def test_results_of_parallel_calls_are_listed_in_ascii() -> None:
    """Korean text as one of several results costs over three times more for GPT-4o, and no less for GPT-5."""
    korean = measure(answering("서울은 맑음"))
    assert message_tokens(korean, GPT_4O, parallel=True) > 3 * message_tokens(korean, GPT_4O)
    assert message_tokens(korean, GPT_5, parallel=True) >= message_tokens(korean, GPT_5)


def test_text_beside_calls_is_a_message_of_its_own() -> None:
    """Text beside calls costs its own tokens and four for a message around it."""
    silent, speaking = (message_tokens(measure(calling("{}", content=text)), GPT_4O) for text in (None, "hm"))
    assert speaking == silent + 1 + 4


def test_a_result_knows_that_it_is_one_of_several() -> None:
    """In a request, results of several calls cost more than the result of a single call."""
    alone = count_request(GPT_4O, messages=[calling("{}"), answering("été")])
    several = count_request(GPT_4O, messages=[calling("{}", "{}"), answering("été"), answering("été")])
    assert alone.messages[1] < min(several.messages[1:])


@examples(1)
@given(results=st.lists(ARGUMENTS, min_size=2, max_size=5), model=st.sampled_from([GPT_4O, GPT_4, GPT_5]))
def test_results_of_several_calls_cost_one_list(results: list[str], model: Any) -> None:
    """The results of several calls together cost the tokens of one JSON list of them."""
    messages = [calling(*["{}"] * len(results)), *map(answering, results)]
    listed = "[" + ", ".join(map(as_item, results)) + "]"
    assert sum(count_request(model, messages=messages).messages[1:]) == count_text(listed, model.encoding)


def as_item(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return json.dumps(value if isinstance(value, dict | list) else text)


def test_a_single_call_says_the_name_once_bare() -> None:
    """A single call costs the function's name as the recipient of the call, and bare before its result."""
    named = [{"role": "assistant", "tool_calls": [{"id": "c0", "function": {"name": "calculator", "arguments": "{}"}}]}]
    recipient = count_text("functions.calculator", "o200k_base") - 1
    bare = count_text("calculator", "o200k_base")
    assert recipient != bare
    assert count_request(GPT_4O, messages=named).messages == [13 + recipient + bare + 1]


def test_definitions_join_the_first_system_message() -> None:
    """With a system message, definitions cost four tokens less, plus a newline that may merge with one in the text."""
    joined = measure({"role": "system", "content": "x"})
    merging = measure({"role": "system", "content": "x\n"})
    alone = tools_tokens(GPT_4O, tools=TOOLS)
    assert tools_tokens(GPT_4O, tools=TOOLS, first_system=joined) == alone - 4 + 1
    assert tools_tokens(GPT_4O, tools=TOOLS, first_system=merging) == alone - 4


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_cost_nothing(tools: Any) -> None:
    """Without definitions, tools and a choice cost nothing."""
    assert tools_tokens(GPT_4O, tools=tools, tool_choice="none") == 0


def test_functions_and_tools_are_the_same_definitions() -> None:
    """Definitions in ``functions`` cost what they cost in ``tools``."""
    legacy = count_request(GPT_4O, messages=[], functions=[FUNCTION])
    assert legacy.tools == tools_tokens(GPT_4O, tools=TOOLS)


def test_a_custom_tool_costs_its_grammar() -> None:
    """A custom tool's grammar costs tokens."""
    plain = {"type": "custom", "custom": {"name": "sql", "description": "Runs SQL."}}
    grammar = {
        "type": "custom",
        "custom": {**plain["custom"], "format": {"type": "grammar", "definition": "start: /x+/"}},
    }
    assert tools_tokens(GPT_5, tools=[plain]) + 5 < tools_tokens(GPT_5, tools=[grammar])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "text", "text": "words"}, False),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, True),
        ({"type": "image_url", "image_url": "https://example.org/a.png"}, True),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}, False),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png", "width": 9, "height": 9}}, False),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}, True),
        ({"type": "file", "file": {"file_id": "file-1"}}, True),
        ({"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}, True),
        ({"type": "hologram", "data": 1}, True),
    ],
)
def test_a_guess_says_that_it_is_one(part: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - a column
    """Audio, files, unknown parts and images of unknown size are estimates; every part costs tokens."""
    message = {"role": "user", "content": [part]}
    assert is_estimate(measure(message), GPT_4O) is expected
    count = count_request(GPT_4O, messages=[message])
    assert count.exact is not expected
    assert count.messages[0] > 4


def test_an_image_may_be_its_url_alone() -> None:
    """An image given as a plain URL costs what the object with this URL costs, and is exact."""
    bare, whole = (
        measure({"role": "user", "content": [{"type": "image_url", "image_url": image}]})
        for image in (PNG, {"url": PNG})
    )
    assert bare == whole
    assert not is_estimate(bare, GPT_4O)


@pytest.mark.parametrize("text", ["We go over the bridge.", "Wir gehen über die Brücke.", "橋を渡ります。"])
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "gemini-2.5-flash", "command-a-03-2025"])
def test_a_picture_in_a_result_costs_a_line(name: str, text: str) -> None:
    """Chat completions of another maker's model cost a line for a picture in a result, in whatever language its text is."""
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": PNG}}]
    bare, told = (
        message_tokens(measure({"role": "tool", "tool_call_id": "c1", "content": content}), find_model(name))
        for content in (text, parts)
    )
    assert bare < told < bare + 64


def test_sizes_come_from_the_client_in_the_order_of_images() -> None:
    """A client's ``image_sizes`` give the sizes of linked images, in the order of the images."""
    link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    message = {"role": "user", "content": [link, {"type": "text", "text": "and"}, link]}
    measured = measure(message, image_sizes=[(512, 512), (1024, 1024)])
    assert message_tokens(measured, GPT_4O) == 4 + 1 + (85 + 170) + (85 + 4 * 170)
    assert not is_estimate(measured, GPT_4O)


@pytest.mark.parametrize("choice", ["auto", {"type": "allowed_tools"}, {"function": 3}, {"name": "look"}])
def test_a_choice_that_names_nothing_is_free(choice: Any) -> None:
    """Only a choice that names a function costs tokens."""
    free = tools_tokens(GPT_4O, tools=TOOLS, tool_choice=choice) == tools_tokens(GPT_4O, tools=TOOLS)
    assert free is (choice != {"name": "look"})


@pytest.mark.parametrize("tool", [{"type": "custom"}, {"type": "function"}, {}])
def test_a_tool_without_a_body_still_counts(tool: dict[str, Any]) -> None:
    """A tool without a body costs the namespace around it, and raises no error."""
    assert tools_tokens(GPT_4O, tools=[tool]) > 9


def test_lists_inside_a_response_format_are_told() -> None:
    """Every variant of a schema in a response format costs tokens."""
    variants = [{"type": "string"}, {"type": "object", "properties": {"required": {"type": "string"}}, "required": []}]
    cheap, dear = (
        tools_tokens(
            GPT_4O, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"anyOf": some}}}
        )
        for some in (variants[:1], variants)
    )
    assert cheap + 5 < dear


FORMAT = {"type": "json_schema", "json_schema": {"name": "Berth place", "schema": {"type": "object"}}}
SECTION = '# Response Formats\n\n## Berth place\n\n{"type":"object"}'


@pytest.mark.parametrize("text", ["x", "x.", 'x"', "x\n", "\n  x", "\n\n", " x"])
@pytest.mark.parametrize("model", MODELS[:3])
def test_a_response_format_joins_the_system_message(model: Any, text: str) -> None:
    """A response format follows the system text and a blank line, or is a system message of its own."""
    first = measure({"role": "system", "content": text})
    joined, alone = (tools_tokens(model, response_format=FORMAT, first_system=m) for m in (first, None))
    marked = 2 + count_text("Berth place", model.encoding) if model.rules.format_names_reply else 0
    section = count_text(SECTION, model.encoding)
    heading = "# Instructions\n\n" if model.rules.heads_system else ""
    behind = count_text(f"{heading}{text}\n\n{SECTION}", model.encoding) - count_text(text, model.encoding)
    assert alone == 4 + section + marked
    assert joined == behind + marked


def test_a_response_format_marks_assistant_texts() -> None:
    """Each assistant text in the history is marked with the format's name, and so is the reply if there are no tools."""
    messages = [{"role": "assistant", "content": "hm"}, calling("{}"), calling("{}", content="hm")]
    plain, formatted = (count_request(GPT_4O, messages=messages, response_format=f) for f in (None, FORMAT))
    section, marked = count_text(SECTION, "o200k_base"), 2 + count_text("Berth place", "o200k_base")
    assert formatted.tokens - plain.tokens == 4 + section + 3 * marked
    tools, both = (count_request(GPT_4O, messages=messages, tools=TOOLS, response_format=f) for f in (None, FORMAT))
    assert both.tokens - tools.tokens == 1 + section + 2 * marked


def test_a_response_format_is_shown_in_ascii_without_what_only_constrains() -> None:
    """A response format keeps descriptions, in escapes, and properties named like a constraint, but no constraints."""
    schema = {
        "$schema": "s",
        "description": "é",
        "properties": {"default": {"default": 1, "minimum": 0, "maximum": 2, "type": "integer"}},
        "required": [],
        "additionalProperties": False,
        "items": [{"maxItems": 1, "const": "x"}],
    }
    assert render_format({"name": "x", "description": "Says.", "schema": schema}) == (
        "# Response Formats\n\n## x\n\n// Says.\n"
        r'{"description":"\u00e9","properties":{"default":{"type":"integer"}},"items":[{"const":"x"}]}'
    )


def test_a_prediction_costs_no_more_when_it_is_longer() -> None:
    """A prediction costs 12 tokens at any length, because its text is billed with the reply."""
    messages = [{"role": "user", "content": "again"}]
    short, long = ({"type": "content", "content": "word " * n} for n in (1, 500))
    counts = [count_request(GPT_4O, messages=messages, prediction=p).tokens for p in (None, short, long)]
    assert counts == [counts[0], counts[0] + 12, counts[0] + 12]


def test_a_search_model_bills_the_text_alone() -> None:
    """For a search model, only a message's text is billed; roles and priming are free."""
    count = count_request(find_model("gpt-4o-search-preview"), messages=[{"role": "user", "content": "words"}])
    assert (count.tokens, count.messages) == (1, [1])


def test_an_estimated_model_is_never_exact() -> None:
    """Counts for models without a public tokeniser are not exact, and err high."""
    messages = [{"role": "user", "content": "a plain question in plain English"}]
    exact = count_request(GPT_4O, messages=messages)
    for model in (CLAUDE, unknown_model("nobody-knows")):
        estimate = count_request(model, messages=messages)
        assert not estimate.exact
        assert estimate.tokens > exact.tokens


@pytest.mark.nightly
def test_pricing_a_stored_message_takes_under_two_microseconds() -> None:
    """Pricing a stored message takes under two microseconds, because a window prices thousands of them."""
    measured = measure({"role": "user", "content": "is there a talk about gradle?"})
    started = time.thread_time()
    for _ in range(20_000):
        message_tokens(measured, GPT_4O)
    assert (time.thread_time() - started) / 20_000 < 2e-6


WORST = ("-", '"', "\\", "漢", "\n", "[", '{"a":')


@pytest.mark.nightly
@pytest.mark.parametrize("unit", WORST, ids=ascii)
def test_measuring_costs_at_most_a_microsecond_a_byte(unit: str) -> None:
    """Measuring a megabyte of difficult text takes under a second, in each kind of message."""
    text = unit * (1_000_000 // len(unit.encode()))
    assert max(measuring_seconds(text)) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("unit", WORST, ids=ascii)
def test_measuring_grows_with_the_text_alone(unit: str) -> None:
    """Eight times the text takes less than 24 times as long; a quadratic algorithm would take 64 times as long."""
    little, much = (
        map(min, *(measuring_seconds(unit * (size // len(unit.encode()))) for _ in range(3)))
        for size in (40_000, 320_000)
    )
    assert all(later < 24 * sooner + 0.01 for sooner, later in zip(little, much, strict=True))


def measuring_seconds(text: str) -> list[float]:
    """Return the CPU seconds to measure a text as a tool result, as a system message, and as the arguments of calls."""
    taken = []
    for message in (
        answering(text),
        {"role": "system", "content": text},
        calling(text[: len(text) // 2], text[: len(text) // 2]),
    ):
        started = time.thread_time()
        measured = measure(message)
        taken.append(time.thread_time() - started)
        assert measured.role in range(len(ROLES))
    return taken


def test_definitions_are_counted_once_per_content() -> None:
    """Counting the same definitions again enters less than half the functions, because they are not rendered again."""
    tools = [{"function": {"name": f"f{i}", "description": "word " * 500}} for i in range(200)]
    first, second = (functions_entered(lambda: tools_tokens(GPT_4O, tools=tools)) for _ in range(2))
    assert second < first / 2, (first, second)


def functions_entered(work: Callable[[], object]) -> int:
    """Return the number of functions that this thread enters meanwhile."""
    entered: list[str] = []

    def enter(_: FrameType, event: str, __: object) -> None:
        entered.append(event) if event in ("call", "c_call") else None

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(entered)


@pytest.mark.slow
def test_the_cache_of_definitions_holds_no_definitions() -> None:
    """The cache keeps only a count and a digest of definitions, so long definitions do not stay in memory."""
    long = [{"function": {"name": "f", "description": "word " * 100_000}}]
    tools_tokens(GPT_4O, tools=long)
    gc.collect()
    tracemalloc.start()
    tools_tokens(GPT_4O, tools=[{"function": {"name": "g", "description": "word " * 100_000}}])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000
