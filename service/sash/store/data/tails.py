"""The tail of a conversation, of which a window is made: what one read asks for, what it gives, and the read itself.

::

    Reach ──read_window.lua, or append.lua with it──▶ TailReply ──tail_of──▶ Tail: state, records, the newest bodies

The given sealer opens sealed values. Functions that open one raise CannotOpen and UnknownKey.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.law.records.records import Records
from sash.core.stored.record import RECORD_BYTES
from sash.problems import Internal
from sash.processor import NO_TURN, Turns
from sash.store.data.agents import NO_AGENTS, read_agents
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import (
    HISTORY,
    WITH_WORDS,
    Keys,
    Target,
    check_identity,
    decode_summary,
    unpack,
    unpack_many,
)
from sash.store.data.replies import NO_COMPACTIONS, Message, State, Tail
from sash.store.data.script_calls import refusal
from sash.store.data.sealing import PLAIN, PLAIN_JSON, AnySealer, Kind
from sash.store.data.stored_messages import open_bodies, open_grounding
from sash.store.redis.client import Client
from sash.store.redis.lua import SCRIPTS, ScriptCall

_DETAILED = 3
"""What a message with details, such as a tool call or another script than Latin, adds to the work, in plain messages."""


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


encode_reach: Any = msgspec.msgpack.Encoder().encode
"""A reach as scripts take it."""


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


def read_window(keys: Keys, reach: Reach, known: Sequence[str] = ()) -> ScriptCall[TailReply | Known]:
    """Read a conversation's tail, unless the caller has its state: ``known`` are the caller's entity tags.

    The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    kept = keys.first(WITH_WORDS if reach.words else HISTORY)
    return ScriptCall(SCRIPTS["read_window"], kept, (tags, encode_reach(reach)), _read_tail)


def _read_tail(reply: list[Any]) -> TailReply | Known:
    if reply and reply[0] == b"ok":
        return TailReply(*reply[1:])
    if reply and reply[0] == b"known":
        return Known(reply[1].decode())
    raise refusal(reply)


class Tails:
    """Reads the tails of a deployment's conversations. Every call names a tenant, which sees only its own."""

    def __init__(self, client: Client, data_keys: DataKeys) -> None:
        self._client = client
        self._data_keys = data_keys
        self.turns = Turns()

    async def read(self, target: Target, reach: Reach) -> Tail:
        """Return the tail that a window likely needs. Raises NotFound, ConversationDamaged."""
        found = await self.read_unless(target, reach, ())
        if isinstance(found, Known):
            raise Internal("The store answered 'unchanged', which was not asked.")
        return found

    async def read_unless(self, target: Target, reach: Reach, known: Sequence[str]) -> Tail | Known:
        """Return the tail as ``read`` does, or Known if the state has one of the entity tags ``known``."""
        reply = await self._client.run(read_window(target.keys, reach, known))
        return reply if isinstance(reply, Known) else await self.opened(target, reply)

    async def opened(self, target: Target, reply: TailReply) -> Tail:
        """Return the tail in a reply, with its values opened, when it is this work's turn."""
        messages = len(reply.records) // RECORD_BYTES
        work = work_of(messages, messages) if reply.details else messages  # which have details is not read yet
        if work > NO_TURN:
            await self.turns.take(work)
        if self._data_keys.plain:
            return tail_of(PLAIN, target.name, reply)
        return await self._data_keys.reading(
            target.tenant, target.name, partial(tail_of, name=target.name, reply=reply)
        )


def work_of(messages: int, detailed: int) -> int:
    """Return the work of a window of messages, some of them detailed, in messages of a plain chat, as ``Turns`` takes it."""
    return messages + _DETAILED * detailed


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


_NO_TOKENS: Final = (0, 0)
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
        compactions=read_compactions(forms) if forms else NO_COMPACTIONS,
        agents=read_agents(agents) if agents else NO_AGENTS,
    )


def read_compactions(value: bytes) -> dict[str, int]:
    """Return the seqs of the newest compactions by form, from the value of the field ``compactions``."""
    words = value.decode().split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _split(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Divide a value of ``pinned``: record, details, and the body, which may be missing. Before is the details' length."""
    record = 4 + RECORD_BYTES
    end = record + int.from_bytes(value[:4], "big")
    return value[4:record], value[record:end], value[end:]


def _message(sealer: AnySealer, seq: int, packed: bytes, details: bytes, body: bytes) -> Message:
    record, identity = unpack(packed, details)
    (opened,) = open_bodies(sealer, Records(packed), [body]) if body else [b""]
    return Message(seq=seq, identity=identity, record=record, body=opened)
