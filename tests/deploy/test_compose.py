"""Test compose.yaml as far as possible without a container engine."""

import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from conftest import ROOT
from rigs.servers import free_port

from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

TEXT = (ROOT / "deploy" / "compose.yaml").read_text()
DEFAULTS = re.sub(r"\$\{\w+:(?:-([^}]*)|\+[^}]*)\}", r"\1", TEXT)
COMPOSE = yaml.safe_load(DEFAULTS)


@pytest.mark.deploy
def test_it_follows_the_specification() -> None:
    """A parser of the Compose Specification accepts compose.yaml, which has the five services."""
    compose_spec = pytest.importorskip("compose_spec", reason="needs tests/deploy/requirements.txt")
    plain = {name: value for name, value in COMPOSE.items() if not name.startswith("x-")}
    text = re.sub(r"@sha256:[0-9a-f]{64}", "", yaml.safe_dump(plain))  # this parser accepts a tag or a digest, not both
    read = compose_spec.PyCompose.from_yaml(text)
    read.validate()
    assert set(read.to_spec().services) == {"sash", "valkey", "prometheus", "alertmanager", "grafana"}


def test_what_it_names_is_there() -> None:
    """The declared volumes and networks are exactly those that services use, and mounted files exist."""
    used: dict[str, set[str]] = {"volumes": set(), "networks": set()}
    for service in COMPOSE["services"].values():
        used["networks"].update(service["networks"])
        for source in (volume.split(":")[0] for volume in service.get("volumes", ())):
            if source.startswith("."):
                assert (ROOT / "deploy" / source).exists()
            else:
                used["volumes"].add(source)
    assert used == {kind: set(COMPOSE[kind]) for kind in used}


def test_images_are_pinned() -> None:
    """Every image except Sash's has a version and a digest, and no registry's name."""
    others = [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    assert len(others) == 4
    for image in others:
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+[a-z-]*@sha256:[0-9a-f]{64}", image)


def test_nothing_is_published_beyond_this_machine() -> None:
    """Every published port is bound to the loopback address, and the store publishes none."""
    ports = {name: service.get("ports", []) for name, service in COMPOSE["services"].items()}
    assert ports.pop("valkey") == []
    assert all(port.startswith("127.0.0.1:") for published in ports.values() for port in published)


def test_the_service_takes_its_settings() -> None:
    """The service accepts the environment that compose.yaml gives it."""
    given = {name: str(value or "") for name, value in COMPOSE["services"]["sash"]["environment"].items()}
    settings = Settings.read({"SASH_HOST": "0.0.0.0", **given})
    assert (settings.redis_url, settings.api_keys, settings.metrics_key) == ("redis://valkey:6379/0", (), None)


def test_the_metrics_key_is_one_file_for_both() -> None:
    """Sash and Prometheus read the metrics key from the same secret, at the path in their configuration."""
    (key,) = re.findall(r"SASH_METRICS_KEY: \$\{SASH_METRICS_KEY_FILE:\+@([^}]+)\}", TEXT)
    (scraping,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    (name,) = COMPOSE["secrets"]
    assert key == scraping["authorization"]["credentials_file"] == f"/run/secrets/{name}"
    assert COMPOSE["secrets"][name] == {"file": "/dev/null"}
    assert {each for each, service in COMPOSE["services"].items() if service.get("secrets") == [name]} == {
        "sash",
        "prometheus",
    }


def test_the_store_takes_its_options(tmp_path: Path, store: EmbeddedStore) -> None:
    """Valkey accepts the command in compose.yaml; it then syncs every append, evicts nothing and uses at most 2 GiB."""
    with redis.Redis.from_url(store.url, decode_responses=True) as running:
        binary: Any = running.info("server")["executable"]
    command = shlex.split(COMPOSE["services"]["valkey"]["command"])
    assert command.pop(0) == "valkey-server"
    command[command.index("--dir") + 1] = str(tmp_path)
    port = free_port()
    process = subprocess.Popen(
        [binary, *command, "--port", str(port), "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL
    )
    try:
        with redis.Redis(port=port, decode_responses=True) as client:
            give_up = time.monotonic() + 10
            while time.monotonic() < give_up:
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.05)
            got: Any = client.config_get("append*", "save", "maxmemory*", "slowlog-log-slower-than")
    finally:
        process.terminate()
        process.wait(10)
    assert {name: got[name] for name in ("appendonly", "appendfsync", "save", "maxmemory-policy")} == {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    assert (got["maxmemory"], got["slowlog-log-slower-than"]) == (str(2 * 1024**3), "-1")
