"""Appends over HTTP: all or nothing, in order, each id once, messages unchanged."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, etag_of, history, problem, result, user, window

from sash.operations.bill_metrics import BillMetrics
from sash.operations.left_out_metrics import LeftOutMetrics
from sash.operations.metrics import Metrics
from sash.operations.model_names import ModelNames
from sash.operations.registry import _Histogram

KINDS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": [{"type": "text", "text": "Be kind."}], "name": "house"},
    {"role": "user", "content": "plain", "name": "ann"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f-1", "filename": "a.pdf"}},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "yes"}, {"type": "refusal", "refusal": "but no"}]},
    {"role": "assistant", "content": "", "refusal": "I will not."},
    {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"a": 1}'}},
    {"role": "function", "name": "look", "content": None},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{not json"}},
            {"id": "b", "type": "custom", "custom": {"name": "run", "input": "1 + 1"}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
    {"role": "tool", "tool_call_id": "a", "content": ""},
    {
        "role": "user",
        "content": "<|endoftext|> \u0000 \u2028 \U0001f9e3 e\u0301 <|im_start|>",
        "": None,
        "new/field": {"~": [True, 0.1, 10**25, -1e-9, "é"]},
    },
]


async def test_every_kind_is_stored_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """All kinds of messages come back as they were sent: part lists, null and unknown fields."""
    body = await append(client, conversation, *({"message": message} for message in KINDS))

    stored = await history(client, conversation)
    assert [message["message"] for message in stored] == KINDS
    assert [message["seq"] for message in stored] == list(range(1, len(KINDS) + 1))
    assert [(message["seq"], message["id"], message["tokens"]) for message in stored] == [
        (message["seq"], message["id"], message["tokens"]) for message in body["messages"]
    ]


async def test_the_answer(client: httpx.AsyncClient, conversation: str) -> None:
    """An append's answer gives the place, id and tokens, without documents, of each entry."""
    entry = user("is there a talk about gradle?", id="m-7", grounding={"documents": [{"text": "Speaker: Ann"}]})

    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})

    assert answer.status_code == 201
    assert answer.headers["etag"] == await etag_of(client, conversation)
    plain = (await client.post("/count", json={"model": "gpt-4o", "messages": [entry["message"]]})).json()
    old = (await client.post("/count", json={"model": "gpt-4", "messages": [entry["message"]]})).json()
    assert answer.json() == {
        "conversation_id": conversation,
        "version": 1,
        "etag": answer.headers["etag"],
        "first_seq": 1,
        "last_seq": 1,
        "messages": [
            {
                "seq": 1,
                "id": "m-7",
                "duplicate": False,
                "tokens": {"o200k_base": plain["messages"][0], "cl100k_base": old["messages"][0]},
            }
        ],
    }


async def test_the_envelope_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents, metadata and the pin are stored and returned with the message."""
    documents = [{"text": "one", "id": "s-1"}, {"text": "two"}]
    entry = user("q", id="m-1", grounding={"documents": documents}, metadata={"k": [1, None]}, pinned=True)
    await append(client, conversation, entry, user("bare"))

    whole, bare = await history(client, conversation)

    assert whole["grounding"] == {"documents": documents}
    assert whole["grounding_tokens"]["o200k_base"] > 0
    assert (whole["metadata"], whole["pinned"]) == ({"k": [1, None]}, True)
    assert whole["created_at"].endswith("Z")
    assert bare["pinned"] is False
    assert {"grounding", "metadata"}.isdisjoint(bare)


async def test_repeated_is_stored_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Entries repeated with the same ids and content are 200, marked as duplicates, and do not change the version."""
    entries = [user("one", id="a"), assistant("two", id="b")]
    first = await append(client, conversation, *entries)

    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})

    assert answer.status_code == 200
    again = answer.json()
    assert [message.pop("duplicate") for message in again["messages"]] == [True, True]
    assert [message.pop("duplicate") for message in first["messages"]] == [False, False]
    assert again == first
    assert len(await history(client, conversation)) == 2


async def test_repeated_with_keys_in_another_order(client: httpx.AsyncClient, conversation: str) -> None:
    """Content is compared by value: a retry with its JSON keys in another order is a duplicate, not a conflict."""
    one = b'{"messages":[{"id":"a","message":{"role":"user","content":"x","z":{"p":1,"q":2}}}]}'
    other = b'{"messages": [{"message": {"z": {"q": 2, "p": 1}, "content": "\\u0078", "role": "user"}, "id": "a"}]}'
    headers = {"content-type": "application/json"}
    await client.post(f"/conversations/{conversation}/messages", content=one, headers=headers)

    answer = await client.post(f"/conversations/{conversation}/messages", content=other, headers=headers)

    assert (answer.status_code, answer.json()["messages"][0]["duplicate"]) == (200, True)


@pytest.mark.parametrize(
    "other",
    [
        user("else", id="b"),
        assistant("two", id="b"),
        user("two", id="b", pinned=True),
        user("two", id="b", metadata={"k": 1}),
        user("two", id="b", grounding={"documents": [{"text": "d"}]}),
    ],
)
async def test_an_id_names_one_content(client: httpx.AsyncClient, conversation: str, other: dict[str, Any]) -> None:
    """The same id with other content is 409, names the entry, and nothing of the request is stored."""
    await append(client, conversation, user("one", id="a"), user("two", id="b"))

    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [user("new"), other]})

    assert problem(answer, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/1/id"
    assert [message["id"] for message in await history(client, conversation)] == ["a", "b"]


async def test_old_and_new_together(client: httpx.AsyncClient, conversation: str) -> None:
    """A batch of stored and new entries is 201, marks the duplicates, and appends the new entries in order."""
    await append(client, conversation, user("one", id="a"), user("two", id="b"))

    body = await append(client, conversation, user("three", id="c"), user("one", id="a"), user("four", id="d"))

    told = [(message["id"], message["seq"], message["duplicate"]) for message in body["messages"]]
    assert told == [("c", 3, False), ("a", 1, True), ("d", 4, False)]
    assert (body["version"], body["first_seq"], body["last_seq"]) == (2, 1, 4)
    assert [message["id"] for message in await history(client, conversation)] == ["a", "b", "c", "d"]


async def test_twice_in_one_batch(client: httpx.AsyncClient, conversation: str) -> None:
    """An id that stands twice in a batch is stored once, or is a conflict when the contents differ."""
    body = await append(client, conversation, user("one", id="a"), user("one", id="a"))
    assert [(m["seq"], m["duplicate"]) for m in body["messages"]] == [(1, False), (1, True)]

    batch = {"messages": [user("two", id="b"), user("three", id="b")]}
    answer = await client.post(f"/conversations/{conversation}/messages", json=batch)

    assert problem(answer, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/1/id"
    assert len(await history(client, conversation)) == 1


async def test_equal_text_is_no_duplicate(client: httpx.AsyncClient, conversation: str) -> None:
    """Equal text under different ids, or without ids, is stored each time."""
    await append(client, conversation, user("ok", id="a"), user("ok", id="b"), user("ok"), user("ok"))

    stored = await history(client, conversation)

    assert [message["message"]["content"] for message in stored] == ["ok"] * 4
    assert len({message["id"] for message in stored}) == 4


async def test_all_or_none(client: httpx.AsyncClient, conversation: str) -> None:
    """If one entry is bad, whether the server or the store finds it, nothing is stored, not even the conversation."""
    for bad in ({"message": {"role": "clown", "content": ""}}, result("nobody-asked")):
        batch = {"messages": [user("before"), bad, user("after")]}
        answer = await client.post(f"/conversations/{conversation}/messages", json=batch)

        assert answer.status_code in (400, 422)
        assert answer.json()["errors"][0]["pointer"].startswith("#/messages/1/message")
        assert (await client.get(f"/conversations/{conversation}")).status_code == 404


async def test_results_need_their_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A tool result without a call is 422. Results may have any order, come late, and come again."""
    path = f"/conversations/{conversation}/messages"
    await append(client, conversation, calling("a", "b", "c"), result("c"))
    await append(client, conversation, result("a"))

    answer = await client.post(path, json={"messages": [result("zz")]})
    pointer = problem(answer, 422, "orphan-tool-result")["errors"][0]["pointer"]
    assert pointer == "#/messages/0/message/tool_call_id"
    await append(client, conversation, result("b"), user("next"), result("c"))
    await append(client, conversation, calling("d"), user("never mind"))
    await append(client, conversation, result("d"))

    assert len(await history(client, conversation)) == 9


async def test_an_append_names_the_calls_that_wait(client: httpx.AsyncClient, conversation: str) -> None:
    """The answer has the ids of the newest message's calls that have no result yet."""
    asked = await append(client, conversation, calling("a", "b"))
    first = await append(client, conversation, result("b"))
    last = await append(client, conversation, result("a"))

    assert [answer.get("waiting_for") for answer in (asked, first, last)] == [["a", "b"], ["a"], None]


async def test_an_append_names_a_legacy_call_that_waits(client: httpx.AsyncClient, conversation: str) -> None:
    """A call in the form before tool calls has no id: its function's name stands for it, as in the window."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    asked = await append(client, conversation, user("q"), call)
    assert asked["waiting_for"] == ["look"]
    assert (await window(client, conversation, model="gpt-4o"))["waiting_for"] == ["look"]
    assert "waiting_for" not in await append(client, conversation, {"role": "function", "name": "look", "content": "x"})


async def test_a_call_that_was_rewound_is_nowhere(client: httpx.AsyncClient, conversation: str) -> None:
    """A late result needs a call that is still there; its id may be used again."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("q"), calling("a"), user("stop"))
    assert (await client.post(f"{path}/rewind", json={"to_seq": 1})).status_code == 200
    await append(client, conversation, user("again"))

    problem(await client.post(f"{path}/messages", json={"messages": [result("a")]}), 422, "orphan-tool-result")
    await append(client, conversation, calling("a"), user("go on"), result("a"))


async def test_an_id_that_two_calls_had_is_the_first_ones_again(client: httpx.AsyncClient, conversation: str) -> None:
    """After a rewind of the second call, a late result answers the first one."""
    await append(client, conversation, user("q"), calling("a"), user("stop"))
    await append(client, conversation, calling("a"), user("stop again"))
    assert (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 3})).status_code == 200

    await append(client, conversation, result("a"))
    made = await window(client, conversation, model="gpt-4o")
    assert [message["role"] for message in made["request"]["messages"]] == ["user", "assistant", "tool", "user"]


async def test_a_retry_after_the_group_went_on(client: httpx.AsyncClient, conversation: str) -> None:
    """A repeated call and result are duplicates, not orphans, whatever came after them."""
    entries = [calling("a", id="1"), result("a", id="2")]
    await append(client, conversation, *entries)
    await append(client, conversation, user("next", id="3"))

    body = await append(client, conversation, *entries)

    assert [message["duplicate"] for message in body["messages"]] == [True, True]


async def test_parallel_results_cost_what_they_cost(client: httpx.AsyncClient, conversation: str) -> None:
    """Results of parallel calls cost other tokens than a single one; append, history and retry give the same tokens."""
    entries = [calling("a", "b", id="1"), result("a", "찾았다", id="2"), result("b", "없다", id="3")]
    body = await append(client, conversation, *entries)
    single = await append(client, conversation, calling("c"), result("c", "찾았다"))

    again = await append(client, conversation, *entries)
    stored = await history(client, conversation)

    tokens = [message["tokens"] for message in body["messages"]]
    assert (
        tokens == [message["tokens"] for message in stored[:3]] == [message["tokens"] for message in again["messages"]]
    )
    assert tokens[1] != single["messages"][1]["tokens"]


async def test_many_appends_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Twenty concurrent appends are each stored once, with consecutive versions and their messages together."""
    bodies = await asyncio.gather(*(append(client, conversation, user(f"q{n}"), assistant(f"a{n}")) for n in range(20)))

    texts = [message["message"]["content"] for message in await history(client, conversation)]
    assert sorted(body["version"] for body in bodies) == list(range(1, 21))
    assert sorted(texts) == sorted(f"{role}{n}" for n in range(20) for role in "qa")
    assert all(texts[i][1:] == texts[i + 1][1:] for i in range(0, 40, 2))


async def test_the_last_of_duplicate_keys_counts(client: httpx.AsyncClient, conversation: str) -> None:
    """The last of duplicate JSON keys is the one that is stored and counted, as in most JSON libraries."""
    raw = b'{"messages":[{"message":{"role":"assistant","role":"user","content":"long long long","content":"x"}}]}'

    answer = await client.post(
        f"/conversations/{conversation}/messages", content=raw, headers={"content-type": "application/json"}
    )

    plain = {"role": "user", "content": "x"}
    counted = (await client.post("/count", json={"model": "gpt-4o", "messages": [plain]})).json()
    assert answer.json()["messages"][0]["tokens"]["o200k_base"] == counted["messages"][0]
    assert [message["message"] for message in await history(client, conversation)] == [plain]


async def test_numbers_keep_their_value(client: httpx.AsyncClient, conversation: str) -> None:
    """Integers of any length and fractions in a message are returned with the same value."""
    numbers = "[0, -0.0, 1e22, 0.1, 123456789012345678901234567890, 18446744073709551616, 1.7976931348623157e308]"
    raw = b'{"messages":[{"message":{"role":"user","content":"x","n":%s}}]}' % numbers.encode()
    await client.post(
        f"/conversations/{conversation}/messages", content=raw, headers={"content-type": "application/json"}
    )

    (stored,) = await history(client, conversation)

    assert stored["message"]["n"] == json.loads(numbers)


async def test_metrics_that_fail_take_no_answer_away(
    client: httpx.AsyncClient, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends, windows and usage reports get their normal answers when recording metrics fails."""

    def broken(*_: object, **__: object) -> None:
        raise OSError("no space left for figures")

    figures = (
        (Metrics, "append"),
        (LeftOutMetrics, "count"),
        (ModelNames, "label"),
        (BillMetrics, "record_usage"),
    )
    for place, name in figures:
        monkeypatch.setattr(place, name, broken)
    monkeypatch.setattr(_Histogram, "observe", broken)
    appended = await client.post(
        f"/conversations/{conversation}/messages?model=gpt-4o", json={"messages": [user("hello")]}
    )
    read = await client.get(f"/conversations/{conversation}/window?model=gpt-4o")
    without = await client.post(
        f"/conversations/{conversation}/messages?model=gpt-4o&max_tokens=1", json={"messages": [user("again")]}
    )
    report = {"model": "gpt-4o", "window_tokens": 8, "prompt_tokens": 8}
    reported = await client.post(f"/conversations/{conversation}/usage", json=report)
    assert [answer.status_code for answer in (appended, read, without, reported)] == [201, 200, 201, 200]
    assert appended.json()["window"] == read.json()
    assert without.json()["window_error"]["type"] == "/problems/window-does-not-fit"
