"""What OpenAI refuses is changed on the way out, told, and counted as it is sent; what is stored stays."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user, window
from test_changed_provider import counted

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAx"}


async def mended(client: httpx.AsyncClient, conversation: str, form: str = "openai", **query: Any) -> dict[str, Any]:
    """Return a window whose total is what its request counts."""
    made = await window(client, conversation, format=form, **query)
    count = await counted(client, made, form)
    assert count == made["tokens"]["total"] or (count < made["tokens"]["total"] and not made["exact"])
    return made


@pytest.mark.parametrize("message", [{"content": None}, {"content": []}, {}])
async def test_no_content_is_an_empty_text(
    client: httpx.AsyncClient, conversation: str, message: dict[str, Any]
) -> None:
    """OpenAI refuses null, an empty list and a missing content without calls; the stored message keeps it."""
    await append(client, conversation, user("q"), {"role": "assistant", **message}, user("again"))

    made = await mended(client, conversation, explain=True)

    assert made["request"]["messages"][1] == {"role": "assistant", "content": ""}
    assert made["mended"]["messages"] == 1
    assert made["mended"]["reasons"]["empty_content"] == 1
    assert "empty_content" in made["explain"][1]["mended"]
    stored = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]
    assert stored[1]["message"] == {"role": "assistant", **message}


async def test_a_few_shot_that_the_model_takes_is_no_mend(client: httpx.AsyncClient, conversation: str) -> None:
    """A name that only OpenAI refuses in a few-shot is changed for its models and told; others get it as it is."""
    shots = [{"role": "user", "name": "Ann B", "content": "a"}, {"role": "assistant", "content": "b"}]
    await client.post("/conversations", json={"id": conversation, "few_shots": shots})

    changed = await window(client, conversation, model="gpt-4o")
    kept = await window(client, conversation, model="deepseek-chat")

    assert changed["request"]["messages"][0]["name"] == "Ann_B"
    assert changed["mended"] == {"messages": 1, "reasons": {"name": 1}}
    assert kept["request"]["messages"] == shots
    assert "mended" not in kept


@pytest.mark.parametrize("members", [{"refusal": "No."}, {"audio": {"id": "audio_1"}}])
async def test_null_beside_something_else_stays(
    client: httpx.AsyncClient, conversation: str, members: dict[str, Any]
) -> None:
    """Null content beside a refusal or audio goes out as it came."""
    message = {"role": "assistant", "content": None, **members}
    await append(client, conversation, user("q"), message, user("again"))

    made = await mended(client, conversation)

    assert made["request"]["messages"][1] == message
    assert "mended" not in made


async def test_names_fit_openais_alphabet(client: httpx.AsyncClient, conversation: str) -> None:
    """A name with a space gets an underscore, as does a function's with a point; other models get them as they came."""
    call = {"id": "c", "type": "function", "function": {"name": "docs.find", "arguments": "{}"}}
    await append(
        client,
        conversation,
        {"role": "user", "content": "Hi.", "name": "Jane Doe"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "found"},
    )

    made = await mended(client, conversation)
    other = await mended(client, conversation, model="llama-3.3-70b")
    items = await mended(client, conversation, "responses")

    assert made["request"]["messages"][0]["name"] == "Jane_Doe"
    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["name"] == "docs_find"
    assert made["mended"] == {"messages": 2, "reasons": {"name": 2}}
    assert other["request"]["messages"][0]["name"] == "Jane Doe"
    assert other["request"]["messages"][1]["tool_calls"] == [call]
    assert items["request"]["input"][1]["name"] == "docs_find"


async def test_long_ids_are_shortened_alike(client: httpx.AsyncClient, conversation: str) -> None:
    """Two long ids that differ at their end stay two, a call and its result have one, and a model of another maker gets
    them as they came."""
    ids = ["tooluse_" + "a" * 90 + end for end in "xy"]
    calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "r"} for each in ids]
    await append(client, conversation, user("q"), {"role": "assistant", "content": None, "tool_calls": calls}, *results)

    made = await mended(client, conversation)
    other = await mended(client, conversation, model="gemini-2.5-pro")

    sent = [call["id"] for call in made["request"]["messages"][1]["tool_calls"]]
    assert sent == [message["tool_call_id"] for message in made["request"]["messages"][2:]]
    assert len(set(sent)) == 2
    assert all(len(each) <= 40 for each in sent)
    assert made["mended"] == {"messages": 3, "reasons": {"call_id": 3}}
    assert [call["id"] for call in other["request"]["messages"][1]["tool_calls"]] == ids


async def test_few_shots_are_mended_too(client: httpx.AsyncClient) -> None:
    """A few-shot without content is sent with an empty text."""
    body = {"model": "gpt-4o", "few_shots": [{"role": "assistant", "content": None}], "messages": [user("Hi.")]}
    made = (await client.post("/window", json=body)).json()
    assert made["request"]["messages"][0] == {"role": "assistant", "content": ""}
    assert made["mended"]["reasons"] == {"empty_content": 1}


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
async def test_the_words_of_a_spoken_reply_are_counted(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """The transcript is the reply's text in other forms and has its tokens; a model that speaks gets the id alone."""
    audio = {"id": "audio_1", "expires_at": 1, "data": "AAAA", "transcript": "the quick brown fox " * 400}
    await append(client, conversation, user("q"), {"role": "assistant", "content": None, "audio": audio}, user("r"))

    whole = await mended(client, conversation, form)
    small = await mended(client, conversation, form, max_tokens=300)
    chat = await mended(client, conversation, model="gpt-4o-audio-preview")

    assert whole["tokens"]["total"] > 1600
    assert small["kept"]["messages"] == 1
    assert chat["request"]["messages"][1]["audio"] == {"id": "audio_1"}
    assert chat["tokens"]["total"] < 40


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4o-audio-preview"])
async def test_a_file_in_a_result_costs_the_same_beside_a_spoken_reply(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """The line in place of a result's file is counted in a window that also has a spoken reply."""
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    file = {"type": "file", "file": {"filename": f"{'minutes of the meeting, ' * 8}.pdf", "file_id": "file-1"}}
    await append(
        client,
        conversation,
        user("q"),
        {"role": "assistant", "content": None, "audio": {"id": "audio_1", "transcript": "Yes."}},
        user("r"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "found"}, file]},
    )

    made = await mended(client, conversation, model=model)

    assert made["mended"]["reasons"]["as_text"] == 1


@pytest.mark.parametrize("after", [[], [{"role": "user", "content": "Stop."}]])
async def test_reasoning_without_its_item_is_left_out(
    client: httpx.AsyncClient, conversation: str, after: list[Any]
) -> None:
    """A stopped reply's reasoning is not sent; with its item behind it, it is."""
    answer = {"role": "assistant", "content": "Yes."}
    await append(client, conversation, {"role": "user", "content": "q"}, REASONING, *after, format="responses")
    alone = await mended(client, conversation, "responses", model="gpt-5", reasoning="all")
    assert REASONING not in alone["request"]["input"]
    assert alone["mended"]["reasons"] == {"lone_reasoning": 1}

    await append(client, conversation, {"role": "user", "content": "r"}, REASONING, answer, format="responses")
    whole = await mended(client, conversation, "responses", model="gpt-5", reasoning="all")
    assert whole["request"]["input"].count(REASONING) == 1


@pytest.mark.parametrize(
    ("item", "sent"),
    [
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
            },
            {"role": "assistant", "content": "Hi."},
        ),
        (
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}], "phase": "final_answer"},
            {"role": "assistant", "content": "No.", "phase": "final_answer"},
        ),
        (
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "Hi."}],
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
            },
        ),
    ],
)
async def test_an_assistants_item_is_one_that_the_sdk_declares(
    client: httpx.AsyncClient, conversation: str, item: dict[str, Any], sent: dict[str, Any]
) -> None:
    """Parts of an assistant need the id and status of a stored reply; without them its text is a string."""
    await append(client, conversation, {"role": "user", "content": "q"}, item, format="responses")

    made = await mended(client, conversation, "responses", model="gpt-5")

    assert made["request"]["input"][1] == sent
    assert made["mended"]["reasons"] == {"item_shape": 1}


@pytest.mark.parametrize("part", [{"type": "input_file"}, {"type": "input_image", "image_url": "", "file_id": None}])
async def test_a_medium_that_is_nowhere_is_left_out(
    client: httpx.AsyncClient, conversation: str, part: dict[str, Any]
) -> None:
    """A file or picture without data, address and id is not sent, and no other part's tokens are lost with it."""
    parts = [{"type": "input_text", "text": "q"}, {"type": "input_file", "file_id": "file-1"}]
    await append(client, conversation, {"role": "user", "content": [*parts, part]}, format="responses")

    made = await mended(client, conversation, "responses", model="gpt-5")

    assert made["request"]["input"] == [{"role": "user", "content": parts}]
    counted = await client.post("/count?format=responses", json={"model": "gpt-5", **made["request"]})
    assert counted.json()["tokens"] <= made["tokens"]["total"]


async def test_long_ids_of_items_are_left_out(client: httpx.AsyncClient, conversation: str) -> None:
    """An item's id over 64 characters is not sent, and that of a reasoning item, which must have one, is shortened."""
    call = {"type": "function_call", "id": "fc_" + "x" * 90, "call_id": "c" * 90, "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c" * 90, "output": "r"}
    thought = {**REASONING, "id": "rs_" + "x" * 400}
    await append(client, conversation, {"role": "user", "content": "q"}, thought, call, output, format="responses")

    made = await mended(client, conversation, "responses", model="gpt-5")

    _, sent, called, answered = made["request"]["input"]
    assert sent["id"].startswith("rs_")
    assert len(sent["id"]) <= 64
    assert "id" not in called
    assert called["call_id"] == answered["call_id"]
    assert len(called["call_id"]) <= 64
    assert made["mended"]["reasons"] == {"call_id": 2, "item_id": 1}


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
async def test_a_mark_for_the_prompt_cache_is_taken(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """OpenAI's own mark on a part goes to Responses as it came; forms that have no place for it leave it out."""
    part = {"type": "text", "text": "Long.", "prompt_cache_breakpoint": {"mode": "explicit"}}
    await append(client, conversation, {"role": "user", "content": [part]})

    made = await mended(client, conversation, form)

    if form == "responses":
        assert made["request"]["input"][0]["content"] == [{**part, "type": "input_text"}]
    else:
        assert "breakpoint" not in str(made["request"])


async def test_an_items_id_is_sent_once(client: httpx.AsyncClient, conversation: str) -> None:
    """OpenAI refuses an id that is there twice, as programs write that store a turn again; the words stay."""
    said = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    one, two = ({**said, "content": [{"type": "output_text", "text": text, "annotations": []}]} for text in ("1", "2"))
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    turn = [call, output, call, output]
    await append(client, conversation, user("q"), REASONING, one, user("r"), REASONING, two, *turn, format="responses")

    made = await mended(client, conversation, "responses", reasoning="all")

    sent = made["request"]["input"]
    assert [item["id"] for item in sent if "id" in item] == ["rs_1", "msg_1", "fc_1"]
    assert [item.get("content") for item in sent if item.get("role") == "assistant"] == [one["content"], "2"]
    assert [item["type"] for item in sent[-4:]] == ["function_call", "function_call_output"] * 2
    assert made["mended"]["reasons"]["item_twice"] == 2


async def test_an_item_that_is_left_out_takes_its_reasoning_along(client: httpx.AsyncClient, conversation: str) -> None:
    """A hosted call that is there twice is sent once, and so without the reasoning before its second copy."""
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo="}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here it is."}]}
    await append(client, conversation, user("draw"), picture, said, REASONING, picture, format="responses")

    made = await mended(client, conversation, "responses", reasoning="all")

    assert [item.get("type", item.get("role")) for item in made["request"]["input"]] == [
        *("user", "image_generation_call", "assistant")
    ]
    assert made["mended"]["reasons"].keys() >= {"item_twice", "lone_reasoning"}


@pytest.mark.parametrize(
    ("data", "expected", "name"),
    [
        ("data:text/markdown;base64,IyBIaQ==", {"type": "text", "text": "# Hi"}, "file_type"),
        ("data:text/csv,a;b", {"type": "text", "text": "a;b"}, "file_type"),
        ("JVBERi0xLjQK", "data:application/pdf;base64,JVBERi0xLjQK", "file_type"),
        ("data:application/msword;base64,0M8R4A==", "application/msword", "untaken_medium"),
    ],
)
async def test_files_are_pdfs_in_chat_completions(
    client: httpx.AsyncClient, conversation: str, data: str, expected: Any, name: str
) -> None:
    """A text file is sent as its text, base64 of a PDF as a data URL, and another file as a line."""
    part = {"type": "file", "file": {"filename": "a", "file_data": data}}
    await append(client, conversation, {"role": "user", "content": [{"type": "text", "text": "Read it."}, part]})

    made = await mended(client, conversation, model="gpt-4o")

    found = made["request"]["messages"][0]["content"][1]
    assert found == expected or expected in str(found)
    assert made["mended"]["reasons"] == {name: 1}
