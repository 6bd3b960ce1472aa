"""Following a conversation: every version is told once, in order, also to a reader that was away."""

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import Served, serving_alone
from rigs.dialogue import calling, result, user
from rigs.reading_events import applied, following

from sash.store.data.api_keys import ApiKeys
from sash.store.redis.client import Client

KEYS = "one:key-1,two:key-2"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service for this file, with few followers and two tenants."""
    folder = tmp_path_factory.mktemp("events")
    with serving_alone(
        folder,
        SASH_MAX_FOLLOWERS="12",
        SASH_MAX_TENANT_FOLLOWERS="8",
        SASH_API_KEYS=KEYS,
        SASH_METRICS_KEY="m",
    ) as process:
        yield process


@pytest_asyncio.fixture
async def one(alone: Served) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer key-1"}
    async with httpx.AsyncClient(base_url=alone.url, headers=headers, timeout=20) as client:
        yield client


async def say(client: httpx.AsyncClient, name: str, *entries: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = await client.post(f"/conversations/{name}/messages", json={"messages": list(entries)}, params=query)
    return answer.raise_for_status().json()


def reply(text: str, status: str, identity: str = "reply") -> dict[str, Any]:
    return {"id": identity, "role": "assistant", "content": text, "status": status}


async def change_everything(client: httpx.AsyncClient, name: str) -> list[str]:
    """Change a conversation in each way; returns the types of the versions, from the first on."""
    path = f"/conversations/{name}"
    await say(client, name, user("one"))
    await say(client, name, user("two"), user("three"))
    await say(client, name, reply("half", "in_progress"))
    await say(client, name, reply("half a text", "completed"))
    (await client.patch(path, json={"metadata": {"title": "T"}})).raise_for_status()
    (await client.patch(f"{path}/messages/2", json={"pinned": True})).raise_for_status()
    (await client.put(f"{path}/summary", json={"text": "so far", "through_seq": 1})).raise_for_status()
    (await client.delete(f"{path}/messages/1")).raise_for_status()
    await say(client, name, user("four"), after_seq=2)
    (await client.post(f"{path}/rewind", json={"to_seq": 1})).raise_for_status()
    return [
        *("appended", "appended", "appended", "replaced", "settings", "amended", "summary", "redacted", "rewound"),
        "rewound",
    ]


async def test_each_version_is_told_once_in_order(one: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A reader gets an event for each version, with its kind and the messages that it is about."""
    name = fresh()
    await say(one, name, user("zero"))
    async with following(one, f"/conversations/{name}/events") as heard:
        await heard.until(lambda: heard.types == ["reset"])
        assert heard.events[0]["conversation"]["version"] == 1
        expected = await change_everything(one, name)
        await heard.until(lambda: len(heard.events) == 1 + len(expected))
        assert heard.types[1:] == expected
        assert heard.versions == list(range(1, 2 + len(expected)))
        assert [message["seq"] for message in heard.events[2]["messages"]] == [3, 4]
        assert heard.events[4]["messages"][0]["entry"]["message"]["content"] == "half a text"
        assert "entry" not in heard.events[1]["messages"][0]
        (await one.delete(f"/conversations/{name}")).raise_for_status()
        await heard.until(lambda: heard.ended)
        assert heard.types[-1] == "erased"


async def test_a_reader_that_was_away_gets_what_came_since(one: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """From any version on, the events lead to the history as it is, by dropping and putting messages."""
    name = fresh()
    seen: list[dict[int, str]] = [{}]
    async with following(one, "/conversations/" + await begun(one, name) + "/events", after=1, body="true") as heard:
        types = await change_everything(one, name)
        await heard.until(lambda: len(heard.events) == len(types))
        seen += [applied(heard.events[:count], {1: "first"}) for count in range(len(types) + 1)]
        page = (await one.get(f"/conversations/{name}/messages")).json()["messages"]
        assert seen[-1] == {message["seq"]: message["id"] for message in page}
        for version in range(1, len(types) + 2):
            async with following(one, f"/conversations/{name}/events", after=version) as again:
                count = len(types) + 1 - version
                await again.until(lambda again=again, count=count: len(again.events) >= count)
                assert again.versions == list(range(version + 1, len(types) + 2))
                assert applied(again.events, seen[version]) == seen[-1]


async def begun(client: httpx.AsyncClient, name: str) -> str:
    await say(client, name, {"id": "first", **user("zero")})
    return name


async def test_a_view_is_told_what_its_agent_sees(one: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A reader of a view gets an event a version, too: without what is for others, and `unseen` where that is all."""
    name = await begun(one, fresh())
    path, events = f"/conversations/{name}", f"/conversations/{name}/events"
    fraud, triage = {"audience": ["fraud"]}, {"author": "triage"}

    async def send(method: str, at: str, body: Any = None) -> None:
        (await one.request(method, f"{path}{at}", json=body)).raise_for_status()

    steps: list[tuple[str, Callable[[], Any]]] = [
        ("appended", lambda: say(one, name, user("SECRET", id="s-1", **fraud), user("for all", id="m-1"))),
        ("appended", lambda: say(one, name, reply("I look", "in_progress", "r-1") | triage)),
        ("replaced", lambda: say(one, name, calling("SECRET-1", id="r-1", **triage))),
        ("unseen", lambda: say(one, name, result("SECRET-1", "SECRET", **triage))),
        ("unseen", lambda: say(one, name, reply("SECRET", "in_progress", "r-2") | fraud)),
        ("unseen", lambda: say(one, name, reply("SECRET text", "completed", "r-2") | fraud)),
        ("unseen", lambda: send("PATCH", "/messages/6", {"pinned": True})),
        ("unseen", lambda: send("DELETE", "/messages/2")),
        ("summary", lambda: send("PUT", "/summary", {"text": "SECRET", "through_seq": 5})),
        ("settings", lambda: send("PATCH", "", {"metadata": {"title": "T"}})),
        ("redacted", lambda: send("DELETE", "/messages/3")),
        ("rewound", lambda: say(one, name, user("SECRET", id="s-2", **fraud), user("on", id="m-2"), after_seq=3)),
    ]
    async with (
        following(one, events, after=1, view="billing", body="true") as heard,
        following(one, events, after=1, view="billing") as named,
        following(one, events, after=1, view="fraud", body="true") as fraudulent,
        following(one, events, after=1) as every,
    ):
        readers = (heard, named, fraudulent, every)
        for version, (_, change) in enumerate(steps, 2):
            await change()
            for reader in readers:
                await reader.until(lambda reader=reader, version=version: reader.versions[-1:] == [version])
        assert heard.types == named.types == [kind for kind, _ in steps]
        assert "unseen" not in every.types
        assert all(reader.versions == every.versions for reader in readers)
        assert [each["seq"] for each in heard.events[0]["messages"]] == [3]
        assert (heard.events[2]["left_out"], heard.events[2]["messages"]) == ([4], [])
        assert heard.events[3] == {"type": "unseen", "conversation_id": name, "version": 5}
        assert heard.events[9]["conversation"]["summary"] is None
        assert fraudulent.events[9]["conversation"]["summary"]["text"] == "SECRET"
        assert "SECRET" not in str([heard.events, named.events])
        assert "entry" not in named.events[0]["messages"][0]
    for view, live in (("billing", heard), ("fraud", fraudulent)):
        listed = (await one.get(f"{path}/messages", params={"view": view})).json()["messages"]
        ids = {message["seq"]: message["id"] for message in listed}
        async with following(one, events, after=1, view=view, body="true") as later:
            await later.until(lambda later=later: later.versions[-1:] == [13])
            assert applied(later.events, {1: "first"}) == applied(live.events, {1: "first"}) == ids
            assert later.ids[-1] == live.ids[-1]
        async with following(one, events, headers={"Last-Event-ID": live.ids[4]}, view=view) as later:
            await later.until(lambda later=later: later.versions[-1:] == [13])
            assert later.versions == [*range(7, 14)]


COMPACTION = {"role": "assistant", "content": [{"type": "compaction", "content": "The secret is 4711."}]}


async def test_a_redaction_tells_the_compactions_that_go_with_it(
    one: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """Each message that a redaction takes is told once, the compactions behind it first, to readers here and away."""
    name = fresh()
    path, owner = f"/conversations/{name}", f"{name}@example.com"
    (await one.post("/conversations", json={"id": name, "owner": owner})).raise_for_status()
    talk = [user("the secret is 4711"), user("on", audience=["fraud"]), COMPACTION, user("more"), COMPACTION]
    version = (await say(one, name, *talk, format="anthropic"))["version"]
    async with (
        following(one, f"{path}/events", after=version, body="true") as heard,
        following(one, f"{path}/events", after=version, view="billing", body="true") as seen,
        following(one, f"/owners/{owner}/events") as listed,
    ):
        await listed.until(lambda: listed.types[-1:] == ["reset"] or listed.types == ["listed"])
        deleted = await one.delete(f"{path}/messages/1")
        last = int(deleted.headers["etag"].strip('"').partition("-")[0])
        for reader in (heard, seen, listed):
            await reader.until(lambda reader=reader: reader.versions[-1:] == [last])
    async with following(one, f"{path}/events", after=version, body="true") as later:
        await later.until(lambda: later.versions[-1:] == [last])
    for reader in (heard, seen, listed, later):
        told = [event for event in reader.events if event["type"] == "redacted"]
        assert [[each["seq"] for each in event["messages"]] for event in told] == [[5], [3], [1]]
        assert [event["version"] for event in told] == [*range(version + 1, last + 1)]
    assert "4711" not in str([reader.events for reader in (heard, seen, later)])


@pytest.mark.parametrize("how", ["redact", "rewind", "append after"])
async def test_an_event_tells_that_the_summary_is_gone(
    one: httpx.AsyncClient, fresh: Callable[[], str], how: str
) -> None:
    """A version that takes a message that the summary covers says that the summary went, to a view too."""
    name = await begun(one, fresh())
    path = f"/conversations/{name}"
    await say(one, name, user("two", audience=["fraud"]), user("three", audience=["fraud"]))
    item = {"type": "compaction", "content": "so far"}

    async def take(seq: int) -> None:
        match how:
            case "redact":
                answer = await one.delete(f"{path}/messages/{seq}")
            case "rewind":
                answer = await one.post(f"{path}/rewind", json={"to_seq": seq - 1})
            case _:
                body = {"messages": [user("anew")]}
                answer = await one.post(f"{path}/messages", json=body, params={"after_seq": seq - 1})
        answer.raise_for_status()

    (await one.put(f"{path}/summary", json={"item": item, "through_seq": 2})).raise_for_status()
    version = int((await one.get(path)).json()["version"])
    async with (
        following(one, f"{path}/events", after=version) as heard,
        following(one, f"{path}/events", after=version, view="billing") as seen,
    ):
        await take(3)
        assert (await one.get(path)).json()["summary"] is not None
        await take(2)
        assert (await one.get(path)).json()["summary"] is None
        for reader in (heard, seen):
            await reader.until(lambda reader=reader: len(reader.events) == 2)
            assert [event.get("summary_removed", False) for event in reader.events] == [False, True]
    if how == "redact":
        assert [event["messages"][0]["seq"] for event in heard.events] == [3, 2]
        assert seen.types == ["unseen", "summary"]


async def test_the_end_of_a_reply_takes_the_summary_of_its_half(
    one: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """A reply that ends behind a summary of its half tells so."""
    name = await begun(one, fresh())
    await say(one, name, reply("half", "in_progress"))
    await say(one, name, user("meanwhile"))
    put = {"text": "so far", "through_seq": 3}
    version = (await one.put(f"/conversations/{name}/summary", json=put)).raise_for_status().json()["version"]
    async with following(one, f"/conversations/{name}/events", after=version) as heard:
        await say(one, name, reply("half a text", "completed"))
        await heard.until(lambda: heard.events != [])
    assert (heard.types, heard.events[0]["summary_removed"]) == (["replaced"], True)


async def test_an_event_id_names_a_life(one: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """Last-Event-ID goes before `after`; the id of an ended life gives a reset, and so does a version that is not there."""
    name = await begun(one, fresh())
    path = f"/conversations/{name}/events"
    await say(one, name, user("more"))
    async with following(one, path, after=0) as heard:
        await heard.until(lambda: len(heard.events) == 2)
        first, last = heard.ids
    async with following(one, path, headers={"Last-Event-ID": first}, after=0) as heard:
        await heard.until(lambda: heard.events != [])
        assert heard.versions == [2]
    async with following(one, path, after=7) as heard:
        await heard.until(lambda: heard.events != [])
        assert heard.types == ["reset"]
    tag = (await one.get(f"/conversations/{name}")).headers["etag"]
    async with following(one, path, after=tag) as heard:
        await say(one, name, user("third"))
        await heard.until(lambda: heard.events != [])
        assert heard.versions == [3]
    (await one.delete(f"/conversations/{name}")).raise_for_status()
    for _ in range(3):
        await say(one, name, user("another life"))
    async with following(one, path, headers={"Last-Event-ID": last}) as heard:
        await heard.until(lambda: heard.events != [])
        assert (heard.types, heard.versions) == (["reset"], [3])


async def test_texts_in_progress_come_four_a_second(one: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """Of many texts of a reply in progress, at most four a second are told, and then its end."""
    name = await begun(one, fresh())
    async with following(one, f"/conversations/{name}/events", after=1) as heard:
        began = asyncio.get_running_loop().time()
        for size in range(1, 60):
            await say(one, name, reply("x" * size, "in_progress"))
        await say(one, name, reply("x" * 60, "completed"))
        took = asyncio.get_running_loop().time() - began
        await heard.until(lambda: heard.versions[-1:] == [61])
        assert heard.types[0] == "appended"
        assert 2 <= heard.types.count("replaced") <= 4 * took + 2
        assert heard.events[-1]["messages"][0]["entry"]["message"]["content"] == "x" * 60
        assert heard.versions == sorted(set(heard.versions))


async def test_another_tenant_and_other_requests_are_refused(
    alone: Served, one: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """A missing and a foreign conversation are 404, a wrong place 400, another method 405; HEAD ends at once."""
    name = await begun(one, fresh())
    path = f"/conversations/{name}/events"
    async with httpx.AsyncClient(base_url=alone.url, headers={"Authorization": "Bearer key-2"}) as two:
        foreign = await two.get(path)
        absent = await two.get("/conversations/absent/events")
        assert (foreign.status_code, absent.status_code) == (404, 404)
    for wrong in ("x", "-1", "1.5", "9" * 16):
        answer = await one.get(path, params={"after": wrong})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "#/query/after")
    assert (await one.get(path, headers={"Last-Event-ID": "x"})).status_code == 400
    assert (await one.get(path, params={"whole": "true"})).status_code == 400
    assert (await one.post(path)).status_code == 405
    head = await one.head(path)
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "text/event-stream", b"")
    assert (head.headers["cache-control"], head.headers["x-accel-buffering"]) == ("no-store", "no")
    head = await one.head("/owners/nobody/events")
    assert (head.headers["cache-control"], head.headers["x-accel-buffering"]) == ("no-store", "no")
    async with httpx.AsyncClient(base_url=alone.url) as nobody:
        assert (await nobody.get(path)).status_code == 401


async def test_there_are_only_so_many_followers(
    alone: Served, one: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """Beyond its share a tenant gets 429, and another still follows; beyond all places it is 503; who leaves makes room."""
    name = await begun(one, fresh())
    path = f"/conversations/{name}/events"
    owners = f"/owners/{fresh()}/events"
    async with (
        httpx.AsyncClient(base_url=alone.url, headers=dict(one.headers), timeout=20) as many,
        httpx.AsyncClient(base_url=alone.url, headers={"Authorization": "Bearer key-2"}, timeout=20) as two,
    ):
        tasks = [asyncio.create_task(hold(many, path)) for _ in range(8)]
        refused = await answered(one, path, 429)
        assert int(refused.headers["retry-after"]) > 0
        told = (await one.get(owners)).json()
        assert (told["type"], told["limit"]) == ("/problems/too-many-requests", 8)
        assert (await two.head(owners)).status_code == 200
        tasks += [asyncio.create_task(hold(two, owners)) for _ in range(4)]
        refused = await answered(two, owners, 503)
        assert int(refused.headers["retry-after"]) > 0
        assert (await two.get(owners)).json()["type"] == "/problems/too-many-followers"
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        await answered(one, path, 200)
        await answered(two, owners, 200)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def hold(client: httpx.AsyncClient, path: str) -> None:
    """Follow, and come again where another request has the last place for a moment."""
    while True:
        async with client.stream("GET", path) as answer:
            async for _ in answer.aiter_lines():
                pass
        await asyncio.sleep(0.02)


async def answered(client: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
    """Ask until the answer has this status."""
    async with asyncio.timeout(60):
        while (answer := await client.head(path)).status_code != status:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.02)
        return answer


async def test_a_slow_reader_is_cut_and_comes_back(
    alone: Served, one: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """A reader that takes nothing is cut while another gets all; with its last id it gets what it missed."""
    name = await begun(one, fresh())
    path = f"/conversations/{name}/events"
    host, port = alone.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET {path}?after=1&body=true HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer key-1\r\n\r\n"
        slow.sendall(head.encode())
        async with following(one, path, after=1, body="true") as heard:
            for number in range(60):
                await say(one, name, user(f"{number} " + "long " * 20_000))
            await heard.until(lambda: len(heard.events) == 60, 60)
            assert heard.versions == list(range(2, 62))
        async with asyncio.timeout(60):
            while 'sash_followers_ended_total{reason="slow"}' not in await figures(alone):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.1)
    async with following(one, path, after=31) as again:
        await again.until(lambda: len(again.events) == 30)
        assert again.versions == list(range(32, 62))


async def test_each_event_is_counted_by_the_type_that_its_reader_got(tmp_path: Path) -> None:
    """What a view turns to `unseen` is counted so, and an owner's event once."""
    process = Served(tmp_path / "data", SASH_METRICS_KEY="m")
    process.start()
    async with httpx.AsyncClient(base_url=process.url, timeout=20) as client:
        await client.post("/conversations", json={"id": "c-1", "owner": "ann"})
        path = "/conversations/c-1/events"
        await say(client, "c-1", user("before", audience=["fraud"]))
        async with (
            following(client, path, after=2) as every,
            following(client, path, after=1, view="billing") as billing,
            following(client, path, after=1, view="fraud") as fraud,
            following(client, "/owners/ann/events") as listed,
        ):
            await billing.until(lambda: billing.versions == [2])
            await fraud.until(lambda: fraud.versions == [2])
            await listed.until(lambda: listed.types == ["listed"])
            await say(client, "c-1", user("SECRET", audience=["fraud"]))
            await say(client, "c-1", user("for all"))
            for reader in (every, billing, fraud, listed):
                await reader.until(lambda reader=reader: reader.versions[-1:] == [4])
            readers = (every, billing, fraud, listed)
            types = Counter(kind for reader in readers for kind in reader.types)
            counted = re.findall(r'^sash_events_total\{type="(\w+)"\} (\d+)', await figures(process), re.MULTILINE)
            assert {kind: int(number) for kind, number in counted} == types
            assert types["unseen"] == 2
    await asyncio.to_thread(process.stop)


async def figures(alone: Served) -> str:
    async with httpx.AsyncClient(base_url=alone.url) as client:
        return (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text


async def test_a_worker_that_stops_ends_its_streams(tmp_path: Path) -> None:
    """On SIGTERM each stream ends with a pause to come back after; nothing is missed over the restart."""
    process = Served(tmp_path / "data")
    process.start()
    async with httpx.AsyncClient(base_url=process.url, timeout=20) as client:
        await begun(client, "c-1")
        async with following(client, "/conversations/c-1/events", after=1) as heard:
            await say(client, "c-1", user("two"))
            await heard.until(lambda: heard.versions == [2])
            await asyncio.to_thread(process.stop)
            await heard.until(lambda: heard.ended)
            assert len(heard.retries) == 1
            assert 500 <= heard.retries[0] <= 3000
            last = heard.ids[-1]
    process.start()
    async with httpx.AsyncClient(base_url=process.url, timeout=20) as client:
        await say(client, "c-1", user("three"))
        async with following(client, "/conversations/c-1/events", headers={"Last-Event-ID": last}) as heard:
            await heard.until(lambda: heard.versions == [3])
    await asyncio.to_thread(process.stop)


async def test_a_revoked_key_ends_its_streams(tmp_path: Path) -> None:
    """A comment comes within 15 seconds; the stream of a key that is revoked ends at its next one, another's goes on."""
    process = Served(tmp_path / "data", SASH_REQUIRE_KEYS="1")
    process.start()
    store = Client(f"unix://{tmp_path / 'data' / 'valkey.sock'}")
    await store.open()
    keys = ApiKeys(store)
    (kept, _), (gone, record) = await keys.create("one", 1), await keys.create("one", 2)
    async with httpx.AsyncClient(base_url=process.url, timeout=20) as client:
        client.headers["Authorization"] = f"Bearer {kept}"
        await begun(client, "c-1")
        path, other = "/conversations/c-1/events", {"Authorization": f"Bearer {gone}"}
        async with following(client, path) as stays, following(client, path, headers=other) as ends:
            await ends.until(lambda: ends.events != [])
            await keys.revoke(record.id)
            await ends.until(lambda: ends.ended, 45)
            await stays.until(lambda: stays.comments > 0, 20)
            assert not stays.ended
    await store.close()
    await asyncio.to_thread(process.stop)


async def test_events_of_an_encrypted_store(tmp_path: Path) -> None:
    """With encryption at rest followers get messages and titles as without, over a restart too."""
    process = Served(tmp_path / "data", SASH_ENCRYPTION_KEY="ab" * 32)
    process.start()
    async with httpx.AsyncClient(base_url=process.url, timeout=20) as client:
        await client.post("/conversations", json={"id": "c-1", "owner": "ann", "metadata": {"title": "T"}})
        path = "/conversations/c-1/events"
        async with (
            following(client, path, after=1, body="true") as heard,
            following(client, "/owners/ann/events") as listed,
        ):
            await say(client, "c-1", user("one"))
            await heard.until(lambda: heard.versions == [2])
            await listed.until(lambda: listed.versions[1:] == [2])
            assert listed.events[0]["conversations"][0]["metadata"] == {"title": "T"}
    await asyncio.to_thread(process.stop)
    process.start()
    async with (
        httpx.AsyncClient(base_url=process.url, timeout=20) as client,
        following(client, path, after=1, body="true") as again,
    ):
        await again.until(lambda: again.versions == [2])
        assert again.events[0]["messages"][0]["entry"]["message"]["content"] == "one"
    await asyncio.to_thread(process.stop)
