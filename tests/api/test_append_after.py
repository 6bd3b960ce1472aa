"""Regenerate and edit in one call: an append that first forgets the messages after a given one."""

import asyncio
from typing import Any

import httpx
import pytest
from rigs.dialogue import (
    append,
    assistant,
    calling,
    contents,
    etag_of,
    history,
    indexed,
    problem,
    result,
    texts,
    user,
    window,
)
from test_rewind import ENTRIES, state

from sash.problems import StoreUnavailable
from sash.store.data import write_scripts


async def put(
    client: httpx.AsyncClient, conversation: str, after: Any, *entries: Any, headers: Any = None, **query: Any
) -> httpx.Response:
    """Append entries after an entry; return the answer."""
    parameters = {"after_seq": after, **query}
    path = f"/conversations/{conversation}/messages"
    return await client.post(path, json={"messages": entries}, params=parameters, headers=headers)


async def test_a_question_is_edited(client: httpx.AsyncClient, conversation: str) -> None:
    """The edited question stands in place of the old one and its reply, and the answer has the window to send."""
    await append(client, conversation, user("hello"), assistant("hi"), user("whih talk?"), assistant("Which?"))

    answer = await put(client, conversation, 2, user("which talk?", id="q"), model="gpt-4o-mini")

    body = answer.json()
    assert (answer.status_code, body["first_seq"], body["version"]) == (201, 3, 2)
    assert contents(body["window"]) == ["hello", "hi", "which talk?"]
    assert answer.headers["etag"] == await etag_of(client, conversation)
    assert await texts(client, conversation) == ["hello", "hi", "which talk?"]


@pytest.mark.parametrize("after", range(len(ENTRIES) + 1))
async def test_it_is_a_rewind_and_an_append(client: httpx.AsyncClient, fresh: Any, after: int) -> None:
    """The history is that of a rewind and an append: totals, documents, pins, tool groups and windows."""
    more = [
        user("more", id="n", grounding={"documents": [{"text": "doc"}]}, metadata={"k": 2}),
        assistant("reply", id="r"),
    ]
    once, twice = fresh(), fresh()
    for each in (once, twice):
        await append(client, each, *ENTRIES)
    await client.post(f"/conversations/{twice}/rewind", json={"to_seq": after})
    await append(client, twice, *more)

    assert (await put(client, once, after, *more)).status_code == 201

    assert await state(client, once) == await state(client, twice)
    tail = [user("pinned", id="p", pinned=True), calling("z", id="y"), result("z", id="x", pinned=True)]
    for each in (once, twice):
        await append(client, each, *tail)
    assert await state(client, once) == await state(client, twice)


@pytest.mark.parametrize("after", [3, 4])
async def test_results_for_the_kept_calls(client: httpx.AsyncClient, fresh: Any, after: int) -> None:
    """In the middle of a tool group, the calls wait again, and other results stand in place of the forgotten ones."""
    more = [result("call-1", id="again")] if after == 4 else [result("call-1", id="again"), result("call-2", id="too")]
    once, twice = fresh(), fresh()
    for each in (once, twice):
        await append(client, each, *ENTRIES)
    await client.post(f"/conversations/{twice}/rewind", json={"to_seq": after})
    await append(client, twice, *more)

    await put(client, once, after, *more)

    assert await state(client, once) == await state(client, twice)


async def test_a_repetition_forgets_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """The same request again is answered as before, also after a reply was appended; that reply stays."""
    await append(client, conversation, user("one"), assistant("two"))
    tag = {"if-match": await etag_of(client, conversation)}
    first = await put(client, conversation, 0, user("other", id="q"), headers=tag)
    await append(client, conversation, assistant("reply", id="r"))

    again = await put(client, conversation, 0, user("other", id="q"), headers=tag)

    assert (first.status_code, again.status_code) == (201, 200)
    assert (again.json()["first_seq"], again.json()["messages"][0]["duplicate"]) == (1, True)
    assert await texts(client, conversation) == ["other", "reply"]


async def test_a_repetition_under_a_key(client: httpx.AsyncClient, conversation: str) -> None:
    """Under an Idempotency-Key the entries need no ids."""
    await append(client, conversation, user("one"), assistant("two"))
    key = {"idempotency-key": f"k-{conversation}"}

    first = await put(client, conversation, 1, assistant("three"), headers=key)
    await append(client, conversation, user("four"))
    again = await put(client, conversation, 1, assistant("three"), headers=key)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["messages"][0]["duplicate"] is True
    assert await texts(client, conversation) == ["one", "three", "four"]


REFUSED = {
    "a conflict": ([assistant("other", id="a")], 409),
    "an orphan": ([result("nowhere")], 422),
    "no message": ([{"message": {"role": "user", "content": 7}}], 400),
    "too many": ([user("x")] * 101, 413),
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("where", ["query", "body"])
async def test_a_refused_append_forgets_nothing(
    client: httpx.AsyncClient, conversation: str, why: str, where: str
) -> None:
    """Where the entries are refused, the question and its reply are still there."""
    await append(client, conversation, user("one", id="a"), assistant("two", id="b"))
    entries, status = REFUSED[why]
    before = await etag_of(client, conversation)
    body = {"messages": entries} | ({"after_seq": 1} if where == "body" else {})
    query = {"after_seq": "1"} if where == "query" else {}

    answer = await client.post(f"/conversations/{conversation}/messages", json=body, params=query)

    assert answer.status_code == status
    assert await etag_of(client, conversation) == before


@pytest.mark.parametrize("after", [1, "id:a"])
async def test_the_body_may_name_it(client: httpx.AsyncClient, conversation: str, after: Any) -> None:
    """``after_seq`` in the body takes a seq, or an entry's id; in both places it is 422."""
    await append(client, conversation, user("one", id="a"), assistant("two", id="b"))
    body = {"messages": [{"role": "assistant", "content": "three"}], "after_seq": after}
    path = f"/conversations/{conversation}/messages"

    problem(await client.post(f"{path}?after_seq=1", json=body), 422, "unprocessable")
    assert (await client.post(path, json=body)).status_code == 201

    assert await texts(client, conversation) == ["one", "three"]
    items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "four"}]}]
    native = await client.post(f"{path}?format=responses", json={"messages": items, "after_seq": after})
    assert native.status_code == 201, native.text
    assert len(await history(client, conversation)) == 2


@pytest.mark.parametrize(
    ("after", "status"), [(3, 422), ("id:z", 422), ("-1", 400), ("x", 400), ("a", 400), ("1.5", 400), ("", 400)]
)
async def test_what_is_not_there(client: httpx.AsyncClient, conversation: str, after: Any, status: int) -> None:
    """A message beyond the end or an unknown id is 422, another text 400, and nothing changes."""
    await append(client, conversation, user("one", id="a"), assistant("two", id="b"))

    told = await put(client, conversation, after, user("x"))

    assert told.status_code == status, told.text
    assert told.json()["errors"][0]["pointer"].endswith("after_seq")
    assert len(await history(client, conversation)) == 2


async def test_the_first_call_of_a_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """After message 0, a conversation that does not exist is begun; after another one it is 404."""
    problem(await put(client, conversation, 1, user("one")), 404, "not-found")
    assert (await put(client, conversation, 0, user("one"))).status_code == 201
    assert await texts(client, conversation) == ["one"]


async def test_a_conversation_that_others_begin_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """After message 0 means in place of all: what another request began meanwhile is forgotten too."""
    answers = await asyncio.gather(*(put(client, conversation, 0, user(f"q{n}", id=f"q{n}")) for n in range(12)))

    assert [answer.status_code for answer in answers] == [201] * 12
    assert len(await history(client, conversation)) == 1


async def test_two_tabs_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Concurrent edits leave one question each time: none is appended behind the other's."""
    await append(client, conversation, user("one", id="a"), assistant("two", id="b"))

    answers = await asyncio.gather(*(put(client, conversation, 1, assistant(f"r{n}", id=f"r{n}")) for n in range(12)))

    assert [answer.status_code for answer in answers] == [201] * 12
    assert len(await history(client, conversation)) == 2
    moved = {"if-match": '"1-abc-abc"'}
    problem(await put(client, conversation, 1, user("x"), headers=moved), 412, "precondition-failed")


async def test_recall_forgets_too(client: httpx.AsyncClient, conversation: str) -> None:
    """Words of the forgotten messages are not found any more, those of the new ones are."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, user("about walnuts"), user("about turtles"))
    await indexed(client, conversation)

    await put(client, conversation, 1, user("about rivers"))
    await indexed(client, conversation)

    found = {}
    for word in ("walnuts", "turtles", "rivers"):
        answer = await client.get(f"/conversations/{conversation}/search", params={"query": word})
        found[word] = [each["seq"] for each in answer.json()["messages"]]
    assert found == {"walnuts": [1], "turtles": [], "rivers": [2]}


async def test_a_summary_that_covers_the_forgotten_goes(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary goes with the messages that it covers, and stays where all of these are kept."""
    await append(client, conversation, *[user(f"m{n}") for n in range(6)])
    path = f"/conversations/{conversation}"
    await client.put(f"{path}/summary", json={"text": "S", "through_seq": 4})

    await put(client, conversation, 4, user("x"))
    assert (await client.get(path)).json()["summary"]["through_seq"] == 4
    await put(client, conversation, 3, user("y"))
    assert (await client.get(path)).json()["summary"] is None


async def test_many_messages_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Three thousand messages with documents and metadata are forgotten, and nothing of them is found later."""
    noted = {"metadata": {"k": 1}, "grounding": {"documents": [{"text": "d"}]}}
    for start in range(0, 3000, 100):
        await append(client, conversation, *[user(f"m{n}", id=f"m{n}", **noted) for n in range(start, start + 100)])

    assert (await put(client, conversation, 1, user("last", id="m7"))).status_code == 201

    first, last = await history(client, conversation)
    assert (first["metadata"], "metadata" in last, "grounding" in last) == ({"k": 1}, False, False)
    again = await append(client, conversation, user("m2999", id="m2999"))
    assert again["messages"][0]["duplicate"] is False


async def test_a_compaction_that_is_forgotten_stands_for_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """An append after a message before a provider's compaction brings the history back, and an earlier compaction."""
    path = f"/conversations/{conversation}"
    block = {"role": "assistant", "content": [{"type": "compaction", "content": "Summary: hello."}]}
    turns = [{"role": "user", "content": "hello"}, block, {"role": "user", "content": "more"}, block]
    for turn in turns:
        answer = await client.post(f"{path}/messages?format=anthropic", json={"messages": [turn]})
        assert answer.status_code == 201, answer.text
    standing = []
    for after in (3, 1):
        assert (await put(client, conversation, after, user("again"))).status_code == 201
        told = (await client.get(path)).json().get("compactions", [])
        standing.append([each["seq"] for each in told])

    assert standing == [[2], []]
    sent = (await window(client, conversation))["request"]["messages"]
    assert [each["content"] for each in sent] == ["hello", "again"]


async def test_an_append_that_is_stored_is_answered_also_where_tidying_up_fails(
    client: httpx.AsyncClient, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the store is lost right after the append, before ids of forgotten messages are dropped, the answer is 201."""

    def lost(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("The store does not answer.")

    path = f"/conversations/{conversation}/messages"
    old = [{"id": f"m-{number}", "role": "user", "content": f"{number}"} for number in (1, 2)]
    await client.post(path, json={"messages": old})
    with monkeypatch.context() as lose:
        lose.setattr(write_scripts, "forget_ids", lost)
        answer = await client.post(f"{path}?after_seq=1", json={"messages": [{**old[1], "id": "m-3"}]})

    assert answer.status_code == 201, answer.text
    again = await client.post(path, json={"messages": [{**old[1], "content": "new"}]})
    assert again.status_code == 201, again.text
    entries = (await client.get(path)).json()["messages"]
    assert [entry["id"] for entry in entries] == ["m-1", "m-3", "m-2"]
