"""The body of ``POST /window``: a history, and the window's parameters."""

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import ToolChoice
from sash.core.chat.json_bodies import FAULTS, decode_json
from sash.core.chat.messages import ROLE_AND_CONTENT, TEXT_IS_ENOUGH, Id, SentEntry, decode_entries
from sash.core.law.fixed_parts.conversation_settings import (
    DocumentSeparator,
    FewShots,
    GroundingTemplate,
    RecallTemplate,
    SystemPrompt,
    Tools,
)
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.messages.members import NO_NAMES, Names
from sash.core.providers.reading.native_entries import ReadEntries, chat_entries, read_entries
from sash.problems import Unprocessable

_DEFAULTS = WindowQuery()


class HistoryRequest(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a window of a history in the body, and what a conversation's settings would have."""

    conversation_id: Annotated[
        Id | None, Meta(description="The stored conversation, which a shortened tool result's text refers to.")
    ] = None
    system: SystemPrompt | None = None
    few_shots: FewShots | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    grounding_template: GroundingTemplate | None = None
    document_separator: DocumentSeparator | None = None
    recall_template: RecallTemplate | None = None


class WindowRequest(HistoryRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A history, and the window's parameters. Nothing is stored."""

    messages: list[SentEntry]


class NativeWindowRequest(HistoryRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A WindowRequest whose messages are in a provider's format, each alone or in an entry."""

    messages: list[dict[str, Any]]


if TYPE_CHECKING:
    Text = dict[str, str]
else:
    Text = dict[Literal["role", "content"], str]
    """A chat message with a role and a text, and no more."""


class TextsRequest(HistoryRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A WindowRequest with texts alone and without tools. Nothing in it can nest deeply, so it is decoded at once."""

    messages: list[Text]
    few_shots: None = None
    tools: None = None
    tool_choice: None = None


class _Form(msgspec.Struct):
    format: Any = None


_form = msgspec.json.Decoder(_Form)
_request = msgspec.json.Decoder(WindowRequest)
_chat = msgspec.json.Decoder(TextsRequest)
_native = msgspec.json.Decoder(NativeWindowRequest)
_LENGTHS, _TEXTS = frozenset({ROLE_AND_CONTENT}), frozenset(TEXT_IS_ENOUGH)
_role_of = itemgetter("role")


def decode_request(
    body: bytes, form: str = CHAT, send: Names = NO_NAMES, allowed: Sequence[str] = (), asked: WindowQuery = _DEFAULTS
) -> tuple[WindowRequest | TextsRequest, ReadEntries | None]:
    """The decoded body, and its entries, which a TextsRequest does not need. Raises BadRequest, Unprocessable.

    ``form`` is the format of the body's messages. ``send`` is as in ``read_messages``, ``allowed`` as in ``read_entries``.

    The window has the same format, unless the body has a ``format``. ``asked`` are the parameters beside the body.
    """
    wanted, sent = _decoded(body, form, send, allowed)
    if given := _given(asked):
        wanted = msgspec.structs.replace(wanted, **_once(given, wanted))
    if wanted.history_tools:
        detail = "Nothing is stored that these tools could read: they are for windows of stored conversations"
        raise Unprocessable.at("#/history_tools", detail)
    return wanted, sent


@lru_cache(maxsize=1024)
def _given(asked: WindowQuery) -> dict[str, Any]:
    """The parameters that are not as they are by default, but the format, which is that of the body's messages."""
    values = {name: getattr(asked, name) for name in WindowQuery.__struct_fields__ if name != "format"}
    return {name: value for name, value in values.items() if value != getattr(_DEFAULTS, name)}


def _once(given: dict[str, Any], wanted: WindowQuery) -> dict[str, Any]:
    """The parameters of the query. Raises Unprocessable for one that the body has with another value."""
    for name, value in given.items():
        if getattr(wanted, name) not in (getattr(_DEFAULTS, name), value):
            raise Unprocessable.at(f"#/{name}", f"Give {name} once: in the address, or in the body")
    return given


def _decoded(
    body: bytes, form: str, send: Names, allowed: Sequence[str]
) -> tuple[WindowRequest | TextsRequest, ReadEntries | None]:
    if PROVIDERS[form].is_chat_form:
        if (chat := _decoded_chat(body)) is not None:
            return chat, None
        wanted = decode_entries(body, _request)
        return wanted, chat_entries(wanted.messages)
    asked = decode_json(body, _native)
    sent = read_entries(form, asked.messages, send=send, allowed=allowed)
    named = {} if decode_json(body, _form).format else {"format": form}
    return WindowRequest(**(msgspec.structs.asdict(asked) | {"messages": sent.entries} | named)), sent


def _decoded_chat(body: bytes) -> TextsRequest | None:
    """The body as a TextsRequest; None if it is none."""
    try:
        wanted = _chat.decode(body)
    except FAULTS:
        return None
    if not _LENGTHS.issuperset(map(len, wanted.messages)):
        return None
    return wanted if _TEXTS.issuperset(map(_role_of, wanted.messages)) else None
