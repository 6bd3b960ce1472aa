"""``sash keys``: make, list and revoke API keys while the service runs."""

import asyncio
import re
import sys
import time
from datetime import UTC, datetime
from os import environ
from typing import TYPE_CHECKING, TypeVar

import click

from service.problems import Problem
from service.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.store.keys import ApiKeys

T = TypeVar("T")
_TENANT = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


@click.group()
def keys() -> None:
    """API keys, kept in the store as hashes; a service with SASH_REQUIRE_KEYS=1 or SASH_API_KEYS asks for one."""


@keys.command()
@click.option("--tenant", required=True, help="Whose conversations the key opens.")
def create(tenant: str) -> None:
    """Make a key and print it; it is shown this once."""
    if not re.fullmatch(_TENANT, tenant):
        raise click.BadParameter("letters, digits, . _ -, at most 128", param_hint="--tenant")
    key, kept = _with_keys(lambda stored: stored.create(tenant, time.time_ns() // 1_000_000))
    click.echo(key)
    click.echo(f"sash: key {kept.id} of tenant {tenant}; keep it now, only its hash is stored", err=True)


@keys.command("list")
@click.option("--tenant", help="This tenant's alone.")
def list_(tenant: str | None) -> None:
    """List the keys: id, tenant, when it was made. Never the key."""
    for each in _with_keys(lambda stored: stored.all()):
        if tenant in {None, each.tenant}:
            made = datetime.fromtimestamp(each.created_ms / 1000, UTC).isoformat(timespec="seconds")
            click.echo(f"{each.id}  {each.tenant}  {made}")


@keys.command()
@click.argument("identity", metavar="ID")
def revoke(identity: str) -> None:
    """Revoke the key with this id, which opens nothing after five seconds."""
    if not _with_keys(lambda stored: stored.revoke(identity)):
        click.echo(f"sash: there is no key {identity}", err=True)
        sys.exit(1)


def _with_keys(act: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    """What ``act`` gives, on the store of the settings; an embedded one is joined when it runs, or run for this."""
    from service.store.embedded import (  # noqa: PLC0415 - help needs no store
        DataDirectoryBusy,
        EmbeddedStore,
        EmbeddedStoreFailed,
    )

    try:
        # Making the first key is what a host that others can reach waits for: its absence is no mistake here.
        settings = Settings.read({**environ, "SASH_REQUIRE_KEYS": "1"})
        if settings.redis_url is not None:
            return asyncio.run(_act(settings.redis_url, act))
        running = settings.data_dir.absolute() / "valkey.sock"
        if running.is_socket():
            try:
                return asyncio.run(_act(f"unix://{running}", act))
            except Problem:
                pass  # left behind by a server that was killed
        with EmbeddedStore(settings.data_dir) as store:
            return asyncio.run(_act(store.url, act))
    except SettingsError as error:
        lines = list(error.lines)
    except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
        lines = [str(error)]
    except Problem as problem:
        lines = [problem.detail]
    for line in lines:
        click.echo(f"sash: {line}", err=True)
    sys.exit(2)


async def _act(url: str, act: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    from service.store.client import Client  # noqa: PLC0415
    from service.store.keys import ApiKeys  # noqa: PLC0415

    client = Client(url, timeout_seconds=3, connections=1)
    await client.open()
    try:
        return await act(ApiKeys(client))
    finally:
        await client.close()
