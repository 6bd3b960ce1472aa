"""POST /count and the models, over HTTP."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import problem

QUESTION = {"role": "user", "content": "is there a talk about gradle?"}
LOOK = {"name": "look", "description": "Look it up", "parameters": {"type": "object", "properties": {}}}


async def count(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """Return a count; the request must succeed."""
    answer = await client.post("/count", json={"model": "gpt-4o-mini", **body})
    assert answer.status_code == 200, answer.text
    counted: dict[str, Any] = answer.json()
    return counted


async def test_a_request(client: httpx.AsyncClient) -> None:
    """The count of a request has its priming, its tools and each message, and their sum."""
    system = {"role": "system", "content": "Be brief."}
    tools = [{"type": "function", "function": LOOK}]

    counted = await count(client, messages=[system, QUESTION], tools=tools)

    assert (counted["model"], counted["encoding"], counted["exact"]) == ("gpt-4o-mini", "o200k_base", True)
    assert counted["priming"] == 3
    assert len(counted["messages"]) == 2
    assert counted["tools"] > 9
    assert counted["tokens"] == counted["priming"] + counted["tools"] + sum(counted["messages"])
    assert counted["text"] is None


async def test_plain_text(client: httpx.AsyncClient) -> None:
    """Text without messages is counted as text, and special tokens in it as plain characters."""
    assert (await count(client, text="hello world"))["text"] == 2
    assert (await count(client, text=""))["text"] == 0
    assert (await count(client, text="<|endoftext|>"))["text"] > 1
    assert (await count(client, text="hello"))["messages"] == []


async def test_both(client: httpx.AsyncClient) -> None:
    """Text beside messages is counted separately and is no part of the request's tokens."""
    both = await count(client, messages=[QUESTION], text="hello world")

    assert both == {**await count(client, messages=[QUESTION]), "text": 2}


async def test_the_legacy_pair(client: httpx.AsyncClient) -> None:
    """Functions, the older form of tools, cost what the same tools cost; choosing one by its name costs more."""
    tools = await count(client, messages=[QUESTION], tools=[{"type": "function", "function": LOOK}])
    functions = await count(client, messages=[QUESTION], functions=[LOOK])
    named = await count(client, messages=[QUESTION], functions=[LOOK], function_call={"name": "look"})

    assert functions["tools"] == tools["tools"] < named["tools"]


async def test_a_name_beside_a_function(client: httpx.AsyncClient) -> None:
    """A tool's outer name is free if it repeats the function's; another one costs its tokens, and is no exact count."""
    plain = await count(client, messages=[QUESTION], tools=[{"type": "function", "function": LOOK}])
    repeated = await count(client, messages=[QUESTION], tools=[{"type": "function", "name": "look", "function": LOOK}])
    other = await count(client, messages=[QUESTION], tools=[{"type": "function", "name": "seek", "function": LOOK}])

    assert repeated == plain
    assert plain["exact"]
    assert other["tokens"] > plain["tokens"]
    assert not other["exact"]


async def test_members_of_definitions_that_no_bill_has(client: httpx.AsyncClient) -> None:
    """Unknown members of definitions cost their text and make counts and windows estimates; hints for handling are free."""
    plain, hinted, unknown = (
        {"messages": [QUESTION], "tools": [{"type": "function", "function": LOOK | members}]}
        for members in ({}, {"strict": True, "defer_loading": True}, {"examples": ["one two three"]})
    )
    assert await count(client, **hinted) == await count(client, **plain)
    counted = await count(client, **unknown)
    assert counted["tokens"] == (await count(client, **plain))["tokens"] + 4
    assert not counted["exact"]
    for body, is_exact in ((hinted, True), (unknown, False)):
        window = (await client.post("/window", json={"model": "gpt-4o-mini", **body})).json()
        assert window["exact"] is is_exact


async def test_a_prediction(client: httpx.AsyncClient) -> None:
    """A prediction is counted with the tools, not with the messages."""
    bare = await count(client, messages=[QUESTION])
    expected = await count(client, messages=[QUESTION], prediction={"type": "content", "content": "Yes, at nine."})

    assert expected["messages"] == bare["messages"]
    assert expected["tools"] == 12
    assert expected["tokens"] == bare["tokens"] + 12


async def test_members_that_control_the_reply_are_free(client: httpx.AsyncClient) -> None:
    """A chat request is counted as the SDK sends it: members that only control the reply cost nothing."""
    controls = {
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "stop": ["one", "two"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 100,
        "logit_bias": {"50256": -100},
        "metadata": {"purpose": "a long text that is not sent to the model"},
        "web_search_options": {},
    }
    assert await count(client, messages=[QUESTION], **controls) == await count(client, messages=[QUESTION])


async def test_a_history_as_it_would_be_sent(client: httpx.AsyncClient) -> None:
    """Messages that no conversation would accept, such as a tool result without its call, are counted too."""
    calls = [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    messages = [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "tool", "tool_call_id": "gone", "content": "x"},
        {"role": "function", "name": "look", "content": "x"},
    ]

    assert len((await count(client, messages=messages))["messages"]) == 4


async def test_models(client: httpx.AsyncClient) -> None:
    """A listed model is the same when read by its name; names are unique."""
    models = (await client.get("/models")).json()["models"]
    names = [model["id"] for model in models]

    assert len(names) == len(set(names)) > 100
    assert {"gpt-4o-mini", "gpt-4", "gpt-5", "o3"} <= set(names)
    for model in models[:: len(models) // 40]:
        alone = (await client.get(f"/models/{model['id']}")).json()
        assert alone.pop("destinations") is not None  # told of one model, as its rows are long
        assert alone == {name: value for name, value in model.items() if name != "destinations"}


async def test_one_model(client: httpx.AsyncClient) -> None:
    """A model has its encoding and limits, also under a dated name or one with the provider's prefix."""
    expected = {
        "id": "gpt-4o-mini",
        "provider": "openai",
        "encoding": "o200k_base",
        "exact": True,
        "context_window": 128_000,
        "max_input_tokens": 128_000,
        "max_output_tokens": 16_384,
    }
    for name in ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini"):
        model = (await client.get(f"/models/{name}")).json()
        assert {field: model[field] for field in expected} == {**expected, "id": name}


async def test_a_name_of_a_known_family(client: httpx.AsyncClient) -> None:
    """A name that no source lists has the figures of its relative, which its model and its window name."""
    for name, assumed in (("gpt-4o-eu", "gpt-4o"), ("gpt-7-sol", "gpt-6.2-sol"), ("gpt-4o", None)):
        model = (await client.get(f"/models/{name}")).json()
        like = (await client.get(f"/models/{assumed or name}")).json()
        assert (model["model_assumed"], model["context_window"]) == (assumed, like["context_window"])
        made = await client.post("/window", json={"model": name, "messages": [{"role": "user", "content": "hi"}]})
        assert made.json().get("model_assumed") == assumed


@pytest.mark.parametrize("name", ["qwen3:4b", "accounts/fireworks/models/llama-v3p3-70b-instruct", "gpt-oss:120b"])
async def test_a_name_as_a_seller_spells_it(client: httpx.AsyncClient, name: str) -> None:
    """A window of such a name needs no ``max_tokens``."""
    assert (await client.get(f"/models/{name}")).json()["counting"] in ("estimate", "vocabulary")
    made = await client.post("/window", json={"model": name, "messages": [{"role": "user", "content": "hi"}]})
    assert made.status_code == 200


async def test_a_misspelt_name(client: httpx.AsyncClient) -> None:
    """A name one or two letters from a known one is 422 with it in a window; a count, which sends nothing, is a bound."""
    sent = {"model": "gpt-4o-mni", "messages": [{"role": "user", "content": "hi"}]}
    found = problem(await client.post("/window", json=sent), 422, "unknown-model")
    assert found["near"][0] == "gpt-4o-mini"
    assert (await client.post("/count", json=sent)).json()["exact"] is False


async def test_thinking_is_told_to_claude(client: httpx.AsyncClient) -> None:
    """A gateway's members for thinking add the tokens of Claude's instructions to think, and nothing for others."""
    for model, more in (("anthropic/claude-haiku-4.5", 28), ("gpt-5", 0)):
        sent = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        plain = (await client.post("/count", json=sent)).json()["tokens"]
        for member in ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}):
            assert (await client.post("/count", json=sent | member)).json()["tokens"] == plain + more


@pytest.mark.parametrize(
    ("written", "meant"), [("gpt4o", "gpt-4o"), ("GPT_4o mini", "gpt-4o-mini"), ("o3mini", "o3-mini")]
)
async def test_a_name_with_other_marks_is_counted(client: httpx.AsyncClient, written: str, meant: str) -> None:
    """Counting takes a known name with other marks between its letters and digits, and does not call the count exact."""
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    told = (await client.post("/count", json={"model": written, **asked})).json()
    named = (await client.post("/count", json={"model": meant, **asked})).json()
    assert (told["model"], told["exact"], told["tokens"]) == (written, False, named["tokens"])


async def test_no_such_model(client: httpx.AsyncClient) -> None:
    """An unknown model is 404 as a resource and 422 where a window is asked for, both with similar names."""
    absent = problem(await client.get("/models/gtp-4o"), 404, "not-found")
    asked = problem(await client.post("/window", json={"model": "gtp-4o", "messages": []}), 422, "unknown-model")

    assert "gpt-4o" in absent["near"]
    assert asked["near"] == absent["near"]
    assert asked["errors"][0]["pointer"] == "#/model"


@pytest.mark.parametrize("name", ["gtp-4o", "cluade-opus-4", "no-such-thing", "x"])
async def test_any_name_is_counted(client: httpx.AsyncClient, name: str) -> None:
    """A name that nobody knows, also a misspelling, is answered with a bound, and the answer says that it is one."""
    asked = {"messages": [{"role": "user", "content": "Where is the talk about gradle?"}]}
    told = (await client.post("/count", json={"model": name, **asked})).json()
    known = (await client.post("/count", json={"model": "gpt-4o", **asked})).json()
    assert (told["model"], told["exact"], told["counting"]) == (name, False, "unknown")
    assert told["tokens"] > known["tokens"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"model": None}, "#/model"),
        ({"model": ""}, "#/model"),
        ({"model": "x" * 300}, "#/model"),
        ({"messages": [{"role": "clown", "content": "x"}]}, "#/messages/0/role"),
        ({"messages": [QUESTION, {"message": QUESTION}]}, "#/messages/1"),
        ({"messages": [5]}, "#/messages/0"),
        ({"messages": [], "tools": [{"type": "web"}]}, "#/tools/0/type"),
        ({"messages": [], "tools": [{"type": "function", "function": {"name": ""}}]}, "#/tools/0/function/name"),
        ({"messages": [], "functions": [{"description": "x"}]}, "#/functions/0"),
        ({"messages": [], "functions": [{"name": 5}]}, "#/functions/0/name"),
        ({"messages": [], "tool_choice": 5}, "#/tool_choice"),
        ({"messages": [], "response_format": 5}, "#/response_format"),
        (
            {"messages": [], "response_format": {"type": "json_schema", "json_schema": 5}},
            "#/response_format/json_schema",
        ),
        ({"messages": [], "response_format": {"type": "json_schema"}}, "#/response_format"),
        ({"messages": [], "prediction": "x"}, "#/prediction"),
        ({"text": 5}, "#/text"),
        ({"prompt": "x"}, "#/prompt"),
        ({"mesages": []}, "#/mesages"),
        ({"reponse_format": {}}, "#/reponse_format"),
    ],
)
async def test_bad_requests(client: httpx.AsyncClient, body: dict[str, Any], pointer: str) -> None:
    """A body that cannot be counted is 400 with a pointer to the error."""
    answer = await client.post("/count", json={"model": "gpt-4o", **body})

    assert answer.status_code == 400, answer.text
    assert problem(answer, 400, answer.json()["type"].rpartition("/")[2])["errors"][0]["pointer"] == pointer


SCHEMAS: list[Any] = [
    {"type": 5},
    {"type": []},
    {"properties": 5},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"a": 5, "b": True, "c": None}},
    {"type": "object", "properties": {"a": {"type": ["string", 5, None]}}, "required": 5},
    {"type": "object", "properties": {"a": {"enum": 5}, "b": {"enum": [{}, [], None, 1.5, True]}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": 5}, "b": {"type": "array", "items": [{}]}}},
    {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/x"}, "c": {"$ref": 5}}, "$defs": 5},
    {"type": "object", "properties": {"a": {"description": 5, "title": [], "default": {"x": []}, "examples": 5}}},
    {"type": "object", "properties": {"a": {"oneOf": 5, "anyOf": {}, "allOf": [5]}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("model", ["gpt-4-0613", "gpt-4o", "gpt-5"])
async def test_broken_schemas_are_counted(client: httpx.AsyncClient, model: str, schema: Any) -> None:
    """An invalid schema of a tool or a response format is counted and never fails, as schemas are the client's text."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    body = {"model": model, "messages": [QUESTION], "tools": tools}
    shaped = {"type": "json_schema", "json_schema": {"name": "f", "schema": schema}}

    assert (await count(client, **body))["tools"] > 0
    assert (await count(client, **{**body, "tools": None, "response_format": shaped}))["tokens"] > 0


@pytest.mark.parametrize(
    "choice", [{}, {"type": "function"}, {"type": "function", "function": 5}, "whatever", {"a": []}]
)
async def test_odd_choices_are_counted(client: httpx.AsyncClient, choice: Any) -> None:
    """A tool choice that names no function costs nothing."""
    body: dict[str, Any] = {"messages": [QUESTION], "tools": [{"type": "function", "function": LOOK}]}

    assert await count(client, **body, tool_choice=choice) == await count(client, **body)
