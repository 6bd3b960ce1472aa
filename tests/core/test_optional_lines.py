"""A note and a summary are optional: a window that fits without them is never refused because of them."""

from dataclasses import replace
from typing import Any

import pytest
from histories import Ask, Talk, grounded, needed, pinned, said, talk, words

from sash.core.law.records.parameters import WindowQuery
from sash.problems import WindowDoesNotFit

ERROR = {"overflow": "error"}
ASKED = talk(
    said("user", words(30)), said("assistant", words(30)), grounded(words(10), words(20)), summary=("They met.", 2)
)
OPENED = talk(said("user", words(30)), pinned(said("assistant", words(10))), said("user", words(10)))


@pytest.mark.parametrize("line", [{"note": True}, {"summary": "auto"}])
def test_whole_documents_are_before_a_line(line: dict[str, Any]) -> None:
    """Documents that may not be trimmed take the room of a note or a summary; with more room the line is sent."""
    plain = ASKED.window(Ask(budget=48, options=WindowQuery(summary="never"), limits=ERROR))
    options = WindowQuery(**{"summary": "never", **line})
    assert ASKED.window(Ask(budget=48, options=options, limits=ERROR)) == plain
    more = ASKED.window(Ask(budget=60, options=options, limits=ERROR))
    assert more.tokens.summary > 0


def test_an_opening_turn_is_before_a_note() -> None:
    """The turn before a first message of the assistant's takes the room of a note; with more room the note is sent."""
    options = WindowQuery(format="anthropic", note=True)
    windows = [OPENED.window(Ask("claude-sonnet-4-5", budget, options)) for budget in (45, 60)]
    assert [(window.seqs, window.note) for window in windows] == [([2, 3], 0), ([2, 3], 1)]


def test_documents_leave_room_for_an_opening_turn() -> None:
    """Trimmed documents leave room for the turn before a first message of the assistant's, whatever the budget."""
    found = talk(
        pinned(said("assistant", words(9))),
        grounded(words(9), words(200), is_pinned=True),
        grounded(words(9), words(200)),
    )
    for grounding in ("latest", "all"):
        options = WindowQuery(format="anthropic", grounding=grounding)  # type: ignore[arg-type]
        least = needed(found, "claude-sonnet-4-5", options)
        for budget in range(least + 12, least + 90):
            assert found.window(Ask("claude-sonnet-4-5", budget, options)).tokens.total <= budget


@pytest.mark.parametrize(
    ("found", "ask"),
    [
        (ASKED, Ask(options=WindowQuery(summary="never"), limits=ERROR)),
        (OPENED, Ask("claude-sonnet-4-5", options=WindowQuery(format="anthropic"))),
        (OPENED, Ask("claude-sonnet-4-5", options=WindowQuery(format="anthropic", note=True))),
    ],
)
def test_what_is_needed_is_enough(found: Talk, ask: Ask) -> None:
    """Every refusal has the same ``needed``, whole documents and an opening turn included, and that budget is enough."""
    wanted = set()
    budget = 0
    while refused := refusal(found, replace(ask, budget=budget)):
        wanted.add(refused)
        budget += 1
    assert wanted == {budget}


def refusal(found: Talk, ask: Ask) -> int:
    """Return the ``needed`` of the refusal; 0 if there is a window."""
    try:
        found.window(ask)
    except WindowDoesNotFit as problem:
        return int(problem.members["needed"])
    return 0
