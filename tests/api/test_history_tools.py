"""Tools for the model: windows with ``history_tools``, and the answers to their calls, over HTTP and over MCP."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import Served
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from rigs.dialogue import indexed

from sash import __version__

FORMS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5-mini",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "interactions": "gemini-2.5-flash",
}
COMMAND = "kubectl -n shop rollout restart deploy/cart"


def told(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


async def long_talk(client: httpx.AsyncClient, conversation: str, **settings: Any) -> None:
    """A conversation whose beginning says a path and a command, and whose rest is chatter."""
    body = {"id": conversation, "recall": "lexical", "model": "gpt-4o-mini", **settings}
    assert (await client.post("/conversations", json=body)).status_code == 201
    messages = [
        told("user", "How do I restart the cart?"),
        told("assistant", f"Run `{COMMAND}`; its file is /srv/shop/cart/deploy.yaml."),
    ]
    for number in range(40):
        messages += [told("user", f"Tell me about topic {number}."), told("assistant", "It is rather dull. " * 8)]
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": messages})
    assert answer.status_code == 201, answer.text
    await indexed(client, conversation)


async def answered(client: httpx.AsyncClient, conversation: str, name: str, arguments: Any, **more: Any) -> Any:
    body = {"call_id": "call_1", "arguments": arguments, **more}
    answer = await client.post(f"/conversations/{conversation}/tools/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("form", FORMS)
async def test_a_window_has_the_tools_and_their_cost(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """The tools are in the request, name the oldest message that is seen, and are counted as POST /count counts them."""
    await long_talk(client, conversation)
    query = f"model={FORMS[form]}&format={form}&max_tokens=1600&history_tools=true"
    window = (await client.get(f"/conversations/{conversation}/window?{query}")).json()
    shown = json.dumps(window["request"])
    assert f"You see message {window['kept']['first_seq']:06} and later ones." in shown
    assert window["kept"]["first_seq"] > 1
    counted = await client.post(f"/count?format={form}", json={"model": FORMS[form], **window["request"]})
    assert counted.json()["tokens"] <= window["tokens"]["total"] <= window["budget"]
    assert counted.json()["tools"] == window["tokens"]["tools"]
    assert not window["exact"] or counted.json()["tokens"] == window["tokens"]["total"]


async def test_the_conversations_own_tools_stay(client: httpx.AsyncClient, conversation: str) -> None:
    """The two tools stand behind those of the conversation."""
    own = {"type": "function", "function": {"name": "buy", "parameters": {"type": "object", "properties": {}}}}
    await long_talk(client, conversation, tools=[own])
    window = (await client.get(f"/conversations/{conversation}/window?history_tools=true")).json()
    names = [tool["function"]["name"] for tool in window["request"]["tools"]]
    assert names == ["buy", "history_search", "history_read"]


async def test_what_fell_out_is_found_and_read(client: httpx.AsyncClient, conversation: str) -> None:
    """A command of the first turn is found by its words and read word for word; the answer is a message to append."""
    await long_talk(client, conversation)
    found = await answered(client, conversation, "history_search", {"query": "command that restarts the cart"})
    assert "#2 assistant" in found["message"]["content"]
    read = await answered(client, conversation, "history_read", '{"first": 2}')
    assert COMMAND in read["message"]["content"]
    call = {"id": "call_1", "type": "function", "function": {"name": "history_read", "arguments": '{"first": 2}'}}
    asked = [told("user", "Which command was it?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    entries = {"messages": [*asked, read["message"]]}
    answer = await client.post(f"/conversations/{conversation}/messages?model=gpt-4o-mini", json=entries)
    assert answer.json()["window"]["request"]["messages"][-1] == read["message"]


async def test_a_search_finds_neither_its_question_nor_its_answers(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """The newest question, which the model sees, and earlier answers of the tools are left out."""
    await long_talk(client, conversation)
    for name, arguments in (("history_search", {"query": "kubectl"}), ("history_read", {"first": 2})):
        call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        said = (await answered(client, conversation, name, arguments))["message"]
        asked = [told("user", "Which kubectl command?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
        await client.post(f"/conversations/{conversation}/messages", json={"messages": [*asked, said]})
    await indexed(client, conversation)
    found = await answered(client, conversation, "history_search", {"query": "kubectl rollout"})
    assert "#2 assistant" in found["message"]["content"]
    assert " tool, " not in found["message"]["content"]
    assert "#86 user" not in found["message"]["content"]


async def test_an_answer_is_inside_its_limit(client: httpx.AsyncClient, conversation: str) -> None:
    """An answer has at most ``max_tokens``, and says where to read on."""
    await long_talk(client, conversation)
    answer = await answered(client, conversation, "history_read", {"first": 1, "last": 82}, max_tokens=200)
    assert answer["tokens"] <= 200
    assert "[More: history_read with first=" in answer["message"]["content"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("history_read", {"first": "second"}, "first"),
        ("history_read", {"first": 900}, "There is no message 900: this conversation has 82."),
        ("history_read", "{", "Its arguments are no JSON."),
        ("history_search", {}, "query"),
        ("history_search", {"query": "zebra"}, "No message matches."),
    ],
)
async def test_a_models_mistake_is_told_to_the_model(
    client: httpx.AsyncClient, conversation: str, name: str, arguments: Any, said: str
) -> None:
    """Arguments that mean nothing are answered in words, as the model is who can mend them."""
    await long_talk(client, conversation)
    assert said in (await answered(client, conversation, name, arguments))["message"]["content"]


async def test_what_was_erased_is_not_read(client: httpx.AsyncClient, conversation: str) -> None:
    """A redacted message is neither found nor read."""
    await long_talk(client, conversation)
    await client.delete(f"/conversations/{conversation}/messages/2")
    found = await answered(client, conversation, "history_search", {"query": "kubectl rollout"})
    read = await answered(client, conversation, "history_read", {"first": 1, "last": 3})
    assert "kubectl" not in found["message"]["content"] + read["message"]["content"]


@pytest.mark.parametrize(
    ("settings", "query", "problem"),
    [
        ({"recall": "off"}, "history_tools=true", "recall-is-off"),
        (
            {"tools": [{"type": "function", "function": {"name": "history_read"}}]},
            "history_tools=true",
            "unprocessable",
        ),
    ],
)
async def test_tools_that_cannot_be_are_refused(
    client: httpx.AsyncClient, conversation: str, settings: dict[str, Any], query: str, problem: str
) -> None:
    """Without an index, or beside a tool of the same name, a window with the tools is 422."""
    await client.post(
        "/conversations", json={"id": conversation, "model": "gpt-4o-mini", "recall": "lexical", **settings}
    )
    answer = await client.get(f"/conversations/{conversation}/window?{query}")
    assert (answer.status_code, answer.json()["type"]) == (422, f"/problems/{problem}")


async def test_other_tools_are_not_answered(client: httpx.AsyncClient, conversation: str) -> None:
    """A name that is none of the two is 404; a history in a request has no tools."""
    await long_talk(client, conversation)
    body = {"call_id": "call_1", "arguments": {}}
    assert (await client.post(f"/conversations/{conversation}/tools/buy", json=body)).status_code == 404
    sent = {"model": "gpt-4o-mini", "messages": [told("user", "hi")], "history_tools": True}
    assert (await client.post("/window", json=sent)).status_code == 422


# ---- over MCP


@asynccontextmanager
async def session_of(served: Served, query: str) -> AsyncIterator[ClientSession]:
    """The official client, which reads what ``query`` names."""
    address = f"{served.url}/mcp?{query}"
    async with streamable_http_client(address) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def said_by(session: ClientSession, name: str, arguments: dict[str, Any]) -> str:
    result: Any = await session.call_tool(name, arguments)
    return str(result.content[0].text)


async def test_a_conversation_is_read_over_mcp(served: Served, fresh: Callable[[], str]) -> None:
    """The official client lists the two tools, finds the command of the first turn, and reads it."""
    conversation = fresh()
    async with httpx.AsyncClient(base_url=served.url) as client:
        await long_talk(client, conversation)
    async with session_of(served, f"conversation_id={conversation}") as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == ["history_search", "history_read"]
        assert "#2 assistant" in await said_by(session, "history_search", {"query": "kubectl rollout"})
        assert COMMAND in await said_by(session, "history_read", {"first": 2})


async def test_an_owners_conversations_are_read_over_mcp(served: Served, fresh: Callable[[], str]) -> None:
    """All conversations of the owner are searched, and no other one is read."""
    mine, other = fresh(), fresh()
    async with httpx.AsyncClient(base_url=served.url) as client:
        await long_talk(client, mine, owner="ann@example.com")
        await long_talk(client, other, owner="bob@example.com")
    async with session_of(served, "owner=ann%40example.com") as session:
        found = await said_by(session, "history_search", {"query": "kubectl rollout"})
        assert f"{mine} #2 assistant" in found
        assert other not in found
        assert COMMAND in await said_by(session, "history_read", {"conversation": mine, "first": 2})
        assert COMMAND not in await said_by(session, "history_read", {"conversation": other, "first": 2})


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ("?owner=a&conversation_id=b", {}),
        ("?owner=a", {"hello": 1}),
    ],
)
async def test_what_is_no_request_of_mcp_is_refused(
    client: httpx.AsyncClient, query: str, body: dict[str, Any]
) -> None:
    """Without one of the two parameters, or without JSON-RPC, the answer is 400."""
    answer = await client.post(f"/mcp{query}", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("history_search", {"query": 5}),
        ("history_search", {}),
        ("history_read", {"first": "two"}),
        ("history_read", {"first": -1}),
        ("history_write", {}),
    ],
)
async def test_wrong_arguments_are_the_models_to_mend(
    served: Served, fresh: Callable[[], str], name: str, arguments: dict[str, Any]
) -> None:
    """Wrong arguments, and a tool that there is not, are a result that is an error, and says what is wrong."""
    conversation = fresh()
    async with httpx.AsyncClient(base_url=served.url) as client:
        await long_talk(client, conversation)
    async with session_of(served, f"conversation_id={conversation}") as session:
        result: Any = await session.call_tool(name, arguments)
    assert result.is_error
    assert len(result.content[0].text) > len("Invalid arguments")


async def test_the_version_is_told_over_mcp(client: httpx.AsyncClient) -> None:
    """The server says which version of Sash it is."""
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    headers = {"Accept": "application/json, text/event-stream"}

    answer = await client.post("/mcp?owner=ann", json=body, headers=headers)

    assert answer.json()["result"]["serverInfo"] == {"name": "sash", "version": __version__}


async def test_without_its_package_clients_are_told(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package of the protocol, the answer is an error of the protocol, which says how to install it."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    body = {"jsonrpc": "2.0", "id": 7, "method": "ping"}

    answer = await client.post("/mcp?owner=ann", json=body)

    assert (answer.status_code, answer.json()["id"]) == (200, 7)
    assert "pip install" in answer.json()["error"]["message"]
