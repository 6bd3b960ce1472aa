"""Metrics by prometheus_client, counted in each worker and shared between the workers of a machine.

::

    Registry ─┬─ exposition ──▶ /metrics: all workers of this machine, by prometheus_client's multiprocess mode
              └─ flat ──▶ Statistics ──▶ the store ──▶ /stats: the whole deployment

prometheus_client's own numbers take a lock and write a memory-mapped file at each increment, which costs a window of 32
messages 8 % of its processor time. Here an increment is an addition, and a histogram's value is kept in a list, whose
values are counted together. ``share`` counts them, and writes the changes to the library's files, several times a second
and before each exposition. So no counter decreases from one scrape to the next, whichever worker answers.
``exposed.py`` bounds the number of series of an exposition.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from sash.operations.exposed import Exposed

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable of the workers' common folder, which prometheus_client reads. Not set for a single worker."""

WORKER_VARIABLE = "_SASH_WORKER"
"""The environment variable with a worker process's number, from 0."""

SECONDS = (*(float(f"{step}e{power}") for power in range(-4, 1) for step in (1, 1.5, 2, 3, 5, 7)), 10.0)
"""Upper bounds for durations, from 0.1 ms to 10 s."""

Flat = dict[str, int]
"""Whole numbers by series: the metric's name and labels, joined by bars."""

_NOT_FLAT = ("_sum", "_count")

disable_created_metrics()  # type: ignore[no-untyped-call]


class Registry:
    """The metrics of one process. A metric with labels is a function from their values to a counter, histogram or gauge."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._numbers = values.ValueClass = _Numbers()
        self._histograms: list[_Histogram] = []
        self._counting = threading.Lock()
        self._bounds: dict[str, frozenset[str]] = {}
        self.provider_of: Callable[[str], str] = str
        """The provider of a model's label, by which histograms are exposed."""

    def counter(self, name: str, meaning: str, *labels: str) -> Any:
        """A counter's number: ``inc`` adds to its ``value``, and checks nothing. The name ends in ``_total``."""
        counter = Counter(name, meaning, labels, registry=self._registry)
        return cache(lambda *values: counter.labels(*values)._value) if labels else counter._value  # noqa: SLF001 - as below

    def histogram(
        self, name: str, meaning: str, bounds: Sequence[float], *labels: str, exposed: Sequence[float] = ()
    ) -> Any:
        """A histogram with these upper bounds of buckets; an exposition has those of ``exposed``, or all."""
        self._bounds[name] = frozenset(map(floatToGoString, (*(exposed or bounds), float("inf"))))
        histogram = _Histogram(name, meaning, labels, registry=self._registry, buckets=bounds)

        def series(*values: str) -> _Histogram:
            self._histograms.append(made := histogram.labels(*values) if values else histogram)
            return made

        return cache(series) if labels else series()

    def gauge(self, name: str, meaning: str, *labels: str, workers: Any = "livesum") -> Any:
        """A gauge; ``workers`` is the mode in which prometheus_client combines the workers' gauges."""
        gauge = Gauge(name, meaning, labels, registry=self._registry, multiprocess_mode=workers)
        return cache(gauge.labels) if labels else gauge

    def share(self) -> None:
        """Share the changed numbers with the other workers."""
        self._count()
        for number in self._numbers.made:
            number.share()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All workers' metrics in the format of ``accept`` (an Accept header), and the media type."""
        self._count()
        registry = self._registry
        if _shared():
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        encode, media_type = choose_encoder(accept)
        return encode(Exposed(registry, self._bounds, self.provider_of)), media_type

    def flat(self, *beginnings: str) -> Flat:
        """This process's counters and buckets with these beginnings of names. Buckets are not cumulative."""
        self._count()
        flat: Flat = {}
        for family in self._registry.collect():
            below = 0.0
            for name, labels, value, *_ in family.samples if family.name.startswith(beginnings) else ():
                if not name.endswith(_NOT_FLAT):
                    number = value - below if name.endswith("_bucket") else value
                    below = value if labels.get("le") != "+Inf" else 0.0
                    if number:
                        flat["|".join((name, *labels.values()))] = int(number)
        return flat

    def _count(self) -> None:
        """Count the values of histograms. It may run in a thread, while requests observe more."""
        with self._counting:
            for histogram in self._histograms:
                histogram.count()


def ended(worker: int) -> None:
    """Remove the gauges of an ended worker process from expositions. Its counters stay."""
    if _shared():
        mark_process_dead(worker)  # type: ignore[no-untyped-call]


def _shared() -> bool:
    return FOLDER_VARIABLE in os.environ


class _Histogram(Histogram):
    """A histogram whose values are kept in a list until they are counted, all together."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._values: list[float] = []
        self.observe = self._values.append  # type: ignore[method-assign, assignment] # a function of C

    def count(self) -> None:
        """Count the values that were observed since the last call."""
        values = self._values[:]
        del self._values[: len(values)]
        self._sum.value += sum(values)
        values.sort()
        below = 0
        for bound, bucket in zip(self._upper_bounds, self._buckets, strict=True):
            if below == len(values):
                break
            upto = bisect_right(values, bound)
            bucket.value += upto - below
            below = upto


class _Number:
    """A number of this process, and the file that shares it with the other workers."""

    __slots__ = ("_file", "_shared", "value")

    def __init__(self, file: Any = None) -> None:
        self._file = file
        self.value: float = file.get() if file is not None else 0
        self._shared = self.value

    def inc(self, amount: float = 1) -> None:
        self.value += amount

    def set(self, value: float, timestamp: float | None = None) -> None:  # noqa: ARG002 - as above
        self.value = value

    def get(self) -> float:
        return self.value

    def get_exemplar(self) -> None:
        """None: no exemplars are kept."""

    def share(self) -> None:
        if self.value != self._shared:
            self._shared = self.value
            self._file.set(self._shared)


class _Numbers:
    """Makes the numbers of this process: prometheus_client's ``ValueClass``."""

    def __init__(self) -> None:
        process = str(os.getpid())
        multiprocess: Any = values.MultiProcessValue
        self._file: Callable[..., Any] | None = multiprocess(lambda: process) if _shared() else None
        self.made: list[_Number] = []

    def __call__(self, *parameters: Any, **options: Any) -> _Number:
        if self._file is None:
            return _Number()
        made = _Number(self._file(*parameters, **options))
        self.made.append(made)
        return made
