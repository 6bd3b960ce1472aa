"""Reasoning that some models want back in each message with calls, in chat completions, Claude's form and Responses.

Where none is known, such as in another model's call, a blank stands for it.
"""

from typing import Final

from sash.core.providers.destinations.destination import evidence_of, meet
from sash.core.providers.messages.mends import Mend

NO_REASONING: Final = Mend(
    name="no_reasoning",
    is_free=True,
    refused="A message with calls and without reasoning, such as another model's, by Kimi from K2 Thinking on, and by "
    "DeepSeek from V4 on, also at their addresses of Claude's form, and at DeepSeek's of Responses",
    sent="A space as `reasoning_content`; in Claude's form as a thinking block, in Responses as a reasoning item",
    evidence=evidence_of("reasoning", "filled"),
)
BLANK: Final = " "
"""The reasoning of calls that have none."""


def fills_reasoning(form: str, maker: str, model: str) -> bool:
    """Return whether a maker's model wants reasoning in each message with calls, in this form.

    >>> fills_reasoning("anthropic", "deepseek", "deepseek-v4-pro"), fills_reasoning("anthropic", "zhipuai", "glm-4.6")
    (True, False)
    """
    return meet(form, maker, model).values.get("reasoning") == "filled"
