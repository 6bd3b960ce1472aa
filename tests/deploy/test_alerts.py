"""Test that alerts, dashboard and runbook name only metrics, operations, settings and alerts that exist."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from conftest import ROOT
from prometheus_client.parser import text_string_to_metric_families
from readme_blocks import section

from sash.app import ROUTES

DEPLOY = ROOT / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


RULES = [rule for group in load(DEPLOY / "prometheus" / "rules.yml")["groups"] for rule in group["rules"]]
ALERTS = [rule["alert"] for rule in RULES if "alert" in rule]


def expressions(node: Any) -> Iterator[str]:
    """Yield every ``expr`` and every variable's query, at any depth."""
    match node:
        case {"expr": str(found)} | {"query": str(found), "refId": str()}:
            yield found
        case dict():
            for item in node.values():
                yield from expressions(item)
        case list():
            for item in node:
                yield from expressions(item)


def names(expression: str) -> set[str]:
    """Return Sash's metrics in an expression; a histogram's series count as the histogram."""
    return {
        re.sub(r"_(?:bucket|count|sum)$", "", name) if not name.endswith("_total") else name
        for name in re.findall(r"\b(?:sash|process)_\w+", expression)
    }


@pytest.mark.parametrize("source", ["rules", "dashboard"])
async def test_every_metric_is_exported(client: httpx.AsyncClient, source: str) -> None:
    """A running service exports each metric that a rule or a panel queries."""
    asked = {name for each in expressions(RULES if source == "rules" else DASHBOARD) for name in names(each)}
    text = (await client.get("/metrics", headers={"Accept": "text/plain"})).text
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
    assert len(asked) > 10
    assert asked <= exported


async def test_the_dashboard_shows_every_metric(client: httpx.AsyncClient) -> None:
    """Every exported metric is used by a panel or a rule."""
    looked_at = {name for each in (*expressions(DASHBOARD), *expressions(RULES)) for name in names(each)}
    text = (await client.get("/metrics", headers={"Accept": "text/plain"})).text
    exported = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }
    assert exported - looked_at == set()


async def test_every_alerts_link_leads_to_its_entry(client: httpx.AsyncClient) -> None:
    """With the address that Prometheus puts in, each alert's link is absolute, and its anchor is on the service's page."""
    page = await client.get("/runbook")
    assert page.headers["content-type"].startswith("text/html")
    settings = load(DEPLOY / "prometheus" / "prometheus.yml")["global"]["external_labels"]
    compose = load(DEPLOY / "compose.yaml")["services"]["prometheus"]["environment"]
    assert settings == {"runbook": "${SASH_RUNBOOK_URL}"}
    assert compose == {"SASH_RUNBOOK_URL": "${SASH_RUNBOOK_URL:-http://127.0.0.1:8000/runbook}"}
    for rule in RULES:
        if "alert" in rule:
            link = rule["annotations"]["runbook_url"]
            assert link == "{{ $externalLabels.runbook }}#" + rule["alert"].lower()
            assert f'<h2 id="{rule["alert"].lower()}">' in page.text


@pytest.mark.parametrize("source", ["rules", "dashboard"])
def test_every_operation_is_one(source: str) -> None:
    """Operations that a rule or a panel names are those of the routes, pages for people too."""
    asked = {
        operation
        for each in expressions(RULES if source == "rules" else DASHBOARD)
        for matched in re.findall(r'operation(?:=|!=|=~|!~)"([^"]+)"', each)
        for operation in matched.split("|")
    }
    assert len(asked) > 2
    assert asked <= {handler.operation_id for handler in ROUTES}


def test_every_alert_has_one_runbook_entry() -> None:
    """The runbook has one entry for each alert, in the order of the rules, and no others."""
    assert re.findall(r"^## (.+)$", (DEPLOY / "runbook.md").read_text(), re.MULTILINE) == ALERTS


@pytest.mark.parametrize("alert", ALERTS)
def test_a_runbook_entry_says_what_to_do(alert: str) -> None:
    """Each entry says what the alert means, what to look at and what to do, in that order."""
    entry = (DEPLOY / "runbook.md").read_text().split(f"\n## {alert}\n")[1].split("\n## ")[0]
    assert re.findall(r"^\*\*(.+?)\*\*", entry, re.MULTILINE) == ["Means", "Look at", "Do"]


def test_the_runbook_names_settings_and_alerts_that_exist() -> None:
    """Settings and alerts that the runbook names exist."""
    from sash.settings import VARIABLES  # noqa: PLC0415 - nothing else here is about the service's code

    text = (DEPLOY / "runbook.md").read_text()
    assert set(re.findall(r"\bSASH_[A-Z_]+\b", text)) <= {variable.name for variable in VARIABLES}
    assert set(re.findall(r"\bSash[A-Z]\w+", text)) <= set(ALERTS)


def test_the_page_names_the_alerts_that_page_somebody() -> None:
    """The section on alerts in deploy/README.md names exactly the alerts of severity ``page``."""
    pages = {rule["alert"] for rule in RULES if rule.get("labels", {}).get("severity") == "page"}
    assert set(re.findall(r"`(Sash[A-Z]\w+)`", section("deploy/README.md", "## Alerts"))) == pages


def test_recorded_figures_are_recorded() -> None:
    """Every recorded metric that an alert or a panel reads has a rule that records it, and every one is read."""
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    read = {
        name
        for each in (*expressions(DASHBOARD), *expressions([rule for rule in RULES if "alert" in rule]))
        for name in re.findall(r"\bsash:[\w:]+", each)
    }
    assert read == recorded


def test_every_alert_is_seen_to_sound_and_to_keep_still() -> None:
    """Each alert has a unit test in which it fires."""
    cases = [
        case
        for path in (DEPLOY / "prometheus").glob("rules_*test.yml")
        for test in load(path)["tests"]
        for case in test["alert_rule_test"]
    ]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == set(ALERTS)


def test_panels_are_told_apart() -> None:
    """Panels have unique ids and titles, do not overlap, and lie within the grid's 24 columns."""
    panels = DASHBOARD["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


def test_grafana_finds_the_dashboard_and_its_data() -> None:
    """compose.yaml mounts the dashboard where provisioning looks for it; the data source is its Prometheus."""
    compose = load(DEPLOY / "compose.yaml")["services"]
    provider = load(DEPLOY / "grafana" / "provisioning" / "dashboards" / "sash.yaml")["providers"][0]
    source = load(DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yaml")["datasources"][0]
    mounts = dict(volume.split(":")[:2] for volume in compose["grafana"]["volumes"])
    assert mounts["./grafana/dashboard.json"].startswith(f"{provider['options']['path']}/")
    assert source["url"] == "http://prometheus:9090"
    for place in [place for place in mounts if place.startswith("./")]:
        assert (DEPLOY / place).exists()
