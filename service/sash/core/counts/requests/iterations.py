"""A bill of several passes: a request in which the provider compacted the conversation, or ran its own tools.

Anthropic's ``usage.iterations`` has an entry a pass
(platform.claude.com/docs/en/build-with-claude/compaction-threshold#understanding-usage; anthropic.types.beta.BetaUsage, read
in November 2026). The figures beside it are the sum of all passes that are no compaction, so only the first pass tells what
the window cost; and if that is a compaction, none does.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

Tokens = Annotated[int, Meta(ge=0, le=100_000_000)]
_ADVISED = "advisor_message"
"""A pass of another model, which the model that reads the window asked."""


class Iteration(msgspec.Struct, frozen=True):
    """A pass of a request, as Anthropic reports it; its other members are not read."""

    type: str
    input_tokens: Tokens
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None

    @property
    def billed(self) -> int:
        """The tokens of its input, also those that were read from a cache or written to it."""
        return self.input_tokens + (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)


def billed_for_window(iterations: Sequence[Iteration]) -> int | None:
    """Return the tokens that the window was billed with; None if no pass read it as it was sent, by the model asked."""
    first = next((each for each in iterations if each.type != _ADVISED), None)
    return first.billed if first is not None and first.type == "message" else None


def billed_in_all(iterations: Sequence[Iteration]) -> int:
    """Return the input tokens of all passes."""
    return sum(each.billed for each in iterations)
