"""Reasoning, unknown members and long tool results over HTTP: all that is sent is counted, and the conversation goes on."""

from typing import Any

import httpx
from rigs.dialogue import append, assistant, calling, history, result, user, window

THOUGHT = {"role": "assistant", "content": "Four.", "reasoning_content": "Two and two. " * 1000}


async def count(client: httpx.AsyncClient, request: dict[str, Any], model: str = "gpt-4o") -> int:
    answer = await client.post("/count", json={"model": model, **request})
    assert answer.status_code == 200, answer.text
    tokens: int = answer.json()["tokens"]
    return tokens


async def test_reasoning_is_not_sent_uncounted(client: httpx.AsyncClient, conversation: str) -> None:
    """A window leaves out long reasoning, which the history keeps, and stays within 500 tokens by /count."""
    await append(client, conversation, user("2+2?"), {"message": THOUGHT}, user("And 3+3?"))
    body = await window(client, conversation, model="gpt-4o", max_tokens=500)
    assert body["tokens"]["total"] == await count(client, body["request"]) <= 500
    assert body["dropped"]["reasoning_tokens"] > 3000
    assert "reasoning_content" in (await history(client, conversation))[1]["message"]


async def test_pinned_reasoning_is_of_the_turn_whatever_was_read(client: httpx.AsyncClient, conversation: str) -> None:
    """A question after tool results continues their turn, also in a window that begins after the question."""
    pinned = {"message": {**THOUGHT, "reasoning_content": "Two and two."}, "pinned": True}
    newer = [assistant(f"Answer {n}.") for n in range(40)]
    entries = [pinned, calling("c-1"), result("c-1"), user("And now?"), *newer]
    await append(client, conversation, *entries)
    stored = await window(client, conversation, model="llama-3.3-70b", limit=2)
    given = {"model": "llama-3.3-70b", "limit": 2, "messages": entries}
    stateless = (await client.post("/window", json=given)).json()
    assert stored["tokens"] == stateless["tokens"]
    assert stored["request"] == stateless["request"]
    assert stored["tokens"]["reasoning"] > 0


async def test_all_reasoning_is_counted_when_it_is_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``reasoning=all`` the reasoning is counted in the window, whose count is no longer exact."""
    await append(client, conversation, user("2+2?"), {"message": THOUGHT}, user("And 3+3?"))
    body = await window(client, conversation, model="llama-3.3-70b", reasoning="all")
    assert body["tokens"]["reasoning"] > 3000
    assert (
        sum(body["tokens"].values())
        == 2 * body["tokens"]["total"]
        == 2 * await count(client, body["request"], "llama-3.3-70b")
    )
    assert body["exact"] is False


async def test_a_conversation_goes_on_behind_a_huge_result(client: httpx.AsyncClient, conversation: str) -> None:
    """After a tool result fifty times as large as the window, windows of ten more turns fit their budget."""
    await append(client, conversation, user("Read the book."), calling("a"), result("a", "word " * 200_000))
    for turn in range(10):
        body = await window(client, conversation, model="gpt-4o", max_tokens=4000)
        assert body["tokens"]["total"] == await count(client, body["request"]) <= 4000
        assert body["request"]["messages"][0]["content"] == "Read the book."
        await append(client, conversation, calling(f"b{turn}"), result(f"b{turn}", "short"))


async def test_a_function_result_is_cut_too(client: httpx.AsyncClient, conversation: str) -> None:
    """A long result of an older function call fits the window, whether or not messages outside the tail were read."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    found = {"message": {"role": "function", "name": "look", "content": "word " * 2000}}
    entries = [user("Look it up."), {"message": call}, found]
    await append(client, conversation, *entries)
    for limit in (1, 2):
        stored = await window(client, conversation, model="gpt-4o", max_tokens=200, limit=limit)
        given = {"model": "gpt-4o", "max_tokens": 200, "limit": limit, "messages": entries}
        stateless = await client.post("/window", json=given)
        assert stateless.status_code == 200, stateless.text
        for body in (stored, stateless.json()):
            assert body["trimmed"]["messages"] == 1
            assert body["tokens"]["total"] == await count(client, body["request"]) <= 200


async def test_a_cut_result_says_where_the_whole_is(client: httpx.AsyncClient, conversation: str) -> None:
    """A cut tool result keeps its beginning and end, and names the path of the message with the whole text."""
    text = "first " + "word " * 5000 + "last"
    await append(client, conversation, user("?"), calling("a"), result("a", text))
    body = await window(client, conversation, model="gpt-4o", tool_result_max_tokens=100)
    sent = body["request"]["messages"][2]["content"]
    path = f"/conversations/{conversation}/messages/3"
    assert sent.startswith("first ")
    assert sent.endswith("last")
    assert path in sent
    assert (await client.get(path)).json()["message"]["content"] == text
    assert body["trimmed"]["messages"] == 1
    assert body["trimmed"]["tokens"] > 4800


async def test_a_bare_message_is_an_entry(client: httpx.AsyncClient, conversation: str) -> None:
    """Bare and wrapped messages may be in one request and are stored alike."""
    bare = {"role": "user", "content": "hello", "cache_control": {"type": "ephemeral"}}
    await append(client, conversation, bare, assistant("hi", id="a-1"))
    stored = await history(client, conversation)
    assert [entry["message"] for entry in stored] == [bare, {"role": "assistant", "content": "hi"}]
    answer = await client.post("/window", json={"model": "llama-3.3-70b", "messages": [bare]})
    assert answer.json()["request"]["messages"] == [bare]


async def test_a_mistake_in_a_bare_message(client: httpx.AsyncClient, conversation: str) -> None:
    """The pointer to an error in a bare message has the place in the body as it was sent."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, json={"messages": [{"role": "user", "contnt": "hello"}]})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "#/messages/0/contnt"
    assert "did you mean 'content'?" in answer.json()["detail"]


async def test_other_forms_leave_out_what_only_chat_servers_take(client: httpx.AsyncClient, conversation: str) -> None:
    """A member of servers of the chat form is in a chat completions window; another format leaves it out and says so."""
    reply = {"message": {"role": "assistant", "content": "He", "prefix": True}}
    await append(client, conversation, user("hi"), reply, user("go on"))
    body = await window(client, conversation, model="llama-3.3-70b")
    assert body["request"]["messages"][1]["prefix"] is True
    assert "mended" not in body
    body = await window(client, conversation, model="claude-opus-4-8", format="anthropic")
    assert body["request"]["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "He"}]}
    assert body["mended"] == {"messages": 1, "reasons": {"foreign_members": 1}}


async def test_a_result_of_another_kind_is_cut_to_its_limit(client: httpx.AsyncClient) -> None:
    """A result that has no place for a cut text in its own form is cut to the limit too, in its chat form."""
    output = [{"stdout": "word " * 2000, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Go."},
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": output},
    ]
    body = {"messages": items, "model": "gpt-4o", "tool_result_max_tokens": 100}
    answer = await client.post("/window", params={"format": "responses"}, json=body)
    assert answer.json()["tokens"]["total"] < 200


async def test_a_result_is_cut_for_the_words_before_it(client: httpx.AsyncClient) -> None:
    """A required result is also cut for the turn that Anthropic's form puts before a call, and the window fits."""
    messages = [calling("c-1", pinned=True), result("c-1", "word " * 3000), user("word " * 300)]
    body = {"messages": messages, "model": "claude-opus-4-8"}
    for budget in range(720, 740):
        answer = await client.post("/window", json={**body, "format": "anthropic", "max_tokens": budget})
        assert answer.status_code == 200, answer.text
