"""A sidebar: an owner's conversations by a member of their metadata, and a search over all of them."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from rigs.dialogue import append, indexed, problem, user


@pytest.fixture
def owner(fresh: Callable[[], str]) -> str:
    """Return an owner that no other test uses, as an address."""
    return f"{fresh()}@example.com"


async def talk(client: httpx.AsyncClient, identity: str, owner: str, *texts: str, **settings: Any) -> str:
    """Create a conversation with messages; return its id."""
    answer = await client.post("/conversations", json={"id": identity, "owner": owner, **settings})
    assert answer.status_code == 201, answer.text
    if texts:
        await append(client, identity, *map(user, texts))
    return identity


async def listed(client: httpx.AsyncClient, **query: Any) -> list[str]:
    """Return the ids of all pages."""
    found: list[str] = []
    url: Any = "/conversations"
    while url:
        answer = await client.get(url, params=query if url == "/conversations" else None)
        assert answer.status_code == 200, answer.text
        found += [each["id"] for each in answer.json()["conversations"]]
        url = answer.links.get("next", {}).get("url")
    return found


async def test_conversations_by_their_title(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """``metadata.title`` lists those with this title; with ``*`` at its end, those whose title begins so, page by page."""
    titles: list[Any] = ["Trip to Rome", "Trip to Oslo", "Trip*", "trip", None, 7, True, {"inner": "x"}]
    ids = [
        await talk(client, fresh(), owner, metadata={"title": title, "tags": {"topic": f"t{n}"}})
        for n, title in enumerate(titles)
    ]
    expected = {
        "Trip to Rome": [0], "Trip*": [2, 1, 0], "Trip to*": [1, 0], "7": [5], "true": [6], "*": [3, 2, 1, 0], "none": [],
    }  # fmt: skip

    for wanted, places in expected.items():
        assert await listed(client, owner=owner, limit=2, **{"metadata.title": wanted}) == [ids[n] for n in places]
    assert await listed(client, owner=owner, **{"metadata.title.inner": "x"}) == [ids[7]]
    both = {"metadata.title": "Trip*", "metadata.tags.topic": "t1"}
    assert await listed(client, owner=owner, **both) == [ids[1]]
    assert await listed(client, **{"metadata.title": "Trip to Rome", "metadata.tags.topic": "t0"}) == [ids[0]]


async def test_a_part_of_the_title(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """``title`` lists those whose title contains it, in capitals or not, page by page, beside other filters."""
    titles: list[Any] = ["Trip to Rome", "ROMEO & Juliet", "Straße", "trip", None, 7, {"rome": "rome"}, "100% rome*"]
    ids = [
        await talk(client, fresh(), owner, metadata={"title": title, "channel": "web" if n else "mail"})
        for n, title in enumerate(titles)
    ]
    found = {"rome": [7, 1, 0], "TRIP": [3, 0], "strasse": [2], "7": [5], "%": [7], "& J": [1], "none at all": []}

    for wanted, places in found.items():
        assert await listed(client, owner=owner, limit=2, title=wanted) == [ids[n] for n in places], wanted
    assert await listed(client, owner=owner, title="rome", **{"metadata.channel": "mail"}) == [ids[0]]
    assert set(await listed(client, title="Trip to Rome")) >= {ids[0]}


async def test_a_filter_costs_a_bound(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """A page looks at a bounded number of conversations, so it may be empty; its cursor goes on to the ones that match."""
    rare = await talk(client, fresh(), owner, metadata={"title": "rare"})
    for _ in range(30):
        await talk(client, fresh(), owner)

    answer = await client.get("/conversations", params={"owner": owner, "limit": 10, "metadata.title": "rare"})

    assert [each["id"] for each in answer.json()["conversations"]] == [rare]
    assert await listed(client, owner=owner, limit=3, **{"metadata.title": "rare"}) == [rare]


async def test_a_title_is_found_behind_others_of_the_tenant(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str
) -> None:
    """Without an owner, too, a page goes on behind those that do not match: it is not empty because they are newer."""
    for _ in range(2):
        await talk(client, fresh(), owner, metadata={"title": f"Trip of {owner}"})
    for _ in range(12):
        await talk(client, fresh(), fresh())

    for limit, count in ((1, 1), (10, 2)):
        answer = await client.get("/conversations", params={"limit": limit, "title": f"TRIP OF {owner}"})
        assert len(answer.json()["conversations"]) == count


@pytest.mark.parametrize("query", ["metadata.=x", "metadata.title=a&metadata.title=b", "metadata=x"])
async def test_wrong_filters(client: httpx.AsyncClient, query: str) -> None:
    """A filter without a name, or given twice, is 400."""
    problem(await client.get(f"/conversations?{query}"), 400, "bad-request")


async def test_all_conversations_of_an_owner_are_searched(
    client: httpx.AsyncClient, fresh: Callable[[], str], owner: str
) -> None:
    """The best messages of all conversations with recall are found, with their conversation; other owners' are not."""
    texts = ("the blue door squeaks", "what about lunch?", "the door is open")
    one = await talk(client, fresh(), owner, *texts, recall="lexical")
    two = await talk(client, fresh(), owner, "paint the blue door blue", "fine", recall="lexical")
    await talk(client, fresh(), owner, "blue door without an index")
    await talk(client, fresh(), f"{owner}2", "another's blue door", recall="lexical")
    for each in (one, two):
        await indexed(client, each)

    answer = await client.get(f"/owners/{quote(owner)}/search", params={"query": "blue door", "limit": 2})

    assert answer.status_code == 200, answer.text
    assert answer.json()["searched"] == {"conversations": 2, "messages": 5}
    found = [(each["conversation_id"], each["seq"]) for each in answer.json()["messages"]]
    assert sorted(found) == sorted([(one, 1), (two, 1)])
    scores = [each["score"] for each in answer.json()["messages"]]
    assert scores == sorted(scores, reverse=True)
    await client.delete(f"/conversations/{two}/messages/1")
    again = await client.get(f"/owners/{quote(owner)}/search", params={"query": "paint"})
    assert again.json()["messages"] == []


async def test_a_search_needs_recall(client: httpx.AsyncClient, fresh: Callable[[], str], owner: str) -> None:
    """Where no conversation has recall it is 422, which says what to do; an owner without conversations has no messages."""
    path = f"/owners/{quote(owner)}/search"
    assert (await client.get(path, params={"query": "x"})).json()["messages"] == []
    await talk(client, fresh(), owner, "hello")

    told = problem_of(await client.get(path, params={"query": "x"}))

    assert '{"recall": "lexical"}' in told["detail"]
    assert (await client.get(path)).status_code == 400


def problem_of(answer: httpx.Response) -> Any:
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/recall-is-off")
    return answer.json()
