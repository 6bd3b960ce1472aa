"""POST /window gives the same window as a stored conversation with the same history, also for real conversations."""

import json
from typing import Any

import httpx
import pytest
from recordings import DATA, NO_DATA
from rigs.dialogue import append, calling, problem, result, user, window

SETTINGS = ("system", "few_shots", "tools", "tool_choice", "grounding_template", "document_separator")
BATCH = 100
VARIANTS: list[dict[str, Any]] = [
    {"model": "gpt-4o-mini"},
    {"model": "gpt-4o-mini", "max_tokens": 1000, "explain": True},
    {"model": "gpt-4", "max_tokens": 700, "grounding": "all", "overflow": "skip", "dedupe": "messages"},
    {"model": "gpt-5", "max_tokens": 900, "stable": True, "note": True, "grounding_max_tokens": 100},
]


async def store(client: httpx.AsyncClient, conversation: str, given: dict[str, Any]) -> None:
    """Store a history, in batches."""
    settings = {name: given[name] for name in SETTINGS if name in given}
    created = await client.post("/conversations", json={"id": conversation, **settings})
    assert created.status_code == 201, created.text
    for at in range(0, len(given["entries"]), BATCH):
        await append(client, conversation, *given["entries"][at : at + BATCH])


async def both(
    client: httpx.AsyncClient, conversation: str, given: dict[str, Any], query: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the windows of a history when stored and when in a body, without members that only a stored one has."""
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
    stored = await window(client, conversation, **words)
    body = {name: given[name] for name in SETTINGS if name in given}
    answer = await client.post(
        "/window", json={**query, **body, "conversation_id": conversation, "messages": given["entries"]}
    )
    assert answer.status_code == 200, answer.text
    sent: dict[str, Any] = answer.json()
    assert (stored.pop("conversation_id"), stored.pop("version") > 1) == (conversation, True)
    assert (sent.pop("conversation_id"), sent.pop("version"), sent.pop("etag")) == (None, None, None)
    assert (stored.pop("etag"), stored.pop("receipt")) != ("", "")
    if "explain" in stored:  # the stored window explains only entries that the server read
        sent["explain"] = sent["explain"][-len(stored["explain"]) :]
    return stored, sent


@pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", [path.stem for path in sorted(DATA.glob("*.jsonl"))] or ["none"])
async def test_real_conversations(client: httpx.AsyncClient, name: str, part: int) -> None:
    """Every real conversation has the same window stored and in a body, and its total is /count of its request."""
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    for place, line in list(enumerate(lines))[part::4]:
        given = json.loads(line)
        given.setdefault("entries", given.get("messages"))
        await store(client, given["id"], given)
        query = VARIANTS[place // 4 % len(VARIANTS)]

        stored, sent = await both(client, given["id"], given, query)

        assert stored == sent, given["id"]
        counted = await client.post("/count", json={"model": query["model"], **sent["request"]})
        assert sent["tokens"]["total"] == counted.json()["tokens"] <= sent["budget"], given["id"]


HISTORY: dict[str, Any] = {
    "system": "Be brief.",
    "few_shots": [user("1+1?")["message"], {"role": "assistant", "content": "2"}],
    "tools": [{"type": "function", "function": {"name": "look", "description": "Look it up"}}],
    "tool_choice": "auto",
    "grounding_template": "{documents}\n\n{content}",
    "document_separator": " | ",
    "entries": [
        user("first", id="a"),
        {"message": {"role": "system", "content": "A rule from the middle."}, "id": "b"},
        calling("x", "y", id="c"),
        result("y", "é" * 30, id="d"),
        result("x", "", id="e"),
        user("pinned", pinned=True, id="f"),
        user("asked", grounding={"documents": [{"text": "one " * 30, "id": "1"}, {"text": "two " * 30}]}, id="g"),
        {"message": {"role": "user", "content": [{"type": "text", "text": "a picture"}]}, "image_sizes": [[640, 480]]},
        user("first", id="h"),
        calling("z", id="i"),
        result("z", id="j"),
    ],
}
QUERIES: list[dict[str, Any]] = [
    *VARIANTS,
    {"model": "gpt-4o", "limit": 4, "start": "user"},
    {"model": "gpt-4o", "grounding": "all", "grounding_overflow": "drop", "grounding_max_tokens": 20},
    {"model": "gpt-4o", "max_tokens": 260, "grounding_overflow": "trim", "explain": True},
    {"model": "gpt-4o", "format": "anthropic", "summary": "never"},
    {"model": "gpt-4o", "format": "responses"},
    {"model": "gpt-4o", "format": "gemini"},
    {"model": "our-own", "max_tokens": 400},
]


@pytest.mark.parametrize("query", QUERIES)
async def test_the_same_both_ways(client: httpx.AsyncClient, conversation: str, query: dict[str, Any]) -> None:
    """With each of these queries, a history in the body gives the same window as the stored one."""
    await store(client, conversation, HISTORY)

    stored, sent = await both(client, conversation, HISTORY, query)

    assert stored == sent


async def test_nothing_is_stored(client: httpx.AsyncClient, server: Any) -> None:
    """A window of a history in the body stores nothing."""
    before = set(server.scan_iter("sash:{default/*"))

    await client.post("/window", json={"model": "gpt-4o", "messages": [user("x", id="a")]})

    assert set(server.scan_iter("sash:{default/*")) == before


async def test_an_empty_history(client: httpx.AsyncClient) -> None:
    """An empty history gives a window of the fixed parts."""
    answer = await client.post("/window", json={"model": "gpt-4o", "system": "s", "messages": []})

    assert answer.json()["request"] == {"messages": [{"role": "system", "content": "s"}]}


@pytest.mark.parametrize(
    ("body", "status", "slug", "pointer"),
    [
        ({"messages": [result("x")]}, 422, "orphan-tool-result", "#/messages/0/message/tool_call_id"),
        ({"messages": [user("a", id="1"), user("b", id="1")]}, 409, "entry-conflict", "#/messages/1/id"),
        ({"messages": [{"message": {"role": "user"}}]}, 400, "invalid-entry", "#/messages/0/message"),
        ({"messages": [], "few_shots": [{"role": "x"}]}, 400, "invalid-entry", "#/few_shots/0/role"),
        ({"messages": [], "tools": [{}]}, 400, "bad-request", "#/tools/0"),
        ({"messages": [], "grounding_template": "x"}, 400, "bad-request", "#/grounding_template"),
        ({"messages": [], "reserve": 200_000}, 422, "unprocessable", "#/reserve"),
        ({"messages": [], "model": "gpt4"}, 422, "unknown-model", "#/model"),
        ({"messages": [], "model": None}, 422, "unprocessable", "#/model"),
        ({"messages": [], "stable_step": "nan"}, 400, "bad-request", "#/stable_step"),
        ({"messages": [], "id": "c-1"}, 400, "bad-request", "#/id"),
        ({}, 400, "bad-request", "#"),
    ],
)
async def test_refused(client: httpx.AsyncClient, body: dict[str, Any], status: int, slug: str, pointer: str) -> None:
    """An error in a body has a pointer to its place in that body."""
    answer = await client.post("/window", json={"model": "gpt-4o", **body})

    assert problem(answer, status, slug)["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "parameters",
    [{"model": "gpt-4o"}, {"model": "gpt-4o", "limit": 1, "explain": "true"}, {"max_tokens": 50, "model": "gpt-4o"}],
)
async def test_parameters_may_stand_in_the_address(client: httpx.AsyncClient, parameters: dict[str, Any]) -> None:
    """A window of a history in the body is the same with its parameters in the address, in the body, or in both."""
    body = {"messages": [{"role": "user", "content": text} for text in ("Hello", "And now?")]}
    inside = body | {name: value == "true" if name == "explain" else value for name, value in parameters.items()}

    beside = (await client.post("/window", params=parameters, json=body)).json()

    assert beside == (await client.post("/window", json=inside)).json()
    assert beside == (await client.post("/window", params=parameters, json=inside)).json()


@pytest.mark.parametrize("path", ["/window/c-1/window", "/owners/o-1/window", "/window/x/messages"])
async def test_a_path_that_only_looks_like_one_is_not_found(client: httpx.AsyncClient, path: str) -> None:
    """Words of paths in other places are no path: 404, and no fault."""
    assert (await client.post(path, json={"model": "gpt-4o-mini", "messages": []})).status_code == 404
