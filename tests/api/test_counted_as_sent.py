"""A window's tokens are those of its request, also where a mend sends something else than what is stored."""

import json
from typing import Any

import httpx
import pytest

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
MODELS = {
    "openai": ("gpt-4o", "grok-4", "deepseek-chat", "mistral-large-latest", "claude-sonnet-4-5", "kimi-k2.5"),
    "responses": ("gpt-5", "grok-4"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-8", "deepseek-v4-pro", "kimi-k2.5"),
    "gemini": ("gemini-2.5-flash",),
    "interactions": ("gemini-2.5-flash",),
    "converse": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"),
}
SLACK = 2
"""Tokens by which the estimate of a message may be rounded up, as its parts are rounded one by one."""
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "the news of today"}}
PAGE = {"type": "web_search_result", "url": "https://x.test/a", "title": "A page", "encrypted_content": "E" * 400}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def reply(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def call(identity: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def file(**told: str) -> dict[str, Any]:
    return user([{"type": "file", "file": told}, {"type": "text", "text": "q"}])


def paper(**more: Any) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, **more}


def items(hosted: dict[str, Any]) -> list[Any]:
    said = {"type": "output_text", "text": "none", "annotations": []}
    whole = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [said]}
    return [user("q"), hosted, whole, user("and?")]


COMPACTION = reply([{"type": "compaction", "content": "They talked."}])
HISTORIES: dict[str, tuple[str, list[Any]]] = {
    "neighbours": ("openai", [*map(user, "abc"), *map(reply, "def"), user("q")]),
    "an empty reply": ("openai", [user("a"), reply(""), user("b"), reply("c"), user("q")]),
    "a null reply": ("openai", [user("a"), reply(None), user("q")]),
    "a system note": ("openai", [user("a"), reply("b"), {"role": "system", "content": "It is dark."}, user("q")]),
    "system notes": (
        "openai",
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            user("a"),
            {"role": "system", "content": "It is dark."},
            reply("b"),
            {"role": "developer", "content": "It is late."},
        ],
    ),
    "an archive": ("openai", [file(file_data="data:application/zip;base64," + "A" * 4000)]),
    "a link to a file": ("openai", [file(filename="a.txt", file_id="gs://bucket/a.txt")]),
    "a file of Gemini's": (
        "gemini",
        [
            {
                "role": "user",
                "parts": [
                    {
                        "fileData": {
                            "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                            "mimeType": "application/pdf",
                        }
                    },
                    {"text": "q"},
                ],
            }
        ],
    ),
    "a file of Claude's": (
        "anthropic",
        [user([{"type": "document", "source": {"type": "file", "file_id": "file_01a"}}])],
    ),
    "a search of OpenAI's": (
        "responses",
        items(
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "the news of today"},
            }
        ),
    ),
    "a search of Claude's": (
        "anthropic",
        [
            user("q"),
            reply(
                [
                    SEARCH,
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [PAGE]},
                    {"type": "text", "text": "none"},
                ]
            ),
            user("and?"),
        ],
    ),
    "code of Gemini's": (
        "gemini",
        [
            {"role": "user", "parts": [{"text": "q"}]},
            {
                "role": "model",
                "parts": [
                    {"executableCode": {"language": "PYTHON", "code": "print(1+1)"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
                    {"text": "2"},
                ],
            },
            {"role": "user", "parts": [{"text": "and?"}]},
        ],
    ),
    "a paused search": (
        "anthropic",
        [user("q"), reply([{"type": "text", "text": "I look."}, SEARCH]), user("no: 2+2?")],
    ),
    "unsigned thinking": (
        "anthropic",
        [
            user("q"),
            reply([{"type": "thinking", "thinking": "a long thought", "signature": ""}, {"type": "text", "text": "a"}]),
            user("and?"),
        ],
    ),
    "some citations": (
        "anthropic",
        [
            user([paper(citations={"enabled": True}), {"type": "text", "text": "q"}]),
            reply([{"type": "text", "text": "a"}]),
            user([paper(), {"type": "text", "text": "and?"}]),
        ],
    ),
    "an unanswered call": (
        "openai",
        [
            user("a"),
            reply(None, tool_calls=[call("c1"), call("c2")]),
            {"role": "tool", "tool_call_id": "c1", "content": "7"},
            user("q"),
        ],
    ),
    "a system text and a compaction": (
        "anthropic",
        [user("a"), {"role": "system", "content": "It is dark."}, COMPACTION],
    ),
    "notes around a compaction": (
        "anthropic",
        [
            {"role": "system", "content": "Be brief."},
            user("a"),
            COMPACTION,
            {"role": "system", "content": "It is dark."},
            user("q"),
        ],
    ),
    "a half reply": ("openai", [user("a"), reply("half of a")]),
    "a picture in a reply": (
        "openai",
        [
            user("draw"),
            reply("here", images=[{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]),
            user("blue"),
        ],
    ),
    "reasoning": (
        "openai",
        [
            user("a"),
            reply("", reasoning_content="a thought in words", tool_calls=[call("c1")]),
            {"role": "tool", "tool_call_id": "c1", "content": "7"},
            reply("7"),
            user("q"),
        ],
    ),
}


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("name", HISTORIES)
async def test_a_window_costs_what_its_request_costs(client: httpx.AsyncClient, name: str, form: str) -> None:
    """Counted again as a request, a window has its tokens, for each model; where it is refused, the answer says so."""
    came, messages = HISTORIES[name]
    for model in MODELS[form]:
        body = {"model": model, "format": form, "messages": messages, "explain": True}
        answer = await client.post("/window", params={"format": came}, json=body)
        assert answer.status_code == 200, answer.text
        made = answer.json()
        counted = await client.post("/count", params={"format": form}, json={"model": model, **made["request"]})
        more = made["tokens"]["total"] - counted.json()["tokens"]
        slack = 0 if counted.json()["exact"] else SLACK * len(messages)
        assert 0 <= more <= slack, (model, more, json.dumps(made["request"])[:600])
        parts = [value for part, value in made["tokens"].items() if part != "total"]
        assert made["tokens"]["total"] == sum(parts)
