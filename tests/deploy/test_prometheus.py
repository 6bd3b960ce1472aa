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


def use_everything(served: Served, model: str) -> None:
    """Do once what the panels show: a window by its receipt, bills with a cache and dropped reasoning, a tool, a stream."""
    turn(served, "shown", model)
    with httpx.Client(base_url=served.url) as client:
        made = client.get("/conversations/shown/window", params={"model": model}).json()
        again = client.get("/conversations/shown/window", params={"receipt": made["receipt"]})
        assert again.status_code == 200, again.text
        bill = {
            "model": model,
            "receipt": made["receipt"],
            "prompt_tokens": made["tokens"]["total"] + 1,
            "cached_tokens": 2,
            "cache_write_tokens": 0,
        }
        assert client.post("/conversations/shown/usage", json=bill).json()["error"] == -1
        dropped = {"type": "thinking_dropped", "reason": "prefix_binding_mismatch"}
        bill |= {"input_transformations": [dropped], "cache_miss_reason": {"type": "model_changed"}}
        assert client.post("/conversations/shown/usage", json=bill).json()["compared"] is False
        call = {"call_id": "call-1", "arguments": {"first": 1}}
        answer = client.post("/conversations/shown/tools/history_read", json=call)
        assert answer.status_code == 200, answer.text
        with client.stream("GET", "/conversations/shown/events") as events:
            turn(served, "shown", model)
            assert any(line.startswith("data:") for line in events.iter_lines())
        assert client.get("/conversations/none").status_code == 404


def test_every_panel_is_a_query(served: Served, prometheus: str) -> None:
    """Prometheus accepts each panel's query; after a use of everything none is without a series."""
    shown = ("sash_windows_total", "sash_followers_ended_total", 'sash_store_duration_seconds_count{call="append"}')
    wait_for(
        lambda: all(ask(prometheus, f"sum(rate({name}[1m])) > 0") for name in shown) or use_everything(served, "gpt-4o")
    )
    recorded = ("sash:errors:ratio5m", 'sash:request_duration_seconds:p99{operation="getWindow"}')
    wait_for(lambda: all(ask(prometheus, query) for query in recorded))  # rules are evaluated after a scrape
    panels = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text())["panels"]
    empty = {
        panel["title"]
        for panel in panels
        for target in panel.get("targets", ())
        if not ask(prometheus, target["expr"].replace("$__rate_interval", "1m").replace("$model", ".*"))
    }
    assert empty == {"Ready, and how the store is"}  # the store is well, and has no condition
