"""Outages as an engineer on call sees them: ``python -m tests.faults.outages [name …] [--readme]``.

Each is caused under traffic, with the dashboard open in Chromium and a Prometheus that scrapes every second. Prints a row
for each: seconds until the dashboard's first line named it, the status of ``/readyz`` then, the alerts that fired, and the
event of the log. With ``--readme`` the table goes into deploy/runbook.md, and a picture of each into
deploy/screenshots/outages. Alerts wait for one second instead of minutes. About half a minute an outage; needs chromium,
chromium-driver and prometheus, and a C compiler for "slow sync".
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent.parent)]

import httpx  # noqa: E402
import yaml  # noqa: E402
from conftest import ROOT, Served  # noqa: E402
from PIL import Image  # noqa: E402
from redis.exceptions import RedisError  # noqa: E402
from rigs.browser import Browser, chromium  # noqa: E402
from rigs.servers import Cluster, Sentinels, Server, binaries, free_port  # noqa: E402
from rigs.storages import BUCKET, S3  # noqa: E402

from sash.store.redis.embedded import _bundled_binary  # noqa: E402
from tests.bench.syncs import slow_disk  # noqa: E402

RUNBOOK = ROOT / "deploy" / "runbook.md"
PICTURES = ROOT / "deploy" / "screenshots" / "outages"
_NAMED_SECONDS = 15.0
_NAMED_SOON_SECONDS = 2.0
_ALERT_SECONDS = 45.0


@dataclass
class Stage:
    """The servers that an outage is caused on, and how to undo everything."""

    folder: Path
    undo: ExitStack
    url: str = ""
    store: Server | None = None
    sentinels: Sentinels | None = None
    cluster: Cluster | None = None
    data: Path | None = None
    """A data directory on a small disk, for the embedded store."""
    storage: S3 | None = None
    service_url: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the service besides the store."""

    def admin(self, *words: Any) -> Any:
        assert self.store is not None
        return self.store.connect().execute_command(*words)


def _single(stage: Stage) -> None:
    stage.store = Server(binaries()["valkey-9"] or _bundled_binary(), stage.folder / "store")
    stage.store.start()
    stage.undo.callback(stage.store.kill)
    stage.url = stage.store.url


def _sentinel(stage: Stage) -> None:
    stage.folder.joinpath("watched").mkdir()
    stage.sentinels = Sentinels(_bundled_binary(), stage.folder / "watched")
    stage.undo.callback(stage.sentinels.kill)
    stage.sentinels.start()
    stage.store, stage.url = stage.sentinels.primary, stage.sentinels.url


def _cluster(stage: Stage) -> None:
    stage.cluster = Cluster(_bundled_binary(), stage.folder / "cluster")
    stage.undo.callback(stage.cluster.kill)
    stage.cluster.start()
    stage.url = stage.cluster.url


def _replicated(stage: Stage) -> None:
    _cluster(stage)
    stage.settings["SASH_DURABILITY"] = "replicated"


def _slow_disk(stage: Stage) -> None:
    """A store whose disk takes a second a sync, in a thread until the cause makes each write wait for it."""
    stage.store = Server(_bundled_binary(), stage.folder / "store", appendfsync="everysec")
    with slow_disk(stage.folder, 1000):
        stage.store.start()
    stage.undo.callback(stage.store.kill)
    stage.url, stage.settings["SASH_DURABILITY"] = stage.store.url, "fast"


def _pictured(stage: Stage) -> None:
    """A store, and object storage that the cause stops."""
    _single(stage)
    stage.storage = S3()
    stage.storage.start()
    stage.undo.callback(stage.storage.stop)
    stage.settings |= {**stage.storage.environment, "SASH_MEDIA_URL": f"s3://{BUCKET}/outages"}


def _summarized(stage: Stage) -> None:
    """A store, and a summariser's endpoint at a port where nobody listens, which the cause asks first."""
    _single(stage)
    url = f"http://127.0.0.1:{free_port()}/v1/chat/completions"
    stage.settings |= {"SASH_SUMMARIZER_URL": url, "SASH_SUMMARIZER_MODEL": "gpt-4o-mini"}


def _small_disk(stage: Stage) -> None:
    stage.data = stage.folder / "disk"
    stage.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(stage.data)], check=True)
    stage.undo.callback(subprocess.run, ["umount", "-l", str(stage.data)], check=False)


def _hang(stage: Stage) -> None:
    assert stage.store is not None
    stage.store.signal(signal.SIGSTOP)


def _slow(stage: Stage) -> None:
    """Make the store sleep for 0.4 of each 0.5 seconds, as if its disk synced slowly."""
    over = threading.Event()

    def sleep() -> None:
        while not over.wait(0.1):
            with suppress(RedisError, OSError):
                stage.admin("DEBUG", "SLEEP", "0.4")

    thread = threading.Thread(target=sleep)
    thread.start()
    stage.undo.callback(thread.join)
    stage.undo.callback(over.set)


def _limit(share: float) -> Callable[[Stage], None]:
    """Return a cause that sets ``maxmemory`` so that ``share`` of it is used."""

    def cause(stage: Stage) -> None:
        used = stage.admin("INFO", "memory")["used_memory"]
        stage.admin("CONFIG", "SET", "maxmemory", int(used / share))

    return cause


def _fill_disk(stage: Stage) -> None:
    assert stage.data is not None
    with suppress(OSError), (stage.data / "somebody-elses").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65_536)


def _kill(stage: Stage) -> None:
    assert stage.store is not None
    stage.store.kill()


def _kill_shard(stage: Stage) -> None:
    """Kill a primary of the cluster, and the replica that would take over."""
    assert stage.cluster is not None
    for each in (stage.cluster.servers[3], stage.cluster.servers[0]):
        each.kill()


def _kill_replica(stage: Stage) -> None:
    """Kill the replica of one of a cluster's three primaries."""
    assert stage.cluster is not None
    stage.cluster.servers[3].kill()


def _stop_storage(stage: Stage) -> None:
    """Stop object storage, and append a picture."""
    assert stage.storage is not None
    stage.storage.stop()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 12_000}", "detail": "low"}}
    _append(stage, [{"message": {"role": "user", "content": [picture]}}])


def _ask_for_a_summary(stage: Stage) -> None:
    """Append messages, and read a window that leaves most of them out."""
    _append(stage, [{"message": {"role": "user", "content": f"{number} is there a lift?"}} for number in range(40)])
    httpx.get(f"{stage.service_url}/conversations/told/window?model=gpt-4o-mini&max_tokens=60", timeout=20)


def _append(stage: Stage, entries: list[dict[str, Any]]) -> None:
    httpx.post(f"{stage.service_url}/conversations/told/messages", json={"messages": entries}, timeout=20)


@dataclass(frozen=True)
class Outage:
    """An outage: how it is prepared and caused, and the expected first line, alerts and log event."""

    name: str
    cause: Callable[[Stage], None]
    title: str
    alerts: tuple[str, ...]
    event: str
    prepare: Callable[[Stage], None] = _single
    does: str = ""


OUTAGES = (
    Outage(
        "down",
        _kill,
        "The store is down.",
        ("SashStoreFailing", "SashNotReady", "SashErrorsFast"),
        "store lost",
        does="`kill -9` of the store",
    ),
    Outage(
        "hanging",
        _hang,
        "The store does not answer.",
        ("SashStoreFailing", "SashNotReady"),
        "store lost",
        does="`kill -STOP` of it",
    ),
    Outage(
        "slow",
        _slow,
        "The store is slow.",
        ("SashStoreSlow",),
        "store slow",
        does="0.4 s of each half second lost",
    ),
    Outage(
        "slow sync",
        lambda stage: stage.admin("CONFIG", "SET", "appendfsync", "always"),
        "The store ",  # is slow, or does not answer: it is silent for a second at a time
        ("SashStoreSlow",),
        "store slow",
        prepare=_slow_disk,
        does="a disk that takes 1 s a sync",
    ),
    Outage(
        "full",
        _limit(1.05),
        "The store is full.",
        ("SashStoreFull", "SashStoreServesInPart"),
        "store full",
        does="`maxmemory` below what is used",
    ),
    Outage(
        "nearly full",
        _limit(0.85),
        "The store is nearly full.",
        ("SashStoreNearlyFull",),
        "store nearly full",
        does="`maxmemory` so that 85 % is used",
    ),
    Outage(
        "disk full",
        _fill_disk,
        "The store's disk is full",  # the line may go on with "and the store has ended"
        ("SashStoreFull", "SashStoreServesInPart"),
        "store full",
        prepare=_small_disk,
        does="the embedded store's disk filled",
    ),
    Outage(
        "read-only",
        lambda stage: stage.admin("REPLICAOF", "127.0.0.1", "1"),
        "The store is read-only.",
        ("SashStoreReadOnly", "SashStoreServesInPart"),
        "store read-only",
        does="made a replica (`REPLICAOF`)",
    ),
    Outage(
        "failing over",
        _kill,
        "The store is failing over.",
        ("SashStoreFailedOver",),
        "store failing over",
        prepare=_sentinel,
        does="primary of a Sentinel trio killed",
    ),
    Outage(
        "shard lost",
        _kill_shard,
        "The store is failing over.",
        ("SashStoreFailedOver", "SashStoreServesInPart"),
        "store failing over",
        prepare=_cluster,
        does="a primary of a cluster of three killed, and its replica",
    ),
    Outage(
        "replica lost",
        _kill_replica,
        "The store is read-only.",
        ("SashStoreReadOnly", "SashStoreServesInPart"),
        "store read-only",
        prepare=_replicated,
        does="one replica of a cluster of three killed, with `SASH_DURABILITY=replicated`",
    ),
    Outage(
        "storage away",
        _stop_storage,
        "Pictures and files cannot be stored or read.",
        ("SashMediaStorageAway",),
        "object storage away",
        prepare=_pictured,
        does="object storage ended, and a picture appended",
    ),
    Outage(
        "summaries away",
        _ask_for_a_summary,
        "The summarizer",
        ("SashUpstreamAway",),
        "summary not written",
        prepare=_summarized,
        does="nobody listens at `SASH_SUMMARIZER_URL`",
    ),
)


@dataclass
class Seen:
    """What the dashboard, the alerts and the log showed of an outage."""

    seconds: float
    line: str
    """The dashboard's first line."""
    ready: int
    """The status of ``/readyz`` when the dashboard named it."""
    alerts: tuple[str, ...]
    event: str


def run(outage: Outage, browser: Browser, picture: Path | None) -> Seen:
    """Cause an outage, and return how it was named, alerted and logged."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
        stage = Stage(Path(folder), undo)
        outage.prepare(stage)
        stage.undo = undo.enter_context(ExitStack())
        environment = {"SASH_REDIS_URL": stage.url} if stage.url else {}
        served = Served((stage.data or stage.folder) / "data", **environment, **stage.settings)
        log = served.data_dir.parent / "serve.log"
        served.start()
        undo.callback(served.stop)
        stage.service_url = served.url
        prometheus = undo.enter_context(_prometheus(stage.folder, served.url))
        undo.enter_context(_traffic(served.url))
        browser.open(f"{served.url}/dashboard")
        browser.wait("document.querySelector('#cards dl')")
        time.sleep(3)
        if prometheus:
            _scraped(prometheus)
        _watch_first_line(browser, outage.title)
        caused = time.time()
        outage.cause(stage)
        named, line = _named(browser)
        ready = httpx.get(f"{served.url}/readyz", timeout=8).status_code
        time.sleep(1.5)
        if picture is not None:
            browser.screenshot(picture)
            _shrink(picture)
        alerts = _sounded(prometheus, outage.alerts) if prometheus else ()
        event = _logged(log, outage.event)
        browser.open("about:blank")
        return Seen(named - caused, line, ready, alerts, event)


def _shrink(picture: Path) -> None:
    """Reduce a picture to 32 colours, which are enough for a page of text and save two thirds of its bytes."""
    Image.open(picture).quantize(32).save(picture, optimize=True)


def _watch_first_line(browser: Browser, title: str) -> None:
    """Make the page record when its first line first begins with ``title``, and the whole line."""
    browser.run(
        """const title = arguments[0], look = () => {
          const line = document.querySelector('#verdict h1')?.textContent ?? '';
          if (!window.named && line.startsWith(title)) window.named = [Date.now(), line];
        };
        new MutationObserver(look).observe(document.querySelector('#verdict'), {subtree: true, childList: true});""",
        title,
    )


def _named(browser: Browser) -> tuple[float, str]:
    give_up = time.monotonic() + _NAMED_SECONDS
    while time.monotonic() < give_up:
        if found := browser.run("return window.named ?? null"):
            return float(found[0]) / 1000, str(found[1])
        time.sleep(0.1)
    raise AssertionError(f"never named; the first line is {browser.text('#verdict')!r}")


@contextmanager
def _traffic(url: str) -> Iterator[None]:
    """Append with a window from three threads, each up to ten times a second; failed requests are ignored."""
    over = threading.Event()

    def talk() -> None:
        with httpx.Client(base_url=url, timeout=8) as client:
            number = 0
            while not over.wait(0.1):
                number += 1
                turn = {"messages": [{"message": {"role": "user", "content": f"{number} is there a lift?"}}]}
                with suppress(httpx.HTTPError):
                    client.post(f"/conversations/visitor-{number % 7}/messages?model=gpt-4o-mini", json=turn)

    threads = [threading.Thread(target=talk) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def _prometheus(folder: Path, target: str) -> Iterator[str | None]:
    """Yield the URL of a Prometheus with Sash's rules, each waiting for one second; None where none is installed."""
    if shutil.which("prometheus") is None:
        yield None
        return
    rules = (ROOT / "deploy" / "prometheus" / "rules.yml").read_text()
    (folder / "rules.yml").write_text(re.sub(r"for: \w+", "for: 1s", rules))
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    scrape = {"job_name": "sash", "static_configs": [{"targets": [target.removeprefix("http://")]}]}
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump({"global": every, "rule_files": ["rules.yml"], "scrape_configs": [scrape]})
    )
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    process = subprocess.Popen(
        [*command, f"--web.listen-address={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def _scraped(prometheus: str) -> None:
    """Wait until Prometheus has scraped the service three times, so that it can see counters grow from then on."""
    give_up = time.monotonic() + _ALERT_SECONDS
    while time.monotonic() < give_up:
        with suppress(httpx.TransportError):
            query = {"query": "count_over_time(sash_ready[1m]) > 2"}
            if httpx.get(f"{prometheus}/api/v1/query", params=query).json()["data"]["result"]:
                return
        time.sleep(0.3)


def _sounded(prometheus: str, alerts: tuple[str, ...]) -> tuple[str, ...]:
    """Wait until the alerts fire, for 45 seconds; return those of them that did, in their order."""
    give_up = time.monotonic() + _ALERT_SECONDS
    firing: set[str] = set()
    while not firing.issuperset(alerts) and time.monotonic() < give_up:
        with suppress(httpx.TransportError):
            found = httpx.get(f"{prometheus}/api/v1/alerts").json()["data"]["alerts"]
            firing |= {each["labels"]["alertname"] for each in found if each["state"] == "firing"}
        time.sleep(0.5)
    return tuple(each for each in alerts if each in firing)


def _logged(log: Path, event: str) -> str:
    """Wait until the event is logged, because slowness is logged when it lasts; return it, or "none"."""
    give_up = time.monotonic() + _NAMED_SECONDS
    while all(line["event"] != event for line in _lines(log)):
        if time.monotonic() > give_up:
            return "none"
        time.sleep(0.1)
    return event


def _lines(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def table(seen: dict[Outage, Seen]) -> str:
    rows = [
        f"| {outage.name} | {outage.does} | {found.seconds:.1f} | {found.line} | {found.ready} | "
        f"{', '.join(found.alerts) or 'none'} | `{found.event}` |"
        for outage, found in seen.items()
    ]
    heads = "| outage | what was done | seconds | first line | `/readyz` | alerts | event |"
    return "\n".join([heads, "| --- | --- | ---: | --- | --- | --- | --- |", *rows])


def into_runbook(made: str) -> None:
    """Write the table into the runbook; rows of outages that were not caused this time stay."""
    head, rest = RUNBOOK.read_text().split("<!-- outages -->\n")
    before, after = rest.split("<!-- end -->")
    rows = {line.split(" | ")[0]: line for line in f"{before}{made}".splitlines() if line.startswith("|")}
    RUNBOOK.write_text("\n".join([f"{head}<!-- outages -->\n", *rows.values(), f"\n<!-- end -->{after}"]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.outages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(each.name for each in OUTAGES))
    parser.add_argument("--readme", action="store_true", help="put the table into the runbook, and pictures beside it")
    options = parser.parse_args()
    seen: dict[Outage, Seen] = {}
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        browser.size(860, 320)  # the first line, and a little of what is below it
        for outage in OUTAGES:
            if not options.names or outage.name in options.names:
                picture = PICTURES / f"{outage.name.replace(' ', '-')}.png" if options.readme else None
                seen[outage] = run(outage, browser, picture)
                print(outage.name, seen[outage], flush=True)
    print(table(seen))
    if options.readme:
        into_runbook(table(seen))
    bad = [
        outage.name
        for outage, found in seen.items()
        if (found.alerts, found.event) != (outage.alerts, outage.event) or found.seconds > _NAMED_SOON_SECONDS
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
