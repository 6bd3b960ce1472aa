"""POST …/fork: copy a conversation."""

import contextlib
from typing import Annotated

import msgspec
from litestar import Response, post
from litestar.params import FromPath

from service.api.body import checked_id, decode, etag, if_match, refuse_taken
from service.api.context import Context, Req, context_of, extend_deadline, fresh_id, now_ms, request_token, tenant_of
from service.api.conversations import JSON, conversation_body
from service.api.openapi.operation import documented
from service.api.schemas import Conversation
from service.core.messages import Id
from service.core.settings import decode_settings, owner_of
from service.problems import ConversationExists, NotFound, Problem, Unprocessable
from service.store.entries import stored_entries
from service.store.history import require_version
from service.store.reading import changed
from service.store.replies import State
from service.store.staging import Staging


class Fork(msgspec.Struct, forbid_unknown_fields=True):
    """The copy's id, by default a new one, and its last message, by default the last of all."""

    id: Id | None = None
    at_seq: Annotated[int, msgspec.Meta(ge=0, le=10**15)] | None = None


_fork = msgspec.json.Decoder(Fork)


@post("/conversations/{conversation_id:str}/fork", operation_id="forkConversation", status_code=201)
@documented("Fork a conversation", "conversations", takes=Fork, gives=Conversation, errors=(507,))
async def fork_conversation(request: Req, conversation_id: FromPath[str]) -> Response[bytes]:
    """Copy settings and messages into a new conversation, which appears when the copy is complete."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    wanted = await decode(request, _fork)
    refuse_taken(wanted.id, "#/id")
    expected = if_match(request)
    target = wanted.id or fresh_id(request)
    if target == identity:
        raise ConversationExists("A conversation cannot be forked into itself: choose another id.")
    state = await context.reader.get(tenant, identity)
    if not await context.conversations.require_absent(tenant, target, token=request_token(request)):
        require_version(state, expected)
        await _copy(request, context, tenant, (identity, target), state, _last(wanted.at_seq, state.length))
        await _require_unedited(context, tenant, (identity, target), state)
    copied = await context.reader.get(tenant, target)
    context.indexer.notice(tenant, target, copied.settings)
    headers = {"Location": f"/conversations/{target}", "ETag": etag(copied.etag)}
    return Response(conversation_body(target, copied), status_code=201, headers=headers, media_type=JSON)


def _last(at_seq: int | None, length: int) -> int:
    """The seq of the copy's last message. Raises Unprocessable if the conversation is shorter."""
    if at_seq is not None and at_seq > length:
        raise Unprocessable.at("#/at_seq", f"The last message is {length}")
    return length if at_seq is None else at_seq


async def _copy(request: Req, context: Context, tenant: str, names: tuple[str, str], state: State, at_seq: int) -> None:
    source, target = names
    settings, _ = decode_settings(state.settings)
    data_keys = context.conversations.data_keys
    staging = Staging(context.client, tenant, target, token=request_token(request), data_keys=data_keys)
    try:
        async for page in context.reader.chunks(tenant, source, at_seq, state):
            await staging.add(stored_entries(page.messages, page.grounding, page.metadata))
            extend_deadline(request)
        await context.owners.put(tenant, settings, target)
        now = now_ms()
        await staging.publish(
            settings=state.settings,
            version=1,
            created_ms=now,
            updated_ms=now,
            ttl_ms=context.conversations.ttl_ms(settings.ttl_seconds),
            summary=state.summary if state.summary and state.summary.through_seq <= at_seq else None,
        )
    except BaseException:
        await staging.abandon()
        raise


async def _require_unedited(context: Context, tenant: str, names: tuple[str, str], state: State) -> None:
    """Erase the copy unless the original stands as it was read: the copy would bring back what was taken away meanwhile.

    Raises NotFound, Conflict, StoreUnavailable.
    """
    source, target = names
    try:
        now = await context.reader.get(tenant, source)
        if (now.made, now.summary) == (state.made, state.summary):
            return
        problem: Problem = changed()
    except Problem as unread:
        problem = unread
    with contextlib.suppress(NotFound):  # somebody has erased the copy already
        copied = await context.reader.get(tenant, target)
        await context.owners.erase_listed(tenant, owner_of(copied.settings), target, life=copied.life)
    raise problem


HANDLERS = (fork_conversation,)
