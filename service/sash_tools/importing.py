"""Send a source's conversations to a server: all are checked first, then sent in batches."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from sash.commands.source_error import SourceError
from sash.core.chat.messages import Entry
from sash.core.chat.mistakes import invalid
from sash.core.chat.open_calls import OpenCalls, with_call_id
from sash.core.chat.regular import regular
from sash.core.chat.tool_groups import calls_of, places_of
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, check_settings
from sash.core.measured_entries import check_entry
from sash.core.providers.reading.native import lacks_call, with_open_call
from sash.problems import BadRequest, Problem
from sash_client.client import Ask, Sash, SashError
from sash_tools.server import ask, post
from sash_tools.sources.conversation import SourceConversation, format_hint

T = TypeVar("T")

_BATCH_ENTRIES = 100
_BATCH_BYTES = 2 * 1024 * 1024  # the server's own limit is 4 MiB, unless it was changed
_ADDED = {"version", "etag", "created_at", "updated_at", "expires_at", "messages", "tokens", "summary"}
"""Members that a server adds to a conversation's settings; the first line of an export has them all."""
_STATE = ("version", "created_at", "updated_at", "messages")
"""Members that an import restores, and that differ in another conversation. Not its tokens: versions count otherwise."""


class ImportReport(msgspec.Struct):
    """The figures of an import."""

    conversations: int = 0
    created: int = 0
    messages: int = 0
    duplicates: int = 0
    tokens: int = 0
    """Tokens of all messages, also of those stored before, in o200k_base and without documents."""
    left_out: dict[str, int] = msgspec.field(default_factory=dict)
    failed: list[str] = msgspec.field(default_factory=list)


def _converted(value: Any, kind: type[T], place: str) -> T:
    """The value as this type. Raises BadRequest with the wrong place."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise invalid(place, BadRequest, of=kind, value=value) from None


def check(source: SourceConversation) -> None:
    """Raise SourceError where the server would refuse something, so that no conversation is sent in part."""
    if source.exported:
        return  # the server takes an export whole or not at all
    if source.left_out and not source.entries:
        kinds = ", ".join(f"{times} {kind}" for kind, times in source.left_out.items())
        raise SourceError(f"{source.id}: holds no message that can be imported: {kinds}")
    try:
        check_settings(_converted(_given(source), ConversationSettings, ""))
        _add_call_ids(source.entries)
        entries = [_converted(entry, Entry, f"/messages/{place}") for place, entry in enumerate(source.entries)]
    except BadRequest as problem:
        raise SourceError(f"{source.id}: {problem.detail}{format_hint(source.settings)}") from None
    except Problem as problem:
        raise SourceError(f"{source.id}: {problem.detail}") from None
    for entry in entries:
        try:
            check_entry(entry, "")
        except Problem as problem:
            raise SourceError(f"{source.id}: entry {entry.id}: {problem.detail}") from None
    for entry, orphan in zip(entries, orphans([entry.message for entry in entries]), strict=True):
        if orphan:
            raise SourceError(
                f"{source.id}: entry {entry.id} is a tool result without its call before it; "
                "--drop-orphans leaves such results out"
            )


def _add_call_ids(entries: list[dict[str, Any]]) -> None:
    """Give each tool message without a call id the id of its open call.

    A history is sent in several requests, and the one with the result may not have the call.
    """
    messages = [entry["message"] if isinstance(entry.get("message"), dict) else {} for entry in entries]
    opened = OpenCalls()
    for place, message in enumerate(messages):
        if message.get("role") == "assistant":
            messages[place] = regular(message)  # calls without ids get theirs
        if lacks_call(message):
            found = with_open_call(message, opened)
            if not found.get("tool_call_id"):
                found = with_call_id(found, opened, messages[place + 1 :], f"/{place}")
            entries[place]["message"] = messages[place] = found
        opened.follow(messages[place])


def _given(source: SourceConversation) -> dict[str, Any]:
    """Return the settings without the members that a server adds."""
    return {name: value for name, value in source.settings.items() if name not in _ADDED}


def orphans(messages: list[dict[str, Any]]) -> list[bool]:
    """Return for each message whether it is a tool result without a call. Each message must be valid by itself."""
    return [place is None for place in places_of(map(calls_of, messages))]


def without_orphans(source: SourceConversation) -> SourceConversation:
    """Return the conversation without tool results that have no call; ``left_out`` counts them."""
    messages = [entry.get("message") for entry in source.entries]
    if not all(_is_plain(message) for message in messages):
        return source  # not all are messages, which the check reports
    lone = orphans(messages)  # type: ignore[arg-type]
    if not any(lone):
        return source
    entries = [entry for entry, orphan in zip(source.entries, lone, strict=True) if not orphan]
    left_out = {**source.left_out, "tool results without a call": sum(lone)}
    return msgspec.structs.replace(source, entries=entries, left_out=left_out)


def _is_plain(message: Any) -> bool:
    try:
        check_entry(Entry(message=message), "")
    except (Problem, TypeError, AttributeError):
        return False
    return True


def send(
    server: Sash,
    source: SourceConversation,
    imported: ImportReport,
    advance: Callable[[int], None],
    *,
    every_seconds: float | None = None,
) -> None:
    """Create the conversation, append its entries, and add to the figures. Raises SashError.

    With ``every_seconds`` entries are sent one by one, with this pause between, so that a person can watch.
    """
    imported.conversations += 1
    imported.left_out = dict(Counter(imported.left_out) + Counter(source.left_out))
    if source.exported and every_seconds is None and _restore(server, source, imported, advance):
        return
    settings = _given(source)
    if settings or not source.entries:
        imported.created += _create(server, {"id": source.id, **settings})
    for batch in batches(source.entries, limit=_BATCH_ENTRIES if every_seconds is None else 1):
        _append(server, source.id, batch, imported, advance)
        time.sleep(every_seconds or 0)


def _restore(server: Sash, source: SourceConversation, imported: ImportReport, advance: Callable[[int], None]) -> bool:
    """Import an export as a whole. Returns False if the conversation has changed since: its entries must be appended."""
    lines = b"".join(msgspec.json.encode(line) + b"\n" for line in source.exported)
    into, kind = {"id": source.id}, "application/x-ndjson"
    try:
        ask(server, Ask("POST", "/conversations/import", into, lines, content_type=kind))
    except SashError as refused:
        if refused.status != 409:
            raise
        if not is_unchanged(ask(server, Ask("GET", f"/conversations/{source.id}")), source.settings):
            return False
        imported.duplicates += len(source.entries)
    else:
        imported.created += 1
        imported.messages += len(source.entries)
    imported.tokens += source.settings.get("tokens", {}).get("o200k_base", 0)
    advance(len(source.entries))
    return True


def is_unchanged(found: Mapping[str, Any] | None, exported: Mapping[str, Any]) -> bool:
    """Return whether a conversation is the exported one. Another one under its id may have the same version."""
    return found is not None and all(found.get(name) == exported.get(name) for name in _STATE)


def _create(server: Sash, conversation: dict[str, Any]) -> bool:
    """Create the conversation. Returns whether it is new. Raises SashError."""
    try:
        post(server, "/conversations", conversation)
    except SashError as refused:
        if refused.exists:
            return False  # an earlier run made it; its settings stay
        raise
    return True


def _append(
    server: Sash,
    identity: str,
    batch: list[dict[str, Any]],
    imported: ImportReport,
    advance: Callable[[int], None],
) -> None:
    try:
        answer = post(server, f"/conversations/{identity}/messages", {"messages": batch})
    except SashError as refused:
        if refused.status != 413 or len(batch) == 1:
            raise
        middle = len(batch) // 2  # the server has smaller limits
        for half in (batch[:middle], batch[middle:]):
            _append(server, identity, half, imported, advance)
        return
    duplicates = sum(message["duplicate"] for message in answer["messages"])
    imported.created += answer.get("version") == 1 and not duplicates  # the append began it
    imported.messages += len(batch) - duplicates
    imported.duplicates += duplicates
    imported.tokens += sum(message["tokens"]["o200k_base"] for message in answer["messages"])
    advance(len(batch))


def batches(entries: list[dict[str, Any]], *, limit: int = _BATCH_ENTRIES) -> Iterator[list[dict[str, Any]]]:
    """Yield entries in order, in batches for one append each, with at most ``limit`` entries."""
    batch: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        bytes_of_entry = len(msgspec.json.encode(entry))
        if batch and (len(batch) == limit or size + bytes_of_entry > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += bytes_of_entry
    if batch:
        yield batch
