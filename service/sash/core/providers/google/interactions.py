"""Write Google's Interactions: a flat list of steps; ``call_id`` joins a result with its call. Without state at Google.

A step is the user's input, the model's output, a thought, a call or a result. Reasoning has steps of its own with the
signatures that Gemini's contents have on calls. Gemini 3 wants one before the first call of each step of the running turn
(``gemini_mends``). A request says ``store: false``, as the whole history is sent.

Read steps of Interactions, of the input or of a reply. Neighbouring steps of the model become one chat message.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, takewhile
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import CallId
from sash.core.chat.mistakes import problem_at
from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, one_tool, schema_format
from sash.core.providers.google.gemini import GEMINI, FileLink, carried, system_text
from sash.core.providers.google.gemini_mends import (
    EMPTY_PART,
    GEMINIS_MEDIA,
    MISSING_SIGNATURE,
    SKIPS,
    requires_signatures,
    takes_media,
)
from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS, GivenInput, input_text, with_object
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import (
    Keeps,
    Name,
    Object,
    Piece,
    Text,
    convert,
    medium_part,
    rest_of,
    result_content,
    to_json,
)
from sash.core.providers.writing.media import Media
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes, medium_type
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.shared_mends import CALL_ID
from sash.core.providers.writing.tools import Choice, read_choice, read_functions
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
    answers_call,
    as_line,
    in_place,
    is_of,
    only_text,
    read_steps,
)

# ---- reading messages

STEPS: Final = (
    *("user_input", "model_output", "thought", "function_call", "function_result"),
    *("code_execution_call", "code_execution_result", "file_search_call", "file_search_result"),
    *("google_maps_call", "google_maps_result", "google_search_call", "google_search_result"),
    *("mcp_server_tool_call", "mcp_server_tool_result", "processing_call", "processing_result"),
    *("retrieval_call", "retrieval_result", "tool_search_call", "tool_search_result"),
    *("url_context_call", "url_context_result"),
)
"""Types of steps: ``StepParam`` of google-genai 3.4.0."""
CONTENTS: Final = ("text", "image", "document", "audio", "video")
"""Types of contents: ``ContentParam``."""
_OF_MEDIA: Final = frozenset({"data", "mime_type", "uri", "resolution", "processing"})
_MEMBERS: Final = OwnMembers(
    messages={
        "user_input": frozenset({"type", "content"}),
        "model_output": frozenset({"type", "content", "error"}),
        "thought": frozenset({"type", "signature", "summary"}),
        "function_call": frozenset({"type", "id", "name", "arguments"}),
        "function_result": frozenset({"type", "call_id", "name", "result", "is_error"}),
    },
    parts={
        "text": frozenset({"type", "text", "annotations"}),
        "image": _OF_MEDIA | {"type"},
        "document": _OF_MEDIA | {"type"},
        "video": _OF_MEDIA | {"type", "name"},
        "audio": _OF_MEDIA | {"type", "channels", "sample_rate"},
    },
)
"""Members of the SDK's types of the steps that clients write or see most."""


class _Said(msgspec.Struct):
    content: list[Object] | None = None


class _FunctionCall(msgspec.Struct):
    id: CallId
    name: Name
    arguments: GivenInput


class _HostedCall(msgspec.Struct):
    arguments: GivenInput | None = None


class _FunctionResult(msgspec.Struct):
    call_id: CallId
    result: str | list[Any] | Object | None = None


def _read_step(step: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the piece of one step; a content alone is the user's. Raises InvalidEntry."""
    own = dict(step)
    kind = own.get("type")
    if not isinstance(kind, str):
        raise problem_at("A step's type is a word, such as 'user_input'", f"#{pointer}/type")
    if kind in CONTENTS:
        own, kind = {"type": "user_input", "content": [own]}, "user_input"
    if kind == "function_result":
        return [_read_result(own, pointer)]
    piece = Piece(role="user" if kind == "user_input" else "assistant", own=own)
    match kind:
        case "user_input" | "model_output":
            for index, part in enumerate(convert(own, _Said, pointer).content or ()):
                _read_content(part, piece, f"{pointer}/content/{index}")
        case "function_call":
            call = convert(own, _FunctionCall, pointer)
            piece.add_call(call.id, call.name, input_text(call.arguments))
        case "thought":
            pass
        case _:
            convert(own, _HostedCall, pointer)
            piece.tell(kind, own)
    return [piece]


def _unknown_kinds(step: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield a step's type, and those of its contents, that Interactions do not have."""
    yield from unknown_name(step.get("type"), f"{pointer}/type", "step type", (*STEPS, *CONTENTS))
    for part, place in objects_at(step.get("content"), f"{pointer}/content"):
        yield from unknown_name(part.get("type"), f"{place}/type", "content type", CONTENTS)


def _regular(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a step whose result is a text, contents or an object."""
    if "result" in step and step["result"] is None:
        return {**step, "result": ""}
    return {**step, "result": to_json(step["result"])} if isinstance(step.get("result"), int | float) else step


def _read_result(own: Object, pointer: str) -> Piece:
    given = convert(own, _FunctionResult, pointer)
    piece = Piece(role="tool", own=own, answers=given.call_id)
    match given.result:
        case str(text):
            piece.add_text(text)
        case [*parts] if _are_contents(parts):
            for index, part in enumerate(parts):
                _read_content(part, piece, f"{pointer}/result/{index}")
        case value if value:
            piece.add_text(to_json(value))
    return piece


def _are_contents(result: Any) -> bool:
    is_list = isinstance(result, list)
    return is_list and all(isinstance(part, dict) and part.get("type") in CONTENTS for part in result)


def _read_content(content: Object, piece: Piece, pointer: str) -> None:
    kind = content.get("type")
    if kind == "text":
        piece.add_text(convert(content, Text, pointer).text)
    elif found := _medium(content):
        piece.add_medium(str(kind), found)
    else:
        piece.tell(kind if isinstance(kind, str) else "part", content)


def _medium(content: Object) -> Object | None:
    kind, media_type, data, uri = (content.get(name) for name in ("type", "mime_type", "data", "uri"))
    given = media_type if isinstance(media_type, str) else ""
    if isinstance(data, str):
        return medium_part(str(kind), given, data=data)
    return medium_part(str(kind), given, uri=uri) if isinstance(uri, str) else None


# ---- reading a whole request


class _InteractionRequest(msgspec.Struct):
    input: str | list[Any] | Object | None = None
    system_instruction: str | None = None
    tools: list[Object] | None = None
    generation_config: Object | None = None
    response_format: Object | list[Object] | None = None
    store: bool | None = None


_CHOICES: Final = {"none": "none", "auto": "auto", "any": "required", "validated": "auto"}
_CALLING: Final = {"none": "none", "auto": "auto", "required": "any"}


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    given = convert(request, _InteractionRequest, "")
    system = [{"role": "system", "content": given.system_instruction}] if given.system_instruction else []
    tools = given.tools or []
    formats = given.response_format if isinstance(given.response_format, list) else [given.response_format or {}]
    schema = next((each["schema"] for each in formats if isinstance(each.get("schema"), dict)), None)
    return ChatRequest(
        messages=[*system, *chat(_steps_of(given.input), "/input")],
        tools=[
            chat_function(tool, tool.get("parameters"), "type", "parameters")
            for tool in tools
            if tool.get("type") == "function"
        ],
        tool_choice=_chat_choice((given.generation_config or {}).get("tool_choice")),
        response_format=schema_format(schema),
        hosted=[tool for tool in tools if tool.get("type") != "function"],
        rest=rest_of(request, *_InteractionRequest.__struct_fields__),
    )


def _shows_all(request: Mapping[str, Any]) -> bool:
    """Whether a request asks for no resolution of its media: no bill shows what that changes."""
    steps = [step for step in _steps_of(request.get("input")) if isinstance(step, dict)]
    contents = [step["content"] for step in steps if isinstance(step.get("content"), list)]
    return not any("resolution" in part for part in (*steps, *chain(*contents)))


def _steps_of(given: str | list[Any] | Object | None) -> list[Any]:
    match given:
        case None:
            return []
        case str():
            return [{"type": "text", "text": given}]
        case dict():
            return [given]
    return given


def _chat_choice(choice: Any) -> Any:
    match choice:
        case {"allowed_tools": {"mode": "any", "tools": [str(name)]}}:
            return one_tool(name)
        case {"allowed_tools": {"mode": mode}} | mode:
            return _CHOICES.get(str(mode))


# ---- writing

UNSIGNED_THOUGHT: Final = Mend(
    name="unsigned_thought",
    refused="A thought step without a signature, as some replies with summaries have it",
    sent="The steps without it",
    evidence="'Request contains an invalid argument.' for a step with an empty signature (googleapis/js-genai 1735)",
)


class _Sent(NamedTuple):
    seq: int
    step: Block


def _answering(step: Block, call_id: str) -> Block:
    return {**step, "call_id": call_id}


_MEDIA: Final = Takes(
    pictures=(GEMINIS_MEDIA.pictures or frozenset()) | {"image/gif", "image/bmp", "image/tiff"},
    addresses=GEMINIS_MEDIA.addresses,
    references=GEMINIS_MEDIA.references,
    reads_googles_files=True,
)
"""What Interactions take: ``ImageContentMimeType`` of ``google.genai``, which names more than Gemini's contents take."""
_SHAPE: Final = Shape(
    name="interactions", messages="input", parts="content", text={"type": "text"}, answering=_answering
)


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``input`` and what stands beside it: the system text, the tools and the choice of a tool."""
    joins = not writing.model or "gemini" in writing.model.lower()  # others bill calls together and alone differently
    wordless = {each.seq for each in messages if joins and each.seq and _is_wordless(each.message)}
    steps = list(_by_reply(read_steps(messages, _SHAPE, writing, renames=CALL_ID, takes=_MEDIA), wordless))
    history = in_place(steps, messages, writing)
    said = [step for step in history if not (isinstance(step, Said) and step.is_system)]
    sent = _signed(list(_with_media(said, writing)), writing)
    if _wants_opening(said, sent):
        sent.insert(0, _Sent(0, _input([{"type": "text", "text": NOTHING_SAID}])))
    for seq, step in sent:
        if seq:  # the others are texts alone
            writing.mends.send(seq, step)
    request: dict[str, Any] = {"input": [each.step for each in sent], "store": False}
    if text := system_text(history, writing):
        request["system_instruction"] = text
    if functions := list(read_functions(tools, writing)):
        request["tools"] = [
            {"type": "function", "name": each.name, "parameters": each.schema}
            | ({"description": each.description} if each.description is not None else {})
            for each in functions
        ]
    if choice := read_choice(tool_choice, writing):
        request["generation_config"] = {"tool_choice": _choice(choice)}
    return request


def _is_wordless(message: Block) -> bool:
    """Whether a message is steps of a reply without words: of reasoning and calls."""
    return message["role"] == "assistant" and message.get("content") is None and is_of(message, _SHAPE.name)


def _by_reply(history: Iterable[HistoryStep], wordless: AbstractSet[int]) -> Iterator[HistoryStep]:
    """Yield the history with the results of a reply's calls behind all of its calls, also where these are messages.

    ``wordless`` are the seqs of steps without words. Those that follow each other in the log are of one reply, whether they
    were appended in one request or one by one.
    """
    said: list[NativeMessages] = []
    results: list[HistoryStep] = []
    for step in history:
        seq = 0 if isinstance(step, PlainRun) else step.seq
        if said and isinstance(step, NativeMessages) and seq in wordless and seq == said[-1].seq + 1:
            said.append(step)
        elif said and answers_call(step):
            results.append(step)
        else:
            yield from (*said, *_in_order_of_log(said, results))
            said, results = [], []
            if isinstance(step, NativeMessages) and seq in wordless:
                said = [step]
            else:
                yield step
    yield from (*said, *_in_order_of_log(said, results))


def _in_order_of_log(said: Sequence[NativeMessages], results: Sequence[HistoryStep]) -> Sequence[HistoryStep]:
    """The results of several messages in the order of the log, and then the lines in place of others; of one as they are."""
    if len(said) < 2:
        return results
    seqs = [0 if isinstance(each, PlainRun) else each.seq for each in results]
    heads = {each.seq for each in said}
    is_line = [seq in heads or seq in seqs[:place] for place, seq in enumerate(seqs)]
    order = sorted(range(len(results)), key=lambda place: (is_line[place], 0 if is_line[place] else seqs[place]))
    return [results[place] for place in order]


def _choice(choice: Choice) -> Any:
    if choice.names is None:
        return _CALLING[choice.mode]
    return {"allowed_tools": {"mode": "any" if choice.mode == "required" else "validated", "tools": choice.names}}


def _input(content: list[Block]) -> Block:
    return {"type": "user_input", "content": content}


def _wants_opening(said: Sequence[HistoryStep], sent: Sequence[_Sent]) -> bool:
    """Whether the input would begin with the model: with calls, or not as the history itself begins."""
    leading = [each.step["type"] for each in takewhile(lambda each: not _is_users(each.step), sent)]
    came = bool(said) and isinstance(said[0], NativeMessages) and (said[0].begins or said[0].seq <= 1)
    return bool(leading) and not (came and "function_call" not in leading)


def _is_users(step: Block) -> bool:
    return step["type"] in ("user_input", "function_result")


def _with_media(steps: Iterable[HistoryStep], writing: RequestWriting) -> Iterator[_Sent]:
    """Yield what is sent. A model before Gemini 3 gets each result as a string; pictures and files follow as an input.

    It answers 400 to a list, "Multimodal function responses are not supported for this model", also to one of texts.
    """
    takes, media = takes_media(writing.model), list[Block]()
    seq = 0
    for each in (sent for step in steps for sent in _sent(step, writing)):
        is_result = each.step["type"] == "function_result"
        if media and not is_result:
            yield _Sent(seq, _input(media))
            media = []
        if takes or not is_result or not _are_contents(each.step["result"]):
            yield each
            continue
        media += _media_in(each.step["result"])
        seq = each.seq
        yield _Sent(each.seq, {**each.step, "result": _text_in(each.step["result"])})
    if media:
        yield _Sent(seq, _input(media))


def _media_in(result: Any) -> list[Block]:
    """Return the contents of a result that are no texts."""
    return [part for part in result if part.get("type") != "text"] if isinstance(result, list) else []


def _text_in(result: list[Block]) -> str:
    return "".join(part["text"] for part in result if part.get("type") == "text")


def _sent(step: HistoryStep, writing: RequestWriting) -> Iterator[_Sent]:
    match step:
        case PlainRun():
            for said in step.messages:
                kind = "user_input" if said["role"] == "user" else "model_output"
                yield _Sent(0, {"type": kind, "content": [{"type": "text", "text": said["content"]}]})
        case NativeMessages():
            ids = iter(step.ids)
            yield from (_Sent(step.seq, own) for each in step.messages for own in _mended(each, ids, step.seq, writing))
        case Result():
            yield _Sent(step.seq, _result(step, writing))
        case Said(role="assistant"):
            texts: list[Block] = [
                {"type": "text", "text": part.text} for part in only_text(step.parts, writing, "assistant") if part.text
            ]
            if texts:
                yield _Sent(step.seq, {"type": "model_output", "content": texts})
            yield from (_Sent(step.seq, each) for call in step.calls for each in _call(call))
        case _:
            content = list(_contents(step.parts, writing)) or [{"type": "text", "text": NOTHING_SAID}]
            yield _Sent(step.seq, _input(content))


def _call(call: Call) -> Iterator[Block]:
    if call.signature:
        yield {"type": "thought", "signature": call.signature}
    yield {"type": "function_call", "id": call.id, "name": call.name, "arguments": call.arguments_object()}


def _result(result: Result, writing: RequestWriting) -> Block:
    contents = [part for part in _contents(result.parts, writing) if part.get("text") != ""]
    given = contents if _media_in(contents) else _text_in(contents)
    return {"type": "function_result", "call_id": result.call.id, "name": result.call.name, "result": given}


def _mended(step: Block, ids: Iterator[str], seq: int, writing: RequestWriting) -> Iterator[Block]:
    """Yield a step that came in this form as it is accepted: without empty texts, and not at all without content."""
    match step:
        case {"type": "thought"} if not step.get("signature"):
            writing.mends.add(UNSIGNED_THOUGHT, seq)
        case {"type": "function_result", "result": list(given)} if _are_contents(given):
            yield {**step, "result": _filled(given, seq, writing) or ""}
        case {"type": "user_input" | "model_output" as kind}:
            content = _filled(step.get("content") or [], seq, writing)
            if not content:
                writing.mends.add(EMPTY_PART, seq)
            if content or kind == "user_input":
                yield {**step, "content": content or [{"type": "text", "text": NOTHING_SAID}]}
        case {"type": "function_call", "id": given}:
            yield with_object({**step, "id": next(ids, given)}, "arguments", seq, writing.mends)
        case {"arguments": _}:
            yield with_object(step, "arguments", seq, writing.mends)
        case _:
            yield step


def _filled(contents: list[Block], seq: int, writing: RequestWriting) -> list[Block]:
    """Return the contents that are no empty texts, with media as they are taken."""
    left = [part for part in contents if part.get("type") != "text" or part.get("text")]
    if left != contents:
        writing.mends.add(EMPTY_PART, seq)
    return [_as_taken(part, seq, writing) for part in left]


def _as_taken(content: Block, seq: int, writing: RequestWriting) -> Block:
    """Return a content of bytes with the type that they have, or the line of one without bytes; another one as it came."""
    medium = _medium(content) if isinstance(content.get("data"), str) else None
    if medium is None:
        return content
    if _MEDIA.refuses(medium):
        writing.mends.add(UNTAKEN, seq)
        return {"type": "text", "text": as_line(medium)["text"]}
    if not _MEDIA.retypes(medium):
        return content
    writing.mends.add(MEDIA_TYPE, seq)
    return {**content, "mime_type": medium_type(str(content.get("mime_type")), content["data"])}


def _signed(sent: list[_Sent], writing: RequestWriting) -> list[_Sent]:
    """Return the steps with a signed thought before the first call of each step of the running turn, for Gemini 3."""
    if not requires_signatures(writing.model):
        return sent
    begins = max((place for place, each in enumerate(sent) if each.step["type"] == "user_input"), default=-1) + 1
    signed, made = False, sent[:begins]
    for each in sent[begins:]:
        kind = each.step["type"]
        if kind == "function_call" and not signed:
            writing.mends.add(MISSING_SIGNATURE, each.seq)
            made.append(_Sent(each.seq, {"type": "thought", "signature": SKIPS}))
        signed = kind in ("thought", "function_call") or (signed and kind != "function_result")
        made.append(each)
    return made


def _contents(parts: Iterable[Part], writing: RequestWriting) -> Iterator[Block]:
    for each in carried(parts, writing, "Interactions"):
        match each:
            case str():
                yield {"type": "text", "text": each}
            case FileLink():
                kind = "image" if each.is_image else _content_type(each.media_type or "")
                yield {"type": kind, "uri": each.uri} | ({"mime_type": each.media_type} if each.media_type else {})
            case Media():
                yield {"type": _content_type(each.media_type), "mime_type": each.media_type, "data": each.data}


def _content_type(media_type: str) -> str:
    kind = media_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    return {**own, "result": result_content(own.get("result"), text, "text", keeps)}


class InteractionsRequest(msgspec.Struct):
    """The arguments of ``client.interactions.create``, except the model."""

    input: list[ProviderObject]
    store: bool = False
    system_instruction: str = ""
    tools: list[ProviderObject] = []
    generation_config: ProviderObject = {}


INTERACTIONS = Provider(
    arguments=InteractionsRequest,
    called="a step of Google's Interactions",
    own_types="|".join((*STEPS, "image", "document")),
    shape=_SHAPE,
    regular=_regular,
    read=_read_step,
    read_request=_read_request,
    write=_write,
    is_chat=lambda message: "role" in message,
    carries=frozenset({"signatures"}),
    replies_are_items=True,
    fills=True,
    is_call=lambda step: step.get("type") == "function_call",
    unknown_kinds=_unknown_kinds,
    kinds=PartKinds(
        reasoning=kinds("thought"),
        images=kinds("image"),
        files=kinds("document", "audio", "video"),
        sealed_calls=kinds("thought"),  # a call follows
        named_results=kinds("function_result"),
    ),
    with_result_text=_with_result_text,
    maker=GEMINI.maker,
    caching=GEMINI.caching,
    mark=GEMINI.mark,
    own_members=_MEMBERS,
    of_reply=frozenset({"id"}),
    limits=GEMINI.limits,
    takes=_MEDIA,
    mends=(BROKEN_ARGUMENTS, CALL_ID, EMPTY_PART, MISSING_SIGNATURE, UNSIGNED_THOUGHT, UNTAKEN, MEDIA_TYPE),
    has_system_messages=GEMINI.has_system_messages,
    needs_question="calls",
    one_string={"tool": "perhaps"},
    parts_apart=True,
    media_apart=True,
    has_exact_bills=True,
    shows_all=_shows_all,
)
