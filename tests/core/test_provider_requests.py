"""The tokens of a provider's own request; members that only control the reply are free."""

import base64
import contextlib
import copy
import itertools
import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from recordings import NO_TRUTH, TRUTH

from sash.core.counts.costs.counting import RequestCount, count_request
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers.reading.native import read_messages
from sash.problems import InvalidEntry, Problem

CLAUDE, GEMINI, GPT = find_model("claude-sonnet-4-5"), find_model("gemini-3-flash-preview"), find_model("gpt-5-mini")
QUESTION = "Who brought the spare jib on Sunday?"
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0\0\0\0\0"
).decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def claude(**members: Any) -> int:
    request = {"messages": [{"role": "user", "content": QUESTION}], **members}
    return count_provider_request("anthropic", request, CLAUDE).tokens


def gemini(*contents: dict[str, Any], **members: Any) -> int:
    return count_provider_request("gemini", {"contents": list(contents), **members}, GEMINI).tokens


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def test_a_plain_request_counts_as_its_chat_form() -> None:
    """The same messages cost the same in the provider's format and in the chat format."""
    chat = count_request(
        CLAUDE, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    )
    assert claude(system="Be brief.") == claude(system=[{"type": "text", "text": "Be brief."}]) == chat.tokens
    text = count_request(GEMINI, messages=[{"role": "user", "content": QUESTION}]).tokens
    assert gemini(said("user", {"text": QUESTION})) == text
    for body in (QUESTION, [{"role": "user", "content": QUESTION}]):
        counted = count_provider_request("responses", {"input": body}, GPT)
        assert (counted.tokens, counted.exact) == (
            count_request(GPT, messages=[{"role": "user", "content": QUESTION}]).tokens,
            True,
        )


@pytest.mark.parametrize(("model", "less"), [("gpt-5", (82, 81)), ("gpt-5.4", (82, 81)), ("gpt-4o", (6, 2))])
def test_definitions_are_a_message_of_their_own_in_responses(model: str, less: tuple[int, int]) -> None:
    """Definitions cost their text and a constant, with or without a system text: 140 distinct requests."""
    found, function = find_model(model), {"name": "look", "parameters": SCHEMA}
    for system, fewer in zip(([], [{"role": "system", "content": "Be brief."}]), less, strict=True):
        messages = [*system, {"role": "user", "content": QUESTION}]
        chat = count_request(found, messages=messages, tools=[{"type": "function", "function": function}])
        request = {"input": messages, "tools": [{"type": "function", **function}]}
        assert count_provider_request("responses", request, found).tokens == chat.tokens - fewer


def _responses(model: str, *items: dict[str, Any], **members: Any) -> tuple[int, bool]:
    request = {"input": [{"role": "user", "content": QUESTION}, *items], **members}
    count = count_provider_request("responses", request, find_model(model))
    return count.tokens, count.exact


def _called(*ids: str, **members: Any) -> list[dict[str, Any]]:
    calls = [{"type": "function_call", "call_id": each, "name": "look", "arguments": "{}", **members} for each in ids]
    return [*calls, *({"type": "function_call_output", "call_id": each, "output": "red"} for each in ids)]


@pytest.mark.parametrize(
    ("model", "single", "stored", "several"),
    [("gpt-4.1", 11, 14, 22), ("gpt-5", 17, 23, 50), ("gpt-5.4", 20, 20, 50), ("o4-mini", 17, 17, None)],
)
def test_calls_in_responses(model: str, single: int, stored: int, several: int | None) -> None:
    """One call costs a constant beside its words, more where it came with its item's id and status."""
    bare, words = _responses(model)[0], 4  # the name twice, the arguments, and the result
    assert _responses(model, *_called("a"))[0] == bare + single + words
    told = _called("a", id="fc_1", status="completed")
    assert _responses(model, *told)[0] == bare + stored + words
    if several is not None:
        assert _responses(model, *_called("a", "b"))[0] == bare + several + 2 * words


def test_what_openai_keeps_or_adds_is_an_estimate() -> None:
    """Items that only OpenAI has, its own tools, and modes of reasoning cost what was billed with them, as an estimate."""
    bare = _responses("gpt-5.6")[0]
    for more, members in ((3_960, {"reasoning": {"mode": "pro"}}), (293, {"tools": [{"type": "web_search"}]})):
        assert _responses("gpt-5.6", **members) == (bare + more, False)
    kept = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look. " * 100}]}
    tokens, exact = _responses("gpt-5", kept, {"role": "assistant", "content": "Ann."})
    assert (tokens - _responses("gpt-5", {"role": "assistant", "content": "Ann."})[0], exact) == (400, False)
    assert _responses("gpt-5", {"type": "item_reference", "id": "msg_1"})[1] is False


def test_encrypted_reasoning_is_billed_until_the_next_question() -> None:
    """Behind the newest question 3 and a token for 5 characters, without the first 900; before it none: 20 and 23 bills."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA" + "b" * 1894}
    question, answer = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Ann."}

    def counted(*items: dict[str, Any]) -> tuple[int, bool]:
        count = count_provider_request("responses", {"input": items}, GPT)
        return count.tokens, count.exact

    bare = counted(question, answer)
    assert counted(question, thought, answer) == (bare[0] + 203, False)
    assert counted(question, thought, answer, question) == counted(question, answer, question)
    assert counted(question, {**thought, "encrypted_content": "gAAAAA"}, answer) == (bare[0] + 3, False)


def test_how_to_reply_is_free() -> None:
    """Parameters of sampling, limits and metadata cost nothing."""
    free = {
        "max_tokens": 9,
        "temperature": 0.2,
        "stream": True,
        "metadata": {"user_id": "u-1"},
        "stop_sequences": ["x"],
    }
    assert claude(**free) == claude()
    config = {"temperature": 1, "maxOutputTokens": 7, "responseMimeType": "text/plain", "stopSequences": ["a b c"]}
    question = said("user", {"text": QUESTION})
    assert gemini(question, generationConfig=config, safetySettings=[{"category": "X"}]) == gemini(question)


def test_an_unknown_member_costs_its_words() -> None:
    """An unknown member costs the tokens of its text, and makes the count inexact."""
    counted = count_provider_request("responses", {"input": QUESTION, "novelty": {"said": ["one two three four"]}}, GPT)
    assert counted.tokens == count_provider_request("responses", {"input": QUESTION}, GPT).tokens + 4
    assert not counted.exact


def responses(*items: dict[str, Any], **members: Any) -> RequestCount:
    said = {"type": "message", "role": "user", "content": QUESTION}
    return count_provider_request("responses", {"input": [said, *items], **members}, GPT)


HOSTED_KINDS = (
    "web_search",
    "image_generation",
    "local_shell",
    "shell",
    "apply_patch",
    "computer",
    "mcp",
    "tool_search",
)


@pytest.mark.parametrize("texts", [("hello", "there"), ("hello ", "there"), ("1", "2", "3")])
def test_several_replies_in_a_row_are_exact_as_one_is(texts: tuple[str, ...]) -> None:
    """Message items of one turn cost what each costs in a turn of its own; that their texts cost less joined is no guess."""
    counted = responses(*({"role": "assistant", "content": text} for text in texts))
    apart = [responses({"role": "assistant", "content": text}).messages[1] for text in texts]
    assert (counted.exact, counted.messages[1]) == (True, sum(apart))


@pytest.mark.parametrize(
    "members",
    [
        *({"tools": [{"type": kind}]} for kind in HOSTED_KINDS),
        {"tools": [{"type": "file_search", "vector_store_ids": []}]},
        {"previous_response_id": "resp_1"},
        {"conversation": {"id": "conv_1"}},
        {"prompt": {"id": "pmpt_1"}},
    ],
)
def test_what_a_responses_request_does_not_show_is_no_exact_count(members: dict[str, Any]) -> None:
    """Hosted tools and stored text are billed, and no request shows their tokens, so the count is an estimate."""
    assert responses().exact
    assert not responses(**members).exact


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "msg_1"},
        {"id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "jib"}},
        {"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}},
        {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Hello", "novelty": "one two"}]},
    ],
)
def test_an_item_that_is_in_no_bill_is_no_exact_count(item: dict[str, Any]) -> None:
    """Items and parts that are in no recorded bill make the count an estimate."""
    assert not responses(item).exact


def test_a_namespace_is_its_functions() -> None:
    """The functions in a namespace cost as much as those beside it; the namespace's own words cost their tokens."""
    told = {"type": "function", "name": "get_weather", "description": "Get the weather.", "parameters": SCHEMA}
    within = {"type": "namespace", "name": "weather", "description": "All about the weather.", "tools": [told]}
    assert responses(tools=[within]).tokens == responses(tools=[told]).tokens + 1 + 5
    assert not responses(tools=[within]).exact


def test_a_generated_image_is_an_image() -> None:
    """A generated image costs as an image of the size in its header; of unknown size, the largest."""
    made = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "revised_prompt": "A blue jib."}
    shown = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    seen = (
        responses({"role": "user", "content": [shown]}).messages[1]
        - responses({"role": "user", "content": []}).messages[1]
    )
    words = responses(made | {"result": None}).messages[1]
    line = 20  # other formats get a line with its size
    assert words + seen <= responses(made | {"result": PNG}).messages[1] <= words + seen + line
    assert words + 1_845 <= responses(made | {"result": "x" * 400_000}).messages[1] <= words + 1_845 + line


def test_tools_and_choices() -> None:
    """Claude's and Gemini's tools cost as in the chat format; for Claude, a forced choice costs 108 tokens, others none."""
    messages = [{"role": "user", "content": QUESTION}]
    told = {"name": "get_weather", "description": "Get the weather."}
    chat = [{"type": "function", "function": {**told, "parameters": SCHEMA}}]
    tools = [{**told, "input_schema": SCHEMA}]
    assert claude(tools=tools) == count_request(CLAUDE, messages=messages, tools=chat).tokens > claude()
    choices = ({"type": "any"}, {"type": "tool", "name": "get_weather"}, {"type": "auto"}, {"type": "none"})
    added = [claude(tools=tools, tool_choice=choice) - claude(tools=tools) for choice in choices]
    assert added == [108, 108, 0, 0]
    question = said("user", {"text": QUESTION})
    upper = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    for declared in (
        {"functionDeclarations": [{**told, "parametersJsonSchema": SCHEMA}]},
        {"function_declarations": [{**told, "parameters": upper}]},
    ):
        counted = gemini(question, tools=[declared])
        assert counted == count_request(GEMINI, messages=messages, tools=chat).tokens > gemini(question)


def test_members_of_definitions_that_no_bill_has() -> None:
    """A definition's unknown members cost the tokens of their text; hints, and a result's schema of one type, are free."""
    said = {"note": ["one two three four five six"]}
    ways = (
        lambda **members: claude(tools=[{"name": "f", "input_schema": SCHEMA, **members}]),
        lambda **members: responses(tools=[{"type": "function", "name": "f", "parameters": SCHEMA, **members}]).tokens,
        lambda **members: gemini(tools=[{"functionDeclarations": [{"name": "f", "parameters": SCHEMA, **members}]}]),
    )
    for way, members in itertools.product(ways, ("input_examples", "response", "responseJsonSchema", "novelty")):
        assert way(**{members: [said]}) >= way() + 8, members
    for way in ways:
        hints = {"strict": True, "cache_control": {"type": "ephemeral"}, "defer_loading": True, "behavior": "BLOCKING"}
        assert way(**hints, eager_input_streaming=True, allowed_callers=["direct"]) == way()
        assert way(response_json_schema={"type": "string"}) == way()


@pytest.mark.parametrize(
    ("kind", "least"), [("web_search_20250305", 2_200), ("code_execution_20260120", 4_600), ("bash_20250124", 240)]
)
def test_hosted_tools_of_claude_have_fixed_prices(kind: str, least: int) -> None:
    """Anthropic's hosted tools cost at least what was billed for them."""
    assert claude(tools=[{"type": kind, "name": "x"}]) - claude() >= least


def test_thinking_within_a_budget_is_told_to_claude() -> None:
    """Enabled thinking brings 28 tokens of instructions, adaptive thinking none."""
    assert claude(thinking={"type": "enabled", "budget_tokens": 1024}) == claude() + 28
    assert claude(thinking={"type": "adaptive"}) == claude()


def test_a_history_that_begins_with_claude() -> None:
    """For Claude, an assistant message before the first question costs twelve more tokens."""
    greeting = [{"role": "assistant", "content": "Hello!"}, {"role": "user", "content": QUESTION}]
    opened = count_provider_request("anthropic", {"messages": greeting}, CLAUDE).tokens
    assert opened == count_request(CLAUDE, messages=greeting).tokens + 12


def test_a_signature_of_claudes_is_free_beside_its_words() -> None:
    """Thinking costs the tokens of its text; its signature, which only proves the text, is free."""
    block = {"type": "thinking", "thinking": "The jib was Anna's.", "signature": "x" * 900}
    reply = {"role": "assistant", "content": [block, {"type": "text", "text": "Anna."}]}
    sealed = {"role": "assistant", "content": [block | {"signature": ""}, {"type": "text", "text": "Anna."}]}
    assert claude(messages=[reply]) == claude(messages=[sealed])
    plain = {"role": "assistant", "content": [{"type": "text", "text": "Anna."}]}
    assert claude(messages=[reply]) > claude(messages=[plain]) + 5


FOUND = {"type": "search_result", "source": "https://example.com", "content": [{"type": "text", "text": "Anna."}]}


@pytest.mark.parametrize(
    ("name", "forgets"),
    [
        ("claude-3-7-sonnet-latest", True),
        ("claude-opus-4-1", True),
        ("claude-sonnet-4-5", True),
        ("claude-haiku-4-5", True),
        ("claude-opus-4-5", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-7", False),
    ],
)
def test_thinking_of_an_earlier_turn(name: str, forgets: bool) -> None:  # noqa: FBT001
    """Thinking before the newest question is free for Claude up to Sonnet and Haiku 4.5; in a tool loop it is billed."""
    asked = {"role": "user", "content": QUESTION}
    thoughts = [
        {"type": "thinking", "thinking": "The jib was Anna's."},
        {"type": "redacted_thinking", "data": "x" * 400},
    ]
    uses = {"type": "tool_use", "id": "t", "name": "roster", "input": {}}
    found = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "Anna"}]}

    def billed(*later: dict[str, Any], **members: Any) -> int:
        plain, thought = (
            count_provider_request(
                "anthropic",
                {"messages": [asked, {"role": "assistant", "content": [*before, uses]}, found, *later], **members},
                find_model(name),
            ).tokens
            for before in ([], thoughts)
        )
        return thought - plain

    assert billed() > 100
    assert billed(asked) == billed()  # a question directly after results continues the turn
    answer = {"role": "assistant", "content": "Anna."}
    assert billed(answer, asked) == (0 if forgets else billed())
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    assert billed(answer, asked, context_management=edits) == billed()


CALL = {"functionCall": {"name": "roster", "args": {}}}


@pytest.mark.parametrize(
    ("signature", "tokens"),
    [("EpAg" + "A" * 996, 194), ("AY89" + "A" * 996, 108), ("CiQB" + "A" * 996, 194)],
)
def test_a_signature_of_geminis_is_billed_by_its_kind(signature: str, tokens: int) -> None:
    """The Gemini API bills the thoughts of a call's signature, and Vertex bills about half of them."""
    asked = said("user", {"text": QUESTION})
    plain, signed = (gemini(asked, said("model", call)) for call in (CALL, CALL | {"thoughtSignature": signature}))
    assert signed - plain == pytest.approx(tokens, abs=1)


@pytest.mark.parametrize(("name", "tokens"), [("gemini-2.5-flash", 0), ("gemini-3-flash-preview", -20)])
def test_a_signature_of_one_piece_is_vertex_s(name: str, tokens: int) -> None:
    """Vertex bills no thoughts for a signature of one piece, and on Gemini 3 only the text of calls."""
    plain, signed = (
        count_provider_request("gemini", {"contents": [said("model", call)]}, find_model(name)).tokens
        for call in (CALL, CALL | {"thoughtSignature": "Co0o" + "A" * 996})
    )
    assert signed - plain == tokens


@pytest.mark.parametrize(("name", "is_billed"), [("gemini-2.5-flash", False), ("gemini-3.5-flash", True)])
def test_a_signature_before_the_last_question(name: str, is_billed: bool) -> None:  # noqa: FBT001
    """Thoughts of an earlier turn's calls are free for Gemini 2.5; Gemini 3.5 bills them as those of the last turn."""
    signed, asked = CALL | {"thoughtSignature": "EpAg" + "A" * 996}, said("user", {"text": QUESTION})
    answered = said("user", {"functionResponse": {"name": "roster", "response": {"output": "Anna"}}})

    def thoughts(*later: dict[str, Any]) -> int:
        plain, sealed = (
            count_provider_request(
                "gemini", {"contents": [asked, said("model", call), answered, *later]}, find_model(name)
            ).tokens
            for call in (CALL, signed)
        )
        return sealed - plain

    assert thoughts() > 100
    assert thoughts(asked) == (thoughts() if is_billed else 0)


def test_a_signature_on_a_text_is_free() -> None:
    """A signature on a text is free, because the thoughts of a finished answer are not billed again."""
    asked, answer = said("user", {"text": QUESTION}), {"text": "Anna."}
    signed = answer | {"thoughtSignature": "EpAg" + "A" * 996}
    assert gemini(asked, said("model", signed)) == gemini(asked, said("model", answer))


def test_citations_bring_instructions() -> None:
    """Enabling citations of a document costs Claude's instructions for them, 590 tokens."""
    source = {"type": "text", "media_type": "text/plain", "data": QUESTION}
    plain, cited = (
        claude(
            messages=[
                {"role": "user", "content": [{"type": "document", "source": source, "citations": {"enabled": on}}]}
            ]
        )
        for on in (False, True)
    )
    assert cited - plain == 590


def test_what_cannot_be_read_is_still_counted() -> None:
    """A message of an unknown shape costs its text and its members' names beside all else, and the count is inexact."""
    odd = {"role": "user", "content": [{"type": "text", "text": {"some_words": "one two three four"}}]}
    asked = {"role": "user", "content": QUESTION}
    told: dict[str, Any] = {"system": "Be brief.", "tools": [{"name": "get_weather", "input_schema": SCHEMA}]}
    counted = count_provider_request("anthropic", {"messages": [asked, odd], **told}, CLAUDE)
    assert counted.tokens >= claude(**told) + 12
    assert not counted.exact
    assert claude(**told | {"system": [{"text": 5, "note": "one two"}]}) >= claude(**told | {"system": ""}) + 4


@pytest.mark.parametrize(
    ("form", "given", "meant"),
    [
        (
            "gemini",
            said("model", {"functionCall": {"id": "", "name": "f"}}),
            said("model", {"functionCall": {"name": "f"}}),
        ),
        (
            "gemini",
            said("user", {"functionResponse": {"id": "", "name": "f", "response": {"output": "x"}}}),
            said("user", {"functionResponse": {"name": "f", "response": {"output": "x"}}}),
        ),
        ("responses", {"type": None, "role": "user", "content": QUESTION}, {"role": "user", "content": QUESTION}),
        ("responses", {"type": "", "id": "msg_1"}, {"id": "msg_1"}),
        (
            "anthropic",
            {"role": "user", "content": [FOUND | {"title": None}]},
            {"role": "user", "content": [FOUND | {"title": ""}]},
        ),
    ],
)
def test_what_is_empty_is_absent(form: str, given: dict[str, Any], meant: dict[str, Any]) -> None:
    """An empty id of Gemini, an empty type of a Responses item and a search result's null title are as if left out."""
    messages = {"gemini": "contents", "responses": "input", "anthropic": "messages"}[form]
    model = {"gemini": GEMINI, "responses": GPT, "anthropic": CLAUDE}[form]
    given_count, meant_count = (count_provider_request(form, {messages: [each]}, model) for each in (given, meant))
    assert given_count == meant_count


@pytest.mark.parametrize("request_", [{}, {"messages": 5}, {"messages": ["x"]}])
def test_no_messages_are_refused(request_: dict[str, Any]) -> None:
    """A request without valid messages is refused."""
    with pytest.raises(InvalidEntry):
        count_provider_request("anthropic", request_, CLAUDE)


@pytest.mark.parametrize(("form", "model"), [("responses", GPT), ("gemini", GEMINI)])
def test_a_chat_request_in_another_form_is_refused(form: str, model: Any) -> None:
    """A chat request that is counted as Responses' or Gemini's is refused: its messages would count as an option."""
    with pytest.raises(InvalidEntry, match="unknown field 'messages'"):
        count_provider_request(form, {"messages": [{"role": "user", "content": QUESTION}]}, model)


_WRONG = (None, True, 0, 1.5, "", "x", [], {}, [1], ["a"], {"type": {}}, {"type": ["a"]}, [{}], [{"type": []}])
_FORMS = {
    "anthropic": ("more_anthropic", "messages", "claude-sonnet-4-5"),
    "gemini": ("more_gemini", "contents", "gemini-2.5-pro"),
    "responses": ("kani_responses", "input", "gpt-5"),
}


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from _places(each, (*place, key))


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize("form", list(_FORMS))
@pytest.mark.parametrize("draws", [2_000, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_what_is_wrong_anywhere_is_counted_or_refused(form: str, draws: int) -> None:
    """A recorded request with a wrong value at any place is counted or refused with a Problem."""
    name, key, model = _FORMS[form]
    rows = [row["request"] for row in json.loads((TRUTH / f"{name}.json").read_text("utf-8"))]
    chance, small = random.Random(5), [row for row in rows if len(str(row)) < 6000]
    for _ in range(draws):
        request = copy.deepcopy(chance.choice(small))
        *above, last = chance.choice(list(_places(request)))
        inner = request
        for step in above:
            inner = inner[step]
        inner[last] = copy.deepcopy(chance.choice(_WRONG))
        with contextlib.suppress(Problem):
            count_provider_request(form, request, find_model(model))
        with contextlib.suppress(Problem):
            messages = request.get(key)
            given = messages if isinstance(messages, list) else []
            for turn in read_messages(form, given, [f"/{place}" for place in range(len(given))]):
                measure(turn.message)
