"""An entry's author and audience: stored with it, given back, and never changed or lost on the way."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, history, problem, result, user, window

NDJSON = {"Content-Type": "application/x-ndjson"}
NAMED: dict[str, Any] = {"author": "triage", "audience": ["billing", "Refund Agent"]}


async def test_author_and_audience_are_given_back(client: httpx.AsyncClient, conversation: str) -> None:
    """A listing, a page of one message and an export have them; messages without them have neither."""
    await append(client, conversation, user("hi"), assistant("I ask billing.", id="a-2", **NAMED))
    plain, named = await history(client, conversation)
    assert not {"author", "audience"} & plain.keys()
    alone = (await client.get(f"/conversations/{conversation}/messages/2")).json()
    exported = json.loads((await client.get(f"/conversations/{conversation}/export")).text.splitlines()[2])
    for found in (named, alone, exported):
        assert {name: found[name] for name in NAMED} == NAMED


async def test_an_import_of_the_export_keeps_them(client: httpx.AsyncClient, conversation: str) -> None:
    """Import and fork give each entry the author and the audience that it had."""
    await append(client, conversation, user("hi"), calling("c-1", **NAMED), result("c-1", audience=["triage"]))
    lines = (await client.get(f"/conversations/{conversation}/export")).content
    imported = await client.post("/conversations/import?id=copy", content=lines, headers=NDJSON)
    assert imported.status_code == 201, imported.text
    forked = await client.post(f"/conversations/{conversation}/fork", json={"id": "fork"})
    assert forked.status_code == 201, forked.text
    expected = [(each.get("author"), each.get("audience")) for each in await history(client, conversation)]
    for copy in ("copy", "fork"):
        assert [(each.get("author"), each.get("audience")) for each in await history(client, copy)] == expected


@pytest.mark.parametrize(
    "others", [{"audience": ["billing"]}, {"author": "billing"}, {"author": None, "audience": None}]
)
async def test_a_retry_with_another_audience_is_a_conflict(
    client: httpx.AsyncClient, conversation: str, others: dict[str, Any]
) -> None:
    """The same id with another author or audience is 409, and with the same names in another order a duplicate."""
    entry = assistant("At noon.", id="a-1", **NAMED)
    await append(client, conversation, entry)
    again = await append(client, conversation, {**entry, "audience": NAMED["audience"][::-1]})
    assert again["messages"][0]["duplicate"]
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [{**entry, **others}]})
    problem(answer, 409, "entry-conflict")


@pytest.mark.parametrize("later", [{}, {"audience": ["billing", "user"]}, {"author": "billing"}])
async def test_a_reply_in_progress_keeps_its_audience(
    client: httpx.AsyncClient, conversation: str, later: dict[str, Any]
) -> None:
    """A later part of a reply cannot show it to others: its author and its audience are those of the first part."""
    begun = assistant("At", id="a-1", status="in_progress", **NAMED)
    await append(client, conversation, user("when?"), begun)
    widened = assistant("At noon.", id="a-1", status="completed", **later)
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [widened]})
    told = problem(answer, 409, "entry-conflict")
    assert "keeps its author and its audience" in told["detail"]
    await append(client, conversation, assistant("At noon.", id="a-1", status="completed", **NAMED))
    (_, stored) = await history(client, conversation)
    assert (stored["message"]["content"], stored["author"], stored["audience"]) == ("At noon.", *NAMED.values())


async def test_an_erased_message_keeps_its_audience(client: httpx.AsyncClient, conversation: str) -> None:
    """Redaction takes the content, and not who may see that there was one."""
    await append(client, conversation, assistant("a secret", **NAMED))
    assert (await client.delete(f"/conversations/{conversation}/messages/1")).status_code == 204
    (stored,) = await history(client, conversation)
    assert stored["redacted"]
    assert {name: stored[name] for name in NAMED} == NAMED


@pytest.mark.parametrize("change", [{"audience": ["user"]}, {"author": "billing"}, {"audience": None}])
async def test_a_patch_does_not_change_the_audience(
    client: httpx.AsyncClient, conversation: str, change: dict[str, Any]
) -> None:
    """A patch of an entry's audience is refused in words, and one of its metadata leaves both as they were."""
    await append(client, conversation, assistant("At noon.", **NAMED))
    path = f"/conversations/{conversation}/messages/1"
    refused = problem(await client.patch(path, json=change), 400, "bad-request")
    assert "keeps its" in refused["detail"]
    assert (await client.patch(path, json={"metadata": {"page": 7}, "pinned": True})).status_code == 200
    (stored,) = await history(client, conversation)
    assert {name: stored[name] for name in NAMED} == NAMED


async def test_without_a_view_windows_are_as_before(client: httpx.AsyncClient, conversation: str) -> None:
    """Author and audience are never sent, and change nothing of a window without a view."""
    entries = [user("hi"), calling("c-1"), result("c-1"), assistant("At noon.")]
    await append(client, conversation, *entries)
    await append(client, "named", *({**entry, **NAMED} for entry in entries))
    for query in ({}, {"model": "claude-sonnet-4-5", "format": "anthropic"}, {"stable": True, "explain": True}):
        plain, named = await window(client, conversation, **query), await window(client, "named", **query)
        assert plain["request"] == named["request"]
        assert plain["tokens"] == named["tokens"]


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
async def test_entries_in_a_providers_format_have_them(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """They stand beside a provider's own message too, and neighbours for others are not joined with it."""
    said = {
        "responses": [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
            for text in "ab"
        ],
        "anthropic": [{"role": "assistant", "content": [{"type": "text", "text": text}]} for text in "ab"],
        "gemini": [{"role": "model", "parts": [{"text": text}]} for text in "ab"],
    }[form]
    entries = [{"message": said[0], **NAMED}, {"message": said[1], "author": "billing"}]
    await append(client, conversation, *entries, format=form)
    found = [(each.get("author"), each.get("audience")) for each in await history(client, conversation)]
    assert found == [("triage", NAMED["audience"]), ("billing", None)]
