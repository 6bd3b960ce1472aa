"""A long chat with tools and documents, with a window at every turn, in each provider's format."""

import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, result, user

TURNS = (100, pytest.param(300, marks=pytest.mark.nightly))
"""Turns of a chat. A window of the budget holds the newest twenty or so, so a hundred move it eighty times."""
BUDGET = 2_000
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
    }
]


def turn(number: int, random: Random) -> list[dict[str, Any]]:
    """Return a turn: a question, with documents every second time, two rounds of tools every third time, and an answer."""
    words = " ".join(random.choices(("river", "stone", "owl", "lamp", "seven", "north"), k=random.randrange(3, 40)))
    documents = [{"id": f"d{number}-{i}", "text": f"<doc {number}.{i}> " + words} for i in range(3)]
    grounding = {"grounding": {"documents": documents}} if number % 2 else {}
    entries = [user(f"<question {number}> {words}", **grounding)]
    if number % 3 == 0:
        first, second, third = (f"call-{number}-{i}" for i in range(3))
        entries += [calling(first, second, text=f"<looking {number}>"), result(first, words), result(second, "nothing")]
        entries += [calling(third), result(third, words[:30])]
    return [*entries, assistant(f"<answer {number}> {words}")]


def openai_pairs(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    messages = request["messages"]
    made = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    return made, [message["tool_call_id"] for message in messages if message["role"] == "tool"]


def responses_pairs(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    items = request["input"]
    made = [item["call_id"] for item in items if item.get("type") == "function_call"]
    return made, [item["call_id"] for item in items if item.get("type") == "function_call_output"]


def anthropic_pairs(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    roles = [message["role"] for message in request["messages"]]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    blocks = [
        block for message in request["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    made = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return made, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def gemini_pairs(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    parts = [part for content in request["contents"] for part in content["parts"]]
    calls = [value for part in parts for key, value in part.items() if key in ("function_call", "functionCall")]
    answers = [
        value for part in parts for key, value in part.items() if key in ("function_response", "functionResponse")
    ]
    return [call["id"] for call in calls], [answer["id"] for answer in answers]


FORMS = {
    "openai": openai_pairs,
    "responses": responses_pairs,
    "anthropic": anthropic_pairs,
    "gemini": gemini_pairs,
}


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize(("form", "stable"), [*((form, False) for form in FORMS), ("openai", True)])
async def test_a_long_chat_in_every_form(
    client: httpx.AsyncClient, conversation: str, form: str, turns: int, *, stable: bool
) -> None:
    """No window has an orphan call or result, is over its budget, or repeats a text or documents of earlier questions."""
    random = Random(form)
    parameters = {"model": "gpt-4o-mini", "max_tokens": BUDGET, "format": form, "stable": stable}
    settings = {"id": conversation, "system": "<system> Be brief.", "tools": TOOLS}
    assert (await client.post("/conversations", json=settings)).status_code == 201

    for number in range(turns):
        entries = turn(number, random)
        question = (await append(client, conversation, entries[0], **parameters))["window"]
        complete = (await append(client, conversation, *entries[1:], **parameters))["window"]

        for window in (question, complete):
            sent = json.dumps(window["request"])
            made, answered = FORMS[form](window["request"])
            assert window["tokens"]["total"] <= BUDGET
            assert made == answered
            assert f"<question {number}>" in sent
            assert {number} >= {int(name.split(".")[0]) for name in _named(sent, "doc")}
            assert (
                max(Counter(_named(sent, "question") + _named(sent, "answer")).values()) <= 2
            )  # a question and its answer
        assert f"<answer {number}>" in json.dumps(complete["request"])
        assert sorted(_named(json.dumps(question["request"]), "doc")) == [
            f"{number}.{i}" for i in range(3 * (number % 2))
        ]
    assert complete["dropped"]["messages"] > turns * 11 // 3 - 100  # of the 11 messages of three turns


def _named(text: str, kind: str) -> list[str]:
    """Return what stands between ``<kind`` and ``>``, for each occurrence in the text."""
    return [rest.split(">", 1)[0].strip() for rest in text.split(f"<{kind}")[1:]]
