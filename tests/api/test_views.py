"""``view``: what one of several agents sees of a conversation, by every route that takes a view."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import (
    append,
    assistant,
    calling,
    every_page,
    history,
    indexed,
    problem,
    result,
    statistics,
    user,
    window,
)

ASKED = user("Why was I billed twice?")
TRIAGE = [
    calling("t-1", text="Let me look.", author="triage"),
    result("t-1", "4 invoices", author="triage"),
    calling("t-2", author="triage"),
    result("t-2", "paid twice"),
    assistant("You paid twice. Billing takes over.", author="triage"),
]
SECRET = assistant("SECRET: the risk score is 0.9", author="triage", audience=["fraud"])
BILLING = [calling("b-1", author="billing"), result("b-1", "refunded", author="billing")]
ALL = (ASKED, *TRIAGE, SECRET, *BILLING)


def messages_of(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry["message"] for entry in entries]


async def sent(client: httpx.AsyncClient, conversation: str, **query: Any) -> list[dict[str, Any]]:
    """The messages of a window's request."""
    messages: list[dict[str, Any]] = (await window(client, conversation, **query))["request"]["messages"]
    return messages


async def seen(client: httpx.AsyncClient, conversation: str, view: str, **query: Any) -> list[dict[str, Any]]:
    """What a listing gives to an agent, over all its pages."""
    return await every_page(client, conversation, view=view, **query)


async def test_another_agents_tool_groups_become_their_last_text(client: httpx.AsyncClient, conversation: str) -> None:
    """Calls and results of others are left out, and so is what they said before their last words of the turn."""
    await append(client, conversation, *ALL)
    assert await sent(client, conversation, view="billing") == messages_of(ASKED, TRIAGE[-1], *BILLING)
    assert await sent(client, conversation, view="triage") == messages_of(ASKED, *TRIAGE, SECRET)
    assert await sent(client, conversation, view="fraud") == messages_of(ASKED, TRIAGE[-1], SECRET)
    assert await sent(client, conversation) == messages_of(*ALL)


async def test_the_only_words_of_a_group_stay(client: httpx.AsyncClient, conversation: str) -> None:
    """Where an agent said nothing after its calls, what it said with the last of them is sent, counted to the token."""
    await append(client, conversation, ASKED, *TRIAGE[:4])
    found = await window(client, conversation, view="billing")
    expected = messages_of(ASKED, assistant("Let me look."))
    assert found["request"]["messages"] == expected
    counted = await client.post("/count", json={"model": "gpt-4o-mini", "messages": expected})
    assert found["tokens"]["total"] == counted.json()["tokens"]
    assert found["exact"]


async def test_a_stored_view_is_that_of_the_body(client: httpx.AsyncClient, conversation: str) -> None:
    """``POST /window`` with the same entries and view gives the same window, with any parameter."""
    question = user("And now?", grounding={"documents": [{"text": "Invoice 7"}]}, audience=["billing"])
    entries = [*ALL, assistant("Refunded.", author="billing"), question, assistant("internal", audience=["triage"])]
    await append(client, conversation, *entries)
    for query in (
        {"view": "billing"},
        {"view": "billing", "explain": True, "note": True},
        {"view": "triage", "format": "anthropic", "model": "claude-sonnet-4-5"},
        {"view": "billing", "stable": True, "max_tokens": 60},
        {"view": "billing", "limit": 2, "grounding": "all"},
        {"view": "somebody", "format": "gemini", "model": "gemini-2.5-pro"},
    ):
        stored = await window(client, conversation, **query)
        posted = await client.post("/window", json={"model": "gpt-4o-mini", **query, "messages": entries})
        assert posted.status_code == 200, posted.text
        for name in ("request", "tokens", "kept", "dropped", "stop_reason", "grounding", "note", "explain"):
            assert stored.get(name) == posted.json().get(name), (name, query)


async def test_a_hidden_question_is_nobodys(client: httpx.AsyncClient, conversation: str) -> None:
    """The newest question is the newest that the agent sees, with its documents."""
    documents = {"documents": [{"text": "Invoice 7"}]}
    await append(
        client,
        conversation,
        user("for all", grounding=documents),
        user("for triage", audience=["triage"], grounding={"documents": [{"text": "SECRET"}]}),
    )
    found = await window(client, conversation, view="billing", explain=True)
    assert found["request"]["messages"][-1]["content"].startswith("for all\n\nSources:\nInvoice 7")
    assert "SECRET" not in json.dumps(found)


async def test_a_pinned_message_for_others_is_not_in_a_view(client: httpx.AsyncClient, conversation: str) -> None:
    """Neither pins nor the role of a system message bring what is for others into a view, however old it is."""
    await append(
        client,
        conversation,
        user("pinned", pinned=True, audience=["triage"]),
        {"role": "system", "content": "for triage", "audience": ["triage"]},
        user("pinned for all", pinned=True),
    )
    for turn in range(40):
        await append(client, conversation, user(f"turn {turn} " + "day " * 30))
    found = await sent(client, conversation, view="billing", max_tokens=200)
    assert found[0]["content"] == "pinned for all"
    assert not {"pinned", "for triage"} & {each["content"] for each in found}


async def test_a_pinned_group_of_another_agent_is_its_text(client: httpx.AsyncClient, conversation: str) -> None:
    """A pinned tool group before the tail is sent as its text, too."""
    call = calling("t-1", text="I looked.", author="triage", pinned=True)
    await append(client, conversation, ASKED, call, result("t-1", "SECRET"))
    for turn in range(40):
        await append(client, conversation, user(f"turn {turn} " + "day " * 30))
    found = await window(client, conversation, view="billing", max_tokens=200)
    assert found["request"]["messages"][0] == {"role": "assistant", "content": "I looked."}
    counted = await client.post("/count", json={"model": "gpt-4o-mini", **found["request"]})
    assert found["tokens"]["total"] == counted.json()["tokens"]


async def test_a_result_for_others_hides_its_calls(client: httpx.AsyncClient, conversation: str) -> None:
    """A call whose result an agent may not see is no call for it, so that no provider misses the result."""
    await append(
        client, conversation, ASKED, calling("c-1", text="Looking."), result("c-1", "SECRET", audience=["triage"])
    )
    assert await sent(client, conversation, view="billing") == messages_of(ASKED, assistant("Looking."))


@pytest.mark.parametrize("through", [2, 4])
async def test_a_summary_is_for_those_who_see_what_it_covers(
    client: httpx.AsyncClient, conversation: str, through: int
) -> None:
    """A summary that covers a message for others is not in a view, also after an import and a fork."""
    told = [user("one"), assistant("two"), user("three", audience=["triage"]), assistant("four")]
    await append(client, conversation, *told, user("five"))
    put = await client.put(
        f"/conversations/{conversation}/summary", json={"text": "They talked.", "through_seq": through}
    )
    assert put.status_code == 200, put.text
    exported = (await client.get(f"/conversations/{conversation}/export")).content
    imported = await client.post(
        "/conversations/import?id=in", content=exported, headers={"Content-Type": "application/x-ndjson"}
    )
    assert imported.status_code == 201, imported.text
    assert (await client.post(f"/conversations/{conversation}/fork", json={"id": "out"})).status_code == 201
    for name in (conversation, "in", "out"):
        for view, is_sent in (("triage", True), ("billing", through == 2)):
            found = await window(client, name, view=view, summary="always")
            assert found["summary_used"] == is_sent, (name, view)
            assert ("They talked." in json.dumps(found)) == is_sent


async def test_a_listing_has_what_the_agent_sees(client: httpx.AsyncClient, conversation: str) -> None:
    """Pages leave out messages for others and results of others' calls, also where the call is on another page."""
    await append(client, conversation, *ALL)
    expected = [1, 2, 6, 8, 9]
    for limit in (1, 2, 100):
        for order in ("asc", "desc"):
            found = await seen(client, conversation, "billing", limit=limit, order=order)
            assert sorted(each["seq"] for each in found) == expected
    text = next(each for each in found if each["seq"] == 2)
    assert text["message"] == {"role": "assistant", "content": "Let me look."}
    plain = await client.post("/count", json={"model": "gpt-4o", "messages": [text["message"]]})
    assert text["tokens"]["o200k_base"] == plain.json()["messages"][0]
    assert [each["seq"] for each in await history(client, conversation)] == [*range(1, 10)]


async def test_recall_brings_nothing_for_others_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Messages for others are not recalled, though they bear on the question best."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(
        client,
        conversation,
        assistant("SECRET zebra code 17", audience=["triage"]),
        calling("t-1", text="zebra SECRET call", author="triage"),
        result("t-1", "zebra SECRET result"),
        assistant("The zebra code is 4.", audience=["billing"]),
    )
    for turn in range(30):
        await append(client, conversation, user(f"turn {turn} " + "day " * 30), assistant("ok"))
    await append(client, conversation, user("Which zebra code?"))
    await indexed(client, conversation)
    for stable in (False, True):
        found = await window(
            client, conversation, view="billing", max_tokens=300, recall_max_tokens=100, stable=stable, explain=True
        )
        assert "The zebra code is 4." in json.dumps(found["request"])
        assert "SECRET" not in json.dumps(found)


@pytest.mark.parametrize("path", ["/conversations/{0}/search", "/owners/{0}/search"])
async def test_a_search_finds_nothing_for_others(client: httpx.AsyncClient, conversation: str, path: str) -> None:
    """A search of a conversation and one of an owner give an agent only what it sees, with documents and metadata."""
    await client.post("/conversations", json={"id": conversation, "owner": conversation, "recall": "lexical"})
    hidden = {
        "audience": ["triage"],
        "metadata": {"SECRET": 17},
        "grounding": {"documents": [{"text": "SECRET zebra"}]},
    }
    await append(
        client,
        conversation,
        user("Which zebra code?"),
        calling("t-1", text="zebra call", author="triage"),
        result("t-1", "SECRET zebra result"),
        user("SECRET zebra code 17", **hidden),
        user("SECRET zebra code 18", **hidden),
        assistant("The zebra code is 4.", audience=["billing"]),
    )
    await indexed(client, conversation)

    async def found(view: str, limit: int) -> list[int]:
        query = {"query": "SECRET zebra code", "limit": limit, "view": view}
        answer = await client.get(path.format(conversation), params=query)
        assert answer.status_code == 200, answer.text
        assert view == "triage" or "SECRET" not in answer.text
        return [each["seq"] for each in answer.json()["messages"]]

    assert sorted(await found("billing", 10)) == [1, 2, 6]
    assert sorted(await found("triage", 10)) == [1, 2, 3, 4, 5]
    assert len(await found("billing", 2)) == 2


async def test_views_are_counted_without_names(client: httpx.AsyncClient, conversation: str) -> None:
    """A view is counted, with what it left out for others, and no metric has an agent's name."""
    await append(client, conversation, *ALL)
    before = (await statistics(client))["start"]["all"]
    await window(client, conversation, view="billing")
    await window(client, conversation)
    after = (await statistics(client))["start"]["all"]
    assert after["views"] - before["views"] == 1
    assert after["view_messages_unseen"] - before["view_messages_unseen"] == len(ALL) - 4
    assert "billing" not in (await client.get("/metrics")).text


async def test_a_message_for_others_is_not_there(client: httpx.AsyncClient, conversation: str) -> None:
    """A message that a view does not have is 404 by its seq and its id, as one that is not stored; another is as listed."""
    hidden = SECRET | {"id": "m-7"}
    await append(client, conversation, ASKED, *TRIAGE, hidden, *BILLING)
    path = f"/conversations/{conversation}/messages"
    absent = problem(await client.get(f"{path}/99"), 404, "not-found")
    for name in ("7", "id:m-7", "3", "4"):
        answer = await client.get(f"{path}/{name}", params={"view": "billing"})
        told = problem(answer, 404, "not-found")
        assert told | {"instance": ""} == absent | {"instance": ""}
        assert (await client.get(f"{path}/{name}", params={"view": "triage"})).status_code == 200
    (await client.delete(f"{path}/3")).raise_for_status()
    listed = await seen(client, conversation, "billing")
    for entry in listed:
        assert (await client.get(f"{path}/{entry['seq']}", params={"view": "billing"})).json() == entry


async def test_an_export_of_a_view_is_no_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """An export with a view has what the agent sees and names the view, and an import of it is refused in plain words."""
    await append(client, conversation, *ALL)
    path = f"/conversations/{conversation}"
    await client.put(f"{path}/summary", json={"text": "SECRET", "through_seq": 7})
    exported = await client.get(f"{path}/export", params={"view": "billing"})
    head, *lines = [json.loads(line) for line in exported.text.splitlines()]
    assert (head["view"], head["summary"], head["messages"]["count"]) == ("billing", None, len(ALL))
    assert lines == await seen(client, conversation, "billing")
    assert (await client.get(f"{path}?view=billing")).json()["summary"] is None
    assert (await client.get(f"{path}?view=fraud")).json()["summary"]["text"] == "SECRET"
    again = {"If-None-Match": exported.headers["etag"]}
    assert (await client.get(f"{path}/export?view=billing", headers=again)).status_code == 304
    kind = {"Content-Type": "application/x-ndjson"}
    refused = await client.post("/conversations/import?id=part", content=exported.content, headers=kind)
    told = problem(refused, 400, "bad-request")
    assert told["errors"][0]["pointer"] == "#/lines/1/view"
    assert "export without view" in told["detail"]
    assert (await client.get("/conversations/part")).status_code == 404


@pytest.mark.parametrize("view", ["", "x" * 65, "bill\ning"])
async def test_a_wrong_view_is_refused(client: httpx.AsyncClient, conversation: str, view: str) -> None:
    """A view is an agent's name; another text is 400, with the parameter's place, and nothing happens."""
    await append(client, conversation, ASKED)
    answer = await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o", "view": view})
    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == "#/query/view"
    for path in ("", "/messages", "/messages/1", "/export", "/events"):
        assert (await client.get(f"/conversations/{conversation}{path}", params={"view": view})).status_code == 400


async def test_an_unknown_agent_sees_what_all_see(client: httpx.AsyncClient, conversation: str) -> None:
    """A name that nobody has sees what is for everybody: a view is a filter, and no list of agents."""
    await append(client, conversation, *ALL)
    assert await sent(client, conversation, view="nobody") == messages_of(ASKED, TRIAGE[-1])


async def test_a_note_counts_what_is_for_others(client: httpx.AsyncClient, conversation: str) -> None:
    """A view's note has the messages for others, also where the window has all that the agent sees."""
    await append(client, conversation, user("Hi."), SECRET, user("And?"))
    found = await window(client, conversation, view="billing", note="true")
    assert (found["note"], found["dropped"]["messages"]) == (1, 1)
    assert (await window(client, conversation, view="fraud", note="true"))["note"] == 0


async def test_a_compaction_with_late_results_before_the_tail_of_a_view(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A view whose first message is a call behind its compaction asks for nothing twice: there is a window at once."""
    compacted = {"role": "assistant", "content": [{"type": "compaction", "content": "They met."}]}
    await append(client, conversation, {"message": compacted, "author": "cid"}, format="anthropic")
    await append(client, conversation, calling("b", "c", author="cid"), result("b", "day " * 1800), result("c", "ok"))
    await append(client, conversation, user("And now?"))
    asked = {"model": "gpt-4o", "max_tokens": 150, "view": "cid"}
    found = await asyncio.wait_for(window(client, conversation, **asked), timeout=20)
    assert found["request"]["messages"][-1] == user("And now?")["message"]


@pytest.mark.parametrize("form", ["openai", "anthropic", "gemini"])
async def test_documents_for_others_and_hints_for_the_cache(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """An earlier question with documents that is for another agent does not disturb the hints of a view's window."""
    theirs = user("For ada.", audience=["ada"], grounding={"documents": [{"text": "Invoice 7"}]})
    await append(client, conversation, theirs, assistant("Hello."), assistant("What is it?"), user("My bill."))
    for view in ("ada", "bob"):
        asked = {"model": "claude-sonnet-4-5", "view": view, "cache": "auto", "format": form, "reserve": 0}
        found = await window(client, conversation, **asked)
        assert found["kept"]["messages"] == (4 if view == "ada" else 3)


async def test_the_newest_message_of_an_agent_is_in_its_windows(client: httpx.AsyncClient, conversation: str) -> None:
    """However much was said to others since, and however small the budget: the newest question that an agent sees is in its
    window, and so is the newest tool group. A refused window says how much is enough.
    """
    mine = (user("My bill: " + "day " * 60, audience=["bob"]), calling("b", author="bob"), result("b", author="bob"))
    await append(client, conversation, *mine)
    for _ in range(4):
        await append(client, conversation, *[user("day " * 30, audience=["ada"])] * 50)
    asked = {"model": "gpt-4o-mini", "view": "bob", "reserve": 0}
    for refused in (10, 60):
        answer = await client.get(f"/conversations/{conversation}/window", params={**asked, "max_tokens": refused})
        assert answer.status_code == 422, answer.text
        enough = refused + answer.json()["shortfall"]
        found = await window(client, conversation, **asked, max_tokens=enough)
        assert found["request"]["messages"] == messages_of(*mine)
        assert found["stop_reason"] == "horizon"
        assert found["tokens"]["total"] <= enough


async def test_a_view_of_nothing_is_empty(client: httpx.AsyncClient, conversation: str) -> None:
    """Where an agent sees no message, its window has none."""
    await append(client, conversation, *[user("day " * 30, audience=["ada"])] * 90)
    found = await window(client, conversation, view="bob", max_tokens=50)
    assert found["request"]["messages"] == []


async def test_a_summary_for_others_does_not_stand_in_the_way_of_a_compaction(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """An agent's own compaction stands in its windows, also where a later summary covers more, of messages for others."""
    block = {"type": "compaction", "content": "They met."}
    await append(client, conversation, user("Hi.", audience=["bob"]), user("Hello."))
    compacted = {"message": {"role": "assistant", "content": [block]}, "author": "ada"}
    await append(client, conversation, compacted, format="anthropic")
    await append(client, conversation, assistant("Yes?"), user("Go on."))
    told = "Summary of the conversation so far:\n"
    own = [{"role": "system", "content": f"{told}They met."}, *messages_of(assistant("Yes?"), user("Go on."))]
    assert await sent(client, conversation, view="ada") == own
    await client.put(f"/conversations/{conversation}/summary", json={"text": "All of it.", "through_seq": 4})
    assert await sent(client, conversation, view="ada") == own


async def test_a_compaction_of_another_agent_does_not_stand_in_the_way_of_a_summary(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A summary for all stands in each agent's windows, also where another agent's compaction covers more."""
    block = {"type": "compaction", "content": "They met."}
    await append(client, conversation, user("Hi."), user("Hello."))
    await client.put(f"/conversations/{conversation}/summary", json={"text": "Greetings.", "through_seq": 1})
    compacted = {"message": {"role": "assistant", "content": [block]}, "author": "ada"}
    await append(client, conversation, compacted, format="anthropic")
    await append(client, conversation, user("Go on."))
    summary = {"role": "system", "content": "Summary of the conversation so far:\nGreetings."}
    expected = [summary, *messages_of(user("Hello."), user("Go on."))]
    assert await sent(client, conversation, view="bob", summary="always") == expected


async def test_a_function_s_result_behind_no_call_of_it_is_listed_as_windows_have_it(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """What stands before a result of the older form is its call only if it calls a function."""
    answered = {"message": {"role": "function", "name": "look", "content": "done"}}
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    await append(client, conversation, user("Hi."), {"message": call}, user("Secret.", audience=["ada"]), answered)
    expected = [*messages_of(user("Hi.")), call, answered["message"]]
    assert [each["message"] for each in await seen(client, conversation, "bob")] == expected
    assert await sent(client, conversation, view="bob") == expected


async def test_what_another_said_has_no_blank_part(client: httpx.AsyncClient) -> None:
    """Another's call is sent as what it said, without parts that are blank texts, which Claude and Kimi refuse."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    parts = [{"type": "text", "text": " \n"}, {"type": "text", "text": "I look."}]
    messages = [
        {"message": {"role": "user", "content": "q"}},
        {"message": {"role": "assistant", "content": parts, "tool_calls": [call]}, "author": "triage"},
        {"message": {"role": "tool", "tool_call_id": "c1", "content": "x"}, "author": "triage"},
        {"message": {"role": "user", "content": "and?"}},
    ]
    answer = await client.post("/window", json={"model": "kimi-k2.5", "view": "billing", "messages": messages})
    assert answer.json()["request"]["messages"][1] == {"role": "assistant", "content": parts[1:]}
