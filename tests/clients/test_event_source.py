"""The Python client's ``follow`` against a real service that is killed, refuses, and forgets."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from readme_blocks import SERVER, block
from rigs.misbehaving import Reply, between
from rigs.servers import free_port

from sash_client.client import Ask, Sash, SashError, append, asked, path_of
from sash_client.event_source import sent_events

_SECONDS = 90
STREAM = Reply(200, b'id: 1-life\ndata: {"type": "reset"}\n\n', {"Content-Type": "text/event-stream"})


@asynccontextmanager
async def client(url: str, **options: Any) -> AsyncIterator[Sash]:
    sash = Sash(url, **options)
    yield sash
    await sash.aclose()


def user(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


async def taken(events: Any, count: int) -> list[dict[str, Any]]:
    """Return the next events, and end the stream."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(_SECONDS), aclosing(events):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_nothing_is_missed_or_doubled_over_kills(tmp_path: Path) -> None:
    """While the service is killed with SIGKILL three times, a reader gets each version once, in order, with its text."""
    served = Served(tmp_path / "data")
    served.start()
    port, count = int(served.url.rpartition(":")[2]), 90
    async with client(served.url, waits_seconds=[0.2] * 100) as sash:
        await sash.ado(append(path_of("c-1"), [user("0")]))
        reading = asyncio.create_task(taken(sash.follow("c-1", after=0, body=True), count + 1))
        for number in range(1, count + 1):
            if number % 30 == 15:
                writing = asyncio.create_task(sash.ado(append(path_of("c-1"), [user(str(number))])))
                await asyncio.to_thread(served.stop, signal.SIGKILL)
                await asyncio.to_thread(served.start, port=port)
                await writing
            else:
                await sash.ado(append(path_of("c-1"), [user(str(number))]))
        events = await reading
    assert [event["version"] for event in events] == list(range(1, count + 2))
    texts = [message["entry"]["message"]["content"] for event in events for message in event["messages"]]
    assert texts == [str(number) for number in range(count + 1)]
    served.stop()


async def test_an_erasure_ends_the_events(served: Served, conversation: str) -> None:
    """The last event is ``erased``, also where the conversation went away while the reader was."""
    async with client(served.url) as sash:
        path = path_of(conversation)
        await sash.ado(append(path, [user("one")]))
        seen: list[str] = []
        async with asyncio.timeout(_SECONDS):
            async for event in sash.follow(conversation):
                seen.append(event["type"])
                if event["type"] == "reset":
                    await sash.ado(asked(Ask("DELETE", path)))
        assert seen == ["reset", "erased"]


async def test_an_erasure_is_told_to_a_reader_that_was_away(served: Served, conversation: str) -> None:
    """A reader whose connection was cut, and who comes back to nothing, is told ``erased``."""
    async with client(served.url) as sash:
        path = path_of(conversation)
        await sash.ado(append(path, [user("one")]))
        absent = f'{{"type": "/problems/not-found", "instance": "{path}/events", "detail": "x", "status": 404}}'
        gone = Reply(404, absent.encode(), {"Content-Type": "application/problem+json"})
        with between(served.url, lambda number, _: gone if number else STREAM) as (url, seen):
            async with client(url) as far:
                events = [event["type"] async for event in far.follow(conversation)]
        assert events == ["reset", "erased"]
        assert len(seen) == 2


async def test_a_refusal_for_good_is_raised(served: Served) -> None:
    """What cannot be followed is a SashError at once; after a refusal that passes the reader comes back."""
    async with client(served.url) as sash:
        with pytest.raises(SashError) as absent:
            await taken(sash.follow("never-made"), 1)
        assert absent.value.status == 404
        with pytest.raises(SashError) as wrong:
            await taken(sash.follow("never-made", after="x"), 1)
        assert wrong.value.problem["errors"][0]["pointer"] == "#/query/after"
    full = Reply(503, b'{"type": "/problems/too-many-followers", "detail": "Full."}', {"Retry-After": "1"})
    with between(served.url, lambda number, _: STREAM if number else full) as (url, seen):
        async with client(url) as far:
            assert [event["type"] for event in await taken(far.follow("made", after=0), 1)] == ["reset"]
        assert len(seen) == 2


async def test_a_service_that_is_not_there_yet_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says which server does not answer; the events come when it does."""
    port = free_port()
    served = Served(tmp_path / "data")
    async with client(f"http://127.0.0.1:{port}") as sash:
        reading = asyncio.create_task(taken(sash.follow_owner("ann@example.com"), 1))
        await asyncio.sleep(1)
        await asyncio.to_thread(served.start, port=port)
        assert (await reading)[0]["type"] == "listed"
    assert f"127.0.0.1:{port}/ does not answer" in caplog.text
    await asyncio.to_thread(served.stop)


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_events_are_read_in_any_pieces(size: int) -> None:
    """Lines end at line feeds alone, with or without a carriage return; a comment and a pause are no events."""
    text = 'retry: 10\n\n:\n\nevent: x\nid: 1-a\ndata: "one\x85\u2028two"\ndata: 3\n\nid: 2\r\ndata: é\r\n\r\n'.encode()

    class Body:
        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            for start in range(0, len(text), size):
                yield text[start : start + size]

    found = [tuple(sent) async for sent in sent_events(Body())]  # type: ignore[arg-type] # of a response it needs the body
    assert found == [
        ("", "", "10"),
        ("", "", ""),
        ('"one\x85\u2028two"\n3', "1-a", ""),
        ("é", "2", ""),
    ]


def test_the_program_follows_a_conversation(served: Served, tmp_path: Path) -> None:
    """The page's program prints each event, and ends when the conversation is erased."""
    httpx.delete(f"{served.url}/conversations/talks-1")
    said = {"messages": [{"role": "user", "content": "one"}]}
    httpx.post(f"{served.url}/conversations/talks-1/messages", json=said).raise_for_status()
    program = block("python", "service/sash/api/README.md", "## Follow a conversation").replace(SERVER, served.url)
    (tmp_path / "watch.py").write_text(program)
    command = [sys.executable, "-u", str(tmp_path / "watch.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "reset 1\n"
        httpx.post(f"{served.url}/conversations/talks-1/messages", json=said).raise_for_status()
        assert running.stdout.readline() == "appended 2\n"
        httpx.delete(f"{served.url}/conversations/talks-1").raise_for_status()
        assert running.stdout.readline() == "erased 0\n"
        assert running.wait(30) == 0
