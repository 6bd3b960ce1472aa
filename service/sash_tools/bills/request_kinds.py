"""What is in a request: the kinds that a row names, and the one kind that is hardest to predict."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sash.core.counts.measures.attachments import image_size
from sash.core.providers import PROVIDERS
from sash.core.providers.form.requests_read import ChatRequest
from sash_tools.bills.truth_rows import TruthRow

Object = dict[str, Any]

FILES: Final = "files and audio"
UNSIZED: Final = "images of unknown size"
HOSTED: Final = "hosted tools"
STORED: Final = "items kept by OpenAI"
REASONING: Final = "reasoning"
HIDDEN: Final = "hosted tools, caches"
REDACTED: Final = "thoughts left out by the recorder"
NOT_SHOWN: Final[Mapping[str, frozenset[str]]] = {
    "OpenAI": frozenset({FILES, UNSIZED}),
    "OpenAI Responses": frozenset({FILES, HOSTED, UNSIZED, STORED, REASONING}),
    "Claude": frozenset({FILES, "images", HIDDEN, REDACTED}),
    "Gemini": frozenset({FILES, "images", HIDDEN, REDACTED}),
}
"""Kinds of each vendor's requests that do not show all that is billed."""


def kinds_of(chat: ChatRequest | None) -> list[str]:
    """Return the kinds in a request that was read in chat form, in a row's words."""
    if chat is None:
        return ["unread"]
    parts = {part.get("type") for message in chat.messages for part in _parts_of(message)}
    found = {
        "tools": bool(chat.tools),
        "tool_calls": any(_calls(each) or each.get("role") == "tool" for each in chat.messages),
        "response_format": chat.response_format is not None,
        "image": "image_url" in parts,
        "file/audio": bool(parts & {"file", "input_audio"}),
    }
    return [*(name for name, is_in in found.items() if is_in), *(f"hosted:{tool.get('type')}" for tool in chat.hosted)]


def kind_of(row: TruthRow, kinds: Sequence[str]) -> str:
    """Return a request's kind, named after the part that is hardest to predict."""
    sent_in = PROVIDERS[row.form]
    if sent_in.is_chat_form:
        return _of_chat(row.sent)
    return (_of_items if sent_in.has_openais_items else _of_vendor)(row.request, set(kinds))


def _of_chat(request: Mapping[str, Any]) -> str:
    parts = [part for message in request["messages"] for part in _parts_of(message)]
    types = {part.get("type") for part in parts}
    if types & {"file", "input_audio"}:
        return FILES
    if "image_url" in types:
        images = (part["image_url"] for part in parts if part.get("type") == "image_url")
        given = [image if isinstance(image, dict) else {"url": image} for image in images]
        return "images" if all(_is_sized(image, image.get("url")) for image in given) else UNSIZED
    if has_schema(request.get("response_format")):
        return "response format"
    if any(each["role"] in ("tool", "function") or _calls(each) for each in request["messages"]):
        return "tool history"
    return "tool definitions" if request.get("tools") or request.get("functions") else "text"


def _of_items(request: Mapping[str, Any], kinds: set[str]) -> str:  # noqa: PLR0911 - one line a kind
    """The kind of a Responses request. Reasoning is billed from the newest user message on."""
    items = request["input"] if isinstance(request["input"], list) else []
    types = {str(item.get("type")) for item in items}
    if any(each.startswith(("hosted", "ran hosted")) for each in kinds):
        return HOSTED
    if "file/audio" in kinds:
        return FILES
    if "item_reference" in types:
        return STORED
    if "image" in kinds:
        images = [part for item in items for part in _parts_in(item) if part.get("type") == "input_image"]
        return "images" if all(_is_sized(each, each.get("image_url")) for each in images) else UNSIZED
    asked = max((index for index, item in enumerate(items) if item.get("role") == "user"), default=0)
    if any(item.get("type") == "reasoning" for item in items[asked:]):
        return REASONING
    if "response_format" in kinds:
        return "response format"
    if "function_call" in types:
        return "tool history"
    return "tool definitions" if request.get("tools") else "text"


def _of_vendor(request: Mapping[str, Any], kinds: set[str]) -> str:
    """The kind of a request to Claude or Gemini."""
    if _is_hidden(request):
        return HIDDEN
    if "signature_REDACTED" in json.dumps(request):
        return REDACTED
    for name, mark in ((FILES, "file/audio"), ("images", "image"), ("response formats", "response_format")):
        if mark in kinds:
            return name
    return "tool history" if "tool_calls" in kinds else "tool definitions" if "tools" in kinds else "text"


def _is_hidden(request: Mapping[str, Any]) -> bool:
    """Whether the bill covers parts that the request does not show: results of hosted tools, cached content."""
    if request.get("mcp_servers") or "cachedContent" in request:
        return True
    tools = request.get("tools") or []
    return any(map(_runs_itself, tools if isinstance(tools, list) else [tools]))


def _runs_itself(tool: Object) -> bool:
    if "functionDeclarations" in tool or "function_declarations" in tool:
        others = {name for name, value in tool.items() if value is not None and not name.startswith("function")}
        return bool(others)
    return "input_schema" not in tool


def has_schema(response_format: Any) -> bool:
    """Return whether a chat request's response format is a JSON schema."""
    return isinstance(response_format, dict) and response_format.get("type") == "json_schema"


def _parts_of(message: Mapping[str, Any]) -> Iterator[Object]:
    if isinstance(message.get("content"), list):
        yield from message["content"]


def _parts_in(item: Mapping[str, Any]) -> Sequence[Object]:
    content = item.get("content") or item.get("output")
    return content if isinstance(content, list) else ()


def _is_sized(image: Mapping[str, Any], url: Any) -> bool:
    return image.get("detail") == "low" or image_size(str(url)) is not None


def _calls(message: Mapping[str, Any]) -> Sequence[Object]:
    return message.get("tool_calls") or ()
