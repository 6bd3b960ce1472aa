"""An entry is redacted wherever it stands: in the log, and under its id in all branches."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from sash.core.law.records.records import Flags, Record
from sash.core.law.records.redaction import NO_DIGEST, redact_record
from sash.store.data.branches import BranchesRead, Head, media_counted, packed_content
from sash.store.data.replies import Message, Page
from sash.store.data.sealing import AnySealer
from sash.store.data.stored_messages import Stored, seal_message


class BranchRedactions(NamedTuple):
    """New contents of branches, each with its number and the media that it has no more; ``stands`` are the heads that they
    were made for. ``knows``: a branch has the entry. ``has_media``: one of the redacted has some."""

    stands: bytes
    contents: Sequence[tuple[int, bytes, str]]
    knows: bool
    has_media: bool


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
