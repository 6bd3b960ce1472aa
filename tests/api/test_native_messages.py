"""Messages in providers' own formats over HTTP: appended and sent unchanged."""

import json
from typing import Any

import httpx
import pytest
from dialogue import append, history, problem, result, user, window
from recordings import NO_TRUTH, TRUTH

MESSAGES = {"responses": "input", "anthropic": "messages", "gemini": "contents"}
CLAUDE = [
    {"role": "user", "content": "Weather in Paris and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two calls.", "signature": "c2ln"},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}},
            {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": "rain", "is_error": False},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sun"}]},
            {"type": "text", "text": "And tomorrow?"},
        ],
    },
]
REPLY = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vh"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "weather", "arguments": "{}"},
]
OUTPUTS = [{"type": "function_call_output", "call_id": call, "output": "sun"} for call in ("c1", "c2")]
SEARCH = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "text", "text": "Found."},
    ],
}


async def test_a_turn_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Anthropic's messages, appended one by one, give the same request again, including thinking blocks."""
    for message in CLAUDE:
        await append(client, conversation, message, format="anthropic")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic", reasoning="all")

    assert made["request"]["messages"] == CLAUDE
    assert made["kept"]["messages"] == 5


async def test_one_message_is_several_entries(client: httpx.AsyncClient, conversation: str) -> None:
    """An entry that becomes several messages gives them ids derived from its own, and is stored once when sent twice."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    entry = {"id": "m-7", "message": CLAUDE[2], "metadata": {"k": 1}}

    first = await append(client, conversation, entry, format="anthropic")
    again = await append(client, conversation, entry, format="anthropic")

    assert [message["id"] for message in first["messages"]] == ["m-7", "m-7.1", "m-7.2"]
    assert (first["first_seq"], first["last_seq"]) == (3, 5)
    assert all(message["duplicate"] for message in again["messages"])
    assert len(await history(client, conversation)) == 5


async def test_other_content_under_an_id_is_a_conflict(client: httpx.AsyncClient, conversation: str) -> None:
    """Missing or different blocks under a known id are 409, and the error points to the client's entry."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    await append(client, conversation, {"id": "m-7", "message": CLAUDE[2]}, format="anthropic")
    blocks: Any = CLAUDE[2]["content"]
    other = {"type": "text", "text": "And on Sunday?"}
    for changed in (blocks[:2], [*blocks[:2], other], [*blocks[1:]]):
        entry = {"id": "m-7", "message": {"role": "user", "content": changed}}
        answer = await client.post(
            f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [entry]}
        )
        assert problem(answer, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/0/id"


@pytest.mark.parametrize("wrapped", ["bare", "each", "together"])
async def test_items_of_a_reply_join(client: httpx.AsyncClient, conversation: str, wrapped: str) -> None:
    """Items of one reply become one message with two calls, sent bare, each in an entry or all in one entry."""
    entries: list[Any] = [{"role": "user", "content": "Weather?"}]
    match wrapped:
        case "bare":
            entries += REPLY
        case "each":
            entries += [{"id": f"m-{index}", "message": item} for index, item in enumerate(REPLY)]
        case _:
            entries.append({"id": "m-0", "message": REPLY})

    body = await append(client, conversation, *entries, format="responses")
    await append(client, conversation, *OUTPUTS, format="responses")

    assert len(body["messages"]) == 2
    assert wrapped == "bare" or body["messages"][1]["id"] == "m-0"
    made = await window(client, conversation, model="gpt-5", format="responses")
    assert made["request"]["input"] == [entries[0], *REPLY, *OUTPUTS]


@pytest.mark.parametrize("form", ["responses", "gemini"])
async def test_results_of_parallel_calls_come_one_by_one(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """Results may be appended in separate requests, the last call's first; Gemini gets them as one content, as required."""
    question: Any = {"role": "user", "content": "Weather?"}
    calls, results = REPLY, OUTPUTS[::-1]
    if form == "gemini":
        names = {"name": "weather", "id": "c1"}, {"name": "weather", "id": "c2"}
        question = {"role": "user", "parts": [{"text": "Weather?"}]}
        calls = [{"role": "model", "parts": [{"functionCall": each} for each in names]}]
        results = [{"role": "user", "parts": [{"functionResponse": {**each, "response": {}}}]} for each in names[::-1]]
    await append(client, conversation, question, *calls, format=form)
    for each in results:
        await append(client, conversation, each, format=form)

    made = await window(client, conversation, model="gpt-5", format=form)

    if form == "gemini":
        results = [{"role": "user", "parts": [each["parts"][0] for each in results]}]
    assert made["request"][MESSAGES[form]] == [question, *calls, *results]


async def test_a_reply_comes_item_by_item(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply in progress is replaced by one with one item more; its calls accept results once it is complete."""
    question = {"role": "user", "content": "Weather?"}
    await append(client, conversation, question, format="responses")
    for count, status in ((1, "in_progress"), (2, "in_progress"), (3, "completed")):
        entry = {"id": "r-1", "status": status, "message": REPLY[:count]}
        await append(client, conversation, entry, format="responses")
    await append(client, conversation, *OUTPUTS, format="responses")

    made = await window(client, conversation, model="gpt-5", format="responses")

    assert made["request"]["input"] == [question, *REPLY, *OUTPUTS]


async def test_calls_of_a_reply_that_come_apart_are_not_joined(client: httpx.AsyncClient, conversation: str) -> None:
    """If the calls of a reply arrive in two requests, the first call's result is refused, with advice on ``in_progress``."""
    await append(client, conversation, {"role": "user", "content": "Weather?"}, *REPLY[:2], format="responses")
    await append(client, conversation, REPLY[2], format="responses")

    answer = await client.post(f"/conversations/{conversation}/messages?format=responses", json={"messages": OUTPUTS})

    assert "followed by other messages or calls" in problem(answer, 422, "orphan-tool-result")["detail"]
    advice = (await client.get("/problems/orphan-tool-result", headers={"accept": "application/json"})).text
    assert "in_progress" in advice


async def test_a_wrong_block_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A block that its provider would refuse is 400; the error points to the block, and nothing is stored."""
    wrong = {"role": "user", "content": [{"type": "tool_result", "content": "sun"}]}
    answer = await client.post(
        f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [CLAUDE[0], {"message": wrong}]}
    )

    body = problem(answer, 400, "invalid-entry")
    assert body["errors"][0]["pointer"].startswith("#/messages/1/message/content/0")
    assert await history(client, conversation) == []


async def test_an_orphan_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A result without its call is 422; the error points to the client's entry, not to a message derived from it."""
    answer = await client.post(
        f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [CLAUDE[0], CLAUDE[2]]}
    )

    assert problem(answer, 422, "orphan-tool-result")["errors"][0]["pointer"].startswith("#/messages/1/")
    assert await history(client, conversation) == []


async def test_what_cannot_be_carried_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A provider's hosted search is in windows of its own format; a window in any other format is 422 and names it."""
    await append(client, conversation, CLAUDE[0], SEARCH, format="anthropic")

    own = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert own["request"]["messages"][1] == SEARCH
    for form in ("openai", "responses", "gemini"):
        answer = await client.get(f"/conversations/{conversation}/window?model=gpt-4o&format={form}")
        body = problem(answer, 422, "format-cannot-carry")
        assert body["errors"][0]["pointer"] == "#/messages/2"
        assert "server_tool_use" in body["errors"][0]["detail"]


async def test_chat_and_native_in_one_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """A result in chat format answers a call in Anthropic's format, and chat windows hold no ``native`` member."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    await append(client, conversation, result("t1"), result("t2"), user("And tomorrow?"))

    claude = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    chat = await window(client, conversation)

    assert claude["request"]["messages"][:2] == CLAUDE[:2]
    assert [block["type"] for block in claude["request"]["messages"][2]["content"]] == ["tool_result"] * 2 + ["text"]
    assert [message["role"] for message in chat["request"]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert "native" not in json.dumps(chat["request"])
    assert claude["tokens"]["total"] > 0


async def test_documents_join_what_came(client: httpx.AsyncClient, conversation: str) -> None:
    """The documents of a question in Anthropic's format become a further block of its content."""
    blocks = [{"type": "text", "text": "What"}, {"type": "text", "text": " now?"}]
    entry = {"message": {"role": "user", "content": blocks}, "grounding": {"documents": [{"text": "A talk."}]}}
    await append(client, conversation, entry, format="anthropic")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")

    (message,) = made["request"]["messages"]
    assert message["content"][:2] == blocks
    assert "A talk." in message["content"][-1]["text"]


async def test_an_export_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """An export with messages in a provider's format is imported unchanged; one with a forged ``native`` member is 400."""
    await append(client, conversation, *CLAUDE, SEARCH, format="anthropic")
    lines = (await client.get(f"/conversations/{conversation}/export")).text
    headers = {"content-type": "application/x-ndjson"}

    answer = await client.post(f"/conversations/import?id={conversation}-2", content=lines, headers=headers)
    assert answer.status_code == 201, answer.text

    made = await window(client, f"{conversation}-2", model="claude-sonnet-4-5", format="anthropic")
    assert made["request"]["messages"] == [*CLAUDE, SEARCH]
    forged = lines.replace('"Two calls."', "5")
    answer = await client.post(f"/conversations/import?id={conversation}-3", content=forged, headers=headers)
    assert answer.status_code == 400


async def test_a_redacted_message_keeps_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting messages also removes the content that only their provider's format has."""
    await append(client, conversation, *CLAUDE, format="anthropic")
    for seq in (2, 3, 5):
        assert (await client.delete(f"/conversations/{conversation}/messages/{seq}")).status_code in (200, 204)

    text = json.dumps(await history(client, conversation))
    assert not any(word in text for word in ("Two calls", "c2ln", "rain", "tomorrow"))
    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert [message["role"] for message in made["request"]["messages"]][:3] == ["user", "assistant", "user"]


async def test_bound_thoughts_are_left_out_behind_a_redacted_message(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """After an earlier message is redacted, windows leave out thoughts if the model checks what precedes them."""
    await append(client, conversation, *CLAUDE, format="anthropic")
    asked = {"model": "claude-opus-5-5", "format": "anthropic", "reasoning": "all"}
    assert (await window(client, conversation, **asked))["tokens"]["reasoning"] > 0

    await client.delete(f"/conversations/{conversation}/messages/1")

    assert (await window(client, conversation, **asked))["tokens"]["reasoning"] == 0


async def test_a_client_that_makes_up_a_native_member(client: httpx.AsyncClient, conversation: str) -> None:
    """A message with a client's own ``native`` member is 400, because Sash uses that name."""
    entry = {"message": {"role": "user", "content": "Hello", "native": {"a": 1}}}
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})

    assert problem(answer, 400, "invalid-entry")["errors"][0]["pointer"] == "#/messages/0/message/native"


async def test_a_window_of_a_body(client: httpx.AsyncClient) -> None:
    """POST /window reads the body's messages in the query's form, and answers in it unless the body names another."""
    body = {"model": "claude-sonnet-4-5", "messages": CLAUDE}

    same = (await client.post("/window?format=anthropic", json=body)).json()
    chat = (await client.post("/window?format=anthropic", json={**body, "format": "openai"})).json()

    assert same["request"]["messages"] == CLAUDE
    assert [message["role"] for message in chat["request"]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert same["tokens"]["total"] > chat["tokens"]["total"]


def recorded(name: str) -> list[Any]:
    return json.loads((TRUTH / f"{name}.json").read_text()) if TRUTH.is_dir() else []


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize(
    ("name", "form"), [("more_anthropic", "anthropic"), ("more_gemini", "gemini"), ("kani_responses", "responses")]
)
async def test_recorded_conversations(client: httpx.AsyncClient, name: str, form: str) -> None:
    """At least 95% of recorded conversations, appended turn by turn, give the request that was really sent."""
    equal, rows, unequal = 0, recorded(name), []
    for index, row in enumerate(rows):
        wanted = row["request"][MESSAGES[form]]
        made: Any = None
        for turn in turns_of(wanted):
            answer = await client.post(
                f"/conversations/recorded-{form}-{index}/messages?format={form}&model={row['model']}&max_tokens=10000000&reasoning=all",
                json={"messages": turn},
            )
            made = answer.json()
            if answer.status_code != 201:
                break
        if made.get("window") and made["window"]["request"][MESSAGES[form]] == wanted:
            equal += 1
        else:
            unequal.append((row["id"], made.get("detail") or made.get("window_error")))
    print(f"{form}: {equal} of {len(rows)} equal", unequal)
    assert equal >= 0.95 * len(rows)


def turns_of(messages: list[Any]) -> list[list[Any]]:
    """Return the messages in the groups in which a client appends them: the model's and the others, in turn."""
    turns: list[list[Any]] = []
    for message in messages:
        own = message.get("role") in ("assistant", "model") or message.get("type") in ("reasoning", "function_call")
        if turns and turns[-1][0] == own:
            turns[-1][1].append(message)
        else:
            turns.append([own, [message]])
    return [turn for _, turn in turns]
