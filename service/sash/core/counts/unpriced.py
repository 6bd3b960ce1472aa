"""Members of a message that are in no recorded bill, counted as the tokens of their strings.

Providers add members, and clients add their own. Windows send these members, so they are counted. Their bill is not known,
so the count is then not exact.
"""

from collections.abc import Mapping
from typing import Any, Final

from sash.core.counts.text import Pair, text_tokens
from sash.core.providers.members import unknown_members

_HINT: Final = "prompt_cache_breakpoint"


def unpriced_tokens(message: Mapping[str, Any]) -> Pair:
    """Return the tokens of the strings in a message's unknown members, without hints for a prompt cache, which are free."""
    return text_tokens([{each.name: each.value} for each in unknown_members(message) if each.name != _HINT])
