"""What Bedrock's Converse refuses with 400.

Sources: botocore's service model of ``bedrock-runtime`` (shapes, members, patterns, lengths), which boto3 checks in part
before it sends; the reference of Converse; and the error messages of public reports, which are quoted.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import botocore.session
from botocore.model import Shape
from botocore.validate import ParamValidator

from validators import served
from validators.pictures import belied

Object = dict[str, Any]

_MOST_POINTS = 4
_MOST_DOCUMENTS = 5
_NAME = re.compile(r"[a-zA-Z0-9_()\[\] -]+")
_MEDIA = ("image", "document", "video", "audio")
_CLAUDE_ID = re.compile(r"[a-zA-Z0-9_-]+")


def refused(request: Object, model: str) -> list[str]:
    """Return why the provider answers 400 to this request for this model; nothing where it takes the request."""
    messages = request.get("messages") or []
    found = [] if messages else ["messages: A conversation must start with a user message."]
    found += refused_by_sdk(request, model)
    found += [
        *_turns(messages),
        *served.refused("converse", request, model),
        *_pairs(messages),
        *_tools(request),
        *_points(request, model),
        *_documents(messages),
    ]
    for index, message in enumerate(messages):
        found += _message(message, f"messages.{index}", model)
    for place, block in enumerate(request.get("system") or ()):
        found += _text(block, f"system.{place}")
    return found


# ---- the service model


@cache
def _operation() -> Any:
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape


def as_sdk(request: Object, model: str = "model") -> Object:
    """Return the arguments of ``client.converse``, with bytes in place of base64."""
    made: Object = _with_bytes({"modelId": model, **request}, _operation())
    return made


def as_json(value: Any) -> Any:
    """Return what boto3 returns as JSON has it: base64 in place of bytes."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: as_json(each) for name, each in value.items()}
        case list():
            return [as_json(each) for each in value]
    return value


def _with_bytes(value: Any, shape: Shape) -> Any:
    match shape.type_name, value:
        case "structure", dict() if not getattr(shape, "is_document_type", False):
            members = shape.members
            return {name: _with_bytes(each, members[name]) if name in members else each for name, each in value.items()}
        case "list", list():
            return [_with_bytes(each, shape.member) for each in value]
        case "blob", str():
            return base64.b64decode(value, validate=True)
    return value


def refused_by_sdk(request: Object, model: str) -> list[str]:
    """Return what botocore's service model has no place for: what boto3 refuses, and lengths, patterns and values."""
    report = ParamValidator().validate(as_sdk(request, re.sub(r"[^a-zA-Z0-9-:.]", "-", model)), _operation())
    told = [report.generate_report()] if report.has_errors() else []
    return told or list(_by_shape(request, _operation(), ""))


def _by_shape(value: Any, shape: Any, at: str) -> Iterator[str]:
    if shape.type_name == "structure" and not shape.is_document_type:
        for name, each in value.items():
            yield from _by_shape(each, shape.members[name], f"{at}.{name}")
        return
    if shape.type_name == "list":
        for index, each in enumerate(value):
            yield from _by_shape(each, shape.member, f"{at}[{index}]")
    limits = shape.metadata
    if shape.type_name in ("list", "string", "blob"):
        if not limits.get("min", 0) <= len(value) <= limits.get("max", len(value)):
            yield f"{at}: {len(value)} is not a length of {shape.name}"
        if "pattern" in limits and not re.fullmatch(limits["pattern"], value):
            yield f"{at}: {value!r} does not match {limits['pattern']}"
        if "enum" in limits and value not in limits["enum"]:
            yield f"{at}: {value!r} is none of {limits['enum']}"


# ---- rules beyond it


def _turns(messages: list[Object]) -> Iterator[str]:
    if messages and messages[0]["role"] != "user":
        yield "A conversation must start with a user message. Try again with a conversation that starts with a user message."
    if any(first["role"] == second["role"] for first, second in pairwise(messages)):
        yield "A conversation must alternate between user and assistant roles."


def _text(block: Object, at: str) -> Iterator[str]:
    if "text" in block and not block["text"].strip():
        yield f"The text field in the ContentBlock object at {at} is blank. Add text to the text field, and try again."
    cited = (block.get("citationsContent") or {}).get("content")
    if cited is not None and not any(each.get("text", "").strip() for each in cited):
        yield f"The citationsContent at {at} has no text"


def _message(message: Object, at: str, model: str) -> Iterator[str]:
    content, role = message["content"], message["role"]
    if role == "system":
        yield f"{at}: the role system is taken by the newest models alone"
    if not content:
        yield f"The content field in the Message object at {at} is empty. Add a ContentBlock object to the content field."
    for place, block in enumerate(content):
        yield from _text(block, f"{at}.content.{place}")
        yield from _block(block, f"{at}.content.{place}", role, model)
    if any("document" in block for block in content) and not any("text" in block for block in content):
        yield f"{at}: If you include a document, you must also include a text"
    if role == "assistant" and content and "reasoningContent" in content[-1]:
        yield f"{at}: The final block in an assistant message cannot be `thinking`."


def _block(block: Object, at: str, role: str, model: str) -> Iterator[str]:
    yield from _image(block, at)
    if role == "assistant" and any(name in block for name in _MEDIA):
        yield f"{at}: You can only include images and documents if the role is user."
    if "toolUse" in block and role != "assistant":
        yield f"{at}: a toolUse of the user's"
    if "toolUse" in block and not _CLAUDE_ID.fullmatch(block["toolUse"]["toolUseId"]):
        yield f"{at}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if "toolResult" in block:
        if role != "user" and not block["toolResult"].get("type"):
            yield f"{at}: a toolResult of the assistant's"
        yield from _result(block["toolResult"], at, model)
    if "reasoningContent" in block:
        said = block["reasoningContent"]
        if role == "user" or "claude" not in model:
            yield f"{at}: User messages cannot contain reasoning content. Please remove the reasoning content and try again."
        if not (said.get("redactedContent") or (said.get("reasoningText") or {}).get("signature")):
            yield f"{at}: thinking.signature: Field required"


def _image(block: Object, at: str) -> Iterator[str]:
    data = block.get("image", {}).get("source", {}).get("bytes")
    if data == "" or block.get("image", {}).get("format", "png") not in ("png", "jpeg", "gif", "webp"):
        yield f"{at}.image: no bytes, or a format that is not in ImageFormat"
    if data and (found := belied(f"image/{block['image']['format']}", data)):
        yield f"{at}.image: the provided image does not match the specified image format: it is {found}"


def _result(result: Object, at: str, model: str) -> Iterator[str]:
    for place, inner in enumerate(result["content"]):
        yield from _image(inner, f"{at}.toolResult.content.{place}")
        yield from _text(inner, f"{at}.toolResult.content.{place}")
        if "json" in inner and not isinstance(inner["json"], dict):
            yield f"The format of the value at {at}.toolResult.content.{place}.json is invalid."
    if result.get("status") == "error" and not result["content"]:
        yield f"The content field at {at}.toolResult cannot be empty when status value is error."
    if (
        result.get("status") == "error"
        and "claude" in model
        and any(each.keys() & {*_MEDIA} for each in result["content"])
    ):
        yield f"{at}.toolResult: all content must be type 'text' if 'is_error' is true"


def _pairs(messages: list[Object]) -> Iterator[str]:
    """Calls and their results. A request may end with calls that wait for results, of which some may be there."""
    uses = [block["toolUse"]["toolUseId"] for each in messages for block in each["content"] if _is_call(block)]
    for identity in (each for each, count in Counter(uses).items() if count > 1):
        yield f"`tool_use` ids must be unique: {identity}"
    before: set[str] = set()
    for number, message in enumerate([*messages, {"role": "user", "content": []}]):
        blocks = message["content"]
        answered = [
            block["toolResult"]["toolUseId"]
            for block in blocks
            if "toolResult" in block and not block["toolResult"].get("type")
        ]
        waits = answered and number == len(messages) - 1 and len(answered) == len(_without_points(blocks))
        if (alone := before - set(answered)) and number < len(messages) and not waits:
            yield f"Expected toolResult blocks at messages.{number}.content for the following Ids: {sorted(alone)}"
        if unexpected := set(answered) - before:
            yield f"The number of toolResult blocks at messages.{number}.content exceeds toolUse blocks: {unexpected}"
        if len(answered) != len(set(answered)):
            yield f"messages.{number}: each tool_use must have a single result"
        if any("toolResult" not in block for block in blocks[: len(answered)]) and message["role"] == "user":
            yield f"messages.{number}: `tool_result` blocks come first"
        before = {block["toolUse"]["toolUseId"] for block in blocks if _is_call(block)}


def _is_call(block: Object) -> bool:
    return "toolUse" in block and not block["toolUse"].get("type")


def _without_points(blocks: list[Object]) -> list[Object]:
    return [block for block in blocks if "cachePoint" not in block]


def _tools(request: Object) -> Iterator[str]:
    blocks = [block for message in request.get("messages") or () for block in message["content"]]
    tools = (request.get("toolConfig") or {}).get("tools") or []
    names = [tool["toolSpec"]["name"] for tool in tools if "toolSpec" in tool]
    if not tools and any(block.keys() & {"toolUse", "toolResult"} for block in blocks):
        yield "The toolConfig field must be defined when using toolUse and toolResult content blocks."
    if len(names) != len(set(names)):
        yield "toolConfig: Tool names must be unique."
    chosen = ((request.get("toolConfig") or {}).get("toolChoice") or {}).get("tool")
    if chosen and chosen["name"] not in names:
        yield "toolConfig.toolChoice: the tool is not among the tools"


def _points(request: Object, model: str) -> Iterator[str]:
    tools = (request.get("toolConfig") or {}).get("tools") or []
    contents = [tools, request.get("system") or [], *(each["content"] for each in request.get("messages") or ())]
    points = [block["cachePoint"] for content in contents for block in content if "cachePoint" in block]
    if len(points) > _MOST_POINTS:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {len(points)}."
    if points and not ("claude" in model or "nova" in model):
        yield "You invoked an unsupported model or your request did not allow prompt caching."
    if "nova" in model and any("cachePoint" in tool for tool in tools):
        yield "toolConfig: Nova takes no cachePoint among tools"
    for content in contents:
        for before, block in pairwise([{}, *content]):
            if "cachePoint" in block and (not before or "reasoningContent" in before):
                yield "a cachePoint has a block before it, which is no reasoning"
    hours = [point.get("ttl") == "1h" for point in points]
    if hours != sorted(hours, reverse=True):
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"


def _documents(messages: list[Object]) -> Iterator[str]:
    blocks = [block for message in messages for block in message["content"]]
    blocks += [each for block in blocks if "toolResult" in block for each in block["toolResult"]["content"]]
    names = [block["document"]["name"].lower() for block in blocks if "document" in block]
    if len(names) > _MOST_DOCUMENTS:
        yield "You can't include more than 5 documents in a request."
    if len(names) != len(set(names)):
        yield "Messages can't contain duplicate document names. Rename the document and retry your request."
    for name in names:
        if not _NAME.fullmatch(name) or "  " in name:
            yield f"The document file name can only contain alphanumeric characters, whitespace characters, …: {name!r}"
