"""Documents by address, documents made of blocks, and spoken words: each format gets them in its own form or as text."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user, window

URL = "https://x.test/a.pdf"
BLOCKS = [{"type": "text", "text": "first block"}, {"type": "text", "text": "second block"}]
FORMS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}


def claudes(source: dict[str, Any]) -> dict[str, Any]:
    """Claude's message with a document."""
    return {
        "role": "user",
        "content": [{"type": "document", "source": source}, {"type": "text", "text": "What is it?"}],
    }


def spoken(role: str, kind: str) -> dict[str, Any]:
    """A spoken message, as the Realtime API has it in a conversation."""
    part = {"type": kind, "audio": None, "transcript": "What is it?"}
    return {"type": "message", "id": "item_1", "role": role, "status": "completed", "content": [part]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("came", "message", "words"),
    [
        ("anthropic", claudes({"type": "url", "url": URL}), [URL]),
        ("anthropic", claudes({"type": "content", "content": BLOCKS}), ["first block", "second block"]),
        ("anthropic", claudes({"type": "content", "content": "one text"}), ["one text"]),
        (
            "responses",
            {
                "role": "user",
                "content": [{"type": "input_file", "file_url": URL}, {"type": "input_text", "text": "What is it?"}],
            },
            [URL],
        ),
        ("responses", spoken("assistant", "output_audio"), []),
        ("responses", spoken("assistant", "audio"), []),
        ("responses", spoken("user", "input_audio"), []),
    ],
)
async def test_a_document_or_spoken_words_are_in_every_format(
    client: httpx.AsyncClient, conversation: str, came: str, message: dict[str, Any], words: list[str], form: str
) -> None:
    """The address or the text is sent in each format, and what is sent is counted."""
    await append(client, conversation, user("Hello."))
    await append(client, conversation, message, format=came)
    await append(client, conversation, user("Go on."))

    made = await window(client, conversation, model=FORMS[form], format=form)

    sent = json.dumps(made["request"])
    assert all(each in sent for each in ("What is it?", *words)), sent
    if came == "responses" and form == came:
        assert "transcript" not in sent
    counted = await client.post("/count", params={"format": form}, json={"model": FORMS[form], **made["request"]})
    assert counted.json()["tokens"] <= made["tokens"]["total"]


async def test_a_shell_result_that_names_its_call_by_id_answers_it(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A local shell's output has its call's id as ``id`` in OpenAI's type; it is sent as ``call_id``, too, and told."""
    call = {"type": "local_shell_call", "id": "ls_1", "call_id": "call_1", "status": "completed"}
    call["action"] = {"type": "exec", "command": ["ls"], "env": {}}  # type: ignore[assignment]
    output = {"type": "local_shell_call_output", "id": "call_1", "output": "a.txt"}
    await append(client, conversation, user("Look."))
    await append(client, conversation, call, output, format="responses")
    await append(client, conversation, user("Go on."))

    chat = await window(client, conversation, model="gpt-4o")
    own = await window(client, conversation, model="gpt-5", format="responses")

    assert [each["role"] for each in chat["request"]["messages"]] == ["user", "assistant", "tool", "user"]
    assert own["request"]["input"][1:3] == [call, {**output, "call_id": "call_1"}]
    assert own["mended"]["reasons"] == {"item_shape": 1}


async def test_a_document_by_address_is_a_line_for_openai(client: httpx.AsyncClient, conversation: str) -> None:
    """Chat completions of OpenAI have no place for a file's address, so it is told in a line."""
    await append(client, conversation, claudes({"type": "url", "url": URL}), format="anthropic")
    made = await window(client, conversation, model="gpt-4o")
    parts = made["request"]["messages"][0]["content"]
    assert [each["type"] for each in parts] == ["text", "text"]
    assert URL in parts[0]["text"]


async def test_members_of_openais_answers_alone_are_not_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """``created_by``, which only OpenAI's answers have, is kept and not sent back."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "created_by": "agent"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x", "created_by": "agent"}
    await append(client, conversation, user("Look."))
    await append(client, conversation, call, output, format="responses")
    made = await window(client, conversation, model="gpt-5", format="responses")
    assert "created_by" not in json.dumps(made["request"])
    assert made["mended"]["reasons"] == {"foreign_members": 2}
    stored = await client.get(f"/conversations/{conversation}/messages", params={"format": "responses"})
    assert [each["own"][0] for each in stored.json()["messages"][1:]] == [call, output]


@pytest.mark.parametrize(
    ("model", "is_heard"), [("gpt-4o-audio-preview", True), ("gpt-4o-mini", False), ("deepseek-chat", False)]
)
async def test_a_spoken_reply_is_words_for_a_model_that_does_not_hear(
    client: httpx.AsyncClient,
    conversation: str,
    model: str,
    is_heard: bool,  # noqa: FBT001
) -> None:
    """The id of a spoken reply goes to models that speak; others get its transcript, which is counted."""
    said = {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "It is sunny in Rome. " * 20}
    await append(client, conversation, user("Hello."))
    await append(client, conversation, {"role": "assistant", "content": None, "audio": said})
    await append(client, conversation, user("Go on."))
    made = await window(client, conversation, model=model)
    reply = made["request"]["messages"][1]
    wanted = {"content": None, "audio": {"id": "audio_1"}} if is_heard else {"content": said["transcript"]}
    assert reply == {"role": "assistant", **wanted}
    counted = await client.post("/count", json={"model": model, **made["request"]})
    assert counted.json()["tokens"] <= made["tokens"]["total"]
