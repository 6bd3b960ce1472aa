"""Owners: list the conversations of an owner or of the tenant, or erase all of an owner's."""

from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Annotated
from urllib.parse import quote, unquote

import msgspec
from litestar import Response, delete, get
from litestar.params import FromPath
from msgspec import Meta

from sash.api.body import is_known, query_of, refuse_state
from sash.api.context import Req, context_of, extend_deadline, tenant_of, was_done
from sash.api.conversation_handlers import conversation_body
from sash.api.cursors import Cursor, cursor_of, place_in
from sash.api.openapi.operation import documented
from sash.api.schemas import Conversation
from sash.core.chat.bounds import IDS, OWNERS, WHAT_OWNERS_ARE
from sash.core.chat.messages import OwnerId
from sash.problems import BadRequest, InvalidCursor, Pointer
from sash.store.data.owners import ListedConversation
from sash.store.data.tenants import Place


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The owner, and the page to read."""

    owner: Annotated[
        OwnerId | None,
        Meta(
            description="The owner of the conversations. Without it all of the tenant are listed, by `updated_at`. There is "
            "no index for that: each page takes time that grows with the whole store."
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="The largest number of conversations on a page.")] = 100
    cursor: Annotated[Cursor | None, Meta(description="The previous page's `next_cursor`.")] = None


class ConversationPage(msgspec.Struct, frozen=True):
    """A page of conversations."""

    conversations: list[Conversation]
    next_cursor: str | None


@get("/conversations", operation_id="listConversations")
@documented("List conversations", "conversations", query=ListQuery, gives=ConversationPage)
async def list_conversations(request: Req) -> Response[bytes]:
    """The conversations of an owner or of the tenant, newest activity first. Pages may be shorter than ``limit``, as those
    with large settings are; only the last ``next_cursor`` is null."""
    query = query_of(request, ListQuery)
    page, after = await _page(request, query)
    cursor = cursor_of(f"{after[0]:.0f}:{after[1]}") if after is not None else None
    body = (
        b'{"conversations":['
        + b",".join(conversation_body(each.id, each.state) for each in page)
        + b'],"next_cursor":'
        + msgspec.json.encode(cursor)
        + b"}"
    )
    tag = blake2b(body, digest_size=12).hexdigest()
    headers = {"ETag": f'W/"{tag}"'}
    if cursor is not None:
        owner = f"owner={quote(query.owner, safe='')}&" if query.owner is not None else ""
        headers["Link"] = f'</conversations?{owner}limit={query.limit}&cursor={cursor}>; rel="next"'
    if is_known(request, tag):
        return Response(b"", status_code=304, headers=headers)
    return Response(body, headers=headers)


async def _page(request: Req, query: ListQuery) -> tuple[list[ListedConversation], Place | None]:
    """A page, and the place where the next one begins; None at the end."""
    context, tenant = context_of(request), tenant_of(request)
    before = _place(query.cursor) if query.cursor is not None else (float("inf"), "")
    if query.owner is None:
        progress = partial(extend_deadline, request)
        return await context.store.tenants.read(tenant, before=before, limit=query.limit, progress=progress)
    page, more = await context.store.owners.read(tenant, query.owner, before=before, limit=query.limit)
    return page, (page[-1].score, page[-1].id) if more else None


@delete("/owners/{owner_id:str}", operation_id="deleteOwner", status_code=204)
@documented("Erase all of an owner's conversations", "conversations")
async def delete_owner(request: Req, owner_id: FromPath[str]) -> None:
    """Erase every conversation of an owner."""
    owner = owner_in_path(owner_id)
    refuse_state(request, "An owner")
    if was_done(request):
        return
    async for _ in context_of(request).store.owners.erase(tenant_of(request), owner):
        extend_deadline(request)


def owner_in_path(encoded: str) -> str:
    """The owner that a path names, percent-encoded. Raises BadRequest for what is no owner's id."""
    with suppress(UnicodeDecodeError):
        owner = unquote(encoded, errors="strict")
        if OWNERS.fullmatch(owner):
            return owner
    raise BadRequest(
        f"The owner id must be {WHAT_OWNERS_ARE}: percent-encode it, as in /owners/ann%40example.com.",
        errors=[Pointer("#/path/owner_id", WHAT_OWNERS_ARE)],
    )


def _place(cursor: str) -> Place:
    score, _, identity = place_in(cursor).partition(":")
    if not (score.isdigit() and len(score) <= 16 and IDS.fullmatch(identity)):
        raise InvalidCursor.at("#/query/cursor", "The cursor is not from this listing: begin without one")
    return float(score), identity
