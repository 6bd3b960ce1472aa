"""Branches: ends of a conversation that were replaced, listed, made the end again, dropped."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import http, lifespan
from rigs.dialogue import append, assistant, calling, etag_of, history, problem, result, texts, user, window

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 64).decode()
MASTER = base64.b64encode(bytes(range(32))).decode()


async def put(client: httpx.AsyncClient, conversation: str, *messages: Any, **query: Any) -> dict[str, Any]:
    """Put a list, and return the answer's body."""
    answer = await client.put(
        f"/conversations/{conversation}/messages", json={"messages": messages}, params=query or None
    )
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def branches(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    """Return the branches, the newest first."""
    return (await client.get(f"/conversations/{conversation}/branches")).json()["branches"]


async def swap(client: httpx.AsyncClient, conversation: str, branch: str, **headers: str) -> httpx.Response:
    """Make a branch the end."""
    return await client.post(f"/conversations/{conversation}/branches/{branch}", headers=headers)


async def exported(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    """Return an export's lines, without what differs between two conversations of the same content."""
    lines = [json.loads(line) for line in (await client.get(f"/conversations/{conversation}/export")).text.splitlines()]
    path = f"/conversations/{conversation}/"
    for name in ("id", "created_at", "updated_at", "version"):
        lines[0].pop(name)
    return json.loads(json.dumps(lines).replace(path, "/conversations/c/"))


RICH = (
    user("q1", id="u1", grounding={"documents": [{"id": "d", "text": "Room two."}]}),
    calling("c1", id="a1", metadata={"rating": 1}),
    result("c1", id="r1", pinned=True),
    assistant("at two", id="a2"),
)


@pytest.fixture
async def sealed(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """Yield a client of a service that encrypts, and its store's URL."""
    with EmbeddedStore(tmp_path / "store", fsync="always") as store:
        settings = {"SASH_REDIS_URL": store.url, "SASH_HOST": "127.0.0.1", "SASH_ENCRYPTION_KEY": MASTER}
        async with lifespan(create_app(Settings.read(settings))) as app, http(app) as client:
            yield client, store.url


async def test_there_and_back(client: httpx.AsyncClient, conversation: str) -> None:
    """A chat that goes to a branch and back is what it was: seqs, ids, costs, times, documents, pins, window."""
    await append(client, conversation, *RICH)
    before, sent = await history(client, conversation), (await window(client, conversation))["request"]
    state = (await client.get(f"/conversations/{conversation}")).json()

    body = await put(client, conversation, user("q1'", id="u1"), assistant("at three"))
    assert body["branch"] == {"id": "b-1", "after_seq": 0, "messages": 4}
    (listed,) = await branches(client, conversation)
    assert listed["first"] == {"role": "user", "text": "q1"}
    assert (listed["parent"], listed["after_seq"], listed["after"], listed["messages"]) == (None, 0, None, 4)

    swapped = (await swap(client, conversation, "b-1")).json()

    assert swapped["branch"] == {"id": "b-2", "after_seq": 0, "messages": 2}
    assert await history(client, conversation) == before
    assert (await window(client, conversation))["request"] == sent
    now = (await client.get(f"/conversations/{conversation}")).json()
    assert (now["tokens"], now["messages"]) == (state["tokens"], state["messages"])
    assert (await swap(client, conversation, "b-2")).status_code == 200
    assert await texts(client, conversation) == ["q1'", "at three"]


async def test_every_way_to_replace_makes_a_branch(client: httpx.AsyncClient, fresh: Any) -> None:
    """A rewind, an append after a message and an agreement make the same branch; with ``forget`` they make none."""
    for forget in (False, True):
        query = {"forget": "true"} if forget else {}
        found = []
        for way in ("rewind", "after_seq", "put"):
            conversation = fresh()
            await append(client, conversation, user("q", id="q"), assistant("a", id="a"), assistant("b", id="b"))
            path = f"/conversations/{conversation}"
            if way == "rewind":
                answer = await client.post(f"{path}/rewind", json={"to_seq": 1} | ({"forget": True} if forget else {}))
            elif way == "after_seq":
                answer = await client.post(
                    f"{path}/messages", json={"messages": [assistant("c")]}, params={"after_seq": 1, **query}
                )
            else:
                answer = await client.put(
                    f"{path}/messages", json={"messages": [user("q"), assistant("c")]}, params=query
                )
            found.append((answer.json().get("branch"), len(await branches(client, conversation))))
        wanted = (None, 0) if forget else ({"id": "b-1", "after_seq": 1, "messages": 2}, 1)
        assert found == [wanted] * 3


async def test_branches_of_branches(client: httpx.AsyncClient, conversation: str) -> None:
    """Three answers inside one of two answers to an earlier question are reached by one call, and by agreement alone."""
    chat = [user("u1"), assistant("a1"), user("u2"), assistant("a2")]
    await append(client, conversation, *chat)
    await put(client, conversation, *chat[:3], assistant("a2b"))
    await put(client, conversation, *chat[:3], assistant("a2c"))
    await put(client, conversation, chat[0], assistant("a1x"), user("v2"), assistant("b2"))
    found = {each["first"]["text"]: each for each in await branches(client, conversation)}
    assert {name: (each["parent"] is None, each["after_seq"]) for name, each in found.items()} == {
        "a1": (True, 1),
        "a2": (False, 3),
        "a2b": (False, 3),
    }
    assert found["a2"]["after"] == (await branches_entry(client, conversation, found["a2"]))

    await swap(client, conversation, found["a2"]["id"])

    assert await texts(client, conversation) == ["u1", "a1", "u2", "a2"]
    assert {
        (each["first"]["text"], each["parent"], each["after_seq"]) for each in await branches(client, conversation)
    } == {
        ("a1x", None, 1),
        ("a2b", None, 3),
        ("a2c", None, 3),
    }
    await put(client, conversation, chat[0], assistant("a1x"), user("v2"), assistant("b2"), user("v3"))
    assert await texts(client, conversation) == ["u1", "a1x", "v2", "b2", "v3"]
    await put(client, conversation, *chat[:3], assistant("a2b"), user("u3"))
    assert await texts(client, conversation) == ["u1", "a1", "u2", "a2b", "u3"]
    assert len(await branches(client, conversation)) == 3


async def branches_entry(client: httpx.AsyncClient, conversation: str, branch: dict[str, Any]) -> str:
    """Return the id of the entry behind which a branch hangs in its parent, from the export."""
    lines = [json.loads(line) for line in (await client.get(f"/conversations/{conversation}/export")).text.splitlines()]
    begins = next(at for at, line in enumerate(lines) if line.get("branch", {}).get("id") == branch["parent"])
    return next(line["id"] for line in lines[begins + 1 :] if line.get("seq") == branch["after_seq"])


async def test_an_agreement_finds_its_branch(client: httpx.AsyncClient, conversation: str) -> None:
    """A list that runs along a branch makes it the end again, with all that no screen shows."""
    await append(client, conversation, *RICH)
    before = await history(client, conversation)
    await put(client, conversation, user("other"))
    body = await put(client, conversation, user("q1"), assistant("at two"), user("thanks"))
    after = await history(client, conversation)
    assert after[:4] == before
    assert [each["duplicate"] for each in body["messages"]] == [True] * 4 + [False]
    assert [each["first"]["text"] for each in await branches(client, conversation)] == ["other"]


async def test_a_question_that_was_taken_back_is_found(client: httpx.AsyncClient, conversation: str) -> None:
    """Behind the log's end, a question that stands in a branch comes back with its reply; the same again changes nothing."""
    await append(client, conversation, user("q1"), assistant("a1"), user("q2"), assistant("a2"))
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})
    for _ in range(2):
        body = await put(client, conversation, user("q1"), assistant("a1"), user("q2"), assistant("a2"))
        assert (await texts(client, conversation), body["version"]) == (["q1", "a1", "q2", "a2"], 3)
    assert await branches(client, conversation) == []


async def test_a_failed_model_brings_the_good_reply_back(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply that was begun and never got a word leaves no trace, and the branch brings the old reply back."""
    await append(client, conversation, user("q"), assistant("good", id="good"))
    begun = {"id": "R1", "role": "assistant", "content": "", "status": "in_progress"}
    body = await put(client, conversation, user("q"), begun)
    swapped = (await swap(client, conversation, body["branch"]["id"], **{"If-Match": body["etag"]})).json()
    assert (swapped["branch"], await texts(client, conversation)) == (None, ["q", "good"])
    assert await branches(client, conversation) == []


async def test_the_writer_of_a_displaced_reply_stops(client: httpx.AsyncClient, conversation: str) -> None:
    """Who writes a reply that became a branch gets 410, with the branch; the half reply there is interrupted."""
    half = {"id": "R1", "role": "assistant", "content": "half", "status": "in_progress"}
    await append(client, conversation, user("q"))
    await append(client, conversation, half)
    await put(client, conversation, user("q"), {**half, "id": "R2", "content": ""})
    late = {"messages": [{**half, "content": "half and more", "continues": True}]}
    answer = await client.post(f"/conversations/{conversation}/messages", json=late)
    problem(answer, 410, "reply-gone")
    assert answer.json()["branch"] == "b-1"
    await swap(client, conversation, "b-1")
    assert [(each["id"], each.get("status")) for each in await history(client, conversation)][1:] == [
        ("R1", "interrupted")
    ]
    answer = await client.post(f"/conversations/{conversation}/messages", json=late)
    problem(answer, 410, "reply-gone")


async def test_if_match_and_absent_branches(client: httpx.AsyncClient, conversation: str) -> None:
    """An overtaken tab gets 412; what is no branch is 404; nothing changes."""
    problem(await client.get(f"/conversations/{conversation}/branches"), 404, "not-found")
    await append(client, conversation, user("q"), assistant("a"))
    old = await etag_of(client, conversation)
    await put(client, conversation, user("q"), assistant("b"))
    tag = await etag_of(client, conversation)
    problem(await swap(client, conversation, "b-1", **{"If-Match": old}), 412, "precondition-failed")
    path = f"/conversations/{conversation}/branches"
    answer = await client.delete(f"{path}/b-1", headers={"If-Match": old})
    problem(answer, 412, "precondition-failed")
    for absent in ("b-2", "b-0", "b", "1"):
        problem(await swap(client, conversation, absent), 404, "not-found")
        problem(await client.delete(f"{path}/{absent}"), 404, "not-found")
    listed = await client.get(path, headers={"If-None-Match": tag})
    assert (listed.status_code, await etag_of(client, conversation)) == (304, tag)
    assert (await swap(client, conversation, "b-1", **{"If-Match": tag})).status_code == 200


async def test_a_swap_is_done_once_under_its_key(client: httpx.AsyncClient, conversation: str) -> None:
    """A repeated swap and a repeated drop under their keys change nothing more."""
    await append(client, conversation, user("q"), assistant("a"))
    await put(client, conversation, user("q"), assistant("b"))
    answers = [await swap(client, conversation, "b-1", **{"Idempotency-Key": f"{conversation}-s"}) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[0].json()["version"] == answers[1].json()["version"]
    key = {"Idempotency-Key": f"{conversation}-d"}
    for _ in range(2):
        answer = await client.delete(f"/conversations/{conversation}/branches/b-2", headers=key)
        assert answer.status_code == 204
    assert (await texts(client, conversation), await branches(client, conversation)) == (["q", "a"], [])


async def test_dropping_takes_what_hangs_in_it(client: httpx.AsyncClient, conversation: str) -> None:
    """A branch is dropped with the branches that hang in it."""
    chat = [user("u1"), assistant("a1"), user("u2"), assistant("a2")]
    await append(client, conversation, *chat)
    await put(client, conversation, *chat[:3], assistant("a2b"))
    await put(client, conversation, user("v1"))
    outer = next(each for each in await branches(client, conversation) if each["parent"] is None)
    answer = await client.delete(f"/conversations/{conversation}/branches/{outer['id']}")
    assert (answer.status_code, await branches(client, conversation)) == (204, [])
    assert answer.headers["ETag"] == await etag_of(client, conversation)


async def test_redaction_finds_an_entry_in_branches(client: httpx.AsyncClient, conversation: str) -> None:
    """An entry is redacted under its id in the log and in all branches, also where the log has it no more."""
    await append(client, conversation, user("secret one", id="u1"), assistant("a secret answer", id="a1"))
    await put(client, conversation, user("secret two", id="u1"), assistant("another", id="a2"))
    await put(client, conversation, user("three", id="u1"))
    for name in ("id:u1", "id:a1"):
        answer = await client.delete(f"/conversations/{conversation}/messages/{name}")
        assert answer.status_code == 204
        assert answer.headers["ETag"] == await etag_of(client, conversation)
    whole = (await client.get(f"/conversations/{conversation}/export")).text
    assert "secret" not in whole
    assert "another" in whole
    for branch in await branches(client, conversation):
        assert branch["first"]["text"] == "[redacted]"
    problem(await client.delete(f"/conversations/{conversation}/messages/id:none"), 404, "not-found")
    before = await etag_of(client, conversation)
    await client.delete(f"/conversations/{conversation}/messages/id:a1")
    assert await etag_of(client, conversation) == before
    await swap(client, conversation, "b-1")
    assert await texts(client, conversation) == ["[redacted]", "[redacted]"]


async def test_a_compaction_in_a_branch_is_redacted_with_what_it_covers(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A compaction may hold the content of messages before it on its way, also where it stands in a branch."""
    await append(client, conversation, user("secret", id="u1"), assistant("a", id="a1"))
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "covers-the-secret"}
    answer = await client.post(
        f"/conversations/{conversation}/messages", json={"messages": [item]}, params={"format": "responses"}
    )
    assert answer.status_code == 201, answer.text
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})
    assert "covers-the-secret" in (await client.get(f"/conversations/{conversation}/export")).text
    await client.delete(f"/conversations/{conversation}/messages/id:u1")
    assert "covers-the-secret" not in (await client.get(f"/conversations/{conversation}/export")).text


async def test_a_branch_keeps_its_media(client: httpx.AsyncClient, conversation: str) -> None:
    """A picture lives as long as a message or a branch has it."""
    see = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    await append(client, conversation, {"role": "user", "content": see, "id": "p"}, assistant("a cat"))
    (address,) = re.findall(r"/conversations/[^\"]*/media/[0-9a-f]{32}", str(await history(client, conversation)))
    await put(client, conversation, user("other"))
    assert (await client.get(address)).status_code == 200
    await swap(client, conversation, "b-1")
    inline = (await history(client, conversation, "inline"))[0]["message"]["content"]
    assert inline[1]["image_url"]["url"] == PICTURE
    await put(client, conversation, user("other"))
    await client.delete(f"/conversations/{conversation}/messages/id:p")
    assert (await client.get(address)).status_code == 404


async def test_copies_have_the_branches(client: httpx.AsyncClient, fresh: Any) -> None:
    """An export that is imported, and a fork, have the same messages and branches, and go their own ways."""
    conversation, imported, forked, early = fresh(), fresh(), fresh(), fresh()
    see = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    await append(client, conversation, *RICH, {"role": "user", "content": see}, assistant("a cat"))
    await put(client, conversation, user("q1"), assistant("at two"), user("edited"), assistant("x"))
    await put(client, conversation, user("q1"), assistant("never"))
    whole = (await client.get(f"/conversations/{conversation}/export")).content
    answer = await client.post(
        f"/conversations/import?id={imported}", content=whole, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 201, answer.text
    await client.post(f"/conversations/{conversation}/fork", json={"id": forked})
    wanted = await exported(client, conversation)
    assert wanted == await exported(client, imported) == await exported(client, forked)
    assert sum("branch" in line for line in wanted) == 2
    outer, nested = sorted(await branches(client, forked), key=lambda each: each["parent"] is not None)
    await client.delete(f"/conversations/{conversation}")
    for copy in (imported, forked):
        await swap(client, copy, nested["id"])
        inline = (await history(client, copy, "inline"))[4]["message"]["content"]
        assert inline[1]["image_url"]["url"] == PICTURE
        assert [each["parent"] for each in await branches(client, copy)] == [None, None]
    await client.post(f"/conversations/{forked}/fork", json={"id": early, "at_seq": 1})
    assert {each["after_seq"] for each in await branches(client, early)} <= {0, 1}
    assert outer["after_seq"] == 1


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (['{"branch":{"id":"b-1","after_seq":0}}'], "A branch has entries"),
        (['{"branch":{"id":"b-1","after_seq":2}}', '{"role":"user","content":"x"}'], "hangs behind an entry"),
        (['{"branch":{"id":"b-1","after_seq":0,"parent":"b-2"}}', '{"role":"user","content":"x"}'], "hangs behind"),
        (['{"branch":{"id":"c","after_seq":0}}', '{"role":"user","content":"x"}'], "id"),
        (['{"branch":{"id":"b-1","after_seq":0}}', '{"role":"user","content":"x"}'] * 2, "in the order"),
    ],
)
async def test_an_import_with_a_wrong_branch(
    client: httpx.AsyncClient, conversation: str, lines: list[str], detail: str
) -> None:
    """A branch that hangs in nothing, or is none, is refused with its line, and nothing is stored."""
    body = "\n".join(['{"model":"gpt-4o-mini"}', '{"role":"user","content":"q"}', *lines])
    answer = await client.post(
        f"/conversations/import?id={conversation}", content=body, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]
    assert (await client.get(f"/conversations/{conversation}")).status_code == 404


async def test_the_oldest_branches_go(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation keeps 100 branches of 1 MiB together; which are gone is told."""
    told = []
    for number in range(104):
        body = await put(client, conversation, user("q"), assistant(f"a{number}"))
        told += body.get("forgotten_branches", [])
    assert told == ["b-1", "b-2", "b-3"]
    assert len(await branches(client, conversation)) == 100
    large = "x" * 600_000
    await put(client, conversation, user("q"), assistant(large))
    body = await put(client, conversation, user("q"), assistant(f"{large}y"))
    assert body["branch"]["id"] == "b-105"
    body = await put(client, conversation, user("q"), assistant("small"))
    assert set(body["forgotten_branches"]) >= {"b-105"}
    assert [each["id"] for each in await branches(client, conversation)] == ["b-106"]
    await append(client, conversation, assistant(large), assistant(large))
    body = await put(client, conversation, user("new"))
    assert (body["branch"], body["forgotten_branches"]) == (None, ["b-107"]) or body["branch"] is None


async def test_branches_are_in_no_window_search_or_count(client: httpx.AsyncClient, conversation: str) -> None:
    """What stands in a branch is not sent, found or counted."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, user("q"), assistant("zebras are striped"))
    await put(client, conversation, user("q"), assistant("horses"))
    assert "zebras" not in json.dumps(await window(client, conversation))
    found = await client.get(f"/conversations/{conversation}/search", params={"query": "zebras"})
    assert "zebras" not in found.text
    state = (await client.get(f"/conversations/{conversation}")).json()
    assert state["messages"]["count"] == 2


async def test_branches_live_and_end_with_their_conversation(
    sealed: tuple[httpx.AsyncClient, str],
) -> None:
    """Branches are encrypted, renewed, and erased with their conversation, also an owner's."""
    import redis  # noqa: PLC0415

    client, url = sealed
    store = redis.Redis.from_url(url)
    for name, owner in (("one", None), ("two", "ann")):
        await client.post(
            "/conversations", json={"id": name, "ttl_seconds": 1000} | ({"owner": owner} if owner else {})
        )
        await append(client, name, user("zebra question", id="z"), assistant("zebra answer"))
        await put(client, name, user("other"))
        (key,) = store.keys(f"*{name}*:branches")
        assert b"zebra" not in b"".join(store.hgetall(key).values())
        store.pexpire(key, 5000)  # renewed with the next write
        await append(client, name, assistant("x"))
        assert store.pttl(key) > 500_000
        await swap(client, name, "b-1")
        assert await texts(client, name) == ["zebra question", "zebra answer"]
        await client.delete(f"/conversations/{name}/messages/id:z")
        await swap(client, name, "b-2")
        await client.delete(f"/conversations/{name}/messages/id:z")
        await swap(client, name, "b-3")
        assert await texts(client, name) == ["[redacted]", "zebra answer"]
    assert (await client.delete("/conversations/one")).status_code == 204
    assert (await client.delete("/owners/ann")).status_code in (202, 204)
    async with asyncio.timeout(60):
        while store.keys("*two*"):  # noqa: ASYNC110 - the store tells no event
            await asyncio.sleep(0.05)
    assert not store.keys("*:branches")
