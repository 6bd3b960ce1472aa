"""Read sessions of redis/agent-memory-server: the answer of its ``GET /v1/working-memory/{session_id}``.

A message has only a role and a text. Tool calls are not kept, so tool messages are left out. ``context`` is the server's
summary of messages that it has dropped, and becomes a system message. (Seen in ``agent_memory_server/models.py`` of version
0.14.)
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sash.commands.source_error import SourceError
from sash_client.ids import safe_id
from sash_tools.sources.conversation import SourceConversation

_ROLES = {"user", "assistant", "system", "developer"}
_OTHER_NAMES = {"human": "user", "ai": "assistant"}


def is_session(value: Any) -> bool:
    """Return whether a JSON value is a working memory."""
    return (
        isinstance(value, dict) and isinstance(value.get("session_id"), str) and isinstance(value.get("messages"), list)
    )


def to_conversation(session: Mapping[str, Any], where: str) -> SourceConversation:
    """Return the conversation of a session, with the session's name and user. Raises SourceError."""
    try:
        return _conversation(session)
    except (AttributeError, KeyError, TypeError):
        raise SourceError(
            f"{where}: session {session['session_id']} is not as agent-memory-server returns it"
        ) from None


def _conversation(session: Mapping[str, Any]) -> SourceConversation:
    left_out = Counter({"memories": len(session.get("memories") or ())})
    entries: list[dict[str, Any]] = []
    if session.get("context"):
        entries.append({"id": "context", "message": {"role": "system", "content": session["context"]}})
    for place, message in enumerate(session["messages"], 1):
        role = _OTHER_NAMES.get(message["role"], message["role"])
        if role not in _ROLES:
            left_out[f"{role} messages"] += 1
            continue
        entry = {"message": {"role": role, "content": message["content"]}}
        created = {"metadata": {"created_at": message["created_at"]}} if message.get("created_at") else {}
        entries.append({"id": safe_id(message.get("id") or f"import-{place}"), **entry, **created})
    metadata = {name: session[name] for name in ("namespace", "data") if session.get(name)}
    settings = {
        "owner": safe_id(session["user_id"]) if session.get("user_id") else None,
        "ttl_seconds": session.get("ttl_seconds"),
        "metadata": metadata or None,
    }
    return SourceConversation(
        id=safe_id(session["session_id"]),
        settings={name: value for name, value in settings.items() if value is not None},
        entries=entries,
        left_out=dict(+left_out),
    )
