"""A chat in a request is measured as far as its window needs it, and its window is that of the whole history."""

import json
import sys
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.providers import PROVIDERS
from sash.problems import WindowDoesNotFit
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

MODELS = ("gpt-4o-mini", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3.5-72b", "llama-3.3-70b")
TEXTS = ("", "hi", "  a line\n\n", "Где мы? 12345", "the quick brown fox " * 9, "再见" * 40, "\U0001e6c0's")
ROLES = ("user", "assistant", "user", "assistant", "system", "developer")

messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(ROLES), "content": st.sampled_from(TEXTS)}), min_size=1, max_size=60
)
parameters = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS), "max_tokens": st.integers(30, 900)},
    optional={
        "format": st.sampled_from(sorted(PROVIDERS)),
        "overflow": st.just("skip"),
        "dedupe": st.just("messages"),
        "note": st.booleans(),
        "start": st.just("user"),
        "cache": st.just("auto"),
        "limit": st.integers(1, 20),
        "few_shots": st.just([{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]),
        "system": st.just("Be brief."),
    },
)


def made(body: dict[str, Any]) -> dict[str, Any] | None:
    wanted, sent = decode_request(msgspec.json.encode(body))
    try:
        window: dict[str, Any] = json.loads(window_of_request(wanted, {}, sent)[0].body)
    except WindowDoesNotFit:
        return None
    window.pop("explain", None)
    return window


@given(messages, parameters)
def test_a_chats_window_is_that_of_the_whole_history(chat: list[Any], asked: dict[str, Any]) -> None:
    """A window has the same messages and figures if all of the chat is read, which ``explain`` does, and as entries."""
    window = made({**asked, "messages": chat})
    assert window == made({**asked, "messages": chat, "explain": True})
    entries = [{"message": message, "id": f"m-{place}"} for place, message in enumerate(chat)]
    assert window == made({**asked, "messages": entries})


@pytest.mark.parametrize(
    "asked",
    [{}, {"overflow": "skip"}, {"format": "anthropic"}, {"format": "converse"}],
    ids=["plain", "skip", "anthropic", "converse"],
)
def test_what_is_left_out_is_counted_and_no_more(asked: dict[str, Any]) -> None:
    """6,000 more messages than fit run next to no more functions: they are counted at once, and nothing else is done."""
    assert entered(8_000, asked) - entered(2_000, asked) < 100


def entered(count: int, asked: dict[str, Any]) -> int:
    """Return how many functions of Python a window's request runs."""
    chat = [
        {"role": ("user", "assistant")[place % 2], "content": "seven words are in each such message"}
        for place in range(count)
    ]
    body = msgspec.json.encode({"model": "gpt-4o-mini", "max_tokens": 500, **asked, "messages": chat})
    calls = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    window_of_request(*decoded(body))  # so that nothing is loaded while functions are counted
    sys.setprofile(profile)
    try:
        window_of_request(*decoded(body))
    finally:
        sys.setprofile(None)
    return calls


def decoded(body: bytes) -> tuple[Any, Any]:
    return decode_request(body)[0], {}
