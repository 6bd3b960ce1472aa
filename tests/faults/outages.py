"""Outages as an engineer on call sees them: ``python -m tests.faults.outages [name …] [--readme]``.

Each is caused under traffic, with the dashboard open in Chromium and a Prometheus that scrapes every second. Prints a row
for each: seconds until the dashboard's first line named it, the alert that fired, and the event of the log. With
``--readme`` the table goes into deploy/runbook.md, and a picture of each into deploy/screenshots/outages. Alerts wait for
one second instead of minutes. About half a minute an outage; needs chromium, chromium-driver and prometheus.
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
from dataclasses import dataclass
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

from sash.store.redis.embedded import _bundled_binary  # noqa: E402

RUNBOOK = ROOT / "deploy" / "runbook.md"
PICTURES = ROOT / "deploy" / "screenshots" / "outages"
_NAMED_SECONDS = 15.0
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


@dataclass(frozen=True)
class Outage:
    """An outage: how it is prepared and caused, and the expected first line, alert and log event."""

    name: str
    cause: Callable[[Stage], None]
    title: str
    alert: str
    event: str
    prepare: Callable[[Stage], None] = _single
    does: str = ""


OUTAGES = (
    Outage("down", _kill, "The store is down.", "SashStoreFailing", "store lost", does="`kill -9` of the store"),
    Outage("hanging", _hang, "The store does not answer.", "SashStoreFailing", "store lost", does="`kill -STOP` of it"),
    Outage("slow", _slow, "The store is slow.", "SashStoreSlow", "store slow", does="0.4 s of each half second lost"),
    Outage(
        "full", _limit(1.05), "The store is full.", "SashStoreFull", "store full", does="`maxmemory` below what is used"
    ),
    Outage(
        "nearly full",
        _limit(0.85),
        "The store is nearly full.",
        "SashStoreNearlyFull",
        "store nearly full",
        does="`maxmemory` so that 85 % is used",
    ),
    Outage(
        "disk full",
        _fill_disk,
        "The store's disk is full",  # the line may go on with "and the store has ended"
        "SashStoreFull",
        "store full",
        prepare=_small_disk,
        does="the embedded store's disk filled",
    ),
    Outage(
        "read-only",
        lambda stage: stage.admin("REPLICAOF", "127.0.0.1", "1"),
        "The store is read-only.",
        "SashStoreReadOnly",
        "store read-only",
        does="made a replica (`REPLICAOF`)",
    ),
    Outage(
        "failing over",
        _kill,
        "The store is failing over.",
        "SashStoreFailedOver",
        "store failing over",
        prepare=_sentinel,
        does="primary of a Sentinel trio killed",
    ),
    Outage(
        "shard lost",
        _kill_shard,
        "The store is failing over.",
        "SashStoreServesInPart",
        "store failing over",
        prepare=_cluster,
        does="a primary of a cluster of three killed, and its replica",
    ),
)


@dataclass
class Seen:
    """What the dashboard, the alerts and the log showed of an outage."""

    seconds: float
    line: str
    """The dashboard's first line."""
    alert: str
    events: list[str]


def run(outage: Outage, browser: Browser, picture: Path | None) -> Seen:
    """Cause an outage, and return how it was named, alerted and logged."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as undo:
        stage = Stage(Path(folder), undo)
        outage.prepare(stage)
        stage.undo = undo.enter_context(ExitStack())
        served = Served((stage.data or stage.folder) / "data", **({"SASH_REDIS_URL": stage.url} if stage.url else {}))
        log = served.data_dir.parent / "serve.log"
        served.start()
        undo.callback(served.stop)
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
        time.sleep(1.5)
        if picture is not None:
            browser.screenshot(picture)
            _shrink(picture)
        alert = _sounded(prometheus, outage.alert) if prometheus else "no Prometheus"
        events = _events(log)
        browser.open("about:blank")
        return Seen(named - caused, line, alert, events)


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


def _sounded(prometheus: str, alert: str) -> str:
    """Wait until the alert fires, and return its name; after 45 seconds, return that it did not."""
    give_up = time.monotonic() + _ALERT_SECONDS
    while time.monotonic() < give_up:
        with suppress(httpx.TransportError):
            found = httpx.get(f"{prometheus}/api/v1/alerts").json()["data"]["alerts"]
            if any(each["labels"]["alertname"] == alert and each["state"] == "firing" for each in found):
                return alert
        time.sleep(0.5)
    return f"{alert} did not sound"


def _events(log: Path) -> list[str]:
    """Return the logged events of the store's condition; wait for the first, because slowness is logged when it lasts."""
    give_up = time.monotonic() + _NAMED_SECONDS
    while True:
        found = [line["event"] for line in _lines(log) if line["event"].startswith(("store ", "not ready"))]
        if found or time.monotonic() > give_up:
            return found
        time.sleep(0.1)


def _lines(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def table(seen: dict[Outage, Seen]) -> str:
    rows = [
        f"| {outage.name} | {outage.does} | {found.seconds:.1f} | {found.line} | {found.alert} | "
        f"`{found.events[0] if found.events else 'none'}` |"
        for outage, found in seen.items()
    ]
    heads = "| outage | what was done | seconds | first line | alert | event |\n| --- | --- | ---: | --- | --- | --- |"
    return "\n".join([heads, *rows])


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
    bad = [outage.name for outage, found in seen.items() if found.alert != outage.alert or found.seconds > 2]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
