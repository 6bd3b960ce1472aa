"""The body of ``POST /window``: a history, and the window's parameters."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import ToolChoice
from sash.core.chat.messages import Entry, Id, decode_entries, decode_json
from sash.core.law.conversation_settings import (
    DocumentSeparator,
    FewShots,
    GroundingTemplate,
    RecallTemplate,
    SystemPrompt,
    Tools,
)
from sash.core.law.parameters import WindowFormat, WindowQuery
from sash.core.providers import PROVIDERS
from sash.core.providers.given import ReadEntries, chat_entries, read_entries
from sash.core.providers.members import NO_NAMES, Names


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The format of the body's messages: chat messages, or a provider's own."""

    format: WindowFormat = "openai"


class WindowRequest(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A history, and the window's parameters. Nothing is stored."""

    messages: list[Entry]
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


class NativeWindowRequest(WindowRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A WindowRequest whose messages are in a provider's format, each alone or in an entry."""

    messages: list[dict[str, Any]]  # type: ignore[assignment] # become entries in decode_request


class _Form(msgspec.Struct):
    format: Any = None


_form = msgspec.json.Decoder(_Form)
_request = msgspec.json.Decoder(WindowRequest)
_native = msgspec.json.Decoder(NativeWindowRequest)


def decode_request(
    body: bytes, form: str = "openai", send: Names = NO_NAMES, allowed: Sequence[str] = ()
) -> tuple[WindowRequest, ReadEntries]:
    """The decoded body, and its entries; ``form`` is the format of the body's messages, and ``send`` is as in
    ``read_messages``. Raises BadRequest.

    ``allowed`` is as in ``read_entries``.

    The window has the same format, unless the body has a ``format``.
    """
    if PROVIDERS[form].is_chat_form:
        wanted = decode_entries(body, _request)
        return wanted, chat_entries(wanted.messages)
    asked = decode_json(body, _native)
    sent = read_entries(form, asked.messages, send=send, allowed=allowed)
    named = {} if decode_json(body, _form).format else {"format": form}
    return WindowRequest(**(msgspec.structs.asdict(asked) | {"messages": sent.entries} | named)), sent
