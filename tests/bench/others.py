"""Serves the services that Sash is measured against, as ``sash serve`` would: ``python -m tests.bench.others NAME PORT``."""

import gc
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


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
