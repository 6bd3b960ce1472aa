"""Redact entries: an entry loses its content wherever it stands, in the log and under its id in all branches."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Unpack

import msgspec

from sash.core.search.words import pack_words, said_in
from sash.core.stored.record import Flags, Record
from sash.core.stored.redaction import NO_DIGEST, redact_message, redact_record
from sash.problems import NotFound
from sash.store.data import script_calls, write_scripts
from sash.store.data.branches import BranchesRead, Head, media_counted, packed_content
from sash.store.data.changing import ATTEMPTS, Change, Changing, busy, no_entry, require_version
from sash.store.data.entries import Stored, seal_message
from sash.store.data.layout import Target
from sash.store.data.replies import Message, Page
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import AnySealer
from sash.store.data.tails import read_compactions
from sash.store.data.write_scripts import Freed


class BranchRedactions(NamedTuple):
    """New contents of branches, each with its number and the media that it has no more; ``stands`` are the heads that they
    were made for. ``knows``: a branch has the entry. ``has_media``: one of the redacted has some."""

    stands: bytes
    contents: Sequence[tuple[int, bytes, str]]
    knows: bool
    has_media: bool


class Redactions(Changing):
    """Redactions of entries."""

    async def redact(self, target: Target, name: int | str, **change: Unpack[Change]) -> Freed:
        """Remove the content of an entry, by its seq or ``id:`` and its id, and that of the compactions that may hold it.

        An entry under this id is redacted in the log and in all branches. Raises NotFound, PreconditionFailed.
        """
        seq = await self._reader.seq_of(target, name)
        if seq is None:
            return await self._redact_in_branches(target, str(name).removeprefix("id:"), **change)
        for _ in range(ATTEMPTS):
            with suppress(HistoryEdited):  # another write came first, which may have brought a compaction or a branch
                for later in await self._compactions_since(target, seq, change):
                    step: Change = {**change, "token": f"{change['token']}.{later}"}
                    with suppress(NotFound):  # a rewind took it away meanwhile
                        await self._redact(target, later, **step)
                        change["if_match"] = ""  # it stood
                return await self._redact(target, name, **change)
        raise busy()

    async def _compactions_since(self, target: Target, seq: int, change: Change) -> list[int]:
        """Return the seqs of the compactions behind message ``seq``, newest first. Raises NotFound, Conflict."""
        for _ in range(ATTEMPTS):
            with suppress(HistoryEdited):
                return await self._read_compactions_since(target, seq, change)
        raise busy()

    async def _read_compactions_since(self, target: Target, seq: int, change: Change) -> list[int]:
        state, done = await asyncio.gather(self._reader.get(target), self._reader.was_done(target, change["token"]))
        if done or not state.compactions or seq > state.length:
            return []
        if state.life != change["life"]:
            raise script_calls.no_conversation()
        (record,) = await self._reader.stretch(target, seq, seq, state=state)
        if record.flags & Flags.REDACTED:  # the later ones were made without its content
            return []
        found, standing = [], state.compactions
        while (newest := max(standing.values(), default=0)) > seq:
            found.append(newest)
            (kept,) = await self._client.commands([("HGET", target.keys.ids, f"\0compaction:{newest}")])
            standing = read_compactions((kept or b"").partition(b" ")[2])
        return found

    async def _redact(self, target: Target, name: int | str, **change: Unpack[Change]) -> Freed:
        """Redact one message. Raises HistoryEdited if another write changed the history first."""
        page, done = await asyncio.gather(
            self._reader.entry(target, name), self._reader.was_done(target, change["token"])
        )
        if done:
            return Freed(page.version, page.etag)
        if not page.messages or page.life != change["life"]:
            raise no_entry()
        message = page.messages[0]
        in_branches = await self._branch_redactions(target, message.identity.id, message.seq)
        if message.record.flags & Flags.REDACTED:
            if in_branches.contents:
                return await self._redact_in_branches(target, message.identity.id, message.seq, **change)
            require_version(page, change["if_match"])
            return Freed(page.version, page.etag)
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        record, redacted = redacted_message(sealer, message)
        before, after = message.record.reference_tokens, record.reference_tokens
        call = write_scripts.redact(
            target.keys,
            **change,
            seq=message.seq,
            standing=message.standing,
            record=redacted.record,
            details=redacted.details,
            body=redacted.body,
            less=(before[0] - after[0], before[1] - after[1]),
            grounded=0 if message.record.grounding is None else 1,
            grounding=message.record.grounding or (0, 0),
            words=pack_words([said_in(redact_message(msgspec.json.decode(message.body)))], sealer.number)[0],
            media=" ".join(sorted({f"{each.name.hex()} 1" for each in message.record.media})),
            branches=in_branches.stands,
            contents=write_scripts.packed_contents(in_branches.contents),
        )
        written = await self._erasures.after(
            target, call, has_media=bool(message.record.media) or in_branches.has_media
        )
        if written is None:
            raise HistoryEdited
        return written

    async def _redact_in_branches(self, target: Target, identity: str, seq: int = 0, **change: Unpack[Change]) -> Freed:
        """Redact an entry in all branches, which is not in the log, or is redacted there; there it has the given seq.

        Raises NotFound, PreconditionFailed.
        """
        for _ in range(ATTEMPTS):
            state, done = await asyncio.gather(self._reader.get(target), self._reader.was_done(target, change["token"]))
            if done:
                return Freed(state.version, state.etag)
            found = await self._branch_redactions(target, identity, seq)
            if state.life != change["life"] or not (found.knows or seq):
                raise no_entry()
            require_version(state, change["if_match"])
            if not found.contents:
                return Freed(state.version, state.etag)
            call = write_scripts.change_branches(
                target.keys,
                **change,
                branches=found.stands,
                contents=write_scripts.packed_contents(found.contents),
            )
            written = await self._erasures.after(target, call, has_media=found.has_media)
            if written is not None:
                return written
        raise busy()

    async def _branch_redactions(self, target: Target, identity: str, seq: int) -> BranchRedactions:
        """Return how an entry is redacted in the branches; ``seq`` is its place in the log, 0 if it is not there."""
        read = await self._branches.all(target)
        pages = await self._branches.pages(target, read, read.branches)
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        return redact_in_branches(read, pages, sealer, identity, seq)


def redacted_message(sealer: AnySealer, message: Message) -> tuple[Record, Stored]:
    """Return a message without its content: its record, and as it is stored."""
    record, body = redact_record(message.record, message.body)
    identity = msgspec.structs.replace(message.identity, digest=NO_DIGEST)
    return record, seal_message(sealer, record, identity, body)


def redact_in_branches(
    read: BranchesRead, pages: Mapping[int, Page], sealer: AnySealer, identity: str, seq: int
) -> BranchRedactions:
    """Return what is redacted in the branches of one state, of which ``pages`` has the messages: the entry with this id, and
    compactions that may hold its content. ``seq`` is its place in the log, 0 if it is not there."""
    places = {0: seq} if seq else {}
    for number, page in pages.items():
        if found := [each.seq for each in page.messages if each.identity.id == identity]:
            places[number] = found[0]
    contents, has_media = [], False
    for number, page in pages.items():
        first = _first_behind(read.chain(read.branches[number].head), places)
        stored = list(read.branches[number].stored)
        is_changed, media = False, ""
        for index, message in enumerate(page.messages):
            is_it = message.identity.id == identity
            holds_it = bool(message.record.flags & Flags.COMPACTION) and first is not None and message.seq > first
            if (is_it or holds_it) and not message.record.flags & Flags.REDACTED:
                is_changed, has_media = True, has_media or bool(message.record.media)
                media += " " + media_counted([stored[index].details]).decode()
                stored[index] = redacted_message(sealer, message)[1]
        if is_changed:
            contents.append((number, packed_content(stored), media))
    return BranchRedactions(read.reply.heads, contents, bool(places.keys() - {0}), has_media)


def _first_behind(chain: Sequence[Head], places: Mapping[int, int]) -> int | None:
    """Return the first place of the entry on the way to the end of a chain's last branch; None where it is not on it."""
    parents = [0, *(each.number for each in chain)]
    ends = [*(each.after_seq for each in chain), chain[-1].last_seq]
    found = (places[parent] for parent, end in zip(parents, ends, strict=True) if places.get(parent, end + 1) <= end)
    return min(found, default=None)
