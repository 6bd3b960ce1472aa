"""A conversation's settings: what a client sets once, and what is in every window because of it."""

from functools import lru_cache
from typing import Annotated, Any

import msgspec

from service.core.counting import measure
from service.core.grounding import DEFAULT_SEPARATOR, DEFAULT_TEMPLATE, Template, parse_template
from service.core.messages import Id, encode_message, invalid, validate_message
from service.core.parameters import Name, Reserve
from service.core.window import Fixed
from service.problems import BadRequest, InvalidEntry, Pointer

_TEN_YEARS_SECONDS = 10 * 365 * 24 * 3600


class FunctionDefinition(msgspec.Struct):
    """What we rely on in a function's definition; all else is kept as it is."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionTool(msgspec.Struct, tag_field="type", tag="function"):
    function: FunctionDefinition


class CustomDefinition(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]


class CustomTool(msgspec.Struct, tag_field="type", tag="custom"):
    custom: CustomDefinition


ToolChoice = str | dict[str, Any]


class ConversationSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Every field optional; absent is the default."""

    owner: Id | None = None
    model: Name | None = None
    reserve: Reserve | None = None
    system: str | None = None
    few_shots: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=1000)] | None = None
    tools: Annotated[list[dict[str, Any]], msgspec.Meta(max_length=1000)] | None = None
    tool_choice: ToolChoice | None = None
    grounding_template: Annotated[str, msgspec.Meta(max_length=100_000)] | None = None
    document_separator: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: Annotated[int, msgspec.Meta(ge=1, le=_TEN_YEARS_SECONDS)] | None = None


class FixedParts(msgspec.Struct, frozen=True):
    """What every window of a conversation begins with, encoded and measured once."""

    fixed: Fixed
    system: tuple[bytes, ...]
    few_shots: tuple[bytes, ...]
    tools: bytes
    tool_choice: bytes
    template: Template


_decode = msgspec.json.Decoder(ConversationSettings).decode
_encoder = msgspec.json.Encoder()


def encode_settings(settings: ConversationSettings) -> bytes:
    """The settings as they are stored."""
    return _encoder.encode(settings)


def decode_settings(stored: bytes) -> tuple[ConversationSettings, FixedParts]:
    """Stored settings, and the fixed parts that follow from them: the same text is parsed and measured once."""
    if len(stored) <= _SMALL_BYTES:
        return _decode_small(stored)
    return _decode_middling(stored) if len(stored) <= _MIDDLING_BYTES else _decode_large(stored)


def _decode_all(stored: bytes) -> tuple[ConversationSettings, FixedParts]:
    settings = _decode(stored)
    return settings, fixed_parts(settings)


# What is remembered is bounded by bytes: a count alone would let a few tenants' prompts fill the memory.
_SMALL_BYTES, _MIDDLING_BYTES = 16 * 1024, 256 * 1024
_decode_small = lru_cache(maxsize=2048)(_decode_all)
_decode_middling = lru_cache(maxsize=128)(_decode_all)
_decode_large = lru_cache(maxsize=8)(_decode_all)


def read_settings(stored: bytes) -> ConversationSettings:
    """Stored settings alone: nothing is measured, nothing is remembered."""
    return _decode(stored)


class _Owned(msgspec.Struct):
    owner: str | None = None


_decode_owned = msgspec.json.Decoder(_Owned).decode


def owner_of(stored: bytes) -> str | None:
    """Whose conversation it is, by its stored settings."""
    return _decode_owned(stored).owner


def fixed_parts(settings: ConversationSettings) -> FixedParts:
    """What the settings put into every window."""
    system = ({"role": "system", "content": settings.system},) if settings.system is not None else ()
    few_shots = tuple(settings.few_shots or ())
    return FixedParts(
        fixed=Fixed(
            system=tuple(measure(message) for message in system),
            few_shots=tuple(measure(message) for message in few_shots),
            tools=settings.tools or None,
            tool_choice=settings.tool_choice,
        ),
        system=tuple(encode_message(message)[0] for message in system),
        few_shots=tuple(encode_message(message)[0] for message in few_shots),
        tools=_encoder.encode(settings.tools) if settings.tools else b"",
        tool_choice=_encoder.encode(settings.tool_choice) if settings.tool_choice is not None else b"",
        template=parse_template(
            settings.grounding_template or DEFAULT_TEMPLATE,
            DEFAULT_SEPARATOR if settings.document_separator is None else settings.document_separator,
        ),
    )


def check_settings(settings: ConversationSettings) -> None:
    """Raise BadRequest naming the place for few-shots, tools or a template that no window could carry."""
    calls: set[str] = set()
    for index, message in enumerate(settings.few_shots or ()):
        pointer = f"/few_shots/{index}"
        validate_message(message, pointer)
        encode_message(message)
        answered = message.get("tool_call_id") if message["role"] == "tool" else None
        if answered is not None and answered not in calls:
            detail = "A tool result needs its call right before it"
            raise InvalidEntry(f"{detail}.", errors=[Pointer(f"#{pointer}/tool_call_id", detail)])
        if answered is None:
            calls = {call["id"] for call in message.get("tool_calls") or ()}
    check_tools(settings.tools)
    parse_template(
        settings.grounding_template or DEFAULT_TEMPLATE,
        DEFAULT_SEPARATOR if settings.document_separator is None else settings.document_separator,
    )


def check_tools(tools: list[dict[str, Any]] | None) -> None:
    """Raise BadRequest unless every tool has a type and a name."""
    for index, tool in enumerate(tools or ()):
        try:
            msgspec.convert(tool, FunctionTool | CustomTool)
        except msgspec.ValidationError as error:
            raise invalid(error, f"/tools/{index}", BadRequest) from None
