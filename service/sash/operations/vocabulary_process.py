"""A process that holds other vendors' installed vocabularies, and counts for all workers of a service.

Loading one takes up to a second, during which its library lets no other thread run, and 60 to 100 MB. In a process of their
own, vocabularies block no worker's event loop, and their memory is taken once for all workers. A worker that cannot reach
the process loads the vocabulary itself.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING

from sash.operations.parent import end_with_parent

if TYPE_CHECKING:  # the process is small until it is asked
    from sash.core.counts.text.vocabularies import Count

VARIABLE = "_SASH_VOCABULARIES"
"""The environment variable that tells workers its address, which is a path."""
_ENCODING = ("utf-8", "surrogatepass")
_PATIENCE_SECONDS = 10
_TURN = threading.Lock()  # a vocabulary is loaded once


def start(address: str) -> None:
    """Fork the process. It ends with the process that calls this."""
    get_context("fork").Process(target=_serve, args=(address, os.getpid()), daemon=True).start()


def use(address: str | None) -> None:
    """Count in the process at this address from now on. Without an address, this process counts itself."""
    from sash.core.counts.text.vocabularies import INSTALLED  # noqa: PLC0415

    if not address:
        return
    for vocabulary in INSTALLED.values():
        vocabulary.load_by(partial(_counted_there, address, vocabulary.name))


def _serve(address: str, parent: int) -> None:
    with suppress(OSError):  # its name for ps and top, where there is /proc
        Path("/proc/self/comm").write_text("sash-vocabulary", "ascii")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all, and workers end their requests first
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    # Where the service could not start, the address's folder is gone already.
    with suppress(OSError), Listener(address, "AF_UNIX", backlog=64) as listener:
        while True:
            threading.Thread(target=_answer, args=(listener.accept(),), daemon=True).start()


def _answer(connection: Connection) -> None:
    with connection, suppress(EOFError, OSError, ValueError):
        while True:
            name, _, text = connection.recv_bytes().decode(*_ENCODING).partition("\n")
            with _TURN:
                from sash.core.counts.text.vocabularies import INSTALLED  # noqa: PLC0415

                tokens = INSTALLED[name].count(text)
            connection.send_bytes(b"%d" % tokens)


def _counted_there(address: str, name: str, load: "Callable[[], Count]") -> "Count":
    """Load a vocabulary there, and return the function that counts with it."""
    count = _There(address, name, load)
    count("")
    return count


class _There:
    """Counts in the process, or, after that could not be reached, in this one."""

    def __init__(self, address: str, name: str, load: "Callable[[], Count]") -> None:
        self._address = address
        self._name = name
        self._load = load
        self._connections = threading.local()
        self._own: Count | None = None

    def __call__(self, text: str) -> int:
        if self._own is None:
            try:
                return self._ask(text)
            except (EOFError, OSError):
                self._own = self._load()
        return self._own(text)

    def _ask(self, text: str) -> int:
        connection: Connection | None = getattr(self._connections, "of_thread", None)
        if connection is None:
            connection = self._connections.of_thread = Client(self._address, "AF_UNIX")
        connection.send_bytes(f"{self._name}\n{text}".encode(*_ENCODING))
        if not connection.poll(_PATIENCE_SECONDS):
            raise TimeoutError
        return int(connection.recv_bytes())
