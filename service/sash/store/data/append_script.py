"""Append entries: the script's arguments, what its reply says, and what is done when it refuses."""

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any, Final, NotRequired, TypedDict, Unpack

import msgspec

from sash.core.chat.audiences import EVERYBODY
from sash.core.stored.details import decode_details
from sash.core.stored.record import Flags
from sash.problems import (
    Conflict,
    EntryConflict,
    PreconditionFailed,
    Problem,
    ReplyGone,
    StoreFull,
    StoreUnavailable,
    Unprocessable,
)
from sash.store.data.append_refusals import refuse, refused_entry
from sash.store.data.branches import NOTHING_SEALED, Branches, SealedTail, Took, sealed_tail
from sash.store.data.datakeys import DataKeys
from sash.store.data.entries import NewEntry, seal_message
from sash.store.data.layout import PARTS, Keys, Target, id_field, new_name
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_contents import MediaContents
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.media_texts import KeptMedium, as_string, kept_media
from sash.store.data.script_calls import HistoryEdited, MediaMoved
from sash.store.data.sealing import PLAIN, PLAIN_JSON, AnySealer, Kind, Purpose
from sash.store.data.tails import Reach, TailReply
from sash.store.data.write_scripts import MOST_PINNED
from sash.store.redis.client import Client
from sash.store.redis.lua import SCRIPTS, ScriptCall

_encode = msgspec.msgpack.Encoder().encode


class Appended(msgspec.Struct, frozen=True):
    """An entry's seq, whether it was stored before, and its tokens in both encodings.

    A result costs other tokens as one of several, so these are told when the script has found the entry's place.
    """

    seq: int
    duplicate: bool
    tokens: tuple[int, int]


class AppendReply(msgspec.Struct, frozen=True):
    """The result of an append; ``settings`` are as stored, ``edited`` is the last write that was not an append.

    ``waiting`` are the ids of the newest group's calls without a result; of a call in the form before tool calls, which has
    no id, the function's name. ``tail`` is the tail that was asked for with the append; None where it could not be read.
    """

    version: int
    etag: str
    settings: bytes
    edited: bytes
    waiting: list[str]
    entries: list[Appended]
    tail: TailReply | None = None
    freed: tuple[str, ...] = ()
    """Objects in object storage that no message has any more."""
    sealed: SealedTail = NOTHING_SEALED


class _EntryRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Members of an entry that few entries have. Tokens are pairs (o200k_base, cl100k_base)."""

    makes: Sequence[str] | None = None
    answers: str | None = None
    links: str = ""
    parallel: tuple[int, int] | None = None
    always: bool = False
    documents: tuple[int, int] | None = None
    progress: bool = False
    unsent: bool = False
    """Whether it is left out of windows."""
    continues: bool = False
    """Whether it may only replace an entry in progress."""
    compaction: str | None = None
    """The form of the compaction that it is, which stands for all messages before it."""
    media: Sequence[KeptMedium] = ()
    agents: Sequence[str] = ()
    """Its author and its audience."""


_NO_REST = _encode(_EntryRest())
_APPEND_AND_READ = SCRIPTS["append"]._replace(name="append+read_window")
"""The append script, under the name that metrics and traces have for an append with its window."""


class Forgotten(msgspec.Struct, frozen=True):
    """A rewind of the state ``etag`` to ``seq``. The totals become ``less``: tokens in both encodings, messages with
    documents, tokens of documents in both.

    Then ``open`` waits for results, JSON or ''; ``question`` is the newest user message, and ``unpinned`` are seqs that are
    no longer in every window.
    """

    seq: int
    etag: str
    less: Sequence[int]
    open: str
    question: int
    unpinned: Sequence[int]
    media: str = ""
    """Names in hex, each with the number of forgotten messages that have it."""
    seal: str = ""
    """Whether the messages become a branch: ``always``, or ``hung``, where another one hangs in them; else they go."""
    took: Sequence[Took] = ()
    """The branches whose messages are appended."""


class SettingsChange(msgspec.Struct, frozen=True):
    """Settings that an agreement changes in the same step: the new ones, and what earlier windows need of the old."""

    settings: msgspec.Raw
    kept: msgspec.Raw


NOTHING_STOOD: Final = Forgotten(0, "0", (0,) * 5, "", 0, ())
"""The rewind of a conversation that does not exist: the entity tag is that of a missing one."""


class _AppendRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments that few appends have."""

    before: int | None = None
    ttl: int | None = None
    repeats: str | None = None
    token: str | None = None
    after: Forgotten | None = None
    reach: Reach | None = None
    fresh: bool = False
    set: SettingsChange | None = None
    said: msgspec.Raw | None = None
    behind: int | None = None


def append(
    keys: Keys,
    *,
    name: str,
    settings: bytes,
    sealer: AnySealer,
    entries: Sequence[NewEntry],
    if_match: str,
    now_ms: int,
    ttl_ms: int | None,
    before: int | None = None,
    repeats: str | None = None,
    token: str | None = None,
    after: Forgotten | None = None,
    reach: Reach | None = None,
    fresh: bool = False,
    changed: SettingsChange | None = None,
    said: msgspec.Raw | None = None,
    behind: int | None = None,
) -> ScriptCall[AppendReply]:
    """Append entries, all or none, each id once; create the conversation if it is not there.

    ``before`` is the number of messages that must be there already. ``repeats`` is the life in which the same request was
    done before: then only the places of its entries are asked for. ``token`` names a request that is done but once, so that
    its next run can find out whether it was. With ``reach`` the reply has the tail that a window
    likely needs, as ``read_window`` gives it. ``after`` is what is forgotten before, in the same step. ``fresh``: no entry
    may have an id that is stored. ``changed`` are settings that change in the same step. ``said`` are the digests that the
    newest messages must have, joined, and ``behind`` is the number of messages before these.

    The call raises PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, ConversationDamaged,
    MediaMoved, for a repeat Conflict and NotFound, and HistoryEdited where ``after`` was made for another state, or other
    words than ``said`` are there.
    """
    asked = _AppendRest(before, ttl_ms, repeats, token, after, reach, fresh, changed, said, behind)
    arguments = [name, settings, now_ms, if_match, new_name(), MOST_PINNED, _encode(asked)]
    columns = zip(*map(_entry_arguments, repeat(sealer), entries), strict=True)
    arguments.extend(chain.from_iterable(columns))
    script = SCRIPTS["append"] if reach is None else _APPEND_AND_READ
    return ScriptCall(script, keys.first(len(PARTS)), arguments, partial(_read_append, entries))


def _entry_arguments(sealer: AnySealer, entry: NewEntry) -> tuple[bytes | int, ...]:
    """An entry's value in each of the script's columns: its id, the tokens that it adds to the totals, its stored values."""
    record, calls = entry.record, entry.calls
    stored = seal_message(
        sealer, record, entry.identity, entry.body, entry.grounding, entry.metadata, as_before=entry.as_before
    )
    rest = _encode(
        _EntryRest(
            makes=calls.opens or None,
            answers=calls.answers or None,
            links=record.links if calls.opens or calls.answers else "",
            parallel=entry.tokens_parallel if calls.answers else None,
            always=record.is_always,
            documents=record.grounding if entry.grounding else None,
            progress=bool(record.flags & Flags.IN_PROGRESS),
            unsent=bool(record.flags & Flags.LEFT_OUT),
            continues=entry.continues,
            compaction=entry.compaction,
            media=kept_media(sealer, record.media, entry.contents, entry.lost) if record.media else (),
            agents=record.party.names if record.party is not EVERYBODY else (),
        )
    )
    return id_field(entry.identity.id), *entry.tokens, *stored, rest if rest != _NO_REST else b""


class _Open(msgspec.Struct):
    """The tool group that waits for results, as the append script keeps it: ``p`` are its calls' ids."""

    p: list[str]


_read_open = msgspec.json.Decoder(_Open).decode


def _read_append(entries: Sequence[NewEntry], reply: list[Any]) -> AppendReply:
    if reply[:1] != [b"ok"]:
        refuse(reply)
    _, version, etag, settings, edited, group, steps, sealed, freed, tail = reply
    appended: list[Appended] = []
    for entry, seq, is_known, is_parallel in zip(entries, steps[::3], steps[1::3], steps[2::3], strict=True):
        appended.append(Appended(seq, bool(is_known), entry.tokens_parallel if is_parallel else entry.tokens))
    waiting = _read_open(group).p if group else []
    if entries and entries[-1].calls.legacy and not appended[-1].duplicate:
        waiting = waiting or [entries[-1].calls.function]
    return AppendReply(
        version=int(version),
        etag=etag.decode(),
        settings=settings,
        edited=edited,
        waiting=waiting,
        entries=appended,
        tail=TailReply(*tail[1:]) if tail else None,
        freed=tuple(map(bytes.decode, freed)) if freed else (),
        sealed=sealed_tail(sealed) if sealed else NOTHING_SEALED,
    )


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


class Appends:
    """Appends to all conversations of a deployment. Every call names a tenant, which sees only its own."""

    def __init__(
        self, client: Client, data_keys: DataKeys, storage: MarkedStorage | None, *, retention_ms: int | None
    ) -> None:
        self._client = client
        self._retention_ms = retention_ms
        self._has_objects = storage is not None
        self.data_keys = data_keys
        self.erasures = MediaErasures(client, storage)
        self.media = MediaContents(client, data_keys, storage, self.erasures)
        self.branches = Branches(client, data_keys)

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
            call = append(
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
                    index = refused_entry(refused)
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
            identity = entries[refused_entry(gone)].identity.id
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
