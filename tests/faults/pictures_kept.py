"""Pictures in object storage: the service killed between a picture and its message, the storage away, slow and full."""

import asyncio
import base64
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faults.disks import fill, mount, unmount
from faults.ledger import Ledger
from faults.processes import Service
from faults.proxy import Proxy
from faults.runs import Row, Scale, Verdict, running
from faults.wire import Wire
from faults.writers import Writers
from rigs.servers import Server
from rigs.storages import BUCKET, MARKED, S3, files_in

from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.object_storage import open_objects
from sash.store.redis.client import Client

_PICTURE = 9_000
"""Bytes of a picture."""
_PAGE = 20
_SLOW_SECONDS = 5.0
_EXPECTED = {"503", "507", "connection refused", "connection cut", "connection reset"}


def picture(text: str) -> str:
    """Return the data URL of a turn's own picture."""
    return "data:image/png;base64," + base64.b64encode(random.Random(text).randbytes(_PICTURE)).decode()


class PictureWriters(Writers):
    """Writers whose every turn has a picture of its own."""

    async def _send(self, wire: Wire, turn: tuple[str, int, int]) -> bool:
        conversation, writer, number = turn
        text = f"{conversation} {writer} {number}"
        image = {"type": "image_url", "image_url": {"url": picture(text)}}
        message = {"role": "user", "content": [{"type": "text", "text": text}, image]}
        body = json.dumps({"messages": [{"id": f"{writer}-{number}", "message": message}]}).encode()
        self.ledger.requests += 1
        try:
            reply = await wire.ask("POST", f"/conversations/{conversation}/messages", body)
        except OSError as error:
            self.ledger.fail(conversation, str(error)[:40])
            return False
        if reply.status not in {200, 201}:
            self.ledger.fail(conversation, str(reply.status))
            return False
        self.ledger.acknowledged.add(turn)
        return True


async def pictures(folder: Path, scale: Scale) -> Row:
    """The service is killed while it writes; the storage drops its answers, and is too slow for a while."""
    store, s3 = Server(scale.binary, folder / "store"), S3()
    await asyncio.to_thread(s3.start)
    proxy = await Proxy(s3.port, seed=scale.seed).start()
    environment = {**s3.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
    url = f"s3://{BUCKET}/faults"
    try:
        async with running(store, folder, SASH_MEDIA_URL=url, SASH_STORE_TIMEOUT_SECONDS="1", **environment) as service:
            number = min(scale.writers, 16)
            writers = PictureWriters(Ledger(), lambda _: service.port, number=number, conversations=8).start()
            proxy.delay_seconds = 0.02
            for _ in range(scale.service_kills):
                await asyncio.sleep(0.3 + random.Random(scale.seed).random() / 2)
                await service.kill()
                await service.start()
            away = min(5.0, scale.absent_seconds)
            proxy.swallow = 1.0
            await asyncio.sleep(away)
            proxy.swallow, proxy.delay_seconds = 0.0, _SLOW_SECONDS
            await asyncio.sleep(away)
            proxy.delay_seconds = 0.0
            await asyncio.sleep(1)
            await writers.stop()
            await asyncio.sleep(_SLOW_SECONDS)  # until the storage has the last slow write of an append that failed
            with direct(s3):
                wrong = await _checked(writers, service, store, url, s3.names)
            note = f"{scale.service_kills} kills, the storage away {away:.0f} s and slow {away:.0f} s"
            return await _row("pictures in S3", writers, service, note, wrong)
    finally:
        await proxy.stop()
        s3.stop()


async def pictures_disk_full(folder: Path, scale: Scale) -> Row:
    """A folder of pictures on a full disk: appends are 507, and go on when an erasure has made room."""
    disk = folder / "disk"
    if not await asyncio.to_thread(mount, disk, megabytes=8):
        return Row("pictures, disk full", 0, 0, Verdict(), "", "not run: mounting a small disk is not allowed here")
    url = (disk / "media").as_uri()
    try:
        store = Server(scale.binary, folder / "store")
        async with running(store, folder, SASH_MEDIA_URL=url) as service:
            writers = PictureWriters(
                Ledger(), lambda _: service.port, number=8, conversations=8, pause_seconds=0.01
            ).start()
            await asyncio.sleep(0.5)
            ballast = await asyncio.to_thread(fill, disk)
            await asyncio.sleep(2)
            window = await Wire(service.port).ask("GET", "/conversations/f-0/window?model=gpt-4o-mini&limit=2")
            ballast.unlink()
            await asyncio.sleep(1)
            await writers.stop()
            wrong = await _checked(writers, service, store, url, lambda: files_in(disk / "media"))
            if writers.ledger.failures.keys() != {"507"} or window.status != 200:
                wrong += f" appends: {dict(writers.ledger.failures)}; a window: {window.status}"
            return await _row("pictures, disk full", writers, service, "windows go on", wrong)
    finally:
        await asyncio.to_thread(unmount, disk)


@contextmanager
def direct(s3: S3) -> Iterator[None]:
    """Have this process speak to the storage itself."""
    before = {name: os.environ.get(name) for name in s3.environment}
    os.environ |= s3.environment
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


async def _checked(writers: Writers, service: Service, store: Server, url: str, names: Any) -> str:
    """Return what does not hold: a message without its picture, or a picture without a message after the sweep."""
    wrong, stored = [], 0
    for conversation in writers.conversations:
        for text, url_sent in await _history(service.port, conversation):
            stored += 1
            if url_sent != picture(text):
                wrong.append(f"{text} has not its picture")
    client = Client(store.url)
    await client.open()
    try:
        objects = open_objects(url, 5.0)
        assert objects is not None
        erasures = MediaErasures(client, MarkedStorage(client, objects))
        swept = await erasures.sweep(datetime.now(UTC) + timedelta(days=2))
    finally:
        await client.close()
    objects = [name for name in await asyncio.to_thread(names) if MARKED not in name]
    if len(objects) != stored:
        wrong.append(f"{len(objects)} objects of {stored} pictures, {swept} were swept")
    if others := writers.ledger.failures.keys() - _EXPECTED:
        wrong.append(f"failed with {sorted(others)}")
    return "; ".join(wrong[:5])


async def _row(fault: str, writers: Writers, service: Service, note: str, broken: str) -> Row:
    ledger = writers.ledger
    histories = {name: [text for text, _ in await _history(service.port, name)] for name in writers.conversations}
    failures = ", ".join(f"{count}x {what}" for what, count in ledger.failures.most_common(4)) or "none"
    note += ", every message has its picture, no picture is without a message"
    return Row(fault, len(ledger.acknowledged), ledger.requests, ledger.judge(histories), failures, note, broken)


async def _history(port: int, conversation: str) -> list[tuple[str, str]]:
    """Return the text and the picture of each message."""
    found, wire, cursor = [], Wire(port), ""
    while cursor is not None:
        path = f"/conversations/{conversation}/messages?media=inline&limit={_PAGE}{cursor}"
        reply = await wire.ask("GET", path)
        assert reply.status == 200, reply.body
        page = json.loads(reply.body)
        parts = [each["message"]["content"] for each in page["messages"]]
        found += [(text["text"], image["image_url"]["url"]) for text, image in parts]
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    wire.close()
    return found
