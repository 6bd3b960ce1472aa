"""Windows over HTTP: the fields of the answer, each parameter, and token figures that match the request."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, contents, etag_of, result, user, window

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
DOCUMENTS = [
    {"id": f"s-{n}", "text": f"Source {n} says that the moon is {n} times as far away as it seems."} for n in range(6)
]
TURNS = [
    user("What is in the fridge? " * 4),
    assistant("Milk, eggs and an onion. " * 5),
    user("Look again.", grounding={"documents": DOCUMENTS}),
    calling("a", "b"),
    result("a", "milk " * 10),
    result("b", "eggs " * 10),
    assistant("Milk and eggs."),
    user("How far is the moon?", grounding={"documents": DOCUMENTS[::-1]}),
]


async def begun(client: httpx.AsyncClient, conversation: str, **settings: Any) -> None:
    """Create a conversation with all parts of a window: system prompt, tools, few-shot messages, tool group, grounding."""
    settings = {"system": "Be brief.", "tools": TOOLS, "few_shots": [user("1+1?")["message"]], **settings}
    await client.post("/conversations", json={"id": conversation, **settings})
    await append(client, conversation, *TURNS)


async def test_everything_fits(client: httpx.AsyncClient, conversation: str) -> None:
    """A window with room for everything holds the fixed parts and all messages, in order and unchanged."""
    await begun(client, conversation)

    body = await window(client, conversation, grounding="none")

    sent = body["request"]["messages"]
    assert sent[:2] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    assert sent[2:] == [turn["message"] for turn in TURNS]
    assert body["request"]["tools"] == TOOLS
    assert set(body["request"]) == {"messages", "tools"}
    assert body["stop_reason"] == "complete"
    assert body["kept"] == {"messages": 8, "first_seq": 1, "last_seq": 8}
    assert body["dropped"]["messages"] == body["dropped"]["tokens"] == 0


async def test_the_answer_names_model_and_budget(client: httpx.AsyncClient, conversation: str) -> None:
    """The answer names its model and version, and the figures from which its budget is computed."""
    await begun(client, conversation)

    answer = await client.get(f"/conversations/{conversation}/window?model=gpt-4o-mini&reserve=1000&max_tokens=900")

    assert answer.headers["etag"] == await etag_of(client, conversation)
    body = answer.json()
    expected = {
        "conversation_id": conversation,
        "version": 2,
        "etag": answer.headers["etag"],
        "model": "gpt-4o-mini",
        "encoding": "o200k_base",
        "exact": True,
        "context_window": 128_000,
        "max_input_tokens": 128_000,
        "reserve": 1000,
        "budget": 900,
    }
    assert {name: body[name] for name in expected} == expected
    assert (await window(client, conversation, reserve=28_000))["budget"] == 100_000
    assert (await window(client, conversation))["budget"] == 128_000 - 1024


async def test_the_conversation_has_defaults(client: httpx.AsyncClient, conversation: str) -> None:
    """Model and reserve come from the conversation unless the query names others."""
    await begun(client, conversation, model="gpt-4", reserve=192)
    path = f"/conversations/{conversation}/window"

    own = (await client.get(path)).json()
    other = (await client.get(f"{path}?model=gpt-4o&reserve=0")).json()

    assert (own["model"], own["encoding"], own["budget"]) == ("gpt-4", "cl100k_base", 8000)
    assert (other["model"], other["encoding"], other["budget"]) == ("gpt-4o", "o200k_base", 128_000)


MODELS = ("gpt-4o-mini", "gpt-4", "gpt-3.5-turbo-0301", "gpt-5", "o3", "claude-sonnet-4-0")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("max_tokens", [250, 420, 100_000])
@pytest.mark.parametrize("grounding", ["latest", "all", "none"])
async def test_total_is_a_fresh_count(
    client: httpx.AsyncClient, conversation: str, model: str, max_tokens: int, grounding: str
) -> None:
    """The total is the sum of its terms, is within the budget, and equals the count of the request by ``POST /count``."""
    await begun(client, conversation)
    max_tokens += 800 if model.startswith("claude") else 0  # Claude's tool instructions, a fixed cost
    query = {"model": model, "max_tokens": max_tokens, "grounding": grounding, "reserve": 1}

    body = await window(client, conversation, **query)

    counted = (await client.post("/count", json={"model": model, **body["request"]})).json()
    tokens = body["tokens"]
    total = tokens.pop("total")
    assert total == sum(tokens.values())
    assert total <= body["budget"]
    assert total == counted["tokens"]
    assert (tokens["priming"], tokens["tools"]) == (counted["priming"], counted["tools"])


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-5", "claude-sonnet-4-0"])
async def test_results_of_several_calls_cost_one_list(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """The total equals a new count when the results of a pinned old call were appended one by one."""
    await append(client, conversation, user("Both?"), calling("a", "b", pinned=True))
    await append(client, conversation, result("b", "It is on."))
    await append(client, conversation, result("a", '{"at": {"hour": 9}}'))
    for _ in range(4):
        await append(client, conversation, *(assistant("word " * 20) for _ in range(100)))

    body = await window(client, conversation, model=model, max_tokens=1_500, reserve=1)

    counted = (await client.post("/count", json={"model": model, **body["request"]})).json()
    assert [message["role"] for message in body["request"]["messages"][:4]] == ["user", "assistant", "tool", "tool"]
    assert body["dropped"]["messages"] > 300
    assert body["tokens"]["total"] == counted["tokens"] <= body["budget"]


@pytest.mark.parametrize(
    "query",
    [
        {"model": "gpt-4o-mini"},
        {"model": "gpt-4", "max_tokens": 260},
        {"model": "gpt-4o", "limit": 3, "grounding": "all", "explain": "true"},
        {"model": "gpt-4o", "max_tokens": 300, "stable": "true", "stable_step": 0.5, "note": "true"},
        {"model": "gpt-4o", "format": "anthropic", "grounding": "none"},
    ],
)
async def test_append_with_window(client: httpx.AsyncClient, conversation: str, query: dict[str, Any]) -> None:
    """An append with window parameters answers with the same window as a read right after it."""
    await begun(client, conversation)
    entry = user("And the sun?", grounding={"documents": DOCUMENTS})

    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]}, params=query)

    assert answer.status_code == 201
    body = answer.json()
    assert (body["version"], body["first_seq"], body["window"]["version"]) == (3, 9, 3)
    assert body["window"] == await window(client, conversation, **query)
    assert "And the sun?" in answer.text


async def test_append_with_window_begins_a_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """An append with window parameters creates a missing conversation and answers with its window."""
    body = await append(client, conversation, user("hello"), model="gpt-4o")

    assert body["window"]["request"] == {"messages": [{"role": "user", "content": "hello"}]}


async def test_limit(client: httpx.AsyncClient, conversation: str) -> None:
    """``limit`` keeps the last messages and never splits a tool group."""
    await begun(client, conversation)

    two = await window(client, conversation, limit=2, grounding="none")
    four = await window(client, conversation, limit=4, grounding="none")

    assert (two["kept"], two["stop_reason"]) == ({"messages": 2, "first_seq": 7, "last_seq": 8}, "limit")
    assert four["kept"]["first_seq"] in (4, 7)


async def test_overflow(client: httpx.AsyncClient, conversation: str) -> None:
    """``stop`` keeps a contiguous tail; ``skip`` leaves out a message that does not fit and goes on with older ones."""
    await append(client, conversation, user("tiny"), assistant("huge " * 300), user("and now?"))

    stop = await window(client, conversation, max_tokens=100)
    skip = await window(client, conversation, max_tokens=100, overflow="skip")

    assert contents(stop) == ["and now?"]
    assert contents(skip) == ["tiny", "and now?"]
    assert (stop["stop_reason"], stop["dropped"]["messages"], skip["dropped"]["messages"]) == ("budget", 2, 1)


async def test_start(client: httpx.AsyncClient, conversation: str) -> None:
    """``start=user`` makes the history begin with a user message."""
    await append(client, conversation, user("a"), assistant("b"), user("c"), assistant("d"), user("e"))

    assert contents(await window(client, conversation, limit=4)) == ["b", "c", "d", "e"]
    assert contents(await window(client, conversation, limit=4, start="user")) == ["c", "d", "e"]


async def test_note(client: httpx.AsyncClient, conversation: str) -> None:
    """``note`` adds a system message with the number of messages left out, or none if all are in the window."""
    await append(client, conversation, user("a"), assistant("b"), user("c"))

    noted = await window(client, conversation, limit=1, note="true")
    whole = await window(client, conversation, note="true")

    assert [message["role"] for message in noted["request"]["messages"]] == ["system", "user"]
    assert "2" in contents(noted)[0]
    assert contents(whole) == ["a", "b", "c"]


async def test_stable(client: httpx.AsyncClient, conversation: str) -> None:
    """``stable`` moves the cut at most once per step of appended tokens, less than half as often as without it."""
    sliding, stable, tokens = set(), set(), 0
    for n in range(24):
        body = await append(client, conversation, user(f"question {n} " * 4), assistant(f"answer {n} " * 4))
        tokens += sum(message["tokens"]["o200k_base"] for message in body["messages"])
        query = {"max_tokens": 400, "stable_step": 0.5}
        sliding.add((await window(client, conversation, **query))["kept"]["first_seq"])
        stable.add((await window(client, conversation, stable="true", **query))["kept"]["first_seq"])

    assert 1 < len(stable) <= 1 + tokens / 200
    assert len(stable) < len(sliding) / 2


async def test_explain(client: httpx.AsyncClient, conversation: str) -> None:
    """``explain`` adds one line per message; the kept lines match the window's message count and tokens."""
    await begun(client, conversation)

    body = await window(client, conversation, max_tokens=260, explain="true", grounding="none")

    kept = [line for line in body["explain"] if line["kept"]]
    assert len(kept) == body["kept"]["messages"]
    assert sum(line["tokens"] for line in kept) == body["tokens"]["messages"]
    assert {"seq", "role", "tokens", "kept", "reason"} == set(body["explain"][0])
    assert [line["seq"] for line in body["explain"]] == sorted(line["seq"] for line in body["explain"])
    assert "explain" not in await window(client, conversation)


async def test_dedupe(client: httpx.AsyncClient, conversation: str) -> None:
    """``dedupe=messages`` keeps only the newest of identical messages."""
    await append(client, conversation, user("ok"), assistant("a"), user("ok"), assistant("b"), user("end"))

    body = await window(client, conversation, dedupe="messages")

    assert contents(body) == ["a", "ok", "b", "end"]
    assert body["dropped"]["duplicates"] == 1


async def test_system_and_pinned_are_always_in(client: httpx.AsyncClient, conversation: str) -> None:
    """System, developer and pinned messages stay in a small window, wherever they are in the history."""
    await append(
        client,
        conversation,
        {"message": {"role": "system", "content": "law"}},
        user("pinned", pinned=True),
        *[user("filler " * 20) for _ in range(90)],
        {"message": {"role": "developer", "content": "rule"}},
        assistant("filler " * 20),
        user("now"),
    )

    body = await window(client, conversation, max_tokens=40)

    assert contents(body) == ["law", "pinned", "rule", "now"]


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic", "gemini"])
async def test_formats(client: httpx.AsyncClient, conversation: str, name: str) -> None:
    """Each format contains the turns under its provider's field; its total is the count of its request.

    Anthropic's and Gemini's forms join messages, and joined texts cost fewer tokens than each by itself.
    """
    await begun(client, conversation)

    body = await window(client, conversation, format=name, grounding="none")

    key = {"openai": "messages", "responses": "input", "anthropic": "messages", "gemini": "contents"}[name]
    assert "Milk and eggs." in str(body["request"][key])
    assert body["format"] == name
    counted = await client.post(f"/count?format={name}", json={"model": "gpt-4o-mini", **body["request"]})
    assert body["tokens"]["total"] >= counted.json()["tokens"]
    assert name in ("anthropic", "gemini") or body["tokens"]["total"] == counted.json()["tokens"]


async def test_nothing_to_send_yet(client: httpx.AsyncClient, conversation: str) -> None:
    """The window of a conversation without messages holds only its fixed parts."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief."})

    body = await window(client, conversation)

    assert body["request"] == {"messages": [{"role": "system", "content": "Be brief."}]}
    assert body["kept"] == {"messages": 0, "first_seq": None, "last_seq": None}


NDJSON = {"Content-Type": "application/x-ndjson"}


async def test_a_pinned_legacy_call_may_be_answered_later(client: httpx.AsyncClient, conversation: str) -> None:
    """A function's result that is appended later stays in the window with its pinned call."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    path = f"/conversations/{conversation}"
    await client.post(f"{path}/messages", json={"messages": [user("before"), {"message": call, "pinned": True}]})
    found = {"message": {"role": "function", "name": "look", "content": "42"}}
    assert (await client.post(f"{path}/messages", json={"messages": [found]})).status_code == 201
    later = [user(f"later {n}") for n in range(80)]
    assert (await client.post(f"{path}/messages", json={"messages": later})).status_code == 201
    body = (await client.get(f"{path}/window?model=gpt-4o&limit=1")).json()
    assert [message["content"] for message in body["request"]["messages"]] == [None, "42", "later 79"]


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("pinned", ["call", "result"])
async def test_a_pinned_legacy_pair_is_whole(
    client: httpx.AsyncClient, conversation: str, pinned: str, *, moved: bool
) -> None:
    """A pinned function_call or function result keeps the other in the window, also after an export and import."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    path = f"/conversations/{conversation}"
    entries = [
        user("before"),
        {"message": call, "pinned": pinned == "call"},
        {"message": {"role": "function", "name": "look", "content": "42"}, "pinned": pinned == "result"},
        *(user(f"later {n}") for n in range(80)),
    ]
    await client.post(f"{path}/messages", json={"messages": entries})
    if moved:
        lines = (await client.get(f"{path}/export")).content
        assert (await client.delete(path)).status_code == 204
        assert (await client.post("/conversations/import", content=lines, headers=NDJSON)).status_code == 201
    body = (await client.get(f"{path}/window?model=gpt-4o&limit=1")).json()
    assert [message["content"] for message in body["request"]["messages"]] == [None, "42", "later 79"]
