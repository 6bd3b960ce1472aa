"""The adapters' client against ``sash serve`` behind a proxy that misbehaves, by ``SashSession`` as the adapter."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Served
from rigs.misbehaving import Act, Reply, always, between, first
from rigs.servers import free_port

from sash_client.agents import SashSession
from sash_client.client import SashError, SashUnreachable

QUESTION = {"role": "user", "content": "Two seats?"}
FULL = Reply(507, b'{"detail": "The store has no free memory."}', {"Retry-After": "30"})
DEFECT = Reply(500, b'{"detail": "The service failed."}', {"Retry-After": "1"})
LATE = Reply(408, b'{"detail": "The body took too long."}')


async def stored(served: Served, name: str) -> list[Any]:
    """Return the items of a session, read past the proxy."""
    session = SashSession(name, url=served.url)
    items = await session.get_items()
    await session.close()
    return items


@pytest.mark.parametrize("act", ["drop", "lose", "cut", DEFECT, LATE], ids=["drop", "lose", "cut", "500", "408"])
async def test_an_item_is_stored_once_after_a_fault(served: Served, conversation: str, act: Act) -> None:
    """After a lost request, a lost or cut answer, or a temporary refusal, the same entry is sent again and stored once."""
    with between(served.url, first(act)) as (url, seen):
        session = SashSession(conversation, url=url)
        await session.add_items([QUESTION])
        await session.close()
    assert await stored(served, conversation) == [QUESTION]
    sent = [json.loads(request.body) for request in seen]
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(200, b'{"name": "another", "version": "1.0"}'),
        Reply(200, b"<html>"),
        Reply(200, b"[]"),
        Reply(200),
        Reply(204),
        Reply(200, b'{"conversation_id": "\xff"}'),
        Reply(200, b"[" * 100_000),
    ],
    ids=["json", "html", "list", "empty", "204", "latin-1", "deep"],
)
@pytest.mark.parametrize("call", ["add_items", "get_items", "pop_item", "clear_session"])
async def test_an_answer_of_another_server_is_no_success(served: Served, answer: Reply, call: str) -> None:
    """An answer that is not Sash's raises SashError: nothing was stored, read or removed."""
    with between(served.url, always(answer)) as (url, _):
        session = SashSession("talks", url=url)
        arguments = ([QUESTION],) if call == "add_items" else ()
        with pytest.raises(SashError, match="may be no Sash server"):
            await getattr(session, call)(*arguments)
        await session.close()


async def test_a_path_that_looks_like_a_conversation_is_refused(served: Served) -> None:
    """If the URL ends in ``/conversations``, the server's 404 is not taken for an empty conversation."""
    session = SashSession("talks", url=f"{served.url}/conversations")
    with pytest.raises(SashError, match="There is nothing at this path"):
        await session.add_items([QUESTION])
    await session.close()


async def test_a_redirection_names_the_other_address(served: Served) -> None:
    """A redirection is not followed, and the error names its target."""
    moved = Reply(308, headers={"Location": "https://sash.example/conversations"})
    with between(served.url, always(moved)) as (url, _):
        session = SashSession("talks", url=url)
        with pytest.raises(SashError, match=r"leads to https://sash\.example/conversations"):
            await session.add_items([QUESTION])
        await session.close()


async def test_a_server_is_not_asked_before_the_time_it_names(served: Served, conversation: str) -> None:
    """A ``Retry-After`` of 1 s is waited for; a longer one than the client waits is an error at once, not an early retry."""
    busy = b'{"detail": "Too many requests."}'
    with between(served.url, first(Reply(429, busy, {"Retry-After": "1"}))) as (url, seen):
        session = SashSession(conversation, url=url)
        began = time.monotonic()
        await session.add_items([QUESTION])
        assert time.monotonic() - began >= 1
        assert len(seen) == 2
        await session.close()
    for refused in (Reply(429, busy, {"Retry-After": "20"}), FULL):
        with between(served.url, always(refused)) as (url, seen):
            session = SashSession(conversation, url=url)
            with pytest.raises(SashError) as error:
                await session.add_items([QUESTION])
            assert (error.value.status, len(seen)) == (refused.status, 1)
            await session.close()


@pytest.mark.parametrize("answers", [True, False], ids=["drops", "absent"])
async def test_a_server_that_does_not_answer_is_named(served: Served, answers: bool) -> None:  # noqa: FBT001
    """After four attempts without an answer SashUnreachable, a SashError, names the server."""
    with between(served.url, always("drop")) as (url, seen):
        asked = url if answers else f"http://127.0.0.1:{free_port()}"
        session = SashSession("talks", url=asked)
        with pytest.raises(SashUnreachable, match=f"{asked}/ does not answer"):
            await session.add_items([QUESTION])
        assert len(seen) == (4 if answers else 0)
        await session.close()


async def test_the_rest_of_many_items_is_in_the_error(served: Served, conversation: str) -> None:
    """If the second of three requests is refused, the error has the items that are not stored, to add them later."""
    items = [{"role": "user", "content": f"{number}"} for number in range(250)]
    with between(served.url, lambda number, _: FULL if number == 1 else "pass") as (url, _):
        session = SashSession(conversation, url=url)
        with pytest.raises(SashError) as error:
            await session.add_items(items)
        assert error.value.problem["items"] == items[100:]
        await session.add_items(error.value.problem["items"])
        await session.close()
    assert await stored(served, conversation) == items


@pytest.mark.parametrize(("act", "kind"), [(FULL, SashError), ("drop", SashUnreachable)])
async def test_a_pop_that_fails_takes_nothing_away(
    served: Served, conversation: str, act: Act, kind: type[SashError]
) -> None:
    """A pop from a reply of two items is one request: if that is refused or never arrives, both items are there."""
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
    }
    whole = SashSession(conversation, url=served.url)
    await whole.add_items([QUESTION, reasoning, said])
    with between(served.url, lambda _, asked: act if b"messages" in asked.body else "pass") as (url, _):
        session = SashSession(conversation, url=url)
        with pytest.raises(kind):
            await session.pop_item()
        await session.close()
    assert await whole.get_items() == [QUESTION, reasoning, said]
    await whole.close()


async def test_a_repeated_request_is_logged(
    served: Served, conversation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before a pause, a warning says what failed and when the request is sent again; ``sash import`` prints it."""
    with between(served.url, first(LATE)) as (url, _):
        session = SashSession(conversation, url=url)
        await session.add_items([QUESTION])
        await session.close()
    assert caplog.messages == ["The body took too long. Trying again in 0.1 s."]


async def test_a_wrong_key_is_refused_once(tmp_path_factory: Any, fresh: Callable[[], str]) -> None:
    """A wrong key raises the server's 401, and is not tried again."""
    served = Served(tmp_path_factory.mktemp("keys") / "data", SASH_API_KEYS="tenant:0123456789abcdef")
    served.start()
    with between(served.url, always("pass")) as (url, seen):
        session = SashSession(fresh(), url=url, api_key="fedcba9876543210")
        with pytest.raises(SashError) as refused:
            await session.add_items([QUESTION])
        assert (refused.value.status, len(seen)) == (401, 1)
        await session.close()
    served.stop()
