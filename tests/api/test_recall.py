"""Recall: windows include older messages that match the question, and search finds them."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import redis
from rigs.dialogue import contents, indexed
from rigs.pictures import pictured

from sash.problems import StoreUnavailable
from sash.store.data.indexing import Index
from sash.store.data.layout import target_at

FACTS = (
    ("where do I keep the spare key?", "under the blue flowerpot"),
    ("what is my sister's dog called?", "she called him Biscuit"),
    ("I am allergic to walnuts, remember that", "noted: no walnuts"),
)
SMALL = "model=gpt-4o-mini&reserve=0&max_tokens=300&recall_max_tokens=120"


def turns(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"message": {"role": role, "content": text}}
        for pair in pairs
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]


CHATTER = turns(*((f"tell me about topic number {n} please", f"topic {n} is rather dull") for n in range(60)))


async def append(client: httpx.AsyncClient, conversation: str, *entries: dict[str, Any], query: str = "") -> Any:
    answer = None
    for start in range(0, len(entries), 100):
        answer = await client.post(
            f"/conversations/{conversation}/messages{query}", json={"messages": entries[start : start + 100]}
        )
        assert answer.status_code == 201, answer.text
    assert answer is not None
    return answer.json()


async def remembering(client: httpx.AsyncClient, conversation: str, mode: str = "lexical") -> None:
    """Create a conversation with recall whose first turns hold facts that no later turn repeats."""
    created = await client.post("/conversations", json={"id": conversation, "recall": mode})
    assert created.status_code == 201, created.text
    await append(client, conversation, *turns(*FACTS), *CHATTER)


def question(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


async def test_a_question_brings_back_what_was_said_long_ago(client: httpx.AsyncClient, conversation: str) -> None:
    """An old turn that matches the newest question is in the window, question and answer, in its place."""
    await remembering(client, conversation)
    asked = await append(client, conversation, question("which dog does my sister have?"), query=f"?{SMALL}")
    window = asked["window"]
    place = contents(window).index("what is my sister's dog called?")
    assert contents(window)[place + 1] == "she called him Biscuit"
    assert {3, 4} <= set(window["recalled"]["seqs"])
    assert window["recalled"]["seqs"] == sorted(window["recalled"]["seqs"])
    assert window["recalled"]["tokens"] <= 120
    assert window["tokens"]["total"] <= 300
    assert window["recalled"]["searched"]["first_seq"] == 1


async def test_without_recall_tokens_nothing_changes(client: httpx.AsyncClient, conversation: str) -> None:
    """Without ``recall_max_tokens``, a window equals that of a conversation without an index, except for the version."""
    await remembering(client, conversation)
    await indexed(client, conversation)
    plain = f"{conversation}-plain"
    await append(client, plain, *turns(*FACTS), *CHATTER)
    query = "window?model=gpt-4o-mini&reserve=0&max_tokens=300"
    ours = (await client.get(f"/conversations/{conversation}/{query}")).text.replace(conversation, plain)
    theirs = (await client.get(f"/conversations/{plain}/{query}&recall_max_tokens=0")).text
    # The first conversation was created explicitly, which is one version more.
    own = {"version": 0, "etag": "", "receipt": ""}
    assert json.loads(ours) | own == json.loads(theirs) | own


async def test_a_window_with_recall_takes_two_round_trips(client: httpx.AsyncClient, conversation: str) -> None:
    """The words of all messages come with the tail; recalled messages' texts are read once they are known."""
    await remembering(client, conversation)
    await append(client, conversation, question("which dog does my sister have?"))
    await indexed(client, conversation)

    async def asked() -> float:
        figures = (await client.get("/metrics")).text.splitlines()
        mine = (
            'sash_store_duration_seconds_count{call="read_window"}',
            'sash_store_duration_seconds_count{call="commands"}',
        )
        return sum(float(line.rpartition(" ")[2]) for line in figures if line.startswith(mine))

    before = await asked()
    for _ in range(20):
        assert (await client.get(f"/conversations/{conversation}/window?{SMALL}")).json()["recalled"]["messages"]
    assert 40 <= await asked() - before < 60


async def test_what_is_asked_may_be_said_apart(client: httpx.AsyncClient, conversation: str) -> None:
    """``recall_query`` is searched for in place of the newest user message."""
    await remembering(client, conversation)
    await append(client, conversation, question("which dog does my sister have?"))
    for query, best in (("", 3), ("&recall_query=walnuts", 5)):
        answer = await client.get(f"/conversations/{conversation}/window?{SMALL}&explain=true{query}")
        scores = {line["seq"]: line["score"] for line in answer.json()["explain"] if "score" in line}
        assert scores.keys() == set(answer.json()["recalled"]["seqs"])
        assert {seq for seq, score in scores.items() if score == max(scores.values())} == {best, best + 1}


async def test_explain_tells_score_and_reason(client: httpx.AsyncClient, conversation: str) -> None:
    """``explain`` gives the score of a recalled message and the reason for its recall."""
    await remembering(client, conversation)
    answer = await client.get(f"/conversations/{conversation}/window?{SMALL}&recall_query=flowerpot&explain=true")
    lines = {line["seq"]: line for line in answer.json()["explain"]}
    assert lines[2]["reason"] == "recalled: bears on the question"
    assert lines[2]["score"] > 0
    assert lines[1]["kept"]


async def test_explain_adds_up_to_the_total(client: httpx.AsyncClient) -> None:
    """A recalled message's line has its tokens in the window, also if the form sends words for an empty message."""
    chat = [question(""), {"message": {"role": "assistant", "content": "the zebra is in stable seven"}}, *CHATTER]
    asked = {"model": "claude-opus-4-8", "format": "anthropic", "max_tokens": 200, "recall_max_tokens": 100}
    body = {**asked, "messages": [*chat, question("where is the zebra?")], "explain": True}
    made = (await client.post("/window", json=body)).json()
    assert 1 in made["recalled"]["seqs"]
    assert sum(line["tokens"] for line in made["explain"] if line["kept"]) == made["tokens"]["messages"]


async def test_a_window_with_everything_recalls_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """A window that leaves nothing out recalls nothing."""
    await remembering(client, conversation)
    answer = await client.get(f"/conversations/{conversation}/window?model=gpt-4o-mini&recall_max_tokens=500")
    assert answer.json()["recalled"] == {
        "messages": 0,
        "tokens": 0,
        "seqs": [],
        "searched": {"messages": 0, "first_seq": None, "last_seq": None},
    }
    assert answer.json()["stop_reason"] == "complete"


async def test_a_stable_window_recalls_in_a_block(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``stable=true``, recalled messages are one block right before the question, in the conversation's template."""
    await remembering(client, conversation)
    changed = await client.patch(f"/conversations/{conversation}", json={"recall_template": "<old>{messages}</old>"})
    assert changed.status_code == 200
    asked = await append(client, conversation, question("and the walnuts?"), query=f"?{SMALL}&stable=true")
    *_, block, newest = asked["window"]["request"]["messages"]
    assert newest["content"] == "and the walnuts?"
    assert block["role"] == "user"
    assert block["content"].startswith("<old>user: ")
    assert "user: I am allergic to walnuts, remember that\nassistant: noted: no walnuts" in block["content"]
    total = asked["window"]["tokens"]["total"]
    counted = (await client.post("/count", json={"model": "gpt-4o-mini", **asked["window"]["request"]})).json()
    assert counted["tokens"] == total <= 300


async def test_a_block_is_before_a_question_of_long_ago(client: httpx.AsyncClient, conversation: str) -> None:
    """Where the newest question is far before the other messages, the block is right before it, behind system messages."""
    await remembering(client, conversation)
    told = {"message": {"role": "system", "content": "Be brief."}}
    steps = [{"message": {"role": "assistant", "content": f"step {n} of a long search"}} for n in range(300)]
    await append(client, conversation, told, question("and the walnuts?"), *steps)
    window = (await client.get(f"/conversations/{conversation}/window?{SMALL}&stable=true")).json()
    first, block, asked, *_ = contents(window)
    assert (first, asked) == ("Be brief.", "and the walnuts?")
    assert "assistant: noted: no walnuts" in block


async def test_a_block_has_the_words_of_a_refusal(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply that refused is recalled in a block with what it said."""
    await remembering(client, conversation)
    refused = {"role": "assistant", "content": None, "refusal": "Agnes alone knows the combination of the safe"}
    await append(client, conversation, question("open the safe"), {"message": refused}, *CHATTER)
    asked = await append(client, conversation, question("who knows the safe?"), query=f"?{SMALL}&stable=true")
    assert f"assistant: {refused['refusal']}" in contents(asked["window"])[-2]


async def test_what_stands_before_the_block_stays(client: httpx.AsyncClient, conversation: str) -> None:
    """While a stable cut does not move, each request begins with the one before, up to its block of recalled messages."""
    await remembering(client, conversation)
    before: list[str] = []
    first, alike = 0, 0
    for n in range(12):
        text = f"question {n} about my {('dog', 'key', 'walnuts')[n % 3]}"
        window = (await append(client, conversation, question(text), query=f"?{SMALL}&stable=true"))["window"]
        messages = contents(window)
        if window["kept"]["first_seq"] == first:
            assert messages[: len(before)] == before
            alike += 1
        place = len(messages) - (2 if window["recalled"]["messages"] else 1)
        first, before = window["kept"]["first_seq"], messages[:place]
        await append(client, conversation, {"message": {"role": "assistant", "content": f"answer {n}"}})
    assert alike >= 6


async def test_search_gives_the_best_first(client: httpx.AsyncClient, conversation: str) -> None:
    """Search finds messages by other forms of their words, and returns the best score first."""
    await remembering(client, conversation)
    answer = await client.get(f"/conversations/{conversation}/search?query=dogs+sisters+callings&limit=3")
    assert answer.status_code == 200, answer.text
    found = answer.json()["messages"]
    assert [each["seq"] for each in found] == [3, 4]
    assert [each["message"]["content"] for each in found] == list(FACTS[1])
    assert found[0]["score"] > found[1]["score"] > 0


async def test_search_needs_recall(client: httpx.AsyncClient, conversation: str) -> None:
    """A search in a conversation without recall is 422."""
    await append(client, conversation, *turns(*FACTS))
    answer = await client.get(f"/conversations/{conversation}/search?query=dog")
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/recall-is-off"


async def test_a_window_without_recall_is_still_a_window(client: httpx.AsyncClient, conversation: str) -> None:
    """In a conversation without recall, ``recall_max_tokens`` gives the same window, and says that nothing was searched."""
    await append(client, conversation, *turns(*FACTS), *CHATTER)
    path = f"/conversations/{conversation}/window?model=gpt-4o-mini&reserve=0&max_tokens=300"
    answers = [await client.get(f"{path}{more}") for more in ("", "&recall_max_tokens=120&recall_query=walnuts")]
    assert [answer.status_code for answer in answers] == [200, 200]
    without, asked = (answer.json() for answer in answers)
    assert without["dropped"]["messages"] > 0
    searched = {"messages": 0, "first_seq": None, "last_seq": None}
    assert asked.pop("recalled") == {"messages": 0, "tokens": 0, "seqs": [], "searched": searched}
    receipts = [each.pop("receipt") for each in (asked, without)]
    assert receipts[0] != receipts[1]  # a receipt names the parameters, too
    assert asked == without


async def test_turning_it_on_indexes_what_is_there(client: httpx.AsyncClient, conversation: str) -> None:
    """Turning recall on indexes the existing messages in the background, and GET shows the progress."""
    await append(client, conversation, *turns(*FACTS), *CHATTER)
    await client.patch(f"/conversations/{conversation}", json={"recall": "lexical"})
    got = await indexed(client, conversation)
    assert got["recall"] == "lexical"
    assert got["recall_progress"] == {"mode": "lexical", "messages": 126, "words": 126, "vectors": 0}
    answer = await client.get(f"/conversations/{conversation}/search?query=walnut")
    assert {each["seq"] for each in answer.json()["messages"]} == {5, 6}


async def test_turning_it_off_forgets_the_words(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis
) -> None:
    """Turning recall off deletes the index of words."""
    await remembering(client, conversation)
    await indexed(client, conversation)
    assert server.exists(f"sash:{{default/{conversation}}}:word_blocks") == 1
    await client.patch(f"/conversations/{conversation}", json={"recall": "off"})
    assert server.exists(f"sash:{{default/{conversation}}}:word_blocks") == 0


@pytest.mark.parametrize("waits", [True, False])
async def test_what_was_redacted_is_not_found(client: httpx.AsyncClient, conversation: str, *, waits: bool) -> None:
    """Search and recall do not find the words of a redacted message, whether it was indexed before or not."""
    await remembering(client, conversation)
    if waits:
        await indexed(client, conversation)
    await client.delete(f"/conversations/{conversation}/messages/4")
    answer = await client.get(f"/conversations/{conversation}/search?query=biscuit")
    assert answer.json()["messages"] == []
    window = await client.get(f"/conversations/{conversation}/window?{SMALL}&recall_query=biscuit")
    assert window.json()["recalled"]["messages"] == 0


async def test_a_turn_that_the_store_lost_is_not_found_in_the_next(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis
) -> None:
    """If the store loses a turn and another takes its place, search finds the words of the new turn only."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    keys = f"sash:{{default/{conversation}}}:*"
    copy = {key: server.dump(key) for key in server.scan_iter(keys, count=1000)}
    await append(client, conversation, question("the walrus is lost"))
    server.delete(*server.scan_iter(keys, count=1000))
    for key, value in copy.items():
        server.restore(key, 0, value)
    await append(client, conversation, question("the heron is here"))
    await indexed(client, conversation)
    for word, seqs in (("walrus", set()), ("heron", {1})):
        answer = await client.get(f"/conversations/{conversation}/search?query={word}")
        assert {each["seq"] for each in answer.json()["messages"]} == seqs


async def test_what_was_rewound_is_not_found(client: httpx.AsyncClient, conversation: str) -> None:
    """After a rewind, search finds the new messages and not the removed ones."""
    await remembering(client, conversation)
    await indexed(client, conversation)
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 2})
    await append(client, conversation, *turns(("do I like liquorice?", "you love it")))
    await indexed(client, conversation)
    for word, seqs in (("biscuit", set()), ("liquorice", {3})):
        answer = await client.get(f"/conversations/{conversation}/search?query={word}")
        assert {each["seq"] for each in answer.json()["messages"]} == seqs


async def test_a_fork_and_an_import_remember_too(
    client: httpx.AsyncClient, conversation: str, fresh: Callable[[], str]
) -> None:
    """A fork and an imported copy of a conversation are indexed like the original."""
    await remembering(client, conversation)
    forked, imported = fresh(), fresh()
    assert (await client.post(f"/conversations/{conversation}/fork", json={"id": forked})).status_code == 201
    exported = (await client.get(f"/conversations/{conversation}/export")).content
    headers = {"Content-Type": "application/x-ndjson"}
    answer = await client.post(f"/conversations/import?id={imported}", content=exported, headers=headers)
    assert answer.status_code == 201, answer.text
    for copy in (forked, imported):
        await indexed(client, copy)
        window = await client.get(f"/conversations/{copy}/window?{SMALL}&recall_query=biscuit")
        assert {3, 4} <= set(window.json()["recalled"]["seqs"])


async def test_a_history_in_the_body_is_recalled_from(client: httpx.AsyncClient) -> None:
    """POST /window recalls from the messages in its body."""
    body = {
        "model": "gpt-4o-mini",
        "reserve": 0,
        "max_tokens": 300,
        "recall_max_tokens": 120,
        "messages": [*turns(*FACTS), *CHATTER, question("which dog does my sister have?")],
    }
    for stable in (False, True):
        answer = await client.post("/window", json=body | {"stable": stable})
        assert answer.status_code == 200, answer.text
        assert {3, 4} <= set(answer.json()["recalled"]["seqs"])


async def test_tool_groups_come_back_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """A recalled tool result comes with its call and with the question before the call."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "call-1", "content": "the zebra is in stable seven"}
    group = [question("please look"), {"message": call}, {"message": result}]
    answered = {"message": {"role": "assistant", "content": "done"}}
    await append(client, conversation, *turns(("hi", "hello")), *group, answered, *CHATTER)
    answer = await client.get(f"/conversations/{conversation}/window?{SMALL}&recall_query=zebra")
    assert {3, 4, 5} <= set(answer.json()["recalled"]["seqs"])


CALL = {
    "message": {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "find", "arguments": '{"what": "walnuts"}'}}
        ],
    }
}
REPLY = {"message": {"role": "assistant", "content": "The walnuts are"}, "id": "reply", "status": "in_progress"}


@pytest.mark.parametrize("entries", [(CALL,), (REPLY,), (CALL, *CHATTER[:2], REPLY)], ids=["call", "reply", "both"])
async def test_what_may_not_be_sent_is_not_recalled(
    client: httpx.AsyncClient, conversation: str, entries: tuple[dict[str, Any], ...]
) -> None:
    """Recall brings back neither a call without its result nor a reply in progress; GET and POST windows are equal."""
    *older, last = (question("find the walnuts"), *entries)
    said = [*older, last, question("where are the walnuts?")] if last is CALL else [*older, question("walnuts?"), last]
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, *said)
    query = {"model": "gpt-4o", "limit": 1, "recall_max_tokens": 50}
    stored = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
    given = (await client.post("/window", json={**query, "messages": said})).json()
    assert stored["request"] == given["request"]
    assert stored["recalled"] == given["recalled"]
    assert "find the walnuts" in contents(stored)
    assert {None, "The walnuts are"}.isdisjoint(contents(stored))


async def test_words_that_cannot_be_counted_are_indexed_later(
    client: httpx.AsyncClient, fresh: Callable[[], str], server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the keys of one conversation cannot be read, all conversations that wait with it are indexed soon after."""
    words_of_bodies, failures = Index.words_of_bodies, []

    async def failing(self: Index, wanted: Any) -> Any:
        if len(failures) < 2:
            failures.append(wanted)
            raise StoreUnavailable("The keys cannot be read.")
        return await words_of_bodies(self, wanted)

    monkeypatch.setattr(Index, "words_of_bodies", failing)
    names = [fresh(), fresh()]
    for name in names:
        await client.post("/conversations", json={"id": name, "recall": "lexical"})
    for name in names:
        await append(client, name, question("where are the walnuts?"))
    index = [target_at("default", name).keys.word_blocks for name in names]
    for _ in range(1200):  # a GET would begin the indexing again
        if all(server.hget(key, "n") == "1" for key in index):
            break
        await asyncio.sleep(0.05)
    assert [server.hget(key, "n") for key in index] == ["1", "1"]
    assert len(failures) == 2


async def test_a_recalled_message_has_its_picture(client: httpx.AsyncClient, conversation: str) -> None:
    """A message that recall brings back from before the tail is sent with its picture, byte for byte."""
    shown = pictured("the floor plan of the harbour hotel", 1)
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, {"message": shown}, *CHATTER, question("which floor was the harbour hotel?"))
    await indexed(client, conversation)
    query = "model=gpt-4o-mini&max_tokens=90000&limit=2&recall_max_tokens=60000"
    window = (await client.get(f"/conversations/{conversation}/window?{query}")).json()
    assert window["recalled"]["seqs"][0] == 1
    assert shown in window["request"]["messages"]


async def test_an_empty_question_with_documents_is_recalled(client: httpx.AsyncClient, conversation: str) -> None:
    """A message without words has those of its neighbours: it is recalled for a provider that leaves empty messages out."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    documents = {"documents": [{"text": "Biscuit is a dog."}]}
    silent = {"message": {"role": "user", "content": ""}, "grounding": documents}
    await append(client, conversation, *turns(FACTS[1]), silent, *CHATTER, question("which dog does my sister have?"))
    await indexed(client, conversation)
    query = SMALL.replace("gpt-4o-mini", "claude-sonnet-4-5&format=anthropic")
    window = await client.get(f"/conversations/{conversation}/window?{query}")
    assert window.status_code == 200, window.text
    assert {1, 2, 3} <= set(window.json()["recalled"]["seqs"])


@pytest.mark.parametrize("more", ["", "&stable=true", "&grounding=all", "&grounding=all&dedupe=none&explain=false"])
async def test_documents_of_a_recalled_message_are_told(
    client: httpx.AsyncClient, conversation: str, more: str
) -> None:
    """A message that is recalled from before what was read has its documents' lines, and they count, as from the body."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    documents = {"documents": [{"id": "d-1", "text": "Biscuit is a dog."}, {"text": "So is Rex."}]}
    asked, answered = turns(FACTS[1])
    entries = [{**asked, "grounding": documents}, answered, *CHATTER * 3, question("which dog does my sister have?")]
    await append(client, conversation, *entries)
    await indexed(client, conversation)
    query = dict(pair.split("=") for pair in f"{SMALL}&explain=true{more}".split("&"))
    stored = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
    typed = {name: json.loads(value) if value[0] in "0123456789tf" else value for name, value in query.items()}
    posted = (await client.post("/window", json={**typed, "messages": entries})).json()
    assert 1 in stored["recalled"]["seqs"]
    assert stored["grounding"] == posted["grounding"]
    assert stored["request"] == posted["request"]
    lines, rest = stored.get("explain", []), posted.get("explain", [])
    assert [line for line in rest if line in lines] == lines
    if lines:
        assert [each["id"] for each in lines[0]["documents"]] == ["d-1", None]
        assert len(lines) < len(rest)  # not all was read


async def test_a_late_result_is_told_with_its_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A late result whose call is before what was read has no line there, and with its call the line that the body gives."""
    call = {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    late = [{"message": {"role": "tool", "tool_call_id": "c-1", "content": "found"}}, *CHATTER[:6]]
    entries = [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}, *CHATTER, *late]
    await append(client, conversation, *entries)
    asked = {"model": "gpt-4o-mini", "reserve": 0, "limit": 5, "explain": True}
    for limit in (5, 9, 130):
        query = {**asked, "explain": "true", "limit": limit}
        stored = (await client.get(f"/conversations/{conversation}/window", params=query)).json()["explain"]
        posted = (await client.post("/window", json={**asked, "limit": limit, "messages": entries})).json()["explain"]
        assert [line for line in posted if line in stored] == stored, limit


async def test_hints_of_a_window_that_recalls_the_reply(client: httpx.AsyncClient, conversation: str) -> None:
    """The window of the turn before ends before the newest reply, and so has it not, also if this one recalls it."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    reply = {"message": {"role": "assistant", "content": "the dog of your sister is called Biscuit, as she said"}}
    note = {"message": {"role": "system", "content": "be brief"}}
    await append(client, conversation, *CHATTER, question("which dog does my sister have?"), reply, note)
    await indexed(client, conversation)
    query = "model=gpt-5.2&reserve=0&max_tokens=90&recall_max_tokens=60&cache=auto"
    window = await client.get(f"/conversations/{conversation}/window?{query}")
    assert window.status_code == 200, window.text
    assert len(CHATTER) + 2 in window.json()["recalled"]["seqs"]
