"""Check the files of the embedded store, before it starts and while it runs.

A server that finds no manifest of its append-only file starts empty, and overwrites what a backup had put there. So a
directory with data but without a manifest is refused.

A server whose directory was deleted or moved does not notice. It goes on writing to files without a name, and all of their
content is lost when it ends. So the files are checked before a write.
"""

from collections.abc import Iterator
from pathlib import Path

VARIABLE = "_SASH_STORE_FILES"
"""The environment variable with the identity of the store's files, set for worker processes by their parent."""

_FOLDER = "appendonlydir"
_MANIFEST = "appendonly.aof.manifest"
_RESTORE = "deploy/backups.md restores each kind of backup; or name an empty directory (SASH_DATA_DIR or --data-dir)"
_EMPTY_RDB_BYTES = 128
_ATTEMPTS = 3  # between two steps of a check, a rewrite may put a new manifest in place and delete the older files


def unreadable_data(data_dir: Path) -> str:
    """Return why a server would not load the data in a directory, and what to do; empty where it would, or there is none."""
    folder = data_dir / _FOLDER
    manifest = folder / _MANIFEST
    try:
        named = _names(manifest)
    except FileNotFoundError:
        found = next((path for path in _data_in(data_dir) if not _is_empty(path)), None)
        why = f"{found} is there and {manifest} is not, so the store would start empty and overwrite it"
        return f"{why}: {_RESTORE}" if found is not None else ""
    missing = next((folder / name for name in named if not (folder / name).exists()), None)
    if missing is not None:
        return f"{missing} is not there, and {manifest} names it: {_RESTORE}"
    return "" if named else f"{manifest} names no file: {_RESTORE}"


def _data_in(data_dir: Path) -> Iterator[Path]:
    """Yield the files with data in a directory, also where a copy put them a folder too high or too deep.

    A single ``appendonly.aof``, as servers wrote it before version 7, is not among them: the server takes it over.
    """
    for pattern in (f"{_FOLDER}/*.aof", f"{_FOLDER}/*.rdb", "*.rdb", "appendonly.aof.*", f"*/{_FOLDER}/*"):
        yield from sorted(path for path in data_dir.glob(pattern) if not path.name.startswith("temp-"))


def _is_empty(path: Path) -> bool:
    """Return whether a file is one of an empty store, as a first start that was killed leaves it."""
    return path.stat().st_size <= (_EMPTY_RDB_BYTES if path.suffix == ".rdb" else 0)


def identify(data_dir: Path) -> str:
    """Return the identity of a data directory's append-only files while the store runs: device, inode and path."""
    folder = data_dir.absolute() / _FOLDER
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}:{folder}"


def folder_of(identity: str) -> Path | None:
    """Return the data directory in ``identity``; None where ``identity`` is empty."""
    return Path(identity.split(":", 2)[2]).parent if identity else None


def missing(identity: str) -> str:
    """Return what is wrong with the files, and what to do; empty when they are there, or ``identity`` is empty."""
    if not identity:
        return ""
    device, inode, path = identity.split(":", 2)
    folder = Path(path)
    try:
        found = folder.stat()
        if (str(found.st_dev), str(found.st_ino)) == (device, inode) and any(_whole(folder) for _ in range(_ATTEMPTS)):
            return ""
    except (OSError, ValueError, IndexError):
        pass
    return (
        f"the store's files in {folder} were deleted, moved or replaced, and what it holds is lost when it ends: put "
        "them back if they were moved, else export what you need (reads go on) and start the service anew"
    )


def _whole(folder: Path) -> bool:
    """Return whether every file that the manifest names is there."""
    named = _names(folder / _MANIFEST)
    return bool(named) and all((folder / name).exists() for name in named)


def _names(manifest: Path) -> list[str]:
    """Return the files that a manifest names, without those that are history. Raises OSError."""
    words = [line.split() for line in manifest.read_text("utf-8").splitlines() if line.startswith("file ")]
    return [each[1] for each in words if each[-1] != "h"]
