"""Branches: list them, make one the conversation's end again, drop one."""

from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath
from msgspec import Meta

from sash.api.append_handlers import told_of
from sash.api.conversation_handlers import timestamp
from sash.api.headers import etag
from sash.api.history_handlers import change_of, standing_state, touched
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.schemas import ETag, ForgottenBranches, ScreenMessage, SealedBranch
from sash.api.screen_pages import shown_branch
from sash.core.counts.models.families import ROLES
from sash.core.stored.details import decode_details
from sash.store.data.branches import BranchesRead, Head, name_of, number_of
from sash.store.data.replies import Message, Page

_FIRST_CHARACTERS = 200


class BranchesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How the branches are listed."""

    messages: Annotated[bool, Meta(description="Give the messages of each, as `content`.")] = False
    format: Annotated[
        Literal["ui", "ag-ui"], Meta(title="ScreenFormat", description="The screen's format of these messages.")
    ] = "ui"


class FirstMessage(msgspec.Struct, frozen=True):
    """The role and the text of a branch's first message."""

    role: str
    text: Annotated[str, Meta(description=f"Its first {_FIRST_CHARACTERS} characters.")]


class ListedBranch(msgspec.Struct, frozen=True):
    """Messages that were the conversation's end once. They hang behind a message of the log, or of the branch ``parent``."""

    id: str
    parent: str | None
    after_seq: Annotated[int, Meta(description="The seq of the message before its first; 0 for none.")]
    after: Annotated[str | None, Meta(description="The id of that message; null for none.")]
    messages: int
    created_at: Annotated[str, Meta(description="When the messages were replaced.")]
    first: FirstMessage
    content: Annotated[
        list[ScreenMessage] | msgspec.UnsetType, Meta(description="Its messages, with `messages=true`.")
    ] = msgspec.UNSET


class BranchList(msgspec.Struct, frozen=True):
    """A conversation's branches, the newest first."""

    conversation_id: str
    version: int
    etag: ETag
    branches: list[ListedBranch]


class SwappedBranch(msgspec.Struct, frozen=True):
    """The conversation's new end: ``messages`` behind ``after_seq``; and the branch that its old end became, if any."""

    conversation_id: str
    version: int
    etag: ETag
    after_seq: int
    messages: int
    branch: SealedBranch | None
    forgotten_branches: ForgottenBranches = msgspec.UNSET


@get("/conversations/{conversation_id:str}/branches", operation_id="listBranches")
@documented("List the branches", "branches", query=BranchesQuery, gives=BranchList)
async def list_branches(request: Incoming) -> Response[bytes]:
    """The branches: ends of the conversation that an agreement, an edit, a rewind or another branch replaced."""
    context, target = request.context, request.target
    query = request.query(BranchesQuery)
    read = await context.store.conversations.branches.all(target)
    headers = {"ETag": etag(read.etag)}
    if request.is_known(read.etag):
        return Response(b"", status_code=304, headers=headers)
    pages = await context.store.conversations.branches.pages(target, read, read.branches)
    branches = [_branch(read, pages, head) for head in reversed(read.heads) if head.number in pages]
    if query.messages:
        branches = [
            msgspec.structs.replace(each, content=shown_branch(request, pages[number_of(each.id)], query.format))
            for each in branches
        ]
    answer = BranchList(target.id, int(read.reply.version), etag(read.etag), branches)
    return Response(msgspec.json.encode(answer), headers=headers)


def _branch(read: BranchesRead, pages: dict[int, Page], head: Head) -> ListedBranch:
    after = None
    if details := read.before.get(head.number):
        after = decode_details(details).identity.id
    elif head.parent in pages:
        page = pages[head.parent]
        after = page.messages[head.after_seq - page.messages[0].seq].identity.id
    return ListedBranch(
        head.id,
        name_of(head.parent) if head.parent else None,
        head.after_seq,
        after,
        head.messages,
        timestamp(int(head.sealed_ms)),
        _first(pages[head.number].messages[0]),
    )


def _first(message: Message) -> FirstMessage:
    content: Any = msgspec.json.decode(message.body).get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return FirstMessage(ROLES[message.record.measure.role], str(content or "")[:_FIRST_CHARACTERS])


@post("/conversations/{conversation_id:str}/branches/{branch:str}", operation_id="swapBranch", status_code=200)
@documented("Go to a branch", "branches", gives=SwappedBranch, errors=(409, 507))
async def swap_branch(request: Incoming, branch: FromPath[str]) -> Response[bytes]:
    """Make a branch the conversation's end. Its messages have the seqs, ids and costs that they had, and what was the end
    is a branch."""
    context, target = request.context, request.target
    state = await standing_state(request, context, target)
    change = change_of(request, state)
    swapped = await context.store.branch_swaps.swap(target, branch, change, request.exchange.extend)
    context.recall.indexer.notice(target, state.settings)
    touched(context, target, state.settings)
    sealed, forgotten = told_of(swapped.sealed, swapped.after_seq)
    tag = etag(swapped.etag)
    answer = SwappedBranch(target.id, swapped.version, tag, swapped.after_seq, swapped.messages, sealed, forgotten)
    return Response(msgspec.json.encode(answer), headers={"ETag": tag})


@delete("/conversations/{conversation_id:str}/branches/{branch:str}", operation_id="dropBranch", status_code=204)
@documented("Drop a branch", "branches")
async def drop_branch(request: Incoming, branch: FromPath[str]) -> Response[None]:
    """Forget a branch, and those that hang in it."""
    context, target = request.context, request.target
    state = await standing_state(request, context, target)
    tag = state.etag
    if not request.was_done:
        dropped = await context.store.histories.drop_branch(target, branch, **change_of(request, state))
        tag = dropped.etag
        touched(context, target, state.settings)
    return Response(None, status_code=204, headers={"ETag": etag(tag)})
