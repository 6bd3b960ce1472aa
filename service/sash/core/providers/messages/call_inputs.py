"""Reads the input of a call as a JSON object. It also comes as a text, as a list, or as any other JSON value.

A stream that ended early leaves the text that came so far. PHP has one kind of array, so ``json_encode`` writes an empty
object as ``[]``. A small model writes what it likes. All are stored as they came, and sent as an object.
"""

from typing import Any, Final

from sash.core.chat.calls import arguments_object
from sash.core.providers.messages.mends import Mend, Mends
from sash.core.providers.messages.pieces import Object, to_json

GivenInput = Any
"""An input as it is accepted: an object, or any other value."""
BROKEN_ARGUMENTS: Final = Mend(
    name="broken_arguments",
    refused="Arguments of a call that are no JSON object, as a cut reply has them, or an empty list for an object, as PHP "
    "writes it; in chat completions by servers of other makers' models",
    sent='The object that the text is, or `{"INVALID_JSON": "…"}`; of empty arguments, `{}`',
    evidence="vLLM answers 400: 'Unterminated string' (vllm-project/vllm 43995, 48922), Alibaba: 'The "
    '"function.arguments" parameter of the code model must be in JSON format\' (HKUDS/nanobot 1487), Anthropic: '
    "'tool_use.input: Input should be a valid dictionary' (anthropics/claude-code 6696; anthropic.types.ToolUseBlockParam)",
)


def input_text(given: GivenInput) -> str:
    """Return an input as the arguments of a chat message's call."""
    if isinstance(given, str):
        return given
    return to_json({} if given is None or given == [] else given)


def with_object(holder: Object, member: str, seq: int, mends: Mends) -> Object:
    """Return what has a call's input as ``member`` with an object there; nothing changes where it is one, or is missing."""
    given = holder.get(member)
    if isinstance(given, dict) or member not in holder:
        return holder
    mends.add(BROKEN_ARGUMENTS, seq)
    return {**holder, member: arguments_object(input_text(given), custom=False)}
