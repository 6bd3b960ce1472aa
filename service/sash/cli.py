"""The command line: ``sash serve``, and the commands that need no server."""

import os
import sys

import click

from sash import __version__
from sash.commands.config import config
from sash.commands.doctor import doctor
from sash.commands.keys import keys
from sash.commands.logs import logs_hash
from sash.commands.store import read_settings, refuse
from sash.settings import SettingsError
from sash_tools.count import count
from sash_tools.migrate import migrate
from sash_tools.replay import replay
from sash_tools.transfer import export, import_
from sash_tools.truth import truth
from sash_tools.window_command import window

_NOT_ON_WINDOWS = (
    "sash serve and its embedded store run on Linux and macOS. On Windows run it in WSL or a container, or mount it in an "
    "application of your own with SASH_REDIS_URL (deploy/README.md, Installing)."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sash")
@click.pass_context
def main(context: click.Context) -> None:
    """Sash stores chat conversations and returns the window of messages that fits the model."""
    if sys.stdout is None and context.invoked_subcommand != "serve":  # Python's answer to a closed descriptor
        raise click.ClickException("standard output is closed; >/dev/null discards what is printed")


@main.command()
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", help="Port to listen on; 0 for a free one. [default: 8000]")
@click.option("--data-dir", help="Folder of the embedded store's data. [default: ./sash-data]")
@click.option("--workers", help="Worker processes. [default: 1]")
def serve(**options: str | None) -> None:
    """Run the service. Without SASH_REDIS_URL, also run the embedded store.

    \b
    Exit statuses:
      0  stopped on request
      1  the embedded store could not start, or its folder cannot be used
      2  a setting cannot be used, such as a port that is in use
      3  a worker ended again within seconds of its start
      4  the disk did not take all that the embedded store had acknowledged
    """
    try:
        from sash.serve import run  # noqa: PLC0415 - the other commands start faster without this import
    except ModuleNotFoundError as missing:
        if missing.name not in {"fcntl", "resource"}:  # of Python on POSIX systems
            raise
        refuse((_NOT_ON_WINDOWS,))

    given = {f"SASH_{name.upper()}": value for name, value in options.items() if value is not None}
    try:
        settings = read_settings({**os.environ, **given})
    except SettingsError as error:
        refuse(error.lines)
    sys.exit(run(settings))


@main.command()
def openapi() -> None:
    """Print the OpenAPI document of this version."""
    from sash.api.openapi import document  # noqa: PLC0415
    from sash.app import ROUTES  # noqa: PLC0415

    sys.stdout.buffer.write(document(ROUTES))


for command in (window, count, import_, export, keys, config, doctor, logs_hash, migrate, truth, replay):
    main.add_command(command)
