"""Serves the services that Sash is measured against, as ``sash serve`` would: ``python -m tests.bench.others NAME PORT``.

``python -m tests.bench.others COMMAND ARGUMENT PORT`` serves one of another language.
"""

import gc
import signal
import subprocess
import sys

from granian import Granian
from granian.constants import Interfaces, Loops
from granian.http import HTTP1Settings
from litestar import Litestar


def settled(app: Litestar) -> Litestar:
    """Return the application, after setting this interpreter as Sash's workers do."""
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    return app


def main(name: str, port: int) -> None:
    Granian(
        f"tests.bench.{name}:application",
        factory=True,
        port=port,
        interface=Interfaces.ASGI,
        loop=Loops.uvloop,
        websockets=False,
        http1_settings=HTTP1Settings(max_buffer_size=64 * 1024),
        log_enabled=False,
    ).serve()


def program(command: list[str]) -> None:
    """Run a program as this process's worker, until SIGTERM."""
    worker = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: worker.terminate())
    worker.wait()


if __name__ == "__main__":
    if len(sys.argv) > 3:  # a name and a port are Python's
        program(sys.argv[1:])
    else:
        main(sys.argv[1], int(sys.argv[2]))
