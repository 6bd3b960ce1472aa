"""Small disks that can be filled. They need the right to mount."""

import contextlib
import subprocess
from pathlib import Path


def mount(disk: Path, *, megabytes: int) -> bool:
    """Mount a disk of that size, and return whether this was allowed."""
    disk.mkdir(parents=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk))
    return not subprocess.run(words, capture_output=True, check=False).returncode


def unmount(disk: Path) -> None:
    """Unmount the disk, even while files on it are open."""
    subprocess.run(("umount", "-l", str(disk)), capture_output=True, check=False)


def fill(disk: Path) -> Path:
    """Fill the disk with a file, and return the file's path; removing the file makes room again."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
