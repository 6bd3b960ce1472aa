"""Values for each parameter of a window. A test compares their names with those of the contract."""

import random
from typing import Any

from faults.fuzz.scripts import Object

MODELS = {
    "openai": (
        *("gpt-4o-mini", "gpt-4o-mini", "gpt-5", "gpt-4", "deepseek-chat", "mistral-large-latest", "kimi-k2.5"),
        *("groq/llama-3.3-70b-versatile", "qwen3.5-plus", "llama-3.3-70b"),
    ),
    "responses": ("gpt-4o-mini", "gpt-5", "gpt-4.1"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5-5"),
    "gemini": ("gemini-2.5-flash", "gemini-3-pro-preview", "gemini-3.8-flash"),
    "interactions": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "converse": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"),
    "ollama": ("gpt-oss:20b", "llama3.2:3b", "qwen3:8b"),
}
FORMS = tuple(MODELS)
AGENTS = ("billing", "triage", "search")
_ALL_MODELS = sorted({model for models in MODELS.values() for model in models})

_BUDGETS = (100_000, 20_000, 4_000, 1_500, 600, 400, 300, 200, 150, 120, 90, 60, 20)
_VALUES: dict[str, tuple[Any, ...]] = {
    "limit": (1, 2, 3, 5, 9, 30),
    "turns": (1, 1, 2, 4),
    "overflow": ("skip", "stop"),
    "grounding": ("all", "none", "latest"),
    "grounding_max_tokens": (1, 5, 40, 200, 2_000),
    "grounding_overflow": ("trim", "whole", "drop", "error"),
    "dedupe": ("messages", "none", "grounding"),
    "stable": ("true", "auto", "false"),
    "stable_step": (0.05, 0.1, 0.25, 0.5),
    "start": ("user", "any"),
    "summary": ("never", "always", "auto"),
    "recall_max_tokens": (1, 20, 60, 200, 1_000),
    "recall_query": ("talks on Gradle", "look day", "zq3z zq4z", "강연", "the"),
    "note": ("true", "false"),
    "reasoning": ("all", "none", "turn"),
    "tool_result_max_tokens": (1, 16, 40, 60, 200),
    "tool_results_kept": (0, 1, 3),
    "tool_result_overflow": ("error", "trim"),
    "images_kept": (0, 1, 2),
    "unanswered": ("drop", "note"),
    "uncarried": ("error", "drop"),
    "history_tools": ("true", "false"),
    "cache": ("auto", "none"),
    "price": ("auto", "none"),
    "explain": ("true", "false"),
    "view": (*AGENTS, "user", "nobody"),
}
_LARGE = ("model", "format", "max_tokens", "reserve")
NAMES = frozenset(_VALUES) | frozenset(_LARGE)
_SHARES = (0.0, 0.0, 0.06, 0.12, 0.3)
"""How likely each parameter is; most windows have few, because each changes what the others do."""


def window(chance: random.Random, form: str = "", **given: Any) -> Object:
    """Draw a window's parameters: those of ``given`` as they are, and mostly few others. ``form`` is likelier."""
    into = form if form and chance.random() < 0.4 else chance.choice(FORMS)
    models = MODELS[into] if chance.random() < 0.8 else _ALL_MODELS
    found: Object = {
        "model": chance.choice(models),
        "format": into,
        "reserve": 0,
        "max_tokens": chance.choice(_BUDGETS),
    }
    if chance.random() < 0.8:
        found["uncarried"] = "drop"
    share = chance.choice(_SHARES)
    for name, values in _VALUES.items():
        if chance.random() < share:
            found[name] = chance.choice(values)
    if chance.random() < 0.05:
        found["reserve"] = chance.choice((1, 1_024, 100_000))
    return found | given


def windows(chance: random.Random, form: str = "", number: int = 4, **given: Any) -> list[Object]:
    """Draw several windows of one conversation."""
    return [window(chance, form, **given) for _ in range(number)]
