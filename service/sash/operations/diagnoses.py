"""What providers report beside tokens: reasoning that they dropped from a request, and why a prompt cache did not serve it.

Sources, the SDKs of November 2026: BetaInputTransformation and BetaCacheMissReason in anthropic.types.beta,
InputTransformation and PromptCacheDiagnostics in openai.types.responses.response.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

_CAUSES: Final = {
    "prefix_binding_mismatch": "prefix",
    "prefix_mismatch": "prefix",
    "model_binding_mismatch": "model",
    "model_mismatch": "model",
    "organization_binding_mismatch": "organization",
    "organization_mismatch": "organization",
    "end_user_binding_mismatch": "end_user",
    "end_user_mismatch": "end_user",
    "turn_boundary": "turn",
}
"""Why reasoning was dropped: what is before it has changed; the model, the organization or the end user is another; its turn
is over."""
_SHOWN: Final = "thinking_mismatch_allowed"
"""A block that failed a check, and was shown to the model all the same."""
MISSES: Final = frozenset(
    {
        *("model_changed", "system_changed", "tools_changed", "messages_changed", "previous_message_not_found"),
        *("prompt_cache_key_changed", "text_format_changed", "reasoning_effort_changed", "verbosity_changed"),
        *("context_compacted", "input_changed", "service_tier_changed", "comparison_response_not_found", "unavailable"),
    }
)
OTHER: Final = "other"


class InputTransformation(msgspec.Struct, frozen=True):
    """A change that a provider made to a request's input; its other members are not read."""

    type: str
    reason: str = ""


class CacheMiss(msgspec.Struct, frozen=True):
    """Why a prompt cache did not serve a request: Anthropic's ``type``, or OpenAI's ``reason`` beside it."""

    type: str
    reason: str = ""


def drops_in(transformations: Iterable[InputTransformation]) -> Counter[str]:
    """Return how many blocks of reasoning were dropped, by cause."""
    return Counter(_CAUSES.get(each.reason, OTHER) for each in transformations if each.type != _SHOWN)


def miss_in(given: str | CacheMiss | None) -> str | None:
    """Return the reason of a cache miss, which is a label of metrics; None without a miss."""
    reason = (given.reason or given.type) if isinstance(given, CacheMiss) else given
    if not reason or reason == "cache_hit":
        return None
    return reason if reason in MISSES else OTHER
