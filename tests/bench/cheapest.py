"""What ``price=auto`` saves: ``python -m tests.bench.cheapest [FILE…] [--readme]`` prints a table in about five minutes.

The conversations are the long ones of the data set (``tests/recordings.py``): those that cost more than the budget. Each is
lived turn by turn, with a window at each message of the user. Pauses are drawn from one of three distributions, with the
conversation's id as the seed, because the sets have no times::

    quick      log-normal, median 40 seconds, sigma 1
    slow       log-normal, median 20 minutes, sigma 1.2
    sessions   quick, and one in twelve log-normal with median 10 hours, sigma 1

The simulator (``core/law/prompt_cache.py``) bills each request by the vendor's written rules: prefixes at breakpoints, the
shortest prefix, lifetimes, writes, and price tiers. All figures are compared with ``stable=auto`` under the same rules, with
the hints of ``cache=auto``. *Rules* are added one by one: the tier, the cut while the cache is cold, and what is asked of
the cache. *History* is the median, over all turns, of the tokens of messages in a window, as a part of those with
``stable=auto``; *in all* is that part of their sum. *With hindsight* is the cheapest that windows can be at all which keep
as much, and which keep nine tenths (``tests/bench/hindsight.py``).
"""

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import accumulate, chain, pairwise, repeat
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console

from sash.core.counts.families import ROLE_INDEX
from sash.core.counts.measures import Measure
from sash.core.counts.models import Model, find_model
from sash.core.counts.price_tiers import PriceTier
from sash.core.law.caching import caching_of, cheapest_step, settled
from sash.core.law.parameters import WindowQuery
from sash.core.law.prompt_cache import PromptCache
from sash.core.law.records import Record, Records
from sash.core.law.rhythm import Asks, asks_of, cold_of
from sash.core.providers.cache_marks import Caching
from tests.bench.figures import into_readme
from tests.bench.hindsight import cheapest, lives
from tests.bench.stable_cut import Conversation, Turn, longer_than, read, turns_of
from tests.recordings import DATA, NO_DATA

BUDGET = 8_000
TIER = round(BUDGET * 272_000 / 300_208)
"""A tier as near as OpenAI's 272,000 is to a window of 300,208 tokens, with all lengths made shorter alike."""
VENDORS = (
    ("gpt-6.1-sol", "responses"),
    ("claude-sonnet-5", "anthropic"),
    ("gemini-3.8-flash", "gemini"),
    ("deepseek-v4-flash", "openai"),
)
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
BEGAN_MS = 1_750_000_000_000
REPLY_MS = 8 * SECOND


def _log_normal(draw: random.Random, median_ms: int, sigma: float) -> int:
    return round(median_ms * math.exp(draw.gauss(0, sigma)))


def _sessions(draw: random.Random) -> int:
    return _log_normal(draw, 10 * HOUR, 1) if draw.random() < 1 / 12 else _log_normal(draw, 40 * SECOND, 1)


RHYTHMS: dict[str, Callable[[random.Random], int]] = {
    "quick": lambda draw: _log_normal(draw, 40 * SECOND, 1),
    "slow": lambda draw: _log_normal(draw, 20 * MINUTE, 1.2),
    "sessions": _sessions,
}


def times_of(conversation: Conversation, rhythm: str) -> list[int]:
    """The messages' times, in milliseconds: a reply some seconds after what it answers, a question after a pause."""
    draw = random.Random(f"{conversation.id} {rhythm}")
    steps = (RHYTHMS[rhythm](draw) if entry.message["role"] == "user" else REPLY_MS for entry in conversation.entries)
    return list(accumulate(steps, initial=BEGAN_MS))[1:]


class Way(msgspec.Struct, frozen=True):
    """``priced``: with ``price=auto``. ``timed``: the log has times. ``asks``: of the cache, too."""

    priced: bool
    timed: bool
    asks: bool


RULES = {
    "tier": Way(priced=True, timed=False, asks=False),
    "and cut while cold": Way(priced=True, timed=True, asks=False),
    "and what is asked of the cache": Way(priced=True, timed=True, asks=True),
}


class Lived(msgspec.Struct, frozen=True):
    """All turns of one vendor, rhythm and way, of each conversation, and their cost in uncached tokens."""

    cost: float
    chats: list[list[Turn]]

    @property
    def turns(self) -> list[Turn]:
        return list(chain.from_iterable(self.chats))


@cache
def _records(roles: tuple[str, ...], times: tuple[int, ...]) -> Records:
    """Messages of these roles, of which nothing else is known."""
    return Records.of([Record(0, Measure(ROLE_INDEX[role], 1, 1), 1, 0, b"\0" * 8) for role in roles], times)


@cache
def _asks(roles: tuple[str, ...], times: tuple[int, ...], rules: Caching) -> list[Asks]:
    whole = _records(roles, times)
    return [asks_of(whole[: place + 1], rules) for place, role in enumerate(roles) if role == "user"]


def asked_at(conversation: Conversation, rhythm: str, rules: Caching) -> tuple[list[float], list[Asks]]:
    """When each question came, in seconds, and what its window asks of the cache."""
    times, roles = times_of(conversation, rhythm), tuple(entry.message["role"] for entry in conversation.entries)
    seconds = [at / 1000 for at, role in zip(times, roles, strict=True) if role == "user"]
    return seconds, _asks(roles, tuple(times), rules)


def billed(
    turns: Sequence[Turn], conversation: Conversation, rhythm: str, rules: Caching, model: Model, *, asks: bool
) -> Iterator[float]:
    """The cost of each turn, in uncached tokens of the first tier."""
    prompts, (times, wanted) = PromptCache(rules), asked_at(conversation, rhythm, rules)
    for turn, at, each in zip(turns, times, wanted, strict=True):
        asked = each if asks else Asks()
        parts = turn.blocks[rules.kind]
        if asked.nothing:  # the definitions and the system text are marked all the same
            parts = [*parts[:2], *(part._replace(marked=False, turn=False) for part in parts[2:])]
        longer = asked.longer
        bill = prompts.send(parts, at, longer.seconds if longer else None)
        write = longer.write_price if longer else rules.write_price
        cost = bill.read * rules.read_price + bill.written * write + bill.uncached
        tier = next((each for each in model.price_tiers if turn.tokens > each.above), None)
        yield cost * ((tier.input_price or 1.0) / (model.input_price or 1.0) if tier else 1.0)


_LIVED: dict[tuple[object, ...], list[Turn]] = {}
"""The turns of a conversation by what they depend on."""


def _when_cold(conversation: Conversation, times: Sequence[int], rules: Caching, *, asks: bool) -> bytes:
    """At which messages the cache was cold, on which alone windows depend of all that is in times; empty for nowhere."""
    roles = tuple(entry.message["role"] for entry in conversation.entries)
    cold, often, _ = cold_of(_records(roles, tuple(times)), rules, whole=True, asks=asks)
    return np.concatenate((cold, cold & often)).tobytes() if cold.any() else b""


def lived(conversations: Sequence[Conversation], model: Model, rules: Caching, rhythm: str, way: Way) -> Lived:
    """Live all conversations with a vendor, a rhythm and a way."""
    price, cache = "auto" if way.priced else "none", "auto" if way.asks else "none"
    query = WindowQuery(stable="auto", format=model.format, price=price, cache=cache)
    options, chats, cost = settled(query, model, BUDGET), [], 0.0
    for conversation in conversations:
        times = times_of(conversation, rhythm) if way.priced and way.timed else ()
        tier = bool(model.price_tiers) and way.priced
        same = (
            conversation.id,
            model.id,
            tier,
            options.stable_step,
            _when_cold(conversation, times, rules, asks=way.asks),
        )
        found = _LIVED.get(same)
        if found is None:
            found = turns_of(conversation, model, BUDGET, options, times, (rules.kind,))
            _LIVED[same] = found
        cost += sum(billed(found, conversation, rhythm, rules, model, asks=way.asks))
        chats.append(found)
    return Lived(cost, chats)


HINDSIGHT = 0.9
"""The part of the history's tokens that is wanted."""


def hindsight(
    conversations: Sequence[Conversation], base: Lived, rules: Caching, rhythm: str, part: float, tier: int | None
) -> float:
    """The cheapest cost with this part of the history's tokens, over that with ``stable=auto``."""
    known = []
    for conversation, turns in zip(conversations, base.chats, strict=True):
        seconds, asks = asked_at(conversation, rhythm, rules)
        roles = [entry.message["role"] for entry in conversation.entries]
        known.append(lives(turns, roles, seconds, asks, rules.kind))
    factor = lambda total: np.where(total > tier, 2.0, 1.0) if tier else 1.0  # noqa: E731
    return cheapest(known, rules, factor, BUDGET, part) / base.cost


class VendorRows(msgspec.Struct):
    """The rows of one vendor: as Markdown, what each rule brought, and each turn's part of the history."""

    lines: list[str] = []
    brought: list[list[float]] = []
    shares: list[float] = []


def vendor_rows(conversations: Sequence[Conversation], name: str, form: str) -> VendorRows:
    """The rows of a vendor: three rhythms, without and with a tier that is near."""
    rows = VendorRows()
    for tier in (False, True):
        model = find_model(name).sent_as(form)
        tiers = tuple(PriceTier(TIER, 2 * (model.input_price or 0)) for _ in range(tier))
        model = msgspec.structs.replace(model, price_tiers=tiers)
        rules = caching_of(model)
        assert rules is not None
        for rhythm in RHYTHMS:
            base = lived(conversations, model, rules, rhythm, Way(priced=False, timed=False, asks=False))
            found = [lived(conversations, model, rules, rhythm, way) for way in RULES.values()]
            pairs = [(new.history, old.history, old.cut) for new, old in zip(found[-1].turns, base.turns, strict=True)]
            kept = [new / old for new, old, _ in pairs if old]
            cut = [new / old for new, old, is_cut in pairs if old and is_cut]
            whole = sum(new for new, _, _ in pairs) / sum(old for _, old, _ in pairs)
            parts = [each.cost / base.cost for each in found]
            rows.shares += kept
            rows.brought.append([after - before for before, after in pairwise((1.0, *parts))])
            near = TIER if tier else None
            best = [hindsight(conversations, base, rules, rhythm, part, near) for part in (whole, HINDSIGHT)]
            costs = [f"{part - 1:+.1%}" for part in parts]
            medians = [f"{each:.0%}" for each in (statistics.median(kept), statistics.median(cut), whole)]
            cells = (name, rhythm, "yes" if tier else "", *costs, *medians, *(f"{part - 1:+.1%}" for part in best))
            rows.lines.append(f"| {' | '.join(cells)} |")
            Console(stderr=True).print(rows.lines[-1])
    return rows


def table(conversations: Sequence[Conversation], vendors: Sequence[tuple[str, str]], jobs: int) -> list[str]:
    """The table, as lines of Markdown, made by so many processes."""
    kept = ("history", "history of turns that are cut", "history in all")
    best = ("with hindsight, as much history", f"with hindsight, {HINDSIGHT:.0%} of it")
    heads = ("vendor", "rhythm", "near a tier", *RULES, *kept, *best)
    lines = [f"| {' | '.join(heads)} |", f"| --- | --- | --- |{' ---: |' * (len(heads) - 3)}"]
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(vendor_rows, repeat(conversations), *zip(*vendors, strict=True)))
    lines += [line for rows in found for line in rows.lines]
    means = map(statistics.mean, zip(*(each for rows in found for each in rows.brought), strict=True))
    told = ", ".join(f"*{rule}* {mean:+.1%}" for rule, mean in zip(RULES, means, strict=True))
    shares = [share for rows in found for share in rows.shares]
    lines += ["", f"What each rule brought, mean of the rows: {told}."]
    lines += [f"Median of the history over all {len(shares):,} turns: {statistics.median(shares):.0%}."]
    return lines


STEPS = (0.1, 0.25, 0.5, 0.75)
"""Steps to compare. ``stable_step`` allows at most half a budget."""


def steps_table(conversations: Sequence[Conversation], vendors: Sequence[tuple[str, str]], jobs: int) -> list[str]:
    """What a step for each conversation would bring: by the usual size of its turns, and the best one with hindsight."""
    heads = ("vendor", "rhythm", *(f"step {step}" for step in STEPS), "by the size of turns", "best with hindsight")
    lines = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * (len(heads) - 2)}"]
    with ProcessPoolExecutor(jobs) as pool:
        lines += chain.from_iterable(pool.map(_step_rows, repeat(conversations), *zip(*vendors, strict=True)))
    return lines


def _step_rows(conversations: Sequence[Conversation], name: str, form: str) -> list[str]:
    """The rows of a vendor, for three rhythms."""
    lines = []
    model = msgspec.structs.replace(find_model(name).sent_as(form), price_tiers=())
    rules = caching_of(model)
    assert rules is not None
    turns = {(each.id, step): _stepped(each, model, rules, step) for each in conversations for step in STEPS}
    sizes = {each.id: _usual_turn(turns[each.id, 0.5]) for each in conversations}
    for rhythm in RHYTHMS:
        costs = []
        for each in conversations:
            own = {step: sum(billed(turns[each.id, step], each, rhythm, rules, model, asks=False)) for step in STEPS}
            best = min(own[step] for step in STEPS if step <= 0.5)
            costs.append((*own.values(), own[cheapest_step(rules, BUDGET, sizes[each.id])], best))
        sums = [sum(column) for column in zip(*costs, strict=True)]
        base = sums[STEPS.index(0.5)]
        cells = (name, rhythm, *(f"{each / base - 1:+.1%}" for each in sums))
        lines.append(f"| {' | '.join(cells)} |")
        Console(stderr=True).print(lines[-1])
    return lines


def _stepped(conversation: Conversation, model: Model, rules: Caching, step: float) -> list[Turn]:
    query = WindowQuery(stable=True, stable_step=step, format=model.format)
    return turns_of(conversation, model, BUDGET, query, (), (rules.kind,))


def _usual_turn(turns: Sequence[Turn]) -> float:
    """The median of what a turn adds to the window, in tokens: replies and results with the next question."""
    grown = [after.tokens - before.tokens for before, after in pairwise(turns) if before.first == after.first]
    return max(1.0, statistics.median(grown)) if grown else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what price=auto saves.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", default="", metavar="WORD", help="only models whose name contains the word")
    parser.add_argument(
        "--steps", action="store_true", help="print what other steps would bring, in place of the rules"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes [default: 2]")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md beside this file")
    wanted = parser.parse_args()
    files = wanted.files or [*sorted(DATA.glob("sgd_*.jsonl")), DATA / "recall.jsonl"]
    if not all(path.is_file() for path in files):
        parser.exit(1, f"{NO_DATA}\n")
    model = find_model("gpt-4o-mini")
    given = [conversation for path in files for conversation in read(path)]
    whole = [msgspec.structs.replace(each, entries=each.entries or each.messages) for each in given]
    long = [each for each in whole if longer_than(each, model, BUDGET)]
    made, name = (steps_table, "steps") if wanted.steps else (table, "cheapest")
    vendors = [each for each in VENDORS if wanted.only in each[0]]
    text = "\n".join(made(long, vendors, wanted.jobs))
    print(text)
    if wanted.readme:
        into_readme(name, text)


if __name__ == "__main__":
    main()
