"""A provider's whole reply that is appended as a message: the answer says which member to append, and that works."""

import re
from functools import reduce
from typing import Any, Final

import httpx
import msgspec
import pytest
from rigs.dialogue import history, problem
from rigs.standin.replies import Said, reply

FORMS: Final = ["openai", "responses", "gemini", "converse", "interactions", "ollama"]
SAID: Final = [Said("Hello"), Said("Hello", calls=(("find_talk", "{}"),)), Said("Hello", thought="Hm.")]


def whole(form: str, said: Said) -> dict[str, Any]:
    made = reply(form, said, model="m", number=1, tokens=9)
    if form == "interactions":  # as google-genai has it since 3.0
        given = made.pop("outputs")
        texts = [each for each in given if each["type"] == "text"]
        made["steps"] = [{"type": "model_output", "content": texts}, *(each for each in given if each not in texts)]
    return made


def member(value: Any, path: str) -> Any:
    """Return what stands at a path such as ``choices[0].message``."""
    steps = re.findall(r"\w+", path)
    return reduce(lambda at, step: at[int(step)] if step.isdigit() else at[step], steps, value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("asked", [False, True])
async def test_the_answer_names_the_member_to_append(
    client: httpx.AsyncClient, conversation: str, form: str, said: Said, *, asked: bool
) -> None:
    """Whichever format the call names, a whole reply is 400, names its member, and that member is then appended."""
    path = f"/conversations/{conversation}/messages"
    query = {"format": form} if asked else {}
    given = whole(form, said)
    for body in ({"messages": [given]}, {"messages": [{"message": given}]}, given):
        refused = await client.post(path, params=query, json=body)
        assert refused.status_code == 400, refused.text
        assert "append its" in refused.json()["detail"], refused.text
    assert await history(client, conversation) == []

    detail = refused.json()["detail"]
    found = member(given, re.findall(r"`([^`]+)`", detail)[-1])
    named = re.search(r"\?format=(\w+)", detail)
    messages = found if isinstance(found, list) else [found]
    answer = await client.post(path, params={"format": named[1]} if named else {}, json={"messages": messages})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("form", FORMS)
async def test_a_window_and_an_import_name_it_too(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """POST /window and the lines of an import name a whole reply in the same words."""
    given = whole(form, Said("Hello"))
    lines = b"".join(msgspec.json.encode(each) + b"\n" for each in ({"id": conversation}, given))
    kind = {"content-type": "application/x-ndjson"}
    for answer in (
        await client.post("/window", json={"model": "gpt-4o", "messages": [given]}),
        await client.post("/conversations/import", content=lines, headers=kind),
    ):
        assert answer.status_code == 400, answer.text
        assert "append its" in answer.json()["detail"], answer.text


async def test_a_piece_of_a_stream_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A chunk of a stream is no message; the answer says so."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "He"}}]}
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [chunk]})
    problem(answer, 400, "invalid-entry")
    assert "a piece of a stream" in answer.json()["detail"]


async def test_claudes_whole_reply_is_its_message(client: httpx.AsyncClient, conversation: str) -> None:
    """Claude's reply is a message itself, and is taken as it came."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": "anthropic"}, json={"messages": [whole("anthropic", SAID[0])]})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "more", [{"threadId": "t", "resourceId": "r"}, {"blocks": [{"block_type": "text"}]}, {"choices": []}]
)
async def test_a_message_with_another_programs_members_stays_a_message(
    client: httpx.AsyncClient, conversation: str, more: dict[str, Any]
) -> None:
    """A chat message is appended as before, whichever members of another program's record it has besides."""
    message = {"role": "user", "content": "Hi", **more}
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [message]})
    assert answer.status_code == 201, answer.text
