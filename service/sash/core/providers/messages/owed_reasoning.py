"""Reasoning that must come back: some servers answer 400 to a call in the history without the reasoning before it.

So these models are sent the reasoning of every message with calls, whatever a window's ``reasoning`` says.
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
        "api-docs.deepseek.com/guides/thinking_mode: where a tool was called between two questions, 'the reasoning_content "
        "must be passed back to the API in all subsequent requests' (earendil-works/pi 3636, n8n-io/n8n 29119, "
        "rikkahub/rikkahub 1587; langchain-ai/langchain 34166 was not refused)",
    ),
    _Owed(
        "moonshotai",
        r"kimi-k(2-thinking|2\.[5-9]|[3-9])",
        "'thinking is enabled but reasoning_content is missing in assistant tool call message at index 2' "
        "(danny-avila/LibreChat 12836, openclaw/openclaw 71050)",
    ),
)


@lru_cache(maxsize=1024)
def owes_reasoning(maker: str, model: str) -> bool:
    """Return whether this model's server wants the reasoning of each message with calls.

    >>> owes_reasoning("deepseek", "deepseek-v4-pro"), owes_reasoning("deepseek", "deepseek-v3.1")
    (True, False)
    """
    return any(each.maker == maker and re.search(each.models, model.lower()) for each in _OWED)
