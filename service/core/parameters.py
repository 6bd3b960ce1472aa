"""How a window is wanted: every parameter once, with its type, bounds, default and meaning.

Query, body, command line, OpenAPI document and the law itself take this declaration; a parameter more is a field more, and
what the law does about it. A type with a ``title`` is a named type of the OpenAPI document.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

LONGEST_NAME = 256
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Reserve = Annotated[int, Meta(ge=0, le=100_000_000)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
Limit = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Groups = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Step = Annotated[float, Meta(ge=0.05, le=0.5)]
Overflow = Annotated[
    Literal["stop", "skip"],
    Meta(
        title="Overflow",
        description="At the first message that does not fit: `stop`, or `skip` it and go on with smaller, older ones.",
    ),
]
GroundingChoice = Annotated[
    Literal["latest", "all", "none"],
    Meta(
        title="GroundingChoice",
        description="Documents on the newest user message (`latest`), on `all`, each document once, or on `none`.",
    ),
]
GroundingOverflow = Annotated[
    Literal["trim", "drop", "error"],
    Meta(
        title="GroundingOverflow",
        description="Documents that do not fit: `trim` to what does, `drop` all, or answer with an `error`.",
    ),
]
Dedupe = Annotated[
    Literal["grounding", "messages", "none"],
    Meta(
        title="Dedupe",
        description="What appears once, at its newest place: documents (`grounding`), besides `messages`, or `none`.",
    ),
]
Stable = Annotated[
    bool | Literal["auto"],
    Meta(
        title="Stable",
        description="Leave history out in steps, so that the provider's prompt cache stays warm. `auto`: in steps that are "
        "cheapest with the model, and not where it has no prompt cache.",
    ),
]
CacheHints = Annotated[
    Literal["none", "auto"],
    Meta(
        title="CacheHints",
        description="`auto`: hints for the provider's prompt cache, in its own form, at places that stay.",
    ),
]
WindowStart = Annotated[
    Literal["any", "user"],
    Meta(title="WindowStart", description="`user`: the kept history begins with a user message."),
]
SummaryUse = Annotated[
    Literal["auto", "never", "always"],
    Meta(
        title="SummaryUse",
        description="When the summary stands in for what it covers: when that is left out (`auto`), `never`, `always`.",
    ),
]
ReasoningChoice = Annotated[
    Literal["turn", "all", "none"],
    Meta(
        title="ReasoningChoice",
        description="Which reasoning is sent: that of the newest turn's tool loop (`turn`), `all`, or `none`.",
    ),
]
ToolResultOverflow = Annotated[
    Literal["trim", "error"],
    Meta(
        title="ToolResultOverflow",
        description="Results of the newest tool group that do not fit: `trim` them to what does, or answer with an `error`.",
    ),
]
WindowFormat = Annotated[
    Literal["openai", "responses", "anthropic", "gemini"],
    Meta(title="WindowFormat", description="The provider whose SDK takes `request`; appended messages are its own."),
]
CountFormat = Annotated[
    Literal["openai", "responses", "anthropic", "gemini"],
    Meta(
        title="CountFormat",
        description="Whose request the body is: a chat completion's (`openai`), or another provider's as it takes it.",
    ),
]


class WindowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a window is wanted."""

    model: Annotated[
        Name | None, Meta(description="The model that will read the window; the conversation's when left out.")
    ] = None
    reserve: Annotated[
        Reserve | None,
        Meta(description="Tokens kept free for the reply; the conversation's when left out, else 1024."),
    ] = None
    max_tokens: Annotated[
        Tokens | None,
        Meta(description="A smaller window than the model's, in tokens; with it an unknown model is no error."),
    ] = None
    limit: Annotated[Limit | None, Meta(description="At most so many of the newest messages.")] = None
    overflow: Overflow = "stop"
    grounding: GroundingChoice = "latest"
    grounding_max_tokens: Annotated[Tokens | None, Meta(description="A budget for documents alone, in tokens.")] = None
    grounding_overflow: GroundingOverflow = "trim"
    dedupe: Dedupe = "grounding"
    stable: Stable = False
    stable_step: Annotated[
        Step, Meta(description="The size of a step, as a share of the budget; `stable=auto` chooses its own.")
    ] = 0.5
    start: WindowStart = "any"
    summary: SummaryUse = "auto"
    recall_max_tokens: Annotated[
        Annotated[int, Meta(ge=0, le=100_000_000)],
        Meta(description="So much of the budget may go to older messages that bear on the newest question."),
    ] = 0
    recall_query: Annotated[
        Annotated[str, Meta(min_length=1, max_length=10_000)] | None,
        Meta(description="What they are to bear on; the newest user message when left out."),
    ] = None
    note: Annotated[bool, Meta(description="One system line in place of what was left out: how many messages.")] = False
    reasoning: ReasoningChoice = "turn"
    tool_result_max_tokens: Annotated[
        Tokens | None,
        Meta(description="Tool results that cost more are cut to this, in tokens: their beginning and their end."),
    ] = None
    tool_results_kept: Annotated[
        Groups | None,
        Meta(description="Results older than those of so many of the newest tool groups become one line each."),
    ] = None
    tool_result_overflow: ToolResultOverflow = "trim"
    cache: CacheHints = "none"
    explain: Annotated[bool, Meta(description="Adds a line for each message considered: kept or not, and why.")] = False
    format: WindowFormat = "openai"
