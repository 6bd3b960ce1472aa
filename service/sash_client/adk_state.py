# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""The Google ADK's sessions as conversations, with the state of a session, of its user and of its app as metadata."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from google.adk.sessions import Session

from sash_client.adk_events import METADATA
from sash_client.client import Ask, SashError, TokenEndpoint, asked, path_of
from sash_client.ids import safe_id

_DEPTHS = {"app": 1, "user": 2}
"""A key's prefix says whose state it is: an app's (1 name), or that of an app's user (2). Other keys are the session's."""


def path_of_name(name: Sequence[str]) -> str:
    """The path of the conversation of a session, of a user's state (no session), or of an app's state (no user either)."""
    return path_of("/".join([*name, *[""] * (3 - len(name))]))


def owner_of(app: str, user: str) -> str:
    """The owner of a user's sessions and state: one person's data are erased together."""
    return safe_id(f"{app}/{user}")


def create(name: Sequence[str]) -> TokenEndpoint[Any]:
    """Create the conversation of a name. Raises SashError, with status 409 if it exists."""
    owner = {"owner": owner_of(*name[:2])} if name[1:] else {}
    metadata = {METADATA: {"name": list(name), "state": {}}}
    return asked(
        Ask("POST", "/conversations", body={"id": path_of_name(name).rpartition("/")[2], "metadata": metadata, **owner})
    )


def change(name: Sequence[str], delta: Mapping[str, Any]) -> TokenEndpoint[None]:
    """Set keys of a session's, a user's or an app's state, by their prefixes.

    Each value is stored as JSON text, because a merge patch would merge objects. Raises SashError.
    """
    changes: dict[int, dict[str, str]] = {}
    for key, value in delta.items():
        scope, colon, bare = key.partition(":")
        if colon and scope == "temp":
            continue
        depth, name_in_it = (_DEPTHS[scope], bare) if colon and scope in _DEPTHS else (len(name), key)
        changes.setdefault(depth, {})[name_in_it] = json.dumps(value, default=str)
    for depth, state in changes.items():
        patch = Ask("PATCH", path_of_name(name[:depth]), body={"metadata": {METADATA: {"state": state}}})
        if (yield from asked(patch)) is None:
            try:
                yield from create(name[:depth])
            except SashError as error:
                if not error.exists:  # else another client has just created it
                    raise
            yield from asked(patch)


def name_of(found: Mapping[str, Any]) -> list[str]:
    """The names of a conversation: app, user and session, fewer if it has a user's or an app's state; empty for others."""
    return list(((found.get("metadata") or {}).get(METADATA) or {}).get("name") or ())


def state_of(found: Mapping[str, Any] | None, prefix: str = "") -> dict[str, Any]:
    """The state in a conversation's metadata, with ``prefix`` before its keys; empty for an absent conversation."""
    state = found["metadata"][METADATA]["state"] if found else {}
    return {prefix + key: json.loads(value) for key, value in state.items()}


def session_of(found: Mapping[str, Any]) -> TokenEndpoint[Session]:
    """A session without events, with the state of its user and app."""
    app, user, identity = name_of(found)
    state = state_of(found)
    for prefix, depth in _DEPTHS.items():
        state |= state_of((yield from asked(Ask("GET", path_of_name((app, user)[:depth])))), f"{prefix}:")
    updated = datetime.fromisoformat(found["updated_at"]).timestamp()
    return Session(id=identity, app_name=app, user_id=user, state=state, last_update_time=updated)
