"""``sash migrate``: the command; ``migration`` does it."""

import shlex
import sys
from typing import Final

import click

from sash.commands.source_error import SourceError
from sash.commands.terminal import plain_errors, print_json, shape_option, wants_json
from sash_tools.transfer import shown_failures

_SHOWN: Final = 10
_OWN: Final = f"{shlex.quote(sys.executable)} -m sash"


@click.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--old-sash", metavar="COMMAND", default=_OWN, help="The sash of the version that wrote OLD, if OLD is a folder."
)
@click.option("--old-key-file", metavar="FILE", help="File with the API key of OLD, if it is a URL.")
@click.option("--new-key-file", metavar="FILE", help="File with the API key of NEW, if it is a URL.")
@click.option("--swap", "swaps", is_flag=True, help="Then give NEW the name of OLD, and OLD the name OLD.before.")
@shape_option
def migrate(
    old: str,
    new: str,
    *,
    old_sash: str,
    old_key_file: str | None,
    new_key_file: str | None,
    swaps: bool,
    as_json: bool | None,
) -> None:
    """Take all conversations from OLD to NEW, each a data folder or the URL of a running service.

    OLD is served by the version that wrote it, NEW by this one. Nothing in OLD is changed. A second run goes on where the
    first ended. Keys of `sash keys`, statistics and the corrections of estimates are not taken over.

    \b
      sash migrate sash-data sash-data.new --old-sash /opt/sash-old/bin/sash --swap
    """
    with plain_errors():
        from sash_tools.migration import Place, migrated_between, swap  # noqa: PLC0415 - help needs no client

        source, target = Place(old, old_sash, old_key_file), Place(new, _OWN, new_key_file)
        if swaps and (source.folder is None or target.folder is None):
            raise click.UsageError("--swap is for two folders.")
        if source.folder and target.folder and source.folder.resolve() == target.folder.resolve():
            raise click.UsageError("OLD and NEW are the same folder.")
        if source.folder is not None and not (source.folder / "appendonlydir").is_dir():
            raise SourceError(f"{old} is no data folder: it has no appendonlydir")
        migrated = migrated_between(source, target)
        if swaps and not (migrated.failed or migrated.alone):
            swap(source.folder, target.folder)  # type: ignore[arg-type] # both are folders, as above
    if wants_json(as_json):
        print_json(migrated)
    else:
        click.echo(
            f"{migrated.conversations} conversations of {migrated.tenants} tenants are in {new}, {migrated.present} of them "
            f"since before; {migrated.messages} messages were sent"
        )
    if migrated.alone:
        click.echo(f"sash: only in {new}, begun there, or erased in {old} since a run before:", err=True)
        click.echo("".join(f"  {each}\n" for each in migrated.alone[:_SHOWN]), err=True, nl=False)
        if swaps:
            click.echo("sash: nothing was swapped: erase them there, or take an empty folder", err=True)
            sys.exit(1)
    if migrated.failed:
        shown_failures(migrated.failed, migrated.conversations + len(migrated.failed), ": run it again")
        sys.exit(1)
