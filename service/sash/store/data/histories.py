"""Take messages off a history: rewinds, appends after an entry, branches. Each is one script, done once for each token.

The script's arguments are computed here from what was read. Where the history has changed since, the script does nothing,
and the history is read again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Unpack

import msgspec

from sash.core.chat.tool_groups import Calls, calls_of, links_in
from sash.core.counts.models.families import TOOL, USER
from sash.core.law.records.records import Records
from sash.core.law.records.units import LONGEST_GROUP
from sash.core.stored.record import Flags, Record
from sash.problems import NotFound, PreconditionFailed, StoreUnavailable, Unprocessable
from sash.store.data import script_calls, write_scripts
from sash.store.data.append_script import NOTHING_STOOD, AppendReply, Forgotten
from sash.store.data.branches import is_bare
from sash.store.data.changing import ATTEMPTS, Change, Changing, busy, require_version
from sash.store.data.layout import Target, encode_json, id_field, life_of
from sash.store.data.reading import Reader
from sash.store.data.replies import State
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.write_scripts import Freed, Rewound

Append = Callable[[Forgotten], Awaitable[AppendReply]]

_CHUNK = 1000
_MOST_NAMED = 20_000  # ids held in memory; where there are more, the store is asked


class Histories(Changing):
    """Rewinds of conversations."""

    async def drop_branch(self, target: Target, name: str, **change: Unpack[Change]) -> Freed:
        """Drop the branch with this id, and those that hang in it. Raises NotFound, PreconditionFailed."""
        for _ in range(ATTEMPTS):
            read, done = await asyncio.gather(
                self._branches.heads(target), self._reader.was_done(target, change["token"])
            )
            if done:
                return Freed(int(read.reply.version), read.etag)
            head = read.head(name)
            call = write_scripts.change_branches(target.keys, **change, branches=read.reply.heads, drop=head.number)
            written = await self._erasures.after(target, call, has_media=True)  # its messages are not read
            if written is not None:
                return written
        raise busy()

    async def rewind(
        self,
        target: Target,
        to: int | str,
        progress: Callable[[], None] = lambda: None,
        *,
        forget: bool = False,
        **change: Unpack[Change],
    ) -> Rewound:
        """Take away the messages after an entry, by its seq or ``id:`` and its id. They become a branch, or ``forget`` them.

        Raises NotFound, PreconditionFailed, Unprocessable.

        The conversation is then as it was right after that message: in the middle of a tool group, its calls wait again for
        their results. ``progress`` is called after each step of about a thousand messages.
        """
        for _ in range(ATTEMPTS):
            state, done = await asyncio.gather(self._reader.get(target), self._reader.was_done(target, change["token"]))
            if done:
                await self._sweep(target, state.life, progress)  # the earlier run may have ended before it was done
                return Rewound(state.version, state.etag, stale=0)
            if state.life != change["life"]:
                raise script_calls.no_conversation()
            require_version(state, change["if_match"])
            to_seq = await self.known_seq(target, to, state, "#/to_seq")
            try:
                return await self._rewind(target, to_seq, state, progress, change, forget=forget)
            except (HistoryEdited, PreconditionFailed):
                continue  # another write came first: compute the figures again
        raise busy()

    async def known_seq(self, target: Target, name: int | str, state: State, pointer: str) -> int:
        """Return the seq that a field at ``pointer`` names, from 0 to the last one. Raises Unprocessable."""
        seq = await self._reader.seq_of(target, name)
        if seq is None:
            raise Unprocessable.at(pointer, "No entry of this conversation has this id")
        if seq > state.length:
            raise Unprocessable.at(
                pointer, f"The conversation ends with message {state.length}: name one that is there"
            )
        return seq

    async def _rewind(
        self,
        target: Target,
        to_seq: int,
        state: State,
        progress: Callable[[], None],
        change: Change,
        *,
        forget: bool,
    ) -> Rewound:
        """Rewind one state. Raises HistoryEdited, PreconditionFailed, NotFound."""
        gone, forgotten = await self._forgotten(target, to_seq, state, progress, forget=forget)
        call = write_scripts.rewind(
            target.keys,
            life=state.life,
            if_match=state.etag,
            token=change["token"],
            now_ms=change["now_ms"],
            to_seq=to_seq,
            less=forgotten.less,
            open=forgotten.open,
            question=forgotten.question,
            media=forgotten.media,
            seal=forgotten.seal,
            unpinned=forgotten.unpinned,
        )
        rewound = await self._erasures.after(target, call, has_media=bool(gone.media))
        await self._clean(target, life_of(rewound.etag), gone, to_seq, progress, stale=rewound.stale > 0)
        return msgspec.structs.replace(rewound, to_seq=to_seq)

    async def append_after(
        self,
        target: Target,
        to: int | str,
        append: Append,
        progress: Callable[[], None],
        *,
        forget: bool = False,
    ) -> AppendReply:
        """Return what ``append`` gives, which takes away the messages after an entry, and appends, in one script.

        They become a branch, or ``forget`` them. The entry is named by its seq or ``id:`` and its id. ``append`` gets what
        is forgotten. Raises NotFound, Unprocessable, Conflict, and what ``append`` raises.
        """
        for _ in range(ATTEMPTS):
            try:
                state = await self._reader.get(target)
            except NotFound:
                if to != 0:
                    raise
                with suppress(HistoryEdited):  # another request began the conversation first
                    return await append(NOTHING_STOOD)
                continue
            to_seq = await self.known_seq(target, to, state, "#/after_seq")
            with suppress(HistoryEdited):  # another write came first: compute the figures again
                return await self.forget_and_append(target, to_seq, state, append, progress, forget=forget)
        raise busy()

    async def forget_and_append(
        self,
        target: Target,
        to_seq: int,
        state: State,
        append: Append,
        progress: Callable[[], None],
        *,
        forget: bool = False,
    ) -> AppendReply:
        """Return what ``append`` gives, as ``append_after`` does, of one state. Raises HistoryEdited."""
        gone, forgotten = await self._forgotten(target, to_seq, state, progress, forget=forget)
        noted = await self._erasures.note(target) if gone.media else ""
        reply = await append(forgotten)
        with suppress(StoreUnavailable):  # the append is stored, and reads pass over what is left of forgotten messages
            if noted and reply.freed:  # they are erased, or noted by themselves
                await self._erasures.forget(noted)
            await self._clean(target, state.life, gone, to_seq, progress, stale=state.length - to_seq > _CHUNK)
        return reply

    async def _forgotten(
        self, target: Target, to_seq: int, state: State, progress: Callable[[], None], *, forget: bool
    ) -> tuple["_Gone", Forgotten]:
        """Return what a rewind of one state takes away. Raises HistoryEdited."""
        gone = _Gone(names_ids=state.length - to_seq <= _MOST_NAMED)
        async for first, records in self._reader.steps(target, to_seq + 1, state.length, state=state):
            gone.add(first, records)
            progress()
        open_group, unpinned = await boundary(self._reader, target, to_seq, state)
        question = await newest_question(self._reader, target, to_seq, state)
        seal = "" if forget else "hung" if gone.is_bare else "always"
        totals, waiting = gone.totals, open_group.decode()
        return gone, Forgotten(to_seq, state.etag, totals, waiting, question, unpinned, gone.counted, seal)

    async def _clean(
        self, target: Target, life: str, gone: "_Gone", to_seq: int, progress: Callable[[], None], *, stale: bool
    ) -> None:
        """Drop what a rewind has left of messages that it forgot; ``stale`` where documents or metadata may be left."""
        if stale:
            await self._sweep(target, life, progress)
        async for ids in self._left_behind(target, gone, to_seq):
            await self._client.run(write_scripts.forget_ids(target.keys, life=life, ids=ids))
            progress()

    async def _sweep(self, target: Target, life: str, progress: Callable[[], None]) -> None:
        """Drop the documents and metadata that a rewind has left of forgotten messages, in steps."""
        while await self._client.run(write_scripts.sweep(target.keys, life=life)):
            progress()

    async def _left_behind(self, target: Target, gone: "_Gone", to_seq: int) -> AsyncIterator[list[str | bytes | int]]:
        """Yield the fields in ``ids``, with seqs, that a rewind forgot, in pieces: from memory, or the store if many."""
        for start in range(0, len(gone.ids), _CHUNK):
            yield gone.ids[start : start + _CHUNK]
        cursor = b"0" if not gone.names_ids else None
        while cursor is not None:
            ((cursor, flat),) = await self._client.commands([("HSCAN", target.keys.ids, cursor, "COUNT", _CHUNK)])
            pairs = [(flat[i], int(flat[i + 1].split()[0])) for i in range(0, len(flat), 2)]
            yield [word for field, seq in pairs if seq > to_seq for word in (field, seq)]
            cursor = None if cursor == b"0" else cursor


async def boundary(reader: Reader, target: Target, to_seq: int, state: State) -> tuple[bytes, list[int]]:
    """Return the tool group that waits for results once ``to_seq`` is the last message, and the seqs no longer pinned.

    The group is JSON, empty when there is none. Raises HistoryEdited.
    """
    if to_seq == 0:
        return b"", []
    first = max(1, to_seq - LONGEST_GROUP + 1)
    records = await reader.stretch(target, first, to_seq, state=state)
    start = len(records) - 1
    while start > 0 and records[start].measure.role == TOOL:
        start -= 1
    if not records[start].calls or records[start].flags & Flags.IN_PROGRESS:
        return b"", [to_seq] if _only_pinned_by_its_result(records[-1]) else []
    group = [(first + start, records[start:])]
    bodies = await reader.bodies(target, group, state=state)
    pending = _pending([calls_of(msgspec.json.decode(body)) for body in bodies])
    open_group = {"s": first + start, "x": int(records[start].calls > 1), "p": pending}
    pinned = any(record.pinned for record in records[start:])
    unpinned = [] if pinned else list(range(first + start, to_seq + 1))
    return encode_json(open_group) if pending else b"", unpinned


async def newest_question(reader: Reader, target: Target, to_seq: int, state: State) -> int:
    """Return the seq of the newest user message up to ``to_seq`` that is sent, 0 if there is none. Raises HistoryEdited."""
    if state.question <= to_seq:
        return state.question
    for last in range(to_seq, 0, -_CHUNK):
        first = max(1, last - _CHUNK + 1)
        records = await reader.stretch(target, first, last, state=state)
        place = records.sent_roles.rfind(USER)
        if place >= 0:
            return first + place
    return 0


class _Gone:
    """The sums over the messages that a rewind forgets."""

    def __init__(self, *, names_ids: bool) -> None:
        self.names_ids = names_ids
        self.totals = [0, 0, 0, 0, 0]
        self.ids: list[str | bytes | int] = []
        self.media: Counter[bytes] = Counter()
        self.is_bare = True
        """Whether all are replies that were not finished, without a word."""

    @property
    def counted(self) -> str:
        """The media of these messages, each with the number of messages that have it."""
        return " ".join(f"{name.hex()} {count}" for name, count in self.media.items())

    def add(self, first: int, records: Records) -> None:
        self.totals = [total + one for total, one in zip(self.totals, totals_of(records), strict=True)]
        for index, record in enumerate(records):
            self.is_bare = self.is_bare and is_bare(record)
            if record.media:
                self.media.update({each.name for each in record.media})
            if self.names_ids:
                self.ids += (id_field(records.details[index].identity.id), first + index)
                if record.calls:
                    self.ids += (word for link in links_in(record.links) for word in (f"\0{link}", first + index))


def totals_of(records: Records) -> tuple[int, int, int, int, int]:
    """Return the tokens of messages (o200k, cl100k), messages with documents, and tokens of the documents (both)."""
    tokens = [record.reference_tokens for record in records]
    documents = [record.grounding for record in records if record.grounding is not None]
    return (*_sums(tokens), len(documents), *_sums(documents))


def _sums(pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(one for one, _ in pairs), sum(other for _, other in pairs)


def _only_pinned_by_its_result(record: Record) -> bool:
    """Return whether a pinned legacy call is pinned only because of its result, which is forgotten."""
    return bool(record.flags & Flags.LEGACY_CALL) and not record.pinned


def _pending(group: Sequence[Calls]) -> list[str]:
    """Return the ids of the first message's calls that the other messages do not answer."""
    answered = Counter(calls.answers for calls in group[1:])
    return list((Counter(group[0].opens) - answered).elements())
