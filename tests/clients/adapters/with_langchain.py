"""test_readme runs this program with LangChain: the messages sent to the model and the messages stored, turn by turn."""

import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from sash_client.client import Ask, SashError, asked
from sash_client.langchain import SashMiddleware

URL = "http://127.0.0.1:8000"
THINKING = {"type": "thinking", "thinking": "two seats", "signature": "x"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALLS = [
    {"name": "find_table", "args": {"seats": 2}, "id": "call_1", "type": "tool_call"},
    {"name": "find_table", "args": {"seats": 4}, "id": "call_2", "type": "tool_call"},
]
QUESTION = HumanMessage([{"type": "text", "text": "Two seats? <|endoftext|> 🍝"}, IMAGE], name="ann", id="q 1")


class Model(BaseChatModel):
    """Answers with ``replies`` in turn, and records the messages of each request in ``sent``."""

    replies: list[AIMessage]
    sent: list[list[BaseMessage]] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "replies"

    def bind_tools(self, tools: Any, **_: Any) -> "Model":
        del tools
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.sent.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.replies[len(self.sent) - 1])])


@tool(response_format="content_and_artifact")
def find_table(seats: int) -> tuple[str, dict[str, int]]:
    """A table."""
    return f"Osteria, {seats} seats", {"table": 7}


def stored(sash: SashMiddleware, name: str) -> list[dict[str, Any]]:
    page = sash.sash.do(asked(Ask("GET", f"/conversations/{name}/messages")))
    return page["messages"] if page else []


calling = AIMessage([THINKING, {"type": "text", "text": "I look."}], tool_calls=CALLS, id="run-1")
replies = [calling, AIMessage("At seven.", id="run-2"), AIMessage("Yes.", id="run-3"), AIMessage("Bye.", id="run-4")]
model = Model(replies=replies)
sash = SashMiddleware(url=URL, model="claude-sonnet-4-5", conversation="langchain-1")
done = create_agent(model, [find_table], middleware=[sash]).invoke({"messages": [QUESTION]})["messages"]
assert [type(message) for message in done] == [HumanMessage, AIMessage, ToolMessage, ToolMessage, AIMessage]
assert model.sent[0] == [QUESTION]
assert model.sent[1] == done[:4], model.sent[1]
assert model.sent[1][1].content[0] == THINKING
assert model.sent[1][2].artifact == {"table": 7}
print("a tool loop")

other = SashMiddleware(url=URL, model="claude-sonnet-4-5", conversation="langchain-1", reasoning="all")
agent = create_agent(model, [find_table], middleware=[other])
asyncio.run(agent.ainvoke({"messages": [HumanMessage("sure?")]}))
assert model.sent[2][:5] == done, model.sent[2]
assert len(stored(sash, "langchain-1")) == 7
print("the next run, on another machine")

kept = create_agent(
    model, [], middleware=[SashMiddleware(url=URL, model="claude-sonnet-4-5", limit=2)], checkpointer=InMemorySaver()
)
thread = {"configurable": {"thread_id": "langchain-2"}}
model.sent.clear()
model.replies = [AIMessage(str(turn), id=f"reply-{turn}") for turn in range(3)]
for turn in range(3):
    kept.invoke({"messages": [HumanMessage(f"turn {turn}")]}, thread)
assert len(stored(sash, "langchain-2")) == 6
assert [message.content for message in model.sent[2]] == ["1", "turn 2"]
print("only what is new, and only what fits")

model.sent.clear()
model.replies = [AIMessage(f"anew {place}", id=f"anew-{place}") for place in range(4)]
pressed = create_agent(
    model, [], middleware=[SashMiddleware(url=URL, model="claude-sonnet-4-5")], checkpointer=InMemorySaver()
)
thread = {"configurable": {"thread_id": "langchain-3"}}
first, last = HumanMessage("one", id="q-1"), HumanMessage("two", id="q-2")


def press(*messages: BaseMessage) -> list[str]:
    """Invoke the agent with changes of its checkpoint; the texts of the log, which are those of the checkpoint."""
    state = pressed.invoke({"messages": [*messages]}, thread)["messages"]
    texts = [entry["message"]["content"] for entry in stored(sash, "langchain-3")]
    assert texts == [message.content for message in state]
    return texts


assert press(first) == ["one", "anew 0"]
assert press(last) == ["one", "anew 0", "two", "anew 1"]
assert press(RemoveMessage("anew-1")) == ["one", "anew 0", "two", "anew 2"]  # regenerate
removed = [RemoveMessage(name) for name in ("anew-0", "q-2", "anew-2")]
assert press(HumanMessage("one more", id="q-1"), *removed) == ["one more", "anew 3"]  # edit the first
assert [message.content for message in model.sent[-1]] == ["one more"]
print("regenerated and edited")

model.sent.clear()
model.replies = [AIMessage("never", id="never")]
unknown = create_agent(model, [], middleware=[SashMiddleware(url=URL, model="nobody-1", conversation="langchain-1")])
try:
    unknown.invoke({"messages": [HumanMessage("and?")]})
except SashError as error:
    print("refused" if error.status == 422 and not model.sent else error)
sash.sash.close()
