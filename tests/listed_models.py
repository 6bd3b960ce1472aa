"""Write what Sash needs of genai-prices: ``python -m tests.listed_models``, after a newer version was installed.

genai-prices takes 0.3 s and 60 MB to import, with an HTTP client; the file that this writes is read in milliseconds. A price
is that of ``LISTED``'s day. Change that day with the version.
"""

from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from genai_prices.data_snapshot import get_snapshot

from sash.core.counts.models.listings import LISTED, bare_name

FILE = Path(__file__).resolve().parent.parent / "service" / "sash" / "core" / "counts" / "models" / "listed_models.json"
_PRICES = {
    "input_price": "input_mtok",
    "cached_input_price": "cache_read_mtok",
    "cache_write_price": "cache_write_mtok",
    "long_cache_write_price": "cache_write_1h_mtok",
}


def listed() -> bytes:
    """Return the file's content: a line a model, with its seller, window, names, prices by tier, and what it is found by."""
    lines = [
        msgspec.json.encode(
            [
                provider.id,
                model.id,
                model.context_window,
                _names(model),
                _tiers(_on(LISTED[1], model.prices) if isinstance(model.prices, list) else model.prices),
                _clause(model.match),
            ]
        )
        for provider in get_snapshot().providers
        for model in provider.models
    ]
    return b"[\n" + b",\n".join(lines) + b"\n]\n"


def _names(model: Any) -> list[str]:
    clauses = (getattr(clause, "equals", None) for clause in (model.match, *getattr(model.match, "or_", ())))
    return [*dict.fromkeys(map(bare_name, filter(None, (model.id, *clauses))))]


def _clause(match: Any) -> list[Any]:
    """A model's rule for names: its kind, and its text in lower case or the rules that it joins."""
    ((kind, value),) = vars(match).items()
    if isinstance(value, list):
        return [kind.rstrip("_"), [_clause(each) for each in value]]
    return [kind, value if kind == "regex" else value.lower()]


def _on(day: date, dated: Any) -> Any:
    """The prices of a day. Those of certain hours alone are left out, because a window does not say when it is sent."""
    found = dated[0].prices
    for each in dated:
        start = getattr(each.constraint, "start_date", None)
        if each.constraint is None or (start is not None and start <= day):
            found = each.prices
    return found


def _tiers(prices: Any) -> list[Any]:
    """The prices of the first tier, and of each above it. A price without a tier of its own stays what it was."""
    given = {name: getattr(prices, kind, None) for name, kind in _PRICES.items()}
    starts = sorted({tier.start for price in given.values() for tier in getattr(price, "tiers", ())})
    return [[start, *(_dollars(price, start) for price in given.values())] for start in (0, *starts)]


def _dollars(price: Any, above: int) -> float | None:
    """The price of a request of more than ``above`` input tokens, as a number."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    found = reached[-1] if reached else getattr(price, "base", price)
    return None if found is None else float(found)


if __name__ == "__main__":
    FILE.write_bytes(listed())
    print(f"{FILE.name}: genai-prices {version('genai-prices')}, prices of {LISTED[1]}")
