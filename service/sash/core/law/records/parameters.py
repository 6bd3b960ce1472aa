"""A window's parameters, each declared once with its type, bounds, default and meaning.

Query, body, command line, OpenAPI document and ``build_window`` use this declaration, so a new parameter is one new field.
A type with a ``title`` is a named type of the OpenAPI document.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from sash.core.chat.messages import AgentName
from sash.core.providers import CHAT, PROVIDERS

LONGEST_NAME = 256
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, examples=["gpt-4o-mini"])]
Reserve = Annotated[int, Meta(ge=0, le=100_000_000)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
Limit = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Groups = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Step = Annotated[float, Meta(ge=0.05, le=0.5)]
if TYPE_CHECKING:
    FormName = str
else:
    FormName = Literal[tuple(PROVIDERS)]

WindowFormat = Annotated[
    FormName,
    Meta(title="WindowFormat", description="A provider's format: of a window's `request`, or of the body's messages."),
]
CountFormat = Annotated[
    FormName,
    Meta(
        title="CountFormat",
        description="The format of the body: chat completions (`openai`), or another provider's own request.",
    ),
]


AgentView = Annotated[
    AgentName | None,
    Meta(
        description="The agent that the answer is for. Messages whose `audience` does not name it are left out, and other "
        "agents' tool groups become their last text. A window tells a view that is none of the conversation's agents, in "
        "`unknown_view`. A filter, and no access control."
    ),
]


class WindowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, cache_hash=True):
    """A window's parameters."""

    model: Annotated[
        Name | None, Meta(description="The model that will read the window; by default the conversation's.")
    ] = None
    reserve: Annotated[
        Reserve | None, Meta(description="Tokens kept free for the reply; by default the conversation's, else 1024.")
    ] = None
    max_tokens: Annotated[
        Tokens | None, Meta(description="A smaller limit than the model's, in tokens. Required for an unknown model.")
    ] = None
    limit: Annotated[Limit | None, Meta(description="The largest number of newest messages.")] = None
    turns: Annotated[
        Limit | None,
        Meta(description="The largest number of newest turns: each is a user message and what follows it."),
    ] = None
    overflow: Annotated[
        Literal["stop", "skip"],
        Meta(
            title="Overflow",
            description="At the first message that does not fit: `stop`, or `skip` it and try the 256 older ones.",
        ),
    ] = "stop"
    grounding: Annotated[
        Literal["latest", "all", "none"],
        Meta(
            title="GroundingChoice",
            description="Send documents with the newest user message (`latest`), with `all` (each document once), or "
            "`none`.",
        ),
    ] = "latest"
    grounding_max_tokens: Annotated[Tokens | None, Meta(description="The documents' own budget, in tokens.")] = None
    grounding_overflow: Annotated[
        Literal["trim", "whole", "drop", "error"],
        Meta(
            title="GroundingOverflow",
            description="If documents do not fit, their shorter levels are sent. If these do not fit either: `trim` (the "
            "first ones whole, and one cut), `whole` ones only, `drop` them all, or answer with an `error`.",
        ),
    ] = "trim"
    dedupe: Annotated[
        Literal["grounding", "messages", "none"],
        Meta(
            title="Dedupe",
            description="Send repeated content once, at its newest place: documents (`grounding`), documents and messages "
            "(`messages`), or `none`.",
        ),
    ] = "grounding"
    stable: Annotated[
        bool | Literal["auto"],
        Meta(
            title="Stable",
            description="Leave history out in steps, so that the provider's prompt cache can be used. `auto`: with the "
            "model's cheapest step, and only if the model has a prompt cache.",
        ),
    ] = False
    stable_step: Annotated[
        Step, Meta(description="The size of a step, as a share of the budget; `stable=auto` chooses its own.")
    ] = 0.5
    start: Annotated[
        Literal["any", "user"],
        Meta(title="WindowStart", description="`user`: the kept history begins with a user message."),
    ] = "any"
    summary: Annotated[
        Literal["auto", "never", "always"],
        Meta(
            title="SummaryUse",
            description="When the summary is sent: if messages that it covers are left out (`auto`), `never`, or `always`. "
            "A provider's compaction is always sent with `auto`, in place of what it covers.",
        ),
    ] = "auto"
    recall_max_tokens: Annotated[
        Reserve, Meta(description="Tokens of the budget for older messages that are relevant to the newest question.")
    ] = 0
    recall_query: Annotated[
        Annotated[str, Meta(min_length=1, max_length=10_000)] | None,
        Meta(description="The text to recall messages for; by default the newest user message."),
    ] = None
    note: Annotated[bool, Meta(description="Add a system message with the number of left-out messages.")] = False
    reasoning: Annotated[
        Literal["turn", "all", "none"],
        Meta(
            title="ReasoningChoice",
            description="The reasoning that is sent: of the newest turn's tool loop (`turn`), `all`, or `none`. Calls keep "
            "what their server requires: signatures of Gemini's newest ones, the reasoning of DeepSeek's and Kimi's.",
        ),
    ] = "turn"
    tool_result_max_tokens: Annotated[
        Tokens | None, Meta(description="Cut longer tool results to this, in tokens. Their beginning and end are kept.")
    ] = None
    tool_results_kept: Annotated[
        Groups | None,
        Meta(description="The number of newest tool groups with full results. Older results become one line each."),
    ] = None
    tool_result_overflow: Annotated[
        Literal["trim", "error"],
        Meta(
            title="ToolResultOverflow",
            description="If results of the newest tool group do not fit: `trim` them, or answer with an `error`.",
        ),
    ] = "trim"
    images_kept: Annotated[
        Groups | None,
        Meta(
            description="The number of newest pictures that are sent. Older ones become one line of text each, except in "
            "required messages."
        ),
    ] = None
    unanswered: Annotated[
        Literal["note", "drop"],
        Meta(
            title="Unanswered",
            description="A call without a result, before other messages: a line says so as its result (`note`), or `drop` "
            "it.",
        ),
    ] = "note"
    uncarried: Annotated[
        Literal["error", "drop"],
        Meta(
            title="Uncarried",
            description="Parts of messages that the format has no place for: an `error`, or `drop` them and say so in "
            "`mended`.",
        ),
    ] = "error"
    history_tools: Annotated[
        bool,
        Meta(
            description="Add the tools `history_search` and `history_read`, by which the model reads what the window leaves "
            "out. `POST …/tools/{name}` answers their calls. Needs `recall`."
        ),
    ] = False
    cache: Annotated[
        Literal["none", "auto"],
        Meta(
            title="CacheHints",
            description="`auto`: add hints for the provider's prompt cache, in its own format, at stable places.",
        ),
    ] = "none"
    price: Annotated[
        Literal["none", "auto"],
        Meta(
            title="PriceChoice",
            description="`auto`: stay below a price tier unless what must be in does not fit below it.",
        ),
    ] = "none"
    explain: Annotated[bool, Meta(description="Add a line for each considered message: kept or not, and why.")] = False
    view: AgentView = None
    format: WindowFormat = CHAT
