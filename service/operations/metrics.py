"""What this process has seen: every place that has a figure gives it here, in about a microsecond, and goes on.

Labels are closed sets: operations, classes of status, scripts, and models that somebody has published or this deployment
has declared; any other name is ``other``. No tenant, no id and no text is ever a label.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec

from service.operations.figures import CallFigures, Figures, Flat, ModelFigures, OperationFigures, flatten
from service.operations.followups import Beginning, Followups

LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)
"""The log line of the present request, in threads that work for it too; None where there is no request."""
OTHER = "other"
_UNKNOWN_OPERATION = "none"
_STOPS = frozenset({"complete", "budget", "limit", "summary"})


class WindowFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A window that was served, in figures."""

    model: str
    tokens: int
    budget: int
    kept_messages: int
    dropped_messages: int
    dropped_tokens: int
    documents_saved_tokens: int
    """Documents of messages in this window that were not sent again."""
    documents_trimmed_tokens: int
    """What the newest question's documents lost for want of room."""
    truncated: bool
    stop_reason: str
    stable: bool


class Metrics:
    """The figures of one process, and the gauges that only the present has."""

    def __init__(self, models: Iterable[str] = ()) -> None:
        self.figures = Figures()
        self.running: set[Any] = set()
        """Requests that are being answered."""
        self.did: Callable[[str, float], None] | None = None
        """Told what took how long, for traces."""
        self._known = frozenset(models)
        self._followups = Followups()

    def know(self, models: Iterable[str]) -> None:
        """Take these names of models as labels from now on."""
        self._known |= {name for name in models if "|" not in name}

    def operation(self, name: str | None) -> OperationFigures:
        """The figures of an operation; None is a path where nothing is."""
        return self.figures.operations.setdefault(name or _UNKNOWN_OPERATION, OperationFigures())

    def append(self, messages: int, *, seconds: float, tokenise_seconds: float) -> None:
        """Messages were stored, duplicates not among them."""
        self.figures.appended_messages += messages
        self.figures.append.observe(seconds)
        self.counted(tokenise_seconds)
        if self.did is not None:
            self.did("append", seconds)

    def counted(self, seconds: float) -> None:
        """What came was turned into tokens, or at least into their number."""
        self.figures.tokenise.observe(seconds)
        _took("tokenise_milliseconds", seconds)

    def window(self, facts: WindowFacts, seconds: float) -> str:
        """A window was built, in this time from its messages to its JSON; gives the model's label."""
        label = self.label(facts.model)
        figures = self.figures.models.get(label) or self._model(facts.model)
        stop = facts.stop_reason if facts.stop_reason in _STOPS else OTHER
        figures.stops[stop] = figures.stops.get(stop, 0) + 1
        figures.duration.observe(seconds)
        figures.tokens.observe(facts.tokens)
        figures.fill.observe(facts.tokens / facts.budget)
        figures.kept_messages += facts.kept_messages
        figures.dropped_messages += facts.dropped_messages
        figures.dropped_tokens += facts.dropped_tokens
        figures.documents_saved_tokens += facts.documents_saved_tokens
        figures.documents_trimmed_tokens += facts.documents_trimmed_tokens
        figures.truncations += facts.truncated
        if self.did is not None:
            self.did("build window", seconds)
        return label

    def follow(
        self,
        facts: WindowFacts,
        key: Hashable,
        seqs: Sequence[int],
        beginning: Beginning,
        tokens_of: Callable[[int, int], int],
    ) -> None:
        """Compare a stored conversation's window with the one before it, as ``Followups.follow`` does."""
        reused = self._followups.follow(key, seqs, beginning, tokens_of)
        if reused is None or not facts.dropped_messages:
            return
        model = self._model(facts.model)
        figures = model.stable if facts.stable else model.sliding
        figures.windows += 1
        figures.same += reused > 0
        figures.tokens += facts.tokens
        figures.reused_tokens += reused

    def does_not_fit(self, model: str) -> None:
        """What must be in a window was over its budget."""
        self._model(model).does_not_fit += 1

    def record_usage(self, model: str, predicted: int, billed: int) -> None:
        """A provider billed ``billed`` tokens for a request that we said would be ``predicted``."""
        figures = self._model(model).prediction
        figures.ratio.observe(predicted / max(1, billed))
        figures.billed_tokens += billed
        if predicted < billed:
            figures.under += 1
            figures.under_tokens += billed - predicted
        elif predicted > billed:
            figures.over += 1
            figures.over_tokens += predicted - billed
        else:
            figures.exact += 1

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """The store answered a script, or plain commands."""
        figures = self.figures.calls.get(call)
        if figures is None:
            figures = self.figures.calls[call] = CallFigures()
        figures.duration.observe(seconds)
        figures.failures += failed
        _took("store_milliseconds", seconds)
        if self.did is not None:
            self.did(f"store {call}", seconds)

    def sent(self, commands: int) -> None:
        """So many commands left in one write."""
        self.figures.batch.observe(commands)

    def reconnected(self) -> None:
        """A connection to the store was lost, or not had."""
        self.figures.reconnects += 1

    def flat(self) -> Flat:
        """The figures as they are now, in the form that adds up."""
        self.figures.cpu_milliseconds = int(time.process_time() * 1000)
        return flatten(self.figures)

    def label(self, name: str) -> str:
        """The name of a model as it may be told: what a client made up, or a fine-tuned model's, is ``other``."""
        return name if name in self._known else OTHER

    def _model(self, name: str) -> ModelFigures:
        label = self.label(name)
        figures = self.figures.models.get(label)
        if figures is None:
            figures = self.figures.models[label] = ModelFigures()
        return figures


def _took(name: str, seconds: float) -> None:
    """Add so long to a field of the request's line in milliseconds: what it waited for, or worked at, more than once."""
    line = LINE.get()
    if line is not None:
        line[name] = round(line.get(name, 0.0) + seconds * 1000, 2)
