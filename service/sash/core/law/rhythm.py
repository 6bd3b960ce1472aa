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
from sash.core.providers.cache_marks import Caching, Lifetime

RECENT: Final = 8
"""Windows from whose pauses the next one is expected."""


class Asks(NamedTuple):
    """What a window asks of the provider's cache: a longer lifetime, or that its messages are not written at all."""

    longer: bool = False
    nothing: bool = False


class Pauses(NamedTuple):
    """At each message, as arrays: the milliseconds since the window before, and whether the tail tells them.

    ``windows`` are the number of windows that were followed by a reply before the message. ``at`` are the indexes of their
    last messages.
    """

    milliseconds: Number
    known: Number
    windows: Number
    at: Number


def pauses_of(records: Records, *, whole: bool) -> Pauses:
    """The pauses before the messages of a tail. ``whole``: no message is before it."""
    roles, times = np.frombuffer(records.roles, np.uint8), records.times
    index = np.arange(len(records))
    reply = np.maximum.accumulate(np.where(roles == ASSISTANT, index, -1)) if len(records) else index
    before = np.maximum(reply - 1, 0)
    has_times = (reply > 0) & (times > 0) & (times[before] > 0)
    pauses = np.where(has_times, np.maximum(0, times - times[before]), 0)
    ends = np.flatnonzero(roles[1:] == ASSISTANT)
    return Pauses(pauses, (reply > 0) | whole, np.searchsorted(ends + 1, index, side="right"), ends)


class Cold(NamedTuple):
    """Whether the cache was cold when each message was the newest, as an array; whether it was so after most of the recent
    pauses, too; and whether the tail tells it."""

    cold: Number
    often: Number
    told: Number


def cold_of(records: Records, rules: Caching, *, whole: bool, asks: bool) -> Cold:
    """When the cache was cold. ``asks``: windows ask for the lifetime that their recent pauses make cheapest."""
    pauses = pauses_of(records, whole=whole)
    longer = rules.longer if asks else None
    short, middle, long = _recent(pauses, rules, longer or _usual(rules))
    is_longer = longer is not None and _is_longer_cheaper(rules, longer, short, middle, long)
    lives = np.where(is_longer, longer.seconds if longer else 0, rules.lifetime_seconds)
    often = np.where(is_longer, long > short + middle, middle + long > short)
    return Cold(pauses.milliseconds > 1000 * lives, often, pauses.known & ((pauses.windows > RECENT) | whole))


def _usual(rules: Caching) -> Lifetime:
    """The usual lifetime, where there is no longer one."""
    return Lifetime(rules.lifetime_seconds, rules.write_price, "")


def asks_of(records: Records, rules: Caching) -> Asks:
    """What the newest window asks of the cache, by the pauses of the windows before it."""
    if rules.kind == "implicit" or not len(records):
        return Asks()
    pauses = pauses_of(records, whole=False)
    longer = rules.longer or _usual(rules)
    short, middle, long = (int(count[-1]) for count in _recent(pauses, rules, longer))
    usual = _cost(rules.read_price, rules.write_price, short, middle + long)
    lasting = _cost(rules.read_price, longer.write_price, short + middle, long)
    if (short + middle + long) * (1 + TURN_OF_A_WINDOW) < min(usual, lasting):
        return Asks(nothing=True)
    return Asks(longer=bool(_is_longer_cheaper(rules, longer, short, middle, long)))


def _recent(pauses: Pauses, rules: Caching, longer: Lifetime) -> tuple[Number, Number, Number]:
    """The numbers of recent pauses before each message: within the usual lifetime, within the longer one, and longer."""
    known = pauses.known[pauses.at] & (pauses.windows[pauses.at] > 0)
    found = pauses.milliseconds[pauses.at]
    is_short, is_long = found <= 1000 * rules.lifetime_seconds, found > 1000 * longer.seconds
    kinds = (known & is_short, known & ~is_short & ~is_long, known & is_long & ~is_short)
    totals = (np.concatenate(([0], np.cumsum(kind))) for kind in kinds)
    first = np.maximum(0, pauses.windows - RECENT)
    short, middle, long = (total[pauses.windows] - total[first] for total in totals)
    return short, middle, long


def _is_longer_cheaper(rules: Caching, longer: Lifetime, short: Number, middle: Number, long: Number) -> Number:
    """Whether the longer lifetime is cheaper, also with one pause less that it would help: one alone may be a chance."""
    fewer = np.maximum(0, middle - 1)
    usual = _cost(rules.read_price, rules.write_price, short, fewer + long)
    return _cost(rules.read_price, longer.write_price, short + fewer, long) < usual


def _cost(read: float, write: float, warm: Number, cold: Number) -> Number:
    """The cost of so many windows, in windows at the uncached price: a cold one is written whole, a warm one its turn."""
    return warm * (read + write * TURN_OF_A_WINDOW) + cold * write * (1 + TURN_OF_A_WINDOW)
