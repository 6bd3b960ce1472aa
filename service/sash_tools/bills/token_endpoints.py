"""How each form's maker is asked for a request's tokens."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sash_tools.bills.token_endpoint import TokenEndpoint

_SHORTEST: Final = 16
"""Tokens of the shortest reply of a model that reasons: with fewer, OpenAI answers 400."""
_ONE_TOKEN: Final[Mapping[str, Any]] = {"options": {"num_predict": 1}, "stream": False}

_OPENAI: Final = TokenEndpoint(
    url="https://api.openai.com/v1",
    url_variables=("OPENAI_BASE_URL",),
    key_variables=("OPENAI_API_KEY",),
    path="/chat/completions",
    reply_tokens=_SHORTEST,
    shortest={"max_completion_tokens": _SHORTEST},
    shortest_elsewhere={"max_tokens": 1},
    tokens=("usage", "prompt_tokens"),
    schema=lambda name, schema: {
        "response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
    },
)

# developers.openai.com/api/reference: POST /responses/input_tokens
_RESPONSES: Final = msgspec.structs.replace(
    _OPENAI,
    path="/responses/input_tokens",
    fields=frozenset(
        {"input", "instructions", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls", "truncation"}
    ),
    reply_tokens=0,
    shortest={},
    shortest_elsewhere={},
    tokens=("input_tokens",),
    schema=lambda name, schema: {
        "text": {"format": {"type": "json_schema", "name": name, "schema": schema, "strict": True}}
    },
)

# github.com/ollama/ollama/blob/main/docs/api.md, "Generate a chat completion"
_OLLAMA: Final = TokenEndpoint(
    url="http://127.0.0.1:11434",
    url_variables=("OLLAMA_HOST",),
    key_variables=("OLLAMA_API_KEY",),
    path="/api/chat",
    reply_tokens=1,
    shortest=_ONE_TOKEN,
    shortest_elsewhere=_ONE_TOKEN,
    tokens=("prompt_eval_count",),
)

# ai.google.dev/api/tokens
_GEMINI: Final = TokenEndpoint(
    url="https://generativelanguage.googleapis.com",
    url_variables=("GOOGLE_GEMINI_BASE_URL",),
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    key_header="x-goog-api-key",
    key_prefix="",
    path="/v1beta/models/{model}:countTokens",
    wrapped=("generateContentRequest",),
    named="models/",
    spread="config",
    tokens=("totalTokens",),
    schema=lambda _name, schema: {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}
    },
)

# ai.google.dev/api/interactions-api; countTokens takes contents alone
_INTERACTIONS: Final = TokenEndpoint(
    url=_GEMINI.url,
    url_variables=_GEMINI.url_variables,
    key_variables=_GEMINI.key_variables,
    key_header=_GEMINI.key_header,
    key_prefix=_GEMINI.key_prefix,
    path="/v1beta/interactions",
    reply_tokens=16,
    shortest={"generation_config": {"max_output_tokens": 16}},
    tokens=("usage", "total_input_tokens"),
    schema=lambda _name, schema: {
        "response_format": {"type": "text", "mime_type": "application/json", "schema": schema}
    },
)

# platform.claude.com/docs/en/build-with-claude/token-counting
_ANTHROPIC: Final = TokenEndpoint(
    url="https://api.anthropic.com",
    url_variables=("ANTHROPIC_BASE_URL",),
    key_variables=("ANTHROPIC_API_KEY",),
    key_header="x-api-key",
    key_prefix="",
    headers={"anthropic-version": "2023-06-01"},
    path="/v1/messages/count_tokens",
    fields=frozenset({"messages", "system", "tools", "tool_choice", "thinking", "output_config", "mcp_servers"}),
    tokens=("input_tokens",),
    schema=lambda _name, schema: {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
)

# docs.aws.amazon.com/bedrock/latest/userguide/count-tokens
_CONVERSE: Final = TokenEndpoint(
    url="https://bedrock-runtime.us-east-1.amazonaws.com",
    url_variables=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    path="/model/{model}/count-tokens",
    fields=frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"}),
    wrapped=("input", "converse"),
    tokens=("inputTokens",),
)

TOKEN_ENDPOINTS: Final[Mapping[str, TokenEndpoint]] = {
    "openai": _OPENAI,
    "responses": _RESPONSES,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "interactions": _INTERACTIONS,
    "converse": _CONVERSE,
    "ollama": _OLLAMA,
}
"""By the form's name."""
