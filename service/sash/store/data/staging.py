"""Build a whole conversation under temporary keys, and give it its name at the end: for a fork or an import.

::

    entries ── Staging.add ──▶ sash:{…}:staged-<random>:log …        ── publish ──▶ sash:{…}:log …
               (appends)       not readable, expire in ten minutes   (one script: renames)

All keys share the conversation's slot, and the append script stages the entries. A request that dies leaves only keys that
expire. Two requests that build the same name do not disturb each other; the second to publish gets ConversationExists.

The objects of a staged conversation's media have its random name for their place. So whoever looks for objects without a
message finds those that will have one (``media_erasures.py``), however long a fork or an import takes.
"""

from collections.abc import Sequence

import msgspec

from sash.core.stored.stored_summary import Summary
from sash.problems import ConversationExists, EntryConflict, OrphanToolResult, PreconditionFailed, StoreUnavailable
from sash.store.data import append_script, write_scripts
from sash.store.data.agents import packed_agents
from sash.store.data.branches import Head, packed_content
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry, seal_message
from sash.store.data.layout import Target, encode_json, new_place, staged_keys
from sash.store.data.media_texts import kept_media
from sash.store.data.replies import visible_owner
from sash.store.data.script_calls import MediaMoved
from sash.store.data.sealing import Kind
from sash.store.redis.client import Client

_KEEP_MS = 600_000
_UNPUBLISHED = 1  # done: a new conversation has none


class StagedTwice(Exception):  # noqa: N818 - it reads as what happened
    """Two messages have one id; ``index`` is the place of the second among the call's entries."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class OrphanEntry(Exception):  # noqa: N818
    """A tool result without an open call; ``index`` is its place among the call's entries."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


class Staging:
    """A conversation under construction; ``token`` makes a repeated publication of one request succeed."""

    def __init__(self, client: Client, target: Target, *, token: str, conversations: Conversations) -> None:
        self._client = client
        self._data_keys = conversations.data_keys
        self._media = conversations.media
        self._target = target
        self._place = new_place()
        self._staged = staged_keys(target.name, self._place)
        self._token = token
        self.length = 0
        """Messages added so far."""
        self._objects: set[str] = set()
        """Paths of the objects that were written for it; empty once it may have its name."""
        self._may_see: list[tuple[int, frozenset[str] | None]] = [(0, None)]
        """The agents that may see all messages up to the next one in the list, each with the seq of the message before."""
        self._agents: dict[str, None] = {}
        """All authors and audiences, those of branches included."""

    async def add(self, entries: Sequence[NewEntry]) -> None:
        """Put messages at the end. Raises StagedTwice, OrphanEntry, TooManyPinned, StoreUnavailable, StoreFull."""
        if not entries:
            return
        sealer = await self._data_keys.sealer(self._target.tenant, self._target.name)
        entries = await self._media.placed(self._target, sealer, entries, self._staged.media, place=self._place)
        self._objects |= self._media.written(self._target, sealer, entries)
        asked = append_script.AppendRest(before=self.length, ttl=_KEEP_MS)
        call = append_script.append(self._staged, self._target.name, sealer, entries, b"", "", 0, asked)
        try:
            reply = await self._client.run(call)
        except (PreconditionFailed, MediaMoved):
            raise _lost() from None
        except (EntryConflict, OrphanToolResult) as problem:
            index = int(problem.errors[0].pointer.split("/")[2])
            raise (StagedTwice if isinstance(problem, EntryConflict) else OrphanEntry)(index) from None
        for index, entry in enumerate(reply.entries):
            if entry.duplicate:
                raise StagedTwice(index)
        for seq, new in enumerate(entries, self.length + 1):
            names = new.record.party.narrowed(self._may_see[-1][1])
            if names != self._may_see[-1][1]:
                self._may_see.append((seq, names))
            self._agents.update(dict.fromkeys(new.record.party.names))
        self.length += len(entries)

    async def add_to_branch(self, head: Head, entries: Sequence[NewEntry]) -> int:
        """Put messages at the end of a branch, which begins with the first of them; gives the bytes of all branches.

        Raises StoreUnavailable, StoreFull.
        """
        sealer = await self._data_keys.sealer(self._target.tenant, self._target.name)
        entries = await self._media.placed(self._target, sealer, entries, self._staged.media, place=self._place)
        self._objects |= self._media.written(self._target, sealer, entries)
        stored = [
            seal_message(sealer, each.record, each.identity, each.body, each.grounding, each.metadata)
            for each in entries
        ]
        media = [kept_media(sealer, each.record.media, each.contents, each.lost) for each in entries]
        self._agents.update(dict.fromkeys(name for each in entries for name in each.record.party.names))
        call = write_scripts.stage_branch(
            self._staged,
            number=head.number,
            parent=head.parent,
            after_seq=head.after_seq,
            sealed_ms=int(head.sealed_ms),
            messages=len(entries),
            content=packed_content(stored),
            media=msgspec.msgpack.encode(media),
            keep_ms=_KEEP_MS,
        )
        try:
            return await self._client.run(call)
        except MediaMoved:
            raise _lost() from None

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
        sealer = await self._data_keys.sealer(self._target.tenant, self._target.name)
        fields: list[str | bytes | int] = [
            "id",
            self._target.name,
            "s",
            sealer.seal(Kind.SETTINGS, settings),
            "created",
            created_ms,
        ]
        owner = visible_owner(sealer, settings)
        if self._agents:
            fields += ("agents", packed_agents(self._agents))
        if owner:
            fields += ("owner", owner)
        if summary is not None:
            through = summary.through_seq
            summary = summary.for_those(next(names for seq, names in reversed(self._may_see) if seq <= through))
            fields += ("summary", sealer.seal(Kind.SUMMARY, encode_json(summary)), "through", summary.through_seq)
        call = write_scripts.publish(
            (*self._target.keys, *self._staged[:-_UNPUBLISHED]),
            token=self._token,
            messages=self.length,
            ttl_ms=ttl_ms,
            version=version,
            now_ms=updated_ms,
            fields=fields,
        )
        objects, self._objects = self._objects, set()
        try:
            published = await self._client.run(call)
        except ConversationExists:  # another one's, so nothing has these objects
            self._objects = objects
            raise
        if published is None:
            self._objects = objects
            raise _lost()

    async def abandon(self) -> None:
        """Drop the staged keys now, before they expire, and the objects that were written for them."""
        await self._media.remove(self._objects)
        await self._client.commands([("UNLINK", *self._staged)])


def _lost() -> StoreUnavailable:
    return StoreUnavailable("What was built has expired before it was whole; try again.")
