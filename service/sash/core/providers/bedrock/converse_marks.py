"""Cache points of Bedrock's Converse: blocks behind which an entry of the prompt cache ends."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sash.core.providers.bedrock.converse_mends import CACHE_POINTS, SentTurn
from sash.core.providers.form.cache_marks import BREAKPOINTS, CacheKind, CachePrices, Caching, Places
from sash.core.providers.writing.turns import Block, RequestWriting

_OF_OURS: Final = 2
"""Points that ``cache=auto`` has at least, where a client has too many."""
_UNCACHED: Final = re.compile(r"claude-(v?[12]|instant|3-(sonnet|haiku|opus)|3-5-sonnet-20240620)")
_HOUR: Final = "1h"


def caches(model: str) -> bool:
    """Return whether a model takes cache points: Claude since 3.5 and Nova, or a model that is not named.

    >>> [caches(name) for name in ("us.anthropic.claude-sonnet-4-5", "amazon.nova-pro-v1:0", "meta.llama3-1-8b-instruct")]
    [True, True, False]
    """
    name = model.lower()
    return not name or is_nova(name) or ("claude" in name and not _UNCACHED.search(name))


def is_nova(model: str) -> bool:
    """Return whether a model is one of Amazon's Nova."""
    return "nova" in model.lower()


def caching(name: str, prices: CachePrices) -> Caching | None:
    """Nova's prompt cache: 1,000 tokens at least, for five minutes; Claude's rules are its maker's.

    Source: docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching, "Supported models", read in November 2026.
    """
    if not is_nova(name):
        return None
    return Caching(
        kind="cache_control",
        minimum_tokens=1_000,
        lifetime_seconds=300,
        read_price=prices.read,
        write_price=prices.write,
    )


def point(mark: object) -> Block:
    """Return the block for a mark ``cache_control`` of a chat message, with its lifetime of an hour."""
    is_hour = isinstance(mark, Mapping) and mark.get("ttl") == _HOUR
    return {"cachePoint": {"type": "default", "ttl": _HOUR} if is_hour else {"type": "default"}}


def fitted(system: list[Block], tools: list[Block], turns: list[SentTurn], writing: RequestWriting) -> None:
    """Remove cache points that Bedrock refuses from the lists of a request."""
    seqs = {id(each.block): each.seq for turn in turns for each in turn.blocks}
    contents = [tools, system, *([each.block for each in turn.blocks] for turn in turns)]
    points = [
        (block, not place or "reasoningContent" in content[place - 1] or (content is tools and is_nova(writing.model)))
        for content in contents
        for place, block in enumerate(content)
        if "cachePoint" in block
    ]
    if not points:
        return
    last_hour = max((place for place, (block, _) in enumerate(points) if _is_hour(block)), default=0)
    stay = [
        block
        for place, (block, is_misplaced) in enumerate(points)
        if not is_misplaced and (place >= last_hour or _is_hour(block)) and caches(writing.model)
    ]
    if len(stay) > BREAKPOINTS:
        stay = stay[-(BREAKPOINTS - _OF_OURS if writing.hinted else BREAKPOINTS) :]
    kept = set(map(id, stay))
    gone = {id(block) for block, _ in points} - kept
    for each in sorted({seqs.get(found, 0) for found in gone}):
        writing.mends.add(CACHE_POINTS, each)
    for blocks in (tools, system):
        blocks[:] = [block for block in blocks if id(block) not in gone]
    for turn in turns:
        turn.blocks[:] = [each for each in turn.blocks if id(each.block) not in gone]


def _is_hour(block: Block) -> bool:
    return bool(block["cachePoint"].get("ttl") == _HOUR)


def mark(request: Block, cache: CacheKind | None, places: Places, key: str) -> Block:
    """Return the request with cache points behind its stable places. Nova takes none among tools, which stand before all."""
    del key
    if cache != "cache_control":
        return request
    messages = [{**message, "content": [*message["content"]]} for message in request["messages"]]
    system = [*request.get("system", ())]
    contents = [request.get("toolConfig", {}).get("tools", []), system, *(message["content"] for message in messages)]
    said = _before_question(messages)
    wanted = [len(contents) - 1] if places.newest and messages else []
    wanted += [said + 1] if places.before_question and said else []
    wanted += [1] if system else []
    own = [(place, block) for place, content in enumerate(contents) for block in content if "cachePoint" in block]
    first = max((place for place, block in own if _is_hour(block)), default=-1)
    free = [place for place in dict.fromkeys(wanted) if place > first and _takes_point(contents[place])]
    for place in free[: max(0, BREAKPOINTS - len(own))]:
        contents[place].append({"cachePoint": {"type": "default"}})
    return {**request, "messages": messages, **({"system": system} if system else {})}


def _takes_point(content: list[Block]) -> bool:
    return bool(content) and not content[-1].keys() & {"cachePoint", "reasoningContent"}


def _before_question(messages: list[Block]) -> int:
    """The number of messages before the newest one of the user that is not only tool results; 0 if there is none."""
    for index, message in reversed([*enumerate(messages)]):
        if message["role"] == "user" and any("toolResult" not in block for block in _said(message)):
            return index
    return 0


def _said(message: Block) -> Iterator[Block]:
    return (block for block in message["content"] if "cachePoint" not in block)
