"""What changes a history that is there: redact, rewind, put a summary. Each is one script, done once for each token.

What a script needs to know beyond a few bytes of each record is worked out here from what was read, and the script
does nothing unless that still stands; then it is read again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from service.core.counting import measure, reference_tokens
from service.core.messages import Calls, calls_of
from service.core.notes import summary_message
from service.core.records import Flags, Record, Records, Summary
from service.core.redaction import NO_DIGEST, redact_record
from service.core.units import DEVELOPER, TOOL
from service.problems import Conflict, NotFound, Pointer, PreconditionFailed, Unprocessable
from service.store.client import Client, Script
from service.store.conversations import Conversations
from service.store.layout import (
    Keys,
    conversation_name,
    encode_json,
    keys_of,
    places,
    unpack_many,
)
from service.store.messages import in_steps, open_bodies, seal_message
from service.store.replies import State, replied_version
from service.store.sealing import AnySealer, Kind

SCRIPTS = tuple(Script.load(name) for name in ("redact", "rewind", "free_ids", "summarize", "lease"))

_ATTEMPTS = 8
_CHUNK = 2000
_MOST_NAMED = 20_000  # ids held in memory; more are looked for in the store
_LONGEST_GROUP = 129  # an assistant message and its results: 128 calls at most


class Histories:
    """Changes of what conversations hold; ``token`` names the request, so that asking again changes nothing more."""

    def __init__(self, client: Client, conversations: Conversations) -> None:
        self._client = client
        self._conversations = conversations
        self._data_keys = conversations.data_keys

    async def redact(self, tenant: str, conversation: str, seq: int, *, if_match: str, now_ms: int, token: str) -> int:
        """Take a message's content away; gives the version. Raises NotFound, PreconditionFailed."""
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        for _ in range(_ATTEMPTS):
            page, done = await asyncio.gather(
                self._conversations.page(tenant, conversation, seq, seq), self._was_done(keys, token)
            )
            if done:
                return page.version
            if not page.messages:
                raise NotFound("There is no such message.")
            message = page.messages[0]
            if message.record.flags & Flags.REDACTED:
                require_version(page.version, if_match)
                return page.version
            record, body = redact_record(message.record, message.body)
            identity = msgspec.structs.replace(message.identity, digest=NO_DIGEST)
            redacted = seal_message(await self._data_keys.sealer(tenant, name), record, identity, body)
            before, after = _tokens(message.record), _tokens(record)
            documents = message.record.grounding
            reply = await self._client.call(
                "redact",
                keys,
                if_match,
                token,
                now_ms,
                seq,
                message.standing,
                redacted.record,
                redacted.details,
                redacted.body,
                before[0] - after[0],
                before[1] - after[1],
                0 if documents is None else 1,
                *(documents or (0, 0)),
            )
            if reply[:1] != [b"changed"]:
                return replied_version(reply)
        raise _busy()

    async def rewind(
        self,
        tenant: str,
        conversation: str,
        to_seq: int,
        *,
        if_match: str,
        now_ms: int,
        token: str,
        progress: Callable[[], None] = lambda: None,
    ) -> int:
        """Forget what came after ``to_seq``; gives the version. Raises NotFound, PreconditionFailed, Unprocessable.

        The conversation is as it was right after that message: in the middle of a tool group, its calls wait again for
        the results that are gone. ``progress`` is called after every few thousand messages.
        """
        keys = keys_of(conversation_name(tenant, conversation))
        for _ in range(_ATTEMPTS):
            state, done = await asyncio.gather(
                self._conversations.get(tenant, conversation), self._was_done(keys, token)
            )
            if done:
                return state.version
            require_version(state.version, if_match)
            if to_seq > state.length:
                detail = f"The last message is {state.length}"
                raise Unprocessable(f"{detail}.", errors=[Pointer("#/to_seq", detail)])
            gone = _Gone(names_ids=state.length - to_seq <= _MOST_NAMED)
            async for first, records in self._records(keys, to_seq + 1, state.length):
                gone.add(first, records)
                progress()
            open_group, unpinned = await self._boundary(tenant, conversation_name(tenant, conversation), to_seq)
            arguments = (str(state.version), token, now_ms, to_seq, *gone.totals, open_group, *unpinned)
            reply = await self._client.call("rewind", keys, *arguments)
            if reply[:1] == [b"moved"]:
                continue
            version = replied_version(reply)
            async for ids in self._left_behind(keys, gone, to_seq):
                await self._client.call("free_ids", (keys.log, keys.ids), *ids)
                progress()
            return version
        raise _busy()

    async def _was_done(self, keys: Keys, token: str) -> bool:
        """Whether a request has done its work before: then no condition that it came with matters any more."""
        (found,) = await self._client.commands([("HEXISTS", keys.done, token)])
        return bool(found)

    async def _records(self, keys: Keys, first: int, last: int) -> AsyncIterator[tuple[int, Records]]:
        for start in range(first, last + 1, _CHUNK):
            end = min(start + _CHUNK - 1, last)
            yield start, await self._read(keys, start, end)

    async def _read(self, keys: Keys, first: int, last: int) -> Records:
        packed, details = await self._client.commands(
            [("GETRANGE", keys.counts, *places(first, last)), ("LRANGE", keys.details, first - 1, last - 1)]
        )
        return unpack_many(packed, details)

    async def _left_behind(self, keys: Keys, gone: "_Gone", to_seq: int) -> AsyncIterator[list[str | int]]:
        """Ids and seqs that a rewind forgot, in pieces: as they were read, or looked for when they are very many."""
        for start in range(0, len(gone.ids), _CHUNK):
            yield gone.ids[start : start + _CHUNK]
        cursor = b"0" if not gone.names_ids else None
        while cursor is not None:
            ((cursor, flat),) = await self._client.commands([("HSCAN", keys.ids, cursor, "COUNT", _CHUNK)])
            pairs = [(flat[i].decode(), int(flat[i + 1])) for i in range(0, len(flat), 2)]
            yield [word for identity, seq in pairs if seq > to_seq for word in (identity, seq)]
            cursor = None if cursor == b"0" else cursor

    async def _boundary(self, tenant: str, name: str, to_seq: int) -> tuple[bytes, list[int]]:
        """The tool group that message ``to_seq`` leaves open, and those of it that nobody pinned."""
        if to_seq == 0:
            return b"", []
        keys = keys_of(name)
        first = max(1, to_seq - _LONGEST_GROUP + 1)
        records = await self._read(keys, first, to_seq)
        start = len(records) - 1
        while start > 0 and records[start].measure.role == TOOL:
            start -= 1
        if start < 0 or not records[start].calls:
            return b"", [to_seq] if _only_pinned_by_its_result(records[-1]) else []
        pending = _pending([calls async for calls in self._calls(tenant, name, first + start, records[start:])])
        group = {"s": first + start, "x": int(records[start].calls > 1), "p": pending}
        pinned = any(record.pinned for record in records[start:])
        return encode_json(group) if pending else b"", [] if pinned else list(range(first + start, to_seq + 1))

    async def _calls(self, tenant: str, name: str, first: int, records: Records) -> AsyncIterator[Calls]:
        """What each message of a tool group calls and answers. A group may have hundreds of megabytes."""
        for step in in_steps([(first, records)]):
            for start, each in step:
                words = ("LRANGE", keys_of(name).log, start - 1, start + len(each) - 2)
                (found,) = await self._client.commands([words])

                def opened(sealer: AnySealer, each: Records = each, found: Any = found) -> list[bytes]:
                    return open_bodies(sealer, each, found)

                for body in await self._data_keys.reading(tenant, name, opened):
                    yield calls_of(msgspec.json.decode(body))

    async def put_summary(
        self,
        tenant: str,
        conversation: str,
        summary: Summary | None,
        *,
        if_match: str,
        now_ms: int,
        token: str,
        standing: State | None = None,
    ) -> int:
        """Put, replace or take away the summary; gives the version.

        With ``standing`` only if since then nothing was redacted, rewound or summarised.

        Raises:
            NotFound, PreconditionFailed, and Unprocessable when it covers more than there is.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        edited, through = "", ""
        if standing is not None:
            edited, through = str(standing.edited), str(standing.summary.through_seq if standing.summary else 0)
        sealer = await self._data_keys.sealer(tenant, name)
        stored = sealer.seal(Kind.SUMMARY, encode_json(summary)) if summary else b""
        covers = summary.through_seq if summary else 0
        reply = await self._client.call("summarize", keys, if_match, token, now_ms, stored, covers, edited, through)
        if reply[:1] == [b"short"]:
            detail = f"The last message is {int(reply[1])}"
            raise Unprocessable(f"{detail}.", errors=[Pointer("#/through_seq", detail)])
        return replied_version(reply)

    async def lease_summary(self, tenant: str, conversation: str, holder: str, *, now_ms: int, until_ms: int) -> bool:
        """Take the right to summarise until then, or give it back with 0; whether it is, or was, the holder's."""
        keys = keys_of(conversation_name(tenant, conversation))
        return bool(await self._client.call("lease", keys[:1], holder, now_ms, until_ms))


class _Gone:
    """What a rewind forgets, summed."""

    def __init__(self, *, names_ids: bool) -> None:
        self.names_ids = names_ids
        self.totals = [0, 0, 0, 0, 0]
        self.ids: list[str | int] = []

    def add(self, first: int, records: Records) -> None:
        for index, record in enumerate(records):
            seq = first + index
            tokens = _tokens(record)
            added = (*tokens, 0, 0, 0) if record.grounding is None else (*tokens, 1, *record.grounding)
            self.totals = [total + one for total, one in zip(self.totals, added, strict=True)]
            if self.names_ids:
                self.ids += (records.identity(index).id, seq)


def make_summary(text: str, through_seq: int) -> Summary:
    """A summary, measured as the message that carries it."""
    return Summary(text=text, through_seq=through_seq, measure=measure(summary_message(text)))


def belongs_everywhere(record: Record) -> bool:
    """Whether a message is in every window by itself: pinned, system or developer."""
    return record.pinned or record.measure.role <= DEVELOPER


def _only_pinned_by_its_result(record: Record) -> bool:
    """Whether a legacy call is in every window, if it is, for a result that goes now."""
    return bool(record.flags & Flags.LEGACY_CALL) and not record.pinned


def require_version(version: int, if_match: str) -> None:
    """Raise PreconditionFailed when a version is not the one that must stand."""
    if if_match not in ("", "*", str(version)):
        raise PreconditionFailed(
            f"The conversation is at version {version} now: read it again and decide anew.",
            members={"version": version},
        )


def _tokens(record: Record) -> tuple[int, int]:
    return reference_tokens(record.measure, parallel=record.parallel)


def _pending(group: Sequence[Calls]) -> list[str]:
    """Ids of the first message's calls that the others do not answer."""
    answered = {calls.answers for calls in group[1:]}
    return [call for call in group[0].opens if call not in answered]


def _busy() -> Conflict:
    return Conflict("The conversation changes faster than this can be done; try again.", headers={"Retry-After": "1"})
