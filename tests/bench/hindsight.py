"""The cheapest windows that keep a given part of the history, found with hindsight: no rule can be cheaper.

For each turn of a conversation, every message at which history may begin is tried; a beginning never moves back. The cost is
that of the simulator's rules (``core/law/prompt_cache.py``), by the lifetimes that the rule asked for. Each token of history
is worth something, and the worth is raised until the wanted part is kept: each point so found is on the frontier.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sash.core.law.rhythm import Asks
from sash.core.providers.cache_marks import Caching
from tests.bench.stable_cut import Turn

_ROUNDS = 10
"""Halvings of the worth of a token, which is between nothing and that of four uncached ones."""

Numbers = Any
"""An array of numbers, one for each message at which history may begin."""


class Line(NamedTuple):
    """A conversation as its windows see it: tokens before each message, and those of the parts before all messages."""

    before: Numbers
    starts: Numbers
    """The messages at which history may begin: all but results, which stay with their calls."""
    fixed: int


class Asked(NamedTuple):
    """A turn: the number of messages up to its question, its documents' tokens, its time, and the history it had."""

    length: int
    documents: int
    seconds: float
    kept: int
    asks: Asks


class Lives(NamedTuple):
    """A conversation with its turns."""

    line: Line
    turns: list[Asked]


def lives(
    turns: Sequence[Turn], roles: Sequence[str], seconds: Sequence[float], asks: Sequence[Asks], kind: Any
) -> Lives:
    """Read the costs of a conversation's messages from the windows of its ``turns``, which have each message once."""
    costs, found = np.zeros(len(roles), np.int64), []
    places = [place for place, role in enumerate(roles) if role == "user"]
    fixed = 0
    for turn, place, at, each in zip(turns, places, seconds, asks, strict=True):
        said = {block.identity[0]: block.tokens for block in turn.blocks[kind] if _is_message(block.identity)}
        fixed = turn.tokens - sum(said.values())
        documents = turn.tokens - fixed - turn.history
        said[place + 1] -= documents
        for seq, tokens in said.items():
            costs[seq - 1] = tokens
        found.append(Asked(place + 1, documents, at, turn.history, each))
    before = np.concatenate(([0], np.cumsum(costs)))
    starts = np.array([place for place, role in enumerate(roles) if role != "tool"])
    return Lives(Line(before, starts, fixed), found)


def _is_message(identity: Any) -> bool:
    return isinstance(identity, tuple) and isinstance(identity[0], int)


def cheapest(
    conversations: Sequence[Lives], rules: Caching, dearer: Callable[[Numbers], Numbers], budget: int, part: float
) -> float:
    """The cost of all turns with at least this ``part`` of the tokens of history that they had.

    ``dearer`` is the factor of the price of requests of so many tokens.
    """
    wanted = min(1.0, part) * sum(turn.kept for each in conversations for turn in each.turns)
    low, high, best = 0.0, 4.0, float("nan")
    for _ in range(_ROUNDS):
        worth = (low + high) / 2
        solved = [_solved(each, rules, dearer, budget, worth) for each in conversations]
        if sum(kept for _, kept in solved) >= wanted:
            high, best = worth, sum(cost for cost, _ in solved)
        else:
            low = worth
    return best


def _solved(
    conversation: Lives, rules: Caching, dearer: Callable[[Numbers], Numbers], budget: int, worth: float
) -> tuple[float, int]:
    """The cost and the tokens of history of the best beginnings, if a token of history is worth so much."""
    line, turns = conversation
    index = np.arange(len(line.starts))
    value, cost, kept = np.zeros(len(index)), np.zeros(len(index)), np.zeros(len(index))
    entries: list[_Entry] = []
    for number, turn in enumerate(turns):
        history = line.before[turn.length] - line.before[line.starts]
        total = line.fixed + history + turn.documents
        billed = partial(_billed, line, turn, rules, total)
        entries = [each.used_at(turn.seconds) for each in entries if turn.seconds <= each.until]
        same, moved = (billed(read) * dearer(total) for read in _reads(line, entries, rules))
        entries += _written(turns, number, rules)
        is_out = (line.starts >= turn.length) | (total > budget)
        is_out[np.flatnonzero(line.starts < turn.length)[-1]] = False  # the question alone
        bonus = worth * np.minimum(history, turn.kept)
        lowest = np.minimum.accumulate(value)
        best = np.maximum.accumulate(np.where(value == lowest, index, 0))
        came = np.where(value + same <= lowest + moved, index, best)
        here = np.where(came == index, same, moved)
        value = np.where(is_out, np.inf, value[came] + here - bonus)
        cost, kept = cost[came] + here, kept[came] + np.minimum(history, turn.kept)
    found = int(np.argmin(value))
    return float(cost[found]), int(kept[found])


class _Entry(NamedTuple):
    """An entry of the cache: the number of messages that it ends behind, and until when it lives."""

    end: int
    until: float
    lifetime: float

    def used_at(self, seconds: float) -> "_Entry":
        """The entry after it was read; each that can be read is taken to be."""
        return self._replace(until=seconds + self.lifetime)


def _reads(line: Line, entries: Sequence[_Entry], rules: Caching) -> tuple[Numbers, Numbers]:
    """The tokens that are read from the cache: if history began at the same message in the turn before, and if not."""
    nothing = np.zeros(len(line.starts))
    if not entries:
        return nothing, nothing
    fixed = nothing + _whole(np.array(line.fixed), rules)
    held = line.before[max(each.end for each in entries)] - line.before[line.starts]
    return np.maximum(fixed, np.where(held > 0, _whole(line.fixed + held, rules), 0)), fixed


def _written(turns: Sequence[Asked], number: int, rules: Caching) -> list[_Entry]:
    """The entries that a turn's request writes, and a later one may begin with."""
    turn = turns[number]
    lifetime = turn.asks.longer.seconds if turn.asks.longer else rules.lifetime_seconds
    return [_Entry(end, turn.seconds + lifetime, lifetime) for end in _ends(turns, number, rules)]


def _whole(tokens: Numbers, rules: Caching) -> Numbers:
    """What is read of an entry of so many tokens."""
    steps = tokens // rules.step_tokens * rules.step_tokens
    return np.where(steps >= rules.minimum_tokens, steps, 0)


def _ends(turns: Sequence[Asked], number: int, rules: Caching) -> list[int]:
    """The numbers of messages after which a turn's request has entries that the next one may begin with."""
    turn = turns[number]
    newest = [] if turn.documents else [turn.length]
    if rules.kind == "implicit":
        return newest or [turn.length - 1]
    if turn.asks.nothing:
        return []
    if rules.kind == "cache_control":
        return [turn.length - 1, *newest]
    return [*([turns[number - 1].length] if number else []), *newest]


def _billed(line: Line, turn: Asked, rules: Caching, total: Numbers, read: Numbers) -> Numbers:
    """The cost of requests of ``total`` tokens of which so many are read, in uncached tokens."""
    if rules.kind == "implicit":
        return read * rules.read_price + total - read
    longer = turn.asks.longer
    write = longer.write_price if longer else rules.write_price
    last = total - (turn.documents if rules.kind == "cache_control" else 0)
    if turn.asks.nothing:
        last = np.full(len(total), line.fixed)
    written = np.where(last >= rules.minimum_tokens, np.maximum(0, last - read), 0)
    return read * rules.read_price + written * write + total - read - written
