"""GET …/search: messages of a conversation that are relevant to a text."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from litestar import get
from msgspec import Meta

from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.schemas import StoredMessage
from sash.api.shown_messages import MediaForm, stored_message, with_media
from sash.core.law.recall import Searched
from sash.core.law.records.parameters import AgentView
from sash.problems import NotFound
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.stored_messages import STEP_BYTES
from sash.windows.recaller import WIDER, Hit
from sash.windows.seen_pages import seen_page


class SearchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The text to search for, and the number of messages."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000, description="The text to search for.")]
    limit: Annotated[int, Meta(ge=1, le=100, description="The largest number of messages.")] = 10
    media: MediaForm = "described"
    view: AgentView = None

    @property
    def most_hits(self) -> int:
        """The number of messages to find: more for a view, which may not see them all."""
        return self.limit if self.view is None else WIDER * self.limit


class Found(msgspec.Struct, frozen=True):
    """Messages that are relevant to the text, best first, and the indexes that were searched."""

    messages: list[StoredMessage]
    searched: Searched


@get("/conversations/{conversation_id:str}/search", operation_id="searchMessages")
@documented("Search a conversation", "messages", query=SearchQuery, etag=False, errors=(422,))
async def search_messages(request: Incoming) -> Found:
    """Messages of this conversation that are relevant to a text, best first. Needs ``recall``."""
    context, target = request.context, request.target
    wanted = request.query(SearchQuery)
    hits, searched = await context.recall.recaller.search(target, wanted.query, wanted.most_hits)
    messages = [stored async for _, stored in shown_hits(request, hits, wanted)]
    if hits and not messages:
        await context.store.reader.get(target)  # 404 where the conversation was erased since the search
    return Found(messages, searched)


async def shown_hits(
    request: Incoming, hits: Sequence[Hit], wanted: SearchQuery
) -> AsyncIterator[tuple[Hit, StoredMessage]]:
    """Yield at most ``limit`` hits, each with its message and its score, as the query wants them.

    Messages that were edited or erased since the search are left out, and so are those that its view may not see.
    """
    context, left = request.context, wanted.limit
    for hit, found in await context.recall.recaller.pages(hits):
        if not left:
            return
        with suppress(HistoryEdited, NotFound):
            page = await seen_page(context.store.reader, hit.target, found, wanted.view)
            if not page.messages:
                continue
            is_inline = wanted.media != "described"
            whole = await with_media(request, hit.target, page, STEP_BYTES) if is_inline else page
            stored = stored_message(whole.messages[0], whole, hit.target)
            yield hit, msgspec.structs.replace(stored, score=round(hit.score, 3))
            left -= 1
