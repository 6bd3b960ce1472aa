"""The mends of a whole request to Anthropic's Messages: what one message alone does not show."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final

from sash.core.providers.anthropic.claude_mends import LAST_THINKING, NO_WORDS, THOUGHTS, is_claude
from sash.core.providers.form.cache_marks import BREAKPOINTS, content_parts
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.owed_reasoning import BLANK, NO_REASONING
from sash.core.providers.writing.shared_mends import WORDS_APART
from sash.core.providers.writing.turns import Block, RequestWriting

CACHE_MARKS: Final = Mend(
    name="cache_marks",
    is_free=True,
    refused="More than four `cache_control` in one request, one of an hour behind one of five minutes, or one on thinking",
    sent="The newest four; with `cache=auto` Sash's own are among them. The others are left out",
    evidence="'A maximum of 4 blocks with cache_control may be provided. Found 6.'; 'a ttl='1h' cache_control block must "
    "not come after a ttl='5m' cache_control block' (Wei-Shaw/sub2api 176, vellum-ai/vellum-assistant 22191)",
)
HOSTED_PAIR: Final = Mend(
    name="hosted_pair",
    refused="A call of a tool that Anthropic runs without its result, or a result without its call",
    sent="The message without the block, `…` where a user's has no other; a call in a reply that nothing but results follow "
    "stays, because Claude goes on with it, in the reply's container, whose id the request has. Once the container has "
    "ended, the block is left out, and the calls that its code made are Claude's own",
    evidence="'web_search tool use with id … was found without a corresponding web_search_tool_result block' "
    "(anthropics/anthropic-sdk-python 961, 1339, gsd-build/gsd-2 2870); "
    "'unexpected `tool_use_id` found in `advisor_tool_result` blocks. Each block must have a corresponding "
    "`server_tool_use` block before it' (anthropics/claude-code 80439, 69828)",
)
LAST_WHITE_SPACE: Final = Mend(
    name="last_white_space",
    refused="White space at the end of a request that ends with the assistant's words",
    sent="The words without it",
    evidence="'final assistant content cannot end with trailing whitespace' (crewAIInc/crewAI 4413)",
)
TOOL_REFERENCE: Final = Mend(
    name="tool_reference",
    refused="A `tool_reference` to a tool that the request does not declare",
    sent="The tool's name as a text; nothing in the result of Anthropic's search for tools",
    evidence="\"Tool reference 'x' not found in available tools\" (code-yeongyu/senpi 437)",
)
SOME_CITATIONS: Final = Mend(
    name="some_citations",
    refused="Documents, or search results, of which some have `citations` and others have none",
    sent="All of them without citations",
    evidence="'Citations must be enabled on all or none of the documents within a request' (platform.claude.com, citations; "
    "UKGovernmentBEIS/inspect_ai 4480)",
)
OF_REQUESTS: Final = (CACHE_MARKS, HOSTED_PAIR, LAST_WHITE_SPACE, TOOL_REFERENCE, SOME_CITATIONS)

_REFERRING: Final = frozenset({"tool_reference", "tool_search_tool_result"})
_MARKS_OF_OURS: Final = 2
"""Marks that ``cache=auto`` has at least, where a client has too many."""


def without_refused(request: Block, newest: int, writing: RequestWriting, *, has_own: bool) -> Block:
    """Return the request, whose blocks belong to it alone, as it is accepted. ``newest`` is its newest message's seq.

    ``has_own``: some blocks came in Anthropic's form; only these are thinking, or of tools that Anthropic runs.
    """
    if has_own:
        going_on = _open_reply(request["messages"])
        if (container := _needed_container(going_on)) is not None:
            if _has_ended(container, writing.now):
                going_on = None
            else:
                request["container"] = container["id"]
        messages = _paired(request["messages"], going_on, writing)
        if any("container" in message for message in messages):
            messages = [{name: each[name] for name in each if name != "container"} for each in messages]
        if is_claude(writing.model):
            messages = _without_last_reasoning(messages, writing)
            messages = _citing_alike(messages, writing)
        messages = _referring(messages, {tool.get("name") for tool in request.get("tools", ())}, writing)
        request = {**request, "messages": messages}
    if request["messages"] and request["messages"][-1]["role"] == "assistant":
        _end_cleanly(request["messages"][-1], newest, writing)
    _leave_out_marks(request, writing)
    return request


def _kept(messages: Iterable[Block], keeps: Callable[[Block], bool]) -> list[Block]:
    """Return the messages with the blocks that are kept.

    A reply of which none is left is left out. A user's message then says `…`: so the request still begins with the user, and
    still ends with the user where it did.
    """
    found = []
    for message in messages:
        content = message["content"]
        left = content if isinstance(content, str) else [block for block in content if keeps(block)]
        if content and not left and message["role"] == "user":
            left = [dict(NO_WORDS)]
        if left or not content:
            found.append(message if left == content else {**message, "content": left})
    return found


# ---- tools that Anthropic runs


def _is_hosted_call(block: Block) -> bool:
    kind = str(block.get("type"))
    return kind.endswith("_tool_use") and isinstance(block.get("id"), str)


def _is_hosted_result(block: Block) -> bool:
    return str(block.get("type")).endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)


def _paired(messages: list[Block], going_on: Block | None, writing: RequestWriting) -> list[Block]:
    """Return the messages without hosted calls and results that have no counterpart, but in the reply that is going on.

    Code that is left out has called nothing: the calls of its tools are those of Claude's.
    """
    hosted = [
        (message, block)
        for message in messages
        for block in content_parts(message["content"])
        if _is_hosted_call(block) or _is_hosted_result(block)
    ]
    alone = {*_results_alone(hosted), *_calls_alone(hosted, going_on)}

    def keeps(block: Block) -> bool:
        if id(block) not in alone:
            return True
        writing.mends.add(HOSTED_PAIR, writing.owners.get(id(block), 0))
        return False

    callers = {block["id"] for _, block in hosted if id(block) not in alone and _is_hosted_call(block)}
    messages = [_without_callers(message, callers, writing) for message in messages]
    return _kept(messages, keeps) if alone else messages


def container_of(reply: Mapping[str, Any]) -> Block | None:
    """Return the container that a reply tells beside its content; None without one."""
    container = reply.get("container")
    return container if isinstance(container, dict) and isinstance(container.get("id"), str) else None


def _needed_container(going_on: Block | None) -> Block | None:
    """The container in which code of a reply waits for the result of a tool, or goes on."""
    if going_on is None or (container := container_of(going_on)) is None:
        return None
    blocks = content_parts(going_on["content"])
    done = {block["tool_use_id"] for block in blocks if _is_hosted_result(block)}
    return container if any(_is_hosted_call(block) and block["id"] not in done for block in blocks) else None


def _has_ended(container: Block, now: int) -> bool:
    """Whether the container's time, as the reply told it, was over at a time in seconds since 1970."""
    try:
        return datetime.fromisoformat(str(container.get("expires_at"))).timestamp() < now
    except ValueError:
        return False


def _without_callers(message: Block, callers: AbstractSet[str], writing: RequestWriting) -> Block:
    """Return the message, in which no call is of code that is not sent."""
    content = message["content"]
    if message["role"] != "assistant" or not isinstance(content, list):
        return message
    left = [_without_caller(block, callers, writing) for block in content]
    return {**message, "content": left} if left != content else message


def _without_caller(block: Block, callers: AbstractSet[str], writing: RequestWriting) -> Block:
    match block:
        case {"type": "tool_use", "caller": {"tool_id": str(code)}} if code not in callers:
            seq = writing.owners.get(id(block), 0)
            writing.mends.add(HOSTED_PAIR, seq)
            (left,) = writing.owned([{name: block[name] for name in block if name != "caller"}], seq)
            return left
    return block


def _open_reply(messages: Sequence[Block]) -> Block | None:
    """The newest reply, if nothing but results of its calls follows: Claude goes on with what it did there."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            return message
        if not all(block.get("type") == "tool_result" for block in content_parts(message["content"])):
            break
    return None


def _results_alone(hosted: Iterable[tuple[Block, Block]]) -> Iterator[int]:
    asked = set()
    for _, block in hosted:
        if _is_hosted_call(block):
            asked.add(block["id"])
        elif block["tool_use_id"] not in asked:
            yield id(block)


def _calls_alone(hosted: Sequence[tuple[Block, Block]], going_on: Block | None) -> Iterator[int]:
    answered = set()
    for message, block in reversed(hosted):
        if _is_hosted_result(block):
            answered.add(block["tool_use_id"])
        elif block["id"] not in answered and message is not going_on:
            yield id(block)


# ---- reasoning


def with_reasoning_filled(messages: list[Block], writing: RequestWriting) -> list[Block]:
    """Return the messages with a blank as the thinking before calls that have none, for models that want some."""
    return [_with_blank(message, writing) for message in messages]


def _with_blank(message: Block, writing: RequestWriting) -> Block:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    call = next((block for block in blocks if block.get("type") == "tool_use"), None)
    if call is None or any(block.get("type") == "thinking" and block.get("thinking") for block in blocks):
        return message
    writing.mends.add(NO_REASONING, writing.owners.get(id(call), 0))
    left = [block for block in blocks if block.get("type") != "thinking"]
    return {**message, "content": [{"type": "thinking", "thinking": BLANK, "signature": ""}, *left]}


# ---- words behind results


def with_results_apart(messages: Iterable[Block], writing: RequestWriting) -> list[Block]:
    """Return the messages with results of calls in messages of their own. Between them and what stood beside them, the
    assistant says ``…``, which is of the message with the calls."""
    found: list[Block] = []
    caller = 0
    for message in messages:
        content = message["content"] if isinstance(message["content"], list) else []
        calls = (block for block in content if block.get("type") == "tool_use")
        caller = next((writing.owners.get(id(block), 0) for block in calls), caller)
        results = [block for block in content if block.get("type") == "tool_result"]
        if not results:
            found.append(message)
            continue
        writing.mends.changed.add(caller)  # it was chosen by the most turns that may be put around it
        found.append({**message, "content": results})
        if others := [block for block in content if block not in results]:
            for block in others:
                writing.mends.add(WORDS_APART, writing.owners.get(id(block), 0))
            found.append({"role": "assistant", "content": writing.owned([dict(NO_WORDS)], caller)})
            found.append({**message, "content": others})
    return found


# ---- the end of messages


def _without_last_reasoning(messages: list[Block], writing: RequestWriting) -> list[Block]:
    """Return the messages without thinking at the end of the assistant's."""
    found = []
    for message in messages:
        content = message["content"]
        end = len(content)
        while (
            message["role"] == "assistant"
            and end
            and isinstance(content, list)
            and content[end - 1].get("type") in THOUGHTS
        ):
            end -= 1
            writing.mends.add(LAST_THINKING, writing.owners.get(id(content[end]), 0))
        if end:
            found.append(message if end == len(content) else {**message, "content": content[:end]})
    return found


def _end_cleanly(message: Block, newest: int, writing: RequestWriting) -> None:
    """Remove the white space at the end of the last message's text."""
    match message["content"]:
        case str(text) if text != text.rstrip():
            message["content"] = text.rstrip()
        case [*_, {"type": "text", "text": str(text)} as last] if text != text.rstrip():
            last["text"] = text.rstrip()
        case _:
            return
    writing.mends.add(LAST_WHITE_SPACE, newest)


# ---- documents and references


def _changed(
    messages: list[Block], change: Callable[[Block], Block], mend: Mend, writing: RequestWriting
) -> list[Block]:
    """Return the messages with changed blocks, also inside tool results."""

    def within(block: Block) -> Block:
        found = change(block)
        if block.get("type") == "tool_result" and isinstance(inner := block.get("content"), list):
            left = [change(each) for each in inner]
            found = {**block, "content": left} if left != inner else block
        if found == block:
            return block
        seq = writing.owners.get(id(block), 0)
        writing.mends.add(mend, seq)
        return writing.owned([found], seq)[0]

    return [
        {**message, "content": [within(block) for block in message["content"]]}
        if isinstance(message["content"], list)
        else message
        for message in messages
    ]


def _blocks_of(messages: Iterable[Block]) -> Iterator[Block]:
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            yield block
            if block.get("type") == "tool_result" and isinstance(inner := block.get("content"), list):
                yield from inner


def _citing_alike(messages: list[Block], writing: RequestWriting) -> list[Block]:
    """Return the messages; where only some documents or search results are cited, none is."""
    cited: dict[str, set[bool]] = {"document": set(), "search_result": set()}
    for block in _blocks_of(messages):
        if (kind := str(block.get("type"))) in cited:
            cited[kind].add(_is_cited(block))
    mixed = {kind for kind, found in cited.items() if len(found) > 1}

    def change(block: Block) -> Block:
        if block.get("type") in mixed and _is_cited(block):
            return {name: value for name, value in block.items() if name != "citations"}
        return block

    return _changed(messages, change, SOME_CITATIONS, writing) if mixed else messages


def _is_cited(block: Block) -> bool:
    citations = block.get("citations")
    return isinstance(citations, dict) and bool(citations.get("enabled"))


def _referring(messages: list[Block], declared: AbstractSet[Any], writing: RequestWriting) -> list[Block]:
    """Return the messages without references to tools that are not declared."""
    if not any(str(block.get("type")) in _REFERRING for block in _blocks_of(messages)):
        return messages

    def change(block: Block) -> Block:
        match block:
            case {"type": "tool_reference", "tool_name": str(name)} if name not in declared:
                return {"type": "text", "text": name}
            case {"type": "tool_search_tool_result", "content": {"tool_references": list(found)} as content}:
                left = [each for each in found if each.get("tool_name") in declared]
                return {**block, "content": {**content, "tool_references": left}} if left != found else block
        return block

    return _changed(messages, change, TOOL_REFERENCE, writing)


# ---- marks of the prompt cache


def _leave_out_marks(request: Block, writing: RequestWriting) -> None:
    """Remove marks that are too many, of five minutes before one of an hour, or on thinking."""
    marks = marked(request)
    if not marks:
        return
    last_hour = max((place for place, (_, block) in enumerate(marks) if is_hour(block)), default=0)
    fit = (place for place, (_, block) in enumerate(marks) if place >= last_hour or is_hour(block))
    stay = [place for place in fit if marks[place][1].get("type") not in THOUGHTS]
    if len(stay) > BREAKPOINTS:
        stay = stay[-(BREAKPOINTS - _MARKS_OF_OURS if writing.hinted else BREAKPOINTS) :]
    for place in {*range(len(marks))} - {*stay}:
        owner, block = marks[place]
        del block["cache_control"]
        writing.mends.add(CACHE_MARKS, writing.owners.get(id(owner), 0))


def is_hour(block: Block) -> bool:
    """Whether a marked block's entry is to live for an hour."""
    mark = block["cache_control"]
    return isinstance(mark, dict) and mark.get("ttl") == "1h"


def marked(request: Mapping[str, Any]) -> list[tuple[Block, Block]]:
    """The marked blocks in the order in which they are cached, each behind the block that holds it, or itself."""
    found: list[tuple[Block, Block]] = []
    contents = [request.get("tools"), request.get("system"), *[message["content"] for message in request["messages"]]]
    for content in contents:
        for block in content if isinstance(content, list) else ():
            if "content" in block and isinstance(inner := block["content"], list):
                found += [(block, each) for each in inner if isinstance(each, dict) and each.get("cache_control")]
            if block.get("cache_control"):
                found.append((block, block))
    return found
