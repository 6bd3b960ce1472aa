"""A question that another one takes the place of, kept until the new reply has its first word.

A regenerated reply is appended with a rewind, in one step. The messages that this forgets are in the new reply's metadata,
so that they are in the store whatever happens. If the model fails before its first word, they are put back.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from sash_client.client import Ask, SashError, TokenEndpoint, listed

_MOST_ENTRIES: Final = 98
"""Messages that are kept: an append has at most 100 entries."""
_MOST_BYTES: Final = 1024**2
_MEMBER: Final = "instead_of"
_MEMBERS: Final = ("id", "message", "grounding", "pinned", "sent", "metadata", "status", "author", "audience")
_ATTEMPTS: Final = 3
_MOVED: Final = 412


class KeptQuestion(NamedTuple):
    """A question and all that was behind it, as entries. They stood behind ``after_seq``."""

    after_seq: int
    entries: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, after_seq: int, stored: Sequence[Mapping[str, Any]]) -> Self:
        """Stored messages, unless they are too large or one was erased: then nothing is kept."""
        entries = [{name: each[name] for name in _MEMBERS if each.get(name)} for each in stored]
        for entry in entries:
            if entry.get("status") == "in_progress":
                entry["status"] = "interrupted"
        is_erased = any(each.get("redacted") for each in stored)
        return cls(after_seq, [] if is_erased or len(json.dumps(entries)) > _MOST_BYTES else entries)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of a reply that keeps it."""
        return {_MEMBER: self._asdict()} if self.entries else {}


def kept_in(entry: Mapping[str, Any]) -> KeptQuestion | None:
    """What a stored reply keeps, which has no word yet."""
    kept = (entry.get("metadata") or {}).get(_MEMBER)
    return KeptQuestion(**kept) if kept and not entry["message"].get("content") else None


def replaced(path: str, identity: str) -> TokenEndpoint[tuple[KeptQuestion, str | None]]:
    """The question with this id and all behind it, and the chat's ETag. Raises SashError where it is not there."""
    chat, etag = yield Ask("GET", path)
    entry, _ = yield Ask("GET", f"{path}/messages/id:{identity}")
    if entry is None or chat is None:
        detail = f"There is no question {identity!r} to ask this one instead of: a rewind or an erasure took it away."
        raise SashError(404, {"status": 404, "title": "There is nothing here", "detail": detail})
    count = chat["messages"]["last_seq"] - entry["seq"] + 1
    behind = (yield from listed(path, count)) if count <= _MOST_ENTRIES else []
    return KeptQuestion.of(entry["seq"] - 1, [each for each in behind if each["seq"] >= entry["seq"]]), etag


def put_back(path: str, kept: KeptQuestion, reply: str) -> TokenEndpoint[int | None]:
    """Put a question back in place of the reply with this id; returns its last seq, None where the chat went on.

    Raises SashError.
    """
    for _ in range(_ATTEMPTS if kept.entries else 0):
        chat, etag = yield Ask("GET", path)
        entry, _ = yield Ask("GET", f"{path}/messages/id:{reply}")
        if chat is None or entry is None or entry["seq"] != chat["messages"]["last_seq"]:
            return None
        try:
            body = {"messages": kept.entries, "after_seq": kept.after_seq}
            stored, _ = yield Ask("POST", f"{path}/messages", None, body, etag)
        except SashError as error:
            if error.status != _MOVED:
                raise
        else:
            return int(stored["last_seq"])
    return None
