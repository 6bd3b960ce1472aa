"""Test that a release has the same version everywhere."""

import json

import yaml
from conftest import ROOT

from sash import __version__


def test_there_is_one_version() -> None:
    """The package, the API's contract and the chart have the same version."""
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "sash" / "Chart.yaml").read_text())
    contract = json.loads((ROOT / "openapi.json").read_text())
    assert {__version__, contract["info"]["version"], chart["version"], chart["appVersion"]} == {__version__}
