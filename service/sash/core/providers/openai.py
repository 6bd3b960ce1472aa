"""OpenAI's chat completions: the form in which every message is stored, so nothing is read or written anew."""

from collections.abc import Mapping, Sequence
from typing import Any

from sash.core.providers.pieces import Object, Piece, rest_of
from sash.core.providers.provider import Provider
from sash.core.providers.requests_read import ChatRequest, ReadAsChat
from sash.core.providers.turns import Outgoing, Refusals
from sash.core.providers.whole import Shape


def _write(messages: Sequence[Outgoing], tools: list[Object], tool_choice: Any, refusals: Refusals) -> Object:
    """Return ``messages``, with ``tools`` and ``tool_choice`` when there are any."""
    del refusals
    request: Object = {"messages": [outgoing.message for outgoing in messages]}
    return request | ({"tools": tools} if tools else {}) | ({"tool_choice": tool_choice} if tool_choice else {})


def _read_message(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    raise TypeError(f"a chat message is not read as another form's: {pointer}, {len(message)} members")


def _read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    del chat
    known = ("messages", "tools", "tool_choice", "response_format")
    return ChatRequest(
        messages=request["messages"],
        tools=request.get("tools") or [],
        tool_choice=request.get("tool_choice"),
        response_format=request.get("response_format"),
        rest=rest_of(request, *known),
    )


OPENAI = Provider(
    shape=Shape(name="openai", messages="messages", parts="content", text={"type": "text"}),
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=lambda _: True,
    carries=frozenset({"plain", "blocks", "signatures"}),
    replies_are_items=False,
    fills=False,
    with_result_text=lambda _own, _text, _alone: None,
    is_chat_form=True,
    is_openais=True,
)
