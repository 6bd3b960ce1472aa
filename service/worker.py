"""A worker process of ``sash serve``: the application, and what holds for the process that it runs in."""

import gc
import os
import sys
import threading
import time

from service.api.drain import Drain
from service.api.edge import App
from service.app import create_app
from service.operations.logging import configure_logging
from service.settings import Settings

_ORPHAN_SECONDS = 0.02
_COLLECT_AFTER = (20_000, 20, 20)  # new objects, and rounds of the younger generation
_SWITCH_SECONDS = 0.0005  # the HTTP loop is a thread beside Python's: for 5 ms, the default, one waited for the other


def application() -> App:
    """The application of a worker process; its settings come from the environment that ``run`` prepared."""
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
    while os.getppid() == parent:
        time.sleep(_ORPHAN_SECONDS)
    os._exit(1)
