"""After any changes to a history, stored figures match its records, and its window matches that of its export."""

import itertools
import json
from itertools import count
from typing import Any

import httpx
import redis
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.tool_groups import links_in
from sash.core.counts.costs.counting import reference_tokens
from sash.core.counts.models.families import USER
from sash.store.data.layout import Keys, id_field, keys_of, unpack_many
from sash.store.data.sealing import is_sealed
from sash.store.data.stored_messages import SEALED_BYTES

NDJSON = {"Content-Type": "application/x-ndjson"}
_numbers = count()

TEXTS = st.sampled_from(["", "one", "two words", "é" * 20, "word " * 40])
DOCUMENTS = st.none() | st.lists(st.fixed_dictionaries({"text": TEXTS}), min_size=1, max_size=3)
PLAIN = st.tuples(st.sampled_from(["user", "assistant", "system"]), TEXTS, DOCUMENTS, st.booleans(), st.booleans())
CALLS = st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans())
PLACE = st.integers(0, 100)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(PLAIN, min_size=1, max_size=4)),
        st.tuples(st.just("calls"), CALLS),
        st.tuples(st.sampled_from(["rewind", "redact", "fork"]), PLACE),
        st.tuples(st.sampled_from(["import", "retry"]), st.none()),
    ),
    min_size=1,
    max_size=12,
)
QUERIES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["gpt-4o", "gpt-4", "gpt-5"]),
        "max_tokens": st.integers(60, 2000),
        "grounding": st.sampled_from(["latest", "all", "none"]),
        "overflow": st.sampled_from(["stop", "skip"]),
        "stable": st.sampled_from(["true", "false"]),
    }
)


def plain(role: str, text: str, documents: Any, pinned: bool, noted: bool) -> dict[str, Any]:  # noqa: FBT001 - drawn
    entry: dict[str, Any] = {"message": {"role": role, "content": text}, "pinned": pinned}
    if documents and role == "user":
        entry["grounding"] = {"documents": documents}
    return entry | ({"metadata": {"n": 1}} if noted else {})


def group(calls: int, results: int, pinned: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - drawn
    made = [{"id": f"call-{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(calls)]
    entries: list[dict[str, Any]] = [{"message": {"role": "assistant", "content": None, "tool_calls": made}}]
    for n in reversed(range(min(calls, results))):
        message = {"role": "tool", "tool_call_id": f"call-{n}", "content": "née"}
        entries.append({"message": message, "pinned": pinned and n == 0})
    return entries


class Talk:
    """One conversation and the steps that change it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.id = f"p-{next(_numbers)}"
        self.made = [self.id]
        self.length = 0
        self.last: list[dict[str, Any]] = []
        self.query: dict[str, Any] = {}
        self.window: dict[str, Any] | None = None

    async def do(self, name: str, argument: Any) -> None:
        match name:
            case "append":
                await self.append([plain(*each) for each in argument])
            case "calls":
                await self.append(group(*argument))
            case "retry" if self.last and self.length:
                await self.append(self.last, again=True)
            case "rewind":
                self.length = argument % (self.length + 1)
                await self.ok("POST", "rewind", json={"to_seq": self.length})
            case "redact" if self.length:
                await self.ok("DELETE", f"messages/{argument % self.length + 1}")
            case "fork" if self.length:
                self.length = argument % (self.length + 1)
                copy = self.other()
                await self.ok("POST", "fork", json={"id": copy, "at_seq": self.length})
                self.id = copy
            case "import" if self.length:
                exported = (await self.ok("GET", "export")).content
                copy = self.other()
                answer = await self.client.post(f"/conversations/import?id={copy}", content=exported, headers=NDJSON)
                assert answer.status_code == 201, answer.text
                self.id = copy

    def other(self) -> str:
        self.made.append(f"p-{next(_numbers)}")
        return self.made[-1]

    async def append(self, entries: list[dict[str, Any]], *, again: bool = False) -> None:
        named = entries if again else [{**entry, "id": f"e-{next(_numbers)}"} for entry in entries]
        path = f"/conversations/{self.id}/messages"
        answer = await self.client.post(path, params=self.query, json={"messages": named})
        told = answer.json()
        self.window = told.get("window")
        told = told.get("appended", told)  # when the turn is stored but its window does not fit
        if again and answer.status_code == 422 and "messages" not in told:
            return  # a tool result whose call was removed by a rewind
        assert "messages" in told, answer.text
        self.length += sum(not message["duplicate"] for message in told["messages"])
        self.last = named

    async def ok(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self.client.request(method, f"/conversations/{self.id}/{path}", **options)
        assert answer.status_code < 300, answer.text
        return answer


def check_store(raw: redis.Redis, keys: Keys, length: int) -> None:
    """Check that every figure of the conversation matches its records."""
    columns = unpack_many(raw.get(keys.counts) or b"", raw.lrange(keys.details, 0, -1))
    records = list(columns)
    bodies = raw.lrange(keys.log, 0, -1)
    state = raw.hgetall(keys.conversation)
    assert len(records) == raw.llen(keys.details) == len(bodies) == length
    assert [record.size for record in records] == [len(body) - SEALED_BYTES * is_sealed(body) for body in bodies]
    tokens = [reference_tokens(record.measure, parallel=record.parallel) for record in records]
    grounded = [record.grounding for record in records if record.grounding is not None]
    figures = {
        "t0": sum(each[0] for each in tokens),
        "t1": sum(each[1] for each in tokens),
        "gn": len(grounded),
        "g0": sum(each[0] for each in grounded),
        "g1": sum(each[1] for each in grounded),
        "user": max((seq for seq, record in enumerate(records, 1) if record.measure.role == USER), default=0),
    }
    assert {name: int(state.get(name.encode(), 0)) for name in figures} == figures
    stored = raw.hgetall(keys.ids)
    fields = {id_field(columns.details[index].identity.id): index + 1 for index in range(length)}
    assert {field: int(stored.pop(field)) for field in fields} == fields
    makers = {name[1:].decode(): list(map(int, seqs.split())) for name, seqs in stored.items()}
    for seq, record in enumerate(records, 1):  # seqs that a rewind took away may stay beside them
        assert not record.calls or all(seq in makers[link] for link in links_in(record.links))
    assert sorted(map(int, raw.hkeys(keys.grounding))) == [s for s, r in enumerate(records, 1) if r.grounding]
    for seq, copy in raw.hgetall(keys.pinned).items():
        place = int(seq) - 1
        packed, details, body = columns[place : place + 1].packed, raw.lindex(keys.details, place), bodies[place]
        head = len(details).to_bytes(4, "big") + packed + details
        assert copy == head + (copy[len(head) :] if is_sealed(body) else body)
        assert len(copy) == len(head + body)


async def check_window(talk: Talk, query: dict[str, Any]) -> None:
    """Check that the stored window equals the window of the exported entries."""
    _, *lines = (await talk.ok("GET", "export")).text.splitlines()
    known = ("id", "message", "grounding", "metadata", "pinned")
    read = itertools.takewhile(lambda line: "branch" not in line, map(json.loads, lines))
    entries = [{name: line[name] for name in known if name in line} for line in read]
    stored = await talk.client.get(f"/conversations/{talk.id}/window", params=query)
    body = {**query, "stable": query["stable"] == "true", "messages": entries}
    given = await talk.client.post("/window", json=body)
    assert stored.status_code == given.status_code
    if stored.status_code == 200:
        one, other = stored.json(), given.json()
        assert one.pop("receipt")
        assert {**one, "conversation_id": None, "version": None, "etag": None} == {
            **other,
            "version": None,
            "etag": None,
            "conversation_id": None,
        }


@examples(0.4)
@given(steps=STEPS, query=QUERIES)
async def test_what_is_stored_adds_up(
    client: httpx.AsyncClient, store: Any, steps: list[tuple[str, Any]], query: dict[str, Any]
) -> None:
    """After any sequence of changes, totals, places, ids and copies agree, and so do stored and stateless windows."""
    talk = Talk(client)
    with redis.Redis.from_url(store.url) as raw:
        await talk.append([plain("user", "hello", None, False, False)])  # noqa: FBT003
        for name, argument in steps:
            await talk.do(name, argument)
            check_store(raw, keys_of(f"default/{talk.id}"), talk.length)
        await check_window(talk, query)
    for identity in talk.made:
        await client.delete(f"/conversations/{identity}")


@examples(0.3)
@given(steps=STEPS, query=QUERIES)
async def test_a_receipt_holds_whatever_comes(
    client: httpx.AsyncClient, steps: list[tuple[str, Any]], query: dict[str, Any]
) -> None:
    """After any sequence of changes, each earlier window has the same bytes, or a message of its history was taken away."""
    talk = Talk(client)
    served: list[tuple[str, int, bytes]] = []
    taken: list[tuple[str, int, int]] = []  # the conversation, how many windows there were, and the first message taken
    await talk.append([plain("user", "hello", None, False, False)])  # noqa: FBT003
    for name, argument in steps:
        identity, length = talk.id, talk.length
        await talk.do(name, argument)
        if name == "rewind" or (name == "redact" and length):
            first = talk.length + 1 if name == "rewind" else argument % length + 1
            taken.append((identity, len(served), first))
        answer = await client.get(f"/conversations/{talk.id}/window", params=query)
        if answer.status_code == 200:
            served.append((talk.id, talk.length, answer.content))
    for number, (identity, length, body) in enumerate(served):
        params = {"receipt": json.loads(body)["receipt"]}
        again = await client.get(f"/conversations/{identity}/window", params=params)
        is_whole = not any(where == identity and number < then and first <= length for where, then, first in taken)
        assert again.content == body or (again.status_code == 410 and not is_whole), again.text
    for identity in talk.made:
        await client.delete(f"/conversations/{identity}")
