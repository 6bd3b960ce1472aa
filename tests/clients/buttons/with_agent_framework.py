"""Microsoft Agent Framework: runs whose input is a new question, or the chat up to one."""

import logging
from typing import Any
from uuid import uuid4

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Message
from presses import URL, Model, press

from sash_client.agent_framework import SashHistoryProvider
from sash_client.client import Ask, asked

logging.getLogger("agent_framework").setLevel(logging.CRITICAL)


class Told(BaseChatClient):
    """The model, as the framework calls it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        del stream, options

        async def answer() -> ChatResponse:
            text = await self.model.answer([message.text for message in messages])
            return ChatResponse(messages=[Message("assistant", [text])])

        return answer()


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.path = f"/conversations/{name}"
        self.session = AgentSession(session_id=name)
        self.sash = SashHistoryProvider(url=URL, model="gpt-4o-mini")
        self.agent = Agent(client=Told(model), context_providers=[self.sash])

    async def send(self, text: str) -> None:
        await self.agent.run(Message("user", [text], message_id=uuid4().hex), session=self.session)

    async def shown(self) -> list[Message]:
        return await self.sash.get_messages(self.session.session_id)

    async def regenerate(self) -> None:
        await self.agent.run((await self.shown())[:-1], session=self.session)

    async def edit(self, place: int, text: str) -> None:
        shown = await self.shown()
        edited = Message("user", [text], message_id=shown[2 * place].message_id)
        await self.agent.run([*shown[: 2 * place], edited], session=self.session)

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        pass  # the provider has it

    async def back(self, branch: str) -> None:
        await self.sash.sash.ado(asked(Ask("POST", f"{self.path}/branches/{branch}")))


if __name__ == "__main__":
    press(Chat)
