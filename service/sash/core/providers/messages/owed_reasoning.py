"""Reasoning that must come back, or must not: some servers answer 400 to a call in the history without the reasoning before
it, and some makers' and hosts' to any reasoning.

So the first are sent the reasoning of every message with calls, and the others none, whatever a window's ``reasoning`` says.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple


class _Owed(NamedTuple):
    """A maker's models, by a pattern of their names, and where its rule is from."""

    maker: str
    models: str
    evidence: str


_OWED: Final = (
    _Owed(
        "deepseek",
        r"v([4-9]|\d\d)",
        "api-docs.deepseek.com/guides/thinking_mode: where a tool was called between two questions, the reasoning must be "
        "passed back in all subsequent requests (earendil-works/pi 3636, QuantumNous/new-api 4806, n8n-io/n8n 29119, "
        "rikkahub/rikkahub 1587; langchain-ai/langchain 34166 was not refused)",
    ),
    _Owed(
        "moonshotai",
        r"kimi-k(2-thinking|2\.[5-9]|[3-9])",
        "'reasoning_content is missing in assistant tool call message at index N' (openclaw 71050, LibreChat 12836)",
    ),
)
REFUSING_HOSTS: Final = {
    "cerebras": "400: \"property 'messages.2.assistant.reasoning_content' is unsupported\" (Kilo-Org/kilocode 10375, "
    "QwenLM/qwen-code 11045)",
    "groq": "400 as of Cerebras (janhq/jan 8136); 'reasoning is not supported with this model' (vercel/ai 8057)",
}
"""Hosts, as LiteLLM writes them before a model's name, that refuse members which they do not know, whoever made the model;
with what they were reported to answer. Their own models are a maker's, too."""
_REFUSING_MAKERS: Final = {
    "openai": "400: 'Unknown parameter'; its request types have no such member",
    "mistral": "422: 'Extra inputs are not permitted' (charmbracelet/crush 1590)",
}


def readers_of(maker: str, model: str) -> frozenset[str]:
    """Return who checks a request: the model's maker, and a host without a place for unknown members that its name begins
    with.

    >>> sorted(readers_of("qwen", "groq/qwen/qwen3-32b")), sorted(readers_of("qwen", "qwen3-32b"))
    (['groq', 'qwen'], ['qwen'])
    """
    host, slash, _ = model.strip().lower().partition("/")
    return frozenset({maker, host} if slash and host in REFUSING_HOSTS else {maker})


@lru_cache(maxsize=1024)
def refuses_reasoning(maker: str, model: str) -> bool:
    """Return whether a chat completion's server refuses members with reasoning: a model's maker, or its host.

    >>> refuses_reasoning("qwen", "groq/qwen/qwen3-32b"), refuses_reasoning("qwen", "qwen3-32b")
    (True, False)
    """
    return any(each in _REFUSING_MAKERS or each in REFUSING_HOSTS for each in readers_of(maker, model))


@lru_cache(maxsize=1024)
def owes_reasoning(maker: str, model: str) -> bool:
    """Return whether this model's server refuses a message with calls that comes without its reasoning.

    >>> owes_reasoning("deepseek", "deepseek-v4-pro"), owes_reasoning("deepseek", "deepseek-v3.1")
    (True, False)
    """
    if refuses_reasoning(maker, model):
        return False
    return any(each.maker == maker and re.search(each.models, model.lower()) for each in _OWED)
