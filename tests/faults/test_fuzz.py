"""Short runs of the night's fuzz and of the mixed requests, and what they are made of."""

import asyncio
import json
import random
import sys
from pathlib import Path

import pytest
from faults.fuzz.broken import HALF, VALUES, broken
from faults.fuzz.features import FEATURES, script
from faults.fuzz.judge import KINDS, MEANINGS, Wrong, difference
from faults.fuzz.parameters import NAMES
from faults.fuzz.scripts import Script, save, script_of
from faults.fuzz.smaller import smallest
from faults.processes import ROOT


@pytest.mark.long
async def test_no_window_of_the_fuzz_is_wrong(tmp_path: Path) -> None:
    """A short run of every feature, on two stores, has no server error, no window over its budget, and none that hangs."""
    said = await _run("fuzz", "--windows", "400", "--seed", "3", "--failures", str(tmp_path), "--no-smaller")
    assert "| all |" in said


@pytest.mark.long
async def test_mixed_requests_have_no_server_error() -> None:
    """A short run of mixed requests is answered. Its memory is that of a service that still warms up."""
    said = await _run("mixed", "--requests", "1500", "--growth", "1000")
    assert "requests in" in said


async def _run(*words: str) -> str:
    """Run a command of the faults, check that it exits with 0, and return what it prints."""
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults", *words),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await run.communicate()
    assert run.returncode == 0, said.decode()
    return said.decode()


def test_every_parameter_is_drawn() -> None:
    """The fuzz has values for each parameter of a window that the contract names, except for receipts."""
    contract = json.loads((ROOT / "openapi.json").read_text())
    asked = contract["paths"]["/conversations/{conversation_id}/window"]["get"]["parameters"]
    told = [
        contract["components"]["parameters"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        for each in asked
    ]
    assert {each["name"] for each in told if each["in"] == "query"} - {"receipt"} == NAMES


@pytest.mark.parametrize("feature", FEATURES)
def test_a_script_is_the_same_for_the_same_seed(feature: str) -> None:
    """Seed and number give a script, and its JSON gives it again, with halves of surrogate pairs."""
    for number in range(30):
        made = script(7, number, feature)
        assert script(7, number, feature).text() == made.text()
        assert script_of(made.text()).text() == made.text()
        assert made.windows


def test_each_kind_of_hostile_part_is_drawn() -> None:
    """Messages get hostile parts of every kind, and the message they are made from stays as it was."""
    message = {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}
    before, chance = json.dumps(message), random.Random(1)
    kinds = {broken(chance, message)[1] for _ in range(500)}
    assert kinds >= {*VALUES, "arguments", "gone", "twice", "extra"}
    assert json.dumps(message) == before


async def test_a_failing_script_becomes_small(tmp_path: Path) -> None:
    """What does not matter for a failure is left out, and the saved script can be read again."""
    said = [{"role": "user", "content": f"words {n} {HALF if n == 7 else ''}"} for n in range(20)]
    made = Script(
        "views", {"system": "Be brief."}, [("openai", said)], windows=[{"model": "a", "limit": 1, "view": "b"}]
    )

    async def fails(tried: Script) -> bool:
        return "\\ud83d" in tried.text() and any("view" in query for query in tried.windows)

    small = await smallest(made, Wrong("5xx", "500 to GET"), fails, seconds=30)
    assert small.messages == 1
    assert small.windows == [{"model": "a", "view": "b"}]
    assert small.settings == {}
    path = save(small, tmp_path, {"kind": "5xx"})
    assert script_of(path.read_text()) == small


def test_the_first_difference_is_told() -> None:
    """Two answers that differ are told apart by the place and both values."""
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == ""
    assert difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == "/a/1/b: 2 and 3"
    assert difference({"a": 1}, {}) == "/a is only in the first"
    assert difference([1], [1, 2]) == " has 1 and 2 parts; "
    assert set(KINDS) == set(MEANINGS)
