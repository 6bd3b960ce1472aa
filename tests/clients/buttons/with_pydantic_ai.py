"""Pydantic AI: runs with the message history that the screen shows, or without one."""

from dataclasses import replace
from typing import Any

from presses import URL, Model, press
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from sash_client.client import Ask, asked, listed
from sash_client.pydantic_ai import SashHistory, to_history


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            parts: list[Any] = [part for message in messages for part in message.parts]
            return ModelResponse([TextPart(await model.answer([text_of(part.content) for part in parts]))])

        self.name, self.path = name, f"/conversations/{name}"
        self.sash = SashHistory(url=URL, model="gpt-4o-mini")
        self.agent = Agent(FunctionModel(answer), capabilities=[self.sash])
        self.shown: list[ModelMessage] = []

    async def run(self, text: str | None, history: list[ModelMessage]) -> None:
        done = await self.agent.run(text, message_history=history or None, conversation_id=self.name)
        self.shown = done.all_messages()

    async def send(self, text: str) -> None:
        await self.run(text, self.shown)

    async def regenerate(self) -> None:
        await self.run(None, self.shown[:-1])

    async def edit(self, place: int, text: str) -> None:
        question: Any = self.shown[2 * place]
        edited = replace(question, parts=[replace(part, content=text) for part in question.parts])
        await self.run(None, [*self.shown[: 2 * place], edited])

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        self.shown = to_history(await self.sash.sash.ado(listed(self.path)))

    async def back(self, branch: str) -> None:
        await self.sash.sash.ado(asked(Ask("POST", f"{self.path}/branches/{branch}")))
        await self.load()


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(content)


if __name__ == "__main__":
    press(Chat)
