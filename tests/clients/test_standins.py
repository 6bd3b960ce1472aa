"""Each stand-in accepts a history that it made, and refuses the same history after one wrong change."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from clients.standins.bedrock import Bedrock
from clients.standins.claude import Claude
from clients.standins.gemini import Gemini
from clients.standins.google_interactions import Interactions
from clients.standins.ollama_server import Ollama
from clients.standins.openai_responses import OpenAI
from clients.standins.serving import Provider, RefusedError

Object = dict[str, Any]
Change = Callable[[list[Any]], Any]
ASKED = ("Question 1: two? calls: 2", "Question 2: and one? calls: 1")


def claude(provider: Provider, **settings: Any) -> Object:
    body: Object = {"model": "claude", "system": "Be brief.", "messages": [], **settings}
    for question in ASKED:
        body["messages"].append({"role": "user", "content": question})
        while True:
            content = provider.reply("/v1/messages", body)["content"]
            body["messages"].append({"role": "assistant", "content": content})
            uses = [block["id"] for block in content if block["type"] == "tool_use"]
            if question == ASKED[1] or not uses:
                break
            blocks = [{"type": "tool_result", "tool_use_id": use, "content": "x"} for use in uses]
            body["messages"].append({"role": "user", "content": blocks})
    last = body["messages"][-1]["content"][-1]["id"]
    body["messages"].append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": last, "content": "x"}]})
    return body


def responses(provider: Provider, **settings: Any) -> Object:
    body: Object = {"model": "gpt", "input": [], **settings}
    for question in ASKED:
        body["input"].append({"role": "user", "content": question})
        while True:
            output = provider.reply("/v1/responses", body)["output"]
            calls = [item["call_id"] for item in output if item["type"] == "function_call"]
            body["input"] += output
            body["input"] += [{"type": "function_call_output", "call_id": call, "output": "x"} for call in calls]
            if question == ASKED[1] or not calls:
                break
    return body


def gemini(provider: Provider, **settings: Any) -> Object:
    body: Object = {"contents": [], **settings}
    for question in ASKED:
        body["contents"].append({"role": "user", "parts": [{"text": question}]})
        while True:
            content = provider.reply("/v1beta/models/m:generateContent", body)["candidates"][0]["content"]
            body["contents"].append(content)
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            if not calls:
                break
            results = [{"id": call["id"], "name": call["name"], "response": {"output": "x"}} for call in calls]
            body["contents"].append({"role": "user", "parts": [{"functionResponse": result} for result in results]})
            if question == ASKED[1]:
                break
    return body


def interactions(provider: Provider) -> Object:
    body: Object = {"input": [], "store": False}
    for question in ASKED:
        body["input"].append({"type": "user_input", "content": [{"type": "text", "text": question}]})
        while True:
            steps = provider.reply("/v1beta/interactions", body)["steps"]
            calls = [step["id"] for step in steps if step["type"] == "function_call"]
            body["input"] += steps
            body["input"] += [{"type": "function_result", "call_id": call, "result": "x"} for call in calls]
            if question == ASKED[1] or not calls:
                break
    return body


def converse(provider: Provider) -> Object:
    tools = [{"toolSpec": {"name": f"find_talk_{index}", "inputSchema": {"json": {}}}} for index in range(2)]
    body: Object = {"messages": [], "toolConfig": {"tools": tools}}
    for question in ASKED:
        body["messages"].append({"role": "user", "content": [{"text": question}]})
        while True:
            message = provider.reply(CONVERSE_PATH, body)["output"]["message"]
            body["messages"].append(message)
            uses = [block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block]
            if not uses:
                break
            results = [{"toolResult": {"toolUseId": use, "content": [{"text": "x"}]}} for use in uses]
            body["messages"].append({"role": "user", "content": results})
            if question == ASKED[1]:
                break
    return body


def ollama(provider: Provider) -> Object:
    body: Object = {"model": "qwen3:8b", "messages": [], "options": {"num_ctx": 10_000}}
    for question in ASKED:
        body["messages"].append({"role": "user", "content": question})
        while True:
            message = provider.reply("/api/chat", body)["message"]
            body["messages"].append(message)
            names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
            body["messages"] += [{"role": "tool", "tool_name": name, "content": "x"} for name in names]
            if question == ASKED[1] or not names:
                break
    return body


CONVERSE_PATH = "/model/us.anthropic.claude-opus-4-5-20251101-v1%3A0/converse"


def refused(provider: Provider, path: str, body: Object, change: Callable[[Object], Any]) -> None:
    """Check that the provider accepts the body, and refuses the changed body."""
    provider.reply(path, deepcopy(body))
    changed = deepcopy(body)
    change(changed)
    with pytest.raises(RefusedError):
        provider.reply(path, changed)


THOUGHT_CHANGED: Change = lambda said: said[1]["content"][0].update(thinking="other")  # noqa: E731
CLAUDE: dict[str, Change] = {
    "a thought is changed": THOUGHT_CHANGED,
    "the loop begins without a thought": lambda said: said[-2]["content"].pop(0),
    "a result is missing": lambda said: said[2]["content"].pop(),
    "a call is missing": lambda said: said[1]["content"].pop(),
    "the first message is the assistant's": lambda said: said.pop(0),
    "the last message is the assistant's": lambda said: said.pop(),
    "a text is empty": lambda said: said[0].update(content=" "),
    "an id is used twice": lambda said: said.extend(said[1:3]),
    "five marks": lambda said: said[0].update(
        content=[{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5
    ),
    "words before a result": lambda said: said[-1]["content"].insert(0, {"type": "text", "text": "x"}),
}
BOUND: dict[str, Change] = {
    "an earlier message is changed": lambda said: said[0].update(content="Question 1: other? calls: 2"),
    "an earlier message is left out": lambda said: said[3]["content"].append({"type": "text", "text": "more"}),
    "a thought between others is left out": lambda said: said[3]["content"].pop(0),
}
RESPONSES: dict[str, Change] = {
    "an output is missing": lambda items: items.pop(),
    "a call is missing": lambda items: items.pop(2),
    "an item is there twice": lambda items: items.append(items[1]),
    "encrypted content is another's": lambda items: items[1].update(encrypted_content=items[-4]["encrypted_content"]),
    "no parts": lambda items: items[0].update(content=[]),
}
BOUND_ITEMS: dict[str, Change] = {
    "an earlier item is changed": lambda items: items[0].update(content="Question 1: other? calls: 2"),
    "an earlier result is changed": lambda items: items[4].update(output="y"),
    "reasoning between others is left out": lambda items: items.remove(
        [item for item in items if item.get("type") == "reasoning"][1]
    ),
}
STORED: dict[str, Change] = {
    "reasoning is missing": lambda items: items.pop(1),
    "what follows reasoning is missing": lambda items: [items.pop(2), items.pop(3)],
}
GEMINI: dict[str, Change] = {
    "the newest call has no signature": lambda said: said[-2]["parts"][1].pop("thoughtSignature"),
    "a signature is on another call": lambda said: said[1]["parts"][1].update(
        thoughtSignature=said[-2]["parts"][1]["thoughtSignature"]
    ),
    "a result is missing": lambda said: said[2]["parts"].pop(),
    "a result has another name": lambda said: said[2]["parts"][0]["functionResponse"].update(name="other"),
    "results stand in two contents": lambda said: said.insert(3, {"role": "user", "parts": [said[2]["parts"].pop()]}),
    "no parts": lambda said: said[0].update(parts=[]),
    "the first content is the model's": lambda said: said.pop(0),
}


INTERACTIONS: dict[str, Change] = {
    "the newest call has no signed thought": lambda steps: steps.pop(-3),
    "a thought has no signature": lambda steps: steps[1].update(signature=""),
    "a signature is on another thought": lambda steps: steps[1].update(signature=steps[-3]["signature"]),
    "a result is missing": lambda steps: steps.pop(),
    "a call is missing": lambda steps: steps.pop(2),
    "no content": lambda steps: steps[0].update(content=[]),
    "the first step is a call": lambda steps: [steps.pop(0), steps.pop(0)],
}


OLLAMA: dict[str, Change] = {
    "a content is a list": lambda said: said[0].update(content=[{"type": "text", "text": "x"}]),
    "arguments are a string": lambda said: said[1]["tool_calls"][0]["function"].update(arguments="{}"),
    "a picture is a data URL": lambda said: said[0].update(images=["data:image/png;base64,AAAA"]),
    "a role is unknown": lambda said: said[0].update(role="developer"),
    "a member is unknown": lambda said: said[0].update(timestamp=1),
    "a result names no tool": lambda said: said[2].pop("tool_name"),
    "results are in another order": lambda said: said.insert(2, said.pop(3)),
    "a result is missing": lambda said: said.pop(),
    "the last message is the model's": lambda said: said.append({"role": "assistant", "content": "x"}),
}


@pytest.mark.parametrize("change", OLLAMA)
def test_ollama_refuses(change: str) -> None:
    """The stand-in of Ollama refuses each wrong change of a history."""
    provider = Ollama(10_000)
    refused(provider, "/api/chat", ollama(provider), lambda changed: OLLAMA[change](changed["messages"]))


CONVERSE: dict[str, Change] = {
    "reasoning is changed": lambda said: said[1]["content"][0]["reasoningContent"]["reasoningText"].update(
        text="other"
    ),
    "reasoning has no signature": lambda said: said[1]["content"][0]["reasoningContent"]["reasoningText"].pop(
        "signature"
    ),
    "the loop begins without reasoning": lambda said: said[-2]["content"].pop(0),
    "a result is missing": lambda said: said[2]["content"].pop(),
    "a call is missing": lambda said: said[1]["content"].pop(),
    "the first message is the assistant's": lambda said: said.pop(0),
    "the last message is the assistant's": lambda said: said.pop(),
    "two messages of one role": lambda said: said.insert(0, said[0]),
    "a text is blank": lambda said: said[0].update(content=[{"text": " "}]),
    "no content": lambda said: said[0].update(content=[]),
    "an unknown member": lambda said: said[0].update(timestamp=1),
    "a block of two members": lambda said: said[0]["content"][0].update(cachePoint={"type": "default"}),
    "an id is used twice": lambda said: said.extend(said[1:3]),
    "five cache points": lambda said: said[0].update(content=[{"text": "x"}, {"cachePoint": {"type": "default"}}] * 5),
    "words before a result": lambda said: said[-1]["content"].insert(0, {"text": "x"}),
    "an error without words": lambda said: said[-1]["content"][0]["toolResult"].update(status="error", content=[]),
    "a document without a text": lambda said: said[0].update(content=[document("a")]),
    "two documents of one name": lambda said: said[0]["content"].extend([document("a"), document("a")]),
    "six documents": lambda said: said[0]["content"].extend(document(f"a{index}") for index in range(6)),
    "a document's name": lambda said: said[0]["content"].append(document("a.b")),
}


def document(name: str) -> Object:
    return {"document": {"format": "txt", "name": name, "source": {"text": "x"}}}


@pytest.mark.parametrize("change", CONVERSE)
def test_bedrock_refuses(change: str) -> None:
    """As Claude behind Bedrock, the stand-in refuses each wrong change of a history."""
    provider = Bedrock(10_000)
    refused(provider, CONVERSE_PATH, converse(provider), lambda changed: CONVERSE[change](changed["messages"]))


def test_bedrock_refuses_calls_without_tools() -> None:
    """A history with calls is refused without ``toolConfig``."""
    provider = Bedrock(10_000)
    refused(provider, CONVERSE_PATH, converse(provider), lambda changed: changed.pop("toolConfig"))


@pytest.mark.parametrize("change", CLAUDE)
def test_claude_refuses(change: str) -> None:
    """With thinking enabled, Claude's stand-in refuses each wrong change of a history."""
    provider = Claude(10_000, binds=False)
    body = claude(provider, thinking={"type": "enabled", "budget_tokens": 1024})
    refused(provider, "/v1/messages", body, lambda changed: CLAUDE[change](changed["messages"]))


@pytest.mark.parametrize("change", BOUND)
def test_a_model_that_binds_thoughts_refuses(change: str) -> None:
    """A model that binds thinking refuses a change of the content before a thinking block."""
    provider = Claude(10_000, binds=True)
    refused(provider, "/v1/messages", claude(provider), lambda changed: BOUND[change](changed["messages"]))


def test_the_oldest_thoughts_may_be_left_out() -> None:
    """A model that binds thinking accepts a request that leaves out the oldest thinking blocks."""
    provider = Claude(10_000, binds=True)
    body = claude(provider)
    for message in body["messages"][1:-2:2]:
        message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    body["messages"] = [message for message in body["messages"] if message["content"]]
    provider.reply("/v1/messages", body)


@pytest.mark.parametrize("change", RESPONSES)
def test_openai_refuses(change: str) -> None:
    """With ``store: false``, OpenAI's stand-in refuses each wrong change of a history."""
    provider = OpenAI(10_000)
    body = responses(provider, store=False)
    refused(provider, "/v1/responses", body, lambda changed: RESPONSES[change](changed["input"]))


@pytest.mark.parametrize("change", BOUND_ITEMS)
def test_openai_s_model_that_binds_reasoning_refuses(change: str) -> None:
    """The stand-in of a model that binds reasoning refuses a change of what is before it."""
    provider = OpenAI(10_000, binds=True)
    body = responses(provider, store=False)
    refused(provider, "/v1/responses", body, lambda changed: BOUND_ITEMS[change](changed["input"]))


@pytest.mark.parametrize("change", STORED)
def test_openai_refuses_stored_items_apart(change: str) -> None:
    """With stored replies, OpenAI's stand-in refuses an item without its reasoning, and reasoning without its next item."""
    provider = OpenAI(10_000)
    refused(provider, "/v1/responses", responses(provider), lambda changed: STORED[change](changed["input"]))


@pytest.mark.parametrize("change", GEMINI)
def test_gemini_refuses(change: str) -> None:
    """As Gemini 3, the stand-in refuses each wrong change of a history."""
    provider = Gemini(10_000, strict=True)
    path = "/v1beta/models/m:generateContent"
    refused(provider, path, gemini(provider), lambda changed: GEMINI[change](changed["contents"]))


@pytest.mark.parametrize("change", INTERACTIONS)
def test_interactions_refuse(change: str) -> None:
    """As Gemini 3, the stand-in of Interactions refuses each wrong change of a history."""
    provider = Interactions(10_000, strict=True)
    body = interactions(provider)
    refused(provider, "/v1beta/interactions", body, lambda changed: INTERACTIONS[change](changed["input"]))
