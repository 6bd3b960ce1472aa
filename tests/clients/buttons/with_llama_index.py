"""LlamaIndex: a chat engine whose history is given, or is the memory's."""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM
from presses import URL, Model, press

from sash_client.client import Ask, asked
from sash_client.llama_index import SashMemory


class Told(CustomLLM):
    """The model, as the framework calls it."""

    told: Any

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True)

    async def achat(self, messages: Any, **_: Any) -> ChatResponse:
        text = await self.told.answer([message.content for message in messages])
        return ChatResponse(message=ChatMessage(role="assistant", content=text))

    def complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def stream_complete(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.path = f"/conversations/{name}"
        self.memory = SashMemory(conversation=name, url=URL, model="gpt-4o-mini")
        self.engine = SimpleChatEngine.from_defaults(llm=Told(told=model), memory=self.memory)

    async def send(self, text: str) -> None:
        await self.engine.achat(text)

    async def again(self, place: int, text: str | None = None) -> None:
        """Ask the question at this place, in these words or its own, with the history before it."""
        shown = await self.memory.aget_all()
        question = [at for at, message in enumerate(shown) if message.role == "user"][place]
        await self.engine.achat(text or shown[question].content, chat_history=shown[:question])

    async def regenerate(self) -> None:
        await self.again(-1)

    async def edit(self, place: int, text: str) -> None:
        if not place:
            await self.memory.areset()  # an empty history is none for the engine
        await (self.again(place, text) if place else self.send(text))

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        pass  # the memory has it

    async def back(self, branch: str) -> None:
        await self.memory.sash.ado(asked(Ask("POST", f"{self.path}/branches/{branch}")))


if __name__ == "__main__":
    press(Chat)
