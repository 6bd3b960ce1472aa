"""Real conversations with a tool result of 200,000 tokens and reasoning in each: none ends, and cuts still stand."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from histories import Ask, Talk, calling, result, words
from recordings import DATA, NO_DATA

from service.core.messages import Entry
from service.core.parameters import WindowQuery
from service.core.settings import ConversationSettings

HUGE = words(200_000)
BUDGET = 4000
NAMES = ("sgd_tools.jsonl", "sgd_rag.jsonl")


def conversations(every: int) -> Iterator[Talk]:
    """The data set's conversations, one of ``every``; behind the middle's question a tool answers with 200,000 tokens."""
    lines = [line for name in NAMES for line in (Path(DATA) / name).read_text("utf-8").splitlines()]
    for line in lines[::every]:
        given = json.loads(line)
        entries = [msgspec.convert(entry, Entry) for entry in given["entries"]]
        for entry in entries:
            if entry.message["role"] == "assistant":
                entry.message["reasoning_content"] = words(200)
        asked = [place for place, entry in enumerate(entries, 1) if entry.message["role"] == "user"]
        place = asked[len(asked) // 2]
        entries[place:place] = [Entry(message=calling("huge")), Entry(message=result("huge", HUGE))]
        settings = ConversationSettings(system=given.get("system"), tools=given.get("tools"))
        yield Talk(tuple(entries), settings, None)


def turns(found: Talk) -> list[int]:
    """How long the conversation was when a model was asked."""
    asks = ("user", "tool")
    return [length for length, message in enumerate(found.messages, 1) if message["role"] in asks]


def check(every: int) -> None:
    asked = stood = 0
    for found in conversations(every):
        ask = Ask("gpt-4o", BUDGET, WindowQuery(stable=True))
        windows = [found.upto(length).window(ask) for length in turns(found)]
        assert all(window.tokens["total"] <= BUDGET for window in windows)
        asked += len(windows) - 1
        stood += sum(before.seqs[0] == after.seqs[0] for before, after in pairwise(windows))
    assert stood / asked >= 0.9


@pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)
def test_no_conversation_ends() -> None:
    """Each turn has a window within 4,000 tokens, and nine in ten begin where the one before began."""
    check(every=16)


@pytest.mark.nightly
@pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)
def test_no_conversation_ends_of_all() -> None:
    """The same of all 112 conversations."""
    check(every=1)
