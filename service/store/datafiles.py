"""The files of the embedded store, looked at while it runs.

A server whose directory was deleted or moved writes on into files without a name, and everything in them is lost when it
ends. It does not notice; so whoever asks it to write looks at the files.
"""

from pathlib import Path

VARIABLE = "_SASH_STORE_FILES"
"""Tells worker processes which files belong to the store that their parent started."""

_FOLDER = "appendonlydir"
_MANIFEST = "appendonly.aof.manifest"
_ATTEMPTS = 3  # a rewrite of the file puts another manifest in place, and then deletes what the one before named


def identify(data_dir: Path) -> str:
    """The identity of a data directory's append-only files while the store runs there: device, inode and path."""
    folder = data_dir.absolute() / _FOLDER
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}:{folder}"


def folder_of(identity: str) -> Path | None:
    """The data directory of the files called ``identity``; None where none are meant."""
    return Path(identity.split(":", 2)[2]).parent if identity else None


def missing(identity: str) -> str:
    """What is wrong with the files called ``identity``, and what to do; empty when they are there, or none are meant."""
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
    """Whether every file that the manifest names is there."""
    lines = (folder / _MANIFEST).read_text("utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("file ")]
    return bool(words) and all((folder / each[1]).exists() for each in words if each[-1] != "h")
