"""Documents with levels, documents that are never cut, turns, and the error about documents, over HTTP."""

import json
from typing import Any

import httpx
import pytest
from readme_blocks import block
from rigs.dialogue import append, assistant, problem, user, window

MODEL = "gpt-4o-mini"


def talks(count: int, words: int = 60) -> list[dict[str, Any]]:
    """Return sessions of a conference: each with its title, and its title with a description."""
    return [
        {"id": f"s-{n}", "text": f"Talk {n}: " + "about builds " * words, "short": f"Talk {n}: Room {n}"}
        for n in range(count)
    ]


def asking(text: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    return user(text, grounding={"documents": documents})


async def windows_of(client: httpx.AsyncClient, conversation: str, entry: dict[str, Any], **query: Any) -> list[Any]:
    """Return the window of a question by each way to ask for it: it is the same by all."""
    path = f"/conversations/{conversation}"
    appended = await client.post(f"{path}/messages", params={"model": MODEL, **query}, json={"messages": [entry]})
    read = await client.get(f"{path}/window", params={"model": MODEL, **query})
    built = await client.post("/window", json={"model": MODEL, "messages": [entry], **query})
    found = [appended.json()["window"], read.json(), built.json()]
    counted = await client.post("/count", json={"model": MODEL, **found[1]["request"]})
    assert counted.json()["tokens"] == found[1]["tokens"]["total"]
    return [[each[name] for name in ("tokens", "grounding", "request", "stop_reason")] for each in found]


@pytest.mark.parametrize("budget", [60, 100, 160, 260, 380, 2000])
@pytest.mark.parametrize("overflow", ["trim", "whole"])
async def test_a_window_is_the_same_by_every_way(
    client: httpx.AsyncClient, conversation: str, budget: int, overflow: str
) -> None:
    """Append, GET, and POST /window choose the same levels, and /count counts what they send."""
    query = {"max_tokens": budget, "grounding_overflow": overflow}
    first, *others = await windows_of(client, conversation, asking("which?", talks(5)), **query)
    assert others == [first, first]
    assert first[0]["total"] <= budget


async def test_shorter_levels_are_sent_before_any_document_is_left_out(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Where whole documents do not fit, each is sent with its short text, and the first ones whole while they fit."""
    await append(client, conversation, asking("which?", talks(5)))

    told = await window(client, conversation, max_tokens=240, explain="true")

    documents = told["explain"][0]["documents"]
    assert [(each["id"], each["outcome"], each["reason"]) for each in documents] == [
        ("s-0", "sent", "fits"),
        *((f"s-{n}", "sent", "level 2 of 2 fits") for n in range(1, 5)),
    ]
    assert told["grounding"] == {"documents": 5, "documents_kept": 5, "documents_shortened": 4, "truncated": True}
    text = told["request"]["messages"][0]["content"]
    assert text.count("Talk ") == 5
    assert text.endswith("Talk 4: Room 4")


async def test_levels_are_another_way_to_write_it(client: httpx.AsyncClient, conversation: str) -> None:
    """``levels`` has all texts of a document, or those after ``text``; both are the same document, and come back as one."""
    ways: list[dict[str, Any]] = [
        {"id": "a", "levels": ["The whole description", "A description", "Title"]},
        {"id": "a", "text": "The whole description", "levels": ["A description", "Title"]},
        {"id": "a", "text": "The whole description", "levels": ["A description"], "short": "Title"},
    ]
    for number, way in enumerate(ways):
        body = {"messages": [{**asking("which?", [way]), "id": "q"}]}
        answer = await client.post(f"/conversations/{conversation}/messages", json=body)
        assert answer.json()["messages"][0]["duplicate"] == (number > 0)

    (stored,) = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]

    assert stored["grounding"]["documents"] == [ways[1]]
    body = {"messages": [{**asking("which?", [{"id": "a", "text": "The whole description"}]), "id": "q"}]}
    assert (await client.post(f"/conversations/{conversation}/messages", json=body)).status_code == 409


async def test_levels_go_through_export_and_import(client: httpx.AsyncClient, conversation: str) -> None:
    """An imported export has the same documents with the same levels, and the same windows."""
    two = {"text": "Without levels"}
    many = {"id": "m", "text": "Long " * 90, "levels": ["Middle " * 20, "Little"]}
    await append(client, conversation, asking("which?", [*talks(2), two, many]))
    exported = (await client.get(f"/conversations/{conversation}/export")).text
    before = await window(client, conversation, max_tokens=100)
    await client.delete(f"/conversations/{conversation}")

    lines = {"Content-Type": "application/x-ndjson"}
    await client.post("/conversations/import", content=exported, headers=lines)

    assert (await client.get(f"/conversations/{conversation}/export")).text.splitlines()[1:] == exported.splitlines()[
        1:
    ]
    assert (await window(client, conversation, max_tokens=100))["request"] == before["request"]
    entry = json.loads(exported.splitlines()[1])
    assert entry["grounding"]["documents"] == [*talks(2), two, many]


@pytest.mark.parametrize("document", [{}, {"id": "a"}, {"short": "x"}, {"levels": []}, {"text": None}, {"levels": [1]}])
async def test_a_document_without_a_text(
    client: httpx.AsyncClient, conversation: str, document: dict[str, Any]
) -> None:
    """A document needs a text, and nothing is stored without it."""
    body = {"messages": [asking("which?", [{"text": "x"}, document])]}
    answer = await client.post(f"/conversations/{conversation}/messages", json=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"].startswith("#/messages/0/grounding/documents/1")
    assert (await client.get(f"/conversations/{conversation}")).status_code == 404


async def test_documents_that_do_not_fit_are_a_problem_of_their_own(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """With ``error``, documents that do not fit are told from a message that is too long, by every way to ask."""
    entry = asking("which?", [{"text": "word " * 100}])
    query = {"model": MODEL, "max_tokens": "60", "grounding_overflow": "error"}
    path = f"/conversations/{conversation}"
    appended = await client.post(f"{path}/messages", params=query, json={"messages": [entry]})
    why = appended.json()["window_error"]
    assert (appended.status_code, why["type"]) == (201, "/problems/grounding-does-not-fit")

    read = problem(await client.get(f"{path}/window", params=query), 422, "grounding-does-not-fit")
    body = {**query, "max_tokens": 60, "messages": [entry]}
    built = problem(await client.post("/window", json=body), 422, "grounding-does-not-fit")

    assert read["costs"] == built["costs"] == why["costs"]
    assert read["needed"] - read["shortfall"] == read["budget"] == 60
    assert "documents" in read["detail"]
    page = await client.get(read["type"], headers={"Accept": "text/html"})
    assert page.status_code == 200

    tiny = await client.get(f"{path}/window", params={**query, "max_tokens": "5"})
    problem(tiny, 422, "window-does-not-fit")
    short = asking("which?", [{"text": "word " * 100, "short": "word"}])
    fits = await client.post("/window", json={**body, "messages": [short]})
    assert fits.json()["grounding"]["documents_shortened"] == 1


async def test_the_pages_example(client: httpx.AsyncClient, conversation: str) -> None:
    """The example of the page on documents is sent as the page says: at its shortest levels, and lengthened in order."""
    example = json.loads(block("json", "service/sash/windows/README.md", "## Levels of documents"))
    await append(client, conversation, *example["messages"])
    sources = {}
    for budget in range(20, 90):
        told = await window(client, conversation, max_tokens=budget, grounding_overflow="whole")
        content = told["request"]["messages"][0]["content"]
        sources[content.partition("Sources:\n")[2]] = budget
    assert [each.split("\n---\n") for each in sources] == [
        [""],
        ["Network latency. Robertson 2, 12:10"],
        ["Network latency. Robertson 2, 12:10", "Compose"],
        [documents(example)[0]["text"], "Compose"],
        [documents(example)[0]["text"], "Compose. Fisher East, 13:30"],
        [documents(example)[0]["text"], documents(example)[1]["levels"][0]],
    ]


def documents(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the documents of a body's first message."""
    found: list[dict[str, Any]] = body["messages"][0]["grounding"]["documents"]
    return found


async def test_turns(client: httpx.AsyncClient, conversation: str) -> None:
    """``turns=2`` sends the last two user messages with what follows them, by every way to ask."""
    entries = [each for n in range(300) for each in (user(f"question {n}"), assistant(f"answer {n}"))]
    for start in range(0, 600, 100):
        await append(client, conversation, *entries[start : start + 100])

    read = await window(client, conversation, turns=2)
    built = await client.post("/window", json={"model": MODEL, "messages": entries, "turns": 2})

    assert [each["content"] for each in read["request"]["messages"]] == [
        "question 298",
        "answer 298",
        "question 299",
        "answer 299",
    ]
    assert (read["stop_reason"], read["kept"]["messages"], read["dropped"]["messages"]) == ("limit", 4, 596)
    assert built.json()["request"] == read["request"]
    assert (await window(client, conversation, turns=1, max_tokens=20, reserve=0))["kept"]["messages"] == 2
    both = await window(client, conversation, turns=2, limit=3)
    assert both["kept"]["messages"] == 3


async def test_turns_of_a_long_turn(client: httpx.AsyncClient, conversation: str) -> None:
    """A turn whose question is far before the newest messages is whole, if it fits."""
    await append(client, conversation, user("before"), assistant("yes"), user("write a book"))
    for start in range(0, 300, 100):
        await append(client, conversation, *(assistant(f"chapter {start + n}") for n in range(100)))

    whole = await window(client, conversation, turns=1)

    assert (whole["kept"]["first_seq"], whole["kept"]["messages"], whole["stop_reason"]) == (3, 301, "limit")
    assert (await window(client, conversation, turns=2))["stop_reason"] == "complete"
