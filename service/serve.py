"""sash serve: the embedded store when no other is named, and the workers."""

import contextlib
import gc
import multiprocessing
import os
import select
import shutil
import sys
import tempfile
import threading
import time
from typing import Literal

import click
from granian import Granian
from granian.constants import Interfaces, Loops
from granian.http import HTTP1Settings

from service.api.drain import Drain
from service.api.edge import App
from service.app import create_app
from service.core.text import load_vocabularies
from service.operations.workers import FOLDER_VARIABLE
from service.settings import Settings, mask_url
from service.store import datafiles
from service.store.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed
from service.store.sealing import Master

_DRAIN_SECONDS = 10
_BUFFER_BYTES = 64 * 1024  # of each connection: what is held for a client that does not read
_WATCH_SECONDS = 0.5
_ORPHAN_SECONDS = 0.02
_COLLECT_AFTER = (20_000, 20, 20)  # new objects, and rounds of the younger generation
_SWITCH_SECONDS = 0.0005  # the HTTP loop is a thread beside Python's: for 5 ms, the default, one waited for the other


def application() -> App:
    """The application of a worker process; its settings come from the environment that ``run`` prepared."""
    from service.operations.logging import configure_logging  # noqa: PLC0415 - only workers log lines

    sys.setswitchinterval(_SWITCH_SECONDS)
    settings = Settings.read(os.environ)
    configure_logging(settings.log_format, settings.log_level)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    app = Drain(create_app(settings), patience_seconds=settings.request_timeout_seconds)
    _settle()
    return app


def _settle() -> None:
    """Keep the collector of cycles off what lives as long as the worker, and let a request's own objects die by count."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _end_with_parent(parent: int) -> None:
    """End when the parent is gone, however it died: a worker left behind would go on taking a share of the port.

    At once and without a drain, as the parent ended: before a next service listens, so that it is never taken for it.
    """
    with contextlib.suppress(AttributeError, OSError):  # only Linux tells; elsewhere, and at the end, it is looked for
        ended = os.pidfd_open(parent)
        if os.getppid() == parent:  # or the id may be another's by now
            select.select([ended], [], [])
    while os.getppid() == parent:
        time.sleep(_ORPHAN_SECONDS)
    os._exit(1)


def run(settings: Settings) -> int:
    """Serve until told to stop; gives the exit status."""
    if settings.encryption_key:
        master = Master(settings.encryption_key[0]).id.hex()
        click.echo(f"sash: what people write is encrypted at rest, master key {master}", err=True)
    if settings.redis_url is not None:
        click.echo(f"sash: store at {mask_url(settings.redis_url)}", err=True)
        return _serve(settings, settings.redis_url)
    fsync: Literal["always", "everysec"] = "everysec" if settings.durability == "fast" else "always"
    store = EmbeddedStore(settings.data_dir, fsync=fsync)
    try:
        store.start()
    except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
        click.echo(f"sash: {error}", err=True)
        return 1
    os.environ[datafiles.VARIABLE] = datafiles.identify(settings.data_dir)
    click.echo(f"sash: embedded store in {settings.data_dir} (append-only file, fsync {fsync})", err=True)
    stopping = threading.Event()
    threading.Thread(target=_watch, args=(store, stopping), daemon=True).start()
    try:
        return _serve(settings, store.url)
    finally:
        stopping.set()
        store.stop()


def _watch(store: EmbeddedStore, stopping: threading.Event) -> None:
    """Start the store again when it ended by itself, as it does when the disk fails; requests wait or get 503."""
    while not stopping.wait(_WATCH_SECONDS):
        if not store.running:
            click.echo("sash: the embedded store ended; starting it again", err=True)
            try:
                store.start()
            except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
                click.echo(f"sash: {error}", err=True)
                time.sleep(_WATCH_SECONDS)


def _serve(settings: Settings, store_url: str) -> int:
    os.environ |= _environment(settings, store_url)
    figures = _figures_folder(settings.workers)
    if figures is not None:
        os.environ[FOLDER_VARIABLE] = figures
    if multiprocessing.get_start_method() == "fork":
        load_vocabularies()  # workers have them from here: each starts at once, and all share memory that nobody writes to
    server = Granian(
        "service.serve:application",
        factory=True,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        workers=settings.workers,
        websockets=False,
        http1_settings=HTTP1Settings(max_buffer_size=_BUFFER_BYTES),
        log_enabled=False,
        respawn_failed_workers=True,
        workers_kill_timeout=_DRAIN_SECONDS,
    )
    click.echo(f"sash: listening on http://{settings.host}:{settings.port}", err=True)
    try:
        server.serve()
    finally:
        if figures is not None:
            shutil.rmtree(figures, ignore_errors=True)
    return 0


def _figures_folder(workers: int) -> str | None:
    """A folder in which workers share their figures: in memory where there is such a place, none for a lone worker."""
    if workers == 1:
        return None
    memory = "/dev/shm"  # noqa: S108 - mkdtemp makes a folder of a random name in it that only we can read
    return tempfile.mkdtemp(prefix="sash-", dir=memory if os.access(memory, os.W_OK) else None)


def _environment(settings: Settings, store_url: str) -> dict[str, str]:
    """What a worker's settings differ in from the environment it inherits: options, and where the store is."""
    return {
        "SASH_REDIS_URL": store_url,
        "SASH_HOST": settings.host,
        "SASH_PORT": str(settings.port),
        "SASH_WORKERS": str(settings.workers),
    }
