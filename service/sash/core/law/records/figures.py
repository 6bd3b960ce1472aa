"""What an answer tells of its window: what it costs, what it leaves out, and with ``explain`` each message and document."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sash.core.law.records.reasons import Outcome


class WindowTokens(msgspec.Struct, frozen=True):
    """The prediction of ``prompt_tokens``: ``total`` is the sum of the other figures, which are tokens by kind of part."""

    total: int
    priming: int
    system: int
    few_shots: int
    tools: int
    summary: int
    messages: int
    grounding: int
    reasoning: int

    def plus(self, part: str, tokens: int) -> "WindowTokens":
        """These figures with ``tokens`` added to this part and to the total."""
        return msgspec.structs.replace(self, total=self.total + tokens, **{part: getattr(self, part) + tokens})

    @property
    def parts(self) -> dict[str, int]:
        """The tokens by part."""
        return {name: tokens for name, tokens in msgspec.structs.asdict(self).items() if name != "total"}


class Dropped(msgspec.Struct, frozen=True):
    """Parts of the history that the window leaves out, in messages and in tokens of the encoding."""

    messages: int
    tokens: int
    duplicates: int
    grounding_messages: int
    grounding_tokens: int
    reasoning_tokens: Annotated[int, Meta(description="Reasoning of messages that are sent without it.")]
    images: Annotated[int, Meta(description="Pictures of sent messages that are sent as one line of text.")]
    files: Annotated[int, Meta(description="Files and sounds of sent messages that are sent as one line of text.")]
    media_bytes: Annotated[int, Meta(description="Bytes that these pictures, files and sounds have as JSON.")]


NOTHING_DROPPED: Final = Dropped(*[0] * len(Dropped.__struct_fields__))
"""The figures of a window that leaves nothing out."""


class ExplainedDocument(msgspec.Struct, frozen=True):
    """Whether a document of a message is in the window, and why."""

    id: str | None
    outcome: Annotated[
        Outcome,
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
