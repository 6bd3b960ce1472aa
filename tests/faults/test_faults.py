"""The faults in small, on every run; ``python -m tests.faults`` is the full one."""

from pathlib import Path

import pytest
from faults.ledger import Ledger, Verdict
from faults.scenarios import SCENARIOS, Scale, default_binary


@pytest.mark.parametrize("name", SCENARIOS)
async def test_nothing_is_lost_or_told_twice_or_to_others(name: str, tmp_path: Path) -> None:
    """Each fault leaves every acknowledged turn once, in its order, in its own conversation."""
    row = await SCENARIOS[name](tmp_path, Scale(binary=default_binary()))
    assert row.verdict == Verdict()
    assert row.broken == ""
    assert row.turns > 20


def test_the_ledger_sees_every_kind_of_wrong() -> None:
    """A checker that cannot fail proves nothing."""
    turns = {("a", 1, number) for number in (1, 2, 3)}
    ledger = Ledger(attempted=turns, acknowledged=turns)
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 3"]}) == Verdict()
    assert ledger.judge({"a": ["a 1 1", "a 1 3"]}) == Verdict(lost=1)
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 2", "a 1 3"]}) == Verdict(duplicated=1)
    assert ledger.judge({"a": ["a 1 2", "a 1 1", "a 1 3"]}) == Verdict(reordered=1)
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 3", "b 2 1"]}) == Verdict(foreign=1)
