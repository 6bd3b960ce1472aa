"""Write Bedrock's Converse: turns alternate and begin with the user; each block has one member, which says what it is.

One form for the models of all makers that Amazon sells: Claude, Nova, Llama, Mistral, DeepSeek. What Bedrock refuses is in
``converse_mends``, cache points are in ``converse_marks``, names and formats of files in ``converse_files``. A request has
base64 where boto3 takes bytes.

Read messages of Converse, of a request or of a reply (``response["output"]["message"]``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import CallId
from sash.core.chat.result_values import returned_content
from sash.core.providers.anthropic.claude_mends import is_claude, is_claudes
from sash.core.providers.bedrock.converse_apart import with_calls_apart
from sash.core.providers.bedrock.converse_files import (
    BEDROCKS_MEDIA,
    KINDS,
    Names,
    document,
    document_text,
    format_of,
    own_medium,
    read_media,
)
from sash.core.providers.bedrock.converse_marks import caching, fitted, mark, point
from sash.core.providers.bedrock.converse_mends import (
    OF_CONVERSE,
    UNDECLARED_TOOLS,
    UNSIGNED_REASONING,
    Sent,
    SentTurn,
    fit,
    in_order,
    is_blank,
    is_signed,
    result,
    tell_sent,
    with_documents,
    without_media,
)
from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, one_tool, schema_format
from sash.core.providers.messages.call_inputs import GivenInput, input_text, with_object
from sash.core.providers.messages.endings import REPLY_AT_END
from sash.core.providers.messages.mends import AS_TEXT
from sash.core.providers.messages.pieces import Keeps, Name, Object, Piece, convert, read_turn, rest_of, to_json
from sash.core.providers.writing.media import Media, read_data_url, read_file
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.shared_mends import (
    BLANK_TEXT,
    CALL_ID,
    CALL_NAME,
    RESULTS_FIRST,
    SYSTEM_ROLE,
    WORDS_APART,
)
from sash.core.providers.writing.tools import Choice, Function, read_choice, read_functions
from sash.core.providers.writing.turns import (
    NOTHING_SAID,
    Block,
    HistoryStep,
    Outgoing,
    Part,
    PlainRun,
    RequestWriting,
    Result,
    Said,
    as_line,
    asks,
    in_place,
    only_text,
    read_steps,
    tell_sounds,
)

# ---- reading messages

BLOCKS: Final = (
    *("text", "image", "document", "video", "audio", "toolUse", "toolResult", "reasoningContent", "cachePoint"),
    *("citationsContent", "searchResult", "guardContent", "toolAddition", "toolRemoval"),
)
"""Members of ``ContentBlock`` in the service model of botocore 1.44.8."""
_RESULT_BLOCKS: Final = ("json", "text", "image", "document", "video", "searchResult")
"""Members of ``ToolResultContentBlock`` there."""
_MEDIA: Final[Mapping[str, frozenset[str]]] = {
    "image": frozenset({"format", "source", "error"}),
    "document": frozenset({"format", "name", "source", "context", "citations"}),
    "video": frozenset({"format", "source"}),
    "audio": frozenset({"format", "source", "error"}),
    **dict.fromkeys(("image/source", "video/source", "audio/source"), frozenset({"bytes", "s3Location"})),
    "document/source": frozenset({"bytes", "s3Location", "text", "content"}),
    "document/source/content": frozenset({"text"}),
}
_MEMBERS: Final = OwnMembers(
    messages={"": frozenset({"role", "content"})},
    parts={"": frozenset(BLOCKS)},
    inner={
        **_MEDIA,
        "toolUse": frozenset({"toolUseId", "name", "input", "type"}),
        "toolResult": frozenset({"toolUseId", "content", "status", "type"}),
        "toolResult/content": frozenset(_RESULT_BLOCKS),
        **{f"toolResult/content/{path}": members for path, members in _MEDIA.items() if "audio" not in path},
        "reasoningContent": frozenset({"reasoningText", "redactedContent"}),
        "reasoningContent/reasoningText": frozenset({"text", "signature"}),
        "citationsContent": frozenset({"content", "citations"}),
        "citationsContent/content": frozenset({"text"}),
        "citationsContent/citations": frozenset({"title", "source", "sourceContent", "location"}),
        "cachePoint": frozenset({"type", "ttl"}),
    },
)
"""A member beside one that says what the block is, is the client's own."""


class _Text(msgspec.Struct):
    text: str


class _Words(msgspec.Struct):
    text: str | None = None


class _Source(msgspec.Struct, rename="camel"):
    bytes: str | None = None
    s3_location: Object | None = None
    text: str | None = None
    content: list[_Text] | None = None


class _Medium(msgspec.Struct, rename="camel"):
    source: _Source
    format: str | None = None
    name: str | None = None
    context: str | None = None


class _Citation(msgspec.Struct, rename="camel"):
    title: str | None = None
    source: str | None = None
    source_content: list[_Words] | None = None
    location: Object | None = None


class _Cited(msgspec.Struct):
    content: list[_Words] | None = None
    citations: list[_Citation] | None = None


class _ReasoningText(msgspec.Struct):
    text: str | None = None
    signature: str | None = None


class _Reasoning(msgspec.Struct, rename="camel"):
    reasoning_text: _ReasoningText | None = None
    redacted_content: str | None = None


class _Block(msgspec.Struct, rename="camel"):
    """The types of members in botocore's service model. What a block holds beside them is read or kept as it came."""

    text: str | msgspec.UnsetType = msgspec.UNSET
    image: _Medium | msgspec.UnsetType = msgspec.UNSET
    document: _Medium | msgspec.UnsetType = msgspec.UNSET
    video: _Medium | msgspec.UnsetType = msgspec.UNSET
    audio: _Medium | msgspec.UnsetType = msgspec.UNSET
    tool_use: Object | msgspec.UnsetType = msgspec.UNSET
    tool_result: Object | msgspec.UnsetType = msgspec.UNSET
    reasoning_content: _Reasoning | msgspec.UnsetType = msgspec.UNSET
    cache_point: Object | msgspec.UnsetType = msgspec.UNSET
    citations_content: _Cited | msgspec.UnsetType = msgspec.UNSET
    search_result: Object | msgspec.UnsetType = msgspec.UNSET
    guard_content: Object | msgspec.UnsetType = msgspec.UNSET


class _Message(msgspec.Struct):
    role: str
    content: list[_Block]


class _Use(msgspec.Struct, rename="camel"):
    tool_use_id: CallId
    name: Name
    input: GivenInput


class _Answer(msgspec.Struct, rename="camel"):
    tool_use_id: CallId
    content: list[_Block] | None = None
    status: Literal["success", "error"] | None = None


def _read_message(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the pieces of one message. Raises InvalidEntry."""
    given = convert(message, _Message, pointer)
    return read_turn(
        given.role,
        dict(message),
        "content",
        message["content"],
        f"{pointer}/content",
        is_result=lambda block: "toolResult" in block,
        read_result=_read_result,
        read_part=_read_block,
        is_behind=lambda block: "cachePoint" in block,
    )


def _regular(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose results' contents are lists of blocks."""
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_is_irregular, content)):
        return message
    return {**message, "content": [_regular_block(block) if _is_irregular(block) else block for block in content]}


def _is_irregular(block: Any) -> bool:
    match block:
        case {"toolResult": {"content": value}}:
            said = returned_content(value, _is_block)
            return isinstance(said, str) or (isinstance(said, list) and any(isinstance(each, str) for each in said))
    return False


def _regular_block(block: Object) -> Object:
    answer = block["toolResult"]
    said = returned_content(answer["content"], _is_block)
    blocks = [{"text": each} if isinstance(each, str) else each for each in ([said] if isinstance(said, str) else said)]
    return {**block, "toolResult": {**answer, "content": blocks}}


def _is_block(block: Object) -> bool:
    return not block.keys().isdisjoint(_RESULT_BLOCKS)


def _read_result(block: Object, piece: Piece, pointer: str) -> None:
    if "cachePoint" in block:  # it stands behind the result
        return
    given = convert(block["toolResult"], _Answer, f"{pointer}/toolResult")
    piece.answers = given.tool_use_id
    for inner in block["toolResult"].get("content") or ():
        match inner:
            case {"json": value}:
                piece.add_text(to_json(value))
            case _:
                _read_said(inner, piece)


def _read_block(block: Object, piece: Piece, pointer: str) -> None:
    match block:
        case {"toolUse": dict(use)} if piece.role == "assistant" and not use.get("type"):
            call = convert(use, _Use, f"{pointer}/toolUse")
            piece.add_call(call.tool_use_id, call.name, input_text(call.input))
        case {"reasoningContent": _} | {"cachePoint": _}:  # not sent to other providers
            pass
        case _:
            _read_said(block, piece)


def _read_said(block: Object, piece: Piece) -> None:
    """Read a block of words or media, in a message or in a tool result."""
    kind = _kind(block)
    body = block.get(kind)
    match block:
        case {"text": str(text)} | {"guardContent": {"text": {"text": str(text)}}}:
            piece.add_text(text)
        case {"citationsContent": {"content": [*cited]}}:
            piece.add_text("".join(str(each.get("text") or "") for each in cited if isinstance(each, dict)))
        case {"searchResult": {"source": str(source), "title": str(title), "content": [*found]}}:
            texts = (str(each.get("text") or "") for each in found if isinstance(each, dict))
            piece.add_text("\n".join([title, source, *texts]))
        case {"document": dict(held)} if text := document_text(held):
            piece.add_text(text)
        case _ if kind in KINDS and isinstance(body, dict) and (part := read_media(kind, body)):
            piece.add_medium(kind, part)
        case _:
            piece.tell(kind, body if isinstance(body, dict) else block)


def _kind(block: Mapping[str, Any]) -> str:
    return next((name for name in block if name in BLOCKS), next(iter(block), "block"))


def _unknown_kinds(message: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield the members of blocks that Converse does not have, and roles."""
    yield from unknown_name(message.get("role"), f"{pointer}/role", "role", ("user", "assistant", "system"))
    for block, place in objects_at(message.get("content"), f"{pointer}/content"):
        yield from _unknown_block(block, place, BLOCKS)
        if isinstance(answer := block.get("toolResult"), dict):
            for inner, inner_place in objects_at(answer.get("content"), f"{place}/toolResult/content"):
                yield from _unknown_block(inner, inner_place, _RESULT_BLOCKS)


def _unknown_block(block: Object, place: str, known: tuple[str, ...]) -> Iterator[UnknownKind]:
    if block.keys().isdisjoint(known):
        name = next(iter(block), "block")
        yield from unknown_name(name, f"{place}/{name}", "block", known)


def _is_chat(message: Mapping[str, Any]) -> bool:
    """Whether a message is a chat message: its content is a text, or has parts with a type."""
    content = message.get("content")
    is_typed = isinstance(content, list) and any(isinstance(part, dict) and "type" in part for part in content)
    return is_typed or isinstance(content, str) or message.get("role") == "developer"


# ---- reading a whole request

_FREE: Final = ("inferenceConfig", "guardrailConfig", "additionalModelResponseFieldPaths", "requestMetadata")
"""Members that control the reply or refer to what is stored elsewhere: their text is not billed."""


class _Request(msgspec.Struct, rename="camel"):
    messages: list[Object]
    system: list[Object] | None = None
    tool_config: Object | None = None
    output_config: Object | None = None
    additional_model_request_fields: Object | None = None


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _Request, "")
    texts = [block["text"] for block in given.system or () if isinstance(block.get("text"), str)]
    system = [{"role": "system", "content": [{"type": "text", "text": text} for text in texts]}] if texts else []
    config = given.tool_config or {}
    tools = [tool for tool in config.get("tools") or () if isinstance(tool, dict)]
    specs = [spec for tool in tools if isinstance(spec := tool.get("toolSpec"), dict)]
    known = (
        "modelId",
        "performanceConfig",
        "serviceTier",
        "projectIdentifier",
        *_FREE,
        *_Request.__struct_encode_fields__,
    )
    return ChatRequest(
        messages=[*system, *chat(given.messages, "/messages")],
        tools=[chat_function(spec, (spec.get("inputSchema") or {}).get("json"), "inputSchema") for spec in specs],
        tool_choice=_chat_choice(config.get("toolChoice")),
        response_format=_schema(given.output_config or {}),
        hosted=[{"type": "system_tool", **tool["systemTool"]} for tool in tools if "systemTool" in tool],
        rest={**(given.additional_model_request_fields or {}), **rest_of(request, *known)},
    )


def _schema(output: Object) -> Object | None:
    match output:
        case {"textFormat": {"structure": {"jsonSchema": {"schema": str(text)} as given}}}:
            try:
                return schema_format(msgspec.json.decode(text), given.get("name"))
            except msgspec.DecodeError:
                return None
    return None


def _chat_choice(choice: Any) -> Any:
    match choice:
        case {"tool": {"name": str(name)}}:
            return one_tool(name)
        case {"any": _}:
            return "required"
        case {"auto": _}:
            return "auto"
    return None


# ---- writing


def _answering(message: Block, call_id: str) -> Block:
    block, *behind = message["content"]
    return {**message, "content": [{"toolResult": {**block["toolResult"], "toolUseId": call_id}}, *behind]}


_SHAPE: Final = Shape(
    name="converse",
    messages="messages",
    parts="content",
    text={},
    aside=frozenset({"cachePoint", "toolUseId"}),
    answering=_answering,
)
_NO_TOOL: Final[Object] = {
    "type": "function",
    "function": {
        "name": "no_tool",
        "description": "No tool can be called now.",
        "parameters": {"type": "object", "properties": {}},
    },
}


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``messages``, with ``system`` and ``toolConfig`` where they are not empty."""
    names, told, turns = Names(writing), list[list[Block]](), list[SentTurn]()
    last: NativeMessages | None = None
    steps = read_steps(messages, _SHAPE, writing, tidy=fit, renames=CALL_ID, takes=BEDROCKS_MEDIA)
    history = in_place([_with_place(step, writing) for step in steps], messages, writing)
    for step in history:
        if (isinstance(step, Said) and step.is_system) or (isinstance(step, NativeMessages) and step.role == "system"):
            told.append(list(_system(step, writing)))
            continue
        turns += _turns(step, last, names, writing)
        last = step if isinstance(step, NativeMessages) else None
    turns = with_calls_apart(with_documents(in_order(turns, writing), writing), writing)
    if turns[0].role == "assistant" if turns else asks(history):  # a blank text may be all that the user says
        turns.insert(0, SentTurn("user", [Sent(0, {"text": NOTHING_SAID})]))
    config = _tool_config(list(read_functions(tools, writing)), read_choice(tool_choice, writing))
    if not config and any(each.block.keys() & {"toolUse", "toolResult"} for turn in turns for each in turn.blocks):
        writing.mends.add(UNDECLARED_TOOLS, 0)
        config = _tool_config(list(read_functions([_NO_TOOL], writing)), None)
    system = _joined(told)
    fitted(system, config.get("tools", []), turns, writing)
    tell_sent(turns, writing)
    request: dict[str, Any] = {
        "messages": [{"role": turn.role, "content": [each.block for each in turn.blocks]} for turn in turns]
    }
    return request | ({"system": system} if system else {}) | ({"toolConfig": config} if config else {})


def _with_place(step: HistoryStep, writing: RequestWriting) -> HistoryStep:
    """Return the step; as system text if it came as a message of the system with words alone."""
    if not isinstance(step, NativeMessages) or step.role != "system":
        return step
    blocks = [block for message in step.messages for block in message["content"]]
    if any(block.keys() != {"text"} for block in blocks):
        return step
    writing.mends.add(SYSTEM_ROLE, step.seq)
    parts = [Part(f"messages/{step.seq}", {"type": "text", **block}) for block in blocks]
    return Said("system", parts, [], seq=step.seq)


def _system(step: Said | NativeMessages, writing: RequestWriting) -> Iterator[Block]:
    if isinstance(step, Said):
        for part in only_text(step.parts, writing, "system"):
            yield from _text(part)
        return
    writing.mends.add(SYSTEM_ROLE, step.seq)
    for message in step.messages:
        for index, block in enumerate(message["content"]):
            if block.keys() & {"text", "guardContent", "cachePoint"}:
                yield from () if is_blank(block) else (block,)
            else:
                writing.add(f"messages/{step.seq}/content/{index}", "system content is text alone")


def _joined(told: Sequence[list[Block]]) -> list[Block]:
    """Return the system text in one block; in several where one of them marks the end of the prompt cache."""
    blocks = [block for each in told for block in each]
    if any("text" not in block for block in blocks):
        return blocks
    texts = ("".join(block["text"] for block in each) for each in told)
    text = "\n\n".join(text for text in texts if text.strip())
    return [{"text": text}] if text else []


def _turns(step: HistoryStep, last: NativeMessages | None, names: Names, writing: RequestWriting) -> Iterator[SentTurn]:
    match step:
        case PlainRun():
            yield from [SentTurn(said["role"], [Sent(0, {"text": said["content"]})]) for said in step.messages]
        case NativeMessages():
            yield from _own(step, last, names, writing)
        case Result():
            content = list(_blocks(tell_sounds(step, writing), step.seq, names, writing))
            kept = [block for block in content if "cachePoint" not in block]
            points = [block for block in content if "cachePoint" in block]
            answer = {"toolResult": {"toolUseId": step.call.id, "content": kept}}
            yield SentTurn("user", [Sent(step.seq, block) for block in (answer, *points[-1:])])
        case Said(role="assistant"):
            texts = [block for part in only_text(step.parts, writing, "assistant") for block in _text(part)]
            made = [*_reasoning(step, writing), *texts, *_uses(step, writing)]
            yield SentTurn("assistant", [Sent(step.seq, block) for block in made])
        case Said():
            made = list(_blocks(step.parts, step.seq, names, writing)) or [{"text": NOTHING_SAID}]
            yield SentTurn("user", [Sent(step.seq, block) for block in made])


def _reasoning(step: Said, writing: RequestWriting) -> Iterator[Block]:
    """Yield Claude's signed thinking as reasoning; signatures are the same at Anthropic and at Bedrock."""
    for block in step.thinking:
        signature = block.get("signature")
        if block.get("type") == "thinking" and is_claudes(signature) and is_claude(writing.model):
            yield {"reasoningContent": {"reasoningText": {"text": block["thinking"], "signature": signature}}}
        else:
            writing.mends.add(UNSIGNED_REASONING, step.seq)


def _uses(step: Said, writing: RequestWriting) -> Iterator[Block]:
    for call in step.calls:
        if fit(call.name) != call.name:
            writing.mends.add(CALL_NAME, step.seq)
        yield {"toolUse": {"toolUseId": call.id, "name": fit(call.name), "input": call.arguments_object()}}


def _text(part: Part) -> Iterator[Block]:
    text = part.text or ""
    if text.strip():
        yield {"text": text}
        if part.body.get("cache_control"):
            yield point(part.body["cache_control"])


def _blocks(parts: Iterable[Part], seq: int, names: Names, writing: RequestWriting) -> Iterator[Block]:
    for part in parts:
        found: Block | None = None
        match part.body:
            case {"type": "text"}:
                yield from _text(part)
                continue
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} if url[:5].lower() != "data:":
                found = _line(part, seq, writing)
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                media = read_data_url(url, part.place, writing)
                found = _image(media) if media else None
            case {"type": "file", "file": dict(file)}:
                media = read_file(file, part.place, writing)
                found = _file(media, file.get("filename"), names, seq) if media else None
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
                found = {"audio": {"format": form, "source": {"bytes": data}}}
            case _:
                writing.add(part.place, "has no place in Converse, which takes text, images and documents")
        if found is not None:
            yield found
            if part.body.get("cache_control"):
                yield point(part.body["cache_control"])


def _line(part: Part, seq: int, writing: RequestWriting) -> Block:
    """Return the line that tells a link, because Bedrock reads none."""
    writing.mends.add(AS_TEXT, seq)
    return {"text": as_line(part.body)["text"]}


def _image(media: Media) -> Block:
    return {"image": {"format": format_of(media.media_type), "source": {"bytes": media.data}}}


def _file(media: Media, filename: str | None, names: Names, seq: int) -> Block:
    return _image(media) if media.media_type.startswith("image/") else document(media, filename, names, seq)


def _own(
    step: NativeMessages, last: NativeMessages | None, names: Names, writing: RequestWriting
) -> Iterator[SentTurn]:
    """Yield a message that came in this form as it is accepted. What needs no mend stays as it came."""
    ids = iter(step.ids)
    if step.at and not any("toolResult" in block for message in step.messages for block in message["content"]):
        writing.mends.add(RESULTS_FIRST, step.seq)  # it stood before a result
    for message in step.messages:
        role = message["role"]
        blocks = [
            Sent(step.seq, left)
            for block in message["content"]
            for left in _own_block(block, role, ids, step.seq, names, writing)
        ]
        if role == "assistant":
            blocks = [left for each in blocks for left in without_media(each, writing)]
        elif step.pieces == 1 and all("cachePoint" in each.block for each in blocks):
            writing.mends.add(BLANK_TEXT, step.seq)
            blocks = [Sent(step.seq, {"text": NOTHING_SAID}), *blocks]
        yield SentTurn(role, blocks, own=True, follows=last is not None and step.follows(last))


def _own_block(
    block: Block, role: str, ids: Iterator[str], seq: int, names: Names, writing: RequestWriting
) -> Iterator[Block]:
    match block:
        case _ if is_blank(block):
            writing.mends.add(BLANK_TEXT, seq)
        case {"reasoningContent": dict()}:
            if role == "assistant" and is_signed(block) and is_claude(writing.model):
                yield block
            else:
                writing.mends.add(UNSIGNED_REASONING, seq)
        case {"toolUse": dict(use)} if not use.get("type"):
            identity, name = next(ids, use["toolUseId"]), fit(use["name"])
            if name != use["name"]:
                writing.mends.add(CALL_NAME, seq)
            sent = with_object({**use, "toolUseId": identity, "name": name}, "input", seq, writing.mends)
            yield {"toolUse": sent}
        case {"toolResult": dict(answer)} if role == "user":
            found = result(answer, seq, writing)["toolResult"]
            given = [own_medium(each, seq, writing) for each in found.get("content") or ()]
            named = [names.own(each, seq) if "document" in each else each for each in given]
            yield {"toolResult": {**found, "content": named}}
        case _ if not block.keys().isdisjoint(KINDS):
            found = own_medium(block, seq, writing)
            yield names.own(found, seq) if "document" in found else found
        case _:
            yield block


def _tool_config(functions: list[Function], choice: Choice | None) -> Object:
    """Return ``toolConfig``. Converse has no choice of none, so the tools are left out; and none among several."""
    allowed = [each for each in functions if choice is None or choice.names is None or each.name in choice.names]
    if not allowed or (choice is not None and choice.mode == "none"):
        return {}
    tools: list[Block] = []
    for each in allowed:
        spec: Object = {"name": each.name, "inputSchema": {"json": each.schema}}
        spec |= {"description": each.description} if each.description else {}
        spec |= {"strict": True} if each.extra.get("strict") else {}
        tools.append({"toolSpec": spec})
        if each.extra.get("cache_control"):
            tools.append(point(each.extra["cache_control"]))
    if choice is None or choice.mode == "auto":
        return {"tools": tools, "toolChoice": {"auto": {}}} if choice is not None else {"tools": tools}
    is_one = choice.names is not None and len(allowed) == 1
    return {"tools": tools, "toolChoice": {"tool": {"name": allowed[0].name}} if is_one else {"any": {}}}


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    block, *behind = own["content"]
    answer = block["toolResult"]
    content = answer.get("content") or []
    others = [block for block in content if block.keys().isdisjoint({"text", "json", "searchResult"}) and keeps(block)]
    place = next((index for index, block in enumerate(content) if "text" in block or "json" in block), 0)
    before = [block for block in others if block in content[:place]]
    made = [*before, {"text": text}, *others[len(before) :]]
    return {**own, "content": [{"toolResult": {**answer, "content": made}}, *behind]}


_LIMITS: Final = RequestLimits(bytes=20_000_000, images=20, image_bytes=5_000_000, image_side=8_000, tool_name=64)
"""Bytes: platform.claude.com/docs/en/api/overview, "Request size limits": 20 MB at Bedrock. Pictures: the reference of
Converse's ``Message``: 20, each of 3.75 MB, which is 5 MB in base64, and 8,000 pixels a side. Names: ``ToolName`` of
botocore's service model. All read in November 2026."""


class ConverseRequest(msgspec.Struct, rename="camel"):
    """The arguments of ``client.converse`` of boto3, except ``modelId``; bytes are base64."""

    messages: list[ProviderObject]
    system: list[ProviderObject] = []
    tool_config: ProviderObject = {}


CONVERSE = Provider(
    arguments=ConverseRequest,
    called="a message of Bedrock's Converse",
    own_types="|".join(rf"\.{name}" for name in BLOCKS if name != "text"),
    shape=_SHAPE,
    regular=_regular,
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=_is_chat,
    carries=frozenset({"blocks"}),
    replies_are_items=False,
    fills=True,
    is_call=lambda part: isinstance(use := part.get("toolUse"), dict) and not use.get("type"),
    unknown_kinds=_unknown_kinds,
    kinds=PartKinds(
        reasoning=kinds(".reasoningContent"),
        images=kinds(".image.source"),
        files=kinds(".document.source", ".audio.source", ".video.source"),
        sealed=frozenset({"redactedContent"}),
        unread=frozenset({"toolUseId", "cachePoint", "signature"}),  # a signature is not billed
    ),
    with_result_text=_with_result_text,
    maker="aws",
    opening_tokens=12,  # of Claude: 10 in one bill; 12 in its own form
    caching=caching,
    mark=mark,
    cache_marks=frozenset({"cachePoint"}),
    limits=lambda _name, _window: _LIMITS,
    takes=BEDROCKS_MEDIA,
    mends=(*OF_CONVERSE, WORDS_APART, REPLY_AT_END),
    own_members=_MEMBERS,
    has_cache_control=True,
    has_system_messages=lambda _: False,
    needs_question="always",
    parts_apart=True,
    tells_links=True,
)
