"""``sash keys``: make, list and revoke API keys while the service runs, and change the keys of encryption at rest."""

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from service.commands.encryption import master, rewrap, rotate
from service.commands.store import with_store
from service.commands.terminal import Number
from service.core.bounds import IDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.settings import Settings
    from service.store.client import Client
    from service.store.keys import ApiKeys

T = TypeVar("T")


@click.group()
def keys() -> None:
    """API keys, and the keys of encryption at rest.

    The store keeps API keys as hashes. A service with SASH_REQUIRE_KEYS=1 or SASH_API_KEYS requires a key.
    """


@keys.command()
@click.option("--tenant", required=True, help="Tenant whose conversations the key opens.")
@click.option("--rate", type=Number(0.01, 1_000_000), help="Requests a second, in place of SASH_RATE_LIMIT.")
@click.option(
    "--max-body-bytes",
    type=click.IntRange(1024),
    help="Largest body, except an import's, if smaller than SASH_MAX_BODY_BYTES.",
)
def create(tenant: str, rate: float | None, max_body_bytes: int | None) -> None:
    """Make a key and print it. It is shown only once."""
    if not IDS.fullmatch(tenant):
        raise click.BadParameter("letters, digits, . _ -, at most 128", param_hint="--tenant")
    now_ms = time.time_ns() // 1_000_000
    key, kept = _with_keys(lambda stored: stored.create(tenant, now_ms, rate=rate, max_body_bytes=max_body_bytes))
    click.echo(key)
    click.echo(f"sash: key {kept.id} of tenant {tenant}; keep it now, only its hash is stored", err=True)


@keys.command("list")
@click.option("--tenant", help="List only this tenant's keys.")
def list_(tenant: str | None) -> None:
    """List the keys by id, tenant and date, without the keys themselves."""
    for each in _with_keys(lambda stored: stored.all()):
        if tenant in {None, each.tenant}:
            made = datetime.fromtimestamp(each.created_ms / 1000, UTC).isoformat(timespec="seconds")
            limits = [f"{each.rate:g}/s"] if each.rate else []
            limits += [f"{each.max_body_bytes} bytes"] if each.max_body_bytes else []
            click.echo("  ".join((each.id, each.tenant, made, *limits)))


@keys.command()
@click.argument("identity", metavar="ID")
def revoke(identity: str) -> None:
    """Revoke the key with this id. It stops working within five seconds."""
    if not _with_keys(lambda stored: stored.revoke(identity)):
        click.echo(f"sash: there is no key {identity}", err=True)
        sys.exit(1)


def _with_keys(act: "Callable[[ApiKeys], Awaitable[T]]") -> T:
    """Return the result of ``act`` on the API keys of the deployment's store."""
    from service.store.keys import ApiKeys  # noqa: PLC0415 - help needs no store

    async def on_keys(client: "Client", _: "Settings") -> T:
        return await act(ApiKeys(client))

    return with_store(on_keys)


for command in (master, rotate, rewrap):
    keys.add_command(command)
