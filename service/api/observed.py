"""What is told of a window that was served: to the metrics, and to the request's log line."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable

from service.api.schemas import WindowHead, WindowQuery
from service.core.costs import reference_cost
from service.core.view import History
from service.core.window import Window
from service.operations.followups import Beginning
from service.operations.line import say
from service.operations.metrics import Metrics, WindowFacts


class Observed:
    """A window and what it was made of: enough to tell of it, nothing that anybody wrote."""

    def __init__(self, query: WindowQuery, history: History, window: Window, head: WindowHead) -> None:
        self._history = history
        self._window = window
        self._query = query
        self._head = head
        saved, trimmed = self._documents()
        self.facts = WindowFacts(
            model=head.model,
            tokens=head.tokens.total,
            budget=head.budget,
            kept_messages=head.kept.messages,
            dropped_messages=head.dropped.messages,
            dropped_tokens=head.dropped.tokens,
            documents_saved_tokens=saved,
            documents_trimmed_tokens=trimmed,
            truncated=head.grounding.truncated,
            stop_reason=head.stop_reason,
            stable=query.stable,
        )

    def tell(self, metrics: Metrics, seconds: float, *, key: Hashable = None, fixed: int = 0) -> None:
        """Count the window, and compare it with the one before it of the conversation that ``key`` stands for.

        ``fixed`` stands for what the conversation's settings put before the messages.
        """
        facts, window = self.facts, self._window
        if self._query.explain:
            return  # somebody looks at a window; nobody sends it
        metrics.window(facts, seconds)
        if key is not None and window.seqs:
            metrics.follow(facts, key, window.seqs, self._beginning(fixed), self._tokens_of)
        say(
            model=metrics.label(facts.model),
            window_tokens=facts.tokens,
            budget=facts.budget,
            kept=facts.kept_messages,
            dropped=facts.dropped_messages,
        )

    def _documents(self) -> tuple[int, int]:
        """Tokens of documents that the window's messages have and the window has not: saved, and lost."""
        history, window, head = self._history, self._window, self._head
        if not history.grounding_messages:
            return 0, 0
        lost = self._left(history.question) if head.grounding.truncated else 0
        if not head.dropped.messages:  # all of the history is here: its totals say it, no message need be asked
            return max(0, head.dropped.grounding_tokens - lost), lost
        rich = {history.first_seq + index for index in history.records.rich()} | history.outside.keys()
        wholes = (history.record(seq).grounding for seq in rich.intersection(window.seqs))
        whole = sum(tokens[history.column] for tokens in wholes if tokens is not None)
        return max(0, whole - sum(chosen.tokens for chosen in window.grounding.values()) - lost), lost

    def _left(self, seq: int) -> int:
        """What a message's documents have beside what is sent of them, in tokens."""
        whole, chosen = self._history.record(seq).grounding, self._window.grounding.get(seq)
        return max(0, whole[self._history.column] - (chosen.tokens if chosen else 0)) if whole is not None else 0

    def _beginning(self, fixed: int) -> Beginning:
        window, head = self._window, self._head
        return Beginning(
            fixed=hash((fixed, head.format, head.summary_used, head.note, self._query.grounding)),
            count=len(window.seqs),
            first_seq=window.seqs[0],
            last_seq=window.seqs[-1],
            question=self._history.question,
            tokens=head.tokens.total - head.tokens.priming,
            documents=head.tokens.grounding,
            documents_from=min(window.grounding) if window.grounding else 0,
        )

    def _tokens_of(self, first_seq: int, last_seq: int) -> int:
        """Tokens of the window's messages from ``first_seq`` to ``last_seq``, without documents."""
        column, seqs, record = self._history.column, self._window.seqs, self._history.record
        wanted = seqs[bisect_left(seqs, first_seq) : bisect_right(seqs, last_seq)]
        return sum(reference_cost(record(seq), column) for seq in wanted)
