"""Changing a stored history: redact a message, rewind, put a summary in place of the oldest messages."""

from typing import Annotated

import msgspec
from litestar import Response, delete, post, put
from litestar.params import FromPath

from service.api.body import checked_id, decode, etag, if_match
from service.api.context import (
    Context,
    Req,
    context_of,
    extend_deadline,
    now_ms,
    request_token,
    require_life,
    tenant_of,
)
from service.api.conversations import JSON, conversation_body
from service.api.messages import checked_seq
from service.api.openapi.operation import documented
from service.api.schemas import Conversation, ProviderObject
from service.core.native import read_compaction
from service.store.history import Change, make_summary
from service.store.replies import State

Seq = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class Rewind(msgspec.Struct, forbid_unknown_fields=True):
    """The last message to keep; 0 removes all messages."""

    to_seq: Seq


class PutSummary(msgspec.Struct, forbid_unknown_fields=True):
    """The summary of messages 1 to ``through_seq``: a text, a provider's compaction item, or both. With neither, the
    summary is removed."""

    through_seq: Seq
    text: str = ""
    item: Annotated[
        ProviderObject | None,
        msgspec.Meta(description="A compaction item of Responses or Anthropic: windows in that format begin with it."),
    ] = None


_rewind = msgspec.json.Decoder(Rewind)
_summary = msgspec.json.Decoder(PutSummary)


@delete("/conversations/{conversation_id:str}/messages/{seq:str}", operation_id="redactMessage", status_code=204)
@documented("Redact a message", "messages")
async def redact_message(request: Req, conversation_id: FromPath[str], seq: FromPath[str]) -> Response[None]:
    """Erase a message's content for good. The message keeps its place, and its tool group can still be sent."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    place, state = checked_seq(seq), await _standing(request, context, tenant, identity)
    written = await context.histories.redact(tenant, identity, place, **_change(request, state))
    context.owners.touch(tenant, state.settings, identity)
    return Response(None, status_code=204, headers={"ETag": etag(written.etag)})


@post("/conversations/{conversation_id:str}/rewind", operation_id="rewindConversation", status_code=200)
@documented("Remove the messages after a given one", "messages", takes=Rewind, gives=Conversation)
async def rewind_conversation(request: Req, conversation_id: FromPath[str]) -> Response[bytes]:
    """Remove the messages after a given one, to repeat or change a question."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    wanted = await decode(request, _rewind)
    state = await _standing(request, context, tenant, identity)
    await context.histories.rewind(
        tenant, identity, wanted.to_seq, **_change(request, state), progress=lambda: extend_deadline(request)
    )
    return await _conversation(context, tenant, identity)


@put("/conversations/{conversation_id:str}/summary", operation_id="putSummary")
@documented(
    "Put a summary in place of the oldest messages", "windows", takes=PutSummary, gives=Conversation, errors=(507,)
)
async def put_summary(request: Req, conversation_id: FromPath[str]) -> Response[bytes]:
    """Put a text in place of the oldest messages, in windows that cannot hold these."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    wanted = await decode(request, _summary)
    compaction, text = read_compaction(wanted.item, "/item") if wanted.item is not None else (None, "")
    text = wanted.text or text
    stands = wanted.through_seq and (text or compaction)
    summary = make_summary(text, wanted.through_seq, compaction) if stands else None
    state = await _standing(request, context, tenant, identity)
    await context.histories.put_summary(tenant, identity, summary, **_change(request, state))
    return await _conversation(context, tenant, identity)


@delete("/conversations/{conversation_id:str}/summary", operation_id="deleteSummary", status_code=204)
@documented("Remove the summary", "windows")
async def delete_summary(request: Req, conversation_id: FromPath[str]) -> Response[None]:
    """Remove the summary. Its messages stay stored."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    state = await _standing(request, context, tenant, identity)
    written = await context.histories.put_summary(tenant, identity, None, **_change(request, state))
    context.owners.touch(tenant, state.settings, identity)
    return Response(None, status_code=204, headers={"ETag": etag(written.etag)})


async def _standing(request: Req, context: Context, tenant: str, identity: str) -> State:
    """The state of the conversation to change.

    Raises NotFound if there is none, or if it began after the request that this one repeats.
    """
    state = await context.reader.get(tenant, identity)
    await require_life(request, context, state)
    return state


def _change(request: Req, state: State) -> Change:
    """The arguments of every change."""
    return {"life": state.life, "if_match": if_match(request), "now_ms": now_ms(), "token": request_token(request)}


async def _conversation(context: Context, tenant: str, identity: str) -> Response[bytes]:
    state = await context.reader.get(tenant, identity)
    context.owners.touch(tenant, state.settings, identity)
    return Response(conversation_body(identity, state), headers={"ETag": etag(state.etag)}, media_type=JSON)


HANDLERS = (redact_message, rewind_conversation, put_summary, delete_summary)
