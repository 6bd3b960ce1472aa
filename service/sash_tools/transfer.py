"""``sash import`` and ``sash export``: move conversations into a running server, and out of it."""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import click
import msgspec

from sash.commands.source_error import SourceError
from sash.commands.terminal import (
    Number,
    console,
    grid,
    plain_errors,
    print_json,
    progress_bar,
    shape_option,
    wants_json,
)
from sash.core.chat.bounds import IDS, WHAT_IDS_ARE
from sash.core.providers import PROVIDERS
from sash.settings import mask_url
from sash_client.ids import safe_id
from sash_tools.history_file import read_conversations
from sash_tools.sources.conversation import SourceConversation

if TYPE_CHECKING:
    import httpx2

    from sash_client.client import Sash
    from sash_tools.importing import ImportReport

_STORES = {"redis", "rediss", "unix"}
_KEYS = ("message_store:*", "agents:session:*:messages")
"""Keys of the lists of LangChain's RedisChatMessageHistory and the Agents SDK's RedisSession."""
_SHOWN_FAILURES = 10
GONE, CONFLICT = 404, 409
_HOPELESS = {401, 404, 408, 429, 502, 503, 504, 507}
"""Refusals that the next conversation would get too: no key, no memory, a server that is busy. Below 400 is no Sash."""

url_option = click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="URL of the service.")
key_option = click.option("--api-key-file", metavar="FILE", help="File with the API key, if the service needs one.")


@click.command("import")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@url_option
@key_option
@click.option("--id", "identity", metavar="ID", help="Id of the conversation, if there is only one.")
@click.option("--model", metavar="NAME", help="Model of conversations that name none; exports are not changed.")
@click.option(
    "--keys", metavar="PATTERN", multiple=True, help="Keys of the lists in a Redis; * stands for the conversation's id."
)
@click.option(
    "--order",
    type=click.Choice(["auto", "oldest", "newest"]),
    default="auto",
    help="Which message of a list of LangChain's or of OpenAI's API comes first. [default: newest in a list as Redis gives "
    "it, else oldest; of OpenAI's as times and calls say it]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([name for name, each in PROVIDERS.items() if not each.is_chat_form]),
    help="Provider of the messages in the files: requests as they were sent, or their messages.",
)
@click.option("--drop-orphans", is_flag=True, help="Leave out tool results without their call: providers refuse these.")
@click.option("--dry-run", is_flag=True, help="Read and check everything; send nothing.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=Number(min=0, max=3600, min_open=True),
    help="Send one message at a time with this pause between, to watch it in the dashboard.",
)
@shape_option
def import_(
    sources: tuple[str, ...],
    *,
    url: str,
    api_key_file: str | None,
    identity: str | None,
    model: str | None,
    keys: tuple[str, ...],
    order: str,
    form: str | None,
    drop_orphans: bool,
    dry_run: bool,
    every: float | None,
    as_json: bool | None,
) -> None:
    """Send conversations to a running service.

    A SOURCE is a file, - for standard input, or a redis:// URL. The command detects the format:

    \b
      exports of `sash export`
      lines with "id", "system", "tools" and "entries"
      lists of chat messages
      LangChain's RedisChatMessageHistory
      the OpenAI Agents SDK's SQLiteSession and RedisSession
      sessions of agent-memory-server
      UIMessages of the AI SDK
      logs of Codex and Claude Code
      chats of Open WebUI and LibreChat
      ShareGPT's records, and lines of fine-tuning files

    All conversations are checked before the first is sent. Entries keep their ids, so a second run adds only new ones.
    """
    from sash_tools.importing import ImportReport, check, without_orphans  # noqa: PLC0415
    from sash_tools.server import read_key, server_at  # noqa: PLC0415

    with plain_errors(format_is="--format="):
        found = [each for source in sources for each in _read(source, keys or _KEYS, order, form)]
        found = _named(found, identity)
        for each in found:
            if model is not None and not each.exported:
                each.settings.setdefault("model", model)
        if drop_orphans:
            found = [without_orphans(each) for each in found]
        for each in found:
            check(each)
        if dry_run:
            imported = ImportReport(
                conversations=len(found),
                messages=sum(len(each.entries) for each in found),
                left_out=dict(sum((Counter(each.left_out) for each in found), Counter())),
            )
        else:
            with contextlib.closing(server_at(url, read_key(api_key_file))) as server:
                imported = _send_all(server, found, url, every)
    if wants_json(as_json):
        print_json(imported)
    else:
        _print(imported, dry_run=dry_run)
    if imported.failed:
        left = len(found) - imported.conversations
        shown_failures(imported.failed, len(found), f", {left} were not sent: run it again" if left else "")
        sys.exit(1)


def shown_failures(failed: Sequence[str], count: int, rest: str = "") -> None:
    """Print the first failures on standard error, and how many of ``count`` conversations failed."""
    for line in failed[:_SHOWN_FAILURES]:
        click.echo(f"sash: {line}", err=True)
    click.echo(f"sash: {len(failed)} of {count} conversations failed{rest}", err=True)


def _read(source: str, keys: tuple[str, ...], order: Any, form: str | None) -> list[SourceConversation]:
    if urlsplit(source).scheme not in _STORES:
        return read_conversations(source, order, form)
    from sash_tools.sources.detect import from_redis  # noqa: PLC0415
    from sash_tools.sources.foreign_redis import ForeignStoreFailed, read_lists  # noqa: PLC0415 - only this source needs a client

    try:
        return [
            from_redis(found.key, found.matched, found.values, order=order)
            for pattern in keys
            for found in read_lists(source, pattern)
        ]
    except ForeignStoreFailed as error:
        raise SourceError(str(error)) from None


def _named(found: list[SourceConversation], identity: str | None) -> list[SourceConversation]:
    """Return the conversations, one with the given id. No id may occur twice: two sources would become one conversation."""
    if not found:
        raise SourceError("the sources contain no conversation")
    if identity is not None:
        if len(found) > 1:
            raise SourceError(f"--id names one conversation, and the sources contain {len(found)}")
        if not IDS.fullmatch(identity):
            raise SourceError(f"an id is {WHAT_IDS_ARE}")
        found[0].id = safe_id(identity)
    seen: set[str] = set()
    for each in found:
        if each.id in seen:
            raise SourceError(f"two conversations are called {each.id}: import them one by one, with --id")
        seen.add(each.id)
    return found


def _send_all(server: "Sash", found: list[SourceConversation], url: str, every: float | None) -> "ImportReport":
    """Send the conversations one after the other. After a refusal that all would get, the rest is not sent."""
    from sash_client.client import SashError  # noqa: PLC0415
    from sash_tools.importing import ImportReport, send  # noqa: PLC0415

    imported = ImportReport()
    with progress_bar() as progress:
        task = progress.add_task("messages", total=sum(len(each.entries) for each in found))
        for each in found:
            if every is not None:
                click.echo(
                    f"sash: {mask_url(url).rstrip('/')}/dashboard#conversation?{_query(each)} shows it", err=True
                )
            try:
                send(server, each, imported, lambda sent: progress.advance(task, sent), every_seconds=every)
            except SashError as error:
                imported.failed.append(f"{each.id}: {error}")
                if error.status < 400 or error.status in _HOPELESS:
                    break
    return imported


def _query(watched: SourceConversation) -> str:
    """Return the dashboard's query: the conversation, and its model where it is known here."""
    model = watched.settings.get("model")
    return urlencode({"id": watched.id, **({"model": model} if isinstance(model, str) else {})})


def _print(imported: "ImportReport", *, dry_run: bool) -> None:
    table = grid("", "#")
    table.add_row("conversations", f"{imported.conversations:,}")
    if dry_run:
        table.add_row("messages", f"{imported.messages:,}")
    else:
        table.add_row("messages stored", f"{imported.messages:,}")
        table.add_row("stored before", f"{imported.duplicates:,}")
        table.add_row("tokens (o200k_base)", f"{imported.tokens:,}")
    for kind, times in imported.left_out.items():
        table.add_row(f"left out: {kind}", f"{times:,}")
    if imported.failed:
        table.add_row("failed", f"{len(imported.failed):,}", style="bold")
    console().print(table)


@click.command()
@click.argument("conversations", nargs=-1, metavar="[CONVERSATION...]")
@click.option("--owner", metavar="OWNER", help="All conversations of this owner.")
@click.option("--all", "everything", is_flag=True, help="All conversations of the tenant.")
@url_option
@key_option
@click.option("-o", "--output", metavar="FILE", help="File to write. [default: standard output]")
def export(
    conversations: tuple[str, ...],
    *,
    owner: str | None,
    everything: bool,
    url: str,
    api_key_file: str | None,
    output: str | None,
) -> None:
    """Write conversations as newline-delimited JSON.

    Each is a line of settings, then one line for each entry. `sash import` reads these files.
    """
    if (bool(conversations), owner is not None, everything).count(True) != 1:
        raise click.UsageError("Name conversations, or all of an owner with --owner, or all of the tenant with --all.")
    from sash_client.client import SashError  # noqa: PLC0415
    from sash_tools.server import client_of, read_key  # noqa: PLC0415

    with plain_errors():
        for each in conversations:
            if not IDS.fullmatch(each):
                raise SourceError(f"{each!r} is no conversation's id")
        with client_of(url, read_key(api_key_file)) as server, _written(output) as put:
            wanted = iter(conversations) if conversations else listed_ids(url, read_key(api_key_file), owner)
            exported = 0
            for each in wanted:
                try:
                    export_one(server, each, put)
                    exported += 1
                except SashError as error:
                    if conversations or error.status != GONE:  # one of a list may have been erased since
                        raise click.ClickException(f"{each}: {error}") from None
            if not conversations:
                click.echo(f"sash: {exported} conversations exported", err=True)


def listed_ids(url: str, key: str | None, owner: str | None) -> Iterator[str]:
    """Yield the ids of an owner's or the tenant's conversations, each once. Raises SashError.

    A listing is by activity, so a write moves a conversation to its beginning. It is read again until nothing is new.
    """
    from sash_client.client import paged  # noqa: PLC0415
    from sash_tools.server import server_at  # noqa: PLC0415

    seen: set[str] = set()
    with contextlib.closing(server_at(url, key)) as server:
        while True:
            found = server.do(paged("/conversations", "conversations", {"owner": owner} if owner else {}))
            fresh = [each["id"] for each in found if each["id"] not in seen]
            if not fresh:
                return
            seen.update(fresh)
            yield from fresh


_BRANCH = b'{"branch":'
"""The beginning of an export's line behind which are a branch's entries: the settings count those of the log alone."""


def export_one(server: "httpx2.Client", conversation: str, put: Callable[[bytes], Any]) -> None:
    """Write one conversation. Raises SashError, and SourceError if the answer is not a complete export."""
    from sash_tools.server import stream  # noqa: PLC0415

    head, lines, begun, in_branches = bytearray(), 0, b"", False
    for piece in stream(server, f"/conversations/{conversation}/export"):
        if not lines:
            head += piece.partition(b"\n")[0]
        *ended, begun = (begun + piece).split(b"\n")
        for line in ended:
            in_branches = in_branches or line.startswith(_BRANCH)
            lines += not in_branches
        begun = begun[: len(_BRANCH)]
        put(piece)
    try:
        promised = msgspec.json.decode(bytes(head))["messages"]["count"] + 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        raise SourceError("The answer is no export: that is no Sash server.") from None
    if lines != promised:
        raise SourceError(f"{conversation}: {lines} of {promised} lines came; the export broke off, try again")


@contextlib.contextmanager
def _written(output: str | None) -> Iterator[Callable[[bytes], Any]]:
    """Yield a function that writes bytes. A file gets its name only when it is complete; a device or a pipe stays one."""
    if output is None:
        yield sys.stdout.buffer.write
        return
    file = Path(output)
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as opened:
                yield opened.write
            return
        file = file.resolve()  # a link stays a link
        partial = file.with_name(f"{file.name}.part")
        try:
            with partial.open("wb") as opened:
                yield opened.write
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise SourceError(f"{output} cannot be written: {error.strerror}") from None
