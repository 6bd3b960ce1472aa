"""Keep room on the embedded store's disk, so that a full disk refuses writes, and costs neither reads nor data.

::

    sash.reserve     16 MiB, or a sixteenth of a small disk: there while the disk has room
    sash.erasures    half as much: there while there is no need of it, of which erasures take a piece at a time

A store that cannot write to its append-only file ends (``appendfsync always``), or keeps what it acknowledged in memory
(``everysec``). So the process that runs the store removes the reserve when the disk has less room than the reserve takes.
The store can then still write what it acknowledged, and erasures. The workers see that the reserve is gone, and refuse all
other writes. It comes back when the disk has three times its size.

Others may take the room that the reserve gave back. So erasures have a reserve of their own: where less than a piece of it
is free, a worker cuts a piece off the file right before it sends an erasure. They are refused once all of it is used.
"""

import contextlib
import os
from pathlib import Path

import msgspec

_NAME, _OF_ERASURES = "sash.reserve", "sash.erasures"
_LARGEST_BYTES = 16 << 20
_SHARE = 16  # of the disk: one part in so many
_BACK = 3  # times the reserve's size must be free before it comes back
_PIECE_BYTES = 256 << 10
"""With less than this, erasures are refused too: one that does not fit would end the store."""


class Shortage(msgspec.Struct, frozen=True):
    """Why a full disk refuses writes, and whether it also refuses those that erase."""

    why: str
    erasures: bool = False


class Reserve:
    """The reserve of one data directory; only the process that runs its store changes it."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / _NAME

    def keep(self) -> None:
        """Remove the reserve where the disk is nearly full, or make it again where there is room."""
        with contextlib.suppress(OSError):  # such as a data directory that was moved away; the workers see that
            free_bytes, size_bytes = _sizes(self._path.parent)
            if self._path.exists():
                if free_bytes < size_bytes:
                    self.release()
            elif free_bytes >= _BACK * size_bytes:
                _make(self._path, size_bytes)
            of_erasures = self._path.with_name(_OF_ERASURES)
            if free_bytes >= _BACK * size_bytes and _size(of_erasures) < size_bytes // 2:
                _make(of_erasures, size_bytes // 2)

    def release(self) -> None:
        """Give the reserve's room to the store."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def _make(path: Path, size_bytes: int) -> None:
    """Make a file of this size, or none."""
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _allocate(made, size_bytes)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
    finally:
        os.close(made)


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 where there is none."""
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def shortage(data_dir: Path | None) -> Shortage | None:
    """Return why the disk of a running store refuses writes; None where it has room, or there is no such directory."""
    if data_dir is None or (data_dir / _NAME).exists():
        return None
    try:
        free_bytes, size_bytes = _sizes(data_dir)
    except OSError:
        return None
    megabytes = -(-_BACK * size_bytes // 1_000_000)
    why = (
        f"the disk of {data_dir} is full, {free_bytes / 1e6:,.1f} MB are free: make room there, writes begin again by "
        f"themselves with {megabytes} MB"
    )
    return Shortage(why, erasures=free_bytes < _PIECE_BYTES and not _size(data_dir / _OF_ERASURES))


def make_room(data_dir: Path | None) -> None:
    """Make room for an erasure on a full disk, of the reserve that only erasures have."""
    if data_dir is None:
        return
    with contextlib.suppress(OSError):  # such as another worker that cuts it, too: the next erasure looks again
        free_bytes, _ = _sizes(data_dir)
        path = data_dir / _OF_ERASURES
        left = _size(path)
        if free_bytes < _PIECE_BYTES and left:
            os.truncate(path, max(0, left - _PIECE_BYTES))


def _sizes(folder: Path) -> tuple[int, int]:
    """Return the free bytes of a folder's disk, and the size of its reserve."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, min(_LARGEST_BYTES, found.f_blocks * found.f_frsize // _SHARE)


def _allocate(file: int, size_bytes: int) -> None:
    """Give a file blocks of the disk. Raises OSError where there are too few."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size_bytes)
        return
    for start in range(0, size_bytes, 1 << 20):  # macOS
        os.pwrite(file, bytes(min(1 << 20, size_bytes - start)), start)
