"""Functions for commands that work on a deployment's store without the service."""

import asyncio
import sys
from os import environ
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from sash.problems import Problem, StoreUnavailable
from sash.settings import Settings, SettingsError, mask_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from sash.store.redis.client import Client

T = TypeVar("T")


def read_settings(variables: "Mapping[str, str]") -> Settings:
    """Return the settings. Raises SettingsError, also where redis-py cannot use the store's URL."""
    from sash.store.redis.addresses import mistake_in  # noqa: PLC0415 - help needs no store

    settings = Settings.read(variables)
    url = settings.redis_url
    if url is not None and (mistake := mistake_in(url)):
        raise SettingsError((f"SASH_REDIS_URL is {mask_url(url)!r}, which cannot be used: {mistake}",))
    return settings


def with_store(act: "Callable[[Client, Settings], Awaitable[T]]") -> T:
    """Return the result of ``act`` on the store of the settings. An embedded store is started unless it runs.

    If that fails, print a line for each fault, and exit with status 2. A data directory is made only if SASH_DATA_DIR
    names it.
    """
    from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed  # noqa: PLC0415 - help needs no store

    try:
        # A service on a public host waits for its first key, so a missing key is no fault here.
        settings = read_settings({**environ, "SASH_REQUIRE_KEYS": "1"})
        url = _running_store(settings)
        if url is not None:
            try:
                return asyncio.run(_act_on(url, settings, act))
            except StoreUnavailable:
                if settings.redis_url is not None:
                    raise
                # A killed server left its socket behind.
        elif not environ.get("SASH_DATA_DIR") and not settings.data_dir.exists():
            refuse([f"there is no {settings.data_dir} here: name the service's store, SASH_DATA_DIR or SASH_REDIS_URL"])
        with EmbeddedStore(settings.data_dir) as store:
            return asyncio.run(_act_on(store.url, settings, act))
    except SettingsError as error:
        refuse(error.lines)
    except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
        refuse([str(error)])
    except Problem as problem:
        refuse([problem.detail])


def with_running_store(settings: Settings, act: "Callable[[Client, Settings], Awaitable[T]]") -> T | None:
    """Return the result of ``act`` on the store of the settings; None for an embedded store that does not run.

    Raises what ``act`` raises, and StoreUnavailable.
    """
    url = _running_store(settings)
    return asyncio.run(_act_on(url, settings, act)) if url is not None else None


def _running_store(settings: Settings) -> str | None:
    """Return the store's URL; None for an embedded store that does not run."""
    from sash.store.redis.embedded import socket_url  # noqa: PLC0415

    return settings.redis_url or socket_url(settings.data_dir)


def refuse(lines: "Iterable[str]") -> NoReturn:
    """Print the faults, and exit with status 2."""
    for line in lines:
        click.echo(f"sash: {line}", err=True)
    sys.exit(2)


def on_store(url: str, act: "Callable[[Client], Awaitable[T]]") -> T:
    """Return the result of ``act`` on the store at ``url``. Raises what ``act`` raises, and StoreUnavailable."""
    return asyncio.run(_opened(url, act))


async def _act_on(url: str, settings: Settings, act: "Callable[[Client, Settings], Awaitable[T]]") -> T:
    return await _opened(url, lambda client: act(client, settings))


async def _opened(url: str, act: "Callable[[Client], Awaitable[T]]") -> T:
    from sash.store.redis.client import Client  # noqa: PLC0415

    client = Client(url, timeout_seconds=3, connections=1)
    await client.open()
    try:
        return await act(client)
    finally:
        await client.close()
