"""A provider that one file declares, through a real server: appended, sent, counted, and back as it came."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served

CORE = Path(__file__).parents[1] / "core"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
NDJSON = "application/x-ndjson"
PICTURE = {"picture": {"seen": {"kind": "image/png", "base64": PIXEL}}}


def look(day: int) -> dict[str, Any]:
    return {"ask": {"skill": "look", "with": {"day": day}}}


def turn(by: str, *bits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"by": by, **more, "bits": list(bits)}


def words(said: str) -> dict[str, Any]:
    return {"words": said}


TURNS = [
    turn("human", words("What is on today, and on this day?"), PICTURE),
    turn("machine", {"muse": "Two days to look at."}, words("I look."), look(1), look(2)),
    turn("skill", words("a talk"), skill="look"),
    turn("skill", words("a concert"), skill="look"),
    turn("machine", words("A talk and a concert.")),
    turn("human", words("And tomorrow?")),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service whose interpreters import the invented provider before anything of Sash."""
    folder = tmp_path_factory.mktemp("invented")
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.path.append({str(CORE)!r})\nimport invented_provider\n")
    served = Served(folder / "data", PYTHONPATH=str(folder))
    served.start()
    with httpx.Client(base_url=served.url) as client:
        yield client
    assert served.stop() == 0


def append(server: httpx.Client, conversation: str, messages: list[dict[str, Any]], form: str = "invented") -> None:
    path = f"/conversations/{conversation}/messages"
    answer = server.post(path, params={"format": form}, json={"messages": [{"message": each} for each in messages]})
    assert answer.status_code == 201, answer.text


def window(server: httpx.Client, conversation: str, **asked: Any) -> dict[str, Any]:
    query = {"model": "gpt-4o", "format": "invented", "reasoning": "all", **asked}
    answer = server.get(f"/conversations/{conversation}/window", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def counted(server: httpx.Client, request: dict[str, Any]) -> int:
    answer = server.post("/count", params={"format": "invented"}, json={"model": "gpt-4o", **request})
    tokens: int = answer.raise_for_status().json()["tokens"]
    return tokens


def test_its_turns_come_back_as_they_came(server: httpx.Client) -> None:
    """Turns that are appended are read, sent and imported again unchanged, and their window is not short."""
    append(server, "i-1", TURNS)

    page = server.get("/conversations/i-1/messages", params={"format": "invented"}).json()["messages"]
    made = window(server, "i-1")
    lines = {"content": server.get("/conversations/i-1/export").content, "headers": {"Content-Type": NDJSON}}
    copy = server.post("/conversations/import", params={"id": "i-2"}, **lines)

    assert [own for each in page for own in each["own"]] == TURNS
    assert made["request"]["turns"] == TURNS
    assert made["tokens"]["reasoning"] > 0
    assert 0 <= made["tokens"]["total"] - counted(server, made["request"]) <= 3 * len(TURNS)
    assert copy.is_success, copy.text
    assert window(server, "i-2")["request"] == made["request"]


def test_other_providers_get_its_words(server: httpx.Client) -> None:
    """Each other form has the texts, the picture, and the calls with ids that pair them with their results."""
    append(server, "i-3", TURNS)
    for form in ("openai", "responses", "anthropic", "gemini", "interactions", "converse", "ollama"):
        made = window(server, "i-3", format=form)
        sent = str(made["request"])
        assert all(said in sent for said in ("I look.", "a talk", "a concert", "And tomorrow?", PIXEL)), form
        assert "Two days" not in sent
    calls = window(server, "i-3", format="openai")["request"]["messages"]
    asked = [call["id"] for message in calls for call in message.get("tool_calls", ())]
    assert asked == [message["tool_call_id"] for message in calls if message["role"] == "tool"] != [asked[0]] * 2


def test_its_rules_hold_for_chats_of_others(server: httpx.Client) -> None:
    """Results follow their calls' order where calls have no ids, and calls without a tool get the one that stands in."""
    calls = [
        {"id": f"c{day}", "type": "function", "function": {"name": "look", "arguments": f'{{"day":{day}}}'}}
        for day in (1, 2)
    ]
    said = [{"role": "user", "content": "What is on?"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    results = [{"role": "tool", "tool_call_id": f"c{day}", "content": f"day {day}"} for day in (2, 1)]
    append(server, "i-4", [*said, *results], form="openai")

    made = window(server, "i-4", explain=True)

    assert [each["bits"] for each in made["request"]["turns"][2:]] == [[words("day 1")], [words("day 2")]]
    assert made["mended"]["reasons"] == {"answer_order": 2}
    assert [skill["name"] for skill in made["request"]["skills"]] == ["rest"]
    assert made["tokens"]["tools"] > 0
    assert counted(server, made["request"]) <= made["tokens"]["total"]


def test_its_thoughts_and_pictures_are_known(server: httpx.Client) -> None:
    """Thoughts are left out when none are asked for, and a picture that may not be kept becomes a line."""
    append(server, "i-5", TURNS)

    made = window(server, "i-5", reasoning="none", images_kept=0)

    turns = made["request"]["turns"]
    assert turns[1]["bits"] == [words("I look."), look(1), look(2)]
    assert [set(bit) for bit in turns[0]["bits"]] == [{"words"}, {"words"}]
    assert "image" in turns[0]["bits"][1]["words"]
    assert counted(server, made["request"]) <= made["tokens"]["total"]


def test_its_turns_are_recognised_in_another_form(server: httpx.Client) -> None:
    """A turn that is sent as a chat message is refused with the name of its form."""
    body = {"messages": [{"message": TURNS[1]}]}
    answer = server.post("/conversations/i-6/messages", json=body)
    assert answer.status_code == 400
    assert "?format=invented" in answer.json()["detail"]
