"""Export and import: a conversation as newline-delimited JSON, its settings first, then its entries.

Both stream, so a history is never whole in memory. An import restores everything that an export writes: places, ids,
times, redactions, pins, documents, metadata and the summary. A file written by hand needs less: a first line like the
body of ``POST /conversations``, then one line for each entry, as in an append.
"""

import re
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Annotated

import msgspec
from litestar import Response, get, post
from litestar.exceptions import InternalServerException
from litestar.response import Stream

from sash.api.context import Context
from sash.api.conversation_handlers import conversation_body, exported_body, timestamp
from sash.api.headers import etag, refuse_coded
from sash.api.import_lines import (
    Imported,
    ImportLine,
    at_line,
    branch_of_line,
    message_member,
    prepare_lines,
    read_head,
)
from sash.api.incoming import TAKEN, Incoming, run_in_turn_if_large, taken
from sash.api.openapi.operation import documented
from sash.api.schemas import Conversation, Lines, StoredMessage
from sash.api.shown_messages import in_parts, stored_message, with_media
from sash.core.chat.messages import Id
from sash.core.law.fixed_parts.conversation_settings import encode_settings
from sash.core.law.records.parameters import AgentView
from sash.core.stored.record import Record
from sash.problems import BadRequest, InvalidEntry, OrphanToolResult, TooLarge, UnsupportedMediaType
from sash.store.data.branches import Head, ended, name_of
from sash.store.data.entries import NewEntry, wall_ms
from sash.store.data.layout import Target, target_at
from sash.store.data.reading import changed
from sash.store.data.replies import Message, Page, WholeState
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.staging import OrphanEntry, StagedTwice, Staging
from sash.store.data.stored_messages import SMALL_STEP_BYTES
from sash.windows.seen_pages import seen_page

NDJSON = "application/x-ndjson"
_NDJSON = re.compile(r'application/(x-)?ndjson(\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*', re.IGNORECASE)
_BATCH_LINES = 200  # one script stages a batch, and blocks the store's other clients meanwhile
_BATCH_BYTES = 1024 * 1024
_MOST_BRANCHES = 100
_MOST_BRANCH_BYTES = 4 * 1024 * 1024
"""The largest branches of an import: four times a conversation's bound, since encryption makes short messages longer."""
_LINE_BODIES = 8
"""The longest line of an import, in largest bodies. An export's line may have 3.8 times the bytes of the body that
brought its message: 1e15 is written as 1000000000000000.0, and a provider's parts are kept beside a chat message's."""
_LINE_BYTES = 32 * 1024 * 1024
"""The least limit of a line: what came while SASH_MAX_BODY_BYTES had its default stays importable when that is lowered."""


class ExportedMessage(StoredMessage, frozen=True, omit_defaults=True, kw_only=True):
    """An entry with members that an import cannot compute again."""

    digest: str | None = None
    """A hash of the content in hex, which tells a retry under this id from another entry."""
    image_sizes: list[tuple[int, int] | None] | None = None


class ExportQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of an export."""

    view: AgentView = None


class ImportQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of an import."""

    id: Annotated[
        Id | None, msgspec.Meta(description="The new conversation's id, in place of the one in the first line.")
    ] = None


@get("/conversations/{conversation_id:str}/export", operation_id="exportConversation")
@documented(
    "Export a conversation", "conversations", query=ExportQuery, gives=Lines, gives_types=(NDJSON,), errors=(409,)
)
async def export_conversation(request: Incoming) -> Response[bytes] | Stream:
    """The whole conversation: a line of settings, then one line for each entry. Behind these each branch has a line that
    tells where it hangs, then its entries.

    With ``view`` it is what this agent sees. Its first line names the view, and it cannot be imported.
    """
    context, target = request.context, request.target
    view = request.query(ExportQuery).view
    state = await context.store.reader.get(target)
    headers = {"ETag": etag(state.etag)}
    if request.is_known(state.etag):
        return Response(b"", status_code=304, headers=headers)
    pages = context.store.reader.chunks(target, state.length, state)
    first = await anext(pages, None)  # raises before the answer has begun if the history cannot be read
    return Stream(_lines(request, target, state, view, first, pages), headers=headers, media_type=NDJSON)


async def _lines(
    request: Incoming,
    target: Target,
    state: WholeState,
    view: str | None,
    first: Page | None,
    rest: AsyncIterator[Page],
) -> AsyncIterator[bytes]:
    yield exported_body(target.id, state, view) + b"\n"
    page = first
    while page is not None:
        seen = await _seen(request, target, page, view)
        for part in in_parts(seen.messages, SMALL_STEP_BYTES):
            whole = await _whole(request, target, msgspec.structs.replace(seen, messages=part))
            yield await run_in_turn_if_large(
                sum(len(each.body) for each in whole.messages), _page_lines, target, whole, view
            )
            request.exchange.extend()
        page = await anext(rest, None)
    if view is None:
        async for lines in _branch_lines(request, target, state):
            yield lines
            request.exchange.extend()


async def _branch_lines(request: Incoming, target: Target, state: WholeState) -> AsyncIterator[bytes]:
    """The branches: for each, a line with the message that it hangs behind, and then its entries."""
    branches = request.context.store.conversations.branches
    read = await branches.all(target)
    if read.made != state.made:
        raise changed()
    for number, page in (await branches.pages(target, read, read.branches)).items():
        head = read.branches[number].head
        hangs = {"id": head.id, "after_seq": head.after_seq, "created_at": timestamp(int(head.sealed_ms))}
        line = hangs | ({"parent": name_of(head.parent)} if head.parent else {})
        yield msgspec.json.encode({"branch": line}) + b"\n"
        for part in in_parts([ended(each) for each in page.messages], SMALL_STEP_BYTES):
            whole = await _whole(request, target, msgspec.structs.replace(page, messages=part))
            yield await run_in_turn_if_large(
                sum(len(each.body) for each in whole.messages), _page_lines, target, whole, None
            )


async def _seen(request: Incoming, target: Target, page: Page, view: str | None) -> Page:
    """What the view sees of a page. Raises Conflict when the conversation was edited meanwhile."""
    try:
        return await seen_page(request.context.store.reader, target, page, view)
    except HistoryEdited:
        raise changed() from None


async def _whole(request: Incoming, target: Target, page: Page) -> Page:
    """The page with pictures and files in their places. Raises Conflict when the conversation was edited meanwhile."""
    try:
        return await with_media(request, target, page, SMALL_STEP_BYTES)
    except HistoryEdited:
        raise changed() from None


def _page_lines(target: Target, page: Page, view: str | None) -> bytes:
    line = _exported if view is None else stored_message  # what an import needs besides may tell more than a view
    return b"".join(msgspec.json.encode(line(message, page, target)) + b"\n" for message in page.messages)


def _exported(message: Message, page: Page, target: Target) -> ExportedMessage:
    stored = stored_message(message, page, target)
    return ExportedMessage(
        **msgspec.structs.asdict(stored),
        digest=None if stored.redacted else message.identity.digest.hex(),
        image_sizes=_image_sizes(message.record),
    )


def _image_sizes(record: Record) -> list[tuple[int, int] | None] | None:
    """Width and height of each image in pixels, as found or given; None for an unknown one, or if all are unknown."""
    images = record.measure.extra.images if record.measure.extra else ()
    sizes = [(width, height) if width else None for width, height, _ in images]
    return sizes if any(sizes) else None


@post("/conversations/import", operation_id="importConversation", status_code=201)
@documented(
    "Import a conversation",
    "conversations",
    query=ImportQuery,
    takes=Lines,
    takes_types=(NDJSON,),
    gives=Conversation,
    errors=(507,),
)
async def import_conversation(request: Incoming) -> Response[bytes]:
    """Make a conversation from an export, all of it or nothing. A line may be as long as an export writes it: 8 times the
    largest body, and at least 32 MiB."""
    context, tenant = request.context, request.tenant
    if not _NDJSON.fullmatch(request.headers.get("content-type", "")):
        raise UnsupportedMediaType(f"Send newline-delimited JSON: Content-Type: {NDJSON}.", headers={"Accept": NDJSON})
    refuse_coded(request.exchange.headers)
    request.refuse_state("A new conversation")
    named = request.query(ImportQuery).id
    longest_line = max(_LINE_BYTES, _LINE_BODIES * context.settings.max_body_bytes)
    batches = _batches(request, longest_line)
    first: list[ImportLine] = await anext(batches, [])
    if not first:
        raise BadRequest.at("#/lines/1", "The body is empty: send the settings in a first line, then entries")
    imported = read_head(first[0])
    if (identity := named or imported.head.id) in TAKEN:
        raise taken(identity, "#/query/id" if named else "#/lines/1/id")
    target = target_at(tenant, identity or request.fresh_id())
    if not request.was_done:
        await _import(request, target, imported, first[1:], batches)
    state = await context.store.reader.get(target)
    request.require_same_life(state)
    context.recall.indexer.notice(target, state.settings)
    headers = {"Location": f"/conversations/{target.id}", "ETag": etag(state.etag)}
    return Response(conversation_body(target.id, state), status_code=201, headers=headers)


async def _import(
    request: Incoming,
    target: Target,
    imported: Imported,
    first: list[ImportLine],
    batches: AsyncIterator[list[ImportLine]],
) -> None:
    """Store a conversation. The head of its file and its ``first`` lines were read before."""
    context = request.context
    await context.store.conversations.require_absent(target, token=request.token())
    store = context.store
    staging = Staging(store.client, target, token=request.token(), conversations=store.conversations)
    branches = _StagedBranches()
    try:
        await _stage_lines(request, staging, imported, first, branches)
        async for batch in batches:
            await _stage_lines(request, staging, imported, batch, branches)
        branches.check(staging.length)
        await context.store.owners.put(target, imported.settings)
        await _publish(context, target, staging, imported)
    except BaseException:
        await staging.abandon()
        raise


class _StagedBranches:
    """The branches of an import so far, each with its line's number."""

    def __init__(self) -> None:
        self.heads: list[tuple[Head, int]] = []
        self._ids: set[str] = set()

    def begin(self, head: Head, number: int) -> None:
        """Begin the next branch. Raises BadRequest, TooLarge."""
        if len(self.heads) == _MOST_BRANCHES:
            raise _too_large("branches", _MOST_BRANCHES, number)
        self.check_last()
        if self.heads and self.heads[-1][0].number >= head.number:
            raise at_line(BadRequest.at("#/branch/id", "Branches come in the order in which they were made"), number)
        self.heads.append((head, number))
        self._ids = set()

    def add(self, entries: list[NewEntry], lines: list[ImportLine]) -> Head:
        """Note entries of the newest branch, which is returned as it was. Raises BadRequest for an id that it has twice."""
        for entry, line in zip(entries, lines, strict=True):
            if entry.identity.id in self._ids:
                raise at_line(InvalidEntry.at("#/id", "This id names another entry above"), line.number)
            self._ids.add(entry.identity.id)
        head, number = self.heads[-1]
        self.heads[-1] = head._replace(messages=head.messages + len(entries)), number
        return head

    def check_last(self) -> None:
        """Raise BadRequest where the newest branch has no entry."""
        if self.heads and not self.heads[-1][0].messages:
            raise at_line(BadRequest.at("#/branch", "A branch has entries"), self.heads[-1][1])

    def check(self, length: int) -> None:
        """Raise BadRequest where a branch hangs in nothing; the log has ``length`` entries."""
        self.check_last()
        by_number = {head.number: head for head, _ in self.heads}
        for head, number in self.heads:
            parent = by_number.get(head.parent)
            first, last = (
                (0, length) if not head.parent else (parent.after_seq + 1, parent.last_seq) if parent else (1, 0)
            )
            above, seen = parent, {head.number}
            while above is not None and above.number not in seen:
                seen.add(above.number)
                above = by_number.get(above.parent)
            if not first <= head.after_seq <= last or above is not None:
                raise at_line(
                    BadRequest.at("#/branch/after_seq", "A branch hangs behind an entry of its parent"), number
                )


def _too_large(unit: str, limit: int, number: int) -> TooLarge:
    return TooLarge(
        f"Line {number}: branches may have {limit} {unit} together.", members={"limit": limit, "unit": unit}
    )


async def _stage_lines(
    request: Incoming, staging: Staging, imported: Imported, lines: list[ImportLine], branches: _StagedBranches
) -> None:
    """Store a batch of lines: entries of the log, then those of branches."""
    part: list[ImportLine] = []
    for line in lines:
        head = branch_of_line(line)
        if head is None:
            part.append(line)
            continue
        await _stage(request, staging, imported, part, branches)
        part = []
        branches.begin(head, line.number)
    await _stage(request, staging, imported, part, branches)


async def _stage(
    request: Incoming, staging: Staging, imported: Imported, lines: list[ImportLine], branches: _StagedBranches
) -> None:
    if lines:
        size = sum(len(line.text) for line in lines)
        context = request.context
        is_long = size > context.settings.max_body_bytes + _BATCH_BYTES
        # Long lines are decoded one after the other, because each may take twenty times its bytes of memory.
        async with context.long_lines if is_long else nullcontext():
            send = context.settings.send_members
            before = branches.heads[-1][0].last_seq if branches.heads else staging.length
            entries = await run_in_turn_if_large(size, prepare_lines, lines, before, imported.template, wall_ms(), send)
        if branches.heads:
            held = await staging.add_to_branch(branches.add(entries, lines), entries)
            if held > _MOST_BRANCH_BYTES:
                raise _too_large("bytes", _MOST_BRANCH_BYTES, lines[-1].number)
            request.exchange.extend()
            return
        try:
            await staging.add(entries)
        except StagedTwice as twice:
            wrong = InvalidEntry.at("#/id", "This id names another entry above")
            raise at_line(wrong, lines[twice.index].number) from None
        except OrphanEntry as orphan:
            line = lines[orphan.index]
            lone = OrphanToolResult.at(f"#/{message_member(line, 'tool_call_id')}", "No open tool call has this id")
            raise at_line(lone, line.number) from None
    request.exchange.extend()


async def _publish(context: Context, target: Target, staging: Staging, imported: Imported) -> None:
    announced = imported.head.messages
    if announced is not None and announced.count != staging.length:
        detail = f"The first line announces {announced.count} entries, but the file has {staging.length}"
        raise BadRequest.at("#/lines/1/messages/count", detail, {"line": staging.length + 1})
    summary = imported.summary
    if summary is not None and not 1 <= summary.through_seq <= staging.length:
        raise at_line(BadRequest.at("#/summary/through_seq", f"The last message is {staging.length}"), 1)
    now = wall_ms()
    updated_ms = now if imported.updated_ms is None else imported.updated_ms
    await staging.publish(
        settings=encode_settings(imported.settings),
        version=imported.head.version,
        created_ms=now if imported.created_ms is None else imported.created_ms,
        updated_ms=updated_ms,
        ttl_ms=context.store.conversations.ttl_ms(imported.settings.ttl_seconds),
        summary=summary,
    )
    context.store.tenants.changed[target.tenant, target.id] = updated_ms


async def _batches(request: Incoming, longest_line: int) -> AsyncIterator[list[ImportLine]]:
    """The body's lines in batches of bounded size. Raises TooLarge, BadRequest."""
    rest, number = bytearray(), 0
    batch: list[ImportLine] = []
    held = 0
    async for chunk in _stream(request):
        request.exchange.extend()  # the middleware refuses a body that arrives too slowly
        rest += chunk
        whole: list[bytes] = []
        if b"\n" in chunk:  # otherwise each small piece of a long line would copy the line
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
        for text in whole:
            number += 1
            _check_length(text, number, longest_line)
            if not text.strip():
                continue
            batch.append(ImportLine(number, text))
            held += len(text)
            if len(batch) >= _BATCH_LINES or held >= _BATCH_BYTES:
                yield batch
                batch, held = [], 0
        _check_length(rest, number + 1, longest_line)
    if rest.strip():
        batch.append(ImportLine(number + 1, bytes(rest)))
    if batch:
        yield batch


async def _stream(request: Incoming) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except InternalServerException:  # the framework raises this if the client disconnects
        raise BadRequest("The body ended early.") from None


def _check_length(text: bytes | bytearray, number: int, longest: int) -> None:
    if len(text) > longest:
        raise TooLarge(
            f"Line {number}: a line may have {longest} bytes.",
            members={"limit": longest, "unit": "bytes", "line": number},
        )
