"""A folder of pictures whose disk is not mounted is away, and no empty folder: nothing is written beneath, erasures wait."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import redis
from api.test_media_storage import WINDOW, erasures, sent, service, waiting_erasures
from click.testing import CliRunner
from rigs.dialogue import append
from rigs.pictures import blob, in_base64, media_in, pictured
from rigs.storages import MARKED, files_in
from store.whole import until_ready

from sash.cli import main
from sash.store.data.media_erasures import ERASURES
from sash.store.data.object_storage import ObjectStorage
from sash.store.redis.embedded import EmbeddedStore

MESSAGES = "/conversations/{}/messages"


class Disk:
    """A folder that is renamed away, as if its disk were unmounted: with an empty folder in its place, or none."""

    def __init__(self, folder: Path, *, beneath: bool) -> None:
        self.folder, self.elsewhere, self.beneath = folder, folder.with_name("elsewhere"), beneath

    def unmount(self) -> None:
        self.folder.rename(self.elsewhere)
        if self.beneath:
            self.folder.mkdir()

    def mount(self) -> None:
        if self.folder.exists():
            assert files_in(self.folder) == []  # nothing was written onto the disk beneath
            self.folder.rmdir()
        self.elsewhere.rename(self.folder)

    def objects(self) -> list[str]:
        return [name for name in files_in(self.folder) if not name.startswith(MARKED)]


@pytest.fixture(params=[True, False], ids=["empty-folder", "no-folder"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return Disk(tmp_path / "media", beneath=request.param)


@pytest.mark.usefixtures("raw")
async def test_an_unmounted_folder(own: EmbeddedStore, conversation: str, disk: Disk) -> None:
    """Under a running service writes and windows with pictures are 503 with Retry-After, and a redaction is 204 and waits;
    once the disk is back, all is there but what was redacted."""
    messages, url = MESSAGES.format(conversation), disk.folder.as_uri()
    async with service(own, url) as client:
        await append(client, conversation, *({"id": str(n), "message": pictured("look", n)} for n in range(2)))
        digests = [each["digest"] for each in media_in((await client.get(messages)).json()["messages"])]
        disk.unmount()
        answers = [
            await client.post(messages, json={"messages": [{"id": "new", "message": pictured("new", 5)}]}),
            await client.post(messages, json={"messages": [{"id": "known", "message": pictured("known", 1)}]}),
            await client.get(f"/conversations/{conversation}/window", params=WINDOW),
            await client.get(f"/conversations/{conversation}/media/{digests[1]}"),
            await client.post(f"/conversations/{conversation}/fork", json={"id": f"{conversation}-f"}),
        ]
        plain = await client.post(messages, json={"messages": [{"role": "user", "content": "hello"}]})
        redacted = await client.delete(f"{messages}/1")
        waiting = await waiting_erasures(client, 1)
        status = (await client.get("/status")).json()["store"]
        page = (await client.get(messages)).json()["messages"]
        disk.mount()
        left = await waiting_erasures(client, 0)
        after = await append(client, conversation, {"id": "new", "message": pictured("new", 5)})
        window = await sent(client, conversation)
        found = (await client.get("/status")).json()["store"]

    assert [(each.status_code, each.headers.get("retry-after")) for each in answers] == [(503, "1")] * 5
    assert all(f"{disk.folder} has no sash-store/" in each.json()["detail"] for each in answers)
    assert (plain.status_code, redacted.status_code, waiting, left) == (201, 204, 1, 0)
    assert f"{disk.folder} has no sash-store/" in status["media_storage_away"]
    assert [each["redacted"] for each in page if "redacted" in each] == [True]
    assert found["media_storage_away"] is None
    assert after["messages"][0]["duplicate"] is False
    assert window[1:] == [pictured("look", 1), {"role": "user", "content": "hello"}, pictured("new", 5)]
    assert len(disk.objects()) == 2
    assert not any(digests[0] in name for name in disk.objects())


@pytest.mark.usefixtures("raw")
async def test_a_start_while_it_is_away(own: EmbeddedStore, conversation: str, disk: Disk) -> None:
    """A service that starts while the disk is away makes no folder, writes nothing beneath, and goes on once it is back."""
    messages, url = MESSAGES.format(conversation), disk.folder.as_uri()
    async with service(own, url) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    disk.unmount()
    async with service(own, url) as client:
        refused = await client.post(messages, json={"messages": [{"id": "b", "message": pictured("look", 2)}]})
        window = await client.get(f"/conversations/{conversation}/window", params=WINDOW)
        erased = await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 0, "forget": True})
        ready = await until_ready(client)
        waiting = await waiting_erasures(client, 1)
        disk.mount()
        await append(client, conversation, {"id": "b", "message": pictured("look", 2)})
        left = await waiting_erasures(client, 0)
        messages_sent = await sent(client, conversation)

    assert [each.status_code for each in (refused, window, erased, ready)] == [503, 503, 200, 200]
    assert messages_sent == [pictured("look", 2)]
    assert (waiting, left, len(disk.objects())) == (1, 0, 1)


async def test_what_is_due_waits_for_the_disk(
    own: EmbeddedStore, raw: redis.Redis, conversation: str, disk: Disk
) -> None:
    """Notes of erasures stay while the disk is away, and a sweep erases nothing."""
    url = disk.folder.as_uri()
    async with service(own, url) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    now = time.time_ns() // 1_000_000
    (name,) = disk.objects()
    raw.zadd(ERASURES, {name: now, f"default/{conversation} {now} x": now})
    disk.unmount()
    async with erasures(own, url) as its:
        with pytest.raises(Exception, match="object storage is away"):
            await its.erase_due(now + 1000)
    waiting = raw.zcard(ERASURES)
    disk.mount()
    async with erasures(own, url) as its:
        await its.erase_due(now + 1000)

    assert (waiting, raw.zcard(ERASURES), disk.objects()) == (2, 0, [])


@pytest.mark.usefixtures("raw")
async def test_a_mark_made_by_hand(own: EmbeddedStore, conversation: str, disk: Disk) -> None:
    """After all objects are lost, an empty file of the expected name makes the folder this store's again; what was lost is
    told as lines."""
    url = disk.folder.as_uri()
    async with service(own, url) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
        (mark,) = [name for name in files_in(disk.folder) if name.startswith(MARKED)]
        disk.unmount()
        (disk.folder / mark).parent.mkdir(parents=True)
        (disk.folder / mark).touch()
        lost = (await client.get(f"/conversations/{conversation}/window", params=WINDOW)).json()
        await append(client, conversation, {"id": "b", "message": pictured("again", 1)})

        assert lost["mended"]["reasons"] == {"lost_medium": 1}
        assert await sent(client, conversation) == [pictured("look", 1), pictured("again", 1)]


async def test_the_doctor_names_what_it_expects(own: EmbeddedStore, conversation: str, disk: Disk) -> None:
    """While the disk is away, ``sash doctor`` names the file that it expected, and writes nothing."""
    with redis.Redis.from_url(own.url) as raw:
        raw.flushall()
    async with service(own, disk.folder.as_uri()) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
        (mark,) = [name for name in files_in(disk.folder) if name.startswith(MARKED)]
    others = {name: None for name in os.environ if name.startswith("SASH_")}
    named = {"SASH_REDIS_URL": own.url, "SASH_MEDIA_URL": disk.folder.as_uri(), "SASH_DURABILITY": "fast"}

    def finding() -> dict[str, Any]:
        result = CliRunner().invoke(main, ["doctor"], env={**others, **named})
        return {each["subject"]: each for each in json.loads(result.stdout)}["SASH_MEDIA_URL"]

    there = await asyncio.to_thread(finding)
    disk.unmount()
    away = await asyncio.to_thread(finding)
    disk.mount()

    assert (there["verdict"], away["verdict"]) == ("good", "problem")
    assert mark in away["found"]
    assert "Mount its disk" in away["change"]


@pytest.mark.usefixtures("raw")
async def test_an_append_after_a_message_erases_at_once(own: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """What ``after_seq`` forgets is erased with the answer, and so is the sound of a reply that is replaced, and one
    that a repeat of a redacted entry brings."""
    disk = Disk(tmp_path / "media", beneath=False)
    async with service(own, disk.folder.as_uri()) as client:
        first = {"id": "0", "message": pictured("look", 0)}
        await append(client, conversation, first, *({"id": str(n), "message": pictured("look", n)} for n in (1, 2)))
        await append(client, conversation, {"id": "new", "message": pictured("edited", 3)}, after_seq=1, forget="true")
        after = len(disk.objects())
        await client.delete(f"/conversations/{conversation}/messages/1")
        redacted = len(disk.objects())
        again = await append(client, conversation, first)
        repeated = len(disk.objects())
        reply = {"role": "assistant", "content": "here"}
        spoken = {"id": "audio-1", "data": in_base64(blob(1)), "transcript": "here", "expires_at": 1}
        await append(client, conversation, {"id": "r", "status": "in_progress", "message": {**reply, "audio": spoken}})
        growing = len(disk.objects())
        await append(client, conversation, {"id": "r", "status": "completed", "message": reply})

    assert (after, redacted, repeated) == (2, 1, 1)
    assert again["messages"][0]["duplicate"] is True
    assert (growing, len(disk.objects())) == (2, 1)


@pytest.mark.usefixtures("raw")
async def test_a_lost_picture_that_is_written_again_goes_with_its_last_message(
    own: EmbeddedStore, conversation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost picture comes again with a repeat of its message, which is erased before the picture is written: the picture is
    erased, too, once it is due."""
    disk = Disk(tmp_path / "media", beneath=False)
    async with service(own, disk.folder.as_uri()) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
        (lost,) = disk.objects()
        (disk.folder / lost).unlink()
        put = ObjectStorage.put

        async def late(self: ObjectStorage, path: str, content: bytes) -> None:
            await client.delete(f"/conversations/{conversation}/messages/1")
            await put(self, path, content)

        monkeypatch.setattr(ObjectStorage, "put", late)
        entry = {"id": "a", "message": pictured("look", 1)}
        repeated = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})
        written = disk.objects()
    await asyncio.sleep(0.01)
    async with erasures(own, disk.folder.as_uri()) as its:
        await its.erase_due(time.time_ns() // 1_000_000 + 601_000)

    assert (repeated.status_code, written) == (200, [lost])
    assert disk.objects() == []


@pytest.mark.usefixtures("raw")
async def test_an_import_that_is_refused_leaves_no_object(
    own: EmbeddedStore, conversation: str, tmp_path: Path
) -> None:
    """An import whose last line is wrong leaves nothing in object storage."""
    disk = Disk(tmp_path / "media", beneath=False)
    lines = [{"id": conversation}, *({"id": str(n), "message": pictured("look", n, side=640)} for n in range(3))]
    body = b"".join(json.dumps(each).encode() + b"\n" for each in [*lines, {"id": "0", "role": "user", "content": "x"}])
    async with service(own, disk.folder.as_uri()) as client:
        headers = {"Content-Type": "application/x-ndjson"}
        answer = await client.post("/conversations/import", content=body, headers=headers)

    assert answer.status_code == 400, answer.text
    assert disk.objects() == []
