"""Messages that a client left out of windows: ``sent`` is false."""

import json
import re
from typing import Any

import msgspec
from histories import entries, groups
from hypothesis import given
from hypothesis import strategies as st

from sash import window
from sash.core.chat.messages import Entry
from sash.problems import WindowDoesNotFit


def as_sent(found: list[Entry]) -> list[dict[str, Any]]:
    """Return entries as a client sends them."""
    told: list[dict[str, Any]] = msgspec.to_builtins(found)
    return [{name: each for name, each in entry.items() if each is not None} for entry in told]


def request_of(messages: list[dict[str, Any]], **parameters: Any) -> Any:
    """Return the window's request; the costs of what must be in it, where they do not fit.

    Calls in the form before tool calls get their ids from their places, and so does an id that was used before.
    """
    try:
        sent = json.dumps(window(messages, **parameters).request)
        return re.sub(r"(call_\d+)_\d+", r"\1_0", re.sub(r"function_\d+", "function_0", sent))
    except WindowDoesNotFit as problem:
        return problem.members["costs"]


@given(
    entries(max_turns=8),
    st.data(),
    st.integers(10, 400) | st.just(100_000),
    st.sampled_from(["openai", "responses", "anthropic", "gemini", "converse", "ollama"]),
    st.sampled_from(["stop", "skip"]),
    st.sampled_from(["note", "drop"]),
)
def test_a_window_is_that_of_the_history_without_what_is_left_out(
    found: tuple[Entry, ...], data: st.DataObject, budget: int, form: str, overflow: str, unanswered: str
) -> None:
    """Tool groups that are not sent change a window as if they had never been appended, whatever else is in it."""
    out: set[int] = set()
    for group in groups([entry.message for entry in found]):
        # A result in the form before tool calls answers whatever call stands before it.
        is_before_result = group[-1] < len(found) and found[group[-1]].message["role"] == "function"
        if not is_before_result and data.draw(st.booleans()):
            out |= {*group}
    marked = [msgspec.structs.replace(e, sent=seq not in out) for seq, e in enumerate(found, 1)]
    kept = [entry for entry in marked if entry.sent]
    asked: dict[str, Any] = {
        "model": "gpt-4o-mini" if form in ("openai", "responses") else "claude-sonnet-4-5",
        "format": form,
        "max_tokens": budget,
        "reserve": 0,
        "overflow": overflow,
        "unanswered": unanswered,
    }

    assert request_of(as_sent(marked), **asked) == request_of(as_sent(kept), **asked)
