"""Parts of a fault run: its scale, a service on a store, and the row of its result."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.ledger import Verdict, read_history
from faults.processes import Service
from faults.writers import Writers
from rigs.servers import Server, binaries


@dataclass(frozen=True)
class Scale:
    """The numbers of a run; the defaults are those of CI's short run."""

    binary: Path
    store_kills: int = 2
    service_kills: int = 2
    rollings: int = 1
    writers: int = 16
    requests: int = 1_500
    pause_seconds: float = 0.05
    """A writer's pause between two turns while replicas start, which takes both processors of a CI machine."""
    absent_seconds: float = 2.0
    slow: int = 50
    slow_rounds: int = 1
    deadline_seconds: float = 4.0
    seed: int = 1


FULL = {"store_kills": 20, "service_kills": 50, "rollings": 3, "writers": 64, "requests": 200_000, "pause_seconds": 0.0}
FULL |= {"absent_seconds": 60.0, "slow": 1_000, "slow_rounds": 5, "deadline_seconds": 10.0}


@dataclass
class Row:
    """One line of the table."""

    fault: str
    turns: int
    requests: int
    verdict: Verdict
    failures: str
    note: str = ""
    broken: str = ""
    """What else did not hold; empty when all did."""


Scenario = Callable[[Path, Scale], Awaitable[Row]]


@asynccontextmanager
async def running(store: Server, folder: Path, url: str = "", **environment: str) -> AsyncIterator[Service]:
    """Yield a running service on a store; kill both in the end."""
    service = Service(url or store.url, folder / "serve.log", **environment)
    try:
        store.start()
        yield await service.start()
    finally:
        await service.kill()
        store.kill()


async def judge(fault: str, writers: Writers, port: int, note: str = "", broken: str = "") -> Row:
    """Read every conversation back, compare it with the ledger, and return the row."""
    ledger = writers.ledger
    histories = {name: await read_history(port, name) for name in writers.conversations}
    failures = ", ".join(f"{count}x {what}" for what, count in ledger.failures.most_common(4)) or "none"
    return Row(fault, len(ledger.acknowledged), ledger.requests, ledger.judge(histories), failures, note, broken)


def default_binary() -> Path:
    """Return the bundled Valkey 9, which is always installed."""
    found = binaries()["valkey-9"]
    assert found is not None
    return found
