"""``sash config``: which settings are in force, and where each is from."""

import os
from typing import Any

import click

from sash.commands.store import read_settings, refuse
from sash.settings import GROUPS, SettingsError, mask_url


@click.command()
@click.option("--changed", is_flag=True, help="Print those alone that the environment has.")
def config(*, changed: bool) -> None:
    """Print the settings in force, by who needs them, and whether each is from the environment or a default, and why.

    A secret is printed as ***, and a URL without its password. Ends with status 2 where a setting cannot be used.
    """
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        refuse(error.lines)
    for group in GROUPS:
        if not changed:
            click.echo(f"# {group.title}: for {group.who}")
        for variable in group.variables:
            is_given = bool(os.environ.get(variable.name, "").strip())
            if is_given or not changed:
                value = getattr(settings, variable.field)
                shown = "***" if variable.secret and value else _shown(value)
                click.echo(f"{variable.name}={shown}  # {'environment' if is_given else f'default: {variable.why}'}")


def _shown(value: Any) -> str:
    """A value as its variable is written; empty for none."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple() | frozenset():
            return ",".join(sorted(map(str, value)))
        case _:
            return mask_url(str(value))
