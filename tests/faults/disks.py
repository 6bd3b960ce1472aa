"""Small disks that can be filled. They need the right to mount."""

import contextlib
import subprocess
from pathlib import Path


def mount(disk: Path, *, megabytes: int) -> bool:
    """Make a disk of that size; whether that is allowed here."""
    disk.mkdir(parents=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk))
    return not subprocess.run(words, capture_output=True, check=False).returncode


def unmount(disk: Path) -> None:
    """Take it away, whoever still has files open on it."""
    subprocess.run(("umount", "-l", str(disk)), capture_output=True, check=False)


def fill(disk: Path) -> Path:
    """Fill the disk to its last byte with a file, whose removal makes room again."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast
