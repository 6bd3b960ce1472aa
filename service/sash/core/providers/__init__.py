"""Providers' forms of a request, one file a provider, each with a record of all that is true of it (``provider.py``).

A window's messages are written as the arguments of a provider's SDK besides the model.

Messages come in as OpenAI chat messages and go out in one of these forms::

    openai      client.chat.completions.create(model=…, **request)      as kept
    responses   client.responses.create(model=…, **request)
    anthropic   client.messages.create(model=…, max_tokens=…, **request)
    gemini      client.models.generate_content(model=…, **request)
    interactions client.interactions.create(model=…, **request)       Gemini's newer form, with the rules of ``gemini``
    converse    client.converse(modelId=…, **request)                 Bedrock's, mostly with the rules of ``anthropic``
    ollama      client.chat(model=…, **request)                       near ``openai``, without ids of calls
    cohere      client.chat(model=…, **request)                       near ``openai``, with a plan beside calls

A part without an exact place in a form goes where it loses least. A part that the form cannot carry is refused by name:

==================  ==========================  ===============================  ==================================
in the history      responses                   anthropic                        gemini
==================  ==========================  ===============================  ==================================
system, developer   the first: instructions;    the first: ``system``; later     the first: ``systemInstruction``;
                    later ones in their place   ones in their place              later ones in their place
user after user     two items                   one turn                         one turn
first is assistant  as it is                    a user turn ``…`` before it      a user turn ``…`` before it
empty user message  empty text                  ``…``                            ``…``
empty assistant     left out                    left out                         left out
tool call           function_call item          tool_use, input an object        functionCall, args an object
tool result         function_call_output item   tool_result, first in its turn   functionResponse, in call order
``name``            ``alice: `` before the text, for user and system messages alone
refusal             the assistant's text        the assistant's text             the assistant's text
image               input_image                 base64 or URL source             inlineData or fileData
file                input_file                  document                         inlineData or fileData
audio               a line of text              refused                          inlineData
a client's members  left out, and told          left out, and told               left out, and told
citations, titles   left out, and told          left out, and told               left out, and told
kept elsewhere      its own; else a line        its own; else a line             its own; else a line
result's picture    input_image, input_file     image, document                  in the response, or behind it
hosted tool's part  a line of text              a line of text                   a line of text
==================  ==========================  ===============================  ==================================

Reasons:

* A later system message stays in its place, with its role where the model takes it (Claude from Opus 4.8 on), and else as a
  text of the user's, "System note: …". Moved up, it would change the first bytes of the request, so that the provider's
  cache has nothing of the history (BerriAI/litellm 38053). It has the authority that any user's words have there.
* An empty reply of the assistant that was interrupted is left out of chat completions too, before a form is chosen: Mistral
  answers 400 ('Assistant message must have either content or tool_calls, but not none').
* A history may begin with the assistant (a greeting, or a cut): ``start=user`` avoids the ``…``.
* An assistant's ``name`` is left out, and told: the model would begin its own replies with it.
* A file or a picture that has only an id or an address (``kept elsewhere``) is a line where the form cannot read it.
* Tool call ids are changed to fit (64 characters; letters, digits, ``_`` and ``-`` for Anthropic) and to be unique in the
  request. A result gets the same id as its call. An id that fits and is new stays as it is.
* Arguments that are not a JSON object (a reply was cut short) are sent as ``{"INVALID_JSON": "…"}``, as Anthropic's
  documents advise. To refuse them would block the conversation for ever. Empty arguments are ``{}``.
* Calls without results stay as they are at the end of a history, and are refused elsewhere.

* A provider's own parts, such as a web search, go to other providers as lines of text (``hosted``). What has no words is
  refused, or left out with ``uncarried=drop``.

``tools`` and ``tool_choice`` are left out when there are no tools: every provider refuses a choice without tools.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from sash.core.providers.anthropic.anthropic import ANTHROPIC
from sash.core.providers.bedrock.converse import CONVERSE
from sash.core.providers.cohere.cohere import COHERE
from sash.core.providers.form.provider import Provider
from sash.core.providers.google.gemini import GEMINI
from sash.core.providers.google.interactions import INTERACTIONS
from sash.core.providers.messages.mends import Mends
from sash.core.providers.ollama.ollama import OLLAMA
from sash.core.providers.openai.openai import OPENAI
from sash.core.providers.openai.responses import RESPONSES
from sash.core.providers.writing.turns import Outgoing, RequestWriting

PROVIDERS: Final[dict[str, Provider]] = {
    each.name: each for each in (OPENAI, RESPONSES, ANTHROPIC, GEMINI, INTERACTIONS, CONVERSE, OLLAMA, COHERE)
}
"""Every form, by its name. To add a provider, write its file and name it here."""
CHAT: Final = OPENAI.name
"""The form in which messages are stored."""


def render_request(
    format: str,  # noqa: A002 - the parameter's name in the contract
    messages: Sequence[Outgoing],
    *,
    tools: list[dict[str, Any]] | None = None,
    tool_choice: Any | None = None,
    mends: Mends | None = None,
    model: str = "",
    maker: str = "",
    drops: bool = False,
    hinted: bool = False,
    now: int = 0,
    came: Callable[[int], int] = lambda _seq: 0,
) -> dict[str, Any]:
    """Return the arguments that the SDK of ``format``, a name in PROVIDERS, takes beside the model and the reply's limit.

    Without messages beside the fixed parts, the list of messages is empty, and the caller adds its next turn to it.
    ``mends`` gathers what is changed so that the provider accepts the request. ``model``, ``maker``, ``drops``, ``hinted``,
    ``now`` and ``came`` are as in ``RequestWriting``.

    Raises:
        FormatCannotCarry: the form has no place for some parts; the problem names each: ``#/messages/{seq}/content/1``.
    """
    offered = tools or []
    writing = RequestWriting(format, mends, model=model, maker=maker, drops=drops, hinted=hinted, now=now, came=came)
    request = PROVIDERS[format].write(messages, offered, tool_choice if offered else None, writing)
    writing.check()
    return request


@lru_cache(maxsize=1024)
def binds_reasoning(model: str) -> bool:
    """Return whether a model refuses or drops reasoning if anything before it has changed."""
    return any(each.binds_reasoning and each.binds_reasoning.search(model) for each in PROVIDERS.values())
