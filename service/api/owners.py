"""Owners: list an owner's conversations, or erase them all."""

import base64
import binascii
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get
from litestar.params import FromPath
from msgspec import Meta

from service.api.body import Cursor, checked_id, query_of
from service.api.context import context_of, extend_deadline, tenant_of
from service.api.conversations import JSON, conversation_body
from service.api.openapi.operation import documented
from service.api.schemas import Conversation
from service.core.bounds import IDS
from service.core.messages import Id
from service.problems import InvalidCursor
from service.store.owners import ListedConversation

Req = Request[Any, Any, Any]


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The owner, and the page to read."""

    owner: Annotated[Id, Meta(description="The owner of the conversations.")]
    limit: Annotated[int, Meta(ge=1, le=1000, description="The largest number of conversations on a page.")] = 100
    cursor: Annotated[Cursor | None, Meta(description="The previous page's `next_cursor`.")] = None


class ConversationPage(msgspec.Struct, frozen=True):
    """A page of an owner's conversations."""

    conversations: list[Conversation]
    next_cursor: str | None


@get("/conversations", operation_id="listConversations")
@documented("List an owner's conversations", "conversations", query=ListQuery, gives=ConversationPage)
async def list_conversations(request: Req) -> Response[bytes]:
    """An owner's conversations, newest activity first. Pages with large settings are shorter than ``limit``; only the
    last ``next_cursor`` is null."""
    context, tenant = context_of(request), tenant_of(request)
    query = query_of(request, ListQuery)
    before = _place(query.cursor) if query.cursor is not None else (float("inf"), "")
    page, more = await context.owners.read(tenant, query.owner, before=before, limit=query.limit)
    cursor = _cursor(page[-1]) if more else None
    body = (
        b'{"conversations":['
        + b",".join(conversation_body(each.id, each.state) for each in page)
        + b'],"next_cursor":'
        + msgspec.json.encode(cursor)
        + b"}"
    )
    tag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag}
    if cursor is not None:
        path = f"/conversations?owner={query.owner}&limit={query.limit}&cursor={cursor}"
        headers["Link"] = f'<{path}>; rel="next"'
    if {tag, "*"} & {each.strip() for each in request.headers.get("if-none-match", "").split(",")}:
        return Response(b"", status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=JSON)


@delete("/owners/{owner_id:str}", operation_id="deleteOwner", status_code=204)
@documented("Erase all of an owner's conversations", "conversations")
async def delete_owner(request: Req, owner_id: FromPath[str]) -> None:
    """Erase every conversation of an owner."""
    owner = checked_id(owner_id, "owner")
    async for _ in context_of(request).owners.erase(tenant_of(request), owner):
        extend_deadline(request)


def _cursor(last: ListedConversation) -> str:
    return base64.urlsafe_b64encode(f"{last.score}:{last.id}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[float, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        text = ""
    score, _, identity = text.partition(":")
    if not (score.isdigit() and len(score) <= 16 and IDS.fullmatch(identity)):
        raise InvalidCursor("The cursor is not from this listing: begin without one.")
    return float(score), identity


HANDLERS = (list_conversations, delete_owner)
