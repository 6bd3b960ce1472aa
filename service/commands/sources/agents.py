"""Read sessions of the OpenAI Agents SDK: items of the Responses API, one in each row or list element, oldest first.

``SQLiteSession`` keeps them in the table ``agent_messages`` (id, session_id, message_data), ``RedisSession`` in the list
``agents:session:{id}:messages``. Calls become the tool calls of one assistant message, which has the text right before
them; reasoning between calls does not separate them. The SDK sends them to chat completions in the same way. (Seen in
openai-agents 0.24.)
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from service.commands.sources import items
from service.commands.sources.conversation import SourceError
from service.commands.sources.items import Step

SQLITE_MAGIC = b"SQLite format 3\0"
_PART_TYPES = ("input_text", "output_text", "input_image", "input_file")  # not a set: a type in a file may be a list
_ITEM = re.compile(
    r"reasoning|compaction|item_reference|\w+_(?:call|output|list_tools|approval_request|approval_response)"
)
_ROWS = "SELECT session_id, id, message_data FROM agent_messages ORDER BY session_id, id"


def is_item(value: Any) -> bool:
    """Return whether a JSON value is an item that is no chat message, or a message with parts of the Responses API."""
    if not isinstance(value, dict):
        return False
    if "role" not in value:
        return isinstance(value.get("type"), str) and _ITEM.fullmatch(value["type"]) is not None
    content = value.get("content")
    parts = content if isinstance(content, list) else []
    return value.get("type") == "message" or any(isinstance(p, dict) and p.get("type") in _PART_TYPES for p in parts)


def read_sqlite(path: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Return the rows of every session of a file, in order: the row's number and the item's JSON. Raises SourceError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(_ROWS).fetchall()
    except sqlite3.Error as error:
        raise SourceError(f"{path}: not a file of the Agents SDK's SQLiteSession: {error}") from None
    sessions: dict[str, list[tuple[int, bytes]]] = {}
    for session, row, data in rows:
        sessions.setdefault(str(session), []).append((row, data.encode() if isinstance(data, str) else data))
    return sessions


def to_steps(values: Sequence[tuple[int, Any]], where: str) -> tuple[list[Step], Counter[str]]:
    """Return chat messages, and counts of left-out items by type; items come with their places. Raises SourceError."""
    try:
        return items.to_steps(values, where)
    except ValueError as error:
        raise SourceError(str(error)) from None
