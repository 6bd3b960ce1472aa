"""The pauses of a conversation, and what they make of the provider's prompt cache.

A window ends before each reply. The time between two windows is that from the message before the newest reply to the newest
message. It follows from the log, so it is the same on every replica, and stays what it was as messages are appended::

    question   reply   question            reply
    |----------------->|                             at this question: the pause since the window before
"""

from typing import Final, NamedTuple

import numpy as np

from sash.core.counts.families import ASSISTANT
from sash.core.counts.numbers import Number
from sash.core.law.caching import TURN_OF_A_WINDOW
from sash.core.law.records import Records
from sash.core.law.stable import Spared
from sash.core.law.view import History
from sash.core.providers.cache_marks import Caching, Lifetime

RECENT: Final = 8
"""Windows from whose pauses the next one is expected."""
_WHILE_COLD: Final = 0.7
_WHILE_COLD_BRIEFLY: Final = 0.5
_IN_A_TIER: Final = 7 / 8


class Asks(NamedTuple):
    """What a window asks of the provider's cache: a longer lifetime, or that its messages are not written at all."""

    longer: Lifetime | None = None
    nothing: bool = False


class Cold(NamedTuple):
    """Whether the cache was cold when each message was the newest, as an array; whether it was so after most of the recent
    pauses, too; and whether the tail tells it."""

    cold: Number
    often: Number
    told: Number


class _Pauses(NamedTuple):
    """Arrays with a figure for each message.

    ``milliseconds`` is the pause since the window before. ``told``: the tail has this pause and the recent ones. ``short``,
    ``middle`` and ``long`` are the numbers of recent pauses within the cache's usual lifetime, within its longer lifetime,
    and beyond both.
    """

    milliseconds: Number
    told: Number
    short: Number
    middle: Number
    long: Number


def cold_of(records: Records, rules: Caching, *, whole: bool, asks: bool) -> Cold:
    """When the cache was cold. ``whole``: no message is before these. ``asks``: windows ask for the cheapest lifetime."""
    longer = (rules.longer if asks else None) or _usual(rules)
    pauses = _pauses_of(records, rules, longer, whole=whole)
    is_longer = _is_longer_cheaper(rules, longer, pauses.short, pauses.middle, pauses.long)
    lives = np.where(is_longer, longer.seconds, rules.lifetime_seconds)
    often = np.where(is_longer, pauses.long > pauses.short + pauses.middle, pauses.middle + pauses.long > pauses.short)
    return Cold(pauses.milliseconds > 1000 * lives, often, pauses.told)


def spared_of(
    history: History, rules: Caching, length: int, step: float, below: int, *, is_tiered: bool, asks: bool
) -> Spared:
    """What ``price=auto`` leaves free of a window that may have ``below`` tokens, with a stable cut of this ``step``.

    The step is a share of ``length``. ``is_tiered``: a price tier limits the window. ``asks`` is as in ``cold_of``.
    """
    cold, often, told = cold_of(history.tail, rules, whole=history.is_whole, asks=asks)
    turn = length * TURN_OF_A_WINDOW
    least = rules.minimum_tokens + 2 * turn
    while_cold = min(below, round(_WHILE_COLD * length))
    # Half the budget, or more that is cached again with one question and its documents less.
    briefly = min(below, round(max(_WHILE_COLD_BRIEFLY * length, least + 2 * turn)))
    in_a_tier = min(below, round(max(_IN_A_TIER * below, step + least)))
    # What is not cached again, wherever the stable place is, may be short.
    is_deep = often | (while_cold - step >= least)
    cold &= told
    spare = cold * np.where(is_deep, below - while_cold, below - briefly)
    outgrown = below - in_a_tier if is_tiered else 0
    return Spared(spare, cold & ~is_deep, int(np.count_nonzero(~told)), outgrown)


def asks_of(records: Records, rules: Caching) -> Asks:
    """What the newest window asks of the cache, by the pauses of the windows before it."""
    if rules.kind == "implicit" or not len(records):
        return Asks()
    longer = rules.longer or _usual(rules)
    pauses = _pauses_of(records, rules, longer, whole=False)
    short, middle, long = (int(count[-1]) for count in (pauses.short, pauses.middle, pauses.long))
    if (short + middle + long) * (1 + TURN_OF_A_WINDOW) < min(_costs(rules, longer, short, middle, long)):
        return Asks(nothing=True)
    return Asks(rules.longer if _is_longer_cheaper(rules, longer, short, middle, long) else None)


def _usual(rules: Caching) -> Lifetime:
    return Lifetime(rules.lifetime_seconds, rules.write_price, "")


def _pauses_of(records: Records, rules: Caching, longer: Lifetime, *, whole: bool) -> _Pauses:
    roles, times = np.frombuffer(records.roles, np.uint8), records.times
    index = np.arange(len(records))
    reply = np.maximum.accumulate(np.where(roles == ASSISTANT, index, -1))
    before = np.maximum(reply - 1, 0)
    has_times = (reply > 0) & (times > 0) & (times[before] > 0)
    pauses = np.where(has_times, np.maximum(0, times - times[before]), 0)
    known = (reply > 0) | whole
    # Each reply ended a window, whose last message is the one before it.
    ends = np.flatnonzero(roles[1:] == ASSISTANT)
    windows = np.searchsorted(ends + 1, index, side="right")
    first = np.maximum(0, windows - RECENT)
    is_short, is_long = pauses[ends] <= 1000 * rules.lifetime_seconds, pauses[ends] > 1000 * longer.seconds
    kinds = (is_short, ~(is_short | is_long), is_long)
    totals = [np.concatenate(([0], np.cumsum(kind & known[ends] & (windows[ends] > 0)))) for kind in kinds]
    return _Pauses(pauses, known & ((windows > RECENT) | whole), *(total[windows] - total[first] for total in totals))


def _is_longer_cheaper(rules: Caching, longer: Lifetime, short: Number, middle: Number, long: Number) -> Number:
    """Whether the longer lifetime is cheaper, also with one pause less that it would help: one alone may be a chance."""
    usual, lasting = _costs(rules, longer, short, np.maximum(0, middle - 1), long)
    return lasting < usual


def _costs(rules: Caching, longer: Lifetime, short: Number, middle: Number, long: Number) -> tuple[Number, Number]:
    """The costs of so many windows with the usual lifetime and with the longer one, in windows at the uncached price: a cold
    one is written whole, a warm one its turn."""

    def cost(write: float, warm: Number, cold: Number) -> Number:
        return warm * (rules.read_price + write * TURN_OF_A_WINDOW) + cold * write * (1 + TURN_OF_A_WINDOW)

    return cost(rules.write_price, short, middle + long), cost(longer.write_price, short + middle, long)
