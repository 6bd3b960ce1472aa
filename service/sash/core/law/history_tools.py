"""``history_tools=true``: two tools by which a model reads what its window leaves out.

Their descriptions name the oldest message that the model sees. Its number has a fixed width, so the definitions cost the
same tokens whichever message it is: digits never join the text beside them, and vocabularies split them by their number.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.law.conversation_settings import FixedParts
from sash.problems import Unprocessable

SEARCH: Final = "history_search"
READ: Final = "history_read"
NAMES: Final = (SEARCH, READ)
_WIDTH: Final = 6
_WIDE: Final = 9
"""Digits of a message's number, of a conversation with a million messages or more."""

_encode = msgspec.json.Encoder().encode


def check_names(parts: FixedParts) -> None:
    """Raise Unprocessable if the conversation has a tool of the same name."""
    for name in map(_name, parts.fixed.tools or ()):
        if name in NAMES:
            detail = f"The conversation has a tool {name} of its own: rename it, or leave history_tools out"
            raise Unprocessable.at("#/query/history_tools", detail)


def with_history_tools(parts: FixedParts, first_seen: int, length: int) -> FixedParts:
    """Return a window's fixed parts with the two tools, in place of those that they may have.

    ``first_seen`` is the seq after the last message that is left out, and ``length`` the conversation's.
    """
    given = [tool for tool in parts.fixed.tools or () if _name(tool) not in NAMES]
    tools = [*given, *definitions(first_seen, length)]
    encoded = _encode(tools)
    size = parts.fixed.size + len(encoded) - len(parts.tools)
    fixed = msgspec.structs.replace(parts.fixed, tools=tools, size=size, _sent={})
    return msgspec.structs.replace(parts, fixed=fixed, tools=encoded)


def definitions(first_seen: int, length: int) -> list[dict[str, Any]]:
    """Return the two tools, in the form of chat completions."""
    seen = f"message {first_seen:0{_WIDTH if length < 10**_WIDTH else _WIDE}}"
    return [
        _function(
            SEARCH,
            "Search this whole conversation for what was said, decided, read or run before. "
            f"You see {seen} and later ones; older ones are found here, each with its number.",
            {
                "query": ("string", "Words to look for, such as names, paths and commands."),
                "limit": ("integer", "The largest number of messages, from 1 to 50. By default 10."),
            },
            required=("query",),
        ),
        _function(
            READ,
            f"Read messages of this conversation word for word, by their numbers. You see {seen} and later ones.",
            {
                "first": ("integer", "The number of the first message."),
                "last": ("integer", "The number of the last message. By default the same."),
                "skip": ("integer", "Characters of the first message that were read before. By default 0."),
            },
            required=("first",),
        ),
    ]


def _function(
    name: str, description: str, members: Mapping[str, tuple[str, str]], required: Sequence[str]
) -> dict[str, Any]:
    properties = {member: {"type": kind, "description": meaning} for member, (kind, meaning) in members.items()}
    parameters = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _name(tool: Mapping[str, Any]) -> Any:
    body = tool.get(str(tool.get("type")))
    return body.get("name") if isinstance(body, Mapping) else None
