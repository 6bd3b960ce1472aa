"""Make a log agree with the sender's chat, in one step, and answer with the window that follows."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from litestar import put

from sash.api.append_handlers import (
    DEFAULTS,
    follow_up,
    no_window,
    stored_settings,
    told_of,
    too_many,
    window_after,
)
from sash.api.compared_logs import ComparedLog, compare_log, usual_turn
from sash.api.conversation_handlers import refuse_large
from sash.api.incoming import Answer, Incoming, run_in_turn_if_large
from sash.api.openapi.operation import documented
from sash.api.schemas import AgreedMessage, AgreedMessages, AgreeMessages
from sash.api.sent_lists import AgreeQuery, SentList, read_list
from sash.api.window_handlers import window_beside
from sash.core.agree.agreement import Agreement, Carried, Given
from sash.core.agree.chat_walk import Longer
from sash.core.chat.messages import BareEntry
from sash.core.law.fixed_parts.conversation_settings import (
    ConversationSettings,
    decoded_settings,
    encode_settings,
    kept_for_windows,
    read_settings,
)
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers.reading.native_entries import ReadEntries
from sash.problems import (
    EntryConflict,
    PreconditionFailed,
    Problem,
    Unprocessable,
    WindowDoesNotFit,
)
from sash.store.data import script_calls
from sash.store.data.append_script import AppendReply, Forgotten, Writing
from sash.store.data.changing import ATTEMPTS, busy
from sash.store.data.entries import NewEntry, prepare, wall_ms
from sash.store.data.layout import Target
from sash.store.data.script_calls import HistoryEdited
from sash.windows.asked import limits_of

_OWN = (b"format=", b"after_seq=", b"forget=", b"list=", b"view=")
"""Parameters of an agreement that are not those of a window."""


@put("/conversations/{conversation_id:str}/messages", operation_id="agreeMessages", status_code=200)
@documented(
    "Make the log agree with a chat",
    "messages",
    query=AgreeQuery,
    takes=AgreeMessages,
    gives=AgreedMessages,
    also=(201, "The conversation begins with the list."),
    errors=(409, 507),
)
async def agree_messages(request: Incoming) -> Answer:
    """Make the log say what the sender's chat says, in one step. With ``model`` the answer contains the window.

    What agrees stays as it is stored, with calls, results and reasoning that the list need not have. The log's messages from
    the first that differs on become a branch, and the list's are appended. Where nothing differs, nothing changes.
    """
    started = time.perf_counter()
    context, target, asked = request.context, request.target, request.query(AgreeQuery)
    query = window_beside(request.scope["query_string"], asked, _OWN)
    if query is not None:
        context.windows.asking(query)  # raises for an unknown model, which must happen before the log changes
    await request.look_for_earlier_run()
    expected, sent = request.if_match(), await read_list(request, asked)
    if (usual := usual_turn(request, sent, asked)) is not None:
        with suppress(HistoryEdited, PreconditionFailed, EntryConflict):  # the log says something else
            return await _write(request, target, query, sent, usual, started, asked.forget, expected)
    for _ in range(ATTEMPTS):
        with suppress(HistoryEdited):  # another write came first: compare again
            compared = await compare_log(request, target, sent, asked)
            chat = compared.chat
            if request.was_done:
                return await _unchanged(request, target, query, sent, compared)
            if expected not in ("", chat.etag) and not (expected == "*" and chat.version):
                raise script_calls.moved(chat.version, chat.etag)
            if not compared.changes:
                return await _unchanged(request, target, query, sent, compared)
            try:
                return await _write(request, target, query, sent, compared, started, asked.forget)
            except PreconditionFailed:
                continue  # the state that was compared, and not the sender's
    raise busy()


# ---- what changes


async def _write(
    request: Incoming,
    target: Target,
    query: WindowQuery | None,
    sent: SentList,
    compared: ComparedLog,
    started: float,
    forget: bool,  # noqa: FBT001 - as it is asked
    expected: str | None = None,
) -> Answer:
    """Make the log agree. Raises HistoryEdited and PreconditionFailed where another write came first."""
    context, chat, found = request.context, compared.chat, compared.found
    given = [piece.place for piece in found.pieces if isinstance(piece, Given)]
    if len(given) > (most := context.settings.max_entries):
        raise too_many(most, "entries")
    now, counting = wall_ms(), time.perf_counter()
    entries = await _entries_of(request, target, query, sent, compared, given, now)
    counted = time.perf_counter() - counting
    writing: Writing = {
        "settings": DEFAULTS,
        "if_match": chat.etag,
        "now_ms": now,
        "token": request.key_token,
        "fresh": True,
    }
    if compared.is_usual:
        writing["if_match"], writing["behind"] = expected or "", compared.behind
        writing["said"] = sent.digests(found.keep)
    _set_system(request, writing, compared)
    reach = context.windows.asking(query).reach if query is not None else None
    append = partial(context.store.conversations.append, target, entries, reach=reach, **writing)
    try:
        is_replaced = chat.length - compared.keep_seq > compared.from_log
        reply = await _appended(request, target, compared, append, forget=forget, is_replaced=is_replaced)
    except Problem as problem:
        _pointing(sent, found).point(problem)
        raise
    if entries or found.system is not None or compared.keep_seq < chat.length:
        follow_up(request, target, entries, reply, now, (started, counted))
    window = await window_after(request, target, query, reply.tail) if query is not None else ()
    messages = [
        AgreedMessage(step.seq, entry.identity.id, not isinstance(piece, Given))
        for piece, entry, step in zip(found.pieces, entries, reply.entries, strict=True)
    ]
    waiting = reply.waiting or msgspec.UNSET
    ignored, (branch, forgotten) = _pointers(sent, found), told_of(reply.sealed, compared.keep_seq)
    answer = AgreedMessages(
        target.id, reply.version, f'"{reply.etag}"', found.agreed, messages, branch, ignored, waiting, forgotten
    )
    return _answer(answer, window, reply.etag, 201 if reply.version == 1 else 200)


async def _entries_of(
    request: Incoming,
    target: Target,
    query: WindowQuery | None,
    sent: SentList,
    compared: ComparedLog,
    given: list[int],
    now: int,
) -> list[NewEntry]:
    """The entries to append: the sender's new ones, and those of the log. Where the settings name the window's model, raises
    what the window would."""
    context, chat, found = request.context, compared.chat, compared.found
    new = [sent.entries[place] for place in given]
    unnamed = query if query is not None and query.model is None else None
    names, stored = context.settings.send_members, DEFAULTS
    if unnamed is not None or any(entry.grounding is not None for entry in new):
        stored = await stored_settings(context, target)
    settings, parts = decoded_settings[stored, names]
    if unnamed is not None:
        limits_of(unnamed, settings, context.models)
    prepared = iter(await run_in_turn_if_large(sent.size_bytes, prepare, new, parts.template, now, names))
    longer = {chat.first_seq + piece.at: piece.text for piece in found.pieces if isinstance(piece, Longer)}
    seqs = [chat.first_seq + piece.at for piece in found.pieces if isinstance(piece, Carried | Longer)]
    again: dict[int, NewEntry] = {}
    if compared.read is not None:
        of_branches = {seq: number for seq in seqs if (number := found.branch_of(seq))}
        seqs = [seq for seq in seqs if seq not in of_branches]
        reading = context.store.agreements.of_branches
        again = await reading(target, compared.read, of_branches, longer, now, names)
    again |= await context.store.agreements.again(target, chat, longer, seqs, now, names) if seqs else {}
    return [next(prepared) if isinstance(piece, Given) else again[chat.first_seq + piece.at] for piece in found.pieces]


def _set_system(request: Incoming, writing: Writing, compared: ComparedLog) -> None:
    """Have the write set the sender's system prompt, if it is a new one."""
    system, state = compared.found.system, compared.state
    if system is None:
        return
    before = read_settings(state.settings) if state is not None else ConversationSettings()
    settings = encode_settings(msgspec.structs.replace(before, system=system))
    standing = len(state.settings) if state is not None else 0
    refuse_large(settings, max(request.context.settings.max_body_bytes, standing))
    if state is None:
        writing["settings"] = settings
    else:
        writing["changed"] = (settings, kept_for_windows(state.settings, settings))


async def _appended(
    request: Incoming, target: Target, compared: ComparedLog, append: Any, *, forget: bool, is_replaced: bool
) -> AppendReply:
    """Append, and take away what is displaced before, in one step. It becomes a branch where ``is_replaced``: else the same
    messages are appended. Raises as ``_write`` does."""
    if not compared.chat.version and not compared.found.pieces:
        raise Unprocessable.at("#/messages", "The list has no message with which the conversation could begin")
    if compared.keep_seq == compared.chat.length and not compared.took:
        return await append()  # type: ignore[no-any-return] # as ``Conversations.append`` does
    state = compared.state or await request.context.store.reader.get(target)
    if state.etag != compared.chat.etag:
        raise HistoryEdited
    histories, extend = request.context.store.histories, request.exchange.extend

    async def taking(forgotten: Forgotten) -> Any:
        seal = forgotten.seal if is_replaced or not forgotten.seal else "hung"
        return await append(after=msgspec.structs.replace(forgotten, seal=seal, took=compared.took))

    return await histories.forget_and_append(target, compared.keep_seq, state, taking, extend, forget=forget)


def _pointing(sent: SentList, found: Agreement) -> ReadEntries:
    """The entries of the write, by which a problem's pointers become the list's. The log's own have the first place."""
    nothing = BareEntry(message={})
    pairs = [
        (sent.entries[piece.place], sent.read.places[piece.place]) if isinstance(piece, Given) else (nothing, 0)
        for piece in found.pieces
    ]
    return ReadEntries([entry for entry, _ in pairs], [place for _, place in pairs], sent.read.are_chat)


def _pointers(sent: SentList, found: Agreement) -> list[str]:
    return [f"#/messages/{sent.read.places[place]}" for place in found.ignored]


# ---- what stays


async def _unchanged(
    request: Incoming, target: Target, query: WindowQuery | None, sent: SentList, compared: ComparedLog
) -> Answer:
    """The answer where the log agrees already, or the request was done before under its Idempotency-Key."""
    chat, found = compared.chat, compared.found
    if not chat.version or request.life_before not in (None, chat.life):
        raise script_calls.no_conversation()
    indexes = [] if found.begun is None else [found.begun]
    if request.was_done:
        ids = {entry.id for entry in sent.entries}
        indexes = [index for index, each in enumerate(chat.messages) if each.id in ids]
    messages = [
        AgreedMessage(chat.first_seq + index, chat.messages[index].id or "", duplicate=True) for index in indexes
    ]
    ignored = _pointers(sent, found)
    answer = AgreedMessages(target.id, chat.version, f'"{chat.etag}"', found.agreed, messages, None, ignored)
    window = await _window_now(request, target, query) if query is not None else ()
    return _answer(answer, window, chat.etag, 200)


async def _window_now(request: Incoming, target: Target, query: WindowQuery) -> Sequence[bytes]:
    """The answer's member ``window``, or ``window_error``, of a log that agreed already."""
    context, started = request.context, time.perf_counter()
    try:
        made, state = await context.windows.read(target, query, request.exchange.make_room)
    except Problem as problem:
        if isinstance(problem, WindowDoesNotFit) and not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        return no_window(request, problem)
    request.tell_made(target, made, state, time.perf_counter() - started)
    return b',"window":', made.body


def _answer(answer: AgreedMessages, window: Sequence[bytes], tag: str, status: int) -> Answer:
    body = b"".join((msgspec.json.encode(answer)[:-1], *window, b"}"))
    return Answer(body, etag=tag, status=status)
