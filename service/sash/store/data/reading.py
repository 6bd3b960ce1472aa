"""Read conversations: older messages than a tail's, pages, and a conversation's state.

Each reply names the history that was read. Where several reads belong together, a reply with another name raises
HistoryEdited.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from sash.core.counts.models.families import TOOL
from sash.core.law.fixed_parts.conversation_settings import few_settings
from sash.core.law.records.records import Records
from sash.core.stored.details import decode_details
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding
from sash.problems import Conflict, edited_too_fast
from sash.store.data import read_scripts, script_calls
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import HISTORY, Target, check_identity, etag_of, id_field, places, unpack, unpack_many
from sash.store.data.read_scripts import PageReply
from sash.store.data.replies import (
    Made,
    Message,
    Page,
    Shut,
    State,
    WholeState,
    check_history,
    made_of,
    page_of,
)
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import AnySealer, is_sealed
from sash.store.data.stored_messages import SMALL_STEP_BYTES, STEP_BYTES, in_steps, open_bodies, open_grounding
from sash.store.data.tails import Tails, WholeReply, read_state, state_of
from sash.store.redis.client import Client

_ATTEMPTS = 8
_STEP_DOCUMENTS = 500
_LONG_PAGE_MESSAGES = 50
"""Messages of a page that is read in a turn of the processor: it takes half a millisecond or more."""
_CHUNK_MESSAGES = 200
"""A fork stages this many in one script, while all clients of the store wait."""
_STEP_MESSAGES = 2000
"""Records that one command reads: they take the store and the event loop some milliseconds."""
_DETAILED_STEP = 1000
"""The same of records with details."""


class Reader:
    """Reads all conversations of a deployment. Every call names a tenant, which sees only its own."""

    def __init__(self, client: Client, data_keys: DataKeys) -> None:
        self._client = client
        self._data_keys = data_keys
        self.tails = Tails(client, data_keys)

    async def records(self, target: Target, first_seq: int, last_seq: int, *, state: State) -> Records:
        """Return the records of ``first_seq`` to ``last_seq``, both included, of the history of ``state``.

        Raises HistoryEdited.
        """
        found = Records(b"")
        for last in range(last_seq, first_seq - 1, -_STEP_MESSAGES):
            first = max(first_seq, last - _STEP_MESSAGES + 1)
            wanted: list[tuple[Any, ...]] = [("GETRANGE", target.keys.counts, *places(first, last))]
            if state.rich:
                wanted.append(("LRANGE", target.keys.details, first - 1, last - 1))
            step = unpack_many(*await self._commands_on(target, state.made, *wanted))
            found = step.before(found) if len(found) else step
        return found

    async def bodies(self, target: Target, stretches: Iterable[tuple[int, Records]], *, state: State) -> list[bytes]:
        """Return the bodies of the messages in ``stretches``, in their order. A stretch is its first seq and its records.

        The bodies are of the history that ``state`` names. Large bodies take more than one round trip, so that their replies
        are not all in memory at once. Raises HistoryEdited.
        """
        bodies: list[bytes] = []
        for step in in_steps(stretches, SMALL_STEP_BYTES):
            ranges = [("LRANGE", target.keys.log, first - 1, first + len(records) - 2) for first, records in step]
            found = await self._commands_on(target, state.made, *ranges)

            def opened(sealer: AnySealer, step: Any = step, found: Any = found) -> list[bytes]:
                if not (state.sealed or sealer.active):
                    return found[0] if len(found) == 1 else [*chain.from_iterable(found)]
                pairs = zip(step, found, strict=True)
                return [body for (_, records), each in pairs for body in open_bodies(sealer, records, each)]

            bodies += await self._data_keys.reading(target.tenant, target.name, opened)
        return bodies

    async def grounding(
        self, target: Target, records: Mapping[int, Record], *, state: State
    ) -> dict[int, StoredGrounding]:
        """Return the documents of the messages in ``records`` by seq, of the history of ``state``. Each must have documents.

        Raises HistoryEdited, ConversationDamaged.
        """
        documents: dict[int, StoredGrounding] = {}
        seqs = list(records)
        for start in range(0, len(seqs), _STEP_DOCUMENTS):
            step = seqs[start : start + _STEP_DOCUMENTS]
            (found,) = await self._commands_on(target, state.made, ("HMGET", target.keys.grounding, *step))
            if None in found:
                raise script_calls.damaged("grounding")

            def opened(sealer: AnySealer, step: Any = step, found: Any = found) -> dict[int, StoredGrounding]:
                pairs = zip(step, found, strict=True)
                return {seq: open_grounding(sealer, value, records[seq]) for seq, value in pairs}

            documents |= await self._data_keys.reading(target.tenant, target.name, opened)
        return documents

    async def get(self, target: Target) -> WholeState:
        """Return the state of a conversation. Raises NotFound, ConversationDamaged."""
        reply = await self._client.run(read_state(target.keys))
        read = partial(whole_state_of, name=target.name, reply=reply)
        return await self._data_keys.reading(target.tenant, target.name, read)

    async def shut(self, target: Target) -> Shut:
        """Return what is left of a conversation whose data key, or one of whose keys in the store, is missing.

        Raises NotFound.
        """
        wanted = ("HMGET", target.keys.conversation, "id", "v", "life", "change", "owner", "s")
        rest = (
            "EXISTS",
            target.keys.log,
            target.keys.counts,
            target.keys.details,
            target.keys.ids,
            target.keys.grounding,
            target.keys.metadata,
            target.keys.pinned,
        )
        fields, left = await self._client.commands([wanted, rest])
        identity, version, life, change, owner, settings = fields
        if version is None:
            if not left:
                raise script_calls.no_conversation()
            return Shut(0, "0", "", None)
        check_identity(identity, target.name)
        whose = owner.decode() if owner else None if is_sealed(settings) else few_settings(settings).owner
        return Shut(int(version), etag_of(version, life, change), (life or b"").decode(), whose)

    async def page(
        self,
        target: Target,
        first_seq: int,
        last_seq: int,
        *,
        newest_first: bool = False,
        limit_bytes: int = STEP_BYTES,
    ) -> Page:
        """Return the messages ``first_seq`` to ``last_seq`` that exist, with all that is kept about them.

        A page has at most ``limit_bytes``, or one message, so a short page may not be the last one. It begins at
        ``first_seq``, or ends at ``last_seq`` with ``newest_first``. Negative numbers count from the end, as in Redis: -1 is
        the newest message. Raises NotFound, ConversationDamaged.
        """
        reply, bodies = await self.stored_page(
            target, first_seq, last_seq, newest_first=newest_first, limit_bytes=limit_bytes
        )
        read = partial(page_of, name=target.name, reply=reply, bodies=bodies)
        return await self._data_keys.reading(
            target.tenant, target.name, read, apart=len(reply.details) >= _LONG_PAGE_MESSAGES
        )

    async def stored_page(
        self,
        target: Target,
        first_seq: int,
        last_seq: int,
        *,
        newest_first: bool = False,
        limit_bytes: int = STEP_BYTES,
    ) -> tuple[PageReply, list[bytes]]:
        """Return the same page as it is stored, and its bodies. Raises NotFound, ConversationDamaged."""
        call = read_scripts.read_page(
            target.keys[:HISTORY],
            first_seq=first_seq,
            last_seq=last_seq,
            limit_bytes=limit_bytes,
            newest_first=newest_first,
        )
        for _ in range(_ATTEMPTS):
            reply = await self._client.run(call)
            with suppress(HistoryEdited):
                return reply, await self._page_bodies(target, reply) if reply.bodies is None else reply.bodies
        raise edited_too_fast()

    async def entry(self, target: Target, name: int | str) -> Page:
        """Return the page of one entry, which its seq or ``id:`` and its own id names; without messages if there is none.

        Raises NotFound, ConversationDamaged.
        """
        seq = await self._claimed_seq(target, name)
        page = await self.page(target, seq, seq)
        is_named = isinstance(name, int) or [f"id:{each.identity.id}" for each in page.messages] == [name]
        return page if is_named else msgspec.structs.replace(page, messages=[])

    async def seq_of(self, target: Target, name: int | str) -> int | None:
        """Return the seq of the entry that is named as in ``entry``; a number is its own. None if no entry has the id."""
        seq = await self._claimed_seq(target, name)
        if isinstance(name, int):
            return seq
        (details,) = await self._client.commands([("LINDEX", target.keys.details, seq - 1)]) if seq else (None,)
        known = details is not None and f"id:{decode_details(details).identity.id}" == name
        return seq if known else None

    async def _claimed_seq(self, target: Target, name: int | str) -> int:
        """Return the seq that an id had at last, 0 for none; after a rewind, no message or another one may be there."""
        if isinstance(name, int):
            return name
        (seq,) = await self._client.commands([("HGET", target.keys.ids, id_field(name.removeprefix("id:")))])
        return int(seq or 0)

    async def callers(self, target: Target, results: Sequence[Message], *, made: Made) -> dict[int, Record]:
        """Return the records of the messages whose calls these results answer, by the results' seqs, with their details.

        Raises HistoryEdited.
        """
        linked = [each for each in results if each.record.measure.role == TOOL]
        wanted = [("HGET", target.keys.ids, f"\0{each.record.links}") for each in linked]
        makers = await self._commands_on(target, made, *wanted) if wanted else []
        seqs = {each.seq: each.seq - 1 for each in results if each.record.measure.role != TOOL and each.seq > 1}
        for each, value in zip(linked, makers, strict=True):
            seqs[each.seq] = maker_before(each.seq, value)
        calls = sorted(set(seqs.values()) - {0})
        found = await self._commands_on(
            target,
            made,
            *[("GETRANGE", target.keys.counts, *places(seq, seq)) for seq in calls],
            *[("LINDEX", target.keys.details, seq - 1) for seq in calls],
        )
        records = {
            seq: unpack(*pair)[0]
            for seq, pair in zip(calls, zip(found[: len(calls)], found[len(calls) :], strict=True), strict=True)
        }
        # A result of the older form answers the message right before it, if that is a call of this form.
        by_link = {each.seq for each in linked}
        return {
            seq: records[call]
            for seq, call in seqs.items()
            if call in records and (seq in by_link or (records[call].makes_calls and not records[call].calls))
        }

    async def was_done(self, target: Target, token: str) -> bool:
        """Return whether a request was done before; its conditions then no longer matter."""
        (found,) = await self._client.commands([("HEXISTS", target.keys.done, token)])
        return bool(found)

    async def life_of(self, target: Target, token: str) -> str | None:
        """Return the life of the conversation in which a request was done before; None where it was not."""
        done, life = await self._client.commands(
            [("HEXISTS", target.keys.done, token), ("HGET", target.keys.conversation, "life")]
        )
        return life.decode() if done and life else None

    async def chunks(self, target: Target, last_seq: int, state: State) -> AsyncIterator[Page]:
        """Yield messages 1 to ``last_seq`` in order, in pages that fit in memory. ``state`` names the history.

        Raises Conflict when the conversation is rewound, redacted or replaced meanwhile, and NotFound when it is erased.
        """
        next_seq = 1
        while next_seq <= last_seq:
            last = min(next_seq + _CHUNK_MESSAGES - 1, last_seq)
            page = await self.page(target, next_seq, last, limit_bytes=SMALL_STEP_BYTES)
            if page.made != state.made:
                raise changed()
            yield page
            next_seq = page.messages[-1].seq + 1

    async def _page_bodies(self, target: Target, reply: PageReply) -> list[bytes]:
        """Return the bodies that the reply of ``read_page`` does not have. Raises HistoryEdited."""
        first, count = reply.first_seq, len(reply.details)
        wanted = ("LRANGE", target.keys.log, first - 1, first - 2 + count)
        (bodies,) = await self._commands_on(target, made_of(reply.life, reply.edited), wanted)
        return list(bodies)

    async def stretch(self, target: Target, first_seq: int, last_seq: int, *, state: State) -> Records:
        """Return the records of ``first_seq`` to ``last_seq``, with details. Raises HistoryEdited."""
        return (await self.stretches(target, [(first_seq, last_seq)], state=state))[0]

    async def steps(
        self, target: Target, first_seq: int, last_seq: int, *, state: State
    ) -> AsyncIterator[tuple[int, Records]]:
        """Yield the first seq and the records of each thousand messages of a stretch. Raises HistoryEdited."""
        for first in range(first_seq, last_seq + 1, _DETAILED_STEP):
            yield first, await self.stretch(target, first, min(first + _DETAILED_STEP - 1, last_seq), state=state)

    async def stretches(self, target: Target, wanted: Sequence[tuple[int, int]], *, state: State) -> list[Records]:
        """Return the records of each (first seq, last seq) in ``wanted``, with details. Raises HistoryEdited."""
        found = await self._commands_on(
            target,
            state.made,
            *[("GETRANGE", target.keys.counts, *places(first, last)) for first, last in wanted],
            *[("LRANGE", target.keys.details, first - 1, last - 1) for first, last in wanted],
        )
        return [unpack_many(*pair) for pair in zip(found[: len(wanted)], found[len(wanted) :], strict=True)]

    async def _commands_on(self, target: Target, made: Made, *wanted: tuple[Any, ...]) -> list[Any]:
        """Return the replies to plain commands about the history that ``made`` names. Raises HistoryEdited."""
        *found, history = await self._client.commands([*wanted, ("HMGET", target.keys.conversation, "life", "edited")])
        check_history(history, made)
        return found


def whole_state_of(sealer: AnySealer, name: str, reply: WholeReply) -> WholeState:
    """Return the whole state in a reply. Raises CannotOpen, UnknownKey."""
    return WholeState(
        *msgspec.structs.astuple(state_of(sealer, name, reply.state)),
        created_ms=int(reply.created or 0),
        updated_ms=int(reply.updated or 0),
        expires_ms=reply.expires_ms if reply.expires_ms > 0 else None,
        standing=reply.state.settings or b"",
    )


def maker_before(seq: int, makers: bytes | None) -> int:
    """Return the newest of the messages that made a call, which a field of ``ids`` names, before a result; 0 for none."""
    return max((maker for maker in map(int, (makers or b"").split()) if maker < seq), default=0)


def changed() -> Conflict:
    """Return the problem that the history was edited while it was read."""
    detail = "The conversation was rewound, redacted or summarised meanwhile; try again."
    return Conflict(detail, headers={"Retry-After": "1"})
