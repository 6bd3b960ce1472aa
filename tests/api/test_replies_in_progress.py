"""Replies that are stored while they are generated: replaced under their id, left out of windows, ended once."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, etag_of, history, problem, result, user, window


def reply(text: str, status: str | None = "in_progress", **envelope: Any) -> dict[str, Any]:
    return assistant(text, **{"id": "r-1", **({"status": status} if status else {}), **envelope})


async def tokens(client: httpx.AsyncClient, conversation: str) -> tuple[int, int]:
    """Return the conversation's total of tokens, and the sum over its messages."""
    said = (await client.get(f"/conversations/{conversation}")).json()["tokens"]["o200k_base"]
    return said, sum(message["tokens"]["o200k_base"] for message in await history(client, conversation))


async def test_a_reply_grows_and_ends(client: httpx.AsyncClient, conversation: str) -> None:
    """Each longer part replaces the one before at the same seq; versions, ETags and totals follow."""
    await append(client, conversation, user("Tell me a story."))
    tags = [await etag_of(client, conversation)]
    for text in ("Once", "Once upon", "Once upon a time"):
        body = await append(client, conversation, reply(text))
        assert (body["first_seq"], body["messages"][0]["duplicate"]) == (2, False)
        tags.append(await etag_of(client, conversation))
        said, summed = await tokens(client, conversation)
        assert said == summed
    assert len(set(tags)) == 4

    body = await append(client, conversation, reply("Once upon a time. The end.", "completed"))

    assert (body["version"], body["last_seq"]) == (5, 2)
    stored = await history(client, conversation)
    assert [message["message"]["content"] for message in stored] == ["Tell me a story.", "Once upon a time. The end."]
    assert stored[1]["status"] == "completed"
    said, summed = await tokens(client, conversation)
    assert said == summed


async def test_windows_leave_it_out(client: httpx.AsyncClient, conversation: str) -> None:
    """Windows leave out a reply in progress, and include it once it was interrupted."""
    await append(client, conversation, user("Tell me a story."), reply("Once upon"))
    asked = await window(client, conversation, explain=True)
    assert [message["role"] for message in asked["request"]["messages"]] == ["user"]
    assert asked["explain"][1]["reason"] == "a reply in progress"
    assert asked["stop_reason"] == "complete"

    await append(client, conversation, reply("Once upon", "interrupted"))

    made = await window(client, conversation)
    assert [message["content"] for message in made["request"]["messages"]] == ["Tell me a story.", "Once upon"]
    assert (await history(client, conversation))[1]["status"] == "interrupted"


async def test_a_tool_group_before_it_is_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """A window of few messages has the newest tool group whole, also if a reply in progress follows the group."""
    await append(client, conversation, user("Look."), calling("a", "b"), result("a"), result("b"), reply("I found"))
    for limit in (1, 2, 3, 4):
        made = await window(client, conversation, limit=limit)
        assert [message["role"] for message in made["request"]["messages"]] == ["user", "assistant", "tool", "tool"]


async def test_it_is_left_out_when_others_came_after(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply in progress that other messages follow stays out of windows until it is finished where it stands."""
    await append(client, conversation, user("A story?"), reply("Once upon"), user("Are you there?", id="u-2"))

    made = await window(client, conversation)
    again = await append(client, conversation, reply("Once upon"))
    more = await append(client, conversation, reply("Once upon a time"))
    ended = await append(client, conversation, reply("Once upon a time. The end.", "completed"), model="gpt-4o-mini")

    assert [message["content"] for message in made["request"]["messages"]] == ["A story?", "Are you there?"]
    assert again["messages"][0]["duplicate"] is True
    assert [each["messages"][0]["seq"] for each in (more, ended)] == [2, 2]
    sent = [message["content"] for message in ended["window"]["request"]["messages"]]
    assert sent == ["A story?", "Once upon a time. The end.", "Are you there?"]
    said, summed = await tokens(client, conversation)
    assert said == summed


async def test_two_tabs_stream_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Two replies in progress grow and end in any order; each stays at its place, and no text is lost."""
    await append(client, conversation, user("A story?"), reply("Once", id="one"))
    await append(client, conversation, user("A poem?"), reply("Roses", id="two"))
    await append(client, conversation, reply("Once upon", id="one"))
    await append(client, conversation, reply("Roses are", id="two"))
    await append(client, conversation, user("Well?"))
    await append(client, conversation, reply("Roses are red.", "interrupted", id="two"), assistant("Well."))
    await append(client, conversation, reply("Once upon a time.", "completed", id="one"))

    stored = [each["message"]["content"] for each in await history(client, conversation)]
    assert stored == ["A story?", "Once upon a time.", "A poem?", "Roses are red.", "Well?", "Well."]
    made = await window(client, conversation)
    assert [each["content"] for each in made["request"]["messages"]] == stored
    said, summed = await tokens(client, conversation)
    assert said == summed
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [reply("x", id="one")]})
    assert "after_seq" in problem(answer, 409, "entry-conflict")["detail"]


async def test_an_overtaken_reply_may_end_with_calls(client: httpx.AsyncClient, conversation: str) -> None:
    """Calls of a reply that ends behind other messages take their results, which windows send right after it."""
    await append(client, conversation, user("Look."), reply("I look", id="r"), user("Are you there?"))
    await append(client, conversation, calling("c-1", text="I look.", id="r", status="completed"))
    await append(client, conversation, result("c-1", "found"))

    made = await window(client, conversation)
    roles = [message["role"] for message in made["request"]["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]


async def test_a_summary_goes_when_a_reply_under_it_ends(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary does not know the end of a reply that it covers, so it goes when the reply ends."""
    await append(client, conversation, user("A story?"), reply("Once"), user("Well?"), user("Hello?"))
    path = f"/conversations/{conversation}"
    await client.put(f"{path}/summary", json={"text": "A story was asked for.", "through_seq": 3})

    await append(client, conversation, reply("Once upon a time.", "completed"))

    assert (await client.get(path)).json()["summary"] is None


@pytest.mark.parametrize("status", ["completed", "interrupted", None])
async def test_what_has_ended_stays(client: httpx.AsyncClient, conversation: str, status: str | None) -> None:
    """After a reply has ended, the same content under its id is a duplicate, and other content is a conflict."""
    await append(client, conversation, user("A story?"), reply("Once"))
    await append(client, conversation, reply("Once upon", status))

    again = await append(client, conversation, reply("Once upon", status))
    assert again["messages"][0]["duplicate"] is True
    for other in (reply("Once upon a time"), reply("Once upon"), reply("Twice", "completed")):
        answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [other]})
        problem(answer, 409, "entry-conflict")
    assert (await history(client, conversation))[1]["message"]["content"] == "Once upon"


async def test_a_late_retry_does_not_shorten_it(client: httpx.AsyncClient, conversation: str) -> None:
    """A part that is shorter than the stored one is refused, unless it ends the reply."""
    await append(client, conversation, user("A story?"), reply("Once upon a time"))

    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [reply("Once")]})
    refused = problem(answer, 409, "entry-conflict")
    assert refused["errors"][0]["detail"] == "A longer text of this reply in progress is stored"
    assert refused["detail"].endswith("send the whole text so far, or end the reply with its status.")
    await append(client, conversation, reply("Once.", "completed"))

    assert (await history(client, conversation))[1]["message"]["content"] == "Once."


async def test_the_end_and_the_next_question_in_one_request(client: httpx.AsyncClient, conversation: str) -> None:
    """One request may end a reply and add the next question; the window in its answer holds both."""
    await append(client, conversation, user("A story?", id="u-1"), reply("Once"))

    body = await append(
        client, conversation, reply("Once upon", "interrupted"), user("Go on.", id="u-2"), model="gpt-4o-mini"
    )

    assert [message["seq"] for message in body["messages"]] == [2, 3]
    assert [message["content"] for message in body["window"]["request"]["messages"]] == [
        "A story?",
        "Once upon",
        "Go on.",
    ]


async def test_calls_count_when_the_reply_is_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """Results for calls of a reply in progress are orphans; those for calls of a completed reply are stored."""
    await append(client, conversation, user("Look."), calling("c-1", id="r-1", status="in_progress"))
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [result("c-1")]})
    problem(answer, 422, "orphan-tool-result")

    await append(client, conversation, calling("c-1", "c-2", id="r-1", status="completed"))
    body = await append(client, conversation, result("c-1"), result("c-2"))

    assert body["last_seq"] == 4
    assert (await window(client, conversation))["kept"]["messages"] == 4


async def test_only_replies(client: httpx.AsyncClient, conversation: str) -> None:
    """A user message with ``in_progress`` is 422, the error points to the status, and nothing is stored."""
    entry = user("Hello", status="in_progress")
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})

    assert problem(answer, 422, "unprocessable")["errors"][0]["pointer"] == "#/messages/0/status"
    assert await history(client, conversation) == []


async def test_conditions_hold(client: httpx.AsyncClient, conversation: str) -> None:
    """Replacing a reply with an outdated ``If-Match`` is 412, like every write."""
    await append(client, conversation, user("A story?"))
    old = await etag_of(client, conversation)
    await append(client, conversation, reply("Once"))

    answer = await client.post(
        f"/conversations/{conversation}/messages", json={"messages": [reply("Once upon")]}, headers={"If-Match": old}
    )

    problem(answer, 412, "precondition-failed")
    assert (await history(client, conversation))[1]["message"]["content"] == "Once"


async def test_pins_and_notes_come_with_the_end(client: httpx.AsyncClient, conversation: str) -> None:
    """A pinned reply is in small windows once it is completed, and has the metadata of its last part."""
    await append(client, conversation, user("A story?"), reply("Once", pinned=True, metadata={"part": 1}))
    assert (await window(client, conversation))["kept"]["messages"] == 1
    await append(client, conversation, reply("Once upon", "completed", pinned=True, metadata={"part": 2}))
    await append(client, conversation, *(user("word " * 50) for _ in range(20)))

    stored = (await history(client, conversation))[1]
    assert (stored["pinned"], stored["metadata"]) == (True, {"part": 2})
    made = await window(client, conversation, max_tokens=200)
    assert "Once upon" in [message["content"] for message in made["request"]["messages"]]


async def test_copies_and_edits(client: httpx.AsyncClient, conversation: str) -> None:
    """Export, import, fork, redaction and rewind work with a reply in progress."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("A story?"), reply("Once"))
    lines = (await client.get(f"{path}/export")).content
    headers = {"content-type": "application/x-ndjson"}
    copy = await client.post(f"/conversations/import?id={conversation}-copy", content=lines, headers=headers)
    fork = await client.post(f"{path}/fork", json={"id": f"{conversation}-fork", "at_seq": 2})
    assert (copy.status_code, fork.status_code) == (201, 201)
    for name in ("copy", "fork"):
        assert (await history(client, f"{conversation}-{name}"))[1]["status"] == "in_progress"
        assert (await window(client, f"{conversation}-{name}"))["kept"]["messages"] == 1
    exported = (await client.get(f"{path}-copy/export")).text
    assert exported.replace(f"{conversation}-copy", conversation) == lines.decode()

    assert (await client.delete(f"{path}/messages/2")).status_code == 204
    again = await append(client, conversation, reply("Once upon"))
    assert again["messages"][0]["duplicate"] is True
    assert "Once" not in str(await history(client, conversation))
    assert (await client.post(f"{path}/rewind", json={"to_seq": 1})).status_code == 200
    await append(client, conversation, reply("Anew"))
    await append(client, conversation, reply("Anew, then.", "completed"))
    said, summed = await tokens(client, conversation)
    assert (said, (await window(client, conversation))["kept"]["messages"]) == (summed, 2)


async def test_in_a_body(client: httpx.AsyncClient) -> None:
    """POST /window leaves out a reply in progress, too."""
    body = {"model": "gpt-4o", "messages": [user("A story?"), reply("Once")]}
    made = (await client.post("/window", json=body)).json()
    assert made["kept"]["messages"] == 1


async def test_no_summary_covers_a_reply_in_progress(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary through a reply in progress is 422, because the reply's next part would change under it."""
    await append(client, conversation, user("Tell me a story."), reply("Once"))
    path = f"/conversations/{conversation}/summary"
    refused = problem(await client.put(path, json={"text": "A story.", "through_seq": 2}), 422, "unprocessable")
    assert refused["errors"][0]["pointer"] == "#/through_seq"
    assert (await client.put(path, json={"text": "A question.", "through_seq": 1})).status_code == 200
    await append(client, conversation, reply("Once upon a time. The end.", "completed"))
    assert (await client.put(path, json={"text": "A story.", "through_seq": 2})).status_code == 200
