"""Why a message, or a document, is in a window, or is not."""

from enum import StrEnum
from typing import Literal, NamedTuple, Self


class Reason(StrEnum):
    """A reason, by the name that costs and ``stop_reason`` have for it; ``text`` is what ``explain`` says."""

    text: str
    __hash__ = str.__hash__

    def __new__(cls, name: str, text: str = "") -> Self:
        reason = str.__new__(cls, name)
        reason._value_ = name
        reason.text = text
        return reason

    @property
    def moves(self) -> bool:
        """Whether newer messages take this reason over: it requires one message of a window alone."""
        return self in (Reason.QUESTION, Reason.NEWEST)

    @property
    def part(self) -> str:
        """What problems call the required messages of this reason."""
        return self.value if self.moves else f"{self} messages"

    SYSTEM = "system", "always: system message"
    DEVELOPER = "developer", "always: developer message"
    PINNED = "pinned", "always: pinned"
    QUESTION = "question", "always: newest user message"
    NEWEST = "newest", "always: newest message"
    RECALLED = "recalled", "recalled"
    FITS = "fits", "fits"
    BUDGET = "budget", "does not fit"
    TOO_LARGE = "too large", "does not fit, skipped"
    PRICE = "price", "left out for its price"
    LIMIT = "limit", "beyond the limit"
    BYTES = "bytes", "beyond the provider's bytes of a request"
    SUMMARY = "summary", "the summary stands for it"
    DUPLICATE = "duplicate", "said again later"
    UNANSWERED = "unanswered", "a call without its results"
    APART = "apart", "a result without its call, or with a newer one"
    IN_PROGRESS = "in progress", "a reply in progress"
    LEFT_OUT = "left out", "not sent: left out by a client"
    WORDLESS = "wordless", "a reply that was interrupted before a word came"
    COMPACTION = "compaction", "a provider's compaction"
    STANDS = "stands", "a provider's compaction, sent as the summary"
    HORIZON = "horizon", "further back than a view looks"
    START = "start", "before the first user message"


Outcome = Literal["sent", "cut", "duplicate", "left out"]


class Fate(NamedTuple):
    """What becomes of a document, and why: ``documents.fates``."""

    outcome: Outcome
    reason: str


SENT = Fate("sent", "fits")
CUT = Fate("cut", "the rest of it does not fit")
TWICE = Fate("duplicate", "the same id and text stands once in this message")
SENT_LATER = Fate("duplicate", "the same id and text is sent with a later message")
EMPTY = Fate("left out", "its text is empty")
OVER_LIMIT = Fate("left out", "over grounding_max_tokens")
NO_ROOM = Fate("left out", "does not fit")
EARLIER = Fate("left out", "grounding=latest sends the newest question's documents alone")
UNASKED = Fate("left out", "grounding=none")
APART_FROM = Fate("left out", "its message is left out")
