"""``StreamingChats`` with models that are slow, fail or die, and requests that overtake each other."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from conftest import Served

from sash.clients.streaming import SashError, Speak, StreamedReply, StreamingChats

QUESTION = {"id": "q-1", "role": "user", "content": "is there a talk?"}


class Chat:
    """A chat through the client, and what is stored of it."""

    def __init__(self, served: Served, name: str) -> None:
        self.name = name
        self._url = served.url
        self.clients: list[StreamingChats] = []

    def client(self, *, beat: float = 0.1, patience: float = 2.0) -> StreamingChats:
        """Return a client, as another process has it."""
        made = StreamingChats(self._url, model="gpt-4o-mini", beat_seconds=beat, patience_seconds=patience)
        self.clients.append(made)
        return made

    async def ask(self, client: StreamingChats, question: dict[str, Any] = QUESTION, **how: Any) -> StreamedReply:
        return await client.ask(self.name, question, **how)

    def post(self, *messages: dict[str, Any], **query: Any) -> None:
        """Append messages as another program does."""
        path = f"{self._url}/conversations/{self.name}/messages"
        httpx.post(path, json={"messages": messages}, params=query).raise_for_status()

    def erase(self, seq: int) -> None:
        """Erase a message as another program does."""
        httpx.delete(f"{self._url}/conversations/{self.name}/messages/{seq}").raise_for_status()

    @property
    def stored(self) -> list[tuple[str, str | None]]:
        page = httpx.get(f"{self._url}/conversations/{self.name}/messages").json()["messages"]
        return [(each["message"]["content"], each.get("status")) for each in page]


@pytest.fixture
async def chat(served: Served, fresh: Callable[[], str]) -> AsyncIterator[Chat]:
    """Yield a new chat; its clients' connections are closed at the end."""
    chat = Chat(served, fresh())
    yield chat
    for each in chat.clients:
        await each.sash.aclose()


def saying(*pieces: str, pause: float = 0.0) -> Speak:
    """Return a model that says these pieces, each after a pause."""

    async def speak(request: dict[str, Any]) -> AsyncGenerator[str, None]:
        assert request["messages"][-1]["role"] == "user"
        for piece in pieces:
            await asyncio.sleep(pause)
            yield piece

    return speak


async def told(reply: StreamedReply, speak: Speak) -> tuple[str, str]:
    """Return a reply's streamed text, and its status at the end."""
    *pieces, end = [event async for event in reply.events(speak)]
    text = "".join(json.loads(piece.removeprefix("data: ")) for piece in pieces)
    return text, json.loads(end.removeprefix("event: end\ndata: "))["status"]


async def test_a_slow_model_is_waited_for(chat: Chat) -> None:
    """Who asks again sees by the beats that a model which says nothing for long still writes, and is told its reply."""
    first = await chat.ask(chat.client())
    writing = asyncio.create_task(told(first, saying("At ", "seven.", pause=2.0)))

    second = await chat.ask(chat.client())

    assert second.request is None
    assert await told(second, saying("Never.")) == await writing == ("At seven.", "completed")
    assert chat.stored == [(QUESTION["content"], None), ("At seven.", "completed")]


async def test_a_writer_that_is_taken_for_dead_stops(chat: Chat) -> None:
    """A reply without beats is written anew in its place; its old writer is told that it is gone, and stores nothing."""
    first = await chat.ask(chat.client(beat=60))
    writing = asyncio.create_task(told(first, saying("Old ", "reply.", pause=2.0)))

    second = await chat.ask(chat.client(patience=0.5))

    assert await told(second, saying("At ", "seven.")) == ("At seven.", "completed")
    assert await writing == ("Old reply.", "gone")
    assert chat.stored == [(QUESTION["content"], None), ("At seven.", "completed")]


async def test_a_beat_tells_a_writer_that_its_reply_is_gone(chat: Chat) -> None:
    """A writer whose reply was rewound stops at the next piece, before its model has ended."""
    client = chat.client()
    first = await chat.ask(client)
    writing = asyncio.create_task(told(first, saying(*"abcdefghij", pause=0.5)))
    await asyncio.sleep(0.7)

    chat.post({"role": "user", "content": "Never mind."}, after_seq=0)

    text, status = await writing
    assert (len(text) < 8, status) == (True, "gone")
    assert chat.stored == [("Never mind.", None)]


async def test_a_reply_whose_writer_dies_while_it_is_followed_ends(chat: Chat) -> None:
    """A reader that follows a reply is told that it broke off, what came is stored, and a retry writes it anew."""
    first = await chat.ask(chat.client())  # its events are never asked for, so no beat comes
    following = asyncio.create_task(chat.ask(chat.client()))
    await asyncio.sleep(0.4)
    chat.post({"id": first.id, "role": "assistant", "content": "At ", "status": "in_progress", "continues": True})

    assert await told(await following, saying("Never.")) == ("At ", "interrupted")

    assert chat.stored[-1] == ("At ", "interrupted")
    assert await told(await chat.ask(chat.client()), saying("At seven.")) == ("At seven.", "completed")
    assert chat.stored == [(QUESTION["content"], None), ("At seven.", "completed")]


async def test_two_retries_write_one_reply(chat: Chat) -> None:
    """Of two retries of a question without a reply one writes it, and the other one is told it."""
    chat.post(QUESTION)
    asked = [asyncio.create_task(chat.ask(chat.client())) for _ in range(2)]
    (first,), pending = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    writing = asyncio.create_task(told(first.result(), saying("At ", "seven.", pause=0.5)))
    (second,) = [await each for each in pending]

    assert second.request is None
    assert await told(second, saying("Never.")) == await writing == ("At seven.", "completed")
    assert chat.stored == [(QUESTION["content"], None), ("At seven.", "completed")]


async def test_a_chat_that_went_on_without_a_reply_says_so(chat: Chat) -> None:
    """A question that got no reply before the next message is 409, with what to do."""
    chat.post(QUESTION, {"role": "user", "content": "Hello?"})
    with pytest.raises(SashError, match="under an id of its own") as refused:
        await chat.ask(chat.client())
    assert refused.value.status == 409


async def test_an_erased_reply_is_told_as_gone(chat: Chat) -> None:
    """A retry of a question whose reply was erased is told that it is gone, and not its text."""
    await told(await chat.ask(chat.client()), saying("At seven."))
    chat.erase(2)

    assert await told(await chat.ask(chat.client()), saying("Never.")) == ("", "gone")


async def test_a_reply_in_parts_is_told(chat: Chat) -> None:
    """A reply that another program stored as a list of parts is told as text."""
    parts = [{"type": "text", "text": "At "}, {"type": "text", "text": "seven."}]
    chat.post(QUESTION, {"role": "assistant", "content": parts})

    assert await told(await chat.ask(chat.client()), saying("Never.")) == ("At seven.", "completed")


async def test_a_model_that_fails_is_no_error_of_the_stream(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    """What came is told and stored as interrupted; the log has the error's name and nothing of the chat."""

    async def failing(_: dict[str, Any]) -> AsyncGenerator[str, None]:
        yield "At "
        raise ValueError(QUESTION["content"])

    assert await told(await chat.ask(chat.client()), failing) == ("At ", "interrupted")
    assert chat.stored[-1] == ("At ", "interrupted")
    assert "ValueError" in caplog.text
    assert "talk" not in caplog.text
