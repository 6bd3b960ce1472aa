"""``StreamingChats``: questions with ids, each of which may take another one's place."""

from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from presses import URL, Model, press, text_of

from sash_client.client import Ask, asked
from sash_client.streaming import StreamingChats


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.name, self.path = name, f"/conversations/{name}"
        self.chats = StreamingChats(URL, model="gpt-4o-mini", beat_seconds=0.2)
        self.model = model
        self.asked: dict[str, str] = {}

    async def speak(self, request: dict[str, Any]) -> AsyncGenerator[str, None]:
        yield await self.model.answer([text_of(each) for each in request["messages"]])

    async def ask(self, identity: str, text: str, **how: Any) -> None:
        self.asked = {"id": identity, "text": text}
        question = {"id": identity, "role": "user", "content": text}
        reply = await self.chats.ask(self.name, question, **how)
        try:
            events = [event async for event in reply.events(self.speak)]
        finally:
            await reply.stop()
        if any("event: failed" in event for event in events):
            raise RuntimeError(events)

    async def send(self, text: str) -> None:
        await self.ask(f"q-{uuid4().hex}", text)

    async def question(self, place: int) -> tuple[str, str]:
        """The id and the text of the question at this place."""
        page = await self.chats.sash.ado(asked(Ask("GET", f"{self.path}/messages")))
        entry = [each for each in page["messages"] if each["message"]["role"] == "user"][place]
        return entry["id"], entry["message"]["content"]

    async def regenerate(self) -> None:
        identity, text = await self.question(-1)
        await self.ask(f"q-{uuid4().hex}", text, instead_of=identity)

    async def edit(self, place: int, text: str) -> None:
        identity, _ = await self.question(place)
        await self.ask(f"q-{uuid4().hex}", text, instead_of=identity)

    async def retry(self, text: str) -> None:
        await self.ask(self.asked["id"], text)

    async def load(self) -> None:
        pass  # the log is all there is

    async def back(self, branch: str) -> None:
        await self.chats.sash.ado(asked(Ask("POST", f"{self.path}/branches/{branch}")))


if __name__ == "__main__":
    press(Chat)
