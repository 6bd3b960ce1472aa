"""Write Gemini's contents: turns of parts; the turn after calls has as many function responses as there were calls.

Members are in camel case, which the server and the SDKs of all languages read; the SDK for JavaScript leaves out those in
snake case without a word. Contents that came in snake case, as the SDK for Python writes them, are sent in camel case too.
Parameters go as JSON Schema, because the older member ``parameters`` takes a dialect of OpenAPI without many members of
ordinary schemas.

Gemini 3 requires its ``thoughtSignature`` with the first call of each step of the running turn. Google's OpenAI endpoint
gives it in ``extra_content.google.thought_signature``; where a client keeps that member, the signature is sent. What is sent
in place of a missing one, and of parts that Google refuses, is in ``gemini_mends``.

Read Gemini's contents: turns of parts, whose members are written in camel case or in snake case.

Calls and results may come without ids. The id is then made of the name and the order among those of the same name, by
which Gemini pairs them too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.chat.arguments import ProviderObject
from sash.core.chat.messages import CallId
from sash.core.chat.mistakes import problem_at
from sash.core.chat.open_calls import made_id
from sash.core.providers.form.cache_marks import CachePrices, Caching, unmarked
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, one_tool, schema_format
from sash.core.providers.google.gemini_kinds import unknown_parts
from sash.core.providers.google.gemini_mends import (
    GEMINIS_MEDIA,
    MENDS,
    SYSTEM_CONTENT,
    camel,
    in_call_order,
    member,
    mended,
    sign_calls,
    takes_media,
)
from sash.core.providers.messages.call_inputs import GivenInput, input_text
from sash.core.providers.messages.pieces import (
    Keeps,
    Name,
    Object,
    Piece,
    convert,
    medium_part,
    read_turn,
    rest_of,
    to_json,
)
from sash.core.providers.writing.media import Media, read_data_url, read_file
from sash.core.providers.writing.media_types import guess_type, is_web
from sash.core.providers.writing.native_messages import NativeMessages, Shape, in_turns
from sash.core.providers.writing.tools import Choice, Function, read_choice, read_functions
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
    in_place,
    only_text,
    read_steps,
    words,
)

# ---- reading messages


_ROLES: Final = {"user": "user", "function": "user", "tool": "user", "model": "assistant", "system": "system"}
_HOSTED: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response")


class Parts(msgspec.Struct):
    """A content."""

    parts: list[Object] | Object | None = None
    role: str | None = None


class _Signed(msgspec.Struct, rename={"thought_signature_in_camel_case": "thoughtSignature"}):
    thought_signature: str | None = None
    thought_signature_in_camel_case: str | None = None


class _Blob(msgspec.Struct, rename={"mime_type_in_camel_case": "mimeType"}):
    data: str | None = None
    mime_type: str | None = None
    mime_type_in_camel_case: str | None = None


class _FileUri(msgspec.Struct, rename={"file_uri_in_camel_case": "fileUri", "mime_type_in_camel_case": "mimeType"}):
    file_uri: str | None = None
    file_uri_in_camel_case: str | None = None
    mime_type: str | None = None
    mime_type_in_camel_case: str | None = None


class _Call(msgspec.Struct):
    name: Name
    id: CallId | None = None
    args: GivenInput | None = None


class _Response(msgspec.Struct):
    name: Name
    id: CallId | None = None
    response: Object | None = None
    parts: list[Object] | None = None


_METADATA: Final = (
    *("video_metadata", "media_resolution", "audio_metadata", "document_metadata", "media_processing"),
    "spreadsheet_metadata",
)
_PART_MEMBERS: Final = (
    *("text", "thought", "thought_signature", "inline_data", "file_data", "function_call", "function_response"),
    *("executable_code", "code_execution_result", "tool_call", "tool_response", "audio_transcription", "part_metadata"),
    *("speech_metadata", *_METADATA),
)
_OF_BYTES: Final = frozenset({"data", "mime_type", "display_name"})
_OF_FILES: Final = frozenset({"file_uri", "mime_type", "display_name"})
_INNER: Final[Mapping[str, frozenset[str]]] = {
    "inline_data": _OF_BYTES,
    "file_data": _OF_FILES,
    "executable_code": frozenset({"code", "language", "id"}),
    "code_execution_result": frozenset({"outcome", "output", "id"}),
    "function_call": frozenset({"id", "name", "args", "partial_args", "will_continue"}),
    "function_response": frozenset({"id", "name", "response", "parts", "will_continue", "scheduling"}),
    "function_response/parts": frozenset({"inline_data", "file_data", *_METADATA}),
    "function_response/parts/inline_data": _OF_BYTES,
    "function_response/parts/file_data": _OF_FILES,
}
_MEMBERS: Final = OwnMembers(
    messages={"": frozenset({"role", "parts"})},
    parts={"": frozenset({*_PART_MEMBERS, *map(camel, _PART_MEMBERS)})},
    inner={
        path: members | {*map(camel, members)}
        for name, members in _INNER.items()
        for path in dict.fromkeys((name, "/".join(map(camel, name.split("/")))))
    },
)
"""Members of the SDK's types."""


def _read_content(content: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the pieces of one content. Raises InvalidEntry."""
    given = convert(content, Parts, pointer)
    if content.keys().isdisjoint(("role", "parts")):
        raise problem_at("The field 'parts' is missing", f"#{pointer}")
    names = _Names()
    return read_turn(
        _ROLES.get(given.role or ("user" if given.parts else "model"), "user"),
        dict(content),
        "parts",
        given.parts if isinstance(given.parts, list) else [given.parts] if given.parts else [],
        f"{pointer}/parts",
        is_result=lambda part: member(part, "function_response") is not None,
        read_result=partial(_read_result, names),
        read_part=partial(_read_part, names),
    )


def _regular(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a content in whose results another value than an object is the member ``result``, as Google's SDKs send it."""
    parts = content.get("parts")
    if not isinstance(parts, list) or not any(map(_is_irregular, parts)):
        return content
    return {**content, "parts": [_regular_part(part) if _is_irregular(part) else part for part in parts]}


def _is_irregular(part: Any) -> bool:
    answer = member(part, "function_response") if isinstance(part, dict) else None
    return isinstance(answer, dict) and not isinstance(answer.get("response", {}), dict)


def _regular_part(part: Object) -> Object:
    name = "function_response" if part.get("function_response") is not None else "functionResponse"
    value = part[name]["response"]
    return {**part, name: {**part[name], "response": {} if value is None or value == [] else {"result": value}}}


class _Names:
    """Ids for calls and results without one: from the name, and the number of earlier ones with that name."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, name: str) -> str:
        before = self._counts.get(name, 0)
        self._counts[name] = before + 1
        return made_id(name, before)


def _identified(value: Any) -> Any:
    """Return a call or a result without its id if that is empty, as Gemini writes a missing one."""
    is_empty = isinstance(value, dict) and value.get("id") == ""
    return {name: each for name, each in value.items() if name != "id"} if is_empty else value


def _read_result(names: _Names, part: Object, piece: Piece, pointer: str) -> None:
    response = convert(_identified(member(part, "function_response")), _Response, f"{pointer}/functionResponse")
    piece.answers = response.id or names.of(response.name)
    said = response.response or {}
    alone = said.get("output", said.get("result")) if len(said) == 1 else None
    piece.add_text(alone if isinstance(alone, str) else to_json(said) if said else "")
    for index, inner in enumerate(response.parts or ()):
        _check_part(inner, f"{pointer}/functionResponse/parts/{index}")
        if found := _inline(member(inner, "inline_data")) or _file(member(inner, "file_data")):
            piece.add_medium(_kind(inner), found)
        else:
            piece.only.append(_kind(inner))


def _answers_name(content: Mapping[str, Any]) -> str | None:
    given = content["parts"]
    found = next(filter(None, (member(part, "function_response") for part in given if isinstance(part, dict))))
    return None if found.get("id") else str(found["name"])


def _read_part(names: _Names, part: Object, piece: Piece, pointer: str) -> None:
    _check_part(part, pointer)
    text, called = member(part, "text"), member(part, "function_call")
    inline, file = member(part, "inline_data"), member(part, "file_data")
    if called is not None and piece.role == "assistant":
        call = convert(_identified(called), _Call, f"{pointer}/functionCall")
        piece.add_call(call.id or names.of(call.name), call.name, input_text(call.args))
    elif isinstance(text, str):
        if part.get("thought") is not True:
            piece.add_text(text)
    elif found := _inline(inline) or _file(file):
        piece.add_medium(_kind(part), found)
    elif (kind := _kind(part)) in _HOSTED:
        piece.tell(kind, part)
    elif kind != "part":
        piece.only.append(kind)


def _check_part(part: Object, pointer: str) -> None:
    """Raise InvalidEntry where a part's signature, its bytes, its address or its media type is no text."""
    convert(part, _Signed, pointer)
    for name, kind in (("inline_data", _Blob), ("file_data", _FileUri)):
        if (held := member(part, name)) is not None:
            convert(held, kind, f"{pointer}/{camel(name)}")


def _inline(blob: Any) -> Object | None:
    if not isinstance(blob, dict):
        return None
    media_type, data, name = member(blob, "mime_type"), blob.get("data"), member(blob, "display_name")
    if not (isinstance(media_type, str) and isinstance(data, str)):
        return None
    kind = media_type.partition("/")[0]
    return medium_part(kind, media_type, data=data, filename=name if isinstance(name, str) else None)


def _file(file: Any) -> Object | None:
    if not isinstance(file, dict) or not isinstance(uri := member(file, "file_uri"), str):
        return None
    return medium_part(str(member(file, "mime_type")).partition("/")[0], "", uri=uri)


def _kind(part: Object) -> str:
    """Return the member that says what a part is; ``part`` where it only adds to other parts, like a lone signature."""
    kinds = ("text", "inline_data", "file_data", "function_call", "function_response", *_HOSTED)
    return next((kind for kind in kinds if member(part, kind) is not None), "part")


# ---- reading a whole request


_CHOICES: Final = {"NONE": "none", "AUTO": "auto", "ANY": "required", "VALIDATED": "auto"}


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    """Read a request to ``generateContent``, in the form of HTTP or of the SDK (``config``)."""
    config = request.get("config")
    flat = {**request, **(config if isinstance(config, dict) else {})}
    contents = [_content(content) for content in _list(flat.get("contents"))]
    tools = [tool for tool in _list(flat.get("tools")) if isinstance(tool, dict)]
    generation = member(flat, "generation_config")
    generation = generation if isinstance(generation, dict) else flat
    known = ("contents", "config", "tools", "system_instruction", "tool_config", "generation_config")
    schema = member(generation, "response_schema")  # a response_json_schema is in no bill
    return ChatRequest(
        messages=[*_system_of(member(flat, "system_instruction")), *chat(contents, "/contents")],
        tools=[
            _chat_function(function)
            for tool in tools
            for function in _list(member(tool, "function_declarations"))
            if isinstance(function, dict)
        ],
        tool_choice=_chat_choice(member(flat, "tool_config")),
        response_format=schema_format(schema),
        hosted=[left for tool in tools if (left := rest_of(tool, "functionDeclarations", "function_declarations"))],
        rest=rest_of(request, *known, *map(camel, known)),
    )


def _content(content: Any) -> Any:
    """Return a content; a lone string or part is the user's."""
    match content:
        case str():
            return {"role": "user", "parts": [{"text": content}]}
        case dict() if "parts" not in content and "role" not in content:
            return {"role": "user", "parts": [content]}
        case _:
            return content


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _system_of(instruction: Any) -> list[Object]:
    match instruction:
        case None:
            return []
        case str():
            text = instruction
        case _:
            given = [convert(each, Parts, "/systemInstruction") for each in map(_content, _list(instruction))]
            parts = [part for each in given for part in _list(each.parts)]
            text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return [{"role": "system", "content": text}] if text else []


def _chat_function(function: Object) -> Object:
    parameters = member(function, "parameters_json_schema") or member(function, "parameters")
    return chat_function(function, parameters, "parameters_json_schema", "parametersJsonSchema")


def _chat_choice(config: Any) -> Any:
    calling = member(config, "function_calling_config") if isinstance(config, dict) else None
    if not isinstance(calling, dict):
        return None
    match member(calling, "allowed_function_names"):
        case [str(name)] if calling.get("mode") == "ANY":
            return one_tool(name)
    return _CHOICES.get(str(calling.get("mode")))


# ---- writing


def _answering(message: Block, call_id: str) -> Block:
    (part,) = message["parts"]
    name = "function_response" if part.get("function_response") is not None else "functionResponse"
    return {**message, "parts": [{**part, name: {**part[name], "id": call_id}}]}


_SHAPE: Final = Shape(
    name="gemini", messages="contents", parts="parts", assistant="model", text={}, answering=_answering
)


_CALLING_MODES: Final = {"none": "NONE", "auto": "AUTO", "required": "ANY"}


def _write(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, writing: RequestWriting
) -> dict[str, Any]:
    """Return ``contents``, and ``config`` with the system text and the tools; callers may add settings to ``config``."""
    steps = [_with_place(step, writing) for step in read_steps(messages, _SHAPE, writing, takes=GEMINIS_MEDIA)]
    history = in_place(steps, messages, writing)
    said = (step for step in history if not (isinstance(step, Said) and step.is_system))
    turns = _with_media(_in_call_order(said), writing)
    if writing.owners:
        writing.own_rest(turns)
    contents = _joined(in_turns(turns, {"text": NOTHING_SAID}, _SHAPE))
    if contents and contents[0].get("role") == "model" and _has(contents[0], "function_call"):
        contents.insert(0, {"role": "user", "parts": [{"text": NOTHING_SAID}]})
    if writing.owners:
        contents = list(in_call_order(contents, writing))
        sign_calls(contents, writing)
        writing.tell_sent(contents, _SHAPE.parts)
    config: dict[str, Any] = {}
    if text := system_text(history, writing):
        config["systemInstruction"] = text
    if functions := list(read_functions(tools, writing)):
        config["tools"] = [{"functionDeclarations": [_declaration(function) for function in functions]}]
    if choice := read_choice(tool_choice, writing):
        config["toolConfig"] = {"functionCallingConfig": _calling(choice)}
    return {"contents": contents, "config": config}


def system_text(history: Iterable[HistoryStep], writing: RequestWriting) -> str:
    """Return the texts of system and developer messages, with a blank line between them."""
    system = (step for step in history if isinstance(step, Said) and step.is_system)
    return "\n\n".join(filter(str.strip, (words(said.parts, writing, "system") for said in system)))


def _with_place(step: HistoryStep, writing: RequestWriting) -> HistoryStep:
    """Return the step; as system text if it came as a content of the system."""
    if not isinstance(step, NativeMessages) or step.role != "system":
        return step
    writing.mends.add(SYSTEM_CONTENT, step.seq)
    parts = [part for content in step.messages for part in _list(content.get("parts"))]
    said = [{"type": "text", "text": part["text"]} for part in parts if isinstance(part.get("text"), str)]
    return Said("system", [Part(f"messages/{step.seq}", each) for each in said], [], seq=step.seq)


_Turn = tuple[str, list[Block]] | NativeMessages


def _joined(contents: Iterable[Block]) -> list[Block]:
    """The contents; those that Gemini accepts only as one content are joined."""
    joined: list[Block] = []
    for content in contents:
        while joined and joined[-1].get("role") == content.get("role") and _goes_on(joined[-1], content):
            before = joined.pop()
            content = {**before, "parts": [*before["parts"], *content["parts"]]}  # noqa: PLW2901
        joined.append(content)
    return joined


def _goes_on(before: Block, content: Block) -> bool:
    """Whether results came one by one, or calls follow other words of the model, whose results or question were left out,
    in two contents of one role.

    Gemini answers 400 to fewer results than the turn before has calls, and to calls that follow the model's own turn.
    """
    if {**before, "parts": 0} != {**content, "parts": 0}:
        return False
    if _has(before, "function_response") and _has(content, "function_response"):
        return True
    return content.get("role") == "model" and _has(content, "function_call")


def _has(content: Block, kind: str) -> bool:
    parts = content.get("parts")
    return isinstance(parts, list) and any(member(part, kind) is not None for part in parts)


def _with_media(steps: Iterable[HistoryStep], writing: RequestWriting) -> list[_Turn]:
    """Return the turns; pictures and files of results that do not go into these follow in a turn of their own.

    Gemini 3 takes them inside the result. Earlier models answer 400 to that, and to other parts beside several results.
    """
    turns, media = list[_Turn](), list[Block]()
    seq = 0
    for step in steps:
        if media and not (isinstance(step, Result) or _is_answer(step)):
            turns.append(NativeMessages(seq, [{"role": "user", "parts": media}]))
            media = []
        turns += _turns(step, writing)
        if isinstance(step, Result) and (beside := list(_parts(_apart(step, writing), writing))):
            media += writing.owned(beside, step.seq)
            seq = step.seq
    return [*turns, NativeMessages(seq, [{"role": "user", "parts": media}])] if media else turns


def _is_answer(step: HistoryStep) -> bool:
    return isinstance(step, NativeMessages) and any(_has(message, "function_response") for message in step.messages)


def _apart(result: Result, writing: RequestWriting) -> list[Part]:
    """A result's parts other than text that are not sent inside it."""
    return [part for part in result.parts if part.text is None and not _is_within(part, writing)]


def _is_within(part: Part, writing: RequestWriting) -> bool:
    """Whether a part is sent inside its result: bytes, and a model from Gemini 3 on."""
    match part.body:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            data = url
        case {"type": "file", "file": {"file_data": str(data)}}:
            pass
        case _:
            return False
    return takes_media(writing.model) and data[:5].lower() == "data:"


def _turns(step: HistoryStep, writing: RequestWriting) -> Sequence[_Turn]:
    match step:
        case PlainRun():
            return [
                ("user" if each["role"] == "user" else "model", [{"text": each["content"]}]) for each in step.messages
            ]
        case NativeMessages():
            whole = mended(step, writing)
            for content in whole.messages:
                writing.owned(content["parts"], step.seq)
            return (whole,) if whole.messages or step.role == "model" else ()
        case Result():
            role, parts = "user", [_result(step, writing)]
        case Said(role="assistant"):
            texts = [{"text": part.text} for part in only_text(step.parts, writing, "assistant")]
            role, parts = "model", texts + [_call(call) for call in step.calls]
        case _:
            role, parts = "user", list(_parts(step.parts, writing)) or [{"text": NOTHING_SAID}]
    return ((role, writing.owned(parts, step.seq)),)


def _call(call: Call) -> Block:
    part: Block = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments_object()}}
    return part | ({"thoughtSignature": call.signature} if call.signature else {})


def _result(result: Result, writing: RequestWriting) -> Block:
    """Return a result with its text under ``output``, the key that Gemini looks for."""
    response = {"output": "".join(part.text or "" for part in result.parts)}
    made = result.call.as_it_came and result.call.id.startswith(f"call_{result.call.name}")  # the call had no id
    named = {} if made else {"id": result.call.id}
    within = [part for part in result.parts if part.text is None and _is_within(part, writing)]
    media = {"parts": list(_parts(within, writing))} if within else {}
    return {"functionResponse": {**named, "name": result.call.name, "response": response, **media}}


def _in_call_order(steps: Iterable[HistoryStep]) -> Iterator[HistoryStep]:
    """Yield the steps with results in the order of their calls, because models before Gemini 3 pair them by order."""
    for _, run in groupby(steps, key=lambda step: isinstance(step, Result)):
        yield from sorted(run, key=lambda step: step.call.order if isinstance(step, Result) else 0)


class FileLink(NamedTuple):
    """An address that Google reads by itself, of a picture or of another file."""

    uri: str
    is_image: bool

    @property
    def media_type(self) -> str | None:
        """The media type by the address's ending; None if that is unknown."""
        return guess_type(self.uri)


def carried(parts: Iterable[Part], writing: RequestWriting, form: str) -> Iterator[str | FileLink | Media]:
    """Yield what Google takes of the parts: texts, links and bytes. Others are refused; the client reads ``form``."""
    for part in parts:
        found: str | FileLink | Media | None = None
        match part.body:
            case {"type": "text"}:
                found = part.text
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)} if is_web(url) or url[:5] == "gs://":
                found = FileLink(url, is_image=True)
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                found = read_data_url(url, part.place, writing)
            case {"type": "file", "file": {"file_id": str(uri)}} if "://" in uri:  # as Google's Files API names them
                found = FileLink(uri, is_image=False)
            case {"type": "file", "file": dict(file)}:
                found = read_file(file, part.place, writing)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(audio)}}:
                found = read_data_url(f"data:audio/{audio};base64,{data}", part.place, writing)
            case _:
                writing.add(part.place, f"has no place in {form}, which take text, images, files and audio")
        if found is not None:
            yield found


def _parts(parts: Iterable[Part], writing: RequestWriting) -> Iterator[Block]:
    for each in carried(parts, writing, "Gemini's contents"):
        match each:
            case str():
                yield {"text": each}
            case FileLink():
                yield {"fileData": {"fileUri": each.uri} | ({"mimeType": each.media_type} if each.media_type else {})}
            case Media():
                yield {"inlineData": {"mimeType": each.media_type, "data": each.data}}


def _declaration(function: Function) -> Block:
    declaration: Block = {"name": function.name, "parametersJsonSchema": function.schema}
    return declaration | ({"description": function.description} if function.description is not None else {})


def _calling(choice: Choice) -> Block:
    """Return the calling mode; names need ``ANY``, or ``VALIDATED`` where the model may also answer with text."""
    if choice.names is None:
        return {"mode": _CALLING_MODES[choice.mode]}
    return {"mode": "ANY" if choice.mode == "required" else "VALIDATED", "allowedFunctionNames": choice.names}


def _with_response(part: Block, text: str, keeps: Keeps) -> Block:
    """Gemini's part with a text as the response, under its name if it was a lone text."""
    name = "function_response" if part.get("function_response") is not None else "functionResponse"
    given = part[name]
    said = given.get("response") or {}
    key = next(iter(said)) if len(said) == 1 and said.keys() <= {"output", "result"} else "output"
    kept = {name: value for name, value in given.items() if name != "parts"}
    media = [each for each in given.get("parts") or () if keeps(each)]
    return {**part, name: {**kept, "response": {key: text}, **({"parts": media} if media else {})}}


def _with_result_text(own: Block, text: str, keeps: Keeps) -> Block:
    return {**own, "parts": [_with_response(own["parts"][0], text, keeps)]}


def _is_chat(message: Mapping[str, Any]) -> bool:
    return "parts" not in message and ("content" in message or message.get("role") == "assistant")


def _limits(name: str, context_window: int) -> RequestLimits:
    """The limits of the Gemini API; those of Google Cloud differ by model.

    Bytes: ai.google.dev/gemini-api/docs/file-input-methods: 100 MB with files in the request (20 MB until 2025). Pictures:
    …/docs/image-understanding, "File limit": 3,600. Pages: …/docs/document-processing: 1,000. Tools: Google answers 400, "At
    most 512 function declarations can be specified" (google-gemini/gemini-cli 19083 and 25440, 2026). Names: the reference
    of ``FunctionDeclaration.name``, "a maximum length of 128" (64 until 2025). All read in November 2026.
    """
    del name, context_window
    return RequestLimits(bytes=100_000_000, images=3_600, pages=1_000, tools=512, tool_name=128)


def _caching(name: str, prices: CachePrices) -> Caching:
    """Implicit, 2,048 tokens for 2.5 and 4,096 later; no lifetime is promised (ai.google.dev/gemini-api/docs/caching)."""
    minimum = 2048 if "gemini-2" in name else 4096
    return Caching(kind="implicit", minimum_tokens=minimum, lifetime_seconds=300, read_price=prices.read)


_UNSEEN: Final = frozenset({"cached_content", "media_resolution"})
"""Members of a request that change what it costs, and of which no bill shows how."""


def _shows_all(request: Mapping[str, Any]) -> bool:
    """Whether a request refers to nothing that is cached, and asks for no other resolution of its media."""
    inside = (request, *(member(request, name) for name in ("config", "generation_config")))
    return not any(member(each, name) for each in inside if isinstance(each, dict) for name in _UNSEEN)


class GeminiRequest(msgspec.Struct):
    """The arguments of ``client.models.generate_content``, except the model."""

    contents: list[ProviderObject]
    config: ProviderObject


GEMINI = Provider(
    arguments=GeminiRequest,
    called="a content of Gemini",
    own_types=r"(?!)",
    shape=_SHAPE,
    regular=_regular,
    read=_read_content,
    read_request=_read_request,
    write=_write,
    is_chat=_is_chat,
    carries=frozenset({"signatures"}),
    replies_are_items=False,
    fills=True,
    is_call=lambda part: not part.keys().isdisjoint(("functionCall", "function_call")),
    unknown_kinds=unknown_parts,
    kinds=PartKinds(
        reasoning=kinds(".thought"),
        files=kinds(".inlineData", ".inline_data", ".fileData", ".file_data"),
        seals=frozenset({"thoughtSignature", "thought_signature"}),
        sealed_calls=kinds(".functionCall", ".function_call", ".executableCode", ".executable_code"),
        unread=frozenset({"mimeType"}),
        named_results=kinds(".functionResponse", ".function_response"),
    ),
    with_result_text=_with_result_text,
    maker="google",
    caching=_caching,
    mark=unmarked,
    own_members=_MEMBERS,
    limits=_limits,
    one_string={"tool": "always"},
    free_members=frozenset(
        {
            *("safetySettings", "safety_settings", "cachedContent", "cached_content", "labels", "http_options"),
            *("candidateCount", "candidate_count", "thinking_config", "thinkingConfig"),
            *("responseMimeType", "response_mime_type", "automatic_function_calling", "response_modalities"),
        }
    ),
    takes=GEMINIS_MEDIA,
    mends=MENDS,
    has_system_messages=lambda _: False,
    needs_question="calls",
    answers_name=_answers_name,
    parts_apart=True,
    media_apart=True,
    has_exact_bills=True,
    shows_all=_shows_all,
)
