"""The scripts that read a conversation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from sash.store.data.layout import HISTORY, WITH_WORDS, Keys
from sash.store.data.script_calls import if_ok, refusal, script
from sash.store.redis.lua import SCRIPTS, ScriptCall


class TailReply(msgspec.Struct, frozen=True):
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
    indexed: Sequence[Any] = ()
    """All records, and the reply with the words of all messages (``blocks.values_of``); empty where they are not here."""
    agents: bytes = b""
    """The field with the names of all agents; empty where there are none, or it was not asked for."""


class Known(msgspec.Struct, frozen=True):
    """The caller has this state already."""

    etag: str


class Reach(NamedTuple):
    """What one read asks for, as scripts take it: the tail that a window likely needs."""

    budget: int = 0
    """Tokens of messages; 0 asks for a modest tail."""
    column: int = 0
    """The encoding's place in the stored counts."""
    limit: int = 0
    """The largest number of messages; 0 for any number."""
    scripts: int = 1
    """1 to read which writing systems (Latin, Cyrillic) the messages have. Only estimates need them."""
    block: int = 0
    """Tokens of the block in which a stable cut is found; 0 without one."""
    more: int = 0
    """Messages to read besides."""
    whole: int = 0
    """1 where the bodies of the whole tail are likely needed: where most results are sent as one line, more messages fit."""
    compactions: str = ""
    """The forms of compactions that the window can have, each with a space on both sides."""
    words: int = 0
    """1 to read the words of all messages, for recall."""
    agents: int = 0
    """1 to read the names of all agents, for a view."""


def read_window(keys: Keys, reach: Reach, known: Sequence[str] = ()) -> ScriptCall[TailReply | Known]:
    """Read a conversation's tail, unless the caller has its state: ``known`` are the caller's entity tags.

    The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    return ScriptCall(SCRIPTS["read_window"], keys[WITH_WORDS if reach.words else HISTORY], (tags, *reach), _read_tail)


def _read_tail(reply: list[Any]) -> TailReply | Known:
    if reply and reply[0] == b"ok":
        return TailReply(*reply[1:])
    if reply and reply[0] == b"known":
        return Known(reply[1].decode())
    raise refusal(reply)


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


read_page = script("read_page", _ReadPage, if_ok(PageReply))
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


read_changes = script("read_changes", _ReadChanges, if_ok(ChangesReply))
"""Read a conversation's changes, of the keys ``HISTORY``. The call raises NotFound, ConversationDamaged."""


class _Follow(msgspec.Struct, frozen=True, kw_only=True):
    """Until when changes are published, in milliseconds since 1970."""

    until_ms: int


follow = script("follow", _Follow, bool)
"""Have a conversation's changes published, of its first key; gives False where there is none."""


class StateReply(NamedTuple):
    """Stored values from ``read_state``. ``expires_ms`` is less than 0 where the conversation does not expire.

    The fields are those of a tail, with the agents, and behind them ``created`` and ``updated``.
    """

    fields: list[bytes | None]
    length: int
    expires_ms: int


def read_state(keys: Keys) -> ScriptCall[StateReply]:
    """Read a state. The call raises NotFound, ConversationDamaged."""
    return ScriptCall(SCRIPTS["read_state"], keys[HISTORY], (), if_ok(StateReply))


class BranchesReply(NamedTuple):
    """Stored values from ``read_branches``: the state, the field ``heads``, and what was asked for, in their order."""

    name: bytes
    version: bytes
    life: bytes
    change: bytes
    edited: bytes
    length: int
    heads: bytes
    contents: list[bytes | None]
    before: list[bytes | None]


class _ReadBranches(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of branches: ``*`` for the contents of all, ``first`` for the details of the first message of each that
    hangs in the log, or ``heads`` for neither."""

    which: str


read_branches = script("read_branches", _ReadBranches, if_ok(BranchesReply))
"""Read branches, of all keys of a conversation. The call raises NotFound, ConversationDamaged."""


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
    arguments = (length, *tokens, grounded, *grounding, question, *reach)
    kept = keys[WITH_WORDS if reach.words else HISTORY]
    return ScriptCall(SCRIPTS["read_past"], kept, arguments, if_ok(_read_past))


def _read_past(length: int, earlier: Sequence[bytes | None], tail: list[Any]) -> PastReply:
    return PastReply(length, earlier, TailReply(*tail[1:]))
