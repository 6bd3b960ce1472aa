"""The store's Lua scripts as functions: named arguments in, a call out that knows how to read its reply.

::

    call = scripts.erase(keys, life=state.life, if_match="")       a Call[Written]: nothing is sent yet
    written = await client.run(call)                               a Written, or a problem raised

The sources are the files of ``scripts/``, loaded once; each says at its head what it takes, in order, and what it gives.
Scripts about one conversation take all of its keys, in the order of ``layout.Keys``.
"""

import re
from collections.abc import Callable, Collection, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from service.core.messages import orphan
from service.problems import (
    ConversationDamaged,
    ConversationExists,
    EntryConflict,
    Internal,
    NotFound,
    Pointer,
    PreconditionFailed,
    TooManyPinned,
)
from service.store.layout import Keys, new_name

T = TypeVar("T")

MOST_PINNED = 1000
"""Messages of one conversation that may belong in every window: each is read for each of them."""

_FOLDER = files("service.store") / "scripts"
_INCLUDED = "conversation.lua"
_INCLUDE = re.compile(rb"^-- include conversation\.lua\n", re.MULTILINE)
_encode = msgspec.json.Encoder().encode


class Script(NamedTuple):
    """A Lua script, called by the SHA-1 of its source. ``writes`` is what its first line does not deny."""

    name: str
    source: bytes
    sha: str
    writes: bool


def _load(name: str) -> Script:
    included = (_FOLDER / _INCLUDED).read_bytes()
    source = _INCLUDE.sub(lambda _: included, (_FOLDER / name).read_bytes())
    sha = sha1(source, usedforsecurity=False).hexdigest()
    return Script(name.removesuffix(".lua"), source, sha, b"no-writes" not in source.partition(b"\n")[0])


SCRIPTS = {
    script.name: script
    for script in (_load(file.name) for file in _FOLDER.iterdir() if file.name.endswith(".lua"))
    if script.name != "conversation"
}


class Call(NamedTuple, Generic[T]):
    """A script with its keys, which share a slot, and its arguments; ``read`` makes the result of the reply."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Any]
    read: Callable[[Any], T]


def _call(name: str, keys: Sequence[str], arguments: Sequence[Any], read: Callable[[Any], T]) -> Call[T]:
    return Call(SCRIPTS[name], keys, arguments, read)


# ---- a conversation begins, changes, ends


class Written(msgspec.Struct, frozen=True):
    """The state that a write left: its version and its entity tag, without quotes."""

    version: int
    etag: str


class Rewound(msgspec.Struct, frozen=True):
    """The state that a rewind left. ``stale`` is the last seq with documents or metadata still to be swept, 0 for none."""

    version: int
    etag: str
    stale: int


class Appended(msgspec.Struct, frozen=True):
    """Where an entry is: its seq, whether it was there before, whether it answers one of several parallel calls."""

    seq: int
    duplicate: bool
    parallel: bool


class AppendReply(msgspec.Struct, frozen=True):
    """What an append did; ``settings`` as they are stored, ``edited`` the last write before that was no append."""

    version: int
    etag: str
    settings: bytes
    edited: bytes
    entries: list[Appended]


class EntryArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``append`` needs to know of an entry, besides what is stored of it. Tokens as (o200k_base, cl100k_base)."""

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
) -> Call[AppendReply]:
    """Append entries, all or none, each id once; create the conversation if it is not there.

    ``blobs`` are five for each entry: record, details, body, documents, metadata. ``before`` is how many messages must be
    there already. The call raises PreconditionFailed, EntryConflict, OrphanToolResult, TooManyPinned, ConversationDamaged.
    """
    asked = _AppendArguments(name, str(now_ms), if_match, new_name(), MOST_PINNED, entries, before, ttl_ms)
    return _call("append", keys, (_encode(asked), settings, *blobs), _read_append)


def _read_append(reply: list[Any]) -> AppendReply:
    if reply[0] == b"ok":
        entries = [
            Appended(reply[at], reply[at + 1] == 1, reply[at + 2] == 1)  # seq, duplicate, parallel
            for at in range(5, len(reply), 3)
        ]
        return AppendReply(int(reply[1]), reply[2].decode(), reply[3], reply[4], entries)
    match reply:
        case [b"conflict", index]:
            detail = "This id is stored with other content"
            raise EntryConflict(
                f"{detail}: an id names one entry for good.", errors=[Pointer(f"#/messages/{index}/id", detail)]
            )
        case [b"orphan", index]:
            raise orphan(f"/messages/{index}/message")
        case [b"pinned", index]:
            detail = f"A conversation may have {MOST_PINNED} pinned messages, system and developer messages among them"
            raise TooManyPinned(
                f"{detail}.", errors=[Pointer(f"#/messages/{index}", detail)], members={"limit": MOST_PINNED}
            )
        case [b"foreign"]:
            raise Internal("The store holds another conversation under this name.")
        case _:
            raise _refusal(reply)


def create(
    keys: Keys, *, name: str, settings: bytes, now_ms: int, ttl_ms: int | None, token: str, owner: str
) -> Call[str]:
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
) -> Call[str | None]:
    """Give a staged conversation its name; gives its entity tag, None when what was staged has expired.

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
) -> Call[Written]:
    """Put other settings in place of those ``standing``. The call raises NotFound, PreconditionFailed.

    ``forget`` names the lists that recall does not need any more: ``words``, ``vectors``.
    """
    flags = ["1" if part in forget else "" for part in ("words", "vectors")]
    arguments = (life, if_match, settings, ttl_ms or "", now_ms, standing, token, owner, new_name(), *flags)
    return _call("change", keys, arguments, _read_written)


def fill(keys: Keys, *, made: tuple[bytes, bytes], fields: Sequence[str | bytes]) -> Call[bool]:
    """Keep counts in a vendor's vocabulary, if the history is still the one that they were made of."""
    return _call("fill", keys, (*made, *fields), bool)


def erase(keys: Keys, *, life: str, if_match: str) -> Call[Written]:
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
) -> Call[Written | None]:
    """Put a message without content at ``seq``, where record and details are still those ``standing``; else gives None.

    ``tokens`` and ``documents`` are what the conversation's totals lose, None where the message had no documents;
    ``words`` are the new message's, for recall. The call raises NotFound, PreconditionFailed.
    """
    totals = (*tokens, 0 if documents is None else 1, *(documents or (0, 0)))
    arguments = (life, if_match, token, now_ms, new_name(), seq, standing, record, details, body, *totals, words)
    return _call("redact", keys, arguments, lambda reply: None if reply == [b"changed"] else _read_written(reply))


class Remeasured(msgspec.Struct, frozen=True):
    """How many messages were measured anew, and by how many tokens their totals grew, as (o200k_base, cl100k_base)."""

    messages: int
    tokens: tuple[int, int]


def remeasure(keys: Keys, *, life: str, messages: Sequence[Sequence[Any]]) -> Call[Remeasured]:
    """Put newer measures in the place of older ones, where record and details are still those that were read.

    Each of ``messages``, ascending, is a seq, what stands there, the five parts that take its place (body, documents and
    metadata empty where they stay), and tokens more in both encodings. The call raises NotFound, ConversationDamaged.
    """
    arguments = (life, new_name(), *(part for message in messages for part in message))
    return _call("remeasure", keys, arguments, _read_remeasured)


def _read_remeasured(reply: list[Any]) -> Remeasured:
    match reply:
        case [b"ok", messages, o200k, cl100k]:
            return Remeasured(messages, (o200k, cl100k))
        case _:
            raise _refusal(reply)


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
) -> Call[Rewound]:
    """Forget what came after ``to_seq``, if the state is still the one of ``etag``.

    ``totals`` are what is forgotten: tokens in both encodings, messages with documents, tokens of documents in both. The
    call raises NotFound, PreconditionFailed.
    """
    arguments = (life, etag, token, now_ms, new_name(), to_seq, *totals, open_group, question, *unpinned)
    return _call("rewind", keys, arguments, _read_rewound)


def _read_rewound(reply: list[Any]) -> Rewound:
    match reply:
        case [b"ok", version, etag, stale]:
            return Rewound(int(version), etag.decode(), int(stale))
        case _:
            raise _refusal(reply)


def sweep(keys: Keys, *, life: str) -> Call[int]:
    """Drop some documents and metadata that a rewind left; gives the last seq that may have some, 0 when all is done."""
    return _call("sweep", keys, (life,), int)


def forget_ids(keys: Keys, *, life: str, ids: Sequence[str | int]) -> Call[int]:
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
) -> Call[Written]:
    """Put a summary, or take it away with an empty one.

    ``edited`` and ``covered`` are the last edit and the present summary's last seq that must stand. The call raises
    NotFound, PreconditionFailed, and SummaryTooLong where there are fewer messages than it covers.
    """
    covers = "*" if covered is None else covered
    arguments = (life, if_match, token, now_ms, new_name(), summary, through_seq, edited, covers)
    return _call("summarize", keys, arguments, _read_summarized)


class SummaryTooLong(Exception):  # noqa: N818 - it reads as what happened
    """A summary covers more than there is; ``length`` is how many messages there are."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


def _read_summarized(reply: list[Any]) -> Written:
    if reply[:1] == [b"short"]:
        raise SummaryTooLong(int(reply[1]))
    return _read_written(reply)


def lease(keys: Keys, *, holder: str, now_ms: int, until_ms: int) -> Call[int]:
    """Take the right to summarise until then, or give it back with 0; gives 1 when it is, or was, the holder's."""
    return _call("lease", keys[:1], (holder, now_ms, until_ms), int)


def _read_written(reply: list[Any]) -> Written:
    match reply:
        case [b"ok", version, etag]:
            return Written(int(version), etag.decode())
        case _:
            raise _refusal(reply)


def _refusal(reply: list[Any]) -> Exception:
    """The problem that a script answered with."""
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
    """The problem of a conversation that is not there."""
    return NotFound("There is no such conversation.")


def moved(version: int) -> PreconditionFailed:
    """The problem of an If-Match that names another state."""
    said = f"The conversation is at version {version} now" if version else "There is no such conversation now"
    return PreconditionFailed(f"{said}: read it again and decide anew.", members={"version": version})


def damaged(part: str) -> ConversationDamaged:
    """The problem of a conversation that misses one of its keys."""
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
) -> Call[tuple[int, int] | None]:
    """Write more of a list of ``part`` (``words``, ``vectors``), which has ``length`` elements.

    ``digests`` are those of the entries whose ``elements`` they are, as they are stored. Gives the lengths of the list and
    of the log; None when the conversation is not as it was read, or the list is longer.
    """
    arguments = (life, edited, part, length, model, b"".join(digests), *elements)
    return _call("index", keys, arguments, lambda reply: (int(reply[0]), int(reply[1])) if reply else None)


# ---- a conversation is read


class TailReply(NamedTuple):
    """What ``read_window`` found, as it is stored. Messages from ``first_seq`` on, bodies of the newest of them."""

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


def read_window(keys: Keys, *, known: Sequence[str], budget: int, column: int, limit: int) -> Call[TailReply | Known]:
    """Read the tail that a window of ``budget`` tokens likely needs.

    ``budget`` 0 asks for a modest tail, ``limit`` 0 for any number of messages; ``known`` are entity tags that the caller
    has. The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    return _call("read_window", keys, (tags, budget, ("t0", "t1")[column], limit), _read_tail)


def _read_tail(reply: list[Any]) -> TailReply | Known:
    if reply and reply[0] == b"ok":
        return TailReply(*reply[1:])
    if reply and reply[0] == b"known":
        return Known(reply[1].decode())
    raise _refusal(reply)


class PageReply(NamedTuple):
    """What ``read_page`` found, as it is stored. ``bodies`` is None where they are left to a plain LRANGE."""

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


def read_page(keys: Keys, *, first_seq: int, last_seq: int, limit_bytes: int, newest_first: bool) -> Call[PageReply]:
    """Read messages ``first_seq`` to ``last_seq``, negative ones from the end, as far as ``limit_bytes`` goes.

    The call raises NotFound, ConversationDamaged.
    """
    return _call("read_page", keys, (first_seq, last_seq, limit_bytes, "1" if newest_first else ""), _read_page)


def _read_page(reply: list[Any]) -> PageReply:
    if reply and reply[0] == b"ok":
        return PageReply(*reply[1:])
    raise _refusal(reply)


# ---- requests under a key


class Begun(msgspec.Struct, frozen=True):
    """A request is the caller's to run. ``again`` when a run before it ended without a word."""

    began_ms: int
    again: bool


class Done(msgspec.Struct, frozen=True):
    """A request was answered."""

    answer: bytes


def claim(
    key: str, *, fingerprint: bytes, run: str, now_ms: int, hold_ms: int, keep_ms: int
) -> Call[Begun | Done | bytes]:
    """Take an idempotency key for one run; else gives why not: Done, ``b"busy"`` or ``b"other"``."""
    return _call("claim", (key,), (fingerprint, run, now_ms, hold_ms, keep_ms), _read_claim)


def _read_claim(reply: list[Any]) -> Begun | Done | bytes:
    match reply:
        case [b"run", began, again]:
            return Begun(int(began), again == 1)
        case [b"done", answer]:
            return Done(answer)
        case _:
            return bytes(reply[0])


def aim(key: str, *, life: str) -> Call[str]:
    """Bind the request under a claim to a life; gives the one that its first run was bound to."""
    return _call("aim", (key,), (life,), lambda reply: str(reply.decode()))


def settle(key: str, *, run: str, until_ms: int, answer: bytes = b"") -> Call[int]:
    """Hold a claim longer, let it go with 0, or keep its answer."""
    return _call("settle", (key,), (run, until_ms, answer), int)


def keep_answer(keys: Keys, *, life: str, token: str, now_ms: int, answer: bytes, keep_ms: int) -> Call[int]:
    """Keep an answer beside the conversation whose ``life`` it speaks of; gives 0 when that has ended."""
    return _call("keep_answer", keys, (life, token, f"{now_ms:013d}", answer, keep_ms), int)


# ---- what is no conversation's


class Taken(msgspec.Struct, frozen=True):
    """Requests granted out of a bucket, and milliseconds until there is one more."""

    granted: int
    wait_ms: int


def take(key: str, *, rate: float, burst: float, wanted: int) -> Call[Taken]:
    """Take requests out of a bucket that fills at ``rate`` a second up to ``burst``."""
    return _call("take", (key,), (rate, burst, wanted), lambda reply: Taken(*reply))


class Reports(msgspec.Struct, frozen=True):
    """A model's bills: how many, the sum of errors and the worst one in tokens, and ratios, newest first."""

    count: int
    total: int
    worst: int
    ratios: list[bytes]


def report(
    keys: Sequence[str], *, token: str, ratio: float | str, error: int, keep_ms: int, remembered: int
) -> Call[Reports]:
    """Count one bill, once; with an empty ``ratio`` only read what is known."""
    return _call("report", keys, (token, ratio, error, keep_ms, remembered), lambda reply: Reports(*reply))


def unlist(key: str, lines: Sequence[str | bytes]) -> Call[int]:
    """Take conversations off an owner's list: ``lines`` are id and score of each. Gives how many are gone."""
    return _call("unlist", (key,), lines, int)


def first_keys(key: str, wrapped: Sequence[bytes]) -> Call[int]:
    """Give a tenant its first keys of encryption: names and wrapped keys. Gives 0 when it has some."""
    return _call("first_keys", (key,), wrapped, int)


def add_figures(keys: Sequence[str], arguments: Sequence[Any]) -> Call[int]:
    """Add what one worker counted to the statistics, once; the script's head says what ``arguments`` are."""
    return _call("add_figures", keys, arguments, int)
