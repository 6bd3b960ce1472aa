"""Write Anthropic's Messages: turns alternate and begin with the user; results come first in the turn after their calls.

Anthropic's server answers 400 to the whole request for one block that it refuses. What is sent in its place is in
``claude_mends`` and ``claude_request``. It also refuses a schema that is no object, and one with ``oneOf``, ``allOf`` or
``anyOf`` at its top. Neighbouring messages of one role count as one turn.

Read Anthropic's messages: turns of blocks.

A user's message may hold tool results, text and images. Each result becomes a tool message; all other blocks become one user
message after them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.calls import arguments_object
from sash.core.chat.messages import CallId
from sash.core.chat.result_values import returned_content
from sash.core.providers.anthropic.claude_kinds import unknown_blocks
from sash.core.providers.anthropic.claude_mends import (
    CLAUDES_MEDIA,
    FOREIGN,
    NO_WORDS,
    OF_BLOCKS,
    UNSIGNED_THINKING,
    called_name,
    is_claude,
    is_signed,
    mended,
    takes_system_role,
)
from sash.core.providers.anthropic.claude_request import (
    OF_REQUESTS,
    container_of,
    is_hour,
    marked,
    with_reasoning_filled,
    with_results_apart,
    without_refused,
)
from sash.core.providers.destinations.destination import meet
from sash.core.providers.form.cache_marks import (
    BREAKPOINTS,
    CacheKind,
    CachePrices,
    Caching,
    Lifetime,
    Places,
    content_parts,
)
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, one_tool, schema_format
from sash.core.providers.messages.call_inputs import GivenInput, input_text
from sash.core.providers.messages.endings import REPLY_AT_END
from sash.core.providers.messages.owed_reasoning import NO_REASONING
from sash.core.providers.messages.pieces import (
    Keeps,
    Name,
    Object,
    Piece,
    Text,
    convert,
    data_url,
    file_part,
    has_part,
    read_turn,
    rest_of,
    result_content,
)
from sash.core.providers.writing.media import Media, read_data_url, read_file
from sash.core.providers.writing.media_types import PDF, UNTAKEN, is_web
from sash.core.providers.writing.native_messages import NativeMessages, Shape, in_turns
from sash.core.providers.writing.shared_mends import CALL_ID, CALL_NAME, RESULTS_FIRST, SYSTEM_ROLE, WORDS_APART
from sash.core.providers.writing.tools import Choice, Function, read_choice, read_functions
from sash.core.providers.writing.turns import (
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


_ENVELOPE: Final = frozenset(
    {"id", "model", "stop_reason", "stop_sequence", "stop_details", "diagnostics", "context_management"}
    | {"input_transformations", "parsed_output"}
)
"""Members of ``BetaMessage`` and ``ParsedMessage`` in anthropic 2.11.0 that a request's messages do not have, beside
``container``, which stays in the message because a request may need it."""
_REPLY: Final = _ENVELOPE | {"type", "usage", "container"}
"""Members of a whole reply beside its content. Its ``usage`` is a bill, and is not kept with the message."""
_MARKED: Final = frozenset({"type", "cache_control"})
_MEMBERS: Final = OwnMembers(
    messages=dict.fromkeys(("", "message"), _REPLY - _ENVELOPE | {"role", "content"}),
    parts={
        "text": _MARKED | {"text", "citations"},
        "thinking": _MARKED | {"thinking", "signature"},
        "redacted_thinking": _MARKED | {"data"},
        "tool_use": _MARKED | {"id", "name", "input", "caller", "toolset_name"},
        "tool_result": _MARKED | {"tool_use_id", "content", "is_error", "toolset_name"},
        "image": _MARKED | {"source", "transformations"},
        "document": _MARKED | {"source", "title", "context", "citations"},
    },
    inner={"source": frozenset({"type", "media_type", "data", "url", "file_id", "content"})},
)
"""Members of the SDK's types of messages and of blocks that clients write."""


class _AnthropicMessage(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Object]


class _ToolUse(msgspec.Struct):
    id: CallId
    name: Name
    input: GivenInput


class _ToolResult(msgspec.Struct):
    tool_use_id: CallId
    content: str | list[Object] | None = None


class _Marked(msgspec.Struct):
    cache_control: Object | None = None


class _Text(Text):
    citations: list[Object] | None = None


class _Medium(msgspec.Struct):
    source: Object
    title: str | None = None
    context: str | None = None
    citations: Object | None = None


class _Base64(msgspec.Struct):
    media_type: str
    data: str


class _Address(msgspec.Struct):
    url: str


class _FileId(msgspec.Struct):
    file_id: str


class _Words(msgspec.Struct):
    data: str


class _Blocks(msgspec.Struct):
    content: str | list[Object]


_SOURCES: Final[dict[str, Any]] = {
    "base64": _Base64,
    "url": _Address,
    "file": _FileId,
    "text": _Words,
    "content": _Blocks,
}


class _SearchResult(msgspec.Struct):
    source: str
    content: list[Text]
    title: str | None = None


class _Thinking(msgspec.Struct):
    thinking: str
    signature: str | None = None


class _Compaction(msgspec.Struct):
    content: str | None = None


class _Redacted(msgspec.Struct):
    data: str


_SILENT: Final[dict[str, Any]] = {"thinking": _Thinking, "redacted_thinking": _Redacted, "compaction": _Compaction}


def _read_message(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the pieces of one message, or of a whole reply. Raises InvalidEntry."""
    given = convert(message, _AnthropicMessage, pointer)
    own = {name: value for name, value in message.items() if name not in _REPLY}
    if given.role == "assistant" and container_of(message) is not None:
        own["container"] = message["container"]
    if isinstance(given.content, str):
        piece = Piece(role=given.role, own=own)
        piece.add_text(given.content)
        return [piece]
    return read_turn(
        given.role,
        own,
        "content",
        given.content,
        f"{pointer}/content",
        is_result=lambda block: block.get("type") == "tool_result",
        read_result=_read_result,
        read_part=_read_block,
        stands=lambda block: _compaction(block) is not None,
    )


def _regular(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose content, and that of its results, is a text or a list, and whose calls have an input."""
    content = message.get("content")
    if isinstance(content, list) and any(map(_is_irregular, content)):
        return {**message, "content": [_regular_block(block) if _is_irregular(block) else block for block in content]}
    return {**message, "content": []} if content is None and message.get("role") == "assistant" else message


def _is_irregular(block: Any) -> bool:
    match block:
        case {"type": "tool_result", "content": value}:
            return value is not None and returned_content(value) is not value
        case {"type": "tool_use"}:
            return "input" not in block
    return False


def _regular_block(block: Object) -> Object:
    return {**block, "content": returned_content(block["content"])} if "content" in block else {**block, "input": {}}


def _read_result(block: Object, piece: Piece, pointer: str) -> None:
    _check(block, pointer)
    given = convert(block, _ToolResult, pointer)
    piece.answers = given.tool_use_id
    if isinstance(given.content, str):
        piece.add_text(given.content)
    for index, inner in enumerate(given.content if isinstance(given.content, list) else ()):
        place, kind = f"{pointer}/content/{index}", _kind(inner)
        _check(inner, place)
        if kind in ("text", "search_result") or (kind == "document" and _held(inner)):
            _read_block(inner, piece, place)
        elif kind in ("image", "document") and (part := _media(inner, kind, place)):
            if part["type"] == "text":
                piece.parts.append(part)
            else:
                piece.add_told(kind, part)
        else:
            piece.tell(kind, inner)


def _compaction(block: Object) -> str | None:
    """Return the summary in a compaction block; None for another block, and for a compaction that failed, whose summary is
    null: Anthropic takes no notice of it (anthropic.types.beta.BetaCompactionBlockParam)."""
    words = block.get("content") if block.get("type") == "compaction" else None
    return words if isinstance(words, str) and words.strip() else None


def _check(block: Object, pointer: str) -> None:
    """Raise InvalidEntry where a mark, a picture or a document has a member of another type than Claude takes."""
    convert(block, _Marked, pointer)
    if block.get("type") in ("image", "document"):
        source = convert(block, _Medium, pointer).source
        kind = source.get("type")
        if isinstance(kind, str) and kind in _SOURCES:
            convert(source, _SOURCES[kind], f"{pointer}/source")


def _read_block(block: Object, piece: Piece, pointer: str) -> None:
    _check(block, pointer)
    match block.get("type"):
        case "text":
            piece.add_text(convert(block, _Text, pointer).text)
        case "tool_use" if piece.role == "assistant":
            use = convert(block, _ToolUse, pointer)
            piece.add_call(use.id, use.name, input_text(use.input))
        case "search_result":
            found = convert(block, _SearchResult, pointer)
            piece.add_text("\n".join([found.title or "", found.source, *(text.text for text in found.content)]))
        case "document" if inner := _held(block):
            for index, each in enumerate(inner):
                _read_block(each, piece, f"{pointer}/source/content/{index}")
        case "image" | "document" as kind if piece.role == "user" and (part := _media(block, kind, pointer)):
            piece.parts.append(part)
        case "thinking" | "redacted_thinking" | "compaction" as kind:  # not sent to other providers
            convert(block, _SILENT[kind], pointer)
        case _:
            piece.tell(_kind(block), block)


def _held(block: Object) -> list[Object]:
    """Return the blocks in a document that is made of blocks; none for another document."""
    match block.get("source"):
        case {"type": "content", "content": str(text)} if text:
            return [{"type": "text", "text": text}]
        case {"type": "content", "content": [*blocks]} if all(isinstance(each, dict) for each in blocks):
            return blocks
    return []


def _media(block: Object, kind: str, pointer: str) -> Object | None:  # noqa: PLR0911 - one line a source
    """Return an image or a document in chat form; None where chat messages have no place for its source."""
    given = convert(block, _Medium, pointer)
    match given.source:
        case {"type": "url", "url": str(url)} if kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "base64", "media_type": str(media_type), "data": str(data)} if kind == "image":
            return {"type": "image_url", "image_url": {"url": data_url(media_type, data)}}
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return file_part(filename=given.title, file_data=data_url(media_type, data))
        case {"type": "text", "data": str(data)}:
            return {"type": "text", "text": data}
        case {"type": "url", "url": str(url)}:
            return file_part(filename=given.title, file_id=url)
        case {"type": "file", "file_id": str(file_id)} if kind == "document":
            return file_part(file_id=file_id)
    return None


def _kind(block: Object) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else "block"


# ---- reading a whole request


_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


class _AnthropicRequest(msgspec.Struct):
    messages: list[Object]
    system: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: Object | None = None
    output_format: Object | None = None
    output_config: Object | None = None


def _system_of(request: _AnthropicRequest) -> list[Object]:
    """Return the system text as a chat message; in Anthropic's request it stands outside the messages."""
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    texts = [convert(block, Text, f"/system/{index}").text for index, block in enumerate(request.system)]
    return [{"role": "system", "content": [{"type": "text", "text": text} for text in texts]}]


def _since_compaction(messages: list[Object]) -> list[Object]:
    """Return the messages from the newest compaction on: Anthropic takes no notice of those before, nor counts them."""
    for index, message in reversed([*enumerate(messages)]):
        match message.get("native"):
            case {"format": "anthropic", "messages": [{"content": [dict(block)]}]} if _compaction(block) is not None:
                return messages[index:]
    return messages


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _AnthropicRequest, "")
    output = given.output_format or (given.output_config or {}).get("format") or {}
    tools = given.tools or []
    return ChatRequest(
        messages=[*_system_of(given), *_since_compaction(chat(given.messages, "/messages"))],
        tools=[
            chat_function(tool, tool["input_schema"], "type", "input_schema")
            for tool in tools
            if "input_schema" in tool
        ],
        tool_choice=_chat_choice(given.tool_choice),
        response_format=schema_format(output.get("schema")) if isinstance(output, dict) else None,
        hosted=[tool for tool in tools if "input_schema" not in tool],
        rest=rest_of(request, *_AnthropicRequest.__struct_fields__),
    )


def _chat_choice(choice: Object | None) -> Any:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return one_tool(name)
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None


# ---- writing

_BOUND: Final = re.compile(
    r"claude-(?:(?:fable|mythos)-(?:5[.-][1-9]|[6-9])|(?:opus|sonnet|haiku)-(?:5[.-][5-9]|[6-9]))"
)
"""Claude Fable 5.1 and later, and Opus, Sonnet and Haiku 5.5 and later: a changed system prompt, tool or earlier message
makes every later block invalid, and the answer is 400. Blocks may be left out, the oldest first
(platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks, September 2026)."""
_MINIMUMS: Final = (
    (re.compile(r"claude-(opus|fable|mythos)-5"), 512),
    (re.compile(r"claude-(opus-4-7|3-5-haiku|3-haiku)"), 2048),
    (re.compile(r"claude-(opus-4-[56]|haiku-4-5)"), 4096),
)
"""The smallest prefix that is cached, in tokens; 1,024 for others."""
_UNCACHED: Final = re.compile(r"claude-(v?[12]|instant|3-sonnet)")
_CONTROL: Final = {"type": "ephemeral"}
_UNMARKED: Final = frozenset({"thinking", "redacted_thinking"})
_CHAT_PARTS: Final = frozenset({"image_url", "input_audio", "file", "refusal"})
"""Parts that only chat messages have."""


def _answering(message: Block, call_id: str) -> Block:
    (block,) = message["content"]
    return {**message, "content": [{**block, "tool_use_id": call_id}]}


_SHAPE: Final = Shape(
    name="anthropic",
    messages="messages",
    parts="content",
    text={"type": "text"},
    aside=frozenset({"tool_use_id"}),
    answering=_answering,
    envelope=_ENVELOPE,
)


_Turn = tuple[str, list[Block]] | NativeMessages


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``messages``, with ``system``, ``tools`` and ``tool_choice`` where they are not empty."""
    tidy = partial(FOREIGN.sub, "_")
    wants = meet(_SHAPE.name, writing.maker, writing.model).values
    groups = not (writing.fills_reasoning or "beside_calls" in wants)
    steps = read_steps(messages, _SHAPE, writing, tidy=tidy, renames=CALL_ID, groups=groups, takes=CLAUDES_MEDIA)
    has_role = takes_system_role(writing.model)
    history = in_place([_with_place(step, writing) for step in steps], messages, writing, has_role=has_role)
    system = [step for step in history if isinstance(step, Said) and step.is_system]
    turns = [turn for step in history for turn in _turns(step, writing)]
    is_plain = all(isinstance(step, PlainRun) for step in history)
    if not is_plain:
        writing.own_rest(turns)
    if any(isinstance(step, NativeMessages) for step in history):  # results that are written here stand first
        turns = list(_with_joined_results(turns, writing))
    sent = in_turns(turns, dict(NO_WORDS), _SHAPE)
    if not sent and asks(history):  # with a blank text alone, beside results that are not in the window
        sent = [{"role": "user", "content": [dict(NO_WORDS)]}]
    if "beside_calls" in wants:
        sent = with_results_apart(sent, writing)
    request: dict[str, Any] = {"messages": sent}
    if text := _system(system, writing):
        request["system"] = text
    request |= _tools(list(read_functions(tools, writing)), read_choice(tool_choice, writing), writing)
    has_own = any(isinstance(step, NativeMessages) or (isinstance(step, Said) and step.thinking) for step in history)
    request = without_refused(request, messages[-1].seq if messages else 0, writing, has_own=has_own)
    if not is_plain:
        writing.tell_sent(request["messages"], _SHAPE.parts)
    if writing.fills_reasoning:
        request["messages"] = with_reasoning_filled(request["messages"], writing)
    return request


def _with_place(step: HistoryStep, writing: RequestWriting) -> HistoryStep:
    """Return the step; as system text if it came as a system message, which the model does not take among the others."""
    if not isinstance(step, NativeMessages) or step.role != "system" or takes_system_role(writing.model):
        return step
    blocks = [block for message in step.messages for block in content_parts(message["content"])]
    if any(block.get("type") != "text" for block in blocks):  # only newer models have others, such as a tool's addition
        return step
    writing.mends.add(SYSTEM_ROLE, step.seq)
    return Said("system", [Part(f"messages/{step.seq}", block) for block in blocks], [], seq=step.seq)


def _system(messages: Iterable[Said], writing: RequestWriting) -> str | list[Block]:
    """Return the system text as one string, or as blocks where a part marks the end of the prompt cache."""
    texts = [list(only_text(said.parts, writing, "system")) for said in messages]
    blocks = [block for parts in texts for part in parts for block in _text(part)]
    if any("cache_control" in block for block in blocks):
        return blocks
    joined = ("".join(part.text or "" for part in parts) for parts in texts)
    return "\n\n".join(text for text in joined if text.strip())


def _turns(step: HistoryStep, writing: RequestWriting) -> Sequence[_Turn]:  # noqa: PLR0911 - one line a kind of step
    match step:
        case PlainRun():
            return [
                _tool_turn(said)
                if "tool_calls" in said or "tool_call_id" in said
                else (said["role"], [{"type": "text", "text": said["content"]}])
                for said in step.messages
            ]
        case Result():
            result: Block = {"type": "tool_result", "tool_use_id": step.call.id}
            if blocks := _result_blocks(step, writing):
                result["content"] = blocks
            return (("user", writing.owned([result], step.seq)),)
        case Said(role="assistant"):
            texts = _texts(step.parts, writing, "assistant")
            said = [*texts, *_uses(step, writing)]
            blocks = [*_thinking(step, writing), *said] if said or not writing.fills_reasoning else []
            return (("assistant", writing.owned(blocks, step.seq)),)
        case Said(role="note"):
            return (("system", writing.owned(_texts(step.parts, writing, "system"), step.seq)),)
        case Said(is_system=False):
            return (
                ("user", writing.owned(list(_blocks(step.parts, step.seq, writing)) or [dict(NO_WORDS)], step.seq)),
            )
        case Said():
            return ()
        case NativeMessages():
            whole = mended(step, writing)
            for message in whole.messages:
                writing.owned(message["content"] if isinstance(message["content"], list) else [message], step.seq)
            return (whole,) if whole.messages or step.role == "assistant" else ()


def _tool_turn(message: Block) -> _Turn:
    """The turn of a message of a tool group: calls, or the result of one."""
    content = message["content"]
    texts: list[Block] = [{"type": "text", "text": content}] if content and content.strip() else []
    if "tool_calls" in message:
        return message["role"], texts + [_use(call["id"], **call["function"]) for call in message["tool_calls"]]
    result: Block = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
    return "user", [result | {"content": texts} if texts else result]


def _use(identity: str, name: str, arguments: str, *, custom: bool = False) -> Block:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments_object(arguments, custom=custom)}


def _result_blocks(step: Result, writing: RequestWriting) -> list[Block]:
    if len(step.parts) == 1 and step.parts[0].text is not None:  # as nearly all
        return _text(step.parts[0])
    return list(_blocks(tell_sounds(step, writing), step.seq, writing))


def _thinking(step: Said, writing: RequestWriting) -> list[Block]:
    """Return the thinking blocks that Claude knows as its own; all for another model."""
    if not step.thinking:
        return []
    signed = [block for block in step.thinking if is_signed(block) or not is_claude(writing.model)]
    if len(signed) < len(step.thinking):
        writing.mends.add(UNSIGNED_THINKING, step.seq)
    return signed


def _uses(step: Said, writing: RequestWriting) -> Iterator[Block]:
    for call in step.calls:
        name = called_name(call.name, writing)
        if name != call.name:
            writing.mends.add(CALL_NAME, step.seq)
        yield _use(call.id, name, call.arguments, custom=call.custom)


def _with_joined_results(turns: Iterable[_Turn], writing: RequestWriting) -> Iterator[_Turn]:
    """Yield the turns; neighbouring turns of the user with a written tool result become one, its results first.

    Anthropic answers 400 unless all results of a turn's calls begin the one message after it. They come apart where only
    some of them are sent as they came, and where text came between them.
    """
    for role, group in groupby(turns, key=lambda turn: turn.role if isinstance(turn, NativeMessages) else turn[0]):
        run = list(group)
        blocks = [block for turn in run for block in _blocks_of(turn)] if role == "user" and len(run) > 1 else []
        ordered = sorted(blocks, key=lambda block: not _is_result(block))
        results = sum(map(_is_result, blocks))
        late = {writing.owners.get(id(block), 0) for block in blocks[:results] if not _is_result(block)}
        for seq in late:
            writing.mends.add(RESULTS_FIRST, seq)
        made = (block for turn in run if not isinstance(turn, NativeMessages) for block in turn[1])
        if late or (len(run) > 1 and any(map(_is_result, made))):
            yield "user", ordered
        else:
            yield from run


def _is_result(block: Block) -> bool:
    return block.get("type") == "tool_result"


def _blocks_of(turn: _Turn) -> list[Block]:
    if not isinstance(turn, NativeMessages):
        return turn[1]
    return [block for message in turn.messages for block in content_parts(message["content"])]


def _texts(parts: Sequence[Part], writing: RequestWriting, whose: str) -> list[Block]:
    return [block for part in only_text(parts, writing, whose) for block in _text(part)] if parts else []


def _text(part: Part) -> list[Block]:
    text = part.text or ""
    if not text.strip():
        return []
    block: Block = {"type": "text", "text": text}
    return [block | _cache(part.body) if "cache_control" in part.body else block]


def _cache(body: dict[str, Any]) -> Block:
    """Return the mark that ends the prompt cache, as Claude's clients write it in chat messages and tools."""
    return {"cache_control": body["cache_control"]} if body.get("cache_control") else {}


def _blocks(parts: Iterable[Part], seq: int, writing: RequestWriting) -> Iterator[Block]:
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield from _text(part)
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                if is_web(url):
                    yield {"type": "image", "source": {"type": "url", "url": url}} | _cache(part.body)
                elif media := read_data_url(url, part.place, writing):
                    yield _image(media, part)
            case {"type": "file", "file": {"file_id": str(file_id)}} if file_id.startswith("file_"):  # OpenAI: file-
                yield {"type": "document", "source": {"type": "file", "file_id": file_id}} | _cache(part.body)
            case {"type": "file", "file": {"file_id": str(url)}} if is_web(url):
                yield {"type": "document", "source": {"type": "url", "url": url}} | _cache(part.body)
            case {"type": "file", "file": dict(file)}:
                if media := read_file(file, part.place, writing):
                    yield _document(media, file.get("filename"), part, seq, writing)
            case _:
                writing.add(part.place, "has no place in the Messages API, which takes text, images and files")


def _image(media: Media, part: Part) -> Block:
    source = {"type": "base64", "media_type": media.media_type, "data": media.data}
    return {"type": "image", "source": source} | _cache(part.body)


def _document(media: Media, title: str | None, part: Part, seq: int, writing: RequestWriting) -> Block:
    """Return a file of a type that Claude takes; the line of a text that is not in UTF-8, or has no words."""
    if media.media_type.startswith("image/"):
        return _image(media, part)
    text = None if media.media_type == PDF else media.text()
    if media.media_type == PDF:
        source = {"type": "base64", "media_type": PDF, "data": media.data}
    elif text and text.strip():
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        writing.mends.add(UNTAKEN, seq)
        return {"type": "text", "text": as_line(part.body)["text"]} | _cache(part.body)
    return {"type": "document", "source": source} | ({"title": title} if title else {}) | _cache(part.body)


def _tools(functions: list[Function], choice: Choice | None, writing: RequestWriting) -> dict[str, Any]:
    """Return ``tools`` and ``tool_choice``. Anthropic has no choice among several tools, so the other tools are left out."""
    tools = [_tool(function, writing) for function in functions]
    match choice:
        case None:
            request: dict[str, Any] = {"tools": tools}
        case Choice(mode="required", names=[name]):
            request = {"tools": tools, "tool_choice": {"type": "tool", "name": name}}
        case _:
            allowed = [tool for tool in tools if choice.names is None or tool["name"] in choice.names]
            request = {"tools": allowed, "tool_choice": {"type": "any" if choice.mode == "required" else choice.mode}}
    return request if request["tools"] else {}


def _tool(function: Function, writing: RequestWriting) -> Block:
    if any(word in function.schema for word in ("oneOf", "allOf", "anyOf")):
        writing.add(f"{function.place}/function/parameters", "must not be oneOf, allOf or anyOf at its top")
    tool: Block = {"name": function.name, "input_schema": function.schema}
    if function.description:
        tool["description"] = function.description
    if function.extra.get("strict"):
        tool["strict"] = True
    return tool | _cache(function.extra)


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    block = own["content"][0]
    return {**own, "content": [{**block, "content": result_content(block.get("content"), text, "text", keeps)}]}


def _is_chat(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "developer" or has_part(message, _CHAT_PARTS)


# ---- limits

_SHORT_WINDOW: Final = 200_000
_LONG_WINDOW: Final = 1_000_000


def _limits(name: str, context_window: int) -> RequestLimits:
    """The limits of the Claude API; those of Amazon Bedrock and of Google Cloud are smaller.

    Bytes: platform.claude.com/docs/en/api/overview, "Request size limits": 32 MB (Bedrock 20, Google Cloud 30). Pictures:
    platform.claude.com/docs/en/build-with-claude/vision, "Request limits": 100 for models with a window of 200,000 tokens,
    600 for others; 8,000 pixels a side, 2,000 in requests of more than 20; 10 MB in base64 (Bedrock and Google Cloud 5).
    Pages: …/build-with-claude/pdf-support: 600, and 100 if the window is under a million tokens. Messages: the reference of
    ``messages``: 100,000. Names: "String should have at most 128 characters". All read in November 2026.
    """
    del name
    return RequestLimits(
        bytes=32_000_000,
        images=100 if context_window <= _SHORT_WINDOW else 600,
        image_bytes=10_000_000,
        image_side=8_000,
        many_images=20,
        many_images_side=2_000,
        pages=100 if context_window < _LONG_WINDOW else 600,
        messages=100_000,
        tool_name=128,
    )


# ---- the prompt cache


def _caching(name: str, prices: CachePrices) -> Caching | None:
    """Entries end at blocks with ``cache_control``, four at most, and each looks back over 20 blocks for an earlier entry.

    The minimum depends on the model. Writes cost 1.25 for five minutes, and 2 for an hour with ``"ttl": "1h"``
    (platform.claude.com/docs/en/build-with-claude/prompt-caching, read in November 2026).
    """
    if _UNCACHED.search(name):
        return None
    return Caching(
        kind="cache_control",
        minimum_tokens=next((tokens for pattern, tokens in _MINIMUMS if pattern.search(name)), 1024),
        lifetime_seconds=300,
        read_price=prices.read,
        write_price=prices.write,
        longer=Lifetime(3600, prices.long_write or 2.0),
    )


def _mark(request: Block, cache: CacheKind | None, places: Places, key: str) -> Block:
    """The request with Claude's marks on the last block before each stable place."""
    del key
    if cache != "cache_control":
        return request
    messages = [
        {**message, "content": content_parts(message["content"])} if isinstance(message["content"], str) else message
        for message in request["messages"]
    ]
    names = [name for name in ("tools", "system") if name in request]
    request = request | {name: content_parts(request[name]) for name in names} | {"messages": messages}
    contents: list[list[Block]] = [request[name] for name in names] + [message["content"] for message in messages]
    blocks = list(chain.from_iterable(contents))
    own = marked(request)
    # Marks with a lifetime of an hour must be before marks of five minutes, such as these.
    hours = {id(holder) for holder, block in own if is_hour(block)}
    first = max((index + 1 for index, block in enumerate(blocks) if id(block) in hours), default=0) if hours else 0
    tools, system = len(request.get("tools") or ()), len(request.get("system") or ())
    said = _said_before_question(messages) + tools + system
    wanted = [len(blocks)] if places.newest else []
    wanted += [said] if places.before_question and said > tools + system else []
    wanted += [end for end in (tools + system, tools) if end]
    ends = [_markable(blocks, end) for end in wanted]
    free = [end for end in dict.fromkeys(ends) if end > first and not blocks[end - 1].get("cache_control")]
    for end in free[: max(0, BREAKPOINTS - len(own))]:
        _mark_at(contents, end, {**_CONTROL})
    request |= dict(zip(names, contents, strict=False))
    request["messages"] = [
        message if message["content"] is content else {**message, "content": content}
        for message, content in zip(messages, contents[len(names) :], strict=True)
    ]
    return request


def _mark_at(contents: list[list[Block]], end: int, mark: Block) -> None:
    """Replace the last of the first ``end`` blocks by a copy with the mark, in a copy of its content."""
    for place, content in enumerate(contents):
        if end <= len(content):
            marked_block = {**content[end - 1], "cache_control": mark}
            contents[place] = [*content[: end - 1], marked_block, *content[end:]]
            return
        end -= len(content)


def _said_before_question(messages: list[Block]) -> int:
    """The number of blocks before the newest user message that is not only tool results; 0 if there is none."""
    count = sum(map(len, [message["content"] for message in messages]))
    for message in reversed(messages):
        count -= len(message["content"])
        results: list[bool] = [block.get("type") == "tool_result" for block in message["content"]]
        if message["role"] == "user" and not all(results):
            return count + results.count(True)
    return 0


def _markable(blocks: list[Block], end: int) -> int:
    """The last place up to ``end`` after a block that may be marked; not reasoning, empty text or deferred tools."""
    while end:
        block = blocks[end - 1]
        is_empty = block.get("type") == "text" and not block.get("text")
        if not is_empty and str(block.get("type")) not in _UNMARKED and not block.get("defer_loading"):
            break
        end -= 1
    return end


AnthropicSystem = Annotated[
    str | list[ProviderObject],
    Meta(
        title="AnthropicSystem", description="The system text; blocks of it where one is marked for the prompt cache."
    ),
]


class AnthropicRequest(msgspec.Struct):
    """The arguments of ``client.messages.create``, except the model and ``max_tokens``."""

    messages: list[ProviderObject]
    system: AnthropicSystem = ""
    tools: list[ProviderObject] = []
    tool_choice: ProviderObject = {}
    container: str = ""


ANTHROPIC = Provider(
    arguments=AnthropicRequest,
    called="a message of Anthropic",
    own_types=r"(\w+_)?tool_(use|result)|(redacted_)?thinking|image|document|search_result",
    shape=_SHAPE,
    regular=_regular,
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=_is_chat,
    carries=frozenset({"blocks"}),
    replies_are_items=False,
    fills=True,
    is_call=lambda part: part.get("type") == "tool_use",
    compaction=_compaction,
    compacts="in words",
    unknown_kinds=unknown_blocks,
    kinds=PartKinds(
        reasoning=kinds("thinking", "redacted_thinking"),
        images=kinds("image"),
        files=kinds("document", "container_upload"),
        sealed=frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"}),
        unread=frozenset({"tool_use_id"}),
        nested=kinds("tool_result"),
    ),
    with_result_text=_with_result_text,
    maker="anthropic",
    caching=_caching,
    mark=_mark,
    limits=_limits,
    binds_reasoning=_BOUND,
    own_members=_MEMBERS,
    of_reply=frozenset({"id"}),
    has_cache_control=True,
    cache_marks=frozenset({"cache_control"}),
    parts_apart=True,
    takes=CLAUDES_MEDIA,
    mends=(*OF_BLOCKS, *OF_REQUESTS, NO_REASONING, REPLY_AT_END, WORDS_APART),
    has_system_messages=takes_system_role,
    free_members=frozenset(
        {
            *("anthropic_version", "anthropic_beta", "betas", "container", "context_management"),
            *("mcp_servers", "inference_geo", "cache_control", "speed"),
        }
    ),
    opening_tokens=12,  # 4 bills
)
