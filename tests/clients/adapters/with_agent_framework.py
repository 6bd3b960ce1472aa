"""test_readme runs this program with Microsoft Agent Framework: messages come back, and runs begin with windows."""

import asyncio
import logging
from typing import Any

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Content, Message

from sash_client.agent_framework import SashHistoryProvider
from sash_client.client import SashError

URL = "http://127.0.0.1:8000"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
SAID = [
    Message("user", ["Two seats? <|endoftext|> 🍝"], author_name="ann", message_id="q 1"),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="two seats", protected_data="x"),
            Content.from_text("I look."),
            Content.from_function_call("call_1", "find_table", arguments='{"seats": 2}'),
            Content.from_function_call("call_2", "find_table", arguments={"seats": 4}),
        ],
    ),
    Message("tool", [Content.from_function_result("call_1", result="Osteria")]),
    Message("tool", [Content.from_function_result("call_2", result={"table": 7})]),
    Message("assistant", ["At seven."]),
]


logging.getLogger("agent_framework").setLevel(logging.ERROR)


class Client(BaseChatClient):
    """Answers with the number of messages that it was sent, and records them."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[list[Message]] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        del stream, options
        self.sent.append(list(messages))

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [f"reply {len(self.sent)}"])])

        return answer()


def dicts(messages: Any) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


def provider(name: str | None = None, **window: Any) -> SashHistoryProvider:
    return SashHistoryProvider(conversation=name, url=URL, model="claude-sonnet-4-5", reasoning="all", **window)


async def main() -> None:
    kept = provider("maf-1")
    await kept.save_messages(None, SAID)
    assert dicts(await kept.get_messages(None)) == dicts(SAID), await kept.get_messages(None)
    both = Message("tool", [*SAID[2].contents, *SAID[3].contents])
    other = provider("maf-2")
    await other.save_messages(None, [*SAID[:2], both])
    assert dicts(await other.get_messages(None)) == dicts(SAID[:4])
    print("a tool loop")

    seen = Message("user", [Content.from_text("like this?"), Content.from_uri(PIXEL, media_type="image/png")])
    await kept.save_messages(None, [seen])
    last = (await kept.get_messages(None))[-1]
    assert [content.type for content in last.contents] == ["text", "data"], last.contents
    assert last.contents[1].uri == PIXEL
    print("a picture")

    client = Client()
    history = provider(limit=2)
    agent = Agent(client=client, instructions="Be brief.", context_providers=[history])
    session = AgentSession(session_id="maf-3")
    for question in ("one", "two", "three"):
        await agent.run(question, session=session)
    assert [message.text for message in client.sent[2]][-2:] == ["reply 2", "three"]
    assert len(await provider().get_messages("maf-3")) == 6
    await agent.run("four", session=AgentSession(session_id="maf-3"))
    assert [message.text for message in client.sent[3]][-2:] == ["reply 3", "four"]
    print("only what fits, on another machine too")

    try:
        await provider("maf-4").save_messages(None, [Message("tool", [Content.from_function_result("c", result="x")])])
    except SashError as error:
        print("refused" if error.status == 422 else error)
    try:
        await history.get_messages(None)
    except ValueError as error:
        print(error)


asyncio.run(main())
