"""Test the chart as Helm renders it, against Kubernetes' own schemas."""

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from conftest import ROOT
from rigs.servers import free_port

from sash.settings import VARIABLES, Settings
from sash.store.redis.embedded import EmbeddedStore

pytestmark = pytest.mark.deploy

helm = pytest.importorskip("helm_python", reason="needs tests/deploy/requirements.txt")
kubernetes = pytest.importorskip("kubernetes_validate", reason="needs tests/deploy/requirements.txt")

CHART = ROOT / "deploy" / "helm" / "sash"
PASSWORD = "a-password-for-tests"
VALUES: dict[str, Any] = {"store": {"url": "redis://valkey:6379/0", "password": PASSWORD}, "apiKeys": "acme:k1"}
FULL: dict[str, Any] = {
    **VALUES,
    "metricsKey": "a-metrics-key-of-tests",
    "encryptionKey": "A" * 43 + "=",
    "settings": {"SASH_RETENTION_SECONDS": 2592000, "SASH_REQUEST_TIMEOUT_SECONDS": "2.5", "SASH_LOG_LEVEL": "debug"},
    "workers": 2,
    "image": {"digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {
        "from": [{"podSelector": {"matchLabels": {"app": "frontend"}}}],
        "storeTo": [{"podSelector": {"matchLabels": {"app": "valkey"}}}],
        "storePorts": [6379, 26379],
        "extraEgress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
    },
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "podLabels": {"team": "chat"},
    "podAnnotations": {"note": "x"},
    "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "sash"}],
    "serviceAccount": {"annotations": {"note": "x"}},
    "service": {"annotations": {"note": "x"}},
}
OWN_SECRET: dict[str, Any] = {"existingSecret": "mine", "autoscaling": {"enabled": False}, "replicas": 3}
OPERATOR = {"ServiceMonitor", "PrometheusRule"}  # not kinds of Kubernetes itself


def render(values: dict[str, Any], *, name: str = "demo") -> dict[str, dict[str, Any]]:
    """Return the objects of a release, by kind and name."""
    with helm.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        manifests = chart.render(values, name=name, namespace="prod")
    texts = [text for path, text in manifests.items() if path.endswith(".yaml")]
    objects = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


def container(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (found,) = objects["Deployment/demo-sash"]["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = found
    return result


def test_lint_has_no_complaint() -> None:
    """Helm's linter finds no error, and no warning."""
    result = helm.lint(str(CHART))
    serious = [message for message in result["messages"] if message["severity"] > 1]
    assert (result["errors"], serious) == ([], [])


@pytest.mark.parametrize("version", ["1.28", "1.31", "1.34", "1.37"])
@pytest.mark.parametrize("values", [VALUES, FULL, OWN_SECRET], ids=["least", "full", "own-secret"])
def test_objects_follow_kubernetes_schemas(values: dict[str, Any], version: str) -> None:
    """Every object of Kubernetes' own kinds is valid, without unknown fields, from the oldest to the newest version."""
    objects = render(values)
    for name, each in objects.items():
        if name.split("/")[0] not in OPERATOR:
            kubernetes.validate(each, version, strict=True)
    kinds = {name.split("/")[0] for name in objects}
    assert {"Deployment", "Service", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"} <= kinds


def test_the_schemas_would_notice() -> None:
    """The schemas reject a misspelt field, so the check above can fail."""
    deployment = copy.deepcopy(render(VALUES)["Deployment/demo-sash"])
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes.ValidationError):
        kubernetes.validate(deployment, "1.34", strict=True)


@pytest.mark.parametrize(
    "values",
    [
        {"store": {"url": "redis://user:secret@valkey:6379"}, "apiKeys": "acme:k1"},
        {"store": {"url": "valkey:6379"}, "apiKeys": "acme:k1"},
        {**VALUES, "settings": {"SASH_REDIS_URL": "redis://other"}},
        {**VALUES, "settings": {"SASH_REQUEST_TIMEOUT_SECONDS": 2.5}},
        {**VALUES, "replica": 2},
        {"apiKeys": "acme:k1"},
        {"store": {"url": "redis://valkey:6379"}},
        {**VALUES, "monitoring": {"enabled": True}},
    ],
    ids=[
        *("password-in-url", "no-scheme", "setting-of-the-chart", "fraction", "misspelt", "no-store", "no-keys"),
        "no-metrics-key",
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    """Values that are wrong, or lack a required one, are refused instead of rendered."""
    with pytest.raises(helm.HelmError):
        render(values)


def test_a_pod_may_do_nothing_but_serve() -> None:
    """A pod runs as another user than root, on a read-only file system, without capabilities, token or service variables."""
    pod = render(FULL)["Deployment/demo-sash"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_pod_ends_before_it_is_killed() -> None:
    """The pause for load balancers and the drain of requests fit into the grace period."""
    from sash.serve import _DRAIN_SECONDS  # noqa: PLC0415 - one constant

    pod = render(VALUES)["Deployment/demo-sash"]["spec"]["template"]["spec"]
    (sleep, seconds) = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert int(seconds) + _DRAIN_SECONDS + 5 <= pod["terminationGracePeriodSeconds"]


def test_probes_ask_the_right_question() -> None:
    """Only the readiness probe depends on the store, so an absent store does not restart pods."""
    probes = {
        name: container(render(VALUES))[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }


@pytest.mark.parametrize("values", [VALUES, FULL], ids=["least", "full"])
def test_the_service_starts_with_what_the_chart_sets(values: dict[str, Any]) -> None:
    """The service accepts the container's environment, with its secrets filled in."""
    objects = render(values)
    secret = objects["Secret/demo-sash"]["stringData"]
    given = {
        each["name"]: each["value"] if "value" in each else secret[each["valueFrom"]["secretKeyRef"]["key"]]
        for each in container(objects)["env"]
    }
    settings = Settings.read(given, read_text=lambda path: {"/etc/sash/api-keys": secret["api-keys"]}[str(path)])
    assert settings.redis_url == f"redis://sash:{PASSWORD}@valkey:6379/0"
    assert [key.tenant for key in settings.api_keys] == ["acme"]
    assert settings.retention_seconds == values.get("settings", {}).get("SASH_RETENTION_SECONDS")
    assert bool(settings.encryption_key) is ("encryptionKey" in values)
    assert settings.metrics_key == values.get("metricsKey")


def test_settings_of_the_chart_are_settings() -> None:
    """Each variable that the container gets is one of the service's."""
    names = {each["name"] for each in container(render(VALUES))["env"]}
    assert names <= {variable.name for variable in VARIABLES}


def test_secrets_are_in_secrets_alone() -> None:
    """The store's password and the keys appear only in the release's Secret."""
    objects = render(FULL)
    secret = objects.pop("Secret/demo-sash")
    assert PASSWORD in secret["stringData"]["redis-url"]
    for word in (PASSWORD, "acme:k1", FULL["metricsKey"], FULL["encryptionKey"]):
        assert word not in yaml.safe_dump(objects)


def test_a_secret_of_ones_own_is_all_that_is_used() -> None:
    """With ``existingSecret`` the chart makes no Secret, and every reference is to the given one."""
    objects = render(OWN_SECRET)
    assert not [name for name in objects if name.startswith("Secret/")]
    assert objects["Deployment/demo-sash"]["spec"]["replicas"] == 3
    references = [
        each["valueFrom"]["secretKeyRef"]["name"] for each in container(objects)["env"] if "valueFrom" in each
    ]
    assert set(references) == {"mine"}


def test_objects_find_each_other() -> None:
    """Selectors match the labels of pods and Service; names of ports, Secret and Deployment match their references."""
    objects = render(FULL)
    pods = objects["Deployment/demo-sash"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        objects["Deployment/demo-sash"]["spec"]["selector"]["matchLabels"],
        objects["Service/demo-sash"]["spec"]["selector"],
        objects["PodDisruptionBudget/demo-sash"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy/demo-sash"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= pods.items()
    monitor = objects["ServiceMonitor/demo-sash"]["spec"]
    service = objects["Service/demo-sash"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"] == "http"
    credentials = monitor["endpoints"][0]["authorization"]["credentials"]
    assert objects[f"Secret/{credentials['name']}"]["stringData"][credentials["key"]] == FULL["metricsKey"]
    assert service["spec"]["ports"][0]["targetPort"] == container(objects)["ports"][0]["name"]
    assert objects["HorizontalPodAutoscaler/demo-sash"]["spec"]["scaleTargetRef"]["name"] == "demo-sash"


def test_the_job_is_what_alerts_ask_for() -> None:
    """The operator takes the job's name from a label of the Service; its value is ``sash``, as in the rules."""
    objects = render(FULL)
    label = objects["ServiceMonitor/demo-sash"]["spec"]["jobLabel"]
    assert objects["Service/demo-sash"]["metadata"]["labels"][label] == "sash"


def test_rules_and_dashboard_are_the_ones_of_deploy() -> None:
    """The chart's rules and dashboard are those in deploy/, which other tests check, with absolute links to the runbook."""
    objects = render(FULL)
    text = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text()
    rules = yaml.safe_load(text.replace("{{ $externalLabels.runbook }}", "http://demo-sash.prod:80/runbook"))
    dashboard = (ROOT / "deploy" / "grafana" / "dashboard.json").read_text()
    assert objects["PrometheusRule/demo-sash"]["spec"] == rules
    assert objects["ConfigMap/demo-sash-dashboard"]["data"]["sash.json"].strip() == dashboard.strip()


def test_the_network_is_open_where_it_must_be() -> None:
    """The policy lets frontends and the scraper reach the port, and pods reach DNS, the store and the added ports."""
    policy = render(FULL)["NetworkPolicy/demo-sash"]["spec"]
    (way_in,) = policy["ingress"]
    assert [port["port"] for port in way_in["ports"]] == ["http"]
    assert len(way_in["from"]) == 2
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 6379, 26379, 443]
    assert policy["egress"][1]["to"] == FULL["networkPolicy"]["storeTo"]


def test_a_store_takes_the_users_of_the_chart(tmp_path: Path, store: EmbeddedStore) -> None:
    """With the chart's users as its aclfile, Valkey lets Sash's user use Sash's keys only, and refuses the default user."""
    (tmp_path / "users.acl").write_text(render(VALUES)["Secret/demo-sash-store-acl"]["stringData"]["users.acl"])
    with redis.Redis.from_url(store.url, decode_responses=True) as admin:
        information: Any = admin.info("server")
    port = free_port()
    process = subprocess.Popen(
        [
            information["executable"],
            *("--port", str(port), "--bind", "127.0.0.1", "--dir", tmp_path, "--save", ""),
            *("--aclfile", tmp_path / "users.acl"),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if b"Ready to accept connections" in line:
                break
        with redis.Redis(port=port, username="sash", password=PASSWORD, decode_responses=True) as client:
            assert client.hset("sash:{a/b}:conversation", "v", "1") == 1
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set("another", "1")
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.flushall()
        with redis.Redis(port=port) as anybody, pytest.raises(redis.exceptions.AuthenticationError):
            anybody.ping()
    finally:
        process.terminate()
        process.communicate(timeout=10)
