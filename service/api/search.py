"""GET …/search: messages of a conversation that bear on a text."""

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath
from msgspec import Meta

from service.api.body import checked_id, query_of
from service.api.context import context_of, tenant_of
from service.api.conversations import JSON
from service.api.messages import stored_message
from service.api.openapi.operation import documented
from service.api.schemas import StoredMessage
from service.core.recall import Searched

Req = Request[Any, Any, Any]


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to look for."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="Words that messages are to bear on.")]
    limit: Annotated[int, Meta(ge=1, le=100, description="At most so many messages.")] = 10


class FoundMessage(StoredMessage, frozen=True, omit_defaults=True, kw_only=True):
    """An entry that bears on the text, and how much: a score tells the order, and is not comparable between queries."""

    score: float


class Found(msgspec.Struct, frozen=True):
    """Messages that bear on the text, the best first, and where they were looked for."""

    messages: list[FoundMessage]
    searched: Searched


@get("/conversations/{conversation_id:str}/search", operation_id="searchMessages")
@documented("Search a conversation", "messages", query=SearchQuery, gives=Found, etag=False, errors=(422,))
async def search_messages(request: Req, conversation_id: FromPath[str]) -> Response[bytes]:
    """Messages of this conversation that bear on a text, best first; needs ``recall``."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    wanted = query_of(request, SearchQuery)
    found, searched, state = await context.recaller.search(tenant, identity, wanted.query, wanted.limit)
    context.indexer.notice(tenant, identity, state.settings)
    pages = await asyncio.gather(*(context.reader.page(tenant, identity, seq, seq) for seq, _ in found))
    messages = []
    for (seq, score), page in zip(found, pages, strict=True):
        if page.made == state.made and page.messages:  # nothing of what was redacted meanwhile is shown
            stored = stored_message(page.messages[0], page.grounding.get(seq), page.metadata.get(seq))
            fields = {name: getattr(stored, name) for name in StoredMessage.__struct_fields__}
            messages.append(FoundMessage(**fields, score=round(score, 3)))
    return Response(msgspec.json.encode(Found(messages, searched)), media_type=JSON)


HANDLERS = (search_messages,)
