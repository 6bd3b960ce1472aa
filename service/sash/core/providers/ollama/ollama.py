"""Write Ollama's /api/chat: messages with one text each, pictures beside it, and calls without ids.

A result answers a call by its tool's name, and by its place among the results of that name: results stand behind their
calls, in the calls' order. Ollama answers 400 to a content that is a list, to arguments that are a string, and to pictures
that are no base64. It cuts a request that is longer than ``num_ctx`` without a word, so ``options`` must have a window's
length: 4,096 without it.

Read messages of Ollama, of a request or of a reply (``response.message``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.mistakes import problem_at
from sash.core.chat.open_calls import made_id
from sash.core.providers.form.cache_marks import uncached, unmarked
from sash.core.providers.form.known_kinds import UnknownKind, unknown_name
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import NO_LIMITS
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, schema_format
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS, GivenInput, input_text, with_object
from sash.core.providers.messages.hosted import joined, media_line
from sash.core.providers.messages.mends import AS_TEXT, Mend
from sash.core.providers.messages.pieces import Keeps, Name, Object, Piece, convert, data_url, rest_of, to_json
from sash.core.providers.writing.media import read_data_url, read_file
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes, picture_type
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.shared_mends import RESULT_ORDER
from sash.core.providers.writing.tools import chat_tools, read_choice, read_functions
from sash.core.providers.writing.turns import (
    Block,
    HistoryStep,
    Outgoing,
    Part,
    PlainRun,
    RequestWriting,
    Result,
    Said,
    answers_call,
    in_order_of_calls,
    only_text,
    read_steps,
    sent_of,
)

# ---- reading messages

_ROLES: Final = ("system", "user", "assistant", "tool")
_MEMBERS: Final = OwnMembers(
    messages={
        "": frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}),
    }
)
"""Members of ``Message`` in ollama 0.6.3, and the id that newer servers take with a result."""
_OWN: Final = frozenset({"images", "thinking", "tool_name"})
"""Members that chat messages do not have."""


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[Object] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class _Called(msgspec.Struct):
    name: Name
    arguments: GivenInput | None = None


def _read_message(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the piece of one message. Raises InvalidEntry."""
    given = convert(message, _Message, pointer)
    piece = Piece(role=given.role, own=dict(message))
    piece.add_text(given.content or "")
    for data in given.images or ():
        _add_image(data, piece)
    if given.role == "tool":
        piece.answers = given.tool_call_id or made_id(given.tool_name or "", 0)
        if not (given.tool_call_id or given.tool_name):
            raise problem_at("A result names its tool: the field 'tool_name' is missing", f"#{pointer}")
    counts: dict[str, int] = {}
    for index, each in enumerate(given.tool_calls or ()):
        call = convert(each.get("function"), _Called, f"{pointer}/tool_calls/{index}/function")
        number = counts.get(call.name, 0)
        counts[call.name] = number + 1
        identity = each.get("id")
        piece.add_call(
            identity if isinstance(identity, str) and identity else made_id(call.name, number),
            call.name,
            input_text(call.arguments),
        )
    return [piece]


def _regular(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose content is a text, also where a tool returned another value."""
    if message.get("role") == "tool" and isinstance(said := message.get("content"), dict | list | int | float):
        return {**message, "content": to_json(said)}
    return message


def _answers_name(message: Mapping[str, Any]) -> str | None:
    return None if message.get("tool_call_id") else str(message["tool_name"])


def _add_image(data: str, piece: Piece) -> None:
    url = data if data[:5] == "data:" else data_url(picture_type("", data) or "image/png", data)
    piece.add_medium("image", {"type": "image_url", "image_url": {"url": url}})


def _unknown_kinds(message: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    yield from unknown_name(message.get("role"), f"{pointer}/role", "role", _ROLES)


def _is_chat(message: Mapping[str, Any]) -> bool:
    """Whether a message is a chat message: it has nothing that only Ollama writes."""
    if not _OWN.isdisjoint(message):
        return False
    calls = message.get("tool_calls")
    return not (isinstance(calls, list) and calls and all(map(_is_own_call, calls)))


def _is_own_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return isinstance(function, dict) and isinstance(function.get("arguments"), dict | list) and "type" not in call


# ---- reading a whole request


class _Request(msgspec.Struct):
    messages: list[Object]
    tools: list[Object] | None = None
    format: str | Object | None = None


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _Request, "")
    functions = [function for tool in given.tools or () if isinstance(function := tool.get("function"), dict)]
    asked = {"type": "json_object"} if given.format == "json" else schema_format(given.format)
    return ChatRequest(
        messages=chat(given.messages, "/messages"),
        tools=[chat_function(function, function.get("parameters"), "parameters") for function in functions],
        response_format=asked,
        rest=rest_of(request, "options", "think", "keep_alive", "logprobs", *_Request.__struct_fields__),
    )


# ---- writing

IMAGE_URL: Final = Mend(
    name="image_url",
    refused="A picture as a data URL",
    sent="Its base64",
    evidence="'illegal base64 data at input byte 4' (ollama/ollama-js 68, BerriAI/litellm 18338)",
)
_MEDIA: Final = Takes(addresses=("",))
"""Every type of picture. An address is a line of its own, because the server fetches none."""
_SHAPE: Final = Shape(name="ollama", messages="messages", parts="content", text={})


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``messages``, with ``tools`` if there are any. Ollama has no choice of a tool but to have none."""
    made: list[Block] = []
    steps = in_order_of_calls(read_steps(messages, _SHAPE, writing, takes=_MEDIA), RESULT_ORDER, writing)
    for _, run in groupby(steps, answers_call):
        behind: list[Block] = []
        for step in run:
            made += sent_of(step, _sent(step, behind, writing), writing)
        made += behind
    request: dict[str, Any] = {"messages": made}
    functions, choice = list(read_functions(tools, writing)), read_choice(tool_choice, writing)
    if (choice is None or choice.mode != "none") and (allowed := chat_tools(functions, choice)):
        request["tools"] = allowed
    return request


def _sent(step: HistoryStep, behind: list[Block], writing: RequestWriting) -> Iterator[Block]:
    """Yield what is sent of a step. Pictures of results go ``behind`` all results, in the user's name."""
    match step:
        case PlainRun():
            yield from ({"role": said["role"], "content": said["content"]} for said in step.messages)
        case NativeMessages():
            for said in step.messages:
                if any(_is_url(image) for image in said.get("images") or ()):
                    writing.mends.add(IMAGE_URL, step.seq)
                    said = {**said, "images": [_base64(image) for image in said["images"]]}  # noqa: PLW2901
                if calls := said.get("tool_calls"):
                    said = {**said, "tool_calls": [_with_arguments(call, step.seq, writing) for call in calls]}  # noqa: PLW2901
                yield said
        case Result():
            texts, images = _content(step.parts, step.seq, writing, told=True)
            yield {"role": "tool", "tool_name": step.call.name, "content": texts}
            if images:
                behind += sent_of(step, [{"role": "user", "content": "", "images": images}], writing)
        case Said(role="assistant"):
            text = "".join(part.text or "" for part in only_text(step.parts, writing, "assistant"))
            calls = [{"function": {"name": call.name, "arguments": call.arguments_object()}} for call in step.calls]
            if text or calls:
                yield {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        case _:
            texts, images = _content(step.parts, step.seq, writing)
            role = "system" if step.is_system else "user"
            yield {"role": role, "content": texts, **({"images": images} if images else {})}


def _with_arguments(call: Object, seq: int, writing: RequestWriting) -> Object:
    """Return a call whose arguments are an object, which Ollama's SDK wants also of a call without any."""
    function = call["function"]
    if function.get("arguments") is None:
        function = {**function, "arguments": {}}
    return {**call, "function": with_object(function, "arguments", seq, writing.mends)}


def _is_url(image: Any) -> bool:
    return isinstance(image, str) and image[:5] == "data:"


def _base64(image: Any) -> Any:
    return image.partition(",")[2] if _is_url(image) else image


def _content(parts: Iterable[Part], seq: int, writing: RequestWriting, *, told: bool = False) -> tuple[str, list[str]]:
    """Return the text and the pictures of a message; with ``told``, other files are a line, as links are."""
    texts: list[tuple[str, bool]] = []
    images: list[str] = []
    for part in parts:
        match part.body:
            case {"type": "text", "text": str(text)}:
                texts.append((text, part.is_line))
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} if url[:5].lower() == "data:":
                if media := read_data_url(url, part.place, writing):
                    images.append(media.data)
            case {"type": "file", "file": {"file_data": str(data)} as file} if data.startswith("data:text/"):
                media = read_file(file, part.place, writing)
                said = media.text() if media else None
                if said is None:
                    writing.mends.add(UNTAKEN, seq)
                texts.append((media_line(part.body), True) if said is None else (said, False))
                writing.mends.changed.add(seq)
            case {"type": kind} if told or kind == "image_url":
                writing.mends.add(AS_TEXT, seq)
                texts.append((media_line(part.body), True))
            case _:
                writing.add(part.place, "has no place in Ollama's messages, which take text and images")
    return joined(texts), images


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    changed = {**own, "content": text}
    if "images" in changed and not keeps({"type": "image"}):
        del changed["images"]
    return changed


class OllamaRequest(msgspec.Struct):
    """The arguments of ``ollama.Client().chat``, except the model and ``options``."""

    messages: list[ProviderObject]
    tools: list[ProviderObject] = []


OLLAMA = Provider(
    arguments=OllamaRequest,
    called="a message of Ollama",
    own_types=r"(?!)",
    shape=_SHAPE,
    regular=_regular,
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=_is_chat,
    is_like_chat=True,
    answers_name=_answers_name,
    carries=frozenset(),
    replies_are_items=False,
    fills=False,
    is_call=lambda part: isinstance(part.get("function"), dict),
    unknown_kinds=_unknown_kinds,
    kinds=PartKinds(reasoning=kinds(".thinking")),
    with_result_text=_with_result_text,
    maker="ollama",
    caching=uncached,  # a server of one's own bills nothing, and keeps the last prefix in memory (docs: FAQ)
    mark=unmarked,
    limits=lambda _name, _window: NO_LIMITS,
    takes=_MEDIA,
    mends=(BROKEN_ARGUMENTS, RESULT_ORDER, UNTAKEN, MEDIA_TYPE, IMAGE_URL),
    own_members=_MEMBERS,
    one_string=dict.fromkeys(_ROLES, "always"),
    parts_apart=True,
    tells_links=True,
    media_apart=True,
)
