"""Whatever a log holds: each window is a request that its provider takes, costs what it says, and loses no word in silence.

In CI the histories are the same in each run, 2,100 for all formats together. Nightly they are ten times as many, and others.
"""

import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import BareEntry, Entry
from sash.core.counts.models.models import find_model
from sash.problems import FormatCannotCarry, WindowDoesNotFit
from sash.windows.counted import CountRequest, count_in_format
from sash.windows.request import WindowRequest, decode_request
from sash.windows.stateless import window_of_request
from validators import sdk_types
from validators.conversations import SETTINGS, but_for_shots, conversations
from validators.judges import JUDGES
from validators.logs import Group, Object, words

MODELS = (
    *("gpt-4o-mini", "gpt-5", "claude-sonnet-4-5", "claude-opus-5-5", "gemini-2.5-flash", "gemini-3-pro-preview"),
    *("deepseek-chat", "llama-3.3-70b", "gpt-4", "claude-opus-4-8", "gemini-3.8-flash"),
    *(
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "amazon.nova-pro-v1:0",
        "us.meta.llama4-maverick-17b-instruct-v1:0",
    ),
    *("llama3.2:3b", "qwen3:8b"),
    *("mistral-large-latest", "qwen3.5-plus", "kimi-k2.5", "google/gemma-3-27b-it", "deepseek-v4-pro"),
    *("cerebras/zai-glm-4.7", "groq/qwen/qwen3-32b"),
)
SDK_EVERY = 20
"""The SDKs' own types judge one window in so many."""
SEALED = ("reasoning", "thinking", "redacted_thinking")
UNTOLD = frozenset({"unanswered_call", "left_out_part", "hosted_pair", "spoken_reply"})
"""Mends that leave words out, and say so. OpenAI has the words of a spoken reply, by its id."""


def parameters() -> st.SearchStrategy[Object]:
    """Draw the parameters of a window. Most are as by default, because each changes what the others do."""
    return st.fixed_dictionaries(
        {
            "max_tokens": st.sampled_from([100_000, 100_000, 20_000, 1500, 600, 300]),
            "unanswered": st.sampled_from(["note", "note", "drop"]),
            "uncarried": st.sampled_from(["drop", "drop", "error"]),
            "reasoning": st.sampled_from(["turn", "all", "none"]),
            "settings": st.sampled_from(SETTINGS),
            "more": st.sampled_from(
                [
                    *[{}] * 6,
                    {"limit": 1},
                    {"limit": 4, "overflow": "skip"},
                    {"overflow": "skip", "note": True},
                    {"stable": True},
                    {"stable": "auto", "start": "user"},
                    {"start": "user"},
                    {"dedupe": "messages"},
                    {"dedupe": "none", "grounding": "all"},
                    {"note": True, "limit": 3},
                    {"history_tools": True, "stable": True},
                    {"history_tools": True, "limit": 5},
                    {"tool_result_max_tokens": 16},
                    {"tool_results_kept": 0},
                    {"tool_results_kept": 1, "tool_result_max_tokens": 40},
                    {"tool_result_overflow": "error"},
                    {"grounding": "none"},
                    {"grounding": "all", "grounding_max_tokens": 30},
                    {"grounding_overflow": "drop"},
                ]
            ),
            "cache": st.sampled_from(["none", "none", "auto"]),
        }
    )


def words_of(value: Any) -> set[str]:
    return words(json.dumps(value, ensure_ascii=False))


def entries_of(conversation: list[Group]) -> list[Entry]:
    """Return the entries as appends read them, each request in its format."""
    return [entry for form, messages in conversation for entry in _read(form, messages)]


def _read(form: str, messages: list[Object]) -> list[Entry]:
    wanted, sent = decode_request(msgspec.json.encode({"messages": messages}), form)
    return sent.entries if sent is not None else [BareEntry(message=each) for each in wanted.messages]


def window_of(form: str, model: str, entries: list[Entry], ways: Object) -> Object | None:
    """Return the window; None if it may not be: what must be in it does not fit, or the format cannot carry a part."""
    asked = {**ways, **ways["settings"], **ways["more"]}
    del asked["settings"], asked["more"]
    body = msgspec.json.encode({**asked, "model": model, "format": form, "messages": [], "reserve": 0, "explain": True})
    wanted = msgspec.structs.replace(msgspec.json.decode(body, type=WindowRequest), messages=entries)
    try:
        made: Object = json.loads(window_of_request(wanted, {})[0].body)
    except WindowDoesNotFit:
        return None
    except FormatCannotCarry:
        assert ways["uncarried"] == "error"
        return None
    return made


def refusals(form: str, model: str, request: Object) -> list[str]:
    """Return why the provider refuses the request. One without messages waits for the client's next."""
    key, judge = JUDGES[form]
    return but_for_shots(judge(request, model), request[key]) if request[key] else []


def assert_counted(form: str, model: str, window: Object) -> None:
    request: Any = {"model": model, **window["request"]}
    known = find_model(model)
    counted = count_in_format(msgspec.convert(request, CountRequest) if form == "openai" else request, known, form)
    total = window["tokens"]["total"]
    assert counted.tokens <= total <= window["budget"]
    assert not window["exact"] or counted.tokens == total


def lost(entries: list[Entry], window: Object, fixed: Object) -> dict[int, set[str]]:
    """Return the words that kept messages have and the request has not, by message, unless the window tells why.

    Words of ``fixed``, which are in every window, are those of message 0.
    """
    sent = words_of(window["request"])
    found = {0: words_of(fixed) - sent} if words_of(fixed) - sent else {}
    for line in window["explain"]:
        if line["kept"] and not line.get("trimmed") and UNTOLD.isdisjoint(line.get("mended", ())):
            missing = words_of(entries[line["seq"] - 1].message) - sent
            if missing:
                found[line["seq"]] = missing
    return found


@examples(3)
@given(conversations(), parameters(), st.sampled_from(MODELS))
@pytest.mark.parametrize("form", JUDGES)
def test_a_window_is_a_request_that_its_provider_takes(
    form: str, conversation: list[Group], ways: Object, model: str
) -> None:
    """No rule of the provider refuses it, its total covers it, and no word of a kept message is lost without a reason."""
    entries = entries_of(conversation)
    assert words_of(conversation) == words_of([each.message for each in entries])
    window = window_of(form, model, entries, ways)
    if window is None:
        return
    request = window["request"]
    assert refusals(form, model, request) == []
    assert_counted(form, model, window)
    assert lost(entries, window, ways["settings"]) == {}
    if zlib.crc32(json.dumps(request).encode()) % SDK_EVERY == 0:
        assert sdk_types.refused(form, model, request) == []
