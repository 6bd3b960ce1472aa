"""Attributes of spans by OpenTelemetry's conventions for generative AI (open-telemetry/semantic-conventions-genai, 0.1.0).

Tokens of a window are predicted, so they are ``sash.…``; ``gen_ai.usage.…`` are those that a provider reported.
"""

from collections.abc import Mapping
from typing import Any, Final

from sash.windows.head import WindowHead

Attributes = dict[str, Any]
_PROVIDERS: Final = {"google": "gcp.gemini", "mistral": "mistral_ai", "x-ai": "x_ai"}
"""The conventions' names of makers, where they differ from Sash's."""


def of_window(head: WindowHead, model: str, receipt: bytes | None, provider: str) -> Attributes:
    """Attributes of a window: what was asked, what it has, and the receipt that makes it again.

    ``model`` is a known model's name: one that a client made up is not told.
    """
    recalled = {"sash.window.recalled_messages": head.recalled.messages} if head.recalled is not None else {}
    return {
        "gen_ai.request.model": model,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.conversation.compacted": head.summary_used,
        "sash.window.tokens": head.tokens.total,
        "sash.window.budget": head.budget,
        "sash.window.kept_messages": head.kept.messages,
        "sash.window.dropped_messages": head.dropped.messages,
        "sash.window.stop_reason": head.stop_reason,
        **recalled,
        **({"sash.window.receipt": receipt.decode()} if receipt else {}),
    }


def of_bill(model: str, *, billed: int, read: int | None, written: int | None) -> Attributes:
    """Attributes of a reported bill: input tokens, and those of the provider's cache if it tells them."""
    return {
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": billed,
        **({"gen_ai.usage.cache_read.input_tokens": read} if read is not None else {}),
        **({"gen_ai.usage.cache_creation.input_tokens": written} if written is not None else {}),
    }


def of_call(operation: str, model: str, figures: Mapping[str, Any]) -> Attributes:
    """Attributes of a call of an endpoint; ``figures`` are of its log line."""
    tokens = {f"gen_ai.usage.{name}": figures[name] for name in ("input_tokens", "output_tokens") if name in figures}
    failed = {"error.type": str(figures["why"]).partition(":")[0]} if "why" in figures else {}
    return {"gen_ai.operation.name": operation, "gen_ai.request.model": model, **tokens, **failed}
