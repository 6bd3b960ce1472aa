"""The kept messages as the request of each provider, ready to go into its SDK beside the model.

Messages come in as OpenAI chat messages and go out in one of four forms::

    openai      client.chat.completions.create(model=…, **request)      as kept
    responses   client.responses.create(model=…, **request)
    anthropic   client.messages.create(model=…, max_tokens=…, **request)
    gemini      client.models.generate_content(model=…, **request)

What a form has no exact place for goes where it loses least, and what it cannot carry at all is refused by name:

==================  ==========================  ===============================  ==================================
in the history      responses                   anthropic                        gemini
==================  ==========================  ===============================  ==================================
system, developer   the first: instructions;    ``system``, in order, a blank    ``system_instruction``, likewise
                    later ones in their place   line between
user after user     two items                   one turn                         one turn
first is assistant  as it is                    a user turn ``…`` before it      a user turn ``…`` before it
empty user message  empty text                  ``…``                            ``…``
empty assistant     left out                    left out                         left out
tool call           function_call item          tool_use, input an object        function_call, args an object
tool result         function_call_output item   tool_result, first in its turn   function_response, in call order
``name``            ``alice: `` before the text, for user and system messages alone
refusal             the assistant's text        the assistant's text             the assistant's text
image               input_image                 base64 or URL source             inline_data or file_data
file                input_file                  document                         inline_data or file_data
audio               refused                     refused                          inline_data
==================  ==========================  ===============================  ==================================

Why so:

* A later system message goes up to the system text and so loses its place, but not its authority: as a user's words
  it would keep the place, and anybody could write one. Anthropic takes ``role: system`` inside the history for its
  newest models alone, and answers 400 for the others; its own OpenAI endpoint puts all system text at the top, too.
* A history may begin with the assistant (a greeting, or a cut): ``start=user`` avoids the ``…``.
* An assistant's ``name`` is left out: the model would begin its own replies with it.
* Tool call ids are made to fit (64 characters; letters, digits, ``_`` and ``-`` for Anthropic) and to be unique in the
  request, the result's with the call's. An id that fits and is new is not touched.
* Arguments that are no JSON object (a reply cut short) would block the conversation for good if they were refused.
  They go as ``{"INVALID_JSON": "…"}``, as Anthropic's documents advise for it; empty arguments are ``{}``.
* Calls that still wait for their results are left as they are at the end of a history, and refused elsewhere.

``tools`` and ``tool_choice`` are left out when there are no tools: every provider refuses the one without the other.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from service.core.formats import anthropic, gemini, responses
from service.core.formats.history import Outgoing, Refusals

__all__ = ["FORMATS", "Outgoing", "render_request"]

FORMATS: Final = ("openai", "responses", "anthropic", "gemini")

_Render = Callable[[Sequence[Outgoing], list[dict[str, Any]], Any, Refusals], dict[str, Any]]

_RENDER: Final[dict[str, _Render]] = {
    "responses": responses.render,
    "anthropic": anthropic.render,
    "gemini": gemini.render,
}


def render_request(
    format: str,  # noqa: A002 - the parameter's name in the contract
    messages: Sequence[Outgoing],
    *,
    tools: list[dict[str, Any]] | None = None,
    tool_choice: Any | None = None,
) -> dict[str, Any]:
    """What the SDK of ``format``, one of `FORMATS`, takes beside the model and the limit of the reply.

    A history that holds fixed parts alone gives an empty list of messages, which the caller's next turn joins.

    Raises:
        FormatCannotCarry: naming every place at once: ``#/messages/{seq}/content/1``, ``#/tools/0/type``.
    """
    offered = tools or []
    choice = tool_choice if offered else None
    if format == "openai":
        request: dict[str, Any] = {"messages": [outgoing.message for outgoing in messages]}
        return request | ({"tools": offered} if offered else {}) | ({"tool_choice": choice} if choice else {})
    refusals = Refusals(format)
    request = _RENDER[format](messages, offered, choice, refusals)
    refusals.check()
    return request
