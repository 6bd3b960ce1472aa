"""A Gemini window arrives whole through Google's SDKs for Python and for JavaScript, which read its names differently.

Needs npm and node: ``python -m pytest -m clients tests/clients/test_gemini_sdks.py``.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.test_sdk_requests import MODEL, PIXEL, Provider, one_spelling, recording
from google import genai
from google.genai import types

from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

pytestmark = pytest.mark.clients

Object = dict[str, Any]
PACKAGE = {"private": True, "type": "module", "dependencies": {"@google/genai": "3.3.0"}}
PROGRAM = """
import { readFileSync } from 'node:fs';
import { GoogleGenAI } from '@google/genai';
const [url, model, path] = process.argv.slice(2);
const client = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: url, apiVersion: 'v1beta' } });
const request = JSON.parse(readFileSync(path, 'utf8'));
await client.models.generateContent({ model, ...request });
"""
TOOL = {
    "type": "function",
    "function": {
        "name": "talks",
        "description": "Talks of a day",
        "parameters": {"type": "object", "properties": {"mime_type": {"type": "string"}}},
    },
}
CHOICE = {"type": "function", "function": {"name": "talks"}}
CHAT = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/plan.jpg"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "talks", "arguments": '{"mime_type": "a"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "three"},
]
SNAKE = [
    {"role": "user", "parts": [{"text": "Look."}, {"inline_data": {"mime_type": "image/png", "data": PIXEL}}]},
    {
        "role": "model",
        "parts": [
            {"text": "hm", "thought": True},
            {
                "function_call": {"id": "c1", "name": "talks", "args": {"mime_type": "a"}},
                "thought_signature": "c2lnbmVk",
            },
        ],
    },
    {
        "role": "user",
        "parts": [{"function_response": {"id": "c1", "name": "talks", "response": {"file_uri": "theirs"}}}],
    },
]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with recording() as server:
        yield server


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the SDK for JavaScript and a program that sends a request."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.fail("node and npm are not installed")
    folder = tmp_path_factory.mktemp("genai")
    (folder / "package.json").write_text(json.dumps(PACKAGE))
    (folder / "send.js").write_text(PROGRAM)
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, check=True, timeout=300, capture_output=True)
    return folder


def request_of(messages: list[Object], sent_as: str) -> Object:
    body = {
        "model": "gemini-3-pro-preview",
        "format": "gemini",
        "messages": messages,
        "system": "Be brief.",
        "tools": [TOOL],
        "tool_choice": CHOICE,
    }
    wanted, _ = decode_request(json.dumps(body).encode(), sent_as)
    made: Object = json.loads(window_of_request(wanted, {})[0].body)["request"]
    return made


@pytest.mark.parametrize(("messages", "sent_as"), [(CHAT, "openai"), (SNAKE, "gemini")], ids=["chat", "snake case"])
def test_the_same_arrives_through_both_sdks(
    provider: Provider, node: Path, tmp_path: Path, messages: list[Object], sent_as: str
) -> None:
    """System text, tools, the choice, calls, results, images and signatures arrive, from Python and from JavaScript."""
    request = request_of(messages, sent_as)
    (tmp_path / "request.json").write_text(json.dumps(request))
    options = types.HttpOptions(base_url=provider.url, api_version="v1beta")

    with genai.Client(api_key="none", http_options=options) as client:
        client.models.generate_content(model=MODEL, **request)
    command = ["node", "send.js", provider.url, MODEL, str(tmp_path / "request.json")]
    subprocess.run(command, cwd=node, check=True, timeout=60)

    for body in provider.bodies[-2:]:
        sent = one_spelling(body)
        assert sent["contents"] == request["contents"]
        assert sent["systemInstruction"]["parts"] == [{"text": "Be brief."}]
        assert sent["tools"] == request["config"]["tools"]
        assert sent["toolConfig"] == request["config"]["toolConfig"]
