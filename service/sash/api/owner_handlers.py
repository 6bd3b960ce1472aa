"""Owners: list the conversations of an owner or of the tenant, or erase all of an owner's."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import quote, unquote

import msgspec
from litestar import Response, delete, get
from litestar.params import FromPath
from msgspec import Meta

from sash.api.conversation_handlers import conversation_body, timestamp
from sash.api.cursors import Cursor, cursor_of, place_in
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.queries import query_with_metadata
from sash.api.schemas import Conversation, StoredMessage, Timestamp
from sash.api.search_handlers import SearchQuery, shown_hits
from sash.core.chat.bounds import IDS, OWNERS, WHAT_OWNERS_ARE
from sash.core.chat.messages import OwnerId
from sash.core.law.fixed_parts.conversation_settings import read_settings
from sash.problems import BadRequest, InvalidCursor, NotFound, Pointer
from sash.store.data.entries import wall_ms
from sash.store.data.layout import target_at
from sash.store.data.owner_erasures import OwnerErasure
from sash.store.data.owners import ListedConversation
from sash.store.data.tenants import Place
from sash.windows.recaller import MOST_CONVERSATIONS

_LOOKED = 1000
"""Conversations of which one page with a filter reads the metadata."""
_STEP = 100
"""The fewest that it reads at a time."""
_AT_ONCE = 1000
"""Conversations that one request erases; more are erased in the background."""


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The owner, and the page to read."""

    owner: Annotated[
        OwnerId | None,
        Meta(
            description="The owner of the conversations. Without it all of the tenant are listed, by `updated_at`. The "
            "first page in an hour goes through the whole store; the others cost what they have."
        ),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="The largest number of conversations on a page.")] = 100
    cursor: Annotated[Cursor | None, Meta(description="The previous page's `next_cursor`.")] = None
    title: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(
            description="Only conversations whose `metadata.title` contains this text, in capitals or not. There is no "
            "index: a page reads at most 1,000 conversations, so it may be shorter than `limit`, or empty, and "
            "`next_cursor` goes on to the others. Give an `owner`, too, whose conversations are few.",
            examples=["rome"],
        ),
    ] = None
    member: Annotated[
        str | None,
        Meta(
            description="Only conversations whose metadata has this value under `title`; with `*` at the end, a text that "
            "begins with it. Any name may follow the point, also of inner objects: `metadata.tags.topic`. Pages may then "
            "be shorter than `limit`, or empty.",
            examples=["Trip to*"],
        ),
    ] = msgspec.field(default=None, name="metadata.title")


class ConversationPage(msgspec.Struct, frozen=True):
    """A page of conversations."""

    conversations: list[Conversation]
    next_cursor: str | None


@get("/conversations", operation_id="listConversations")
@documented("List conversations", "conversations", query=ListQuery, gives=ConversationPage)
async def list_conversations(request: Incoming) -> Response[bytes]:
    """The conversations of an owner or of the tenant, newest activity first. Pages may be shorter than ``limit``, as those
    with large settings are; only the last ``next_cursor`` is null."""
    query, wanted = query_with_metadata(request, ListQuery)
    page, after = await _page(request, query, wanted)
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
        given = {"owner": query.owner, "title": query.title}
        owner = "".join(f"{name}={quote(value, safe='')}&" for name, value in given.items() if value is not None)
        filters = "".join(
            f"{quote(f'metadata.{name}', safe='')}={quote(value, safe='')}&" for name, value in wanted.items()
        )
        headers["Link"] = f'</conversations?{owner}{filters}limit={query.limit}&cursor={cursor}>; rel="next"'
    if request.is_known(tag):
        return Response(b"", status_code=304, headers=headers)
    return Response(body, headers=headers)


async def _page(
    request: Incoming, query: ListQuery, wanted: Mapping[str, str]
) -> tuple[list[ListedConversation], Place | None]:
    """A page of conversations whose metadata is as ``wanted``, and the place where the next one begins; None at the end."""
    before = _place(query.cursor) if query.cursor is not None else (float("inf"), "")
    is_filtered, title = bool(wanted or query.title), (query.title or "").casefold()

    def is_wanted(each: ListedConversation) -> bool:
        return not is_filtered or _has(read_settings(each.state.settings).metadata, wanted, title)

    step = max(query.limit, _STEP) if is_filtered else query.limit
    found: list[ListedConversation] = []
    looked = 0
    while True:
        page, after = await _read(request, query.owner, before, step)
        found += [each for each in page if is_wanted(each)]
        looked += len(page)
        if len(found) > query.limit:
            last = found[query.limit - 1]
            return found[: query.limit], (last.score, last.id)
        if after is None or len(found) == query.limit or looked >= _LOOKED or not is_filtered:
            return found, after
        before = after
        request.exchange.extend()


async def _read(
    request: Incoming, owner: str | None, before: Place, limit: int
) -> tuple[list[ListedConversation], Place | None]:
    """Up to ``limit`` conversations of an owner or of the tenant, and the place where the others begin; None at the end."""
    store, tenant = request.context.store, request.tenant
    if owner is None:
        return await store.tenants.read(tenant, before=before, limit=limit, progress=request.exchange.extend)
    page, more = await store.owners.read(tenant, owner, before=before, limit=limit)
    return page, (page[-1].score, page[-1].id) if more else None


def _has(metadata: Mapping[str, Any] | None, wanted: Mapping[str, str], title: str) -> bool:
    """Whether metadata has these values, and ``title``, in small letters, in its title.

    A ``*`` at a value's end stands for any rest of a text.
    """
    named = (metadata or {}).get("title")
    if title and not (isinstance(named, str | int | float) and title in str(named).casefold()):
        return False
    return all(_is_value(_member(metadata, name), value) for name, value in wanted.items())


def _member(metadata: Any, name: str) -> Any:
    """The member of this name, or of inner objects by names with points between; None if there is none."""
    if isinstance(metadata, dict) and name in metadata:
        return metadata[name]
    first, _, rest = name.partition(".")
    return _member(metadata.get(first), rest) if isinstance(metadata, dict) and rest else None


def _is_value(found: Any, wanted: str) -> bool:
    if isinstance(found, str):
        return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted
    return isinstance(found, bool | int | float) and msgspec.json.encode(found).decode() == wanted


class SearchedOwner(msgspec.Struct, frozen=True):
    """The numbers of conversations and of messages that were searched, newest activity first."""

    conversations: int
    messages: int


class FoundOfOwner(msgspec.Struct, frozen=True):
    """Messages of an owner's conversations that are relevant to the text, best first."""

    messages: list[StoredMessage]
    searched: SearchedOwner


@get("/owners/{owner_id:str}/search", operation_id="searchOwner")
@documented("Search an owner's conversations", "messages", query=SearchQuery, errors=(422,))
async def search_owner(request: Incoming, owner_id: FromPath[str]) -> FoundOfOwner:
    """Messages of all conversations of an owner that are relevant to a text, best first.

    Conversations without ``recall`` are left out, and so are those after the newest 200, or after 20,000 messages.
    """
    context, owner, wanted = request.context, owner_in_path(owner_id), request.query(SearchQuery)
    tenant = request.tenant
    listed, _ = await context.store.owners.read(tenant, owner, limit=MOST_CONVERSATIONS)
    standing = [(target_at(tenant, each.id), each.state) for each in listed]
    hits, conversations, count = await context.recall.recaller.search_each(standing, wanted.query, wanted.most_hits)
    messages = [
        msgspec.structs.replace(stored, conversation_id=hit.target.id)
        async for hit, stored in shown_hits(request, hits, wanted)
    ]
    return FoundOfOwner(messages, SearchedOwner(conversations, count))


class Erasure(msgspec.Struct, frozen=True):
    """An erasure of an owner's conversations, which goes on by itself until none is left."""

    id: str
    done: Annotated[int, Meta(ge=0, description="Conversations that are erased.")]
    left: Annotated[int, Meta(ge=0, description="Conversations still to be erased.")]
    began_at: Timestamp
    finished_at: Annotated[Timestamp | None, Meta(description="When none was left; it is then known for a day.")]


@delete("/owners/{owner_id:str}", operation_id="deleteOwner", status_code=202)
@documented(
    "Erase all of an owner's conversations",
    "conversations",
    gives=Erasure,
    also=(204, "All are erased."),
)
async def delete_owner(request: Incoming, owner_id: FromPath[str]) -> Response[bytes]:
    """Erase every conversation of an owner.

    With over 1,000 conversations the answer is 202, and ``Location`` is where to look: ``done``, ``left``. Those that begin
    after the request stay.
    """
    owner, tenant, context = owner_in_path(owner_id), request.tenant, request.context
    request.refuse_state("An owner")
    erasures, identity = context.store.owner_erasures, request.fresh_id()
    erasure = await (erasures.find(identity) if request.claim is not None else erasures.open_of(tenant, owner))
    if erasure is None and request.was_done:
        return Response(b"", status_code=204)
    if erasure is None:
        left = await context.store.owners.count(tenant, owner, over=_AT_ONCE)
        if left is not None:
            erasure = await erasures.begin(identity, tenant, owner, left=left, now_ms=wall_ms())
    if erasure is not None:
        headers = {"Location": f"/erasures/{erasure.id}", "Retry-After": "1"}
        return Response(msgspec.json.encode(_shown(erasure)), status_code=202, headers=headers)
    async for _ in context.store.owners.erase(tenant, owner):
        request.exchange.extend()
    return Response(b"", status_code=204)


@get("/erasures/{erasure_id:str}", operation_id="getErasure")
@documented("See how far an erasure is", "conversations")
async def get_erasure(request: Incoming, erasure_id: FromPath[str]) -> Erasure:
    """How many conversations of an owner are erased, and how many are left."""
    found = await request.context.store.owner_erasures.find(erasure_id)
    if found is None or found.tenant != request.tenant:
        raise NotFound("There is no such erasure. One that is done is known for a day.")
    return _shown(found)


def _shown(erasure: OwnerErasure) -> Erasure:
    finished = erasure.finished_ms
    began_at = timestamp(erasure.began_ms)
    return Erasure(erasure.id, erasure.done, erasure.left, began_at, timestamp(finished) if finished else None)


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
