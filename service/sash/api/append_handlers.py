"""Append messages, all or none, and answer with the window that follows."""

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import msgspec
from litestar import post
from msgspec import Meta

from sash.api.body import if_match, query_of, read_body, run_in_turn_if_large
from sash.api.context import Context
from sash.api.direct import Answer
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.schemas import (
    AppendedMessage,
    AppendedMessages,
    AppendMessages,
    EncodingTokens,
)
from sash.core.chat.bounds import IDS
from sash.core.chat.messages import Entry, EntryName, decode_entries, decode_json
from sash.core.counts.models.families import ASSISTANT
from sash.core.law.documents.grounding import Template, parse_template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, decode_settings, encode_settings
from sash.core.law.measured_entries import Earlier, check_entries
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Flags
from sash.core.law.records.units import LONGEST_GROUP
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.members import Names
from sash.core.providers.reading.given import ReadEntries, chat_entries, read_entries
from sash.core.providers.reading.native import lacks_call
from sash.operations.logging import best_effort, describe, get_logger
from sash.problems import (
    Internal,
    NotFound,
    Pointer,
    Problem,
    TooLarge,
    Unprocessable,
    WindowDoesNotFit,
)
from sash.store.data.append_script import Appended, AppendReply, Forgotten
from sash.store.data.conversations import Writing
from sash.store.data.entries import prepare, wall_ms
from sash.store.data.layout import Target
from sash.store.data.replies import Tail
from sash.store.data.stored_messages import NewEntry
from sash.windows.asked import limits_of
from sash.windows.receipts import read_receipt, require_of

_EARLIER = LONGEST_GROUP
"""Messages in which the call of a result without its id is looked for."""
_MESSAGES_AN_ENTRY = 10  # on average: an entry may be a list of items, and the store stands 6 us for each message
_log = get_logger()
_DEFAULTS = encode_settings(ConversationSettings())
_DEFAULT_TEMPLATE = parse_template()


class AppendNative(msgspec.Struct, forbid_unknown_fields=True):
    """Messages to append in a provider's format, each alone or in an entry."""

    in_address: ClassVar = WindowQuery
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    after_seq: EntryName | None = None


class AppendQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the window after the append, and the message to which the history is rewound before."""

    after_seq: Annotated[
        Annotated[
            str,
            Meta(
                pattern=rf"^(\d{{1,15}}|id:{IDS.pattern})\Z",
                extra_json_schema={
                    "description": "the seq of a message, such as 6, or 'id:' and its own id, as in id:m-7."
                },
            ),
        ]
        | None,
        Meta(
            description="Forget the messages after this one first, in the same step: its seq, or `id:` and its own id. "
            "0 forgets all messages. It may be given in the body instead."
        ),
    ] = None


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

    With ``after_seq`` the messages after that one are forgotten before, in the same step.
    """
    started = time.perf_counter()
    context, target = request.context, request.target
    query, with_window = query_of(request, AppendQuery), _wants_window(request.scope["query_string"])
    named, query = query.after_seq, query if query.after_seq is None else msgspec.structs.replace(query, after_seq=None)
    if with_window:
        context.windows.plan(query)  # raises for an unknown model, which must happen before the append
    expected = if_match(request)
    given, native, size, after = await _given(request, query.format)
    after = after if named is None else _after(named, after)
    try:
        template = await _template(request, target, given, query if with_window else None)
        now, counting = wall_ms(), time.perf_counter()
        earlier = await _earlier(context, target, after) if any(lacks_call(entry.message) for entry in given) else ()
        sent = context.settings.send_members
        _check_receipts(given, target)
        entries = await run_in_turn_if_large(size, _prepared, given, template, now, sent, earlier)
        seconds = time.perf_counter() - counting
        writing: Writing = {"settings": _DEFAULTS, "if_match": expected, "now_ms": now, "repeats": request.life_before}
        if after is not None and writing["repeats"] is None:
            reply, tail = await _append_after(request, target, after, query if with_window else None, entries, writing)
        elif with_window:
            reply, tail = await context.windows.append(target, query, entries, **writing)
        else:
            reply, tail = await context.store.conversations.append(target, entries, **writing), None
        _follow_up(request, target, entries, reply, (started, seconds))
        window = await _window(request, target, query, tail) if tail is not None else ()
        return _answer(target, entries, reply, window)
    except Problem as problem:
        (native or chat_entries(given)).point(problem)
        if named is not None:
            problem.errors = tuple(map(_in_query, problem.errors))
        raise


def _check_receipts(given: list[Entry], target: Target) -> None:
    """Raise BadRequest for what is no receipt, and Unprocessable for a receipt of another conversation."""
    for place, entry in enumerate(given):
        if entry.receipt is not None:
            pointer = f"#/messages/{place}/receipt"
            require_of(read_receipt(entry.receipt, pointer), target, pointer)


def _in_query(wrong: Pointer) -> Pointer:
    """The wrong place, which is in the query if it is ``after_seq``."""
    return Pointer("#/query/after_seq", wrong.detail) if wrong.pointer == "#/after_seq" else wrong


async def _append_after(
    request: Incoming,
    target: Target,
    after: int | str,
    query: WindowQuery | None,
    entries: list[NewEntry],
    writing: Writing,
) -> tuple[AppendReply, Tail | Problem | None]:
    """Forget the messages after an entry, and append, in one step; also read the tail for a window of ``query``."""
    context = request.context

    async def append(forgotten: Forgotten | None) -> tuple[tuple[AppendReply, Tail | Problem | None], bool]:
        writing["after"] = forgotten
        tail = None
        if query is not None:
            reply, tail = await context.windows.append(target, query, entries, **writing)
        else:
            reply = await context.store.conversations.append(target, entries, **writing)
        return (reply, tail), bool(reply.freed)

    return await context.store.histories.append_after(target, after, append, request.exchange.extend)


def _after(named: str, in_body: int | str | None) -> int | str:
    """The entry that the query names. Raises Unprocessable if the body names one too."""
    if in_body is not None:
        raise Unprocessable.at("#/after_seq", "Give after_seq once: in the query, or in the body")
    return int(named) if named.isdigit() else named


async def _given(request: Incoming, form: str) -> tuple[list[Entry], ReadEntries | None, int, int | str | None]:
    """Read the body.

    Returns its entries; how they came about where they are in a provider's format; the body's bytes; and ``after_seq``.
    Under an Idempotency-Key each entry has an id.

    Raises BadRequest, InvalidEntry, TooLarge.
    """
    body, settings = await read_body(request), request.context.settings
    most = settings.max_entries
    native = None
    if PROVIDERS[form].is_chat_form:
        read = await run_in_turn_if_large(len(body), decode_entries, body, _append)
        given, after = read.messages, read.after_seq
        if len(given) > most:
            raise _too_many(most, "entries")
    else:
        send, allowed = settings.send_members, settings.allow_items
        native, after = await run_in_turn_if_large(len(body), _read_native, body, form, most, send, allowed)
        given = native.entries
    if request.claim is not None:
        for place, entry in enumerate(given):
            entry.id = entry.id or request.fresh_id(place)
    return given, native, len(body), after


async def _template(request: Incoming, target: Target, given: list[Entry], query: WindowQuery | None) -> Template:
    """The template of the entries' documents. The settings are read only where something depends on them.

    Raises what a window of ``query`` would, where the settings name its model: before anything is stored.
    """
    depends = unnamed = query is not None and query.model is None
    for entry in given:
        depends = depends or entry.grounding is not None
    if not depends:
        return _DEFAULT_TEMPLATE
    context = request.context
    settings, parts = decode_settings(await _stored_settings(context, target))
    if query is not None and unnamed and not request.was_done:
        limits_of(query, settings, context.models)
    return parts.template


@lru_cache(maxsize=1024)
def _wants_window(query: bytes) -> bool:
    """Whether the query has any parameter of a window. Cached, as every turn has the same query."""
    return any(not pair.startswith((b"format=", b"after_seq=")) for pair in query.split(b"&") if pair)


def _follow_up(
    request: Incoming,
    target: Target,
    entries: list[NewEntry],
    reply: AppendReply,
    times: tuple[float, float],
) -> None:
    """Report an append to metrics and the log line, and start its background work.

    ``times`` are the append's start (``time.perf_counter``) and the seconds spent on counting.
    """
    context = request.context
    with best_effort:
        _tell(request, context, entries, reply, times)
    context.store.tenants.note(target, wall_ms())
    if reply.settings != _DEFAULTS:
        context.store.owners.touch(target, reply.settings)
    if reply.settings != _DEFAULTS or context.settings.recall != "off":
        context.recall.indexer.appended(target, entries, reply)


async def _window(request: Incoming, target: Target, query: WindowQuery, tail: Tail | Problem) -> Sequence[bytes]:
    """The answer's member ``window``, or ``window_error``, in pieces. The turn is stored, so a failure is not raised."""
    if isinstance(tail, Problem):
        return _no_window(request, tail)
    context, started = request.context, time.perf_counter()
    try:
        room = request.exchange.make_room
        made, state = await context.windows.of_tail(target, query, tail, room)
        context.tell_made(request.line, target, made, state, time.perf_counter() - started)
    except Problem as problem:
        if isinstance(problem, WindowDoesNotFit) and not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        return _no_window(request, problem)
    except Exception as error:  # noqa: BLE001 - a stored append is never answered with an error
        _log.error("window failed", operation="appendMessages", **describe(error))
        return _no_window(request, Internal("The service could not make the window; the turn is stored."))
    return b',"window":', made.body


def _no_window(request: Incoming, problem: Problem) -> Sequence[bytes]:
    return b',"window":null,"window_error":', msgspec.json.encode(problem.document(request.scope["path"]))


def _tell(
    request: Incoming, context: Context, entries: list[NewEntry], reply: AppendReply, times: tuple[float, float]
) -> None:
    count = tokens = 0
    for entry, step in zip(entries, reply.entries, strict=True):
        if not step.duplicate:
            count += 1
            tokens += (entry.tokens_parallel if step.parallel else entry.tokens)[0]
    line = request.line
    line["appended"] = count
    line["appended_tokens"] = tokens
    context.watching.metrics.append(count, seconds=time.perf_counter() - times[0], tokenise_seconds=times[1])


def _read_native(
    body: bytes, form: str, most: int, send: Names, allowed: Sequence[str]
) -> tuple[ReadEntries, int | str | None]:
    """The entries of a body in a provider's format, of which there may be ``most``, and its ``after_seq``.

    Raises BadRequest, TooLarge.
    """
    read = decode_json(body, _append_native)
    sent = read.messages
    if len(sent) > most:
        raise _too_many(most, "entries")
    native = read_entries(form, sent, send=send, allowed=allowed)
    if len(native.entries) > _MESSAGES_AN_ENTRY * most:
        raise _too_many(_MESSAGES_AN_ENTRY * most, "messages")
    return native, read.after_seq


def _too_many(limit: int, unit: str) -> TooLarge:
    detail = f"A request may append {limit} {unit}: append the rest in further requests, or import a long history"
    return TooLarge.at("#/messages", detail, {"limit": limit, "unit": unit})


async def _stored_settings(context: Context, target: Target) -> bytes:
    """The conversation's encoded settings; the defaults if it does not exist yet."""
    try:
        return (await context.store.reader.get(target)).settings
    except NotFound:
        return _DEFAULTS


async def _earlier(context: Context, target: Target, after: int | str | None) -> Earlier:
    """The newest messages of the conversation, one of which may have the call that a result answers; up to ``after``."""
    try:
        last = -1 if after is None else await context.store.reader.seq_of(target, after) or 0
        if last == 0:
            return ()
        first = -_EARLIER if last < 0 else last - _EARLIER + 1
        page = await context.store.reader.page(target, first, last, newest_first=True)
    except NotFound:
        return ()
    return [(message.identity.id, msgspec.json.decode(message.body)) for message in page.messages]


def _prepared(entries: list[Entry], template: Any, now: int, send: Names, earlier: Earlier) -> list[NewEntry]:
    check_entries(entries, earlier)
    return prepare(entries, template, now, send)


def _answer(target: Target, entries: list[NewEntry], reply: AppendReply, window: Sequence[bytes]) -> Answer:
    """The answer to an append: each entry's seq and tokens, then ``window``, which are JSON members in pieces."""
    messages, seqs, status = [], [], 200
    for entry, step in zip(entries, reply.entries, strict=True):
        tokens = entry.tokens_parallel if step.parallel else entry.tokens
        messages.append(AppendedMessage(step.seq, entry.identity.id, step.duplicate, EncodingTokens(*tokens)))
        seqs.append(step.seq)
        status = status if step.duplicate else 201
    waiting = reply.waiting or _legacy_call(entries[-1], reply.entries[-1]) or msgspec.UNSET
    appended = AppendedMessages(target.id, reply.version, f'"{reply.etag}"', min(seqs), max(seqs), messages, waiting)
    return Answer(b"".join((msgspec.json.encode(appended)[:-1], *window, b"}")), etag=reply.etag, status=status)


def _legacy_call(entry: NewEntry, appended: Appended) -> list[str]:
    """The name of the function that a new message calls in the form before tool calls, which has no id."""
    record = entry.record
    is_call = (
        record.measure.role == ASSISTANT and record.flags & Flags.LEGACY_CALL and not record.flags & Flags.IN_PROGRESS
    )
    return [msgspec.json.decode(entry.body)["function_call"]["name"]] if is_call and not appended.duplicate else []
