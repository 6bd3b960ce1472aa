"""The scripts with which a conversation begins, changes and ends, but for appends."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sash.problems import (
    ConversationExists,
    TooManyPinned,
)
from sash.store.data.branches import NOTHING_SEALED, SealedTail, sealed_tail
from sash.store.data.media_texts import as_string
from sash.store.data.script_calls import if_ok, random_name, refusal, script

MOST_PINNED = 1000
"""Messages of one conversation that may be in every window; each window reads all of them."""


class Written(msgspec.Struct, frozen=True):
    """The state after a write: its version and its entity tag, without quotes."""

    version: int
    etag: str


_read_written = if_ok(lambda version, etag: Written(int(version), etag.decode()))


class Freed(Written, frozen=True):
    """The state after messages were taken away. ``objects`` in object storage have no message any more."""

    objects: tuple[str, ...] = ()


def _freed(version: bytes, etag: bytes, *objects: bytes) -> Freed:
    return Freed(int(version), etag.decode(), tuple(each.decode() for each in objects))


_read_freed = if_ok(_freed)


class Rewound(Freed, frozen=True, kw_only=True):
    """The state after a rewind. ``stale`` is the last seq with documents or metadata still to be dropped, 0 for none."""

    stale: int
    sealed: SealedTail = NOTHING_SEALED
    to_seq: int = 0


class _Create(msgspec.Struct, frozen=True, kw_only=True):
    """A new conversation without messages. ``owner`` is given only if the settings are sealed, since they name it too."""

    name: str
    settings: bytes
    now_ms: int
    ttl_ms: int | None
    token: str
    owner: str
    change: str = random_name()


class _Publish(msgspec.Struct, frozen=True, kw_only=True):
    """The name that a staged conversation gets. The reply has its entity tag, or None if the staged keys have expired."""

    token: str
    messages: int
    ttl_ms: int | None
    change: str = random_name()
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
            raise refusal(reply)


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
    change: str = random_name()
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


class _Edit(msgspec.Struct, frozen=True, kw_only=True):
    """The first arguments of each script that edits a history."""

    life: str
    if_match: str
    token: str
    now_ms: int
    change: str = random_name()


class _Redact(_Edit, frozen=True, kw_only=True):
    """A message without content, for ``seq``.

    ``standing`` are the record and the details that must be there. The conversation's totals become less by ``less`` tokens
    in both encodings, by ``grounded`` messages with documents, and by the documents' ``grounding`` tokens in both. ``words``
    are the new message's, for recall. ``media`` are those that it had, as in ``Forgotten``.
    """

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
    branches: bytes = b""
    """The value of the field ``heads`` that must stand."""
    contents: bytes = b""
    """As in ``packed_contents``."""


redact = script("redact", _Redact, lambda reply: None if reply == [b"changed"] else _read_freed(reply))
"""Redact a message; gives None where another record is there. The call raises NotFound, PreconditionFailed."""


class _ChangeBranches(_Edit, frozen=True, kw_only=True):
    """The field ``heads`` that must stand, the number of the branch to drop, or 0, and contents, as in ``_Redact``."""

    branches: bytes
    drop: int = 0
    contents: bytes = b""


change_branches = script(
    "change_branches", _ChangeBranches, lambda reply: None if reply == [b"changed"] else _read_freed(reply)
)
"""Drop a branch, or replace contents; gives None where there are other branches.

The call raises NotFound, PreconditionFailed.
"""


def packed_contents(contents: Sequence[tuple[int, bytes, str]]) -> bytes:
    """Return branches' new contents as scripts take them: each its number, the content, and the media that it lost."""
    if not contents:
        return b""
    return msgspec.msgpack.encode([(number, as_string(content), media) for number, content, media in contents])


class _StageBranch(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a branch of a staged conversation. ``media`` is msgpack: for each message the list of its media."""

    number: int
    parent: int
    after_seq: int
    sealed_ms: int
    messages: int
    content: bytes
    media: bytes
    keep_ms: int
    change: str = random_name()


stage_branch = script("stage_branch", _StageBranch, if_ok(int))
"""Put messages at the end of a staged conversation's branch; gives the bytes of all branches. The call raises MediaMoved."""


def _rewound(version: bytes, etag: bytes, stale: int, sealed: Sequence[int], *objects: bytes) -> Rewound:
    freed = _freed(version, etag, *objects)
    return Rewound(freed.version, freed.etag, freed.objects, stale=int(stale), sealed=sealed_tail(sealed))


class _Amend(_Edit, frozen=True, kw_only=True):
    """The record and the metadata of the message at ``seq``. ``if_match`` is the state that the arguments were made for.

    ``pin``, of which there are ``count``, are the seqs that every window has from now on. ``unpin``, of which there are
    ``unpins``, are those that windows may leave out again. ``turned`` are left out of all windows if ``is_out``, else no
    longer. ``question`` is the newest question's seq, None if it stays. The call raises NotFound, PreconditionFailed,
    TooManyPinned.
    """

    seq: int
    record: bytes
    metadata: bytes
    most_pinned: int
    count: int
    unpins: int
    question: int | None
    is_out: int
    pin: Sequence[int]
    unpin: Sequence[int]
    turned: Sequence[int]


def _read_amended(reply: list[Any]) -> Written:
    if reply == [b"full"]:
        raise too_many_pinned("#/pinned")
    return _read_written(reply)


amend = script("amend", _Amend, _read_amended)
"""Change a message's metadata and pin, and whether windows have it."""


class _Rewind(_Edit, frozen=True, kw_only=True):
    """The last seq to keep, and the figures of ``Forgotten``."""

    to_seq: int
    less: Sequence[int]
    open: str
    question: int
    media: str = ""
    seal: str = ""
    unpinned: Sequence[int]


rewind = script("rewind", _Rewind, if_ok(_rewound))
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


class _Summarize(_Edit, frozen=True, kw_only=True):
    """A new summary; an empty one removes the summary. ``edited`` and ``covered`` are the last edit and the last seq of the
    present one.

    Both must stand, or be ``*``.
    """

    summary: bytes
    through_seq: int
    edited: str = "*"
    covered: int | str = "*"


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
"""Take the right to summarise a conversation, or give it back. The result is 0 if another holder has it."""


def too_many_pinned(pointer: str) -> TooManyPinned:
    """Return the problem of one message more than may be in every window."""
    detail = f"A conversation may have {MOST_PINNED} pinned messages, system and developer messages among them"
    return TooManyPinned.at(pointer, detail, {"limit": MOST_PINNED})


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
