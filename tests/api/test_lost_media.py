"""A picture whose bytes are gone, or are others: one line of text in its place, and all else goes on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from api.test_media_storage import WINDOW, sent, service
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import append
from rigs.pictures import in_base64, media_in, pictured, png
from rigs.storages import MARKED, files_in
from validators.media import FORMS, seen, shown, told

from sash.store.data.layout import keys_of
from sash.store.redis.embedded import EmbeddedStore

LINE = "[image, image/png, 90x90, 25 kB, not stored any more]\n"
NDJSON = {"Content-Type": "application/x-ndjson"}
PATH = "/conversations/{}/{}"


Spoil = Callable[..., None]


@pytest.fixture(params=["files", "store"])
async def both(
    request: pytest.FixtureRequest, own: EmbeddedStore, raw: redis.Redis, tmp_path: Path
) -> AsyncIterator[tuple[httpx.AsyncClient, Spoil]]:
    """Yield a service that keeps pictures in a folder, or in the store, and a function that spoils a picture there."""
    folder = tmp_path / "media"

    def spoil_file(conversation: str, digest: str, content: bytes | None) -> None:
        (file,) = (folder / "default" / conversation).glob(f"{digest}-*")
        file.unlink() if content is None else file.write_bytes(content)

    def spoil_field(conversation: str, digest: str, content: bytes | None) -> None:
        key, field = keys_of(f"default/{conversation}").media, b":" + bytes.fromhex(digest)
        assert raw.hexists(key, field)
        raw.hdel(key, field) if content is None else raw.hset(key, field, content)

    is_files = request.param == "files"
    async with service(own, folder.as_uri() if is_files else None) as client:
        yield client, spoil_file if is_files else spoil_field


async def digests(client: httpx.AsyncClient, conversation: str) -> list[str]:
    page = await client.get(f"/conversations/{conversation}/messages?limit=1000")
    return [each["digest"] for each in media_in(page.json()["messages"])]


def lined(text: str, *parts: int | None) -> dict[str, Any]:
    """Return a message as a window sends it, with the line in place of each picture that is None."""
    message = pictured(text, *(0 if each is None else each for each in parts))
    for place, each in enumerate(parts, 1):
        if each is None:
            before = message["content"][place - 1].get("text", "\n")
            message["content"][place] = {"type": "text", "text": LINE if before.endswith("\n") else f"\n{LINE}"}
    return message


@pytest.mark.parametrize("content", [None, b"", b"\0other bytes", b"\1" + b"x" * 50, b"\0" + b"A" * 33_000])
async def test_a_lost_picture_is_one_line(
    both: tuple[httpx.AsyncClient, Spoil], conversation: str, content: bytes | None
) -> None:
    """A picture that is gone, or is another, is a line in windows, is told as a mend, and costs the line; what is there
    stays. The path of the picture is 410, and sending it again brings all back."""
    client, spoil = both
    messages = [pictured("look", 1), pictured("these", 1, 2), {"role": "user", "content": "well?"}]
    await append(client, conversation, *({"id": str(n), "message": each} for n, each in enumerate(messages)))
    first, *_ = await digests(client, conversation)
    whole = (await client.get(PATH.format(conversation, "window"), params=WINDOW)).json()
    spoil(conversation, first, content)

    window = (await client.get(PATH.format(conversation, "window"), params={**WINDOW, "explain": True})).json()
    counted = await client.post("/count", json={"model": WINDOW["model"], "messages": window["request"]["messages"]})
    gone = await client.get(PATH.format(conversation, f"media/{first}"))
    again = await append(client, conversation, {"id": "again", "message": pictured("again", 1)})
    after = await sent(client, conversation)

    assert window["request"]["messages"] == [lined("look", None), lined("these", None, 2), messages[2]]
    assert window["mended"] == {"messages": 2, "reasons": {"lost_medium": 2}}
    assert [each.get("left_out") for each in window["explain"]] == [{"lost": 1}, {"lost": 1}, None]
    assert (window["dropped"]["images"], window["stop_reason"]) == (2, "complete")
    assert window["tokens"]["total"] == counted.json()["tokens"] < whole["tokens"]["total"]
    assert (gone.status_code, gone.json()["type"]) == (410, "/problems/medium-gone")
    assert again["messages"][0]["duplicate"] is False
    assert after == [*messages, pictured("again", 1)]
    assert (await client.get(PATH.format(conversation, f"media/{first}"))).content == png(1)


async def test_a_retry_brings_a_lost_picture_back(both: tuple[httpx.AsyncClient, Spoil], conversation: str) -> None:
    """The same entry again is a duplicate, and writes the picture that is not there any more."""
    client, spoil = both
    entry = {"id": "a", "message": pictured("look", 1)}
    await append(client, conversation, entry)
    spoil(conversation, (await digests(client, conversation))[0], None)
    again = await append(client, conversation, entry)

    assert again["messages"][0]["duplicate"] is True
    assert await sent(client, conversation) == [entry["message"]]


@pytest.mark.parametrize("form", FORMS)
async def test_a_lost_picture_in_each_form(both: tuple[httpx.AsyncClient, Spoil], conversation: str, form: str) -> None:
    """In every format, of messages of every form and in tools' results, a window goes on without the bytes that are lost."""
    client, spoil = both
    pictures = [in_base64(png(n)) for n in range(3)]
    groups = [
        shown(form, "look", pictures[0]),
        *seen(form, "call-1", pictures[1]),
        told(form, "well"),
        shown(form, "?", pictures[2]),
    ]
    for kind, messages in groups:
        await append(client, conversation, *messages, format=kind)
    for digest in (await digests(client, conversation))[:2]:
        spoil(conversation, digest, None)

    for wanted in (*FORMS, "interactions", "converse", "ollama"):
        answer = await client.get(PATH.format(conversation, "window"), params={**WINDOW, "format": wanted})
        assert answer.status_code == 200, (wanted, answer.text)
        assert answer.text.count("not stored any more") >= 1
        assert answer.json()["mended"]["reasons"]["lost_medium"] >= 1
        assert pictures[0][:2000] not in answer.text
        assert pictures[2] in answer.text


async def test_exports_forks_and_imports_go_on(both: tuple[httpx.AsyncClient, Spoil], conversation: str) -> None:
    """An export tells the lost pictures of each line, and can be imported; a fork has the same window, and gets the picture
    back by itself."""
    client, spoil = both
    await append(client, conversation, *({"id": str(n), "message": pictured("look", n)} for n in range(3)))
    digest = (await digests(client, conversation))[1]
    spoil(conversation, digest, None)
    window = await sent(client, conversation)

    exported = await client.get(PATH.format(conversation, "export"))
    inline = await client.get(PATH.format(conversation, "messages?media=inline"))
    lines = [json.loads(line) for line in exported.text.splitlines()]
    imported = await client.post(f"/conversations/import?id={conversation}-2", content=exported.content, headers=NDJSON)
    forked = await client.post(PATH.format(conversation, "fork"), json={"id": f"{conversation}-3"})

    facts = {"digest": digest, "type": "image/png", "bytes": len(png(1)), "width": 90, "height": 90}
    assert [line.get("lost") for line in lines[1:]] == [None, [facts], None]
    assert [each.get("lost") for each in inline.json()["messages"]] == [None, [facts], None]
    assert lines[2]["message"] == lined("look", None)
    assert (imported.status_code, forked.status_code) == (201, 201)
    assert window[1] == lined("look", None)
    assert await sent(client, f"{conversation}-2") == window
    assert await sent(client, f"{conversation}-3") == window
    await append(client, f"{conversation}-3", {"id": "again", "message": pictured("again", 1)})
    assert (await sent(client, f"{conversation}-3"))[1] == pictured("look", 1)
    assert (await sent(client, conversation))[1] == lined("look", None)


async def test_a_receipt_tells_a_lost_picture(both: tuple[httpx.AsyncClient, Spoil], conversation: str) -> None:
    """A receipt whose picture is lost is 410 and says so; one that was given for the line gives the line again."""
    client, spoil = both
    await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
    path = PATH.format(conversation, "window")
    before = await client.get(path, params=WINDOW)
    spoil(conversation, (await digests(client, conversation))[0], None)
    gone = await client.get(path, params={"receipt": before.json()["receipt"]})
    without = await client.get(path, params=WINDOW)
    again = await client.get(path, params={"receipt": without.json()["receipt"]})

    assert (gone.status_code, gone.json()["reason"], gone.json()["seq"]) == (410, "medium", 1)
    assert (again.status_code, again.content) == (200, without.content)


async def test_documents_stay_in_their_places(both: tuple[httpx.AsyncClient, Spoil], conversation: str) -> None:
    """A question with documents and a lost picture has its documents behind its text."""
    client, spoil = both
    documents = {"documents": [{"id": "d", "text": "The harbour opens at six."}]}
    await append(client, conversation, {"id": "a", "message": pictured("look", 1), "grounding": documents})
    (whole,) = await sent(client, conversation)
    spoil(conversation, (await digests(client, conversation))[0], None)
    (message,) = await sent(client, conversation)

    assert "The harbour opens at six." in json.dumps(whole)
    line = {"type": "text", "text": f"\n{LINE}"}
    assert message["content"] == [line if each["type"] == "image_url" else each for each in whole["content"]]


async def test_a_lost_text_file_is_counted_again(both: tuple[httpx.AsyncClient, Spoil], conversation: str) -> None:
    """A model with a vocabulary of its own counts a message without its lost file, and with it once it is there again."""
    client, spoil = both
    url = f"data:text/plain;base64,{in_base64(b'lorem ipsum ' * 2000)}"
    parts = [{"type": "text", "text": "read"}, {"type": "file", "file": {"filename": "a.txt", "file_data": url}}]
    entry = {"id": "a", "message": {"role": "user", "content": parts}}
    await append(client, conversation, entry)
    query = {"model": "qwen3.5-plus", "max_tokens": 50_000}
    spoil(conversation, (await digests(client, conversation))[0], None)
    without = await client.get(PATH.format(conversation, "window"), params=query)
    await append(client, conversation, entry)
    again = await client.get(PATH.format(conversation, "window"), params=query)

    assert (without.status_code, again.status_code) == (200, 200)
    assert without.json()["tokens"]["total"] < 100
    assert again.json()["tokens"]["total"] > 4000


@pytest.mark.usefixtures("raw")
async def test_what_is_lost_is_counted_without_names(own: EmbeddedStore, conversation: str, tmp_path: Path) -> None:
    """Metrics count the reads of lost pictures, by how they are lost."""
    async with service(own, (tmp_path / "media").as_uri()) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1, 2)})
        one, other = (tmp_path / "media" / "default" / conversation).iterdir()
        one.unlink()
        other.write_bytes(b"\0other")
        await sent(client, conversation)
        found = ""
        for _ in range(200):
            found = (await client.get("/metrics")).text
            if 'sash_media_lost_total{how="altered"} 1.0' in found:
                break
    assert 'sash_media_lost_total{how="missing"} 1.0' in found
    assert conversation not in found


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "repeat", "redact", "rewind", "after", "fork", "import", "vanish", "alter"]
        ),
        st.integers(0, 3),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=12,
)


class Story:
    """Conversations with pictures in a folder, as a client knows them: numbers of pictures, None for those that are lost."""

    def __init__(self, client: httpx.AsyncClient, folder: Path, name: str) -> None:
        self.client, self.folder, self.name, self.number = client, folder, name, 0
        self.said: list[tuple[str, list[int]]] = []
        self.lost: set[int] = set()

    async def step(self, kind: str, picture: int, place: int) -> None:
        await getattr(self, f"_{kind}")(picture, place)

    def _entry(self, picture: int) -> dict[str, Any]:
        self.number += 1
        self.said.append((f"m-{self.number}", [picture, (picture + 1) % 4]))
        self.lost -= {picture, (picture + 1) % 4}
        return self._of(self.said[-1])

    def _of(self, said: tuple[str, list[int]]) -> dict[str, Any]:
        return {"id": said[0], "message": pictured(said[0], *said[1])}

    async def _append(self, picture: int, _: int) -> None:
        await append(self.client, self.name, self._entry(picture))

    async def _repeat(self, _: int, place: int) -> None:
        if self.said and (said := self.said[place % len(self.said)])[1]:
            await append(self.client, self.name, self._of(said))
            self.lost -= {*said[1]}

    async def _redact(self, _: int, place: int) -> None:
        if self.said:
            seq = place % len(self.said)
            answer = await self.client.delete(PATH.format(self.name, f"messages/{seq + 1}"))
            assert answer.status_code == 204
            self.said[seq] = (self.said[seq][0], [])

    async def _rewind(self, _: int, place: int) -> None:
        if self.said:
            to = place % len(self.said)
            answer = await self.client.post(PATH.format(self.name, "rewind"), json={"to_seq": to, "forget": True})
            assert answer.status_code == 200
            del self.said[to:]

    async def _after(self, picture: int, place: int) -> None:
        if self.said:
            to = place % len(self.said)
            del self.said[to:]
            await append(self.client, self.name, self._entry(picture), after_seq=to, forget=True)

    async def _fork(self, _: int, __: int) -> None:
        if self.said:
            answer = await self.client.post(PATH.format(self.name, "fork"), json={"id": f"{self.name}-f"})
            assert answer.status_code == 201, answer.text
            assert (await self.client.delete(f"/conversations/{self.name}")).status_code == 204
            self.name += "-f"

    async def _import(self, _: int, __: int) -> None:
        if self.said and not self.lost:  # else the copy has lines
            exported = await self.client.get(PATH.format(self.name, "export"))
            query = {"id": f"{self.name}-i"}
            answer = await self.client.post(
                "/conversations/import", params=query, content=exported.content, headers=NDJSON
            )
            assert answer.status_code == 201, answer.text
            assert (await self.client.delete(f"/conversations/{self.name}")).status_code == 204
            self.name += "-i"

    async def _vanish(self, picture: int, _: int) -> None:
        await self._spoil(picture, None)

    async def _alter(self, picture: int, _: int) -> None:
        await self._spoil(picture, b"\0" + b"A" * 32_000)

    async def _spoil(self, picture: int, content: bytes | None) -> None:
        for file in self.folder.glob(f"default/{self.name}/*"):
            if await self._number(file.name[:32]) == picture:
                file.unlink() if content is None else file.write_bytes(content)
                self.lost.add(picture)

    async def _number(self, digest: str) -> int | None:
        answer = await self.client.get(PATH.format(self.name, f"media/{digest}"))
        return next((n for n in range(4) if answer.content == png(n)), None)

    def expected(self) -> list[dict[str, Any]]:
        return [
            lined(text, *(None if n in self.lost else n for n in numbers)) for text, numbers in self.said if numbers
        ]

    def held(self) -> int:
        return len({n for _, numbers in self.said for n in numbers})


async def _told(client: httpx.AsyncClient, folder: Path, conversation: str, steps: list[tuple[str, int, int]]) -> None:
    story = Story(client, folder, conversation)
    for step in steps:
        await story.step(*step)
    if story.said:
        window = await sent(client, story.name)
        assert [each for each in window if isinstance(each["content"], list)] == story.expected()
        assert (await client.get(PATH.format(story.name, "export"))).status_code == 200
    assert len(objects(folder)) <= story.held()  # none that no message has
    await client.delete(f"/conversations/{story.name}")
    assert objects(folder) == []


def objects(folder: Path) -> list[str]:
    return [name for name in files_in(folder) if not name.startswith(MARKED)]


@pytest.mark.long
@pytest.mark.usefixtures("raw")
def test_pictures_that_vanish_or_are_altered(own: EmbeddedStore, fresh: Callable[[], str], tmp_path: Path) -> None:
    """Whatever a client does while objects vanish or are overwritten: a window has each picture or its line, what was sent
    again is there, and an object that no message has is gone at once."""
    folder = tmp_path / "media"
    with asyncio.Runner() as runner:
        running = service(own, folder.as_uri())
        client = runner.run(running.__aenter__())

        @examples(0.2)
        @given(STEPS)
        def always(steps: list[tuple[str, int, int]]) -> None:
            runner.run(_told(client, folder, fresh(), steps))

        try:
            always()
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.mark.usefixtures("raw")
@pytest.mark.parametrize("content", [None, b"", b"\0plain", b"\1" + b"x" * 50, b"\1" + bytes(40_000)])
@pytest.mark.parametrize("is_files", [True, False])
async def test_a_lost_picture_that_was_sealed(
    own: EmbeddedStore, conversation: str, tmp_path: Path, content: bytes | None, *, is_files: bool
) -> None:
    """With encryption at rest, too, bytes that are gone or do not open are one line, and come back with the picture."""
    folder, key = tmp_path / "media", keys_of(f"default/{conversation}").media
    url = folder.as_uri() if is_files else None
    async with service(own, url, encryption_key=(b"master".ljust(32),)) as client:
        await append(client, conversation, {"id": "a", "message": pictured("look", 1)})
        if is_files:
            (file,) = (folder / "default" / conversation).iterdir()
            file.unlink() if content is None else file.write_bytes(content)
        else:
            with redis.Redis.from_url(own.url) as raw:
                (field,) = [name for name in raw.hkeys(key) if name[:1] == b":" and len(name) == 17]
                raw.hdel(key, field) if content is None else raw.hset(key, field, content)
        lost = await sent(client, conversation)
        forked = await client.post(PATH.format(conversation, "fork"), json={"id": f"{conversation}-f"})
        await append(client, conversation, {"id": "b", "message": pictured("again", 1)})

        assert lost == [lined("look", None)]
        assert forked.status_code == 201
        assert await sent(client, conversation) == [pictured("look", 1), pictured("again", 1)]
