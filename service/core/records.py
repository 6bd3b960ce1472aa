"""What is kept of a message beside its body: all that a window asks, so that no body is opened for one."""

from typing import Final

import msgspec

from service.core.counting import Measure


class Flags:
    """What a record's flags say; PARALLEL marks a result that answers one of several calls.

    Plain integers: an IntFlag's ``&`` costs more than all else that a window does with a message.
    """

    PINNED: Final = 1
    GROUNDED: Final = 2
    NOTED: Final = 4
    PARALLEL: Final = 8
    REDACTED: Final = 16
    LEGACY_CALL: Final = 32


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One message. ``size`` is the body's bytes, ``calls`` how many tool calls it makes."""

    flags: int
    digest: bytes
    measure: Measure
    size: int
    id: str
    created_ms: int
    calls: int
    content_digest: bytes
    grounding: tuple[int, int] | None = None
    """What the whole of its documents adds to the text, in tokens of o200k_base and cl100k_base."""

    @property
    def pinned(self) -> bool:
        return bool(self.flags & 1)

    @property
    def parallel(self) -> bool:
        return bool(self.flags & 8)


class StoredGrounding(msgspec.Struct, array_like=True, frozen=True):
    """A message's documents; ``start`` and ``end`` bound the content's value in the body.

    ``template`` is the digest of the template and separator that the stored counts were made with: when a conversation's
    template changes, they are made anew from the documents.
    """

    template: bytes
    start: int
    end: int
    documents: list[tuple[str | None, str]]


class Summary(msgspec.Struct, frozen=True):
    """A text that stands in for messages 1 to ``through_seq``."""

    text: str
    through_seq: int
    measure: Measure
