"""Test the rules with promtool, wherever it is installed. It takes seconds, so that every run has it."""

import shutil
import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus")

FOLDER = ROOT / "deploy" / "prometheus"


def promtool(*arguments: str) -> None:
    result = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_configuration_is_valid() -> None:
    """promtool accepts the configuration and the rules."""
    promtool("check", "config", "--syntax-only", "prometheus.yml")  # the key's file exists only where Prometheus runs
    promtool("check", "rules", "rules.yml")


def test_alerts_sound_when_they_should() -> None:
    """The rules pass their unit tests."""
    promtool("test", "rules", "rules_test.yml", "rules_hours_test.yml")
