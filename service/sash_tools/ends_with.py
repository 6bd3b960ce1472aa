"""Runs a command until it ends, or until standard input does: then whoever has the other end of the pipe is gone.

``sash migrate`` starts services so, also those of older versions: none is left on a data folder when it is killed.
"""

import os
import subprocess
import sys
import threading


def main() -> int:  # pragma: no cover - a process of its own
    """Return the exit status of the command in the arguments."""
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)  # noqa: S603 - the caller's own

    def end() -> None:
        os.read(0, 1)  # not ``sys.stdin``, whose lock would abort this process where the command ends first
        child.terminate()

    threading.Thread(target=end, daemon=True).start()
    return child.wait()


if __name__ == "__main__":  # pragma: no cover - as above
    sys.exit(main())
