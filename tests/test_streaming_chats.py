"""``StreamingChats`` with models that are slow, fail or die, and requests that overtake each other."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from conftest import Served

from sash_client.streaming import SashError, Speak, StreamedReply, StreamingChats

QUESTION = {"id": "q-1", "role": "user", "content": "is there a talk?"}


class Chat:
    """A chat through the client, and what is stored of it."""

    def __init__(self, served: Served, name: str) -> None:
        self.name = name
        self.url = served.url
        self.clients: list[StreamingChats] = []

    def client(self, *, beat: float = 0.1, patience: float = 2.0) -> StreamingChats:
        """Return a client, as another process has it."""
        made = StreamingChats(self.url, model="gpt-4o-mini", beat_seconds=beat, patience_seconds=patience)
        self.clients.append(made)
        return made

    async def ask(self, client: StreamingChats, question: dict[str, Any] = QUESTION, **how: Any) -> StreamedReply:
        return await client.ask(self.name, question, **how)

    def post(self, *messages: dict[str, Any], **query: Any) -> None:
        """Append messages as another program does."""
        path = f"{self.url}/conversations/{self.name}/messages"
        httpx.post(path, json={"messages": messages}, params=query).raise_for_status()

    def erase(self, seq: int) -> None:
        """Erase a message as another program does."""
        httpx.delete(f"{self.url}/conversations/{self.name}/messages/{seq}").raise_for_status()

    @property
    def stored(self) -> list[tuple[str, str | None]]:
        return [(each["message"]["content"], each.get("status")) for each in self.page]

    @property
    def branches(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/conversations/{self.name}/branches").json()["branches"]
        return found

    @property
    def page(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/conversations/{self.name}/messages").json()["messages"]
        return found


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
    events = [event async for event in reply.events(speak)]
    return text_of(events), json.loads(events[-1].removeprefix("event: end\ndata: "))["status"]


def text_of(events: list[str]) -> str:
    return "".join(json.loads(event.removeprefix("data: ")) for event in events if event.startswith("data: "))


def named(events: list[str], name: str) -> list[Any]:
    """Return the data of the events with this name."""
    head = f"event: {name}\ndata: "
    return [json.loads(event.removeprefix(head)) for event in events if event.startswith(head)]


async def failing(_: dict[str, Any]) -> AsyncGenerator[str, None]:
    raise ValueError(QUESTION["content"])
    yield ""


async def until(holds: Callable[[], bool]) -> None:
    """Return when the condition holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what is stored is read over HTTP
            await asyncio.sleep(0.05)


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


async def test_a_model_that_fails_says_why(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    """What came is told and stored as interrupted; the browser and the log are told the error's name and place, no text."""

    class RateLimitError(Exception):
        status_code = 429
        code = "insufficient_quota"

    async def breaking(_: dict[str, Any]) -> AsyncGenerator[str, None]:
        yield "At "
        raise RateLimitError(QUESTION["content"]) from ConnectionError("a talk")

    events = [event async for event in (await chat.ask(chat.client())).events(breaking)]
    why = "RateLimitError, by ConnectionError, HTTP 429, insufficient_quota"
    assert named(events, "failed") == [
        {"type": "/problems/model-failed", "title": "The model failed", "status": 502, "detail": why}
    ]
    assert (text_of(events), named(events, "end")) == ("At ", [{"status": "interrupted", "seq": 2}])
    assert chat.stored[-1] == ("At ", "interrupted")
    assert f"The model's reply broke off: {why}, at test_streaming_chats.py:" in caplog.text
    assert "talk" not in caplog.text


async def test_a_reply_is_written_whole_when_its_reader_leaves(chat: Chat) -> None:
    """A second tab, of the same process or another one, is told all of it, and it is stored whole."""
    client, speak = chat.client(), saying("At ", "seven ", "o'clock.", pause=0.3)
    leaving = (await chat.ask(client)).events(speak)
    assert await anext(leaving) == 'data: "At "\n\n'
    await leaving.aclose()
    here, far = await chat.ask(client), await chat.ask(chat.client())
    whole = ("At seven o'clock.", "completed")
    assert await asyncio.gather(told(here, speak), told(far, speak)) == [whole, whole]
    assert chat.stored == [(QUESTION["content"], None), whole]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_reply_is_stopped(chat: Chat, elsewhere: bool) -> None:  # noqa: FBT001
    """``stop`` ends a reply in progress, also one that another process writes; a retry writes it anew."""
    client = chat.client()
    reading = asyncio.create_task(told(await chat.ask(client), saying("At ", *["."] * 100, pause=0.1)))
    await until(lambda: chat.stored[-1][0] != "")
    await (chat.client() if elsewhere else client).stop(chat.name, "q-1")
    text, status = await reading
    assert (text.startswith("At "), len(text) < 50, status) == (True, True, "interrupted")
    assert chat.stored[-1][1] == "interrupted"
    await client.stop(chat.name, "q-1")
    await client.stop(chat.name, "q-never")
    assert await told(await chat.ask(client), saying("At seven.")) == ("At seven.", "completed")


async def test_the_end_of_an_application_ends_its_replies(chat: Chat) -> None:
    """What came of a reply that nobody reads is stored as interrupted when the application stops."""
    client = chat.client(beat=60)
    async with client.lifespan():
        events = (await chat.ask(client)).events(saying("At ", "seven.", pause=0.2))
        assert await anext(events) == 'data: "At "\n\n'
        await events.aclose()
    assert chat.stored[-1] == ("At ", "interrupted")


async def test_a_silent_writer_is_told(chat: Chat) -> None:
    """While nobody knows whether a writer died, the stream says that it waits, and for how long; then it writes anew."""
    await chat.ask(chat.client())  # its events are never asked for, so no beat comes
    second = await chat.ask(chat.client(patience=2.5))
    events = [event async for event in second.events(saying("At seven."))]
    waited = named(events, "waiting")
    assert [round(each["seconds"]) for each in waited] == [1, 2]
    assert {each["of"] for each in waited} == {2.5}
    assert (text_of(events), named(events, "end")) == ("At seven.", [{"status": "completed", "seq": 2}])


async def test_a_regenerated_reply_that_fails_leaves_the_good_one(chat: Chat) -> None:
    """Until the new reply has a word, the old one is kept: a model that fails before puts it back, with its question."""
    client = chat.client()
    await told(await chat.ask(client), saying("At seven."))
    good = [(QUESTION["content"], None), ("At seven.", "completed")]
    again = {"id": "q-2", "role": "user", "content": "is there no talk?"}

    reply = await chat.ask(client, again, instead_of="q-1")
    assert chat.stored == [("is there no talk?", None), ("", "in_progress")]
    events = [event async for event in reply.events(failing)]

    assert named(events, "failed")[0]["detail"] == "ValueError"
    assert named(events, "end") == [{"status": "kept", "seq": 2}]
    assert chat.stored == good
    assert await told(await chat.ask(client), failing) == ("At seven.", "completed")
    with pytest.raises(SashError):
        await chat.ask(client, {**again, "content": "word " * 150_000}, instead_of="q-1")
    assert chat.stored == good

    assert await told(await chat.ask(client, again, instead_of="q-1"), saying("At ", "eight.")) == (
        "At eight.",
        "completed",
    )
    assert chat.stored == [("is there no talk?", None), ("At eight.", "completed")]


async def test_a_good_reply_outlives_a_crash_while_it_is_regenerated(chat: Chat) -> None:
    """A process that dies before the new reply's first word leaves the old one stored; a retry that fails puts it back."""
    await told(await chat.ask(chat.client()), saying("At seven."))
    again = {"id": "q-2", "role": "user", "content": "is there no talk?"}
    await chat.ask(chat.client(), again, instead_of="q-1")  # its events are never asked for, as its process is gone
    for _ in range(2):
        reply = await chat.ask(chat.client(patience=0.5), again, instead_of="q-1")
        assert await told(reply, failing) == ("", "kept")
        assert chat.stored == [(QUESTION["content"], None), ("At seven.", "completed")]


async def test_a_chat_that_went_on_keeps_what_was_said(chat: Chat) -> None:
    """If another message came behind the new question, its failed reply stays, and the old one is a branch."""
    client = chat.client()
    await told(await chat.ask(client), saying("At seven."))
    again = {"id": "q-2", "role": "user", "content": "is there no talk?"}
    reply = await chat.ask(client, again, instead_of="q-1")
    chat.post({"role": "user", "content": "Hello?"})
    assert await told(reply, failing) == ("", "interrupted")
    assert [text for text, _ in chat.stored] == ["is there no talk?", "", "Hello?"]
    assert [(each["messages"], each["first"]["text"]) for each in chat.branches] == [(2, QUESTION["content"])]


async def test_half_a_reply_comes_back_when_its_retry_fails(chat: Chat) -> None:
    """A reply that broke off is written anew in its place; a model that fails before a word gives back the half."""
    client = chat.client()

    async def breaking(_: dict[str, Any]) -> AsyncGenerator[str, None]:
        yield "At "
        raise ValueError

    await told(await chat.ask(client), breaking)
    assert await told(await chat.ask(client), failing) == ("", "kept")
    assert chat.stored == [(QUESTION["content"], None), ("At ", "interrupted")]
    assert await told(await chat.ask(client), saying("At seven.")) == ("At seven.", "completed")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/c-1", b"", 422),
        ("POST", "/c-1", b"[]", 422),
        ("POST", "/c-1", b'{"id": "q-1"}', 422),
        ("POST", "/c-1", b'{"id": "q-1", "text": 1}', 422),
        ("POST", "/c-1", b'{"id": "q-1", "text": "hi", "instead_of": 1}', 422),
        ("GET", "/c-1", b"", 404),
        ("POST", "/", b"{}", 404),
        ("POST", "/a/b", b"{}", 404),
    ],
)
async def test_a_route_refuses_what_is_no_question(
    chat: Chat, method: str, path: str, body: bytes, status: int
) -> None:
    """``app`` answers with a problem that says what to send, and stores nothing."""
    transport = httpx.ASGITransport(chat.client().app(saying("hi")))
    async with httpx.AsyncClient(transport=transport, base_url="http://chat") as client:
        answer = await client.request(method, path, content=body)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]
    async with httpx.AsyncClient(base_url=chat.url) as sash:
        assert (await sash.get("/conversations/c-1")).status_code == 404
