"""POST …/tools/{name}: the answer to a model's call of a history tool, as a message to append."""

from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.params import FromPath
from msgspec import Meta

from sash.api.context import Context
from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.core.chat.arguments import ProviderObject
from sash.core.counts.costs.counting import REFERENCE_MODELS
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import read_settings
from sash.core.law.fixed_parts.history_tools import NAMES
from sash.core.law.records.parameters import AgentView, Name
from sash.problems import NotFound
from sash.windows.asked import named_model
from sash.windows.tool_answers import ToolScope

AnswerTokens = Annotated[
    int, Meta(ge=100, le=1_000_000, description="The largest number of tokens of an answer's text.")
]


class HistoryToolCall(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A call that a model made of a history tool."""

    call_id: Annotated[str, Meta(min_length=1, max_length=256, description="The id of the call, as the model gave it.")]
    arguments: Annotated[
        ProviderObject | str,
        Meta(
            title="HistoryToolArguments", description="The call's arguments, as an object or as the JSON text of one."
        ),
    ]
    max_tokens: AnswerTokens = 2000
    model: Annotated[
        Name | None, Meta(description="The model that counts them; by default the conversation's, else GPT-4o.")
    ] = None
    view: AgentView = None


class ToolAnswer(msgspec.Struct, frozen=True):
    """The answer: a tool message, which is appended as any other one, and the tokens of its text."""

    message: Annotated[dict[str, Any], Meta(title="ToolMessage")]
    tokens: int


_decoder = msgspec.json.Decoder(HistoryToolCall)


@post("/conversations/{conversation_id:str}/tools/{name:str}", operation_id="answerTool", status_code=200)
@documented("Answer a call of a history tool", "windows", takes=HistoryToolCall, etag=False, errors=(422,))
async def answer_tool(request: Incoming, name: FromPath[str]) -> ToolAnswer:
    """The answer to a call of `history_search` or `history_read`, which `history_tools=true` adds to windows.

    Nothing is stored. A mistake of the model in its arguments is answered in words, which it can read.
    """
    context, target = request.context, request.target
    if name not in NAMES:
        raise NotFound(f"There is no tool of this name: {' and '.join(NAMES)} are answered here.")
    wanted = await request.decode(_decoder)
    named = wanted.model or read_settings((await context.store.reader.get(target)).settings).model
    text, tokens = await context.recall.answers.answer(
        ToolScope(target.tenant, target.id, view=wanted.view),
        name,
        wanted.arguments,
        model=counted_by(context, named),
        max_tokens=wanted.max_tokens,
    )
    context.watching.metrics.answered_tool(name, "http", tokens)
    return ToolAnswer({"role": "tool", "tool_call_id": wanted.call_id, "content": text}, tokens)


def counted_by(context: Context, name: str | None) -> Model:
    """The model that counts an answer's tokens; GPT-4o where none is named. Raises UnknownModel."""
    return REFERENCE_MODELS[0] if name is None else named_model(name, context.models)
