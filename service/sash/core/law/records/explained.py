"""What ``explain`` says of a message and of its documents."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sash.core.law.records.reasons import OUTCOMES


class ExplainedDocument(msgspec.Struct, frozen=True):
    """Whether a document of a message is in the window, and why."""

    id: str | None
    outcome: Annotated[
        Literal[OUTCOMES],  # type: ignore[valid-type] # the outcomes of core/law/records/reasons.py
        Meta(
            title="DocumentOutcome",
            description="`sent` at one of its levels, `cut` at its end, a `duplicate`, or `left out`.",
        ),
    ]
    reason: str


class Explained(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a message is in the window, or is not. ``tokens`` is its cost there, without documents.

    ``reasoning`` is the part of ``tokens`` for reasoning, ``reasoning_left_out`` is reasoning that is not sent, ``trimmed``
    is the part of a tool result that was cut, all in tokens. ``score`` is a recalled message's relevance to the question.
    ``mended`` names the rules by which it is sent otherwise than it was stored (``providers.mends``). ``documents`` has a
    line for each of its documents, in their order. ``left_out`` is the number of its pictures, files and sounds that are
    sent as lines, by the limit or the parameter that was the reason.
    """

    seq: int
    role: str
    tokens: int
    kept: bool
    reason: str
    reasoning: int = 0
    reasoning_left_out: int = 0
    trimmed: int = 0
    score: float | None = None
    mended: list[str] = []
    documents: list[ExplainedDocument] = []
    left_out: Annotated[dict[str, int], Meta(title="LeftOut", description="The number of media by reason.")] = {}
