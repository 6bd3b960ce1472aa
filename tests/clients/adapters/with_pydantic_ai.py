"""test_readme runs this program with Pydantic AI: the messages sent to the model and the messages stored, turn by turn."""

import asyncio
from typing import Any

from pydantic_ai import Agent, BinaryImage, DocumentUrl, ModelRetry, models
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sash_client.client import Ask, SashError, append, asked
from sash_client.pydantic_ai import SashHistory

URL = "http://127.0.0.1:8000"
models.ALLOW_MODEL_REQUESTS = False
PIXEL = BinaryImage(b"\x89PNG\r\n\x1a\n", media_type="image/png")
CALLING = [
    ThinkingPart("two seats", signature="x"),
    TextPart("I look."),
    ToolCallPart("find_table", '{"seats": 2}', "call_1"),
    ToolCallPart("find_table", {"seats": 0}, "call_2"),
]
sent: list[list[ModelMessage]] = []
replies: list[list[Any]] = []


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    sent.append(messages)
    return ModelResponse(replies[len(sent) - 1])


async def stream(messages: list[ModelMessage], _: AgentInfo) -> Any:
    sent.append(messages)
    yield replies[len(sent) - 1][0].content


def agent_of(sash: SashHistory, **more: Any) -> Agent:
    agent = Agent(FunctionModel(answer, stream_function=stream), capabilities=[sash], **more)

    @agent.tool_plain(retries=3)
    def find_table(seats: int) -> str:
        """A table."""
        if not seats:
            raise ModelRetry("At least one seat.")
        return f"Osteria, {seats} seats"

    return agent


def parts(messages: list[ModelMessage]) -> list[Any]:
    return [part for message in messages for part in message.parts]


async def stored(name: str) -> list[dict[str, Any]]:
    page = await sash.sash.ado(asked(Ask("GET", f"/conversations/{name}/messages")))
    return page["messages"]


sash = SashHistory(url=URL, model="claude-sonnet-4-5")


async def main() -> None:
    replies[:] = [CALLING, [TextPart("At seven.")], [TextPart("Yes.")], [TextPart("Bye.")]]
    agent = agent_of(sash, instructions="You book tables.", system_prompt="Be brief.")
    done = await agent.run(["Two seats? <|endoftext|> 🍝", PIXEL], conversation_id="pydantic-1")
    assert done.output == "At seven."
    assert [type(part) for part in parts(sent[0])] == [SystemPromptPart, UserPromptPart]
    _, question, *replied, first, second = parts(sent[1])
    assert question.content == ["Two seats? <|endoftext|> 🍝", PIXEL], (question, parts(sent[1]))
    assert replied == CALLING, replied
    assert [type(first), type(second)] == [ToolReturnPart, ToolReturnPart]
    assert (first.outcome, second.outcome) == ("success", "retried")
    assert sent[1][-1].instructions == "You book tables."
    assert [entry["message"]["role"] for entry in await stored("pydantic-1")] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    print("a tool loop")

    whole = agent_of(SashHistory(url=URL, model="claude-sonnet-4-5", reasoning="all"))
    await whole.run("sure?", conversation_id="pydantic-1")
    assert parts(sent[2])[:-1] == [question, *replied, first, second, TextPart("At seven.")]
    assert len(await stored("pydantic-1")) == 7
    async with agent.run_stream("bye", conversation_id="pydantic-1") as streamed:
        assert await streamed.get_output() == "Bye."
    assert len(await stored("pydantic-1")) == 9
    print("the next run, on another machine")

    sent.clear()
    replies[:] = [[TextPart(str(turn))] for turn in range(3)]
    agent, history = agent_of(SashHistory(url=URL, model="claude-sonnet-4-5", limit=2)), None
    for turn in range(3):
        done = await agent.run(f"turn {turn}", conversation_id="pydantic-2", message_history=history)
        history = done.all_messages()
    assert len(await stored("pydantic-2")) == 6
    assert [part.content for part in parts(sent[2])] == ["1", "turn 2"]
    await sash.sash.ado(append("/conversations/pydantic-2", [{"message": {"role": "system", "content": "Hurry."}}]))
    print("only what is new, and only what fits")

    for refused, prompt in ((ValueError, [DocumentUrl("https://example.org/a.pdf")]), (SashError, "")):
        try:
            name = "pydantic-3" if prompt else "pydantic 3/" + "x" * 3
            await agent_of(SashHistory(url=URL, model="claude-sonnet-4-5", reserve=-1 if not prompt else None)).run(
                prompt or "Hi", conversation_id=name
            )
        except refused as error:
            print("refused" if not isinstance(error, SashError) or error.status == 400 else error)
    await sash.sash.aclose()


asyncio.run(main())
