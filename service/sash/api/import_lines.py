"""An import's lines as entries. Problems name the wrong line."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import msgspec

from sash.api.schemas import EncodingTokens, StandingCompaction
from sash.core.chat.json_bodies import STORED_DEPTH, convert_json, decode_json
from sash.core.chat.messages import ENVELOPE, AgentName, BareEntry, Entry, Id, Side, is_bare, wrapped
from sash.core.chat.programs import recognise
from sash.core.law.documents.grounding import Template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, check_settings, fixed_parts
from sash.core.measured_entries import check_entry
from sash.core.providers.messages.members import Names
from sash.core.providers.reading.native import read_compaction
from sash.core.stored.record import DIGEST_BYTES, Flags
from sash.core.stored.redaction import NO_DIGEST
from sash.core.stored.stored_summary import Summary
from sash.problems import BadRequest, InvalidEntry, OrphanToolResult, Pointer, Problem
from sash.store.data.branches import Head, number_of
from sash.store.data.entries import NewEntry, prepare, wall_ms
from sash.store.data.summaries import make_summary

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FROM, _BEFORE = (datetime(year, 1, 1, tzinfo=UTC) for year in (1971, 2527))
"""Times that an import takes. A stamp of a time before 2527 has 64 bits."""
_BEGINS_BRANCH = re.compile(rb'\s*\{\s*"branch"\s*:')
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


_BranchId = Annotated[str, msgspec.Meta(pattern=r"^b-[1-9][0-9]{0,8}\Z")]


class ImportLine(NamedTuple):
    """A line of the body, and its number from 1."""

    number: int
    text: bytes


class ImportedSummary(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    through_seq: _Count
    item: dict[str, Any] | None = None
    items: list[dict[str, Any]] | None = None
    tokens: EncodingTokens | None = None


class ImportedRange(msgspec.Struct, forbid_unknown_fields=True):
    count: _Count
    first_seq: int | None = None
    last_seq: int | None = None


class ImportHead(ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The first line: settings, and an export's other members. Totals, expiry and compactions are computed again."""

    id: Id | None = None
    version: Annotated[int, msgspec.Meta(ge=1, le=10**12)] = 1
    etag: str | None = None
    created_at: _Time | None = None
    updated_at: _Time | None = None
    expires_at: str | None = None
    messages: ImportedRange | None = None
    tokens: EncodingTokens | None = None
    summary: ImportedSummary | None = None
    compactions: list[StandingCompaction] | None = None
    view: AgentName | None = None


class ImportEntry(Entry, kw_only=True):
    """Every other line: an entry as it is appended, and an export's other members. Tokens are counted again. A line may
    also be a bare chat message."""

    image_sizes: Annotated[list[tuple[Side, Side] | None], msgspec.Meta(max_length=1000)] | None = None  # type: ignore[assignment]
    seq: int | None = None
    created_at: _Time | None = None
    redacted: bool = False
    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}(?:[0-9a-f]{16})?\Z")] | None = None
    tokens: EncodingTokens | None = None
    grounding_tokens: EncodingTokens | None = None
    lost: list[Any] | None = None


class ImportMessage(ImportEntry, BareEntry):
    """A line that is a bare chat message."""


class Imported(msgspec.Struct, frozen=True):
    """The first line, in the forms of the core and the store; times are in milliseconds since 1970."""

    head: ImportHead
    settings: ConversationSettings
    template: Template
    created_ms: int | None
    updated_ms: int | None
    summary: Summary | None


class BranchHead(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where a branch hangs, in a line before its entries: behind ``after_seq`` of the log, or of the branch ``parent``."""

    id: _BranchId
    after_seq: Annotated[int, msgspec.Meta(ge=0, le=10**9)]
    parent: _BranchId | None = None
    created_at: _Time | None = None


class BranchLine(msgspec.Struct, forbid_unknown_fields=True):
    """The line."""

    branch: BranchHead


_head = msgspec.json.Decoder(ImportHead)
_branch = msgspec.json.Decoder(BranchLine)
_entry = msgspec.json.Decoder(ImportEntry)
_anything = msgspec.json.Decoder()


def read_head(line: ImportLine) -> Imported:
    """The first line, decoded and checked. Raises BadRequest with the line's number."""
    try:
        head = _decode_head(line)
        if head.view is not None:
            raise BadRequest.at("#/view", "This is what one agent sees, and not the whole: export without view")
        settings = ConversationSettings(
            **{name: getattr(head, name) for name in ConversationSettings.__struct_fields__}
        )
        settings = check_settings(settings)
        summary = _summary(head.summary) if head.summary else None
        created_ms, updated_ms = _milliseconds(head, "created_at"), _milliseconds(head, "updated_at")
    except Problem as problem:
        raise at_line(problem, line.number) from None
    return Imported(head, settings, fixed_parts(settings).template, created_ms, updated_ms, summary)


def _decode_head(line: ImportLine) -> ImportHead:
    try:
        return decode_json(line.text, _head, STORED_DEPTH)
    except BadRequest:
        if program := recognise(decode_json(line.text, _anything, STORED_DEPTH)):
            raise program.refused("") from None
        raise


def _summary(given: ImportedSummary) -> Summary:
    """The summary in the form of the store. Raises BadRequest."""
    if not given.text and given.item is None:
        raise BadRequest.at("#/summary/text", "A summary has a text, or a provider's compaction item")
    compaction = None
    if given.items:
        compaction, _ = read_compaction(given.items, "/summary/items")
    elif given.item is not None:
        compaction, _ = read_compaction(given.item, "/summary/item")
    return make_summary(given.text, given.through_seq, compaction)


def prepare_lines(lines: list[ImportLine], before: int, template: Template, now_ms: int, send: Names) -> list[NewEntry]:
    """The entries of the lines. ``before`` is the number of entries that earlier lines had, ``send`` is as in ``prepare``.

    Raises BadRequest with the line's number.
    """
    entries = []
    for place, line in enumerate(lines, before + 1):
        try:
            given, created_ms = read_entry_line(line, place)
            (prepared,) = prepare([given], template, now_ms if created_ms is None else created_ms, send)
            entries.append(_as_exported(prepared, given))
        except Problem as problem:
            raise at_line(problem, line.number) from None
    return entries


def read_entry_line(line: ImportLine, place: int) -> tuple[ImportEntry, int | None]:
    """The entry of a line, checked, and its time in milliseconds since 1970 if the line has one.

    ``place`` is its number among the entries. Raises BadRequest without the line's number.
    """
    given = _read_entry(line)
    if given.seq is not None and given.seq != place:
        raise InvalidEntry.at("#/seq", f"Expected {place}: entries come in order, none left out")
    created_ms = _milliseconds(given, "created_at")
    if given.image_sizes is not None:
        given.image_sizes = [size or (0, 0) for size in given.image_sizes]
    given.continues = False  # an import begins each of its entries
    check_entry(given, "", was_stored=given.seq is not None)
    return given, created_ms


def branch_of_line(line: ImportLine) -> Head | None:
    """The branch that a line begins, without messages; None where it is an entry's. Raises BadRequest."""
    if not _BEGINS_BRANCH.match(line.text):
        return None
    try:
        given = decode_json(line.text, _branch, STORED_DEPTH).branch
        sealed_ms = _milliseconds(given, "created_at")
    except Problem as problem:
        raise at_line(problem, line.number) from None
    parent = number_of(given.parent) if given.parent is not None else 0
    return Head(number_of(given.id), parent, given.after_seq, 0, 0, wall_ms() if sealed_ms is None else sealed_ms)


def _read_entry(line: ImportLine) -> ImportEntry:
    try:
        return decode_json(line.text, _entry, STORED_DEPTH)
    except BadRequest:
        message = decode_json(line.text, _anything, STORED_DEPTH)  # a fault of the JSON comes before one of its shape
        if program := recognise(message):
            raise program.refused("") from None
        if not is_bare(message):
            raise
    if ENVELOPE.isdisjoint(message):
        return ImportMessage(message=message)
    read: ImportEntry = convert_json(wrapped(message), _entry)
    return ImportMessage(**msgspec.structs.asdict(read))


def message_member(line: ImportLine, name: str) -> str:
    """The pointer of a member of the line's message, within the line."""
    return name if is_bare(decode_json(line.text, _anything, STORED_DEPTH)) else f"message/{name}"


def _as_exported(prepared: NewEntry, given: ImportEntry) -> NewEntry:
    record, identity = prepared.record, prepared.identity
    if given.redacted:
        record = msgspec.structs.replace(record, flags=record.flags | Flags.REDACTED)
        identity = msgspec.structs.replace(identity, digest=NO_DIGEST)
    elif given.digest is not None:
        identity = msgspec.structs.replace(identity, digest=bytes.fromhex(given.digest)[:DIGEST_BYTES])
    return msgspec.structs.replace(prepared, identity=identity, record=record)


def _milliseconds(given: ImportHead | ImportEntry | BranchHead, name: str) -> int | None:
    """The time of this name in milliseconds since 1970. Raises BadRequest."""
    time: datetime | None = getattr(given, name)
    if time is None:
        return None
    if not _FROM <= time < _BEFORE:
        raise BadRequest.at(f"#/{name}", f"Expected a time from {_FROM.year} to {_BEFORE.year - 1}")
    return (time - _EPOCH) // timedelta(milliseconds=1)


def at_line(problem: Problem, number: int) -> Problem:
    """The problem with the line's number in its detail, pointers and members."""
    kind = type(problem) if isinstance(problem, BadRequest | OrphanToolResult) else BadRequest
    errors = [Pointer(f"#/lines/{number}{e.pointer.removeprefix('#').rstrip('/')}", e.detail) for e in problem.errors]
    return kind(
        f"Line {number}: {problem.detail}",
        errors=errors or [Pointer(f"#/lines/{number}", problem.detail)],
        members={**problem.members, "line": number},
    )
