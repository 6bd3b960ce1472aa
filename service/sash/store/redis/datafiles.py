"""Check the files of the embedded store while it runs.

A server whose directory was deleted or moved does not notice. It goes on writing to files without a name, and all of their
content is lost when it ends. So the files are checked before a write.
"""

from pathlib import Path

VARIABLE = "_SASH_STORE_FILES"
"""The environment variable with the identity of the store's files, set for worker processes by their parent."""

_FOLDER = "appendonlydir"
_MANIFEST = "appendonly.aof.manifest"
_ATTEMPTS = 3  # between two steps of a check, a rewrite may put a new manifest in place and delete the older files


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
    lines = (folder / _MANIFEST).read_text("utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("file ")]
    return bool(words) and all((folder / each[1]).exists() for each in words if each[-1] != "h")
