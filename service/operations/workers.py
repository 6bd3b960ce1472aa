"""The figures of all workers of a machine, whichever of them is asked.

Each worker writes its own into a folder that they share, every second and before it answers; a scrape adds up the files.
Every file only grows and nobody answers from memory, so no counter ever goes back from one scrape to the next,
whichever workers answer, and what an ended worker counted stays. A lone worker needs no folder.

Nothing here asks the store: figures are wanted most when it is away.
"""

import os
import time
from pathlib import Path

import msgspec

from service.operations.exposition import Gauges
from service.operations.figures import Flat, added

FOLDER_VARIABLE = "_SASH_FIGURES"
"""The environment variable that names the folder to worker processes."""

SHARE_SECONDS = 1.0
_FRESH_SECONDS = 5.0
"""A worker that has not written for so long has ended: its gauges are gone."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class WorkerFigures(msgspec.Struct, frozen=True):
    """What a worker writes."""

    at: float
    flat: Flat
    gauges: tuple[int, ...]


_decode = msgspec.msgpack.Decoder(WorkerFigures).decode


class Workers:
    """This worker's file among the others'."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file = folder / f"{os.getpid()}-{time.time_ns()}.figures" if folder else None

    @property
    def shared(self) -> bool:
        """Whether there are others to share with."""
        return self._file is not None

    def share(self, flat: Flat, gauges: Gauges) -> None:
        """Let the others see this worker's figures."""
        if self._file is None:
            return
        aside = self._file.with_suffix(".new")
        aside.write_bytes(msgspec.msgpack.encode(WorkerFigures(time.time(), flat, tuple(gauges))))
        aside.replace(self._file)

    def together(self, flat: Flat, gauges: Gauges) -> tuple[Flat, Gauges]:
        """Everybody's figures and gauges, ``flat`` and ``gauges`` being this worker's own."""
        if self._folder is None:
            return flat, gauges
        self.share(flat, gauges)
        written = [_decode(file.read_bytes()) for file in sorted(self._folder.glob("*.figures"))]
        fresh = [each.gauges for each in written if each.at > time.time() - _FRESH_SECONDS]
        return added(each.flat for each in written), Gauges(*map(sum, zip(*fresh, strict=True)))


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
