"""The scripts that read a conversation."""

from typing import NamedTuple

import msgspec

from sash.store.data.script_calls import if_ok, script


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
