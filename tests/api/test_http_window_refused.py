"""Refused windows: unknown models, invalid parameters, and messages that do not fit."""

import httpx
import pytest
from rigs.dialogue import append, problem, user, window


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("model=gpt4", "unknown-model"),
        ("model=gpt-4&reserve=8192", "unprocessable"),
        ("limit=5", "unprocessable"),
        ("model=gpt-4o&limit=0", "bad-request"),
        ("modle=gpt-4o", "bad-request"),
    ],
)
async def test_a_window_that_cannot_be_asked_for_stores_nothing(
    client: httpx.AsyncClient, conversation: str, query: str, slug: str
) -> None:
    """Window parameters that are wrong for every history are refused before the append, which stores nothing."""
    answer = await client.post(f"/conversations/{conversation}/messages?{query}", json={"messages": [user("x")]})

    assert problem(answer, answer.status_code, slug)["errors"][0]["pointer"].startswith("#/query")
    assert (await client.get(f"/conversations/{conversation}")).status_code == 404


async def test_a_question_that_is_too_long_can_be_replaced(client: httpx.AsyncClient, conversation: str) -> None:
    """The 422 says what it does to later windows, and what helps: a shorter one in its place, or `overflow=skip`."""
    path, query = f"/conversations/{conversation}", {"model": "gpt-4o", "max_tokens": 60}
    await append(client, conversation, user("is there a talk?"), user("word " * 100))

    told = problem(await client.get(f"{path}/window", params=query), 422, "window-does-not-fit")["detail"]

    assert "stored, as message 2. Append a shorter one in its place, with after_seq=1." in told
    await append(client, conversation, user("and then?"))
    kept = [
        (await window(client, conversation, **query, overflow=each))["kept"]["messages"] for each in ("stop", "skip")
    ]
    assert kept == [1, 2]
    shorter = await client.post(
        f"{path}/messages", params={**query, "after_seq": 1}, json={"messages": [user("short")]}
    )
    assert shorter.json()["window"]["kept"]["messages"] == 2
    by_pins = await client.get(f"{path}/window", params={"model": "gpt-4o", "max_tokens": 1})
    assert "stored, as message 2" in by_pins.json()["detail"]
    await client.patch(path, json={"system": "Be brief. " * 50})
    assert "is stored" not in (await client.get(f"{path}/window", params=query)).json()["detail"]


async def test_a_window_that_does_not_fit_says_what_was_stored(client: httpx.AsyncClient, conversation: str) -> None:
    """A turn whose window does not fit is stored once, also when sent twice; the answer says why it has no window."""
    entry = user("word " * 50, id="long")
    path = f"/conversations/{conversation}/messages?model=gpt-4o&max_tokens=20"

    answers = [await client.post(path, json={"messages": [entry]}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 200]
    for answer, duplicate in zip(answers, (False, True), strict=True):
        body = answer.json()
        why = body["window_error"]
        assert (body["window"], body["version"], body["messages"][0]["duplicate"]) == (None, 1, duplicate)
        assert (why["type"], why["status"], why["budget"]) == ("/problems/window-does-not-fit", 422, 20)
        assert why["needed"] - why["budget"] == why["shortfall"] > 0
        assert sum(why["costs"].values()) == why["needed"]


async def test_an_unknown_model_with_its_own_budget(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``max_tokens``, an unknown model gets a window with estimated tokens."""
    await append(client, conversation, user("hello"))

    body = await window(client, conversation, model="our-own-model", max_tokens=500)

    assert (body["exact"], body["context_window"], body["budget"]) == (False, None, 500)


async def test_unknown_models_have_near_names(client: httpx.AsyncClient, conversation: str) -> None:
    """A misspelt model is 422, with similar model names."""
    await append(client, conversation, user("hello"))

    body = problem(await client.get(f"/conversations/{conversation}/window?model=gpt4o"), 422, "unknown-model")

    assert "gpt-4o" in body["near"]


@pytest.mark.parametrize(
    "query",
    ["reserve=-1", "reserve=x", "reserve=1.5", "max_tokens=0", "max_tokens=99999999999999999999", "limit=0", "overflow=x",
     "grounding=some", "grounding_max_tokens=0", "grounding_overflow=x", "dedupe=x", "stable=maybe", "stable_step=nan",
     "stable_step=0.6", "start=1", "summary=x", "note=2", "explain=x", "format=xml", "foo=1"],
)  # fmt: skip
async def test_bad_parameters(client: httpx.AsyncClient, conversation: str, query: str) -> None:
    """An invalid or unknown parameter is 400, and the error names it."""
    await append(client, conversation, user("x"))

    answer = await client.get(f"/conversations/{conversation}/window?model=gpt-4o&{query}")

    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == f"#/query/{query.partition('=')[0]}"


@pytest.mark.parametrize(
    "query", ["model=gpt-4&reserve=8192", "model=gpt-4&reserve=100000", "model=gpt-4o&reserve=128000"]
)
async def test_reserve_over_the_context_window(client: httpx.AsyncClient, conversation: str, query: str) -> None:
    """A reserve that leaves no budget is 422, with the reserve and the context window."""
    await append(client, conversation, user("x"))

    body = problem(await client.get(f"/conversations/{conversation}/window?{query}"), 422, "unprocessable")

    assert body["errors"][0]["pointer"] == "#/query/reserve"
    assert body["reserve"] >= body["context_window"]
