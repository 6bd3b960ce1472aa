"""Conversations in the store: create, append, change, erase, and read as ``reading.py`` has it.

Each method is one script or one round trip; what it gives is still stored records, never a window.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from service.core.records import RECORD_BYTES
from service.problems import ConversationExists, Internal
from service.store.client import Client, Script
from service.store.datakeys import DataKeys
from service.store.forecast import Likely, likely_after
from service.store.layout import conversation_name, keys_of, unpack_many
from service.store.messages import NewEntry, seal_message
from service.store.reading import Reading, read_call
from service.store.recent import Held
from service.store.replies import AppendReply, Tail, appended_of, replied_version, visible_owner
from service.store.sealing import AnySealer, Kind

SCRIPTS = tuple(Script.load(name) for name in ("append", "create", "change", "read_window", "read_page", "erase"))
Ahead = Callable[[Tail], Awaitable[None]]


async def _nothing(_: Tail) -> None:
    """What is made of a tail that is likely to come, where nothing is."""


class Conversations(Reading):
    """All conversations of a deployment; a tenant is named in every call, and sees no other's."""

    def __init__(
        self,
        client: Client,
        *,
        retention_ms: int | None = None,
        data_keys: DataKeys | None = None,
        recent_bytes: int = 0,
    ) -> None:
        super().__init__(client, data_keys=data_keys, recent_bytes=recent_bytes)
        self._retention_ms = retention_ms

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
        sealer = await self.data_keys.sealer(tenant, name)
        sealed, owner = sealer.seal(Kind.SETTINGS, settings), visible_owner(sealer, settings)
        made = await self._client.call(
            "create", (keys.conversation, keys.answers, keys.done), name, sealed, now_ms, ttl or "", token, owner
        )
        if not made:
            raise ConversationExists("A conversation with this id exists: append to it, or choose another id.")

    async def require_absent(self, tenant: str, conversation: str, *, token: str) -> bool:
        """Whether it is there already because this very request made it; ``token`` as in ``create``.

        Raises ConversationExists early, before much is sent for nothing.
        """
        keys = keys_of(conversation_name(tenant, conversation))
        (found,) = await self._client.commands([("HMGET", keys.conversation, "id", "token")])
        if found[0] is not None and found[1] != token.encode():
            raise ConversationExists("A conversation with this id exists: choose another id.")
        return found[0] is not None

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
        return await self.data_keys.reading(tenant, name, lambda sealer: appended_of(sealer, reply[0]))

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
        ahead: Ahead = _nothing,
    ) -> tuple[AppendReply, Tail]:
        """Append, and read the tail that a window needs, in one round trip.

        ``ahead`` is given the tail that will likely be read, to make of it what can be made while the store writes.
        """
        name, asked = conversation_name(tenant, conversation), (budget, column, most)
        had = self._recent.find(name, asked)
        read = read_call(name, "", asked, had)
        foretelling = asyncio.ensure_future(_foretold(had, name, asked, entries, now_ms, ahead))
        try:
            replies = await self._append(tenant, name, entries, (settings, if_match, now_ms), read)
            appended = await self.data_keys.reading(tenant, name, lambda sealer: appended_of(sealer, replies[0]))
            foretold = await foretelling
        finally:
            foretelling.cancel()
        if foretold is not None and foretold.answer == tuple(replies[1]):
            self._recent.keep(name, asked, foretold.reply, foretold.tail)
            return appended, foretold.tail
        tail = await self._tail(tenant, name, asked, had, replies[1])
        if tail is None:
            raise Internal("The store answered as if we had asked for a version.")
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
        return "append", keys_of(name), arguments

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
        keys = keys_of(name)
        ttl = ttl_ms or self._retention_ms or ""
        sealer = await self.data_keys.sealer(tenant, name)
        sealed, owner = sealer.seal(Kind.SETTINGS, settings), visible_owner(sealer, settings)
        arguments = (if_match, sealed, ttl, now_ms, standing, token, owner)
        return replied_version(await self._client.call("change", keys, *arguments))

    async def erase(self, tenant: str, conversation: str, *, if_match: str) -> None:
        """Forget a conversation wholly. Raises NotFound, PreconditionFailed."""
        name = conversation_name(tenant, conversation)
        replied_version(await self._client.call("erase", keys_of(name), if_match))
        self._recent.forget(name)


async def _foretold(
    had: Held | None,
    name: str,
    asked: tuple[int, int, int],
    entries: Sequence[NewEntry],
    now_ms: int,
    ahead: Ahead,
) -> Likely | None:
    """What will likely be read behind an append, once ``ahead`` has made of it what it can."""
    await asyncio.sleep(0)  # the append leaves first
    likely = likely_after(had, name, asked, entries, now_ms)
    if likely is not None:
        await ahead(likely.tail)
    return likely
