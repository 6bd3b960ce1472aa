"""A receipt gives its window again, with the same bytes, or 410 with the reason why not."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from random import Random
from typing import Any

import httpx
import msgspec
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect
from rigs.dialogue import append, assistant, calling, result, statistics, user

from sash.core.counts.models.models import unknown_model
from sash.core.law.records.parameters import WindowQuery
from sash.store.data.layout import target_at
from sash.store.data.replies import State
from sash.store.redis.embedded import EmbeddedStore
from sash.windows.receipts import (
    LONGEST,
    PARAMETERS,
    query_of_receipt,
    read_receipt,
    receipt_of,
    told_of,
)

GPT = "gpt-4o-mini"
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


async def talk(client: httpx.AsyncClient, conversation: str, turns: int, first: int = 1) -> None:
    for turn in range(first, first + turns):
        await append(client, conversation, user(f"question {turn} " + "word " * 20), assistant(f"answer {turn}"))


async def window(client: httpx.AsyncClient, conversation: str, **query: Any) -> tuple[str, bytes]:
    """A window's receipt, and its bytes."""
    answer = await client.get(f"/conversations/{conversation}/window", params={"model": GPT, **query})
    assert answer.status_code == 200, answer.text
    receipt: str = answer.json()["receipt"]
    assert receipt.startswith("w1.")
    assert len(receipt) <= 160
    return receipt, answer.content


async def again(client: httpx.AsyncClient, conversation: str, receipt: str, **query: Any) -> httpx.Response:
    return await client.get(f"/conversations/{conversation}/window", params={"receipt": receipt, **query})


async def reason(client: httpx.AsyncClient, conversation: str, receipt: str) -> dict[str, Any]:
    answer = await again(client, conversation, receipt)
    assert answer.status_code == 410, answer.text
    problem: dict[str, Any] = answer.json()
    assert problem["type"] == "/problems/receipt-gone"
    return problem


QUERIES: list[dict[str, Any]] = [
    {},
    {"max_tokens": 200},
    {"max_tokens": 200, "stable": "true", "note": "true"},
    {"max_tokens": 800, "format": "anthropic", "model": "claude-sonnet-4-5", "cache": "auto", "price": "auto"},
    {"limit": 3, "explain": "true", "dedupe": "messages", "start": "user"},
    {"max_tokens": 300, "overflow": "skip", "grounding": "all"},
    {"turns": 2, "format": "gemini", "model": "gemini-2.5-pro"},
    {"max_tokens": 150, "model": "mistral-large-latest", "tool_results_kept": 0},
    {"model": "ft:gpt-4o-mini-2024-07-18:an-organisation::aBcDeFgH", "limit": 30},
]


@pytest.mark.parametrize("query", QUERIES, ids=str)
async def test_a_receipt_gives_the_same_bytes_after_the_conversation_went_on(
    client: httpx.AsyncClient, conversation: str, query: dict[str, Any]
) -> None:
    """Later messages, a new summary and other settings change nothing in a window of an earlier version."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief.", "tools": TOOLS})
    await talk(client, conversation, 20)
    document = {"documents": [{"id": "d", "text": "The talk is at noon. " * 5}]}
    await append(client, conversation, user("pinned") | {"pinned": True}, assistant("yes"))
    await append(
        client,
        conversation,
        calling("look"),
        result("look", "tools say 5 " * 30),
        user("and?") | {"grounding": document},
    )
    first = await window(client, conversation, **query)
    await client.put(f"/conversations/{conversation}/summary", json={"text": "They talked.", "through_seq": 10})
    second = await window(client, conversation, **query)
    assert (await again(client, conversation, first[0])).content == first[1]
    changed = {"system": "Be long.", "tools": None, "metadata": {"a": "b"}}
    await client.patch(f"/conversations/{conversation}", json=changed)
    await talk(client, conversation, 40, first=21)
    third = await window(client, conversation, **query)
    await client.put(f"/conversations/{conversation}/summary", json={"text": "They talked on.", "through_seq": 40})
    await append(client, conversation, calling("more"), result("more", "later"), user("pin this") | {"pinned": True})
    for receipt, body in (first, second, third):
        answer = await again(client, conversation, receipt)
        assert (answer.status_code, answer.content) == (200, body)
        assert answer.headers["etag"] == answer.json()["etag"]


async def test_a_window_without_tokens_comes_again(client: httpx.AsyncClient, conversation: str) -> None:
    """An empty window of a model that bills no words around messages has no tokens, and a receipt; a bill does not."""
    path = f"/conversations/{conversation}"
    await client.post("/conversations", json={"id": conversation})
    before = await client.get(f"{path}/window?model=gemini-2.5-pro&format=gemini")
    receipt = before.json()["receipt"]
    assert before.json()["tokens"]["total"] == 0
    assert (await client.get(f"{path}/window", params={"receipt": receipt})).content == before.content
    bill = {"model": "gemini-2.5-pro", "prompt_tokens": 3, "receipt": receipt}
    assert (await client.post(f"{path}/usage", json=bill)).status_code == 422


@pytest.mark.parametrize("more", ["", "&summary=always&limit=4", "&recall_max_tokens=50", "&stable=auto"])
async def test_a_window_of_an_empty_conversation_stays_empty(
    client: httpx.AsyncClient, conversation: str, more: str
) -> None:
    """The receipt of a window without messages gives it again, whatever was appended since."""
    path = f"/conversations/{conversation}/window"
    await client.post("/conversations", json={"id": conversation})
    before = await client.get(f"{path}?model=gpt-4o-mini{more}")
    await append(client, conversation, user("one"), assistant("two"), user("three"))

    again = await client.get(path, params={"receipt": before.json()["receipt"]})

    assert (again.status_code, again.content) == (200, before.content), again.text


async def test_a_views_window_comes_again(client: httpx.AsyncClient, conversation: str) -> None:
    """What one of several agents saw, also where it sees little of it."""
    for turn in range(30):
        who = ("billing", "travel", "desk")[turn % 3]
        await append(client, conversation, user(f"ask {turn} " + "word " * 20, audience=[who]))
        await append(client, conversation, assistant(f"say {turn}", author=who, audience=["desk"]))
    made = [await window(client, conversation, view=view, max_tokens=200) for view in ("billing", "desk", "nobody")]
    await append(client, conversation, user("more", audience=["billing"]), assistant("so", author="billing"))
    for receipt, body in made:
        assert (await again(client, conversation, receipt)).content == body


async def test_an_appends_window_has_a_receipt(client: httpx.AsyncClient, conversation: str) -> None:
    """The window in an append's answer is given again, also after the conversation went on."""
    entries = {"messages": [user("hello")]}
    answer = await client.post(f"/conversations/{conversation}/messages", params={"model": GPT}, json=entries)
    made = answer.json()["window"]
    await talk(client, conversation, 3)
    assert (await again(client, conversation, made["receipt"])).json() == made


async def test_a_history_in_the_body_has_no_receipt(client: httpx.AsyncClient) -> None:
    """Nothing is stored that a receipt could be made again from."""
    answer = await client.post("/window", json={"model": GPT, "messages": [user("hello")]})
    assert "receipt" not in answer.json()


async def test_a_window_without_messages_comes_again(client: httpx.AsyncClient, conversation: str) -> None:
    """The fixed parts alone, as they were before the first message came."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief."})
    receipt, body = await window(client, conversation)
    await talk(client, conversation, 2)
    assert (await again(client, conversation, receipt)).content == body


async def test_results_that_came_later_are_not_seen(client: httpx.AsyncClient, conversation: str) -> None:
    """A window in which a call waits waits again, although its result, which is pinned, was appended since."""
    await append(client, conversation, user("look"), calling("look"))
    receipt, body = await window(client, conversation)
    await append(client, conversation, result("look") | {"pinned": True}, assistant("there"))
    assert b"waiting_for" in body
    assert (await again(client, conversation, receipt)).content == body


async def test_a_redacted_message_is_gone_and_says_when(client: httpx.AsyncClient, conversation: str) -> None:
    """The answer names version, time and message; windows from before that message stay."""
    await talk(client, conversation, 2)
    early = await window(client, conversation)
    await talk(client, conversation, 2, first=3)
    receipt, _ = await window(client, conversation)
    erased = await client.delete(f"/conversations/{conversation}/messages/6")
    problem = await reason(client, conversation, receipt)
    assert (problem["reason"], problem["seq"]) == ("redacted", 6)
    assert f'"{problem["version"]}-' in erased.headers["etag"]
    assert problem["at"].startswith("20")
    assert (await again(client, conversation, early[0])).content == early[1]


async def test_a_rewound_message_is_gone(client: httpx.AsyncClient, conversation: str) -> None:
    """Also where as many others came in its place, by a rewind or by an append after an earlier message."""
    await talk(client, conversation, 3)
    receipt, _ = await window(client, conversation)
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 4})
    assert (await reason(client, conversation, receipt))["reason"] == "rewound"
    await talk(client, conversation, 1)
    problem = await reason(client, conversation, receipt)
    assert (problem["reason"], problem["version"]) == ("rewound", 4)
    later, _ = await window(client, conversation)
    entries = {"messages": [user("instead")]}
    await client.post(f"/conversations/{conversation}/messages", params={"after_seq": 4}, json=entries)
    problem = await reason(client, conversation, later)
    assert problem["reason"] == "rewound"
    assert "at" in problem


async def test_a_reply_that_went_on_is_replaced(client: httpx.AsyncClient, conversation: str) -> None:
    """A window with a reply in progress leaves it out; its receipt ends with the reply's text."""
    await append(client, conversation, user("tell me"))
    before = await window(client, conversation)
    await append(client, conversation, assistant("It") | {"id": "r", "status": "in_progress"})
    during, _ = await window(client, conversation)
    await append(client, conversation, assistant("It is so.") | {"id": "r", "status": "completed"})
    assert (await reason(client, conversation, during))["reason"] == "replaced"
    assert (await again(client, conversation, before[0])).content == before[1]


async def test_a_pin_is_an_amendment_and_metadata_are_not(client: httpx.AsyncClient, conversation: str) -> None:
    """Notes beside a message are in no window. A pin is in those that had left the message out."""
    await talk(client, conversation, 5)
    receipt, body = await window(client, conversation, limit=2)
    await client.patch(f"/conversations/{conversation}/messages/1", json={"metadata": {"stars": 5}})
    assert (await again(client, conversation, receipt)).content == body
    await client.patch(f"/conversations/{conversation}/messages/1", json={"pinned": True})
    problem = await reason(client, conversation, receipt)
    assert (problem["reason"], problem["seq"]) == ("amended", 1)


async def test_what_is_lost_is_told_and_not_metadata(client: httpx.AsyncClient, conversation: str) -> None:
    """Of a window whose summary was removed, and beside whose messages is another note, the summary is what is missing."""
    await talk(client, conversation, 5)
    path = f"/conversations/{conversation}"
    await client.put(f"{path}/summary", json={"text": "They talked.", "through_seq": 4})
    receipt, _ = await window(client, conversation, limit=2, summary="always")
    await client.patch(f"{path}/messages/1", json={"metadata": {"stars": 5}, "pinned": False})
    await client.delete(f"{path}/summary")
    assert (await reason(client, conversation, receipt))["reason"] == "summary"


async def test_a_pin_that_was_set_and_put_back_gives_the_window_again(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """The bytes decide: a window that is the same again comes again, whatever was done meanwhile."""
    await talk(client, conversation, 5)
    receipt, body = await window(client, conversation, limit=2)
    for pinned in (True, False):
        await client.patch(f"/conversations/{conversation}/messages/1", json={"pinned": pinned})
    assert (await again(client, conversation, receipt)).content == body


async def test_an_erased_conversation_is_gone(client: httpx.AsyncClient, conversation: str) -> None:
    """It stays gone when another one has its id."""
    await talk(client, conversation, 1)
    receipt, _ = await window(client, conversation)
    await client.delete(f"/conversations/{conversation}")
    assert (await reason(client, conversation, receipt))["reason"] == "erased"
    await talk(client, conversation, 1)
    assert (await reason(client, conversation, receipt))["reason"] == "erased"


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("followed", [0, 1, 2, 3, 5])
async def test_writes_that_the_store_lost_are_gone_from_the_history(
    client: httpx.AsyncClient, conversation: str, store: EmbeddedStore, lost: int, followed: int
) -> None:
    """A failover may lose writes that no replica had. Their window is gone, also if others came in their place."""
    await talk(client, conversation, 2)
    before, body = await window(client, conversation)
    with redis.Redis.from_url(store.url) as raw:
        kept = {key: raw.dump(key) for key in raw.scan_iter(f"sash:{{default/{conversation}}}:*")}
        for _ in range(lost):
            await append(client, conversation, user("lost"))
        receipt, _ = await window(client, conversation)
        for key, value in kept.items():
            raw.restore(key, 0, value, replace=True)
    for number in range(followed):
        await append(client, conversation, user(f"in its place {number}"))
    assert (await reason(client, conversation, receipt))["reason"] == "history"
    assert (await again(client, conversation, before)).content == body


async def test_a_window_that_fails_again_is_a_fault(
    client: httpx.AsyncClient, conversation: str, store: EmbeddedStore
) -> None:
    """An unexpected error in making a window again is 500, as it is in making one, and no receipt that is gone."""
    await talk(client, conversation, 2)
    query = {"model": "claude-sonnet-4-5", "format": "anthropic"}
    receipt, body = await window(client, conversation, **query)
    key = target_at("default", conversation).keys.log
    with redis.Redis.from_url(store.url) as raw:
        message = raw.lindex(key, 1)
        assert isinstance(message, bytes)
        raw.lset(key, 1, message[:-1])
        for given in (query, {"receipt": receipt}):
            answer = await client.get(f"/conversations/{conversation}/window", params=given)
            assert (answer.status_code, answer.json()["type"]) == (500, "/problems/internal")
        raw.lset(key, 1, message)
    assert (await again(client, conversation, receipt)).content == body
    await client.delete(f"/conversations/{conversation}/messages/1")
    with redis.Redis.from_url(store.url) as raw:
        raw.lset(key, 1, message[:-1])
    assert (await reason(client, conversation, receipt))["reason"] == "redacted"


async def test_the_settings_of_eight_changes_are_kept(client: httpx.AsyncClient, conversation: str) -> None:
    """Nine changes later the first settings are gone; changes of metadata do not count."""
    await client.post("/conversations", json={"id": conversation, "system": "0"})
    await append(client, conversation, user("hello"))
    made = [await window(client, conversation)]
    for number in range(1, 10):
        await client.patch(f"/conversations/{conversation}", json={"metadata": {"n": number}})
        await client.patch(f"/conversations/{conversation}", json={"system": str(number)})
        made.append(await window(client, conversation))
    assert (await reason(client, conversation, made[0][0]))["reason"] == "settings"
    for receipt, body in made[1:]:
        assert (await again(client, conversation, receipt)).content == body


async def test_a_removed_summary_is_gone(client: httpx.AsyncClient, conversation: str) -> None:
    """A replaced summary is kept. One that its client removes is not, nor are those before it."""
    await talk(client, conversation, 6)
    summary = f"/conversations/{conversation}/summary"
    plain = await window(client, conversation, summary="always")
    await client.put(summary, json={"text": "one", "through_seq": 4})
    first = await window(client, conversation, summary="always")
    await client.put(summary, json={"text": "two", "through_seq": 6})
    assert (await again(client, conversation, first[0])).content == first[1]
    await client.delete(summary)
    assert (await reason(client, conversation, first[0]))["reason"] == "summary"
    assert (await again(client, conversation, plain[0])).content == plain[1]


async def test_recalled_messages_come_again(client: httpx.AsyncClient, conversation: str) -> None:
    """A window with recall is the same although more is indexed since."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, user("the password is zebra"), assistant("noted"))
    await talk(client, conversation, 15)
    await append(client, conversation, user("what was the password?"))
    for more in ({}, {"stable": "true"}, {"history_tools": "true"}):
        receipt, body = await window(client, conversation, max_tokens=200, recall_max_tokens=60, **more)
        await append(client, conversation, assistant("zebra password"), user("password zebra again?"))
        answer = await again(client, conversation, receipt)
        assert answer.content == body


@pytest.mark.parametrize("asked", ["question 3", "question " * 50])
async def test_a_text_is_given_beside_its_receipt(client: httpx.AsyncClient, conversation: str, asked: str) -> None:
    """A receipt, which log lines have, tells no text: it is given again, or the answer says so."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await talk(client, conversation, 8)
    query = {"model": GPT, "max_tokens": 100, "recall_max_tokens": 40, "recall_query": asked}
    receipt, body = await window(client, conversation, **query)
    assert asked.encode() not in urlsafe_b64decode(receipt[27:] + "=" * (-(len(receipt) - 27) % 4))
    assert (await again(client, conversation, receipt, **query)).content == body
    for other in ({}, {**query, "limit": 3}):
        answer = await again(client, conversation, receipt, **other)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "#/query/receipt"


async def test_a_long_name_of_a_model_is_in_its_receipt(client: httpx.AsyncClient, conversation: str) -> None:
    """A receipt has the parameters also where the model's name is as long as a cloud's."""
    await talk(client, conversation, 8)
    named = {"model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "format": "converse"}
    receipt, body = await window(client, conversation, **named, max_tokens=4000, reserve=0, turns=3, cache="auto")
    assert (await again(client, conversation, receipt)).content == body


WRONG = ["", "w1.", "w2." + "A" * 60, "w1." + "A" * 60, "w1." + "!" * 60, "x" * 160, "w1." + "A" * 400]


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_is_no_receipt_is_refused(client: httpx.AsyncClient, conversation: str, wrong: str) -> None:
    """The answer points at the parameter."""
    await talk(client, conversation, 1)
    answer = await again(client, conversation, wrong)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "#/query/receipt"


async def test_a_changed_receipt_gives_no_window(client: httpx.AsyncClient, conversation: str) -> None:
    """Whatever character is another one, the answer is a 4xx, and never other bytes."""
    await talk(client, conversation, 2)
    receipt, body = await window(client, conversation, limit=3)
    for place in range(3, len(receipt)):
        other = "A" if receipt[place] != "A" else "B"
        answer = await again(client, conversation, receipt[:place] + other + receipt[place + 1 :])
        assert answer.status_code in (400, 410, 422) or answer.content == body, place


async def test_other_bytes_of_the_same_history_are_of_other_rules(client: httpx.AsyncClient, conversation: str) -> None:
    """Where the log has the figures of a receipt, it is not the history that is another one, at any version."""
    document = {"documents": [{"id": "d", "text": "The talk is at noon. " * 5}]}
    steps: list[list[dict[str, Any]]] = [
        [{"message": {"role": "system", "content": "Be brief."}}],
        [user("so?", grounding=document), calling("a", "b"), result("a")],
        [result("b"), assistant("so"), user("and then?", pinned=True)],
        [assistant("It") | {"id": "r", "status": "in_progress"}, user("go on", grounding=document)],
        [calling("c"), result("c"), {"message": {"role": "assistant", "content": "done"}}],
    ]
    made = []
    for step in steps:
        await append(client, conversation, *step)
        made += [(await window(client, conversation, model=model))[0] for model in (GPT, "gpt-4", "claude-sonnet-4-5")]
    for receipt in made:
        packed = urlsafe_b64decode(receipt[27:] + "=" * (-(len(receipt) - 27) % 4))
        other = receipt[:27] + urlsafe_b64encode(bytes(8) + packed[8:]).decode().rstrip("=")
        assert (await reason(client, conversation, other))["reason"] == "rules"


@pytest.mark.parametrize("seed", range(8))
async def test_a_forged_receipt_is_never_a_fault(client: httpx.AsyncClient, conversation: str, seed: int) -> None:
    """Numbers that no state ever had give a 4xx, whatever they are."""
    chance = Random(seed)
    document = {"documents": [{"id": "d", "text": "The talk is at noon. " * 5}]}
    await talk(client, conversation, 4)
    await append(client, conversation, user("pin", grounding=document, pinned=True), calling("a", "b"), result("a"))
    await append(client, conversation, user("so?", grounding=document), assistant("so"))
    queries = [
        {"stable": "true", "max_tokens": 90},
        {"explain": "true", "limit": 4},
        {"overflow": "skip", "max_tokens": 90},
    ]
    queries.append({"model": "claude-sonnet-4-5", "format": "anthropic", "cache": "auto", "price": "auto"})
    for query in queries:
        receipt, _ = await window(client, conversation, **query)
        packed = urlsafe_b64decode(receipt[27:] + "=" * (-(len(receipt) - 27) % 4))
        for _ in range(15):
            rest = msgspec.msgpack.decode(packed[8:])
            for place in chance.sample(range(1, 8), chance.randint(1, 3)):
                rest[place] = max(0, chance.choice((rest[place] + chance.randint(-6, 6), 0, 2**31, 2**63)))
            if rest == msgspec.msgpack.decode(packed[8:]):
                continue
            forged = receipt[:27] + urlsafe_b64encode(packed[:8] + msgspec.msgpack.encode(rest)).decode().rstrip("=")
            answer = await again(client, conversation, forged)
            assert answer.status_code in (400, 410), (rest, answer.text)


async def test_a_receipt_of_another_conversation_is_refused(
    client: httpx.AsyncClient, fresh: Callable[[], str]
) -> None:
    """It says so, whether there is such a conversation or not; parameters beside a receipt are refused, too."""
    one, other = fresh(), fresh()
    await talk(client, one, 1)
    receipt, _ = await window(client, one)
    assert (await again(client, other, receipt)).status_code == 422
    await talk(client, other, 1)
    answer = await again(client, other, receipt)
    assert answer.status_code == 422
    assert "another conversation" in answer.json()["detail"]
    assert (await again(client, one, receipt, limit=3)).status_code == 422


async def test_a_forks_windows_have_receipts_of_their_own(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A copy is another conversation: it does not know earlier receipts, and its own ones hold."""
    one, copy = fresh(), fresh()
    await talk(client, one, 3)
    receipt, body = await window(client, one)
    await client.post(f"/conversations/{one}/fork", json={"id": copy, "at_seq": 4})
    own = await window(client, copy)
    await talk(client, copy, 2)
    assert (await again(client, copy, own[0])).content == own[1]
    assert (await again(client, copy, receipt)).status_code == 422
    assert (await again(client, one, receipt)).content == body


async def test_a_reply_names_the_window_that_it_answered(client: httpx.AsyncClient, conversation: str) -> None:
    """The history gives the receipt back with the reply, also after its metadata changed, and so does an export."""
    made = (await append(client, conversation, user("hello"), model=GPT))["window"]
    await append(client, conversation, assistant("hi", receipt=made["receipt"], metadata={"a": 1}, id="r"))
    await append(client, conversation, {"role": "user", "content": "bare", "receipt": made["receipt"]})
    path = f"/conversations/{conversation}/messages"
    await client.patch(f"{path}/id:r", json={"metadata": {"a": None}})
    listed = (await client.get(path)).json()["messages"]
    assert [each.get("receipt") for each in listed] == [None, made["receipt"], made["receipt"]]
    assert [each.get("metadata") for each in listed] == [None, None, None]
    await client.patch(f"{path}/id:r", json={"metadata": {"b": 2}})
    one = (await client.get(f"{path}/id:r")).json()
    assert (one["receipt"], one["metadata"]) == (made["receipt"], {"b": 2})
    assert (await again(client, conversation, one["receipt"])).json() == made
    exported = (await client.get(f"/conversations/{conversation}/export")).content
    copy = f"{conversation}-copy"
    lines = exported.replace(conversation.encode(), copy.encode(), 1)
    answer = await client.post("/conversations/import", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 201, answer.text
    copied = (await client.get(f"/conversations/{copy}/messages")).json()["messages"]
    assert [each.get("receipt") for each in copied] == [each.get("receipt") for each in listed]
    await client.delete(f"{path}/id:r")
    assert (await client.get(f"{path}/id:r")).json().get("receipt") is None


async def test_an_entrys_receipt_is_of_its_conversation(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """Another one is refused, with its place, and nothing is stored; so is what is none."""
    one, other = fresh(), fresh()
    await append(client, one, user("hello"))
    receipt, _ = await window(client, one)
    for wrong, status in ((receipt, 422), ("w1." + "A" * 50, 400), ("no", 400)):
        entries = {"messages": [user("hello"), assistant("hi", receipt=wrong)]}
        answer = await client.post(f"/conversations/{other}/messages", json=entries)
        assert answer.status_code == status
        assert answer.json()["errors"][0]["pointer"] == "#/messages/1/receipt"
    assert (await client.get(f"/conversations/{other}")).status_code == 404


async def test_a_bill_names_its_window(client: httpx.AsyncClient, conversation: str) -> None:
    """A receipt tells the window's tokens and its correction; one of both is needed."""
    path = f"/conversations/{conversation}/usage"
    model = f"{conversation}/deepseek-chat"  # no other test's estimates change
    await append(client, conversation, user("hello " * 40))
    for _ in range(2):
        answer = await client.get(f"/conversations/{conversation}/window", params={"model": model})
        made = answer.json()
        total = made["tokens"]["total"]
        bill = {"model": model, "prompt_tokens": total - 3}
        told = (await client.post(path, json={**bill, "receipt": made["receipt"]})).json()
        assert told["error"] == 3
        assert (await again(client, conversation, made["receipt"])).content == answer.content
    assert made["correction"]
    assert told["calibration"]["n"] >= 2
    both = {**bill, "receipt": made["receipt"], "window_tokens": total}
    for wrong in (bill, both, {**bill, "receipt": made["receipt"], "correction": 1.0}):
        assert (await client.post(path, json=wrong)).status_code == 400
    assert (await client.post(path, json={**bill, "receipt": "w1." + "A" * 40})).status_code == 400


# ---- the difference of two windows


async def diff(client: httpx.AsyncClient, conversation: str, earlier: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/conversations/{conversation}/window/diff", params={"from": earlier, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def changes(found: dict[str, Any]) -> dict[int, str]:
    return {each["seq"]: each["change"] for each in found["messages"]}


async def test_a_longer_chat_begins_with_the_earlier_window(client: httpx.AsyncClient, conversation: str) -> None:
    """By default the later window is that of now: its new messages are added, and the cache holds."""
    await talk(client, conversation, 2)
    receipt, body = await window(client, conversation)
    await talk(client, conversation, 1, first=3)
    now, later = await window(client, conversation)
    found = await diff(client, conversation, receipt)
    assert found["to"]["receipt"] == now
    assert (changes(found), found["unchanged"], found["parts"]) == ({5: "added", 6: "added"}, 4, [])
    total = json.loads(body)["tokens"]["total"]
    assert (found["cache"]["is_broken"], found["cache"]["tokens_in_common"]) == (False, total)
    assert sum(each["tokens_to"] for each in found["messages"]) == json.loads(later)["tokens"]["total"] - total
    assert await diff(client, conversation, receipt, to=now) == found
    same = await diff(client, conversation, now, to=now)
    assert (same["messages"], same["parts"], same["cache"]["is_broken"]) == ([], [], False)


async def test_a_window_that_slides_breaks_the_cache(client: httpx.AsyncClient, conversation: str) -> None:
    """The first message that differs is named, with its first byte, and the tokens before it."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief."})
    await talk(client, conversation, 10)
    receipt, body = await window(client, conversation, max_tokens=150)
    await talk(client, conversation, 1, first=11)
    found = await diff(client, conversation, receipt)
    first = json.loads(body)["kept"]["first_seq"]
    told = changes(found)
    assert (told[first], told[21], told[22]) == ("left_out", "added", "added")
    cache = found["cache"]
    assert (cache["is_broken"], cache["part"], cache["message"]) == (True, "messages", 1)
    tokens = json.loads(body)["tokens"]
    assert cache["tokens_in_common"] == tokens["priming"] + tokens["system"]
    one, other = (
        json.loads(each)["request"]["messages"][1]
        for each in (body, (await window(client, conversation, max_tokens=150))[1])
    )
    assert msgspec.json.encode(one)[: cache["byte"]] == msgspec.json.encode(other)[: cache["byte"]]


async def test_other_settings_and_shortened_results_are_told(client: httpx.AsyncClient, conversation: str) -> None:
    """A changed system prompt and tools are parts; a result that is cut now is changed, and costs less."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief.", "tools": TOOLS})
    await append(client, conversation, user("look"), calling("a"), result("a", "long " * 200), assistant("so"))
    receipt, _ = await window(client, conversation, tool_results_kept=1)
    await append(client, conversation, user("again"), calling("b"), result("b", "short"))
    found = await diff(client, conversation, receipt)
    (cut,) = [each for each in found["messages"] if each["seq"] == 3]
    assert (cut["change"], cut["role"]) == ("changed", "tool")
    assert cut["tokens_to"] < cut["tokens_from"]
    assert (found["cache"]["seq"], found["cache"]["message"]) == (3, 3)
    assert found["cache"]["tokens_in_common"] > found["to"]["tokens"]["system"] + found["to"]["tokens"]["tools"]
    await client.patch(f"/conversations/{conversation}", json={"system": "Be long."})
    found = await diff(client, conversation, receipt)
    assert (found["parts"], found["cache"]["message"], found["cache"]["seq"]) == (["system"], 0, None)
    await client.patch(f"/conversations/{conversation}", json={"tools": None})
    found = await diff(client, conversation, receipt)
    assert (found["parts"], found["cache"]["part"]) == (["system", "tools"], "tools")
    assert found["cache"]["tokens_in_common"] == 0


@pytest.mark.parametrize(
    ("form", "model"), [("anthropic", "claude-sonnet-4-5"), ("responses", "gpt-5"), ("gemini", "gemini-2.5-pro")]
)
async def test_every_form_is_compared(client: httpx.AsyncClient, conversation: str, form: str, model: str) -> None:
    """Marks for a cache are no part of what it keeps; another form or model shares no cache."""
    await client.post("/conversations", json={"id": conversation, "system": "Be brief. " * 300, "tools": TOOLS})
    await talk(client, conversation, 3)
    receipt, _ = await window(client, conversation, format=form, model=model, cache="auto")
    await talk(client, conversation, 1, first=4)
    found = await diff(client, conversation, receipt)
    assert not found["cache"]["is_broken"]
    assert (changes(found), found["unchanged"]) == ({7: "added", 8: "added"}, 6)
    other, _ = await window(client, conversation, format=form, model="gpt-4o")
    found = await diff(client, conversation, receipt, to=other)
    assert (found["cache"]["part"], found["cache"]["tokens_in_common"]) == ("model", 0)


async def test_late_results_and_recalled_messages_are_compared(client: httpx.AsyncClient, conversation: str) -> None:
    """Messages are named by their seqs in whatever order they are sent."""
    await append(client, conversation, user("look"), calling("a", "b"), result("a"), user("wait"))
    receipt, _ = await window(client, conversation)
    await append(client, conversation, result("b", "late"), assistant("there"))
    found = await diff(client, conversation, receipt)
    assert {seq: each for seq, each in changes(found).items() if seq > 4} == {5: "added", 6: "added"}
    assert found["cache"]["is_broken"]


async def test_a_difference_needs_windows_that_can_be_made(client: httpx.AsyncClient, conversation: str) -> None:
    """What is wrong with a receipt is said with its place: no receipt, none of this conversation, or gone."""
    await talk(client, conversation, 2)
    receipt, _ = await window(client, conversation)
    path = f"/conversations/{conversation}/window/diff"
    for query, pointer in (
        ({}, "#/query"),
        ({"from": "x"}, "#/query/from"),
        ({"from": receipt, "to": "x"}, "#/query/to"),
    ):
        answer = await client.get(path, params=query)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == pointer
    await client.delete(f"/conversations/{conversation}/messages/1")
    answer = await client.get(path, params={"from": receipt})
    assert (answer.status_code, answer.json()["reason"]) == (410, "redacted")


async def test_what_was_asked_for_again_is_counted(client: httpx.AsyncClient, conversation: str) -> None:
    """Statistics tell windows that were made again, and those that could not be, by the reason."""
    await talk(client, conversation, 2)
    receipt, _ = await window(client, conversation)
    before = (await statistics(client))["start"]["requests"]["receipts"]
    await again(client, conversation, receipt)
    await client.delete(f"/conversations/{conversation}/messages/1")
    await again(client, conversation, receipt)
    after = (await statistics(client))["start"]["requests"]["receipts"]
    assert after["again"] == before["again"] + 1
    gone = [{each["reason"]: each["windows"] for each in found["gone"]} for found in (before, after)]
    assert gone[1]["redacted"] == gone[0].get("redacted", 0) + 1


def drawn(parameter: inspect.Field) -> st.SearchStrategy[Any]:
    """Values of a parameter, by its declaration."""
    found = parameter.type.type if isinstance(parameter.type, inspect.Metadata) else parameter.type
    kinds = found.types if isinstance(found, inspect.UnionType) else (found,)
    return st.one_of([st.just(parameter.default), *(drawn_of(each) for each in kinds)])


def drawn_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case inspect.Metadata(type=inner):
            return drawn_of(inner)
        case inspect.LiteralType(values):
            return st.sampled_from(values)
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=least, le=most):
            return st.integers(least or 0, most)
        case inspect.FloatType(ge=least, le=most):
            return st.floats(least, most)
        case inspect.StrType():
            return st.text("abc é", min_size=1, max_size=40)
    return st.none()


@given(data=st.data())
def test_any_parameters_come_back_from_a_receipt(data: st.DataObject) -> None:
    """Whatever the parameters, a receipt has them all, or asks for them, and has at most 160 characters."""
    info = inspect.type_info(WindowQuery)
    assert isinstance(info, inspect.StructType)
    query = WindowQuery(**{each.name: data.draw(drawn(each), label=each.name) for each in info.fields})
    state = State(
        version=data.draw(st.integers(1, 2**32)),
        etag=f"7-{'l' * 16}-{'c' * 8}",
        made=(b"l" * 16, b""),
        settings=b"{}",
        length=2**31,
        tokens=(2**40, 2**40),
        grounding_messages=data.draw(st.integers(0, 2**31)),
        grounding_tokens=(2**33, 2**33),
        question=data.draw(st.integers(0, 2**31)),
        summary=None,
        sealed=False,
        rich=False,
    )
    factor = data.draw(st.none() | st.floats(0.5, 900))
    told = told_of(query, msgspec.structs.replace(unknown_model("some-model"), correction=factor))
    text = receipt_of(target_at("t", "c-1"), state, 1, b"rules!", told, b"{}", 100_000_000).decode()
    assert len(text) <= LONGEST
    read = read_receipt(text, "#")
    assert (read.then.question, read.correction, read.then.version) == (state.question, factor, state.version)
    given_beside = query if isinstance(read.parameters, bytes) else WindowQuery()
    assert query_of_receipt(read, given_beside, "#")[0] == query


def test_each_parameter_and_each_word_has_a_key_of_its_own() -> None:
    """Keys are made of names, so that they stay when others are added: no two may be the same."""
    assert len({each.key for each in PARAMETERS}) == len(PARAMETERS)
    for each in PARAMETERS:
        assert len(set(each.choices.values())) == len(each.choices), each.name
