"""Tests rendered requests with each provider's SDK: its types accept every field, and its client sends them unchanged.

The clients talk to a server on this machine that records the requests.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import anthropic
import openai
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google import genai
from google.genai import types as gemini_types
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.writing.turns import Outgoing

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
MODEL = "some-model"

REPLIES = {
    "/v1/chat/completions": {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
    },
    "/v1/responses": {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": MODEL,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
    "/v1/messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    f"/v1beta/models/{MODEL}:generateContent": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]
    },
}


class Provider(ThreadingHTTPServer):
    """Serves all four APIs on a free port of loopback; ``bodies`` are the requests' bodies in the order of arrival."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Recorder)
        self.bodies: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Recorder(BaseHTTPRequestHandler):
    server: Provider
    timeout: ClassVar[int] = 10

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        reply = json.dumps(REPLIES[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def recording() -> Iterator[Provider]:
    """Yield a provider that runs."""
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with recording() as server:
        yield server


def tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


TALKS = {
    "type": "function",
    "function": {
        "name": "talks",
        "description": "Talks of a day",
        "parameters": {
            "type": "object",
            "properties": {"day": {"type": ["integer", "null"], "minimum": 1}, "tags": {"$ref": "#/$defs/tags"}},
            "required": ["day"],
            "additionalProperties": False,
            "$defs": {"tags": {"type": "array", "items": {"enum": ["gradle", "redis"]}}},
        },
        "strict": True,
    },
}
ROOMS = {"type": "function", "function": {"name": "rooms"}}
NAMED = {"type": "function", "function": {"name": "rooms"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "name": "alice", "content": "Which talks are on?"},
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            tool_call("c1", "talks", '{"day": 1, "deep": {"a": [1, null, "é"]}}'),
            tool_call("c2", "rooms", ""),
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"talks": ["Gradle"]}'},
    {"role": "assistant", "content": "Gradle, in A."},
    {"role": "developer", "content": [{"type": "text", "text": "Answer in German."}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/plan.jpg"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}},
            {"type": "file", "file": {"filename": "a.md", "file_data": "data:text/markdown;base64,IyBB"}},
        ],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "rooms", "arguments": "{}"}},
    {"role": "function", "name": "rooms", "content": "none"},
    {"role": "assistant", "content": None, "refusal": "I must not say."},
    {"role": "user", "content": ""},
]


def request(form: str, tool_choice: Any = "auto") -> dict[str, Any]:
    """Return a long request, decoded from JSON as a client receives it, with every kind of part that all forms support."""
    outgoing = [Outgoing(seq, message) for seq, message in enumerate(MESSAGES)]
    drops = form == "ollama"  # which has no place for a file
    rendered = render_request(form, outgoing, tools=[TALKS, ROOMS], tool_choice=tool_choice, drops=drops)
    return json.loads(json.dumps(rendered))


ADAPTERS = {
    "openai": TypeAdapter(CompletionCreateParamsNonStreaming),
    "responses": TypeAdapter(ResponseCreateParamsNonStreaming),
    "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
}


def known(form: str, value: dict[str, Any]) -> Any:
    """Return the value without the fields that the SDK's types do not declare."""
    return exhausted(ADAPTERS[form].validate_python(value))


def exhausted(value: Any) -> Any:
    """Return the value with plain lists in place of pydantic's lazy ones, which validate items only when they are read."""
    if isinstance(value, dict):
        return {key: exhausted(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | None) else [exhausted(item) for item in value]


def dumped(value: Any) -> Any:
    return one_spelling(value.model_dump(mode="json", exclude_none=True, by_alias=True))


INNER = {
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "parameters_json_schema": "parametersJsonSchema",
    "function_calling_config": "functionCallingConfig",
    "allowed_function_names": "allowedFunctionNames",
}
"""Members that Google's SDK for Python sends in snake case, which the server reads too."""


def one_spelling(value: Any, key: str = "") -> Any:
    """Return the value with base64 in its usual alphabet, and names in camel case, which Google's SDK for Python changes."""
    match value:
        case list():
            return [one_spelling(item) for item in value]
        case dict() if key not in ("args", "response", "parametersJsonSchema", "parameters_json_schema"):
            return {INNER.get(name, name): one_spelling(item, name) for name, item in value.items()}
        case str() if key == "data":
            return value.translate(str.maketrans("-_", "+/"))
        case _:
            return value


CHOICES = pytest.mark.parametrize("choice", ["auto", "none", "required", NAMED, ALLOWED], ids=str)


class TestOpenAI:
    @CHOICES
    def test_types(self, choice):
        """The SDK's type of a chat completion request declares each field."""
        whole = {"model": MODEL, **request("openai", choice)}

        assert known("openai", whole) == whole

    def test_client(self, provider):
        """The client sends the request as it is."""
        with openai.OpenAI(api_key="none", base_url=f"{provider.url}/v1", max_retries=0) as client:
            client.chat.completions.create(model=MODEL, **request("openai"))

        assert provider.bodies[-1] == {"model": MODEL, **request("openai")}


class TestResponses:
    @CHOICES
    def test_types(self, choice):
        """The SDK's type of a Responses request declares each field."""
        whole = {"model": MODEL, **request("responses", choice)}

        assert known("responses", whole) == whole

    def test_client(self, provider):
        """The client sends the request as it is."""
        with openai.OpenAI(api_key="none", base_url=f"{provider.url}/v1", max_retries=0) as client:
            client.responses.create(model=MODEL, **request("responses"))

        assert provider.bodies[-1] == {"model": MODEL, **request("responses")}


class TestAnthropic:
    @CHOICES
    def test_types(self, choice):
        """The SDK's type of a Messages request declares each field."""
        whole = {"model": MODEL, "max_tokens": 100, **request("anthropic", choice)}

        assert known("anthropic", whole) == whole

    def test_client(self, provider):
        """The client sends the request as it is."""
        with anthropic.Anthropic(api_key="none", base_url=provider.url, max_retries=0) as client:
            client.messages.create(model=MODEL, max_tokens=100, **request("anthropic"))

        assert provider.bodies[-1] == {"model": MODEL, "max_tokens": 100, **request("anthropic")}


class TestGemini:
    @CHOICES
    def test_types(self, choice):
        """The SDK's models, which forbid unknown fields, return the request unchanged."""
        made = request("gemini", choice)

        contents = [gemini_types.Content.model_validate_json(json.dumps(content)) for content in made["contents"]]
        config = gemini_types.GenerateContentConfig.model_validate_json(json.dumps(made["config"]))

        assert [dumped(content) for content in contents] == made["contents"]
        assert dumped(config) == made["config"]

    def test_client(self, provider):
        """The client sends the same contents and settings."""
        options = gemini_types.HttpOptions(base_url=provider.url, api_version="v1beta")
        made = request("gemini", ALLOWED)

        with genai.Client(api_key="none", http_options=options) as client:
            client.models.generate_content(model=MODEL, **made)
        sent = provider.bodies[-1]

        assert one_spelling(sent["contents"]) == made["contents"]
        assert sent["systemInstruction"]["parts"] == [{"text": made["config"]["systemInstruction"]}]
        assert one_spelling(sent["tools"]) == made["config"]["tools"]
        assert one_spelling(sent["toolConfig"]) == made["config"]["toolConfig"]


@pytest.mark.parametrize("form", PROVIDERS)
def test_every_text_of_the_history_is_sent(form):
    """The test request contains each text of the history once."""
    text = json.dumps(request(form), ensure_ascii=False)

    for words in ("Be brief.", "Which talks", "Let me see.", "Gradle, in A.", "German", "And this?", "I must not say."):
        assert text.count(words) == 1
