"""Bodies of requests and answers. Validation, encoding and the OpenAPI document follow from these declarations."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import (
    AgentName,
    Audience,
    EntryName,
    Grounding,
    Id,
    Metadata,
    ReceiptText,
    SentEntry,
    Status,
)
from sash.core.counts.models.models import Counting, WindowSource
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.core.law.records.figures import Explained
from sash.core.law.records.parameters import WindowFormat, WindowQuery
from sash.core.providers.destinations.facts import Kind, Party
from sash.core.providers.form.cache_marks import CacheKind
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.screens.forks import ScreenWays
from sash.operations.summary import Prices
from sash.problems import ProblemDocument, all_figures
from sash.windows.head import WindowHead

Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""RFC 3339, in UTC, to the millisecond."""
Lines = Annotated[str, Meta(min_length=1, description="A line of settings, then one line for each entry.")]
Window = Annotated[dict[str, Any], Meta(title="Window")]
"""A window, which is JSON already when it is answered. ``WindowDocument`` declares its members for the contract."""
if TYPE_CHECKING:
    ProblemObject = ProblemDocument
else:
    ProblemObject = msgspec.defstruct(
        "Problem",
        [(name, kind | msgspec.UnsetType, msgspec.UNSET) for name, kind in all_figures().items()],
        bases=(ProblemDocument,),
        namespace={
            "__doc__": "A problem (RFC 9457), with the figures of its type. `GET /problems/{slug}` says what a type means, "
            "and what to do about it."
        },
    )


class CreateConversation(
    ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A new conversation; every field is optional."""

    id: Annotated[Id | None, Meta(description="The client's own id; Sash makes one if it is left out.")] = None


class EncodingTokens(msgspec.Struct, frozen=True):
    """Tokens in each encoding."""

    o200k_base: int
    cl100k_base: int


class MessageRange(msgspec.Struct, frozen=True):
    """The number of messages, and their first and last sequence numbers, which are null if there is none."""

    count: int
    first_seq: int | None
    last_seq: int | None


class ConversationSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text that replaces messages 1 to ``through_seq``; ``item`` is a provider's compaction item, ``items`` the whole
    output of ``/responses/compact``, which ends with it."""

    text: str
    through_seq: int
    tokens: EncodingTokens
    item: ProviderObject | None = None
    items: list[ProviderObject] = []


class StandingCompaction(msgspec.Struct, frozen=True):
    """A provider's compaction: message ``seq``, which stands for all messages before it in windows of its format."""

    format: str
    seq: int


class RecallProgress(msgspec.Struct, frozen=True):
    """The conversation's recall mode, and how many of its messages are indexed by now."""

    mode: str
    messages: int
    words: int
    vectors: int


ETag = Annotated[
    str, Meta(description="One state of the conversation, as the header `ETag` has it: send it in `If-Match`.")
]


class ExportedConversation(
    ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False
):
    """A conversation's settings and state, without what names one life of it."""

    id: str
    version: int
    created_at: Timestamp
    updated_at: Timestamp
    messages: MessageRange
    tokens: EncodingTokens
    expires_at: Timestamp | None
    summary: ConversationSummary | None
    compactions: list[StandingCompaction] = msgspec.field(default_factory=list)
    recall_progress: RecallProgress | None = None


class ExportedView(ExportedConversation, frozen=True, kw_only=True, omit_defaults=True):
    """The same of an export of what one agent sees, which cannot be imported."""

    view: str


class SealedBranch(msgspec.Struct, frozen=True):
    """The branch that the log's end became: the number of its messages, and the seq of the message before them."""

    id: str
    after_seq: int
    messages: int


ForgottenBranches = Annotated[
    list[str] | msgspec.UnsetType,
    Meta(
        description="Ids of branches that are gone, if there are any: the oldest, as a conversation keeps 100 of 1 MiB "
        "together; those that hung in what was forgotten; or the log's end itself, which was too large to be kept."
    ),
]


class Conversation(ExportedConversation, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation's settings and state."""

    etag: ETag
    agents: Annotated[
        list[str],
        Meta(
            description="Every author and audience so far, in the order in which they came: the views that there are. Up to "
            "16 KiB of names."
        ),
    ] = msgspec.field(default_factory=list)
    branch: Annotated[
        SealedBranch | None,
        Meta(description="Of a rewind alone: the messages that were taken away, if they are kept."),
    ] = None
    forgotten_branches: ForgottenBranches = msgspec.UNSET


class RewoundTail(TypedDict, total=False):
    """The members that only the answer to a rewind has."""

    branch: SealedBranch | None
    forgotten_branches: list[str] | msgspec.UnsetType


AfterSeq = Annotated[
    EntryName,
    Meta(
        description="Replace the messages after this one, in the same step, to regenerate or edit the last question: "
        "its seq, or `id:` and its own id. 0 replaces all messages. What was replaced is a branch then. "
        "The same entries again, which stand right there, are a retry, which replaces nothing."
    ),
]


class AppendMessages(msgspec.Struct, forbid_unknown_fields=True):
    """Entries to append, all or none, in order."""

    in_address: ClassVar = WindowQuery
    messages: Annotated[
        list[SentEntry],
        Meta(
            min_length=1,
            description="Entries. A bare chat message is taken as an entry with that message. The entry's other members, "
            "such as `id` and `pinned`, may stand beside `role`.",
        ),
    ]
    after_seq: AfterSeq | None = None


class AgreeMessages(msgspec.Struct, forbid_unknown_fields=True):
    """The chat as its user sees it, or a part of it."""

    in_address: ClassVar = WindowQuery
    messages: Annotated[
        list[SentEntry],
        Meta(
            min_length=1,
            description="The chat's messages, oldest first. A bare chat message is taken as an entry with that message. A "
            "reply without words and with the status `in_progress` at the end is begun.",
        ),
    ]


class AgreedMessage(msgspec.Struct, frozen=True):
    """A message behind those that agree: a new one, or a `duplicate`, which is as the log had it."""

    seq: int
    id: str
    duplicate: bool


class AgreedMessages(msgspec.Struct):
    """What the log had to become; if a window was requested, the window, or ``window_error`` if it could not be made."""

    conversation_id: str
    version: int
    etag: ETag
    agreed: Annotated[int, Meta(description="The number of the log's messages that the list has, too.")]
    messages: list[AgreedMessage]
    branch: Annotated[
        SealedBranch | None,
        Meta(description="What the list does not have, and is kept as a branch; null if there is nothing."),
    ]
    ignored: Annotated[
        list[str],
        Meta(description="Pointers of system messages in the middle of the list that the log does not have."),
    ]
    waiting_for: Annotated[
        list[str] | msgspec.UnsetType,
        Meta(description="Ids of the newest message's calls without a result, if there are any."),
    ] = msgspec.UNSET
    forgotten_branches: ForgottenBranches = msgspec.UNSET
    window: Window | msgspec.UnsetType | None = msgspec.UNSET
    window_error: ProblemObject | msgspec.UnsetType = msgspec.UNSET


class AppendedMessage(msgspec.Struct, frozen=True):
    """The entry's place, and the tokens of its message without documents."""

    seq: int
    id: str
    duplicate: bool
    tokens: EncodingTokens


class AppendedMessages(msgspec.Struct):
    """The appended entries; if a window was requested, the window, or ``window_error`` if it could not be made."""

    conversation_id: str
    version: int
    etag: ETag
    first_seq: int
    last_seq: int
    messages: list[AppendedMessage]
    waiting_for: Annotated[
        list[str] | msgspec.UnsetType,
        Meta(description="Ids of the newest message's calls without a result, if there are any."),
    ] = msgspec.UNSET
    branch: Annotated[
        SealedBranch | msgspec.UnsetType, Meta(description="What `after_seq` took away, and is kept as a branch.")
    ] = msgspec.UNSET
    forgotten_branches: ForgottenBranches = msgspec.UNSET
    window: Window | msgspec.UnsetType | None = msgspec.UNSET
    window_error: ProblemObject | msgspec.UnsetType = msgspec.UNSET


class LostMedium(msgspec.Struct, frozen=True):
    """A picture, a file or a sound whose bytes the storage has lost."""

    digest: str
    type: str
    bytes: int
    width: int | None
    height: int | None


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An entry as it is stored."""

    seq: int
    id: str
    created_at: Timestamp
    message: Annotated[msgspec.Raw, Meta(title="ChatMessage")]
    tokens: EncodingTokens
    pinned: bool
    sent: Annotated[bool, Meta(description="Whether windows may have it; it is given where they may not.")] = True
    grounding: Grounding | None = None
    grounding_tokens: EncodingTokens | None = None
    metadata: Annotated[msgspec.Raw, Meta(title="Metadata")] | None = None
    redacted: bool = False
    status: Status | None = None
    own: Annotated[
        list[ProviderObject] | None,
        Meta(description="The message in the page's `format`: as it came, or as it is sent by itself."),
    ] = None
    author: Annotated[AgentName | None, Meta(description="The agent that the message is of.")] = None
    audience: Audience | None = None
    receipt: Annotated[
        ReceiptText | None, Meta(description="The receipt of the window that this message answered, if it was told.")
    ] = None
    in_window: Annotated[
        bool | None, Meta(description="Whether the window that the request names has it, if it names one.")
    ] = None
    lost: Annotated[
        list[LostMedium] | None,
        Meta(description="Pictures and files that the storage has lost: the message has one line of text for each."),
    ] = None
    score: Annotated[
        float | None,
        Meta(description="Of a search alone, where each has one. Scores give the order within one query, and no more."),
    ] = None
    conversation_id: Annotated[
        str | None, Meta(description="The message's conversation; of a search of an owner's conversations alone.")
    ] = None


class ChangeEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A merge patch (RFC 7396) of what stands beside a message: null removes."""

    metadata: Metadata | None = None
    pinned: Annotated[bool | None, Meta(description="Whether the message is in every window.")] = None
    sent: Annotated[
        bool | None,
        Meta(description="Whether windows may have the message and its tool group. Without, it stays in the log."),
    ] = None


class MessagePage(msgspec.Struct, frozen=True):
    """A page of history."""

    messages: list[StoredMessage]
    next_cursor: str | None


ScreenMessage = Annotated[
    dict[str, Any],
    Meta(
        title="ScreenMessage",
        description="A message as a screen's framework has it, such as a UIMessage of the AI SDK. `metadata.sash` is "
        "Sash's: `seq`, `created_at`, `status`, and the `ways` of a message behind a fork.",
    ),
]


class ScreenMessages(msgspec.Struct, frozen=True):
    """A page of history in a screen's form."""

    messages: list[ScreenMessage]
    next_cursor: str | None
    ways: Annotated[
        ScreenWays | None,
        Meta(
            description="The ways behind the newest message, where branches hang there. `metadata.sash.ways` has a "
            "message's own."
        ),
    ] = None


class Calibration(msgspec.Struct, frozen=True):
    """The error of ``n`` reported predictions (predicted - billed, in tokens), and the correction that is applied."""

    n: int
    mean_error: float
    worst_error: int
    correction: Annotated[float, Meta(description="What estimates are multiplied by.")]
    constant: Annotated[
        int, Meta(description="Tokens that are then added once a request, such as those of a host's own prompt.")
    ] = 0


class PredictionOutcome(msgspec.Struct, frozen=True):
    """How close predictions are: billed / predicted tokens of the last 100 reports, and the share that was too low."""

    count: int
    median_ratio: float
    p95_ratio: float
    short_share: float
    drifts: Annotated[
        bool,
        Meta(
            description="Of ten bills or more, an exact model's differ by over 1 % on average, or over 5 % of an estimate's "
            "were above their prediction."
        ),
    ]


class TierPrices(Prices, frozen=True, kw_only=True):
    """Prices of a request of more than ``above`` input tokens; ``factor`` is its input price over the first tier's."""

    above: int
    factor: float


class ModelPrices(Prices, frozen=True, kw_only=True):
    """List prices, and other ones of longer requests. A tier's prices are those of all tokens of a request."""

    tiers: list[TierPrices]
    source: Annotated[
        str,
        Meta(description="Where the prices are from: `genai-prices` with its version, or `operator`: the models file."),
    ]
    as_of: Annotated[
        str | None,
        Meta(description="The day whose list prices these are; null for the operator's.", examples=["2026-11-26"]),
    ]


class CacheLifetime(msgspec.Struct, frozen=True):
    """A time for which an entry is kept after its last use, and the price of writing it, in dollars for a million tokens."""

    seconds: int
    write: float


class ModelCache(msgspec.Struct, frozen=True):
    """A model's prompt cache: the shortest cached prefix, and the lifetimes that may be asked for, the shortest first.

    ``implicit``: any prefix is cached. ``breakpoints``, ``cache_control``: prefixes that end at marks, as of ``cache=auto``.
    """

    kind: Annotated[CacheKind, Meta(title="CacheKind")]
    minimum_tokens: int
    lifetimes: list[CacheLifetime]


class DestinationFact(msgspec.Struct, frozen=True):
    """What one of those that read a request refuses or wants, in which form, and where it is known from."""

    kind: Annotated[Kind, Meta(title="DestinationFactKind")]
    value: str
    meaning: Annotated[str, Meta(description="What requests are like, so that they are taken.")]
    of: Annotated[Party, Meta(title="DestinationParty")]
    name: Annotated[str, Meta(description="The form, the maker, the host or the template whose fact it is.")]
    evidence: Annotated[str, Meta(description="Reports by repository and number, a document, or an SDK's type.")]
    read_on: Annotated[date, Meta(description="The day on which the evidence was read.")]


class TakenMedia(msgspec.Struct, frozen=True):
    """The media types that a model takes in a format, beside texts; null where each is taken, an empty list where none is.
    Others are sent as a line of text."""

    pictures: list[str] | None
    files: list[str] | None
    sounds: list[str] | None


class ModelDestination(msgspec.Struct, frozen=True):
    """Who reads a model's requests in one format, and what windows in it heed."""

    format: str
    host: Annotated[
        str | None, Meta(description="The host that the model's name or the format says; null where none is said.")
    ]
    takes: TakenMedia
    facts: Annotated[
        list[DestinationFact], Meta(description="The strictest of each kind. What has no fact here is not restricted.")
    ]


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model's figures. Windows are in tokens, and null where Sash does not know them."""

    id: str
    provider: str
    encoding: str
    exact: bool
    counting: Annotated[
        Counting,
        Meta(
            description="`exact`: recorded bills agree. `vocabulary`: text is counted with the vendor's own vocabulary, "
            "and the tokens around it are estimated. `estimate`: all tokens are estimated. `unknown`: no source lists the "
            "model, and its tokens are a bound."
        ),
    ]
    context_window: int | None
    context_window_source: Annotated[
        WindowSource,
        Meta(description="`listed`: by the maker, a seller or the operator. `assumed`: no source states it."),
    ]
    model_assumed: Annotated[
        str | None,
        Meta(description="The model or family whose figures stand in for a name that no source lists."),
    ]
    max_input_tokens: int | None
    max_output_tokens: int | None
    margin: float
    limits: Annotated[RequestLimits, Meta(description="The largest request that windows for this model may be.")]
    prices: Annotated[
        ModelPrices | None,
        Meta(
            description="Dollars for a million input tokens, by genai-prices or the operator; null where none is known."
        ),
    ]
    prompt_cache: Annotated[ModelCache | None, Meta(description="Null for a model without a documented prompt cache.")]
    calibration: Calibration | None
    predictions: Annotated[
        PredictionOutcome | None,
        Meta(description="How close predictions are here; null without reports of usage, and in the list of models."),
    ] = None
    destinations: Annotated[
        list[ModelDestination] | None,
        Meta(
            description="By format: chat completions, and those that its maker or host serves; null in the list of models."
        ),
    ] = None


class ModelList(msgspec.Struct):
    """Every model known by name."""

    models: list[ModelInfo]


class Alive(msgspec.Struct):
    """The process answers."""

    status: Literal["alive"]


class ReadyStore(msgspec.Struct):
    """The store's persistence settings, and how they give the durability that the service promises."""

    appendonly: Literal["yes", "no", "unknown"]
    appendfsync: Literal["always", "everysec", "no", "unknown"]
    how: str


class Ready(msgspec.Struct):
    """Any server of the store serves any verb: reading, appending or erasing."""

    status: Literal["ready"]
    durability: Annotated[Literal["fast", "durable", "replicated", "assume"], Meta(title="Durability")]
    store: ReadyStore
    degraded: Annotated[
        list[str], Meta(description="The store's servers that refuse a verb, each with the reason; empty if none does.")
    ]


class ProblemMeaning(msgspec.Struct, frozen=True):
    """The meaning of a problem type, and what to do about it, both in Markdown."""

    type: str
    title: str
    status: int
    means: str
    do: str


StopReason = Annotated[
    Literal["complete", "budget", "limit", "summary", "bytes", "images", "price", "horizon"],
    Meta(
        title="StopReason",
        description="Why older history is left out; `complete` if nothing is left out for its size. `bytes` and `images`: "
        "the model's provider takes no more, also where only pictures are left out. "
        "`price`: more would cost more (`price=auto`). `horizon`: a `view` looks no further back.",
    ),
]


class WindowDocument(WindowHead, frozen=True, kw_only=True):
    """The messages to send, and their figures."""

    # For the OpenAPI document alone: ``windows/flow.py`` encodes windows.
    format: WindowFormat
    request: Annotated[
        ProviderObject,
        Meta(description="What the provider's SDK takes beside the model, in the window's `format`, ready to send."),
    ]
    stop_reason: StopReason
    explain: list[Explained] | None = None
