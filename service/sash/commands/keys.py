"""``sash keys``: API keys, the keys of encryption at rest, and the check of the latter by ``sash doctor``."""

import base64
import secrets
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from os import environ
from typing import TYPE_CHECKING

import click

from sash.commands.store import refuse, with_running_store, with_store
from sash.commands.terminal import Number
from sash.core.chat.bounds import IDS
from sash.problems import StoreUnavailable
from sash.settings import Settings
from sash.store.redis.findings import Finding

if TYPE_CHECKING:
    from sash.store.data.datakeys import DataKeys, KeyReport, Rewrapped
    from sash.store.redis.client import Client


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
    from sash.store.data.api_keys import ApiKeys  # noqa: PLC0415 - help needs no store
    from sash.store.data.entries import wall_ms  # noqa: PLC0415

    if not IDS.fullmatch(tenant):
        raise click.BadParameter("letters, digits, . _ -, at most 128", param_hint="--tenant")
    made_ms = wall_ms()
    key, kept = with_store(
        lambda client, _: ApiKeys(client).create(tenant, made_ms, rate=rate, max_body_bytes=max_body_bytes)
    )
    click.echo(key)
    click.echo(f"sash: key {kept.id} of tenant {tenant}; keep it now, only its hash is stored", err=True)
    if Settings.read({**environ, "SASH_HOST": "127.0.0.1"}).anonymous:
        said = (
            "no key is required until the service runs with SASH_REQUIRE_KEYS=1; whoever sends none is tenant default"
        )
        click.echo(f"sash: {said}", err=True)


@keys.command("list")
@click.option("--tenant", help="List only this tenant's keys.")
def list_(tenant: str | None) -> None:
    """List the keys by id, tenant and date, without the keys themselves."""
    from sash.store.data.api_keys import ApiKeys  # noqa: PLC0415

    for each in with_store(lambda client, _: ApiKeys(client).all()):
        if tenant in {None, each.tenant}:
            made = datetime.fromtimestamp(each.created_ms / 1000, UTC).isoformat(timespec="seconds")
            limits = [f"{each.rate:g}/s"] if each.rate else []
            limits += [f"{each.max_body_bytes} bytes"] if each.max_body_bytes else []
            click.echo("  ".join((each.id, each.tenant, made, *limits)))


@keys.command()
@click.argument("identity", metavar="ID")
def revoke(identity: str) -> None:
    """Revoke the key with this id. It stops working within five seconds."""
    from sash.store.data.api_keys import ApiKeys  # noqa: PLC0415

    if not with_store(lambda client, _: ApiKeys(client).revoke(identity)):
        click.echo(f"sash: there is no key {identity}", err=True)
        sys.exit(1)


@keys.command()
def master() -> None:
    """Print a new master key for SASH_ENCRYPTION_KEY. Sash does not keep it."""
    click.echo(base64.b64encode(secrets.token_bytes(32)).decode())


@keys.command()
@click.option("--tenant", help="Only this tenant's. [default: every tenant's]")
def rotate(tenant: str | None) -> None:
    """Make a new data key, which encrypts from now on. Older values stay readable."""

    async def act(client: "Client", settings: Settings) -> list[tuple[str, str]]:
        data_keys = _data_keys(client, settings)
        tenants = await data_keys.tenants()
        if tenant is not None and tenant not in tenants:
            refuse([f"tenant {tenant} has no data key yet: the first message makes one"])
        return [(each, await data_keys.rotate(each)) for each in ([tenant] if tenant is not None else tenants)]

    for name, identity in with_store(act):
        click.echo(f"{name}  {identity}")
    click.echo("sash: the service encrypts with the new keys within ten seconds", err=True)


@keys.command()
def rewrap() -> None:
    """Wrap all tenants' keys with the first key of SASH_ENCRYPTION_KEY.

    Then the other keys of SASH_ENCRYPTION_KEY can be removed.
    """

    async def act(client: "Client", settings: Settings) -> "list[Rewrapped]":
        return [done async for done in _data_keys(client, settings).rewrap()]

    for done in with_store(act):
        click.echo(f"{done.tenant}  {done.keys}")
        if done.unlisted:
            click.echo(
                f"sash: tenant {done.tenant} was missing from the list of tenants with keys, and is listed again",
                err=True,
            )
    click.echo("sash: every key is wrapped by the first master key now", err=True)


def check_keys(settings: Settings) -> Iterator[Finding]:
    """Yield whether keys are required; advice if the store has keys and the service answers without one, too."""
    from sash.store.data.api_keys import ApiKeys  # noqa: PLC0415

    if not settings.anonymous:
        yield Finding("API keys", "good", "a key is required")
        return
    try:
        kept = with_running_store(settings, lambda client, _: ApiKeys(client).all()) or []
    except StoreUnavailable:  # another finding reports it
        return
    if kept:
        found = f"{len(kept)} in the store, and none is required: whoever sends none is answered too"
        yield Finding("API keys", "advice", found, "set SASH_REQUIRE_KEYS=1")


def check_encryption(settings: Settings) -> Iterator[Finding]:
    """Yield whether the keys of the settings can decrypt the stored values; nothing if no key is set and none is needed."""
    from sash.store.data.sealing import Master  # noqa: PLC0415

    async def act(client: "Client", _: Settings) -> "list[KeyReport]":
        from sash.store.data.datakeys import DataKeys  # noqa: PLC0415

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
    data_keys = sum(report.data_keys for report in reports)
    found = f"{len(reports)} tenants, {data_keys} data keys" + (f", master key {masters[0]}" if masters else "")
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


def _data_keys(client: "Client", settings: Settings) -> "DataKeys":
    from sash.store.data.datakeys import DataKeys  # noqa: PLC0415 - help needs no store

    if not settings.encryption_key:
        refuse(["set SASH_ENCRYPTION_KEY to the service's value; sash keys master makes a first key"])
    return DataKeys(client, settings.encryption_key)
