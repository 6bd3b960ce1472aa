"""test_readme runs this program with LlamaIndex: messages survive a round trip, and agents send the window."""

import asyncio
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

from sash_client.client import SashError
from sash_client.llama_index import SashMemory

URL = "http://127.0.0.1:8000"
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
QUESTION = ChatMessage("Two seats? <|endoftext|> 🍝", additional_kwargs={"name": "ann"})
SEEN = ChatMessage(
    role=MessageRole.USER,
    blocks=[TextBlock(text="like this?"), ImageBlock(image=PIXEL, image_mimetype="image/png")],
)
CALLING = ChatMessage(
    role=MessageRole.ASSISTANT,
    blocks=[
        ThinkingBlock(content="two seats", additional_information={"signature": "x"}),
        TextBlock(text="I look."),
        ToolCallBlock(tool_call_id="call_1", tool_name="find_table", tool_kwargs={"seats": 2}),
        ToolCallBlock(tool_call_id="call_2", tool_name="find_table", tool_kwargs='{"seats": 4}'),
    ],
)
RESULTS = [
    ChatMessage("Osteria", role=MessageRole.TOOL, additional_kwargs={"tool_call_id": f"call_{number}"})
    for number in (1, 2)
]
REPLY = ChatMessage("At seven.", role=MessageRole.ASSISTANT)
SAID = [QUESTION, CALLING, *RESULTS, REPLY]


def memory(name: str, **window: Any) -> SashMemory:
    return SashMemory(conversation=name, url=URL, model="claude-sonnet-4-5", reasoning="all", **window)


async def main() -> None:
    kept = memory("llama-1", reserve=4000)
    kept.put(QUESTION)
    kept.put_messages([CALLING, *RESULTS])
    await kept.aput(REPLY)
    assert kept.get() == await kept.aget() == kept.get_all() == SAID, kept.get()
    print("a tool loop")

    again = SashMemory.model_validate(kept.model_dump())
    await again.aput(SEEN)
    last = again.get()[-1]
    assert [block.block_type for block in last.blocks] == ["text", "image"]
    assert last.blocks[1].resolve_image().read() == PIXEL
    again.sash.close()
    print("the next run, on another machine")

    few = memory("llama-1", limit=2)
    assert few.get(input="any") == [REPLY, last], few.get()
    await few.aset([REPLY, *[ChatMessage(f"turn {turn}") for turn in range(130)]])
    assert [message.content for message in few.get()] == ["turn 128", "turn 129"]
    assert len(await few.aget_all()) == 134  # the reply that stays has its calls and results, too
    await few.areset()
    assert (few.get(), few.get_all()) == ([], [])
    print("only what fits, and nothing after a reset")

    engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory("llama-2"))
    for question in ("one", "two"):
        await engine.achat(question)
    roles = [message.role.value for message in memory("llama-2").get_all()]
    assert roles == ["user", "assistant", "user", "assistant"]
    print("a chat engine")

    try:
        few.put(RESULTS[0])
    except SashError as error:
        print("refused" if error.status in {404, 422} else error)
    try:
        few.put(ChatMessage(role=MessageRole.USER, blocks=[VideoBlock(url="https://example.org/a.mp4")]))
    except ValueError as error:
        print(str(error).partition(" has")[0])
    for each in (kept, few):
        each.sash.close()
        await each.sash.aclose()


asyncio.run(main())
