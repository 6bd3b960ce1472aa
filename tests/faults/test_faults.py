"""Short runs of every fault; ``python -m tests.faults`` and ``python -m tests.faults.day`` are the full runs."""

import asyncio
import sys

import pytest
from faults.__main__ import main
from faults.ledger import Ledger, Verdict
from faults.processes import ROOT
from faults.scenarios import SCENARIOS

pytestmark = pytest.mark.long


DAILY = {
    "store-killed",
    "service-killed",
    "clients-killed",
    "agreements-killed",
    "rolling",
    "disk-full",
    "cluster-primary-killed",
}
"""The faults of each run of the tests; the others are the command's, and nightly's."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else pytest.mark.nightly) for name in SCENARIOS]
)
def test_nothing_is_lost_or_told_twice_or_to_others(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After each fault, every acknowledged turn is stored once, in order, in its own conversation."""
    monkeypatch.setattr(sys, "argv", ["tests.faults", "--short", name])
    assert main() == 0, capsys.readouterr().out


@pytest.mark.nightly
async def test_a_day_loses_nothing() -> None:
    """The page of a short day with a failover shows no turn lost, duplicated, reordered, foreign or returned."""
    said = await _run("tests.faults.day", "--minutes", "0.1", "--conversations", "50", "failover")
    totals = next(line for line in said.splitlines() if line.endswith("| 0 | 0 | 0 | 0 | 0 |"))
    assert int(totals.split(" | ")[3]) > 50, said


async def _run(*words: str) -> str:
    """Run a module, check that it exits with 0, and return what it prints."""
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *words), cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await run.communicate()
    assert run.returncode == 0, said.decode()
    return said.decode()


def test_the_ledger_sees_every_kind_of_wrong() -> None:
    """The ledger reports lost, duplicated, reordered, foreign and returned turns."""
    turns = {("a", 1, number) for number in (1, 2, 3)}
    ledger = Ledger(attempted=turns, acknowledged=set(turns))
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 3"]}) == Verdict()
    assert ledger.judge({"a": ["a 1 1", "a 1 3"]}) == Verdict(lost=1)
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 2", "a 1 3"]}) == Verdict(duplicated=1)
    assert ledger.judge({"a": ["a 1 2", "a 1 1", "a 1 3"]}) == Verdict(reordered=1)
    assert ledger.judge({"a": ["a 1 1", "a 1 2", "a 1 3", "b 2 1"]}) == Verdict(foreign=1)
    ledger.erase(turns)
    assert ledger.judge({"a": []}) == Verdict()
    assert ledger.judge({"a": ["a 1 2"]}) == Verdict(returned=1)
