"""Figures of the history tools, by which models read what their windows leave out."""

from sash.operations.logging import best_effort
from sash.operations.registry import Registry


class ToolMetrics:
    """One worker's figures."""

    def __init__(self, registry: Registry) -> None:
        self._calls = registry.counter(
            "sash_history_tool_calls_total",
            "Calls of the history tools that were answered, by http or mcp.",
            "tool",
            "via",
        )
        self._tokens = registry.counter("sash_history_tool_tokens_total", "Tokens of the answers' texts.")

    def answered(self, tool: str, via: str, tokens: int) -> None:
        """Count a call that was answered with a text of so many tokens."""
        with best_effort:
            self._calls(tool, via).inc()
            self._tokens.inc(tokens)
