"""The section "Moving in" of service/sash/commands/README.md, run line by line against the stores that it names.

The data of LangChain and the Agents SDK is written by hand, in the formats of langchain-community 0.4 (a list, the newest
message first) and openai-agents 0.24 (a table, and a list with the oldest first). The libraries would install numpy and
SQLAlchemy, or an HTTP framework, which this test does not need.
"""

import json
import shlex
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from click.testing import CliRunner
from conftest import Served
from readme_blocks import blocks, section

from sash.cli import main
from sash.store.redis.embedded import EmbeddedStore
from sash_client.ids import safe_id

THEIR_REDIS = "redis://127.0.0.1:6379/0"

CALL = {"name": "find_table", "args": {"seats": 2}, "id": "call_1", "type": "tool_call"}
LANGCHAIN = [
    ("system", "You book tables.", {}),
    ("human", "Two seats tonight?", {}),
    ("ai", "", {"tool_calls": [CALL], "invalid_tool_calls": [], "usage_metadata": None}),
    ("tool", "Osteria, seven", {"tool_call_id": "call_1", "artifact": None, "status": "success"}),
    ("ai", "Osteria has a table at seven.", {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}),
]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Two seats tonight?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "find_table", "arguments": '{"seats": 2}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "Osteria, seven"},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Osteria has a table at seven.", "annotations": []}],
    },
]
MOVED = [
    {"role": "user", "content": "Two seats tonight?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "find_table", "arguments": '{"seats": 2}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Osteria, seven"},
    {"role": "assistant", "content": "Osteria has a table at seven."},
]

WORKING_MEMORY = {
    "messages": [
        {
            "role": role,
            "content": content,
            "id": f"01JC{place}",
            "created_at": "2026-11-01T12:00:00Z",
            "persisted_at": None,
            "discrete_memory_extracted": "t",
        }
        for place, (role, content) in enumerate(
            [("user", "Two seats?"), ("tool", "Osteria"), ("assistant", "At seven.")]
        )
    ],
    "memories": [{"id": "m-1", "text": "Ann eats early.", "memory_type": "semantic"}],
    "data": {"table": 7},
    "context": "Ann asked for the opening hours.",
    "user_id": "ann@example.org",
    "tokens": 0,
    "session_id": "user-5",
    "namespace": "tables",
    "long_term_memory_strategy": {"strategy": "discrete", "config": {}},
    "ttl_seconds": 86400,
    "last_accessed": "2026-11-01T12:00:00Z",
    "created_at": "2026-11-01T12:00:00Z",
    "updated_at": "2026-11-01T12:00:00Z",
    "new_session": False,
    "context_percentage_total_used": 1.0,
}
REMEMBERED = [
    {"role": "system", "content": "Ann asked for the opening hours."},
    {"role": "user", "content": "Two seats?"},
    {"role": "assistant", "content": "At seven."},
]


CLAUDE: list[dict[str, Any]] = [
    {"role": "user", "content": "Two seats tonight?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "A table for two.", "signature": "c2ln"},
            {"type": "tool_use", "id": "call_1", "name": "find_table", "input": {"seats": 2}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Osteria, seven"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Osteria has a table at seven."}]},
]


def words_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with its calls' arguments parsed, because their spacing does not matter."""
    calls = [
        {**call["function"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    return {**message, **({"tool_calls": calls} if calls else {})}


def commands() -> list[list[str]]:
    """Return every line of the section's shell blocks, split as a shell does."""
    found = blocks("sh", section("service/sash/commands/README.md", "## Moving in"))
    return [shlex.split(line) for block in found for line in block.splitlines() if line.strip()]


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """The Redis of another application, with a LangChain history and an Agents SDK session in it."""
    with EmbeddedStore(tmp_path / "theirs", fsync="everysec") as store:
        with redis.Redis.from_url(store.url) as connection:
            for kind, content, more in LANGCHAIN:
                data = {
                    "content": content,
                    "additional_kwargs": {},
                    "response_metadata": {},
                    "type": kind,
                    "name": None,
                }
                connection.lpush(
                    "message_store:user:1", json.dumps({"type": kind, "data": {**data, "id": None, **more}})
                )
            key = "agents:session:user-2"
            connection.hset(key, mapping={"session_id": "user-2", "created_at": "1"})
            connection.rpush(f"{key}:messages", *map(json.dumps, ITEMS))
            connection.set(f"{key}:counter", 1)
            connection.rpush("unrelated", "text")
        yield store


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the section names: a session file and a list of messages."""
    with sqlite3.connect(tmp_path / "sessions.db") as connection:
        connection.executescript(
            "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP, updated_at TIMESTAMP);"
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, "
            "message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);"
        )
        rows = [("user-3", json.dumps(item)) for item in ITEMS]
        connection.executemany("INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", rows)
    connection.close()
    (tmp_path / "chat.json").write_text(json.dumps(MOVED))
    (tmp_path / "session.json").write_text(json.dumps(WORKING_MEMORY))
    listed = [{"role": "user", "content": "Two seats?"}, {"role": "assistant", "content": "At seven."}]
    (tmp_path / "items.json").write_text(json.dumps({"object": "list", "data": listed[::-1], "has_more": False}))
    whole = {"id": "order-1", "model": "gpt-4o-mini", "entries": [{"message": each} for each in MOVED]}
    (tmp_path / "conversations.jsonl").write_text(json.dumps(whole) + "\n")
    (tmp_path / "request.json").write_text(json.dumps({"system": "You book tables.", "messages": CLAUDE}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_pages_way_in_works_and_may_be_taken_twice(served: Served, theirs: EmbeddedStore) -> None:
    """Each command imports its source completely and in order, and a second run adds nothing."""
    run = [[word.replace(THEIR_REDIS, theirs.url) for word in command] for command in commands()]
    assert [command[:2] for command in run] == [["sash", "import"]] * 8
    told: list[dict[str, Any]] = []
    for command in [*run, *run]:
        result = CliRunner().invoke(main, [*command[1:], "--url", served.url], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout))
    assert [each["messages"] for each in told] == [5, 4, 4, 3, 2, 4, 4, 4, *[0] * 8]
    assert [each["left_out"] for each in told[:8]] == [
        {},
        {"reasoning": 1},
        {"reasoning": 1},
        {"memories": 1, "tool messages": 1},
        {},
        {},
        {},
        {},
    ]
    expected = {
        safe_id("user:1"): [{"role": "system", "content": "You book tables."}, *MOVED],
        "user-2": MOVED,
        "user-3": MOVED,
        "user-5": REMEMBERED,
        "support-4711": MOVED,
        "request": [{"role": "system", "content": "You book tables."}, *MOVED],
        "order-1": MOVED,
    }
    for conversation, messages in expected.items():
        window = httpx.get(f"{served.url}/conversations/{conversation}/window", params={"model": "gpt-4o-mini"}).json()
        assert [words_of(message) for message in window["request"]["messages"]] == list(map(words_of, messages))
        assert window["stop_reason"] == "complete"
    remembered = httpx.get(f"{served.url}/conversations/user-5").json()
    assert (remembered["owner"], remembered["ttl_seconds"]) == (safe_id("ann@example.org"), 86400)
    assert remembered["metadata"] == {"namespace": "tables", "data": {"table": 7}}
