"""Create, append to, change and erase conversations. Each method is one script, in one round trip."""

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict, Unpack

import msgspec

from sash.core.stored.details import decode_details
from sash.problems import (
    Conflict,
    ConversationExists,
    EntryConflict,
    PreconditionFailed,
    Problem,
    ReplyGone,
    StoreFull,
    StoreUnavailable,
    Unprocessable,
)
from sash.store.data import append_script, write_scripts
from sash.store.data.append_script import AppendReply, Forgotten, SettingsChange
from sash.store.data.branches import Branches
from sash.store.data.datakeys import DataKeys
from sash.store.data.entries import NewEntry
from sash.store.data.layout import Target, id_field
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_contents import MediaContents
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.media_texts import as_string
from sash.store.data.object_storage import ObjectStorage
from sash.store.data.reading import Reader
from sash.store.data.replies import visible_owner
from sash.store.data.script_calls import HistoryEdited, MediaMoved
from sash.store.data.sealing import PLAIN, PLAIN_JSON, AnySealer, Kind, Purpose
from sash.store.data.tails import Reach
from sash.store.data.write_scripts import Written
from sash.store.redis.client import Client


class Writing(TypedDict):
    """The arguments of an append beside its entries: the settings of a conversation that it begins, If-Match, the time, the
    life in which the same request was done before, the name of a request that is done but once, and the rewind before it.

    Of an agreement also: its entries' ids must be new; settings that change, and those that windows had; the digests of what
    the newest messages say, and how many messages stand before these.
    """

    settings: bytes
    if_match: str
    now_ms: int
    repeats: NotRequired[str | None]
    token: NotRequired[str | None]
    after: NotRequired[Forgotten | None]
    fresh: NotRequired[bool]
    changed: NotRequired[tuple[bytes, bytes]]
    said: NotRequired[Sequence[bytes]]
    behind: NotRequired[int | None]


class Conversations:
    """All conversations of a deployment. Every call names a tenant, which sees only its own."""

    def __init__(
        self,
        client: Client,
        *,
        retention_ms: int | None = None,
        data_keys: DataKeys | None = None,
        objects: ObjectStorage | None = None,
    ) -> None:
        storage = MarkedStorage(client, objects) if objects is not None else None
        self._client = client
        self._retention_ms = retention_ms
        self.data_keys = data_keys or DataKeys(client)
        self.reader = Reader(client, self.data_keys)
        self._has_objects = storage is not None
        self.erasures = MediaErasures(client, storage)
        self.media = MediaContents(client, self.data_keys, storage, self.erasures)
        self.branches = Branches(client, self.data_keys)

    def ttl_ms(self, ttl_seconds: int | None) -> int | None:
        """Return how long a conversation is kept after its last change, in milliseconds; None for ever."""
        return ttl_seconds * 1000 if ttl_seconds else self._retention_ms

    async def create(self, target: Target, settings: bytes, *, ttl_ms: int | None, now_ms: int, token: str) -> str:
        """Create a conversation without messages; gives its entity tag.

        ``token`` makes a repeated call of one request succeed. Raises ConversationExists, ConversationDamaged.
        """
        sealer = await self.data_keys.sealer(target.tenant, target.name)
        return await self._client.run(
            write_scripts.create(
                target.keys,
                name=target.name,
                settings=sealer.seal(Kind.SETTINGS, settings),
                now_ms=now_ms,
                ttl_ms=ttl_ms or self._retention_ms,
                token=token,
                owner=visible_owner(sealer, settings),
            )
        )

    async def require_absent(self, target: Target, *, token: str) -> bool:
        """Return whether this same request made the conversation before; ``token`` is as in ``create``.

        Raises ConversationExists where another request made it, before a large body is sent.
        """
        (found,) = await self._client.commands([("HMGET", target.keys.conversation, "id", "token")])
        if found[0] is not None and found[1] != token.encode():
            raise ConversationExists("A conversation with this id exists: choose another id.")
        return found[0] is not None

    async def append(
        self, target: Target, entries: Sequence[NewEntry], reach: Reach | None = None, **writing: Unpack[Writing]
    ) -> AppendReply:
        """Store entries, all or none, each id once; create the conversation if it is not there.

        With ``reach``, the reply has the tail that a window likely needs, for ``Tails.opened``.

        Raises:
            PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, StoreUnavailable, StoreFull.
        """
        sealer = PLAIN if self.data_keys.plain else await self.data_keys.sealer(target.tenant, target.name)
        given = list(entries)
        entries = given if not self._has_objects else await self.media.placed(target, sealer, given, target.keys.media)
        if sealer.active:
            writing = {**writing, "settings": sealer.seal(Kind.SETTINGS, writing["settings"])}
        arguments: Any = _sealed_agreement(sealer, writing) if "fresh" in writing else writing
        while True:
            call = append_script.append(
                target.keys,
                name=target.name,
                sealer=sealer,
                entries=entries,
                ttl_ms=self._retention_ms,
                reach=reach,
                **arguments,
            )
            try:
                appended = await self._client.run(call)
            except MediaMoved:
                await self.erasures.note(target)  # so that what was written is swept, if this process ends here
                await self.media.discard(target, sealer, entries)
                entries = await self.media.placed(target, sealer, given, target.keys.media, again=True)
            except (Conflict, HistoryEdited, PreconditionFailed, ReplyGone, Unprocessable) as refused:
                if sealer.active and isinstance(refused, EntryConflict | ReplyGone):
                    index = _refused_entry(refused)
                    if await self._stands_plain(target, entries[index]):
                        given, entries = (_as_before(each, index) for each in (given, entries))
                        continue
                await self.media.discard(target, sealer, entries)
                if isinstance(refused, ReplyGone):
                    await self._tell_branch(target, entries, refused)
                raise
            else:
                if self._has_objects:
                    await self._erase_unused(target, sealer, entries, appended)
                return appended if appended.settings[:1] == PLAIN_JSON else await self._opened(target, appended)

    async def _tell_branch(self, target: Target, entries: Sequence[NewEntry], gone: ReplyGone) -> None:
        """Tell in which branch a reply is that a write would continue, if it is in one."""
        with contextlib.suppress(Problem):
            identity = entries[_refused_entry(gone)].identity.id
            found = (await self.branches.all(target)).branch_with(identity)
            if found is not None:
                gone.members = {**gone.members, "branch": found.id}

    async def _erase_unused(
        self, target: Target, sealer: AnySealer, entries: Sequence[NewEntry], appended: AppendReply
    ) -> None:
        """Erase the objects that no message has after an append: of forgotten messages, and of duplicates."""
        held, twice = set[str](), set[str]()
        for entry, step in zip(entries, appended.entries, strict=True):
            if entry.contents:
                (twice if step.duplicate else held).update(self.media.written(target, sealer, [entry]))
        unused = [each.removeprefix(f"{target.name}/") for each in twice - held]
        if unused or appended.freed:
            with contextlib.suppress(StoreUnavailable, StoreFull):  # the append is stored; what stays is swept
                await self.erasures.erase(target, [*appended.freed, *unused])

    async def _opened(self, target: Target, reply: AppendReply) -> AppendReply:
        """The reply with its settings opened; with none where they cannot be opened, because the turn is stored already."""
        settings = b"{}"
        with contextlib.suppress(Problem):
            settings = await self.data_keys.reading(
                target.tenant, target.name, lambda it: it.open(Kind.SETTINGS, reply.settings)
            )
        return msgspec.structs.replace(reply, settings=settings)

    async def _stands_plain(self, target: Target, entry: NewEntry) -> bool:
        """Whether this entry was stored before encryption had a key: its stored digest is then the plain one."""
        if entry.as_before:
            return False
        (seq,) = await self._client.commands([("HGET", target.keys.ids, id_field(entry.identity.id))])
        (details,) = await self._client.commands([("LINDEX", target.keys.details, int(seq or 0) - 1)])
        return bool(seq and details) and decode_details(details).digest == entry.identity.digest

    async def change(
        self,
        target: Target,
        *,
        settings: bytes,
        standing: bytes,
        life: str,
        ttl_ms: int | None,
        if_match: str,
        now_ms: int,
        token: str,
        forget: Sequence[str] = (),
        kept: bytes = b"",
    ) -> Written:
        """Replace the stored settings ``standing`` by ``settings``, if the conversation's life is still ``life``.

        ``token`` makes a repeated call of one request succeed. ``forget`` names the parts of the index that recall no longer
        needs: ``words``, ``vectors``. ``kept`` are the settings that windows had, if these change.

        Raises:
            NotFound, and PreconditionFailed when the settings or the version have changed.
        """
        sealer = await self.data_keys.sealer(target.tenant, target.name)
        return await self._client.run(
            write_scripts.change(
                target.keys,
                life=life,
                if_match=if_match,
                settings=sealer.seal(Kind.SETTINGS, settings),
                standing=standing,
                ttl_ms=ttl_ms or self._retention_ms,
                now_ms=now_ms,
                token=token,
                owner=visible_owner(sealer, settings),
                forget_words="words" in forget,
                forget_vectors="vectors" in forget,
                kept=sealer.seal(Kind.SETTINGS, kept),
            )
        )

    async def erase(self, target: Target, *, life: str = "", if_match: str = "") -> None:
        """Erase all of a conversation: of one ``life``, or of any. Raises NotFound, PreconditionFailed."""
        await self.erasures.after(target, write_scripts.erase(target.keys, life=life, if_match=if_match))


def _refused_entry(refused: EntryConflict | ReplyGone) -> int:
    """The index of the entry that an append refused."""
    return int(refused.errors[0].pointer.split("/")[2])


def _as_before(entries: Sequence[NewEntry], index: int) -> list[NewEntry]:
    """The entries, of which this one may be stored under its plain digest."""
    found = list(entries)
    found[index] = msgspec.structs.replace(found[index], as_before=True)
    return found


def _sealed_agreement(sealer: AnySealer, writing: Writing) -> dict[str, Any]:
    """Return an agreement's arguments as the append script takes them."""
    arguments: dict[str, Any] = {**writing}
    if "changed" in writing:
        sealed = (as_string(sealer.seal(Kind.SETTINGS, each)) for each in writing["changed"])
        arguments["changed"] = SettingsChange(*sealed)
    if "said" in writing:
        arguments["said"] = as_string(b"".join(_sealed_digests(sealer, writing["said"])))
    return arguments


def _sealed_digests(sealer: AnySealer, digests: Sequence[bytes]) -> Iterable[bytes]:
    """The digests as they are stored, which without a master key is as they are."""
    return map(partial(sealer.digest, Purpose.CONTENT), digests) if sealer.active else digests
