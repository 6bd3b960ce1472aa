"""What is counted of windows, by model."""

from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from service.operations.followups import Beginning, Followups
from service.operations.registry import SECONDS, Registry

TOKENS = tuple(sorted({float(round(2 ** (step / 4))) for step in range(89)}))
"""From 1 to 4 million, four bounds to each doubling: a quantile is off by a tenth."""
FILL = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, *(step / 20 for step in range(1, 21)))
TWENTIETHS_FROM = 6
"""Bounds of ``FILL`` within the first twentieth: small talk takes a thousandth of a large budget."""
RATIO = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999999, 1.0, 1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0)
"""Predicted divided by billed: below 1 is a window that costs more than predicted."""

OTHER = "other"
_STOPS = frozenset({"complete", "budget", "limit", "summary"})
_OUTCOMES = ("under", "exact", "over")


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


class WindowMetrics:
    """Metrics of windows and of what providers billed for them."""

    def __init__(self, registry: Registry) -> None:
        counter, histogram = registry.counter, registry.histogram
        self._known: frozenset[str] = frozenset()
        self._begun: set[str] = set()
        self._last = Followups()
        self.served = counter("sash_windows_total", "Windows served, by what ended them.", "model", "stop_reason")
        self.refused = counter(
            "sash_window_does_not_fit_total", "Windows refused: what must be in does not fit.", "model"
        )
        self.seconds = histogram(
            "sash_window_duration_seconds", "Building a window, from messages to JSON.", SECONDS, "model"
        )
        self.tokens = histogram("sash_window_tokens", "Predicted tokens of a window.", TOKENS, "model")
        self.fill = histogram("sash_window_fill_ratio", "A window's tokens divided by its budget.", FILL, "model")
        self.kept_messages = counter("sash_window_kept_messages_total", "Messages sent in windows.", "model")
        self.dropped_messages = counter("sash_window_dropped_messages_total", "Messages left out of windows.", "model")
        self.dropped_tokens = counter("sash_window_dropped_tokens_total", "Tokens of messages left out.", "model")
        self.saved_tokens = counter(
            "sash_documents_saved_tokens_total", "Documents of messages in a window that were not sent again.", "model"
        )
        self.trimmed_tokens = counter(
            "sash_documents_trimmed_tokens_total",
            "Tokens of the newest question's documents that did not fit.",
            "model",
        )
        self.truncations = counter(
            "sash_document_truncations_total", "Windows that cut or left out documents.", "model"
        )
        self.followups = counter(
            "sash_window_followups_total",
            "Windows that left history out and followed another of their conversation, by whether they began as it did.",
            *("model", "cut", "beginning"),
        )
        self.followup_tokens = counter("sash_window_followup_tokens_total", "Tokens of those windows.", "model", "cut")
        self.reused_tokens = counter(
            "sash_window_reused_tokens_total",
            "Of them, tokens that stood in the same place before: what a provider's prompt cache can serve.",
            *("model", "cut"),
        )
        self.predictions = counter(
            "sash_predictions_total", "Reports of billed tokens, by where the prediction was.", "model", "outcome"
        )
        self.error_tokens = counter(
            "sash_prediction_error_tokens_total", "Tokens that predictions were off by.", "model", "outcome"
        )
        self.billed_tokens = counter("sash_billed_tokens_total", "Tokens that were reported as billed.", "model")
        self.cache_tokens = counter(
            "sash_prompt_cache_tokens_total",
            "Tokens that were reported as billed, with what the provider's prompt cache did: read, written or neither.",
            *("model", "part"),
        )
        self.ratio = histogram("sash_prediction_ratio", "Predicted divided by billed tokens.", RATIO, "model")

    def know(self, models: Iterable[str]) -> None:
        """Take these names of models as labels from now on."""
        self._known |= {name for name in models if "|" not in name}

    def label(self, name: str) -> str:
        """The name of a model as it may be told: what a client made up, or a fine-tuned model's, is ``other``."""
        return name if name in self._known else OTHER

    def count(self, facts: WindowFacts, seconds: float) -> str:
        """A window was built, in this time from its messages to its JSON; gives the model's label."""
        label = facts.model if facts.model in self._known else OTHER
        if label not in self._begun:
            self._begin(label)
        self.served(label, facts.stop_reason if facts.stop_reason in _STOPS else OTHER).inc()
        self.seconds(label).observe(seconds)
        self.tokens(label).observe(facts.tokens)
        self.fill(label).observe(facts.tokens / facts.budget)
        self.kept_messages(label).inc(facts.kept_messages)
        if facts.dropped_messages:
            self.dropped_messages(label).inc(facts.dropped_messages)
            self.dropped_tokens(label).inc(facts.dropped_tokens)
        if facts.documents_saved_tokens or facts.truncated:
            self.saved_tokens(label).inc(facts.documents_saved_tokens)
            self.trimmed_tokens(label).inc(facts.documents_trimmed_tokens)
            self.truncations(label).inc(facts.truncated)
        return label

    def _begin(self, label: str) -> None:
        """Begin a model's series at 0, so that rates see them grow."""
        self._begun.add(label)
        for metric in (self.refused, self.dropped_messages, self.dropped_tokens):
            metric(label)
        for metric in (self.saved_tokens, self.trimmed_tokens, self.truncations):
            metric(label)
        for cut in ("stable", "sliding"):
            for metric in (self.followup_tokens, self.reused_tokens):
                metric(label, cut)
            for beginning in ("same", "moved"):
                self.followups(label, cut, beginning)

    def follow(
        self,
        facts: WindowFacts,
        key: Hashable,
        seqs: Sequence[int],
        beginning: Beginning,
        tokens_of: Callable[[int, int], int],
    ) -> None:
        """Compare a stored conversation's window with the one before it, as ``Followups.follow`` does."""
        reused = self._last.follow(key, seqs, beginning, tokens_of)
        if reused is None or not facts.dropped_messages:
            return
        label, cut = self.label(facts.model), "stable" if facts.stable else "sliding"
        self.followups(label, cut, "same" if reused else "moved").inc()
        self.followup_tokens(label, cut).inc(facts.tokens)
        self.reused_tokens(label, cut).inc(reused)

    def does_not_fit(self, model: str) -> None:
        """What must be in a window was over its budget."""
        self.refused(self.label(model)).inc()

    def record_usage(self, model: str, predicted: int, billed: int) -> None:
        """A provider billed ``billed`` tokens for a request that we said would be ``predicted``."""
        label = self.label(model)
        self.ratio(label).observe(predicted / max(1, billed))
        self.billed_tokens(label).inc(billed)
        for outcome in _OUTCOMES:  # each is there from the first report on, so that rates see it grow from 0
            self.predictions(label, outcome)
        outcome = _OUTCOMES[(predicted > billed) - (predicted < billed) + 1]
        self.predictions(label, outcome).inc()
        if predicted != billed:
            self.error_tokens(label, outcome).inc(abs(predicted - billed))

    def record_cache(self, model: str, *, billed: int, read: int, written: int) -> None:
        """A provider read and wrote so many of ``billed`` tokens in its prompt cache."""
        label = self.label(model)
        for part, tokens in (("read", read), ("written", written), ("neither", billed - read - written)):
            self.cache_tokens(label, part).inc(tokens)
