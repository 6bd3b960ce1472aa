"""Messages' tokens in vendors' vocabularies: columns beside the counts, made when a window first needs them.

::

    sash:{tenant/conversation}:columns   hash   made -> the history that was counted: its life and its last edit
                                                "<vocabulary> <block>" -> 32-bit numbers, a message each: tokens + 1, or 0
                                                where not counted; a block is of 512 messages

A lost column is made again. A rewind or a redaction drops all columns. Counts of an earlier history are neither read nor
written.
"""

import sys
from array import array

import msgspec

from sash.store.data import write_scripts
from sash.store.data.layout import Target
from sash.store.data.replies import Made
from sash.store.redis.client import Client

_U32 = "I"
BLOCK = 512
"""Messages in a block."""


class Column(msgspec.Struct, frozen=True):
    """A part of a column, from the start of a block: for each message from ``first_seq`` on, tokens + 1, or 0 if unknown."""

    vocabulary: str
    first_seq: int
    counts: "array[int]"

    def since(self, seq: int) -> "array[int]":
        """Return the counts from message ``seq`` on."""
        return self.counts[seq - self.first_seq :]


class Columns:
    """The columns of all conversations of a deployment."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read(self, target: Target, vocabulary: str, first_seq: int, last_seq: int, *, made: Made) -> Column:
        """Return the column of these messages and of the earlier ones in their block. Raises StoreUnavailable."""
        first, last = (first_seq - 1) // BLOCK, (last_seq - 1) // BLOCK
        fields = [f"{vocabulary} {block}" for block in range(first, last + 1)]
        (found,) = await self._client.commands([("HMGET", target.keys.columns, "made", *fields)])
        blocks = found[1:] if found[0] == b" ".join(made) else ()
        packed = b"".join((block or b"").ljust(BLOCK * 4, b"\0") for block in blocks)
        counts = array(_U32, packed.ljust((last - first + 1) * BLOCK * 4, b"\0"))
        if sys.byteorder == "big":
            counts.byteswap()
        return Column(vocabulary, first * BLOCK + 1, counts[: last_seq - first * BLOCK])

    async def write(self, target: Target, column: Column, first_seq: int, last_seq: int, *, made: Made) -> bool:
        """Keep the blocks of these messages; gives False when the history has changed.

        Raises StoreUnavailable, StoreFull.
        """
        fields: list[str | bytes] = []
        for block in range((first_seq - 1) // BLOCK, (last_seq - 1) // BLOCK + 1):
            start = block * BLOCK + 1 - column.first_seq
            counts = column.counts[start : start + BLOCK]
            if sys.byteorder == "big":
                counts.byteswap()
            fields += (f"{column.vocabulary} {block}", counts.tobytes())
        return await self._client.run(write_scripts.fill(target.keys, life=made[0], edited=made[1], fields=fields))
