"""Reading history over HTTP: pages both ways, single entries."""

from collections.abc import Callable

import httpx
import pytest
from rigs.dialogue import append, etag_of, history, problem, user


async def pages(client: httpx.AsyncClient, conversation: str, **query: str | int) -> list[list[int]]:
    """Return the sequence numbers page by page, following the cursors."""
    found = []
    cursor: dict[str, str] = {}
    while True:
        answer = await client.get(f"/conversations/{conversation}/messages", params={**query, **cursor})
        body = answer.json()
        found.append([message["seq"] for message in body["messages"]])
        if body["next_cursor"] is None:
            assert "link" not in answer.headers
            return found
        cursor = {"cursor": body["next_cursor"]}
        following = await client.get(answer.links["next"]["url"])
        again = await client.get(f"/conversations/{conversation}/messages", params={**query, **cursor})
        assert following.content == again.content


@pytest.mark.parametrize("count", [1, 4, 5, 6, 10, 11])
async def test_pages_cover_everything_once(client: httpx.AsyncClient, conversation: str, count: int) -> None:
    """Pages of five, oldest or newest first, hold every message once and end with a null cursor and no link."""
    await append(client, conversation, *(user(f"m{n}") for n in range(count)))
    seqs = list(range(1, count + 1))

    ascending = await pages(client, conversation, limit=5)
    descending = await pages(client, conversation, limit=5, order="desc")

    assert ascending == [seqs[at : at + 5] for at in range(0, count, 5)]
    assert descending == [seqs[::-1][at : at + 5] for at in range(0, count, 5)]


async def test_a_conversation_without_messages(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation without messages is one empty page, in both orders."""
    await client.post("/conversations", json={"id": conversation})

    assert await pages(client, conversation) == await pages(client, conversation, order="desc") == [[]]


async def test_a_hundred_by_default(client: httpx.AsyncClient, conversation: str) -> None:
    """A page has 100 messages by default, and 1,000 if the request asks for them."""
    for _ in range(11):
        await append(client, conversation, *[user("x")] * 100)

    assert len((await pages(client, conversation))[0]) == 100
    assert [len(page) for page in await pages(client, conversation, limit=1000)] == [1000, 100]


async def test_cursors_hold_while_messages_arrive(client: httpx.AsyncClient, conversation: str) -> None:
    """A cursor names a place, not an offset: messages appended later cause no repeats and no gaps."""
    path = f"/conversations/{conversation}/messages"
    await append(client, conversation, *(user(f"m{n}") for n in range(6)))
    up = (await client.get(f"{path}?limit=4")).json()["next_cursor"]
    down = (await client.get(f"{path}?limit=4&order=desc")).json()["next_cursor"]
    await append(client, conversation, user("late"))

    upward = (await client.get(f"{path}?limit=4&cursor={up}")).json()["messages"]
    downward = (await client.get(f"{path}?limit=4&order=desc&cursor={down}")).json()["messages"]

    assert [message["seq"] for message in upward] == [5, 6, 7]
    assert [message["seq"] for message in downward] == [2, 1]


async def test_one_message(client: httpx.AsyncClient, conversation: str) -> None:
    """A single entry is the same as in a page; a place without an entry, or an invalid one, is 404."""
    await append(client, conversation, user("one"), user("two", metadata={"k": 1}))
    path = f"/conversations/{conversation}/messages"

    answer = await client.get(f"{path}/2")

    assert answer.json() == (await history(client, conversation))[1]
    assert answer.headers["etag"] == await etag_of(client, conversation)
    for seq in ("0", "3", "-1", "01x", "x", "9" * 30, "%C2%B2"):
        problem(await client.get(f"{path}/{seq}"), 404, "not-found")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "#/query/limit"),
        ("limit=1001", "#/query/limit"),
        ("limit=ten", "#/query/limit"),
        ("limit=", "#/query/limit"),
        ("order=up", "#/query/order"),
        ("page=2", "#/query/page"),
        ("limit=1&limit=2", "#/query/limit"),
        ("limit", "#/query"),
        ("limit=%ff", "#/query"),
    ],
)
async def test_bad_queries(client: httpx.AsyncClient, conversation: str, query: str, pointer: str) -> None:
    """An invalid query is 400 and names the parameter."""
    await append(client, conversation, user("x"))

    answer = await client.get(f"/conversations/{conversation}/messages?{query}")

    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == pointer


async def test_a_cursor_behind_a_rewind_is_refused(client: httpx.AsyncClient, conversation: str) -> None:
    """Where a rewind took away what follows a cursor, it is 400 and says so; newest first, what is left follows."""
    await append(client, conversation, *(user(str(number)) for number in range(10)))
    path = f"/conversations/{conversation}/messages"
    up = (await client.get(f"{path}?limit=5")).json()["next_cursor"]
    down = (await client.get(f"{path}?limit=3&order=desc")).json()["next_cursor"]
    for keep in (3, 0):
        await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": keep})
        refused = problem(await client.get(f"{path}?cursor={up}"), 400, "invalid-cursor")
        assert "A rewind took away the messages" in refused["detail"]
        left = (await client.get(f"{path}?order=desc&cursor={down}")).json()
        assert ([each["seq"] for each in left["messages"]], left["next_cursor"]) == ([*range(keep, 0, -1)], None)


async def test_cursors_of_nobody(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """An invalid cursor, or one of the other order, is 400."""
    conversation = fresh()
    path = f"/conversations/{conversation}/messages"
    await append(client, conversation, *[user("x")] * 3)
    cursor = (await client.get(f"{path}?limit=1")).json()["next_cursor"]

    for query in (
        "cursor=",
        "cursor=zz",
        "cursor=%00",
        "cursor=YXg",
        "cursor=" + "A" * 4000,
        f"cursor={cursor}&order=desc",
    ):
        problem(await client.get(f"{path}?{query}"), 400, "invalid-cursor")
