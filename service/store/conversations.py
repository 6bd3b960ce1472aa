"""Conversations in the store: create, append, read a tail, page, change, erase.

Each method is one script or one round trip; what it gives is still stored records, never a window.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.core.messages import orphan
from service.core.records import RECORD_BYTES, Identity, Record, Records, StoredGrounding, Summary
from service.problems import ConversationExists, EntryConflict, Internal, NotFound, Pointer, PreconditionFailed
from service.store.client import Client, Script
from service.store.datakeys import DataKeys
from service.store.layout import (
    conversation_name,
    decode_summary,
    keys_of,
    places,
    unpack_many,
)
from service.store.messages import bound_to, open_bodies, open_grounding, open_messages, seal_message
from service.store.sealing import AnySealer, Kind

SCRIPTS = tuple(Script.load(name) for name in ("append", "create", "change", "read_window", "read_page", "erase"))
_TOTALS = ("t0", "t1")


class HistoryEdited(Exception):  # noqa: N818 - it reads as what happened
    """Between two reads a history was rewound, redacted or erased, so that they do not belong together: read it anew."""


class NewEntry(msgspec.Struct, frozen=True):
    """An entry ready to be stored; everything that costs time was done before."""

    identity: Identity
    record: Record
    body: bytes
    grounding: bytes
    metadata: bytes
    makes: bytes
    answers: str
    always: bool
    tokens: tuple[int, int]
    tokens_parallel: tuple[int, int]
    grounding_tokens: tuple[int, int]
    as_before: bool = False
    """Whether it is to be found equal to an entry that was stored before a key was set."""


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
    edited: int = 0
    """The version at which history last changed other than by an append."""
    standing: bytes = b""
    """The settings as they are stored."""
    sealed: bool = False
    """Whether some of its messages are sealed."""
    rich: bool = False
    """Whether a message's cost is, or was, in its details."""


class Message(msgspec.Struct, frozen=True):
    """A stored message: its place, who it is, its record, its body as JSON; ``standing`` is record and details as stored,
    where a page was read."""

    seq: int
    identity: Identity
    record: Record
    body: bytes
    standing: bytes = b""


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
    """Messages of every window that lie before the tail, and the newest user message when it does; ascending."""


class Page(msgspec.Struct, frozen=True):
    """A stretch of history, ascending; grounding and metadata by seq."""

    version: int
    length: int
    messages: list[Message]
    grounding: Mapping[int, StoredGrounding]
    metadata: Mapping[int, bytes]


class Conversations:
    """All conversations of a deployment; a tenant is named in every call, and sees no other's."""

    def __init__(self, client: Client, *, retention_ms: int | None = None, data_keys: DataKeys | None = None) -> None:
        self._client = client
        self._retention_ms = retention_ms
        self.data_keys = data_keys or DataKeys(client)

    def ttl_ms(self, ttl_seconds: int | None) -> int | None:
        """How long a conversation is kept after its last change; None for ever."""
        return ttl_seconds * 1000 if ttl_seconds else self._retention_ms

    async def create(
        self, tenant: str, conversation: str, settings: bytes, *, ttl_ms: int | None, now_ms: int, token: str
    ) -> None:
        """Raises ConversationExists. ``token`` makes a repeated call of the same request succeed."""
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        ttl = ttl_ms or self._retention_ms
        sealed = (await self.data_keys.sealer(tenant, name)).seal(Kind.SETTINGS, settings)
        made = await self._client.call("create", keys[:1], name, sealed, now_ms, ttl or "", token)
        if not made:
            raise ConversationExists("A conversation with this id exists: append to it, or choose another id.")

    async def require_absent(self, tenant: str, conversation: str, *, token: str) -> None:
        """Raise ConversationExists early, before much is sent for nothing; ``token`` as in ``create``."""
        keys = keys_of(conversation_name(tenant, conversation))
        (found,) = await self._client.commands([("HMGET", keys.conversation, "id", "token")])
        if found[0] is not None and found[1] != token.encode():
            raise ConversationExists("A conversation with this id exists: choose another id.")

    async def append(
        self,
        tenant: str,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        settings: bytes,
        if_match: str,
        now_ms: int,
    ) -> AppendReply:
        """Store entries, all or none, each id once; create the conversation if it is not there.

        Raises:
            PreconditionFailed, EntryConflict, OrphanToolResult, StoreUnavailable, StoreFull.
        """
        name = conversation_name(tenant, conversation)
        reply = await self._append(tenant, name, entries, (settings, if_match, now_ms))
        return await self.data_keys.reading(tenant, name, lambda sealer: _appended(sealer, reply[0]))

    async def append_and_read(
        self,
        tenant: str,
        conversation: str,
        entries: Sequence[NewEntry],
        *,
        settings: bytes,
        if_match: str,
        now_ms: int,
        budget: int,
        column: int,
        most: int,
        bodies: int = 0,
    ) -> tuple[AppendReply, Tail]:
        """Append, and read the tail that a window needs, in one round trip."""
        name = conversation_name(tenant, conversation)
        read = _read_calls(name, "", budget, column, most, bodies)
        reply = await self._append(tenant, name, entries, (settings, if_match, now_ms), *read)

        def opened(sealer: AnySealer) -> tuple[AppendReply, Tail | None]:
            return _appended(sealer, reply[0]), _tail(sealer, name, *reply[1:])

        appended, tail = await self.data_keys.reading(tenant, name, opened)
        if tail is None:
            raise NotFound("There is no such conversation.")
        return appended, tail

    async def _append(
        self, tenant: str, name: str, entries: Sequence[NewEntry], rest: tuple[bytes, str, int], *reads: Any
    ) -> list[Any]:
        """Replies of the append and of what is read behind it; ``rest`` is settings, if_match and now_ms."""
        sealer = await self.data_keys.sealer(tenant, name)
        entries = list(entries)
        while True:
            replies = await self._client.calls((self._append_call(sealer, name, entries, *rest), *reads))
            match replies[0]:
                case [b"conflict", int(index)] if sealer.active and not entries[index].as_before:
                    # It may be the same entry, stored before a key was set: its digest there is the plain one.
                    if await self._stored_digest(name, entries[index].identity.id) != entries[index].identity.digest:
                        return replies
                    entries[index] = msgspec.structs.replace(entries[index], as_before=True)
                case _:
                    return replies

    async def _stored_digest(self, name: str, identity: str) -> bytes:
        keys = keys_of(name)
        (seq,) = await self._client.commands([("HGET", keys.ids, identity)])
        (details,) = await self._client.commands([("LINDEX", keys.details, int(seq or 0) - 1)])
        return unpack_many(bytes(RECORD_BYTES), details).identity(0).digest if seq and details else b""

    def _append_call(
        self,
        sealer: AnySealer,
        name: str,
        entries: Sequence[NewEntry],
        settings: bytes,
        if_match: str,
        now_ms: int,
    ) -> tuple[str, tuple[str, ...], list[Any]]:
        sealed = sealer.seal(Kind.SETTINGS, settings)
        arguments: list[Any] = [now_ms, if_match, name, self._retention_ms or "", sealed, len(entries)]
        for entry in entries:
            arguments += (
                entry.identity.id,
                *seal_message(
                    sealer,
                    entry.record,
                    entry.identity,
                    entry.body,
                    entry.grounding,
                    entry.metadata,
                    as_before=entry.as_before,
                ),
                entry.makes,
                entry.answers,
                "1" if entry.always else "",
                *entry.tokens,
                *entry.tokens_parallel,
                *entry.grounding_tokens,
            )
        return "append", keys_of(name).kept, arguments

    async def read_window(
        self,
        tenant: str,
        conversation: str,
        *,
        known_version: str,
        budget: int,
        column: int,
        most: int,
        bodies: int = 0,
    ) -> Tail | None:
        """The tail that a window of ``budget`` tokens likely needs; None when the caller has the version already.

        ``budget`` 0 asks for a modest tail, ``most`` 0 for no limit of messages; ``column`` is the encoding's place.
        ``bodies`` says how many bodies the window will likely hold; 0 for those of the whole tail. Raises NotFound.
        """
        name = conversation_name(tenant, conversation)
        calls = _read_calls(name, known_version, budget, column, most, 0 if known_version else bodies)
        replies = await self._client.calls(calls)
        return await self.data_keys.reading(tenant, name, lambda sealer: _tail(sealer, name, *replies))

    async def read_records(
        self, tenant: str, conversation: str, first_seq: int, last_seq: int, *, state: State
    ) -> Records:
        """Records of ``first_seq`` to ``last_seq``, both included, of the history that ``state`` is of.

        Raises HistoryEdited.
        """
        keys = keys_of(conversation_name(tenant, conversation))
        wanted: list[tuple[Any, ...]] = [("GETRANGE", keys.counts, *places(first_seq, last_seq))]
        if state.rich:
            wanted.append(("LRANGE", keys.details, first_seq - 1, last_seq - 1))
        *read, history = await self._client.commands([*wanted, ("HMGET", keys.conversation, "created", "edited")])
        _check_history(history, state)
        return unpack_many(*read)

    async def read_bodies(
        self, tenant: str, conversation: str, first_seq: int, records: Records, *, state: State
    ) -> list[bytes]:
        """Bodies of ``records``, which begin at ``first_seq``, of the history that ``state`` is of.

        Raises HistoryEdited.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        first = first_seq - 1
        bodies, history = await self._client.commands(
            [
                ("LRANGE", keys.log, first, first + len(records) - 1),
                ("HMGET", keys.conversation, "created", "edited"),
            ]
        )
        _check_history(history, state)

        def opened(sealer: AnySealer) -> list[bytes]:
            return open_bodies(sealer, records, bodies) if state.sealed or sealer.active else bodies

        return await self.data_keys.reading(tenant, name, opened)

    async def read_grounding(
        self, tenant: str, conversation: str, records: Mapping[int, Record], *, state: State
    ) -> dict[int, StoredGrounding]:
        """Documents of the messages that have any, of the history that ``state`` is of. Raises HistoryEdited."""
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        if not records:
            return {}
        found, history = await self._client.commands(
            [("HMGET", keys.grounding, *records), ("HMGET", keys.conversation, "created", "edited")]
        )
        _check_history(history, state)
        stored = {seq: value for seq, value in zip(records, found, strict=True) if value}

        def opened(sealer: AnySealer) -> dict[int, StoredGrounding]:
            return {seq: open_grounding(sealer, value, records[seq]) for seq, value in stored.items()}

        return await self.data_keys.reading(tenant, name, opened)

    async def get(self, tenant: str, conversation: str) -> State:
        """Raises NotFound."""
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        fields, length, ttl = await self._client.commands(
            [("HGETALL", keys.conversation), ("LLEN", keys.log), ("PEXPIRETIME", keys.conversation)]
        )
        if not fields:
            raise NotFound("There is no such conversation.")
        expires_ms = ttl if ttl > 0 else None
        return await self.data_keys.reading(
            tenant, name, lambda sealer: _state(sealer, name, fields, length, expires_ms=expires_ms)
        )

    async def change(
        self,
        tenant: str,
        conversation: str,
        *,
        settings: bytes,
        standing: bytes,
        ttl_ms: int | None,
        if_match: str,
        now_ms: int,
        token: str,
    ) -> int:
        """Put other settings in place of those ``standing``, as they are stored; gives the new version.

        ``token`` makes a repeated call of the same request succeed.

        Raises:
            NotFound, and PreconditionFailed when the settings or the version are others by now.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name).kept
        ttl = ttl_ms or self._retention_ms or ""
        sealed = (await self.data_keys.sealer(tenant, name)).seal(Kind.SETTINGS, settings)
        return replied_version(await self._client.call("change", keys, if_match, sealed, ttl, now_ms, standing, token))

    async def erase(self, tenant: str, conversation: str, *, if_match: str) -> None:
        """Forget a conversation wholly. Raises NotFound, PreconditionFailed."""
        keys = keys_of(conversation_name(tenant, conversation))
        replied_version(await self._client.call("erase", keys, if_match))

    async def page(self, tenant: str, conversation: str, first_seq: int, last_seq: int) -> Page:
        """Messages ``first_seq`` to ``last_seq`` with all that is kept about them; clipped to what exists.

        Negative figures count from the end, as in Redis: -1 is the newest. Raises NotFound.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        reply = await self._client.call("read_page", keys, first_seq, last_seq)
        if not reply:
            raise NotFound("There is no such conversation.")
        whose, version, length, first, packed, details, bodies, grounding, metadata = reply
        _check_identity(whose, name)
        records = unpack_many(packed, details)

        def opened(sealer: AnySealer) -> Page:
            return Page(
                version=int(version),
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

        return await self.data_keys.reading(tenant, name, opened)


def _read_calls(
    name: str, known_version: str, budget: int, column: int, most: int, bodies: int
) -> list[tuple[str, Sequence[str], Sequence[Any]]]:
    """One script; or the newest bodies beside it, and before both the version that they are of."""
    keys = keys_of(name)
    wanted = (keys.conversation, keys.log, keys.counts, keys.details, keys.grounding, keys.pinned)
    script = ("read_window", wanted, (known_version, budget, _TOTALS[column], most, "" if bodies else 1))
    if not bodies:
        return [script]
    version = ("HMGET", (keys.conversation,), ("created", "v"))
    return [version, ("LRANGE", (keys.log,), (-bodies, -1)), script]


def _check_identity(found: bytes, name: str) -> None:
    """Every read says whose it is. A reply in the wrong place must become an error, never somebody else's chat."""
    if found != name.encode():
        raise Internal("The store answered for another conversation; nothing of it is shown.")


def _check_history(found: Sequence[bytes | None], state: State) -> None:
    """Appends leave what was read before as it was; anything else does not."""
    if [int(field or 0) for field in found] != [state.created_ms, state.edited]:
        raise HistoryEdited


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


def _appended(sealer: AnySealer, reply: list[Any]) -> AppendReply:
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


def _state(sealer: AnySealer, name: str, flat: Sequence[bytes], length: int, *, expires_ms: int | None = None) -> State:
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    _check_identity(fields[b"id"], name)
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
        edited=int(fields.get(b"edited", 0)),
        standing=fields[b"s"],
        sealed=b"sealed" in fields,
        rich=b"rich" in fields,
    )


def _tail(sealer: AnySealer, name: str, *replies: Any) -> Tail | None:
    """The tail of what ``_read_calls`` asked. Bodies beside the script count if nothing came between them and it."""
    *beside, reply = replies
    if not reply:
        raise NotFound("There is no such conversation.")
    if len(reply) == 1:
        return None
    _, fields, length, first, records, details, bodies, documents, before, question = reply
    state = _state(sealer, name, fields, length)
    if beside:
        (created, version), newest = beside
        known = (created, version) == (b"%d" % state.created_ms, b"%d" % state.version)
        bodies = newest[-(length - first + 1) :] if known else []
    outside = {int(before[i]): _split(sealer, int(before[i]), before[i + 1]) for i in range(0, len(before), 2)}
    if question:
        outside[state.question] = _message(sealer, state.question, *question)
    tail = unpack_many(records, details)
    asked = outside[state.question].record if question else tail[state.question - first] if documents else None
    bodies_seq = length - len(bodies) + 1
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


def _split(sealer: AnySealer, seq: int, value: bytes) -> Message:
    """A message as ``pinned`` repeats it: the length of its details, record, details, body."""
    record = 4 + RECORD_BYTES
    end = record + int.from_bytes(value[:4], "big")
    return _message(sealer, seq, value[4:record], value[record:end], value[end:])


def _message(sealer: AnySealer, seq: int, packed: bytes, details: bytes, body: bytes) -> Message:
    records = unpack_many(packed, details)
    (opened,) = open_bodies(sealer, records, [body])
    return Message(seq=seq, identity=records.identity(0), record=records[0], body=opened)
