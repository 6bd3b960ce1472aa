"""Write Cohere's /v2/chat: near chat completions, with a plan beside calls and documents as results.

What a model says beside its calls is its ``tool_plan``. A content is a text or a list of texts and pictures; a result's
content may be documents, which replies cite. The choice of a tool is ``REQUIRED`` or ``NONE``, and of one tool alone the
list of tools has no other (docs.cohere.com/v2/reference/chat, read in November 2026).

Read messages of Cohere, of a request or of a reply (``response.message``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import CallId
from sash.core.chat.result_values import returned_content
from sash.core.providers.form.cache_marks import uncached, unmarked
from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import NO_LIMITS
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, schema_format
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS, GivenInput, input_text
from sash.core.providers.messages.hosted import joined, media_line
from sash.core.providers.messages.mends import AS_TEXT
from sash.core.providers.messages.pieces import Keeps, Name, Object, Piece, Text, convert, rest_of, to_json
from sash.core.providers.writing.media import read_data_url, read_file
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.shared_mends import EMPTY_QUESTION, EMPTY_RESULT
from sash.core.providers.writing.tools import chat_tools, read_choice, read_functions
from sash.core.providers.writing.turns import (
    NOTHING_SAID,
    Block,
    Call,
    HistoryStep,
    Outgoing,
    Part,
    PlainRun,
    RequestWriting,
    Result,
    Said,
    only_text,
    read_steps,
    sent_of,
)

# ---- reading messages

_ROLES: Final = ("system", "user", "assistant", "tool")
_PARTS: Final = ("text", "image_url", "thinking", "document")
_MEMBERS: Final = OwnMembers(
    messages={"": frozenset({"role", "content", "tool_plan", "tool_calls", "tool_call_id", "citations"})},
    parts={
        "text": frozenset({"type", "text"}),
        "image_url": frozenset({"type", "image_url"}),
        "thinking": frozenset({"type", "thinking"}),
        "document": frozenset({"type", "document"}),
    },
)
"""Members of ``ChatMessageV2`` in Cohere's SDKs."""
_OWN: Final = frozenset({"tool_plan", "citations"})
"""Members that chat messages do not have."""


class _Message(msgspec.Struct):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Object] | None = None
    tool_plan: str | None = None
    tool_calls: list[Object] | None = None
    tool_call_id: CallId | None = None


class _Call(msgspec.Struct):
    id: CallId
    function: Object


class _Called(msgspec.Struct):
    name: Name
    arguments: GivenInput | None = None


class _Document(msgspec.Struct):
    data: str | Object
    id: str | None = None


def _read_message(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the piece of one message. Raises InvalidEntry."""
    given = convert(message, _Message, pointer)
    piece = Piece(role=given.role, own=dict(message), answers=given.tool_call_id or "")
    piece.add_text(given.tool_plan or "")
    if isinstance(given.content, str):
        piece.add_text(given.content)
    for index, part in enumerate(given.content if isinstance(given.content, list) else ()):
        _read_part(part, piece, f"{pointer}/content/{index}")
    for index, each in enumerate(given.tool_calls or ()):
        place = f"{pointer}/tool_calls/{index}"
        call = convert(each, _Call, place)
        called = convert(call.function, _Called, f"{place}/function")
        piece.add_call(call.id, called.name, input_text(called.arguments))
    return [piece]


def _read_part(part: Object, piece: Piece, pointer: str) -> None:
    match part.get("type"):
        case "text":
            piece.add_text(convert(part, Text, pointer).text)
        case "image_url" if piece.role == "user":
            piece.parts.append(part)
        case "document":
            data = convert(part.get("document"), _Document, f"{pointer}/document").data
            piece.add_text(data if isinstance(data, str) else to_json(data))
        case "thinking":
            pass
        case kind:
            piece.tell(str(kind), part)


def _regular(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose result is a text or a list of parts."""
    if message.get("role") != "tool" or message.get("content") is None:
        return message
    return {**message, "content": returned_content(message["content"])}


def _unknown_kinds(message: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    yield from unknown_name(message.get("role"), f"{pointer}/role", "role", _ROLES)
    for part, place in objects_at(message.get("content"), f"{pointer}/content"):
        yield from unknown_name(part.get("type"), f"{place}/type", "content type", _PARTS)


def _is_chat(message: Mapping[str, Any]) -> bool:
    """Whether a message is a chat message: it has nothing that only Cohere writes."""
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return _OWN.isdisjoint(message) and not any(map(_is_own_part, parts))


def _is_own_part(part: Any) -> bool:
    match part:
        case {"type": "document", "document": _} | {"type": "thinking", "thinking": str()}:
            return True
    return False


# ---- reading a whole request


class _Request(msgspec.Struct):
    messages: list[Object]
    tools: list[Object] | None = None
    tool_choice: str | None = None
    response_format: Object | None = None


_CHOICES: Final = {"REQUIRED": "required", "NONE": "none"}
_FREE: Final = ("citation_options", "safety_mode", "stop_sequences", "k", "p", "strict_tools", "thinking")
"""Members that control the reply: their text is not billed."""


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _Request, "")
    functions = [function for tool in given.tools or () if isinstance(function := tool.get("function"), dict)]
    asked = given.response_format or {}
    schema = schema_format(asked.get("json_schema"))
    return ChatRequest(
        messages=chat(given.messages, "/messages"),
        tools=[chat_function(function, function.get("parameters"), "parameters") for function in functions],
        tool_choice=_CHOICES.get(given.tool_choice or ""),
        response_format=schema or ({"type": "json_object"} if asked.get("type") == "json_object" else None),
        rest=rest_of(request, *_FREE, *_Request.__struct_fields__),
    )


# ---- writing

_WORDLESS: Final = {"user": EMPTY_QUESTION, "tool": EMPTY_RESULT}
_MEDIA: Final = Takes(
    pictures=frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"}),
    files=frozenset(),
    sounds=frozenset(),
    links=False,
)
"""What Command A Vision reads (docs.cohere.com/docs/image-inputs)."""


def _answering(message: Block, call_id: str) -> Block:
    return {**message, "tool_call_id": call_id}


_SHAPE: Final = Shape(name="cohere", messages="messages", parts="content", text={"type": "text"}, answering=_answering)


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``messages``, with ``tools`` and ``tool_choice`` if there are any."""
    steps = read_steps(messages, _SHAPE, writing, takes=_MEDIA)
    sent = (sent_of(step, _with_words(_sent(step, writing), step, writing), writing) for step in steps)
    request: dict[str, Any] = {"messages": [message for made in sent for message in made]}
    choice = read_choice(tool_choice, writing)
    if allowed := chat_tools(read_functions(tools, writing), choice):
        request["tools"] = allowed
        if choice is not None and choice.mode != "auto":
            request["tool_choice"] = choice.mode.upper()
    return request


def _with_words(made: Iterable[Block], step: HistoryStep, writing: RequestWriting) -> Iterator[Block]:
    """Yield the messages of a step; a question or a result without a word says ``…``."""
    for message in made:
        mend = None if message.get("content") else _WORDLESS.get(message["role"])
        if mend is not None and not isinstance(step, PlainRun):
            writing.mends.add(mend, step.seq)
        yield message if mend is None else {**message, "content": NOTHING_SAID}


def _sent(step: HistoryStep, writing: RequestWriting) -> Iterator[Block]:
    match step:
        case PlainRun():
            yield from ({"role": said["role"], "content": said["content"]} for said in step.messages)
        case NativeMessages():
            yield from (_with_texts(_with_ids(said, step.ids), step.seq, writing) for said in step.messages)
        case Result():
            content = _joined(_content(step.parts, step.seq, writing, told=True))
            yield {"role": "tool", "tool_call_id": step.call.id, "content": content}
        case Said(role="assistant"):
            text = "".join(part.text or "" for part in only_text(step.parts, writing, "assistant"))
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}
                for call in step.calls
            ]
            if calls:
                yield {"role": "assistant", **({"tool_plan": text} if text else {}), "tool_calls": calls}
            elif text:
                yield {"role": "assistant", "content": text}
        case _:
            parts = list(_content(step.parts, step.seq, writing))
            role = "system" if step.is_system else "user"
            is_text = all(part["type"] == "text" for part, _ in parts)
            yield {"role": role, "content": _joined(parts) if is_text else [part for part, _ in parts]}


def _joined(parts: Iterable[tuple[Block, bool]]) -> str:
    return joined((part["text"], is_line) for part, is_line in parts)


def _arguments(call: Call) -> str:
    """The call's arguments as text; those of a custom tool, which are no JSON, as its definition here has them."""
    return to_json(call.arguments_object()) if call.custom else call.arguments


def _with_texts(message: Block, seq: int, writing: RequestWriting) -> Block:
    """Return the message with arguments of its calls that are JSON as text."""
    calls = message.get("tool_calls") or ()
    texts = [{**call, "function": _with_text(call["function"])} for call in calls]
    if texts == [*calls]:
        return message
    writing.mends.add(BROKEN_ARGUMENTS, seq)
    return {**message, "tool_calls": texts}


def _with_text(function: Block) -> Block:
    is_text = isinstance(function.get("arguments", ""), str)
    return function if is_text else {**function, "arguments": input_text(function["arguments"])}


def _with_ids(message: Block, ids: Sequence[str]) -> Block:
    """Return the message with these ids on its calls; the same message if no ids are given."""
    calls = message.get("tool_calls")
    if not ids or not calls:
        return message
    return {**message, "tool_calls": [{**call, "id": new} for call, new in zip(calls, ids, strict=True)]}


def _content(
    parts: Iterable[Part], seq: int, writing: RequestWriting, *, told: bool = False
) -> Iterator[tuple[Block, bool]]:
    """Yield the parts of a message, texts and pictures, and whether each is a line that tells a medium; with ``told``, a
    picture is a line, as other files are."""
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield {"type": "text", "text": part.text or ""}, part.is_line
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} if not told:
                if url[:5].lower() != "data:" or read_data_url(url, part.place, writing):
                    yield {"type": "image_url", "image_url": {"url": url}}, False
            case {"type": "file", "file": {"file_data": str(data)} as file} if data.startswith("data:text/"):
                media = read_file(file, part.place, writing)
                said = media.text() if media else None
                yield _told(media_line(part.body) if said is None else said, seq, writing), said is None
            case _:
                yield _told(media_line(part.body), seq, writing), True


def _told(text: str, seq: int, writing: RequestWriting) -> Block:
    """Return the text that is sent in place of a part, and note it."""
    writing.mends.add(AS_TEXT, seq)
    return {"type": "text", "text": text}


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    del keeps
    return {**own, "content": text}


class CohereRequest(msgspec.Struct):
    """The arguments of ``cohere.ClientV2().chat``, except the model."""

    messages: list[ProviderObject]
    tools: list[ProviderObject] = []
    tool_choice: Literal["REQUIRED", "NONE"] | msgspec.UnsetType = msgspec.UNSET


COHERE = Provider(
    arguments=CohereRequest,
    called="a message of Cohere",
    own_types=r"document|thinking|image_url",
    shape=_SHAPE,
    regular=_regular,
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=_is_chat,
    is_like_chat=True,
    carries=frozenset(),
    replies_are_items=False,
    fills=False,
    is_call=lambda part: isinstance(part.get("function"), dict),
    unknown_kinds=_unknown_kinds,
    kinds=PartKinds(reasoning=kinds("thinking"), unread=frozenset({"citations"})),
    with_result_text=_with_result_text,
    maker="cohere",
    caching=uncached,
    mark=unmarked,
    limits=lambda _name, _window: NO_LIMITS,
    takes=_MEDIA,
    mends=(BROKEN_ARGUMENTS, EMPTY_QUESTION, EMPTY_RESULT, UNTAKEN, MEDIA_TYPE),
    own_members=_MEMBERS,
    one_string=dict.fromkeys(_ROLES, "always"),
    parts_apart=True,
)
