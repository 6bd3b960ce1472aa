"""Programs that talk to one provider each with its SDK, whole or streamed, and append its replies in the provider's form."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import anthropic
import openai
from google import genai
from google.genai import types

Object = dict[str, Any]


class Call(NamedTuple):
    """A call in a reply: the id and the name that its result needs."""

    id: str
    name: str


class Heard(NamedTuple):
    """A reply: its messages in the provider's form, its calls, its text, and the prompt's tokens on the bill."""

    messages: list[Object]
    calls: list[Call]
    text: str
    billed: int


class Speaker(Protocol):
    """One provider's SDK, and how its users write questions and results. A picture is a PNG in base64."""

    form: str
    model: str

    def ask(self, request: Object, *, streams: bool) -> Heard: ...

    def question(self, text: str) -> Object: ...

    def half(self, text: str) -> Object:
        """Return what a program appends of a reply that the user stopped."""

    def result(self, call: Call, text: str, picture: str | None) -> Object: ...

    def close(self) -> None: ...


def _url(picture: str) -> str:
    return f"data:image/png;base64,{picture}"


class ChatCompletions:
    """OpenAI's chat completions."""

    form = "openai"
    model = "gpt-4o"

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(self, request: Object, *, streams: bool) -> Heard:
        if streams:
            return self._streamed(request)
        done = self.client.chat.completions.create(model=self.model, **request)
        message = done.choices[0].message
        calls = [Call(call.id, call.function.name) for call in message.tool_calls or () if call.type == "function"]
        assert done.usage is not None
        return Heard([message.model_dump(mode="json")], calls, message.content or "", done.usage.prompt_tokens)

    def _streamed(self, request: Object) -> Heard:
        text, billed = "", 0
        calls: list[Any] = []
        more: Object = {**request, "stream_options": {"include_usage": True}}
        for chunk in self.client.chat.completions.create(model=self.model, stream=True, **more):
            billed = chunk.usage.prompt_tokens if chunk.usage else billed
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    if part.id:
                        calls.append({"id": part.id, "type": "function", "function": {"name": "", "arguments": ""}})
                    for name, value in part.function.model_dump(exclude_none=True).items() if part.function else ():
                        calls[part.index]["function"][name] += value
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
        return Heard([message], [Call(call["id"], call["function"]["name"]) for call in calls], text, billed)

    def question(self, text: str) -> Object:
        return {"role": "user", "content": text}

    def half(self, text: str) -> Object:
        return {"role": "assistant", "content": text}

    def result(self, call: Call, text: str, picture: str | None) -> Object:
        del picture  # a result is text alone here
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def close(self) -> None:
        self.client.close()


class Responses:
    """OpenAI's Responses."""

    form = "responses"
    model = "gpt-5"

    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(self, request: Object, *, streams: bool) -> Heard:
        more: Object = {"store": False, "include": ["reasoning.encrypted_content"], **request}
        if streams:
            with self.client.responses.stream(model=self.model, **more) as stream:
                reply: Any = stream.get_final_response()
        else:
            reply = self.client.responses.create(model=self.model, **more)
        items = [item.model_dump(mode="json", exclude_unset=True) for item in reply.output]
        calls = [Call(item.call_id, item.name) for item in reply.output if item.type == "function_call"]
        return Heard(items, calls, reply.output_text, reply.usage.input_tokens)

    def question(self, text: str) -> Object:
        return {"role": "user", "content": [{"type": "input_text", "text": text}]}

    def half(self, text: str) -> Object:
        return {"role": "assistant", "content": text}

    def result(self, call: Call, text: str, picture: str | None) -> Object:
        parts: list[Object] = [{"type": "input_text", "text": text}]
        parts += [{"type": "input_image", "image_url": _url(picture)}] if picture else []
        return {"type": "function_call_output", "call_id": call.id, "output": parts if picture else text}

    def close(self) -> None:
        self.client.close()


class Messages:
    """Anthropic's Messages."""

    form = "anthropic"
    model = "claude-sonnet-5"

    def __init__(self, url: str) -> None:
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def ask(self, request: Object, *, streams: bool) -> Heard:
        more: Object = {"model": self.model, "max_tokens": 1024, **request}
        if streams:
            with self.client.messages.stream(**more) as stream:
                reply: Any = stream.get_final_message()
        else:
            reply = self.client.messages.create(**more)
        content = [block.model_dump(mode="json", exclude_none=True) for block in reply.content]
        calls = [Call(block.id, block.name) for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        return Heard([{"role": "assistant", "content": content}], calls, text, reply.usage.input_tokens)

    def question(self, text: str) -> Object:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def half(self, text: str) -> Object:
        thought = {"type": "thinking", "thinking": text, "signature": ""}
        return {
            "role": "assistant",
            "content": [thought, *([{"type": "text", "text": text}] if len(text) > 20 else [])],
        }

    def result(self, call: Call, text: str, picture: str | None) -> Object:
        content: list[Object] = [{"type": "text", "text": text}]
        if picture:
            source = {"type": "base64", "media_type": "image/png", "data": picture}
            content.append({"type": "image", "source": source})
        result = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        return {"role": "user", "content": [result]}

    def close(self) -> None:
        self.client.close()


class Contents:
    """Gemini's contents. The model asks for the signatures of the current turn's calls."""

    form = "gemini"
    model = "gemini-3-pro-preview"

    def __init__(self, url: str) -> None:
        self.client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))

    def ask(self, request: Object, *, streams: bool) -> Heard:
        models: Any = self.client.models
        made = models.generate_content_stream if streams else models.generate_content
        replies = list(made(model=self.model, **request)) if streams else [made(model=self.model, **request)]
        contents = [reply.candidates[0].content for reply in replies]
        parts = [part for content in contents for part in content.parts or ()]
        calls = [Call(part.function_call.id, part.function_call.name) for part in parts if part.function_call]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        said = {"role": "model", "parts": [part.model_dump(mode="json", exclude_none=True) for part in parts]}
        return Heard([said], calls, text, replies[-1].usage_metadata.prompt_token_count)

    def question(self, text: str) -> Object:
        return {"role": "user", "parts": [{"text": text}]}

    def half(self, text: str) -> Object:
        return {"role": "model", "parts": [{"text": text}]}

    def result(self, call: Call, text: str, picture: str | None) -> Object:
        result: Object = {"id": call.id, "name": call.name, "response": {"output": text}}
        if picture:
            result["parts"] = [{"inlineData": {"mimeType": "image/png", "data": picture}}]
        return {"role": "user", "parts": [{"functionResponse": result}]}

    def close(self) -> None:
        self.client.close()


SPEAKERS: dict[str, Callable[[str], Speaker]] = {
    each.form: each for each in (ChatCompletions, Responses, Messages, Contents)
}
"""By format."""
