"""A chat message alone as an entry: the entry's members stand beside the message's own."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, history, problem

NDJSON = {"Content-Type": "application/x-ndjson"}
HI: dict[str, Any] = {"role": "user", "content": "hi"}
GROUNDING = {"documents": [{"text": "12:10"}]}
FACTS: list[tuple[str, Any]] = [
    ("id", "m-1"),
    ("pinned", True),
    ("metadata", {"page": 7}),
    ("grounding", GROUNDING),
    ("status", "completed"),
    ("image_sizes", [[512, 512]]),
    ("author", "billing"),
    ("audience", ["billing", "Triage Agent"]),
]
WRONG: list[tuple[str, Any]] = [
    ("id", 17),
    ("pinned", "yes"),
    ("metadata", []),
    ("grounding", {}),
    ("status", "sent"),
    ("image_sizes", [512]),
    ("author", ""),
    ("author", "x" * 65),
    ("audience", []),
    ("audience", "billing"),
    ("audience", ["billing\n"]),
    ("audience", [f"agent-{number}" for number in range(17)]),
]


@pytest.mark.parametrize(("name", "value"), FACTS)
async def test_the_entrys_members_stand_beside_the_role(
    client: httpx.AsyncClient, conversation: str, name: str, value: Any
) -> None:
    """A member of the entry in a bare message is the entry's: the wrapped way of saying it is a retry of the bare one."""
    bare = {"id": "m-1", **HI, name: value}
    wrapped = {"id": "m-1", "message": HI, name: value}
    first = await append(client, conversation, bare)
    again = await append(client, conversation, wrapped)
    assert [(each["id"], each["duplicate"]) for each in (*first["messages"], *again["messages"])] == [
        ("m-1", False),
        ("m-1", True),
    ]
    (stored,) = await history(client, conversation)
    assert stored["message"] == HI
    if name != "image_sizes":  # a read gives no sizes back
        assert stored[name] == value


async def test_a_changed_bare_entry_is_a_conflict(client: httpx.AsyncClient, conversation: str) -> None:
    """The same id with other content is 409, also where both are bare."""
    await append(client, conversation, {"id": "m-1", **HI})
    other = {"messages": [{"id": "m-1", "role": "user", "content": "bye"}]}
    answer = await client.post(f"/conversations/{conversation}/messages", json=other)
    assert answer.status_code == 409


@pytest.mark.parametrize(("name", "value"), WRONG)
@pytest.mark.parametrize("form", ["openai", "anthropic"])
async def test_a_wrong_member_is_refused_at_its_place(
    client: httpx.AsyncClient, conversation: str, form: str, name: str, value: Any
) -> None:
    """A member of the entry in a bare message is checked as an entry's."""
    body = {"messages": [HI, {**HI, name: value}]}
    for path in (f"/conversations/{conversation}/messages", "/window"):
        answer = await client.post(
            path, params={"format": form}, json=body | ({"model": "gpt-4o"} if "w" in path else {})
        )
        found = problem(answer, 400, "invalid-entry" if "invalid-entry" in answer.text else "bad-request")
        assert found["errors"][0]["pointer"].startswith(f"#/messages/1/{name}")


async def test_a_misspelt_member_of_the_entry(client: httpx.AsyncClient, conversation: str) -> None:
    """A misspelt member of the entry in a bare message is 400 with the right name; ``_id`` is no misspelling."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, json={"messages": [{**HI, "pined": True}]})
    assert answer.status_code == 400
    assert "did you mean 'pinned'?" in answer.json()["detail"]
    await append(client, conversation, {**HI, "_id": "65f0"})


async def test_a_name_is_not_misspelt_beside_the_right_one(client: httpx.AsyncClient, conversation: str) -> None:
    """A member that is like a known one is the client's own where the known one is there too."""
    await append(client, conversation, {**HI, "contentId": "c"})
    (stored,) = await history(client, conversation)
    assert stored["message"] == {**HI, "contentId": "c"}


async def test_a_reply_in_progress_may_be_bare(client: httpx.AsyncClient, conversation: str) -> None:
    """A bare reply in progress replaces itself under its id, and windows leave it out."""
    await append(client, conversation, HI)
    reply = {"role": "assistant", "id": "r-1", "status": "in_progress"}
    await append(client, conversation, {**reply, "content": "Hal"})
    body = await append(client, conversation, {**reply, "content": "Hallo"}, model="gpt-4o")
    assert body["window"]["request"]["messages"] == [HI]
    await append(client, conversation, {**reply, "content": "Hallo!", "status": "completed"})
    assert [each["message"]["content"] for each in await history(client, conversation)] == ["hi", "Hallo!"]


async def test_a_window_of_a_body_takes_bare_entries(client: httpx.AsyncClient) -> None:
    """POST /window renders the documents of a bare message, keeps a pinned one, and takes each id once."""
    old = [{"role": "user", "content": f"{n}"} for n in range(9)]
    messages = [
        {**HI, "pinned": True, "id": "m-1"},
        *old,
        {**HI, "pinned": True, "id": "m-1"},
        {**HI, "grounding": GROUNDING},
    ]
    answer = await client.post("/window", json={"model": "gpt-4o", "messages": messages, "limit": 1})
    sent = answer.json()["request"]["messages"]
    assert sent == [HI, {"role": "user", "content": "hi\n\nSources:\n12:10"}]


async def test_an_imported_line_may_be_bare(client: httpx.AsyncClient, conversation: str) -> None:
    """A bare line of an import has the entry's members beside the message's; a wrong one is 400 with its line."""
    line = {"id": "m-1", **HI, "pinned": True, "metadata": {"page": 7}}
    content = f'{{"id": "{conversation}"}}\n{json.dumps(line)}\n'
    answer = await client.post("/conversations/import", content=content, headers=NDJSON)
    assert answer.status_code == 201, answer.text
    (stored,) = await history(client, conversation)
    assert (stored["id"], stored["pinned"], stored["metadata"], stored["message"]) == ("m-1", True, {"page": 7}, HI)
    wrong = f"{{}}\n{json.dumps({**line, 'pinned': 1})}\n"
    answer = await client.post("/conversations/import", content=wrong, headers=NDJSON)
    assert answer.json()["errors"][0]["pointer"] == "#/lines/2/pinned"


OWN: dict[str, Any] = {
    "anthropic": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    "responses": {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    "gemini": {"role": "user", "parts": [{"text": "hi"}]},
}


@pytest.mark.parametrize("form", OWN)
async def test_a_providers_message_may_be_bare_too(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """What a client writes in a provider's form has the entry's members beside its own, and is sent without them."""
    bare = {"id": "m-1", "pinned": True, **OWN[form]}
    first = await append(client, conversation, bare, format=form)
    again = await append(client, conversation, {"id": "m-1", "pinned": True, "message": OWN[form]}, format=form)
    assert [(each["id"], each["duplicate"]) for each in (*first["messages"], *again["messages"])] == [
        ("m-1", False),
        ("m-1", True),
    ]
    answer = await client.get(f"/conversations/{conversation}/window", params={"format": form, "model": "gpt-4o"})
    member = {"responses": "input", "gemini": "contents"}.get(form, "messages")
    assert answer.json()["request"][member] == [OWN[form]]


REPLIES: dict[str, Any] = {
    "anthropic": {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]},
    "responses": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    },
}


@pytest.mark.parametrize("form", REPLIES)
async def test_a_replys_own_id_stays_in_it(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """The id and the status of a provider's reply are not the entry's."""
    body = await append(client, conversation, {**REPLIES[form], "metadata": {"page": 7}}, format=form)
    assert body["messages"][0]["id"] != "msg_1"
    (stored,) = await history(client, conversation)
    assert stored["metadata"] == {"page": 7}
    if form == "responses":
        answer = await client.get(f"/conversations/{conversation}/window", params={"format": form, "model": "gpt-4o"})
        assert answer.json()["request"]["input"] == [REPLIES[form]]
