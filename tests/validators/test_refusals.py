"""The predicates of destinations: each one finds what breaks its rule, and nothing in a window of the same history."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from recordings import NO_TRUTH, TRUTH

from sash.core.chat.messages import BareEntry, Entry
from sash.core.counts.models.models import find_model
from sash.core.providers.destinations.destination import FACTS, meet
from sash.core.providers.destinations.facts import VALUES
from sash.core.providers.destinations.refusals import RULES, refusals
from sash.operations.metrics import Metrics
from sash.operations.served import tell_window
from sash.operations.window_metrics import CHECKED_EVERY
from sash.problems import FormatCannotCarry, InvalidEntry, WindowDoesNotFit
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from validators.logs import Object
from validators.test_histories import assert_counted

ASKED: Object = {"role": "user", "content": "Where is the talk?"}
REPLY: Object = {"role": "assistant", "content": "In hall 2."}


def called(identity: str = "call_1", arguments: str = '{"day": 1}') -> Object:
    """Return a message with a call."""
    call = {"id": identity, "type": "function", "function": {"name": "find", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


CALLED_TWICE: Object = {
    **called(),
    "tool_calls": [call for name in ("call_1", "call_2") for call in called(name)["tool_calls"]],
}
"""A message with two calls."""


def result(identity: str = "call_1") -> Object:
    """Return a call's result."""
    return {"role": "tool", "tool_call_id": identity, "content": "Hall 2."}


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/"
    "gAAAABJRU5ErkJggg=="
)
PDF = "data:application/pdf;base64,JVBERi0xLjQK"


def shown(part: Object) -> Object:
    """Return a question about a picture, a file or a sound."""
    return {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}


RULE_BREAKERS: dict[str, tuple[str, ...]] = {
    "alternation": (
        *("google/gemma-3-27b-it", "sonar-pro", "openrouter/perplexity/sonar"),
        "mistralai/Devstral-Small-2-24B-Instruct-2512",
    ),
    "arguments": ("deepseek-chat", "qwen3.5-plus", "hosted_vllm/google/gemma-3-27b-it"),
    "beginning": ("google/gemma-3-27b-it", "ollama/gemma3:4b", "sonar-pro", "deepinfra/Qwen/Qwen3-32B"),
    "call_ids": ("mistral-large-latest",),
    "calls": ("llama-3.3-70b",),
    "empty_question": ("kimi-k2.5", "qwen3.5-plus", "glm-5.1", "grok-4"),
    "files": ("deepseek-chat", "o3-mini"),
    "empty_text": ("glm-5.1", "claude-opus-4-8", "openrouter/anthropic/claude-opus-4.8", "deepinfra/Qwen/Qwen3-32B"),
    "empty_reply": ("deepseek-chat", "llama-3.3-70b", "venice/openai-gpt-54-pro"),
    "ending": ("mistral-large-latest", "claude-opus-4-8", "deepseek-reasoner"),
    "links": ("ollama/gemma3:4b",),
    "members": ("groq/qwen/qwen3-32b", "cerebras/zai-glm-4.7", "gpt-4o", "mistral-large-latest"),
    "pictures": (
        "gpt-3.5-turbo",
        "gpt-4",
        "o1-mini",
        "deepseek-v4-pro",
        "kimi-k2",
        "llama-3.3-70b",
        "groq/qwen/qwen3-32b",
    ),
    "reasoning": ("groq/qwen/qwen3-32b", "cerebras/zai-glm-4.7", "gpt-4o", "mistral-large-latest"),
    "reasoning_in": ("kimi-k2.5", "deepseek-v4-pro", "openrouter/moonshotai/kimi-k2.5"),
    "speakers": ("grok-4", "minimax-m2.5"),
    "system_text": ("groq/qwen/qwen3-32b", "cerebras/zai-glm-4.7"),
    "videos": ("gpt-5", "claude-opus-4-8"),
    "sounds": ("gpt-4o-mini", "gpt-5", "deepseek-chat", "glm-4.6"),
    "roles": ("deepseek-chat", "openrouter/openai/gpt-oss-120b", "qwen3.5-plus", "mistral-large-latest"),
    "system": ("qwen3.5-plus", "google/gemma-3-27b-it", "mistral-large-latest"),
}
"""Models whose destinations have a rule of single chat messages, or of their order."""
BROKEN: dict[str, list[Object]] = {
    "alternation": [ASKED, ASKED],
    "arguments": [ASKED, called(arguments='{"day'), result()],
    "beginning": [REPLY, ASKED],
    "call_ids": [ASKED, called(), result()],
    "calls": [ASKED, CALLED_TWICE, result("call_1"), result("call_2")],
    "empty_question": [{"role": "user", "content": ""}],
    "empty_reply": [ASKED, {"role": "assistant", "content": ""}],
    "empty_text": [
        shown({"type": "text", "text": " "}),
        {"role": "assistant", "content": [{"type": "text", "text": ""}]},
    ],
    "ending": [ASKED, REPLY],
    "links": [shown({"type": "image_url", "image_url": {"url": "https://x.test/a.png"}})],
    "members": [ASKED, {**REPLY, "reasoning_content": "Hm."}],
    "files": [shown({"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}})],
    "pictures": [shown({"type": "image_url", "image_url": {"url": PIXEL}}), REPLY],
    "sounds": [shown({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})],
    "reasoning": [ASKED, {**REPLY, "reasoning_content": "Hm."}],
    "reasoning_in": [ASKED, {**REPLY, "reasoning": "Hm."}],
    "speakers": [{"role": "system", "name": "guide", "content": "Be brief."}, ASKED],
    "system_text": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, ASKED],
    "videos": [shown({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}})],
    "roles": [ASKED, {"role": "developer", "content": "Be brief."}],
    "system": [ASKED, {"role": "system", "content": "Be brief."}],
}
"""A piece of a history that breaks each rule when it is sent as it is."""
PIECES: list[list[Object]] = [
    [ASKED],
    [REPLY],
    [ASKED, called(), result(), REPLY],
    [],
    [{"role": "system", "content": "x"}],
]
CASES = [(rule, model) for rule, models in RULE_BREAKERS.items() for model in models]


def histories(rule: str) -> st.SearchStrategy[list[Object]]:
    """Draw histories that break the rule somewhere; at the end or the beginning, if it is a rule of that."""
    around = st.lists(st.sampled_from(PIECES), max_size=3).map(
        lambda pieces: [each for piece in pieces for each in piece]
    )
    none: st.SearchStrategy[list[Object]] = st.just([])
    before, behind = none if rule == "beginning" else around, none if rule == "ending" else around
    return st.builds(lambda before, after: [*before, *BROKEN[rule], *after], before, behind)


def asked_for(model: str, messages: list[Any], form: str = "openai", **more: Any) -> WindowRequest:
    """Return the wish for a window of this history."""
    wish = {"model": model, "format": form, "messages": [], "reserve": 0, "uncarried": "drop", **more}
    entries: list[Entry | BareEntry] = [BareEntry(message=each) for each in messages]
    return msgspec.structs.replace(msgspec.convert(wish, WindowRequest), messages=entries)


def rules_broken(form: str, model: str, request: Object) -> set[str]:
    """Return the rules of the model's destination that the request breaks."""
    return {each.rule for each in refusals(request, meet(form, find_model(model).provider, model))}


def test_each_rule_has_a_predicate_and_a_generator() -> None:
    """A kind of fact is judged, and drawn here or a rule of declared tools or of Bedrock's turns."""
    assert RULES == VALUES.keys() == {each.kind for each in FACTS}
    assert {*RULE_BREAKERS, "tool_names", "beside_calls"} == RULES


@examples(0.5)
@given(st.data())
@pytest.mark.parametrize(("rule", "model"), CASES)
def test_a_rule_finds_its_breakers_and_windows_keep_it(rule: str, model: str, data: st.DataObject) -> None:
    """A history that is sent as it is breaks the rule; the window of the same history breaks none, and is counted."""
    history = data.draw(histories(rule))
    assert rule in rules_broken("openai", model, {"messages": history})
    window = json.loads(window_of_request(asked_for(model, history), {})[0].body)
    assert rules_broken("openai", model, window["request"]) == set()
    assert_counted("openai", model, window)


@pytest.mark.parametrize(
    ("form", "model"), [("anthropic", "claude-opus-4-8"), ("converse", "meta.llama3-1-70b-instruct-v1:0")]
)
def test_no_other_form_ends_with_a_reply(form: str, model: str) -> None:
    """The rule of the end holds in each form that has it, where it reads blocks."""
    blocks = [{"type": "text", "text": "Hall"}] if form == "anthropic" else [{"text": "Hall"}]
    assert rules_broken(form, model, {"messages": [ASKED, {"role": "assistant", "content": blocks}]}) == {"ending"}
    body = window_of_request(asked_for(model, [ASKED, REPLY], form), {})[0].body
    assert rules_broken(form, model, json.loads(body)["request"]) == set()


@examples(0.5)
@given(
    st.lists(
        st.sampled_from(
            [
                *PIECES,
                [ASKED, {**called(), "reasoning_content": "Hm."}, result(), REPLY],
                [ASKED, {**called(), "content": "Let me look.", "reasoning": "Hm."}, result()],
            ]
        ),
        max_size=4,
    ),
    st.sampled_from(["turn", "all", "none"]),
)
@pytest.mark.parametrize("model", ["deepseek-v4-pro", "kimi-k2.5"])
def test_others_in_claudes_form_get_thinking_before_calls(
    model: str, pieces: list[list[Object]], reasoning: str
) -> None:
    """A call without thinking breaks their rule, and no window has one, whatever is asked about reasoning."""
    use = {"type": "tool_use", "id": "1", "name": "find", "input": {}}
    assert rules_broken("anthropic", model, {"messages": [ASKED, {"role": "assistant", "content": [use]}]}) == {
        "reasoning"
    }
    history = [each for piece in pieces for each in piece]
    window = json.loads(window_of_request(asked_for(model, history, "anthropic", reasoning=reasoning), {})[0].body)
    assert rules_broken("anthropic", model, window["request"]) == set()
    assert_counted("anthropic", model, window)


def test_llama_at_bedrock_has_nothing_beside_calls() -> None:
    """Words beside a call break the rule, and a window divides them."""
    model, words = "us.meta.llama4-maverick-17b-instruct-v1:0", {**called(), "content": "Let me look."}
    use = {"toolUse": {"toolUseId": "1", "name": "find", "input": {}}}
    broken = {"messages": [{"role": "assistant", "content": [{"text": "Let me look."}, use]}]}
    assert rules_broken("converse", model, broken) == {"beside_calls"}
    body = window_of_request(asked_for(model, [ASKED, words, result()], "converse"), {})[0].body
    assert rules_broken("converse", model, json.loads(body)["request"]) == set()


@pytest.mark.parametrize(
    ("form", "model", "request_"),
    [
        ("openai", "gpt-4o", {"tools": [{"type": "function", "function": {"name": "a.b"}}]}),
        ("openai", "vertex_ai/gemini-2.5-pro", {"tools": [{"type": "function", "function": {"name": "2fa"}}]}),
        ("responses", "gpt-4o", {"tools": [{"type": "function", "name": "a.b"}]}),
        ("anthropic", "claude-opus-4-8", {"tools": [{"name": "a.b", "input_schema": {}}]}),
        ("gemini", "gemini-2.5-flash", {"config": {"tools": [{"functionDeclarations": [{"name": "2fa"}]}]}}),
        ("converse", "amazon.nova-pro-v1:0", {"toolConfig": {"tools": [{"toolSpec": {"name": "a.b"}}]}}),
    ],
)
def test_a_declared_name_outside_the_alphabet_is_found(form: str, model: str, request_: Object) -> None:
    """Each form's declarations are read."""
    assert rules_broken(form, model, request_) == {"tool_names"}


def recorded() -> Iterator[list[Object]]:
    """Yield the messages of recorded chat requests."""
    for path in sorted(TRUTH.glob("*_chat.json")):
        for bill in json.loads(path.read_text("utf-8")):
            if isinstance(bill, dict) and isinstance(messages := bill.get("request", {}).get("messages"), list):
                yield messages


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.long
def test_recorded_requests_break_no_rule_at_any_destination() -> None:
    """Each recorded chat is sent to a model of each rule, in turn, and breaks none."""
    models = sorted({model for _, model in CASES})
    for number, messages in enumerate(recorded()):
        model = models[number % len(models)]
        try:
            body = window_of_request(asked_for(model, messages, uncarried="drop", max_tokens=100_000), {})[0].body
        except (FormatCannotCarry, InvalidEntry, WindowDoesNotFit):
            continue
        assert rules_broken("openai", model, json.loads(body)["request"]) == set(), (number, model)


def test_one_window_in_a_hundred_is_checked() -> None:
    """A running service counts broken rules by name, in one window of a hundred, and its log line has the rules alone."""
    made = window_of_request(asked_for("mistral-large-latest", [ASKED]), {})[0]
    broken = msgspec.structs.replace(made, body=json.dumps({"request": {"messages": [ASKED, REPLY]}}).encode())
    metrics, lines = Metrics(), [{} for _ in range(2 * CHECKED_EVERY)]
    for line in lines[:CHECKED_EVERY]:
        tell_window(metrics, made, 0.001, line)
    assert not any("refused_by_rules" in line for line in lines)
    for line in lines[CHECKED_EVERY:]:
        tell_window(metrics, broken, 0.001, line)
    assert [line["refused_by_rules"] for line in lines if "refused_by_rules" in line] == [["ending"]]
    text = metrics.registry.exposition("")[0].decode()
    assert 'sash_requests_refused_by_rule_total{rule="ending"} 1' in text
    assert 'sash_requests_refused_by_rule_total{rule="system"} 0' in text
