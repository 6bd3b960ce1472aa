"""A picture is given as long as a message has it, in the log or in a branch, and to nobody once the last is erased."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from api.test_media_storage import erasures
from conftest import http, lifespan
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import history, user
from rigs.pictures import media_in, picture_part, pictured
from rigs.storages import files_in

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

NDJSON = {"Content-Type": "application/x-ndjson"}
SHOWN = picture_part(1)["image_url"]["url"]
APPENDS = {
    "picture": {"message": pictured("look", 1)},
    "pictures": {"message": pictured("both", 1, 2, 1)},
    "text": {"message": {"role": "assistant", "content": "text"}},
    "begun": {"message": {"role": "assistant", "content": "so"}, "id": "draft", "status": "in_progress"},
    "ended": {"message": {"role": "assistant", "content": "done"}, "id": "draft"},
}
CHANGES = ("put", "after", "rewind", "forget", "swap", "drop", "redact", "redact_in_branch", "fork", "erase")
MOVES = (*APPENDS, *CHANGES)
_names = count(1)


class Talks:
    """Conversations of a service that have one picture, and the folder of objects where pictures are kept there."""

    def __init__(self, client: httpx.AsyncClient, folder: Path | None, digest: str = "") -> None:
        self.client = client
        self.folder = folder
        self.digest = digest
        self.names: list[str] = []

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Call, and return the answer, which is no server error."""
        answer = await self.client.request(method, f"/conversations/{path}", **options)
        assert answer.status_code < 500, answer.text
        return answer

    async def begin(self) -> str:
        """Return a conversation with the picture in one message, in the log."""
        name = self.name()
        await self.add(name, pictured("look", 1), id="one")
        (facts,) = media_in(await history(self.client, name))
        self.digest = facts["digest"]
        return name

    def name(self) -> str:
        self.names.append(f"pictures-{next(_names)}")
        return self.names[-1]

    async def add(self, name: str, message: dict[str, Any], **envelope: Any) -> httpx.Response:
        return await self.call("POST", f"{name}/messages", json={"messages": [{"message": message, **envelope}]})

    async def fork(self, name: str) -> str:
        forked = self.name()
        await self.call("POST", f"{name}/fork", json={"id": forked})
        return forked

    async def copy(self, name: str) -> str:
        """Return a conversation that is imported from another one's export."""
        copied, whole = self.name(), (await self.call("GET", f"{name}/export")).content
        await self.call("POST", f"import?id={copied}", content=whole, headers=NDJSON)
        return copied

    async def holders(self, name: str) -> int:
        """Return how many messages of an export, in the log and in branches, have the picture."""
        answer = await self.call("GET", f"{name}/export")
        return sum(SHOWN in line for line in answer.text.splitlines()) if answer.status_code == 200 else 0

    async def check(self, name: str) -> int:
        """Check that the picture is given, and its object there, exactly while an export has it. Returns how often."""
        holders = await self.holders(name)
        answer = await self.call("GET", f"{name}/media/{self.digest}")
        assert answer.status_code == (200 if holders else 404), (name, holders)
        if self.folder is not None:
            its = [path for path in files_in(self.folder) if f"/{name}/{self.digest}-" in path]
            assert len(its) == (1 if holders else 0), (name, holders, its)
        return holders

    async def move(self, move: str, number: int) -> None:
        """Do one thing to one of the conversations."""
        name = self.names[number % len(self.names)]
        if move in APPENDS:
            await self.call("POST", f"{name}/messages", json={"messages": [APPENDS[move]]})
        elif move == "copy":
            await self.copy(name)
        elif move == "fork":
            await self.fork(name)
        elif move == "erase":
            await self.call("DELETE", name)
        elif move in ("swap", "drop", "redact_in_branch"):
            await self._change_branch(move, name, number)
        else:
            await self._change_log(move, name, number)

    async def _change_log(self, move: str, name: str, number: int) -> None:
        stored = await history(self.client, name)
        place = number % (len(stored) + 1)
        if move == "put":
            kept = [{key: each[key] for key in ("id", "message")} for each in stored[:place]]
            await self.call("PUT", f"{name}/messages", json={"messages": [*kept, user(f"put {number % 2}")]})
        elif move == "after":
            body = {"messages": [{"message": pictured("after", 1)}], "after_seq": place}
            await self.call("POST", f"{name}/messages", json=body)
        elif move == "redact":
            await self.call("DELETE", f"{name}/messages/{place or 1}")
        else:
            await self.call("POST", f"{name}/rewind", json={"to_seq": place, "forget": move == "forget"})

    async def _change_branch(self, move: str, name: str, number: int) -> None:
        found = (await self.call("GET", f"{name}/branches?messages=true")).json().get("branches", [])
        if not found:
            return
        branch = found[number % len(found)]
        if move == "redact_in_branch":
            if content := branch["content"]:  # it may be dropped while it is listed
                await self.call("DELETE", f"{name}/messages/id:{content[number % len(content)]['id']}")
        else:
            await self.call("POST" if move == "swap" else "DELETE", f"{name}/branches/{branch['id']}")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """Yield a store of the test's own."""
    with EmbeddedStore(tmp_path / "store", fsync="everysec") as store:
        yield store


@pytest.fixture(params=["store", "objects"])
async def talks(request: pytest.FixtureRequest, own: EmbeddedStore, tmp_path: Path) -> AsyncIterator[Talks]:
    """Yield the conversations of a service whose pictures are in the store, or objects in a folder."""
    folder = tmp_path / "media" if request.param == "objects" else None
    settings = Settings(redis_url=own.url, durability="fast", media_url=folder.as_uri() if folder else None)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield Talks(client, folder)


@examples(0.1)
@given(order=st.permutations([(talk, entry) for talk in range(3) for entry in ("one", "two", "three")]))
async def test_the_last_holder_takes_the_picture(talks: Talks, order: list[tuple[int, str]]) -> None:
    """Of a log, its branch, a fork and an imported copy, each with the picture, only the last that is erased takes it."""
    name = await talks.begin()
    await talks.add(name, {"role": "assistant", "content": "a cat"})
    await talks.add(name, pictured("and this", 1), id="two")
    await talks.call("POST", f"{name}/rewind", json={"to_seq": 1})
    await talks.add(name, pictured("once more", 1), id="three")
    names = [name, await talks.fork(name), await talks.copy(name)]
    left = dict.fromkeys(names, 3)
    assert [await talks.check(each) for each in names] == [3, 3, 3]
    for talk, entry in order:
        await talks.call("DELETE", f"{names[talk]}/messages/id:{entry}")
        left[names[talk]] -= 1
        assert {each: await talks.check(each) for each in names} == left


@examples(0.2)
@given(moves=st.lists(st.tuples(st.sampled_from((*MOVES, "copy")), st.integers(0, 11)), min_size=5, max_size=15))
async def test_a_picture_is_there_while_an_export_has_it(talks: Talks, moves: list[tuple[str, int]]) -> None:
    """After any changes of conversations, their branches and copies, a picture is given exactly while an export has it."""
    talks.names = []
    await talks.begin()
    for move, number in moves:
        await talks.move(move, number)
        for name in talks.names:
            await talks.check(name)


_DUE_MS = 601_000
"""After so long objects are looked for that a change left behind while another was made."""


@examples(0.2)
@given(
    moves=st.lists(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 11)), min_size=2, max_size=4), max_size=8)
)
async def test_changes_at_once_lose_and_keep_no_picture(
    talks: Talks, own: EmbeddedStore, moves: list[list[tuple[str, int]]]
) -> None:
    """After changes that are made at the same time, a picture is given exactly while an export has it, and its object is
    there exactly so long, once what is due is erased."""
    talks.names = []
    await talks.begin()
    for together in moves:
        await asyncio.gather(*(talks.move(move, number) for move, number in together))
        if talks.folder is not None:
            async with erasures(own, talks.folder.as_uri()) as its:
                await its.erase_due(time.time_ns() // 1_000_000 + _DUE_MS)
        for name in talks.names:
            await talks.check(name)
