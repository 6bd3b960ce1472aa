"""The tail of a conversation, of which a window is made: what one read asks for, what it gives, and the read itself.

::

    Reach ──read_window.lua, or append.lua with it──▶ TailReply ──tail_of──▶ Tail: state, records, the newest bodies

The given sealer opens sealed values. Functions that open one raise CannotOpen and UnknownKey.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from struct import Struct
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
    LIFE_LENGTH,
    WITH_WORDS,
    Keys,
    Target,
    check_identity,
    decode_summary,
    unpack,
    unpack_many,
)
from sash.store.data.media_texts import as_string
from sash.store.data.replies import NO_COMPACTIONS, Message, State, Tail
from sash.store.data.script_calls import if_ok, refusal
from sash.store.data.sealing import PLAIN, PLAIN_JSON, AnySealer, Kind
from sash.store.data.stored_messages import open_bodies, open_grounding
from sash.store.redis.client import Client
from sash.store.redis.lua import SCRIPTS, ScriptCall

_DETAILED = 3
"""What a message with details, such as a tool call or another script than Latin, adds to the work, in plain messages."""


class Reach(msgspec.Struct, frozen=True, dict=True):
    """How much of a conversation one read asks for: likely all that the window needs. It is made once for a query."""

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

    @cached_property
    def packed(self) -> bytes:
        """All these as ``read_window`` takes them."""
        figures = self.budget, self.column, self.limit, self.scripts, self.block, self.more, self.whole
        return _FIGURES.pack(*figures, self.words, self.agents) + self.compactions.encode() + b"\0"

    @cached_property
    def nested(self) -> msgspec.Raw:
        """The same as a member of an append's arguments."""
        return as_string(self.packed)


_FIGURES: Final = Struct("<9d")


class TailReply(msgspec.Struct, frozen=True):
    """What the store answers: the values of a conversation's state, None for those that it does not have, then the records
    of its tail, and the bodies of the newest messages."""

    settings: bytes | None
    name: bytes
    etag: bytes | None
    length: int
    o200k: bytes | int | None
    cl100k: bytes | int | None
    user: bytes | int | None
    records: bytes
    bodies: list[bytes]
    few: Sequence[Any] = ()
    """What few have, each behind its name."""


class _Few(msgspec.Struct, frozen=True):
    """What few conversations, or tails, have."""

    edited: bytes = b""
    sealed: bytes | None = None
    rich: bytes | None = None
    compactions: bytes = b""
    summary: bytes | None = None
    grounding: Sequence[bytes | int | None] = (0, 0, 0)
    """Messages with documents, and the tokens of these in both encodings."""
    agents: bytes = b""
    """The names of all agents; empty where there are none, or it was not asked for."""
    details: bytes = b""
    documents: bytes = b""
    pinned: Sequence[bytes] = ()
    """Seq and value of each pinned message before the tail, in turn."""
    question: Sequence[bytes] = ()
    """Record, details and body of the newest user message where it is before the tail."""
    compaction: Sequence[Any] = ()
    """Seq, record, details and body of the newest compaction that the window can have; empty without one."""
    indexed: Sequence[Any] = ()
    """All records, and the reply with the words of all messages (``blocks.values_of``); empty where they are not here."""


_NONE_OF_THESE = _Few()


def _few_in(values: Sequence[Any]) -> _Few:
    return _Few(**dict(zip(map(bytes.decode, values[::2]), values[1::2], strict=True)))


class Known(msgspec.Struct, frozen=True):
    """The caller has this state already."""

    etag: str


def read_window(keys: Keys, reach: Reach, known: Sequence[str] = ()) -> ScriptCall[TailReply | Known]:
    """Read a conversation's tail, unless the caller has its state: ``known`` are the caller's entity tags.

    The call raises NotFound, ConversationDamaged.
    """
    tags = f" {'  '.join(known)} " if known else ""
    kept = keys.first(WITH_WORDS if reach.words else HISTORY)
    return ScriptCall(SCRIPTS["read_window"], kept, (tags, reach.packed), _read_tail)


def _read_tail(reply: list[Any]) -> TailReply | Known:
    if reply and reply[0] == b"ok":
        return TailReply(*reply[1:])
    if reply and reply[0] == b"known":
        return Known(reply[1].decode())
    raise refusal(reply)


class WholeReply(NamedTuple):
    """Stored values from ``read_state``. ``expires_ms`` is less than 0 where the conversation does not expire."""

    expires_ms: int
    created: bytes | None
    updated: bytes | None
    state: TailReply
    """A tail of no messages."""


def read_state(keys: Keys) -> ScriptCall[WholeReply]:
    """Read a state. The call raises NotFound, ConversationDamaged."""
    return ScriptCall(SCRIPTS["read_state"], keys.first(HISTORY), (), if_ok(_read_state))


def _read_state(expires_ms: int, created: bytes | None, updated: bytes | None, *state: Any) -> WholeReply:
    return WholeReply(expires_ms, created, updated, TailReply(*state))


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
        return await self.opened(target, reply) if isinstance(reply, TailReply) else reply

    async def opened(self, target: Target, reply: TailReply) -> Tail:
        """Return the tail in a reply, with its values opened, when it is this work's turn."""
        messages = len(reply.records) // RECORD_BYTES
        has_details = b"details" in reply.few[::2]  # which messages have some is not read yet
        work = work_of(messages, messages) if has_details else messages
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
    few = _few_in(reply.few) if reply.few else _NONE_OF_THESE
    state = state_of(sealer, name, reply, few)
    packed, bodies, documents = reply.records, reply.bodies, None
    records = unpack_many(packed, few.details) if few.details else Records(packed)
    first, bodies_seq = reply.length - len(packed) // RECORD_BYTES + 1, reply.length - len(bodies) + 1
    outside, front = _before(sealer, state, few) if few.pinned or few.question else _NOTHING_BEFORE
    if state.sealed or sealer.active:
        bodies = open_bodies(sealer, records[bodies_seq - first :], bodies)
    if few.documents:
        asked = outside[state.question].record if few.question else records[state.question - first]
        documents = open_grounding(sealer, few.documents, asked)
    return Tail(
        state=state,
        first_seq=first,
        records=records,
        bodies_seq=bodies_seq,
        bodies=bodies,
        documents=documents,
        outside=tuple(outside.values()),
        front=front,
        compaction=_message(sealer, *few.compaction) if few.compaction else None,
        indexed=few.indexed,
    )


_NOTHING_BEFORE: Final[tuple[Mapping[int, Message], Records]] = {}, Records(b"")


def _before(sealer: AnySealer, state: State, few: _Few) -> tuple[Mapping[int, Message], Records]:
    """Return the messages before the tail that windows need, by seq, ascending, and their records as columns."""
    stored = {int(seq): _split(value) for seq, value in zip(few.pinned[::2], few.pinned[1::2], strict=True)}
    if few.question:
        packed, details, body = few.question
        stored[state.question] = packed, details, body
    messages = {seq: _message(sealer, seq, *stored[seq]) for seq in sorted(stored)}
    if few.details or not all(each.record.lone_text for each in messages.values()):
        all_packed, all_details, _ = map(b"".join, zip(*map(stored.__getitem__, messages), strict=True))
        return messages, unpack_many(all_packed, all_details)
    return messages, Records.texts([each.record for each in messages.values()])


def state_of(sealer: AnySealer, name: str, reply: TailReply, few: _Few | None = None) -> State:
    """Return the state in a reply, and in what few have of it. Raises CannotOpen, UnknownKey."""
    few = few or (_few_in(reply.few) if reply.few else _NONE_OF_THESE)
    check_identity(reply.name, name)
    settings, etag = reply.settings, reply.etag
    if settings is None or etag is None:
        raise Internal("The store holds a conversation without a version or settings.")
    version, _, life_and_change = etag.partition(b"-")
    grounded, o200k, cl100k = few.grounding
    return State(
        version=int(version),
        etag=etag.decode(),
        made=(life_and_change[:LIFE_LENGTH], few.edited),
        settings=settings if settings[:1] == PLAIN_JSON else sealer.open(Kind.SETTINGS, settings),
        length=reply.length,
        tokens=(int(reply.o200k or 0), int(reply.cl100k or 0)),
        grounding_messages=int(grounded or 0),
        grounding_tokens=(int(o200k or 0), int(cl100k or 0)),
        question=int(reply.user or 0),
        summary=decode_summary(sealer.open(Kind.SUMMARY, few.summary)) if few.summary else None,
        sealed=few.sealed is not None,
        rich=few.rich is not None,
        compactions=read_compactions(few.compactions) if few.compactions else NO_COMPACTIONS,
        agents=read_agents(few.agents) if few.agents else NO_AGENTS,
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
