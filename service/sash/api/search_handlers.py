"""GET …/search: messages of a conversation that are relevant to a text."""

import asyncio
from typing import Annotated

import msgspec
from litestar import get
from msgspec import Meta

from sash.api.body import (
    query_of,
    target_of,
)
from sash.api.context import Req, context_of
from sash.api.openapi.operation import documented
from sash.api.schemas import StoredMessage
from sash.api.shown_messages import MediaForm, stored_message, with_media
from sash.core.law.recall import Searched
from sash.store.data.stored_messages import STEP_BYTES


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The text to search for, and the number of messages."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="The text to search for.")]
    limit: Annotated[int, Meta(ge=1, le=100, description="The largest number of messages.")] = 10
    media: MediaForm = "described"


class FoundMessage(StoredMessage, frozen=True, omit_defaults=True, kw_only=True):
    """A relevant entry and its score. Scores give the order within one query, and do not compare between queries."""

    score: float


class Found(msgspec.Struct, frozen=True):
    """Messages that are relevant to the text, best first, and the indexes that were searched."""

    messages: list[FoundMessage]
    searched: Searched


@get("/conversations/{conversation_id:str}/search", operation_id="searchMessages")
@documented("Search a conversation", "messages", query=SearchQuery, etag=False, errors=(422,))
async def search_messages(request: Req) -> Found:
    """Messages of this conversation that are relevant to a text, best first. Needs ``recall``."""
    context, target = context_of(request), target_of(request)
    wanted = query_of(request, SearchQuery)
    found, searched, state = await context.recall.recaller.search(target, wanted.query, wanted.limit)
    pages = await asyncio.gather(*(context.store.reader.page(target, seq, seq) for seq, _ in found))
    messages = []
    for (_, score), page in zip(found, pages, strict=True):
        if page.made == state.made and page.messages:  # skips text that was redacted since the search
            if wanted.media == "inline":
                page = await with_media(request, target, page, STEP_BYTES)  # noqa: PLW2901 - the same page, whole
            stored = msgspec.structs.asdict(stored_message(page.messages[0], page, target))
            messages.append(FoundMessage(**stored, score=round(score, 3)))
    return Found(messages, searched)
