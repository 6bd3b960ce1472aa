"""What is told of a window that was served: to the metrics, and to the request's log line."""

from collections.abc import Hashable

import structlog

from service.api.schemas import WindowHead, WindowQuery
from service.core.counting import reference_tokens
from service.core.records import Record
from service.core.view import History
from service.core.window import Window
from service.operations.followups import Beginning
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
        facts = self.facts
        if self._query.explain:
            return  # somebody looks at a window; nobody sends it
        metrics.window(facts, seconds)
        if key is not None and self._window.seqs:
            metrics.follow(facts, key, self._window.seqs, self._beginning(fixed))
        structlog.contextvars.bind_contextvars(
            model=facts.model,
            window_tokens=facts.tokens,
            budget=facts.budget,
            kept=facts.kept_messages,
            dropped=facts.dropped_messages,
        )

    def _record(self, seq: int) -> Record:
        first = self._history.first_seq
        return self._history.records[seq - first] if seq >= first else self._history.outside[seq]

    def _documents(self) -> tuple[int, int]:
        """Tokens of documents that the window's messages have and the window has not: saved, and lost."""
        history, window = self._history, self._window
        if not history.grounding_messages:
            return 0, 0
        saved = lost = 0
        for seq in window.seqs:
            whole = self._record(seq).grounding
            if whole is None:
                continue
            chosen = window.grounding.get(seq)
            left = max(0, whole[history.column] - (chosen.tokens if chosen else 0))
            if seq == history.question and self._head.grounding.truncated:
                lost += left
            else:
                saved += left
        return saved, lost

    def _beginning(self, fixed: int) -> Beginning:
        history, window, head = self._history, self._window, self._head
        first = min(window.grounding, default=0)
        whole = head.tokens.total - head.tokens.priming
        return Beginning(
            fixed=hash((fixed, head.format, head.summary_used, head.note, self._query.grounding)),
            count=len(window.seqs),
            first_seq=window.seqs[0],
            last_seq=window.seqs[-1],
            question=history.question,
            documents=head.tokens.grounding,
            tokens=whole,
            plain_tokens=max(0, whole - head.tokens.grounding - self._tokens_from(first)) if first else whole,
        )

    def _tokens_from(self, first: int) -> int:
        """Tokens of the window's messages from ``first`` on, without documents."""
        column, total = self._history.column, 0
        for seq in reversed(self._window.seqs):
            if seq < first:
                break
            record = self._record(seq)
            total += reference_tokens(record.measure, parallel=record.parallel)[column]
        return total
