"""A chosen window, and what a provider's limits allow it."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sash.core.law.documents.grounding import Grounded
from sash.core.law.history.results import Edit
from sash.core.law.recall.recall import Recollection
from sash.core.law.records.explained import Explained
from sash.core.law.records.records import Record, Summary
from sash.core.law.selection.stable import Cut


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider's limits beside tokens allow a window, as ``fitting.py`` finds it.

    ``bytes_seq`` and ``messages_seq`` are the oldest messages that a request has room for. ``cut`` is a stable cut that
    is known already. ``is_lined``: pictures are sent as lines that may be whole in another window, and ``changed_seq`` is
    the newest message whose arrival turned pictures into lines, or 0."""

    bytes_seq: int = 1
    messages_seq: int = 1
    cut: Cut | None = None
    is_lined: bool = False
    changed_seq: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the limits leave nothing out, so that a sum of tokens is enough."""
        return self.bytes_seq == self.messages_seq == 1 and self.cut is None


ALL: Final = Allowed()


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen window: fixed parts, a summary, a note, then messages by ascending seq; and the figures of the answer."""

    budget: int
    seqs: list[int]
    grounding: Mapping[int, Grounded]
    summary: Summary | None
    note: int
    """The number of messages in the note; 0 without a note."""
    tokens: Mapping[str, int]
    dropped: Mapping[str, int]
    stop_reason: str
    explain: list[Explained] | None
    edits: Mapping[int, Edit] = {}
    """Changes to stored messages before they are sent, by seq."""
    path: str = ""
    """The path of the conversation's messages, for lines in place of tool results."""
    cut: Cut | None = None
    """Where a stable cut lets history begin."""
    lined: Mapping[int, Record] = {}
    """Records of messages of which some pictures, files or sounds are sent as lines, by seq. Their tokens are bounds."""
    recalled: Recollection | None = None
    passed: frozenset[int] = frozenset()
    """Messages that are left out although they would fit, such as an unanswered call or a duplicate, by seq."""
    lines: Mapping[int, list[bytes]] = {}
    """Messages without a seq that are sent behind others, as JSON, by the seq of these."""
    goes_on: int = 0
    """The seq of a reply at the end behind which a line asks to go on, if its words are sent; 0 without one."""
    waiting_for: Sequence[str] = ()
    """Ids of the calls at the end that wait for their results."""
    names: Mapping[int, int] = {}
    """The messages' seqs by their places, if they are not sent in the order of the log; then all seqs here are places."""

    def name(self, place: int) -> int:
        """The seq of the message at a place."""
        return self.names.get(place, place)
