"""A history with every kind of entry, and what a client can read of a conversation: shared by tests of the API."""

from typing import Any

import httpx

CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": "One moment.",
    "tool_calls": [
        {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": '{"at": "é"}'}},
        {"id": "call-2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
    ],
}
PICTURE: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/b.png", "detail": "low"}},
    ],
}


def said(text: str, identity: str | None = None, role: str = "user", **fields: Any) -> dict[str, Any]:
    """An entry."""
    entry = {"message": {"role": role, "content": text}, **fields}
    return entry | ({"id": identity} if identity else {})


def result(call: str, identity: str | None = None, **fields: Any) -> dict[str, Any]:
    """An entry with the result of a tool call."""
    entry = {"message": {"role": "tool", "tool_call_id": call, "content": "42 é"}, **fields}
    return entry | ({"id": identity} if identity else {})


EVERYTHING: tuple[dict[str, Any], ...] = (
    said("Be brief.", "s", "system"),
    said(
        "hello", "a", grounding={"documents": [{"text": "one document", "id": "d-1"}]}, metadata={"k": [1, 2.5, None]}
    ),
    {"id": "b", "message": CALLS},
    result("call-2", "c"),
    result("call-1", "d", pinned=True),
    said("done", "e", "assistant"),
    {"id": "f", "message": PICTURE, "image_sizes": [[2049, 513]]},
    said("and?", "g", pinned=True, grounding={"documents": [{"text": "two"}, {"text": "documents"}]}),
    {"id": "h", "message": {"role": "user", "content": "x", "name": "ann", "x_field": {"kept": 1.0}}},
    {"id": "i", "message": CALLS | {"content": None}},
    result("call-1", "j"),
)


async def seen(client: httpx.AsyncClient, conversation: str) -> dict[str, Any]:
    """Return all that a client can read of a conversation, without its id, version and times."""
    path = f"/conversations/{conversation}"
    state = (await client.get(path)).json()
    own = ("id", "version", "etag", "created_at", "updated_at", "expires_at")
    window = (await client.get(f"{path}/window?model=gpt-4o&max_tokens=2000&grounding=all&summary=always")).json()
    assert "request" in window, window
    return {
        "state": {name: value for name, value in state.items() if name not in own},
        "messages": (await client.get(f"{path}/messages?limit=1000")).json()["messages"],
        "window": {**window, "version": 0, "etag": "", "receipt": "", "conversation_id": ""},
    }
