"""sash, and python -m service"""

import sys


def main() -> None:
    """Run the command line; without the extra ``server``, say what to install."""
    try:
        from service.cli import main as run  # noqa: PLC0415 - a client that installs adapters alone has no click
    except ModuleNotFoundError as missing:
        sys.exit(
            f"sash: {missing.name} is not installed: pip install 'sash[server]' brings the server and its commands"
        )
    run()


if __name__ == "__main__":
    main()
