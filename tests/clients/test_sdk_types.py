"""Windows of histories as they really are pass the types of the providers' SDKs for TypeScript.

Needs npm and node: ``python -m pytest -m clients tests/clients/test_sdk_types.py``.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from clients.test_generated import needs, run
from hypothesis import Phase, given, settings
from profiles import examples
from validators.conversations import conversations
from validators.judges import JUDGES
from validators.test_histories import entries_of, parameters, window_of

pytestmark = pytest.mark.clients

PACKAGE = {
    "private": True,
    "type": "module",
    "dependencies": {
        "openai": "7.57.0",
        "@anthropic-ai/sdk": "1.14.0",
        "@google/genai": "3.3.0",
        "@aws-sdk/client-bedrock-runtime": "3.1164.0",
        "ollama": "0.6.4",
        "typescript": "5.9.3",
    },
}
OPTIONS = {
    "strict": True,
    "noEmit": True,
    "skipLibCheck": True,
    "target": "es2022",
    "module": "nodenext",
    "exactOptionalPropertyTypes": True,
}
TYPES = {
    "openai": ("ChatCompletionCreateParamsNonStreaming", "openai/resources/chat/completions"),
    "responses": ("ResponseCreateParamsNonStreaming", "openai/resources/responses/responses"),
    "anthropic": ("MessageCreateParamsNonStreaming", "@anthropic-ai/sdk/resources/beta/messages"),
    "gemini": ("GenerateContentParameters", "@google/genai"),
    "converse": ("ConverseCommandInput", "@aws-sdk/client-bedrock-runtime"),
    "ollama": ("ChatRequest", "ollama"),
}
"""The types of requests. Anthropic's compactions are a beta (``compact-2026-01-12``), whose types stand apart."""
MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-3-pro-preview",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "ollama": "qwen3:8b",
}
WIDE = (
    "type Wide<T> = T extends string ? `${T}` : T extends Uint8Array ? string"
    " : T extends readonly (infer E)[] ? [null] extends [E] ? T : Wide<E>[]"
    " : T extends object ? string extends keyof T ? T : { [K in keyof T]: Wide<T[K]> } : T;"
)
"""A type with strings in place of enumerations, and of bytes, which are base64 in JSON. Types of any JSON stay."""
ADDED = {
    "responses": 'declare module "openai/resources/responses/responses" { namespace ResponseInputItem'
    " { interface LocalShellCallOutput { call_id: string } } }"
}
"""What an API requires that its SDK's types do not have (openai/openai-python 3923)."""
NAMED = {"converse": "modelId"}
"""The argument with the model, where it is not ``model``."""
BESIDE: dict[str, dict[str, Any]] = {"anthropic": {"max_tokens": 1}}
"""What a request needs beside what a window has."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the SDKs and a compiler."""
    needs("node", "npm")
    folder = tmp_path_factory.mktemp("types")
    (folder / "package.json").write_text(json.dumps(PACKAGE))
    run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    return folder


def requests(form: str) -> list[dict[str, Any]]:
    """Return the requests of windows of drawn histories, of which more than half have one."""
    found: list[dict[str, Any]] = []
    drawn = 0

    @settings(examples(2), phases=[Phase.generate])
    @given(conversations(), parameters())
    def draw(conversation: Any, ways: Any) -> None:
        nonlocal drawn
        drawn += 1
        window = window_of(form, MODELS[form], entries_of(conversation), ways)
        if window is not None and window["request"][JUDGES[form][0]]:
            found.append({NAMED.get(form, "model"): MODELS[form], **window["request"], **BESIDE.get(form, {})})

    draw()
    assert len(found) > drawn // 2
    return found


@pytest.mark.parametrize("form", TYPES)
def test_windows_have_the_types_of_the_sdk(node: Path, form: str) -> None:
    """Each request is a constant that satisfies the type of the SDK's arguments, without a member that it does not know."""
    name, module = TYPES[form]
    made = requests(form)
    lines = [f"export const w{n} = {json.dumps(each)} satisfies Wide<{name}>;" for n, each in enumerate(made)]
    imported = f'import type {{ {name} }} from "{module}";'
    (node / f"{form}.ts").write_text("\n".join([imported, ADDED.get(form, ""), WIDE, *lines]))
    (node / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS, "files": [f"{form}.ts"]}))
    run("npx", "--no-install", "tsc", cwd=node)
