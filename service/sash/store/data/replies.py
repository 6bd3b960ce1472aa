"""Turn replies of the store into a conversation's state, its tail, or a page of it.

The given sealer opens sealed values. Functions that open one raise CannotOpen and UnknownKey.
"""

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
from sash.problems import Internal
from sash.store.data.agents import NO_AGENTS, Agents, read_agents
from sash.store.data.layout import decode_summary, etag_of, unpack, unpack_many
from sash.store.data.read_scripts import PageReply, StateReply, TailReply
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import PLAIN_JSON, AnySealer, Kind
from sash.store.data.stored_messages import bound_to, open_bodies, open_grounding, open_messages

Made = tuple[bytes, bytes]
"""A life and the name of its last edit. While both are the same, messages that were read are unchanged."""


_NO_COMPACTIONS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_TOKENS: Final = (0, 0)


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
    compactions: Mapping[str, int] = _NO_COMPACTIONS
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


def check_identity(found: bytes | None, name: str) -> None:
    """Check that a reply is of the conversation that was asked for. A misplaced reply must never be shown."""
    if found != name.encode():
        raise Internal("The store answered for another conversation; nothing of it is shown.")


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


def state_of(sealer: AnySealer, name: str, fields: Sequence[bytes | None], length: int, agents: bytes | None) -> State:
    """Return a conversation's state, from the fields of ``parts/fields.lua``. Raises CannotOpen, UnknownKey."""
    found, version, life, etag, settings, t0, t1, gn, user, edited, sealed, rich, _, forms, g0, g1, summary = fields
    check_identity(found, name)
    if version is None or settings is None or etag is None:
        raise Internal("The store holds a conversation without a version or settings.")
    return State(
        version=int(version),
        etag=etag.decode(),
        made=(life or b"", edited or b""),
        settings=settings if settings[:1] == PLAIN_JSON else sealer.open(Kind.SETTINGS, settings),
        length=length,
        tokens=(int(t0 or 0), int(t1 or 0)),
        grounding_messages=int(gn or 0),
        grounding_tokens=(int(g0 or 0), int(g1 or 0)) if gn else _NO_TOKENS,
        question=int(user or 0),
        summary=decode_summary(sealer.open(Kind.SUMMARY, summary)) if summary else None,
        sealed=sealed is not None,
        rich=rich is not None,
        compactions=read_compactions(forms) if forms else _NO_COMPACTIONS,
        agents=read_agents(agents) if agents else NO_AGENTS,
    )


def whole_state_of(sealer: AnySealer, name: str, reply: StateReply) -> WholeState:
    """Return the whole state in a reply. Raises CannotOpen, UnknownKey."""
    *fields, agents, created, updated = reply.fields
    return WholeState(
        *msgspec.structs.astuple(state_of(sealer, name, fields, reply.length, agents)),
        created_ms=int(created or 0),
        updated_ms=int(updated or 0),
        expires_ms=reply.expires_ms if reply.expires_ms > 0 else None,
        standing=fields[4] or b"",
    )


def read_compactions(value: bytes) -> dict[str, int]:
    """Return the seqs of the newest compactions by form, from the value of the field ``compactions``."""
    words = value.decode().split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def tail_of(sealer: AnySealer, name: str, reply: TailReply) -> Tail:
    """Return the tail in a reply. Raises CannotOpen, UnknownKey."""
    state = state_of(sealer, name, reply.fields, reply.length, reply.agents)
    first, packed, bodies, documents = reply.first_seq, reply.records, reply.bodies, None
    records = unpack_many(packed, reply.details) if reply.details else Records(packed)
    outside, front = _before(sealer, state, reply) if reply.pinned or reply.question else _NOTHING_BEFORE
    bodies_seq = reply.length - len(bodies) + 1
    if state.sealed or sealer.active:
        bodies = open_bodies(sealer, records[bodies_seq - first :], bodies)
    if reply.documents:
        asked = outside[state.question].record if reply.question else records[state.question - first]
        documents = open_grounding(sealer, reply.documents, asked)
    return Tail(
        state=state,
        first_seq=first,
        records=records,
        bodies_seq=bodies_seq,
        bodies=bodies,
        documents=documents,
        outside=tuple(outside.values()),
        front=front,
        compaction=_message(sealer, *reply.compaction) if reply.compaction else None,
        indexed=reply.indexed,
    )


_NOTHING_BEFORE: Final[tuple[Mapping[int, Message], Records]] = {}, Records(b"")


def _before(sealer: AnySealer, state: State, reply: TailReply) -> tuple[Mapping[int, Message], Records]:
    """Return the messages before the tail that windows need, by seq, ascending, and their records as columns."""
    stored = {int(seq): _split(value) for seq, value in zip(reply.pinned[::2], reply.pinned[1::2], strict=True)}
    if reply.question:
        packed, details, body = reply.question
        stored[state.question] = packed, details, body
    messages = {seq: _message(sealer, seq, *stored[seq]) for seq in sorted(stored)}
    if reply.details or not all(each.record.lone_text for each in messages.values()):
        all_packed, all_details, _ = map(b"".join, zip(*map(stored.__getitem__, messages), strict=True))
        return messages, unpack_many(all_packed, all_details)
    return messages, Records.texts([each.record for each in messages.values()])


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


def _split(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Divide a value of ``pinned``: record, details, and the body, which may be missing. Before is the details' length."""
    record = 4 + RECORD_BYTES
    end = record + int.from_bytes(value[:4], "big")
    return value[4:record], value[record:end], value[end:]


def _message(sealer: AnySealer, seq: int, packed: bytes, details: bytes, body: bytes) -> Message:
    record, identity = unpack(packed, details)
    (opened,) = open_bodies(sealer, Records(packed), [body]) if body else [b""]
    return Message(seq=seq, identity=identity, record=record, body=opened)
