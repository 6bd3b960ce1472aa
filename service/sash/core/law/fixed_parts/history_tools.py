"""``history_tools=true``: two tools by which a model reads what its window leaves out.

Their descriptions name the oldest message that the model sees. Its number has a fixed width, so the definitions cost the
same tokens whichever message it is: digits never join the text beside them, and vocabularies split them by their number.
"""

from collections.abc import Mapping
from typing import Any, Final

from sash.core.counts.costs.over_limits import tool_name
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.problems import Unprocessable

SEARCH: Final = "history_search"
READ: Final = "history_read"
NAMES: Final = (SEARCH, READ)


def check_names(parts: FixedParts) -> None:
    """Raise Unprocessable if the conversation has a tool of the same name."""
    for name in map(tool_name, parts.tools or ()):
        if name in NAMES:
            detail = f"The conversation has a tool {name} of its own: rename it, or leave history_tools out"
            raise Unprocessable.at("#/query/history_tools", detail)


def with_history_tools(parts: FixedParts, first_seen: int, length: int) -> FixedParts:
    """Return a window's fixed parts with the two tools, in place of those that they may have.

    ``first_seen`` is the seq after the last message that is left out, and ``length`` the conversation's.
    """
    own = [tool for tool in parts.tools or () if tool_name(tool) not in NAMES]
    told = history_tools(f" You see message {first_seen:0{6 if length < 1_000_000 else 9}} and later ones.")
    return parts.with_tools([*own, *({"type": "function", "function": each} for each in told)], parts.tool_choice)


def history_tools(what_is_seen: str = "", *, of_owner: bool = False) -> list[dict[str, Any]]:
    """Return the two tools, of one conversation or of all of an owner, as functions with a JSON Schema."""
    where: dict[str, tuple[str, str]] = {}
    one, whole = "this", "this whole conversation"
    if of_owner:
        where = {"conversation": ("string", "The conversation's id, as history_search gives it.")}
        one, whole = "a", "all conversations"
    search = f"Search {whole} for what was said, decided, read or run before. Messages are found with their numbers."
    read = f"Read messages of {one} conversation word for word, by their numbers."
    words = {
        "query": ("string", "Words to look for, such as names, paths and commands."),
        "limit": ("integer", "The largest number of messages, from 1 to 50. By default 10."),
    }
    numbers = {
        **where,
        "first": ("integer", "The number of the first message."),
        "last": ("integer", "The number of the last message. By default the same."),
        "skip": ("integer", "Characters of the first message that were read before. By default 0."),
    }
    return [
        _function(SEARCH, search + what_is_seen, words, ["query"]),
        _function(READ, read + what_is_seen, numbers, [*where, "first"]),
    ]


def _function(name: str, meaning: str, members: Mapping[str, tuple[str, str]], required: list[str]) -> dict[str, Any]:
    """A function, of whose parameters each has a type and a meaning."""
    properties = {member: {"type": kind, "description": told} for member, (kind, told) in members.items()}
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": meaning, "parameters": parameters}
