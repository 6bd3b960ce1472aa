"""A conversation's settings, and the parts of every window that follow from them."""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import ToolAsSent, ToolChoice
from sash.core.chat.bounds import TEN_YEARS_SECONDS
from sash.core.chat.messages import MessageAsSent, Metadata, OwnerId, validate_messages
from sash.core.chat.mistakes import invalid
from sash.core.chat.regular import regular_choice, regular_tool
from sash.core.chat.tool_groups import calls_of
from sash.core.counts.measures.measures import measure
from sash.core.law.documents.grounding import check_template, parse_template
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.core.law.recall import DEFAULT_RECALL_TEMPLATE
from sash.core.law.records.parameters import Name, Reserve
from sash.core.providers.messages.members import NO_NAMES, Names, as_sent, foreign_members
from sash.core.providers.messages.mends import FOREIGN_MEMBERS, TOOL_SCHEMA
from sash.core.providers.reading.recognition import foreign
from sash.core.providers.writing.tool_schemas import taken_tools
from sash.problems import BadRequest, InvalidEntry


class FunctionDefinition(msgspec.Struct):
    """The members of a function's definition that Sash reads. Other members are stored unchanged."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: Annotated[dict[str, Any], Meta(title="Parameters", description="A JSON Schema.")] | None = None


class FunctionTool(msgspec.Struct, tag_field="type", tag="function"):
    function: FunctionDefinition


class CustomDefinition(msgspec.Struct):
    name: Annotated[str, Meta(min_length=1)]


class CustomTool(msgspec.Struct, tag_field="type", tag="custom"):
    custom: CustomDefinition


_Tool = FunctionTool | CustomTool
SystemPrompt = Annotated[str, Meta(description="The system prompt, first in every window.")]
FewShots = Annotated[list[MessageAsSent], Meta(description="Examples, after the system prompt in every window.")]
Tools = Annotated[list[ToolAsSent], Meta(description="Tool definitions, in every window. They cost tokens.")]
GroundingTemplate = Annotated[
    str, Meta(description="The text of a message with documents; contains `{content}` and `{documents}`.")
]
Recall = Annotated[
    Literal["off", "lexical", "semantic"],
    Meta(title="Recall", description="How older messages are found: not at all, by words, or by words and vectors."),
]
RecallTemplate = Annotated[
    str,
    Meta(max_length=10_000, description="The text of recalled messages in a `stable` window; contains `{messages}`."),
]
DocumentSeparator = Annotated[str, Meta(description="The text between two documents.")]


class ConversationSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A conversation's settings. Every field is optional."""

    owner: Annotated[
        OwnerId | None, Meta(description="The conversation's owner, by whom conversations are listed and erased.")
    ] = None
    model: Annotated[Name | None, Meta(description="The default model of windows.")] = None
    reserve: Annotated[Reserve | None, Meta(description="Tokens that windows keep free for the reply.")] = None
    system: SystemPrompt | None = None
    few_shots: Annotated[FewShots, Meta(max_length=1000)] | None = None
    tools: Annotated[Tools, Meta(max_length=1000)] | None = None
    tool_choice: ToolChoice | None = None
    grounding_template: Annotated[GroundingTemplate, Meta(max_length=100_000)] | None = None
    document_separator: Annotated[DocumentSeparator, Meta(max_length=1000)] | None = None
    metadata: Metadata | None = None
    recall: Recall | None = None
    recall_template: RecallTemplate | None = None
    ttl_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=TEN_YEARS_SECONDS)] | None,
        Meta(description="Seconds after the last change until the conversation is erased."),
    ] = None


encode_settings = msgspec.json.Encoder().encode
"""The settings as JSON, in the form in which they are stored."""
read_settings = msgspec.json.Decoder(ConversationSettings).decode
"""Stored settings, without measuring and without a cache."""


_Decoded = tuple[ConversationSettings, FixedParts]
_PERSONAL: Final = ("owner", "metadata", "ttl_seconds")
"""Settings that each conversation has for itself, and that no window has. Many conversations share the others."""
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Of all settings that are kept."""
_DECODED_BYTES: Final = 16 * 1024
"""What decoded settings and the plans made with them are taken to add to the bytes of the settings as they are stored."""
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Kept(dict[tuple[bytes, Names], _Decoded]):
    """Settings that were decoded, by their bytes and the members that are sent; others are decoded as they are asked for.

    All are forgotten before they have too many bytes: long prompts could otherwise fill the memory.
    """

    def __init__(self, decode: Callable[[bytes, Names], _Decoded]) -> None:
        super().__init__()
        self._decode, self._bytes = decode, 0

    def __missing__(self, key: tuple[bytes, Names]) -> _Decoded:
        decoded, size = self._decode(*key), len(key[0]) + _DECODED_BYTES
        if self._bytes + size > _MOST_BYTES:
            self.clear()
            self._bytes = 0
        self[key], self._bytes = decoded, self._bytes + size
        return decoded


@_Kept
def _shared_settings(stored: bytes, send: Names) -> _Decoded:
    settings = read_settings(stored)
    return settings, fixed_parts(settings, send)


@_Kept
def decoded_settings(stored: bytes, send: Names) -> _Decoded:
    """Stored settings, and the fixed parts that follow from them, as in ``fixed_parts``."""
    members = _read_members(stored)
    personal = {name: members.pop(name) for name in _PERSONAL if name in members}
    settings, parts = _shared_settings[encode_settings(members), send]
    own = read_settings(encode_settings(personal))
    return msgspec.structs.replace(settings, **{name: getattr(own, name) for name in _PERSONAL}), parts


def kept_for_windows(stored: bytes, changed: bytes) -> bytes:
    """What windows need of stored settings, to make them again after these were ``changed``; empty if windows need the same.

    The owner, the metadata and the time to live are left out: no window has them.
    """
    before, after = (
        msgspec.structs.replace(read_settings(each), **dict.fromkeys(_PERSONAL)) for each in (stored, changed)
    )
    return b"" if before == after else encode_settings(before)


class FewSettings(msgspec.Struct):
    """The settings that are often read alone."""

    owner: str | None = None
    ttl_seconds: int | None = None
    recall: Recall | None = None


few_settings = msgspec.json.Decoder(FewSettings).decode
"""Stored settings, of which no others are decoded."""


def fixed_parts(settings: ConversationSettings, send: Names = NO_NAMES) -> FixedParts:
    """The parts of every window that follow from the settings. ``send`` names members that are sent although no provider
    is known to take them."""
    system = ({"role": "system", "content": settings.system},) if settings.system else ()
    given, tools = tuple(settings.few_shots or ()), settings.tools or []
    own, taken = [foreign_members(message, send) for message in given], taken_tools(tools)
    mends = (FOREIGN_MEMBERS, any(own)), (TOOL_SCHEMA, taken is not tools)
    few_shots = [as_sent(*each) if each[1] else each[0] for each in zip(given, own, strict=True)]
    parts = FixedParts(
        template=parse_template(settings.grounding_template, settings.document_separator),
        recall_template=settings.recall_template or DEFAULT_RECALL_TEMPLATE,
        messages=system,
        system=tuple(map(measure, system)),
        sent_system=tuple(map(encode_settings, system)),
        mends=tuple(mend.name for mend, is_made in mends if is_made),
    )
    return parts.with_few_shots(few_shots).with_tools(taken, settings.tool_choice)


def check_settings(settings: ConversationSettings) -> ConversationSettings:
    """Return the settings with a regular tool choice; the messages and tools in their lists become regular.

    Raises BadRequest with the place of few-shots, tools, a choice or a template that are not valid.
    """
    shots = settings.few_shots or []
    validate_messages(shots, "/few_shots", foreign)
    calls, waiting = set[str](), Counter[str]()
    for index, made in enumerate(map(calls_of, (*shots, {"role": "user"}))):  # a question follows the few-shots
        if made.answers:
            if made.answers not in calls:
                pointer = f"#/few_shots/{index}/tool_call_id"
                raise InvalidEntry.at(pointer, "A tool result must follow its call directly")
            waiting -= Counter([made.answers])
            continue
        if waiting:  # no provider takes such calls
            pointer = f"#/few_shots/{index - 1}"
            raise InvalidEntry.at(pointer, "A tool call of a few-shot must have its result behind it")
        calls, waiting = set(made.opens), Counter(made.opens)
    check_tools(settings.tools)
    if settings.recall_template is not None and settings.recall_template.count("{messages}") != 1:
        raise BadRequest.at("#/recall_template", "The template must contain {messages} once")
    check_template(settings.grounding_template, settings.document_separator)
    choice = regular_choice(settings.tool_choice)
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        written = 'Write "auto", "none", "required" or {"type": "function", "function": {"name": "…"}}'
        raise BadRequest.at("#/tool_choice", written)
    return settings if choice is settings.tool_choice else msgspec.structs.replace(settings, tool_choice=choice)


def check_tools(tools: list[dict[str, Any]] | None) -> None:
    """Write each tool in the list in the form of chat completions. Raises BadRequest for one without a type or a name."""
    tools = tools or []
    for index, given in enumerate(tools):
        tools[index] = tool = regular_tool(given)
        try:
            msgspec.convert(tool, _Tool)
        except msgspec.ValidationError:
            raise invalid(f"/tools/{index}", BadRequest, of=_Tool, value=tool) from None
