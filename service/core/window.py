"""build_window: what is kept, and what goes.

The law, in the order in which it is applied:

1. The fixed parts: priming, system prompt, few-shots, tool definitions.
2. What is always in: system and developer messages, pinned messages, the newest user message, the newest message with
   its tool group. If 1 and 2 do not fit there is no window, and the problem says what each costs.
3. The newest question's documents, as far as they fit.
4. History, newest to oldest, tool groups whole, until a unit does not fit (or over it, with ``overflow=skip``).

It works on records alone: no body is opened, nothing is tokenised but a document that is being cut. It sees a tail of the
history; when that is too short to decide, it answers NeedOlder instead of a window, and is asked again with more.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from service.core.counting import ROLES, Measure, message_tokens, priming_tokens, reference_tokens, tools_tokens
from service.core.documents import Documents
from service.core.grounding import Grounded
from service.core.models import Model
from service.core.notes import most_note_tokens, note_tokens
from service.core.records import Record, Summary
from service.core.stable import Span, stable_cut
from service.core.units import DEVELOPER, SYSTEM, USER
from service.core.view import History, View, view_history
from service.core.walk import Bounds, Walk, walk
from service.problems import WindowDoesNotFit

_MORE = 64
"""Messages asked for beyond what the room suggests, when a tail was too short."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a window is wanted; the defaults are the contract's."""

    limit: int | None = None
    overflow: Literal["stop", "skip"] = "stop"
    grounding: Literal["latest", "all", "none"] = "latest"
    dedupe: Literal["grounding", "messages", "none"] = "grounding"
    stable: bool = False
    stable_step: float = 0.25
    start: Literal["any", "user"] = "any"
    summary: Literal["auto", "never", "always"] = "auto"
    note: bool = False
    explain: bool = False


class Fixed(msgspec.Struct, frozen=True):
    """What is in every window whatever its history: measures of the messages, and the tool definitions."""

    system: tuple[Measure, ...] = ()
    few_shots: tuple[Measure, ...] = ()
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None

    def tools_tokens(self, model: Model, messages: Sequence[Measure]) -> int:
        """Tokens of the definitions in a request that begins with the fixed parts and goes on with ``messages``."""
        if not self.tools:
            return 0
        among = (*self.system, *self.few_shots, *messages)
        if model.rules.joins_leading_system:
            among = among[:1]
        first = next((measure for measure in among if measure.role in (SYSTEM, DEVELOPER)), None)
        return tools_tokens(model, tools=self.tools, tool_choice=self.tool_choice, first_system=first)


class NeedOlder(msgspec.Struct, frozen=True):
    """The tail was too short: ask again with messages from ``first_seq`` on."""

    first_seq: int


class Explained(msgspec.Struct, frozen=True):
    """Why a message is in the window, or is not."""

    seq: int
    role: str
    tokens: int
    kept: bool
    reason: str


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: seqs ascending, documents by seq, and the figures of the contract."""

    budget: int
    seqs: list[int]
    grounding: Mapping[int, Grounded]
    summary: Summary | None
    note: int
    """How many messages the note speaks of; 0 without a note."""
    tokens: Mapping[str, int]
    dropped: Mapping[str, int]
    stop_reason: str
    explain: list[Explained] | None


def build_window(
    history: History, *, model: Model, budget: int, fixed: Fixed, options: Options, documents: Documents
) -> Window | NeedOlder:
    """The window of ``budget`` tokens, or NeedOlder.

    Raises:
        WindowDoesNotFit: what must be in is over the budget; the problem carries each cost and the shortfall.
    """
    view = view_history(history, model)
    if view is None:
        return _older(history, budget)
    costs = _fixed_costs(view, model, fixed)
    summary = history.summary if options.summary == "always" else None
    note: int | None = None
    while True:
        costs["summary"] = (message_tokens(summary.measure, model) if summary else 0) + (note or 0)
        taken = _select(view, model, budget, costs, options, documents, summary)
        if taken.stop == "older":
            return _older(history, taken.room)
        left_out = history.length - len(_kept_seqs(view, taken))
        if summary is None and options.summary == "auto" and _covers(view, taken, budget, costs, model):
            summary = history.summary
        elif options.note and note is None and left_out:
            # A line that would cost a message that must be in is not worth it.
            free = budget - sum(costs.values()) - sum(view.always_costs().values())
            note = most_note_tokens(history.length, model)
            note = note if note <= free else 0
        else:
            return _window(
                view, taken, model, budget, costs, fixed, options, documents, summary, left_out if note else 0
            )


def _older(history: History, room: int) -> NeedOlder:
    """Ask for as much as fills the room at the tail's own rate, at least as much again as was read."""
    read = len(history.records)
    return NeedOlder(max(1, history.first_seq - max(read, _MORE, room // 16)))


def _fixed_costs(view: View, model: Model, fixed: Fixed) -> dict[str, int]:
    """Tokens of what must be in, by name.

    What tool definitions cost may depend on the message that leads the request, which is known only at the end where
    no fixed message does: until then they are charged as for the dearer of the two beginnings.
    """
    systems = [measure for measure in _always_measures(view) if measure.role <= DEVELOPER]
    tools = fixed.tools_tokens(model, systems)
    if model.rules.joins_leading_system:
        tools = max(tools, fixed.tools_tokens(model, ()))
    return {
        "priming": priming_tokens(model),
        "system": sum(message_tokens(measure, model) for measure in fixed.system),
        "few_shots": sum(message_tokens(measure, model) for measure in fixed.few_shots),
        "tools": tools,
        "summary": 0,
    }


def _always_measures(view: View) -> list[Measure]:
    before = [view.history.outside[seq].measure for seq in sorted(view.outside)]
    return before + [view.history.records[view.units[index].start].measure for index in sorted(view.always)]


def _select(
    view: View,
    model: Model,
    budget: int,
    costs: Mapping[str, int],
    options: Options,
    documents: Documents,
    summary: Summary | None,
) -> Walk:
    """Steps 2 to 4 of the law. Raises WindowDoesNotFit."""
    history = view.history
    always = view.always_costs()
    room = budget - sum(costs.values()) - sum(always.values())
    if room < 0:
        raise _does_not_fit(budget, {name: cost for name, cost in costs.items() if cost}, always)
    seen: set[str] = set()
    asked = None
    if options.grounding != "none":
        asked = documents.choose(history.question, model, room, seen)
    if asked is not None:
        room -= documents.cost(_question(history), asked, model)
    cut_seq = _cut_seq(view, budget - sum(costs.values()), budget, model, options, documents) if options.stable else 1
    if cut_seq is None:
        return Walk(kept=[], room=room, stop="older", grounding={}, seen=seen, duplicates=0, reasons={})
    bounds = Bounds(
        limit_seq=history.length - options.limit + 1 if options.limit else 1,
        summary_seq=summary.through_seq + 1 if summary else 1,
        cut_seq=cut_seq,
        skip=options.overflow == "skip",
        dedupe=options.dedupe == "messages",
        user_first=options.start == "user",
        documents_everywhere=options.grounding == "all",
    )
    taken = walk(view, room, bounds, model=model, documents=documents, seen=seen)
    if asked is not None:
        taken.grounding[history.question] = asked
    return taken


def _question(history: History) -> Record:
    """The record of the newest user message."""
    if history.question >= history.first_seq:
        return history.records[history.question - history.first_seq]
    return history.outside[history.question]


def _does_not_fit(budget: int, fixed: Mapping[str, int], always: Mapping[str, int]) -> WindowDoesNotFit:
    needed = sum(fixed.values()) + sum(always.values())
    costs = {**fixed, **{f"{name} messages" if name != "question" else name: cost for name, cost in always.items()}}
    said = ", ".join(f"{name} {cost}" for name, cost in costs.items())
    return WindowDoesNotFit(
        f"What is always in the window costs {needed} tokens ({said}) and the budget is {budget}: {needed - budget} over.",
        members={"budget": budget, "needed": needed, "shortfall": needed - budget, "costs": costs},
    )


def _cut_seq(view: View, room: int, budget: int, model: Model, options: Options, documents: Documents) -> int | None:
    """Where a stable cut lets history begin; None when the tail is too short to tell.

    ``room`` is for history, questions and documents: the budget less the fixed parts.
    """
    history = view.history
    fixed = {index for index, why in view.always.items() if why not in ("question", "newest")}
    room -= sum(cost for seq, cost in view.outside.items() if seq != history.question)
    room -= sum(view.cost(view.units[index]) for index in fixed)

    def span(records: Sequence[Record], cost: int) -> Span:
        added = _documents_tokens(records[0], model, history.column, documents)
        return Span(
            cost=cost + (added if cost and options.grounding == "all" else 0),
            length=sum(reference_tokens(r.measure, parallel=r.parallel)[history.column] for r in records),
            documents=added if options.grounding == "latest" else 0,
            question=records[0].measure.role == USER,
        )

    spans = [
        span(history.records[unit.start : unit.end], 0 if index in fixed else view.cost(unit))
        for index, unit in enumerate(view.units)
    ]
    asked = None
    if history.question in view.outside:
        asked = span([history.outside[history.question]], view.outside[history.question])
    cut = stable_cut(
        spans,
        end=history.tokens,
        room=room,
        step=budget * options.stable_step,
        whole=history.first_seq == 1,
        asked=asked,
    )
    if cut is None:
        return None
    return history.length + 1 if cut == len(spans) else view.seq(view.units[cut])


def _documents_tokens(record: Record, model: Model, column: int, documents: Documents) -> int:
    """What a message's documents add at most, in the model's tokens."""
    if record.grounding is None:
        return 0
    tokens = math.ceil(record.grounding[column] * model.margin)
    return tokens if documents.max_tokens is None else min(tokens, documents.max_tokens)


def _covers(view: View, taken: Walk, budget: int, costs: Mapping[str, int], model: Model) -> bool:
    """Whether messages that the summary covers are left out, and it fits beside what must be in."""
    summary = view.history.summary
    if summary is None or taken.stop == "complete":
        return False
    kept = _kept_seqs(view, taken)
    if sum(1 for seq in kept if seq <= summary.through_seq) >= summary.through_seq:
        return False
    needed = sum(costs.values()) + sum(view.always_costs().values()) + message_tokens(summary.measure, model)
    return needed <= budget


def _kept_seqs(view: View, taken: Walk) -> list[int]:
    first = view.history.first_seq
    indexes = sorted((*view.always, *taken.kept))
    inside = [first + i for index in indexes for i in range(view.units[index].start, view.units[index].end)]
    return sorted(view.outside) + inside


def _window(
    view: View,
    taken: Walk,
    model: Model,
    budget: int,
    costs: Mapping[str, int],
    fixed: Fixed,
    options: Options,
    documents: Documents,
    summary: Summary | None,
    noted: int,
) -> Window:
    seqs = _kept_seqs(view, taken)
    line = (summary.measure,) if summary else ()
    grounding = {seq: taken.grounding[seq] for seq in sorted(taken.grounding)}
    kept = [view.record(seq) for seq in seqs]
    tokens = {
        **costs,
        "tools": fixed.tools_tokens(model, (*line, *(record.measure for record in kept))) if fixed.tools else 0,
        "summary": sum(message_tokens(measure, model) for measure in line)
        + (note_tokens(noted, model) if noted else 0),
        "messages": sum(view.cost_of(seq) for seq in seqs),
        "grounding": sum(documents.cost(view.record(seq), chosen, model) for seq, chosen in grounding.items()),
    }
    tokens = {"total": sum(tokens.values()), **tokens}
    return Window(
        budget=budget,
        seqs=seqs,
        grounding=grounding,
        summary=summary,
        note=noted,
        tokens=tokens,
        dropped=_dropped(view, taken, seqs, grounding),
        stop_reason=taken.stop,
        explain=_explain(view, taken) if options.explain else None,
    )


def _dropped(view: View, taken: Walk, seqs: Sequence[int], grounding: Mapping[int, Grounded]) -> dict[str, int]:
    """What the history has and the window has not, in messages and in reference tokens of the encoding."""
    history = view.history
    left = history.length - len(seqs)
    kept = [view.record(seq) for seq in seqs] if left else []
    return {
        "messages": left,
        "tokens": history.tokens - sum(reference_tokens(r.measure, parallel=r.parallel)[history.column] for r in kept)
        if left
        else 0,
        "duplicates": taken.duplicates,
        "grounding_messages": history.grounding_messages - len(grounding),
        "grounding_tokens": max(0, history.grounding_tokens - sum(chosen.tokens for chosen in grounding.values())),
    }


_REASONS = {
    "system": "always: system message",
    "developer": "always: developer message",
    "pinned": "always: pinned",
    "question": "always: newest user message",
    "newest": "always: newest message",
    "budget": "does not fit",
    "too large": "does not fit, skipped",
    "limit": "beyond the limit",
    "summary": "the summary stands for it",
    "duplicate": "said again later",
    "unanswered": "a call without its results",
    "start": "before the first user message",
}


def _explain(view: View, taken: Walk) -> list[Explained]:
    """One line a message considered: those of every window, and the tail."""
    kept = set(taken.kept)
    lines = [
        Explained(seq, ROLES[view.record(seq).measure.role], cost, kept=True, reason=_REASONS[view.why(seq)])
        for seq, cost in sorted(view.outside.items())
    ]
    for index, unit in enumerate(view.units):
        is_kept = index in view.always or index in kept
        reason = "fits" if index in kept else _REASONS[view.always.get(index) or taken.reasons.get(index, "budget")]
        for i in range(unit.start, unit.end):
            seq = view.history.first_seq + i
            lines.append(Explained(seq, ROLES[view.record(seq).measure.role], view.costs[i], is_kept, reason))
    return lines
