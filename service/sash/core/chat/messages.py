"""Entries and chat messages: their declarations, strict decoding, and canonical encoding.

A chat message stays the mapping that the client sent, so that all of its members are stored and given back. Those that
providers take are sent (``providers.messages.members``).
It is validated against the declarations below, which follow OpenAI's chat completions reference. Sash's own envelopes
(entries, grounding) refuse unknown fields.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from sash.core.chat import mistakes
from sash.core.chat.bounds import (
    AGENTS,
    IDS,
    MOST_AGENTS,
    OWNERS,
    RECEIPTS,
    WHAT_AGENTS_ARE,
    WHAT_IDS_ARE,
    WHAT_OWNERS_ARE,
)
from sash.core.chat.json_bodies import FAULTS, MAX_DEPTH, convert_json, read_json, refuse_deep
from sash.core.chat.open_calls import OpenCalls, with_call_id
from sash.core.chat.programs import recognise
from sash.core.chat.regular import regular
from sash.problems import BadRequest, InvalidEntry

T = TypeVar("T")

Id = Annotated[str, msgspec.Meta(pattern=rf"^{IDS.pattern}\Z", description=f"{WHAT_IDS_ARE}.")]
"""Conversation and entry ids."""
OwnerId = Annotated[
    str,
    msgspec.Meta(pattern=rf"^{OWNERS.pattern}\Z", description=f"{WHAT_OWNERS_ARE}. It is percent-encoded in a path."),
]
AgentName = Annotated[
    str,
    msgspec.Meta(
        title="AgentName",
        pattern=rf"^{AGENTS.pattern}\Z",
        description=f"The name of one of several agents: {WHAT_AGENTS_ARE}.",
        examples=["billing"],
    ),
]
ReceiptText = Annotated[
    str,
    msgspec.Meta(
        title="Receipt",
        pattern=rf"^{RECEIPTS.pattern}\Z",
        description="The member `receipt` of a window, as it came: at most 160 characters.",
    ),
]
Audience = Annotated[
    list[AgentName],
    msgspec.Meta(
        title="Audience",
        min_length=1,
        max_length=MOST_AGENTS,
        description="The agents whose views have the message, beside its author's. Without it, all have it.",
    ),
]
Seq = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
"""A message's place in its conversation, from 1; 0 is before the first one."""
ById = Annotated[
    str, msgspec.Meta(pattern=rf"^id:{IDS.pattern}\Z", description="`id:` and the entry's own id, as in `id:m-7`.")
]
EntryName = Annotated[
    Seq | ById,
    msgspec.Meta(
        title="EntryName",
        description="An entry by its `seq`, or by its own id: `id:m-7` for the id `m-7`.",
        examples=[6, "id:m-7"],
    ),
]

Side = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
"""An image's width or height in pixels."""
WholeSide = Annotated[float, msgspec.Meta(ge=1, le=65_536, multiple_of=1)]
"""A side inside a message, which is stored unchanged: in JSON, 512.0 is as valid as 512."""


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A text."""

    text: str


class ImageUrl(msgspec.Struct):
    """A picture's address or data URL; ``width`` and ``height`` are in pixels."""

    url: str
    detail: str | None = None
    width: WholeSide | None = None
    height: WholeSide | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """A picture."""

    image_url: ImageUrl | str


class InputAudio(msgspec.Struct):
    """A sound in base64, and its format, such as ``wav``."""

    data: str
    format: str


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio"):
    """A sound."""

    input_audio: InputAudio


class File(msgspec.Struct):
    """A file as a data URL, or by its id at OpenAI."""

    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file"):
    """A file."""

    file: File


class Link(msgspec.Struct):
    """An address."""

    url: str


class DocumentUrlPart(msgspec.Struct, tag_field="type", tag="document_url"):
    """A link to a document, as servers of OpenAI's form take it."""

    document_url: Link | str
    document_name: str | None = None


class FileUrlPart(msgspec.Struct, tag_field="type", tag="file_url"):
    """A link to a file, as servers of OpenAI's form take it."""

    file_url: Link | str


class VideoUrlPart(msgspec.Struct, tag_field="type", tag="video_url"):
    """A link to a video, as servers of OpenAI's form take it."""

    video_url: Link | str


class AudioUrlPart(msgspec.Struct, tag_field="type", tag="audio_url"):
    """A link to a sound, as servers of OpenAI's form take it."""

    audio_url: Link | str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """A model's refusal."""

    refusal: str


TextContent = Annotated[
    str | list[TextPart],
    msgspec.Meta(title="TextContent", description="Text, or a list of parts."),
]
UserPart = Annotated[
    TextPart | ImagePart | AudioPart | FilePart | DocumentUrlPart | FileUrlPart | VideoUrlPart | AudioUrlPart,
    msgspec.Meta(title="UserPart", description="A part of a user message; those of compatible servers end in `_url`."),
]
UserContent = Annotated[
    str | list[UserPart],
    msgspec.Meta(title="UserContent", description="Text, or a list of parts."),
]
AssistantPart = Annotated[
    TextPart | RefusalPart, msgspec.Meta(title="AssistantPart", description="A part of an assistant message.")
]
AssistantContent = Annotated[
    str | list[AssistantPart], msgspec.Meta(title="AssistantContent", description="Text, or a list of parts.")
]


class FunctionCall(msgspec.Struct):
    """A function's name and its arguments, which are JSON as text."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: str


class CustomCall(msgspec.Struct):
    """A custom tool's name and its input, which is any text."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    input: str


CallId = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
"""A call's id. LiteLLM puts Gemini's signatures into it; forms with a smaller limit get a shorter id."""


class FunctionToolCall(msgspec.Struct, tag_field="type", tag="function"):
    """A model's call of a function."""

    id: CallId
    function: FunctionCall


class CustomToolCall(msgspec.Struct, tag_field="type", tag="custom"):
    """A model's call of a custom tool."""

    id: CallId
    custom: CustomCall


ToolCall = Annotated[
    FunctionToolCall | CustomToolCall,
    msgspec.Meta(title="ToolCall", description="A tool call of an assistant message."),
]


class SystemMessage(msgspec.Struct, tag_field="role", tag="system"):
    """Instructions for the model."""

    content: TextContent
    name: str | None = None


class DeveloperMessage(msgspec.Struct, tag_field="role", tag="developer"):
    """Instructions for the model, of the application's developer."""

    content: TextContent
    name: str | None = None


class UserMessage(msgspec.Struct, tag_field="role", tag="user"):
    """A user's message. ``name`` tells several users apart."""

    content: UserContent
    name: str | None = None


ThinkingBlock = Annotated[
    dict[str, Any], msgspec.Meta(title="ThinkingBlock", description="A thought of Claude's, in Anthropic's form.")
]


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant"):
    """A model's reply: a text, calls of tools, or both."""

    content: AssistantContent | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall], msgspec.Meta(min_length=1, max_length=128)] | None = None
    function_call: FunctionCall | None = None
    thinking_blocks: list[ThinkingBlock] | None = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool"):
    """The result of the call ``tool_call_id``."""

    tool_call_id: CallId
    content: UserContent


class FunctionMessage(msgspec.Struct, tag_field="role", tag="function"):
    """The result of a legacy function call."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    content: str | None


ChatMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage
MessageAsSent = Annotated[
    dict[str, Any], msgspec.Meta(title="Message", examples=[{"role": "user", "content": "Hello"}])
]
"""A chat message as the client wrote it; ``validate_message`` checks it against ChatMessage."""
Metadata = Annotated[
    dict[str, Any], msgspec.Meta(title="Metadata", description="The client's own data, stored and returned unchanged.")
]


Status = Annotated[
    Literal["in_progress", "completed", "interrupted"],
    msgspec.Meta(title="ReplyStatus", description="Whether a reply is being written, is complete, or was interrupted."),
]


Levels = Annotated[list[str], msgspec.Meta(min_length=1, max_length=16)]


class Document(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A retrieved text. ``id`` identifies the same document in several turns.

    A document may have shorter texts, which windows send when the whole ones of all documents do not fit.
    """

    text: Annotated[
        str | msgspec.UnsetType, msgspec.Meta(description="The document's text; without it `levels` has it.")
    ] = msgspec.UNSET
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    short: Annotated[str | None, msgspec.Meta(description="A shorter text, such as a title and a link.")] = None
    levels: Annotated[
        Levels | None,
        msgspec.Meta(description="Texts of the document, the longest first; after `text`, if it is given."),
    ] = None
    title: Annotated[
        Annotated[str, msgspec.Meta(max_length=2000)] | None, msgspec.Meta(description="Its title, for citations.")
    ] = None
    url: Annotated[
        Annotated[str, msgspec.Meta(max_length=8192)] | None, msgspec.Meta(description="Its address, for citations.")
    ] = None
    metadata: Metadata | None = None

    def regular(self) -> None:
        """Give a document with levels its one form: its longest text as ``text``, and one shorter as ``short``, or more as
        ``levels``. The same text twice in a row is one level.

        A document without a text stays without one.
        """
        if self.levels is None:
            return
        texts = [text for text in (self.text, *self.levels, self.short) if isinstance(text, str)]
        texts = [text for place, text in enumerate(texts) if place == 0 or text != texts[place - 1]]
        self.text, *shorter = texts
        self.short = shorter[0] if len(shorter) == 1 else None
        self.levels = shorter if len(shorter) > 1 else None

    @property
    def shorter(self) -> list[str]:
        """The texts after the longest, of a regular document."""
        return self.levels or ([] if self.short is None else [self.short])


class Grounding(msgspec.Struct, forbid_unknown_fields=True):
    """Documents that retrieval found for a user message, most relevant first."""

    documents: Annotated[list[Document], msgspec.Meta(max_length=1000)]


class Entry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A message with its envelope, as a client appends it."""

    message: MessageAsSent
    id: Annotated[Id | None, msgspec.Meta(description="The client's own id. A repeated entry is stored once.")] = None
    grounding: Annotated[Grounding | None, msgspec.Meta(description="Documents retrieved for this message.")] = None
    pinned: Annotated[bool, msgspec.Meta(description="Whether the message is in every window.")] = False
    sent: Annotated[
        bool,
        msgspec.Meta(description="Whether windows may have the message. One that is not sent stays in the log."),
    ] = True
    metadata: Metadata | None = None
    status: Annotated[
        Status | None,
        msgspec.Meta(
            description="A reply's status. A reply in progress may be sent again under its id, longer. Windows leave it "
            "out, and one that was interrupted before a word came."
        ),
    ] = None
    continues: Annotated[
        bool,
        msgspec.Meta(
            description="Whether the entry only continues or ends the reply in progress with its id. Where a rewind or an "
            "erasure took that away, the answer is 410 and nothing is stored."
        ),
    ] = False
    image_sizes: Annotated[
        Annotated[list[tuple[Side, Side]], msgspec.Meta(max_length=1000)] | None,
        msgspec.Meta(description="Width and height of all images in pixels, used where no header is readable."),
    ] = None
    author: Annotated[AgentName | None, msgspec.Meta(description="The agent that the message is of.")] = None
    audience: Audience | None = None
    receipt: Annotated[
        ReceiptText | None, msgspec.Meta(description="The receipt of the window that this message answered.")
    ] = None


SentEntry = Annotated[Entry, msgspec.Meta(title="SentMessage")]
"""An entry of a request: in the document also a bare message, and a provider's with ``?format=``."""
ENVELOPE = frozenset(Entry.__struct_fields__) - {"message"}
"""Members of an entry beside its message. A bare message may have them too: they are the entry's then."""


class BareEntry(Entry):
    """An entry that was sent as a bare chat message, with other members of the entry beside the message's own."""


MEMBERS = frozenset({"role", "type", "parts", "content"})
"""A bare message has one of these members, whichever API it is of; an object with none of them is a faulty entry."""

_A_BARE_ONE: Mapping[str, Any] = {"message": {}}
"""An entry that is decoded in place of a bare message without members of the entry."""
_ANYTHING = msgspec.json.Decoder()
_LEVELS = 8
"""Levels of a usual body: a request, its messages, an entry, its message, a call or a part, and what is in it."""


def _nested(levels: int) -> Any:
    """The type of JSON values that nest at most so many levels deep."""
    value: Any = str | int | float | bool | None
    for _ in range(levels):
        value = str | int | float | bool | None | list[value] | dict[str, value]
    return value


_SHALLOW = msgspec.json.Decoder(_nested(_LEVELS))
"""Needs no ``refuse_deep`` before it, which takes twice as long as to decode: it stops at a value that nests deeper."""


def decode_entries(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as the decoder's type. Each of ``messages`` is an entry or a bare chat message. Raises BadRequest."""
    value = None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and (value := _shallow(body)) is None:
        refuse_deep(body)
    if value is None:
        try:
            return decoder.decode(body)
        except FAULTS:
            if not body.strip():
                raise mistakes.empty_body(decoder.type) from None
            value = read_json(body, _ANYTHING)  # a fault of the JSON comes before one of its shape
    given = value.get("messages") if isinstance(value, dict) else None
    entries = given if isinstance(given, list) else []
    bare = [(place, entry) for place, entry in enumerate(entries) if is_bare(entry)]
    for place, message in bare:
        entries[place] = _A_BARE_ONE if ENVELOPE.isdisjoint(message) else wrapped(message)
    try:
        decoded = convert_json(value, decoder)
    except BadRequest:
        whole = dict(bare)
        for place, each in enumerate(entries):
            entry = whole.get(place, each)
            if program := recognise(entry) or recognise(entry.get("message") if isinstance(entry, dict) else None):
                raise program.refused(f"/messages/{place}") from None
        raise
    read: list[Any] = decoded.messages  # type: ignore[attr-defined]
    for place, message in bare:
        is_alone = entries[place] is _A_BARE_ONE
        read[place] = BareEntry(message=message) if is_alone else BareEntry(**msgspec.structs.asdict(read[place]))
    return decoded


def _shallow(body: bytes) -> Any:
    """The body, if it is JSON that nests as little as usual; else None."""
    try:
        return _SHALLOW.decode(body)
    except FAULTS:
        return None


def wrapped(message: Mapping[str, Any], envelope: frozenset[str] = ENVELOPE) -> dict[str, Any]:
    """A bare message as an entry: its members in ``envelope`` stand beside ``message``, which has the others."""
    facts = {name: value for name, value in message.items() if name in envelope}
    return {**facts, "message": {name: value for name, value in message.items() if name not in envelope}}


def is_bare(entry: Any) -> bool:
    """Whether a decoded entry is a bare chat message."""
    return isinstance(entry, dict) and "message" not in entry and not MEMBERS.isdisjoint(entry)


_KNOWN = {
    kind: frozenset({"role", *kind.__struct_fields__})
    for kind in (SystemMessage, DeveloperMessage, UserMessage, AssistantMessage, ToolMessage, FunctionMessage)
}
_BY_ROLE = {kind.__struct_config__.tag: kind for kind in _KNOWN}


TEXT_IS_ENOUGH = ("system", "developer", "user", "assistant")
"""Roles of messages that need no member but a text."""
ROLE_AND_CONTENT = 2
_TEXT_ALONE = (SystemMessage, DeveloperMessage)
"""Messages whose parts can only be text. A tuple, because a union in ``isinstance`` would be created at each call."""


def is_text_alone(message: Mapping[str, Any]) -> bool:
    """Whether a message has a role and a text alone, as nearly all have. Then it is valid as it came, and calls no tool."""
    return (
        len(message) == ROLE_AND_CONTENT
        and message.get("role") in TEXT_IS_ENOUGH
        and type(message.get("content")) is str
    )


def validate_message(
    message: dict[str, Any],
    pointer: str,
    foreign: Callable[[Any, str], InvalidEntry | None],
    *,
    was_stored: bool = False,
) -> dict[str, Any]:
    """Check a message against ChatMessage, and return it as it is stored: with regular calls.

    One that ``was_stored`` may have the members of another program's record. Raises InvalidEntry with the place below
    ``pointer``.

    ``foreign`` returns the problem of a message in another provider's form (``providers.reading.recognition``).
    """
    if isinstance(message, dict):
        if is_text_alone(message):
            return message
        message = regular(message)
        role = message.get("role")
    else:
        role = None
    # msgspec prepares a union again at each call, which takes twenty times as long as the conversion to one type.
    kind: Any = _BY_ROLE.get(role, ChatMessage) if isinstance(role, str) else ChatMessage
    try:
        checked: ChatMessage = msgspec.convert(message, kind)
    except msgspec.ValidationError:
        raise foreign(message, pointer) or mistakes.invalid(pointer, of=ChatMessage, value=message) from None
    if "native" in message:
        raise own_member(pointer)
    if others := message.keys() - _KNOWN[type(checked)]:
        if not was_stored and (program := recognise(message)):
            raise program.refused(pointer)
        _refuse_misspelt(others, _KNOWN[type(checked)].difference(message), pointer)
    _require_types(message, checked, pointer)
    return message


def validate_messages(
    messages: list[dict[str, Any]], pointer: str, foreign: Callable[[Any, str], InvalidEntry | None]
) -> None:
    """Check the messages of a list, and make them regular in it. Raises InvalidEntry."""
    for place, message in enumerate(messages):
        if message.get("role") == "tool" and not message.get("tool_call_id"):
            opened, behind = OpenCalls(messages[:place]), messages[place + 1 :]
            messages[place] = with_call_id(message, opened, behind, f"{pointer}/{place}")
        messages[place] = validate_message(messages[place], f"{pointer}/{place}", foreign)


def check_envelope(message: Mapping[str, Any], pointer: str) -> None:
    """Raise InvalidEntry for a misspelt member of the entry in a bare message; a name that begins with ``_`` is none.

    Documents beside a user's text would be stored and not sent, so they are taken for a misspelling of ``grounding``.
    """
    others = message.keys() - _KNOWN[_BY_ROLE[message["role"]]]
    if "documents" in others and message["role"] == "user":
        raise mistakes.misnamed("documents", ENVELOPE, f"#{pointer}/documents")
    _refuse_misspelt({name for name in others if not name.startswith("_")}, ENVELOPE, pointer)


def _refuse_misspelt(others: AbstractSet[str], known: frozenset[str], pointer: str) -> None:
    """Raise InvalidEntry for a name that is a misspelling of a ``known`` one, which the message lacks."""
    for name in sorted(others):
        if mistakes.is_misspelt(name, known):
            raise mistakes.misnamed(name, known, f"#{pointer}/{name}")


def own_member(pointer: str) -> InvalidEntry:
    """The problem of a client's member ``native``, which is reserved for Sash; ``pointer`` is the message's."""
    detail = "This member is Sash's own: leave it out, or send the provider's message with ?format="
    return InvalidEntry.at(f"#{pointer}/native", detail)


def _require_types(message: Mapping[str, Any], checked: ChatMessage, pointer: str) -> None:
    """Raise InvalidEntry for a part without ``type``, which the declaration allows if parts can only be text."""
    if isinstance(checked, _TEXT_ALONE) and isinstance(checked.content, list):
        for index, part in enumerate(message["content"]):
            if "type" not in part:
                raise mistakes.problem_at(
                    "The field 'type' is missing",
                    f"#{pointer}/content/{index}",
                    ': write {"type": "text", "text": "…"}',
                )


def encode_message(message: Mapping[str, Any]) -> tuple[bytes, int, int]:
    """Canonical JSON of a message, with the offsets of its content's value (0, 0 if there is none).

    The bytes are those of ``msgspec.json.encode(message)``. With the offsets, documents can be spliced into the content
    later without decoding the body.
    """
    body = msgspec.json.encode(message)
    if "content" not in message:
        return body, 0, 0
    names = list(message)
    if names == ["role", "content"]:  # as nearly always
        return body, len('{"role":"","content":') + len(message["role"]), len(body) - 1
    before = msgspec.json.encode({name: message[name] for name in names[: names.index("content")]})
    start = (len(before) if before != b"{}" else 1) + len('"content":')  # a comma is in place of the brace
    return body, start, start + len(msgspec.json.encode(message["content"]))


def digest(value: Any, size_bytes: int) -> bytes:
    """A hash of a JSON value with sorted keys, so that the order of members does not matter."""
    return blake2b(_SORTED.encode(value), digest_size=size_bytes).digest()


def digests(values: Iterable[Any], size_bytes: int) -> list[bytes]:
    """The ``digest`` of each value. There may be thousands, so it makes no call for each."""
    encode = _SORTED.encode
    return [blake2b(encode(value), digest_size=size_bytes).digest() for value in values]


_SORTED = msgspec.json.Encoder(order="deterministic")
