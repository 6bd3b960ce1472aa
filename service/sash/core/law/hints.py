"""Hints for a provider's prompt cache, at stable places of a request: up to such a place, the next request is the same.

The stable places are the end of the definitions, the end of the system text, and two among the messages:

- the message before the newest question, because the question's documents are not in the next window;
- the newest message, unless it is a question with documents.

The last two are not stable if history was left out without a stable cut, because the next window then begins at another
message. A client's own marks are not changed. A request has four marks at most. Rules and sources are in
``core/law/caching.py``. Hints are not billed.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from sash.core.law.caching import BREAKPOINTS, Caching

_CONTROL = {"type": "ephemeral"}
_BREAKPOINT = {"mode": "explicit"}
_UNMARKED = {"thinking", "redacted_thinking"}
_KEY_BYTES = 16
_READ_ALIKE = {"user", "tool", "system", "developer"}

Block = dict[str, Any]


class Places(msgspec.Struct, frozen=True):
    """Whether each of the two places among the messages is stable."""

    before_question: bool
    newest: bool
    recalled: bool = False
    """Whether a block of recalled messages is before the newest question. The next window does not have this block."""


def cache_key(tenant: str, conversation: str, life: str) -> str:
    """A conversation's ``prompt_cache_key``: a digest keyed by its random life, from which no id can be derived."""
    named = f"{tenant}/{conversation}".encode()
    return blake2b(named, key=life.encode()[:64], digest_size=_KEY_BYTES).hexdigest()


def hinted(form: str, provider: str, request: Block, rules: Caching | None, places: Places, key: str) -> Block:
    """The request with the hints that its format and model allow; unchanged if they allow none."""
    match form, rules and rules.kind:
        case "anthropic", "cache_control":
            return _with_cache_control(request, places)
        case (("openai" | "responses"), "breakpoints") if provider == "openai":
            member = "messages" if form == "openai" else "input"
            marked = {**request, member: _with_breakpoint(request[member], form, places)}
            return {**marked, "prompt_cache_key": key} if key else marked
        case (("openai" | "responses"), "implicit") if provider == "openai" and key:
            return {**request, "prompt_cache_key": key}
        case _:
            return request


def _with_cache_control(request: Block, places: Places) -> Block:
    """The request with Claude's marks on the last block before each stable place."""
    request = msgspec.json.decode(msgspec.json.encode(request))
    if isinstance(request.get("system"), str):
        request["system"] = _parts(request["system"])
    for message in request["messages"]:
        message["content"] = _parts(message["content"])
    blocks = list(_blocks(request))
    held = ((index, each) for index, block in enumerate(blocks) for each in (block, *_parts(block.get("content"))))
    own = [(index, each["cache_control"]) for index, each in held if each.get("cache_control")]
    # Marks with a lifetime of an hour must be before marks of five minutes, such as these.
    first = max((index + 1 for index, mark in own if isinstance(mark, dict) and mark.get("ttl") == "1h"), default=0)
    tools, system = len(request.get("tools") or ()), len(request.get("system") or ())
    said = _said_before_question(request["messages"]) + tools + system
    wanted = [len(blocks)] if places.newest else []
    wanted += [said] if places.before_question and said > tools + system else []
    wanted += [end for end in (tools + system, tools) if end]
    ends = [_markable(blocks, end) for end in wanted]
    free = [end for end in dict.fromkeys(ends) if end > first and not blocks[end - 1].get("cache_control")]
    for end in free[: max(0, BREAKPOINTS - len(own))]:
        blocks[end - 1]["cache_control"] = dict(_CONTROL)
    return request


def _blocks(request: Block) -> Iterator[Block]:
    """Tools, system text and messages, in the order in which they are cached."""
    yield from request.get("tools") or ()
    yield from request.get("system") or ()
    for message in request["messages"]:
        yield from message["content"]


def _said_before_question(messages: list[Block]) -> int:
    """The number of blocks before the newest user message that is not only tool results; 0 if there is none."""
    count: int = sum(len(message["content"]) for message in messages)
    for message in reversed(messages):
        count -= len(message["content"])
        results: list[bool] = [block.get("type") == "tool_result" for block in message["content"]]
        if message["role"] == "user" and not all(results):
            return count + results.count(True)
    return 0


def _markable(blocks: list[Block], end: int) -> int:
    """The last place up to ``end`` after a block that may be marked; not thoughts, empty text or deferred tools."""
    while end:
        block = blocks[end - 1]
        is_empty = block.get("type") == "text" and not block.get("text")
        if not is_empty and str(block.get("type")) not in _UNMARKED and not block.get("defer_loading"):
            break
        end -= 1
    return end


def _with_breakpoint(messages: list[Block], form: str, places: Places) -> list[Block]:
    """The messages with marks for GPT-5.6 and later: after the leading instructions and before the newest question.

    The newest message has the implicit mark. Assistant messages take no mark, so the last message before them gets it.
    """
    own = sum("prompt_cache_breakpoint" in part for message in messages for part in _parts(message.get("content")))
    question = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=0)
    question -= places.recalled
    leading = next(
        (i for i, each in enumerate(messages) if each.get("role") not in ("system", "developer")), len(messages)
    )
    wanted = [question] if places.before_question else []
    ends = [_last_markable(messages[:end]) for end in (*wanted, leading)]
    marked, kind = list(messages), "text" if form == "openai" else "input_text"
    for index in list(dict.fromkeys(end for end in ends if end is not None))[: max(0, BREAKPOINTS - 1 - own)]:
        *rest, last = _parts(marked[index].get("content"), kind)
        if "prompt_cache_breakpoint" not in last:
            marked[index] = {**marked[index], "content": [*rest, {**last, "prompt_cache_breakpoint": _BREAKPOINT}]}
    return marked


def _last_markable(messages: list[Block]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        parts = _parts(messages[index].get("content"))
        if messages[index].get("role") in _READ_ALIKE and parts and parts[-1].get("text"):
            return index
    return None


def _parts(content: Any, kind: str = "text") -> list[Block]:
    """The parts of a content, or the blocks in a tool result, which may have marks too. A text is one part of ``kind``."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
