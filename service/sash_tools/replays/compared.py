"""The figures of conversations that were lived again with two sets of parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from sash.core.counts.models.models import Model
from sash.core.law.records.parameters import WindowQuery
from sash_tools.replays.logged import Replayable
from sash_tools.replays.replayed import BilledRequest, Replayed
from sash_tools.sheet import Sheet


class RequestSums(msgspec.Struct):
    """The sums of all conversations' requests of one number: the first ones, the second ones, and so on."""

    requests: int = 0
    read: int = 0
    written: int = 0
    uncached: int = 0
    dollars: float = 0.0


class Totals(msgspec.Struct):
    """The figures of one set of parameters. ``dollars`` are None if a model's prices are unknown."""

    requests: int = 0
    refused: int = 0
    tokens: int = 0
    read: int = 0
    written: int = 0
    dollars: float | None = 0.0
    above_tier: int = 0
    cut: int = 0
    dropped: int = 0
    trimmed: int = 0
    questions: int = 0
    evidence: float = 0.0
    """The sum of the questions' shares."""
    steps: list[RequestSums] = msgspec.field(default_factory=list)
    why: str = ""
    """Why the first refused window could not be made."""

    @property
    def reuse(self) -> float:
        """The share of the tokens that the cache serves."""
        return self.read / self.tokens if self.tokens else 0.0

    @property
    def evidence_kept(self) -> float | None:
        """The mean share of a question's evidence in the window; None without questions."""
        return self.evidence / self.questions if self.questions else None

    def add(self, sent: BilledRequest, number: int) -> None:
        """Add a conversation's request of this number, from 0."""
        while len(self.steps) <= number:
            self.steps.append(RequestSums())
        step, billed = self.steps[number], sent.billed
        step.requests += 1
        step.read += billed.read
        step.written += billed.written
        step.uncached += billed.uncached
        step.dollars += sent.dollars or 0.0
        self.requests += 1
        self.tokens += sent.tokens
        self.read += billed.read
        self.written += billed.written
        self.dollars = None if self.dollars is None or sent.dollars is None else self.dollars + sent.dollars
        self.above_tier += sent.tier > 0
        self.cut += sent.dropped > 0
        self.dropped += sent.dropped
        self.trimmed += sent.trimmed

    def merge(self, other: "Totals") -> None:
        """Add another conversation's figures."""
        for name in ("requests", "refused", "tokens", "read", "written", "above_tier", "cut", "dropped", "trimmed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.questions += other.questions
        self.evidence += other.evidence
        self.dollars = None if self.dollars is None or other.dollars is None else self.dollars + other.dollars
        self.why = self.why or other.why
        for number, step in enumerate(other.steps):
            if number == len(self.steps):
                self.steps.append(RequestSums())
            own = self.steps[number]
            for name in RequestSums.__struct_fields__:
                setattr(own, name, getattr(own, name) + getattr(step, name))


def totals_of(found: Replayable, query: WindowQuery, models: Mapping[str, Model], advance: Callable[[], Any]) -> Totals:
    """The figures of one conversation; ``advance`` is called after each request. Raises Problem."""
    replayed, totals = Replayed(found.chat, query, models), Totals()
    for number, sent in enumerate(replayed.requests()):
        if isinstance(sent, BilledRequest):
            totals.add(sent, number)
        else:
            totals.refused += 1
            totals.why = totals.why or f"{found.chat.id}: {sent.why}"
        advance()
    for text, seqs in found.questions:
        totals.questions += 1
        totals.evidence += replayed.evidence(text, seqs)
    return totals


# ---- what is printed


def sheet(against: Totals, wanted: Totals, left_out: Mapping[str, int]) -> Sheet:
    """The table of both, and the change from the first to the second. ``left_out`` are conversations, by why."""
    rows = [
        ("requests", *_counts(against.requests, wanted.requests)),
        ("windows that do not fit", *_counts(against.refused, wanted.refused)),
        ("input tokens", *_counts(against.tokens, wanted.tokens)),
        ("read from the cache", *_counts(against.read, wanted.read)),
        ("written to the cache", *_counts(against.written, wanted.written)),
        ("reuse", *_shares(against.reuse, wanted.reuse)),
        ("dollars", *_dollars(against.dollars, wanted.dollars)),
        ("requests above a price tier", *_counts(against.above_tier, wanted.above_tier)),
        ("requests with history left out", *_counts(against.cut, wanted.cut)),
        ("messages left out", *_counts(against.dropped, wanted.dropped)),
        ("tool results shortened", *_counts(against.trimmed, wanted.trimmed)),
    ]
    if against.questions:
        kept = _shares(against.evidence_kept or 0.0, wanted.evidence_kept or 0.0)
        rows.append((f"evidence kept of {against.questions:,} questions", *kept))
    optional = {"windows that do not fit", "requests above a price tier", "tool results shortened"}
    shown = [row for row in rows if row[0] not in optional or row[1:3] != ("0", "0")]
    shown += [(f"conversations left out: {why}", f"{count:,}", f"{count:,}", "") for why, count in left_out.items()]
    return Sheet("", ("", "#against", "#set", "#change"), shown)


def _counts(before: int, after: int) -> tuple[str, str, str]:
    return f"{before:,}", f"{after:,}", _change(before, after)


def _shares(before: float, after: float) -> tuple[str, str, str]:
    return f"{before:.1%}", f"{after:.1%}", f"{100 * (after - before):+.1f} points"


def _dollars(before: float | None, after: float | None) -> tuple[str, str, str]:
    if before is None or after is None:
        return _price(before), _price(after), ""
    return _price(before), _price(after), _change(before, after)


def _price(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"{dollars:,.4f}"


def _change(before: float, after: float) -> str:
    return f"{after / before - 1:+.1%}" if before else ""


def as_json(totals: Totals) -> dict[str, Any]:
    """The figures as JSON, without those of single requests."""
    names: Sequence[str] = [name for name in Totals.__struct_fields__ if name not in ("steps", "evidence", "why")]
    found = {name: getattr(totals, name) for name in names}
    kept = totals.evidence_kept
    found["dollars"] = None if totals.dollars is None else round(totals.dollars, 9)
    return {**found, "reuse": round(totals.reuse, 6), "evidence_kept": None if kept is None else round(kept, 6)}
