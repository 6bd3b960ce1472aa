"""The store's Lua scripts as functions: each takes named arguments and returns a call, which can read its reply.

::

    call = scripts.erase(keys, life=state.life, if_match="")       a ScriptCall[Written]: nothing is sent yet
    written = await client.run(call)                               a Written, or a problem raised

Scripts about one conversation take all of its keys, in the order of ``layout.Keys``.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar

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
    TooManyPinned,
)
from sash.store.data.layout import HISTORY, Keys, new_name
from sash.store.data.sealing import no_key_set
from sash.store.redis.lua import SCRIPTS, ScriptCall

T = TypeVar("T")

MOST_PINNED = 1000
"""Messages of one conversation that may be in every window; each window reads all of them."""

_encode = msgspec.json.Encoder().encode


def _call(name: str, keys: Sequence[str], arguments: Sequence[Any], read: Callable[[Any], T]) -> ScriptCall[T]:
    return ScriptCall(SCRIPTS[name], keys, arguments, read)


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


class Rewound(Written, frozen=True):
    """The state after a rewind. ``stale`` is the last seq with documents or metadata still to be dropped, 0 for none."""

    stale: int


class Appended(msgspec.Struct, frozen=True):
    """An entry's seq, whether it was stored before, and whether it answers one of several parallel calls."""

    seq: int
    duplicate: bool
    parallel: bool


class AppendReply(msgspec.Struct, frozen=True):
    """The result of an append; ``settings`` are as stored, ``edited`` is the last write that was not an append."""

    version: int
    etag: str
    settings: bytes
    edited: bytes
    entries: list[Appended]


class EntryArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments of ``append`` for an entry, beside its stored values. Tokens as (o200k_base, cl100k_base)."""

    id: str
    tokens: tuple[int, int]
    parallel: tuple[int, int]
    documents: tuple[int, int] = (0, 0)
    makes: Sequence[str] | None = None
    answers: str | None = None
    always: bool = False
    progress: bool = False


class _AppendArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    now: str
    if_match: str
    change: str
    most_pinned: int
    entries: Sequence[EntryArguments]
    before: int | None = None
    ttl: int | None = None
    repeats: str | None = None


def append(
    keys: Sequence[str],
    *,
    name: str,
    settings: bytes,
    entries: Sequence[EntryArguments],
    blobs: Sequence[bytes],
    if_match: str,
    now_ms: int,
    ttl_ms: int | None,
    before: int | None = None,
    repeats: str | None = None,
) -> ScriptCall[AppendReply]:
    """Append entries, all or none, each id once; create the conversation if it is not there.

    ``blobs`` has five values for each entry: record, details, body, documents, metadata. ``before`` is the number of
    messages that must be there already. ``repeats`` is the life in which the same request was done before: then only the
    places of its entries are asked for. The call raises PreconditionFailed, EntryConflict, OrphanToolResult, TooManyPinned,
    ConversationDamaged, and for a repeat Conflict and NotFound.
    """
    asked = _AppendArguments(name, str(now_ms), if_match, new_name(), MOST_PINNED, entries, before, ttl_ms, repeats)
    return _call("append", keys, (_encode(asked), settings, *blobs), _read_append)


def _read_append(reply: list[Any]) -> AppendReply:
    if reply[:1] == [b"ok"]:
        entries = [
            Appended(reply[at], reply[at + 1] == 1, reply[at + 2] == 1)  # seq, duplicate, parallel
            for at in range(5, len(reply), 3)
        ]
        return AppendReply(int(reply[1]), reply[2].decode(), reply[3], reply[4], entries)
    match reply:
        case [b"conflict", index, is_longer]:
            detail, advice = "This id is stored with other content", "an id names one entry for good"
            if is_longer:
                detail = "A longer text of this reply in progress is stored"
                advice = "leave this late retry, send the whole text so far, or end the reply with its status"
            raise EntryConflict(f"{detail}: {advice}.", errors=[Pointer(f"#/messages/{index}/id", detail)])
        case [b"orphan", index]:
            raise orphan(f"/messages/{index}/message")
        case [b"pinned", index]:
            detail = f"A conversation may have {MOST_PINNED} pinned messages, system and developer messages among them"
            raise TooManyPinned.at(f"#/messages/{index}", detail, {"limit": MOST_PINNED})
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


def create(
    keys: Keys, *, name: str, settings: bytes, now_ms: int, ttl_ms: int | None, token: str, owner: str
) -> ScriptCall[str]:
    """Create a conversation without messages; gives its entity tag.

    ``token`` makes a repeated call of one request succeed; ``owner`` is given where the settings are sealed. The call raises
    ConversationExists, ConversationDamaged.
    """
    arguments = (name, settings, now_ms, ttl_ms or "", token, owner, new_name())
    return _call("create", keys, arguments, _read_begun)


def publish(
    keys: Sequence[str],
    *,
    token: str,
    messages: int,
    ttl_ms: int | None,
    version: int,
    now_ms: int,
    fields: Sequence[Any],
) -> ScriptCall[str | None]:
    """Give a staged conversation its name; gives its entity tag, None when the staged keys have expired.

    The call raises ConversationExists, ConversationDamaged.
    """
    arguments = (token, messages, ttl_ms or "", new_name(), version, now_ms, *fields)
    return _call("publish", keys, arguments, lambda reply: None if reply == [b"lost"] else _read_begun(reply))


def _read_begun(reply: list[Any]) -> str:
    match reply:
        case [b"ok", bytes(etag)]:
            return etag.decode()
        case [b"exists"]:
            raise ConversationExists("A conversation with this id exists: append to it, or choose another id.")
        case _:
            raise _refusal(reply)


def change(
    keys: Keys,
    *,
    life: str,
    if_match: str,
    settings: bytes,
    standing: bytes,
    ttl_ms: int | None,
    now_ms: int,
    token: str,
    owner: str,
    forget: Collection[str] = (),
) -> ScriptCall[Written]:
    """Replace the settings, which must still be ``standing``, by ``settings``. The call raises NotFound, PreconditionFailed.

    ``forget`` names the parts of the index that recall no longer needs: ``words``, ``vectors``.
    """
    flags = ["1" if part in forget else "" for part in ("words", "vectors")]
    arguments = (life, if_match, settings, ttl_ms or "", now_ms, standing, token, owner, new_name(), *flags)
    return _call("change", keys, arguments, _read_written)


def fill(keys: Keys, *, made: tuple[bytes, bytes], fields: Sequence[str | bytes]) -> ScriptCall[bool]:
    """Keep counts in a vendor's vocabulary, if the history is unchanged since they were made."""
    return _call("fill", keys, (*made, *fields), bool)


def erase(keys: Keys, *, life: str, if_match: str) -> ScriptCall[Written]:
    """Erase a conversation, of one ``life`` or of any. The call raises NotFound, PreconditionFailed."""
    return _call("erase", keys, (life, if_match), _read_written)


def redact(
    keys: Keys,
    *,
    life: str,
    if_match: str,
    token: str,
    now_ms: int,
    seq: int,
    standing: bytes,
    record: bytes,
    details: bytes,
    body: bytes,
    tokens: tuple[int, int],
    documents: tuple[int, int] | None,
    words: bytes,
) -> ScriptCall[Written | None]:
    """Put a message without content at ``seq``; gives None where record and details are no longer ``standing``.

    ``tokens`` and ``documents`` are subtracted from the conversation's totals; ``documents`` is None where the message had
    none. ``words`` are the new message's, for recall. The call raises NotFound, PreconditionFailed.
    """
    totals = (*tokens, 0 if documents is None else 1, *(documents or (0, 0)))
    arguments = (life, if_match, token, now_ms, new_name(), seq, standing, record, details, body, *totals, words)
    return _call("redact", keys, arguments, lambda it: None if it == [b"changed"] else _read_written(it))


def rewind(
    keys: Keys,
    *,
    life: str,
    etag: str,
    token: str,
    now_ms: int,
    to_seq: int,
    totals: Sequence[int],
    open_group: bytes,
    question: int,
    unpinned: Sequence[int],
) -> ScriptCall[Rewound]:
    """Forget the messages after ``to_seq``, if the state is still that of ``etag``.

    ``totals`` are the forgotten amounts: tokens in both encodings, messages with documents, tokens of documents in both. The
    call raises NotFound, PreconditionFailed.
    """
    arguments = (life, etag, token, now_ms, new_name(), to_seq, *totals, open_group, question, *unpinned)
    read = _ok(lambda version, etag, stale: Rewound(int(version), etag.decode(), int(stale)))
    return _call("rewind", keys, arguments, read)


def sweep(keys: Keys, *, life: str) -> ScriptCall[int]:
    """Drop some documents and metadata that a rewind left; gives the last seq that may have some, 0 when none has."""
    return _call("sweep", keys, (life,), int)


def forget_ids(keys: Keys, *, life: str, ids: Sequence[str | int]) -> ScriptCall[int]:
    """Drop ids that a rewind left: ``ids`` are id and seq of each."""
    return _call("forget_ids", keys, (life, *ids), int)


def summarize(
    keys: Keys,
    *,
    life: str,
    if_match: str,
    token: str,
    now_ms: int,
    summary: bytes,
    through_seq: int,
    edited: str = "*",
    covered: int | None = None,
) -> ScriptCall[Written]:
    """Put a summary; an empty one removes it.

    ``edited`` and ``covered`` are the last edit and the present summary's last seq, which must be unchanged. The call raises
    NotFound, PreconditionFailed, and SummaryTooLong where the summary covers a message that is not there, or is in progress.
    """
    covers = "*" if covered is None else covered
    arguments = (life, if_match, token, now_ms, new_name(), summary, through_seq, edited, covers)
    return _call("summarize", keys, arguments, _read_summarized)


class SummaryTooLong(Exception):  # noqa: N818 - it reads as what happened
    """A summary covers more messages than there are, or one in progress; ``last_seq`` is the last that it may cover."""

    def __init__(self, last_seq: int) -> None:
        super().__init__(last_seq)
        self.last_seq = last_seq


def _read_summarized(reply: list[Any]) -> Written:
    if reply[:1] == [b"short"]:
        raise SummaryTooLong(int(reply[1]))
    return _read_written(reply)


def lease(keys: Keys, *, holder: str, now_ms: int, until_ms: int) -> ScriptCall[int]:
    """Take the right to summarise until ``until_ms``, or return it with 0; gives 0 where another holder has it."""
    return _call("lease", keys[:1], (holder, now_ms, until_ms), int)


def _refusal(reply: list[Any]) -> Exception:
    """Return the problem in a script's reply."""
    match reply:
        case []:
            return no_conversation()
        case [b"moved", version]:
            return moved(int(version))
        case [b"damaged", part]:
            return damaged(part.decode())
        case _:
            return Internal("The store answered what no script answers.")


def no_conversation() -> NotFound:
    """Return the problem of a missing conversation."""
    return NotFound("There is no such conversation.")


def moved(version: int) -> PreconditionFailed:
    """Return the problem of an If-Match that names another state."""
    said = f"The conversation is at version {version} now" if version else "There is no such conversation now"
    return PreconditionFailed(f"{said}: read it again, then decide.", members={"version": version})


def damaged(part: str) -> ConversationDamaged:
    """Return the problem of a conversation without one of its keys."""
    return ConversationDamaged(
        f"The store lost a part of this conversation ({part}). Restore it from a backup, or erase it and begin anew; "
        "a store that evicts keys (maxmemory-policy) does this.",
        members={"part": part},
    )


def index(
    keys: Keys,
    *,
    life: str,
    edited: bytes,
    part: str,
    length: int,
    model: str,
    digests: Sequence[bytes],
    elements: Sequence[bytes],
) -> ScriptCall[tuple[int, int] | None]:
    """Append to the index of ``part`` (``words``, ``vectors``), which must have ``length`` messages.

    ``digests`` are those of the entries, as they are stored; each of ``elements`` belongs to one. Gives the lengths of the
    index and of the log; None when the conversation has changed, or the index has another length.
    """
    arguments = (life, edited, part, length, model, b"".join(digests), *elements)
    return _call("index", keys, arguments, lambda reply: (int(reply[0]), int(reply[1])) if reply else None)


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


def read_window(keys: Keys, reach: Reach, known: Sequence[str] = ()) -> ScriptCall[TailReply | Known]:
    """Read a conversation's tail, unless the caller has its state: ``known`` are the caller's entity tags.

    The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    budget, column, limit, needs_scripts = reach
    return _call(
        "read_window", keys[HISTORY], (tags, budget, ("t0", "t1")[column], limit, int(needs_scripts)), _read_tail
    )


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


def read_page(
    keys: Keys, *, first_seq: int, last_seq: int, limit_bytes: int, newest_first: bool
) -> ScriptCall[PageReply]:
    """Read messages ``first_seq`` to ``last_seq``, at most ``limit_bytes``; negative numbers count from the end.

    The call raises NotFound, ConversationDamaged.
    """
    return _call(
        "read_page", keys[HISTORY], (first_seq, last_seq, limit_bytes, "1" if newest_first else ""), _ok(PageReply)
    )


class StateReply(NamedTuple):
    """Stored values from ``read_state``. ``expires_ms`` is less than 0 where the conversation does not expire."""

    fields: list[bytes | None]
    length: int
    expires_ms: int


def read_state(keys: Keys, fields: Sequence[str]) -> ScriptCall[StateReply]:
    """Read ``fields`` of a conversation, its length and its expiry. The call raises NotFound, ConversationDamaged."""
    return _call("read_state", keys[HISTORY], fields, _ok(StateReply))


# ---- requests under a key


class Begun(msgspec.Struct, frozen=True):
    """The caller may run the request. ``again`` is true when an earlier run may have changed something."""

    began_ms: int
    again: bool


class Done(msgspec.Struct, frozen=True):
    """A request took effect before: its status, the life of the conversation that it left, and a streamed body's SHA-256.

    ``life`` is empty where the answer named no state.
    """

    began_ms: int
    status: int
    life: str
    read: bytes


def claim(
    key: str, *, fingerprint: bytes, run: str, now_ms: int, hold_ms: int, keep_ms: int, erases: bool
) -> ScriptCall[Begun | Done | bytes]:
    """Take an idempotency key for one run; otherwise gives the reason: Done, ``b"busy"`` or ``b"other"``.

    A full store takes the key of a request that ``erases``.
    """
    name = "claim_erasure" if erases else "claim"
    return _call(name, (key,), (fingerprint, run, now_ms, hold_ms, keep_ms), _read_claim)


def _read_claim(reply: list[Any]) -> Begun | Done | bytes:
    match reply:
        case [b"run", began, again]:
            return Begun(int(began), again == 1)
        case [b"done", began, status, life, read]:
            return Done(int(began), int(status), life.decode(), read)
        case _:
            return bytes(reply[0])


def aim(key: str, *, life: str) -> ScriptCall[str]:
    """Bind the request of a claim to a life; gives the life that its first run was bound to."""
    return _call("aim", (key,), (life,), lambda reply: str(reply.decode()))


def settle(key: str, *, run: str, until_ms: int) -> ScriptCall[int]:
    """Hold a claim longer, or release it with 0."""
    return _call("settle", (key,), (run, until_ms), int)


def finish(key: str, *, run: str, status: int, life: str, read: bytes) -> ScriptCall[int]:
    """Note that a request is done: its answer's status, the life of its conversation, and a streamed body's SHA-256."""
    return _call("settle", (key,), (run, 0, "status", status, "life", life, "read", read), int)


# ---- keys of no conversation


class Taken(msgspec.Struct, frozen=True):
    """Requests granted from a bucket, and milliseconds until there is one more."""

    granted: int
    wait_ms: int


def take(key: str, *, rate: float, burst: float, wanted: int) -> ScriptCall[Taken]:
    """Take requests from a bucket that fills at ``rate`` a second up to ``burst``."""
    return _call("take", (key,), (rate, burst, wanted), lambda reply: Taken(*reply))


class Reports(msgspec.Struct, frozen=True):
    """A model's bills: how many, the sum of errors and the worst one in tokens, and ratios, newest first."""

    count: int
    total: int
    worst: int
    ratios: list[bytes]


def report(
    keys: Sequence[str], *, token: str, ratio: float | str, error: int, keep_ms: int, remembered: int
) -> ScriptCall[Reports]:
    """Count one bill, once; with an empty ``ratio`` only read the reports."""
    return _call("report", keys, (token, ratio, error, keep_ms, remembered), lambda reply: Reports(*reply))


def enlist(
    key: str, *, conversation: str, score: int, keep_ms: int | None, oldest: int
) -> ScriptCall[list[tuple[str, bytes]]]:
    """Put a conversation on an owner's list, which is kept ``keep_ms`` at least, or for ever.

    Gives the ``oldest`` lines: id and score of each.
    """
    return _call("enlist", (key,), (score, conversation, "" if keep_ms is None else keep_ms, oldest), pairs)


def pairs(flat: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return ids and scores of a flat reply."""
    return [(flat[i].decode(), flat[i + 1]) for i in range(0, len(flat), 2)]


def unlist(key: str, lines: Sequence[str | bytes]) -> ScriptCall[int]:
    """Remove conversations from an owner's list: ``lines`` are id and score of each. Gives how many were removed."""
    return _call("unlist", (key,), lines, int)


def first_keys(key: str, wrapped: Sequence[bytes]) -> ScriptCall[int]:
    """Give a tenant its first keys of encryption: names and wrapped keys. Gives 0 when it has some."""
    return _call("first_keys", (key,), wrapped, int)


def add_figures(keys: Sequence[str], arguments: Sequence[Any]) -> ScriptCall[int]:
    """Add one worker's figures to the statistics, once; the script's head lists ``arguments``."""
    return _call("add_figures", keys, arguments, int)
