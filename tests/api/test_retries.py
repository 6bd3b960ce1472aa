"""Requests whose answer was lost, repeated under their Idempotency-Key after other requests changed the conversation."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, etag_of, history, problem, user

from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.store.data.layout import PREFIX, Target
from sash.store.data.owners import Owners
from sash.store.data.staging import Staging


@pytest.fixture
def key(fresh: Callable[[], str]) -> dict[str, str]:
    """Return the header with a key that no other test uses."""
    return {"Idempotency-Key": f"retried-{fresh()}"}


def lose_answers(server: Any) -> None:
    """Forget that requests were done, as after a 503 that came when the work was done."""
    for claim in server.scan_iter(f"{PREFIX}{{default/request/*"):
        server.hdel(claim, "status")
        server.hset(claim, "until", 1)


async def texts(client: httpx.AsyncClient, conversation: str) -> list[Any]:
    return [entry["message"]["content"] for entry in await history(client, conversation)]


EDITS: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "redact": ("DELETE", "/messages/1", None),
    "rewind": ("POST", "/rewind", {"to_seq": 2}),
    "summary": ("PUT", "/summary", {"text": "what was said", "through_seq": 1}),
    "change": ("PATCH", "", {"system": "Be brief."}),
}


@pytest.mark.parametrize("other", EDITS)
async def test_a_rewind_is_not_done_again_to_what_came_after(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any, other: str
) -> None:
    """A repeated rewind keeps turns that were appended after its first run, whatever other requests did in between."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two"), user("three"))
    assert (await client.post(f"{path}/rewind", json={"to_seq": 2}, headers=key)).status_code == 200
    lose_answers(server)
    method, where, body = EDITS[other]
    assert (await client.request(method, path + where, json=body)).status_code < 300
    await append(client, conversation, user("four"), user("five"))

    assert (await client.post(f"{path}/rewind", json={"to_seq": 2}, headers=key)).status_code == 200

    assert (await texts(client, conversation))[-3:] == ["two", "four", "five"]


async def test_a_rewind_that_found_nothing_to_forget(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """A rewind that had nothing to remove also counts as done: repeated, it keeps later messages."""
    path = f"/conversations/{conversation}/rewind"
    await append(client, conversation, user("one"))
    version = (await client.post(path, json={"to_seq": 1}, headers=key)).json()["version"]
    lose_answers(server)
    await append(client, conversation, user("two"))

    again = await client.post(path, json={"to_seq": 1}, headers=key)

    assert again.json()["version"] == version + 1
    assert await texts(client, conversation) == ["one", "two"]


async def test_a_change_is_not_done_again_over_a_later_one(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """A repeated change does not overwrite a later one."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"))
    await client.patch(path, json={"system": "first"}, headers=key)
    lose_answers(server)
    await client.patch(path, json={"system": "second"})

    again = await client.patch(path, json={"system": "first"}, headers=key)

    assert (again.status_code, again.json()["system"]) == (200, "second")


@pytest.mark.parametrize("how", EDITS)
async def test_what_was_done_under_a_version_is_not_refused_for_it(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any, how: str
) -> None:
    """A repeat is not 412 if only its own first run changed the version that its ``If-Match`` names."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two"), user("three"))
    method, where, body = EDITS[how]
    headers = {**key, "If-Match": await etag_of(client, conversation)}
    first = await client.request(method, path + where, json=body, headers=headers)
    lose_answers(server)

    again = await client.request(method, path + where, json=body, headers=headers)

    assert (again.status_code, again.headers["etag"]) == (first.status_code, first.headers["etag"])
    other = await client.request(method, path + where, json=body, headers={"If-Match": headers["If-Match"]})
    problem(other, 412, "precondition-failed")


async def test_a_fork_that_was_made(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """A repeated fork answers 201 with the copy as it is now, although the copy and its source were changed meanwhile."""
    path, copy = f"/conversations/{conversation}", f"{conversation}-copy"
    await append(client, conversation, user("one"), user("two"))
    headers = {**key, "If-Match": await etag_of(client, conversation)}
    assert (await client.post(f"{path}/fork", json={"id": copy}, headers=headers)).status_code == 201
    lose_answers(server)
    await client.patch(f"/conversations/{copy}", json={"system": "changed"})
    await client.post(f"{path}/rewind", json={"to_seq": 0})

    again = await client.post(f"{path}/fork", json={"id": copy}, headers=headers)

    assert (again.status_code, again.json()["system"]) == (201, "changed")
    assert await texts(client, copy) == ["one", "two"]


async def test_a_fork_of_what_is_redacted_meanwhile_is_never_there(
    client: httpx.AsyncClient, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is redacted while a fork reads it is in no copy, not even until the fork has been refused."""
    path, copy, published = f"/conversations/{conversation}", f"{conversation}-copy", []
    await append(client, conversation, user("one"), user("two"))
    put, publish = Owners.put, Staging.publish

    async def late(self: Owners, target: Target, settings: ConversationSettings) -> None:
        if target.id == copy:
            await client.delete(f"{path}/messages/1")
        await put(self, target, settings)

    async def noted(self: Staging, **rest: Any) -> None:
        published.append(rest)
        await publish(self, **rest)

    monkeypatch.setattr(Owners, "put", late)
    monkeypatch.setattr(Staging, "publish", noted)
    refused = await client.post(f"{path}/fork", json={"id": copy})

    assert (refused.status_code, published) == (409, [])
    assert (await client.get(f"/conversations/{copy}")).status_code == 404


@pytest.mark.parametrize("how", ["create", "import"])
async def test_what_was_made_and_changed_since(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any, how: str
) -> None:
    """A repeated creation or import that made the conversation is no conflict: it answers 201 with the current settings."""

    async def made() -> httpx.Response:
        if how == "create":
            return await client.post("/conversations", json={"id": conversation}, headers=key)
        ndjson = {**key, "Content-Type": "application/x-ndjson"}
        body = b'{"id":"%s"}\n{"message":{"role":"user","content":"one"}}\n' % conversation.encode()
        return await client.post("/conversations/import", content=body, headers=ndjson)

    assert (await made()).status_code == 201
    lose_answers(server)
    await client.patch(f"/conversations/{conversation}", json={"system": "changed"})

    again = await made()

    assert (again.status_code, again.json().get("system")) == (201, "changed")


async def test_an_erasure_is_not_done_again_to_what_was_begun_since(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """A repeated erasure does not erase a conversation that was created under the same id after the first run."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"))
    assert (await client.delete(path, headers=key)).status_code == 204
    lose_answers(server)
    await append(client, conversation, user("begun anew"))

    assert (await client.delete(path, headers=key)).status_code == 204

    assert await texts(client, conversation) == ["begun anew"]
