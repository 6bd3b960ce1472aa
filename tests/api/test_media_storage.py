"""Pictures and files in object storage: a folder of files, S3, and Google's client. The store has their facts alone."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import redis
from conftest import http, lifespan
from faults.disks import fill, mount, unmount
from rigs.dialogue import append
from rigs.pictures import in_base64, media_in, pictured, png
from rigs.storages import BUCKET, MARKED, S3, files_in, google_account, s3
from validators.media import FORMS, shown, told

from sash.app import create_app
from sash.problems import StoreUnavailable
from sash.settings import Settings
from sash.store.data.layout import keys_of, target_at
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_erasures import ERASURES, MediaErasures
from sash.store.data.object_storage import open_objects
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

WINDOW = {"model": "gpt-4o", "max_tokens": 900_000}
TOMORROW = timedelta(days=1, minutes=1)


class Place(NamedTuple):
    """Where a test's pictures are, and the names of all objects there."""

    url: str
    names: Callable[[], list[str]]

    def objects(self) -> list[str]:
        return [name for name in self.names() if not name.startswith(MARKED)]


@pytest.fixture(scope="module")
def server_of_s3() -> Iterator[S3]:
    with s3() as running:
        yield running


@pytest.fixture(params=["files", "s3", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a folder of files, and a part of a bucket, which S3's client or Google's asks."""
    if request.param == "files":
        return Place((tmp_path / "media").as_uri(), lambda: files_in(tmp_path / "media"))
    server, prefix = request.getfixturevalue("server_of_s3"), f"of-{os.getpid()}-{time.monotonic_ns()}"
    found = lambda: [name.removeprefix(f"{prefix}/") for name in server.names() if name.startswith(prefix)]  # noqa: E731
    if request.param == "gs":
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(google_account(server, tmp_path)))
    return Place(f"{request.param}://{BUCKET}/{prefix}", found)


@asynccontextmanager
async def service(own: EmbeddedStore, url: str | None, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of a service that keeps pictures at this URL."""
    settings = Settings(redis_url=own.url, durability="fast", media_url=url, **options)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


@asynccontextmanager
async def erasures(own: EmbeddedStore, url: str) -> AsyncIterator[MediaErasures]:
    """Yield the erasures of a deployment, to be done at a time of the test's."""
    client = Client(own.url)
    await client.open()
    objects = open_objects(url, 5.0)
    assert objects is not None
    yield MediaErasures(client, MarkedStorage(client, objects))
    await client.close()


@pytest.fixture
async def client(own: EmbeddedStore, raw: redis.Redis, place: Place) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ARG001 - empties it
    async with service(own, place.url) as client:
        yield client


def kept(raw: redis.Redis, conversation: str) -> dict[bytes, bytes]:
    return raw.hgetall(keys_of(f"default/{conversation}").media)


async def sent(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/conversations/{conversation}/window", params=WINDOW)
    assert answer.status_code == 200, answer.text
    return answer.json()["request"]["messages"]


async def test_pictures_are_objects(
    client: httpx.AsyncClient, conversation: str, raw: redis.Redis, place: Place
) -> None:
    """A picture is one object, however often it is sent; windows, its path, pages and exports have it."""
    messages = [pictured("look", 1), pictured("again", 1, 2)]
    answers = [
        await client.post(f"/conversations/{conversation}/messages", params=WINDOW, json={"messages": [each]})
        for each in messages
    ]
    again = await client.post(
        f"/conversations/{conversation}/messages", json={"messages": [{"id": "x", "message": messages[0]}]}
    )
    page = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]
    whole = (await client.get(f"/conversations/{conversation}/messages?media=inline")).json()["messages"]
    (facts, *_) = media_in(page)

    assert answers[-1].json()["window"]["request"]["messages"] == messages
    assert again.status_code == 201
    assert await sent(client, conversation) == [*messages, messages[0]]
    assert [each["message"] for each in whole] == [*messages, messages[0]]
    assert (await client.get(f"/conversations/{conversation}/media/{facts['digest']}")).content == png(1)
    assert len(place.objects()) == 2
    assert [len(field) for field in kept(raw, conversation)] == [16, 16]
    assert max(map(len, kept(raw, conversation).values())) < 60


async def test_a_repeated_entry_writes_nothing(client: httpx.AsyncClient, conversation: str, place: Place) -> None:
    """A duplicate leaves no object behind, and neither does a refused entry."""
    entry = {"id": "a", "message": pictured("look", 1)}
    path = f"/conversations/{conversation}/messages"
    answers = [await client.post(path, json={"messages": [each]}) for each in (entry, entry)]
    other = await client.post(path, json={"messages": [{"id": "a", "message": pictured("look", 2)}]})
    moved = await client.post(path, json={"messages": [pictured("look", 3)]}, headers={"If-Match": '"1-another-state"'})

    assert [each.status_code for each in (*answers, other, moved)] == [201, 200, 409, 412]
    assert len(place.objects()) == 1


async def test_what_is_erased_is_gone(client: httpx.AsyncClient, conversation: str, place: Place) -> None:
    """Redactions, rewinds and erasures take the objects that no message has any more; a fork has its own."""
    await append(client, conversation, *({"id": str(n), "message": pictured("look", n, n + 1)} for n in range(3)))
    counts = [len(place.objects())]
    await client.delete(f"/conversations/{conversation}/messages/1")
    counts.append(len(place.objects()))
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2, "forget": True})
    counts.append(len(place.objects()))
    forked = await client.post(f"/conversations/{conversation}/fork", json={"id": f"{conversation}-2"})
    counts.append(len(place.objects()))
    await client.delete(f"/conversations/{conversation}")
    counts.append(len(place.objects()))

    assert forked.status_code == 201, forked.text
    assert counts == [4, 3, 2, 4, 2]
    assert (await sent(client, f"{conversation}-2"))[-1] == pictured("look", 1, 2)


async def test_an_edit_keeps_what_it_brings_again(
    client: httpx.AsyncClient, own: EmbeddedStore, conversation: str, place: Place
) -> None:
    """An append after an earlier message keeps the object that it names again; the others are erased when it is due."""
    await append(client, conversation, *({"id": str(n), "message": pictured("look", n)} for n in range(3)))
    edited = await client.post(
        f"/conversations/{conversation}/messages",
        params={"forget": "true"},
        json={"after_seq": 1, "messages": [pictured("again", 1)]},
    )
    async with erasures(own, place.url) as its:
        await its.erase_due(time.time_ns() // 1_000_000 + 601_000)

    assert edited.status_code == 201, edited.text
    assert await sent(client, conversation) == [pictured("look", 0), pictured("again", 1)]
    assert len(place.objects()) == 2


async def test_an_owners_pictures_are_erased(client: httpx.AsyncClient, conversation: str, place: Place) -> None:
    """The erasure of an owner erases the pictures of all conversations."""
    for n in range(3):
        await client.post("/conversations", json={"id": f"{conversation}-{n}", "owner": "ann"})
        await append(client, f"{conversation}-{n}", {"id": "a", "message": pictured("look", n)})
    before = len(place.objects())

    await client.delete("/owners/ann")

    assert (before, place.objects()) == (3, [])


async def test_an_import_has_its_pictures(client: httpx.AsyncClient, conversation: str, place: Place) -> None:
    """An export has the pictures themselves, and its import writes them as objects."""
    messages = [pictured("look", n) for n in range(3)]
    await append(client, conversation, *({"id": str(n), "message": each} for n, each in enumerate(messages)))
    exported = await client.get(f"/conversations/{conversation}/export")
    await client.delete(f"/conversations/{conversation}")

    headers = {"Content-Type": "application/x-ndjson"}
    imported = await client.post("/conversations/import", content=exported.content, headers=headers)

    assert imported.status_code == 201, imported.text
    assert await sent(client, conversation) == messages
    assert len(place.objects()) == 3


async def test_an_import_that_takes_long_keeps_its_pictures(
    client: httpx.AsyncClient, own: EmbeddedStore, conversation: str, place: Place
) -> None:
    """What is looked for while an import goes on, ten minutes or a day after its pictures came, is nothing of its own."""
    first = {"id": "first", "message": pictured("look", 1)}
    turns = [{"id": f"t{number}", "message": {"role": "user", "content": "on"}} for number in range(300)]
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in ({"id": conversation}, first, *turns))

    async def slowly() -> AsyncIterator[bytes]:
        yield lines
        give_up = time.monotonic() + 20
        while not place.objects() and time.monotonic() < give_up:  # noqa: ASYNC110 - the storage tells nobody
            await asyncio.sleep(0.05)
        async with erasures(own, place.url) as its:
            await asyncio.sleep(0.05)
            await its.note(target_at("default", conversation))
            await its.erase_due(time.time_ns() // 1_000_000 + 601_000)
            await its.sweep(datetime.now(UTC) + TOMORROW)
        yield json.dumps({"id": "last", "message": pictured("another", 2)}).encode()

    headers = {"Content-Type": "application/x-ndjson"}
    imported = await client.post("/conversations/import", content=slowly(), headers=headers)
    messages = await sent(client, conversation)
    await client.delete(f"/conversations/{conversation}")

    assert imported.status_code == 201, imported.text
    assert (messages[0], messages[-1]) == (pictured("look", 1), pictured("another", 2))
    assert place.objects() == []


async def test_a_day_later_what_nobody_has_is_swept(
    client: httpx.AsyncClient, own: EmbeddedStore, raw: redis.Redis, conversation: str, place: Place
) -> None:
    """An expired conversation's pictures are swept after a day, and no sooner; those of messages stay."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    await append(client, f"{conversation}-2", {"id": "a", "message": pictured("look", 2)})
    raw.delete(*raw.scan_iter(f"sash:{{default/{conversation}}}:*"))

    async with erasures(own, place.url) as its:
        swept = [await its.sweep(datetime.now(UTC) + after) for after in (timedelta(hours=23), TOMORROW, TOMORROW)]

    assert swept == [0, 1, 0]
    assert len(place.objects()) == 1
    assert await sent(client, f"{conversation}-2") == [pictured("look", 2)]


async def test_the_beginning_of_a_picture_is_swept(
    own: EmbeddedStore,
    raw: redis.Redis,  # noqa: ARG001 - empties it
    conversation: str,
    tmp_path: Path,
) -> None:
    """A file of which a killed process wrote a part, under the name that obstore gives it, is swept after a day."""
    folder = tmp_path / "media"
    async with service(own, folder.as_uri()) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    (there,) = (each for each in files_in(folder) if not each.startswith(MARKED))
    (folder / f"{there}#1").write_bytes(png(1)[:40])

    async with erasures(own, folder.as_uri()) as its:
        swept = [await its.sweep(datetime.now(UTC) + after) for after in (timedelta(hours=23), TOMORROW, TOMORROW)]

    assert swept == [0, 1, 0]
    assert [each for each in files_in(folder) if not each.startswith(MARKED)] == [there]


async def test_another_stores_pictures_are_not_swept(
    client: httpx.AsyncClient, own: EmbeddedStore, raw: redis.Redis, conversation: str, place: Place
) -> None:
    """A new and empty store sweeps nothing where the objects of another are."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    async with erasures(own, place.url) as its:
        await its.sweep(datetime.now(UTC))
        raw.flushall()
        swept = await its.sweep(datetime.now(UTC) + TOMORROW)

    assert swept == 0
    assert len(place.objects()) == 1


async def test_an_erasure_that_was_cut_off_is_done_later(
    client: httpx.AsyncClient, own: EmbeddedStore, raw: redis.Redis, conversation: str, place: Place
) -> None:
    """Where a process dies between an erasure in the store and that of the objects, these are erased when it is due."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    await append(client, f"{conversation}-2", {"id": "a", "message": pictured("look", 2)})
    now = time.time_ns() // 1_000_000
    raw.zadd(ERASURES, {f"default/{conversation} {now + 1000} x": now + 600_000})
    raw.delete(*raw.scan_iter(f"sash:{{default/{conversation}}}:*"))

    async with erasures(own, place.url) as its:
        await its.erase_due(now + 599_000)
        before = len(place.objects())
        await asyncio.sleep(0.01)
        await its.erase_due(now + 601_000)

    assert (before, len(place.objects())) == (2, 1)
    assert raw.zcard(ERASURES) == 0


async def test_an_erasure_that_is_done_is_answered(
    client: httpx.AsyncClient,
    conversation: str,
    place: Place,
    own: EmbeddedStore,
    raw: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If both places are lost right after a message is erased, the answer is 204, and its picture is erased later."""

    async def lost(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("Nothing answers.")

    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    with monkeypatch.context() as lose:
        lose.setattr(MediaErasures, "erase", lost)
        answer = await client.delete(f"/conversations/{conversation}/messages/1")

    assert answer.status_code == 204, answer.text
    (noted,) = raw.zrange(ERASURES, 0, -1)
    raw.zadd(ERASURES, {noted: 0})
    async with erasures(own, place.url) as its:
        await its.erase_due(time.time_ns() // 1_000_000)
    assert place.objects() == []


@pytest.mark.usefixtures("raw")
async def test_pictures_of_both_places_are_sent(own: EmbeddedStore, conversation: str, place: Place) -> None:
    """Pictures from before SASH_MEDIA_URL was set stay in the store, and are sent beside those in object storage."""
    async with service(own, None) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    async with service(own, place.url) as client:
        await append(client, conversation, {"id": "b", "message": pictured("look", 1, 2)})
        both = await sent(client, conversation)
        await append(client, conversation, {"id": "c", "message": pictured("look", 2)})
    async with service(own, None) as client:
        without = await client.get(f"/conversations/{conversation}/window", params=WINDOW)
        again = await client.post(
            f"/conversations/{conversation}/messages", json={"messages": [pictured("more", 1, 2, 3)]}
        )

    assert both == [pictured("look", 1), pictured("look", 1, 2)]
    assert len(place.objects()) == 1
    assert (without.status_code, "SASH_MEDIA_URL" in without.json()["detail"]) == (503, True)
    assert again.status_code == 201


@pytest.mark.usefixtures("raw")
async def test_objects_are_sealed(own: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """With encryption at rest, objects are sealed as all else is."""
    async with service(own, (tmp_path / "media").as_uri(), encryption_key=(b"master".ljust(32),)) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
        assert await sent(client, conversation) == [pictured("look", 1)]
        (name,) = [name for name in files_in(tmp_path / "media") if not name.startswith(MARKED)]
        content = (tmp_path / "media" / name).read_bytes()

    assert content[:1] == b"\1"
    assert b"iVBORw0KGgo" not in content


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("form", FORMS)
async def test_pictures_that_are_sent_as_lines_are_not_read(
    own: EmbeddedStore, conversation: str, tmp_path: Path, form: str
) -> None:
    """A window reads the pictures that it sends alone: it is the same where the objects of the others are gone."""
    folder, query = tmp_path / "media", {**WINDOW, "format": form, "images_kept": 1}
    pictures = [in_base64(png(n)) for n in range(5)]
    async with service(own, folder.as_uri()) as client:
        path = f"/conversations/{conversation}"
        groups = [shown(form, "look", *pictures[:2]), shown(form, "and these", *pictures[2:4]), told(form, "well")]
        for kind, messages in [*groups, shown(form, "now?")]:
            answer = await client.post(f"{path}/messages", json={"messages": messages}, params={"format": kind})
            assert answer.status_code == 201, answer.text
        before = await client.get(f"{path}/window", params=query)
        digests = [each["digest"] for each in media_in((await client.get(f"{path}/messages")).json()["messages"])]
        for name in files_in(folder):
            if not name.startswith(MARKED) and Path(name).name.partition("-")[0] != digests[3]:
                (folder / name).unlink()
        after = await client.get(f"{path}/window", params=query)
        whole = await client.get(f"{path}/window", params=WINDOW)

    assert before.json()["dropped"]["images"] == 3
    assert pictures[3].encode() in before.content
    assert after.content == before.content
    assert whole.json()["mended"]["reasons"] == {"lost_medium": 2}


@pytest.mark.usefixtures("raw")
async def test_erasures_that_wait_are_counted(own: EmbeddedStore, conversation: str) -> None:
    """While object storage is down, GET /status and GET /metrics tell how many erasures wait; once it is back, none."""
    with s3() as server:
        async with service(own, f"s3://{BUCKET}/counted", store_timeout_seconds=1.0) as client:
            await append(client, conversation, {"id": "a", "message": pictured("look", 1, 2)})
            before = await waiting_erasures(client, 0)
            (mark,) = [name for name in server.names() if MARKED in name and "/trial/" not in name]
            server.stop()
            await client.delete(f"/conversations/{conversation}")
            away = await waiting_erasures(client, 2)
            give_up = time.monotonic() + 30
            while "sash_media_erasures_waiting 2.0" not in (await client.get("/metrics")).text:  # it looks now and then
                assert time.monotonic() < give_up
                await asyncio.sleep(0.2)
            server.start()
            server.put(mark)
            back = await waiting_erasures(client, 0)

    assert (before, away, back) == (0, 2, 0)


async def waiting_erasures(client: httpx.AsyncClient, expected: int) -> int | None:
    """Return the number of waiting erasures once it is the expected one, or after half a minute."""
    give_up = time.monotonic() + 30
    while True:
        found: int | None = (await client.get("/status")).json()["store"]["media_erasures_waiting"]
        if found == expected or time.monotonic() > give_up:
            return found
        await asyncio.sleep(0.2)


async def test_storage_that_is_away(own: EmbeddedStore, raw: redis.Redis, conversation: str) -> None:
    """Without object storage appends with pictures and their windows are 503 with Retry-After, and nothing is stored; all
    else goes on. An erasure is done, and that of the objects is repeated until it succeeds."""
    with s3() as server:
        url = f"s3://{BUCKET}/away"
        async with service(own, url) as client, service(own, url, store_timeout_seconds=1.0) as hasty:
            await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
            left = server.names()
            server.stop()

            path = f"/conversations/{conversation}/messages"
            refused = await hasty.post(path, json={"messages": [{"id": "b", "message": pictured("look", 2)}]})
            window = await hasty.get(f"/conversations/{conversation}/window", params=WINDOW)
            plain = await client.post(path, params=WINDOW, json={"messages": [{"role": "user", "content": "hello"}]})
            page = await client.get(path)
            erased = await client.delete(f"/conversations/{conversation}")
            waiting = [name.decode() for name in raw.zrange(ERASURES, 0, -1)]
            server.start()  # empty, but for its mark
            (mark,) = [name for name in left if MARKED in name and "/trial/" not in name]
            server.put(mark)
            async with erasures(own, url) as its:
                await its.erase_due(time.time_ns() // 1_000_000)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "object storage" in refused.json()["detail"]
    assert (window.status_code, "object storage" in window.json()["detail"]) == (503, True)
    assert (plain.status_code, plain.json()["window"]) == (201, None)
    assert [each["seq"] for each in page.json()["messages"]] == [1, 2]
    assert erased.status_code == 204
    assert waiting == [name.removeprefix("away/") for name in left if MARKED not in name]
    assert raw.zcard(ERASURES) == 0


@pytest.mark.usefixtures("raw")
async def test_full_storage(own: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """Where object storage is full, an append with a picture is 507 and stores nothing. Windows and erasures go on, and
    so does all once there is room."""
    disk = tmp_path / "disk"
    if not mount(disk, megabytes=2):
        pytest.skip("needs the right to mount")
    try:
        async with service(own, (disk / "media").as_uri()) as client:
            path = f"/conversations/{conversation}/messages"
            await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
            ballast = fill(disk)
            full = await client.post(path, json={"messages": [{"id": "b", "message": pictured("look", 2)}]})
            plain = await client.post(path, params=WINDOW, json={"messages": [{"role": "user", "content": "hello"}]})
            erased = await client.delete(f"{path}/1")
            ballast.unlink()
            after = await client.post(path, json={"messages": [{"id": "b", "message": pictured("look", 2)}]})
            messages = await sent(client, conversation)
            left = [name for name in files_in(disk / "media") if not name.startswith(MARKED)]
    finally:
        unmount(disk)

    assert (full.status_code, "object storage is full" in full.json()["detail"]) == (507, True)
    assert int(full.headers["retry-after"]) > 0
    assert plain.json()["window"]["request"]["messages"][0] == pictured("look", 1)
    assert (erased.status_code, after.status_code) == (204, 201)
    assert messages[-1] == pictured("look", 2)
    assert len(left) == 1


async def test_a_lost_hash_of_media_costs_no_object(
    client: httpx.AsyncClient, own: EmbeddedStore, raw: redis.Redis, conversation: str, place: Place
) -> None:
    """Where the store lost the hash of a conversation's media, a sweep leaves the objects that its messages name; a picture
    that is appended again is found from both messages, and erasures take all."""
    await append(client, conversation, {"id": "a", "message": pictured("look", 1, 2)})
    raw.delete(keys_of(f"default/{conversation}").media)
    async with erasures(own, place.url) as its:
        swept = await its.sweep(datetime.now(UTC) + TOMORROW)
        before = await sent(client, conversation)
        await append(client, conversation, {"id": "b", "message": pictured("again", 1)})
        await its.sweep(datetime.now(UTC) + TOMORROW)
        after = await sent(client, conversation)
        await client.delete(f"/conversations/{conversation}")
        await its.sweep(datetime.now(UTC) + TOMORROW)

    assert swept == 0
    assert before == [pictured("look", 1, 2)]
    assert after[1] == pictured("again", 1)
    assert after[0]["content"][1] == pictured("look", 1)["content"][1]
    assert place.objects() == []
