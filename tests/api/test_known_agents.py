"""The agents of a conversation: every author and audience so far, and a view that is none of them."""

from collections.abc import Callable
from typing import Any

import httpx
import redis
from rigs.dialogue import append, assistant, user, window

from sash.store.data.agents import MOST_BYTES
from sash.store.data.layout import target_at

TEAM = (
    user("Why was I billed twice?"),
    assistant("Let me look.", author="triage"),
    assistant("SECRET", author="triage", audience=["fraud", "Billing Agent"]),
)


async def agents(client: httpx.AsyncClient, conversation: str) -> list[str] | None:
    """Return the agents that a conversation lists; None without the member."""
    found: list[str] | None = (
        (await client.get(f"/conversations/{conversation}")).raise_for_status().json().get("agents")
    )
    return found


async def test_a_conversation_lists_its_agents(client: httpx.AsyncClient, conversation: str) -> None:
    """Authors and audiences are listed as they come, once each, from any kind of entry; without them, none is listed."""
    await append(client, conversation, user("hello"))
    assert await agents(client, conversation) is None
    await append(client, conversation, *TEAM)
    await append(client, conversation, assistant("So.", author="billing"), assistant("So so.", author="triage"))
    await append(client, conversation, user("pin", author="person", pinned=True, metadata={"a": 1}))
    assert await agents(client, conversation) == ["triage", "fraud", "Billing Agent", "billing", "person"]
    listed = (await client.get("/conversations", params={"limit": 1000})).json()["conversations"]
    (shown,) = [each for each in listed if each["id"] == conversation]
    assert shown["agents"] == ["triage", "fraud", "Billing Agent", "billing", "person"]


async def test_the_first_entries_have_agents(client: httpx.AsyncClient, conversation: str) -> None:
    """The append that begins a conversation lists its agents, and its own window knows them."""
    told = await append(client, conversation, *TEAM, model="gpt-4o-mini", view="fraud")
    assert await agents(client, conversation) == ["triage", "fraud", "Billing Agent"]
    assert "unknown_view" not in told["window"]


async def test_agents_stay(client: httpx.AsyncClient, conversation: str, fresh: Callable[[], str]) -> None:
    """A redaction and a rewind take none away; a fork and an import have those of their messages and branches."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, *TEAM, assistant("late", author="late"))
    assert (await client.delete(f"{path}/messages/3")).status_code == 204
    assert (await client.post(f"{path}/rewind", json={"to_seq": 3})).status_code == 200
    assert await agents(client, conversation) == ["triage", "fraud", "Billing Agent", "late"]
    copy, again = fresh(), fresh()
    assert (await client.post(f"{path}/fork", json={"id": copy, "at_seq": 2})).status_code == 201
    assert await agents(client, copy) == ["triage"]
    exported = (await client.get(f"{path}/export")).content.replace(conversation.encode(), again.encode())
    headers = {"Content-Type": "application/x-ndjson"}
    assert (await client.post("/conversations/import", content=exported, headers=headers)).status_code == 201
    assert set(await agents(client, again) or ()) == {"triage", "fraud", "Billing Agent", "late"}
    for each in (copy, again, conversation):
        assert (await client.delete(f"/conversations/{each}")).status_code == 204
    await append(client, conversation, user("again"))
    assert await agents(client, conversation) is None


async def test_an_unknown_view_is_told(client: httpx.AsyncClient, conversation: str) -> None:
    """A window for a view that nobody has says so, and for others nothing; one of an earlier state says what was then."""
    await append(client, conversation, *TEAM)

    for view in ("triage", "fraud", "Billing Agent"):
        assert "unknown_view" not in await window(client, conversation, view=view)
    told = await window(client, conversation, view="billing agent")
    assert told["unknown_view"] == "billing agent"
    shown = (await client.get(f"/conversations/{conversation}", params={"view": "billing agent"})).json()
    assert "agents" not in shown  # an answer for a view tells nothing of what is for others
    receipt = told["receipt"]
    await append(client, conversation, assistant("here", author="billing agent"))
    assert "unknown_view" not in await window(client, conversation, view="billing agent")
    same = await client.get(f"/conversations/{conversation}/window", params={"receipt": receipt})
    assert same.json() == told


async def test_a_conversation_of_an_older_version(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis
) -> None:
    """A conversation that was stored before agents were listed calls no view unknown."""
    await append(client, conversation, *TEAM)
    assert server.hdel(target_at("default", conversation).keys.conversation, "agents") == 1
    for view in ("fraud", "nobody"):
        assert "unknown_view" not in await window(client, conversation, view=view)
    assert await agents(client, conversation) is None


async def test_an_unknown_view_of_a_sent_history(client: httpx.AsyncClient) -> None:
    """A window of a history in the body says it, too."""
    body: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [*TEAM], "view": "fraude"}
    told = (await client.post("/window", json=body)).json()
    assert told["unknown_view"] == "fraude"
    assert "unknown_view" not in (await client.post("/window", json={**body, "view": "fraud"})).json()
    assert "unknown_view" not in (await client.post("/window", json={"model": "gpt-4o", "messages": [*TEAM]})).json()


async def test_a_bound_of_names(client: httpx.AsyncClient, conversation: str) -> None:
    """Names are kept up to 16 KiB. Then a view may be one that is not listed, and no view is called unknown."""
    for batch in range(20):
        await append(client, conversation, *(assistant("x", author=f"{batch}-{n} " + "é" * 40) for n in range(20)))
    listed = await agents(client, conversation) or []
    assert MOST_BYTES * 0.9 < sum(len(name.encode()) + 3 for name in listed) <= MOST_BYTES
    assert "unknown_view" not in await window(client, conversation, view="19-19 " + "é" * 40)
    assert "unknown_view" not in await window(client, conversation, view="nobody")
