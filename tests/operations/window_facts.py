"""The figures of a served window, for tests of metrics."""

from sash.core.law.records.figures import Dropped, WindowTokens
from sash.windows.head import Kept, WindowGrounding, WindowHead


def facts(
    model: str = "gpt-4o", *, tokens: int = 900, budget: int = 1000, stop_reason: str = "budget", saved_tokens: int = 40
) -> tuple[WindowHead, tuple[int, int]]:
    """A window's head, and the tokens of its documents that were saved and trimmed."""
    head = WindowHead(
        conversation_id="c",
        version=1,
        etag=None,
        model=model,
        encoding="o200k_base",
        exact=True,
        context_window=None,
        max_input_tokens=None,
        reserve=0,
        budget=budget,
        format="openai",
        tokens=WindowTokens(tokens, 0, 0, 0, 0, 0, tokens, 0, 0),
        kept=Kept(7, 4, 10),
        dropped=Dropped(3, 120, 0, 0, 0, 0, 0, 0, 0),
        grounding=WindowGrounding(2, 1, truncated=True, documents_shortened=0),
        stop_reason=stop_reason,
        summary_used=False,
        note=0,
    )
    return head, (saved_tokens, 5)
