"""Records of other programs, as they write them, each with the words of its conversation."""

from typing import Any

QUESTION, ANSWER = "Where is order 17?", "It is on its way."


def _claude_code(kind: str, number: int, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": f"msg_{more.pop('reply', number)}",
            "type": "message",
            "model": "claude-opus-4-5",
            "usage": {},
        }
    return {
        "parentUuid": f"0000-{number - 1}" if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/work",
        "sessionId": "5f0a-session",
        "version": "2.0.14",
        "type": kind,
        "message": message,
        "uuid": f"0000-{number}",
        "timestamp": f"2026-02-23T12:19:4{number}Z",
        **more,
    }


def _codex(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-02-23T12:19:42Z", "type": kind, "payload": payload}


CODEX: list[dict[str, Any]] = [
    _codex(
        "session_meta", {"id": "019c-codex", "cwd": "/work", "originator": "codex_cli_rs", "cli_version": "0.104.0"}
    ),
    _codex("turn_context", {"cwd": "/work", "model": "gpt-5-codex", "approval_policy": "on-request"}),
    _codex(
        "response_item",
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    ),
    _codex("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]}),
    _codex("event_msg", {"type": "user_message", "message": QUESTION}),
    _codex("response_item", {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}),
    _codex(
        "response_item",
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "call_1"},
    ),
    _codex("response_item", {"type": "function_call_output", "call_id": "call_1", "output": "17.json"}),
    _codex(
        "response_item",
        {"type": "local_shell_call", "call_id": "call_2", "status": "completed", "action": {"type": "exec"}},
    ),
    _codex(
        "response_item",
        {"type": "function_call_output", "call_id": "call_2", "output": {"content": "sent", "success": True}},
    ),
    _codex("response_item", {"type": "ghost_snapshot", "ghost_commit": {"id": "a"}}),
    _codex(
        "response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    ),
]
CLAUDE_CODE: list[dict[str, Any]] = [
    {"type": "file-history-snapshot", "messageId": "0000-0", "snapshot": {}, "isSnapshotUpdate": False},
    {"type": "summary", "summary": "An order", "leafUuid": "0000-4"},
    _claude_code("user", 0, QUESTION),
    _claude_code("assistant", 1, [{"type": "thinking", "thinking": "Look.", "signature": "c2ln"}], reply=1),
    _claude_code(
        "assistant", 2, [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}], reply=1
    ),
    _claude_code(
        "user",
        3,
        [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "17.json", "is_error": False}],
        toolUseResult={"stdout": "17.json"},
    ),
    _claude_code("assistant", 4, [{"type": "text", "text": "A subagent's words."}], isSidechain=True),
    _claude_code("assistant", 5, [{"type": "text", "text": ANSWER}], requestId="req_1"),
    {
        "type": "queue-operation",
        "operation": "enqueue",
        "sessionId": "5f0a-session",
        "timestamp": "2026-02-23T12:19:50Z",
    },
]
UI_MESSAGES: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]},
    {
        "id": "a1",
        "role": "assistant",
        "metadata": {"model": "gpt-5"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Look.", "state": "done"},
            {"type": "text", "text": "One moment.", "state": "done"},
            {
                "type": "tool-findOrder",
                "toolCallId": "call_1",
                "state": "output-available",
                "input": {"id": 17},
                "output": {"status": "sent"},
            },
            {"type": "step-start"},
            {"type": "data-notification", "data": {"level": "info"}},
            {"type": "text", "text": ANSWER, "state": "done"},
        ],
    },
]
MODEL_MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "One moment."},
            {"type": "tool-call", "toolCallId": "call_1", "toolName": "findOrder", "input": {"id": 17}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "call_1",
                "toolName": "findOrder",
                "output": {"type": "json", "value": {"status": "sent"}},
            }
        ],
    },
    {"role": "assistant", "content": ANSWER},
]
PYDANTIC_AI: list[dict[str, Any]] = [
    {
        "parts": [{"content": QUESTION, "timestamp": "2026-02-23T12:19:42Z", "part_kind": "user-prompt"}],
        "instructions": None,
        "kind": "request",
    }
]
OPEN_WEBUI: list[dict[str, Any]] = [
    {
        "id": "8c1e-chat",
        "user_id": "user-1",
        "title": "An order",
        "chat": {
            "title": "An order",
            "models": ["llama3.2"],
            "params": {},
            "history": {
                "currentId": "m3",
                "messages": {
                    "m1": {
                        "id": "m1",
                        "parentId": None,
                        "childrenIds": ["m2", "m3"],
                        "role": "user",
                        "content": QUESTION,
                        "timestamp": 1781949977,
                        "models": ["llama3.2"],
                    },
                    "m2": {
                        "id": "m2",
                        "parentId": "m1",
                        "childrenIds": [],
                        "role": "assistant",
                        "content": "I do not know.",
                        "model": "llama3.2",
                    },
                    "m3": {
                        "id": "m3",
                        "parentId": "m1",
                        "childrenIds": [],
                        "role": "assistant",
                        "content": ANSWER,
                        "model": "llama3.2",
                        "done": True,
                    },
                },
            },
            "messages": [],
            "tags": [],
        },
        "created_at": 1781949977,
        "updated_at": 1781949978,
    }
]
LIBRECHAT: dict[str, Any] = {
    "conversationId": "8c1e-libre",
    "endpoint": "openAI",
    "title": "An order",
    "exportAt": "12:19:42 GMT+0100",
    "branches": True,
    "recursive": False,
    "options": {"model": "gpt-4o-mini", "promptPrefix": "Be brief."},
    "messages": [
        {
            "messageId": "m1",
            "parentMessageId": "00000000-0000-0000-0000-000000000000",
            "conversationId": "8c1e-libre",
            "sender": "User",
            "text": QUESTION,
            "isCreatedByUser": True,
        },
        {
            "messageId": "m2",
            "parentMessageId": "m1",
            "conversationId": "8c1e-libre",
            "sender": "GPT-4o",
            "text": "I do not know.",
            "isCreatedByUser": False,
        },
        {
            "messageId": "m3",
            "parentMessageId": "m1",
            "conversationId": "8c1e-libre",
            "sender": "GPT-4o",
            "text": "",
            "content": [
                {"type": "think", "think": "Look."},
                {
                    "type": "tool_call",
                    "tool_call": {"id": "call_1", "name": "find", "args": '{"id":17}', "output": "sent", "progress": 1},
                },
                {"type": "text", "text": {"value": ANSWER}},
            ],
            "isCreatedByUser": False,
        },
    ],
}
SHAREGPT: dict[str, Any] = {
    "id": "share-1",
    "system": "Be brief.",
    "conversations": [
        {"from": "human", "value": QUESTION},
        {"from": "function_call", "value": '{"name": "find", "arguments": {"id": 17}}'},
        {"from": "observation", "value": "sent"},
        {"from": "gpt", "value": ANSWER},
    ],
}
LANGCHAIN_DUMPD: list[dict[str, Any]] = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", name],
        "kwargs": {"content": text, "type": kind, "additional_kwargs": {}},
    }
    for name, kind, text in (("HumanMessage", "human", QUESTION), ("AIMessage", "ai", ANSWER))
]
LANGCHAIN_MODEL_DUMP: list[dict[str, Any]] = [
    {"content": text, "additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None, "id": None}
    for kind, text in (("human", QUESTION), ("ai", ANSWER))
]
LANGCHAIN_DICT: list[dict[str, Any]] = [{"type": each["type"], "data": each} for each in LANGCHAIN_MODEL_DUMP]
CHATGPT: dict[str, Any] = {
    "title": "An order",
    "create_time": 1781949977.1,
    "mapping": {
        "n1": {
            "id": "n1",
            "message": {
                "id": "n1",
                "author": {"role": "user", "name": None, "metadata": {}},
                "create_time": 1781949977.1,
                "content": {"content_type": "text", "parts": [QUESTION]},
                "status": "finished_successfully",
                "weight": 1.0,
                "metadata": {},
                "recipient": "all",
            },
            "parent": None,
            "children": [],
        }
    },
    "current_node": "n1",
    "conversation_id": "c-1",
}
CLAUDE_AI: dict[str, Any] = {
    "uuid": "6a-claude",
    "name": "An order",
    "created_at": "2026-02-23T12:19:42Z",
    "account": {"uuid": "a"},
    "chat_messages": [
        {
            "uuid": "6b-claude",
            "text": QUESTION,
            "content": [{"type": "text", "text": QUESTION}],
            "sender": "human",
            "created_at": "2026-02-23T12:19:42Z",
            "attachments": [],
            "files": [],
        }
    ],
}

RECORDS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "codex": ("Codex", CODEX),
    "claude code": ("Claude Code", CLAUDE_CODE),
    "ui messages": ("AI SDK", UI_MESSAGES),
    "model messages": ("AI SDK", MODEL_MESSAGES[1:3]),
    "pydantic ai": ("Pydantic AI", PYDANTIC_AI),
    "open webui": ("Open WebUI", [*OPEN_WEBUI, *OPEN_WEBUI[0]["chat"]["history"]["messages"].values()]),
    "librechat": ("LibreChat", [LIBRECHAT, *LIBRECHAT["messages"]]),
    "sharegpt": ("ShareGPT", [SHAREGPT, *SHAREGPT["conversations"]]),
    "dumpd": ("LangChain", LANGCHAIN_DUMPD),
    "model_dump": ("LangChain", LANGCHAIN_MODEL_DUMP),
    "messages_to_dict": ("LangChain", LANGCHAIN_DICT),
    "chatgpt": ("ChatGPT", [CHATGPT, CHATGPT["mapping"]["n1"], CHATGPT["mapping"]["n1"]["message"]]),
    "claude.ai": ("claude.ai", [CLAUDE_AI, *CLAUDE_AI["chat_messages"]]),
}
"""What errors call the program, and its records: whole conversations, and single messages."""
