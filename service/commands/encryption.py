"""Keys of encryption at rest: ``sash keys master``, ``rotate`` and ``rewrap``, and the check of ``sash doctor``."""

import base64
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from service.commands.store import refuse, with_running_store, with_store
from service.problems import StoreUnavailable
from service.store.findings import Finding

if TYPE_CHECKING:
    from service.settings import Settings
    from service.store.client import Client
    from service.store.datakeys import DataKeys, KeyReport, Rewrapped


@click.command()
def master() -> None:
    """Print a new master key for SASH_ENCRYPTION_KEY. Sash does not keep it."""
    click.echo(base64.b64encode(secrets.token_bytes(32)).decode())


@click.command()
@click.option("--tenant", help="Only this tenant's. [default: every tenant's]")
def rotate(tenant: str | None) -> None:
    """Make a new data key, which encrypts from now on. Older values stay readable."""

    async def act(client: "Client", settings: "Settings") -> list[tuple[str, str]]:
        keys = _data_keys(client, settings)
        tenants = await keys.tenants()
        if tenant is not None and tenant not in tenants:
            refuse([f"tenant {tenant} has no data key yet: the first message makes one"])
        return [(each, await keys.rotate(each)) for each in ([tenant] if tenant is not None else tenants)]

    for name, identity in with_store(act):
        click.echo(f"{name}  {identity}")
    click.echo("sash: the service encrypts with the new keys within ten seconds", err=True)


@click.command()
def rewrap() -> None:
    """Wrap all tenants' keys with the first key of SASH_ENCRYPTION_KEY.

    Then the other keys of SASH_ENCRYPTION_KEY can be removed.
    """

    async def act(client: "Client", settings: "Settings") -> "list[Rewrapped]":
        return [done async for done in _data_keys(client, settings).rewrap()]

    for done in with_store(act):
        click.echo(f"{done.tenant}  {done.keys}")
        if done.unlisted:
            click.echo(
                f"sash: tenant {done.tenant} was missing from the list of tenants with keys, and is listed again",
                err=True,
            )
    click.echo("sash: every key is wrapped by the first master key now", err=True)


def check_encryption(settings: "Settings") -> Iterator[Finding]:
    """Yield whether the keys of the settings can decrypt the stored values; nothing if no key is set and none is needed."""
    from service.store.sealing import Master  # noqa: PLC0415

    async def act(client: "Client", _: "Settings") -> "list[KeyReport]":
        from service.store.datakeys import DataKeys  # noqa: PLC0415

        return [report async for report in DataKeys(client, settings.encryption_key).reports()]

    masters = [Master(key).id.hex() for key in settings.encryption_key]
    try:
        reports = with_running_store(settings, act) or []
    except StoreUnavailable as why:  # another finding reports that the store cannot be reached
        if "+scan" in why.detail:
            yield Finding("encryption", "problem", why.detail, "ACL SETUSER the store's user with +scan")
        return
    if not masters and not reports:
        return
    keys = sum(report.data_keys for report in reports)
    found = f"{len(reports)} tenants, {keys} data keys" + (f", master key {masters[0]}" if masters else "")
    locked = [report for report in reports if report.locked]
    unlisted = sum(report.unlisted for report in reports)
    needed = {master for report in reports for master in report.masters}
    if not masters:
        yield Finding("encryption", "problem", f"{found}, and no key is set", "set SASH_ENCRYPTION_KEY")
    elif missing := sorted(needed - set(masters)):
        change = f"add master key {missing[0]} to SASH_ENCRYPTION_KEY"
        yield Finding("encryption", "problem", f"{found}; keys of {len(locked)} tenants are wrapped by another", change)
    elif locked:
        change = f"put the keys of tenant {locked[0].tenant} back from a backup of the store"
        yield Finding("encryption", "problem", f"{found}; keys of {len(locked)} tenants were changed", change)
    elif unlisted:
        found += f"; {unlisted} of the tenants are missing from the list of tenants with keys"
        yield Finding("encryption", "advice", found, "sash keys rewrap")
    elif needed - {masters[0]}:
        yield Finding("encryption", "advice", f"{found}; some are wrapped by an older one", "sash keys rewrap")
    else:
        yield Finding("encryption", "good", found)


def _data_keys(client: "Client", settings: "Settings") -> "DataKeys":
    from service.store.datakeys import DataKeys  # noqa: PLC0415 - help needs no store

    if not settings.encryption_key:
        refuse(["set SASH_ENCRYPTION_KEY to the service's value; sash keys master makes a first key"])
    return DataKeys(client, settings.encryption_key)
