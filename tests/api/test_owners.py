"""Owners' lists of conversations: wrong lines are never shown, and the lists are repaired."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from conftest import Served
from rigs.dialogue import append, history, problem, user

from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, encode_settings
from sash.problems import StoreFull, StoreUnavailable
from sash.store.data import owners
from sash.store.data.conversations import Conversations
from sash.store.data.layout import target_at
from sash.store.data.owners import Owners
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore


@pytest.fixture
def owner(fresh: Callable[[], str]) -> str:
    """Return an owner that no other test uses."""
    return f"o-{fresh()}"


def index(owner: str, tenant: str = "default") -> str:
    return f"sash:{{{tenant}/owner/{owner}}}:conversations"


async def create(client: httpx.AsyncClient, identity: str, owner: str | None, **settings: Any) -> None:
    body = {"id": identity, **({"owner": owner} if owner else {}), **settings}
    assert (await client.post("/conversations", json=body)).status_code == 201


async def listed(client: httpx.AsyncClient, owner: str, **query: Any) -> list[str]:
    answer = await client.get("/conversations", params={"owner": owner, **query})
    assert answer.status_code == 200, answer.text
    return [conversation["id"] for conversation in answer.json()["conversations"]]


async def test_newest_activity_first(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """A list shows only the owner's conversations, the last changed first, immediately after each change."""
    first, second, third = fresh(), fresh(), fresh()
    for identity in (first, second, third):
        await create(client, identity, owner, system="x")
    await create(client, fresh(), f"{owner}x")
    assert await listed(client, owner) == [third, second, first]

    await append(client, first, user("hello"))
    assert await listed(client, owner) == [first, third, second]
    await client.patch(f"/conversations/{second}", json={"system": "y"})
    assert await listed(client, owner) == [second, first, third]
    shown = (await client.get("/conversations", params={"owner": owner, "limit": 1})).json()["conversations"][0]
    assert shown == (await client.get(f"/conversations/{second}")).json()


async def test_pages(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, server: Any) -> None:
    """Pages follow each other without a gap, also if many conversations were active at the same moment."""
    identities = sorted(fresh() for _ in range(7))
    for identity in identities:
        await create(client, identity, owner)
    now = time.time_ns() // 1000
    server.zadd(index(owner), dict.fromkeys(identities, now))

    found, path = [], f"/conversations?owner={owner}&limit=2"
    while path:
        answer = await client.get(path)
        found += [conversation["id"] for conversation in answer.json()["conversations"]]
        path = answer.links["next"]["url"] if "next" in answer.links else ""
        assert bool(path) == (answer.json()["next_cursor"] is not None)

    assert sorted(found) == identities


async def test_pages_by_bytes(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """If settings are large, a page ends at its limit of bytes, and the next one continues without a gap."""
    identities = [fresh() for _ in range(20)]
    for identity in identities:
        await create(client, identity, owner, metadata={"note": "x" * 600_000})

    pages, path = [], f"/conversations?owner={owner}&limit=1000"
    while path:
        answer = await client.get(path)
        pages.append([conversation["id"] for conversation in answer.json()["conversations"]])
        path = answer.links["next"]["url"] if "next" in answer.links else ""

    assert [len(page) for page in pages] == [6, 6, 6, 2]
    assert [identity for page in pages for identity in page] == identities[::-1]


async def test_a_change_of_hands(client: httpx.AsyncClient, conversation: str, owner: str, server: Any) -> None:
    """A conversation that changes its owner moves to the new owner's list; without an owner it is on neither list."""
    other = f"{owner}-2"
    await create(client, conversation, owner)

    await client.patch(f"/conversations/{conversation}", json={"owner": other})
    assert (await listed(client, owner), await listed(client, other)) == ([], [conversation])
    await client.patch(f"/conversations/{conversation}", json={"owner": None})
    assert (await listed(client, owner), await listed(client, other)) == ([], [])
    server.delete(index(owner), index(other))


@pytest.mark.parametrize("problem_of_the_list", [StoreUnavailable, StoreFull])
@pytest.mark.parametrize("how", ["moved", "erased"])
async def test_a_change_that_is_made_is_answered_though_its_line_stays(
    client: httpx.AsyncClient,
    conversation: str,
    owner: str,
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    problem_of_the_list: type[Exception],
) -> None:
    """If the earlier owner's list cannot be written after a change of owner or an erasure, that is answered as done."""

    def lost(*_: Any, **__: Any) -> Any:
        raise problem_of_the_list("The list's server does not answer.")

    path = f"/conversations/{conversation}"
    await create(client, conversation, owner)
    with monkeypatch.context() as lose:
        lose.setattr(owners, "_unlist", lost)
        if how == "moved":
            answer = await client.patch(path, json={"owner": f"{owner}-2"})
            assert (answer.status_code, answer.json().get("owner")) == (200, f"{owner}-2")
        else:
            assert (await client.delete(path)).status_code == 204

    assert server.zcard(index(owner)) == 1
    assert await listed(client, owner) == []
    server.delete(index(owner))


async def test_a_line_that_is_wrong_is_not_shown_and_goes(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, server: Any
) -> None:
    """Lines of absent conversations and of other owners' conversations are not shown, and old ones are removed."""
    others, absent, young = fresh(), fresh(), fresh()
    await create(client, others, f"{owner}x")
    old = time.time_ns() // 1000 - 700 * 1_000_000
    server.zadd(index(owner), {others: old, absent: old, young: old + 690 * 1_000_000})

    assert await listed(client, owner) == []

    assert server.zrange(index(owner), 0, -1) == [young]
    server.delete(index(owner))


async def test_a_crash_before_the_conversation_is_made(
    client: httpx.AsyncClient, conversation: str, owner: str, server: Any
) -> None:
    """A reader does not remove a new line whose conversation does not exist yet, since lines are written first."""
    line = (conversation, float(time.time_ns() // 1000))
    server.zadd(index(owner), dict([line]))
    assert await listed(client, owner) == []
    assert server.zrange(index(owner), 0, -1, withscores=True) == [line]
    await create(client, conversation, owner)
    assert await listed(client, owner) == [conversation]


async def test_an_append_heals(client: httpx.AsyncClient, conversation: str, owner: str, server: Any) -> None:
    """The next append restores a line that a failover lost."""
    await create(client, conversation, owner)
    server.delete(index(owner))
    await append(client, conversation, user("hello"))
    assert await listed(client, owner) == [conversation]


async def test_creation_looks_at_the_oldest(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, server: Any
) -> None:
    """Creating a conversation removes expired lines from its owner's list, so that an unread list does not keep them."""
    server.zadd(index(owner), {f"gone-{n}": 1000 + n for n in range(4)})
    made = fresh()
    await create(client, made, owner)
    for _ in range(6000):
        if server.zcard(index(owner)) == 1:
            break
        await asyncio.sleep(0.01)
    assert server.zrange(index(owner), 0, -1) == [made]


async def test_erasure_takes_the_line(client: httpx.AsyncClient, conversation: str, owner: str, server: Any) -> None:
    """Erasing a conversation removes its line."""
    await create(client, conversation, owner)
    await append(client, conversation, user("hello"))
    await client.delete(f"/conversations/{conversation}")
    assert server.exists(index(owner)) == 0


async def test_erase_an_owner(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, server: Any) -> None:
    """Erasing an owner erases all 120 conversations of that owner and no others, and may be repeated."""
    mine = [fresh() for _ in range(120)]
    theirs, moved = fresh(), fresh()
    await create(client, theirs, f"{owner}x")
    await create(client, moved, owner)
    await client.patch(f"/conversations/{moved}", json={"owner": f"{owner}x"})
    await asyncio.gather(*(create(client, identity, owner) for identity in mine))
    await append(client, mine[0], user("hello"))

    assert (await client.delete(f"/owners/{owner}")).status_code == 204

    states = [(await client.get(f"/conversations/{identity}")).status_code for identity in (*mine, theirs, moved)]
    assert states == [404] * 120 + [200, 200]
    assert await listed(client, owner) == []
    assert await listed(client, f"{owner}x") == [moved, theirs]
    assert (await client.delete(f"/owners/{owner}")).status_code == 204
    server.delete(index(owner))


async def test_erasing_what_is_lifted_between_batches(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, store: EmbeddedStore, server: Any
) -> None:
    """A conversation is erased even if an append moves its line to a part of the list that the erasure has passed."""
    mine = [fresh() for _ in range(40)]
    for identity in mine:
        await create(client, identity, owner)
    replica = Client(store.url)
    await replica.open()
    try:
        erasing = Owners(replica, Conversations(replica)).erase("default", owner)
        assert await anext(erasing) == 16
        await append(client, mine[0], user("hello"))
        assert (await listed(client, owner))[0] == mine[0]  # a reader first writes pending activity to the list
        assert sum([erased async for erased in erasing]) == 24
    finally:
        await replica.close()
    assert (await client.get(f"/conversations/{mine[0]}")).status_code == 404
    assert server.zcard(index(owner)) == 0


async def test_erasing_while_it_is_written_to(
    client: httpx.AsyncClient, conversation: str, owner: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends while an owner is erased do not keep the conversation or its line, and a later one begins it anew, unowned."""
    await create(client, conversation, owner)
    await append(client, conversation, user("hello"))
    answers = overtake(monkeypatch, [lambda n=n: append(client, conversation, user(f"{n}")) for n in range(3)])

    assert (await client.delete(f"/owners/{owner}")).status_code == 204

    assert [answer["messages"][0]["seq"] for answer in answers] == [2, 3, 4]
    problem(await client.get(f"/conversations/{conversation}"), 404, "not-found")
    assert await listed(client, owner) == []
    assert server.exists(index(owner)) == 0
    assert (await append(client, conversation, user("again")))["messages"][0]["seq"] == 1
    assert "owner" not in (await client.get(f"/conversations/{conversation}")).json()
    assert await listed(client, owner) == []
    assert server.exists(index(owner)) == 0


async def test_what_changes_hands_while_an_owner_is_erased_is_kept(
    client: httpx.AsyncClient, conversation: str, owner: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that gets another owner just before its erasure is not erased, and is on the new owner's list."""
    other = f"{owner}-2"
    await create(client, conversation, owner)
    await append(client, conversation, user("hello"))
    moved = overtake(monkeypatch, [lambda: client.patch(f"/conversations/{conversation}", json={"owner": other})])

    assert (await client.delete(f"/owners/{owner}")).status_code == 204

    assert [answer.status_code for answer in moved] == [200]
    assert [each["message"]["content"] for each in await history(client, conversation)] == ["hello"]
    assert (await listed(client, owner), await listed(client, other)) == ([], [conversation])
    server.delete(index(owner))


def overtake(monkeypatch: pytest.MonkeyPatch, writes: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run one of the writes just before each erasure of a conversation, and return the list of their answers."""
    erase, answers = Conversations.erase, []

    async def overtaken(self: Conversations, *place: str, **condition: str) -> Any:
        if len(answers) < len(writes):
            answers.append(await writes[len(answers)]())
        return await erase(self, *place, **condition)

    monkeypatch.setattr(Conversations, "erase", overtaken)
    return answers


async def test_forks_and_imports_are_listed(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """Forks and imports are on their owner's list, like the original."""
    source, copy, imported = fresh(), fresh(), fresh()
    await create(client, source, owner)
    await client.post(f"/conversations/{source}/fork", json={"id": copy})
    exported = (await client.get(f"/conversations/{source}/export")).content
    headers = {"Content-Type": "application/x-ndjson"}
    await client.post(f"/conversations/import?id={imported}", content=exported, headers=headers)
    assert await listed(client, owner) == [imported, copy, source]


async def test_conditions(client: httpx.AsyncClient, conversation: str, owner: str) -> None:
    """An unchanged page is 304; a changed one is sent."""
    await create(client, conversation, owner)
    path = f"/conversations?owner={owner}"
    tag = (await client.get(path)).headers["etag"]
    for known in (tag, "*"):
        assert (await client.get(path, headers={"If-None-Match": known})).status_code == 304
    await append(client, conversation, user("hello"))
    assert (await client.get(path, headers={"If-None-Match": tag})).status_code == 200


@pytest.mark.parametrize(
    "query", ["?limit=0", "?owner=", "?owner=a%0Ab", "?owner=a&limit=0", "?owner=a&limit=1001", "?owner=a&x=1"]
)
async def test_wrong_queries(client: httpx.AsyncClient, query: str) -> None:
    """A list request with an invalid owner, or another invalid parameter, is 400."""
    problem(await client.get(f"/conversations{query}"), 400, "bad-request")


@pytest.mark.parametrize("cursor", ["x", "MTI", "MTphL2I", "OTk5OTk5OTk5OTk5OTk5OTk5OmE"])
async def test_wrong_cursors(client: httpx.AsyncClient, cursor: str) -> None:
    """A cursor that no listing gave is 400."""
    problem(await client.get(f"/conversations?owner=a&cursor={cursor}"), 400, "invalid-cursor")


NAMES = [
    "ann@example.com",
    "auth0|5f7c",
    "https://login.example/?sub=1&x=2#me",
    "Zoë Müller — 日本",
    "a%2Fb",
    "50%",
    "{brace}:conversation",
    "*",
    "...",
    " ",
    "🦊" * 256,
]


@pytest.mark.parametrize("name", NAMES)
async def test_owners_of_other_systems(client: httpx.AsyncClient, fresh: Callable[[], str], name: str) -> None:
    """An owner's id is any printable text: its conversations are made, listed page by page, given away and erased."""
    ids = [fresh() for _ in range(3)]
    for each in ids:
        await create(client, each, name)
        await append(client, each, user("hello"))
    other = f"{name[:200]}2"
    await client.patch(f"/conversations/{ids[0]}", json={"owner": other})
    assert (await client.get(f"/conversations/{ids[0]}")).json()["owner"] == other

    first = await client.get("/conversations", params={"owner": name, "limit": 1})
    rest = await client.get(first.links["next"]["url"])
    assert [each["id"] for page in (first, rest) for each in page.json()["conversations"]] == [ids[2], ids[1]]
    assert (await client.delete(f"/owners/{quote(name, safe='')}")).status_code == 204

    assert (await client.get("/conversations", params={"owner": name})).json()["conversations"] == []
    assert (await client.get(f"/conversations/{ids[1]}")).status_code == 404
    assert (await client.delete(f"/owners/{quote(other, safe='')}")).status_code == 204
    assert (await client.get(f"/conversations/{ids[0]}")).status_code == 404


@pytest.mark.parametrize("name", NAMES)
def test_owners_on_the_wire(served: Served, fresh: Callable[[], str], name: str) -> None:
    """The real server erases exactly the owner whose percent-encoded id is in the path."""
    for owner in (name, f"{name[:200]}2"):
        made = httpx.post(f"{served.url}/conversations", json={"id": fresh(), "owner": owner})
        assert made.status_code == 201

    assert httpx.delete(f"{served.url}/owners/{quote(name, safe='')}").status_code == 204

    left = {
        owner: len(httpx.get(f"{served.url}/conversations", params={"owner": owner}).json()["conversations"])
        for owner in (name, f"{name[:200]}2")
    }
    assert list(left.values()) == [0, 1]
    httpx.delete(f"{served.url}/owners/{quote(f'{name[:200]}2', safe='')}")


@pytest.mark.parametrize("name", ["", "a\nb", "\x7f", "x" * 257, ".", "..", 7])
async def test_wrong_owners(client: httpx.AsyncClient, conversation: str, name: Any) -> None:
    """Another text is 400, which says what an owner's id is."""
    told = problem(await client.post("/conversations", json={"id": conversation, "owner": name}), 400, "bad-request")
    assert "1 to 256 characters of any text without control characters" in told["detail"]
    assert told["errors"][0]["pointer"] == "#/owner"


@pytest.mark.parametrize("path", ["a%0Ab", "%FF", "%00", "x" * 257])
async def test_wrong_owners_in_a_path(client: httpx.AsyncClient, path: str) -> None:
    """A path that names no owner is 400, which says how to write one."""
    answer = await client.delete(f"/owners/{path}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "#/path/owner_id")
    assert "as in /owners/ann%40example.com" in answer.json()["detail"]


async def test_a_list_expires_after_its_conversations(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str, server: Any
) -> None:
    """A list is kept longer than its conversations, and renewed with them; one without a time to live keeps it for ever."""
    short, long = fresh(), fresh()
    await create(client, short, owner, ttl_seconds=100)
    assert 200_000 < server.pttl(index(owner)) <= 800_000
    await create(client, long, owner, ttl_seconds=1000)
    assert 2_000_000 < server.pttl(index(owner)) <= 2_600_000
    await append(client, short, user("hello"))
    assert await listed(client, owner) == [short, long]
    assert server.pttl(index(owner)) > 2_000_000
    await client.patch(f"/conversations/{long}", json={"ttl_seconds": None})
    assert server.pttl(index(owner)) == -1


@pytest.mark.parametrize("other", ["other", None])
async def test_a_change_of_owner_leaves_the_earlier_list(
    other: str | None, client: httpx.AsyncClient, conversation: str, owner: str, server: Any
) -> None:
    """A conversation with another owner, or none, is no longer on its earlier owner's list, without a reader."""
    await create(client, conversation, owner)
    await append(client, conversation, user("hello"))
    changed = f"{owner}-{other}" if other else None
    assert (await client.patch(f"/conversations/{conversation}", json={"owner": changed})).status_code == 200
    assert server.zcard(index(owner)) == 0
    if changed:
        assert await listed(client, changed) == [conversation]


@pytest.mark.parametrize("call", ["append", "redact", "rewind", "summary"])
async def test_each_change_keeps_the_list(
    call: str, client: httpx.AsyncClient, conversation: str, owner: str, server: Any
) -> None:
    """Each change of a conversation, which restarts its time to live, restarts that of its owner's list."""
    await create(client, conversation, owner, ttl_seconds=1000)
    await append(client, conversation, user("hello"), user("bye"))
    await listed(client, owner)  # writes the activity of the append
    server.pexpire(index(owner), 60_000)
    path = f"/conversations/{conversation}"
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "append": lambda: append(client, conversation, user("again")),
        "redact": lambda: client.delete(f"{path}/messages/1"),
        "rewind": lambda: client.post(f"{path}/rewind", json={"to_seq": 1}),
        "summary": lambda: client.delete(f"{path}/summary"),
    }
    await calls[call]()
    await listed(client, owner)
    assert server.pttl(index(owner)) > 2_000_000


@pytest.mark.parametrize(("ttl_seconds", "kept"), [(1000, False), (None, True)])
async def test_a_list_that_was_lost_is_made_again(
    ttl_seconds: int | None, *, kept: bool, client: httpx.AsyncClient, conversation: str, owner: str, server: Any
) -> None:
    """The next activity makes a lost list again, and it expires only if the conversation does."""
    await create(client, conversation, owner, **({"ttl_seconds": ttl_seconds} if ttl_seconds else {}))
    server.delete(index(owner))
    await append(client, conversation, user("hello"))
    assert await listed(client, owner) == [conversation]
    assert (server.pttl(index(owner)) == -1) == kept


@pytest.mark.parametrize("moment", ["before", "middle", "after"])
async def test_a_late_hint_leaves_no_line(
    moment: str, client: httpx.AsyncClient, store: EmbeddedStore, conversation: str, owner: str, server: Any
) -> None:
    """Activity that another replica reports before, during or after an erasure leaves no line on the list."""
    replica = Client(store.url)
    await replica.open()
    try:
        conversations = Conversations(replica)
        owners, other = Owners(replica, conversations), Owners(replica, conversations)
        await create(client, conversation, owner)
        settings = encode_settings(ConversationSettings(owner=owner))
        other.touch(target_at("default", conversation), settings)
        if moment == "before":
            await other._flush()
        line = await owners.line(target_at("default", conversation), owner)
        other.touch(target_at("default", conversation), settings)
        if moment == "middle":
            await other._flush()
        await conversations.erase(target_at("default", conversation), if_match="")
        await owners.unlist(line)
        await other.close()
    finally:
        await replica.close()
    assert server.zcard(index(owner)) == 0


async def test_what_is_noted_is_written_when_a_worker_ends(
    client: httpx.AsyncClient, store: EmbeddedStore, owner: str, server: Any
) -> None:
    """Activity whose lines are being written as a worker ends is on the list."""
    names = [f"{owner}-{number}" for number in range(100)]
    await asyncio.gather(*(create(client, name, owner) for name in names))
    server.delete(index(owner))
    replica = Client(store.url)
    await replica.open()
    try:
        owners = Owners(replica, Conversations(replica))
        for name in names:
            owners.touch(target_at("default", name), encode_settings(ConversationSettings(owner=owner)))
        await asyncio.sleep(0.001)  # the first lines are on their way
        await owners.close()
    finally:
        await replica.close()
    assert server.zcard(index(owner)) == len(names)
