"""Conversations as they are read: the tail of a window, older messages, pages, and what a conversation is.

What takes more than one question is asked of one history: each answer says of which, and another is HistoryEdited.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from service.core.records import RECORD_BYTES, Record, Records, StoredGrounding
from service.problems import NotFound, StoreUnavailable
from service.store.client import Client
from service.store.datakeys import DataKeys
from service.store.layout import Keys, conversation_name, keys_of, places, unpack_many
from service.store.messages import STEP_BYTES, in_steps, open_bodies, open_grounding
from service.store.recent import Held, Recent
from service.store.replies import (
    HistoryEdited,
    Page,
    Reply,
    Shut,
    State,
    Tail,
    check_history,
    check_identity,
    joined,
    made_of,
    page_of,
    state_of,
    tail_of,
)
from service.store.sealing import AnySealer

_TOTALS = ("t0", "t1")
_PAGE_BODIES = 5
"""Their place in what ``read_page`` answers."""
_ATTEMPTS = 8


class Reading:
    """All conversations of a deployment, to be read; a tenant is named in every call, and sees no other's."""

    def __init__(self, client: Client, *, data_keys: DataKeys | None = None, recent_bytes: int = 0) -> None:
        self._client = client
        self._recent = Recent(recent_bytes)
        self.data_keys = data_keys or DataKeys(client)

    @property
    def recent_bytes(self) -> int:
        """Memory held for conversations in use."""
        return self._recent.size_bytes

    async def read_window(
        self,
        tenant: str,
        conversation: str,
        *,
        known_version: str,
        budget: int,
        column: int,
        most: int,
    ) -> Tail | None:
        """The tail that a window of ``budget`` tokens likely needs; None when the caller has the version already.

        ``budget`` 0 asks for a modest tail, ``most`` 0 for no limit of messages; ``column`` is the encoding's place. Raises
        NotFound.
        """
        name, asked = conversation_name(tenant, conversation), (budget, column, most)
        had = self._recent.find(name, asked)
        (found,) = await self._client.calls((read_call(name, known_version, asked, had),))
        tail = await self._tail(tenant, name, asked, had, found)
        return None if tail is None or known_version == str(tail.state.version) else tail

    async def _tail(
        self, tenant: str, name: str, asked: tuple[int, int, int], had: Held | None, found: list[Any]
    ) -> Tail | None:
        """The tail that the store answered, with what was held before it; None when the caller's version stands.

        It is held in turn once it has been found to be this conversation's: with what was read out of it, and will be
        made of it, unless somebody's key is needed for that.
        """
        if not found:
            self._recent.forget(name)
            raise NotFound("There is no such conversation.")
        if len(found) > 1:
            reply = joined(had.reply if had is not None else None, Reply(*found))
        elif had is None:
            return None
        elif had.tail is not None:
            self._recent.use(name, had)
            return had.tail
        else:
            reply = had.reply

        def opened(sealer: AnySealer) -> tuple[Tail, bool]:
            tail = tail_of(sealer, name, reply)
            return tail, sealer.active or tail.state.sealed

        tail, shut = await self.data_keys.reading(tenant, name, opened)
        self._recent.keep(name, asked, reply, None if shut else tail)
        return tail

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
        return unpack_many(*await self._commands_on(keys, state.made, *wanted))

    async def read_bodies(
        self, tenant: str, conversation: str, stretches: Iterable[tuple[int, Records]], *, state: State
    ) -> list[bytes]:
        """Bodies of ``stretches``, each with its first seq, of the history that ``state`` is of.

        One round trip, or more where they are large: all are in memory in the end, but not the replies of them too. Raises
        HistoryEdited.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        bodies: list[bytes] = []
        for step in in_steps(stretches):
            ranges = [("LRANGE", keys.log, first - 1, first + len(records) - 2) for first, records in step]
            found = await self._commands_on(keys, state.made, *ranges)
            if len(step) == 1:
                self._recent.extend(name, state, step[0][0], found[0])

            def opened(sealer: AnySealer, step: Any = step, found: Any = found) -> list[bytes]:
                if not (state.sealed or sealer.active):
                    return [body for each in found for body in each]
                pairs = zip(step, found, strict=True)
                return [body for (_, records), each in pairs for body in open_bodies(sealer, records, each)]

            bodies += await self.data_keys.reading(tenant, name, opened)
        return bodies

    async def read_grounding(
        self, tenant: str, conversation: str, records: Mapping[int, Record], *, state: State
    ) -> dict[int, StoredGrounding]:
        """Documents of the messages that have any, of the history that ``state`` is of. Raises HistoryEdited."""
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        if not records:
            return {}
        (found,) = await self._commands_on(keys, state.made, ("HMGET", keys.grounding, *records))
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
            tenant, name, lambda sealer: state_of(sealer, name, fields, length, expires_ms=expires_ms)
        )

    async def shut(self, tenant: str, conversation: str) -> Shut:
        """What needs no key. Raises NotFound."""
        name = conversation_name(tenant, conversation)
        (found,) = await self._client.commands([("HMGET", keys_of(name).conversation, "id", "v", "owner")])
        if found[0] is None:
            raise NotFound("There is no such conversation.")
        check_identity(found[0], name)
        return Shut(int(found[1]), found[2].decode() if found[2] else None)

    async def page(
        self,
        tenant: str,
        conversation: str,
        first_seq: int,
        last_seq: int,
        *,
        newest_first: bool = False,
        most_bytes: int = STEP_BYTES,
    ) -> Page:
        """Messages ``first_seq`` to ``last_seq`` with all that is kept about them; clipped to what exists.

        And to ``most_bytes``, though to one message at least: so a page that is short is not yet the end. It begins at
        ``first_seq``, or with ``newest_first`` ends at ``last_seq``. Negative figures count from the end, as in Redis: -1
        is the newest. Raises NotFound.
        """
        name = conversation_name(tenant, conversation)
        keys = keys_of(name)
        asked = (first_seq, last_seq, most_bytes, "1" if newest_first else "")
        for _ in range(_ATTEMPTS):
            reply = await self._client.call("read_page", keys, *asked)
            if reply and reply[_PAGE_BODIES] is None:
                try:
                    reply[_PAGE_BODIES] = await self._page_bodies(keys, reply)
                except HistoryEdited:
                    continue
            return await self.data_keys.reading(tenant, name, partial(page_of, name=name, reply=reply))
        raise StoreUnavailable("The history is edited faster than it can be read; try again.")

    async def _page_bodies(self, keys: Keys, reply: list[Any]) -> Any:
        """Bodies that ``read_page`` left to be asked for. Raises HistoryEdited."""
        (_, _, created, edited), _, first, packed, *_ = reply
        wanted = ("LRANGE", keys.log, first - 1, first - 2 + len(packed) // RECORD_BYTES)
        (bodies,) = await self._commands_on(keys, made_of(created, edited), wanted)
        return bodies

    async def _commands_on(self, keys: Keys, made: tuple[int, int], *wanted: tuple[Any, ...]) -> list[Any]:
        """Replies to plain commands, of the history that ``made`` tells from others. Raises HistoryEdited."""
        *found, history = await self._client.commands([*wanted, ("HMGET", keys.conversation, "created", "edited")])
        check_history(history, made)
        return found


def read_call(
    name: str, known_version: str, asked: tuple[int, int, int], had: Held | None
) -> tuple[str, Sequence[str], Sequence[Any]]:
    """What ``read_window`` is called with: ``asked`` is the budget in tokens, the encoding's place and the most messages."""
    keys, (budget, column, most) = keys_of(name), asked
    wanted = (keys.conversation, keys.log, keys.counts, keys.details, keys.grounding, keys.pinned)
    if had is None:
        return "read_window", wanted, (known_version, budget, _TOTALS[column], most, "", "", 0, 0, "")
    reply = had.reply
    held = (reply.mark, reply.updated, reply.first, reply.length, reply.last)
    return "read_window", wanted, (reply.version, budget, _TOTALS[column], most, *held)
