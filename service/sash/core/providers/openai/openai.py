"""OpenAI's chat completions: the form in which every message is stored, so nothing is read or written anew."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.arguments import CacheKey, ToolAsSent, ToolChoice
from sash.core.chat.messages import MessageAsSent
from sash.core.providers.form.cache_marks import BREAKPOINTS, CacheKind, CachePrices, Caching, Places, content_parts
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat
from sash.core.providers.messages.endings import REPLY_AT_END
from sash.core.providers.messages.pieces import Object, Piece, rest_of
from sash.core.providers.openai.chat_mends import CHAT_MENDS, OPENAIS_MEDIA
from sash.core.providers.openai.server_mends import SERVER_MENDS
from sash.core.providers.openai.single_calls import CALLS_APART
from sash.core.providers.writing.native_messages import Shape
from sash.core.providers.writing.shared_mends import WORDS_APART
from sash.core.providers.writing.turns import Outgoing, RequestWriting

_MARKED: Final = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)")
_BREAKPOINT: Final = {"mode": "explicit"}
_READ_ALIKE: Final = frozenset({"user", "tool", "system", "developer"})


def _write(messages: Sequence[Outgoing], tools: list[Object], tool_choice: Any, writing: RequestWriting) -> Object:
    """Return ``messages``, with ``tools`` and ``tool_choice`` when there are any."""
    del writing
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


_LIMITS: Final = RequestLimits(bytes=512_000_000, images=1_500, tools=128, tool_name=64)
"""Bytes and pictures: developers.openai.com/api/docs/guides/images-vision, "Image input requirements" (512 MB and 1,500,
read in November 2026; 50 MB and 500 until 2025). Tools: OpenAI answers 400, "Invalid 'tools': array too long. Expected an
array with maximum length 128" (zed-industries/zed 32946, 2025; musistudio/claude-code-router 686). Names: the reference of
``tools[].function.name``, "with a maximum length of 64"."""


def openai_limits(name: str, context_window: int) -> RequestLimits:
    """The limits of a request to a model of OpenAI, which are the same for all."""
    del name, context_window
    return _LIMITS


# ---- the prompt cache


def openai_caching(name: str, prices: CachePrices) -> Caching:
    """The prompt cache of a model of OpenAI.

    Before GPT-5.6 any prefix from 1,024 tokens on is kept, in steps of 128. There are no marks, and writes cost nothing
    (developers.openai.com/api/docs/guides/prompt-caching, read in November 2026: "gpt-4o and newer"). For GPT-5.6 and later,
    entries end at breakpoints, and only these are compared. The newest user or tool message is an implicit breakpoint;
    ``prompt_cache_breakpoint`` in a block makes others, four in all. Writes cost 1.25 (the same page).
    """
    if _MARKED.search(name):
        return Caching(
            kind="breakpoints",
            minimum_tokens=1024,
            lifetime_seconds=1800,
            read_price=prices.read,
            write_price=prices.write,
        )
    return Caching(kind="implicit", minimum_tokens=1024, step_tokens=128, lifetime_seconds=300, read_price=prices.read)


def openai_marks(messages: str, kind: str) -> Callable[[Object, CacheKind | None, Places, str], Object]:
    """Return how hints are added to a request with its messages in this member, and with text parts of this kind."""

    def mark(request: Object, cache: CacheKind | None, places: Places, key: str) -> Object:
        if cache == "breakpoints":
            request = {**request, messages: _with_breakpoint(request[messages], kind, places)}
        return {**request, "prompt_cache_key": key} if key and cache in ("breakpoints", "implicit") else request

    return mark


def _with_breakpoint(messages: list[Object], kind: str, places: Places) -> list[Object]:
    """The messages with marks for GPT-5.6 and later: after the leading instructions and before the newest question.

    The newest message has the implicit mark. Assistant messages take no mark, so the last message before them gets it.
    """
    own = sum(
        "prompt_cache_breakpoint" in part for message in messages for part in content_parts(message.get("content"))
    )
    question = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=0)
    question -= places.recalled
    leading = next(
        (i for i, each in enumerate(messages) if each.get("role") not in ("system", "developer")), len(messages)
    )
    wanted = [question] if places.before_question else []
    ends = [_last_markable(messages[:end]) for end in (*wanted, leading)]
    marked = list(messages)
    for index in list(dict.fromkeys(end for end in ends if end is not None))[: max(0, BREAKPOINTS - 1 - own)]:
        *rest, last = content_parts(marked[index].get("content"), kind)
        if "prompt_cache_breakpoint" not in last:
            marked[index] = {**marked[index], "content": [*rest, {**last, "prompt_cache_breakpoint": _BREAKPOINT}]}
    return marked


def _last_markable(messages: list[Object]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        parts = content_parts(messages[index].get("content"))
        if messages[index].get("role") in _READ_ALIKE and parts and parts[-1].get("text"):
            return index
    return None


class OpenAIRequest(msgspec.Struct):
    """The arguments of ``client.chat.completions.create``, except the model."""

    messages: list[MessageAsSent]
    tools: list[ToolAsSent] = []
    tool_choice: ToolChoice = ""
    prompt_cache_key: CacheKey = ""


OPENAI = Provider(
    arguments=OpenAIRequest,
    called="a chat message",
    own_types="(image|document|file|video|audio)_url",
    shape=Shape(name="openai", messages="messages", parts="content", text={"type": "text"}),
    read=_read_message,
    read_request=_read_request,
    write=_write,
    is_chat=lambda _: True,
    carries=frozenset({"plain", "blocks", "signatures"}),
    replies_are_items=False,
    fills=False,
    is_call=lambda _: False,
    with_result_text=lambda _own, _text, _keeps: None,
    maker="openai",
    caching=openai_caching,
    mark=openai_marks("messages", "text"),
    limits=openai_limits,
    takes=OPENAIS_MEDIA,
    mends=(*CHAT_MENDS, *SERVER_MENDS, CALLS_APART, REPLY_AT_END, WORDS_APART),
    cache_marks=frozenset({"prompt_cache_key"}),
    is_openais=True,
    has_exact_bills=True,
)
