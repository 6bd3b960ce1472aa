"""What a window's flow asks its driver for, and what it is sent."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from sash.core.law.history.view import History
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.render import Bodies
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding
from sash.problems import Internal
from sash.windows.recalling import Old, Question

_MORE = 64
"""The smallest number of older messages to request."""


class SeenHistory(msgspec.Struct, frozen=True):
    """What was read of a history so far: its newest messages, their bodies, and the documents that a window may send.

    Nothing is left out of this history, so it alone tells which older messages to ask for.

    ``has_media``: some messages have pictures or files beside them.
    """

    history: History
    bodies: Bodies
    grounding: Mapping[int, StoredGrounding]
    has_media: bool = False

    def older(self, need: NeedOlder) -> "Older":
        """The request for more than was read. Raises Internal if all was read: nothing is asked for twice.

        It is for as many messages as were read at least, so that few reads are needed.
        """
        history = self.history
        if history.first_seq <= 1:
            raise Internal("A window asked for messages that were read.")
        read = len(history.records) - history.records.front
        messages = max(need.messages, read, _MORE)
        if need.place is not None:
            counted = int(history.log_lengths().sum())
            missing = max(0, history.tokens - counted - need.place)
            messages = max(messages, missing * read // max(1, counted) + _MORE)
        return Older(max(1, history.first_seq - messages))


class Older(msgspec.Struct, frozen=True):
    """Messages from ``first_seq`` on. The answer is a SeenHistory."""

    first_seq: int


class Texts(msgspec.Struct, frozen=True):
    """The bodies of messages in a history: ``seqs`` are ascending. The answer is the Bodies that were read so far."""

    seqs: Sequence[int]
    history: History


class WithMedia(msgspec.Struct, frozen=True):
    """The bodies of messages in a history, with the pictures and files of ``filled`` in their places. Both are ascending.
    ``lined`` are the numbers of those that are sent as lines, by seq, which need not be read. The answer is FilledBodies."""

    seqs: Sequence[int]
    filled: Sequence[int]
    lined: Mapping[int, Sequence[int]]
    history: History


class FilledBodies(msgspec.Struct, frozen=True):
    """The answer to a WithMedia: the bodies that were read so far, and the numbers of media that turned out to be lost, by
    the seq of their message."""

    bodies: Bodies
    lost: Mapping[int, Sequence[int]]


class Search(msgspec.Struct, frozen=True):
    """What recall knows of the messages up to ``last_seq``, and of a text. The answer is a Searchable."""

    text: str
    last_seq: int


class Searchable(NamedTuple):
    """The answer to a Search."""

    old: Old
    question: Question


class WholeRecords(msgspec.Struct, frozen=True):
    """The records of ``seqs`` in ``old``, with all that the model's costs need. The answer is a dict by seq."""

    seqs: Sequence[int]
    old: Old


class DocumentsOf(msgspec.Struct, frozen=True):
    """The documents of single messages, each of which has some. The answer is a dict of StoredGrounding by seq."""

    records: Mapping[int, Record]


class SingleBodies(msgspec.Struct, frozen=True):
    """The bodies of single messages, beside those of the window. The answer is a dict by seq."""

    records: Mapping[int, Record]


class LongWork(msgspec.Struct, frozen=True):
    """A thread: the work of the flow up to its next need takes longer than the event loop may wait. The answer is None."""


Need = Older | Texts | WithMedia | Search | WholeRecords | DocumentsOf | SingleBodies | LongWork


def with_lost(history: History, lost: Mapping[int, Sequence[int]]) -> History:
    """The history with the numbers of lost media, by the seq of their message."""
    return msgspec.structs.replace(history, lost={**lost}) if lost else history
