"""Replies that were interrupted before a word came: stored, and not sent to any provider."""

import json

import httpx
import pytest
from rigs.dialogue import append, assistant, history, user, window

from sash.core.providers import PROVIDERS

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


@pytest.mark.parametrize("more", [{"refusal": "I cannot."}, {"reasoning_content": "Let me see."}, {"content": "At"}])
async def test_what_came_is_sent(client: httpx.AsyncClient, conversation: str, more: dict[str, str]) -> None:
    """An interrupted reply with a refusal, thoughts or text is in windows; so is an empty one that was completed."""
    await append(client, conversation, user("Is there a talk?"), {**WORDLESS, **more})
    await append(client, conversation, assistant("", id="r-2", status="completed"))

    assert (await window(client, conversation))["kept"]["messages"] == 3


@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize(("form", "model"), WAYS)
async def test_a_question_without_words_is_taken(
    client: httpx.AsyncClient, conversation: str, content: object, form: str, model: str
) -> None:
    """A user's message without words is stored, and sent as the empty text, or as an ellipsis where that is refused."""
    appended = await append(client, conversation, {"role": "user", "content": content}, model=model, format="openai")
    assert appended["window"]["request"]["messages"] == [{"role": "user", "content": ""}]

    sent = json.dumps((await window(client, conversation, model=model, format=form))["request"], ensure_ascii=False)

    assert ("…" in sent) == PROVIDERS[form].fills
