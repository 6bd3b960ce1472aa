"""A conversation that lacks a key, as after an eviction, answers with an error that says so; limits on pinned messages."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis
from rigs.dialogue import append, calling, problem, result, user, window

ASKED: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "conversation": ("GET", "", None),
    "page": ("GET", "/messages", None),
    "window": ("GET", "/window?model=gpt-4o", None),
    "append": ("POST", "/messages", {"messages": [user("more")]}),
    "append with a window": ("POST", "/messages?model=gpt-4o", {"messages": [user("more")]}),
    "export": ("GET", "/export", None),
    "rewind": ("POST", "/rewind", {"to_seq": 1}),
    "fork": ("POST", "/fork", {}),
}
LISTS = ("log", "counts", "details")
PARTS = ("conversation", *LISTS, "ids", "pinned", "grounding", "metadata")
UNREAD = {
    "conversation": {"ids", "pinned", "grounding", "metadata"},
    "rewind": {"ids", "pinned", "grounding", "metadata"},
    "window": {"metadata", "ids"},
    "page": {"ids"},
    "export": {"ids"},
    "fork": {"ids"},
    "append": {"metadata"},
    "append with a window": {"metadata"},
}
"""Keys that each call neither reads nor changes."""
LOST = [(what, part) for what in ASKED for part in PARTS if part not in UNREAD.get(what, ())]
EVERYTHING = [
    user("pinned", pinned=True),
    user("noted", metadata={"k": 1}),
    user("asked", grounding={"documents": [{"text": "a document"}]}),
]


def keys_of(server: redis.Redis, conversation: str) -> dict[str, str]:
    """Return the conversation's keys, by the name of their part."""
    tag = f"sash:{{default/{conversation}}}:"
    return {key.removeprefix(tag): key for key in server.scan_iter(f"{tag}*")}


@pytest.mark.parametrize(("what", "part"), LOST)
async def test_a_lost_key(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis, part: str, what: str
) -> None:
    """A call that needs a lost key answers 500 with the key's part and changes no keys; an erase still succeeds."""
    await append(client, conversation, *EVERYTHING)
    server.delete(keys_of(server, conversation)[part])
    before = keys_of(server, conversation)
    method, where, body = ASKED[what]

    answer = await client.request(method, f"/conversations/{conversation}{where}", json=body)

    assert problem(answer, 500, "conversation-damaged")["part"] == part
    assert answer.headers["retry-after"]
    assert keys_of(server, conversation) == before
    assert (await client.delete(f"/conversations/{conversation}")).status_code == 204


@pytest.mark.parametrize("what", ["window", "append with a window"])
@pytest.mark.parametrize("part", LISTS)
@pytest.mark.parametrize("longer", [False, True], ids=["shorter", "longer"])
async def test_a_key_of_another_length(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis, part: str, what: str, *, longer: bool
) -> None:
    """A key that has a message fewer, or more, than the others is told like a lost one, also where only a tail is read."""
    await append(client, conversation, *[user(f"said {n}") for n in range(100)])
    key = keys_of(server, conversation)[part]
    if part != "counts":
        assert server.rpush(key, "another") if longer else server.ltrim(key, 0, -2)
    elif longer:
        server.append(key, "x" * 28)
    else:
        server.eval("redis.call('SET', KEYS[1], string.sub(redis.call('GET', KEYS[1]), 1, -29))", 1, key)
    method, where, body = ASKED[what]

    answer = await client.request(method, f"/conversations/{conversation}{where}&limit=3", json=body)

    assert problem(answer, 500, "conversation-damaged")["part"] == part


async def test_a_damaged_conversation_can_be_erased(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis
) -> None:
    """Erasing a damaged conversation deletes all its keys, and its id can be used for a new conversation."""
    await append(client, conversation, *EVERYTHING)
    server.delete(keys_of(server, conversation)["conversation"])
    problem(await client.post("/conversations", json={"id": conversation}), 500, "conversation-damaged")

    assert (await client.delete(f"/conversations/{conversation}")).status_code == 204

    assert keys_of(server, conversation) == {}
    await append(client, conversation, user("anew"))
    assert (await window(client, conversation))["kept"]["messages"] == 1


@pytest.mark.parametrize("part", ["conversation", *LISTS])
async def test_one_damaged_conversation_is_in_the_way_of_no_other(
    client: httpx.AsyncClient, fresh: Callable[[], str], server: redis.Redis, part: str
) -> None:
    """A damaged conversation is left out of lists, and an erasure of its owner erases it with the others."""
    owner, damaged, whole = fresh(), fresh(), fresh()
    for identity in (damaged, whole):
        await client.post("/conversations", json={"id": identity, "owner": owner})
        await append(client, identity, *EVERYTHING)
    server.delete(keys_of(server, damaged)[part])

    for query in (f"?owner={owner}", ""):
        listed = (await client.get(f"/conversations{query}")).json()["conversations"]
        assert {each["id"] for each in listed} & {damaged, whole} == {whole}
    assert (await client.delete(f"/owners/{owner}")).status_code == 204

    assert (keys_of(server, damaged), keys_of(server, whole)) == ({}, {})
    assert not server.exists(f"sash:{{default/owner/{owner}}}:conversations")


async def test_a_thousand_pinned_messages(client: httpx.AsyncClient, conversation: str) -> None:
    """After 1000 pinned messages, another pinned or system message is 422 and its request stores nothing; others succeed."""
    for _ in range(10):
        await append(client, conversation, *[user("kept", pinned=True)] * 100)
    path = f"/conversations/{conversation}/messages"

    refused = await client.post(path, json={"messages": [user("plain"), user("one more", pinned=True)]})

    told = problem(refused, 422, "too-many-pinned")
    assert (told["limit"], told["errors"][0]["pointer"]) == (1000, "#/messages/1")
    system = {"message": {"role": "system", "content": "Be brief."}}
    problem(await client.post(path, json={"messages": [system]}), 422, "too-many-pinned")
    assert (await append(client, conversation, user("plain")))["last_seq"] == 1001


async def test_pinned_groups_count_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """A pinned tool result also keeps its call and the results before it in every window, so all of them count as pinned."""
    calls = [f"call-{n}" for n in range(90)]
    for _ in range(11):
        await append(client, conversation, calling(*calls), *[result(call) for call in calls[:-1]])
        answer = await client.post(
            f"/conversations/{conversation}/messages", json={"messages": [result(calls[-1], pinned=True)]}
        )
        if answer.status_code != 201:
            break

    problem(answer, 422, "too-many-pinned")
    body = await window(client, conversation, explain="true")
    assert sum(line["reason"] == "always: pinned" for line in body["explain"]) == 10 * 91
