"""``sash serve`` as a process that can be killed, stopped, and started again on the same port."""

import asyncio
import os
import random
import signal
import subprocess
from pathlib import Path

from faults.wire import Wire
from rigs.servers import free_port
from rigs.warm import Forked, started

ROOT = Path(__file__).resolve().parent.parent.parent


class Service:
    """One replica of the service on a store."""

    def __init__(self, store_url: str, log: Path, **environment: str) -> None:
        self.port = free_port()
        self._log = log
        self._environment = {"SASH_REDIS_URL": store_url, "SASH_PORT": str(self.port), **environment}
        self.process: Forked | subprocess.Popen[bytes] | None = None

    async def start(self, *, wait: bool = True) -> "Service":
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SASH_")}
        environment = {**inherited, **self._environment}
        self.process = await asyncio.to_thread(started, ["serve"], environment, self._log, own_session=True)
        if wait:
            await self.ready()
        return self

    async def ready(self, seconds: float = 120) -> None:
        """Wait until ``/readyz`` answers 200."""
        give_up = asyncio.get_running_loop().time() + seconds
        wire = Wire(self.port, timeout_seconds=6)
        while True:
            try:
                if (await wire.ask("GET", "/readyz")).status == 200:
                    wire.close()
                    return
            except OSError:
                pass
            assert asyncio.get_running_loop().time() < give_up, self._log.read_text()[-2000:]
            await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """Kill the service and its workers with SIGKILL."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            await asyncio.to_thread(self.process.wait, 10)
            self.process = None

    async def stop(self) -> float:
        """Stop the service with SIGTERM, and return the seconds until it has ended."""
        assert self.process is not None
        started = asyncio.get_running_loop().time()
        self.process.terminate()
        await asyncio.to_thread(self.process.wait, 30)
        self.process = None
        return asyncio.get_running_loop().time() - started


class Fleet:
    """Replicas of the service behind a balancer that checks their readiness ten times a second."""

    def __init__(self, *services: Service) -> None:
        self._services = services
        self._live = list(services)
        self.replaced = 0
        self.slowest_seconds = 0.0
        """The longest that a replica took to drain."""

    def port(self, now: int) -> int:
        """Return the port for a connection's next request: ``now`` while its replica is live, else a random live one."""
        ports = [service.port for service in self._live]
        return now if now in ports else random.choice(ports)

    async def roll(self) -> None:
        """Replace one replica after the other by SIGTERM and a new start, as an upgrade does."""
        for service in self._services:
            await asyncio.sleep(0.5)
            stopping = asyncio.create_task(service.stop())
            await _not_ready(service)
            self._live.remove(service)
            self.slowest_seconds = max(self.slowest_seconds, await stopping)
            await service.start()
            self._live.append(service)
            self.replaced += 1


async def _not_ready(service: Service) -> None:
    """Wait until the balancer sees that the replica is not ready."""
    while True:
        await asyncio.sleep(0.1)
        wire = Wire(service.port)
        try:
            if (await wire.ask("GET", "/readyz")).status != 200:
                return
        except OSError:  # the replica has ended already
            return
        finally:
            wire.close()
