"""Test that the chart's values and Compose know the settings and the workers, without Helm."""

import json

import yaml
from conftest import ROOT

from sash.settings import VARIABLES

CHART = ROOT / "deploy" / "helm" / "sash"
OWN = {"REDIS_URL", "API_KEYS", "METRICS_KEY", "ENCRYPTION_KEY", "HOST", "PORT", "WORKERS"}
"""Settings that the chart makes from other values."""


def test_the_schema_knows_each_settings_name() -> None:
    """``settings`` of the chart takes the name of every setting that the chart does not make by itself, and no other."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = schema["properties"]["settings"]["propertyNames"]["enum"]
    assert set(names) == {variable.name for variable in VARIABLES} - {f"SASH_{name}" for name in OWN}


def test_memory_follows_the_workers() -> None:
    """A pod of the chart, and the service of Compose, get memory for each worker."""
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["sash"]
    assert compose["mem_limit"] == "${SASH_WORKERS:-1}g"
    template = (CHART / "templates" / "deployment.yaml").read_text()
    assert "memory: {{ mul .Values.workers .Values.worker.limitMemoryMi }}Mi" in template
