"""What the store's scripts answer, read: a conversation's state, its tail, a page of it.

Sealed values are opened on the way, by a sealer that is given: whatever opens one raises CannotOpen and UnknownKey.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from service.core.messages import orphan
from service.core.records import RECORD_BYTES, Identity, Record, Records, StoredGrounding, Summary
from service.core.settings import decode_settings
from service.problems import EntryConflict, Internal, NotFound, Pointer, PreconditionFailed
from service.store.layout import decode_summary, unpack_many
from service.store.messages import bound_to, open_bodies, open_grounding, open_messages
from service.store.sealing import AnySealer, Kind


class HistoryEdited(Exception):  # noqa: N818 - it reads as what happened
    """Between two reads a history was rewound, redacted or erased, so that they do not belong together: read it anew."""


class Appended(msgspec.Struct, frozen=True):
    """Where an entry is: its seq, whether it was there before, whether it answers one of several parallel calls."""

    seq: int
    duplicate: bool
    parallel: bool


class AppendReply(msgspec.Struct, frozen=True):
    version: int
    settings: bytes
    entries: list[Appended]


class State(msgspec.Struct, frozen=True):
    """A conversation without its messages. Times in milliseconds since 1970; tokens as (o200k_base, cl100k_base)."""

    version: int
    settings: bytes
    created_ms: int
    updated_ms: int
    length: int
    tokens: tuple[int, int]
    grounding_messages: int
    grounding_tokens: tuple[int, int]
    question: int
    """Seq of the newest user message, 0 when there is none."""
    summary: Summary | None
    ttl_ms: int | None
    expires_ms: int | None = None
    mark: bytes = b""
    """As ``read_window`` has it."""
    edited: int = 0
    """The version at which history last changed other than by an append."""
    standing: bytes = b""
    """The settings as they are stored."""
    sealed: bool = False
    """Whether some of its messages are sealed."""
    rich: bool = False
    """Whether a message's cost is, or was, in its details."""

    @property
    def size_bytes(self) -> int:
        """What people wrote of it."""
        return len(self.settings) + len(self.summary.text if self.summary else "")

    @property
    def made(self) -> tuple[int, int]:
        """What tells histories apart that do not just go on: when it was created, and its version of the last edit."""
        return self.created_ms, self.edited


class Message(msgspec.Struct, frozen=True):
    """A stored message: its place, who it is, its record, its body as JSON; ``standing`` is record and details as stored,
    where a page was read."""

    seq: int
    identity: Identity
    record: Record
    body: bytes
    standing: bytes = b""


class Shut(msgspec.Struct, frozen=True):
    """What can be told of a conversation that does not open."""

    version: int
    owner: str | None


class Reply(NamedTuple):
    """What ``read_window`` answers: values as they are stored, messages from ``first`` on; ``mark`` tells histories apart
    that do not just go on, ``last`` is the newest message's details. Where ``since`` is not 0, records, details and bodies
    are of the messages after it alone."""

    version: int
    mark: bytes
    updated: bytes
    last: bytes
    fields: list[bytes]
    length: int
    first: int
    records: bytes
    details: bytes
    bodies: list[bytes]
    documents: bytes
    before: list[bytes]
    question: list[bytes]
    since: int

    @property
    def bodies_seq(self) -> int:
        """Where the bodies begin."""
        return self.length - len(self.bodies) + 1


class Tail(msgspec.Struct, frozen=True):
    """The end of a conversation as one read gave it: records from ``first_seq`` on, bodies from ``bodies_seq`` on."""

    state: State
    first_seq: int
    records: Records
    bodies_seq: int
    bodies: list[bytes]
    documents: StoredGrounding | None
    """Of the newest user message."""
    outside: tuple[Message, ...]
    """Messages of every window that lie before the tail, and the newest user message when it does; ascending. Where they
    are large together some have no body."""
    built: dict[Any, Any] = msgspec.field(default_factory=dict)
    """What was made of it, by whoever made it, for as long as it is held."""


class Page(msgspec.Struct, frozen=True):
    """A stretch of history, ascending; grounding and metadata by seq. ``made`` is as a state has it."""

    version: int
    made: tuple[int, int]
    length: int
    messages: list[Message]
    grounding: Mapping[int, StoredGrounding]
    metadata: Mapping[int, bytes]


def check_identity(found: bytes, name: str) -> None:
    """Every read says whose it is. A reply in the wrong place must become an error, never somebody else's chat."""
    if found != name.encode():
        raise Internal("The store answered for another conversation; nothing of it is shown.")


def check_history(found: Sequence[bytes | None], made: tuple[int, int]) -> None:
    """Appends leave what was read before as it was; anything else does not. Raises HistoryEdited."""
    if made_of(*found) != made:
        raise HistoryEdited


def made_of(created: bytes | None, edited: bytes | None) -> tuple[int, int]:
    """What tells a history that was only appended to from another one, out of the fields that hold it."""
    return int(created or 0), int(edited or 0)


def visible_owner(sealer: AnySealer, settings: bytes) -> str:
    """Whose a conversation is, to be kept beside its settings when these are sealed; else nothing."""
    return decode_settings(settings)[0].owner or "" if sealer.active else ""


def replied_version(reply: list[Any]) -> int:
    """The version that a script answered. Raises PreconditionFailed, NotFound."""
    match reply:
        case [b"ok", version]:
            return int(version)
        case [b"moved", version]:
            raise _moved(int(version))
        case _:
            raise NotFound("There is no such conversation.")


def _moved(version: int) -> PreconditionFailed:
    said = f"The conversation is at version {version} now" if version else "There is no such conversation now"
    return PreconditionFailed(f"{said}: read it again and decide anew.", members={"version": version})


def appended_of(sealer: AnySealer, reply: list[Any]) -> AppendReply:
    """What an append did. Raises PreconditionFailed, EntryConflict, OrphanToolResult."""
    match reply:
        case [b"ok", version, settings, *steps]:
            entries = [
                Appended(seq=int(steps[i]), duplicate=steps[i + 1] == 1, parallel=steps[i + 2] == 1)
                for i in range(0, len(steps), 3)
            ]
            return AppendReply(version=version, settings=sealer.open(Kind.SETTINGS, settings), entries=entries)
        case [b"moved", version]:
            raise _moved(version)
        case [b"conflict", index]:
            detail = "This id is stored with other content"
            raise EntryConflict(
                f"{detail}: an id names one entry for good.", errors=[Pointer(f"#/messages/{index}/id", detail)]
            )
        case [b"orphan", index]:
            raise orphan(f"/messages/{index}/message")
        case _:
            raise Internal("The store holds another conversation under this name.")


def state_of(
    sealer: AnySealer,
    name: str,
    flat: Sequence[bytes],
    length: int,
    *,
    mark: bytes = b"",
    expires_ms: int | None = None,
) -> State:
    """A conversation's state, out of its hash."""
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    check_identity(fields[b"id"], name)
    summary = fields.get(b"summary")
    ttl = fields.get(b"ttl")
    return State(
        version=int(fields[b"v"]),
        settings=sealer.open(Kind.SETTINGS, fields[b"s"]),
        created_ms=int(fields[b"created"]),
        updated_ms=int(fields[b"updated"]),
        length=length,
        tokens=(int(fields.get(b"t0", 0)), int(fields.get(b"t1", 0))),
        grounding_messages=int(fields.get(b"gn", 0)),
        grounding_tokens=(int(fields.get(b"g0", 0)), int(fields.get(b"g1", 0))),
        question=int(fields.get(b"user", 0)),
        summary=decode_summary(sealer.open(Kind.SUMMARY, summary)) if summary else None,
        ttl_ms=int(ttl) if ttl else None,
        expires_ms=expires_ms,
        mark=mark,
        edited=int(fields.get(b"edited", 0)),
        standing=fields[b"s"],
        sealed=b"sealed" in fields,
        rich=b"rich" in fields,
    )


def joined(had: Reply | None, new: Reply) -> Reply:
    """What the store answered, with what the caller ``had`` before it."""
    if had is None or not new.since:
        return new
    gone = new.first - had.first
    bodies_gone = max(0, new.first - had.bodies_seq)
    complete = len(new.bodies) * RECORD_BYTES == len(new.records)  # else so much is new that older bodies stand alone
    return new._replace(
        records=had.records[gone * RECORD_BYTES :] + new.records,
        details=had.details + new.details,
        bodies=[*had.bodies[bodies_gone:], *new.bodies] if complete else new.bodies,
        since=0,
    )


def tail_of(sealer: AnySealer, name: str, reply: Reply) -> Tail:
    """The tail that a reply holds. Raises CannotOpen, UnknownKey."""
    state = state_of(sealer, name, reply.fields, reply.length, mark=reply.mark)
    first, before, documents, question = reply.first, reply.before, reply.documents, reply.question
    outside = {int(before[i]): _split(sealer, int(before[i]), before[i + 1]) for i in range(0, len(before), 2)}
    if question:
        outside[state.question] = _message(sealer, state.question, *question)
    tail = unpack_many(reply.records, reply.details)
    asked = outside[state.question].record if question else tail[state.question - first] if documents else None
    bodies, bodies_seq = reply.bodies, reply.bodies_seq
    if state.sealed or sealer.active:
        bodies = open_bodies(sealer, tail[bodies_seq - first :], bodies)
    return Tail(
        state=state,
        first_seq=first,
        records=tail,
        bodies_seq=bodies_seq,
        bodies=bodies,
        documents=open_grounding(sealer, documents, asked) if asked and documents else None,
        outside=tuple(outside[seq] for seq in sorted(outside)),
    )


def page_of(sealer: AnySealer, name: str, reply: list[Any]) -> Page:
    """The page that ``read_page`` answered. Raises NotFound, CannotOpen, UnknownKey."""
    if not reply:
        raise NotFound("There is no such conversation.")
    (whose, version, created, edited), length, first, packed, details, bodies, grounding, metadata = reply
    check_identity(whose, name)
    records = unpack_many(packed, details)
    return Page(
        version=int(version),
        made=made_of(created, edited),
        length=length,
        messages=[
            Message(
                first + index,
                *message,
                packed[index * RECORD_BYTES : (index + 1) * RECORD_BYTES] + details[index],
            )
            for index, message in enumerate(open_messages(sealer, records, bodies))
        ],
        grounding={
            first + index: open_grounding(sealer, value, records[index])
            for index, value in enumerate(grounding)
            if value
        },
        metadata={
            first + index: sealer.open(Kind.METADATA, value, bound_to(records[index]))
            for index, value in enumerate(metadata)
            if value
        },
    )


def _split(sealer: AnySealer, seq: int, value: bytes) -> Message:
    """A message as ``pinned`` repeats it: the length of its details, record, details, body, which may be left out."""
    record = 4 + RECORD_BYTES
    end = record + int.from_bytes(value[:4], "big")
    return _message(sealer, seq, value[4:record], value[record:end], value[end:])


def _message(sealer: AnySealer, seq: int, packed: bytes, details: bytes, body: bytes) -> Message:
    records = unpack_many(packed, details)
    (opened,) = open_bodies(sealer, records, [body]) if body else [b""]
    return Message(seq=seq, identity=records.identity(0), record=records[0], body=opened)
