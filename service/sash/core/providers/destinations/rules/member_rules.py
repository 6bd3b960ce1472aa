"""Rules of members: those that a server knows, where reasoning stands, and which roles and names messages have."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from sash.core.providers.destinations.rules.rule import (
    ASKED,
    REPLY,
    Broken,
    Object,
    Rule,
    answered,
    blocks_of,
    called,
    calls_of,
    each_message,
    in_chat,
)

_REASONING: Final = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"})
_MEMBERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "known": _REASONING | {"cache_control", "extra_content", "prefix"},
        "own": _REASONING | {"annotations", "cache_control", "provider_specific_fields"},
    }
)
"""Members of other servers' messages, by the value of the fact. What an operator sends by setting is not among them."""
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_THOUGHT: Final[Object] = {**REPLY, "reasoning_content": "Hm."}
_CALLED: Final[Object] = {"messages": [ASKED, called("call_1"), answered("call_1")]}


def _members(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        yield from (f"#/messages/{index}/{name}" for name in sorted(message.keys() & _MEMBERS[value]))


def _reasoning(request: Object, messages: list[Object], value: str) -> Iterator[str]:
    if value == "filled":
        yield from _items_without(request.get("input") or ())
    for index, message in enumerate(messages):  # what is owed alone cannot be seen: a call may have had none
        has_none = not any(message.get(name) for name in _REASONING) and not _thinks(message)
        calls = calls_of(message) or any(block.get("type") == "tool_use" for block in blocks_of(message))
        if message.keys() & _REASONING if value == "refused" else value == "filled" and calls and has_none:
            yield f"#/messages/{index}"


def _thinks(message: Object) -> bool:
    return any(block.get("type") == "thinking" and block.get("thinking") for block in blocks_of(message))


def _items_without(items: Iterable[Object]) -> Iterator[str]:
    """The calls in items of Responses before which no reasoning stands in their reply."""
    has_reasoning = False
    for index, item in enumerate(items):
        kind = item.get("type")
        if kind in _CALLS and not has_reasoning:
            yield f"#/input/{index}"
        is_of_reply = kind in _CALLS or (kind in (None, "message") and item.get("role") == "assistant")
        has_reasoning = kind == "reasoning" or (has_reasoning and is_of_reply)


def _reasoning_in(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    read = _READ[value]
    for index, message in enumerate(messages):
        found = [name for name in ("reasoning", "reasoning_content") if message.get(name)]
        if found and not any(all(message.get(name) for name in names) for names in read):
            yield f"#/messages/{index}/{found[0]}"


_READ: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        "reasoning_content": (("reasoning_content",),),
        "details": (("reasoning_content",), ("reasoning_details",)),
        "both": (("reasoning", "reasoning_content"),),
    }
)
"""The members of which all must have the reasoning, or all of others, by the value of the fact."""
MEMBERS: Final = (
    Rule(
        kind="members",
        values={
            "known": "messages have the members of OpenAI's requests alone",
            "own": "the maker's own members alone",
        },
        judge=_members,
        broken=(in_chat(ASKED, _THOUGHT),),
    ),
    Rule(
        kind="reasoning",
        values={
            "with_calls": "each message with calls has the reasoning before them",
            "filled": "each message with calls has reasoning that is not empty, also where none is known",
            "refused": "no message has reasoning",
        },
        judge=_reasoning,
        is_of_requests=True,
        broken=(
            in_chat(ASKED, _THOUGHT),
            in_chat(*_CALLED["messages"]),
            Broken(
                "anthropic",
                {
                    "messages": [
                        ASKED,
                        {
                            "role": "assistant",
                            "content": [{"type": "tool_use", "id": "1", "name": "find", "input": {}}],
                        },
                    ]
                },
                _CALLED,
            ),
            Broken(
                "responses",
                {"input": [ASKED, {"type": "function_call", "call_id": "1", "name": "find", "arguments": "{}"}]},
                _CALLED,
            ),
        ),
    ),
    Rule(
        kind="reasoning_in",
        values={
            "reasoning_content": "reasoning stands in `reasoning_content`",
            "details": "reasoning stands in `reasoning_content`, or in `reasoning_details`",
            "both": "reasoning stands in `reasoning`, and in `reasoning_content`",
        },
        judge=_reasoning_in,
        broken=(in_chat(ASKED, {**REPLY, "reasoning": "Hm."}),),
    ),
    Rule(
        kind="roles",
        values={"no_developer": "no message has the role `developer`"},
        judge=each_message(lambda message: message["role"] == "developer"),
        broken=(in_chat(ASKED, {"role": "developer", "content": "Be brief."}),),
    ),
    Rule(
        kind="speakers",
        values={"users": "messages of the user's alone have a name"},
        judge=each_message(lambda message: message["role"] not in ("user", "function") and "name" in message),
        broken=(in_chat({"role": "system", "name": "guide", "content": "Be brief."}, ASKED),),
    ),
)
