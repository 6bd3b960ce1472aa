"""OpenAI Agents SDK: a session whose last items are taken away before a reply is written anew."""

from typing import Any

from agents import Agent, ModelResponse, RunConfig, Runner, Usage
from agents import Model as AgentsModel
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from presses import URL, Model, press

from sash_client.agents import SashSession, asked_once
from sash_client.client import Ask, asked


class Told(AgentsModel):
    """The model, as the SDK calls it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:  # noqa: A002
        del system_instructions
        text = await self.model.answer([text_of(item["content"]) for item in input])
        said = ResponseOutputText(type="output_text", text=text, annotations=[])
        output = ResponseOutputMessage(
            id=f"msg_{text}", type="message", role="assistant", status="completed", content=[said]
        )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        self.path = f"/conversations/{name}"
        self.agent = Agent(name="programme", model=Told(model))
        self.session = SashSession(name, url=URL, model="gpt-4o-mini")

    async def send(self, text: str) -> None:
        once = RunConfig(session_input_callback=asked_once, tracing_disabled=True)
        await Runner.run(self.agent, text, session=self.session, run_config=once)

    async def popped(self, place: int) -> str:
        """Take away the question at this place, and all behind it."""
        items = await SashSession(self.session.session_id, url=URL).get_items()
        questions = [at for at, item in enumerate(items) if item.get("role") == "user"]
        for _ in items[questions[place] :]:
            item = await self.session.pop_item()
        return text_of(item["content"])

    async def regenerate(self) -> None:
        await self.send(await self.popped(-1))

    async def edit(self, place: int, text: str) -> None:
        await self.popped(place)
        await self.send(text)

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        pass  # the session has it

    async def back(self, branch: str) -> None:
        await self.session.sash.ado(asked(Ask("POST", f"{self.path}/branches/{branch}")))


if __name__ == "__main__":
    press(Chat)
