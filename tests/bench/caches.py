"""The blocks of a request in a provider's form, for the simulator of its prompt cache (``replays/prompt_cache.py``).

They are read from the request alone, so that they check what Sash says of its own windows.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sash_tools.replays.prompt_cache import Block

_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})


def blocks_of(request: Mapping[str, Any], form: str, count: Callable[[str], int]) -> list[Block]:
    """Return the blocks of a request in a provider's form, in the order of caching; ``count`` counts a text's tokens."""
    pieces: list[tuple[Any, bool]] = [(tool, False) for tool in request.get("tools") or ()]
    if form == "anthropic":
        system = request.get("system") or []
        pieces += [(block, False) for block in (system if isinstance(system, list) else [system])]
        pieces += [
            ({"role": message["role"], **block}, False)
            for message in request["messages"]
            for block in message["content"]
        ]
    elif form == "gemini":
        pieces += [(request.get("config", request), False)] + [(content, False) for content in request["contents"]]
    else:
        pieces += [(request["instructions"], True)] if request.get("instructions") else []
        messages = request["messages"] if form == "openai" else request["input"]
        pieces += [(each, each.get("role") in _TURNS or each.get("type") == _OUTPUT) for each in messages]
    return [
        Block(plain := _plain(piece).encode(), count(plain.decode()), marked=_is_marked(piece), turn=turn)
        for piece, turn in pieces
    ]


_TURNS = frozenset({"user", "tool", "system", "developer"})
_OUTPUT = "function_call_output"


def _plain(value: Any) -> str:
    """Return a piece's text without hints; a string and a list of one text are the same to a provider."""
    if isinstance(value, list):
        return "".join(map(_plain, value))
    if isinstance(value, dict):
        return "".join(_plain(each) for name, each in value.items() if name not in _HINTS and name != "type")
    return value if isinstance(value, str) else str(value)


def _is_marked(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_is_marked, value))
    return isinstance(value, dict) and (not _HINTS.isdisjoint(value) or _is_marked(value.get("content")))
