"""Branches: tails of a log that were replaced, and which may be its end again.

::

    log        q1 a1 q2 a2          q1 a1 q2' a3           q1 a1 q2 a2
                       ──replace──▶      │       ──swap──▶      │
    branches                             └ q2 a2  (b-1)         └ q2' a3  (b-2)

The hash ``branches`` has a conversation's branches (scripts/parts/branches.lua): the field ``heads`` tells where each
hangs, and a field of its number has its content. A branch hangs in the log behind the message ``after_seq``, or in another
branch, its parent. Its messages keep the seqs that they had, so that what is stored of them stays true: sealed values, links
of calls, ids.

A branch is swapped in by an append of its messages as they are, which forgets the log's end in the same step. So the append
script alone knows what a log needs: totals, pins, ids, calls, compactions, media.

Readers of a conversation do not read this key. It is renewed, renamed and erased with the others.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from sash.core.counts.models.families import ASSISTANT
from sash.core.screens.forks import OtherWay
from sash.core.stored.details import decode_details
from sash.core.stored.record import RECORD_BYTES, Flags, Record
from sash.problems import NotFound
from sash.store.data.datakeys import DataKeys
from sash.store.data.entries import Stored
from sash.store.data.layout import Target, check_identity, etag_of, unpack
from sash.store.data.media_texts import as_string
from sash.store.data.read_scripts import BranchesReply, PageReply, read_branches
from sash.store.data.replies import Made, Message, Page, made_of, page_of
from sash.store.data.sealing import AnySealer
from sash.store.redis.client import Client

HEADS_BYTES: Final = 12
_HEAD: Final = Struct("<IIIIId")
_SIZES: Final = Struct("<IIII")
_LENGTH: Final = Struct("<I")
_NAME: Final = re.compile(r"b-([1-9][0-9]{0,8})\Z")


class Head(NamedTuple):
    """Where a branch hangs: behind ``after_seq`` of ``parent``, 0 for the log. Its messages have the seqs behind that.

    ``size`` are the bytes of its content; ``sealed_ms`` is when it was made, in milliseconds since 1970.
    """

    number: int
    parent: int
    after_seq: int
    messages: int
    size: int
    sealed_ms: float

    @property
    def id(self) -> str:
        """The id that clients know."""
        return name_of(self.number)

    @property
    def last_seq(self) -> int:
        """The seq of its last message."""
        return self.after_seq + self.messages


def name_of(number: int) -> str:
    """Return a branch's id.

    >>> name_of(7)
    'b-7'
    """
    return f"b-{number}"


def number_of(name: str) -> int:
    """Return the number of the branch with this id, 0 where no branch can have it."""
    found = _NAME.match(name)
    return int(found[1]) if found else 0


def read_heads(value: bytes) -> list[Head]:
    """Return the heads in the field's value, the oldest first."""
    return [Head(*each) for each in _HEAD.iter_unpack(value[HEADS_BYTES:])]


def media_counted(details: Iterable[bytes]) -> bytes:
    """Return the media of messages with these details, each by its name in hex with the number of messages that have it."""
    counted = Counter(name for each in details for name in {medium.name for medium in decode_details(each).media})
    return b" ".join(b"%b %d" % (name.hex().encode(), count) for name, count in counted.items())


def packed_content(messages: Sequence[Stored]) -> bytes:
    """Return the content of a branch with these messages."""
    media = media_counted(each.details for each in messages)
    parts = [_LENGTH.pack(len(media)), media]
    for record, *values in messages:
        parts += (_SIZES.pack(*map(len, values)), record, *values)
    return b"".join(parts)


def read_content(value: bytes) -> list[Stored]:
    """Return the messages in a branch's content, as they are stored."""
    at = _LENGTH.size + _LENGTH.unpack_from(value)[0]
    messages = []
    while at < len(value):
        sizes = _SIZES.unpack_from(value, at)
        at += _SIZES.size
        parts = [value[at : at + RECORD_BYTES]]
        at += RECORD_BYTES
        for size in sizes:
            parts.append(value[at : at + size])
            at += size
        messages.append(Stored(*parts))
    return messages


class Branch(NamedTuple):
    """A branch with its messages as they are stored."""

    head: Head
    stored: list[Stored]


class BranchesRead(msgspec.Struct, frozen=True):
    """The branches of one state: the heads of all, and those that were asked for, by number."""

    reply: BranchesReply
    heads: list[Head]
    branches: dict[int, Branch]
    before: dict[int, bytes]
    """The details of the message behind which each of these hangs in the log, by the branch's number."""

    @property
    def etag(self) -> str:
        """The entity tag of the state, without quotes."""
        return etag_of(self.reply.version, self.reply.life, self.reply.change)

    @property
    def made(self) -> Made:
        """What names the history."""
        return made_of(self.reply.life, self.reply.edited)

    def head(self, name: str) -> Head:
        """Return the head of the branch with this id. Raises NotFound."""
        number = number_of(name)
        found = next((each for each in self.heads if each.number == number), None)
        if found is None:
            raise no_branch()
        return found

    def chain(self, head: Head) -> list[Head]:
        """Return the branch, and before it those in which it hangs, from the log on."""
        by_number = {each.number: each for each in self.heads}
        found = [head]
        while found[0].parent:
            found.insert(0, by_number[found[0].parent])
        return found

    def branch_with(self, identity: str) -> Head | None:
        """Return the newest branch that has an entry with this id."""
        for head, stored in reversed(self.branches.values()):
            if any(decode_details(each.details).identity.id == identity for each in stored):
                return head
        return None

    def is_hung(self, parent: int, after_seq: int) -> bool:
        """Return whether a branch hangs in this one, or in the log (0), behind a message after ``after_seq``."""
        return any(each.parent == parent and each.after_seq > after_seq for each in self.heads)


class SealedTail(msgspec.Struct, frozen=True):
    """What became of a log's end: the number of its branch, or 0, its messages, and the numbers of branches that went."""

    number: int = 0
    messages: int = 0
    dropped: tuple[int, ...] = ()


NOTHING_SEALED: Final = SealedTail()


def sealed_tail(reply: Sequence[int]) -> SealedTail:
    """Return what a script's reply tells of the log's end, which is empty where nothing was sealed or dropped."""
    if not reply:
        return NOTHING_SEALED
    number, messages, *dropped = reply
    return SealedTail(number, messages, tuple(dropped))


class Took(msgspec.Struct, frozen=True):
    """A branch of which the log gets the first ``used`` messages, with their ``media``. ``content`` is the rest, or ''."""

    number: int
    used: int
    content: msgspec.Raw
    media: str


class Branches:
    """Reads the branches of all conversations of a deployment."""

    def __init__(self, client: Client, data_keys: DataKeys) -> None:
        self._client = client
        self._data_keys = data_keys

    async def other_ways(self, target: Target) -> tuple[Made, list[OtherWay]]:
        """Return the branches that hang in the log, and what names the history. Raises NotFound, ConversationDamaged."""
        reply = await self._reply(target, "first")
        firsts = zip(read_heads(reply.heads), reply.contents, strict=True)
        ways = [
            OtherWay(head.id, head.after_seq, decode_details(details).identity.created_ms)
            for head, details in firsts
            if details is not None
        ]
        return made_of(reply.life, reply.edited), ways

    async def heads(self, target: Target) -> BranchesRead:
        """Return where the branches hang. Raises NotFound, ConversationDamaged."""
        return await self._read(target, "heads")

    async def all(self, target: Target) -> BranchesRead:
        """Return the branches with their messages. Raises NotFound, ConversationDamaged."""
        return await self._read(target, "*")

    async def _read(self, target: Target, which: str) -> BranchesRead:
        reply = await self._reply(target, which)
        heads = read_heads(reply.heads)
        contents = zip(heads, reply.contents, strict=False)
        before = zip(heads, reply.before, strict=False)
        return BranchesRead(
            reply,
            heads,
            {head.number: Branch(head, read_content(content)) for head, content in contents if content is not None},
            {head.number: details for head, details in before if details is not None},
        )

    async def _reply(self, target: Target, which: str) -> BranchesReply:
        reply = await self._client.run(read_branches(target.keys, which=which))
        check_identity(reply.name, target.name)
        return reply

    async def pages(self, target: Target, read: BranchesRead, numbers: Iterable[int]) -> dict[int, Page]:
        """Return the messages of branches of one state, as pages of the log. Raises CannotOpen."""
        replies = {number: _page_reply(read.reply, read.branches[number]) for number in numbers}

        def opened(sealer: AnySealer) -> dict[int, Page]:
            return {
                number: page_of(sealer, target.name, reply, reply.bodies or []) for number, reply in replies.items()
            }

        return await self._data_keys.reading(target.tenant, target.name, opened) if replies else {}


def _page_reply(reply: BranchesReply, branch: Branch) -> PageReply:
    records, details, bodies, documents, metadata = zip(*branch.stored, strict=True)
    return PageReply(
        *(reply.name, reply.version, reply.life, reply.change, reply.edited),
        length=reply.length,
        first_seq=branch.head.after_seq + 1,
        records=b"".join(records),
        details=list(details),
        bodies=list(bodies),
        documents=[each or None for each in documents],
        metadata=[each or None for each in metadata],
    )


def took(read: BranchesRead, number: int, used: int, *, is_whole: bool = False) -> Took:
    """Return what is left of a branch once the log has its first ``used`` messages. A rest without a word goes, and with
    ``is_whole`` any, unless a branch hangs in it."""
    head, stored = read.branches[number]
    rest = stored[used:]
    media = media_counted(each.details for each in stored[:used])
    if (is_whole or all(map(_is_bare_stored, rest))) and not read.is_hung(number, head.after_seq + used):
        media, rest = media_counted(each.details for each in stored), []
    return Took(number, used, as_string(packed_content(rest) if rest else b""), media.decode())


def _is_bare_stored(stored: Stored) -> bool:
    return is_bare(unpack(stored.record, stored.details)[0])


def is_bare(record: Record) -> bool:
    """Return whether a message is a reply that was not finished, without a word, a call or a medium."""
    is_empty = bool(record.flags & Flags.WORDLESS) or (
        bool(record.flags & Flags.IN_PROGRESS) and record.measure.o200k == 0
    )
    makes = record.calls or record.flags & (Flags.LEGACY_CALL | Flags.REDACTED) or record.measure.extra is not None
    return is_empty and record.measure.role == ASSISTANT and not makes


def ended(message: Message) -> Message:
    """Return the message; one in progress is interrupted, since its place is taken from its writer."""
    if not message.record.flags & Flags.IN_PROGRESS:
        return message
    flags = message.record.flags & ~Flags.IN_PROGRESS | (Flags.WORDLESS if is_bare(message.record) else 0)
    record = msgspec.structs.replace(message.record, flags=flags)
    identity = msgspec.structs.replace(message.identity, status="interrupted")
    return msgspec.structs.replace(message, record=record, identity=identity)


def no_branch() -> NotFound:
    """Return the problem of a branch that is not there."""
    return NotFound("There is no such branch: GET …/branches lists them. The oldest of many are forgotten.")
