"""The recordings with their current predictions, as ``sash truth`` compares them."""

from functools import cache

from recordings import TRUTH

from sash_tools.bills.bill import Bill, compared
from sash_tools.bills.truth_rows import TruthRow, rows_in

FILES = {
    "OpenAI": (
        *("vcr_chat", "kani_chat", "cookbook", "openai_chat_tokens", "openai_messages_token_helper", "more_chat"),
        "new_chat",
    ),
    "OpenAI Responses": ("kani_responses", "new_responses"),
    "Claude": ("more_anthropic", "new_anthropic"),
    "Gemini": ("more_gemini", "new_gemini"),
    "Other makers": ("new_others",),
}
"""The files of each vendor's recordings."""


def rows(file: str) -> list[TruthRow]:
    """Return the rows of one file."""
    return rows_in((TRUTH / f"{file}.json").read_bytes(), file)


@cache
def bills(vendor: str) -> tuple[Bill, ...]:
    """Return every recording of a vendor with its current prediction."""
    return tuple(compared(row, file, {}) for file in FILES[vendor] for row in rows(file))


def all_bills() -> list[Bill]:
    """Return every recording of every vendor."""
    return [bill for vendor in FILES for bill in bills(vendor)]
