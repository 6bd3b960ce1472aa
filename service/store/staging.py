"""Build a whole conversation beside its name, and give it the name at the end: a fork, an import.

::

    rows ── Staging.add ──▶ sash:{tenant/conversation}:staged-<random>:log … ── publish ──▶ sash:{tenant/conversation}:log …
            (in chunks)     seen by nobody, gone in ten minutes                 (one script: renames)

All keys share the conversation's slot. A request that dies leaves nothing but keys that expire; two that build the same
name do not meet, and the second to end finds that it exists.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from service.core.counting import reference_tokens
from service.core.messages import calls_of
from service.core.records import Flags, Identity, Record, Summary
from service.core.units import DEVELOPER, FUNCTION, TOOL, USER
from service.problems import ConversationExists, StoreUnavailable
from service.store.client import Client, Script
from service.store.datakeys import DataKeys
from service.store.layout import PARTS, conversation_name, encode_json, keys_of
from service.store.messages import Stored, seal_message
from service.store.replies import visible_owner
from service.store.sealing import AnySealer, Kind

SCRIPTS = tuple(Script.load(name) for name in ("stage", "publish"))
_KEEP_MS = 600_000


class Row(msgspec.Struct, frozen=True):
    """One message with all that is kept about it, as stored; grounding and metadata empty where there is none."""

    identity: Identity
    record: Record
    body: bytes
    grounding: bytes = b""
    metadata: bytes = b""


class StagedTwice(Exception):  # noqa: N818 - it reads as what happened
    """Two messages have one id; ``index`` is the second one's place among those of the call."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class OrphanRow(Exception):  # noqa: N818
    """A tool result that no open call waits for; ``index`` is its place among those of the call."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class _Tally:
    """What the conversation's hash says of its messages, kept up as appends keep it up."""

    def __init__(self) -> None:
        self.length = 0
        self.tokens = [0, 0]
        self.documents = [0, 0, 0]
        self.user = 0
        self.rich = False
        self.group: list[tuple[int, Row]] = []
        self.pending: list[str] = []
        self._group_always = False
        self._after_legacy_call = False

    def add(self, row: Row) -> tuple[Row, list[tuple[int, Row]]]:
        """The row as it is stored, and the rows that are in every window since it came. Raises ValueError: orphan."""
        self.length += 1
        role = row.record.measure.role
        if role == TOOL:
            answers = calls_of(msgspec.json.decode(row.body)).answers
            if answers not in self.pending:
                raise ValueError(answers)
            self.pending.remove(answers)
            row = self._result(row)
            self.group.append((self.length, row))
        elif role == FUNCTION and self._after_legacy_call:
            self.group.append((self.length, row))
        else:
            self.pending = list(calls_of(msgspec.json.decode(row.body)).opens) if row.record.calls else []
            self.group, self._group_always = [(self.length, row)], False
        self._after_legacy_call = bool(row.record.flags & Flags.LEGACY_CALL)
        self._count(row.record)
        if self._group_always:
            return row, [(self.length, row)]
        self._group_always = row.record.pinned or role <= DEVELOPER
        return row, list(self.group) if self._group_always else []

    def _result(self, row: Row) -> Row:
        """The row with the flag that says whether its call was one of several."""
        flags = row.record.flags & ~Flags.PARALLEL
        if self.group[0][1].record.calls > 1:
            flags |= Flags.PARALLEL
        return msgspec.structs.replace(row, record=msgspec.structs.replace(row.record, flags=flags))

    def _count(self, record: Record) -> None:
        self.rich = self.rich or record.rich
        tokens = reference_tokens(record.measure, parallel=record.parallel)
        self.tokens = [total + one for total, one in zip(self.tokens, tokens, strict=True)]
        if record.grounding is not None:
            added = (1, *record.grounding)
            self.documents = [total + one for total, one in zip(self.documents, added, strict=True)]
        if record.measure.role == USER:
            self.user = self.length

    def open_group(self) -> bytes:
        """The tool group that waits for results, as appends store it."""
        if not self.pending:
            return b""
        start, call = self.group[0]
        group: bytes = encode_json({"s": start, "x": int(call.record.calls > 1), "p": self.pending})
        return group


class Staging:
    """One conversation that is being built; ``token`` makes a repeated publication of one request succeed."""

    def __init__(
        self, client: Client, tenant: str, conversation: str, *, token: str, data_keys: DataKeys | None = None
    ) -> None:
        self._client = client
        self._tenant = tenant
        self._data_keys = data_keys or DataKeys(client)
        self._name = conversation_name(tenant, conversation)
        self._keys = keys_of(self._name)
        prefix = self._keys.log.removesuffix("log") + f"staged-{secrets.token_hex(8)}:"
        self._staged = [prefix + part for part in PARTS[1:-2]]
        self._token = token
        self._tally = _Tally()

    @property
    def length(self) -> int:
        """Messages added so far."""
        return self._tally.length

    async def add(self, rows: Sequence[Row]) -> None:
        """Put messages at the end. Raises StagedTwice, OrphanRow, StoreUnavailable, StoreFull."""
        before = self._tally.length
        sealer = await self._data_keys.sealer(self._tenant, self._name)
        arguments: list[Any] = [before, _KEEP_MS, len(rows)]
        pinned: list[Any] = []
        for index, given in enumerate(rows):
            try:
                row, pins = self._tally.add(given)
            except ValueError:
                raise OrphanRow(index) from None
            arguments += (row.identity.id, *_sealed(sealer, row))
            for seq, each in pins:
                pinned += (seq, *_sealed(sealer, each)[:3])
        match await self._client.call("stage", self._staged, *arguments, *pinned):
            case [b"twice", index]:
                raise StagedTwice(index)
            case [b"lost"]:
                raise _lost()

    async def publish(
        self,
        *,
        settings: bytes,
        version: int,
        created_ms: int,
        updated_ms: int,
        ttl_ms: int | None,
        summary: Summary | None,
    ) -> None:
        """Give the conversation its name. Raises ConversationExists, StoreUnavailable, StoreFull."""
        tally = self._tally
        sealer = await self._data_keys.sealer(self._tenant, self._name)
        fields: list[Any] = [
            "id",
            self._name,
            "s",
            sealer.seal(Kind.SETTINGS, settings),
            "v",
            version,
            "created",
            created_ms,
        ]
        fields += ("updated", updated_ms, "t0", tally.tokens[0], "t1", tally.tokens[1], "user", tally.user)
        fields += ("gn", tally.documents[0], "g0", tally.documents[1], "g1", tally.documents[2])
        fields += ("open", tally.open_group())
        owner = visible_owner(sealer, settings)
        if owner:
            fields += ("owner", owner)
        if tally.rich:
            fields += ("rich", 1)
        if sealer.active:
            fields += ("sealed", 1)
        if summary is not None:
            fields += ("summary", sealer.seal(Kind.SUMMARY, encode_json(summary)), "through", summary.through_seq)
        keys = (*self._keys.kept, *self._staged, self._keys.answers, self._keys.done)
        match await self._client.call("publish", keys, self._token, tally.length, ttl_ms or "", *fields):
            case [b"exists"]:
                raise ConversationExists("A conversation with this id exists: choose another id.")
            case [b"lost"]:
                raise _lost()

    async def abandon(self) -> None:
        """Drop what was staged, now rather than when it expires."""
        await self._client.commands([("UNLINK", *self._staged)])


def _sealed(sealer: AnySealer, row: Row) -> Stored:
    return seal_message(sealer, row.record, row.identity, row.body, row.grounding, row.metadata)


def _lost() -> StoreUnavailable:
    return StoreUnavailable("What was built has expired before it was whole; try again.")
