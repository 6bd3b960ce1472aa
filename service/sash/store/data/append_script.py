"""The script that appends entries: its arguments, and what its reply says."""

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, Final, NoReturn

import msgspec

from sash.core.chat.audiences import EVERYBODY
from sash.core.chat.tool_groups import orphan
from sash.core.stored.record import Flags
from sash.problems import (
    Conflict,
    EntryConflict,
    Internal,
    Pointer,
    ReplyGone,
)
from sash.store.data.branches import NOTHING_SEALED, SealedTail, Took, sealed_tail
from sash.store.data.entries import NewEntry, seal_message
from sash.store.data.layout import id_field, new_name
from sash.store.data.media_texts import KeptMedium, kept_media
from sash.store.data.script_calls import HistoryEdited, refusal
from sash.store.data.sealing import AnySealer, no_key_set
from sash.store.data.tails import Reach, TailReply
from sash.store.data.write_scripts import MOST_PINNED, too_many_pinned
from sash.store.redis.lua import SCRIPTS, ScriptCall

_encode = msgspec.msgpack.Encoder().encode


class Appended(msgspec.Struct, frozen=True):
    """An entry's seq, whether it was stored before, and its tokens in both encodings.

    A result costs other tokens as one of several, so these are told when the script has found the entry's place.
    """

    seq: int
    duplicate: bool
    tokens: tuple[int, int]


class AppendReply(msgspec.Struct, frozen=True):
    """The result of an append; ``settings`` are as stored, ``edited`` is the last write that was not an append.

    ``waiting`` are the ids of the newest group's calls without a result; of a call in the form before tool calls, which has
    no id, the function's name. ``tail`` is the tail that was asked for with the append; None where it could not be read.
    """

    version: int
    etag: str
    settings: bytes
    edited: bytes
    waiting: list[str]
    entries: list[Appended]
    tail: TailReply | None = None
    freed: tuple[str, ...] = ()
    """Objects in object storage that no message has any more."""
    sealed: SealedTail = NOTHING_SEALED


class _EntryRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Members of an entry that few entries have. Tokens are pairs (o200k_base, cl100k_base)."""

    makes: Sequence[str] | None = None
    answers: str | None = None
    links: str = ""
    parallel: tuple[int, int] | None = None
    always: bool = False
    documents: tuple[int, int] | None = None
    progress: bool = False
    unsent: bool = False
    """Whether it is left out of windows."""
    continues: bool = False
    """Whether it may only replace an entry in progress."""
    compaction: str | None = None
    """The form of the compaction that it is, which stands for all messages before it."""
    media: Sequence[KeptMedium] = ()
    agents: Sequence[str] = ()
    """Its author and its audience."""


_NO_REST = _EntryRest()
_APPEND_AND_READ = SCRIPTS["append"]._replace(name="append+read_window")
"""The append script, under the name that metrics and traces have for an append with its window."""


class Forgotten(msgspec.Struct, frozen=True):
    """A rewind of the state ``etag`` to ``seq``. The totals become ``less``: tokens in both encodings, messages with
    documents, tokens of documents in both.

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
    seal: str = ""
    """Whether the messages become a branch: ``always``, or ``hung``, where another one hangs in them; else they go."""
    took: Sequence[Took] = ()
    """The branches whose messages are appended."""


class SettingsChange(msgspec.Struct, frozen=True):
    """Settings that an agreement changes in the same step: the new ones, and what earlier windows need of the old."""

    settings: msgspec.Raw
    kept: msgspec.Raw


NOTHING_STOOD: Final = Forgotten(0, "0", (0,) * 5, "", 0, ())
"""The rewind of a conversation that does not exist: the entity tag is that of a missing one."""


class _AppendRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments that few appends have."""

    before: int | None = None
    ttl: int | None = None
    repeats: str | None = None
    token: str | None = None
    after: Forgotten | None = None
    reach: Reach | None = None
    fresh: bool = False
    set: SettingsChange | None = None
    said: msgspec.Raw | None = None
    behind: int | None = None


_NOTHING = _AppendRest()


def append(
    keys: Sequence[str],
    *,
    name: str,
    settings: bytes,
    sealer: AnySealer,
    entries: Sequence[NewEntry],
    if_match: str,
    now_ms: int,
    ttl_ms: int | None,
    before: int | None = None,
    repeats: str | None = None,
    token: str | None = None,
    after: Forgotten | None = None,
    reach: Reach | None = None,
    fresh: bool = False,
    changed: SettingsChange | None = None,
    said: msgspec.Raw | None = None,
    behind: int | None = None,
) -> ScriptCall[AppendReply]:
    """Append entries, all or none, each id once; create the conversation if it is not there.

    ``before`` is the number of messages that must be there already. ``repeats`` is the life in which the same request was
    done before: then only the places of its entries are asked for. ``token`` names a request that is done but once, so that
    its next run can find out whether it was. With ``reach`` the reply has the tail that a window
    likely needs, as ``read_window`` gives it. ``after`` is what is forgotten before, in the same step. ``fresh``: no entry
    may have an id that is stored. ``changed`` are settings that change in the same step. ``said`` are the digests that the
    newest messages must have, joined, and ``behind`` is the number of messages before these.

    The call raises PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, ConversationDamaged,
    MediaMoved, for a repeat Conflict and NotFound, and HistoryEdited where ``after`` was made for another state, or other
    words than ``said`` are there.
    """
    asked = _AppendRest(before, ttl_ms, repeats, token, after, reach, fresh, changed, said, behind)
    rest = _encode(asked) if asked != _NOTHING else b""
    arguments = [name, settings, now_ms, if_match, new_name(), MOST_PINNED, rest]
    columns = zip(*map(_entry_arguments, repeat(sealer), entries), strict=True)
    arguments.extend(chain.from_iterable(columns))
    script = SCRIPTS["append"] if reach is None else _APPEND_AND_READ
    return ScriptCall(script, keys, arguments, partial(_read_append, entries))


def _entry_arguments(sealer: AnySealer, entry: NewEntry) -> tuple[bytes | int, ...]:
    """An entry's value in each of the script's columns: its id, the tokens that it adds to the totals, its stored values."""
    record, calls = entry.record, entry.calls
    stored = seal_message(
        sealer, record, entry.identity, entry.body, entry.grounding, entry.metadata, as_before=entry.as_before
    )
    rest = _EntryRest(
        makes=calls.opens or None,
        answers=calls.answers or None,
        links=record.links if calls.opens or calls.answers else "",
        parallel=entry.tokens_parallel if calls.answers else None,
        always=record.is_always,
        documents=record.grounding if entry.grounding else None,
        progress=bool(record.flags & Flags.IN_PROGRESS),
        unsent=bool(record.flags & Flags.LEFT_OUT),
        continues=entry.continues,
        compaction=entry.compaction,
        media=kept_media(sealer, record.media, entry.contents, entry.lost) if record.media else (),
        agents=record.party.names if record.party != EVERYBODY else (),
    )
    return id_field(entry.identity.id), *entry.tokens, *stored, _encode(rest) if rest != _NO_REST else b""


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
    (
        EntryConflict,
        "This id is that of a message that agrees, or of another one of the list",
        "give each new message an id of its own",
    ),
)


def _read_append(entries: Sequence[NewEntry], reply: list[Any]) -> AppendReply:
    tail, sealed = None, NOTHING_SEALED
    freed: tuple[str, ...] = ()
    if reply and isinstance(reply[0], list):
        reply, tail = reply
    if reply[:1] != [b"ok"]:
        _refuse(reply)
    while isinstance(reply[-1], list):
        *reply, last = reply
        if last and isinstance(last[0], bytes):
            freed = tuple(each.decode() for each in last)
        else:
            sealed = sealed_tail(last)
    _, version, etag, settings, edited, group, *steps = reply
    appended: list[Appended] = []
    waiting = _read_open(group).p if group else []
    for entry, seq, is_known, is_parallel in zip(entries, steps[::3], steps[1::3], steps[2::3], strict=True):
        appended.append(Appended(seq, bool(is_known), entry.tokens_parallel if is_parallel else entry.tokens))
    if entries and entries[-1].calls.legacy and not appended[-1].duplicate:
        waiting = waiting or [entries[-1].calls.function]
    found = TailReply(*tail[1:]) if tail else None
    return AppendReply(int(version), etag.decode(), settings, edited, waiting, appended, found, freed, sealed)


def _refuse(reply: list[Any]) -> NoReturn:
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
            raise refusal(reply)
