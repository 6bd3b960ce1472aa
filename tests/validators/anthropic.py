"""What Anthropic's Messages refuse with 400.

Sources: platform.claude.com/docs (api/messages, tool use, extended thinking, prompt caching), and the error messages of
public reports, which are quoted. Neighbouring messages of one role count as one turn (api/messages). A request may end with
calls that wait for results, of which some may be there, and with an assistant's words: the client adds its next message.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from validators import served
from validators.pictures import belied

Object = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REASONING = ("thinking", "redacted_thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_MARKS = 4
_MARKED = {"type", "cache_control"}
_MEMBERS = {
    "text": _MARKED | {"text", "citations"},
    "image": _MARKED | {"source", "transformations"},
    "tool_use": _MARKED | {"id", "name", "input", "caller", "toolset_name"},
    "tool_result": _MARKED | {"tool_use_id", "content", "is_error", "toolset_name"},
    "thinking": _MARKED | {"thinking", "signature"},
    "redacted_thinking": _MARKED | {"data"},
}
"""Members of the SDK's types. Another rule is about marks on thinking."""
_BEFORE_OPUS_4_8 = re.compile(r"claude-(3|(opus|sonnet|haiku)-4-[0-7]\b)")


def refused(request: Object, model: str) -> list[str]:
    """Return why the provider answers 400 to this request for this model; nothing where it takes the request."""
    messages = request.get("messages") or []
    found = [] if messages else ["messages: at least one message is required"]
    if _BEFORE_OPUS_4_8.search(model) and any(message.get("role") == "system" for message in messages):
        found.append("messages: role 'system' is not supported on this model")
    for index, message in enumerate(messages):
        found += _message(message, f"messages.{index}", is_last=index == len(messages) - 1)
    found += [*_compactions(messages), *served.refused("anthropic", request, model)]
    found += [*_pairs(messages), *_hosted(messages), *_marks(request), *_system(request.get("system"))]
    found += _tools(request.get("tools") or [], request.get("tool_choice"))
    # Other models that take this form do not sign their thinking, and want it back. Their rules for names are not known.
    free = () if "claude" in model or not model else ("thinking", "tool_use.name")
    return [each for each in found if not any(word in each for word in free)]


def _blocks(content: Any) -> list[Object]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _message(message: Object, at: str, *, is_last: bool) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    for name in sorted(message.keys() - {"role", "content"}):
        yield f"{at}.{name}: Extra inputs are not permitted"
    if role not in ("user", "assistant", "system"):
        yield f"{at}.role: Input should be 'user' or 'assistant'"
    if not isinstance(content, str | list):
        yield f"{at}.content: Input should be a valid list"
        return
    blocks = _blocks(content)
    if not content:
        yield f"{at}: all messages must have non-empty content"
    for place, block in enumerate(blocks):
        yield from _block(block, f"{at}.content.{place}", str(role))
    if role == "assistant" and blocks and blocks[-1].get("type") in _REASONING:
        yield f"{at}: The final block in an assistant message cannot be `{blocks[-1]['type']}`"
    if role == "assistant" and is_last and blocks and blocks[-1].get("type") == "text":
        text = blocks[-1].get("text") or ""
        if text != text.rstrip():
            yield f"{at}: final assistant content cannot end with trailing whitespace"


def _block(block: Object, at: str, role: str) -> Iterator[str]:
    yield from _extra(block, at)
    match block.get("type"):
        case "text":
            if not isinstance(block.get("text"), str) or not block["text"].strip():
                yield f"{at}: text content blocks must be non-empty"
            yield from _citations(block.get("citations") or [], f"{at}.text.citations")
        case "thinking" | "redacted_thinking" as kind:
            if not block.get({"thinking": "signature", "redacted_thinking": "data"}[kind]):
                yield f"{at}.{kind}: Field required"
        case "tool_use":
            yield from _use(block, at, role)
        case "tool_result":
            yield from _result(block, at, role)
        case "image" | "document" as kind:
            yield from _titles(block, f"{at}.{kind}", 500, "title", "context")
            judge = _image if kind == "image" else _document
            yield from judge(block.get("source") or {}, f"{at}.{kind}.source")
        case "server_tool_use" if not isinstance(block.get("input"), dict):
            yield f"{at}.server_tool_use.input: Input should be a valid dictionary"
        case None:
            yield f"{at}.type: Field required"


def _titles(value: Object, at: str, most: int, *names: str) -> Iterator[str]:
    """Lengths in Anthropic's OpenAPI document."""
    for name in names:
        if isinstance(given := value.get(name), str) and not 1 <= len(given) <= most:
            yield f"{at}.{name}: String should have 1 to {most} characters"


def _citations(citations: list[Object], at: str) -> Iterator[str]:
    for place, each in enumerate(citations):
        yield from _titles(each, f"{at}.{place}", 255, "title", "document_title")


def _document(source: Object, at: str) -> Iterator[str]:
    """The types of the SDK's sources: Base64PDFSourceParam, PlainTextSourceParam."""
    types = {"base64": "application/pdf", "text": "text/plain"}
    if (wanted := types.get(str(source.get("type")))) and source.get("media_type") != wanted:
        yield f"{at}.media_type: Input should be '{wanted}'"
    if wanted and not source.get("data"):
        yield f"{at}.data: is empty"
    if source.get("type") == "content" and isinstance(source.get("content"), list):
        for place, block in enumerate(source["content"]):
            yield from _block(block, f"{at}.content.{place}", "user")
            if block.get("cache_control"):
                yield f"{at}.content.{place}: sub-content blocks cannot be cached directly"


def _image(source: Object, at: str) -> Iterator[str]:
    if source.get("type") == "url" and not str(source.get("url")).startswith(("https://", "http://")):
        yield f"{at}.url: Only HTTPS URLs are supported."
    if source.get("type") == "base64" and not source.get("data"):
        yield f"{at}: image cannot be empty"
    if source.get("type") != "base64":
        return
    if source.get("media_type") not in _IMAGES:
        yield f"{at}.media_type: Input should be one of {_IMAGES}"
    if found := belied(source.get("media_type"), source.get("data")):
        yield f"{at}: the image was specified otherwise, but appears to be a {found} image"


def _extra(block: Object, at: str) -> Iterator[str]:
    for name in sorted(block.keys() - _MEMBERS.get(str(block.get("type")), block.keys())):
        yield f"{at}.{block['type']}.{name}: Extra inputs are not permitted"


def _compactions(messages: list[Object]) -> Iterator[str]:
    """'All content blocks before it are ignored': no request has blocks that are not read. 'Empty string content is not
    allowed' (docs: compaction; SDK: BetaCompactionBlockParam)."""
    blocks = [block for message in messages for block in _blocks(message.get("content"))]
    for place, block in enumerate(blocks):
        if block.get("type") == "compaction":
            if block.get("content") == "":
                yield "a compaction without words"
            if block.get("content") and place:
                yield "blocks before a compaction are ignored"


def _use(block: Object, at: str, role: str) -> Iterator[str]:
    if role != "assistant":
        yield f"{at}: `tool_use` blocks can only be in `assistant` messages"
    if not _ID.fullmatch(str(block.get("id", ""))):
        yield f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _NAME.fullmatch(str(block.get("name", ""))):
        yield f"{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{at}.tool_use.input: Input should be a valid dictionary"


def _result(block: Object, at: str, role: str) -> Iterator[str]:
    content = block.get("content", "")
    if role != "user":
        yield f"{at}: `tool_result` blocks can only be in `user` messages"
    if not isinstance(content, str | list):
        yield f"{at}.tool_result.content: Input should be a valid list"
        return
    if isinstance(content, list):
        for place, inner in enumerate(content):
            yield from _block(inner, f"{at}.tool_result.content.{place}", role)
    elif content and not content.strip():
        yield f"{at}.tool_result: text content blocks must contain non-whitespace text"
    if not isinstance(block.get("is_error", False), bool):
        yield f"{at}.tool_result.is_error: Input should be a valid boolean"
    if block.get("is_error") and not content:
        yield f"{at}.tool_result: content cannot be empty if `is_error` is true"
    if block.get("is_error") and isinstance(content, list) and any(each.get("type") != "text" for each in content):
        yield f"{at}.tool_result: all content must be type 'text' if 'is_error' is true"


def _pairs(messages: list[Object]) -> Iterator[str]:
    """Calls and their results, by turns."""
    turns = [
        (role, [block for message in group for block in _blocks(message.get("content"))])
        for role, group in groupby(messages, key=lambda message: message.get("role"))
    ]
    ids = Counter(block.get("id") for _, blocks in turns for block in blocks if block.get("type") == "tool_use")
    for identity in (each for each, count in ids.items() if count > 1):
        yield f"messages: `tool_use` ids must be unique: {identity}"
    before: set[Any] = set()
    for number, (_, blocks) in enumerate([*turns, ("user", [])]):
        answered = [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]
        waits = answered and number == len(turns) - 1 and len(answered) == len(blocks)
        if (alone := before - set(answered)) and number < len(turns) and not waits:
            yield f"turn {number}: `tool_use` ids were found without `tool_result` blocks immediately after: {alone}"
        if unexpected := set(answered) - before:
            yield f"turn {number}: unexpected `tool_use_id` found in `tool_result` blocks: {unexpected}"
        if len(answered) != len(set(answered)):
            yield f"turn {number}: each tool_use must have a single result"
        if any(block.get("type") != "tool_result" for block in blocks[: len(answered)]):
            yield f"turn {number}: `tool_result` blocks come first"
        before = {block.get("id") for block in blocks if block.get("type") == "tool_use"}


def _hosted(messages: list[Object]) -> Iterator[str]:
    """Calls and results of tools that Anthropic runs. A call in the newest reply may wait."""
    asked: set[Any] = set()
    waiting: dict[Any, int] = {}
    newest = max((index for index, each in enumerate(messages) if each.get("role") == "assistant"), default=0)
    for index, message in enumerate(messages):
        for block in _blocks(message.get("content")):
            kind = str(block.get("type"))
            if kind.endswith("_tool_use"):
                asked.add(block.get("id"))
                waiting[block.get("id")] = index
            elif kind.endswith("_tool_result"):
                if block.get("tool_use_id") not in asked:
                    yield f"messages.{index}: unexpected `tool_use_id` found in `{kind}` blocks"
                waiting.pop(block.get("tool_use_id"), None)
    for identity, index in waiting.items():
        if index != newest:
            yield f"messages.{index}: hosted tool use {identity} was found without a corresponding result block"


def _marks(request: Object) -> Iterator[str]:
    marked: list[Object] = []
    contents = [request.get("tools"), request.get("system"), *(each.get("content") for each in request["messages"])]
    for content in contents:
        for block in content if isinstance(content, list) else ():
            inner = block.get("content")
            marked += [each for each in inner if each.get("cache_control")] if isinstance(inner, list) else []
            marked += [block] if block.get("cache_control") else []
    if len(marked) > _MOST_MARKS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    for block in marked:
        if block.get("type") in _REASONING:
            yield "cache_control: Extra inputs are not permitted on thinking blocks"
        if block.get("type") == "text" and not block.get("text"):
            yield "cache_control cannot be set for empty text blocks"
    hours = [block["cache_control"].get("ttl") == "1h" for block in marked]
    if hours != sorted(hours, reverse=True):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _system(system: Any) -> Iterator[str]:
    if system is None:
        return
    if isinstance(system, str):
        if not system.strip():
            yield "system: text content blocks must be non-empty"
        return
    for place, block in enumerate(system):
        yield from _block(block, f"system.{place}", "system")


def _tools(tools: list[Object], choice: Any) -> Iterator[str]:
    names = [tool.get("name") for tool in tools]
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."
    for index, tool in enumerate(tools):
        if not _NAME.fullmatch(str(tool.get("name", ""))):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if "input_schema" in tool:
            schema = tool["input_schema"]
            if schema.get("type") != "object":
                yield f"tools.{index}.input_schema.type: Input should be 'object'"
            if schema.keys() & {"oneOf", "allOf", "anyOf"}:
                yield f"tools.{index}.input_schema: does not support oneOf, allOf, or anyOf at the top level"
    if choice and not tools:
        yield "tool_choice: may only be specified while providing tools"
