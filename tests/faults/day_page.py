"""The page of a day's run: what was lost, each event, each hour, and a picture."""

import math
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from faults.ledger import Verdict
from faults.visitors import READS, Call, Try

_SLOW_SECONDS = 1.0


@dataclass
class Event:
    """An event of the day: when it began, in seconds of the monotonic clock, and what was done."""

    name: str
    began: float
    what: str = ""


@dataclass
class Day:
    """Everything that the page shows."""

    minutes: float
    conversations: int
    began: float
    """Seconds of the monotonic clock, as all times here."""
    calls: list[Call]
    events: list[Event] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    """Of the service's largest process, in the middle of each hour."""
    verdict: Verdict = field(default_factory=Verdict)
    turns: int = 0
    erased: int = 0
    machine: str = ""

    def moment(self, hour: float) -> float:
        """Return the time of an hour of the day, in seconds of the monotonic clock."""
        return self.began + hour / 24 * self.minutes * 60

    def hour(self, moment: float) -> float:
        """Return the hour of the day, such as 13.5 for 13:30."""
        return (moment - self.began) / (self.minutes * 60) * 24


def clock(hour: float) -> str:
    """Return an hour of the day as ``HH:MM``."""
    return f"{int(hour):02}:{int(hour % 1 * 60):02}"


def quantile(values: list[float], part: float) -> float:
    """Return the value below which ``part`` of the values lies; 0 if there are none."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


_DONE = """\
{conversations:,} conversations on two replicas of the service (`SASH_DURABILITY=replicated`) behind a balancer, and
on a primary with a replica and three Sentinels. Calls come at random moments, 2 a second at 04:00 and 40 a second at
16:00, however slow the answers are. Of 20 calls, 13 append (7 of them with a window), 4 read a window, 2 a page, 1
repeats an append; one of 200 erases. A failed request is repeated until it is answered. Everything that is read is
compared with what was acknowledged. `.venv/bin/python -m tests.faults.day --readme` does it again and writes this
page."""

_AGAIN = """\
"Reads again" and "appends again" are seconds from the event's beginning to the last answer that was an error or took
over a second; 0 if there was none. "Longest" is a call with its retries. A primary without a replica answers appends
with 503, because `replicated` promises two copies. So reads go on when the replica has taken over, and appends when
the lost store is back."""

_HOURS = """\
A call's time runs from its beginning to its good answer, retries included. Memory is what the service's largest
process holds in the middle of the hour; each deploy starts new processes. Vocabularies of extras (DeepSeek, Mistral)
are among it where they are installed, as in the tests' environment."""


def page(day: Day, commit: str) -> str:
    """Return the whole page as Markdown."""
    tries = [each for call in day.calls for each in call.tries]
    verdict = day.verdict
    zeros = (verdict.lost, verdict.duplicated, verdict.reordered, verdict.foreign, verdict.returned)
    numbers = (len(day.calls), len(tries), sum(bool(each.problem) for each in tries), day.turns, day.erased, *zeros)
    heads = (
        "calls | requests | failed requests | turns | erased turns | lost | duplicated | reordered | foreign | returned"
    )
    parts = (
        f"# A day in {day.minutes:g} minutes",
        _DONE.format(conversations=day.conversations),
        _table(heads, [[f"{number:,}" for number in numbers]], text=0),
        "![Calls a second and their 99th percentile over the day, with the events](day.svg)",
        _events(day),
        _AGAIN,
        _hours(day),
        _HOURS,
        f"{day.machine}; commit {commit}, {time.strftime('%Y-%m-%d')}.",
    )
    return "\n\n".join(parts)


def _table(heads: str, rows: Iterable[Iterable[str]], text: int) -> str:
    """Return a Markdown table; its first ``text`` columns are text, the others numbers."""
    rule = " | ".join("---" if place < text else "---:" for place in range(len(heads.split(" | "))))
    return "\n".join(f"| {line} |" for line in (heads, rule, *(" | ".join(row) for row in rows)))


def _events(day: Day) -> str:
    heads = "event | at | what was done | failed requests | reads again, s | appends again, s | longest, s"
    ends = [*(event.began for event in day.events[1:]), math.inf]
    return _table(heads, [_event(day, event, end) for event, end in zip(day.events, ends, strict=True)], text=4)


def _event(day: Day, event: Event, end: float) -> list[str]:
    """Return the row of an event: the failures and delays until the next event began."""
    calls = [call for call in day.calls if event.began <= call.tries[-1].ended and call.tries[0].began < end]
    tries = {
        kind: [each for call in calls if (call.kind in READS) == kind for each in call.tries] for kind in (True, False)
    }
    failed = Counter(each.problem for kind in tries.values() for each in kind if each.problem)
    told = ", ".join(f"{count:,} {problem}" for problem, count in failed.most_common()) or "none"
    again = [f"{_again(event, tries[kind]):.1f}" for kind in (True, False)]
    longest = max((call.seconds for call in calls), default=0.0)
    return [event.name, clock(day.hour(event.began)), event.what, told, *again, f"{longest:.1f}"]


def _again(event: Event, tries: list[Try]) -> float:
    """Return the seconds from an event to the last request that failed or was slow."""
    bad = [each.ended for each in tries if each.problem or each.ended - each.began > _SLOW_SECONDS]
    return max((ended - event.began for ended in bad if ended >= event.began), default=0.0)


def _hours(day: Day) -> str:
    """Return the table of the day's hours, a row for each."""
    found: list[list[Call]] = [[] for _ in range(24)]
    for call in day.calls:
        found[min(23, int(day.hour(call.tries[0].began)))].append(call)
    rows = []
    for hour, calls in enumerate(found):
        waits = [call.seconds for call in calls]
        failed = sum(len(call.tries) - 1 for call in calls)
        memory = f"{day.memory_mb[hour]:,.0f}" if hour < len(day.memory_mb) else ""
        times = [f"{quantile(waits, part) * 1000:,.1f}" for part in (0.5, 0.99)]
        names = ", ".join(event.name for event in day.events if int(day.hour(event.began)) == hour)
        rows.append([clock(hour), names, f"{len(calls) / day.minutes * 24 / 60:.1f}", *times, f"{failed:,}", memory])
    return _table(
        "hour | event | calls a second | p50, ms | p99, ms | failed requests | largest process, MB", rows, text=2
    )


_LEFT, _WIDTH, _HEIGHT, _TOP, _GAP = 60, 720, 110, 40, 46
_BINS = 144
_INK, _BLUE, _RED = "#333333", "#0b6e8a", "#c0392b"
_DECADES = range(5)
"""Powers of ten in the lower part: 1 ms to 10 s; longer times are drawn at 10 s."""


def drawing(day: Day) -> str:
    """Return an SVG: calls a second above, their 99th percentile on a logarithmic scale below, events as lines."""
    bins: list[list[Call]] = [[] for _ in range(_BINS)]
    for call in day.calls:
        bins[min(_BINS - 1, int(day.hour(call.tries[0].began) / 24 * _BINS))].append(call)
    bin_seconds = day.minutes * 60 / _BINS
    rates = [len(calls) / bin_seconds for calls in bins]
    failed = [sum(len(call.tries) - 1 for call in calls) / bin_seconds for calls in bins]
    waits = [quantile([call.seconds for call in calls], 0.99) for calls in bins]
    most = 10 * math.ceil(max(*rates, *failed, 10) / 10)
    upper, lower = _TOP, _TOP + _HEIGHT + _GAP
    heights = [upper + _HEIGHT * (1 - rate / most) for rate in rates]
    decades = [min(4.0, max(0.0, math.log10(wait * 1000))) if wait else 0.0 for wait in waits]
    area = _points([upper + _HEIGHT, *heights, upper + _HEIGHT], closed=True)
    parts = [
        *_frame(upper, "calls a second; failed requests in red", [(0, "0"), (1, f"{most}")]),
        *_frame(lower, "99 of 100 calls are answered within", [(each / 4, _duration(each)) for each in _DECADES]),
        f'<polygon points="{area}" fill="{_BLUE}" fill-opacity="0.25"/>',
        _line(heights),
        *(_bar(place, upper, rate / most) for place, rate in enumerate(failed) if rate),
        _line([lower + _HEIGHT * (1 - each / 4) for each in decades]),
        *(_mark(event.name, day.hour(event.began), lower + _HEIGHT) for event in day.events),
        *(_text(_x(hour), lower + _HEIGHT + 16, clock(hour), "middle") for hour in range(0, 25, 3)),
    ]
    size = f"{_LEFT + _WIDTH + 24} {lower + _HEIGHT + 28}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def _x(hour: float) -> float:
    return _LEFT + min(24.0, hour) / 24 * _WIDTH


def _points(heights: list[float], *, closed: bool = False) -> str:
    """Return the points of a line, each bin's height at its middle; a closed line begins and ends at the ends of the day."""
    places = [(place + 0.5) / _BINS * 24 for place in range(_BINS)]
    if closed:
        places = [0.0, *places, 24.0]
    return " ".join(f"{_x(place):.1f},{height:.1f}" for place, height in zip(places, heights, strict=True))


def _line(heights: list[float]) -> str:
    return f'<polyline points="{_points(heights)}" fill="none" stroke="{_BLUE}" stroke-width="1.5"/>'


def _bar(place: int, top: int, part: float) -> str:
    height = max(1.0, part * _HEIGHT)
    left, width = _x(place / _BINS * 24), _WIDTH / _BINS
    return f'<rect x="{left:.1f}" y="{top + _HEIGHT - height:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_RED}"/>'


def _mark(name: str, hour: float, bottom: int) -> str:
    """Return a line through both parts, with the event's name above it."""
    place = _x(hour)
    line = f'<line x1="{place:.1f}" x2="{place:.1f}" y1="22" y2="{bottom}" stroke="{_INK}" stroke-dasharray="3 3"/>'
    return line + _text(place, 16, name, "middle")


def _frame(top: int, title: str, ticks: list[tuple[float, str]]) -> list[str]:
    """Return a part's title and a line with a label for each tick; ticks go from 0 at the bottom to 1 at the top."""
    found = [_text(_LEFT, top - 6, title, "start")]
    for part, name in ticks:
        height = top + _HEIGHT * (1 - part)
        found.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="#dddddd"/>')
        found.append(_text(_LEFT - 6, height + 4, name, "end"))
    return found


def _duration(decade: int) -> str:
    if decade == _DECADES[-1]:
        return "10 s, over"
    return f"{10**decade} ms" if decade < 3 else f"{10 ** (decade - 3)} s"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}">{words}</text>'
