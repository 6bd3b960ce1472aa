"""Put another text into a tool result that is sent as it came, because it is cut."""

from collections.abc import Mapping
from typing import Any, Final

from service.core.native.pieces import Object
from service.core.native.sharing import fill, share

_TEXTS: Final = frozenset({"text", "search_result", "input_text", "output_text"})
"""Parts of a result whose words are the chat message's text."""
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
"""Results of Responses that are text. Others, such as a shell's, have no place for another text."""


def with_text(message: Mapping[str, Any], text: str, *, alone: bool) -> Object:
    """Return a tool message with another text, in its member ``native``, too; without that if it has no place for a text.

    The provider's other members (``is_error``, ``cache_control``) stay. ``alone`` leaves out images and files.
    """
    chat: Object = {**message, "content": text}
    native = chat.pop("native", None)
    own = _result_with(native["format"], fill(native["messages"], message)[0], text, alone=alone) if native else None
    if own is None:
        return chat
    kept = {name: value for name, value in native.items() if not (alone and name == "only")}
    return chat | {"native": {**kept, "messages": [share(own, chat)]}}


def _result_with(form: str, own: Object, text: str, *, alone: bool) -> Object | None:
    match form:
        case "anthropic":
            block = own["content"][0]
            return {**own, "content": [{**block, "content": _content(block.get("content"), text, "text", alone=alone)}]}
        case "gemini":
            return {**own, "parts": [_response(own["parts"][0], text, alone=alone)]}
        case _ if own.get("type") in _OUTPUTS:
            return {**own, "output": _content(own.get("output"), text, "input_text", alone=alone)}
    return None


def _content(given: Any, text: str, kind: str, *, alone: bool) -> Any:
    """Return the content of a result with one text in place of all its texts."""
    is_list = isinstance(given, list) and all(isinstance(part.get("type"), str) for part in given)
    parts = given if is_list else []
    places = [index for index, part in enumerate(parts) if part["type"] in _TEXTS]
    marks = [{"cache_control": parts[index]["cache_control"]} for index in places if "cache_control" in parts[index]]
    others = [] if alone else [part for part in parts if part["type"] not in _TEXTS]
    if not (others or marks):
        return text
    place = places[0] if places else 0
    return [*others[:place], {"type": kind, "text": text, **(marks[-1] if marks else {})}, *others[place:]]


def _response(part: Object, text: str, *, alone: bool) -> Object:
    """Return Gemini's part with a text as the response, under its name if it was a lone text."""
    name = "function_response" if part.get("function_response") is not None else "functionResponse"
    given = part[name]
    said = given.get("response") or {}
    key = next(iter(said)) if len(said) == 1 and said.keys() <= {"output", "result"} else "output"
    kept = {name: value for name, value in given.items() if not (alone and name == "parts")}
    return {**part, name: {**kept, "response": {key: text}}}
