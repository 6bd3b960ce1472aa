"""Append messages, all or none, and answer with the window that follows."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from litestar import post
from msgspec import Meta

from sash.api.context import Context
from sash.api.incoming import Answer, Incoming, run_in_turn_if_large
from sash.api.message_formats import MessageFormat, read_own
from sash.api.openapi.operation import documented
from sash.api.schemas import (
    AppendedMessage,
    AppendedMessages,
    AppendMessages,
    EncodingTokens,
    SealedBranch,
)
from sash.api.window_handlers import window_beside
from sash.core.chat.bounds import IDS
from sash.core.chat.json_bodies import decode_json
from sash.core.chat.messages import Entry, EntryName, decode_entries, is_text_alone
from sash.core.law.documents.grounding import Template, parse_template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, decoded_settings, encode_settings
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.units import LONGEST_GROUP
from sash.core.measured_entries import Earlier, check_entries
from sash.core.providers import CHAT
from sash.core.providers.messages.members import Names
from sash.core.providers.reading.native import needs_earlier
from sash.core.providers.reading.native_entries import ReadEntries, chat_entries
from sash.operations.logging import describe, get_logger, log_beside
from sash.problems import (
    Internal,
    NotFound,
    Pointer,
    Problem,
    TooLarge,
    Unprocessable,
    WindowDoesNotFit,
)
from sash.store.data.append_script import AppendReply
from sash.store.data.branches import NOTHING_SEALED, SealedTail, name_of
from sash.store.data.entries import NewEntry, prepare, wall_ms
from sash.store.data.layout import Target
from sash.store.data.replies import Message
from sash.store.data.tails import TailReply
from sash.windows.asked import limits_of
from sash.windows.receipts import read_receipt, require_of

_EARLIER = LONGEST_GROUP
"""Messages in which the call of a result without its id is looked for."""
MESSAGES_AN_ENTRY = 10  # on average: an entry may be a list of items, and the store stands 6 us for each message
_log = get_logger()
DEFAULTS = encode_settings(ConversationSettings())
_DEFAULT_TEMPLATE = parse_template()


class AppendNative(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to append in a provider's format, each alone or in an entry."""

    in_address: ClassVar = WindowQuery
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    after_seq: EntryName | None = None


EntryInQuery = Annotated[
    str,
    Meta(
        pattern=rf"^(\d{{1,15}}|id:{IDS.pattern})\Z",
        extra_json_schema={"description": "the seq of a message, such as 6, or 'id:' and its own id, as in id:m-7."},
    ),
]


ForgetTail = Annotated[
    bool,
    Meta(
        description="Whether what is replaced is forgotten, with the branches that hang in it. Else it becomes a branch."
    ),
]


class AppendQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the window after the append, and the message to which the history is rewound before."""

    format: MessageFormat = CHAT
    after_seq: Annotated[
        EntryInQuery | None,
        Meta(
            description="Replace the messages after this one, in the same step: its seq, or `id:` and its own id. "
            "0 replaces all messages. It may be given in the body instead."
        ),
    ] = None
    forget: ForgetTail = False


_OWN = (b"format=", b"after_seq=", b"forget=")
"""Parameters of an append that are not those of a window."""
_encode = msgspec.json.Encoder().encode
_append = msgspec.json.Decoder(AppendMessages)
_append_native = msgspec.json.Decoder(AppendNative)


@post("/conversations/{conversation_id:str}/messages", operation_id="appendMessages", status_code=201)
@documented(
    "Append messages",
    "messages",
    query=AppendQuery,
    takes=AppendMessages,
    gives=AppendedMessages,
    also=(200, "Every entry was stored before."),
    errors=(410, 507),
)
async def append_messages(request: Incoming) -> Answer:
    """Append entries, all or none, each id once. With ``model`` the answer contains the window.

    With ``after_seq`` they replace the messages after that one, which become a branch, in the same step.
    """
    started = time.perf_counter()
    context, target = request.context, request.target
    asked, reach = request.query(AppendQuery), None
    query = window_beside(request.scope["query_string"], asked, _OWN)
    if query is not None:
        reach = context.windows.asking(query).reach  # raises for an unknown model, which must happen before the append
    token = repeats = None
    if request.claim is not None:
        await request.look_for_earlier_run()
        token, repeats = request.claim.token, request.life_before
    expected, sent = request.if_match(), await _read(request, asked)
    try:
        entries, now, counting_seconds = await _counted(context, target, sent, query, repeats)
        conversations, histories = context.store.conversations, context.store.histories
        writing = target, entries, DEFAULTS, expected, now, reach, repeats, token
        if sent.after is None or repeats is not None:
            reply = await conversations.append(*writing)
        else:
            append, extend = partial(conversations.append, *writing), request.exchange.extend
            reply = await histories.append_after(target, sent.after, append, extend, forget=asked.forget)
        follow_up(request, target, entries, reply, now, (started, counting_seconds))
        window = await window_after(request, target, query, reply.tail) if query is not None else ()
        return _answer(target, entries, reply, window)
    except Problem as problem:
        sent.point(problem)
        raise


class _Sent(msgspec.Struct, frozen=True):
    """What the request appends: its entries, of a body of ``size_bytes``, and the message to which it rewinds before."""

    entries: list[Entry]
    native: ReadEntries | None
    """How the entries came about, where they are in a provider's format."""
    size_bytes: int
    after: int | str | None
    is_after_in_query: bool

    def point(self, problem: Problem) -> None:
        """Make the problem's pointers name places of the request, whose query may have ``after_seq``."""
        (self.native or chat_entries(self.entries)).point(problem)
        if self.is_after_in_query:
            at, there = "#/after_seq", "#/query/after_seq"
            problem.errors = tuple(
                Pointer(there, wrong.detail) if wrong.pointer == at else wrong for wrong in problem.errors
            )


async def _read(request: Incoming, asked: AppendQuery) -> _Sent:
    """Read the body. Under an Idempotency-Key each entry gets an id.

    Raises BadRequest, InvalidEntry, TooLarge, and Unprocessable if both the query and the body name ``after_seq``.
    """
    body, settings = await request.read_body(), request.context.settings
    most, native = settings.max_entries, None
    if asked.format == CHAT:
        read = await run_in_turn_if_large(len(body), decode_entries, body, _append)
        given, after = read.messages, read.after_seq
        if len(given) > most:
            raise too_many(most, "entries")
    else:
        names, items = settings.send_members, settings.allow_items
        native, after = await run_in_turn_if_large(len(body), _read_native, body, asked.format, most, names, items)
        given = native.entries
    if request.claim is not None:
        for place, entry in enumerate(given):
            entry.id = entry.id or request.fresh_id(place)
    if (named := asked.after_seq) is not None:
        if after is not None:
            raise Unprocessable.at("#/after_seq", "Give after_seq once: in the query, or in the body")
        after = int(named) if named.isdigit() else named
    return _Sent(given, native, len(body), after, named is not None)


def _read_native(
    body: bytes, form: str, most: int, send: Names, allowed: Sequence[str]
) -> tuple[ReadEntries, int | str | None]:
    """The entries of a body in a provider's format, of which there may be ``most``, and its ``after_seq``.

    Raises BadRequest, TooLarge.
    """
    read = decode_json(body, _append_native)
    if len(read.messages) > most:
        raise too_many(most, "entries")
    native = read_own(form, read.messages, send, allowed)
    if len(native.entries) > MESSAGES_AN_ENTRY * most:
        raise too_many(MESSAGES_AN_ENTRY * most, "messages")
    return native, read.after_seq


def too_many(limit: int, unit: str) -> TooLarge:
    """The problem of a request with more than ``limit`` entries or messages."""
    detail = f"A request may append {limit} {unit}: append the rest in further requests, or import a long history"
    return TooLarge.at("#/messages", detail, {"limit": limit, "unit": unit})


async def _counted(
    context: Context, target: Target, sent: _Sent, query: WindowQuery | None, repeats: str | None
) -> tuple[list[NewEntry], int, float]:
    """The entries, checked and counted; the time, in milliseconds, at which they are stored; and the seconds that it took.

    Where the settings name the window's model, raises what the window would: before anything is stored.
    """
    unnamed = query if query is not None and query.model is None else None
    needs_settings, needs_messages, has_receipts = unnamed is not None, False, False
    for entry in sent.entries:
        needs_settings |= entry.grounding is not None
        has_receipts |= entry.receipt is not None
        needs_messages |= not is_text_alone(entry.message) and needs_earlier(entry.message)
    template = _DEFAULT_TEMPLATE
    if needs_settings:
        settings, parts = decoded_settings[await stored_settings(context, target), context.settings.send_members]
        template = parts.template
        if unnamed is not None and repeats is None:
            limits_of(unnamed, settings, context.models)
    now, counting = wall_ms(), time.perf_counter()
    earlier = await earlier_messages(context, target, sent.after) if needs_messages else ()
    if has_receipts:
        check_receipts(sent.entries, target)
    names = context.settings.send_members
    entries = await run_in_turn_if_large(sent.size_bytes, _prepared, sent.entries, earlier, template, now, names)
    return entries, now, time.perf_counter() - counting


def _prepared(given: Sequence[Entry], earlier: Earlier, template: Template, now_ms: int, send: Names) -> list[NewEntry]:
    """The entries, checked, measured and encoded."""
    check_entries(given, earlier)
    return prepare(given, template, now_ms, send)


async def stored_settings(context: Context, target: Target) -> bytes:
    """The conversation's encoded settings; the defaults if it does not exist yet."""
    with suppress(NotFound):
        return (await context.store.reader.get(target)).settings
    return DEFAULTS


async def earlier_messages(context: Context, target: Target, after: int | str | None) -> Earlier:
    """The newest messages of the conversation, one of which may have the call that a result answers; up to ``after``."""
    messages: Sequence[Message] = ()
    with suppress(NotFound):
        last = -1 if after is None else await context.store.reader.seq_of(target, after) or 0
        if last != 0:
            first = -_EARLIER if last < 0 else last - _EARLIER + 1
            messages = (await context.store.reader.page(target, first, last, newest_first=True)).messages
    return [(message.identity.id, msgspec.json.decode(message.body)) for message in messages]


def check_receipts(given: Sequence[Entry], target: Target) -> None:
    """Raise BadRequest for what is no receipt, and Unprocessable for a receipt of another conversation."""
    for place, entry in enumerate(given):
        if entry.receipt is not None:
            pointer = f"#/messages/{place}/receipt"
            require_of(read_receipt(entry.receipt, pointer), target, pointer)


def follow_up(
    request: Incoming,
    target: Target,
    entries: list[NewEntry],
    reply: AppendReply,
    now_ms: int,
    times: tuple[float, float],
) -> None:
    """Report an append, stored at ``now_ms``, to metrics and the log line, and start its background work.

    ``times`` are the append's start (``time.perf_counter``) and the seconds spent on counting.
    """
    context, line, has_settings = request.context, request.line, reply.settings != DEFAULTS
    try:
        context.store.tenants.changed[target.tenant, target.id] = now_ms
        if has_settings:
            context.store.owners.touch(target, reply.settings)
        count = tokens = 0
        for step in reply.entries:
            if not step.duplicate:
                count += 1
                tokens += step.tokens[0]
        line["appended"] = count
        line["appended_tokens"] = tokens
        context.watching.metrics.append(count, seconds=time.perf_counter() - times[0], tokenise_seconds=times[1])
    except Exception as error:  # noqa: BLE001 - a stored append is never answered with an error
        log_beside(error)
    if has_settings or context.settings.recall != "off":
        context.recall.indexer.appended(target, entries, reply)


async def window_after(
    request: Incoming, target: Target, query: WindowQuery, tail: TailReply | None
) -> Sequence[bytes]:
    """The answer's member ``window``, or ``window_error``, in pieces. The turn is stored, so a failure is not raised."""
    context, room, started = request.context, request.exchange.make_room, time.perf_counter()
    try:
        if tail is None:
            made, state = await context.windows.read(target, query, room)
        else:
            read = await context.store.reader.tails.opened(target, tail)
            made, state = await context.windows.of_tail(target, query, read, room)
        request.tell_made(target, made, state, time.perf_counter() - started)
    except Problem as problem:
        if isinstance(problem, WindowDoesNotFit) and not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        return no_window(request, problem)
    except Exception as error:  # noqa: BLE001 - a stored append is never answered with an error
        _log.error("window failed", operation="appendMessages", **describe(error))
        return no_window(request, Internal("The service could not make the window; the turn is stored."))
    return b',"window":', made.body


def no_window(request: Incoming, problem: Problem) -> Sequence[bytes]:
    """The answer's members where its window cannot be made."""
    return b',"window":null,"window_error":', msgspec.json.encode(problem.document(request.scope["path"]))


def _answer(target: Target, entries: list[NewEntry], reply: AppendReply, window: Sequence[bytes]) -> Answer:
    """The answer to an append: each entry's seq and tokens, then ``window``, which are JSON members in pieces."""
    messages, seqs, status = [], [], 200
    for entry, step in zip(entries, reply.entries, strict=True):
        messages.append(AppendedMessage(step.seq, entry.identity.id, step.duplicate, EncodingTokens(*step.tokens)))
        seqs.append(step.seq)
        if not step.duplicate:
            status = 201
    seqs.sort()
    waiting = reply.waiting or msgspec.UNSET
    appended = AppendedMessages(target.id, reply.version, f'"{reply.etag}"', seqs[0], seqs[-1], messages, waiting)
    if reply.sealed is not NOTHING_SEALED:
        branch, appended.forgotten_branches = told_of(reply.sealed, seqs[0] - 1)
        appended.branch = branch or msgspec.UNSET
    return Answer(b"".join((_encode(appended)[:-1], *window, b"}")), etag=reply.etag, status=status)


def told_of(sealed: SealedTail, after_seq: int) -> tuple[SealedBranch | None, list[str] | msgspec.UnsetType]:
    """The branch that the log's end became, and the ids of branches that are gone, as answers tell them."""
    branch = SealedBranch(name_of(sealed.number), after_seq, sealed.messages) if sealed.number else None
    return branch, [name_of(number) for number in sealed.dropped] or msgspec.UNSET
