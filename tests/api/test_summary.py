"""Summaries from the client: a text in place of the oldest messages."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import etag_of


async def filled(client: httpx.AsyncClient, conversation: str, messages: int = 10) -> None:
    entries = [
        {"message": {"role": "user" if n % 2 == 0 else "assistant", "content": f"line {n} " + "word " * 40}}
        for n in range(messages)
    ]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})


async def test_put(client: httpx.AsyncClient, conversation: str) -> None:
    """A stored summary makes a new version, and its tokens are those of the message that carries it in a window."""
    await filled(client, conversation)

    answer = await client.put(f"/conversations/{conversation}/summary", json={"text": "Ten lines.", "through_seq": 6})

    body = answer.json()
    assert (answer.status_code, answer.headers["etag"], body["version"]) == (
        200,
        await etag_of(client, conversation),
        2,
    )
    assert (body["summary"]["text"], body["summary"]["through_seq"]) == ("Ten lines.", 6)
    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o&summary=always")).json()
    assert window["tokens"]["summary"] == body["summary"]["tokens"]["o200k_base"]
    assert window["request"]["messages"][0]["content"].endswith("Ten lines.")
    assert window["kept"] == {"messages": 4, "first_seq": 7, "last_seq": 10}


async def test_windows_use_it_when_they_must(client: httpx.AsyncClient, conversation: str) -> None:
    """A window uses the summary only if it leaves out messages that the summary covers."""
    await filled(client, conversation)
    await client.put(f"/conversations/{conversation}/summary", json={"text": "Ten lines.", "through_seq": 6})
    path = f"/conversations/{conversation}/window?model=gpt-4o"

    assert (await client.get(path)).json()["tokens"]["summary"] == 0
    assert (await client.get(f"{path}&max_tokens=250")).json()["tokens"]["summary"] > 0


@pytest.mark.parametrize("how", ["delete", "empty text", "nothing covered"])
async def test_take_away(client: httpx.AsyncClient, conversation: str, how: str) -> None:
    """DELETE, an empty text, or covering no message removes a summary."""
    await filled(client, conversation)
    path = f"/conversations/{conversation}/summary"
    await client.put(path, json={"text": "Ten lines.", "through_seq": 6})

    if how == "delete":
        assert (await client.delete(path)).status_code == 204
    else:
        empty = {"text": "", "through_seq": 6} if how == "empty text" else {"text": "x", "through_seq": 0}
        assert (await client.put(path, json=empty)).status_code == 200

    body = (await client.get(f"/conversations/{conversation}")).json()
    assert (body["summary"], body["version"]) == (None, 3)


async def test_beyond_the_end(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary that covers messages beyond the last one is 422."""
    await filled(client, conversation, 3)

    answer = await client.put(f"/conversations/{conversation}/summary", json={"text": "x", "through_seq": 4})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/through_seq"


@pytest.mark.parametrize("body", [{}, {"text": "x"}, {"text": 1, "through_seq": 1}, {"text": "x", "through_seq": -1}])
async def test_wrong_bodies(client: httpx.AsyncClient, conversation: str, body: Any) -> None:
    """An invalid body is 400."""
    await filled(client, conversation, 1)
    assert (await client.put(f"/conversations/{conversation}/summary", json=body)).status_code == 400


async def test_conditions_and_absence(client: httpx.AsyncClient, conversation: str) -> None:
    """An outdated ``If-Match`` is 412, and an absent conversation is 404."""
    body = {"text": "x", "through_seq": 1}
    path = f"/conversations/{conversation}/summary"
    assert (await client.put(path, json=body)).status_code == 404
    assert (await client.delete(path)).status_code == 404
    await filled(client, conversation, 2)
    assert (await client.put(path, json=body, headers={"If-Match": '"9"'})).status_code == 412
    tag = await etag_of(client, conversation)
    assert (await client.put(path, json=body, headers={"If-Match": tag})).status_code == 200
    assert (await client.delete(path, headers={"If-Match": tag})).status_code == 412


ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk" * 30}
BLOCK = {"type": "compaction", "content": "Ten lines about nothing."}


async def test_a_compaction_item_begins_windows_in_its_format(client: httpx.AsyncClient, conversation: str) -> None:
    """OpenAI's item replaces the covered messages in Responses windows; other formats use the summary's text."""
    await filled(client, conversation)

    answer = await client.put(
        f"/conversations/{conversation}/summary", json={"text": "Ten lines.", "item": ITEM, "through_seq": 6}
    )

    assert answer.json()["summary"]["item"] == ITEM
    path = f"/conversations/{conversation}/window?model=gpt-5"
    own = (await client.get(f"{path}&format=responses")).json()
    assert own["request"]["input"][0] == ITEM
    assert len(own["request"]["input"]) == 5
    assert own["kept"]["first_seq"] == 7
    assert own["tokens"]["summary"] >= len(ITEM["encrypted_content"]) // 4
    assert "Ten lines." not in str(own["request"])
    whole = (await client.get(path)).json()
    assert whole["kept"]["messages"] == 10
    chat = (await client.get(f"{path}&summary=always")).json()
    assert chat["request"]["messages"][0]["content"].endswith("Ten lines.")
    assert "compaction" not in str(chat["request"])
    assert "compaction" not in str((await client.get(f"{path}&format=responses&summary=never")).json()["request"])


async def test_anthropics_block_brings_its_text(client: httpx.AsyncClient, conversation: str) -> None:
    """Anthropic's block gives the summary its text, and is the first message of windows in Anthropic's format."""
    await filled(client, conversation)

    answer = await client.put(f"/conversations/{conversation}/summary", json={"item": BLOCK, "through_seq": 6})

    assert answer.json()["summary"]["text"] == BLOCK["content"]
    path = f"/conversations/{conversation}/window?summary=always"
    own = (await client.get(f"{path}&model=claude-sonnet-4-5&format=anthropic")).json()
    assert own["request"]["messages"][0] == {"role": "assistant", "content": [BLOCK]}
    chat = (await client.get(f"{path}&model=gpt-4o")).json()
    assert chat["request"]["messages"][0]["content"].endswith(BLOCK["content"])


SHOTS = [{"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "ping"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


@pytest.mark.parametrize(("form", "model"), [("anthropic", "claude-sonnet-4-5"), ("responses", "gpt-5")])
@pytest.mark.parametrize("sets", [{}, {"system": "Be brief.\n", "tools": TOOLS}, {"few_shots": SHOTS}])
@pytest.mark.parametrize("through_seq", [1, 2])
async def test_an_item_s_window_costs_no_less_than_its_request(
    client: httpx.AsyncClient, conversation: str, form: str, model: str, sets: dict[str, Any], through_seq: int
) -> None:
    """A window with an item costs no less than its request, whoever speaks first after the item, and is an estimate. The
    system prompt stays in its place."""
    roles = ("user", "assistant", "user")
    await client.post("/conversations", json={"id": conversation, **sets})
    entries = [{"message": {"role": role, "content": f"line {n}"}} for n, role in enumerate(roles)]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})
    item = ITEM if form == "responses" else BLOCK
    await client.put(f"/conversations/{conversation}/summary", json={"item": item, "through_seq": through_seq})

    path = f"/conversations/{conversation}/window?model={model}&format={form}"
    window = (await client.get(path)).json()
    count = await client.post(f"/count?format={form}", json={"model": model, **window["request"]})

    # A turn that joins the one before it, as its count sees them, costs up to six tokens less.
    assert 0 <= window["tokens"]["total"] - count.json()["tokens"] <= 6
    assert not window["exact"]
    assert window["request"].get("instructions" if form == "responses" else "system") == sets.get("system")
    assert item in (window["request"].get("input") or window["request"]["messages"][0]["content"])
    assert (await client.get(f"{path}&max_tokens={count.json()['tokens'] - 1}")).status_code == (
        422 if through_seq == 2 else 200
    )


async def test_an_item_without_a_text_is_for_its_own_provider(client: httpx.AsyncClient, conversation: str) -> None:
    """Windows in other formats ignore an item without a text, which only OpenAI can read, and keep the messages."""
    await filled(client, conversation)
    await client.put(f"/conversations/{conversation}/summary", json={"item": ITEM, "through_seq": 6})

    made = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o&summary=always")).json()

    assert made["kept"]["messages"] == 10
    assert made["tokens"]["summary"] == 0


async def test_an_item_goes_with_copies(client: httpx.AsyncClient, conversation: str) -> None:
    """A fork and an imported export keep the item."""
    await filled(client, conversation)
    path = f"/conversations/{conversation}"
    await client.put(f"{path}/summary", json={"text": "Ten lines.", "item": ITEM, "through_seq": 6})

    forked = await client.post(f"{path}/fork", json={"id": f"{conversation}-fork", "at_seq": 8})
    lines = (await client.get(f"{path}/export")).content
    imported = await client.post(
        f"/conversations/import?id={conversation}-copy", content=lines, headers={"content-type": "application/x-ndjson"}
    )

    assert (forked.status_code, imported.status_code) == (201, 201)
    for copy in ("fork", "copy"):
        assert (await client.get(f"{path}-{copy}")).json()["summary"]["item"] == ITEM


@pytest.mark.parametrize("item", [{"type": "message"}, {"type": "compaction", "content": 5}, 5])
async def test_another_item_is_refused(client: httpx.AsyncClient, conversation: str, item: Any) -> None:
    """An invalid compaction item is 400, and the error points to it."""
    await filled(client, conversation)
    answer = await client.put(f"/conversations/{conversation}/summary", json={"item": item, "through_seq": 6})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"].startswith("#/item")
