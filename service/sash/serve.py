"""``sash serve``: the workers, and the embedded store if SASH_REDIS_URL is not set."""

import contextlib
import gc
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings, HTTP2Settings
from granian.server.mp import MPServer, WorkerProcess

from sash.interrupt import Interrupt
from sash.listeners import BACKLOG, listen
from sash.operations import vocabulary_process
from sash.operations.parent import end_with_parent
from sash.operations.registry import FOLDER_VARIABLE, WORKER_VARIABLE, ended
from sash.settings import Settings, SettingsError, mask_url, read_models
from sash.store.data.object_storage import open_objects
from sash.store.redis import datafiles
from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed

if TYPE_CHECKING:
    from sash.api.middleware.asgi import App

_STORE_FAILED, _SETTING_WRONG, _WORKERS_FAILED, _UNWRITTEN = 1, 2, 3, 4  # exit statuses, listed in sash serve --help

_DRAIN_SECONDS = 10
_CONNECTIONS = 8_192  # limit for a worker; an idle one takes about 16 kB, one with an incomplete request head up to 64
_OTHER_FILES = 256  # files that a worker opens in addition to its clients' connections
_HEAD_SECONDS = 10  # for a whole request head to arrive, from the connection's start or the last answer's end
_BUFFER_BYTES = 64 * 1024  # for each connection: request heads, and the answer of a client that does not read
_WATCH_SECONDS = 0.1
_RESTART_SECONDS = (0.4, 1.0, 2.0, 5.0)
"""Between restarts of a store that ends again and again."""
_STEADY_SECONDS = 30.0
"""A store that ran so long is started again at once."""
_COLLECT_AFTER = (20_000, 20, 20)  # thresholds of the garbage collector's three generations
_SWITCH_SECONDS = 0.0005  # granian's HTTP loop is another thread, and would wait 5 ms for Python's with the default


def application() -> "App":
    """The application of a worker process, with settings from the environment that ``run`` prepared."""
    from sash.app import create_app  # noqa: PLC0415 - while these are imported, the embedded store starts
    from sash.operations.logging import configure_logging  # noqa: PLC0415
    from sash.operations.requests import request_log  # noqa: PLC0415

    sys.setswitchinterval(_SWITCH_SECONDS)
    settings = Settings.read(os.environ)
    configure_logging(settings.log_format, settings.log_level, settings.library_log_level)
    log = request_log(settings.log_format, settings.log_level)
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    vocabulary_process.use(os.environ.get(vocabulary_process.VARIABLE))
    app = create_app(settings, log=log, ends_on_sigterm=True)
    _settle()
    return app


def _load() -> None:
    """Load what workers need before they are forked: they start faster, and share the memory."""
    if multiprocessing.get_start_method() == "fork":
        gc.disable()  # nearly nothing that is imported is garbage
        from sash.core.counts.text.vocabularies import load_vocabularies  # noqa: PLC0415 - see application

        load_vocabularies()  # first, so that what is imported has the 10 MB that this gives back
        import sash.app  # noqa: F401, PLC0415
        from sash.core.counts.models.models import list_models  # noqa: PLC0415

        list_models()
        gc.freeze()  # a worker that collects garbage then writes to none of the shared memory
        gc.enable()


def _settle() -> None:
    """Exclude the application's long-lived objects from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def run(settings: Settings) -> int:
    """Serve until stopped. Returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="sash-", ignore_cleanup_errors=True) as folder:
        if multiprocessing.get_start_method() == "fork":
            # It is forked first, and so has no socket and no file of the service.
            os.environ[vocabulary_process.VARIABLE] = address = str(Path(folder, "vocabularies"))
            vocabulary_process.start(address)
        return _run(settings)


def _run(settings: Settings) -> int:
    try:
        read_models(settings.models_file, settings.tokenizers)
        listeners = listen(settings)
        open_objects(settings.media_place, settings.store_timeout_seconds)
    except (SettingsError, ValueError) as error:
        for line in str(error).splitlines():
            _say(line)
        return _SETTING_WRONG
    if settings.encryption_key:
        from sash.store.data.sealing import Master  # noqa: PLC0415 - see application

        master = Master(settings.encryption_key[0]).id.hex()
        _say(f"what people write is encrypted at rest, master key {master}")
    if settings.redis_url is None:
        return _serve_with_store(settings, listeners)
    _say(f"store at {mask_url(settings.redis_url)}")
    _load()
    return _serve(settings, settings.redis_url, listeners)


def _serve_with_store(settings: Settings, listeners: list[socket.socket]) -> int:
    fsync: Literal["always", "everysec"] = "everysec" if settings.durability == "fast" else "always"
    store = EmbeddedStore(settings.data_dir, fsync=fsync)
    try:
        store.launch()
        _load()
        store.wait()
    except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
        _say(str(error))
        return _STORE_FAILED
    os.environ[datafiles.VARIABLE] = datafiles.identify(settings.data_dir)
    if store.adopted:
        _say(store.adopted)
    _say(f"embedded store in {settings.data_dir} (append-only file, fsync {fsync})")
    stopping = threading.Event()
    threading.Thread(target=_watch, args=(store, stopping), daemon=True).start()
    status = _UNWRITTEN
    try:
        status = _serve(settings, store.url, listeners)
    finally:
        stopping.set()
        unwritten = store.stop()
        if unwritten:
            _say(f"the disk of {settings.data_dir} did not take all that was acknowledged: {unwritten}")
    return _UNWRITTEN if unwritten else status


def _say(line: str) -> None:
    """Write a line to standard error. A line that cannot be written is lost: a full disk must not end the process."""
    with contextlib.suppress(OSError):
        click.echo(f"sash: {line}", err=True)


def _watch(store: EmbeddedStore, stopping: threading.Event) -> None:
    """Keep the reserve of the store's disk, and restart the store when it has ended; meanwhile requests wait or get 503."""
    started, again = time.monotonic(), 0
    while not stopping.wait(_WATCH_SECONDS):
        store.reserve.keep()
        if not store.running:
            again = again + 1 if time.monotonic() < started + _STEADY_SECONDS else 0
            if again and stopping.wait(_RESTART_SECONDS[min(again, len(_RESTART_SECONDS)) - 1]):
                return
            _say("the embedded store ended; starting it again")
            started = time.monotonic()
            try:
                store.start()
            except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
                _say(str(error))


def _serve(settings: Settings, store_url: str, listeners: list[socket.socket]) -> int:
    os.environ |= _environment(settings, store_url)
    metrics = _metrics_folder(settings.workers)
    os.environ.pop(FOLDER_VARIABLE, None)
    if metrics is not None:
        os.environ[FOLDER_VARIABLE] = metrics
    server = _Server(
        listeners,
        "sash.serve:application",
        factory=True,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=settings.workers,
        websockets=False,
        backlog=BACKLOG,
        backpressure=_connections(),
        http=HTTPModes.auto if settings.http2 else HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=_HEAD_SECONDS * 1000, max_buffer_size=_BUFFER_BYTES),
        http2_settings=HTTP2Settings(
            keep_alive_interval=_HEAD_SECONDS * 1000,
            keep_alive_timeout=_HEAD_SECONDS,
            max_send_buffer_size=_BUFFER_BYTES,
        ),
        log_enabled=False,
        respawn_failed_workers=True,
        workers_kill_timeout=_DRAIN_SECONDS,
    )
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _say(f"listening on http://{host}:{listeners[0].getsockname()[1]}")
    if settings.anonymous:
        _say("no API key is required; SASH_REQUIRE_KEYS=1 requires those that `sash keys create` makes")
    try:
        server.serve()
    finally:
        if metrics is not None:
            shutil.rmtree(metrics, ignore_errors=True)
    return _WORKERS_FAILED if server.failed else 0


def _connections() -> int:
    """A worker's limit of connections: its limit of open files minus _OTHER_FILES, at most _CONNECTIONS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _CONNECTIONS + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(files - _OTHER_FILES, _OTHER_FILES)


class _Server(MPServer):
    """Granian's server process with one given socket for each worker. It prints a line when a worker ends.

    ``failed`` is set if the server stopped because a worker ended again within seconds of its start.
    """

    def __init__(self, listeners: list[socket.socket], target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self.main_loop_interrupt = Interrupt()
        self.failed = False
        self._listeners = listeners

    def _init_shared_socket(self) -> None:
        """Nothing to do: the sockets were given."""

    def _drop_shared_socket(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> WorkerProcess:  # type: ignore[override]
        self._sso = self._listeners[idx]
        backlog = (BACKLOG,) if sys.platform == "linux" else ()
        self._shd = SocketHolder(self._sso.fileno(), False, *backlog)  # type: ignore[assignment, call-arg]  # noqa: FBT003
        others = [each for each in self._listeners if each is not self._sso]
        return super()._spawn_worker(idx, target, partial(_alone, idx, others, callback_loader))

    def _respawn_workers(self, workers: list[int], *arguments: Any, **options: Any) -> None:
        for number in workers:
            if self.wrks[number].inner.exitcode is not None:
                ended(self.wrks[number].inner.pid)
                _say(f"{_how_ended(self.wrks[number])}; starting another")
        super()._respawn_workers(workers, *arguments, **options)

    def shutdown(self, exit_code: int = 0) -> None:
        self.failed = bool(self.interrupt_children) and not self.interrupt_signal
        for number in set(self.interrupt_children) if self.failed else ():
            _say(
                f"{_how_ended(self.wrks[number])}, {time.monotonic() - self.wrks[number].birth:.1f} seconds after "
                "the one before it; stopping. The lines above may say why; sash doctor checks the settings and the store"
            )
        self.interrupt_children.clear()  # otherwise shutdown exits this process before the caller can clean up
        super().shutdown(exit_code)  # type: ignore[no-untyped-call]


def _alone(number: int, others: list[socket.socket], load: "Callable[[], App]") -> "App":
    """The application of a worker, after closing other workers' sockets, which this worker would never accept from."""
    os.environ[WORKER_VARIABLE] = str(number)
    for other in others:
        other.close()
    return load()


def _how_ended(worker: WorkerProcess) -> str:
    status = worker.inner.exitcode
    how = f"with status {status}" if status is None or status >= 0 else f"by {signal.Signals(-status).name}"
    memory = ", as when memory runs out" if status == -signal.SIGKILL else ""
    return f"worker {worker.idx + 1} (process {worker.inner.pid}) ended {how}{memory}"


def _metrics_folder(workers: int) -> str | None:
    """A folder in which workers share their metrics, in memory if possible; None for a single worker."""
    if workers == 1:
        return None
    memory = "/dev/shm"  # noqa: S108 - mkdtemp makes a folder with a random name that only this user can read
    return tempfile.mkdtemp(prefix="sash-", dir=memory if os.access(memory, os.W_OK) else None)


def _environment(settings: Settings, store_url: str) -> dict[str, str]:
    """The environment variables to change for workers: command-line options, and the store's URL."""
    media = {"SASH_MEDIA_URL": settings.media_place} if settings.media_place else {}
    return media | {
        "SASH_REDIS_URL": store_url,
        "SASH_HOST": settings.host,
        "SASH_PORT": str(settings.port),
        "SASH_WORKERS": str(settings.workers),
    }
