"""A provider's compaction item that was appended: windows of its format begin with it, and what it covers is not sent.

The examples are those of the vendors' documents: platform.claude.com/docs/en/build-with-claude/compaction-threshold and
compaction-on-demand, developers.openai.com/api/docs/guides/compaction, and
docs.x.ai/developers/advanced-api-usage/context-compaction, read in November 2026.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples

BLOCK = {"type": "compaction", "content": "Summary: the user asked for a web scraper, and got its first version."}
REPLY = [BLOCK, {"type": "text", "text": "Based on our conversation so far, here is the next step."}]
SEALED = {"type": "compaction", "id": "cmp_001", "encrypted_content": "gAAAAABpM0Yj" * 20}
TALK = [("user", "Help me build a web scraper"), ("assistant", "Here is a first version."), ("user", "Add rate limits")]
CLAUDE = {"model": "claude-opus-4-6", "format": "anthropic"}
OPENAI = {"model": "gpt-5.2", "format": "responses"}


class Chat:
    """A conversation and its windows."""

    def __init__(self, client: httpx.AsyncClient, conversation: str, **query: Any) -> None:
        self.client = client
        self.path = f"/conversations/{conversation}"
        self.query = query

    async def append(self, *messages: Any, **query: Any) -> dict[str, Any]:
        params = {"format": self.query.get("format", "openai"), **query}
        answer = await self.client.post(f"{self.path}/messages", params=params, json={"messages": [*messages]})
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def window(self, **query: Any) -> dict[str, Any]:
        answer = await self.client.get(f"{self.path}/window", params={**self.query, **query})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["tokens"]["total"] == sum(value for name, value in found["tokens"].items() if name != "total")
        return found

    async def sent(self, **query: Any) -> Any:
        request = (await self.window(**query))["request"]
        return request.get("input", request.get("messages"))


def turns(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in said]


async def test_claude_s_reply_with_a_compaction_begins_the_next_request(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Passing compaction blocks back: the response is appended as it came, and all blocks before it are dropped."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK))
    before = await chat.window()
    await chat.append(*turns(("assistant", REPLY)))
    await chat.append(*turns(("user", "Now add error handling")))

    window = await chat.window()

    assert window["request"]["messages"] == turns(("assistant", REPLY), ("user", "Now add error handling"))
    assert window["stop_reason"] == "summary"
    assert window["kept"] == {"messages": 2, "first_seq": 5, "last_seq": 6}
    assert window["dropped"]["messages"] == 3
    assert window["tokens"]["summary"] > 0
    assert before["request"]["messages"] == turns(*TALK)


async def test_a_pause_after_compaction_goes_on_from_the_block(client: httpx.AsyncClient, conversation: str) -> None:
    """Pausing after compaction: the response holds the block alone; the request goes on from it, with or without a turn."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK), *turns(("assistant", [BLOCK])))

    assert await chat.sent() == turns(("assistant", [BLOCK]))
    await chat.append(*turns(("user", "Please wrap up your current work and summarize the final state.")))
    assert (await chat.sent())[1:] == turns(("user", "Please wrap up your current work and summarize the final state."))


async def test_a_block_on_demand_stands_before_the_turns_that_were_kept(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Compaction that keeps recent turns, and in the background: the block is first, and the later turns follow it."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", "Here they are."), ("user", "And tests?")))
    signed = {**BLOCK, "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "tool_changes": []}

    await client.put(f"{chat.path}/summary", json={"item": signed, "through_seq": 3})

    expected = turns(("assistant", [signed]), ("assistant", "Here they are."), ("user", "And tests?"))
    assert await chat.sent() == expected


async def test_a_mark_of_the_prompt_cache_on_the_block_is_given_back(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Prompt caching: a breakpoint on the compaction block is the client's own, as on other blocks."""
    chat = Chat(client, conversation, **CLAUDE)
    marked = [{**BLOCK, "cache_control": {"type": "ephemeral"}}, REPLY[1]]
    await chat.append(*turns(*TALK, ("assistant", marked), ("user", "Now add error handling")))

    assert (await chat.sent())[0] == {"role": "assistant", "content": marked}


async def test_the_last_of_several_blocks_counts(client: httpx.AsyncClient, conversation: str) -> None:
    """A long conversation has several compactions: the last one replaces all before it, also within a reply."""
    chat = Chat(client, conversation, **CLAUDE)
    second = {"type": "compaction", "content": "Summary: the scraper has rate limits now."}
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on")))
    await chat.append(*turns(("assistant", [{"type": "text", "text": "First I look."}, second, REPLY[1]])))
    await chat.append(*turns(("user", "Thanks")))

    assert await chat.sent() == turns(("assistant", [second, REPLY[1]]), ("user", "Thanks"))


@pytest.mark.parametrize("failed", [{"type": "compaction", "content": None}, {"type": "compaction"}])
async def test_a_failed_compaction_stands_for_nothing(
    client: httpx.AsyncClient, conversation: str, failed: dict[str, Any]
) -> None:
    """A block whose summary is null is a compaction that failed: Claude takes no notice of it, and all messages are sent."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", [failed, REPLY[1]]), ("user", "Go on")))

    assert await chat.sent() == turns(*TALK, ("assistant", [failed, REPLY[1]]), ("user", "Go on"))


MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "It is done.", "annotations": []}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABpTHNk" * 90}


@pytest.mark.parametrize("output", [[SEALED, MESSAGE], [SEALED, THOUGHT, MESSAGE], [THOUGHT, SEALED, MESSAGE]])
async def test_openai_s_output_with_a_compaction_begins_the_next_input(
    client: httpx.AsyncClient, conversation: str, output: list[Any]
) -> None:
    """Server-side compaction: the output is appended as usual; items before the newest compaction item are dropped."""
    chat = Chat(client, conversation, **OPENAI)
    await chat.append(*turns(*TALK))
    await chat.append({"id": "reply", "message": output})
    await chat.append(*turns(("user", "And then?")))

    kept = output[output.index(SEALED) :]
    assert await chat.sent(reasoning="all") == [*kept, {"role": "user", "content": "And then?"}]


async def test_xai_s_item_stands_for_the_whole_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """The next request of xAI's Responses API is its compaction item, verbatim, and the new message."""
    sealed = {**SEALED, "encrypted_content": "kZ3x" * 60}
    chat = Chat(client, conversation, model="grok-4", format="responses")
    await chat.append(*turns(*TALK), sealed, *turns(("user", "What did we decide?")))

    assert await chat.sent() == [sealed, {"role": "user", "content": "What did we decide?"}]


@pytest.mark.parametrize("model", ["grok-4", "gpt-oss-120b", "qwen3-32b"])
@pytest.mark.parametrize("is_put", [False, True])
async def test_another_makers_model_gets_the_messages_behind_openai_s_compaction(
    client: httpx.AsyncClient, conversation: str, model: str, *, is_put: bool
) -> None:
    """Who cannot read a sealed compaction, in the form that it came in, is sent what it stands for."""
    chat = Chat(client, conversation, model=model, format="responses")
    await chat.append(*turns(*TALK))
    if is_put:
        body = {"through_seq": len(TALK), "item": SEALED}
        assert (await client.put(f"/conversations/{conversation}/summary", json=body)).status_code == 200
    else:
        await chat.append(SEALED)
    await chat.append(*turns(("user", "And then?")))

    sent = await chat.sent()
    assert [each["content"] for each in sent] == [text for _, text in (*TALK, ("user", "And then?"))]


async def test_the_output_of_the_compact_endpoint_stands_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """The window that /responses/compact returns is passed on as it is: user messages, then the compaction item."""
    chat = Chat(client, conversation, **OPENAI)
    await chat.append(*turns(*TALK, ("assistant", "Here they are.")))
    output = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TALK[0][1]}]}, SEALED]

    answer = await client.put(f"{chat.path}/summary", json={"item": output, "through_seq": 4})

    assert answer.status_code == 200, answer.text
    assert (answer.json()["summary"]["item"], answer.json()["summary"]["items"]) == (SEALED, output)
    exported = (await client.get(f"{chat.path}/export")).content
    lines = {"Content-Type": "application/x-ndjson"}
    copy = await client.post(f"/conversations/import?id={conversation}-i", content=exported, headers=lines)
    assert copy.json()["summary"]["items"] == output
    await client.delete(f"/conversations/{conversation}-i")
    await chat.append(*turns(("user", "And then?")))
    assert await chat.sent() == [*output, {"role": "user", "content": "And then?"}]


async def test_other_formats_send_the_words_of_claude_s_block(client: httpx.AsyncClient, conversation: str) -> None:
    """A block with words stands in every format: as a system line in place of what it covers."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Now add error handling")))

    openai = await chat.sent(format="openai", model="gpt-4o")
    assert [each["role"] for each in openai] == ["system", "assistant", "user"]
    assert openai[0]["content"].endswith(BLOCK["content"])
    assert openai[1] == {"role": "assistant", "content": REPLY[1]["text"]}
    responses = (await chat.window(format="responses", model="gpt-5.2"))["request"]
    assert BLOCK["content"] in str(responses)
    assert TALK[0][1] not in str(responses)
    gemini = (await chat.window(format="gemini", model="gemini-2.5-pro"))["request"]
    assert BLOCK["content"] in str(gemini)
    assert TALK[0][1] not in str(gemini)


async def test_other_formats_send_the_messages_where_only_the_maker_can_read(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A sealed item is for its maker: other formats have the messages themselves, and nothing in the item's place."""
    chat = Chat(client, conversation, **OPENAI)
    await chat.append(*turns(*TALK), SEALED, MESSAGE, *turns(("user", "And then?")))

    said = [*turns(*TALK), {"role": "assistant", "content": "It is done."}, {"role": "user", "content": "And then?"}]
    assert await chat.sent(format="openai", model="gpt-4o") == said
    assert SEALED["encrypted_content"] not in str(await chat.window(format="anthropic", model="claude-opus-4-6"))


async def test_the_fixed_parts_stay(client: httpx.AsyncClient, conversation: str) -> None:
    """System prompt and tools are not in a summary: they are sent as before. Pinned messages stay, behind the item."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    await client.post("/conversations", json={"id": conversation, "system": "Be brief.", "tools": [tool]})
    chat = Chat(client, conversation, **CLAUDE)
    pinned = {"role": "user", "content": "My name is Ada."}
    await chat.append(
        {"message": pinned, "pinned": True}, *turns(*TALK[1:]), *turns(("assistant", REPLY), ("user", "Go on"))
    )

    request = (await chat.window())["request"]

    assert request["system"] == "Be brief."
    assert request["tools"][0]["name"] == "look"
    assert request["messages"][0] == {"role": "assistant", "content": [BLOCK]}
    assert [pinned, *turns(("assistant", [REPLY[1]]), ("user", "Go on"))] == request["messages"][1:]


async def test_a_rewind_brings_the_history_back(client: httpx.AsyncClient, conversation: str) -> None:
    """After a rewind to before an item, the one before it stands again; before the first, all messages are sent."""
    chat = Chat(client, conversation, **CLAUDE)
    second = {"type": "compaction", "content": "Summary: two."}
    await chat.append(*turns(*TALK, ("assistant", [BLOCK])))
    await chat.append(*turns(("user", "Go on"), ("assistant", [second])))
    await chat.append(*turns(("user", "Thanks")))

    for to_seq, expected in (
        (6, turns(("assistant", [second]))),
        (5, turns(("assistant", [BLOCK]), ("user", "Go on"))),
        (4, turns(("assistant", [BLOCK]))),
        (3, turns(*TALK)),
    ):
        assert (await client.post(f"{chat.path}/rewind", json={"to_seq": to_seq})).status_code == 200
        assert await chat.sent() == expected
    await chat.append(*turns(("assistant", [second])))
    assert await chat.sent() == turns(("assistant", [second]))


@pytest.mark.parametrize("seq", [2, 4])
async def test_redaction_takes_the_items_along_that_may_hold_the_content(
    client: httpx.AsyncClient, conversation: str, seq: int
) -> None:
    """A compaction of a message holds its content: it is redacted with the message, as a summary is removed."""
    chat = Chat(client, conversation, **CLAUDE)
    second = {"type": "compaction", "content": "Summary: two."}
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on"), ("assistant", [second]), ("user", "So?")))

    assert (await client.delete(f"{chat.path}/messages/{seq}")).status_code == 204

    page = (await client.get(f"{chat.path}/messages")).json()
    kept = str((page, await chat.window()))
    assert "compaction" not in kept
    assert "Summary" not in kept
    assert await chat.sent(format="openai", model="gpt-4o")
    assert [each["seq"] for each in page["messages"] if each.get("redacted")] == sorted({seq, 4, 7})
    await chat.append(*turns(("assistant", [BLOCK])))
    assert await chat.sent() == turns(("assistant", [BLOCK]))


async def test_redaction_behind_an_item_leaves_it(client: httpx.AsyncClient, conversation: str) -> None:
    """An item knows nothing of later messages."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on")))

    await client.delete(f"{chat.path}/messages/6")

    assert (await chat.sent())[0] == {"role": "assistant", "content": REPLY}


async def test_copies_have_the_same_windows(client: httpx.AsyncClient, conversation: str) -> None:
    """A fork and an import have the items that stand, and the older ones for a rewind."""
    chat = Chat(client, conversation, **CLAUDE)
    second = {"type": "compaction", "content": "Summary: two."}
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on"), ("assistant", [second]), ("user", "So?")))
    whole = await chat.sent()
    exported = (await client.get(f"{chat.path}/export")).content
    lines = {"Content-Type": "application/x-ndjson"}
    imported = await client.post(f"/conversations/import?id={conversation}-i", content=exported, headers=lines)
    assert imported.status_code == 201, imported.text
    await client.post(f"{chat.path}/fork", json={"id": f"{conversation}-f"})
    await client.post(f"{chat.path}/fork", json={"id": f"{conversation}-6", "at_seq": 6})

    for copy in ("i", "f"):
        other = Chat(client, f"{conversation}-{copy}", **CLAUDE)
        assert await other.sent() == whole
        await client.post(f"{other.path}/rewind", json={"to_seq": 6})
        assert await other.sent() == turns(("assistant", REPLY), ("user", "Go on"))
    assert await Chat(client, f"{conversation}-6", **CLAUDE).sent() == turns(("assistant", REPLY), ("user", "Go on"))
    for copy in ("i", "f", "6"):
        await client.delete(f"/conversations/{conversation}-{copy}")


USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"}


async def test_a_tool_loop_goes_on_behind_the_block(client: httpx.AsyncClient, conversation: str) -> None:
    """Compaction in a tool loop: the covered question is not sent again, and thoughts and calls behind the block stay."""
    chat = Chat(client, conversation, **CLAUDE)
    thought = {"type": "thinking", "thinking": "I need the tool.", "signature": "EqQBCgIYAhIM"}
    await chat.append(*turns(("user", "Look it up"), ("assistant", [BLOCK, thought, USE]), ("user", [RESULT])))

    assert await chat.sent() == turns(("assistant", [BLOCK, thought, USE]), ("user", [RESULT]))


async def test_a_late_result_brings_its_covered_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A result that comes behind the block is sent with its call, while it is the newest message and afterwards."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(("user", "Look it up"), ("assistant", [USE]), ("user", "Meanwhile, a plan?")))
    await chat.append(*turns(("assistant", REPLY), ("user", [RESULT])))

    pair = turns(("assistant", [USE]), ("user", [RESULT]))
    sent = await chat.sent()
    assert sent[0] == {"role": "assistant", "content": [BLOCK]}
    assert [each for each in sent if USE["id"] in str(each)] == pair
    await chat.append(*turns(("assistant", "There it is."), ("user", "Good")))
    window = await chat.window()
    sent = window["request"]["messages"]
    assert [each for each in sent if USE["id"] in str(each)] == pair
    assert "Meanwhile" not in str(sent)


async def test_a_pinned_call_keeps_its_late_result(client: httpx.AsyncClient, conversation: str) -> None:
    """A pinned call stays behind the block with its result, also with one that came after another message."""
    chat = Chat(client, conversation, **CLAUDE)
    call = {"message": {"role": "assistant", "content": [USE]}, "pinned": True}
    await chat.append(*turns(("user", "Look it up")), call, *turns(("user", "Meanwhile, a plan?"), ("user", [RESULT])))
    await chat.append(*turns(("assistant", REPLY), ("user", "Go on")))

    sent = await chat.sent()
    assert [each for each in sent if USE["id"] in str(each)] == turns(("assistant", [USE]), ("user", [RESULT]))
    assert "Meanwhile" not in str(sent)


async def test_a_result_whose_group_the_summary_cuts_brings_its_call(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """An item that was put behind the first of two results: their call and both results are sent."""
    chat = Chat(client, conversation, **CLAUDE)
    other = {**USE, "id": "toolu_2"}
    results = [RESULT, {**RESULT, "tool_use_id": "toolu_2"}]
    await chat.append(*turns(("user", "Look"), ("assistant", [USE, other]), ("user", results), ("user", "And?")))

    await client.put(f"{chat.path}/summary", json={"item": BLOCK, "through_seq": 3})

    assert (await chat.sent())[1:] == turns(("assistant", [USE, other]), ("user", results), ("user", "And?"))


async def test_the_parameters_of_a_summary_are_the_item_s_too(client: httpx.AsyncClient, conversation: str) -> None:
    """``summary=never`` sends the history without the item, a note counts what is left out, ``explain`` tells the item."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on")))

    never = await chat.sent(summary="never")
    assert never == turns(*TALK, ("assistant", [REPLY[1]]), ("user", "Go on"))
    assert await chat.sent(summary="always") == await chat.sent()
    assert "3 " in (await chat.window(note=True))["request"]["system"]
    lines = {line["seq"]: line for line in (await chat.window(explain=True))["explain"]}
    assert [lines[seq]["kept"] for seq in range(1, 7)] == [False] * 4 + [True] * 2
    assert lines[1]["reason"] == "the summary stands for it"
    assert lines[4]["reason"] == "a provider's compaction, sent as the summary"
    assert (await chat.window(explain=True, summary="never"))["explain"][3]["reason"] == "a provider's compaction"
    assert (await chat.window(limit=1))["kept"]["messages"] == 1


async def test_what_is_sent_of_the_item_is_counted(client: httpx.AsyncClient, conversation: str) -> None:
    """Words and seals of an item are in ``tokens.summary``; one that does not fit is a problem with its cost."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", [BLOCK])))
    short = (await chat.window())["tokens"]["summary"]
    long = {
        "type": "compaction",
        "content": "word " * 400,
        "encrypted_content": "gAAAA" * 200,
        "signature": "Eq8" * 100,
    }
    await chat.append(*turns(("user", "Go on"), ("assistant", [long])))

    assert (await chat.window())["tokens"]["summary"] > short + 400 + 200
    answer = await client.get(f"{chat.path}/window", params={**CLAUDE, "max_tokens": 300})
    assert answer.status_code == 422
    assert answer.json()["costs"]["summary"] > 400


@pytest.mark.parametrize("stable", ["false", "true"])
async def test_history_behind_the_item_gives_way_as_before(
    client: httpx.AsyncClient, conversation: str, stable: str
) -> None:
    """What does not fit behind the item is left out; the item stays, and covered messages move no stable cut."""
    chat = Chat(client, conversation, **CLAUDE)
    for _ in range(4):
        await chat.append(*turns(*[("user" if n % 2 == 0 else "assistant", "word " * 60) for n in range(40)]))
    await chat.append(*turns(("assistant", [BLOCK]), ("user", "Go on")))
    first = await chat.window(stable=stable, max_tokens=1500)
    assert first["kept"] == {"messages": 1, "first_seq": 162, "last_seq": 162}
    begins = []
    for n in range(60):
        await chat.append({"role": "assistant" if n % 2 == 0 else "user", "content": "word " * 60})
        window = await chat.window(stable=stable, max_tokens=1500)
        assert window["request"]["messages"][0] == {"role": "assistant", "content": [BLOCK]}
        assert window["tokens"]["total"] <= 1500
        begins.append(window["kept"]["first_seq"])
    assert begins[:5] == [162] * 5
    assert begins == sorted(begins)
    assert len(set(begins)) < (12 if stable == "true" else 60)
    assert window["stop_reason"] == "budget"


async def test_recall_brings_covered_messages_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Covered messages may be recalled: they are details that the summary may lack, and stand behind it."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(
        *turns(("user", "my dog is called Rex"), ("assistant", "A fine name."), *TALK, ("assistant", [BLOCK]))
    )
    await chat.append(*turns(("user", "what is my dog called?")))

    window = await chat.window(recall_max_tokens=200)

    assert window["recalled"]["seqs"][:2] == [1, 2]
    assert window["request"]["messages"][0] == {"role": "assistant", "content": [BLOCK]}
    assert "Rex" in str(window["request"]["messages"][1])


async def test_a_streamed_reply_with_a_block_grows(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply in progress may be sent again with more blocks, also once it has a compaction: the block is whole at once."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK))
    looks = {"type": "text", "text": "I look."}
    for status, blocks in (
        ("in_progress", [looks]),
        ("in_progress", [looks, BLOCK]),
        ("in_progress", [looks, BLOCK, {"type": "text", "text": "Based"}]),
        ("completed", [looks, *REPLY]),
        ("completed", [looks, *REPLY]),
    ):
        message = {"role": "assistant", "content": blocks}
        await chat.append({"id": "m-4", "message": message, "status": status})

    asked_on = [{"type": "text", "text": "Please continue."}]  # this Claude takes no reply at the end
    assert await chat.sent() == turns(("assistant", REPLY), ("user", asked_on))
    assert len((await client.get(f"{chat.path}/messages")).json()["messages"]) == 6


async def test_a_block_with_an_empty_summary_is_not_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """Claude refuses an empty summary: the reply is sent without the block, and the answer tells."""
    chat = Chat(client, conversation, **CLAUDE)
    empty = {"type": "compaction", "content": ""}
    await chat.append(*turns(*TALK, ("assistant", [empty, REPLY[1]]), ("user", "Go on")))

    window = await chat.window()
    assert window["request"]["messages"] == turns(*TALK, ("assistant", [REPLY[1]]), ("user", "Go on"))
    assert window["mended"]["reasons"] == {"blank_text": 1}


@pytest.mark.parametrize(("query", "item"), [(CLAUDE, REPLY), (OPENAI, [SEALED, MESSAGE])])
async def test_a_history_in_the_request_gives_the_same_window(
    client: httpx.AsyncClient, conversation: str, query: dict[str, str], item: list[Any]
) -> None:
    """POST /window follows the same rule for the messages in its body."""
    chat = Chat(client, conversation, **query)
    items = [{"role": "assistant", "content": item}] if query is CLAUDE else item
    messages = [*turns(*TALK), *items, *turns(("user", "Go on"))]
    await chat.append(*messages)

    answer = await client.post("/window", params={"format": query["format"]}, json={**query, "messages": messages})

    stored = await chat.window()
    assert answer.status_code == 200, answer.text
    assert {name: answer.json()[name] for name in ("request", "tokens", "kept", "dropped")} == {
        name: stored[name] for name in ("request", "tokens", "kept", "dropped")
    }


async def test_a_newer_summary_that_covers_more_replaces_the_item(client: httpx.AsyncClient, conversation: str) -> None:
    """Of an item and a summary that was put, the one that covers more stands."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", REPLY), ("user", "Go on"), ("assistant", "I do."), ("user", "So?")))
    newer = {"type": "compaction", "content": "Summary: newer."}

    await client.put(f"{chat.path}/summary", json={"item": BLOCK, "through_seq": 2})
    assert (await chat.sent())[0] == {"role": "assistant", "content": REPLY}
    await client.put(f"{chat.path}/summary", json={"item": newer, "through_seq": 6})
    assert await chat.sent() == turns(("assistant", [newer]), ("assistant", "I do."), ("user", "So?"))


async def test_a_summary_in_place_of_an_item_stands_as_it_did(client: httpx.AsyncClient, conversation: str) -> None:
    """What the item told, and the log may never have had, is not lost because all of the log fits."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(("assistant", [BLOCK]), ("user", "Go on"), ("assistant", "I do."), ("user", "So?")))
    await client.put(f"{chat.path}/summary", json={"text": "All of it.", "through_seq": 3})
    told = "Summary of the conversation so far:\nAll of it."
    sent = await chat.window(model="gpt-5.2", format="openai")
    assert sent["request"]["messages"] == [{"role": "system", "content": told}, {"role": "user", "content": "So?"}]
    assert sent["tokens"]["summary"] > 0


async def test_a_conversation_tells_which_items_stand(client: httpx.AsyncClient, conversation: str) -> None:
    """GET /conversations/{id} has the newest item of each format."""
    chat = Chat(client, conversation, **CLAUDE)
    await chat.append(*turns(*TALK, ("assistant", REPLY)))
    await chat.append(SEALED, format="responses")

    assert (await client.get(chat.path)).json()["compactions"] == [
        {"format": "anthropic", "seq": 4},
        {"format": "responses", "seq": 6},
    ]


async def test_a_count_applies_the_blocks_of_a_request(client: httpx.AsyncClient, conversation: str) -> None:
    """Token counting: a request with all messages costs what the one costs that begins with the block."""
    chat = Chat(client, conversation, **CLAUDE)
    messages = turns(*TALK, ("assistant", REPLY), ("user", "Now add error handling"))
    await chat.append(*messages)
    window = await chat.window()

    for sent in (messages, window["request"]["messages"]):
        body = {"model": CLAUDE["model"], "messages": sent}
        counted = (await client.post("/count", params={"format": "anthropic"}, json=body)).json()
        assert counted["tokens"] == window["tokens"]["total"]


def thinking(name: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": f"I think {name}.", "signature": f"EqQB{name}"}


async def test_thoughts_behind_the_item_stay_valid(client: httpx.AsyncClient, conversation: str) -> None:
    """Compaction and preserved thinking: a model that binds thoughts to their prefix accepts those behind its compaction."""
    chat = Chat(client, conversation, model="claude-opus-5-5", format="anthropic", reasoning="all")
    text = {"type": "text", "text": "So."}
    await chat.append(*turns(("user", "One"), ("assistant", [thinking("A"), text]), ("user", "Two")))
    replies = ("assistant", [BLOCK, thinking("B"), text]), ("user", "Three"), ("assistant", [thinking("C"), text])
    await chat.append(*turns(*replies, ("user", "Four")))

    assert await chat.sent() == turns(*replies, ("user", "Four"))
    assert "EqQB" not in str(await chat.sent(summary="never", max_tokens=60))


async def test_thoughts_of_the_block_s_own_reply_do_not_follow_a_pinned_message(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A pinned message is sent behind the block, where the reply with the block did not have it; later replies had it."""
    chat = Chat(client, conversation, model="claude-opus-5-5", format="anthropic", reasoning="all")
    text = {"type": "text", "text": "So."}
    await chat.append({"message": {"role": "user", "content": "One"}, "pinned": True}, *turns(("assistant", "Yes.")))
    await chat.append(*turns(("user", "Two"), ("assistant", [BLOCK, thinking("B"), text])))
    await chat.append(*turns(("user", "Three"), ("assistant", [thinking("C"), text]), ("user", "Four")))

    sent = str(await chat.sent())
    assert "EqQBB" not in sent
    assert "EqQBC" in sent


async def test_openai_s_newer_models_get_the_reasoning_that_they_accept(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """GPT-6.2 drops reasoning behind a change: it is not sent then. OpenAI's compaction is no change."""
    chat = Chat(client, conversation, model="gpt-6.2-sol", format="responses", reasoning="all")
    await chat.append(*turns(("user", "One " * 200)), THOUGHT, MESSAGE, *turns(("user", "Two")))
    assert THOUGHT in await chat.sent()
    assert THOUGHT not in await chat.sent(limit=2)
    assert THOUGHT in await chat.sent(limit=2, model="gpt-6.1-sol")
    await chat.append({"type": "message", "role": "developer", "content": "Be brief."})
    assert THOUGHT in await chat.sent()
    later = {**THOUGHT, "id": "rs_2"}
    await chat.append({"message": [SEALED, later, {**MESSAGE, "id": "msg_2"}]}, *turns(("user", "Three")))

    sent = await chat.sent()
    assert sent[0] == SEALED
    assert sent[-3:] == [later, {**MESSAGE, "id": "msg_2"}, {"role": "user", "content": "Three"}]


async def test_a_compaction_is_not_pinned_later_either(client: httpx.AsyncClient, conversation: str) -> None:
    """``PATCH`` leaves a compaction without a pin, as an append does; its metadata changes."""
    chat = Chat(client, conversation, **OPENAI)
    await chat.append(*turns(*TALK), SEALED, {"role": "user", "content": "Go on"})
    patch = {"pinned": True, "metadata": {"rating": 1}}
    answer = await client.patch(f"{chat.path}/messages/4", json=patch)
    assert answer.status_code == 200, answer.text
    stored = (await client.get(f"{chat.path}/messages/4")).json()
    assert (stored["pinned"], stored["metadata"]) == (False, {"rating": 1})


async def test_a_limit_is_not_the_end_where_all_behind_a_compaction_is_kept(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """``stop_reason`` is the same for a stored history, of which the newest messages are read, and for one in a body."""
    entries = [
        {"message": {"role": "user", "content": "One"}},
        {
            "message": {
                "role": "assistant",
                "content": None,
                "native": {"format": "anthropic", "messages": [{"role": "assistant", "content": [BLOCK]}]},
            }
        },
        *({"message": {"role": "user", "content": f"Pinned {n}"}, "pinned": True} for n in range(2)),
        *({"message": {"role": "user", "content": f"More {n}"}} for n in range(3)),
    ]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})
    for limit in (1, 2, 3):
        query = {"model": "gpt-4o", "limit": limit}
        stored = await client.get(f"/conversations/{conversation}/window", params=query)
        given = await client.post("/window", json={**query, "messages": entries})
        assert stored.json()["stop_reason"] == given.json()["stop_reason"] == ("summary" if limit == 3 else "limit")
        assert stored.json()["request"] == given.json()["request"]


FACTS = [{"id": f"d{number}", "text": f"Room {number} has a window to the south."} for number in range(3)]


@examples(0.3)
@given(
    places=st.dictionaries(st.integers(0, 139), st.tuples(st.booleans(), st.integers(0, 2)), max_size=5),
    compacted=st.integers(100, 145),
    more=st.integers(1, 6),
    query=st.fixed_dictionaries(
        {},
        optional={
            "limit": st.integers(1, 9),
            "dedupe": st.just("messages"),
            "explain": st.just("true"),
            "overflow": st.just("skip"),
            "reserve": st.just(0),
            "view": st.sampled_from(["billing", "triage"]),
            "grounding_overflow": st.sampled_from(["drop", "whole"]),
        },
    ),
)
@example(places={4: (True, 0)}, compacted=140, more=2, query={})
async def test_documents_of_required_messages_before_a_compaction_are_sent(
    client: httpx.AsyncClient,
    fresh: Callable[[], str],
    places: dict[int, tuple[bool, int]],
    compacted: int,
    more: int,
    query: dict[str, Any],
) -> None:
    """With ``grounding=all`` a stored window has the documents that the window of its whole history has, also where the read
    ends behind a pinned message with some."""
    chat = Chat(client, fresh(), **CLAUDE, grounding="all")
    entries: list[dict[str, Any]] = []
    for number in range(compacted + more):
        is_question = number % 2 == 0
        message = {"role": "user" if is_question else "assistant", "content": f"message {number} " + "word " * 20}
        if number == compacted:
            message, is_question = {"role": "assistant", "content": REPLY}, False
        entry: dict[str, Any] = {"message": message}
        if number in places and is_question:
            is_pinned, which = places[number]
            entry |= {"pinned": is_pinned, "grounding": {"documents": [FACTS[which]]}}
        entries.append(entry)
    for first in range(0, len(entries), 90):
        await chat.append(*entries[first : first + 90])

    stored = await client.get(f"{chat.path}/window", params={**chat.query, **query})
    log = (await client.get(f"{chat.path}/messages", params={"limit": 1000})).json()["messages"]
    members = ("id", "message", "pinned", "grounding")
    sent = [{name: each[name] for name in members if name in each} for each in log]
    body = {**chat.query, **query, "messages": sent} | ({"explain": True} if "explain" in query else {})
    given_whole = await client.post("/window", json=body)

    assert stored.status_code == given_whole.status_code, (stored.text, given_whole.text)
    if stored.status_code == 200:
        names = ("request", "tokens", "grounding", "stop_reason", "kept", "dropped")
        one, other = stored.json(), given_whole.json()
        assert {name: one[name] for name in names} == {name: other[name] for name in names}


@pytest.mark.parametrize(("compacted", "stop"), [(1, "horizon"), (400, "summary")])
async def test_a_compaction_ends_a_view_before_its_horizon(
    client: httpx.AsyncClient, fresh: Callable[[], str], compacted: int, stop: str
) -> None:
    """A view of a long conversation ends with ``summary`` where its compaction stands for all before its horizon, else
    with ``horizon``, also where the whole log was read."""
    chat = Chat(client, fresh(), **CLAUDE)
    long = {"message": {"role": "user", "content": "word " * 20}}
    others = [long | ({"audience": ["triage"]} if number >= compacted else {}) for number in range(400)]
    reply = {"message": {"role": "assistant", "content": REPLY}, "author": "billing"}
    mine = [{"message": {"role": "user", "content": text}} for text in ("first", "last")]
    entries = [mine[0], *others[:compacted], reply, *others[compacted:], mine[1]]
    for first in range(0, len(entries), 90):
        await chat.append(*entries[first : first + 90])
    for more in ({}, {"explain": "true"}, {"limit": 9}):
        asked = {**chat.query, "view": "billing", "max_tokens": 200, **more}
        found = await client.get(f"{chat.path}/window", params=asked)
        assert found.json()["stop_reason"] == stop, (more, found.text)
    log = (await client.get(f"{chat.path}/messages", params={"limit": 1000})).json()["messages"]
    sent = [
        {name: each[name] for name in ("message", "author", "audience") if each.get(name) is not None} for each in log
    ]
    whole = {**chat.query, "view": "billing", "max_tokens": 200, "messages": sent}
    given_whole = await client.post("/window", json=whole)
    assert given_whole.json().get("stop_reason") == stop, given_whole.text
