"""The families of ``/metrics``: a bounded number of series, whatever is asked.

::

    sash_windows_total{model=…}                 twenty models (model_names.py), and other
    sash_window_tokens_bucket{model=…, le=…} ─▶ {provider=…, le=…}    the sum of the provider's models, with fewer bounds
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Exposed(Collector):
    """The families of ``source``. ``bounds`` are each histogram's exposed ``le``; ``provider_of`` takes a model's label."""

    def __init__(
        self, source: Collector, bounds: Mapping[str, frozenset[str]], provider_of: Callable[[str], str]
    ) -> None:
        self._source = source
        self._bounds = bounds
        self._provider_of = provider_of

    def collect(self) -> Iterator[Metric]:
        """Yield each family as it is exposed."""
        for family in self._source.collect():
            yield self._folded(family) if family.type == "histogram" else family

    def _folded(self, family: Metric) -> Metric:
        sums: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        for name, labels, value, *_ in family.samples:
            if labels.get("le", "+Inf") in self._bounds[family.name]:
                sums[name, tuple(self._label(*label) for label in labels.items())] += value
        folded = Metric(family.name, family.documentation, family.type)
        for (name, labelled), total in sums.items():
            folded.add_sample(name, dict(labelled), total)
        return folded

    def _label(self, name: str, value: str) -> tuple[str, str]:
        return ("provider", self._provider_of(value)) if name == "model" else (name, value)
