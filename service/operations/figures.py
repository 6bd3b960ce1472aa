"""What a process counts: plain numbers, cheap to add to, that add up across processes.

::

    Figures ──flatten──▶ {"models|gpt-4o|tokens|33": 5, …} ──added──▶ the deployment's ──unflatten──▶ Figures

The flat form is what travels: between the workers of a machine for ``/metrics``, and into the store for ``/stats``. It
holds whole numbers only, so that sums of it are exact; a histogram's sum is kept in millionths.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

Flat = dict[str, int]
"""Whole numbers by path; the parts of a path are joined by bars."""

_MILLION = 1_000_000
_STATUSES = tuple(f"{hundreds}xx" for hundreds in range(6))


class Histogram(msgspec.Struct):
    """How many values fell between bounds, and their sum. A value on a bound counts below it, as in Prometheus.

    ``exported`` are the bounds that Prometheus is told; between them are more, so that quantiles are close.
    """

    bounds: ClassVar[tuple[float, ...]] = ()
    exported: ClassVar[tuple[float, ...]] = ()

    counts: list[int] = []
    sum: float = 0.0

    def __post_init__(self) -> None:
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value in its bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """The value that ``share`` of all values do not exceed, read off a straight line inside its bucket.

        None without values. What lies above the last bound is said to be at it.
        """
        total = self.count
        if not total:
            return None
        wanted, below = share * total, 0
        for (low, high), count in zip(pairwise((0.0, *self.bounds)), self.counts, strict=False):
            if count and below + count >= wanted:
                return low + (high - low) * (wanted - below) / count
            below += count
        return self.bounds[-1]


def _round_steps(low: int, high: int, steps: Iterable[float]) -> tuple[float, ...]:
    """Ten to the power of ``low`` up to ``high``, each decade divided at ``steps``."""
    return (*(float(f"{step}e{power}") for power in range(low, high) for step in steps), float(f"1e{high}"))


class Seconds(Histogram):
    """Durations from 0.1 ms to 10 s."""

    bounds = _round_steps(-4, 1, (1, 1.5, 2, 3, 5, 7))
    exported = _round_steps(-3, 1, (1, 2, 5))


class Tokens(Histogram):
    """Tokens from 1 to 4 million, four bounds to each doubling: a quantile is off by a tenth at most."""

    bounds = tuple(sorted({float(round(2 ** (step / 4))) for step in range(89)}))
    exported = tuple(float(2**power) for power in range(6, 22))


class Fill(Histogram):
    """How much of its budget a window takes, in twentieths."""

    bounds = tuple(step / 20 for step in range(1, 21))
    exported = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)


class Sizes(Histogram):
    """How many of something at once."""

    bounds = tuple(float(2**power) for power in range(13))
    exported = bounds


class Ratio(Histogram):
    """Predicted divided by billed: below 1 is a window that costs more than we said."""

    bounds = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999999, 1.0, 1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0)
    exported = bounds


class Reuse(msgspec.Struct):
    """Windows that left history out and followed another window of their conversation: did they begin alike?

    ``tokens`` are those of all such windows, ``reused_tokens`` those that stood in the same place in the one before.
    """

    windows: int = 0
    same: int = 0
    tokens: int = 0
    reused_tokens: int = 0


class Prediction(msgspec.Struct):
    """Reports of what providers billed: how many were below, at and above it, and by how many tokens in all."""

    ratio: Ratio = msgspec.field(default_factory=Ratio)
    under: int = 0
    exact: int = 0
    over: int = 0
    under_tokens: int = 0
    over_tokens: int = 0
    billed_tokens: int = 0


class ModelFigures(msgspec.Struct):
    """Windows of one model. Tokens are the model's own, dropped ones the encoding's."""

    stops: dict[str, int] = {}
    duration: Seconds = msgspec.field(default_factory=Seconds)
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    fill: Fill = msgspec.field(default_factory=Fill)
    kept_messages: int = 0
    dropped_messages: int = 0
    dropped_tokens: int = 0
    documents_saved_tokens: int = 0
    documents_trimmed_tokens: int = 0
    truncations: int = 0
    does_not_fit: int = 0
    stable: Reuse = msgspec.field(default_factory=Reuse)
    sliding: Reuse = msgspec.field(default_factory=Reuse)
    prediction: Prediction = msgspec.field(default_factory=Prediction)


class OperationFigures(msgspec.Struct):
    """Requests of one operation, by the class of their status (``2xx``)."""

    statuses: dict[str, int] = {}
    duration: Seconds = msgspec.field(default_factory=Seconds)

    def answered(self, status: int, seconds: float) -> None:
        """A request was answered; its status is 0 where its client went away before."""
        group = _STATUSES[status // 100]
        self.statuses[group] = self.statuses.get(group, 0) + 1
        self.duration.observe(seconds)


class CallFigures(msgspec.Struct):
    """Calls of one script, or of plain commands."""

    duration: Seconds = msgspec.field(default_factory=Seconds)
    failures: int = 0


class Figures(msgspec.Struct):
    """All that one process counts from its start on."""

    operations: dict[str, OperationFigures] = {}
    models: dict[str, ModelFigures] = {}
    calls: dict[str, CallFigures] = {}
    append: Seconds = msgspec.field(default_factory=Seconds)
    appended_messages: int = 0
    tokenise: Seconds = msgspec.field(default_factory=Seconds)
    batch: Sizes = msgspec.field(default_factory=Sizes)
    reconnects: int = 0
    flush_failures: int = 0
    cpu_milliseconds: int = 0


def flatten(figures: msgspec.Struct) -> Flat:
    """Every number that is not 0, by its path."""
    return {path: value for path, value in _numbers(figures, "") if value}


def _numbers(value: Any, path: str) -> Iterator[tuple[str, int]]:
    match value:
        case int():
            yield path[1:], value
        case Histogram():
            yield f"{path[1:]}|sum", round(value.sum * _MILLION)
            for index, count in enumerate(value.counts):
                if count:
                    yield f"{path[1:]}|{index}", count
        case dict():
            for name, item in value.items():
                yield from _numbers(item, f"{path}|{name}")
        case _:
            for name in value.__struct_fields__:
                yield from _numbers(getattr(value, name), f"{path}|{name}")


def unflatten(flat: Mapping[str, int]) -> Figures:
    """The figures that ``flatten`` made this of; paths of another version's figures are passed over."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *folders, name = path.split("|")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    made: Figures = _made(Figures, tree)
    return made


def _made(kind: Any, tree: Any) -> Any:
    if kind is int:
        return tree
    if get_origin(kind) is dict:
        return {name: _made(get_args(kind)[1], item) for name, item in tree.items()}
    if issubclass(kind, Histogram):
        made = kind(sum=tree.get("sum", 0) / _MILLION)
        for index in range(len(made.counts)):
            made.counts[index] = tree.get(str(index), 0)
        return made
    hints = _hints(kind)
    return kind(**{name: _made(hints[name], tree[name]) for name in kind.__struct_fields__ if name in tree})


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def added(parts: Iterable[Mapping[str, int]]) -> Flat:
    """The sum of flat figures."""
    total: Flat = {}
    for part in parts:
        for path, value in part.items():
            total[path] = total.get(path, 0) + value
    return total


def since(now: Mapping[str, int], before: Mapping[str, int]) -> Flat:
    """What was counted between two moments of one process."""
    return {path: value - before.get(path, 0) for path, value in now.items() if value != before.get(path, 0)}
