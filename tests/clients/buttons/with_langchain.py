"""LangChain: an agent with a checkpointer, whose state is the chat on the screen."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from presses import URL, Model, press

from sash_client.client import Ask, asked
from sash_client.langchain import SashMiddleware, to_messages

CHECKPOINTS = InMemorySaver()


class Told(BaseChatModel):
    """The model, as LangChain calls it."""

    model: Any

    @property
    def _llm_type(self) -> str:
        return "told"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = await self.model.answer([str(each.content) for each in messages])
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.thread: Any = {"configurable": {"thread_id": name}}
        self.path = f"/conversations/{name}/messages"
        self.sash = SashMiddleware(url=URL, model="gpt-4o-mini")
        self.agent = create_agent(Told(model=model), [], middleware=[self.sash], checkpointer=CHECKPOINTS)

    @property
    def messages(self) -> list[BaseMessage]:
        found: list[BaseMessage] = self.agent.get_state(self.thread).values.get("messages", [])
        return found

    async def invoke(self, *messages: BaseMessage) -> None:
        await self.agent.ainvoke({"messages": [*messages]}, self.thread)

    async def send(self, text: str) -> None:
        await self.invoke(HumanMessage(text))

    async def regenerate(self) -> None:
        await self.invoke(RemoveMessage(self.messages[-1].id))

    async def edit(self, place: int, text: str) -> None:
        edited = [each for each in self.messages if each.type == "human"][place]
        behind = self.messages[self.messages.index(edited) + 1 :]
        await self.invoke(HumanMessage(text, id=edited.id), *(RemoveMessage(each.id) for each in behind))

    async def retry(self, text: str) -> None:
        del text  # the checkpoint has it
        await self.agent.ainvoke(None, self.thread)

    async def load(self) -> None:
        pass  # the checkpoint is the screen's

    async def back(self, branch: str) -> None:
        await self.sash.sash.ado(asked(Ask("POST", self.path.replace("messages", f"branches/{branch}"))))
        page = await self.sash.sash.ado(asked(Ask("GET", self.path)))
        there = to_messages([(each["message"], each) for each in page["messages"]])
        shown = [RemoveMessage(each.id) for each in self.messages if each.id not in {one.id for one in there}]
        await self.agent.aupdate_state(self.thread, {"messages": [*shown, *there]}, as_node="model")


if __name__ == "__main__":
    press(Chat)
