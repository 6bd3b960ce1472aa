"""A history in a request, and how its window is wanted."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.core.messages import Entry, Id, decode_entries, decode_json
from service.core.native.entries import ReadEntries, read_entries
from service.core.parameters import WindowFormat, WindowQuery
from service.core.settings import (
    DocumentSeparator,
    FewShots,
    GroundingTemplate,
    RecallTemplate,
    SystemPrompt,
    ToolChoice,
    Tools,
)


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the messages of a body are written: as chat messages, or as a provider's own."""

    format: WindowFormat = "openai"


class WindowRequest(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A history in the body, and how its window is wanted; nothing is stored."""

    messages: list[Entry]
    conversation_id: Annotated[
        Id | None, Meta(description="Where the history is kept, for the lines that say where a whole tool result is.")
    ] = None
    system: SystemPrompt | None = None
    few_shots: FewShots | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    grounding_template: GroundingTemplate | None = None
    document_separator: DocumentSeparator | None = None
    recall_template: RecallTemplate | None = None


class NativeWindowRequest(WindowRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same, with a provider's own messages, each bare or in an entry."""

    messages: list[dict[str, Any]]  # type: ignore[assignment] # entries, once they are read


class _Form(msgspec.Struct):
    format: Any = None


_form = msgspec.json.Decoder(_Form)
_request = msgspec.json.Decoder(WindowRequest)
_native = msgspec.json.Decoder(NativeWindowRequest)


def decode_request(body: bytes, form: str = "openai") -> tuple[WindowRequest, ReadEntries]:
    """What a body asks for, and its entries, whose messages are written in ``form``. Raises BadRequest.

    The window is in the same form unless the body names one.
    """
    if form == "openai":
        wanted = decode_entries(body, _request)
        return wanted, ReadEntries(wanted.messages, [], len(wanted.messages))
    asked = decode_json(body, _native)
    sent = read_entries(form, asked.messages)
    named = {} if decode_json(body, _form).format else {"format": form}
    return WindowRequest(**(msgspec.structs.asdict(asked) | {"messages": sent.entries} | named)), sent
