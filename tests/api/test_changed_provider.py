"""A chat whose provider is changed: what one provider's tools did, and pictures in results, are in every other format."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user, window
from validators.logs import PDF, PIXEL, PNG

HELLO = {"role": "user", "content": "Hello."}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cup final"},
}
FOUND = {"type": "web_search_result", "url": "https://x.test/cup", "title": "The final", "encrypted_content": "c2Vh"}
CLAUDES = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "cup final"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [FOUND]},
    {"type": "text", "text": "Spain won."},
]
CODE = [
    {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
    {"text": "It is 42."},
]
MCP = {
    "type": "mcp_call",
    "id": "m",
    "server_label": "docs",
    "name": "ask",
    "arguments": '{"q": 1}',
    "output": "the page",
}
HISTORIES = {
    "responses": ([SEARCH, MCP, {"role": "assistant", "content": "Spain won."}], ["cup final", "docs", "the page"]),
    "anthropic": ([{"role": "assistant", "content": CLAUDES}], ["cup final", "https://x.test/cup", "The final"]),
    "gemini": ([{"role": "model", "parts": CODE}], ["print(6 * 7)", "42"]),
}
FORMS = ["openai", "responses", "anthropic", "gemini"]
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}


async def counted(client: httpx.AsyncClient, made: dict[str, Any], form: str) -> int:
    answer = await client.post("/count", params={"format": form}, json={"model": made["model"], **made["request"]})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["tokens"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("came", HISTORIES)
async def test_hosted_tools_are_told_in_other_formats(
    client: httpx.AsyncClient, conversation: str, came: str, form: str
) -> None:
    """What was asked and what was found is one line each in another format, counted and told; its own has the parts."""
    messages, wanted = HISTORIES[came]
    await append(client, conversation, user("Go on."))
    await append(client, conversation, *messages, format=came)
    await append(client, conversation, user("And before?"))

    made = await window(client, conversation, model=MODELS[form], format=form)

    text = json.dumps(made["request"], ensure_ascii=False)
    assert all(words in text for words in wanted)
    if form == came:
        assert "mended" not in made
        assert "c2Vh" in text or came != "anthropic"
    else:
        assert made["mended"] == {"messages": 1, "reasons": {"as_text": 1}}
        assert "c2Vh" not in text
    assert await counted(client, made, form) <= made["tokens"]["total"]


CLAUDE_SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
RESULTS = {
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "shot", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "here"}, CLAUDE_SHOT]}
            ],
        },
    ],
    "responses": [
        {"type": "function_call", "call_id": "t1", "name": "shot", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "t1",
            "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
            ],
        },
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"id": "t1", "name": "shot", "args": {}}}]},
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "t1",
                        "name": "shot",
                        "response": {"output": "here"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
                    }
                }
            ],
        },
    ],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("came", RESULTS)
async def test_a_picture_in_a_result_is_carried(
    client: httpx.AsyncClient, conversation: str, came: str, form: str
) -> None:
    """A screenshot in a tool's result is sent in each format that takes it, and as a line of text in chat completions."""
    await append(client, conversation, user("Take a screenshot."))
    await append(client, conversation, *RESULTS[came], format=came)

    made = await window(client, conversation, model=MODELS[form], format=form)

    text = json.dumps(made["request"])
    assert (PIXEL in text) == (form != "openai")
    if form == "openai":
        assert made["request"]["messages"][-1]["content"].startswith("here\n[image: image/png, ")
        assert made["mended"]["reasons"] == {"as_text": 1}
        assert made["tokens"]["total"] < 60, "the picture is not sent, and costs nothing"
    assert await counted(client, made, form) <= made["tokens"]["total"]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4", "gpt-5"])
@pytest.mark.parametrize("text", ["", "a", "12:10.\n", '{"a": 1}', "[1]", "talk " * 300])
async def test_a_pictures_line_is_counted_at_each_place_of_parallel_results(
    client: httpx.AsyncClient, conversation: str, text: str, model: str
) -> None:
    """Results of parallel calls are billed as a list; the total covers a picture's line at its start, middle and end."""
    uses = [{"type": "tool_use", "id": f"t{place}", "name": "shot", "input": {}} for place in range(3)]
    await append(client, conversation, user("Look."), {"role": "assistant", "content": uses}, format="anthropic")
    shown = [{"type": "text", "text": text}, CLAUDE_SHOT]
    for given in range(8):  # each of the three results has a picture, or none
        contents = [shown if given >> place & 1 else "none" for place in range(3)]
        results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": each} for n, each in enumerate(contents)]
        await append(client, conversation, {"role": "user", "content": results}, format="anthropic")
        made = await window(client, conversation, model=model)
        counted_tokens = await counted(client, made, "openai")
        assert counted_tokens <= made["tokens"]["total"] <= counted_tokens + 2 * given.bit_count()


@pytest.mark.parametrize(("model", "within"), [("gemini-2.5-pro", False), ("gemini-3-pro-preview", True)])
async def test_gemini_3_gets_a_picture_inside_the_result(
    client: httpx.AsyncClient, conversation: str, model: str, *, within: bool
) -> None:
    """Gemini 3 takes pictures inside the function's response, and earlier models in a content of their own behind it."""
    await append(client, conversation, user("Take a screenshot."))
    await append(client, conversation, *RESULTS["anthropic"], format="anthropic")

    made = await window(client, conversation, model=model, format="gemini")

    response, *others = made["request"]["contents"][2:]
    assert len(response["parts"]) == 1
    assert (PIXEL in json.dumps(response)) == within
    assert (PIXEL in json.dumps(others)) != within


async def test_a_document_in_a_result_is_carried(client: httpx.AsyncClient, conversation: str) -> None:
    """A PDF in a result is an input file for Responses, and a line with its type and size in chat completions."""
    paper = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    call, result = RESULTS["anthropic"]
    result = {**result, "content": [{**result["content"][0], "content": [paper]}]}
    await append(client, conversation, user("Read it."))
    await append(client, conversation, call, result, format="anthropic")

    items = (await window(client, conversation, model="gpt-5", format="responses"))["request"]["input"]
    chat = (await window(client, conversation))["request"]["messages"]

    assert items[-1]["output"][0]["type"] == "input_file"
    assert chat[-1]["content"] == "[file: application/pdf, 1 kB]\n"


async def test_a_line_is_not_sent_to_its_own_provider(client: httpx.AsyncClient, conversation: str) -> None:
    """The line for other providers is in the message as it is read, and not in a window of the part's own format."""
    await append(client, conversation, HELLO, SEARCH, format="responses")

    stored = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]
    made = await window(client, conversation, model="gpt-5", format="responses")

    assert "[web search call: cup final]" in json.dumps(stored)
    assert made["request"]["input"] == [HELLO, SEARCH]


async def test_a_message_that_was_stored_without_its_line_is_imported(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """An export from before hosted tools' parts were told in words is taken as it is."""
    only = {"format": "responses", "messages": [SEARCH], "only": ["web_search_call"]}
    older = {"role": "assistant", "content": None, "native": only}
    await append(client, conversation, HELLO, SEARCH, format="responses")
    exported = (await client.get(f"/conversations/{conversation}/export")).text.splitlines()
    entry = json.loads(exported[-1])
    entry["message"] = older
    body = "\n".join([*exported[:-1], json.dumps(entry)])

    answer = await client.post(
        f"/conversations/import?id={conversation}-old", content=body, headers={"content-type": "application/x-ndjson"}
    )

    assert answer.status_code == 201, answer.text
    made = await window(client, f"{conversation}-old", model="gpt-5", format="responses")
    assert made["request"]["input"] == [HELLO, SEARCH]
