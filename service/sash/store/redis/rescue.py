"""Keep what a full disk did not take: a snapshot of the running store elsewhere, which the next start puts in place.

A store that acknowledges before it writes (``everysec``) may hold acknowledged data that its disk does not take, even with
the reserve's room. Before it is stopped, all of its data is read as a replica reads it, and written to the system's folder
for temporary files. The file's name follows from the data directory, so that the next start finds it.
"""

import contextlib
import os
import shutil
import socket
import stat
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final

_FOLDER: Final = "appendonlydir"
_BASE: Final = "appendonly.aof.1.base.rdb"
_MARK_BYTES: Final = 40  # the end of a snapshot of unknown length, which its first line names
_CHUNK_BYTES: Final = 1 << 20


def place_of(data_dir: Path) -> Path:
    """Return where the snapshot of a data directory is kept."""
    name = blake2b(str(data_dir.resolve()).encode(), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"sash-{os.getuid()}-{name}.rdb"


def keep(socket_path: Path, data_dir: Path, timeout_seconds: float) -> Path:
    """Write all data of a running store to ``place_of`` its directory, synced. Raises OSError where it cannot be written."""
    place = place_of(data_dir)
    part = place.with_suffix(".part")
    part.unlink(missing_ok=True)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_seconds)
            connection.connect(str(socket_path))
            for words in (b"CONFIG SET repl-diskless-sync yes repl-diskless-sync-delay 0", b"REPLCONF capa eof"):
                connection.sendall(words + b"\r\n")
                connection.recv(_CHUNK_BYTES)  # a replica may only begin when nothing is left to be read
            connection.sendall(b"SYNC\r\n")
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "wb") as written:
                _copy(connection, written, time.monotonic() + timeout_seconds)
                written.flush()
                os.fsync(written.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    return place


def is_newest(data_dir: Path) -> None:
    """Note that the server has ended since: it may have tried once more to write to its files."""
    with contextlib.suppress(OSError):
        os.utime(place_of(data_dir))


def adopt(data_dir: Path) -> Path | None:
    """Put a kept snapshot in the place of a directory's files, which have less. Returns where it was kept; None without one.

    Raises:
        OSError: the snapshot does not fit on the disk; it stays where it is.
        FileExistsError: the directory was written to since, so it is not clear which has more.
    """
    place, folder = place_of(data_dir), data_dir / _FOLDER
    if not _is_ours(place):
        return None
    if any(each.stat().st_mtime > place.stat().st_mtime for each in folder.glob("*.aof")):
        raise FileExistsError(
            f"{place} was kept at a stop, and {folder} was changed since: move away the one that has less"
        )
    new = data_dir / f"{_FOLDER}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700, parents=True)
    try:
        shutil.copyfile(place, new / _BASE)
        (new / "appendonly.aof.manifest").write_text(f"file {_BASE} seq 1 type b\n")
        for path in (new / _BASE, new / "appendonly.aof.manifest", new):
            _sync(path)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    _sync(data_dir)
    place.unlink()
    return place


def _is_ours(place: Path) -> bool:
    """Return whether a file is there that this user wrote: anybody may write to the folder."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _copy(connection: socket.socket, written: BinaryIO, until: float) -> None:
    """Copy a snapshot from its first line, ``$EOF:`` and a mark, to that mark."""
    held = bytearray()
    mark = b""
    while not mark:
        line, found, rest = held.partition(b"\n")
        if not found:
            held += _received(connection, until)
        elif line.startswith(b"$EOF:"):
            mark, held = bytes(line[5:].strip()), bytearray(rest)
        elif line.startswith((b"-", b"$")):
            raise OSError(f"the store gives no snapshot: {line.decode(errors='replace').strip()}")
        else:
            held = bytearray(rest)
    while (end := held.find(mark)) < 0:  # changes may follow the mark
        written.write(held[:-_MARK_BYTES])
        del held[:-_MARK_BYTES]
        held += _received(connection, until)
    written.write(held[:end])


def _received(connection: socket.socket, until: float) -> bytes:
    received = connection.recv(_CHUNK_BYTES)
    if not received or time.monotonic() > until:
        raise OSError("the store's snapshot broke off")
    return received
