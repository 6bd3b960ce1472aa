"""Append entries: the script's arguments, what its reply says, and what is done when it refuses."""

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NotRequired, TypedDict

import msgspec

from sash.core.chat.audiences import EVERYBODY
from sash.core.counts.models.families import DEVELOPER
from sash.core.stored.details import decode_details
from sash.core.stored.record import Flags, Record
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
from sash.store.data.media_texts import as_string, kept_media
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


class AppendRest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Arguments that few appends have.

    ``before`` is the number of messages that must be there already, ``ttl`` the milliseconds that a new conversation lasts.
    ``repeats`` is the life in which the same request was done before: then only the places of its entries are asked for.
    ``token`` names a request that is done but once, so that its next run can find out whether it was. ``after`` is what is
    forgotten before, in the same step. With ``reach`` the reply has the tail that a window likely needs, as ``read_window``
    gives it. ``fresh``: no entry may have an id that is stored. ``set`` are settings that change in the same step. ``said``
    are the digests that the newest messages must have, joined, and ``behind`` is the number of messages before these.
    """

    before: int | None = None
    ttl: int | None = None
    repeats: str | None = None
    token: str | None = None
    after: Forgotten | None = None
    reach: msgspec.Raw | None = None
    fresh: bool = False
    set: SettingsChange | None = None
    said: msgspec.Raw | None = None
    behind: int | None = None


def append(
    keys: Keys,
    name: str,
    sealer: AnySealer,
    entries: Sequence[NewEntry],
    settings: bytes,
    if_match: str,
    now_ms: int,
    asked: AppendRest,
) -> ScriptCall[AppendReply]:
    """Append entries, all or none, each id once; create the conversation, with these settings, if it is not there.

    The call raises PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, ConversationDamaged,
    MediaMoved, for a repeat Conflict and NotFound, and HistoryEdited where ``asked.after`` was made for another state, or
    other words than ``asked.said`` are there.
    """
    arguments = [name, settings, now_ms, if_match, new_name(), MOST_PINNED, _encode(asked)]
    for column in zip(*map(_entry_arguments, repeat(sealer), entries), strict=True):
        arguments += column
    script = SCRIPTS["append"] if asked.reach is None else _APPEND_AND_READ
    return ScriptCall(script, keys.first(len(PARTS)), arguments, partial(_read_append, entries))


def _entry_arguments(sealer: AnySealer, entry: NewEntry) -> tuple[bytes | int, ...]:
    """An entry's value in each of the script's columns: its id, the tokens that it adds to the totals, its stored values.

    The last value is a map of what few entries have, or empty. ``append.lua`` lists the names in it.
    """
    record, identity, calls = entry.record, entry.identity, entry.calls
    stored = seal_message(
        sealer, record, identity, entry.body, entry.grounding, entry.metadata, as_before=entry.as_before
    )
    rest: dict[str, Any] = {}
    if calls.opens:
        rest = {"makes": calls.opens, "links": record.links}
    elif calls.answers:
        rest = {"answers": calls.answers, "links": record.links, "parallel": entry.tokens_parallel}
    if record.flags or record.measure.role <= DEVELOPER:
        rest |= _told_by_flags(entry, record)
    if entry.continues:
        rest["continues"] = True
    if record.media:
        rest["media"] = kept_media(sealer, record.media, entry.contents, entry.lost)
    if record.party != EVERYBODY:
        rest["agents"] = record.party.names
    return id_field(identity.id), *entry.tokens, *stored, _encode(rest) if rest else b""


def _told_by_flags(entry: NewEntry, record: Record) -> dict[str, Any]:
    """Return the members of the map ``rest`` that a message has because of its flags or its role."""
    rest: dict[str, Any] = {"always": True} if record.is_always else {}
    if entry.grounding:
        rest["documents"] = record.grounding
    if record.flags & Flags.IN_PROGRESS:
        rest["progress"] = True
    if record.flags & Flags.LEFT_OUT:
        rest["unsent"] = True
    if record.flags & Flags.COMPACTION:
        rest["compaction"] = entry.compaction
    return rest


class _Open(msgspec.Struct):
    """The tool group that waits for results, as the append script keeps it: ``p`` are its calls' ids."""

    p: list[str]


_read_open = msgspec.json.Decoder(_Open).decode


_IS_DUPLICATE, _IS_PARALLEL = 1, 2


def _read_append(entries: Sequence[NewEntry], reply: list[Any]) -> AppendReply:
    if reply[:1] != [b"ok"]:
        refuse(reply)
    _, settings, etag, edited, group, sealed, freed, *rest = reply
    appended: list[Appended] = []
    for entry, place in zip(entries, rest, strict=False):
        tokens = entry.tokens_parallel if place & _IS_PARALLEL else entry.tokens
        appended.append(Appended(place >> 2, bool(place & _IS_DUPLICATE), tokens))
    tail = rest[len(entries) :]
    waiting = _read_open(group).p if group else []
    if entries and entries[-1].calls.legacy and not appended[-1].duplicate:
        waiting = waiting or [entries[-1].calls.function]
    return AppendReply(
        version=int(etag.partition(b"-")[0] or 0),
        etag=etag.decode(),
        settings=settings,
        edited=edited or b"",
        waiting=waiting,
        entries=appended,
        tail=TailReply(settings, *tail) if tail else None,
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
        self,
        target: Target,
        entries: Sequence[NewEntry],
        settings: bytes,
        if_match: str,
        now_ms: int,
        reach: Reach | None = None,
        repeats: str | None = None,
        token: str | None = None,
        after: Forgotten | None = None,
        *,
        fresh: bool = False,
        changed: tuple[bytes, bytes] | None = None,
        said: Sequence[bytes] | None = None,
        behind: int | None = None,
    ) -> AppendReply:
        """Store entries, all or none, each id once; create the conversation if it is not there.

        With ``reach``, the reply has the tail that a window likely needs, for ``Tails.opened``. ``Writing`` tells the rest.

        Raises:
            PreconditionFailed, EntryConflict, ReplyGone, OrphanToolResult, TooManyPinned, StoreUnavailable, StoreFull.
        """
        sealer = PLAIN if self.data_keys.plain else await self.data_keys.sealer(target.tenant, target.name)
        given = entries
        entries = given if not self._has_objects else await self.media.placed(target, sealer, given, target.keys.media)
        if sealer.active:
            settings = sealer.seal(Kind.SETTINGS, settings)
        change, digests = _sealed_agreement(sealer, changed, said) if fresh else (None, None)
        wanted = reach.nested if reach is not None else None
        asked = AppendRest(None, self._retention_ms, repeats, token, after, wanted, fresh, change, digests, behind)
        while True:
            call = append(target.keys, target.name, sealer, entries, settings, if_match, now_ms, asked)
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


def _sealed_agreement(
    sealer: AnySealer, changed: tuple[bytes, bytes] | None, said: Sequence[bytes] | None
) -> tuple[SettingsChange | None, msgspec.Raw | None]:
    """Return an agreement's settings that change, and the digests of what the newest messages say, as scripts take them."""
    change = SettingsChange(*(as_string(sealer.seal(Kind.SETTINGS, each)) for each in changed)) if changed else None
    return change, as_string(b"".join(_sealed_digests(sealer, said))) if said is not None else None


def _sealed_digests(sealer: AnySealer, digests: Sequence[bytes]) -> Iterable[bytes]:
    """The digests as they are stored, which without a master key is as they are."""
    return map(partial(sealer.digest, Purpose.CONTENT), digests) if sealer.active else digests
