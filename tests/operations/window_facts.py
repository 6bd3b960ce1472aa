"""The facts of a served window, for tests of metrics."""

from service.operations.window_metrics import WindowFacts


def facts(model: str = "gpt-4o", **changes: object) -> WindowFacts:
    known: dict[str, object] = {
        "model": model,
        "tokens": 900,
        "budget": 1000,
        "kept_messages": 7,
        "dropped_messages": 3,
        "dropped_tokens": 120,
        "documents_saved_tokens": 40,
        "documents_trimmed_tokens": 5,
        "truncated": True,
        "stop_reason": "budget",
        "stable": True,
    }
    return WindowFacts(**{**known, **changes})  # type: ignore[arg-type]
