"""The commands ``sash`` and ``python -m sash``."""

import errno
import sys

from sash.extras import how_to_install


def _run() -> None:
    """Run the command line. Without the extra ``server``, print the command that installs it."""
    try:
        from sash.cli import main as run  # noqa: PLC0415 - an installation of the client adapters only has no click
    except ModuleNotFoundError as missing:
        sys.exit(f"sash: {missing.name} is not installed: {how_to_install('server')}")
    try:
        run()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.exit(f"sash: {error.strerror}")


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, also while its modules are imported."""
    try:
        _run()
    except KeyboardInterrupt:
        sys.exit("Aborted!")  # click's word


if __name__ == "__main__":
    main()
