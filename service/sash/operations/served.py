"""Reports a served window to metrics and the request's log line, as figures without message text."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from sash.core.law.records.costs import reference_cost
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.refusals import refusals
from sash.core.stored.record import Flags
from sash.operations.followups import Beginning
from sash.operations.genai import of_window
from sash.operations.metrics import Metrics
from sash.store.data.layout import Target
from sash.windows.answer import Made

MOST_CHECKED_BYTES: Final = 64 * 1024
"""Larger windows are not checked: it takes the worker over two milliseconds."""


def tell_window(
    metrics: Metrics,
    made: Made,
    seconds: float,
    line: dict[str, Any],
    *,
    key: Hashable = None,
    target: Target | None = None,
) -> None:
    """Count a window, and compare it with the last window of the conversation ``key``.

    ``line`` is the request's log line, to which the window's figures are added. ``seconds`` is the time of making it.
    """
    if made.asked.plan.query.explain:
        return  # an explained window is read by people, and not sent to a provider
    head, window = made.head, made.window
    documents = _documents(made) if made.history.grounding_messages else (0, 0)
    label = metrics.windows.count(head, documents, seconds)
    if made.asked.plan.query.view is not None:
        metrics.windows.saw(label, _unseen(made))
    elif documents[0] or head.dropped.tokens:
        metrics.windows.count_savings(head, label, made.asked.plan.model, documents[0])
    if metrics.spans is not None:
        provider = made.asked.plan.model.provider
        metrics.spans.built_window(
            target, of_window(head, metrics.windows.names.known(head.model), made.receipt, provider), seconds
        )
    if key is not None and window.seqs and head.dropped.messages:  # ReuseStats has only windows that left history out
        tokens_of, stable = partial(_tokens_of, made), bool(made.asked.plan.query.stable)
        model = made.asked.plan.model
        seqs = sorted(window.seqs) if window.is_moved else window.seqs
        metrics.windows.follow(head, key, seqs, _beginning(made, seqs), tokens_of, stable=stable, model=model)
    line["model"] = metrics.windows.names.known(head.model)
    line["window_tokens"] = head.tokens.total
    line["budget"] = head.budget
    line["kept"] = head.kept.messages
    line["dropped"] = head.dropped.messages
    if made.receipt:
        line["receipt"] = made.receipt.decode()
    if metrics.windows.is_sampled() and len(made.body) <= MOST_CHECKED_BYTES and (broken := broken_rules(made)):
        line["refused_by_rules"] = broken
        for rule in broken:
            metrics.windows.refused_by_rule(rule).inc()


def broken_rules(made: Made) -> list[str]:
    """Return the rules of its destination that a window's request breaks, each once."""
    query, model = made.asked.plan.query, made.asked.plan.model
    to = meet(query.format, model.provider, model.known_as)
    return sorted({each.rule for each in refusals(_decode(made.body).request, to)})


class _Body(msgspec.Struct):
    request: dict[str, Any]


_decode = msgspec.json.Decoder(_Body).decode


def _unseen(made: Made) -> int:
    """The number of messages that the window leaves out because they are for others, behind the first that it sends."""
    history = made.history
    sent = [seq for seq in made.window.seqs if seq >= history.first_seq]
    if history.seen is None or not sent:
        return 0
    first = min(sent)
    return history.length - first - sum(seq > first for seq in history.seqs[history.records.front :])


def _documents(made: Made) -> tuple[int, int]:
    """Tokens of documents of the window's messages that are not sent: those of repeats, and those without room."""
    history, window, head = made.history, made.window, made.head
    lost = _left(made) if head.grounding.truncated else 0
    if not head.dropped.messages:  # the whole history is in the window: the totals suffice
        return max(0, head.dropped.grounding_tokens - lost), lost
    wholes = (history.records[row].grounding for row in {*history.records.where(Flags.RICH)}.intersection(window.rows))
    whole = sum(tokens[history.column] for tokens in wholes if tokens is not None)
    return max(0, whole - sum(chosen.tokens for chosen in window.grounding.values()) - lost), lost


def _left(made: Made) -> int:
    """Tokens of the newest question's documents that the window does not send."""
    history = made.history
    whole, chosen = history.records[history.asked].grounding, made.window.grounding.get(made.window.question)
    return max(0, whole[made.history.column] - (chosen.tokens if chosen else 0)) if whole is not None else 0


def _beginning(made: Made, seqs: Sequence[int]) -> Beginning:
    window, head = made.window, made.head
    return Beginning(
        fixed=hash(
            (id(made.asked.plan.parts), head.format, head.summary_used, head.note, made.asked.plan.query.grounding)
        ),
        count=len(seqs),
        first_seq=seqs[0],
        last_seq=seqs[-1],
        question=made.window.question,
        tokens=head.tokens.total - head.tokens.priming,
        documents=head.tokens.grounding,
        documents_from=min(window.grounding) if window.grounding else 0,
    )


def _tokens_of(made: Made, first_seq: int, last_seq: int) -> int:
    """Tokens of the window's messages from ``first_seq`` to ``last_seq``, without documents."""
    history, sent = made.history, zip(made.window.rows, made.window.seqs, strict=True)
    wanted = (row for row, seq in sent if first_seq <= seq <= last_seq)
    return sum(reference_cost(history.records[row], history.column) for row in wanted)
