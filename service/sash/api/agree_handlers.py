"""Make a log agree with the sender's chat, in one step, and answer with the window that follows."""

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import put
from msgspec import Meta

from sash.api.append_handlers import (
    DEFAULTS,
    MESSAGES_AN_ENTRY,
    EntryInQuery,
    check_receipts,
    earlier_messages,
    follow_up,
    legacy_call,
    no_window,
    refuse_more,
    store,
    stored_settings,
    window_after,
)
from sash.api.body import if_match, query_of, read_body, run_in_turn_if_large
from sash.api.conversation_handlers import refuse_large
from sash.api.direct import Answer
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.schemas import AgreedMessage, AgreedMessages, AgreeMessages, DisplacedMessages
from sash.core.chat.messages import ROLE_AND_CONTENT, BareEntry, Entry, decode_entries, decode_json
from sash.core.law.agree.agreement import ANYWHERE, Agreement, Given, IsPart, Kept, Longer, More, agree, leading
from sash.core.law.agree.said import REPLY, USER, Said
from sash.core.law.fixed_parts.conversation_settings import (
    ConversationSettings,
    decode_settings,
    encode_settings,
    kept_for_windows,
)
from sash.core.law.measured_entries import check_entries, content_digest
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers import PROVIDERS
from sash.core.providers.reading.native import lacks_call
from sash.core.providers.reading.native_entries import ReadEntries, chat_entries, read_entries
from sash.problems import (
    BadRequest,
    EntryConflict,
    PartOfTheChat,
    PreconditionFailed,
    Problem,
    TooLarge,
    Unprocessable,
    WindowDoesNotFit,
)
from sash.store.data import script_calls
from sash.store.data.agreements import Chat
from sash.store.data.append_script import AppendReply, Forgotten
from sash.store.data.conversations import Writing
from sash.store.data.entries import prepare, wall_ms
from sash.store.data.histories import busy
from sash.store.data.layout import Target
from sash.store.data.read_scripts import Known
from sash.store.data.replies import State, Tail
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.stored_messages import NewEntry
from sash.windows.asked import limits_of

_ATTEMPTS = 32
"""Other writes that may come first, one after the other."""
_MOST_UNITS = 5000
"""Questions and turns of one list."""
_MOST_COMPARED = 20_000
"""Messages of the log that one list is compared with."""
_SPARE = 16
_EACH = 4
"""Messages of the log that one of the list may stand for: a turn's calls and results, which a screen does not show."""
_BEFORE = 200
"""Messages in which the turn begins that a message named by its id is of."""


class AgreeQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"part": "list"}):
    """The parameters of the window afterwards, and of which part of the chat the list is."""

    after_seq: Annotated[
        EntryInQuery | None,
        Meta(description="The list is what stands behind this message: its seq, or `id:` and its own id."),
    ] = None
    part: Annotated[
        Literal["whole", "end"] | None,
        Meta(
            title="Part",
            description="`end`: the list is the end of the chat, and begins where its first message stands. `whole`: it is the "
            "whole chat, whatever it looks like.",
        ),
    ] = None


_messages = msgspec.json.Decoder(AgreeMessages)
_native_messages = msgspec.json.Decoder(dict[str, Any])


class _Sent(NamedTuple):
    """The sender's list: its entries, how they came about, as they are compared, and the size of the body."""

    entries: list[Entry]
    read: ReadEntries
    said: list[Said]
    size_bytes: int


class _Compared(NamedTuple):
    """The part of the log that was read, what makes it agree, and the state, where it was needed."""

    chat: Chat
    found: Agreement
    state: State | None
    behind: int | None = None
    """Of a usual turn, how many messages stand before the list; None for any number."""
    is_usual: bool = False

    @property
    def keep_seq(self) -> int:
        """The last message that stays."""
        return self.chat.first_seq - 1 + self.found.keep

    @property
    def changes(self) -> bool:
        """Whether the log changes."""
        return bool(self.found.pieces) or self.keep_seq < self.chat.length or self.found.system is not None


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
    the first that differs on are forgotten, and the list's are appended. Where nothing differs, nothing changes.
    """
    started = time.perf_counter()
    context, target, asked = request.context, request.target, query_of(request, AgreeQuery)
    query = _window_of(asked) if _wants_window(request.scope["query_string"]) else None
    if query is not None:
        context.windows.plan(query)  # raises for an unknown model, which must happen before the log changes
    expected, sent = if_match(request), await _read(request, asked)
    if (usual := _usual(request, sent, asked)) is not None:
        with suppress(HistoryEdited, PreconditionFailed, EntryConflict):  # the log says something else
            return await _write(request, target, query, sent, usual, started, expected)
    for attempt in range(_ATTEMPTS):
        with suppress(HistoryEdited):  # another write came first: compare again
            compared = await _compare(request, target, sent, asked)
            chat = compared.chat
            if expected not in ("", chat.etag) and not (expected == "*" and chat.version):
                raise script_calls.moved(chat.version, chat.etag)
            if request.was_done or not compared.changes:
                return await _unchanged(request, target, query, sent, compared)
            try:
                return await _write(request, target, query, sent, compared, started)
            except PreconditionFailed:
                if attempt == _ATTEMPTS - 1:
                    raise
    raise busy()


@lru_cache(maxsize=1024)
def _wants_window(query: bytes) -> bool:
    """Whether the query has any parameter of a window beside the view. Cached, as every turn has the same query."""
    others = (b"format=", b"after_seq=", b"list=", b"view=")
    return any(not pair.startswith(others) for pair in query.split(b"&") if pair)


@lru_cache(maxsize=1024)
def _window_of(asked: AgreeQuery) -> WindowQuery:
    return WindowQuery(**{name: getattr(asked, name) for name in WindowQuery.__struct_fields__})


# ---- what the sender says


async def _read(request: Incoming, asked: AgreeQuery) -> _Sent:
    """Read and check the list. Under an Idempotency-Key each entry gets an id.

    Raises BadRequest, InvalidEntry, TooLarge, EntryConflict for an id that it has twice.
    """
    if asked.part is not None and asked.after_seq is not None:
        raise BadRequest.at("#/query/list", "Give list= or after_seq=: the place behind which the list begins")
    context, body = request.context, await read_body(request)
    read = await run_in_turn_if_large(len(body), _entries, body, asked.format, context.settings)
    try:
        earlier = ()
        if (asked.part or asked.after_seq) and any(lacks_call(entry.message) for entry in read.entries):
            named = int(asked.after_seq) if (asked.after_seq or "").isdigit() else asked.after_seq
            earlier = await earlier_messages(context, request.target, named)
        said = await run_in_turn_if_large(len(body), _checked, read.entries, earlier)
        check_receipts(read.entries, request.target)
    except Problem as problem:
        read.point(problem)
        raise
    if request.claim is not None:
        for place, entry in enumerate(read.entries):
            entry.id = entry.id or request.fresh_id(place)
    return _Sent(read.entries, read, said, len(body))


def _entries(body: bytes, form: str, settings: Any) -> ReadEntries:
    if PROVIDERS[form].is_chat_form:
        read = chat_entries(decode_entries(body, _messages).messages)
    else:
        given = decode_json(body, _native_messages)
        values = msgspec.convert(given.get("messages"), list[dict[str, Any]])
        refuse_more(len(values), MESSAGES_AN_ENTRY * _MOST_UNITS, "messages")
        read = read_entries(form, values, send=settings.send_members, allowed=settings.allow_items)
    refuse_more(len(read.entries), MESSAGES_AN_ENTRY * _MOST_UNITS, "messages")
    return read


def _checked(entries: list[Entry], earlier: Any) -> list[Said]:
    """The list as it is compared, once it is checked. Raises as ``_read`` does."""
    check_entries(entries, earlier)
    said = [Said(each.message, role=each.message["role"], id=each.id, status=each.status) for each in entries]
    if 2 * sum(each.kind == USER for each in said) > _MOST_UNITS:
        detail = f"A list may have {_MOST_UNITS} questions and turns: send the chat's end with list=end"
        raise TooLarge.at("#/messages", detail, {"limit": _MOST_UNITS, "unit": "units"})
    places: dict[str, int] = {}
    for place, entry in enumerate(entries):
        if entry.id is not None and places.setdefault(entry.id, place) != place:
            raise EntryConflict.at(f"#/messages/{place}/id", "The list has this id twice: give each message its own")
    return said


# ---- what the log says


def _usual(request: Incoming, sent: _Sent, asked: AgreeQuery) -> _Compared | None:
    """What changes if the log is what the list has before its last question; the write itself finds out whether it is.

    So the usual turn is one round trip. None where a list of plain texts would not tell it.
    """
    said, place = sent.said, len(sent.said)
    if request.was_done or asked.view is not None or (asked.after_seq is not None and not asked.after_seq.isdigit()):
        return None
    if said[-1].status == "in_progress" and said[-1].is_bare:
        place -= 1
    while place > 0 and said[place - 1].kind == USER:
        place -= 1
    if place == len(said) or not all(map(_is_plain, said[:place])):
        return None
    behind = None if asked.part == "end" else int(asked.after_seq or 0)
    if behind is None and not place and not (said[0].id and sum(each.kind == USER for each in said) == 1):
        return None  # only the log tells where it begins
    found = Agreement(place, place, tuple(map(Given, range(place, len(said)))))
    return _Compared(Chat(first_seq=(behind or 0) + 1, length=(behind or 0) + place), found, None, behind, is_usual=True)


def _is_plain(said: Said) -> bool:
    """Whether the digest of its role and content tells all of a message."""
    message = said.message
    is_text = type(message.get("content")) is str and len(message) == ROLE_AND_CONTENT
    return is_text and said.kind in (USER, REPLY) and not said.is_unfinished and not said.is_bare


async def _compare(request: Incoming, target: Target, sent: _Sent, asked: AgreeQuery) -> _Compared:
    """Read as much of the log as the list needs, and compare. Raises HistoryEdited, PartOfTheChat, TooLarge, Unprocessable."""
    chats, view, said = request.context.store.agreements, asked.view, sent.said
    after = await _after(request, target, asked.after_seq) if asked.after_seq is not None else 0
    base = ANYWHERE if asked.part == "end" else None if asked.after_seq is None else 0
    count = _EACH * len(said) + _SPARE
    while True:
        count = min(count, _MOST_COMPARED)
        first = -count if base == ANYWHERE else after + 1
        chat = await chats.chat(target, first, first + count - 1, view)  # to the last one, -1, if first is from the end
        if base == ANYWHERE and chat.first_seq > 1:
            chat = await _with_named(request, target, chat, said[0].id, view)
        if after > chat.length:
            detail = f"The conversation ends with message {chat.length}: name one that is there"
            raise Unprocessable.at("#/query/after_seq", detail)
        state, system, opening = await _beginning(request, target, chat, said, view)
        found = agree(
            chat.messages,
            said,
            base=base,
            is_whole=asked.part == "whole",
            is_all=chat.first_seq == 1 if base == ANYWHERE else chat.is_all,
            system=system,
            opening=opening,
        )
        if isinstance(found, Agreement):
            return _Compared(chat, found, state)
        if isinstance(found, IsPart):
            raise PartOfTheChat.at(
                "#/messages/0",
                "The list begins in the middle of the chat: say list=end for its end, or list=whole to put away what is before",
            )
        if count == _MOST_COMPARED:
            detail = f"A list is compared with {_MOST_COMPARED} messages of the log: send the chat's end with list=end"
            raise TooLarge.at("#/messages", detail, {"limit": _MOST_COMPARED, "unit": "messages"})
        count *= 8


async def _after(request: Incoming, target: Target, named: str) -> int:
    """The seq behind which the list begins. Raises Unprocessable."""
    if named.isdigit():
        return int(named)
    seq = await request.context.store.reader.seq_of(target, named)
    if seq is None:
        raise Unprocessable.at("#/query/after_seq", "No entry of this conversation has this id")
    return seq


async def _with_named(request: Incoming, target: Target, chat: Chat, named: str | None, view: str | None) -> Chat:
    """The chat's end, from the turn on that has the message of this id."""
    if named is None or any(each.id == named for each in chat.messages):
        return chat
    seq = await request.context.store.reader.seq_of(target, f"id:{named}")
    if seq is None or chat.length - seq > _MOST_COMPARED:
        return chat
    return await request.context.store.agreements.chat(target, max(1, seq - _BEFORE), -1, view)


async def _beginning(
    request: Incoming, target: Target, chat: Chat, said: list[Said], view: str | None
) -> tuple[State | None, str | None, Sequence[Said] | None]:
    """The state, its system prompt and the log's first messages, as a list needs them that begins with system messages."""
    prompts = len(leading(said))
    if not prompts or not chat.version:
        return None, None, None
    state = await request.context.store.reader.get(target)
    opening = None
    if chat.first_seq > 1:
        opening = (await request.context.store.agreements.chat(target, 1, prompts, view)).messages
    if state.etag != chat.etag:
        raise HistoryEdited
    return state, decode_settings(state.settings)[0].system, opening


# ---- what changes


async def _write(
    request: Incoming,
    target: Target,
    query: WindowQuery | None,
    sent: _Sent,
    compared: _Compared,
    started: float,
    expected: str | None = None,
) -> Answer:
    """Make the log agree. Raises HistoryEdited and PreconditionFailed where another write came first."""
    context, chat, found = request.context, compared.chat, compared.found
    given = [piece.place for piece in found.pieces if isinstance(piece, Given)]
    refuse_more(len(given), context.settings.max_entries, "entries")
    now, counting = wall_ms(), time.perf_counter()
    entries = await _entries_of(request, target, query, sent, compared, given, now)
    counted = time.perf_counter() - counting
    writing: Writing = {"settings": DEFAULTS, "if_match": chat.etag, "now_ms": now, "fresh": True}
    if compared.is_usual:
        writing["if_match"], writing["behind"] = expected or "", compared.behind
        writing["said"] = [content_digest(each.message, "") for each in sent.said[: found.keep]]
    _set_system(request, writing, compared)
    append = partial(store, context, target, query, entries, writing)
    try:
        reply, tail = await _appended(request, target, compared, append)
    except Problem as problem:
        _pointing(sent, found).point(problem)
        raise
    if entries or found.system is not None or compared.keep_seq < chat.length:
        follow_up(request, target, entries, reply, (started, counted))
    window = await window_after(request, target, query, tail) if query is not None and tail is not None else ()
    messages = [
        AgreedMessage(step.seq, entry.identity.id, not isinstance(piece, Given))
        for piece, entry, step in zip(found.pieces, entries, reply.entries, strict=True)
    ]
    waiting = reply.waiting or (legacy_call(entries[-1], reply.entries[-1]) if entries else []) or msgspec.UNSET
    gone = chat.length - compared.keep_seq - (len(entries) - len(given))
    displaced = DisplacedMessages(compared.keep_seq, gone) if gone > 0 else None
    ignored = _pointers(sent, found)
    answer = AgreedMessages(
        target.id, reply.version, f'"{reply.etag}"', found.agreed, messages, displaced, ignored, waiting
    )
    return _answer(answer, window, reply.etag, 201 if reply.version == 1 else 200)


async def _entries_of(
    request: Incoming,
    target: Target,
    query: WindowQuery | None,
    sent: _Sent,
    compared: _Compared,
    given: list[int],
    now: int,
) -> list[NewEntry]:
    """The entries to append: the sender's new ones, and those of the log. Where the settings name the window's model, raises
    what the window would."""
    context, chat, found = request.context, compared.chat, compared.found
    new = [sent.entries[place] for place in given]
    unnamed = query if query is not None and query.model is None else None
    settings, parts = decode_settings(DEFAULTS)
    if unnamed is not None or any(entry.grounding is not None for entry in new):
        settings, parts = decode_settings(await stored_settings(context, target))
    if unnamed is not None:
        limits_of(unnamed, settings, context.models)
    names = context.settings.send_members
    prepared = iter(await run_in_turn_if_large(sent.size_bytes, prepare, new, parts.template, now, names))
    longer = {chat.first_seq + piece.index: piece.text for piece in found.pieces if isinstance(piece, Longer)}
    seqs = [chat.first_seq + piece.index for piece in found.pieces if isinstance(piece, Kept | Longer)]
    again = await context.store.agreements.again(target, chat, longer, seqs, now, names) if seqs else {}
    return [
        next(prepared) if isinstance(piece, Given) else again[chat.first_seq + piece.index] for piece in found.pieces
    ]


def _set_system(request: Incoming, writing: Writing, compared: _Compared) -> None:
    """Have the write set the sender's system prompt, if it is a new one."""
    system, state = compared.found.system, compared.state
    if system is None:
        return
    before = decode_settings(state.settings)[0] if state is not None else ConversationSettings()
    settings = encode_settings(msgspec.structs.replace(before, system=system))
    standing = len(state.settings) if state is not None else 0
    refuse_large(settings, max(request.context.settings.max_body_bytes, standing))
    if state is None:
        writing["settings"] = settings
    else:
        writing["changed"] = (settings, kept_for_windows(state.settings, settings))


async def _appended(
    request: Incoming, target: Target, compared: _Compared, append: Any
) -> tuple[AppendReply, Tail | Problem | None]:
    """Append, and forget what is displaced before, in one step. Raises as ``_write`` does."""
    if not compared.chat.version and not compared.found.pieces:
        raise Unprocessable.at("#/messages", "The list has no message with which the conversation could begin")
    if compared.keep_seq == compared.chat.length:
        return (await append(None))[0]  # type: ignore[no-any-return] # as ``store`` does
    state = compared.state or await request.context.store.reader.get(target)
    if state.etag != compared.chat.etag:
        raise HistoryEdited
    histories, extend = request.context.store.histories, request.exchange.extend
    return await histories.forget_and_append(target, compared.keep_seq, state, append, extend)  # type: ignore[no-any-return]


def _pointing(sent: _Sent, found: Agreement) -> ReadEntries:
    """The entries of the write, by which a problem's pointers become the list's. The log's own have the first place."""
    nothing = BareEntry(message={})
    pairs = [
        (sent.entries[piece.place], sent.read.places[piece.place]) if isinstance(piece, Given) else (nothing, 0)
        for piece in found.pieces
    ]
    return ReadEntries([entry for entry, _ in pairs], [place for _, place in pairs], sent.read.are_chat)


def _pointers(sent: _Sent, found: Agreement) -> list[str]:
    return [f"#/messages/{sent.read.places[place]}" for place in found.ignored]


# ---- what stays


async def _unchanged(
    request: Incoming, target: Target, query: WindowQuery | None, sent: _Sent, compared: _Compared
) -> Answer:
    """The answer where the log agrees already, or the request was done before under its Idempotency-Key."""
    chat, found = compared.chat, compared.found
    if not chat.version or request.life_before not in (None, chat.life):
        raise script_calls.no_conversation()
    indexes = [] if found.begun is None else [found.begun]
    if request.was_done:
        ids = {entry.id for entry in sent.entries}
        indexes = [index for index, each in enumerate(chat.messages) if each.id in ids]
    messages = [AgreedMessage(chat.first_seq + index, chat.messages[index].id or "", True) for index in indexes]
    ignored = _pointers(sent, found)
    answer = AgreedMessages(target.id, chat.version, f'"{chat.etag}"', found.agreed, messages, None, ignored)
    window = await _window_now(request, target, query) if query is not None else ()
    return _answer(answer, window, chat.etag, 200)


async def _window_now(request: Incoming, target: Target, query: WindowQuery) -> Sequence[bytes]:
    """The answer's member ``window``, or ``window_error``, of a log that agreed already."""
    context, started = request.context, time.perf_counter()
    try:
        read = await context.windows.read(target, query, (), request.exchange.make_room)
    except Problem as problem:
        if isinstance(problem, WindowDoesNotFit) and not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        return no_window(request, problem)
    assert not isinstance(read, Known)  # noqa: S101 - no state was named
    made, state = read
    request.tell_made(target, made, state, time.perf_counter() - started)
    return b',"window":', made.body


def _answer(answer: AgreedMessages, window: Sequence[bytes], tag: str, status: int) -> Answer:
    body = b"".join((msgspec.json.encode(answer)[:-1], *window, b"}"))
    return Answer(body, etag=tag, status=status)
