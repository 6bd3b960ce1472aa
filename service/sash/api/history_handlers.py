"""Changing a stored history: redact a message, rewind, put a summary in place of the oldest messages; copy it (fork)."""

import contextlib
from typing import Annotated, Any

import msgspec
from litestar import Response, delete, patch, post, put
from litestar.params import FromPath

from sash.api.append_handlers import told_of
from sash.api.context import Context
from sash.api.conversation_handlers import conversation_body, merge_patch, refuse_large
from sash.api.headers import PATCH_BODY, etag
from sash.api.incoming import TAKEN, Incoming, taken
from sash.api.message_handlers import named_entry
from sash.api.openapi.operation import documented
from sash.api.schemas import ChangeEntry, Conversation, SealedBranch, StoredMessage
from sash.api.shown_messages import in_parts, stored_message
from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import EntryName, Id
from sash.core.chat.mistakes import converted
from sash.core.law.fixed_parts.conversation_settings import few_settings, read_settings
from sash.core.providers.reading.native import read_compaction
from sash.core.stored.split_media import Text
from sash.operations.logging import best_effort
from sash.problems import BadRequest, ConversationExists, NotFound, Problem
from sash.store.data.amendments import EntryNotes
from sash.store.data.branches import ended
from sash.store.data.changing import Change, no_entry, require_version
from sash.store.data.entries import stored_entries, wall_ms
from sash.store.data.layout import Target, target_at
from sash.store.data.reading import changed
from sash.store.data.replies import Message, State
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.staging import Staging
from sash.store.data.stored_messages import SMALL_STEP_BYTES
from sash.store.data.summaries import make_summary


class Rewind(msgspec.Struct, forbid_unknown_fields=True):
    """The last message to keep; 0 takes all messages away. They become a branch, or ``forget`` them, with the branches that
    hang in them."""

    to_seq: EntryName
    forget: bool = False


CompactionItem = Annotated[
    ProviderObject | list[ProviderObject],
    msgspec.Meta(
        title="CompactionItem",
        description="A compaction item of Responses or Anthropic: windows in that format begin with it. For Responses "
        "also the whole output of `/responses/compact`.",
    ),
]


class PutSummary(msgspec.Struct, forbid_unknown_fields=True):
    """The summary of messages 1 to ``through_seq``: a text, a provider's compaction item, or both. With neither, the
    summary is removed."""

    through_seq: EntryName
    text: str = ""
    item: CompactionItem | None = None


class Fork(msgspec.Struct, forbid_unknown_fields=True):
    """The copy's id, by default a new one, and its last message, by default the last of all."""

    id: Id | None = None
    at_seq: EntryName | None = None


_rewind = msgspec.json.Decoder(Rewind)
_summary = msgspec.json.Decoder(PutSummary)
_fork = msgspec.json.Decoder(Fork)
_changes = msgspec.json.Decoder(dict[str, Any])


@delete("/conversations/{conversation_id:str}/messages/{seq:str}", operation_id="redactMessage", status_code=204)
@documented("Redact a message", "messages")
async def redact_message(request: Incoming, seq: FromPath[str]) -> Response[None]:
    """Erase a message's content for good. The message keeps its place, and its tool group can still be sent."""
    context, target = request.context, request.target
    place, state = named_entry(seq), await standing_state(request, context, target)
    tag = state.etag
    if not request.was_done:
        tag = (await context.store.redactions.redact(target, place, **change_of(request, state))).etag
        touched(context, target, state.settings)
    return Response(None, status_code=204, headers={"ETag": etag(tag)})


@patch("/conversations/{conversation_id:str}/messages/{seq:str}", operation_id="changeMessage")
@documented(
    "Change a message's metadata and pin, or leave it out of windows",
    "messages",
    takes=ChangeEntry,
    takes_types=("application/json", "application/merge-patch+json"),
    gives=StoredMessage,
    errors=(507,),
)
async def change_message(request: Incoming, seq: FromPath[str]) -> Response[bytes]:
    """Change an entry's metadata and pin with a merge patch (RFC 7396). The message itself stays as it was appended.

    With ``sent`` false windows leave it out, with its tool group, until it is true again.
    """
    context, target = request.context, request.target
    name, changes = named_entry(seq), await request.decode(_changes, PATCH_BODY)
    for member in changes.keys() - set(ChangeEntry.__struct_fields__):
        if member in ("author", "audience"):
            detail = f"An entry keeps its {member}: who may see a message is not changed behind others' backs"
            raise BadRequest.at(f"#/{member}", f"{detail}. Append it again for others")
        detail = f"An unknown field {member[:40]!r}: only an entry's metadata, pinned and sent can be changed"
        raise BadRequest.at(f"#/{member}", f"{detail}. For another message append an entry, or rewind")
    state = await standing_state(request, context, target)
    if not request.was_done:

        def patched(notes: EntryNotes) -> EntryNotes:
            merged = merge_patch(msgspec.structs.asdict(notes), changes)
            wanted = converted(merged, ChangeEntry, "")
            refuse_large(msgspec.json.encode(wanted.metadata), context.settings.max_body_bytes, "metadata of a message")
            return EntryNotes(wanted.metadata or None, bool(wanted.pinned), wanted.sent is not False)

        await context.store.amendments.amend(target, name, patched, **change_of(request, state))
        touched(context, target, state.settings)
    page = await context.store.reader.entry(target, name)
    if not page.messages:
        raise no_entry()
    request.require_same_entry(page.messages[0].identity.id)
    body = msgspec.json.encode(stored_message(page.messages[0], page, target))
    return Response(body, headers={"ETag": etag(page.etag)})


@post("/conversations/{conversation_id:str}/rewind", operation_id="rewindConversation", status_code=200)
@documented("Take away the messages after a given one", "messages", takes=Rewind, gives=Conversation)
async def rewind_conversation(request: Incoming) -> Response[bytes]:
    """Take away the messages after a given one, to repeat or change a question. They become a branch."""
    context, target = request.context, request.target
    wanted = await request.decode(_rewind)
    state = await standing_state(request, context, target)
    told: dict[str, Any] = {}
    if not request.was_done:
        rewound = await context.store.histories.rewind(
            target, wanted.to_seq, **change_of(request, state), progress=request.exchange.extend, forget=wanted.forget
        )
        branch, forgotten = told_of(rewound.sealed, rewound.to_seq)
        told = {"branch": branch, "forgotten_branches": forgotten}
    elif not wanted.forget:
        told = {"branch": await _branch_before(context, target)}
    state = await context.store.reader.get(target)
    touched(context, target, state.settings)
    return Response(conversation_body(target.id, state, **told), headers={"ETag": etag(state.etag)})


async def _branch_before(context: Context, target: Target) -> SealedBranch | None:
    """The newest branch behind the log's end, which a rewind made that is asked for again."""
    read = await context.store.conversations.branches.all(target)
    newest = read.heads[-1] if read.heads else None
    is_its = newest is not None and (newest.parent, newest.after_seq) == (0, read.reply.length)
    return SealedBranch(newest.id, newest.after_seq, newest.messages) if newest and is_its else None


@put("/conversations/{conversation_id:str}/summary", operation_id="putSummary")
@documented(
    "Put a summary in place of the oldest messages", "windows", takes=PutSummary, gives=Conversation, errors=(507,)
)
async def put_summary(request: Incoming) -> Response[bytes]:
    """Put a text in place of the oldest messages, in windows that cannot hold these."""
    context, target = request.context, request.target
    wanted = await request.decode(_summary)
    compaction, text = read_compaction(wanted.item, "/item") if wanted.item is not None else (None, "")
    text = wanted.text or text
    state = await standing_state(request, context, target)
    if not request.was_done:
        through_seq = await _summarized_to(context, target, wanted, state)
        stands = through_seq and (text or compaction)
        summary = make_summary(text, through_seq, compaction) if stands else None
        await context.store.summaries.put(target, summary, **change_of(request, state))
    return await _conversation(context, target)


@delete("/conversations/{conversation_id:str}/summary", operation_id="deleteSummary", status_code=204)
@documented("Remove the summary", "windows")
async def delete_summary(request: Incoming) -> Response[None]:
    """Remove the summary. Its messages stay stored."""
    context, target = request.context, request.target
    state = await standing_state(request, context, target)
    tag = state.etag
    if not request.was_done:
        tag = (await context.store.summaries.put(target, None, **change_of(request, state))).etag
        touched(context, target, state.settings)
    return Response(None, status_code=204, headers={"ETag": etag(tag)})


async def _summarized_to(context: Context, target: Target, wanted: PutSummary, state: State) -> int:
    """Return the last seq that a summary covers. A number may be too large, which the store finds. Raises Unprocessable."""
    if isinstance(wanted.through_seq, int):
        return wanted.through_seq
    return await context.store.histories.known_seq(target, wanted.through_seq, state, "#/through_seq")


def touched(context: Context, target: Target, settings: bytes) -> None:
    """Note a change of a conversation for the lists that it is on: its owner's and its tenant's."""
    with best_effort:
        context.store.owners.touch(target, settings)
        context.store.tenants.changed[target.tenant, target.id] = wall_ms()


async def standing_state(request: Incoming, context: Context, target: Target) -> State:
    """The state of the conversation to change.

    Raises NotFound if there is none, or if it began after the request that this one repeats.
    """
    state = await context.store.reader.get(target)
    await request.require_life(state)
    return state


def change_of(request: Incoming, state: State) -> Change:
    """The arguments of every change."""
    return {"life": state.life, "if_match": request.if_match(), "now_ms": wall_ms(), "token": request.token()}


async def _conversation(context: Context, target: Target) -> Response[bytes]:
    state = await context.store.reader.get(target)
    touched(context, target, state.settings)
    return Response(conversation_body(target.id, state), headers={"ETag": etag(state.etag)})


@post("/conversations/{conversation_id:str}/fork", operation_id="forkConversation", status_code=201)
@documented("Fork a conversation", "conversations", takes=Fork, gives=Conversation, errors=(507,))
async def fork_conversation(request: Incoming) -> Response[bytes]:
    """Copy settings and messages into a new conversation, which appears when the copy is complete."""
    context, source = request.context, request.target
    wanted = await request.decode(_fork)
    if wanted.id in TAKEN:
        raise taken(wanted.id, "#/id")
    expected = request.if_match()
    copy = target_at(source.tenant, wanted.id or request.fresh_id())
    if copy == source:
        raise ConversationExists("A conversation cannot be forked into itself: choose another id.")
    if not request.was_done:
        state = await context.store.reader.get(source)
        if not await context.store.conversations.require_absent(copy, token=request.token()):
            require_version(state, expected)
            await _copy(request, source, copy, state, await _last(context, source, wanted, state))
            await _require_unedited(context, source, copy, state)
    copied = await context.store.reader.get(copy)
    request.require_same_life(copied)
    context.recall.indexer.notice(copy, copied.settings)
    headers = {"Location": f"/conversations/{copy.id}", "ETag": etag(copied.etag)}
    return Response(conversation_body(copy.id, copied), status_code=201, headers=headers)


async def _last(context: Context, source: Target, wanted: Fork, state: State) -> int:
    """Return the last seq that a fork takes. Raises Unprocessable."""
    if wanted.at_seq is None:
        return state.length
    return await context.store.histories.known_seq(source, wanted.at_seq, state, "#/at_seq")


async def _copy(request: Incoming, source: Target, copy: Target, state: State, at_seq: int) -> None:
    context = request.context
    settings, store = read_settings(state.settings), context.store
    staging = Staging(store.client, copy, token=request.token(), conversations=store.conversations)
    try:
        async for page in context.store.reader.chunks(source, at_seq, state):
            for part in in_parts(page.messages, SMALL_STEP_BYTES):
                contents = await _contents(context, source, part, state)
                await staging.add(stored_entries(part, page.grounding, page.metadata, contents))
                request.exchange.extend()
        await _copy_branches(request, source, staging, state, at_seq)
        await context.store.owners.put(copy, settings)
        await _require_as_read(context, source, state)  # a kill behind the next step leaves its copy
        now = wall_ms()
        await staging.publish(
            settings=state.settings,
            version=1,
            created_ms=now,
            updated_ms=now,
            ttl_ms=context.store.conversations.ttl_ms(settings.ttl_seconds),
            summary=state.summary if state.summary and state.summary.through_seq <= at_seq else None,
        )
        context.store.tenants.changed[copy.tenant, copy.id] = now
    except BaseException:
        await staging.abandon()
        raise


async def _copy_branches(request: Incoming, source: Target, staging: Staging, state: State, at_seq: int) -> None:
    """Copy the branches that hang in the messages up to ``at_seq``, and those that hang in these branches."""
    context, store = request.context, request.context.store.conversations.branches
    read = await store.all(source)
    if read.made != state.made:
        raise changed()
    numbers = [each.number for each in read.heads if read.chain(each)[0].after_seq <= at_seq]
    for number, page in (await store.pages(source, read, numbers)).items():
        for part in in_parts([ended(each) for each in page.messages], SMALL_STEP_BYTES):
            contents = await _contents(context, source, part, state)
            entries = stored_entries(part, page.grounding, page.metadata, contents)
            await staging.add_to_branch(read.branches[number].head, entries)
            request.exchange.extend()


async def _contents(context: Context, source: Target, part: list[Message], state: State) -> dict[bytes, Text]:
    """The contents of messages' pictures and files. Raises Conflict when the conversation was edited meanwhile."""
    try:
        media = (each for message in part for each in message.record.media)
        return await context.store.media.read(source, media, made=state.made)
    except HistoryEdited:
        raise changed() from None


async def _require_as_read(context: Context, source: Target, state: State) -> None:
    """Raise NotFound or Conflict unless the original stands as it was read."""
    now = await context.store.reader.get(source)
    if (now.made, now.summary) != (state.made, state.summary):
        raise changed()


async def _require_unedited(context: Context, source: Target, copy: Target, state: State) -> None:
    """Erase the copy unless the original stands as it was read: the copy would bring back what was taken away meanwhile.

    Raises NotFound, Conflict, StoreUnavailable.
    """
    try:
        await _require_as_read(context, source, state)
    except Problem:
        with contextlib.suppress(NotFound):  # somebody has erased the copy already
            copied = await context.store.reader.get(copy)
            await context.store.owners.erase_listed(copy, few_settings(copied.settings).owner, life=copied.life)
        raise
