"""Predicted against billed, over requests recorded from the provider, in a table by file, family and kind.

The recordings are not part of the project; ``recordings.py`` says where they are looked for.
"""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from recordings import NO_TRUTH, TRUTH
from rich.console import Console
from rich.table import Table

from service.core.counting import count_request
from service.core.models import find_model
from service.core.text import ENCODINGS, count_text, cut_text

pytestmark = pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)

FILES = ("vcr_chat", "kani_chat", "cookbook", "openai_chat_tokens", "openai_messages_token_helper")
FIELDS = ("messages", "tools", "tool_choice", "functions", "function_call", "response_format")


class Case(NamedTuple):
    """One recorded request: where it is from, what it holds, and predicted - billed in tokens."""

    id: str
    file: str
    family: str
    kind: str
    error: int
    is_exact: bool


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case(file, row) for file in FILES for row in json.loads((TRUTH / f"{file}.json").read_bytes()))


def case(file: str, row: dict[str, Any]) -> Case:
    request = {field: value for field, value in row["request"].items() if field in FIELDS}
    model = find_model(row["model"])
    count = count_request(model, **request)
    return Case(row["id"], file, model.rules.family, kind(request), count.tokens - row["prompt_tokens"], count.exact)


def kind(request: dict[str, Any]) -> str:
    """What a request is about, the hardest part naming it."""
    parts = {part["type"] for message in request["messages"] for part in listed(message.get("content"))}
    roles = {message["role"] for message in request["messages"]}
    if parts & {"file", "input_audio"}:
        return "files and audio"
    if "image_url" in parts:
        return "images"
    if request.get("response_format", {}).get("type") == "json_schema":
        return "response format"
    if roles & {"tool", "function"} or any(message.get("tool_calls") for message in request["messages"]):
        return "tool history"
    return "tool definitions" if request.get("tools") or request.get("functions") else "text"


def listed(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else []


def share_exact(kind: str) -> float:
    errors = [case.error for case in cases() if case.kind == kind]
    return errors.count(0) / len(errors)


def grouped(position: int) -> Iterator[tuple[str, list[int]]]:
    for value in sorted({case[position] for case in cases()}):
        yield value, [case.error for case in cases() if case[position] == value]


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of the README beside this file is printed, and covers every recording."""
    table = Table("by", "", "cases", "exact", "over", "under", "worst")
    for title, position in (("file", 1), ("family", 2), ("kind", 3)):
        for value, errors in grouped(position):
            figures = (len(errors), errors.count(0), sum(e > 0 for e in errors), sum(e < 0 for e in errors))
            table.add_row(title, value, *map(str, figures), f"{max(errors, key=abs):+d}")
        table.add_section()
    with capsys.disabled():
        Console(width=100).print("", table)
    assert Counter(case.file for case in cases()) == Counter(
        {file: len(json.loads((TRUTH / f"{file}.json").read_bytes())) for file in FILES}
    )


@pytest.mark.parametrize(
    ("kind", "least"),
    [("text", 0.95), ("tool definitions", 0.88), ("tool history", 0.80), ("images", 0.85), ("response format", 0.80)],
)
def test_share_of_exact_predictions(kind: str, least: float) -> None:
    """Of each kind of request, at least this share is predicted to the token."""
    assert share_exact(kind) >= least


def test_nothing_is_predicted_short() -> None:
    """No recorded request costs more than was predicted: a request that is longer than predicted fails."""
    assert [case for case in cases() if case.error < 0] == []


def test_a_wide_miss_says_that_it_is_an_estimate() -> None:
    """Whatever is over by more than 20 tokens was called an estimate beforehand."""
    assert [case.id for case in cases() if case.error > 20 and case.is_exact] == []


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_strings_have_the_recorded_counts(encoding: Any) -> None:
    """Recorded strings have as many tokens as were recorded."""
    rows = json.loads((TRUTH / f"jtokkit_{encoding}.json").read_bytes())
    assert [row["tokens"] for row in rows] == [count_text(row["text"], encoding) for row in rows]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_strings_cut_to_ten_tokens_keep_ten_tokens(encoding: Any) -> None:
    """A string cut to ten tokens keeps at least what its first ten tokens cover, and is within ten counted again."""
    for row in json.loads((TRUTH / f"jtokkit_{encoding}.json").read_bytes()):
        cut = cut_text(row["text"], encoding, 10)
        assert row["text"].startswith(cut)
        assert len(row["truncated_to_10"]) - 2 <= count_text(cut, encoding) <= 10
