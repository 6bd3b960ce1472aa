"""What is read of conversations: a state, the tail for a window, a page; and what they have in common."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.law.fixed_parts.conversation_settings import few_settings
from sash.core.law.records.records import Records
from sash.core.stored.identities import Identity
from sash.core.stored.record import RECORD_BYTES, Record
from sash.core.stored.split_media import StoredMedium
from sash.core.stored.stored_grounding import StoredGrounding
from sash.core.stored.stored_summary import Summary
from sash.store.data.agents import NO_AGENTS, Agents
from sash.store.data.layout import check_identity, etag_of, unpack_many
from sash.store.data.read_scripts import PageReply
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import AnySealer, Kind
from sash.store.data.stored_messages import bound_to, open_grounding, open_messages

Made = tuple[bytes, bytes]
"""A life and the name of its last edit. While both are the same, messages that were read are unchanged."""


NO_COMPACTIONS: Final[Mapping[str, int]] = MappingProxyType({})


class State(msgspec.Struct, frozen=True):
    """What windows are made of beside messages. Tokens are pairs (o200k_base, cl100k_base)."""

    version: int
    etag: str
    """The entity tag, without quotes."""
    made: Made
    settings: bytes
    length: int
    tokens: tuple[int, int]
    grounding_messages: int
    grounding_tokens: tuple[int, int]
    question: int
    """Seq of the newest user message, 0 when there is none."""
    summary: Summary | None
    sealed: bool
    """Whether some message is sealed."""
    rich: bool
    """Whether some message has, or had, a cost in its details."""
    compactions: Mapping[str, int] = NO_COMPACTIONS
    """Seqs of the newest compactions, by form."""
    agents: Agents = NO_AGENTS
    """The agents so far, where they were asked for."""

    @property
    def life(self) -> str:
        """The life, which tells this conversation from others with the same id."""
        return self.made[0].decode()

    @property
    def size_bytes(self) -> int:
        """Bytes of the settings, and characters of the summary."""
        return len(self.settings) + len(self.summary.text if self.summary else "")


class WholeState(State, frozen=True, kw_only=True):
    """A conversation without its messages. Times in milliseconds since 1970."""

    created_ms: int
    updated_ms: int
    expires_ms: int | None
    standing: bytes
    """The settings, as stored."""


class Message(msgspec.Struct, frozen=True):
    """A stored message: its place, its identity, its record, its body as JSON.

    ``standing`` is record and details as stored, where a page was read.
    """

    seq: int
    identity: Identity
    record: Record
    body: bytes
    standing: bytes = b""
    lost: Mapping[str, StoredMedium] = MappingProxyType({})
    """Its media that are lost, by their digests, where they were put into their places."""


class Shut(msgspec.Struct, frozen=True):
    """The readable part of a conversation whose data key, or one of whose keys in the store, is missing.

    Where its hash is missing, its version is 0, and only a list tells its owner.
    """

    version: int
    etag: str
    life: str
    owner: str | None


class Tail(msgspec.Struct, frozen=True):
    """The end of a conversation from one read: records from ``first_seq`` on, bodies from ``bodies_seq`` on."""

    state: State
    first_seq: int
    records: Records
    bodies_seq: int
    bodies: list[bytes]
    documents: StoredGrounding | None
    """The documents of the newest user message."""
    outside: tuple[Message, ...]
    """Messages before the tail that are in every window, and the newest user message where it is before the tail; ascending.
    Where they are large together, some have no body."""
    front: Records
    """The records of these, as columns."""
    compaction: Message | None = None
    """The newest compaction that the window can have."""
    indexed: Sequence[Any] = ()
    """As in the reply."""

    @property
    def appended(self) -> tuple[int, Record, bytes] | None:
        """The seq, the record and the body of that compaction; None without one."""
        last = self.compaction
        return (last.seq, last.record, last.body) if last is not None else None


class Page(msgspec.Struct, frozen=True):
    """Neighbouring messages, ascending; grounding and metadata by seq. ``made`` is as in a state."""

    version: int
    etag: str
    made: Made
    length: int
    messages: list[Message]
    grounding: Mapping[int, StoredGrounding]
    metadata: Mapping[int, bytes]

    @property
    def life(self) -> str:
        """The life, which tells this conversation from others with the same id."""
        return self.made[0].decode()


def check_history(found: Sequence[bytes | None], made: Made) -> None:
    """Check that only appends came since ``made``. Raises HistoryEdited."""
    if made_of(*found) != made:
        raise HistoryEdited


def made_of(life: bytes | None, edited: bytes | None) -> Made:
    """Return ``Made`` from the values of the fields ``life`` and ``edited``."""
    return life or b"", edited or b""


def visible_owner(sealer: AnySealer, settings: bytes) -> str:
    """Return the owner, to be kept beside sealed settings; empty where settings are not sealed."""
    return few_settings(settings).owner or "" if sealer.active else ""


def page_of(sealer: AnySealer, name: str, reply: PageReply, bodies: Sequence[bytes]) -> Page:
    """Return the page in a reply, with its bodies. Raises CannotOpen, UnknownKey."""
    check_identity(reply.name, name)
    first, packed, details = reply.first_seq, reply.records, reply.details
    records = unpack_many(packed, details)
    return Page(
        version=int(reply.version),
        etag=etag_of(reply.version, reply.life, reply.change),
        made=made_of(reply.life, reply.edited),
        length=reply.length,
        messages=[
            Message(first + index, *message, packed[index * RECORD_BYTES : (index + 1) * RECORD_BYTES] + details[index])
            for index, message in enumerate(open_messages(sealer, records, bodies))
        ],
        grounding={
            first + index: open_grounding(sealer, value, records[index])
            for index, value in enumerate(reply.documents)
            if value
        },
        metadata={
            first + index: sealer.open(Kind.METADATA, value, bound_to(records[index]))
            for index, value in enumerate(reply.metadata)
            if value
        },
    )
