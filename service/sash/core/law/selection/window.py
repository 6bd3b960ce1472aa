"""A chosen window, and what a provider's limits allow it."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from sash.core.law.documents.grounding import Grounded
from sash.core.law.history.results import Edit
from sash.core.law.history.view import NOTHING
from sash.core.law.recall import Recollection
from sash.core.law.records.figures import Dropped, Explained, WindowTokens
from sash.core.law.selection.stable import Cut
from sash.core.stored.record import Record
from sash.core.stored.stored_summary import Summary

Stop = Literal["complete", "budget", "limit", "summary", "bytes", "price", "horizon", "older"]
"""Why history ends where it does; ``older`` for too short a tail."""


class Allowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider's limits beside tokens allow a window, as ``fitting.py`` finds it.

    ``firsts`` are the first rows that a request has room for, if not all have. ``cut`` is a stable cut that is known
    already. ``is_lined``: pictures are sent as lines that may be whole in another window, and ``changed_row`` is the newest
    message whose arrival turned pictures into lines, or -1."""

    firsts: Sequence[tuple[Stop, int]] = ()
    cut: Cut | None = None
    is_lined: bool = False
    changed_row: int = -1


ALL: Final = Allowed()


class Window(msgspec.Struct, frozen=True):
    """A chosen window: fixed parts, a summary, a note, then messages in their order; and the figures of the answer.

    ``rows`` are its messages' rows in the history that it was chosen from. Edits and lined records are by row, all else is
    by the messages' seqs in the log.
    """

    budget: int
    rows: Sequence[int]
    seqs: Sequence[int]
    """Ascending, unless the window ``is_moved``: then some results stand before messages that came earlier."""
    question: int
    """The seq of the newest user message that is not left out; 0 if there is none."""
    tokens: WindowTokens
    dropped: Dropped
    stop_reason: str
    summary: Summary | None
    note: int
    """The number of messages in the note; 0 without a note."""
    grounding: Mapping[int, Grounded]
    edits: Mapping[int, Edit]
    """Changes to stored messages before they are sent."""
    explain: list[Explained] | None = None
    is_moved: bool = False
    path: str = ""
    """The path of the conversation's messages, for lines in place of tool results."""
    cut: Cut | None = None
    """Where a stable cut lets history begin."""
    lined: Mapping[int, Record] = NOTHING
    """Records of messages of which some pictures, files or sounds are sent as lines. Their tokens are bounds."""
    recalled: Recollection | None = None
    passed: frozenset[int] = frozenset()
    """Messages that are left out although they would fit, such as an unanswered call or a duplicate, by seq."""
    lines: Mapping[int, list[bytes]] = NOTHING
    """Messages without a seq that are sent behind others, as JSON, by the seq of these."""
    opening: int = 0
    """The tokens that the request costs more because its first message is the assistant's; in ``priming``."""
    goes_on: int = 0
    """The seq of a reply at the end behind which a line asks to go on, if its words are sent; 0 without one."""
    renamed: Sequence[int] = ()
    """The seqs of messages in which tools are sent under another name than their own."""
    waiting_for: Sequence[str] = ()
    """Ids of the calls at the end that wait for their results."""
