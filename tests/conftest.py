"""Fixtures that tests share: a real store, the real application, and a check that no keys remain in the store.

Each process of a test run has one embedded server and one application on it, driven in-process on the tests' own event
loop. A few tests talk to ``sash serve`` itself.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import httpx2
import profiles
import pytest
import pytest_asyncio
import redis
from rigs.browser import Browser, chromium
from rigs.conformity import conform
from rigs.key_leaks import conversations_in, leaks
from rigs.servers import free_port
from rigs.warm import Forked, started

from sash.api.middleware.asgi import App
from sash.app import create_app
from sash.settings import Settings
from sash.store.data.conversations import Conversations
from sash.store.data.layout import target_at
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

gc.disable()  # until all tests are collected: nothing that is imported is garbage, and looking takes a third of that time

_LEFT_OUT = ("nightly", "clients", "deploy")
"""Marks of tests that a run leaves out unless it asks for them."""
_deselected: Counter[str] = Counter()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests that this run leaves out, by the mark for which it does."""
    _deselected.update(mark for item in items for mark in _LEFT_OUT if item.get_closest_marker(mark))


def pytest_collection_finish() -> None:
    """Look for garbage from now on, as seldom as the service does, and never among what was imported and collected."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the checks that did not run, so that nobody takes them for green."""
    for mark, number in _deselected.items():
        terminalreporter.write_line(f"not run: {number} tests of {mark}; -m {mark} runs them")


profiles.register()
for transports in (httpx._transports.default, httpx2._transports.default):
    # Each client reads the web's certificates, in 45 ms. Tests' clients, which speak to loopback, share what one has read.
    transports.create_ssl_context = cache(transports.create_ssl_context)
# A test's client that names no timeout is patient: five seconds are httpx's own, and a busy machine may need them.
httpx._config.DEFAULT_TIMEOUT_CONFIG.read = 60

# Each client of a store reads its own version in its package's files.
redis.utils.get_lib_version = cache(redis.utils.get_lib_version)

ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 120
"""Until a service that has not ended counts as stuck: with a busy machine, loading the vocabularies alone can take 30."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--encrypted``, which runs the same tests with encryption at rest."""
    parser.addoption("--encrypted", action="store_true", help="set a key for encryption at rest")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move tests that are marked ``long`` to the front, after the order was made random, and then those of ``truth/``.

    These share the counts of all recorded requests: as neighbours they run in one process, which counts them once.
    """
    items.sort(key=lambda item: (item.get_closest_marker("long") is None, item.path.parent.name != "truth"))


@pytest.fixture(scope="session")
def encryption_key(request: pytest.FixtureRequest) -> tuple[bytes, ...]:
    """Return the master keys of the session's application: none without ``--encrypted``."""
    return (b"tests".ljust(32),) if request.config.getoption("--encrypted") else ()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """Yield this process's server; it syncs its append-only file every second, because few tests need durability."""
    with EmbeddedStore(tmp_path_factory.mktemp("store"), fsync="everysec") as running:
        yield running


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """Yield a server that only one test file uses: encryption keys stay in it, and a test may read all its bytes."""
    with EmbeddedStore(tmp_path_factory.mktemp("own"), fsync="everysec") as running:
        yield running


@pytest.fixture
def raw(own: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a connection to that server, which is emptied before the test."""
    with redis.Redis.from_url(own.url) as connection:
        connection.flushall()
        yield connection


@pytest.fixture(scope="module")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield a browser that the tests of a file share."""
    with chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="session")
def server(store: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a direct connection to the session's server, for tests that bypass the service."""
    with redis.Redis.from_url(store.url, decode_responses=True, socket_timeout=60) as connection:
        yield connection


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[App]:
    """Start the application on the running loop, yield it, and shut it down."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
    task = asyncio.ensure_future(app(scope, inbox.get, outbox.put))
    inbox.put_nowait({"type": "lifespan.startup"})
    assert (await asyncio.wait_for(outbox.get(), 30))["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        inbox.put_nowait({"type": "lifespan.shutdown"})
        assert (await asyncio.wait_for(outbox.get(), 30))["type"] == "lifespan.shutdown.complete"
        await task


def http(app: App, **options: Any) -> httpx.AsyncClient:
    """Return a client that calls the application in-process; a response that breaks the OpenAPI contract fails the test."""
    hooks = {"response": [conform]}
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost", event_hooks=hooks, **options
    )


@pytest_asyncio.fixture(scope="session")
async def app(store: EmbeddedStore, encryption_key: tuple[bytes, ...]) -> AsyncIterator[App]:
    """Yield one application for the session; settings that do not concern the store or encryption are the defaults."""
    settings = Settings(redis_url=store.url, store_connections=2, durability="fast", encryption_key=encryption_key)
    async with lifespan(create_app(settings)) as running:
        yield running


@pytest_asyncio.fixture
async def nothing_left(app: App, store: EmbeddedStore, server: redis.Redis) -> AsyncIterator[None]:
    """After the test, erase all conversations and fail if keys remain."""
    yield
    made = conversations_in(server)
    async with http(app) as client:
        for conversation in [conversation for tenant, conversation in made if tenant == "default"]:
            assert (await client.delete(f"/conversations/{conversation}")).status_code == 204
    others = [pair for pair in made if pair[0] != "default"]
    if others:
        async with opened(store.url) as conversations:
            for tenant, conversation in others:
                await conversations.erase(target_at(tenant, conversation), if_match="")
    assert leaks(server, made) == []


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Conversations]:
    """Yield a ``Conversations`` with its own client."""
    client = Client(url, **options)
    await client.open()
    try:
        yield Conversations(client)
    finally:
        await client.close()


@pytest_asyncio.fixture
async def client(app: App, nothing_left: None) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ARG001 - it checks afterwards
    """Yield an HTTP client of the application, without a network."""
    async with http(app) as client:
        yield client


@pytest_asyncio.fixture
async def new_client(tmp_path: Path, encryption_key: tuple[bytes, ...]) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application that has served nothing, as nobody else has on its store: its figures begin at 0, and
    the first models that it serves have series by name."""
    with EmbeddedStore(tmp_path / "store", fsync="everysec") as own:
        settings = Settings(redis_url=own.url, store_connections=1, durability="fast", encryption_key=encryption_key)
        async with lifespan(create_app(settings)) as running, http(running) as client:
            yield client


_numbers = count(1)


@pytest.fixture
def fresh() -> Callable[[], str]:
    """Return a function that makes conversation ids that no other test uses."""
    return lambda: f"c-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def conversation(fresh: Callable[[], str]) -> str:
    """Return a conversation id that no other test uses."""
    return fresh()


class Served:
    """A ``sash serve`` process on a data directory. ``start`` waits until it is ready.

    With ``covered``, coverage traces it where that runs, so that it starts and answers more slowly.
    """

    def __init__(self, data_dir: Path, *, covered: bool = False, **environment: str) -> None:
        self.data_dir = data_dir
        self.covered = covered
        self.environment = environment
        self.command: list[str] = []
        """Another command than this environment's ``sash``."""
        self.url = ""
        self.process: Forked | subprocess.Popen[bytes] | None = None

    def start(self, ready: int = 200, port: int | None = None) -> None:
        """Start it, and wait until ``/readyz`` has the status ``ready``."""
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SASH_")}
        log, arguments = (
            self.data_dir.parent / "serve.log",
            ["serve", "--port", str(port), "--data-dir", str(self.data_dir)],
        )
        traced = [sys.executable, "-m", "sash"] if self.covered and "COVERAGE_PROCESS_CONFIG" in os.environ else []
        self.process = started(arguments, {**inherited, **self.environment}, log, command=self.command or traced)
        give_up = time.monotonic() + _START_SECONDS
        with httpx.Client(timeout=2) as client:
            while time.monotonic() < give_up and self.process.poll() is None:
                try:
                    if client.get(f"{self.url}/readyz").status_code == ready:
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        self._end()
        raise AssertionError((self.data_dir.parent / "serve.log").read_text())

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, wait for the process to end and return its exit status."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(timeout=_START_SECONDS)

    def _end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __del__(self) -> None:
        """End what a failed test left: a process that nobody waited for is a warning, which fails a later test."""
        self._end()


@contextmanager
def serving_alone(folder: Path, **environment: str) -> Iterator[Served]:
    """Yield a running ``sash serve`` that only one file's tests use, with its data in ``folder``."""
    process = Served(folder / "data", **environment)
    process.start()
    yield process
    process.stop()


def kill(store: EmbeddedStore) -> None:
    """Kill the server with SIGKILL, as a crash would, and wait until it has ended."""
    os.kill(store.pid, signal.SIGKILL)
    while store.running:
        time.sleep(0.002)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a running ``sash serve``, for tests that do not stop it."""
    process = Served(tmp_path_factory.mktemp("served") / "data", covered=True)
    process.start()
    yield process
    if process.process is not None and process.process.poll() is None:
        process.stop()
