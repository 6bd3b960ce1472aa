"""Tests ``sash migrate``: conversations of all tenants from a data folder to another place, a second run, and the swap."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from conftest import Served

from sash.cli import main
from sash_tools.importing import is_unchanged
from sash_tools.migration import _ENDS_WITH

KEYS = {"default": "k" * 20, "acme": "a" * 20}


def migrate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["migrate", *arguments, "--json"])


def until(true: Callable[[], object]) -> None:
    """Wait until ``true()`` is true, for at most a minute."""
    give_up = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a conversation of each of two tenants, which no service runs on."""
    folder = tmp_path_factory.mktemp("old") / "data"
    served = Served(folder, SASH_API_KEYS=",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()))
    served.start()
    for tenant, key in KEYS.items():
        entries = [{"id": f"m-{n}", "message": {"role": "user", "content": f"{tenant} {n}"}} for n in range(3)]
        with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {key}"}) as client:
            client.post("/conversations/c-1/messages", json={"messages": entries}).raise_for_status()
    served.stop()
    return folder


def test_counts_of_another_version_are_no_change() -> None:
    """A conversation that this version counts otherwise is there as it was; one of a later version is not."""
    before = {"version": 3, "created_at": "a", "updated_at": "b", "messages": {"count": 2}, "tokens": {"o200k_base": 9}}
    assert is_unchanged({**before, "tokens": {"o200k_base": 12}}, before)
    assert not is_unchanged({**before, "version": 4}, before)


@pytest.mark.nightly  # it starts five services
def test_a_folder_is_taken_over_and_swapped(old: Path) -> None:
    """All tenants' conversations come over; a second run sends nothing, swaps, and leaves the old folder beside."""
    new = old.with_name("new")
    first, second = migrate(str(old), str(new)), migrate(str(old), str(new), "--swap")
    assert first.exit_code == second.exit_code == 0, first.output + second.output
    assert json.loads(first.stdout) == {
        "tenants": 2,
        "conversations": 2,
        "present": 0,
        "messages": 6,
        "failed": [],
        "alone": [],
    }
    assert json.loads(second.stdout) == {
        "tenants": 2,
        "conversations": 2,
        "present": 2,
        "messages": 0,
        "failed": [],
        "alone": [],
    }
    assert (old.with_name("data.before") / "appendonlydir").is_dir()
    assert (old / "appendonlydir").is_dir()
    assert not new.exists()

    found = CliRunner().invoke(main, ["doctor", "--data-dir", str(old), "--json"])
    layout = next(each for each in json.loads(found.stdout) if each["subject"] == "store layout")
    assert "written by Sash" in layout["found"]


@pytest.mark.nightly  # as above
def test_a_killed_migration_goes_on(old: Path) -> None:
    """A migration that is killed (-9) while both folders are served leaves no service on them, and is run again."""
    new = old.with_name("again")
    command = [sys.executable, "-m", "sash", "migrate", str(old), str(new)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until((new / "appendonlydir").is_dir)
    process.kill()
    process.wait()
    result = migrate(str(old), str(new))
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["conversations"], told["failed"]) == (2, [])


@pytest.mark.nightly  # as above
def test_what_was_erased_between_two_runs_is_named(tmp_path: Path) -> None:
    """What was erased, redacted or rewound between two runs is left and named; what has only grown is caught up with."""
    old, new = Served(tmp_path / "old"), Served(tmp_path / "new")
    old.start()
    new.start()
    try:
        with httpx.Client(base_url=old.url) as client:
            for name in ("erased", "grown", "redacted", "rewound"):
                entries = [{"id": f"m-{n}", "role": "user", "content": f"{name} {n}"} for n in range(3)]
                client.post(f"/conversations/{name}/messages", json={"messages": entries}).raise_for_status()
            assert migrate(old.url, new.url).exit_code == 0
            client.delete("/conversations/erased").raise_for_status()
            client.post("/conversations/grown/messages", json={"messages": [{"role": "user", "content": "on"}]})
            client.delete("/conversations/redacted/messages/2").raise_for_status()
            client.post("/conversations/rewound/rewind", json={"to_seq": 1}).raise_for_status()
        result = migrate(old.url, new.url)
        grown = httpx.get(f"{new.url}/conversations/grown").json()["messages"]["count"]
    finally:
        old.stop()
        new.stop()
    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert sorted(each.partition(":")[0] for each in told["failed"]) == ["default/redacted", "default/rewound"]
    assert told["alone"] == ["default/erased"]
    assert grown == 4


@pytest.mark.parametrize("command", ["migrate", "doctor"])
def test_a_folder_that_is_none(tmp_path: Path, command: str) -> None:
    """A folder without data is named, and nothing is made."""
    missing, new = tmp_path / "missing", tmp_path / "new"
    arguments = [str(missing), str(new)] if command == "migrate" else ["--data-dir", str(missing), "--json"]
    result = CliRunner().invoke(main, [command, *arguments])
    assert result.exit_code == 1
    assert "no appendonlydir" in result.output
    assert not missing.exists()
    assert not new.exists()


def test_one_folder_for_both(tmp_path: Path) -> None:
    """A folder is not migrated into itself, by whatever way it is named."""
    result = migrate(str(tmp_path), str(tmp_path / "." / "x" / ".."))
    assert result.exit_code == 2
    assert "same folder" in result.output


def test_a_service_that_does_not_begin_says_why() -> None:
    """What a service says before it ends at once is the last that is said: nothing is aborted behind it."""
    words = [sys.executable, "-I", "-S", str(_ENDS_WITH), sys.executable, "-c", "raise SystemExit('in use')"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as service:
        assert service.stderr is not None
        assert service.stderr.read() == b"in use\n"
    assert service.returncode == 1
