"""Following an owner's conversations: a list, and then each one's events."""

import asyncio
from collections.abc import AsyncIterator, Callable

import httpx
import pytest_asyncio
from conftest import Served
from rigs.dialogue import user
from rigs.reading_events import following


@pytest_asyncio.fixture
async def near(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
        yield client


async def say(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post(f"/conversations/{name}/messages", json={"messages": [user("hello")]})
    answer.raise_for_status()


async def make(client: httpx.AsyncClient, name: str, owner: str, title: str = "T") -> None:
    given = {"id": name, "owner": owner, "metadata": {"title": title}}
    (await client.post("/conversations", json=given)).raise_for_status()


async def test_a_sidebar_has_the_list_and_then_each_change(near: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """The list comes first; then every version of every conversation once, new ones, erasures, and changes of hands."""
    owner, names = f"ann@{fresh()}", [fresh() for _ in range(4)]
    for name in names[:3]:
        await make(near, name, owner, name)
    path = f"/owners/{owner.replace('@', '%40')}/events"
    async with following(near, path) as heard:
        await heard.until(lambda: heard.types == ["listed"])
        listed = heard.events[0]["conversations"]
        assert [(each["id"], each["version"], each["metadata"]) for each in listed] == [
            (name, 1, {"title": name}) for name in reversed(names[:3])
        ]
        for name in (names[0], names[1], names[0]):
            await say(near, name)
        await heard.until(lambda: len(heard.events) == 4)
        assert sorted((each["conversation_id"], each["version"]) for each in heard.events[1:]) == sorted(
            [(names[0], 2), (names[0], 3), (names[1], 2)]
        )
        await make(near, names[3], owner)
        await heard.until(lambda: heard.types[4:] == ["reset"])
        await say(near, names[3])
        (await near.patch(f"/conversations/{names[1]}", json={"metadata": {"title": "new"}})).raise_for_status()
        await heard.until(lambda: len(heard.events) == 7)
        assert {"appended", "settings"} == set(heard.types[5:])
        (await near.delete(f"/conversations/{names[2]}")).raise_for_status()
        await heard.until(lambda: heard.types[7:] == ["erased"])
        (await near.patch(f"/conversations/{names[0]}", json={"owner": f"bob{owner}"})).raise_for_status()
        await heard.until(lambda: heard.types[8:] == ["settings", "left"])
        last = heard.ids[-1]
    async with following(near, path, headers={"Last-Event-ID": last}) as again:
        await say(near, names[0])  # it is another owner's now
        await say(near, names[1])
        await again.until(lambda: again.events != [])
        assert [(each["type"], each["conversation_id"]) for each in again.events] == [("appended", names[1])]
    async with following(near, path, headers={"Last-Event-ID": last}) as again:
        await again.until(lambda: again.events != [])
        assert {each["id"]: each["version"] for each in again.events[0]["conversations"]} == {names[1]: 4, names[3]: 2}
    (await near.delete(f"/owners/{owner.replace('@', '%40')}")).raise_for_status()


async def test_two_sidebars_share_what_is_read(near: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A reader that comes later gets its own list, and both get each event once; HEAD ends at once, a query is refused."""
    owner, name = fresh(), fresh()
    await make(near, name, owner)
    path = f"/owners/{owner}/events"
    async with following(near, path) as first:
        await first.until(lambda: first.types == ["listed"])
        await say(near, name)
        async with following(near, path) as second:
            await second.until(lambda: second.types == ["listed"])
            assert second.events[0]["conversations"][0]["version"] == 2
            await say(near, name)
            await asyncio.gather(
                first.until(lambda: len(first.events) == 3), second.until(lambda: len(second.events) == 2)
            )
            assert (first.events[-1], second.events[-1]["version"]) == (second.events[-1], 3)
        await say(near, name)
        await first.until(lambda: len(first.events) == 4)
    assert (await near.head(path)).status_code == 200
    assert (await near.get(path, params={"after": "1"})).status_code == 400
    (await near.delete(f"/conversations/{name}")).raise_for_status()


async def test_older_conversations_are_told_when_they_change(near: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """The list has the newest 100, and says that there are more; a change of one of these comes soon, with its state."""
    owner, names = fresh(), [fresh() for _ in range(104)]
    for name in names:
        await make(near, name, owner)
    old = names[:4]
    async with following(near, f"/owners/{owner}/events") as heard:
        await heard.until(lambda: heard.types == ["listed"])
        assert heard.events[0]["more"] is True
        assert [each["id"] for each in heard.events[0]["conversations"]] == names[:3:-1]
        await say(near, old[0])
        await heard.until(lambda: len(heard.events) == 2)
        await say(near, old[0])
        await heard.until(lambda: len(heard.events) == 3)
        (await near.patch(f"/conversations/{old[1]}", json={"metadata": {"title": "new"}})).raise_for_status()
        await heard.until(lambda: len(heard.events) == 4)
        (await near.delete(f"/conversations/{old[2]}")).raise_for_status()
        await heard.until(lambda: len(heard.events) == 5)
        (await near.patch(f"/conversations/{old[3]}", json={"owner": f"another-{owner}"})).raise_for_status()
        await heard.until(lambda: len(heard.events) == 6)
        (await near.delete(f"/conversations/{old[0]}")).raise_for_status()
        await heard.until(lambda: len(heard.events) == 7)
        await asyncio.sleep(4)  # nothing is told twice
        assert [(each["type"], each["conversation_id"]) for each in heard.events[1:]] == [
            ("reset", old[0]),
            ("appended", old[0]),
            ("reset", old[1]),
            ("erased", old[2]),
            ("left", old[3]),
            ("erased", old[0]),
        ]
    for each in (owner, f"another-{owner}"):
        (await near.delete(f"/owners/{each}")).raise_for_status()
