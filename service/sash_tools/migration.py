"""``sash migrate``: take a deployment's conversations from one version's data to another's, by export and import beside.

::

    old folder ─ serve by the version that wrote it ─▶ export ─▶ import ─▶ serve by this version ─ new folder

Nothing is changed in the old folder, and nothing is deleted. A second run goes on: conversations that are in the new place
as they are in the old one are not sent again. What was erased, rewound or changed in the old place between two runs is as it
was in the new one. Nobody can tell it from what was written there, so it is left, and named.
"""

import contextlib
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import httpx2
import msgspec

from sash.commands.source_error import SourceError
from sash.commands.terminal import progress_bar
from sash_client.client import Ask, Sash, SashError
from sash_tools.history_file import read_conversations
from sash_tools.importing import ImportReport, is_unchanged, send
from sash_tools.server import ask, client_of, read_key, server_at
from sash_tools.transfer import CONFLICT, GONE, export_one, listed_ids

if TYPE_CHECKING:
    from redis import Redis

_START_SECONDS: Final = 900.0
_STOP_SECONDS: Final = 120.0
_SAID_SECONDS: Final = 10.0
_ENDS_WITH: Final = Path(__file__).with_name("ends_with.py")
_PASSING: Final = {"version", "etag", "updated_at", "expires_at", "tokens"}


class _Otherwise(Exception):  # noqa: N818 - it reads as what happened
    """A conversation is in the new place as it is not in the old one."""

    def __str__(self) -> str:
        return "it is otherwise in the new place: it changed since a run before. Erase it there, and run again"


class Migrated(msgspec.Struct):
    """The figures of a migration. ``present`` were in the new place before, as they are in the old one; ``alone`` are in the
    new one, and not in the old one."""

    tenants: int = 0
    conversations: int = 0
    present: int = 0
    messages: int = 0
    failed: list[str] = msgspec.field(default_factory=list)
    alone: list[str] = msgspec.field(default_factory=list)


class Place:
    """A data folder, served while it is read or written, or a service that runs already."""

    def __init__(self, where: str, sash: str, key_file: str | None) -> None:
        self.where = where
        self.folder = None if "://" in where else Path(where)
        self._url = where
        self._sash = sash
        self._key = read_key(key_file)
        self._keys: dict[str, str | None] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def serve(self, tenants: set[str]) -> None:
        """Serve a folder to these tenants; of a service the key names one. Raises SourceError if it does not begin."""
        self._keys = dict.fromkeys(tenants, self._key)
        if self.folder is None:
            return
        self._keys = {tenant: secrets.token_hex(16) for tenant in tenants}
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}"
        settings = {name: value for name, value in os.environ.items() if name not in {"SASH_REDIS_URL", "SASH_WORKERS"}}
        settings |= {"SASH_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in self._keys.items())}
        command = [*shlex.split(self._sash), "serve", "--data-dir", str(self.folder.absolute()), "--port", str(port)]
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own
                [sys.executable, "-I", "-S", str(_ENDS_WITH), *command],
                env=settings,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            self._wait(log.fileno())

    def _wait(self, log: int) -> None:
        give_up = time.monotonic() + _START_SECONDS
        while time.monotonic() < give_up and self._process is not None and self._process.poll() is None:
            with contextlib.suppress(httpx2.HTTPError):
                answer = httpx2.get(f"{self._url}/readyz", timeout=5)
                if answer.status_code == 200:
                    return
                if b"layout" in answer.content:
                    break
            time.sleep(0.1)
        self.stop()
        said = os.pread(log, 1 << 20, 0).decode(errors="replace").strip().splitlines()
        why = next((line for line in reversed(said) if "layout" in line), said[-1] if said else "it says nothing")
        raise SourceError(f"{self.folder} cannot be served by {self._sash!r}: {why[:500]}")

    def stop(self) -> None:
        """End the service of a folder."""
        if self._process is not None:
            self._process.stdin.close()  # type: ignore[union-attr] # it is a pipe
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def tenants(self) -> set[str]:
        """The tenants that have conversations in a folder, on which no service runs; of a service, the one of the key."""
        if self.folder is None:
            return {"default"}
        from redis import Redis  # noqa: PLC0415 - help needs no store

        from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed  # noqa: PLC0415

        try:
            with EmbeddedStore(self.folder) as server, Redis.from_url(server.url) as store:
                return _tenants_of(store) or {"default"}
        except (DataDirectoryBusy, EmbeddedStoreFailed) as error:
            raise SourceError(str(error)) from None

    def client(self, tenant: str) -> Sash:
        """A client for a tenant's conversations."""
        return server_at(self._url, self._keys[tenant])

    def address(self, tenant: str) -> tuple[str, str | None]:
        """The URL and the tenant's key."""
        return self._url, self._keys[tenant]


def migrated_between(source: Place, target: Place) -> Migrated:
    """Take all conversations of ``source`` to ``target``; folders are served meanwhile. Raises SourceError."""
    with contextlib.ExitStack() as ends:
        for place in (source, target):
            ends.callback(place.stop)
        tenants = source.tenants()
        source.serve(tenants)
        target.serve(tenants)
        try:
            return _migrated(source, target, tenants)
        except SashError as error:
            raise SourceError(f"{source.where}: {error}") from None


def _migrated(source: Place, target: Place, tenants: set[str]) -> Migrated:
    migrated, said = Migrated(len(tenants)), time.monotonic()
    for tenant in sorted(tenants):
        with (
            contextlib.closing(source.client(tenant)) as old,
            contextlib.closing(target.client(tenant)) as new,
            client_of(*source.address(tenant)) as reader,
            progress_bar() as progress,
        ):
            wanted = list(listed_ids(*source.address(tenant), None))
            task = progress.add_task(tenant, total=len(wanted))
            for done, each in enumerate(wanted, 1):
                try:
                    _move(reader, old, new, each, migrated)
                except (SashError, _Otherwise) as error:
                    migrated.failed.append(f"{tenant}/{each}: {error}")
                progress.advance(task)
                if time.monotonic() > said + _SAID_SECONDS:
                    said = time.monotonic()
                    click.echo(f"sash: {tenant}: {done} of {len(wanted)} conversations", err=True)
        there, here = ({*listed_ids(*place.address(tenant), None)} for place in (target, source))
        migrated.alone += [f"{tenant}/{each}" for each in sorted(there - here)]
    return migrated


def _move(reader: httpx2.Client, old: Sash, new: Sash, identity: str, migrated: Migrated) -> None:
    """Take one conversation over, unless it is there as it was. Raises SashError, SourceError, _Otherwise."""
    before = _found(old, identity)
    if before is None:  # it was erased meanwhile
        return
    standing = _found(new, identity)
    if not is_unchanged(standing, before):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "conversation.ndjson"
            with file.open("wb") as written:
                export_one(reader, identity, written.write)
            (read,) = read_conversations(str(file))
            report = ImportReport()
            try:
                send(new, read, report, lambda _: None)
            except SashError as refused:
                raise refused if standing is None or refused.status != CONFLICT else _Otherwise from None
            migrated.messages += report.messages
            if standing is not None and not _is_caught_up(_found(new, identity), before):
                raise _Otherwise
    else:
        migrated.present += 1
    migrated.conversations += 1


def _is_caught_up(found: Mapping[str, object] | None, before: Mapping[str, object]) -> bool:
    """Return whether a conversation that was there is as in the old place, but for when and how often it changed, and for
    its tokens, which are counted by this version's rules."""
    return found is not None and all(found.get(name) == value for name, value in before.items() if name not in _PASSING)


def _found(server: Sash, identity: str) -> Mapping[str, object] | None:
    try:
        found: Mapping[str, object] | None = ask(server, Ask("GET", f"/conversations/{identity}"))
    except SashError as error:
        if error.status != GONE:
            raise
        return None
    return found


def swap(old: Path, new: Path) -> None:
    kept = old.with_name(f"{old.name}.before")
    if kept.exists():
        raise SourceError(f"{kept} exists: move it away, and rename the folders")
    old.rename(kept)
    new.rename(old)


def _tenants_of(store: "Redis") -> set[str]:
    """The tenants, from the names of keys: in every layout a name is ``sash:{tenant/conversation}:part``."""
    names: Iterator[bytes] = store.scan_iter(match="sash:{*/*}:*", count=1000)
    return {name.partition(b"{")[2].partition(b"/")[0].decode() for name in names}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
