"""A reply in progress that another tab takes away: its writer learns of it, and nothing of it comes back."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, etag_of, history, problem, user

MODEL = "gpt-4o-mini"


def part(text: str, status: str = "in_progress", **members: Any) -> dict[str, Any]:
    return assistant(text, **{"id": "r-1", "status": status, "continues": True, **members})


async def refused(client: httpx.AsyncClient, conversation: str, *entries: dict[str, Any], **query: Any) -> None:
    """Check that these entries are 410, and that the history and its ETag stay."""
    before, tag = await history(client, conversation), await etag_of(client, conversation)
    sent = {"messages": entries}
    answer = await client.post(f"/conversations/{conversation}/messages", json=sent, params=query)
    gone = problem(answer, 410, "reply-gone")
    assert gone["errors"][0]["pointer"] == "#/messages/0/id"
    assert "a rewind or an erasure took it away" in gone["detail"]
    assert (await history(client, conversation), await etag_of(client, conversation)) == (before, tag)


async def begun(client: httpx.AsyncClient, conversation: str) -> None:
    await append(client, conversation, user("A story?", id="q-1"), part("Once", continues=False))


async def test_a_regenerated_reply_is_not_stored_anew(client: httpx.AsyncClient, conversation: str) -> None:
    """A tab streams, another one regenerates. The first tab's parts and its end are 410, with a window or without."""
    await begun(client, conversation)
    await append(client, conversation, part("Once upon"))
    await append(client, conversation, assistant("Anew.", id="r-2"), after_seq="id:q-1")

    await refused(client, conversation, part("Once upon a time"))
    for status in ("completed", "interrupted"):
        await refused(client, conversation, part("Once upon a time.", status))
    await refused(client, conversation, part("Once upon a time.", "completed"), user("Go on.", id="q-2"), model=MODEL)
    assert [each["id"] for each in await history(client, conversation)] == ["q-1", "r-2"]


async def test_an_erased_reply_stays_erased(client: httpx.AsyncClient, conversation: str) -> None:
    """The end of a reply that was erased while it was written is 410, and not a duplicate."""
    await begun(client, conversation)
    assert (await client.delete(f"/conversations/{conversation}/messages/id:r-1")).status_code == 204

    await refused(client, conversation, part("Once upon a time.", "completed"))


async def test_an_erased_conversation_does_not_begin_again(client: httpx.AsyncClient, conversation: str) -> None:
    """The end of a reply whose conversation was erased is 410, and creates no conversation."""
    await begun(client, conversation)
    assert (await client.delete(f"/conversations/{conversation}")).status_code == 204
    sent = {"messages": [part("Once upon a time.", "completed")]}
    path = f"/conversations/{conversation}"

    problem(await client.post(f"{path}/messages", json=sent), 410, "reply-gone")
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize("status", ["completed", "interrupted"])
async def test_its_end_is_stored_once(client: httpx.AsyncClient, conversation: str, status: str) -> None:
    """Where the reply is there, each part and its end replace it; the end sent again is a duplicate, another end is 409, and
    410 where it was interrupted."""
    await begun(client, conversation)
    for text in ("Once upon", "Once upon a"):
        assert (await append(client, conversation, part(text)))["messages"][0]["seq"] == 2
    ended = await append(client, conversation, part("Once upon a time.", status), user("Go on."), model=MODEL)
    assert [each["content"] for each in ended["window"]["request"]["messages"]][1:] == ["Once upon a time.", "Go on."]

    again = await append(client, conversation, part("Once upon a time.", status))

    assert again["messages"][0]["duplicate"] is True
    sent = {"messages": [part("Another end.", status)]}
    refused = (409, "entry-conflict") if status == "completed" else (410, "reply-gone")
    problem(await client.post(f"/conversations/{conversation}/messages", json=sent), *refused)


async def test_it_continues_nothing_that_its_own_request_forgets(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``after_seq`` before the reply, the request is 410 and forgets nothing."""
    await begun(client, conversation)

    await refused(client, conversation, part("Once upon a time.", "completed"), after_seq=1)


async def test_items_of_a_reply_continue_it(client: httpx.AsyncClient, conversation: str) -> None:
    """The items of Responses end a reply in progress; after a rewind they are 410."""
    await begun(client, conversation)
    text = {"type": "output_text", "text": "Once upon a time.", "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    entry = {"id": "r-1", "continues": True, "status": "completed", "message": [item]}
    ended = await append(client, conversation, entry, format="responses")
    assert ended["messages"][0] == {**ended["messages"][0], "seq": 2, "id": "r-1", "duplicate": False}
    await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 1})

    await refused(client, conversation, entry, format="responses")


async def test_what_cannot_continue_says_so(client: httpx.AsyncClient, conversation: str) -> None:
    """Without an id, or with another role, ``continues`` is 422 and points to itself."""
    await begun(client, conversation)
    wrong = [{"continues": True, "role": "assistant", "content": "x"}, user("x", id="r-1", continues=True)]
    for entry in wrong:
        answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})
        assert problem(answer, 422, "unprocessable")["errors"][0]["pointer"] == "#/messages/0/continues"


async def test_a_reply_in_progress_keeps_its_role(client: httpx.AsyncClient, conversation: str) -> None:
    """A message of another role under its id is 409, and the reply can still end."""
    await begun(client, conversation)
    for other in (user("Never mind.", id="r-1"), {"role": "system", "content": "Be brief.", "id": "r-1"}):
        answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [other]})
        assert "'assistant'" in problem(answer, 409, "entry-conflict")["detail"]

    await append(client, conversation, part("Once upon a time.", "completed"))

    assert [each["message"]["role"] for each in await history(client, conversation)] == ["user", "assistant"]


async def test_an_import_begins_its_entries(client: httpx.AsyncClient, conversation: str) -> None:
    """A line of an import with ``continues`` is stored: nothing stands before it that it could continue."""
    line = b'{"id": "r-1", "message": {"role": "assistant", "content": "x"}, "continues": true}\n'
    headers = {"content-type": "application/x-ndjson"}
    answer = await client.post(f"/conversations/import?id={conversation}", content=b"{}\n" + line, headers=headers)
    assert answer.status_code == 201, answer.text
