"""``SashSession``, the session for the Agents SDK, without the SDK and against ``sash serve``."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import Served

from sash_client.agents import SashSession
from sash_client.client import SashError

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVkIHRob3VnaHRz"}
SAID = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
SAID["content"] = [{"type": "output_text", "text": "At seven.", "annotations": []}]
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "find_table", "arguments": "{}"}
OTHER = {"type": "function_call", "call_id": "call_2", "name": "find_taxi", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "Osteria"}
OTHER_OUTPUT = {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "none"}]}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
QUESTION = {"role": "user", "content": "Two seats?"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}
PICTURE = {"role": "user", "content": [{"type": "input_text", "text": "here"}, IMAGE]}
TURN: list[dict[str, Any]] = [QUESTION, REASONING, CALL, OTHER, OUTPUT, OTHER_OUTPUT, SEARCH, SAID, PICTURE]


@pytest_asyncio.fixture
async def session(served: Served, fresh: Callable[[], str]) -> AsyncIterator[SashSession]:
    session = SashSession(fresh(), url=served.url)
    yield session
    await session.close()


@pytest.mark.parametrize("items", [TURN, [REASONING], [REASONING, SAID], [], [SEARCH, SAID]])
async def test_items_come_back(session: SashSession, items: list[dict[str, Any]]) -> None:
    """Added items come back complete and in order, including reasoning and hosted calls."""
    await session.add_items(items)
    assert await session.get_items() == items


async def test_an_item_that_is_wrong_is_refused(session: SashSession) -> None:
    """A function call without ``call_id`` raises the server's 400, which names the field, and stores nothing."""
    with pytest.raises(SashError, match="call_id") as refused:
        await session.add_items([QUESTION, {"type": "function_call", "name": "find_table", "arguments": "{}"}])
    assert refused.value.status == 400
    assert await session.get_items() == []


async def test_a_wrong_path_in_the_url_is_refused(served: Served) -> None:
    """If the URL has a path that Sash does not have, an item that is added raises: it would be lost."""
    session = SashSession("talks", url=f"{served.url}/v1")
    with pytest.raises(SashError, match="There is nothing at this path"):
        await session.add_items([QUESTION])
    await session.close()


async def test_a_session_gives_back_what_was_added(session: SashSession) -> None:
    """``get_items`` returns all items in order, or any number of the last ones."""
    await session.add_items(TURN)
    assert await session.get_items() == TURN
    assert [await session.get_items(limit) for limit in range(len(TURN) + 2)] == [
        TURN[len(TURN) - min(limit, len(TURN)) :] for limit in range(len(TURN) + 2)
    ]


async def test_items_are_popped_one_by_one(session: SashSession) -> None:
    """``pop_item`` returns the last item, also if several items are one message, and None when no item is left."""
    await session.add_items(TURN)
    popped = [await session.pop_item() for _ in range(len(TURN) + 1)]
    assert popped == [*reversed(TURN), None]
    assert await session.get_items() == []


async def test_a_pop_is_one_change(served: Served, session: SashSession) -> None:
    """Each ``pop_item`` makes one new version, also if it leaves a message without its last item: nothing can be lost."""
    await session.add_items([QUESTION, REASONING, SEARCH, SAID])
    async with httpx.AsyncClient(base_url=f"{served.url}/conversations/{session.session_id}") as other:
        begun = (await other.get("")).json()["version"]
        for number in range(1, 5):
            await session.pop_item()
            assert (await other.get("")).json()["version"] == begun + number


async def test_a_reply_in_progress_is_no_item(served: Served, session: SashSession) -> None:
    """``pop_item`` returns the question before another client's reply in progress, and removes both: it was no item yet."""
    await session.add_items([PICTURE, QUESTION])
    draft = {"id": "draft", "message": {"role": "assistant", "content": "At se"}, "status": "in_progress"}
    async with httpx.AsyncClient(base_url=f"{served.url}/conversations/{session.session_id}") as other:
        (await other.post("/messages", json={"messages": [draft]})).raise_for_status()
    assert await session.pop_item() == QUESTION
    assert await session.get_items() == [PICTURE]


async def test_more_than_an_append_takes_is_several(session: SashSession) -> None:
    """250 messages, more than one append takes, are stored once and in order."""
    items = [{"role": "user", "content": f"{number}"} for number in range(250)]
    await session.add_items(items)
    assert await session.get_items() == items


async def test_a_cleared_session_is_empty_and_goes_on(session: SashSession) -> None:
    """An empty session can be cleared, and items can be added after clearing."""
    await session.clear_session()
    await session.add_items([QUESTION])
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([PICTURE])
    assert await session.get_items() == [PICTURE]


async def test_with_a_model_a_session_is_its_window(served: Served, session: SashSession) -> None:
    """With a model, ``get_items`` returns the window; with a number, it returns the last items whether they fit or not."""
    windowed = SashSession(session.session_id, url=served.url, model="gpt-4o-mini", limit=2, stable=False)
    assert await windowed.get_items() == []
    await windowed.add_items([QUESTION, REASONING, SAID, QUESTION])
    assert await windowed.get_items() == [{"role": "assistant", "content": "At seven."}, QUESTION]
    assert await windowed.get_items(3) == [REASONING, SAID, QUESTION]
    await windowed.close()


async def test_a_session_says_why_it_was_refused(session: SashSession) -> None:
    """A tool result without its call raises SashError with the server's status and problem."""
    with pytest.raises(SashError) as refused:
        await session.add_items([OUTPUT])
    assert 400 <= refused.value.status < 500
    assert refused.value.problem["type"].startswith("/problems/")


def test_window_parameters_need_a_model() -> None:
    """``reserve`` without a model is refused, because it would be ignored."""
    with pytest.raises(ValueError, match="reserve"):
        SashSession("s", reserve=1)


def test_a_session_outlives_its_event_loop(served: Served, fresh: Callable[[], str]) -> None:
    """A session works in a second event loop, because each loop has its own connections."""
    session = SashSession(fresh(), url=served.url)

    async def add_and_close(item: dict[str, Any]) -> list[Any]:
        await session.add_items([item])
        items = await session.get_items()
        await session.sash.aclose()
        return items

    assert asyncio.run(add_and_close(QUESTION)) == [QUESTION]
    assert asyncio.run(add_and_close(SAID)) == [QUESTION, SAID]


async def test_a_question_that_waits_is_stored_once(session: SashSession) -> None:
    """A lone question added again before its reply is stored once; in the same words after the reply, it is a new one."""
    for _ in range(2):
        await session.add_items([QUESTION])
        assert await session.get_items() == [QUESTION]
    await session.add_items([SAID])
    await session.add_items([QUESTION])
    assert await session.get_items() == [QUESTION, SAID, QUESTION]


class LostReply:
    """A proxy that drops the service's first answer to a rewind, after it has called ``meanwhile``."""

    def __init__(self, target: str, meanwhile: Callable[[], Any]) -> None:
        self._port = int(target.rsplit(":", 1)[1])
        self._meanwhile = meanwhile
        self.lost = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self._port)
        while data := await reader.read(1 << 16):
            forth.write(data)
            reply = await back.read(1 << 16)
            if b"/rewind" in data and not self.lost:
                self.lost += 1
                await self._meanwhile()
                break
            writer.write(reply)
        forth.close()
        writer.close()


async def test_a_session_cleared_twice_keeps_what_came_between(served: Served, fresh: Callable[[], str]) -> None:
    """If the answer to a clearing is lost and another session adds an item, the adapter's retry keeps that item."""
    name = fresh()
    other = SashSession(name, url=served.url)
    await other.add_items([QUESTION])
    between = LostReply(served.url, lambda: other.add_items([{"role": "user", "content": "And now?"}]))
    server = await asyncio.start_server(between.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    session = SashSession(name, url=f"http://127.0.0.1:{port}")

    await session.clear_session()

    assert between.lost == 1
    assert [item["content"] for item in await other.get_items()] == ["And now?"]
    await session.close()
    await other.close()
    server.close()


async def test_a_closed_session_says_so(served: Served, fresh: Callable[[], str]) -> None:
    """Using a closed session raises, also to add nothing."""
    session = SashSession(fresh(), url=served.url)
    await session.close()
    with pytest.raises(RuntimeError, match="SashSession is closed"):
        await session.add_items([])


COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABpM0Yj" * 8}


async def test_a_compaction_item_begins_the_model_s_items(session: SashSession, served: Served) -> None:
    """The items of a model's window begin with the newest compaction; without a model, all items come back in order."""
    before, behind = [QUESTION, REASONING, SAID], [COMPACTION, {**SAID, "id": "msg_2"}, PICTURE]
    await session.add_items(before)
    await session.add_items(behind)

    assert await session.get_items() == [*before, *behind]
    other = SashSession(session.session_id, url=served.url, model="gpt-5.2")
    assert await other.get_items() == behind
    assert await session.pop_item() == PICTURE
    assert await session.pop_item() == behind[1]
    assert await session.pop_item() == COMPACTION
    assert await other.get_items() == before
    await other.close()
