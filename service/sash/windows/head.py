"""What an answer says of its window before the request: who it is for, what it costs, and what was left out."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sash.core.chat.messages import Metadata
from sash.core.law.fixed_parts.cost import Cost
from sash.core.law.recall import Searched
from sash.core.law.records.figures import Dropped, WindowTokens


class Kept(msgspec.Struct, frozen=True):
    """The messages that are sent: their number, and the first and last sequence number, which are null if there is none."""

    messages: int
    first_seq: int | None
    last_seq: int | None


class SentDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A document that is sent, and where it is from, for citations. ``seq`` is its message's."""

    seq: int
    id: str | None = None
    title: str | None = None
    url: str | None = None
    metadata: Metadata | None = None


class WindowGrounding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Documents of the sent messages: their number, the number that is sent, and whether one was cut, shortened or left
    out."""

    documents: int
    documents_kept: int
    truncated: bool
    documents_shortened: Annotated[int, Meta(description="Kept documents that are sent at a shorter level.")]
    sources: Annotated[
        list[SentDocument],
        Meta(description="The kept documents, as they are sent. Only where one has a title, an address or metadata."),
    ] = []


class Trimmed(msgspec.Struct, frozen=True):
    """Tool results that are sent shortened or as one line: their number, and the tokens that were cut."""

    messages: int
    tokens: int


class WindowRecalled(msgspec.Struct, frozen=True):
    """Older messages in the window that are relevant to the question, their tokens, and the range that was searched."""

    messages: int
    tokens: int
    seqs: list[int]
    searched: Searched


class Mended(msgspec.Struct, frozen=True):
    """Messages that are sent otherwise than they were stored, because their provider would refuse them."""

    messages: int
    reasons: Annotated[dict[str, int], Meta(title="MendReasons", description="The number of messages by mend.")]


class WindowHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A window's members, except ``request``, whose bytes are spliced in after them."""

    conversation_id: str | None
    version: int | None
    etag: Annotated[str | None, Meta(description="The conversation's state, as the header `ETag` has it.")]
    model: str
    encoding: Annotated[str, Meta(description="The vocabulary that the tokens were counted with.")]
    exact: Annotated[bool, Meta(description="Whether the count is the provider's own; false for an estimate.")]
    context_window: Annotated[
        int | None, Meta(description="The model's context window in tokens; null if Sash does not know it.")
    ]
    max_input_tokens: int | None
    reserve: int
    budget: Annotated[int, Meta(description="The largest number of tokens for the window.")]
    format: str
    tokens: WindowTokens
    kept: Kept
    dropped: Dropped
    grounding: WindowGrounding
    stop_reason: str
    summary_used: bool
    note: Annotated[int, Meta(description="The number of left-out messages that the note names; 0 without a note.")]
    trimmed: Trimmed | None = None
    mended: Mended | None = None
    names: Annotated[
        dict[str, str],
        Meta(
            title="SentNames",
            description="Tools that are sent with another name, because the model's server refuses their own: each sent "
            "name with the tool's own. A call of the reply has the sent name.",
        ),
    ] = {}
    waiting_for: Annotated[list[str], Meta(description="Ids of the calls at the end that wait for their results.")] = []
    cost: Cost | None = None
    correction: Annotated[
        float | None, Meta(description="The factor that corrects the estimate, computed from reported bills.")
    ] = None
    model_assumed: Annotated[
        str | None,
        Meta(description="The model or family whose figures stand in for a name that no source lists."),
    ] = None
    recalled: WindowRecalled | None = None
    unknown_view: Annotated[
        str | None,
        Meta(
            description="The view, where it is none of the conversation's `agents`: the window has what is for all, and may "
            "be meant for another. `GET /conversations/{conversation_id}` lists them."
        ),
    ] = None
    explain: list[Any] | None = None
    receipt: Annotated[
        str | None,
        Meta(
            description="The window's name, at most 160 characters: `GET …/window?receipt=` makes it again. Null without a "
            "stored conversation."
        ),
    ] = None


NO_DOCUMENTS: Final = WindowGrounding(0, 0, truncated=False, documents_shortened=0)
