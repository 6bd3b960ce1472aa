"""Conversations: create, read, change, erase."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Unpack

import msgspec
from litestar import Response, delete, get, patch, post

from sash.api.context import Context
from sash.api.headers import PATCH_BODY, etag
from sash.api.incoming import TAKEN, Incoming, taken
from sash.api.openapi.operation import documented
from sash.api.schemas import (
    Conversation,
    ConversationSummary,
    CreateConversation,
    EncodingTokens,
    ExportedConversation,
    ExportedView,
    MessageRange,
    RecallProgress,
    RewoundTail,
    StandingCompaction,
)
from sash.core.chat.json_bodies import whole_numbers
from sash.core.chat.mistakes import converted
from sash.core.counts.costs.counting import reference_tokens
from sash.core.law.fixed_parts.conversation_settings import (
    ConversationSettings,
    check_settings,
    encode_settings,
    few_settings,
    kept_for_windows,
    read_settings,
)
from sash.core.law.records.parameters import AgentView
from sash.core.providers.reading.native import compaction_items
from sash.operations.logging import best_effort
from sash.problems import CannotOpen, ConversationDamaged, PreconditionFailed, TooLarge
from sash.store.data.entries import wall_ms
from sash.store.data.layout import Target, target_at
from sash.store.data.replies import Shut, State, WholeState
from sash.windows.asked import check_tools_of
from sash.windows.seen_pages import seen_state

_create = msgspec.json.Decoder(CreateConversation)
_patch = msgspec.json.Decoder(dict[str, Any])
_ATTEMPTS = 32


def timestamp(milliseconds: int) -> str:
    """The time in RFC 3339, in UTC, to the millisecond; ``milliseconds`` are since 1970."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03}Z"


@lru_cache(4096)  # many of a page's messages have the same second
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


@post("/conversations", operation_id="createConversation", status_code=201)
@documented("Create a conversation", "conversations", takes=CreateConversation, gives=Conversation, errors=(507,))
async def create_conversation(request: Incoming) -> Response[bytes]:
    """Create a conversation without messages."""
    context = request.context
    wanted = await request.decode(_create)
    if wanted.id in TAKEN:
        raise taken(wanted.id, "#/id")
    request.refuse_state("A new conversation")
    settings = ConversationSettings(**{name: getattr(wanted, name) for name in ConversationSettings.__struct_fields__})
    settings = check_settings(settings)
    check_tools_of(settings, context.models)
    stored = encode_settings(settings)
    refuse_large(stored, context.settings.max_body_bytes)
    target = target_at(request.tenant, wanted.id or request.fresh_id())
    if not request.was_done:
        ttl_ms = context.store.conversations.ttl_ms(settings.ttl_seconds)
        await context.store.owners.put(target, settings)
        await context.store.conversations.create(target, stored, ttl_ms=ttl_ms, now_ms=wall_ms(), token=request.token())
        context.store.tenants.changed[target.tenant, target.id] = wall_ms()
    state = await context.store.reader.get(target)
    request.require_same_life(state)
    headers = {"Location": f"/conversations/{target.id}", "ETag": etag(state.etag)}
    return Response(conversation_body(target.id, state), status_code=201, headers=headers)


class StateQuery(msgspec.Struct, forbid_unknown_fields=True):
    """For whom the state is."""

    view: AgentView = None


@get("/conversations/{conversation_id:str}", operation_id="getConversation")
@documented("Read a conversation", "conversations", query=StateQuery, gives=Conversation)
async def get_conversation(request: Incoming) -> Response[bytes]:
    """A conversation's settings and state. With ``view`` it has no compactions, nor a summary of messages for others."""
    context, target = request.context, request.target
    view = request.query(StateQuery).view
    state = await context.store.reader.get(target)
    progress = await _progress(context, target, state)
    headers = {"ETag": etag(state.etag)}
    if request.is_known(state.etag):
        return Response(b"", status_code=304, headers=headers)
    return Response(conversation_body(target.id, seen_state(state, view), progress), headers=headers)


async def _progress(context: Context, target: Target, state: State) -> RecallProgress | None:
    """How much of a conversation is indexed; None if it has no index. Also resumes indexing that has stopped."""
    mode = context.recall.indexer.mode(state.settings)
    if mode == "off":
        return None
    context.recall.indexer.notice(target, state.settings)
    progress = await context.store.index.progress(target)
    vectors = progress.vectors if progress.model == context.settings.embeddings_model else 0
    return RecallProgress(mode, state.length, progress.words, vectors)


@patch("/conversations/{conversation_id:str}", operation_id="changeConversation")
@documented(
    "Change settings",
    "conversations",
    takes=ConversationSettings,
    takes_types=("application/json", "application/merge-patch+json"),
    gives=Conversation,
    errors=(507,),
)
async def change_conversation(request: Incoming) -> Response[bytes]:
    """Change settings with a merge patch (RFC 7396): null removes a setting."""
    context, target = request.context, request.target
    changes = whole_numbers(await request.decode(_patch, PATCH_BODY))
    expected = request.if_match()
    token = request.token()
    for attempt in range(_ATTEMPTS):
        state = await context.store.reader.get(target)
        await request.require_life(state)
        if request.was_done:
            break
        settings = _patched(state.settings, changes)
        if changes.keys() & {"tools", "model"}:
            check_tools_of(settings, context.models)
        stored = encode_settings(settings)
        refuse_large(stored, max(context.settings.max_body_bytes, len(state.settings)))
        before = few_settings(state.settings).owner
        left = await context.store.owners.line(target, before) if before != settings.owner else None
        await context.store.owners.put(target, settings)
        try:
            await context.store.conversations.change(
                target,
                settings=stored,
                standing=state.standing,
                life=state.life,
                ttl_ms=context.store.conversations.ttl_ms(settings.ttl_seconds),
                if_match=expected,
                now_ms=wall_ms(),
                token=token,
                forget={"off": ("words", "vectors"), "lexical": ("vectors",)}.get(settings.recall or "", ()),
                kept=kept_for_windows(state.settings, stored),
            )
        except PreconditionFailed:
            # Without If-Match, only another change of the settings interferes; an append does not.
            if expected or attempt == _ATTEMPTS - 1:
                raise
            continue
        await context.store.owners.leave(left)
        context.store.tenants.changed[target.tenant, target.id] = wall_ms()
        break
    state = await context.store.reader.get(target)
    context.recall.indexer.notice(target, state.settings)
    return Response(conversation_body(target.id, state), headers={"ETag": etag(state.etag)})


def _patched(stored: bytes, changes: dict[str, Any]) -> ConversationSettings:
    return check_settings(converted(merge_patch(msgspec.json.decode(stored), changes), ConversationSettings, ""))


def refuse_large(stored: bytes, limit_bytes: int, what: str = "settings of a conversation") -> None:
    """Raise TooLarge for what patches would make longer without end, such as settings, which each window reads."""
    if len(stored) > limit_bytes:
        detail = f"The {what} may have {limit_bytes} bytes as JSON; these have {len(stored)}."
        raise TooLarge(detail, members={"limit": limit_bytes, "unit": "bytes"})


def merge_patch(target: Any, changes: Any) -> Any:
    """RFC 7396's algorithm."""
    if not isinstance(changes, dict):
        return changes
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


@delete("/conversations/{conversation_id:str}", operation_id="deleteConversation", status_code=204)
@documented("Erase a conversation", "conversations", etag=False)
async def delete_conversation(request: Incoming) -> None:
    """Erase a conversation with everything that is stored about it."""
    context, target = request.context, request.target
    expected = request.if_match()
    if request.was_done:
        return
    life, owner = await _life_and_owner(request, context, target)
    await context.store.owners.erase_listed(target, owner, life=life, if_match=expected)
    with best_effort:
        context.watching.requests.lately.forget(target)


async def _life_and_owner(request: Incoming, context: Context, target: Target) -> tuple[str, str | None]:
    """The life to erase, and its owner. Raises NotFound."""
    standing: State | Shut
    try:
        standing = await context.store.reader.get(target)
        owner = few_settings(standing.settings).owner
    except (CannotOpen, ConversationDamaged):
        standing = await context.store.reader.shut(target)
        owner = standing.owner
    await request.require_life(standing)
    return standing.life, owner


def conversation_body(
    identity: str, state: WholeState, progress: RecallProgress | None = None, **rewound: Unpack[RewoundTail]
) -> bytes:
    """A conversation as JSON; after a rewind also what became of its messages."""
    members = _members(identity, state)
    return msgspec.json.encode(
        Conversation(**members, etag=etag(state.etag), agents=state.agents.names, recall_progress=progress, **rewound)
    )


def exported_body(identity: str, state: WholeState, view: str | None = None) -> bytes:
    """The first line of a conversation's export. The export of an imported copy begins with the same line.

    With a view, the line names it, so that an import does not take a part for the whole.
    """
    members = _members(identity, seen_state(state, view))
    return msgspec.json.encode(ExportedConversation(**members) if view is None else ExportedView(**members, view=view))


def _members(identity: str, state: WholeState) -> dict[str, Any]:
    settings = read_settings(state.settings)
    summary = None
    if state.summary is not None:
        tokens = EncodingTokens(*reference_tokens(state.summary.measure))
        compaction = state.summary.compaction
        items = compaction_items(compaction) if compaction is not None else []
        item, several = items[-1] if items else None, items if len(items) > 1 else []
        summary = ConversationSummary(state.summary.text, state.summary.through_seq, tokens, item, several)
    return {
        **msgspec.structs.asdict(settings),
        "id": identity,
        "version": state.version,
        "created_at": timestamp(state.created_ms),
        "updated_at": timestamp(state.updated_ms),
        "messages": MessageRange(state.length, 1 if state.length else None, state.length or None),
        "tokens": EncodingTokens(*state.tokens),
        "expires_at": timestamp(state.expires_ms) if state.expires_ms else None,
        "summary": summary,
        "compactions": [StandingCompaction(form, seq) for form, seq in state.compactions.items()],
    }
