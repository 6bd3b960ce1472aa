"""The recordings with their current predictions, as ``sash truth`` compares them."""

from functools import cache

from recordings import TRUTH

from sash_tools.bills.bill import Bill, compared
from sash_tools.bills.truth_rows import TruthRow, rows_in

FILES = (
    *("vcr_chat", "kani_chat", "cookbook", "openai_chat_tokens", "openai_messages_token_helper", "more_chat"),
    *("new_chat", "new3_chat", "kani_responses", "new_responses", "new3_responses"),
    *("more_anthropic", "new_anthropic", "new3_anthropic"),
    *("more_gemini", "new_gemini", "new3_gemini", "new3_interactions"),
    *("new_others", "new3_others", "new3_cohere", "new3_ollama", "new3_converse"),
)
"""The files of recordings."""


def rows(file: str) -> list[TruthRow]:
    """Return the rows of one file."""
    return rows_in((TRUTH / f"{file}.json").read_bytes(), file)


@cache
def all_bills() -> tuple[Bill, ...]:
    """Return every recording with its current prediction."""
    return tuple(compared(row, file, {}) for file in FILES for row in rows(file))


@cache
def bills(vendor: str) -> tuple[Bill, ...]:
    """Return every recording of a vendor."""
    return tuple(bill for bill in all_bills() if bill.vendor == vendor)
