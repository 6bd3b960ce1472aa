"""An adversary that reads the contract and nothing else: schemathesis against ``sash serve``, every check, two tenants.

It sends what the document allows, what it forbids, each bound and one past it, methods that are not there, requests
without keys, and stories along the document's links. What is told of it here is in ``adversary.py`` and
``schemathesis.toml``. The same bytes every time, but for ids and times that the service makes.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from api.conformity import CONTRACT
from conftest import ROOT, Served

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
OPERATIONS = sum(len(item) for item in CONTRACT["paths"].values())


@pytest.mark.parametrize("phases", ["examples,coverage", "fuzzing,stateful"])
def test_an_adversary_finds_nothing(tmp_path: Path, phases: str) -> None:
    """No check fails: no 5xx, nothing undocumented, nothing invalid accepted, no key ignored, nothing of the other's."""
    served = Served(
        tmp_path / "data",
        SASH_API_KEYS="red:key-of-red,blue:key-of-blue",
        SASH_DURABILITY="fast",
        SASH_LOG_FORMAT="json",
    )
    served.start()
    try:
        found = attack(served.url, phases)
        alive = httpx.get(f"{served.url}/readyz").status_code
    finally:
        served.stop()

    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr[-2_000:]
    assert f"Selected: {OPERATIONS}/{OPERATIONS}" in found.stdout
    assert alive == 200
    assert "request failed" not in (tmp_path / "serve.log").read_text()
    if "stateful" in phases:
        assert int(re.findall(r"API Links: +(\d+) covered", found.stdout)[0]) >= 10


def attack(url: str, phases: str) -> subprocess.CompletedProcess[str]:
    """A run of schemathesis from the command line, which ends with 0 when no check failed."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION), "run", "openapi.json"]
    options = ["--url", url, "--checks", "all", "--phases", phases]
    environment = {**os.environ, "PYTHONWARNINGS": "default", "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [*command, *options], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
