"""test_readme runs this program with the Google ADK: sessions, events and state survive a round trip through Sash."""

import asyncio
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Blob, Content, FunctionCall, FunctionResponse, Part

from sash_client.adk import SashSessionService
from sash_client.adk_state import change
from sash_client.client import SashError

URL = "http://127.0.0.1:8000"
ANN = {"app_name": "tables", "user_id": "ann@example.org"}


def said(role: str, *parts: Part, **more: Any) -> Event:
    author = "user" if role == "user" and not any(part.function_response for part in parts) else "waiter"
    return Event(
        id=Event.new_id(), author=author, content=Content(role=role, parts=list(parts)), invocation_id="i", **more
    )


def called(identity: str) -> Part:
    return Part(function_call=FunctionCall(id=identity, name="find_table", args={"seats": 2}))


def answered(identity: str) -> Part:
    return Part(function_response=FunctionResponse(id=identity, name="find_table", response={"result": "Osteria"}))


EVENTS = [
    said(
        "user", Part(text="Two seats? <|endoftext|> 🍝"), Part(inline_data=Blob(mime_type="image/png", data=b"\x89PNG"))
    ),
    said("model", Part(text="hm", thought=True), called("call_1"), called("call_2")),
    said("user", answered("call_1"), answered("call_2")),
    Event(
        id=Event.new_id(), author="waiter", invocation_id="i", actions=EventActions(state_delta={"table": {"seats": 2}})
    ),
    said("model", Part(text="At seven.", thought_signature=b"\x00signed"), branch="a.b"),
]


async def main() -> None:
    sessions = SashSessionService(url=URL)
    state = {"table": {"no": 7}, "user:name": "Ann", "app:open": True, "temp:x": 1}
    session = await sessions.create_session(**ANN, session_id="s/1", state=state)
    assert session.state == {"table": {"no": 7}, "user:name": "Ann", "app:open": True}
    for event in EVENTS:
        assert await sessions.append_event(session, event) is event
    await sessions.append_event(session, EVENTS[0])
    again = await sessions.get_session(**ANN, session_id="s/1")
    assert again is not None
    assert again.events == EVENTS, again.events
    assert again.state == {"table": {"seats": 2}, "user:name": "Ann", "app:open": True}
    print("events and state")

    for wanted in range(7):
        recent = await sessions.get_session(**ANN, session_id="s/1", config=GetSessionConfig(num_recent_events=wanted))
        assert recent is not None
        assert recent.events == EVENTS[max(0, 5 - wanted) :], wanted
    since = GetSessionConfig(after_timestamp=EVENTS[2].timestamp)
    assert (await sessions.get_session(**ANN, session_id="s/1", config=since)).events == EVENTS[2:]
    print("the last events")

    windowed = SashSessionService(url=URL, model="gemini-3.8-flash", limit=2)
    assert (await windowed.get_session(**ANN, session_id="s/1")).events == [
        EVENTS[0],
        EVENTS[4],
    ]  # one without words is in no window
    print("the events of a window")

    second = await sessions.create_session(**ANN)
    assert second.state == {"user:name": "Ann", "app:open": True}
    await sessions.append_event(
        second, Event(id=Event.new_id(), author="user", actions=EventActions(state_delta={"user:name": None}))
    )
    assert await sessions.get_user_state(**ANN) == {"name": None}
    listed = await sessions.list_sessions(**ANN)
    assert [each.id for each in listed.sessions] == ["s/1", second.id]
    await sessions.delete_session(**ANN, session_id="s/1")
    assert await sessions.get_session(**ANN, session_id="s/1") is None
    assert [each.id for each in (await sessions.list_sessions(**ANN)).sessions] == [second.id]
    print("several sessions")

    try:
        await sessions.create_session(**ANN, session_id=second.id)
    except AlreadyExistsError:
        print("there already")
    try:
        await sessions.list_sessions(app_name=ANN["app_name"])
    except ValueError as error:
        print(str(error).partition(":")[0])
    try:
        await sessions.append_event(session, EVENTS[0])
    except SessionNotFoundError:
        print("gone")
    try:
        await sessions.append_event(second, said("user", answered("call_9")))
    except SashError as error:
        print("refused" if error.status == 422 else error)
    await sessions.sash.aclose()
    await refused()


async def refused() -> None:
    """Check that only a session that exists is said to exist, and that state is not lost where it cannot be stored."""
    running = b'{"type": "/problems/idempotency-key-in-progress", "detail": "still running"}'

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)
        body, status = (running, 409) if method == b"POST" else (b"", 404)
        if status == 404:
            body = b'{"type": "/problems/not-found", "instance": "%b"}' % path
        writer.write(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        sessions = SashSessionService(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for attempt in (sessions.create_session(**ANN), sessions.sash.ado(change(("tables",), {"app:open": False}))):
            try:
                await attempt
            except SashError as error:
                print(error)
        await sessions.sash.aclose()


asyncio.run(main())
