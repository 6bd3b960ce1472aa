"""Schemathesis tests ``sash serve`` from the contract alone: every check, two tenants.

It sends what the document allows and what it forbids, requests without keys, and sequences along the document's links. Each
bound and one past it, and undeclared methods, come only nightly: they take longer than all else. It is configured in
``adversary.py`` and ``schemathesis.toml``. It sends the same bytes every time, except for ids and times that the service
makes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import ROOT, Served
from rigs.conformity import CONTRACT

pytestmark = pytest.mark.long
APART = ("followConversation", "followOwner", "answerMcp")
"""Operations that it cannot judge: answers that do not end (test_events.py asks them what is wrong), and requests of another
protocol, whose schema is not ours."""
CONFIGURATION = Path(__file__).with_name("schemathesis.toml").read_text()
NIGHTLY = 8
"""A nightly run draws so many times the requests and sequences."""
OPERATIONS = sum(len(item) for item in CONTRACT["paths"].values())


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service with two tenants."""
    served = Served(
        tmp_path_factory.mktemp("attacked") / "data",
        SASH_API_KEYS="red:key-of-red,blue:key-of-blue",
        SASH_DURABILITY="fast",
        SASH_LOG_FORMAT="json",
    )
    served.start()
    yield served
    served.stop()


@pytest.mark.parametrize(
    ("phases", "times"),
    [
        ("examples,fuzzing,stateful", 1),
        pytest.param("examples,coverage", 1, marks=pytest.mark.nightly),
        pytest.param("fuzzing,stateful", NIGHTLY, marks=pytest.mark.nightly),
    ],
)
def test_an_adversary_finds_nothing(attacked: Served, tmp_path: Path, phases: str, times: int) -> None:
    """No check fails: no 5xx, no undocumented answer, no invalid request accepted, no key ignored, no foreign data read."""
    configuration = tmp_path / "schemathesis.toml"
    drawn = re.sub(r"(?<=max-examples = )\d+", lambda found: str(times * int(found[0])), CONFIGURATION)
    configuration.write_text(drawn)
    found = attack(attacked.url, phases, configuration)
    alive = httpx.get(f"{attacked.url}/readyz").status_code

    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2_000:]
    assert f"Selected: {OPERATIONS - len(APART)}/{OPERATIONS}" in found.stdout
    assert alive == 200
    assert "request failed" not in (attacked.data_dir.parent / "serve.log").read_text()
    if "stateful" in phases:
        assert int(re.findall(r"API Links: +(\d+) covered", found.stdout)[0]) >= 10


def attack(url: str, phases: str, configuration: Path) -> subprocess.CompletedProcess[str]:
    """Run schemathesis from the command line and return its process, with exit code 0 if no check failed."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run", "openapi.json"]
    options = ["--url", url, "--checks", "all", "--phases", phases]
    options += [word for each in APART for word in ("--exclude-operation-id", each)]
    environment = {**os.environ, "PYTHONWARNINGS": "default", "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
