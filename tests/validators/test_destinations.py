"""Every predicate holds at every destination: for recorded requests of all forms, and for drawn histories.

Each row of ``FACTS`` holds at one of the destinations. What is asked about reasoning changes no rule.
"""

import json
from collections.abc import Iterator
from itertools import islice
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
from sash.core.providers.destinations.facts import Fact
from sash.problems import FormatCannotCarry, InvalidEntry, Problem, WindowDoesNotFit
from sash.windows.request import WindowRequest, decode_request
from sash.windows.stateless import window_of_request
from validators.conversations import SETTINGS, but_for_shots, conversations
from validators.logs import Group, Object
from validators.served import refused

CHAT = (
    *("gpt-4o", "gpt-3.5-turbo", "o3-mini", "gpt-4o-audio-preview", "mistral-large-latest", "codestral-latest"),
    *(
        "voxtral-small-latest",
        "deepseek-v4-pro",
        "deepseek-reasoner",
        "kimi-k2.5",
        "kimi-k2",
        "qwen3.5-plus",
        "qwen3-32b",
    ),
    *("glm-4.6", "minimax-m2.5", "sonar-pro", "grok-2-1212", "llama-3.3-70b", "command-r-plus", "phi4", "gemma2:9b"),
    *("claude-opus-4-8", "claude-2.1", "nova-micro", "amazon.titan-text-express-v1", "olmo-3-32b-think"),
    *("groq/qwen/qwen3-32b", "cerebras/zai-glm-4.7", "groq/moonshotai/kimi-k2.5", "openrouter/openai/gpt-oss-120b"),
    *("deepinfra/moonshotai/Kimi-K2.5", "novita/deepseek/deepseek-v4-pro"),
    *(
        "openrouter/perplexity/sonar-pro",
        "openrouter/moonshotai/kimi-k2.5",
        "grok-4",
        "command-a-vision-07-2025",
        "venice/openai-gpt-54-pro",
        "ollama/gemma3:4b",
        "openrouter/google/gemini-2.5-pro",
        "hosted_vllm/google/gemma-3-27b-it",
        "hosted_vllm/meta-llama/Llama-3.1-8B-Instruct",
        "hosted_vllm/mistralai/Devstral-Small-2-24B-Instruct-2512",
        "hosted_vllm/deepseek-ai/DeepSeek-V4-Pro",
        "vertex_ai/gemini-3.6-flash",
        "fireworks_ai/accounts/fireworks/models/glm-5p1",
    ),
)
DESTINATIONS = (
    *(("openai", model) for model in CHAT),
    *(("responses", model) for model in ("gpt-5", "o3-mini", "deepseek-v4-pro")),
    *(("anthropic", model) for model in ("claude-opus-4-8", "claude-sonnet-4-5", "deepseek-v4-pro", "kimi-k2.5")),
    ("anthropic", "minimax-m2.5"),
    *((form, "gemini-2.5-flash") for form in ("gemini", "interactions")),
    ("gemini", "gemini-3.6-flash"),
    *(("converse", model) for model in ("amazon.nova-micro-v1:0", "us.meta.llama4-maverick-17b-instruct-v1:0")),
    *(("converse", model) for model in ("us.anthropic.claude-opus-4-8-v1:0", "meta.llama3-1-70b-instruct-v1:0")),
    *(("ollama", model) for model in ("qwen3:8b", "gemma3:4b", "kimi-k2.5:cloud", "deepseek-v4-pro:cloud")),
    ("cohere", "command-a-03-2025"),
)
KEYS = {"responses": "input", "gemini": "contents", "interactions": "input"}
"""What requests call their messages, where not ``messages``."""


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.name}-{fact.kind}-{fact.value}")
def test_each_row_holds_at_a_destination(fact: Fact) -> None:
    """No row is about a name or a form that nobody can ask for: at one destination it is the strictest of its kind."""
    found = (meet(form, find_model(model).provider, model) for form, model in DESTINATIONS)
    assert any(each.values.get(fact.kind) == fact.value and (fact in each.why or fact.of != "model") for each in found)


def broken(form: str, model: str, entries: list[Entry | BareEntry], **more: Any) -> list[str]:
    """Return the rules that the window's request breaks; none where it may not be."""
    wish = {"model": model, "format": form, "messages": [], "reserve": 0, "uncarried": "drop", **more}
    wanted = msgspec.structs.replace(msgspec.convert(wish, WindowRequest), messages=entries)
    try:
        body = window_of_request(wanted, {})[0].body
    except (WindowDoesNotFit, FormatCannotCarry):
        return []
    request = json.loads(body)["request"]
    return but_for_shots(refused(form, request, model), request[KEYS.get(form, "messages")])


def read(form: str, messages: list[Object]) -> list[Any]:
    """Return the entries as appends read them. Raises Problem."""
    wanted, sent = decode_request(msgspec.json.encode({"messages": messages}), form)
    return sent.entries if sent is not None else [BareEntry(message=each) for each in wanted.messages]


@examples(6)
@given(
    conversations(),
    st.sampled_from(DESTINATIONS),
    st.sampled_from(["turn", "all", "none"]),
    st.sampled_from(["note", "drop"]),
    st.sampled_from(SETTINGS),
)
def test_drawn_histories_break_no_rule(
    conversation: list[Group], destination: tuple[str, str], reasoning: str, unanswered: str, settings: Object
) -> None:
    """Whatever was appended, and whatever is asked about reasoning and calls, the destination takes the request."""
    entries = [entry for form, messages in conversation for entry in read(form, messages)]
    asked = {"reasoning": reasoning, "unanswered": unanswered, "max_tokens": 100_000, **settings}
    assert broken(*destination, entries, **asked) == []


def recorded() -> Iterator[tuple[str, list[Object], Object]]:
    """Yield each recorded request's form, its messages, and what stands beside them in chat completions."""
    for path in sorted(TRUTH.glob("*.json")):
        bills = json.loads(path.read_text("utf-8"))
        for bill in bills if isinstance(bills, list) else ():
            if not (isinstance(bill, dict) and isinstance(request := bill.get("request"), dict)):
                continue
            named = next((form for form in (*KEYS, "anthropic", "converse", "ollama") if form in path.stem), "openai")
            form = {"chat": "openai"}.get(bill.get("format", named), bill.get("format", named))
            messages = request.get(KEYS.get(form, "messages"))
            if isinstance(messages, list) and all(isinstance(each, dict) for each in messages):
                beside = {
                    name: request[name] for name in ("tools", "tool_choice") if form == "openai" and request.get(name)
                }
                yield form, messages, beside


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.long
def test_recorded_requests_break_no_rule_at_any_destination() -> None:
    """Every third recorded request of each form is sent to a destination, in turn, and breaks none of its rules."""
    seen = 0
    for number, (form, messages, beside) in enumerate(islice(recorded(), 0, None, 3)):
        destination = DESTINATIONS[number % len(DESTINATIONS)]
        try:
            found = broken(*destination, read(form, messages), max_tokens=100_000, **beside)
        except (InvalidEntry, Problem, KeyError):
            continue
        seen += 1
        assert found == [], (number, form, destination)
    assert seen > 1_000
