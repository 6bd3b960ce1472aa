"""Tests that agents of each provider's SDK run on windows for 12 turns (200 nightly) and no provider refuses a request.

The providers are stand-ins on loopback, which check seals, calls and turns as the real ones do (``standins/``).
Their replies are appended unchanged. A turn has up to three replies with calls, some in parallel, some with huge results.
Some questions have documents, and some replies are stored as drafts first. Budgets are small, so that the cut moves.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import anthropic
import boto3
import httpx
import ollama
import openai
import pytest
from botocore.config import Config
from clients.standins.bedrock import Bedrock
from clients.standins.claude import Claude
from clients.standins.gemini import Gemini
from clients.standins.google_interactions import Interactions
from clients.standins.ollama_server import Ollama
from clients.standins.openai_responses import OpenAI
from clients.standins.serving import Provider, serving, words
from google import genai
from validators.converse import as_json, as_sdk

BUDGET_TOKENS = 4000
STEPS = ("", " 1", " 2", " 1 1", " 3 1", " 1 2 1")
SYSTEM = "You know the programme."
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}}},
    }
    for name in ("find_talk", "find_talk_0", "find_talk_1")
]
Object = dict[str, Any]


class Reply(NamedTuple):
    """A provider's reply: the messages to append, and the SDK's objects of the calls that need results."""

    messages: list[Object]
    calls: list[Any]


class Agent(Protocol):
    """Uses one provider's SDK as a program does."""

    form: str
    model: str
    has_ids: bool
    """Whether calls have ids. Without ids, results are paired with calls by order, so all are appended in one request."""

    async def ask(self, request: Object) -> Reply: ...

    def question(self, text: str) -> Object: ...

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]: ...

    def begun(self, reply: Reply) -> Object: ...

    async def close(self) -> None: ...


class OpenAIAgent:
    form = "responses"
    has_ids = True

    def __init__(self, url: str, model: str, *, store: bool) -> None:
        self.model = model
        self.store = store
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    async def ask(self, request: Object) -> Reply:
        asked = {"store": self.store, "include": ["reasoning.encrypted_content"], **request}
        reply = await self.client.responses.create(model=self.model, **asked)
        items = [item.model_dump(mode="json", exclude_unset=True) for item in reply.output]
        return Reply(items, [item for item in reply.output if item.type == "function_call"])

    def question(self, text: str) -> Object:
        return {"role": "user", "content": text}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        return [
            {"type": "function_call_output", "call_id": call.call_id, "output": text}
            for call, text in zip(calls, texts, strict=True)
        ]

    def begun(self, reply: Reply) -> Object:
        return {"role": "assistant", "content": reply.messages[-1]["content"][0]["text"][:20]}

    async def close(self) -> None:
        await self.client.close()


class ClaudeAgent:
    form = "anthropic"
    has_ids = True

    def __init__(self, url: str, model: str, thinking: Object) -> None:
        self.model = model
        self.thinking = thinking
        self.client = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)

    async def ask(self, request: Object) -> Reply:
        asked: Any = {"max_tokens": 2048, "thinking": self.thinking, **request}
        reply = await self.client.messages.create(model=self.model, **asked)
        content = [block.model_dump(mode="json", exclude_none=True) for block in reply.content]
        uses = [block for block in reply.content if block.type == "tool_use"]
        return Reply([{"role": "assistant", "content": content}], uses)

    def question(self, text: str) -> Object:
        return {"role": "user", "content": text}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        pairs = zip(calls, texts, strict=True)
        blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in pairs]
        return [{"role": "user", "content": blocks}]

    def begun(self, reply: Reply) -> Object:
        *thoughts, last = reply.messages[0]["content"]
        return {"role": "assistant", "content": [*thoughts, {**last, "text": last["text"][:20]}]}

    async def close(self) -> None:
        await self.client.close()


class GeminiAgent:
    form = "gemini"

    def __init__(self, url: str, model: str, *, has_ids: bool) -> None:
        self.model = model
        self.has_ids = has_ids
        self.client = genai.Client(api_key="none", http_options={"base_url": url})

    async def ask(self, request: Object) -> Reply:
        asked: Any = request
        reply = await self.client.aio.models.generate_content(model=self.model, **asked)
        content = reply.candidates[0].content  # type: ignore[index]
        return Reply([content.model_dump(mode="json", exclude_none=True)], reply.function_calls or [])  # type: ignore[union-attr]

    def question(self, text: str) -> Object:
        return {"role": "user", "parts": [{"text": text}]}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        parts = []
        for call, text in zip(calls, texts, strict=True):
            named = {"id": call.id, "name": call.name} if self.has_ids else {"name": call.name}
            parts.append({"function_response": {**named, "response": {"output": text}}})
        return [{"role": "user", "parts": parts}]

    def begun(self, reply: Reply) -> Object:
        return {"role": "model", "parts": [{"text": reply.messages[0]["parts"][-1].get("text", "")[:20]}]}

    async def close(self) -> None:
        await self.client.aio.aclose()
        self.client.close()


class InteractionsAgent:
    form = "interactions"
    has_ids = True

    def __init__(self, url: str, model: str) -> None:
        self.model = model
        self.client = genai.Client(api_key="none", http_options={"base_url": url})

    async def ask(self, request: Object) -> Reply:
        asked: Any = request
        reply: Any = await self.client.aio.interactions.create(model=self.model, **asked)
        steps = [step.model_dump(mode="json", exclude_none=True) for step in reply.steps]
        return Reply(steps, [step for step in reply.steps if step.type == "function_call"])

    def question(self, text: str) -> Object:
        return {"type": "user_input", "content": [{"type": "text", "text": text}]}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        return [
            {"type": "function_result", "call_id": call.id, "name": call.name, "result": text}
            for call, text in zip(calls, texts, strict=True)
        ]

    def begun(self, reply: Reply) -> Object:
        text = reply.messages[-1]["content"][0]["text"][:20]
        return {"type": "model_output", "content": [{"type": "text", "text": text}]}

    async def close(self) -> None:
        await self.client.aio.aclose()
        self.client.close()


class ConverseAgent:
    form = "converse"
    has_ids = True

    def __init__(self, url: str, model: str) -> None:
        self.model = model
        self.client: Any = boto3.client(
            "bedrock-runtime",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"total_max_attempts": 1}),
        )

    async def ask(self, request: Object) -> Reply:
        reply = await asyncio.to_thread(self.client.converse, **as_sdk(request, self.model))
        message = as_json(reply["output"]["message"])
        return Reply([message], [block["toolUse"] for block in message["content"] if "toolUse" in block])

    def question(self, text: str) -> Object:
        return {"role": "user", "content": [{"text": text}]}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        pairs = zip(calls, texts, strict=True)
        blocks = [{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": text}]}} for use, text in pairs]
        return [{"role": "user", "content": blocks}]

    def begun(self, reply: Reply) -> Object:
        *thoughts, last = reply.messages[0]["content"]
        return {"role": "assistant", "content": [*thoughts, {"text": last["text"][:20]}]}

    async def close(self) -> None:
        self.client.close()


class OllamaAgent:
    form = "ollama"
    has_ids = False

    def __init__(self, url: str, model: str) -> None:
        self.model = model
        self.client = ollama.AsyncClient(host=url)

    async def ask(self, request: Object) -> Reply:
        reply: Any = await self.client.chat(model=self.model, options={"num_ctx": BUDGET_TOKENS}, **request)
        return Reply([reply.message.model_dump(exclude_none=True)], list(reply.message.tool_calls or ()))

    def question(self, text: str) -> Object:
        return {"role": "user", "content": text}

    def results(self, calls: list[Any], texts: list[str]) -> list[Object]:
        pairs = zip(calls, texts, strict=True)
        return [{"role": "tool", "tool_name": call.function.name, "content": text} for call, text in pairs]

    def begun(self, reply: Reply) -> Object:
        return {**reply.messages[0], "content": reply.messages[0]["content"][:20]}

    async def close(self) -> None:
        await self.client.close()


WINDOW = BUDGET_TOKENS
ENABLED, ADAPTIVE = {"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}
AGENTS: dict[str, tuple[Callable[[], Provider], Callable[[str], Agent]]] = {
    "openai": (lambda: OpenAI(WINDOW), lambda url: OpenAIAgent(url, "gpt-5.6", store=False)),
    "openai bound": (
        lambda: OpenAI(WINDOW, binds=True),
        lambda url: OpenAIAgent(url, "gpt-6.2-sol", store=False),
    ),
    "openai stored": (lambda: OpenAI(WINDOW), lambda url: OpenAIAgent(url, "gpt-5", store=True)),
    "claude": (lambda: Claude(WINDOW, binds=False), lambda url: ClaudeAgent(url, "claude-opus-4-5", ENABLED)),
    "claude bound": (lambda: Claude(WINDOW, binds=True), lambda url: ClaudeAgent(url, "claude-opus-5-5", ADAPTIVE)),
    "gemini": (lambda: Gemini(WINDOW, strict=True), lambda url: GeminiAgent(url, "gemini-3.8-flash", has_ids=True)),
    "gemini 2": (lambda: Gemini(WINDOW, strict=False), lambda url: GeminiAgent(url, "gemini-2.5-flash", has_ids=False)),
    "interactions": (lambda: Interactions(WINDOW, strict=True), lambda url: InteractionsAgent(url, "gemini-3.8-flash")),
    "interactions 2": (
        lambda: Interactions(WINDOW, strict=False),
        lambda url: InteractionsAgent(url, "gemini-2.5-flash"),
    ),
    "ollama": (lambda: Ollama(WINDOW), lambda url: OllamaAgent(url, "qwen3:8b")),
    "converse": (lambda: Bedrock(WINDOW), lambda url: ConverseAgent(url, "us.anthropic.claude-opus-4-5-20251101-v1:0")),
}
"""By the tests' names: functions that make a stand-in, and the agent that uses it."""


@asynccontextmanager
async def agent_of(name: str) -> AsyncIterator[Agent]:
    """Yield the named agent, while its provider is running."""
    provider, agent_at = AGENTS[name]
    with serving(provider()) as url:
        agent = agent_at(url)
        try:
            yield agent
        finally:
            await agent.close()


class Loop:
    """One agent's conversation over Sash, turn by turn."""

    def __init__(self, sash: httpx.AsyncClient, conversation: str, agent: Agent, **window: Any) -> None:
        self.sash = sash
        self.path = f"/conversations/{conversation}"
        self.agent = agent
        self.window = {"model": agent.model, "max_tokens": BUDGET_TOKENS, "cache": "auto", **window}
        self.made: list[Object] = []

    async def begin(self) -> None:
        settings = {"id": self.path.rpartition("/")[2], "system": SYSTEM, "tools": TOOLS}
        (await self.sash.post("/conversations", json=settings)).raise_for_status()

    async def turn(self, number: int) -> None:
        """Append a question, the replies with calls and their results, and the last reply."""
        steps = STEPS[number % len(STEPS)]
        question: Object = {"message": self.agent.question(f"Question {number}: {words(24, number)} calls:{steps}")}
        if number % 5 == 4:
            question["grounding"] = {"documents": [{"id": f"d-{number}", "text": words(160, number)}]}
        reply = await self.agent.ask(await self.append([question], wants_window=True))
        while reply.calls:
            await self.append(reply.messages)
            sizes = [8_000 if number % 11 == 0 and not index else 40 for index in range(len(reply.calls))]
            texts = [words(size, number) for size in sizes]
            results = self.agent.results(reply.calls, texts)
            if number % 3 == 2 and self.agent.has_ids:  # each result in a request of its own
                pairs = zip(reply.calls, texts, strict=True)
                *first, results = [self.agent.results([call], [text]) for call, text in pairs]
                for each in first:
                    await self.append(each)
            reply = await self.agent.ask(await self.append(results, wants_window=True))
        if number % 7 == 6:
            entry = {"id": f"reply-{number}"}
            await self.append([{**entry, "message": self.agent.begun(reply), "status": "in_progress"}])
            message: Any = reply.messages if len(reply.messages) > 1 else reply.messages[0]
            await self.append([{**entry, "message": message, "status": "completed"}])
        else:
            await self.append(reply.messages)

    async def append(self, entries: list[Object], *, wants_window: bool = False) -> Object:
        """Append entries; return the window's request, or an empty object if no window is wanted."""
        query = {"format": self.agent.form, **(self.window if wants_window else {})}
        answer = await self.sash.post(f"{self.path}/messages", params=query, json={"messages": entries})
        assert answer.status_code == 201, answer.text
        if not wants_window:
            return {}
        window = answer.json()["window"]
        assert window is not None, answer.text
        self.made.append(window)
        request: Object = window["request"]
        return request


async def run(client: httpx.AsyncClient, conversation: str, name: str, turns: int, **window: str) -> None:
    """Run an agent for ``turns`` turns, and check that the cut moves, budgets hold, and windows contain reasoning."""
    async with agent_of(name) as agent:
        loop = Loop(client, conversation, agent, **window)
        await loop.begin()
        for number in range(turns):
            await loop.turn(number)
    assert len(loop.made) > 2 * turns
    assert loop.made[-1]["kept"]["first_seq"] > 2 * turns
    assert max(made["tokens"]["total"] for made in loop.made) <= BUDGET_TOKENS
    thoughtful = sum(made["tokens"]["reasoning"] > 0 for made in loop.made)
    # Bound thinking is left out when the cut moves; without a stable cut, it moves at every turn.
    least = (0 if window["stable"] == "false" else turns // 2) if name.endswith(" bound") else turns
    assert thoughtful > least


each_agent = pytest.mark.parametrize("name", AGENTS)
WAYS = [
    ("turn", "true"),
    ("all", "false"),
    pytest.param("turn", "false", marks=pytest.mark.nightly),
    pytest.param("all", "true", marks=pytest.mark.nightly),
]
"""What is sent of earlier reasoning, and whether the cut is stable: each value always, every pair nightly."""


@each_agent
@pytest.mark.parametrize(("reasoning", "stable"), WAYS)
@pytest.mark.parametrize("turns", [12, pytest.param(200, marks=pytest.mark.nightly)])
async def test_no_request_of_a_loop_is_refused(
    client: httpx.AsyncClient, conversation: str, name: str, reasoning: str, stable: str, turns: int
) -> None:
    """No stand-in refuses a request of an agent whose turns have tool calls, reasoning and cache hints."""
    await run(client, conversation, name, turns, reasoning=reasoning, stable=stable)
