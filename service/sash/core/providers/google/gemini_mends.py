"""What Gemini's generateContent refuses, and what is sent in its place; and the one spelling that all its clients read."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.providers.messages.call_inputs import BROKEN_ARGUMENTS, with_object
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import medium_part
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes, picture_type
from sash.core.providers.writing.native_messages import NativeMessages
from sash.core.providers.writing.shared_mends import RESULT_ORDER
from sash.core.providers.writing.turns import NOTHING_SAID, Block, RequestWriting

EMPTY_PART: Final = Mend(
    name="empty_part",
    refused="A part without data: an empty text, unless it has a thought signature",
    sent="The content without the part; a user's content without another part is `…`, a model's is left out",
    evidence="'contents[1].parts[0].data: required oneof field 'data' must have one initialized field' "
    "(router-for-me/CLIProxyAPI 1293, 54xzh/FLIT 69)",
)
MISSING_SIGNATURE: Final = Mend(
    name="missing_signature",
    is_free=True,
    refused="A call of the current turn without a thought signature, by Gemini 3 and later: another model made it",
    sent="The first call of each step with the signature `skip_thought_signature_validator`, which Google has for this; "
    "in Interactions, a thought with it before the call",
    evidence="'Function call is missing a thought_signature in functionCall parts' "
    "(ai.google.dev/gemini-api/docs/thought-signatures, FAQ; octos-org/octos 1897)",
)
SYSTEM_CONTENT: Final = Mend(
    name="system_content",
    refused="A content with the role `system`",
    sent="Its text in `systemInstruction`; behind other contents, as a `system_note`",
    evidence="'Please use a valid role: user, model.'",
)
FOREIGN_SIGNATURE: Final = Mend(
    name="foreign_signature",
    refused="A thought signature that is no base64: another vendor's, or two of them joined",
    sent="The part without it",
    evidence="'Invalid value at contents[2].parts[0].thought_signature (TYPE_BYTES), Base64 decoding failed' "
    "(crmne/ruby_llm 521, MayDay-wpf/snow-cli 84, router-for-me/CLIProxyAPIPlus 178)",
)
CONTENT_ROLE: Final = Mend(
    name="content_role",
    refused="A content without a role, or with another one, such as `function` or `tool`",
    sent="The content with the role `user`",
    evidence="'Please use a valid role: user, model.' (ai.google.dev/api/caching, Content: `role` is 'user' or 'model')",
)
RESULT_NAME: Final = Mend(
    name="result_name",
    refused="A result with the id of a call and another name than the call's",
    sent="The result under the call's name",
    evidence="400 INVALID_ARGUMENT by Gemini 3.7, and none with the call's name (archestra-ai/archestra 7583)",
)
MENDS: Final = (
    BROKEN_ARGUMENTS,
    EMPTY_PART,
    MISSING_SIGNATURE,
    FOREIGN_SIGNATURE,
    SYSTEM_CONTENT,
    CONTENT_ROLE,
    RESULT_NAME,
    RESULT_ORDER,
    UNTAKEN,
    MEDIA_TYPE,
)
_ROLES: Final = frozenset({"user", "model", "system"})

GEMINIS_MEDIA: Final = Takes(
    pictures=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
    addresses=("https://", "http://", "gs://"),
    references=("https://", "http://", "gs://"),
    tells_types=True,
    reads_googles_files=True,
)
"""What Gemini takes: ai.google.dev/gemini-api/docs/image-understanding, "Supported image formats". Of other files it takes
many types."""

SKIPS: Final = "skip_thought_signature_validator"
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")
_STRICT: Final = re.compile(r"gemini-(?:[3-9]|[1-9]\d)(?!.*-image)")
"""Models that require signatures. Those for images do not."""
_SINCE_3: Final = re.compile(r"gemini-(3|[4-9]|\d\d)")


def requires_signatures(model: str) -> bool:
    """Return whether a model, by its name, refuses calls of the current turn without a thought signature."""
    return bool(_STRICT.search(model))


def takes_media(model: str) -> bool:
    """Return whether a model, by its name, takes pictures inside a function's result.

    ai.google.dev/gemini-api/docs/function-calling, "Multimodal function responses"; Gemini 2.5: "`function_response.parts`
    is not supported for this model".
    """
    return bool(_SINCE_3.search(model))


_BESIDE: Final = frozenset(
    {
        *("text", "thought", "thoughtSignature", "partMetadata", "mediaResolution", "mediaProcessing"),
        *("videoMetadata", "audioMetadata", "documentMetadata", "speechMetadata", "spreadsheetMetadata"),
    }
)
"""Members of a part that are no data; a text is data if it is not empty."""
_BESIDE_WORDS: Final = ("thought", "thoughtSignature", "partMetadata")
"""Members of a picture's part that the line in its place has, too."""
_NAMES: Final = (
    *("audio_metadata", "audio_transcription", "bool_value", "code_execution_result", "content_layers", "display_name"),
    *("document_metadata", "end_offset", "end_page", "executable_code", "file_data", "file_uri", "function_call"),
    *(
        "function_response",
        "inline_data",
        "json_path",
        "language_code",
        "media_processing",
        "media_resolution",
        "mime_type",
    ),
    *("null_value", "num_tokens", "number_value", "part_metadata", "partial_args", "sheet_index", "speaker_label"),
    *("speech_metadata", "spreadsheet_metadata", "start_offset", "start_page", "string_value", "thought_signature"),
    *("tool_call", "tool_response", "tool_type", "video_metadata", "visible_cells", "will_continue"),
)
"""Members of contents in snake case, as the SDK for Python writes them."""
_USERS: Final = frozenset({"args", "response", "partMetadata"})
"""Members whose inside is the user's own."""


def member(value: Mapping[str, Any], name: str) -> Any:
    """Return a member, written in snake case or in camel case; ``name`` is in snake case. None where there is none."""
    found = value.get(name)
    return value.get(camel(name)) if found is None else found


def camel(name: str) -> str:
    """Return a name in camel case, as JSON requests have it.

    >>> camel("function_call")
    'functionCall'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


_CAMEL: Final = {name: camel(name) for name in _NAMES}


def in_camel_case(value: Any) -> Any:
    """Return a content, or a value in it, with its members in camel case. What the user made stays as it is.

    >>> in_camel_case({"function_call": {"name": "look", "args": {"mime_type": 1}}})
    {'functionCall': {'name': 'look', 'args': {'mime_type': 1}}}
    """
    match value:
        case dict():
            spelled = ((_CAMEL.get(name, name), each) for name, each in value.items())
            return {name: each if name in _USERS else in_camel_case(each) for name, each in spelled}
        case list():
            return [in_camel_case(each) for each in value]
        case _:
            return value


def mended(whole: NativeMessages, writing: RequestWriting) -> NativeMessages:
    """Return contents that came in this form as they are accepted, in camel case. What needs no mend stays as it came."""
    messages = []
    for content in map(in_camel_case, whole.messages):
        if content.get("role") not in _ROLES:
            writing.mends.add(CONTENT_ROLE, whole.seq)
            content = {**content, "role": "user"}  # noqa: PLW2901
        parts = content.get("parts")
        given = parts if isinstance(parts, list) else [] if parts is None else [parts]
        given = [_with_own_signature(part, whole.seq, writing) for part in given]
        given = [_with_pictures(part, whole.seq, writing) for part in given]
        given = [_with_arguments(part, whole.seq, writing) for part in given]
        left = [kept for part in given if (kept := _kept(part)) is not None]
        if left != given or not left:
            writing.mends.add(EMPTY_PART, whole.seq)
        if not left and content.get("role") != "model":
            if whole.pieces > 1:
                continue
            left = [{"text": NOTHING_SAID}]
        messages.append(content if left == parts else {**content, "parts": left})
    return msgspec.structs.replace(whole, messages=messages)


def _with_own_signature(part: Any, seq: int, writing: RequestWriting) -> Any:
    """Return a part without a signature that is no base64."""
    signature = part.get("thoughtSignature") if isinstance(part, dict) else None
    if not isinstance(signature, str) or signature == SKIPS or _BASE64.fullmatch(signature):
        return part
    writing.mends.add(FOREIGN_SIGNATURE, seq)
    return {name: value for name, value in part.items() if name != "thoughtSignature"}


def _with_arguments(part: Any, seq: int, writing: RequestWriting) -> Any:
    """Return a part with a call whose arguments are an object."""
    call = part.get("functionCall") if isinstance(part, dict) else None
    if not isinstance(call, dict):
        return part
    sent = with_object(call, "args", seq, writing.mends)
    return part if sent is call else {**part, "functionCall": sent}


def _with_pictures(part: Any, seq: int, writing: RequestWriting) -> Any:
    """Return a part, or a result with parts, with pictures that Gemini takes; each other picture is a line."""
    if not isinstance(part, dict):
        return part
    answer = part.get("functionResponse")
    if isinstance(answer, dict) and isinstance(media := answer.get("parts"), list):
        shown = [_picture(each, seq, writing) for each in media]
        return part if shown == media else {**part, "functionResponse": _told_in_response(answer, shown)}
    return _picture(part, seq, writing)


def _told_in_response(answer: Block, shown: Sequence[Any]) -> Block:
    """A result with the lines among its parts in its response, because a result has no text beside that."""
    said, name = answer.get("response") or {}, "media"
    while name in said:
        name += "_"
    left = [each for each in shown if "text" not in each]
    lines = [each["text"] for each in shown if "text" in each]
    told = {"response": {**said, name: "".join(lines)}} if lines else {}
    kept = {name: value for name, value in answer.items() if name != "parts"}
    return {**kept, **told, **({"parts": left} if left else {})}


def _picture(part: Any, seq: int, writing: RequestWriting) -> Any:
    """A part with a medium as Gemini takes it; another part as it came."""
    name = next((each for each in ("inlineData", "fileData") if isinstance(part.get(each), dict)), "")
    held = part.get(name) or {}
    told, data, uri = held.get("mimeType"), held.get("data"), held.get("fileUri")
    is_empty = name == "inlineData" and not data
    if not isinstance(told, str) or not (is_empty or told.lower().startswith("image/")):
        return part
    found = picture_type(told.lower(), data if isinstance(data, str) else "")
    if is_empty or GEMINIS_MEDIA.refuses_picture(found):
        writing.mends.add(UNTAKEN, seq)
        kind = told.lower().partition("/")[0]
        line = media_line(medium_part(kind, told, data=data or "") if name == "inlineData" else _linked(uri))
        return {**{each: part[each] for each in _BESIDE_WORDS if each in part}, "text": line}
    if found == told.lower():
        return part
    writing.mends.add(MEDIA_TYPE, seq)
    return {**part, name: {**held, "mimeType": found}}


def _linked(uri: Any) -> Block:
    return medium_part("image", "", uri=uri if isinstance(uri, str) else "")


def _kept(part: Any) -> Any:
    """Return a part with data; None for a part without. A lone signature is a part of an empty text."""
    if not isinstance(part, dict) or part.get("text"):
        return part
    if any(value is not None for name, value in part.items() if name not in _BESIDE):
        return part
    if not part.get("thoughtSignature"):
        return None
    return part if part.get("text") == "" else {"text": "", **part}


def in_call_order(contents: Sequence[Block], writing: RequestWriting) -> Iterator[Block]:
    """Yield the contents, with results under the names of the calls before them, and in their order if these have no ids."""
    calls: list[Any] = []
    for content in contents:
        parts = content.get("parts")
        parts = parts if isinstance(parts, list) else []
        answers = _of(parts, "functionResponse")
        _name(parts, calls, writing)
        if calls and not all(call.get("id") for call in calls) and _names(calls) != _names(answers):
            sorted_parts = _sorted(parts, calls)
            if sorted_parts is not None:
                moved = next(part for old, part in zip(parts, sorted_parts, strict=True) if old is not part)
                writing.mends.add(RESULT_ORDER, writing.owners.get(id(moved), 0))
                content = {**content, "parts": sorted_parts}  # noqa: PLW2901
        calls = _of(parts, "functionCall")
        yield content


def _name(parts: Iterable[Any], calls: Iterable[Block], writing: RequestWriting) -> None:
    """Give each result that has the id of one of the calls its name."""
    names = {call["id"]: call["name"] for call in calls if call.get("id")}
    for part in parts:
        answer = part.get("functionResponse") or {}
        name = names.get(answer.get("id"))
        if name and name != answer["name"]:
            answer["name"] = name
            writing.mends.add(RESULT_NAME, writing.owners.get(id(part), 0))


def _of(parts: Iterable[Any], kind: str) -> list[Any]:
    return [part[kind] for part in parts if isinstance(part, dict) and isinstance(part.get(kind), dict)]


def _names(values: Iterable[Block]) -> list[Any]:
    return [value.get("name") for value in values]


def _sorted(parts: Sequence[Block], calls: Sequence[Block]) -> list[Block] | None:
    """The parts with the results first, each at its call's place; None if they are not those of the calls."""
    left, found = list(parts), []
    for call in calls:
        answer = next((part for part in left if _answers(part, call)), None)
        if answer is None:
            return None
        left.remove(answer)
        found.append(answer)
    return None if any("functionResponse" in part for part in left) else [*found, *left]


def _answers(part: Block, call: Block) -> bool:
    answer = part.get("functionResponse")
    if not isinstance(answer, dict) or answer.get("name") != call.get("name"):
        return False
    return not answer.get("id") or not call.get("id") or answer["id"] == call["id"]


def sign_calls(contents: Iterable[Block], writing: RequestWriting) -> None:
    """Give the first call of each step of the current turn a signature if it has none and the model requires one.

    The current turn begins at the user's newest content that is more than results.
    """
    if not requires_signatures(writing.model):
        return
    for call in _unsigned(list(contents)):
        call["thoughtSignature"] = SKIPS
        writing.mends.add(MISSING_SIGNATURE, writing.owners.get(id(call), 0))


def _unsigned(contents: list[Block]) -> Iterator[Block]:
    for content in reversed(contents):
        parts = content["parts"]
        if content.get("role") == "model":
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None and not first.get("thoughtSignature"):
                yield first
        elif any("functionResponse" not in part for part in parts):
            return
