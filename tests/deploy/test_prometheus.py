"""Test the rules with a real Prometheus that scrapes a real service. ``test_rules.py`` tests them with promtool."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from conftest import ROOT, Served
from rigs.servers import free_port

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus: apt-get install prometheus"),
]

FOLDER = ROOT / "deploy" / "prometheus"
_WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service that requires a metrics key."""
    process = Served(tmp_path_factory.mktemp("served") / "data", SASH_METRICS_KEY="m1")
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def prometheus(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Prometheus with Sash's configuration and the running service as its one target; yield its URL."""
    folder = tmp_path_factory.mktemp("prometheus")
    shutil.copy(FOLDER / "rules.yml", folder)
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    configuration["scrape_configs"][0]["static_configs"] = [{"targets": [served.url.removeprefix("http://")]}]
    (folder / "metrics-key").write_text("m1\n")
    configuration["scrape_configs"][0]["authorization"]["credentials_file"] = "metrics-key"
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(lambda: httpx.get(f"http://{address}/-/ready").status_code == 200, folder / "log")
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(30)


def wait_for(condition: Any, log: Path | None = None) -> None:
    """Wait until the condition holds; while Prometheus does not answer, it does not hold."""
    give_up = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < give_up:
        try:
            if condition():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(log.read_text() if log else "it never came to hold")


def ask(prometheus: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{prometheus}/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", answer
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def turn(served: Served, conversation: str, model: str) -> None:
    body = {"messages": [{"message": {"role": "user", "content": "is there a talk about gradle?"}}]}
    with httpx.Client(base_url=served.url) as client:
        assert client.post(f"/conversations/{conversation}/messages", json=body).status_code == 201
        assert client.get(f"/conversations/{conversation}/window", params={"model": model}).status_code == 200


def test_a_prometheus_reads_the_service(served: Served, prometheus: str) -> None:
    """Prometheus scrapes the service without an error, stores a window under its labels, and no alert fires."""
    turn(served, "scraped", "gpt-4o")
    wait_for(lambda: ask(prometheus, 'sash_windows_total{model="gpt-4o",stop_reason="complete"} >= 1'))
    (target,) = httpx.get(f"{prometheus}/api/v1/targets").json()["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert ask(prometheus, 'ALERTS{alertstate="firing"}') == []


def test_every_rule_is_evaluated(served: Served, prometheus: str) -> None:
    """Prometheus loads every rule and evaluates it on the service's metrics without an error."""
    wait_for(lambda: ask(prometheus, "sash:request_duration_seconds:p99 > 0") or turn(served, "evaluated", "gpt-4o"))
    wait_for(
        lambda: all(
            rule["health"] == "ok"
            for group in httpx.get(f"{prometheus}/api/v1/rules").json()["data"]["groups"]
            for rule in group["rules"]
        )
    )
    groups = httpx.get(f"{prometheus}/api/v1/rules").json()["data"]["groups"]
    written = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    assert {g["name"]: len(g["rules"]) for g in groups} == {g["name"]: len(g["rules"]) for g in written}


def test_every_panel_is_a_query(served: Served, prometheus: str) -> None:
    """Prometheus accepts each panel's query, and only the panels that the test names may have no series."""
    turn(served, "shown", "gpt-4o")
    wait_for(lambda: ask(prometheus, "sum(rate(sash_windows_total[1m])) > 0") or turn(served, "shown", "gpt-4o"))
    recorded = ("sash:errors:ratio5m", 'sash:request_duration_seconds:p99{operation="getWindow"}')
    wait_for(lambda: all(ask(prometheus, query) for query in recorded))  # rules are evaluated after a scrape
    panels = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text())["panels"]
    empty = {
        panel["title"]
        for panel in panels
        for target in panel.get("targets", ())
        if not ask(prometheus, target["expr"].replace("$__rate_interval", "1m").replace("$model", ".*"))
    }
    # The test reports no usage, leaves no history out, follows nothing and asks for no receipt; the store is well.
    assert empty <= {
        "Ready, and how the store is",
        "Refused, by type",
        "Refused and failed, by operation",
        "Predictions short",
        "What prompt caches read and took",
        "Predicted divided by billed",
        "Tokens that predictions were off by",
        "Reasoning dropped, and cache misses, by cause",
        "Dollars of input an hour",
        "Events, and how streams end",
        "Windows asked for by receipt",
        "History read by models",
    }
