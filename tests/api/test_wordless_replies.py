"""Replies that were interrupted before a word came: stored, and not sent to any provider."""

import json
from typing import Any

import httpx
import msgspec
import pytest
from rigs.dialogue import append, assistant, history, user, window

from sash.core.chat.messages import Entry
from sash.core.counts.models.models import find_model
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.windows.request import WindowRequest, decode_request
from sash.windows.stateless import window_of_request

WORDLESS = {"role": "assistant", "content": "", "id": "r-1", "status": "interrupted"}
MODELS = {"openai": ("gpt-4o", "mistral-large-latest"), "responses": ("gpt-4o",), "anthropic": ("claude-sonnet-4-5",)}
WAYS = [(form, model) for form in PROVIDERS for model in MODELS.get(form, ("gemini-2.5-flash",))]


@pytest.mark.parametrize(("form", "model"), WAYS)
async def test_no_window_sends_one(client: httpx.AsyncClient, conversation: str, form: str, model: str) -> None:
    """In every format the window is that of a history without the reply: its messages, its tokens. ``explain`` says why."""
    await append(client, conversation, user("Is there a talk?"), WORDLESS, user("Is there one?"))
    bare = {"model": model, "messages": [user("Is there a talk?"), user("Is there one?")]}

    made = await window(client, conversation, model=model, format=form, explain=True)

    other = (await client.post("/window", json={**bare, "format": form})).json()
    assert (made["request"], made["tokens"]) == (other["request"], other["tokens"])
    assert made["explain"][1]["reason"] == "a reply that was interrupted before a word came"
    assert (made["kept"]["messages"], made["stop_reason"]) == (2, "complete")


async def test_a_body_sends_none(client: httpx.AsyncClient) -> None:
    """POST /window leaves one out, as the newest message too, pinned or not."""
    for entry in (WORDLESS, {**WORDLESS, "pinned": True}, {**WORDLESS, "content": [{"type": "text", "text": ""}]}):
        body = {"model": "gpt-4o", "messages": [user("Is there a talk?"), entry]}
        made = (await client.post("/window", json=body)).json()
        assert [message["role"] for message in made["request"]["messages"]] == ["user"]


async def test_its_place_is_kept(client: httpx.AsyncClient, conversation: str) -> None:
    """It is in the history with its status, in an export and in its copy, and a copy's windows leave it out as well."""
    await append(client, conversation, user("Is there a talk?"), WORDLESS)
    lines = (await client.get(f"/conversations/{conversation}/export")).content
    headers = {"content-type": "application/x-ndjson"}
    copy = await client.post(f"/conversations/import?id={conversation}-copy", content=lines, headers=headers)
    fork = await client.post(f"/conversations/{conversation}/fork", json={"id": f"{conversation}-fork"})
    assert (copy.status_code, fork.status_code) == (201, 201)
    for name in (conversation, f"{conversation}-copy", f"{conversation}-fork"):
        assert [each.get("status") for each in await history(client, name)] == [None, "interrupted"]
        assert (await window(client, name))["kept"]["messages"] == 1


async def test_it_can_be_pinned_and_changed(client: httpx.AsyncClient, conversation: str) -> None:
    """A pin and metadata can be set later; windows still leave it out, small ones too."""
    await append(client, conversation, user("Is there a talk?"), WORDLESS)
    path = f"/conversations/{conversation}/messages/id:r-1"
    changed = await client.patch(path, json={"pinned": True, "metadata": {"why": "overloaded"}})
    assert changed.status_code == 200
    await append(client, conversation, *(user("word " * 50) for _ in range(20)))

    made = await window(client, conversation, max_tokens=200)

    assert {message["role"] for message in made["request"]["messages"]} == {"user"}


def _item(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "incomplete", "content": [*parts], **more}


def _output(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
SILENT: list[tuple[str, dict[str, Any]]] = [
    *(("openai", {"role": "assistant", "content": content}) for content in ("", None, [], " \n")),
    ("openai", {"role": "assistant", "content": [{"type": "text", "text": ""}, {"type": "text", "text": " "}]}),
    ("openai", {"role": "assistant", "content": None, "refusal": ""}),
    ("openai", {"role": "assistant", "content": "", "tool_calls": []}),
    ("openai", {"role": "assistant", "content": "", "reasoning_content": "Let me see."}),
    ("openai", {"role": "assistant", "content": "", "thinking_blocks": [SIGNED]}),
    ("openai", {"role": "assistant", "content": "", "timestamp": 17}),
    *(("responses", _item(*parts)) for parts in ((), (_output(""),), (_output(" "),), (_output(""), _output("")))),
    ("responses", {"role": "assistant", "content": ""}),
    ("responses", {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAx"}),
    *(
        ("anthropic", {"role": "assistant", "content": content})
        for content in ([], [{"type": "text", "text": " "}], "")
    ),
    ("anthropic", {"role": "assistant", "content": [SIGNED]}),
    ("anthropic", {"role": "assistant", "content": [SIGNED, {"type": "text", "text": ""}]}),
    *(("gemini", {"role": "model", "parts": parts}) for parts in ([], [{"text": ""}], [{"text": " "}])),
    ("gemini", {"role": "model", "parts": [{"text": "Hm", "thought": True}]}),
    ("gemini", {"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]}),
    ("interactions", {"type": "model_output", "content": []}),
    ("interactions", {"type": "model_output", "content": [{"type": "text", "text": ""}]}),
    ("interactions", {"type": "thought", "signature": "c2ln"}),
    *(("converse", {"role": "assistant", "content": content}) for content in ([], [{"text": ""}], [{"text": " "}])),
    (
        "converse",
        {
            "role": "assistant",
            "content": [{"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}}],
        },
    ),
    ("ollama", {"role": "assistant", "content": "", "thinking": "Hm"}),
]
"""Replies without a word, in each form in which they come."""
SPOKEN: list[tuple[str, dict[str, Any]]] = [
    ("openai", {"role": "assistant", "content": None, "refusal": "I cannot."}),
    ("openai", {"role": "assistant", "content": "At"}),
    ("responses", _item({"type": "refusal", "refusal": "I cannot."})),
    ("responses", _item(_output(""), _output("At"))),
    ("responses", {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "talks"}}),
    ("anthropic", {"role": "assistant", "content": [SIGNED, {"type": "text", "text": "At"}]}),
    ("gemini", {"role": "model", "parts": [{"text": "At", "thoughtSignature": "c2ln"}]}),
    ("converse", {"role": "assistant", "content": [{"text": "At"}]}),
]


def _asked(form: str, model: str, *entries: tuple[str, dict[str, Any]]) -> Any:
    """Return the window of entries that came in their forms."""
    given = [entry for came, entry in entries for entry in _entries(came, {"messages": [entry]})]
    body = {"model": model, "format": form, "messages": [], "explain": True}
    wanted = msgspec.structs.replace(msgspec.convert(body, WindowRequest), messages=given)
    return json.loads(window_of_request(wanted, {})[0].body)


def _entries(came: str, body: dict[str, Any]) -> list[Entry]:
    wanted, sent = decode_request(msgspec.json.encode(body), came)
    return [*(sent.entries if sent is not None else wanted.messages)]


@pytest.mark.parametrize(("form", "model"), WAYS)
@pytest.mark.parametrize("reply", SILENT, ids=lambda reply: f"{reply[0]}-{str(reply[1])[:40]}")
def test_a_reply_without_a_word_is_in_no_window(reply: tuple[str, dict[str, Any]], form: str, model: str) -> None:
    """In whatever form a reply without a word came that broke off, a window is that of a history without it, and no more
    is counted as kept than is sent."""
    came, message = reply
    chat = [("openai", user("Is there a talk?")), ("openai", user("Is there one?"))]

    made = _asked(form, model, chat[0], (came, {"message": message, "status": "interrupted"}), chat[1])

    other = _asked(form, model, *chat)
    assert (made["request"], made["tokens"], made.get("mended")) == (other["request"], other["tokens"], None)
    assert (made["kept"]["messages"], made["explain"][1]["kept"]) == (2, False)


@pytest.mark.parametrize(("form", "model"), WAYS)
@pytest.mark.parametrize("reply", SPOKEN, ids=lambda reply: f"{reply[0]}-{str(reply[1])[:40]}")
def test_a_reply_with_a_word_is_in_each_window(reply: tuple[str, dict[str, Any]], form: str, model: str) -> None:
    """A reply that broke off behind a word, a refusal or a search is sent and counted as kept, whatever form it came in."""
    came, message = reply
    chat = [("openai", user("Is there a talk?")), ("openai", user("Is there one?"))]

    made = _asked(form, model, chat[0], (came, {"message": message, "status": "interrupted"}), chat[1])

    assert made["kept"]["messages"] == 3
    assert made["request"] != _asked(form, model, *chat)["request"]


@pytest.mark.parametrize("more", [{"refusal": "I cannot."}, {"content": "At"}])
async def test_what_came_is_sent(client: httpx.AsyncClient, conversation: str, more: dict[str, str]) -> None:
    """An interrupted reply with a refusal or text is in windows; so is an empty one that was completed."""
    await append(client, conversation, user("Is there a talk?"), {**WORDLESS, **more})
    await append(client, conversation, assistant("", id="r-2", status="completed"))

    assert (await window(client, conversation))["kept"]["messages"] == 3


@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize(("form", "model"), WAYS)
async def test_a_question_without_words_is_taken(
    client: httpx.AsyncClient, conversation: str, content: object, form: str, model: str
) -> None:
    """A user's message without words is stored, and sent as the empty text, or as an ellipsis where that is refused."""
    appended = await append(client, conversation, {"role": "user", "content": content}, model="gpt-4o", format="openai")
    assert appended["window"]["request"]["messages"] == [{"role": "user", "content": ""}]

    sent = json.dumps((await window(client, conversation, model=model, format=form))["request"], ensure_ascii=False)

    refuses = "empty_question" in meet(form, find_model(model).provider, model).values
    assert ("…" in sent) == (PROVIDERS[form].fills or refuses)
