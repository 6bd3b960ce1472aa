"""Sums of the workers' figures by series; totals, buckets and quantiles of these sums."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from sash.operations.registry import Flat


class Series:
    """Sums by a series' name and labels. In a query, a label that is left out or None matches any value."""

    def __init__(self, flat: Mapping[str, int]) -> None:
        self._named: dict[str, list[tuple[list[str], int]]] = defaultdict(list)
        for path, number in flat.items():
            name, *labels = path.split("|")
            self._named[name].append((labels, number))

    def sum(self, name: str, *wanted: str | None) -> int:
        """The sum of a counter."""
        return sum(number for _, number in self.of(name, *wanted))

    def values(self, name: str) -> set[str]:
        """The values of a metric's first label."""
        return {labels[0] for labels, _ in self._named.get(name, ())}

    def buckets(self, name: str, bounds: tuple[float, ...], *wanted: str | None) -> list[int]:
        """The number of values in each bucket: up to each bound, and above the last."""
        found: Counter[float] = Counter()
        for labels, number in self.of(f"{name}_bucket", *wanted):
            found[float(labels[-1])] += number
        return [found[bound] for bound in (*bounds, float("inf"))]

    def quantiles(
        self, name: str, bounds: tuple[float, ...], *wanted: str | None, scale: float = 1
    ) -> tuple[float | None, ...]:
        """The median and the 95th percentile of a histogram, times ``scale``; None without values."""
        buckets = self.buckets(name, bounds, *wanted)
        values = (quantile(bounds, buckets, share) for share in (0.5, 0.95))
        return tuple(None if value is None else round(value * scale, 4) for value in values)

    def of(self, name: str, *wanted: str | None) -> Iterator[tuple[list[str], int]]:
        """Labels and numbers of a metric's series."""
        for labels, number in self._named.get(name, ()):
            if all(label in (None, has) for label, has in zip(wanted, labels, strict=False)):
                yield labels, number


def added(parts: Iterable[Mapping[str, int]]) -> Flat:
    """The sum of flat figures."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def quantile(bounds: tuple[float, ...], buckets: list[int], share: float) -> float | None:
    """The value that ``share`` of all values do not exceed, by linear interpolation in its bucket.

    None without values. Values above the last bound count as equal to it.
    """
    wanted, below = share * sum(buckets), 0
    if not wanted:
        return None
    for (low, high), count in zip(pairwise((0.0, *bounds)), buckets, strict=False):
        if count and below + count >= wanted:
            return low + (high - low) * (wanted - below) / count
        below += count
    return bounds[-1]
