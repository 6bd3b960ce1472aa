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


class _Recent(NamedTuple):
    """The number of pauses within the cache's usual lifetime, within its longer lifetime, and beyond both."""

    short: Number
    middle: Number
    long: Number

    def costs(self, rules: Caching, longer: Lifetime) -> tuple[Number, Number]:
        """What windows after these pauses cost with the usual lifetime, and with the longer one. 1 is a window at the price
        without a cache. After a long pause the cache is written anew; after a short one, the last turn is added to it."""

        def cost(write: float, warm: Number, cold: Number) -> Number:
            return warm * (rules.read_price + write * TURN_OF_A_WINDOW) + cold * write * (1 + TURN_OF_A_WINDOW)

        usual = cost(rules.write_price, self.short, self.middle + self.long)
        return usual, cost(longer.write_price, self.short + self.middle, self.long)

    def asks_longer(self, rules: Caching, longer: Lifetime) -> Number:
        """Whether the longer lifetime is cheaper, also with one pause less that it would help: one may be a chance."""
        usual, lasting = self._replace(middle=np.maximum(0, self.middle - 1)).costs(rules, longer)
        return lasting < usual


def cold_of(records: Records, rules: Caching, *, whole: bool, asks: bool) -> tuple[Number, Number, int]:
    """Whether the cache was cold when each message was the newest; whether it was so after most of the recent pauses, too;
    and the number of messages for which the tail does not tell it.

    ``whole``: no message is before these. ``asks``: windows ask for the cheapest lifetime.
    """
    longer = (rules.longer if asks else None) or _usual(rules)
    milliseconds, recent, untold = _pauses_of(records, rules, longer)
    is_longer, (short, middle, long) = recent.asks_longer(rules, longer), recent
    lives = np.where(is_longer, longer.seconds, rules.lifetime_seconds)
    often = np.where(is_longer, long > short + middle, middle + long > short)
    return milliseconds > 1000 * lives, often, 0 if whole else untold


def spared_of(
    history: History, rules: Caching, length: int, step: float, below: int, *, is_tiered: bool, asks: bool
) -> Spared:
    """What ``price=auto`` leaves free of a window that may have ``below`` tokens, with a stable cut of this ``step``.

    The step is a share of ``length``. ``is_tiered``: a price tier limits the window. ``asks`` is as in ``cold_of``.
    """
    cold, often, untold = cold_of(history.tail, rules, whole=history.is_whole, asks=asks)
    turn = length * TURN_OF_A_WINDOW
    least = rules.minimum_tokens + 2 * turn
    while_cold = min(below, round(_WHILE_COLD * length))
    # Half the budget, or more that is cached again with one question and its documents less.
    briefly = min(below, round(max(_WHILE_COLD_BRIEFLY * length, least + 2 * turn)))
    in_a_tier = min(below, round(max(_IN_A_TIER * below, step + least)))
    # What is not cached again, wherever the stable place is, may be short.
    is_deep = often | (while_cold - step >= least)
    cold[:untold] = False
    spare = cold * np.where(is_deep, below - while_cold, below - briefly)
    return Spared(spare, cold & ~is_deep, untold, below - in_a_tier if is_tiered else 0)


def asks_of(records: Records, rules: Caching) -> Asks:
    """What the newest window asks of the cache, by the pauses of the windows before it."""
    if rules.kind == "implicit" or not len(records):
        return Asks()
    longer = rules.longer or _usual(rules)
    recent = _Recent(*(int(count[-1]) for count in _pauses_of(records, rules, longer)[1]))
    if sum(recent) * (1 + TURN_OF_A_WINDOW) < min(recent.costs(rules, longer)):
        return Asks(nothing=True)
    return Asks(rules.longer if recent.asks_longer(rules, longer) else None)


def _usual(rules: Caching) -> Lifetime:
    return Lifetime(rules.lifetime_seconds, rules.write_price, "")


def _pauses_of(records: Records, rules: Caching, longer: Lifetime) -> tuple[Number, _Recent, int]:
    """The milliseconds since the window before, and the recent pauses, when each message was the newest; and the number of
    messages for which not all recent windows are in the tail."""
    roles, times = np.frombuffer(records.roles, np.uint8), records.times
    index = np.arange(len(records))
    reply = np.maximum.accumulate(np.where(roles == ASSISTANT, index, -1))
    before = np.maximum(reply - 1, 0)
    has_times = (reply > 0) & (times > 0) & (times[before] > 0)
    pauses = np.where(has_times, np.maximum(0, times - times[before]), 0)
    # Each reply ended a window, whose last message is the one before it. The first one came after no pause.
    ends = np.flatnonzero(roles[1:] == ASSISTANT)
    windows = np.searchsorted(ends + 1, index, side="right")
    first = np.maximum(0, windows - RECENT)
    is_short, is_long = pauses[ends] <= 1000 * rules.lifetime_seconds, pauses[ends] > 1000 * longer.seconds
    kinds = (is_short, ~(is_short | is_long), is_long)
    totals = [np.concatenate(([0], np.cumsum(kind & (windows[ends] > 0)))) for kind in kinds]
    recent = _Recent(*(total[windows] - total[first] for total in totals))
    return pauses, recent, int(np.searchsorted(windows, RECENT, side="right"))
