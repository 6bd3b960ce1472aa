"""test_readme runs this program with the Agents SDK, against a stand-in that refuses the requests that OpenAI refuses."""

import asyncio
from itertools import count
from typing import Any

from agents import Agent, ModelSettings, Runner, function_tool
from openai.types.shared import Reasoning

from sash_client.agents import SashSession
from sash_client.client import SashError

URL = "http://127.0.0.1:8000"
TURNS = 20
STEPS = ("", " 1", " 2", " 1 1", " 3 1")
SEALED = ["reasoning.encrypted_content"]


@function_tool
def find_talk(topic: int) -> str:
    """Talks on a topic."""
    return f"Talk {topic}. " * 30


def agent_of(*, store: bool) -> Agent:
    """Return an agent whose replies contain encrypted reasoning."""
    settings = ModelSettings(store=store, response_include=SEALED, reasoning=Reasoning(effort="low"))
    return Agent(name="programme", model="gpt-5", tools=[find_talk], model_settings=settings)


async def main() -> None:
    numbers = count()
    for store in (True, False):
        for window in ({"reasoning": "turn"}, {"reasoning": "all", "stable": True}):
            name = f"agents-{store}-{window['reasoning']}"
            session = SashSession(name, url=URL, model="gpt-5", max_tokens=3000, **window)
            for number in range(TURNS):
                question = f"Question {next(numbers)}: of a visitor, calls:{STEPS[number % len(STEPS)]}"
                await Runner.run(agent_of(store=store), question, session=session)
            await forgets(session, name)
            await session.close()
    print("no request was refused")
    await pops()
    print("items come back")


async def forgets(session: SashSession, name: str) -> None:
    """Check that the session stores every item that was added, and that its window holds fewer than half of them."""
    whole = SashSession(name, url=URL)
    items, kept = await whole.get_items(), await session.get_items()
    kinds = [item.get("type", "message") for item in items]
    calls, results = kinds.count("function_call"), kinds.count("function_call_output")
    assert calls == results == TURNS // len(STEPS) * 9
    assert kinds.count("reasoning") == TURNS + TURNS // len(STEPS) * 6
    assert all(item.get("encrypted_content") for item in items if item.get("type") == "reasoning")
    assert items[-1] == kept[-1]
    assert 10 < len(kept) < len(items) / 2
    await whole.close()


async def pops() -> None:
    """Check that pop_item removes the last items one by one, and that a refused item raises SashError."""
    session = SashSession("agents-popped", url=URL)
    search: dict[str, Any] = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
    search["action"] = {"type": "search", "query": "gradle"}
    said = {"type": "output_text", "text": "Yes.", "annotations": []}
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [said]}
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9000, "detail": "auto"}
    question = {"role": "user", "content": [{"type": "input_text", "text": "A talk?"}, image]}
    items = [question, search, reply]
    await session.add_items(items)
    assert await session.get_items() == items
    assert [await session.pop_item() for _ in range(4)] == [*reversed(items), None]
    try:
        await session.add_items([{"type": "function_call_output", "call_id": "c", "output": "x"}])
    except SashError as refused:
        print("refused", refused.status)
    await session.close()


asyncio.run(main())
