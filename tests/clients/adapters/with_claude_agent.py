"""test_readme runs this program with the Claude Agent SDK: its contract's suite for stores, and a transcript."""

import asyncio
from typing import Any

from claude_agent_sdk.testing import run_session_store_conformance

from sash_client.claude_agent import SashSessionStore
from sash_client.client import Ask, asked, path_of

URL = "http://127.0.0.1:8000"
PROJECTS = ("proj", "A", "B", "other", "other-proj")
KEY = {"project_key": "talks", "session_id": "7"}
LINES: list[dict[str, Any]] = [
    {"type": "mode", "mode": "plan"},
    {"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "Two seats? <|endoftext|> 🍝"}},
    {
        "type": "assistant",
        "uuid": "u-2",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "At "}, {"type": "tool_use", "id": "t"}]},
    },
    {"type": "user", "uuid": "u-3", "message": {"role": "user", "content": [{"type": "tool_result", "content": "7"}]}},
]


async def empty() -> SashSessionStore:
    """Return a store without sessions."""
    store = SashSessionStore(url=URL)
    for project in PROJECTS:
        for session in await store.list_sessions(project):
            await store.delete({"project_key": project, "session_id": session["session_id"]})
    return store


async def main() -> None:
    await run_session_store_conformance(empty)
    print("the contract's suite")

    store = SashSessionStore(url=URL)
    await store.append(KEY, LINES)
    await store.append(KEY, LINES[1:])
    assert await SashSessionStore(url=URL).load(KEY) == LINES
    window = await store.sash.ado(asked(Ask("GET", path_of("talks/7/") + "/window", {"model": "claude-sonnet-4-5"})))
    assert [each["content"] for each in window["request"]["messages"]] == ["Two seats? <|endoftext|> 🍝", "At "], window
    print("a transcript, and a window of its words")
    await store.sash.aclose()


asyncio.run(main())
