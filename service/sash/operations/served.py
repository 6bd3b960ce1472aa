"""Figures of a served window for metrics and the log line, without message text."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.refusals import refusals
from sash.core.stored.record import Flags
from sash.operations.followups import Beginning
from sash.windows.answer import Made

_MOST_CHECKED_BYTES: Final = 64 * 1024
"""Larger windows are not checked: it takes the worker over two milliseconds."""


def broken_rules(made: Made) -> list[str]:
    """Return the rules of its destination that a window's request breaks, each once; none if it is large."""
    if len(made.body) > _MOST_CHECKED_BYTES:
        return []
    query, model = made.asked.plan.query, made.asked.plan.model
    to = meet(query.format, model.provider, model.known_as)
    return sorted({each.rule for each in refusals(_decode(made.body).request, to)})


class _Body(msgspec.Struct):
    request: dict[str, Any]


_decode = msgspec.json.Decoder(_Body).decode


def unseen_messages(made: Made) -> int:
    """The number of messages that the window leaves out because they are for others, behind the first that it sends."""
    history = made.history
    sent = [seq for seq in made.window.seqs if seq >= history.first_seq]
    if history.seen is None or not sent:
        return 0
    first = min(sent)
    return history.length - first - sum(seq > first for seq in history.seqs[history.records.front :])


def document_tokens(made: Made) -> tuple[int, int]:
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


def beginning(made: Made, seqs: Sequence[int]) -> Beginning:
    """The facts of a window, whose messages' ``seqs`` are in their order, for comparison with the next one."""
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


def tokens_between(made: Made, first_seq: int, last_seq: int) -> int:
    """Tokens of the window's messages from ``first_seq`` to ``last_seq``, without documents."""
    history, sent = made.history, zip(made.window.rows, made.window.seqs, strict=True)
    wanted = (row for row, seq in sent if first_seq <= seq <= last_seq)
    return sum(history.records[row].reference_tokens[history.column] for row in wanted)
