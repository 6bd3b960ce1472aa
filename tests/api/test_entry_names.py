"""Entries by their own ids: read, redacted, rewound to and forked at without a map from ids to seqs."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, history, problem, user

TURNS = [user("one", id="m-1"), user("two", id="m-2"), user("three", id="m.3_x"), user("four", id="7")]


@pytest.fixture
async def path(client: httpx.AsyncClient, conversation: str) -> str:
    """Return the path of a conversation of four entries."""
    await append(client, conversation, *TURNS)
    return f"/conversations/{conversation}"


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn["id"])
@pytest.mark.parametrize("colon", [":", "%3A"])
async def test_an_entry_is_read_by_its_id(client: httpx.AsyncClient, path: str, turn: Any, colon: str) -> None:
    """``id:`` and the entry's id name the same entry as its seq, also where the id is a number; conditions hold."""
    by_id = await client.get(f"{path}/messages/id{colon}{turn['id']}")
    by_seq = await client.get(f"{path}/messages/{TURNS.index(turn) + 1}")

    assert (by_id.status_code, by_id.content) == (200, by_seq.content)
    assert by_id.json()["id"] == turn["id"]
    tag = {"if-none-match": by_id.headers["etag"]}
    assert (await client.get(f"{path}/messages/id:{turn['id']}", headers=tag)).status_code == 304


async def test_an_entry_is_erased_by_its_id(client: httpx.AsyncClient, path: str) -> None:
    """The entry with the id loses its content, no other; a repetition changes nothing more."""
    assert (await client.delete(f"{path}/messages/id:m-2")).status_code == 204
    assert (await client.delete(f"{path}/messages/id:m-2")).status_code == 204

    stored = await history(client, path.rpartition("/")[2])
    assert [each.get("redacted", False) for each in stored] == [False, True, False, False]


async def test_a_history_is_rewound_to_an_id(client: httpx.AsyncClient, path: str) -> None:
    """Entries behind the named one go. Their ids name nothing then, and another entry once they are given again."""
    rewound = await client.post(f"{path}/rewind", json={"to_seq": "id:m-2"})

    assert (rewound.status_code, rewound.json()["messages"]["last_seq"]) == (200, 2)
    problem(await client.get(f"{path}/messages/id:7"), 404, "not-found")
    await append(client, path.rpartition("/")[2], user("other", id="7"))
    again = (await client.get(f"{path}/messages/id:7")).json()
    assert (again["seq"], again["message"]["content"]) == (3, "other")


async def test_a_copy_ends_at_an_id(client: httpx.AsyncClient, path: str, fresh: Any) -> None:
    """A fork at an id takes the entries up to the named one, and a summary may cover them."""
    copy = await client.post(f"{path}/fork", json={"id": fresh(), "at_seq": "id:m.3_x"})
    covered = await client.put(f"{path}/summary", json={"text": "S", "through_seq": "id:m-2"})

    assert (copy.status_code, copy.json()["messages"]["count"]) == (201, 3)
    assert covered.json()["summary"]["through_seq"] == 2


async def test_an_unknown_id(client: httpx.AsyncClient, path: str, fresh: Any) -> None:
    """An id that no entry has is 404 in a path and 422 in a body, and changes nothing."""
    for method in ("GET", "DELETE"):
        told = problem(await client.request(method, f"{path}/messages/id:m-9"), 404, "not-found")
        assert "id:m-7" in told["detail"]
    for call, body in (
        ("rewind", {"to_seq": "id:m-9"}),
        ("fork", {"id": fresh(), "at_seq": "id:m-9"}),
    ):
        told = problem(await client.post(f"{path}/{call}", json=body), 422, "unprocessable")
        assert [each["detail"] for each in told["errors"]] == ["No entry of this conversation has this id"]
    assert len(await history(client, path.rpartition("/")[2])) == 4


@pytest.mark.parametrize("name", ["m-1", "id:", "id:-x", "id:m 1", "id", "0", "-1", "1.0", "9" * 16, "id:" + "x" * 129])
async def test_what_names_no_entry(client: httpx.AsyncClient, path: str, name: str) -> None:
    """Another text in the path is 404, which says how entries are named; in a body it is 400."""
    told = problem(await client.get(f"{path}/messages/{name}"), 404, "not-found")
    assert "by its seq (…/messages/7)" in told["detail"]
    told = problem(await client.post(f"{path}/rewind", json={"to_seq": name}), 400, "bad-request")
    assert "'id:' and the entry's own id, as in 'id:m-7' at #/to_seq" in told["detail"]
