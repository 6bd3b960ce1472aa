"""Reasoning that must come back, or must not: some servers answer 400 to a call in the history without the reasoning before
it, and some hosts to any reasoning.

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
_REFUSING_HOSTS: Final = {
    "cerebras": "400 to the second request with `reasoning_content`, of zai-glm-4.7 (qwen-code 11045, jan 8136)",
    "groq": "400 to the second request with `reasoning_content`, of qwen3-32b (qwen-code 11045, jan 8136)",
}
"""Hosts, as LiteLLM writes them before a model's name, with what they were reported to answer."""


def refuses_reasoning(model: str) -> bool:
    """Return whether the host that a model's name begins with refuses members with reasoning.

    >>> refuses_reasoning("groq/qwen/qwen3-32b"), refuses_reasoning("qwen3-32b")
    (True, False)
    """
    return "/" in model and model.partition("/")[0].lower() in _REFUSING_HOSTS


@lru_cache(maxsize=1024)
def owes_reasoning(maker: str, model: str) -> bool:
    """Return whether this model's server refuses a message with calls that comes without its reasoning.

    >>> owes_reasoning("deepseek", "deepseek-v4-pro"), owes_reasoning("deepseek", "deepseek-v3.1")
    (True, False)
    """
    if refuses_reasoning(model):
        return False
    return any(each.maker == maker and re.search(each.models, model.lower()) for each in _OWED)
