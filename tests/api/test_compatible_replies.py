"""Replies of OpenAI-compatible servers over HTTP: appended, stored regular, and sent."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, history, problem, window
from validators.logs import PNG

PATH = "/conversations/{}/messages"
QUESTION = {"role": "user", "content": "hi"}
REGULAR = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
}
THOUGHTS = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}], "closed": True}
REFERENCE = {"type": "reference", "reference_ids": [1, 2]}
"""Chunks of Mistral's replies."""
PICTURE = {"type": "image_url", "image_url": {"url": PNG}}


def called(**call: Any) -> dict[str, Any]:
    """A reply with one call that has these members."""
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", **call}]}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"role": "assistant", "content": "yo", "tool_calls": []}, {"role": "assistant", "content": "yo"}),
        ({"role": "assistant", "content": "yo", "tool_calls": None}, {"role": "assistant", "content": "yo"}),
        (called(function={"name": "f", "arguments": '{"a":1}'}), REGULAR),
        (called(type=None, function={"name": "f", "arguments": {"a": 1}}), REGULAR),
        (called(type="function", function={"name": "f", "arguments": {"a": 1}}), REGULAR),
        (
            called(function={"name": "f"}),
            called(type="function", function={"name": "f", "arguments": "{}"}),
        ),
        (
            called(function={"name": "f", "arguments": None}),
            called(type="function", function={"name": "f", "arguments": "{}"}),
        ),
        (
            {"role": "assistant", "content": [THOUGHTS, {"type": "text", "text": "yo"}, REFERENCE]},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "yo"}],
                "reasoning_content": "Let me see.",
                "references": [REFERENCE],
            },
        ),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "yo"}, PICTURE]},
            {"role": "assistant", "content": [{"type": "text", "text": "yo"}], "images": [PICTURE]},
        ),
        ({**REGULAR, "function_call": REGULAR["tool_calls"][0]["function"]}, REGULAR),  # type: ignore[index]
        (called(custom={"name": "f", "input": "x"}), called(type="custom", custom={"name": "f", "input": "x"})),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": {"a": "ü"}}},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":"ü"}'}},
        ),
    ],
)
async def test_a_reply_is_stored_regular(client: httpx.AsyncClient, conversation: str, given: Any, stored: Any) -> None:
    """The reply is taken, stored as the regular one, and is a duplicate of both when it is sent again."""
    await append(client, conversation, QUESTION, {"id": "r", "message": given})
    for again in (given, stored):
        answer = await append(client, conversation, {"id": "r", "message": again})
        assert answer["messages"][0]["duplicate"]
    assert (await history(client, conversation))[1]["message"] == stored


@pytest.mark.parametrize("empty", [{"content": None}, {"content": []}, {}])
async def test_a_result_without_words_is_stored(client: httpx.AsyncClient, conversation: str, empty: Any) -> None:
    """A tool that gives nothing back: null, an empty list, or no content at all. Each provider wants a string."""
    result = {"role": "tool", "tool_call_id": "c1", **empty}
    await append(client, conversation, QUESTION, REGULAR, result, {"role": "user", "content": "and?"})
    sent = (await window(client, conversation, model="gpt-4o"))["request"]["messages"]
    assert sent[2] == {"role": "tool", "tool_call_id": "c1", "content": ""}
    assert len(sent) == 4


@pytest.mark.parametrize("role", ["system", "developer", "user"])
@pytest.mark.parametrize("content", [None, []])
async def test_a_message_without_words_is_stored(
    client: httpx.AsyncClient, conversation: str, role: str, content: Any
) -> None:
    """A question or a note of nothing, as a form's empty field gives it."""
    await append(client, conversation, {"role": role, "content": content}, QUESTION)
    sent = (await window(client, conversation, model="gpt-4o"))["request"]["messages"]
    assert sent == [{"role": role, "content": ""}, QUESTION]


async def test_null_reasoning_is_left_out(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply of vLLM has null reasoning beside its words, which OpenAI answers 400 to."""
    reply = {"role": "assistant", "content": "yo", "reasoning": None, "reasoning_content": None}
    await append(client, conversation, QUESTION, reply)
    sent = (await window(client, conversation, model="gpt-4o"))["request"]["messages"]
    assert sent[1] == {"role": "assistant", "content": "yo"}


async def test_a_result_without_an_id_answers_the_only_open_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A tool message without the id of its call has that of the only call that is open in the request."""
    two = [
        REGULAR,
        {"role": "tool", "content": "x"},
        called(type="function", function={"name": "g", "arguments": "{}"}),
    ]
    two[2]["tool_calls"][0]["id"] = "c2"
    await append(client, conversation, QUESTION, *two, {"role": "tool", "tool_call_id": "", "content": "y"})
    assert [each["message"].get("tool_call_id") for each in await history(client, conversation)] == [
        *(None, None, "c1", None, "c2")
    ]
    made = await client.post("/window", json={"model": "gpt-4o-mini", "messages": [QUESTION, *two[:2]]})
    assert made.json()["request"]["messages"][2]["tool_call_id"] == "c1"
    counted = await client.post("/count", json={"model": "gpt-4o-mini", "messages": [QUESTION, *two[:2]]})
    assert counted.status_code == 200, counted.text


async def test_a_result_of_parallel_calls_is_told_by_its_name(client: httpx.AsyncClient, conversation: str) -> None:
    """Of several open calls, a result without an id answers the only one with its name; without it, that is 400."""
    calls = [{"id": f"c{name}", "function": {"name": name, "arguments": "{}"}} for name in "fg"]
    reply = {"role": "assistant", "content": None, "tool_calls": calls}
    results = [{"role": "tool", "name": name, "content": name} for name in "gf"]
    lone = {"messages": [QUESTION, reply, {"role": "tool", "content": "x"}]}
    told = problem(await client.post(PATH.format(conversation), json=lone), 400, "invalid-entry")
    assert "Add 'tool_call_id'" in told["detail"]
    assert "2 calls are open ('cf', 'cg')" in told["detail"]
    assert told["errors"][0]["pointer"] == "#/messages/2"
    alone = {"messages": [{"role": "tool", "content": "x"}]}
    told = problem(await client.post(PATH.format(conversation), json=alone), 400, "invalid-entry")
    assert "no call is open" in told["detail"]

    await append(client, conversation, QUESTION, reply, *results)

    assert [each["message"].get("tool_call_id") for each in await history(client, conversation)][2:] == ["cg", "cf"]


NATIVE_CALLS = [
    {"function": {"name": name, "arguments": {"city": city}}} for name, city in (("f", "Rome"), ("f", "Oslo"))
]
"""Calls as Ollama's own API and some servers write them: without an id."""


@pytest.mark.parametrize("beside", [{}, {"id": ""}, {"id": None}])
@pytest.mark.parametrize("at_once", [True, False])
async def test_calls_without_ids_are_answered_in_order(
    client: httpx.AsyncClient,
    conversation: str,
    beside: dict[str, Any],
    at_once: bool,  # noqa: FBT001
) -> None:
    """Such calls get ids that are the same when the reply is sent again, and their results follow in order."""
    reply = {"role": "assistant", "content": "", "tool_calls": [{**beside, **call} for call in NATIVE_CALLS]}
    empty = {"tool_call_id": beside["id"]} if beside else {}
    results = [{"role": "tool", "tool_name": "f", "content": word, **empty} for word in ("sunny", "snow")]
    entries = [{"id": f"m{i}", "message": each} for i, each in enumerate([QUESTION, reply, *results, QUESTION])]

    for _ in range(2):  # a retry of each request is answered as before
        for request in [entries] if at_once else [[each] for each in entries]:
            told = await append(client, conversation, *request)
    assert all(each["duplicate"] for each in told["messages"])

    stored = [each["message"] for each in await history(client, conversation)]
    ids = [call["id"] for call in stored[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert [each["tool_call_id"] for each in stored[2:4]] == ids
    for form, model in (("openai", "gpt-4o"), ("responses", "gpt-5"), ("anthropic", "claude-sonnet-4-5")):
        made = await window(client, conversation, model=model, format=form)
        assert set(made.get("mended", {"reasons": {}})["reasons"]) <= {"foreign_members"}


async def test_the_same_call_without_an_id_in_two_turns(client: httpx.AsyncClient, conversation: str) -> None:
    """Each turn's result answers its own turn's call, also if both calls are the same."""
    call = {"role": "assistant", "content": "", "tool_calls": [NATIVE_CALLS[0]]}
    for word in ("sunny", "cloudy"):
        for message in (QUESTION, call, {"role": "tool", "content": word}):
            await append(client, conversation, message)
    await append(client, conversation, QUESTION)
    sent = (await window(client, conversation, model="gpt-4o"))["request"]["messages"]
    assert [each["content"] for each in sent if each["role"] == "tool"] == ["sunny", "cloudy"]


@pytest.mark.parametrize(
    ("given", "stored"), [(None, ""), ({"a": 1}, '{"a":1}'), ([{"type": "text", "text": "x"}], None)]
)
async def test_a_result_is_stored_as_text(
    client: httpx.AsyncClient, conversation: str, given: Any, stored: Any
) -> None:
    """A result that is null or an object is taken, and so is a call's id that is a number."""
    reply = {**REGULAR, "tool_calls": [{**REGULAR["tool_calls"][0], "id": 365174485}]}  # type: ignore[index,dict-item]
    await append(client, conversation, QUESTION, reply)
    await append(client, conversation, {"role": "tool", "tool_call_id": 365174485, "content": given})
    found = (await history(client, conversation))[2]["message"]
    assert found == {"role": "tool", "tool_call_id": "365174485", "content": given if stored is None else stored}


@pytest.mark.parametrize(("form", "model"), [("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5")])
async def test_a_picture_in_a_chat_result(client: httpx.AsyncClient, conversation: str, form: str, model: str) -> None:
    """A result with a picture is taken: in chat form it is told in a line, in other forms it is a picture."""
    picture = {"type": "image_url", "image_url": {"url": PNG}}
    result = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "shot"}, picture]}
    await append(client, conversation, QUESTION, REGULAR, result, QUESTION)
    assert (await history(client, conversation))[2]["message"] == result
    made = await window(client, conversation, model=model, format=form)
    counted = await client.post("/count", params={"format": form}, json={"model": model, **made["request"]})
    assert counted.json()["tokens"] <= made["tokens"]["total"]
    sent = made["request"]["messages"][2]
    if form == "openai":
        assert sent["content"].startswith("shot\n[image: image/png")
        assert made["mended"]["reasons"] == {"as_text": 1}
    else:
        assert [each["type"] for each in sent["content"][0]["content"]] == ["text", "image"]


async def test_a_long_id_of_a_call_is_taken(client: httpx.AsyncClient, conversation: str) -> None:
    """An id of 4,096 characters, in which LiteLLM has Gemini's signature, is stored, also of the providers' own messages."""
    long = "call_1__thought__" + "A" * 4079
    reply = {**REGULAR, "tool_calls": [{**REGULAR["tool_calls"][0], "id": long}]}  # type: ignore[index,dict-item]
    await append(client, conversation, QUESTION, reply, {"role": "tool", "tool_call_id": long, "content": "x"})
    item = {"type": "function_call", "call_id": long.lower(), "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": long.lower(), "output": "x"}
    await append(client, conversation, item, output, format="responses")
    assert (await history(client, conversation))[2]["message"]["tool_call_id"] == long
    for form, model in (("responses", "gpt-5"), ("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-2.5-pro")):
        sent = json.dumps((await window(client, conversation, model=model, format=form))["request"])
        assert long not in sent
    too_long = {"messages": [{"role": "tool", "tool_call_id": f"{long}A", "content": "x"}]}
    problem(await client.post(PATH.format(conversation), json=too_long), 400, "invalid-entry")


@pytest.mark.parametrize(
    "tool",
    [
        {"function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"name": "f", "description": "d", "parameters": {"type": "object"}},
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"name": "f", "description": "d", "inputSchema": {"type": "object"}},
        {
            "name": "f",
            "title": "F",
            "description": "d",
            "inputSchema": {"type": "object"},
            "annotations": {"title": "F"},
        },
        {"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}},
    ],
)
async def test_a_tool_becomes_regular(client: httpx.AsyncClient, conversation: str, tool: Any) -> None:
    """A tool without a type, or as Responses has it, is stored, sent and counted as a chat tool."""
    regular = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    created = await client.post("/conversations", json={"id": conversation, "tools": [tool]})
    assert created.status_code == 201, created.text
    assert created.json()["tools"] == [regular]
    changed = await client.patch(f"/conversations/{conversation}", json={"tools": [tool, tool]})
    assert changed.json()["tools"] == [regular, regular]
    body = {"model": "gpt-4o-mini", "messages": [QUESTION], "tools": [tool]}
    made = (await client.post("/window", json=body)).json()
    sent = {"type": "object", "properties": {}}  # OpenAI refuses an object schema without properties
    assert made["request"]["tools"] == [{**regular, "function": {**regular["function"], "parameters": sent}}]
    counted = (await client.post("/count", json=body)).json()
    assert counted["tokens"] == made["tokens"]["total"]


@pytest.mark.parametrize(
    "tool", [{"name": "f", "params": {}}, {"type": "web_search", "name": "f"}, {"type": None}, {"name": ""}]
)
async def test_a_tool_that_is_not_clear_is_refused(client: httpx.AsyncClient, tool: Any) -> None:
    """A tool of another form, or with members that no form has, is 400."""
    body = {"model": "gpt-4o-mini", "messages": [QUESTION], "tools": [tool]}
    for path in ("/window", "/count", "/conversations"):
        sent = {"tools": [tool]} if path == "/conversations" else body
        answer = await client.post(path, json=sent)
        assert problem(answer, 400, "bad-request")["errors"][0]["pointer"].startswith("#/tools/0")


async def test_a_custom_tool_of_responses_becomes_regular(client: httpx.AsyncClient) -> None:
    """A custom tool with a grammar gets the members of chat completions around it."""
    grammar = {"syntax": "lark", "definition": "start: A"}
    tool = {"type": "custom", "name": "f", "format": {"type": "grammar", **grammar}}
    made = await client.post("/window", json={"model": "gpt-5", "messages": [QUESTION], "tools": [tool]})
    (sent,) = made.json()["request"]["tools"]
    assert sent == {"type": "custom", "custom": {"name": "f", "format": {"type": "grammar", "grammar": grammar}}}


PDF = "data:application/pdf;base64,JVBERi0xLjQ="
LINK = "https://example.com/a.pdf"
PARTS = [
    {"type": "document_url", "document_url": LINK, "document_name": "a.pdf"},
    {"type": "file_url", "file_url": {"url": LINK}},
    {"type": "document_url", "document_url": PDF},
    {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}},
    {"type": "audio_url", "audio_url": {"url": "https://example.com/a.mp3"}},
]
DOCUMENTS = {
    "responses": ["input_file"],
    "anthropic": ["document"],
    "gemini": ["file_data", "inline_data", "fileData", "inlineData"],
}


@pytest.mark.parametrize("part", PARTS)
async def test_a_link_to_a_file_is_sent_as_it_came(client: httpx.AsyncClient, conversation: str, part: Any) -> None:
    """A part with a link is stored and sent in chat form as it came, and is counted."""
    message = {"role": "user", "content": [{"type": "text", "text": "Read it."}, part]}
    model = "qwen3.5-plus" if part["type"] == "video_url" else "mistral-large-latest"
    await append(client, conversation, message)
    made = await window(client, conversation, model=model)
    assert made["request"]["messages"][0] == message
    body = {"model": model, "messages": [message]}
    assert made["tokens"]["total"] == (await client.post("/count", json=body)).json()["tokens"]


SVG = "data:image/svg+xml;base64,PHN2Zy8+"
UNTAKEN = [
    ({"type": "image_url", "image_url": {"url": SVG}}, "[image: image/svg+xml, 1 kB]\n"),
    (
        {"type": "image_url", "image_url": {"url": SVG, "detail": "low", "width": 8, "height": 8}},
        "[image: image/svg+xml",
    ),
    ({"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0AAAAA"}}, "[image: image/bmp, 1 kB]\n"),
    ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "m4a"}}, "\n[audio: audio/m4a, 1 kB]\n"),
]
EMPTY = [
    {"type": "image_url", "image_url": {"url": ""}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
    {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
]


@pytest.mark.parametrize("model", ["gpt-4.1-mini", "gpt-4o", "gpt-5"])
@pytest.mark.parametrize(("part", "line"), UNTAKEN)
async def test_what_openai_does_not_take_is_a_line(
    client: httpx.AsyncClient, conversation: str, part: Any, line: str, model: str
) -> None:
    """A picture or a sound of a type that OpenAI refuses is stored as it came, sent as a line, told and counted."""
    message = {"role": "user", "content": [{"type": "text", "text": "Read it."}, part]}
    await append(client, conversation, message)
    made = await window(client, conversation, model=model)
    (sent,) = made["request"]["messages"]
    assert sent["content"][1]["text"].startswith(line)
    assert made["mended"]["reasons"] == {"untaken_medium": 1}
    assert not made["exact"]
    body = {"model": model, "messages": [sent]}
    assert made["tokens"]["total"] >= (await client.post("/count", json=body)).json()["tokens"]
    other = await window(client, conversation, model="grok-4")
    assert other["request"]["messages"] == [message]


@pytest.mark.parametrize("part", EMPTY)
async def test_an_empty_medium_is_a_line_for_every_model(
    client: httpx.AsyncClient, conversation: str, part: Any
) -> None:
    """No server takes a picture or a sound without bytes. DeepSeek gets the line as the content itself."""
    await append(client, conversation, {"role": "user", "content": [part]})
    for model in ("gpt-audio", "grok-4", "deepseek-chat"):
        made = await window(client, conversation, model=model)
        content = made["request"]["messages"][0]["content"]
        assert isinstance(content, str) if model == "deepseek-chat" else [each["type"] for each in content] == ["text"]
        reasons = made["mended"]["reasons"].keys() - {"one_text"}
        assert reasons in ({"untaken_medium"}, {"untaken_by_model"})


@pytest.mark.parametrize("told", ["application/octet-stream", "image/svg+xml"])
async def test_a_picture_of_another_type_has_the_type_of_its_bytes(
    client: httpx.AsyncClient, conversation: str, told: str
) -> None:
    """OpenAI gets a PNG as one, whatever its data URL says, and its detail stays."""
    url = PNG.replace("image/png", told)
    await append(client, conversation, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    made = await window(client, conversation, model="gpt-5")
    assert made["request"]["messages"][0]["content"][0]["image_url"] == {"url": PNG}
    assert made["mended"]["reasons"] == {"media_type": 1}


@pytest.mark.parametrize("form", DOCUMENTS)
async def test_a_link_goes_where_a_form_has_a_place_for_it(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """A document goes to other providers as a file does; a video is a line, also where the model watches, and its form has
    no place for the address."""
    model = {"responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}[form]
    for part in PARTS[:3]:
        message = {"role": "user", "content": [{"type": "text", "text": "Read it."}, part]}
        made = await client.post("/window", params={}, json={"model": model, "format": form, "messages": [message]})
        assert made.status_code == 200, made.text
        sent = json.dumps(made.json()["request"])
        assert any(f'"{kind}"' in sent for kind in DOCUMENTS[form])
        assert LINK in sent or "JVBERi0xLjQ=" in sent
        assert '"file_id"' not in sent
    await append(client, conversation, {"role": "user", "content": [PARTS[3]]})
    answer = await client.get(f"/conversations/{conversation}/window", params={"model": model, "format": form})
    reason = "as_text" if form == "gemini" else "untaken_by_model"
    assert answer.json()["mended"]["reasons"] == {reason: 1}


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (called(id=True, function={"name": "f", "arguments": "{}"}), "/tool_calls/0/id"),
        (called(function={"name": "f"}, custom={"name": "f"}), "/tool_calls/0"),
        (called(type="function", function={"name": "f", "argumentss": "{}"}), "/tool_calls/0/function/argumentss"),
        ({"role": "assistant", "tool_calls": {}}, "/tool_calls"),
        ({"role": "tool", "content": "x", "tool_call_id": []}, "/tool_call_id"),
        ({"role": "tool", "content": "x", "toolCallId": "c"}, "/toolCallId"),
    ],
)
async def test_what_is_not_clear_is_refused(
    client: httpx.AsyncClient, conversation: str, message: Any, pointer: str
) -> None:
    """What could mean several things, or is misspelt, is 400 with its place."""
    answer = await client.post(PATH.format(conversation), json={"messages": [QUESTION, message]})
    assert problem(answer, 400, "invalid-entry")["errors"][0]["pointer"] == f"#/messages/1{pointer}"


async def test_mistral_gets_no_member_that_it_refuses(client: httpx.AsyncClient, conversation: str) -> None:
    """Reasoning and null members of another server's reply are not sent to Mistral's models, and not counted."""
    vllms = {
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning_content": "Hm. " * 99,
    }
    mistrals = {**REGULAR, "tool_calls": [{**REGULAR["tool_calls"][0], "id": "D681PevKs"}]}
    reply = {**mistrals, **vllms, "prefix": False}
    await append(client, conversation, QUESTION, reply, {"role": "tool", "tool_call_id": "D681PevKs", "content": "x"})
    made = await window(client, conversation, model="mistral-large-latest", reasoning="all")
    assert made["request"]["messages"][1] == {**mistrals, "prefix": False}
    assert made["mended"]["reasons"] == {"strict_members": 1}
    assert made["tokens"].get("reasoning", 0) == 0
    other = await window(client, conversation, model="deepseek-chat")
    assert other["request"]["messages"][1] == reply
    assert "mended" not in other


@pytest.mark.parametrize("reasoning", ["turn", "all"])
@pytest.mark.parametrize("model", ["cerebras/zai-glm-4.7", "groq/qwen/qwen3-32b", "groq/openai/gpt-oss-120b"])
async def test_a_closed_host_gets_no_member_that_it_refuses(
    client: httpx.AsyncClient, conversation: str, model: str, reasoning: str
) -> None:
    """Cerebras and Groq refuse reasoning, whoever made the model; the makers' own servers get it, and who else serves it."""
    beside = {"reasoning_content": "Hm. " * 99, "prefix": False, "cache_control": {"type": "ephemeral"}}
    reply = {**REGULAR, **beside}
    result = {"role": "tool", "tool_call_id": REGULAR["tool_calls"][0]["id"], "content": "x"}
    await append(client, conversation, QUESTION, reply, result)
    made = await window(client, conversation, model=model, reasoning=reasoning)
    assert made["request"]["messages"][1] == REGULAR
    assert made["mended"]["reasons"] == {"others_members" if "gpt" in model else "host_members": 1}
    assert made["tokens"].get("reasoning", 0) == 0
    count = await client.post("/count", json={"model": model, **made["request"]})
    assert count.json()["tokens"] <= made["tokens"]["total"]
    for other in ("glm-4.7", "qwen3-32b", "openrouter/qwen/qwen3-32b"):
        sent = await window(client, conversation, model=other, reasoning=reasoning)
        assert sent["request"]["messages"][1]["reasoning_content"] == beside["reasoning_content"]


@pytest.mark.parametrize(
    ("given", "regular"),
    [
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "any"}, "required"),
        ("any", "required"),
        ({"type": "auto"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
async def test_a_choice_of_another_form_is_that_of_chat(
    client: httpx.AsyncClient, conversation: str, given: Any, regular: Any
) -> None:
    """A choice as Responses or Anthropic have it becomes the chat form's, and goes to every format."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    body = {"id": conversation, "tools": tools, "tool_choice": given}
    assert (await client.post("/conversations", json=body)).json()["tool_choice"] == regular
    assert (await client.patch(f"/conversations/{conversation}", json={"tool_choice": given})).status_code == 200
    await append(client, conversation, QUESTION)
    for form, model in (
        ("openai", "gpt-4o"),
        ("responses", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-2.5-pro"),
    ):
        made = await window(client, conversation, model=model, format=form)
        asked = {"model": model, **made["request"]}
        counted = await client.post("/count", params={"format": form}, json=asked)
        assert counted.json()["tokens"] <= made["tokens"]["total"]
    chat = {"model": "gpt-4o", "messages": [QUESTION], "tools": tools}
    for path in ("/count", "/window"):
        answers = [await client.post(path, json={**chat, "tool_choice": each}) for each in (given, regular)]
        assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(("model", "form"), [("kimi-k2.5", "openai"), ("claude-sonnet-4-5", "anthropic")])
async def test_results_of_calls_with_one_id_are_all_sent(
    client: httpx.AsyncClient, conversation: str, model: str, form: str
) -> None:
    """Kimi gives two calls of a reply one id; their results are appended one by one, and no id is sent twice."""
    (call,) = REGULAR["tool_calls"]  # type: ignore[misc]
    await append(client, conversation, QUESTION, {**REGULAR, "tool_calls": [call, call]})
    for words in ("one", "two"):
        await append(client, conversation, {"role": "tool", "tool_call_id": "c1", "content": words})
    sent = await window(client, conversation, model=model, format=form)
    text = json.dumps(sent["request"])
    assert sent["stop_reason"] == "complete"
    assert text.index('"one"') < text.index('"two"')
    assert text.count('"c1"') == len(("its call", "its result"))
