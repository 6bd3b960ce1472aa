"""Write Anthropic's Messages: turns alternate and begin with the user; results come first in the turn after their calls.

Anthropic's server answers 400 to the whole request for each of these: a text block without a visible character, white
space at the end of a last assistant turn, a call id outside ``[a-zA-Z0-9_-]+`` or used twice, a schema that is no object,
and a schema with ``oneOf``, ``allOf`` or ``anyOf`` at its top.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final

from sash.core.providers.media import Media, is_web, read_data_url, read_file
from sash.core.providers.tools import Choice, Function, read_choice, read_functions
from sash.core.providers.turns import NOTHING_SAID, Block, Outgoing, Part, Refusals, Result, Said, only_text, read
from sash.core.providers.whole import Whole, in_turns

_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_EMPTY: Final = {"type": "text", "text": NOTHING_SAID}
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")
_Turn = tuple[str, list[Block]] | Whole


def render(
    messages: Sequence[Outgoing], tools: list[dict[str, Any]], tool_choice: Any, refusals: Refusals
) -> dict[str, Any]:
    """Return ``messages``, with ``system``, ``tools`` and ``tool_choice`` where they are not empty."""
    history = list(read(messages, refusals, tidy=partial(_FOREIGN.sub, "_")))
    system = [step for step in history if isinstance(step, Said) and step.is_system]
    turns = [_turn(step, refusals) for step in history if not (isinstance(step, Said) and step.is_system)]
    request: dict[str, Any] = {"messages": in_turns(_with_joined_results(turns), dict(_EMPTY), "content")}
    if text := _system(system, refusals):
        request["system"] = text
    if history and not isinstance(history[-1], Whole):
        _end_cleanly(request["messages"])
    return request | _tools(list(read_functions(tools, refusals)), read_choice(tool_choice, refusals), refusals)


def _system(messages: Iterable[Said], refusals: Refusals) -> str | list[Block]:
    """Return the system text as one string, or as blocks where a part marks the end of the prompt cache."""
    texts = [list(only_text(said.parts, refusals, "system")) for said in messages]
    blocks = [block for parts in texts for part in parts for block in _text(part)]
    if any("cache_control" in block for block in blocks):
        return blocks
    joined = ("".join(part.text or "" for part in parts) for parts in texts)
    return "\n\n".join(text for text in joined if text.strip())


def _turn(step: Said | Result | Whole, refusals: Refusals) -> _Turn:
    match step:
        case Whole():
            return step
        case Result():
            result: Block = {"type": "tool_result", "tool_use_id": step.call.id}
            if texts := list(_texts(step.parts, refusals, "tool")):
                result["content"] = texts
            return "user", [result]
        case Said(role="assistant"):
            texts = list(_texts(step.parts, refusals, "assistant"))
            uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments_object()} for c in step.calls]
            return "assistant", [*step.thinking, *texts, *uses]
        case _:
            return "user", list(_blocks(step.parts, refusals)) or [dict(_EMPTY)]


def _with_joined_results(turns: Iterable[_Turn]) -> Iterator[_Turn]:
    """Yield the turns; neighbouring turns of the user with a written tool result become one, its results first.

    Anthropic answers 400 unless all results of a turn's calls begin the one message after it. They come apart where only
    some of them are sent as they came.
    """
    for role, group in groupby(turns, key=lambda turn: turn.role if isinstance(turn, Whole) else turn[0]):
        run = list(group)
        if role == "user" and any(
            _is_result(block) for turn in run if not isinstance(turn, Whole) for block in turn[1]
        ):
            blocks = (block for turn in run for block in _blocks_of(turn))
            yield "user", sorted(blocks, key=lambda block: not _is_result(block))
        else:
            yield from run


def _is_result(block: Block) -> bool:
    return block.get("type") == "tool_result"


def _blocks_of(turn: _Turn) -> list[Block]:
    if not isinstance(turn, Whole):
        return turn[1]
    content = turn.messages[0]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(parts: Iterable[Part], refusals: Refusals, whose: str) -> Iterator[Block]:
    for part in only_text(parts, refusals, whose):
        yield from _text(part)


def _text(part: Part) -> Iterator[Block]:
    if (part.text or "").strip():
        yield {"type": "text", "text": part.text} | _cache(part.body)


def _cache(body: dict[str, Any]) -> Block:
    """Return the mark that ends the prompt cache, as Claude's clients write it in chat messages and tools."""
    return {"cache_control": body["cache_control"]} if body.get("cache_control") else {}


def _blocks(parts: Iterable[Part], refusals: Refusals) -> Iterator[Block]:
    for part in parts:
        match part.body:
            case {"type": "text"}:
                yield from _text(part)
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                if is_web(url):
                    yield {"type": "image", "source": {"type": "url", "url": url}} | _cache(part.body)
                elif media := read_data_url(url, part.place, refusals):
                    yield from _image(media, part, refusals)
            case {"type": "file", "file": {"file_id": str(file_id)}} if file_id.startswith("file_"):  # OpenAI: file-
                yield {"type": "document", "source": {"type": "file", "file_id": file_id}} | _cache(part.body)
            case {"type": "file", "file": dict(file)}:
                if media := read_file(file, part.place, refusals):
                    yield from _document(media, file.get("filename"), part, refusals)
            case _:
                refusals.add(part.place, "has no place in the Messages API, which takes text, images and files")


def _image(media: Media, part: Part, refusals: Refusals) -> Iterator[Block]:
    if media.media_type not in _IMAGES:
        refusals.add(part.place, "must be a JPEG, PNG, GIF or WebP image")
        return
    source = {"type": "base64", "media_type": media.media_type, "data": media.data}
    yield {"type": "image", "source": source} | _cache(part.body)


def _document(media: Media, title: str | None, part: Part, refusals: Refusals) -> Iterator[Block]:
    if media.media_type.startswith("image/"):
        yield from _image(media, part, refusals)
        return
    if media.media_type == "application/pdf":
        source = {"type": "base64", "media_type": "application/pdf", "data": media.data}
    elif media.media_type.startswith("text/") and (text := media.text()):
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        refusals.add(part.place, "must be a PDF, a text in UTF-8 or an image")
        return
    yield {"type": "document", "source": source} | ({"title": title} if title else {}) | _cache(part.body)


def _end_cleanly(messages: list[dict[str, Any]]) -> None:
    match messages:
        case [*_, {"role": "assistant", "content": [*_, {"type": "text", "text": str(text)} as last]}]:
            last["text"] = text.rstrip()


def _tools(functions: list[Function], choice: Choice | None, refusals: Refusals) -> dict[str, Any]:
    """Return ``tools`` and ``tool_choice``. Anthropic has no choice among several tools, so the other tools are left out."""
    tools = [_tool(function, refusals) for function in functions]
    match choice:
        case None:
            request: dict[str, Any] = {"tools": tools}
        case Choice(mode="required", names=[name]):
            request = {"tools": tools, "tool_choice": {"type": "tool", "name": name}}
        case _:
            allowed = [tool for tool in tools if choice.names is None or tool["name"] in choice.names]
            request = {"tools": allowed, "tool_choice": {"type": "any" if choice.mode == "required" else choice.mode}}
    return request if request["tools"] else {}


def _tool(function: Function, refusals: Refusals) -> Block:
    if any(word in function.schema for word in ("oneOf", "allOf", "anyOf")):
        refusals.add(f"{function.place}/function/parameters", "must not be oneOf, allOf or anyOf at its top")
    tool: Block = {"name": function.name, "input_schema": function.schema}
    if function.description:
        tool["description"] = function.description
    if function.extra.get("strict"):
        tool["strict"] = True
    return tool | _cache(function.extra)
