"""Write OpenAI's Responses: a flat list of messages, calls and results; ``call_id`` joins a result with its call.

Three rules of the server are not in its schema. A call and its result are of one kind. An assistant's content list takes
only ``output_text``, which needs the id of a stored reply, so an assistant's text is sent as a plain string. ``strict`` is
true by default, unlike in chat completions, so it is always written.

Read items of OpenAI's Responses: a flat list, in which one reply is several items.

Neighbouring items of the assistant become one chat message. Every call that a client answers becomes a call in chat form,
under its own name or the name of its kind (``computer_call``), so that the call and its result stay together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sash.core.chat.arguments import CacheKey, ProviderObject, ToolChoice
from sash.core.chat.file_links import is_link
from sash.core.chat.messages import CallId
from sash.core.chat.result_values import returned_content
from sash.core.providers.form.cache_marks import CachePrices, Caching, Lifetime
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, one_tool, schema_format
from sash.core.providers.messages.call_inputs import GivenInput, input_text
from sash.core.providers.messages.owed_reasoning import NO_REASONING
from sash.core.providers.messages.pieces import (
    Keeps,
    Name,
    Object,
    Piece,
    Text,
    convert,
    file_part,
    has_part,
    rest_of,
    result_content,
    to_json,
)
from sash.core.providers.openai.item_kinds import unknown_items
from sash.core.providers.openai.item_mends import (
    ITEM_MENDS,
    ITEMS_MEDIA,
    Placed,
    as_ended,
    as_taken,
    is_spoken,
    reasoning_item,
)
from sash.core.providers.openai.openai import openai_caching, openai_limits, openai_marks
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.turns import (
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
    tell_sounds,
    words,
)
from sash.problems import InvalidEntry, Pointer

# ---- reading messages


_SILENT: Final = frozenset({"reasoning", "compaction", "compaction_trigger"})
"""Items that are not sent to other providers: reasoning, and compactions, whose messages are sent instead."""
_INSTRUCTING: Final = frozenset({"additional_tools", "configuration_update"})
"""Items that apply to all later items, like a developer message."""
_FUNCTIONS: Final = frozenset({"function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output"})
_AROUND: Final = frozenset({"type", "id", "call_id", "status", "caller"})


_CALL_MEMBERS: Final = frozenset({"type", "id", "call_id", "name", "namespace", "status", "caller", "async"})
_PART_MEMBERS: Final = frozenset({"type", "prompt_cache_breakpoint"})
_MEMBERS: Final = OwnMembers(
    messages={
        "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
        "function_call": _CALL_MEMBERS | {"arguments"},
        "custom_tool_call": _CALL_MEMBERS | {"input"},
        "function_call_output": _CALL_MEMBERS | {"output"},
        "custom_tool_call_output": _CALL_MEMBERS | {"output"},
        "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content", "status"}),
    },
    parts={
        "input_text": _PART_MEMBERS | {"text"},
        "output_text": _PART_MEMBERS | {"text", "annotations", "logprobs"},
        "refusal": _PART_MEMBERS | {"refusal"},
        "input_image": _PART_MEMBERS | {"image_url", "file_id", "detail"},
        "input_file": _PART_MEMBERS | {"file_id", "filename", "file_data", "file_url", "detail"},
    },
    default="message",
)
"""Members of the SDK's types of the items that clients write or see most."""


class _MessageItem(msgspec.Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Object]


class _FunctionCall(msgspec.Struct):
    call_id: CallId
    name: Name
    arguments: GivenInput


class _CustomCall(msgspec.Struct):
    call_id: CallId
    name: Name
    input: str


class _Output(msgspec.Struct):
    call_id: CallId
    output: str | list[Object] | Object | None = None


class _ApprovalRequest(msgspec.Struct):
    id: CallId
    name: str
    arguments: GivenInput
    server_label: str


class _ApprovalResponse(msgspec.Struct):
    approval_request_id: CallId
    approve: bool


class _Reference(msgspec.Struct):
    id: str


def _read_item(item: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the piece of one item, of the input or of a reply. Raises InvalidEntry."""
    own = dict(item)
    given = item.get("type")
    kind = ("message" if "role" in item else "item_reference") if given in (None, "") else given
    if not isinstance(kind, str):
        detail = "An item's type is a word"
        raise InvalidEntry(f"{detail}: see #{pointer}/type.", errors=[Pointer(f"#{pointer}/type", detail)])
    match kind:
        case "message":
            return [_message(own, pointer)]
        case "mcp_approval_response":
            answer = convert(own, _ApprovalResponse, pointer)
            piece = Piece(role="tool", own=own, answers=answer.approval_request_id)
            piece.add_text(to_json({"approve": answer.approve}))
            return [piece]
        case _ if kind.endswith("_call_output") or (kind.endswith("_output") and own.get("call_id") is not None):
            return [_output(own, pointer)]
        case _ if kind in _INSTRUCTING:
            return [Piece(role="developer", own=own, only=[kind])]
    piece = Piece(role="assistant", own=own, stands=_compaction(own) is not None)
    _read_call(own, kind, piece, pointer)
    return [piece]


def _regular(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an item whose message has a content, and whose output is a text, parts or an object."""
    if "role" in item and item.get("content", ...) is None:
        return {**item, "content": []}
    kind = item.get("type")
    is_function = isinstance(kind, str) and kind in _FUNCTIONS
    if is_function and isinstance(item.get("output"), list | int | float):
        return {**item, "output": returned_content(item["output"])}
    return item


def as_function(item: Object) -> Object:
    """Return the item as a function's call or result in place of another kind, which has no place for other content."""
    if item.get("type") in _FUNCTIONS:
        return item
    (piece,) = _read_item(item, "")
    if piece.calls:
        return {"type": "function_call", "call_id": piece.calls[0]["id"], **piece.calls[0]["function"]}
    has_media = piece.only or piece.told or any(part["type"] != "text" for part in piece.parts)
    output = item["output"] if has_media else "".join(part["text"] for part in piece.parts)
    if isinstance(output, dict):  # a computer's screenshot
        output = [{**output, "type": "input_image"}]
    return {"type": "function_call_output", "call_id": piece.answers, "output": output}


def _message(item: Object, pointer: str) -> Piece:
    given = convert(item, _MessageItem, pointer)
    piece = Piece(role=given.role, own=item)
    if isinstance(given.content, str):
        piece.add_text(given.content)
        return piece
    for index, part in enumerate(given.content):
        _read_part(part, piece, f"{pointer}/content/{index}")
    return piece


def _read_part(part: Object, piece: Piece, pointer: str) -> None:
    match part:
        case {"type": "input_text" | "output_text" | "text"}:
            piece.add_text(convert(part, Text, pointer).text)
        case {"type": "refusal", "refusal": str(refusal)} if piece.role == "assistant":
            piece.parts.append({"type": "refusal", "refusal": refusal})
        case {"transcript": str(said)} if is_spoken(part):
            piece.add_text(said)
        case {"type": "input_image", "image_url": str(url)} if piece.role in ("user", "tool"):
            detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
            piece.add_medium("input_image", {"type": "image_url", "image_url": {"url": url, **detail}})
        case {"type": "input_file"} if piece.role in ("user", "tool") and (found := _file(part)):
            piece.add_medium("input_file", found)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}} if piece.role == "user":
            piece.parts.append({"type": "input_audio", "input_audio": {"data": data, "format": form}})
        case _:
            kind = part.get("type")
            piece.tell(kind if isinstance(kind, str) else "part", part)


def _file(part: Object) -> Object | None:
    known = {name: part[name] for name in ("file_id", "filename", "file_data") if isinstance(part.get(name), str)}
    if not known.keys() & {"file_id", "file_data"} and is_link(url := part.get("file_url")):
        known["file_id"] = url
    return file_part(**known) if known.keys() & {"file_id", "file_data"} else None


def _compaction(item: Object) -> str | None:
    """Return the words of a compaction item, of which OpenAI or xAI alone can read the content; None for another item."""
    return "" if item.get("type") == "compaction" and item.get("encrypted_content") else None


def _read_call(item: Object, kind: str, piece: Piece, pointer: str) -> None:
    match kind:
        case "function_call":
            call = convert(item, _FunctionCall, pointer)
            piece.add_call(call.call_id, call.name, input_text(call.arguments))
        case "custom_tool_call":
            custom = convert(item, _CustomCall, pointer)
            piece.add_call(custom.call_id, custom.name, custom.input, custom=True)
        case "mcp_approval_request":
            asked = convert(item, _ApprovalRequest, pointer)
            said = {"server_label": asked.server_label, "name": asked.name, "arguments": asked.arguments}
            piece.add_call(asked.id, kind, to_json(said))
        case "item_reference":
            convert(item, _Reference, pointer)
            piece.only.append(kind)
        case _ if kind in _SILENT:
            pass
        case _ if item.get("call_id") is not None:
            call_id = convert(item, _Output, pointer).call_id
            piece.add_call(call_id, kind, to_json({name: item[name] for name in item if name not in _AROUND}))
        case _:
            piece.tell(kind, item)


def _output(item: Object, pointer: str) -> Piece:
    by_id = {"call_id": item["id"]} if item.get("type") == "local_shell_call_output" and "id" in item else {}
    given = convert({**by_id, **item}, _Output, pointer)  # in OpenAI's type, the id is the call's
    piece = Piece(role="tool", own=item, answers=given.call_id)
    match given.output:
        case str():
            piece.add_text(given.output)
        case list() if all(isinstance(part.get("type"), str) for part in given.output):
            for index, part in enumerate(given.output):
                _read_part(part, piece, f"{pointer}/output/{index}")
        case {"type": "computer_screenshot", "image_url": str(url)}:
            piece.add_told("computer_screenshot", {"type": "image_url", "image_url": {"url": url}})
        case dict() if str(given.output.get("type")).endswith("screenshot"):
            piece.tell(str(given.output["type"]), given.output)
        case _:
            said = {name: item[name] for name in item if name not in _AROUND and item[name] is not None}
            piece.add_text(to_json(said) if said else "")
    return piece


# ---- reading a whole request


class _ResponsesRequest(msgspec.Struct):
    input: str | list[Object] | None = None
    instructions: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: str | Object | None = None
    text: Object | None = None


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _ResponsesRequest, "")
    items = [{"role": "user", "content": given.input}] if isinstance(given.input, str) else given.input or []
    system: list[Object] = []
    if isinstance(given.instructions, str):
        system = [{"role": "system", "content": given.instructions}]
    elif given.instructions:
        system = chat(given.instructions, "/instructions")
    tools = [each for tool in given.tools or [] for each in _members(tool)]
    return ChatRequest(
        messages=[*system, *chat(items, "/input")],
        tools=[_chat_tool(tool) for tool in tools if tool.get("type") in ("function", "custom")],
        tool_choice=_chat_choice(given.tool_choice),
        response_format=_chat_format((given.text or {}).get("format")),
        hosted=[tool for tool in tools if tool.get("type") not in ("function", "custom")],
        rest=rest_of(request, *_ResponsesRequest.__struct_fields__),
    )


def _members(tool: Object) -> list[Object]:
    """Return a tool alone, or a namespace without its tools, followed by them."""
    match tool:
        case {"type": "namespace", "tools": list(tools), **rest}:
            return [{"type": "namespace", **rest}, *(each for each in tools if isinstance(each, dict))]
    return [tool]


def _chat_tool(tool: Object) -> Object:
    if tool["type"] == "custom":
        return {"type": "custom", "custom": rest_of(tool, "type")}
    return chat_function(tool, tool.get("parameters"), "type")


def _chat_choice(choice: Any) -> Any:
    match choice:
        case {"type": "function" | "custom" as kind, "name": str(name)}:
            return one_tool(name, kind)
        case {"type": "allowed_tools", "mode": mode, "tools": list(allowed)}:
            names = [_chat_choice(tool) for tool in allowed]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": names}}
        case _:
            return choice


def _chat_format(value: Any) -> Object | None:
    match value:
        case {"type": "json_schema", "schema": schema, **rest}:
            return schema_format(
                schema, rest.get("name"), description=rest.get("description"), strict=rest.get("strict")
            )
    return value if isinstance(value, dict) else None


# ---- writing

_CHAT_PARTS: Final = frozenset({"image_url", "text", "file"})
"""Parts that only chat messages have."""
_HINT: Final = "prompt_cache_breakpoint"
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def _answering(item: Block, call_id: str) -> Block:
    return {**as_function(item), "call_id": call_id}


_SHAPE: Final = Shape(
    name="responses",
    messages="input",
    parts="content",
    result_parts="output",
    text={"type": "input_text"},
    answering=_answering,
)


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``instructions`` and ``input``, with ``tools`` and ``tool_choice`` when there are any."""
    history = list(read_steps(messages, _SHAPE, writing))
    request: dict[str, Any] = {}
    match history:
        case [Said(role="system" | "developer") as first, *rest]:
            request["instructions"] = words(first.parts, writing, "system")
            history = rest
    items = as_ended([placed for step in history for placed in _items(step, writing)], writing)
    functions = {step.call.id for step in history if isinstance(step, Result)}  # their results were cut or redacted
    fills = writing.fills_reasoning
    request["input"] = as_taken(items, functions, as_function, writing.mends, fills_reasoning=fills)
    if tools:
        request["tools"] = [_tool(tool) for tool in tools]
    if tool_choice:
        request["tool_choice"] = _choice(tool_choice)
    return request


def _items(step: HistoryStep, writing: RequestWriting) -> list[Placed]:
    match step:
        case PlainRun():
            return [Placed(0, message) for message in step.messages]
        case NativeMessages():
            return [Placed(step.seq, item, came=True) for item in step.messages]
        case Result():
            output = {
                "type": "custom_tool_call_output" if step.call.custom else "function_call_output",
                "call_id": step.call.id,
                "output": _output_content(step, writing),
            }
            return [Placed(step.seq, output)]
        case Said(role="assistant"):
            text = words(step.parts, writing, "assistant")
            said = [*([{"role": "assistant", "content": text}] if text else []), *map(_call, step.calls)]
            thought = _reasoning(step) if said and writing.fills_reasoning else ()
            return [Placed(step.seq, each) for each in (*thought, *said)]
        case Said(role="user"):
            return [Placed(step.seq, {"role": "user", "content": _content(step.parts, writing)})]
        case _:
            texts = list(only_text(step.parts, writing, "system"))
            return [Placed(step.seq, {"role": step.role, "content": _content(texts, writing)})]


def _reasoning(step: Said) -> list[Block]:
    """The reasoning of a chat message, as one item; none where it has no text."""
    text = "".join(block.get("thinking") or "" for block in step.thinking)
    of = " ".join((str(step.seq), text, *(call.id for call in step.calls)))
    return [reasoning_item(text, of)] if text else []


def _output_content(result: Result, writing: RequestWriting) -> str | list[Block]:
    """A result's output: one string, or a list of parts if it has a picture or a file."""
    parts = tell_sounds(result, writing)
    if all(part.text is not None for part in parts):
        return "".join(part.text or "" for part in parts)
    return list(_blocks(parts, writing))


def _call(call: Call) -> Block:
    if call.custom:
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": call.arguments}
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _content(parts: Sequence[Part], writing: RequestWriting) -> str | list[Block]:
    """Return the content as a string where it is one text, else as blocks."""
    if not parts or (len(parts) == 1 and parts[0].text is not None and _HINT not in parts[0].body):
        return parts[0].text or "" if parts else ""
    return list(_blocks(parts, writing))


def _blocks(parts: Iterable[Part], writing: RequestWriting) -> Iterator[Block]:
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield {"type": "input_text", "text": part.text} | _hinted(part)
            case {"type": "image_url", "image_url": str(url)}:
                yield {"type": "input_image", "image_url": url, "detail": "auto"} | _hinted(part)
            case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
                yield {"type": "input_image", "image_url": url, "detail": rest.get("detail") or "auto"} | _hinted(part)
            case {"type": "file", "file": {"file_id": str(url)}} if is_link(url):
                yield {"type": "input_file", "file_url": url} | _hinted(part)
            case {"type": "file", "file": dict(file)}:
                known = {key: file[key] for key in ("file_id", "file_data", "filename") if file.get(key)}
                yield {"type": "input_file", **known} | _hinted(part)
            case {"type": "input_audio", "input_audio": dict()}:
                yield part.body  # its line stands in its place (``as_taken``)
            case _:
                writing.add(part.place, "has no place in the Responses API, which takes text, images and files")


def _hinted(part: Part) -> Block:
    """The client's own mark for the prompt cache, which Responses take in the same member as chat completions."""
    return {_HINT: part.body[_HINT]} if part.body.get(_HINT) else {}


def _tool(tool: dict[str, Any]) -> Block:
    """Return a function or custom tool without its wrapping member; OpenAI's own tools, such as web search, have none."""
    kind = tool.get("type")
    body = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(body, dict):
        return tool
    flat = {"type": kind, **body}
    if kind == "function":
        flat["parameters"] = body.get("parameters") or {"type": "object", "properties": {}}
        flat["strict"] = bool(body.get("strict"))
    match body.get("format"):
        case {"type": "grammar", "grammar": dict(grammar)}:
            flat["format"] = {"type": "grammar", **grammar}
    return flat


def _choice(tool_choice: Any) -> Any:
    match tool_choice:
        case {"type": "function" | "custom" as kind, **rest} if isinstance(named := rest.get(kind), dict):
            return {"type": kind, "name": named.get("name")}
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(allowed)}}:
            return {"type": "allowed_tools", "mode": mode, "tools": [_choice(tool) for tool in allowed]}
        case _:
            return tool_choice


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block | None:
    if own.get("type") not in _OUTPUTS:
        return None
    return {**own, "output": result_content(own.get("output"), text, "input_text", keeps)}


_STORED: Final = ("previous_response_id", "conversation", "prompt")
"""Members that refer to stored text, which is billed."""
_BILLED: Final = frozenset(
    {
        *("message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
        "reasoning",
    }
)
"""Types of items that are billed like chat messages and their reasoning; no bill has others."""


def _shows_all(request: Mapping[str, Any]) -> bool:
    """Whether a request refers to nothing that is stored, and has no items that no bill has shown."""
    items = request.get("input")
    kinds = {str(item.get("type") or "message") for item in items} if isinstance(items, list) else set()
    return not any(map(request.get, _STORED)) and kinds <= _BILLED


class ResponsesRequest(msgspec.Struct):
    """The arguments of ``client.responses.create``, except the model."""

    input: list[ProviderObject]
    instructions: str = ""
    tools: list[ProviderObject] = []
    tool_choice: ToolChoice = ""
    prompt_cache_key: CacheKey = ""


def _caching(name: str, prices: CachePrices) -> Caching:
    """The prompt cache of a model of OpenAI. From GPT-5.6 on, Responses keep an entry for 12 hours with ``"ttl": "12h"``.

    Writing it costs 2.5 (the guide that ``openai_caching`` names). Chat completions have half an hour alone.
    """
    found = openai_caching(name, prices)
    return msgspec.structs.replace(found, longer=_LONGER) if found.kind == "breakpoints" else found


_LONGER: Final = Lifetime(43_200, 2.5)
_BOUND: Final = re.compile(r"\bgpt-(?:6[.-][2-9]|[7-9])")
"""GPT-6.2 and later: the API drops reasoning items behind a change of what is before them, without an error. Its own
compaction is no such change (developers.openai.com/api/docs/guides/keep-prefix-unchanged, November 2026)."""

RESPONSES = Provider(
    arguments=ResponsesRequest,
    called="an item of OpenAI's Responses",
    own_types=r"input_(text|image|file)|output_text|\w+_call|\w+_call_output|reasoning|mcp_(list_tools|approval_\w+)",
    shape=_SHAPE,
    regular=_regular,
    read=_read_item,
    read_request=_read_request,
    write=_write,
    is_chat=lambda message: has_part(message, _CHAT_PARTS),
    carries=frozenset(),
    replies_are_items=True,
    fills=False,
    is_call=lambda item: item.get("type") in ("function_call", "custom_tool_call"),
    compaction=_compaction,
    compacts="sealed",
    unknown_kinds=unknown_items,
    kinds=PartKinds(
        reasoning=kinds("reasoning"),
        images=kinds("input_image", "computer_screenshot"),
        files=kinds("input_file"),
        made={"image_generation_call": "result"},
        sealed=frozenset({"encrypted_content", "fingerprint"}),
        unread=frozenset({"approval_request_id", "prompt_cache_breakpoint"}),
        stored=frozenset({"item_reference"}),
    ),
    free_members=frozenset(
        {
            *("reasoning", "store", "include", "truncation", "previous_response_id", "conversation", "background"),
            *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "max_tool_calls", "top_logprobs"),
            *("parallel_tool_calls", "context_management"),
        }
    ),
    shows_all=_shows_all,
    cache_marks=frozenset({"prompt_cache_key"}),
    with_result_text=_with_result_text,
    maker="openai",
    caching=_caching,
    mark=openai_marks("input", "input_text"),
    own_members=_MEMBERS,
    of_reply=frozenset({"id", "status"}),
    limits=openai_limits,
    takes=ITEMS_MEDIA,
    mends=(*ITEM_MENDS, NO_REASONING),
    binds_reasoning=_BOUND,
    one_string={"assistant": "always", "tool": "always"},
    is_openais=True,
    has_exact_bills=True,
)
