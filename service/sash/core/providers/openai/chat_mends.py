"""What OpenAI's chat completions refuse in a stored chat message, and the message that is sent in its place.

A message is looked at once, when it is measured: its oddities are stored beside its tokens. A window decodes only messages
with oddities. Ids, names, links and members are changed for OpenAI's own models: other servers keep more in ids, such as
Gemini's signature.
"""

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from sash.core.chat.file_links import LINKS, as_file, is_link
from sash.core.providers.destinations.destination import named, readers_of
from sash.core.providers.messages.hosted import joined, media_line
from sash.core.providers.messages.mends import AS_TEXT, Mend
from sash.core.providers.messages.pieces import SOUNDS
from sash.core.providers.messages.reasoning_members import MEMBERS
from sash.core.providers.writing.media_types import (
    MEDIA_TYPE,
    PDF,
    PDF_BEGINS,
    UNTAKEN,
    USUAL_PICTURES,
    Takes,
    as_picture,
    is_web,
    picture_type,
    typed,
)
from sash.core.providers.writing.shared_mends import BLANK_TEXT, CALL_ID

Message = dict[str, Any]

EMPTY_CONTENT: Final = Mend(
    name="empty_content",
    refused="A message whose content is null, absent or an empty list, without calls, a refusal or audio",
    sent="The empty string as content",
    evidence="OpenAI answers 400: 'Invalid value for content: expected a string, got null'",
)
EMPTY_MEMBER: Final = Mend(
    name="empty_member",
    refused="`tool_calls` that is null or empty, `name` that is null or empty",
    sent="The message without the member",
    evidence="OpenAI answers 400: '[] is too short - messages.1.tool_calls', 'expected an array of objects, but got null'",
)
NAME: Final = Mend(
    name="name",
    is_free=True,
    refused="A participant's name with white space, angle brackets, slashes or a bar; a function's name outside "
    "`[a-zA-Z0-9_-]`; either longer than 64; of Mistral, DeepSeek and Moonshot, the function's alone",
    sent="The name with `_` for each other character, cut to 64",
    evidence="OpenAI answers 400: \"string does not match pattern. Expected a string that matches '^[^\\s<|\\/>]+$'\"",
)
SPOKEN: Final = Mend(
    name="spoken_reply",
    refused="Members of a spoken reply beside its id: `data`, `transcript`, `expires_at`; `audio` by models that do not "
    "hear",
    sent="`audio` with the id alone; to a model that does not hear, the transcript as content",
    evidence="OpenAI's reference: an assistant message's `audio` is an object with `id`",
)
OTHERS: Final = Mend(
    name="others_members",
    refused="Members that other servers of the form take, sent to OpenAI's own models: reasoning such as "
    "`reasoning_content` and `thinking_blocks`, `extra_content`, `cache_control`, `prefix`, `index` of a call",
    sent="The message without them",
    evidence="openai-node: ChatCompletionMessageParam has no such member; OpenAI answers 400: 'Unknown parameter'",
)
STRICT: Final = Mend(
    name="strict_members",
    refused="Members that Mistral's requests do not have, sent to its models: reasoning such as `reasoning_content`, "
    "`annotations`, `provider_specific_fields`, and `refusal`, `audio` and `function_call` that are null",
    sent="The message without them",
    evidence="Mistral answers 422: 'Extra inputs are not permitted' (charmbracelet/crush #1590, OpenMinis/OpenMinis #87)",
)
HOSTS: Final = Mend(
    name="host_members",
    refused="Members that Cerebras and Groq do not know, sent to them, which a model's name says (`cerebras/…`, `groq/…`): "
    "reasoning such as `reasoning_content`, and `cache_control`, `prefix` and others of other servers",
    sent="The message without them",
    evidence="Cerebras answers 400: \"property 'messages.2.assistant.reasoning_content' is unsupported\" "
    "(Kilo-Org/kilocode 10375, QwenLM/qwen-code 11045), Groq the same (janhq/jan 8136), and 'reasoning is not supported "
    "with this model' to `reasoning` (vercel/ai 8057)",
)
FILED: Final = Mend(
    name="file_type",
    refused="A text file, a picture as a file, and a PDF's base64 without `data:application/pdf`, sent to OpenAI's own "
    "models",
    sent="The file's text; the picture as a picture; the PDF as a data URL",
    evidence="OpenAI answers 400: 'Expected a base64-encoded data URL with an application/pdf MIME type, but got "
    "unsupported MIME type 'text/markdown'' (trpc-group/trpc-agent-go 1816), 'an invalid base64-encoded value' "
    "(vercel/ai 7266)",
)
FILE_NAME: Final = Mend(
    name="file_name",
    is_free=True,
    refused="A PDF without a name, such as Claude's or Gemini's, sent to OpenAI's own models",
    sent="The file with the name `document.pdf`",
    evidence="OpenAI answers 400: 'Missing required parameter: 'messages[1].content[1].file.file_id'' to `file_data` "
    "without `filename` (openai/openai-agents-python 1513, langchain-ai/langchainjs 9512), in Responses the same "
    "(laravel/ai 324)",
)
CHAT_MENDS: Final = (
    EMPTY_CONTENT,
    EMPTY_MEMBER,
    BLANK_TEXT,
    NAME,
    CALL_ID,
    SPOKEN,
    UNTAKEN,
    MEDIA_TYPE,
    FILED,
    FILE_NAME,
    OTHERS,
    STRICT,
    HOSTS,
)

_CONTENT, _MEMBERS, NAMES, IDS, _AUDIO, MEDIA, _LINKED, _OTHERS, _STRICT = (1 << bit for bit in range(9))
_UNTAKEN, _NO_BYTES, OTHER_TYPE, _FILED, SEALED, _BLANKS = (1 << bit for bit in range(9, 15))
"""The bits of what is refused. ``SEALED``: reasoning in items that OpenAI's models alone can read."""
UNTAKEN_BY_SOME, NO_PICTURE, EMPTY, RARE = 3, 4, 5, 6
"""What a picture is that some forms do not take, kept in the place of its detail: a HEIC, or an address that is none of the
web; a type that no form takes with a list of its own, as SVG; no bytes; a BMP or TIFF."""
GIF: Final = 8
"""A bit beside a picture's detail: it is a GIF."""
_KINDS: Final = {
    **dict.fromkeys(("image/heic", "image/heif", ""), UNTAKEN_BY_SOME),
    **dict.fromkeys(("image/bmp", "image/tiff"), RARE),
}
OPENAIS_MEDIA: Final = Takes(
    pictures=USUAL_PICTURES | {"image/jpg"}, files=frozenset({PDF}), sounds=SOUNDS, links=False
)
"""What chat completions of OpenAI's own models take."""
_PICTURES: Final = OPENAIS_MEDIA.pictures or frozenset()
_OPENAI: Final = "openai"
_OPENAIS: Final = frozenset({_OPENAI})
CALLED: Final = NAMES | IDS
"""What may be odd in a call's result: the name and the id of its call."""
LONGEST_ID: Final = 40
_LONGEST_NAME: Final = 64
_DIGEST_BYTES: Final = 4
_NO_NAME: Final = re.compile(r"[\s<|\\/>]")
_NO_FUNCTION: Final = re.compile(r"[^a-zA-Z0-9_-]")
_OTHERS_MEMBERS: Final = MEMBERS | {
    *("cache_control", "encrypted_content", "partial", "prefix", "provider_specific_fields", "index"),
    *("fps", "max_pixels", "min_pixels", "total_pixels"),
}
_NOT_MISTRALS: Final = MEMBERS | {
    *("annotations", "cache_control", "encrypted_content", "partial", "provider_specific_fields"),
}
_SPACES: Final = " \n\r\t"
UNNAMED: Final = "document.pdf"
_NULL_FOR_OPENAI: Final = frozenset({"refusal", "audio", "function_call"})
_SPEAKERS: Final = frozenset({"system", "developer", "user", "assistant", "tool"})


def oddities(message: Mapping[str, Any]) -> int:
    """Return what a message has that chat completions refuse, as bits; 0 if it can be sent as it is stored."""
    role, content, found = message["role"], message.get("content"), 0
    if not content and not isinstance(content, str):
        said = message.get("tool_calls") or message.get("function_call")
        said = said or message.get("refusal") or message.get("audio")
        found |= _CONTENT if content == [] or not (said or role == "function") else 0
    if role == "tool" and isinstance(content, list) and any(part.get("type") != "text" for part in content):
        found |= MEDIA
    if role == "user" and isinstance(content, list):
        for part in content:
            found |= _LINKED if _is_linked(part) else _medium_oddity(part)
    if isinstance(content, list) and any(map(_is_blank, content)):
        found |= _BLANKS
    if any(name in message and not message[name] for name in ("tool_calls", "name")):
        found |= _MEMBERS
    if role == "assistant" and isinstance(audio := message.get("audio"), dict) and audio.keys() > {"id"}:
        found |= _AUDIO
    if _without_others(message) != message:
        found |= _OTHERS
    if _strict(message) != message:
        found |= _STRICT
    is_unfit = _shortened(message) != message or has_twins(message.get("tool_calls") or ())
    return found | (NAMES if _renamed(message) != message else 0) | (IDS if is_unfit else 0)


def untaken(part: Mapping[str, Any]) -> int:
    """Return who gets a line in place of a picture or a sound of a user's message or a result; 0 for nobody."""
    oddity = _medium_oddity(part)
    if oddity & _NO_BYTES:
        return EMPTY
    if not oddity & _UNTAKEN:
        return 0
    given = part.get("image_url")
    told, data = typed(given["url"] if isinstance(given, dict) else given or "")
    return _KINDS.get(picture_type(told or "", data) if data else "", NO_PICTURE)


def is_gif(part: Mapping[str, Any]) -> bool:
    """Return whether a part is a picture in a data URL that has the bytes of a GIF, or is told to."""
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    told, begins = typed(url) if isinstance(url, str) else (None, "")
    return told is not None and picture_type(told, begins) == "image/gif"


def sent_as_chat(message: Message, odd: int, maker: str, model: str) -> tuple[Message, list[Mend]]:
    """Return the message as chat completions take it for a maker's model, and its mends."""
    mends, readers = [], readers_of(maker, model)
    if odd & _AUDIO and not hears(maker, model) and _transcript(message):
        odd &= ~_AUDIO
        message = _in_words(message)
        mends.append(SPOKEN)
    for bit, mend, changed, refusing in _CHANGES:
        if odd & bit and (refusing is None or refusing & readers) and (found := changed(message)) != message:
            message = found
            mends.append(mend)
    return message, mends


def fitting_function(name: str) -> str:
    """Return a function's name in OpenAI's alphabet, at most 64 characters."""
    return shorter(_NO_FUNCTION.sub("_", name), _LONGEST_NAME)


def fitting_name(name: str) -> str:
    """Return a participant's name in OpenAI's alphabet, at most 64 characters."""
    return _NO_NAME.sub("_", name)[:_LONGEST_NAME]


def shorter(text: str, limit: int) -> str:
    """Return a name or an id of at most ``limit`` characters: as it is, or its beginning and a digest."""
    if len(text) <= limit:
        return text
    digest = digest_of(text)
    return f"{text[: limit - len(digest) - 1]}_{digest}"


def digest_of(text: str) -> str:
    """Return eight digits that follow from a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


# ---- the changes


def _filled(message: Message) -> Message:
    content = message.get("content")
    return {**message, "content": ""} if content is None or content == [] else message


def _is_blank(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "text" and not part["text"].strip()


def without_blanks(message: Message) -> Message:
    """The message without its parts that are blank texts. If it has no other part, its content is an empty text."""
    content = message["content"]
    left = [part for part in content if not _is_blank(part)] if isinstance(content, list) else content
    return {**message, "content": left or ""}


def _without_empties(message: Message) -> Message:
    return {key: value for key, value in message.items() if value or key not in ("tool_calls", "name")}


def _renamed(message: Mapping[str, Any]) -> Message:
    """The message with names that fit: the speaker's, and those of called functions."""
    changed = _functions_renamed(message)
    if isinstance(name := message.get("name"), str) and name and message["role"] in _SPEAKERS:
        changed["name"] = fitting_name(name)
    return changed


def _functions_renamed(message: Mapping[str, Any]) -> Message:
    """The message with names of functions that fit."""
    changed = dict(message)
    if isinstance(name := message.get("name"), str) and name and message["role"] not in _SPEAKERS:
        changed["name"] = fitting_function(name)
    if message["role"] != "assistant":
        return changed
    if isinstance(legacy := message.get("function_call"), dict) and isinstance(legacy.get("name"), str):
        changed["function_call"] = {**legacy, "name": fitting_function(legacy["name"])}
    if calls := message.get("tool_calls"):
        changed["tool_calls"] = [_renamed_call(call) for call in calls]
    return changed


def _renamed_call(call: Mapping[str, Any]) -> Message:
    changed = dict(call)
    for kind in ("function", "custom"):
        if isinstance(called := call.get(kind), dict) and isinstance(name := called.get("name"), str):
            changed[kind] = {**called, "name": fitting_function(name)}
    return changed


def has_twins(calls: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether two calls of a message came with one id."""
    return len({call.get("id") for call in calls}) < len(calls)


def _shortened(message: Mapping[str, Any]) -> Message:
    """The message with ids of calls that fit."""
    changed = dict(message)
    if isinstance(answered := message.get("tool_call_id"), str):
        changed["tool_call_id"] = shorter(answered, LONGEST_ID)
    if message["role"] == "assistant" and (calls := message.get("tool_calls")):
        ids = (str(call.get("id", "")) for call in calls)
        changed["tool_calls"] = [
            {**call, "id": shorter(each, LONGEST_ID)} if "id" in call else call
            for call, each in zip(calls, ids, strict=True)
        ]
    return changed


def hears(maker: str, model: str) -> bool:
    """Return whether a model takes the id of a spoken reply: those of OpenAI that speak."""
    return maker == _OPENAI and "audio" in model


def _in_words(message: Message) -> Message:
    """A spoken reply as its words."""
    left = {name: each for name, each in message.items() if name != "audio"}
    if not left.get("content"):
        left["content"] = _transcript(message)
    return left


def _transcript(message: Message) -> str:
    said = message["audio"].get("transcript")
    return said if isinstance(said, str) else ""


def _unspoken(message: Message) -> Message:
    return {**message, "audio": {"id": message["audio"].get("id")}}


def told(message: Message) -> Message:
    """The tool message with a line in place of each picture, file and sound."""
    if isinstance(message["content"], str):  # it was cut
        return message
    are_texts = ((part, part.get("type") == "text") for part in message["content"])
    texts = ((part["text"] if is_text else media_line(part), not is_text) for part, is_text in are_texts)
    return {**message, "content": joined(texts)}


def _unlinked(message: Message) -> Message:
    """The message with the bytes of a linked file as a file, and a line in place of another link."""
    return _with_parts(message, lambda part: _taken(as_file(part)))


def _with_parts(message: Message, changed: Callable[[Message], Message]) -> Message:
    """The message with each part of its content changed. It may have a text by now: a line in place of its only part."""
    content = message["content"]
    return {**message, "content": list(map(changed, content))} if isinstance(content, list) else message


def _taken(part: Message) -> Message:
    return {"type": "text", "text": media_line(part)} if _is_linked(part) else part


def _is_linked(part: Mapping[str, Any]) -> bool:
    """Whether a part is a file by its address, for which OpenAI's chat completions have no place."""
    file = part.get("file")
    return part.get("type") in LINKS or (isinstance(file, Mapping) and is_link(file.get("file_id")))


def _medium_oddity(part: Mapping[str, Any]) -> int:
    """What is refused in a part that is a picture, a sound or a file; 0 for another part."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return 0 if is_web(url) else picture_oddity(url)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": form}}:
            return _NO_BYTES if not data else 0 if form in SOUNDS else _UNTAKEN
        case {"type": "file", "file": {"file_data": str(data)}}:
            picture = as_picture(dict(part))
            if "image_url" not in picture:
                return _file_oddity(data) or (0 if part["file"].get("filename") else _FILED)
            return (picture_oddity(picture["image_url"]["url"]) & ~OTHER_TYPE) or _FILED
        case {"type": "file", "file": dict(file)} if not file.get("file_data") and not file.get("file_id"):
            return _NO_BYTES
    return 0


def _file_oddity(data: str) -> int:
    """What OpenAI refuses in a file's data; 0 for a PDF in a data URL."""
    told, begins = typed(data)
    if not begins and (told is not None or not data):
        return _NO_BYTES
    is_words = told is not None and told.startswith("text/")
    return 0 if told == PDF else _FILED if is_words or data.startswith(PDF_BEGINS) else _UNTAKEN


def _with_files(message: Message) -> Message:
    """The message with a text file as its text, a PDF's base64 in a data URL, and a file that is a picture as one."""
    return _with_parts(message, lambda part: _filed(part) if _medium_oddity(part) & _FILED else part)


def with_data_url(part: Message) -> Message:
    """Return a PDF that is bare base64 as a data URL; any other part as it is."""
    data = str(_file_of(part).get("file_data") or "")
    return _with(part, file_data=f"data:{PDF};base64,{data}") if data.startswith(PDF_BEGINS) else part


def with_file_name(part: Message) -> Message:
    """Return a PDF in a data URL with a name, if it has none; any other part as it is."""
    file = _file_of(part)
    is_pdf = str(file.get("file_data") or "").startswith(f"data:{PDF}")
    return _with(part, filename=UNNAMED) if is_pdf and not file.get("filename") else part


def _file_of(part: Message) -> Mapping[str, Any]:
    """The file of a part of chat completions; a part of Responses is one itself."""
    file = part.get("file")
    return file if isinstance(file, Mapping) else part


def _with(part: Message, **members: str) -> Message:
    """The part with these members of its file."""
    named = {**_file_of(part), **members}
    return {**part, "file": named} if isinstance(part.get("file"), Mapping) else named


def _filed(part: Message) -> Message:
    if (picture := as_picture(part)) is not part:
        return _with_type(picture)
    if (found := with_data_url(part)) is not part:
        return found
    if not _file_oddity(part["file"]["file_data"]):
        return part
    head, _, payload = part["file"]["file_data"].partition(",")
    try:
        words = binascii.a2b_base64(payload).decode("utf-8", "replace") if head.endswith(";base64") else payload
    except binascii.Error:
        words = media_line(part)
    return {"type": "text", "text": words}


def picture_oddity(url: str) -> int:
    """Return what OpenAI refuses in a picture's address that is none of the web, as a bit; 0 if it takes it."""
    told, data = typed(url)
    if not data:
        return _NO_BYTES if told is not None or not url else _UNTAKEN
    if told in _PICTURES:
        return OTHER_TYPE if _is_irregular(url, told) else 0
    return OTHER_TYPE if picture_type(told or "", data) in _PICTURES else _UNTAKEN


def _is_irregular(url: str, told: str) -> bool:
    """Whether a picture's data URL has base64 with white space, or another head than its type, which is ``told``."""
    head = url.partition(",")[0]
    is_base64 = "base64" in head.lower().split(";")
    return is_base64 and (head != f"data:{told};base64" or any(space in url for space in _SPACES))


def _in_lines(refused: int) -> Callable[[Message], Message]:
    """Return what puts a line in place of each picture and sound of which this is refused."""

    def in_line(part: Message) -> Message:
        return {"type": "text", "text": media_line(as_picture(part))} if _medium_oddity(part) & refused else part

    return partial(_with_parts, changed=in_line)


def _with_types(message: Message) -> Message:
    """The message with the media type of a picture's bytes where another type is told that is no picture's."""
    return _with_parts(message, _with_type)


def retyped(url: str) -> str:
    """Return a picture's data URL with the type of its bytes, without parameters and white space."""
    told, begins = typed(url)
    return f"data:{picture_type(told or '', begins)};base64,{''.join(url.partition(',')[2].split())}"


def _with_type(part: Message) -> Message:
    if not _medium_oddity(part) & OTHER_TYPE:
        return part
    given = part["image_url"]
    url = retyped(given if isinstance(given, str) else given["url"])
    return {**part, "image_url": url if isinstance(given, str) else {**given, "url": url}}


def _without_others(message: Mapping[str, Any]) -> Message:
    """The message without members that only other servers take, in it, in its parts and in its calls."""
    left = _without(message)
    for name in ("content", "tool_calls"):
        if isinstance(inner := message.get(name), list):
            left[name] = [_without(each) for each in inner]
    return left


def _strict(message: Mapping[str, Any]) -> Message:
    """The message without members that Mistral refuses."""
    return {
        name: each
        for name, each in message.items()
        if name not in _NOT_MISTRALS and not (each is None and name in _NULL_FOR_OPENAI)
    }


def _without(value: Mapping[str, Any]) -> Message:
    return {name: each for name, each in value.items() if name not in _OTHERS_MEMBERS}


_CHANGES: Final[tuple[tuple[int, Mend, Callable[[Message], Message], frozenset[str] | None], ...]] = (
    (_CONTENT, EMPTY_CONTENT, _filled, None),
    (_MEMBERS, EMPTY_MEMBER, _without_empties, None),
    (_AUDIO, SPOKEN, _unspoken, None),
    (MEDIA, AS_TEXT, told, None),
    (_BLANKS, BLANK_TEXT, without_blanks, named("maker", "empty_text") | named("host", "empty_text")),
    (_LINKED, AS_TEXT, _unlinked, _OPENAIS),
    (_NO_BYTES, UNTAKEN, _in_lines(_NO_BYTES), None),
    (_UNTAKEN, UNTAKEN, _in_lines(_UNTAKEN), _OPENAIS),
    (OTHER_TYPE, MEDIA_TYPE, _with_types, _OPENAIS),
    (_FILED, FILED, _with_files, _OPENAIS),
    (_FILED, FILE_NAME, partial(_with_parts, changed=with_file_name), _OPENAIS),
    (_OTHERS, OTHERS, _without_others, _OPENAIS),
    (_OTHERS, HOSTS, _without_others, named("host", "members")),
    (_STRICT, STRICT, _strict, named("maker", "members", "own")),
    (NAMES, NAME, _functions_renamed, named("maker", "tool_names", "plain") | named("host", "tool_names", "plain")),
    (NAMES, NAME, _renamed, _OPENAIS),
    (IDS, CALL_ID, _shortened, _OPENAIS),
)
"""Each change with the makers and hosts that refuse what it mends; None for all. Later changes see the earlier ones."""
