"""A simulator of a provider's prompt cache, by its rules (each provider's file).

A request is a list of blocks. The cache tells how many of its tokens are read and written. It never matches a part of a
block: a block that differs is not read.
"""

from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import NamedTuple

from sash.core.providers.form.cache_marks import BREAKPOINTS, LOOKBACK_BLOCKS, Caching

_MATCHED_BREAKPOINTS = 80


class Block(NamedTuple):
    """A part of a request that is cached whole: what tells it from others, and its tokens.

    ``marked``: the request marks its end. ``turn``: rules of kind ``breakpoints`` may cache up to its end without a mark.
    """

    identity: Hashable
    tokens: int
    marked: bool = False
    turn: bool = False


class Billed(NamedTuple):
    """Input tokens by price: read from the cache, written to it, and neither."""

    read: int
    written: int
    uncached: int


class PromptCache:
    """The cache of one provider for one client, whose requests always come to the same machine."""

    def __init__(self, rules: Caching) -> None:
        self.rules = rules
        self._used: dict[int, float] = {}
        """When each prefix was last used, in seconds, by the hash of its blocks."""

    def send(self, blocks: Sequence[Block], at_seconds: float) -> Billed:
        """Return what a request is billed.

        Raises ValueError for too many breakpoints, which a provider refuses (400).
        """
        rules, places = self.rules, [*range(1, len(blocks) + 1)]
        marks = [end for end, block in zip(places, blocks, strict=True) if block.marked]
        turns = [end for end, block in zip(places, blocks, strict=True) if block.turn]
        if len(marks) > BREAKPOINTS:
            raise ValueError(f"{len(marks)} breakpoints, and {BREAKPOINTS} are allowed")
        match rules.kind:
            case "implicit":
                looked, ends = places, places
            case "cache_control":
                looked, ends = [place for end in marks for place in places[max(0, end - LOOKBACK_BLOCKS) : end]], marks
            case "breakpoints":
                looked, ends = sorted({*marks, *turns})[-_MATCHED_BREAKPOINTS:], sorted({*marks[-3:], *turns[-1:]})
        tokens = [0, *accumulate(block.tokens for block in blocks)]
        prefixes = [*accumulate((block.identity for block in blocks), lambda *known: hash(known), initial=0)]
        lives = rules.lifetime_seconds
        self._used = {known: used for known, used in self._used.items() if at_seconds - used <= lives}
        found = max((place for place in looked if prefixes[place] in self._used), default=0)
        # The longest cached prefix is read, and the rest up to the last end is written.
        read = tokens[found] // rules.step_tokens * rules.step_tokens
        read = read if read >= rules.minimum_tokens else 0
        long_enough = [end for end in ends if tokens[end] >= rules.minimum_tokens]
        for place in [*long_enough, *([found] if read else [])]:
            self._used[prefixes[place]] = at_seconds
        written = 0 if rules.kind == "implicit" else max(0, tokens[max(long_enough, default=0)] - read)
        return Billed(read, written, tokens[-1] - read - written)
