"""Money of windows' input at list prices: what it cost, and what was saved."""

from sash.operations.registry import Registry


class Money:
    """Counts billionths of a dollar by a model's label and by what they are for."""

    def __init__(self, registry: Registry) -> None:
        self._nanodollars = registry.counter(
            "sash_input_nanodollars_total",
            "Billionths of a dollar of input at list prices: billed, read from a cache, written to it; and saved by "
            "documents, cuts, tiers and stable cuts.",
            *("model", "what"),
        )

    def add(self, label: str, what: str, millionths: float) -> None:
        """Add to the money of a kind: tokens times dollars for a million of them."""
        self._nanodollars(label, what).value += round(millionths * 1000)
