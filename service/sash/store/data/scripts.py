"""The store's Lua scripts as functions: each takes named arguments and returns a call, which can read its reply.

::

    call = scripts.erase(keys, life=state.life, if_match="")       a ScriptCall[Written]: nothing is sent yet
    written = await client.run(call)                               a Written, or a problem raised

A script's arguments are a Struct, whose fields are in the order of ARGV. Many scripts have some of these: ``life`` and
``if_match`` must stand (the conversation's life, and an entity tag, ``*`` or ''); ``token`` is the request's, under which a
repeated call changes nothing more; ``change`` is a random name for this write. Scripts about one conversation take all of
its keys, in the order of ``layout.Keys``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar

import msgspec

from sash.core.chat.messages import orphan
from sash.problems import (
    Conflict,
    ConversationDamaged,
    ConversationExists,
    EntryConflict,
    Internal,
    NotFound,
    Pointer,
    PreconditionFailed,
    ReplyGone,
    TooManyPinned,
)
from sash.store.data.layout import HISTORY, WITH_WORDS, Keys, new_name
from sash.store.data.media_texts import KeptMedium
from sash.store.data.sealing import no_key_set
from sash.store.redis.lua import SCRIPTS, ScriptCall

T = TypeVar("T")
P = ParamSpec("P")

MOST_PINNED = 1000
"""Messages of one conversation that may be in every window; each window reads all of them."""

_encode = msgspec.msgpack.Encoder().encode


def script(
    name: str, arguments: Callable[P, msgspec.Struct], read: Callable[[Any], T]
) -> Callable[Concatenate[Sequence[str], P], ScriptCall[T]]:
    """Return the function that makes a script's calls, of its keys and of its ``arguments``."""

    def call(keys: Sequence[str], /, *values: P.args, **named: P.kwargs) -> ScriptCall[T]:
        return ScriptCall(SCRIPTS[name], keys, argv(arguments(*values, **named)), read)

    return call


def argv(arguments: msgspec.Struct) -> list[Any]:
    """Return the arguments as the store takes them: a list's values in its place, '' for None, '1' or '' for a boolean."""
    found: list[Any] = []
    for value in msgspec.structs.astuple(arguments):
        match value:
            case list() | tuple():
                found += value
            case None | False:
                found.append("")
            case True:
                found.append("1")
            case _:
                found.append(value)
    return found


def _named() -> Any:
    return msgspec.field(default_factory=new_name)


def _ok(make: Callable[..., T]) -> Callable[[Any], T]:
    """Return a reader of replies: ``make`` gets the values after ``ok``, and every other reply is a problem."""

    def read(reply: Any) -> T:
        if reply[:1] != [b"ok"]:
            raise _refusal(reply)
        return make(*reply[1:])

    return read


# ---- a conversation begins, changes, ends


class Written(msgspec.Struct, frozen=True):
    """The state after a write: its version and its entity tag, without quotes."""

    version: int
    etag: str


_read_written = _ok(lambda version, etag: Written(int(version), etag.decode()))


class Freed(Written, frozen=True):
    """The state after messages were taken away. ``objects`` in object storage have no message any more."""

    objects: tuple[str, ...] = ()


def _freed(version: bytes, etag: bytes, *objects: bytes) -> Freed:
    return Freed(int(version), etag.decode(), tuple(each.decode() for each in objects))


_read_freed = _ok(_freed)


class Rewound(Freed, frozen=True, kw_only=True):
    """The state after a rewind. ``stale`` is the last seq with documents or metadata still to be dropped, 0 for none."""

    stale: int


class Appended(msgspec.Struct, frozen=True):
    """An entry's seq, whether it was stored before, and whether it answers one of several parallel calls."""

    seq: int
    duplicate: bool
    parallel: bool


class MediaMoved(Exception):  # noqa: N818 - it reads as what happened
    """A medium of an append is neither given nor in its conversation any more; nothing was stored."""


class AppendReply(msgspec.Struct, frozen=True):
    """The result of an append; ``settings`` are as stored, ``edited`` is the last write that was not an append.

    ``waiting`` are the ids of the newest group's calls without a result. ``tail`` is the tail that was asked for with the
    append; None where it could not be read.
    """

    version: int
    etag: str
    settings: bytes
    edited: bytes
    waiting: list[str]
    entries: list[Appended]
    tail: "TailReply | None" = None


class EntryRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What few entries have. Tokens as (o200k_base, cl100k_base)."""

    makes: Sequence[str] | None = None
    answers: str | None = None
    links: str = ""
    parallel: tuple[int, int] | None = None
    always: bool = False
    documents: tuple[int, int] | None = None
    progress: bool = False
    continues: bool = False
    """Whether it may only replace an entry in progress."""
    compaction: str | None = None
    """The form of the compaction that it is, which stands for all messages before it."""
    media: Sequence[KeptMedium] = ()


class EntryArguments(msgspec.Struct, frozen=True):
    """Arguments of ``append`` for an entry: the tokens that it adds to the totals, and its stored values."""

    id_field: bytes
    o200k: int
    cl100k: int
    stored: Sequence[bytes]
    rest: EntryRest


_NO_REST = EntryRest()
_APPEND_AND_READ = SCRIPTS["append"]._replace(name="append+read_window")
"""The append script, under the name that metrics and traces have for an append with its window."""


class Forgotten(msgspec.Struct, frozen=True):
    """What a rewind to ``seq`` forgets of the state ``etag``. The totals become ``less``: tokens in both encodings, messages
    with documents, tokens of documents in both.

    Then ``open`` waits for results, JSON or ''; ``question`` is the newest user message, and ``unpinned`` are seqs that are
    no longer in every window.
    """

    seq: int
    etag: str
    less: Sequence[int]
    open: str
    question: int
    unpinned: Sequence[int]
    media: str = ""
    """Names in hex, each with the number of forgotten messages that have it."""


NOTHING_STOOD: Final = Forgotten(0, "0", (0,) * 5, "", 0, ())
"""What is forgotten where no conversation is: the entity tag is that of a missing one."""


class _AppendRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What few appends have."""

    before: int | None = None
    ttl: int | None = None
    repeats: str | None = None
    after: Forgotten | None = None
    reach: "Reach | None" = None


_NOTHING = _AppendRest()


def append(
    keys: Sequence[str],
    *,
    name: str,
    settings: bytes,
    entries: Sequence[EntryArguments],
    if_match: str,
    now_ms: int,
    ttl_ms: int | None,
    before: int | None = None,
    repeats: str | None = None,
    after: Forgotten | None = None,
    reach: "Reach | None" = None,
) -> ScriptCall[AppendReply]:
    """Append entries, all or none, each id once; create the conversation if it is not there.

    ``before`` is the number of messages that must be there already. ``repeats`` is the life in which the same request was
    done before: then only the places of its entries are asked for. With ``reach`` the reply has the tail that a window
    likely needs, as ``read_window`` gives it. ``after`` is what is forgotten before, in the same step.

    The call raises PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, ConversationDamaged,
    MediaMoved, for a repeat Conflict and NotFound, and HistoryEdited where ``after`` was made for another state.
    """
    asked = _AppendRest(before, ttl_ms, repeats, after, reach)
    arguments = [name, settings, now_ms, if_match, new_name(), MOST_PINNED, _packed(asked, _NOTHING)]
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        rows += [(entry.id_field, entry.o200k, entry.cl100k, *entry.stored, _packed(entry.rest, _NO_REST))]
    for column in zip(*rows, strict=True):
        arguments += column
    return ScriptCall(SCRIPTS["append"] if reach is None else _APPEND_AND_READ, keys, arguments, _read_append)


class _Open(msgspec.Struct):
    """The tool group that waits for results, as the append script keeps it: ``p`` are its calls' ids."""

    p: list[str]


_read_open = msgspec.json.Decoder(_Open).decode


_CONFLICTS: tuple[tuple[type[EntryConflict] | type[ReplyGone], str, str], ...] = (
    (
        EntryConflict,
        "This id is stored with other content, and its message is complete",
        "leave a late part of a reply; else give this entry another id, or append with ?after_seq= the seq before",
    ),
    (
        EntryConflict,
        "A longer text of this reply in progress is stored",
        "leave this late retry, send the whole text so far, or end the reply with its status",
    ),
    (
        EntryConflict,
        "Many replies were begun after this one in progress, which can no longer be finished where it stands",
        "append the reply under another id, then erase this one (DELETE …/messages/id:…)",
    ),
    (
        EntryConflict,
        "A reply in progress has the role 'assistant', and keeps it",
        "end the reply under this id, and append this message under an id of its own",
    ),
    (
        ReplyGone,
        "The reply to continue is not here",
        "a rewind or an erasure took it away, and nothing was stored. Stop writing it; without 'continues' it is a new one",
    ),
    (
        EntryConflict,
        "A reply in progress keeps its author and its audience",
        "send both with each of its parts as with the first, or append under another id",
    ),
)


def _packed(rest: msgspec.Struct, nothing: msgspec.Struct) -> bytes:
    return b"" if rest == nothing else _encode(rest)


def _read_append(reply: list[Any]) -> AppendReply:
    tail = None
    if reply and isinstance(reply[0], list):
        reply, tail = reply
    if reply[:1] == [b"ok"]:
        entries = [
            Appended(reply[at], reply[at + 1] == 1, reply[at + 2] == 1)  # seq, duplicate, parallel
            for at in range(6, len(reply), 3)
        ]
        waiting = _read_open(reply[5]).p if reply[5] else []
        read = TailReply(*tail[1:]) if tail else None
        return AppendReply(int(reply[1]), reply[2].decode(), reply[3], reply[4], waiting, entries, read)
    match reply:
        case [b"conflict", index, why]:
            kind, detail, advice = _CONFLICTS[why]
            raise kind(f"{detail}: {advice}.", errors=[Pointer(f"#/messages/{index}/id", detail)])
        case [b"orphan", index]:
            raise orphan(f"/messages/{index}/message")
        case [b"pinned", index]:
            raise too_many_pinned(f"#/messages/{index}")
        case [b"again"]:
            raise HistoryEdited
        case [b"foreign"]:
            raise Internal("The store holds another conversation under this name.")
        case [b"sealed"]:
            raise no_key_set()
        case [b"undone"]:
            raise Conflict(
                "This request was done, and a rewind took its messages away: use a new key to store them again."
            )
        case _:
            raise _refusal(reply)


class _Create(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation without messages. ``owner`` is empty where the settings, which have it, are not sealed."""

    name: str
    settings: bytes
    now_ms: int
    ttl_ms: int | None
    token: str
    owner: str
    change: str = _named()


class _Publish(msgspec.Struct, frozen=True, kw_only=True):
    """The name that a staged conversation gets. The reply has its entity tag, or None if the staged keys have expired."""

    token: str
    messages: int
    ttl_ms: int | None
    change: str = _named()
    version: int
    now_ms: int
    fields: Sequence[Any]


def _read_begun(reply: list[Any]) -> str:
    match reply:
        case [b"ok", bytes(etag)]:
            return etag.decode()
        case [b"exists"]:
            raise ConversationExists("A conversation with this id exists: append to it, or choose another id.")
        case _:
            raise _refusal(reply)


create = script("create", _Create, _read_begun)
"""Create a conversation. The call raises ConversationExists, ConversationDamaged."""
publish = script("publish", _Publish, lambda reply: None if reply == [b"lost"] else _read_begun(reply))
"""Give a staged conversation its name. The call raises ConversationExists, ConversationDamaged."""


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """Settings in place of those ``standing``. ``forget_words`` and ``forget_vectors`` name what recall no longer needs.

    ``kept`` are the settings that windows had, for windows that are made again; '' where windows stay as they are.
    """

    life: str
    if_match: str
    settings: bytes
    ttl_ms: int | None
    now_ms: int
    standing: bytes
    token: str
    owner: str
    change: str = _named()
    forget_words: bool = False
    forget_vectors: bool = False
    kept: bytes = b""


change = script("change", _Change, _read_written)
"""Replace the settings. The call raises NotFound, PreconditionFailed."""


class _Fill(msgspec.Struct, frozen=True, kw_only=True):
    """Counts in a vendor's vocabulary, kept if the history is still the one that was counted."""

    life: bytes
    edited: bytes
    fields: Sequence[str | bytes]


fill = script("fill", _Fill, bool)


class _Erase(msgspec.Struct, frozen=True, kw_only=True):
    """The life to erase, '' for any."""

    life: str
    if_match: str


erase = script("erase", _Erase, _read_freed)
"""Erase a conversation. The call raises NotFound, PreconditionFailed."""


class _Redact(msgspec.Struct, frozen=True, kw_only=True):
    """A message without content, for ``seq``.

    ``standing`` are the record and the details that must be there. The conversation's totals become less by ``less`` tokens
    in both encodings, by ``grounded`` messages with documents, and by the documents' ``grounding`` tokens in both. ``words``
    are the new message's, for recall. ``media`` are those that it had, as in ``Forgotten``.
    """

    life: str
    if_match: str
    token: str
    now_ms: int
    change: str = _named()
    seq: int
    standing: bytes
    record: bytes
    details: bytes
    body: bytes
    less: tuple[int, int]
    grounded: int
    grounding: tuple[int, int]
    words: bytes
    media: str = ""


redact = script("redact", _Redact, lambda reply: None if reply == [b"changed"] else _read_freed(reply))
"""Redact a message; gives None where another record is there. The call raises NotFound, PreconditionFailed."""


def _rewound(version: bytes, etag: bytes, stale: int, *objects: bytes) -> Rewound:
    freed = _freed(version, etag, *objects)
    return Rewound(freed.version, freed.etag, freed.objects, stale=int(stale))


class _Amend(msgspec.Struct, frozen=True, kw_only=True):
    """The record and the metadata of the message at ``seq``. ``if_match`` is the state that the arguments were made for.

    ``pin`` are the ``count`` seqs that are in every window now, and ``unpin`` those that are not. The call raises NotFound,
    PreconditionFailed, TooManyPinned.
    """

    life: str
    if_match: str
    token: str
    now_ms: int
    change: str = _named()
    seq: int
    record: bytes
    metadata: bytes
    most_pinned: int
    count: int
    pin: Sequence[int]
    unpin: Sequence[int]


def _read_amended(reply: list[Any]) -> Written:
    if reply == [b"full"]:
        raise too_many_pinned("#/pinned")
    return _read_written(reply)


amend = script("amend", _Amend, _read_amended)
"""Change a message's metadata and pin."""


class _Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """The last seq to keep, and the figures of ``Forgotten``."""

    life: str
    if_match: str
    token: str
    now_ms: int
    change: str = _named()
    to_seq: int
    less: Sequence[int]
    open: str
    question: int
    media: str = ""
    unpinned: Sequence[int]


rewind = script("rewind", _Rewind, _ok(_rewound))
"""Forget the messages after one. The call raises NotFound, PreconditionFailed."""


class _Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The life of a conversation whose rewind left documents or metadata."""

    life: str


sweep = script("sweep", _Sweep, int)
"""Drop some documents and metadata that a rewind left; gives the last seq that may have some, 0 when none has."""


class _ForgetIds(msgspec.Struct, frozen=True, kw_only=True):
    """The field in ``ids`` and the seq of each entry that a rewind forgot."""

    life: str
    ids: Sequence[str | bytes | int]


forget_ids = script("forget_ids", _ForgetIds, int)


class _Summarize(msgspec.Struct, frozen=True, kw_only=True):
    """A new summary; an empty one removes the summary. ``edited`` and ``covered`` are the last edit and the last seq of the
    present one.

    Both must stand, or be ``*``.
    """

    life: str
    if_match: str
    token: str
    now_ms: int
    change: str = _named()
    summary: bytes
    through_seq: int
    edited: str = "*"
    covered: int | str = "*"


class HistoryEdited(Exception):  # noqa: N818 - it reads as what happened
    """A history was rewound, redacted or erased between two reads, so they do not match and must be repeated."""


class SummaryTooLong(Exception):  # noqa: N818 - it reads as what happened
    """A summary covers more messages than there are, or one in progress; ``last_seq`` is the last that it may cover."""

    def __init__(self, last_seq: int) -> None:
        super().__init__(last_seq)
        self.last_seq = last_seq


def _read_summarized(reply: list[Any]) -> Written:
    if reply[:1] == [b"short"]:
        raise SummaryTooLong(int(reply[1]))
    return _read_written(reply)


summarize = script("summarize", _Summarize, _read_summarized)
"""Put, replace or remove the summary. The call raises NotFound, PreconditionFailed, SummaryTooLong."""


class _Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to summarise, until ``until_ms``; 0 gives it back."""

    holder: str
    now_ms: int
    until_ms: int


lease = script("lease", _Lease, int)
"""Take or return the right to summarise a conversation; gives 0 where another holder has it."""


def _refusal(reply: list[Any]) -> Exception:
    """Return the problem in a script's reply."""
    match reply:
        case []:
            return no_conversation()
        case [b"moved", version, etag]:
            return moved(int(version), etag.decode())
        case [b"damaged", part]:
            return damaged(part.decode())
        case [b"media"]:
            return MediaMoved()
        case _:
            return Internal("The store answered what no script answers.")


def too_many_pinned(pointer: str) -> TooManyPinned:
    """Return the problem of one message more than may be in every window."""
    detail = f"A conversation may have {MOST_PINNED} pinned messages, system and developer messages among them"
    return TooManyPinned.at(pointer, detail, {"limit": MOST_PINNED})


def no_conversation() -> NotFound:
    """Return the problem of a missing conversation."""
    return NotFound(
        "There is no such conversation: it was never created, was erased, has expired, or is another tenant's. A first "
        "message creates it: POST /conversations/{id}/messages. GET /conversations lists all."
    )


def moved(version: int, etag: str) -> PreconditionFailed:
    """Return the problem of an If-Match that names another state."""
    said = f"The conversation is at version {version} now" if version else "There is no such conversation now"
    return PreconditionFailed(f"{said}: read it again, then decide.", members={"version": version, "etag": f'"{etag}"'})


def damaged(part: str) -> ConversationDamaged:
    """Return the problem of a conversation without one of its keys."""
    return ConversationDamaged(
        f"The store lost a part of this conversation ({part}). Restore it from a backup, or erase it and begin anew; "
        "a store that evicts keys (maxmemory-policy) does this.",
        members={"part": part},
    )


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    """The values of messages, ``elements``, for the end of the index of ``part``, which must have ``length`` messages.

    ``digests`` are those of the entries as they are stored, joined; ``model`` is that of the vectors.
    """

    life: str
    edited: bytes
    part: str
    length: int
    model: str
    digests: bytes
    elements: Sequence[bytes]


index = script("index", _Index, lambda reply: (int(reply[0]), int(reply[1])) if reply else None)
"""Append to an index; gives its length and the log's, None when the conversation or the index has changed."""


# ---- a conversation is read


class TailReply(NamedTuple):
    """Stored values from ``read_window``: messages from ``first_seq`` on, bodies only of the newest of them."""

    fields: Sequence[bytes | None]
    length: int
    first_seq: int
    records: bytes
    details: bytes
    bodies: list[bytes]
    documents: bytes
    pinned: list[bytes]
    """Seq and value of each pinned message before the tail, in turn."""
    question: list[bytes]
    """Record, details and body of the newest user message where it is before the tail."""
    compaction: list[Any]
    """Seq, record, details and body of the newest compaction that the window can have; empty without one."""
    times: list[bytes]
    """Details of the message before the newest reply, and of the newest message; empty without a reply."""
    indexed: Sequence[Any] = ()
    """All records, and the reply with the words of all messages (``blocks.values_of``); empty where they are not here."""


class Known(msgspec.Struct, frozen=True):
    """The caller has this state already."""

    etag: str


class Reach(NamedTuple):
    """What one read asks for: the tail that a window likely needs."""

    budget: int = 0
    """Tokens of messages; 0 asks for a modest tail."""
    column: int = 0
    """The encoding's place in the stored counts."""
    limit: int = 0
    """The largest number of messages; 0 for any number."""
    scripts: bool = True
    """Whether to read which writing systems (Latin, Cyrillic) the messages have. Only estimates need them."""
    block: int = 0
    """Tokens of the block in which a stable cut is found; 0 without one."""
    more: int = 0
    """Messages to read besides."""
    whole: bool = False
    """Whether the bodies of the whole tail are likely needed: where most results are sent as one line, more messages fit."""
    compactions: str = ""
    """The forms of compactions that the window can have, each with a space on both sides."""
    times: bool = False
    """Whether to read the times of all messages."""
    words: bool = False
    """Whether to read the words of all messages, for recall."""


def read_window(keys: Keys, reach: Reach, known: Sequence[str] = ()) -> ScriptCall[TailReply | Known]:
    """Read a conversation's tail, unless the caller has its state: ``known`` are the caller's entity tags.

    The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    return ScriptCall(
        SCRIPTS["read_window"], keys[WITH_WORDS if reach.words else HISTORY], (tags, *_wanted(reach)), _read_tail
    )


def _wanted(reach: Reach) -> tuple[int | str, ...]:
    """What is wanted, as scripts take it."""
    budget, column, limit, needs_scripts, block, more, whole, compactions, times, words = reach
    return budget, column, limit, int(needs_scripts), block, more, int(whole), compactions, int(times), int(words)


def _read_tail(reply: list[Any]) -> TailReply | Known:
    if reply and reply[0] == b"ok":
        return TailReply(*reply[1:])
    if reply and reply[0] == b"known":
        return Known(reply[1].decode())
    raise _refusal(reply)


class PageReply(NamedTuple):
    """Stored values from ``read_page``. ``bodies`` is None where they must be read by a plain LRANGE."""

    name: bytes
    version: bytes
    life: bytes | None
    change: bytes | None
    edited: bytes | None
    length: int
    first_seq: int
    records: bytes
    details: list[bytes]
    bodies: list[bytes] | None
    documents: list[bytes | None]
    metadata: list[bytes | None]


class _ReadPage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages ``first_seq`` to ``last_seq``, at most ``limit_bytes``; negative numbers count from the end."""

    first_seq: int
    last_seq: int
    limit_bytes: int
    newest_first: bool


read_page = script("read_page", _ReadPage, _ok(PageReply))
"""Read a page. It takes the keys ``HISTORY``. The call raises NotFound, ConversationDamaged."""


class ChangesReply(NamedTuple):
    """Stored values from ``read_changes``: the state, and the messages that were asked for."""

    name: bytes
    version: bytes
    life: bytes
    change: bytes
    edited: bytes | None
    updated: bytes | None
    changes: bytes | None
    length: int
    records: bytes
    details: list[bytes]


class _ReadChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to read with the state: at most ``limit``, from ``first_seq`` on."""

    first_seq: int
    limit: int


read_changes = script("read_changes", _ReadChanges, _ok(ChangesReply))
"""Read a conversation's changes, of the keys ``HISTORY``. The call raises NotFound, ConversationDamaged."""


class _Follow(msgspec.Struct, frozen=True, kw_only=True):
    """Until when changes are published, in milliseconds since 1970."""

    until_ms: int


follow = script("follow", _Follow, bool)
"""Have a conversation's changes published, of its first key; gives False where there is none."""


class StateReply(NamedTuple):
    """Stored values from ``read_state``. ``expires_ms`` is less than 0 where the conversation does not expire."""

    fields: list[bytes | None]
    length: int
    expires_ms: int


class _ReadState(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a conversation to read."""

    fields: Sequence[str]


read_state = script("read_state", _ReadState, _ok(StateReply))
"""Read a state, of the keys ``HISTORY``. The call raises NotFound, ConversationDamaged."""


class PastReply(NamedTuple):
    """Stored values from ``read_past``: the log's length now, what tells earlier states, and the tail of one of them."""

    length: int
    earlier: Sequence[bytes | None]
    """The fields ``changes``, ``change_times``, ``settings_before`` and ``summaries_before``."""
    tail: TailReply


class PastTotals(NamedTuple):
    """Figures of an earlier state: the log's length, tokens in both encodings, messages with documents and the tokens of
    these in both, and the newest user message."""

    length: int
    tokens: tuple[int, int]
    grounded: int
    grounding: tuple[int, int]
    question: int


def read_past(keys: Keys, totals: PastTotals, reach: Reach) -> ScriptCall[PastReply]:
    """Read the tail of an earlier state. The call raises NotFound, ConversationDamaged."""
    length, tokens, grounded, grounding, question = totals
    arguments = (length, *tokens, grounded, *grounding, question, *_wanted(reach))
    kept = keys[WITH_WORDS if reach.words else HISTORY]
    return ScriptCall(SCRIPTS["read_past"], kept, arguments, _ok(_read_past))


def _read_past(length: int, earlier: Sequence[bytes | None], tail: list[Any]) -> PastReply:
    return PastReply(length, earlier, TailReply(*tail[1:]))
