"""Google ADK: sessions that a runner rewinds to before an invocation."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai.types import Content, Part
from presses import URL, Model, press

from sash_client.adk import SashSessionService
from sash_client.adk_state import path_of_name
from sash_client.client import Ask, asked


class Told(BaseLlm):
    """The model, as the ADK calls it."""

    told: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:  # noqa: FBT001, FBT002
        del stream
        text = await self.told.answer([content.parts[0].text for content in llm_request.contents])
        yield LlmResponse(content=Content(role="model", parts=[Part(text=text)]))


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.named = {"user_id": "ann", "session_id": name}
        self.sessions = SashSessionService(url=URL, model="gpt-4o-mini")
        agent = Agent(name="programme", model=Told(model="told", told=model))
        self.runner = Runner(app_name="talks", agent=agent, session_service=self.sessions, auto_create_session=True)

    @staticmethod
    def path(name: str) -> str:
        return path_of_name(("talks", "ann", name))

    async def send(self, text: str) -> None:
        message = Content(role="user", parts=[Part(text=text)])
        async for _ in self.runner.run_async(**self.named, new_message=message):
            pass

    async def rewound(self, place: int) -> str:
        """Rewind to before the question at this place, and return its text."""
        session: Any = await self.sessions.get_session(app_name="talks", **self.named)
        question = [event for event in session.events if event.author == "user" and event.content][place]
        await self.runner.rewind_async(**self.named, rewind_before_invocation_id=question.invocation_id)
        return str(question.content.parts[0].text)

    async def regenerate(self) -> None:
        await self.send(await self.rewound(-1))

    async def edit(self, place: int, text: str) -> None:
        await self.rewound(place)
        await self.send(text)

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        pass  # the session has it

    async def back(self, branch: str) -> None:
        path = self.path(self.named["session_id"])
        await self.sessions.sash.ado(asked(Ask("POST", f"{path}/branches/{branch}")))


if __name__ == "__main__":
    press(Chat)
