"""Prompt caches: each model's rules, the places of hints, and a simulator that bills windows by the rules."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from sash.core.counts.costs.counting import plain_text_tokens
from sash.core.counts.models.models import find_model
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.caching import cache_key, caching_of, settled
from sash.core.providers.anthropic.anthropic import ANTHROPIC
from sash.core.providers.form.cache_marks import Caching, Places
from sash.core.providers.openai.openai import OPENAI
from sash.windows.answer import Made
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from sash_tools.replays.prompt_cache import Billed, Block, PromptCache
from sash_tools.replays.window_blocks import CachedWindow, blocks_of_window
from tests.bench.caches import blocks_of

MARK = {"type": "ephemeral"}
EVERYWHERE = Places(before_question=True, newest=True)
CLAUDE = caching_of(find_model("claude-sonnet-5"))
TYPES = {
    "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
    "openai": TypeAdapter(CompletionCreateParamsNonStreaming),
    "responses": TypeAdapter(ResponseCreateParamsNonStreaming),
}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks. " * 40, "parameters": {"type": "object", "properties": {}}},
}


FORMS = [("claude-sonnet-5", "anthropic"), ("gpt-6.1-sol", "openai"), ("gpt-6.1-sol", "responses")]


# ---- rules


@pytest.mark.parametrize(
    ("name", "kind", "minimum", "read", "write"),
    [
        ("gpt-4o-mini", "implicit", 1024, 0.5, 1.0),
        ("gpt-5.2", "implicit", 1024, 0.1, 1.0),
        ("gpt-5.6-sol", "breakpoints", 1024, 0.1, 1.25),
        ("gpt-6.1-sol", "breakpoints", 1024, 0.05, 1.25),
        ("claude-sonnet-5", "cache_control", 1024, 0.1, 1.25),
        ("anthropic/claude-opus-5-5", "cache_control", 512, 0.05, 1.25),
        ("claude-opus-4-7", "cache_control", 2048, 0.1, 1.25),
        ("claude-haiku-4-5", "cache_control", 4096, 0.1, 1.25),
        ("gemini-2.5-flash", "implicit", 2048, 0.1, 1.0),
        ("gemini-3.8-flash", "implicit", 4096, 0.1, 1.0),
    ],
)
def test_each_model_has_its_providers_rules(name: str, kind: str, minimum: int, read: float, write: float) -> None:
    """A model's cache has the kind and minimum of its provider's documents, and the prices of genai-prices."""
    rules = caching_of(find_model(name))
    assert rules is not None
    assert (rules.kind, rules.minimum_tokens) == (kind, minimum)
    assert (rules.read_price, rules.write_price) == (pytest.approx(read), pytest.approx(write))


@pytest.mark.parametrize(
    "name", ["gpt-4", "gpt-3.5-turbo", "gpt-4o-2024-05-13", "claude-2", "claude-3-sonnet", "gpt-5-pro"]
)
def test_a_model_without_a_documented_cache_has_none(name: str) -> None:
    """A model without a documented cache has no rules for hints, and ``stable=auto`` gives it no stable cut."""
    model = find_model(name)
    assert caching_of(model) is None
    assert settled(WindowQuery(stable="auto"), model, 8000).stable is False


def test_a_step_is_chosen_by_the_models_rules() -> None:
    """``stable=auto`` has a step of half the budget, or less if the other half is below the provider's minimum."""
    claude, gemini = find_model("claude-sonnet-5"), find_model("gemini-3.8-flash")
    assert settled(WindowQuery(stable="auto"), claude, 8000).stable_step == 0.5
    assert settled(WindowQuery(stable="auto"), gemini, 5000).stable_step < 0.5
    assert settled(WindowQuery(stable=True, stable_step=0.1), claude, 8000).stable_step == 0.1


# ---- hints


def request_of(*texts: str, tools: int = 1, system: Any = "Be brief.") -> dict[str, Any]:
    """Return a request to Claude, with alternating user and assistant messages."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": [{"type": "text", "text": text}]} for i, text in enumerate(texts)]
    return {
        "tools": [{"name": f"t{i}", "input_schema": {}} for i in range(tools)],
        "system": system,
        "messages": messages,
    }


def marks(request: dict[str, Any]) -> list[bool]:
    """Return whether each block is marked, in the order in which blocks are cached."""
    blocks = [
        *request["tools"],
        *request["system"],
        *(block for each in request["messages"] for block in each["content"]),
    ]
    return ["cache_control" in block for block in blocks]


def test_marks_stand_at_the_places_that_stay() -> None:
    """Marks end the definitions, the system text and, if stable, the message before the question and the question."""
    request = request_of("q1", "a1", "q2", tools=2)
    hinted_request = ANTHROPIC.mark(request, CLAUDE.kind, EVERYWHERE, "")
    assert marks(hinted_request) == [False, True, True, False, True, True]
    assert marks(ANTHROPIC.mark(request, CLAUDE.kind, Places(before_question=False, newest=False), "")) == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    assert "cache_control" not in json.dumps(request)


def test_a_clients_own_marks_stay_and_count() -> None:
    """A client's marks stay and count towards the four, and no mark is added before one with a lifetime of an hour."""
    request = request_of("q1", "a1", "q2", "a2", "q3", tools=1, system=[{"type": "text", "text": "Be brief."}])
    for message in request["messages"][:3]:
        message["content"][0]["cache_control"] = MARK
    assert marks(ANTHROPIC.mark(request, CLAUDE.kind, EVERYWHERE, "")).count(True) == 4
    request = request_of("q1", "a1", "q2", "a2", "q3", system=[{"type": "text", "text": "Be brief."}])
    hour = {"type": "ephemeral", "ttl": "1h"}
    request["messages"][1]["content"][0]["cache_control"] = hour
    sent = ANTHROPIC.mark(request, CLAUDE.kind, EVERYWHERE, "")
    assert marks(sent) == [False, False, False, True, False, True, True]
    assert sent["messages"][1]["content"][0]["cache_control"] == hour


def test_thoughts_are_not_marked() -> None:
    """A mark is set on the block before a thinking block, not on the thinking block."""
    request = request_of("q1", "a1", "q2")
    request["messages"][1]["content"].append({"type": "thinking", "thinking": "hm", "signature": "x"})
    sent = ANTHROPIC.mark(request, CLAUDE.kind, Places(before_question=True, newest=False), "")
    assert marks(sent) == [True, True, False, True, False, False]


def test_marks_inside_results_count_and_what_takes_none_is_passed_over() -> None:
    """Marks in a tool result count towards the four; empty text and deferred tools get no mark; plain strings do."""
    request = request_of("q1", "a1", "q2")
    inner = [{"type": "text", "text": text, "cache_control": MARK} for text in "abc"]
    request["messages"][0]["content"] = [{"type": "tool_result", "tool_use_id": "c", "content": inner}]
    request["messages"][1]["content"] = "a1"
    sent = ANTHROPIC.mark(request, CLAUDE.kind, EVERYWHERE, "")
    assert marks(sent) == [False, False, False, False, True]
    request = request_of("q1", "", "q2", tools=2)
    request["tools"][1]["defer_loading"] = True
    sent = ANTHROPIC.mark(request, CLAUDE.kind, Places(before_question=True, newest=False), "")
    assert marks(sent) == [True, False, True, True, False, False]


def test_breakpoints_stand_where_newer_models_take_them() -> None:
    """Breakpoints end the system text and the last user message before the newest question; the request also has the key."""
    said = [("system", "Be brief."), ("user", "q1"), ("assistant", "a1"), ("user", "q2")]
    messages = [{"role": role, "content": text} for role, text in said]
    sent = OPENAI.mark({"messages": messages}, "breakpoints", EVERYWHERE, "key")
    point = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    assert sent["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "Be brief.", **point}]},
        {"role": "user", "content": [{"type": "text", "text": "q1", **point}]},
        messages[2],
        messages[3],
    ]
    assert sent["prompt_cache_key"] == "key"


def test_a_key_names_nobody_and_is_the_same_each_time() -> None:
    """A cache key is the same each time, differs by tenant, conversation and life, and does not contain the tenant."""
    key = cache_key("acme/ann", "life-1")
    assert key == cache_key("acme/ann", "life-1")
    others = cache_key("acme/bob", "life-1"), cache_key("other/ann", "life-1"), cache_key("acme/ann", "life-2")
    assert len({key, *others}) == 4
    assert "acme" not in key
    assert len(key) <= 64


# ---- windows, billed by their own blocks and by those of their requests


def talk(*, documents: bool, turns: int = 40) -> list[dict[str, Any]]:
    """Return the entries of a conversation in which every third answer needs tools."""
    entries: list[dict[str, Any]] = []
    for turn in range(turns):
        question: dict[str, Any] = {"message": {"role": "user", "content": f"Question {turn}? " + "about it " * 20}}
        if documents:
            question["grounding"] = {"documents": [{"id": f"d-{turn}", "text": f"Document {turn}. " * 40}]}
        entries.append(question)
        if turn % 3 == 0:
            calls = [f"call-{turn}-{number}" for number in range(2)]
            function = {"name": "look", "arguments": "{}"}
            made = [{"id": call, "type": "function", "function": function} for call in calls]
            entries.append({"message": {"role": "assistant", "content": None, "tool_calls": made}})
            entries += [
                {"message": {"role": "tool", "tool_call_id": call, "content": f"found {call} " * 20}} for call in calls
            ]
        entries.append({"message": {"role": "assistant", "content": f"Answer {turn}. " + "and so on " * 30}})
    return entries


def windows(model: str, form: str, *, documents: bool = False, turns: int = 40, **more: Any) -> Iterator[Made]:
    """Yield the window of each request of ``talk``: after a question, and after all results of a tool group."""
    entries = talk(documents=documents, turns=turns)
    settings = {
        "system": "You know the programme. " * 150,
        "tools": [TOOL],
        "model": model,
        "max_tokens": 6000,
        "reserve": 0,
    }
    for length, following in enumerate(entries[1:], 1):
        if following["message"]["role"] == "assistant":
            body = {**settings, "messages": entries[:length], "format": form, "cache": "auto", **more}
            yield window_of_request(msgspec.convert(body, WindowRequest), {})[0]


def in_our_tokens(blocks: list[Block], tokens: dict[str, int], leading: int) -> list[Block]:
    """Return the blocks with tokens scaled to the window's figures; the ``leading`` ones are definitions and system text."""
    fixed = tokens["priming"] + tokens["tools"] + tokens["system"]
    scaled = []
    for part, cost in ((blocks[:leading], fixed), (blocks[leading:], tokens["total"] - fixed)):
        scale = cost / max(1, sum(block.tokens for block in part))
        scaled += [block._replace(tokens=round(block.tokens * scale)) for block in part]
    return scaled


def bills(windows: Iterable[Made], seconds: int = 10) -> list[tuple[Billed, Billed]]:
    """Return what each request is billed by the blocks of its window, and by those that are read from the request."""
    found: list[tuple[Billed, Billed]] = []
    caches: tuple[PromptCache, PromptCache] | None = None
    for number, made in enumerate(windows):
        model, form, told = made.asked.plan.model, made.asked.plan.query.format, json.loads(made.body)
        rules = caching_of(model)
        assert rules is not None
        caches = caches or (PromptCache(rules), PromptCache(rules))
        places = made.hints.places if made.hints and made.hints.kind else None
        own = blocks_of_window(rules.kind, CachedWindow(made.window, made.history, model, places))
        counted = blocks_of(told["request"], form, lambda text, model=model: plain_text_tokens(text, model))
        sent = in_our_tokens(counted, told["tokens"], 1 if form == "gemini" else 2)
        found.append((caches[0].send(own, number * seconds), caches[1].send(sent, number * seconds)))
    return found


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("claude-sonnet-5", "anthropic"),
        ("gpt-6.1-sol", "openai"),
        ("gpt-5.2", "openai"),
        ("gemini-3.8-flash", "gemini"),
    ],
)
@pytest.mark.slow
def test_a_window_is_billed_as_its_request(model: str, form: str, *, stable: bool, documents: bool) -> None:
    """Over a long conversation, reads and writes by windows' blocks differ from those by requests by 4 % of all tokens.

    Gemini serves no prefix below 4,096 tokens. A window of 12,000 is mostly far above, so that few bills hang on a token.
    """
    size = {"turns": 80, "max_tokens": 12_000} if form == "gemini" else {}
    found = bills(windows(model, form, stable=stable, documents=documents, **size))
    total = sum(sum(sent) for _, sent in found)
    own, sent = ([sum(bill[part] for bill in side) / total for part in range(2)] for side in zip(*found, strict=True))
    assert own == pytest.approx(sent, abs=0.04)


@pytest.mark.parametrize(("model", "form"), FORMS)
@pytest.mark.slow
def test_hints_change_nothing_but_hints(model: str, form: str) -> None:
    """Apart from hints, the request and its tokens are those of ``cache=none``, and the SDK's types accept the request."""
    pairs = zip(windows(model, form, stable=True), windows(model, form, stable=True, cache="none"), strict=True)
    for made in list(pairs)[::7]:
        window, plain = (json.loads(each.body) for each in made)
        assert window["tokens"] == plain["tokens"]
        assert [block.identity for block in blocks_of(window["request"], form, len)] == [
            block.identity for block in blocks_of(plain["request"], form, len)
        ]
        TYPES[form].validate_python({"model": model, "max_tokens": 1, **window["request"]})


def two_windows(model: str, form: str, messages: list[dict[str, Any]], **more: Any) -> list[Made]:
    """Return the window before the newest reply, and the window of all messages."""
    entries = [each if "message" in each else {"message": each} for each in messages]
    reply = max(place for place, each in enumerate(entries) if each["message"]["role"] == "assistant")
    body = {"model": model, "format": form, "cache": "auto", "tools": [TOOL], "system": "Be brief. " * 600, **more}
    histories = (entries[:reply], entries)
    return [window_of_request(msgspec.convert({**body, "messages": each}, WindowRequest), {})[0] for each in histories]


def step(number: int, found: str) -> list[dict[str, Any]]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": found},
    ]


def said(*texts: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]


LONG = "and so on " * 300
ZEBRA = said("A zebra has stripes. " * 20, *["It is so. " * 20, "And what of this? " * 20] * 7, "Yes.")
GROUNDED = {
    "message": {"role": "user", "content": "And this?"},
    "grounding": {"documents": [{"text": "It is so. " * 400}]},
}
POLITE = {"role": "system", "content": "Be polite."}
LOOP = [*said(LONG), *step(1, LONG), *step(2, LONG)]
TURNS = said(LONG, "One.", LONG, "Two.", "And then?")
RECALLED = said(*["Tell me of it. " * 20, "It is so. " * 20] * 8, "zebra? " + LONG)
CASES: dict[str, tuple[str, str, list[dict[str, Any]], dict[str, Any]]] = {
    "results are cut behind the common messages": ("gpt-5.2", "openai", LOOP, {"tool_result_max_tokens": 50}),
    "instructions take no mark": ("gpt-6.1-sol", "responses", TURNS, {"limit": 1}),
    "a system message takes a mark": ("gpt-6.1-sol", "openai", TURNS, {"limit": 1}),
    "Claude takes no marks in the chat form": ("claude-sonnet-5", "openai", TURNS, {}),
    "Claude takes no marks in the form of Responses": ("claude-sonnet-5", "responses", TURNS, {}),
    "a note changes Claude's system text": ("claude-sonnet-5", "anthropic", TURNS, {"limit": 2, "note": True}),
    "a note changes the marked text": ("gpt-6.1-sol", "openai", TURNS, {"limit": 2, "note": True}),
    "a system message stays behind Claude's history": (
        "claude-sonnet-5",
        "anthropic",
        [*TURNS, {"role": "system", "content": "Be polite."}],
        {},
    ),
    "recalled messages stand before a mark": (
        "claude-sonnet-5",
        "anthropic",
        [*RECALLED, *step(1, "Found.")],
        {"stable": True, "max_tokens": 6800, "reserve": 0, "recall_max_tokens": 400, "recall_query": "zebra tell"},
    ),
    "documents of the question before left less room": (
        "gpt-5.2",
        "openai",
        [*said(LONG, "One."), GROUNDED, *said("", "Two.", "Thanks.")[1:]],
        {"max_tokens": 3700, "reserve": 0},
    ),
    "two questions in a row are one turn": (
        "claude-sonnet-5",
        "anthropic",
        [*said(LONG, "One.", LONG), GROUNDED, *said("", "Two.", "Thanks.")[1:]],
        {},
    ),
    "another question recalls other messages": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra.", "Fine.", "Thanks.")],
        {"max_tokens": 2800, "reserve": 0, "recall_max_tokens": 400},
    ),
    "a loop recalls the same messages": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra."), *step(1, "Found.")],
        {"max_tokens": 2800, "reserve": 0, "recall_max_tokens": 400},
    ),
    "a loop with a limit recalls another block": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra. " + LONG), *step(1, "A zebra, so. " * 20), *step(2, "Found.")],
        {"stable": True, "limit": 2, "recall_max_tokens": 400},
    ),
    "a question that recalls nothing follows a block": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra. " + LONG, "Fine.", "Thanks.")],
        {"stable": True, "stable_step": 0.05, "max_tokens": 4000, "reserve": 0, "recall_max_tokens": 400},
    ),
    "nothing was recalled while all messages fitted": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra. " + LONG), *step(1, "Found. " * 100)],
        {"stable": True, "max_tokens": 4450, "reserve": 0, "recall_max_tokens": 400, "note": True},
    ),
    "a longer loop has less room for a block": (
        "gpt-5.2",
        "openai",
        [*ZEBRA, *said("Tell me of the zebra. " + LONG), *step(1, "Found. " * 100)],
        {"stable": True, "max_tokens": 3400, "reserve": 0, "recall_max_tokens": 400},
    ),
    "leading system messages take a mark": (
        "gpt-6.1-sol",
        "responses",
        [POLITE, *said(LONG, "One.", LONG, "Two.", "Thanks.")],
        {"limit": 2},
    ),
    "results take no mark in Responses": (
        "gpt-6.1-sol",
        "responses",
        [
            *said(LONG, "One.", "Look."),
            *step(1, LONG),
            *said("", "Two.")[1:],
            GROUNDED,
            *said("", "Three.", "Thanks.")[1:],
        ],
        {},
    ),
    "a window without marks finds no entry of a message": (
        "claude-sonnet-5",
        "anthropic",
        [*said(LONG, "One.", "Look."), *step(1, LONG), *said("And then?")],
        {"tool_results_kept": 0},
    ),
}


@pytest.mark.parametrize(("model", "form", "messages", "more"), CASES.values(), ids=CASES)
def test_a_window_is_read_as_its_request(
    model: str, form: str, messages: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    """Reads by a window's blocks are those by its request, also where the system text or a result changes, or no mark can
    be sent."""
    own, sent = bills(two_windows(model, form, messages, **more), seconds=1)[-1]
    assert own.read == pytest.approx(sent.read, abs=max(128, sent.read // 25))


# ---- the simulator itself


def rules_of(kind: Any, minimum: int = 10, **more: Any) -> Caching:
    return Caching(kind=kind, minimum_tokens=minimum, lifetime_seconds=300, read_price=0.1, write_price=1.25, **more)


def test_the_simulator_reads_no_more_than_an_entry() -> None:
    """Marks make cache entries, a different block ends a read, an unused entry expires, and five marks are refused."""
    cache = PromptCache(rules_of("cache_control"))
    system, first, second = Block(b"s", 20, marked=True), Block(b"a", 5, marked=True), Block(b"b", 7, marked=True)
    assert cache.send([system, first], 0) == (0, 25, 0)
    assert cache.send([system, first, second], 100) == (25, 7, 0)
    assert cache.send([system, second], 200) == (20, 7, 0)
    assert cache.send([system, first], 399) == (25, 0, 0)
    assert cache.send([system, first], 1000) == (0, 25, 0)
    with pytest.raises(ValueError, match="5 breakpoints"):
        cache.send([system] * 5, 0)


def test_the_simulator_looks_back_over_twenty_blocks() -> None:
    """A mark finds entries of the last twenty blocks before it, and no older ones."""
    cache = PromptCache(rules_of("cache_control"))
    blocks = [Block(bytes([number]), 10) for number in range(25)]
    cache.send([*blocks[:4], Block(b"m", 10, marked=True)], 0)
    after = [*blocks[:4], Block(b"m", 10)]
    assert cache.send([*after, *blocks[4:22], Block(b"n", 10, marked=True)], 1).read == 50
    cache = PromptCache(rules_of("cache_control"))
    cache.send([*blocks[:4], Block(b"m", 10, marked=True)], 0)
    assert cache.send([*after, *blocks[4:24], Block(b"n", 10, marked=True)], 1).read == 0


def test_the_simulator_reads_whole_steps_above_the_minimum() -> None:
    """An implicit cache reads the longest common prefix in whole steps, and nothing below its minimum."""
    cache = PromptCache(rules_of("implicit", minimum=128, step_tokens=64))
    blocks = [Block(b"a", 100), Block(b"b", 100)]
    assert cache.send(blocks, 0) == (0, 0, 200)
    assert cache.send(blocks, 1) == (192, 0, 8)
    assert cache.send([blocks[0], Block(b"c", 100)], 2) == (0, 0, 200)
