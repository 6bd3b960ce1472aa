"""What commands share that work on a deployment's store, beside the service."""

import asyncio
import sys
from os import environ
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from service.problems import Problem, StoreUnavailable
from service.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from service.store.client import Client

T = TypeVar("T")


def with_store(act: "Callable[[Client, Settings], Awaitable[T]]") -> T:
    """What ``act`` gives, on the store of the settings; an embedded one is joined when it runs, or run for this.

    Where that cannot be, a line for each thing that is wrong, and exit status 2.
    """
    from service.store.embedded import (  # noqa: PLC0415 - help needs no store
        DataDirectoryBusy,
        EmbeddedStore,
        EmbeddedStoreFailed,
    )

    try:
        # Making the first key is what a host that others can reach waits for: its absence is no mistake here.
        settings = Settings.read({**environ, "SASH_REQUIRE_KEYS": "1"})
        url = running_store(settings)
        if url is not None:
            try:
                return asyncio.run(act_on(url, settings, act))
            except StoreUnavailable:
                if settings.redis_url is not None:
                    raise
                # The socket was left behind by a server that was killed.
        with EmbeddedStore(settings.data_dir) as store:
            return asyncio.run(act_on(store.url, settings, act))
    except SettingsError as error:
        refuse(error.lines)
    except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
        refuse([str(error)])
    except Problem as problem:
        refuse([problem.detail])


def running_store(settings: Settings) -> str | None:
    """Where the store is, unless it is an embedded one that does not run."""
    from service.store.embedded import socket_url  # noqa: PLC0415

    return settings.redis_url or socket_url(settings.data_dir)


def refuse(lines: "Iterable[str]") -> NoReturn:
    """Say what is wrong, and end with exit status 2."""
    for line in lines:
        click.echo(f"sash: {line}", err=True)
    sys.exit(2)


async def act_on(url: str, settings: Settings, act: "Callable[[Client, Settings], Awaitable[T]]") -> T:
    """What ``act`` gives on the store at ``url``."""
    from service.store.client import Client  # noqa: PLC0415

    client = Client(url, timeout_seconds=3, connections=1)
    await client.open()
    try:
        return await act(client, settings)
    finally:
        await client.close()
