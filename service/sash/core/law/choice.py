"""Chooses the parts and messages of a window, by all rules.

They are taken in this order:

1. The fixed parts: priming, system prompt, few-shots, tool definitions.
2. The required messages: system and developer messages, pinned messages, the newest user message, and the newest message
   with its tool group. If 1 and 2 do not fit, there is no window, and the problem has the cost of each part.
3. The newest question's documents, as many as fit.
4. History, from newest to oldest, in whole tool groups, until a unit does not fit (``overflow=skip`` skips the unit).

It uses records only: no body is decoded, and only a document that is being cut is tokenised. It gets a tail of the history.
If the tail is too short, it returns NeedOlder in place of a window, and is called again with more.
"""

from collections.abc import Sequence

import msgspec

from sash.core.counts.families import ASSISTANT, DEVELOPER, FUNCTION
from sash.core.counts.measures import Measure
from sash.core.counts.models import Model
from sash.core.law.binding import keeps_reasoning_from
from sash.core.law.caching import below_a_tier, caching_of, cut_length, most_tokens
from sash.core.law.documents import Documents
from sash.core.law.explain import does_not_fit, dropped, explain, left_out
from sash.core.law.fillers import came_in, filler_tokens, longest_opening, opening_tokens
from sash.core.law.fixed import Fixed, Line, fixed_costs, has_calls
from sash.core.law.lines import longest_lines
from sash.core.law.notes import longest_note, note_measure
from sash.core.law.parameters import WindowQuery
from sash.core.law.reasons import Reason
from sash.core.law.records import Summary
from sash.core.law.results import Edit
from sash.core.law.rhythm import cold_of
from sash.core.law.sending import (
    Trimming,
    begins_turn,
    dearer,
    is_turn_unknown,
    with_fillers,
    with_links,
    with_reasoning,
    without_thoughts,
)
from sash.core.law.stable import Before, Cut, Spared, cut_seq
from sash.core.law.view import History, View, view_history
from sash.core.law.walk import SKIP_HORIZON, Bounds, Walk, first_required, open_request, walk
from sash.core.law.window import ALL, Allowed, NeedOlder, Window, back_to, older
from sash.core.providers import PROVIDERS, binds_reasoning
from sash.problems import WindowDoesNotFit

BLOCK = 4
"""The size of a stable cut's block, in budgets. Larger blocks read more of a long history; smaller ones move the cut more
often."""


def choose(
    history: History,
    *,
    model: Model,
    budget: int,
    fixed: Fixed,
    options: WindowQuery,
    documents: Documents,
    place: str = "",
    aside: int = 0,
    allowed: Allowed = ALL,
) -> Window | NeedOlder:
    """The window by all rules, or NeedOlder. Arguments and problem are those of ``build_window``."""
    options = without_thoughts(options, model)
    view = None if is_turn_unknown(history, options) else view_history(history, model)
    if view is None:
        return older(history, budget)
    trimming = Trimming(model, options, place)
    view = _as_sent(view, trimming, fixed)
    line = _line_of(history, trimming, fixed) if options.stable and allowed.cut is None else None
    if isinstance(line, NeedOlder):
        return line
    always = view.always_costs()
    below = below_a_tier(options, model, budget)
    length = cut_length(options, model, budget)
    frame = _Frame(
        view, line or view, model, budget, fixed, options, documents, always, trimming, length, aside, allowed
    )
    frame = frame.with_cuts()
    if below < budget:
        try:
            return msgspec.structs.replace(frame, budget=below, is_priced=True).chosen()
        except WindowDoesNotFit:  # then history has no part of what is above the tier
            frame = msgspec.structs.replace(frame, spared=budget - below, is_priced=True)
    return frame.chosen()


def _as_sent(view: View, trimming: Trimming, fixed: Fixed) -> View:
    """The view with the costs of messages as they are sent."""
    model, options = trimming.model, trimming.options
    view = trimming.limited(with_reasoning(view, model, options))
    if PROVIDERS[options.format].tells_links:
        view = with_links(view, model)
    if PROVIDERS[options.format].fills:
        return with_fillers(view, model, options.format, has_system=bool(fixed.system))
    return view


def _line_of(history: History, trimming: Trimming, fixed: Fixed) -> View | NeedOlder | None:
    """The messages in the order of the log, on which a stable cut is found: what was appended stays in its place there.

    None if they are sent in this order. Lines in place of results count with the message that interrupted the calls, because
    they came with it; and while a late result is the newest message, its group counts with it.
    """
    order, model = history.order, trimming.model
    if order is None:
        return None
    view = view_history(order.original, model)
    if view is None:
        return older(order.original)
    view = _as_sent(view, trimming, fixed)
    lines = {seq: longest_lines(view.record(group[0]), calls, model) for seq, (group, calls) in order.brings.items()}
    brings = {seq: sum(map(view.cost_of, group)) + lines[seq] for seq, (group, _) in order.brings.items()}
    waited = {
        seq: longest_lines(view.record(caller), calls, model) for seq, (caller, calls) in order.interrupted.items()
    }
    return msgspec.structs.replace(dearer(view, waited), brings=brings)


class _Selected(msgspec.Struct, frozen=True):
    """The result of a walk, and the view that it saw. ``cut`` is where a stable cut lets history begin; ``opening`` are the
    tokens that the request costs more because its first message is the assistant's. ``noted``: it has room for a note."""

    taken: Walk
    view: View
    cut: Cut | None
    opening: int
    seqs: list[int]
    summary: Summary | None
    noted: bool


class _Frame(msgspec.Struct, frozen=True):
    """The arguments of one call of ``build_window``, which stay the same while a summary and a note are added."""

    view: View
    line: View
    """The messages in the order of the log."""
    model: Model
    budget: int
    fixed: Fixed
    options: WindowQuery
    documents: Documents
    always: dict[Reason, int]
    """Tokens of required messages, by reason."""
    trimming: Trimming
    length: int
    """The tokens of which a stable cut's steps are a share."""
    aside: int
    """Tokens that history leaves free, for recall."""
    allowed: Allowed
    spared: int = 0
    """Tokens above a price tier, which history leaves free: the required parts alone are above it."""
    is_priced: bool = False
    """Whether a price tier is below the budget, and decides where history ends."""

    def chosen(self) -> Window | NeedOlder:
        """The window, or NeedOlder. Raises WindowDoesNotFit."""
        options, history = self.options, self.view.history
        selected = self.select(history.summary if options.summary == "always" else None)
        # A summary or a note takes room, so the choice is made again with each.
        if isinstance(selected, _Selected) and self.wants_summary(selected):
            selected = self.select(history.summary)
        if isinstance(selected, _Selected) and options.note and len(selected.seqs) < (history.length + history.unseen):
            selected = self.select(selected.summary, noted=True)
            if isinstance(selected, _Selected) and self.wants_summary(selected):  # a covered message left for the note
                selected = self.select(history.summary, noted=True)
        return selected if isinstance(selected, NeedOlder) else self.window(selected)

    def with_cuts(self) -> "_Frame":
        """The frame with results cut that are larger than the window, or required and do not fit beside other parts."""
        view, history = self.view, self.view.history
        if view.units.single and not view.outside and FUNCTION not in history.records.roles:
            return self
        room = self._room(history.summary if self.options.summary == "always" else None) + sum(self.always.values())
        view = self.trimming.required(self.trimming.overlong(view, room), room, self._beside_messages)
        line = view if self.line is self.view else self.trimming.overlong(self.line, room)
        if view is self.view and line is self.line:
            return self
        return msgspec.structs.replace(self, view=view, line=line, always=view.always_costs())

    def select(self, summary: Summary | None, *, noted: bool = False) -> _Selected | NeedOlder:
        """Steps 1 to 4 of the module's docstring. Raises WindowDoesNotFit."""
        room = self._room(summary)
        if room < 0:
            raise self._refusal(summary)
        beside = room
        if noted:
            # A note's length depends on the number of messages that it names, so history leaves room for the longest note.
            # Required parts may use this room. If they do, the window has no note.
            beside = self._room(summary, longest_note(self.view.history.length + self.view.history.unseen))
            room = max(beside, min(room, self._beside_messages()))
        state = self._ask(summary, room)
        # Documents of required messages before the question may not take the opening's tokens.
        opened = self._least_opening() if self.options.grounding == "all" else 0
        held = min(state.room, self.aside + self.spared + opened)
        state.room -= held
        cut = self._cut(beside + sum(self.always.values()) - self.aside - self.spared - self._longest_opening())
        if isinstance(cut, NeedOlder):
            return cut
        # A stable window clears results when its cut moves and not before, so that its beginning stays.
        newest = self.view.history.length if cut is None else cut.since_seq
        view = self.trimming.cleared(self.view, newest)
        taken = walk(state, view, self._bounds(summary, cut), model=self.model, documents=self.documents)
        if taken.stop == "older":
            wanted, skipped = older(view.history, taken.room), taken.skipped_seq
            return NeedOlder(max(1, min(wanted.first_seq, skipped - SKIP_HORIZON))) if skipped else wanted
        if self.is_priced and taken.stop == "budget":
            taken.stop = taken.rest = "price"
        opening = self._open(taken, view)
        if opening > taken.room + held:
            raise self._refusal(summary)
        taken.room = max(0, taken.room - opening)
        return _Selected(taken, view, cut, opening, self._seqs(taken), summary, noted)

    def _open(self, taken: Walk, view: View) -> int:
        """The tokens that the request costs more because of its first message; leading few-shots are fixed costs."""
        return open_request(taken, view, self._opening) if self._is_opened() else 0

    def _is_opened(self) -> bool:
        """Whether the request costs more if the first message of the history is the assistant's."""
        if self.fixed.few_shots or not PROVIDERS[self.options.format].fills:
            return False
        summary = self.view.history.summary if self.options.summary == "always" else None
        return summary is None or summary.compaction is None

    def _longest_opening(self) -> int:
        return longest_opening(self.model, self.options.format) if self._is_opened() else 0

    def _opening(self, seq: int) -> int:
        """The tokens that the request costs more if message ``seq`` is its first, beside system messages."""
        form, record, role = self.options.format, self.view.record, self.view.history.role
        systems = [each for each in self.view.always_seqs() if role(each) <= DEVELOPER]
        is_beside = any(came_in(record(each).measure, form) for each in systems)
        if role(seq) != ASSISTANT and not is_beside:  # as nearly always
            return 0
        if seq != 1 and not is_beside:
            return filler_tokens(self.model)
        behind = range(seq + 1, self.view.history.length + 1) if seq >= self.view.history.first_seq else ()
        is_followed = next((role(each) for each in behind if role(each) > DEVELOPER), None) == ASSISTANT
        return opening_tokens(
            record(seq), self.model, form, is_oldest=seq == 1, is_beside_system=is_beside, is_followed=is_followed
        )

    def _beside_messages(self) -> int:
        """The tokens beside the required messages that a window of these alone needs: an opening, and whole documents."""
        return self._least_opening() + self._whole_documents()

    def _least_opening(self) -> int:
        """The additional tokens of a request that has the required messages alone and begins with the assistant."""
        first = first_required(self.view) if self._is_opened() else 0
        return self._opening(first) if 0 < first <= self.view.history.length else 0

    def _whole_documents(self) -> int:
        """The tokens of the newest question's documents if they may not be trimmed."""
        seq, documents = self.view.history.question, self.documents
        if not seq or self.options.grounding == "none" or documents.overflow != "error":
            return 0
        chosen = documents.choose(seq, self.model, 0)
        return documents.cost(self.view.record(seq), chosen, self.model) if chosen else 0

    def _refusal(self, summary: Summary | None) -> WindowDoesNotFit:
        """The problem with each part that a window must have, so that a budget of its ``needed`` is enough."""
        fixed = self._fixed_costs(self.view, _lines((summary,)), self._least_opening())
        return does_not_fit(self.budget, fixed, self.always, self._whole_documents())

    def _ask(self, summary: Summary | None, room: int) -> Walk:
        """Step 3: the newest question with its documents."""
        state = Walk(room=room, grounding={}, seen=set())
        seq = self.view.history.question
        chosen = None
        if seq and self.options.grounding != "none":
            chosen = self.documents.choose(seq, self.model, max(0, room - self._least_opening()))
        if chosen is None:
            return state
        cost = self.documents.cost(self.view.record(seq), chosen, self.model)
        if cost > room:
            raise self._refusal(summary)
        state.add_documents(seq, chosen, cost)
        return state

    def _cut(self, room: int) -> Cut | NeedOlder | None:
        """The stable cut; None without one. ``room`` is the budget minus the fixed parts, in tokens."""
        options, history = self.options, self.view.history
        if not options.stable or self.allowed.cut is not None:
            return self.allowed.cut
        length, step = self.length, self.length * options.stable_step
        found = cut_seq(
            self.line,
            room,
            step,
            BLOCK * length,
            model=self.model,
            documents=self.documents,
            mode=options.grounding,
            limit=options.tool_result_max_tokens,
            spared=self._spared(length, step) if options.price == "auto" else None,
        )
        if isinstance(found, Before):
            return back_to(self.line.history, found.place)
        since = history.since(found.since_seq) if found.since_seq else 0
        return Cut(history.since(found.seq), since, found.for_price)

    def _spared(self, length: int, step: float) -> Spared | None:
        """What ``price=auto`` leaves free; None for a model without a cache."""
        rules, history, below = caching_of(self.model), self.line.history, self.budget - self.spared
        if rules is None:
            return None
        asks = self.options.cache == "auto" and PROVIDERS[self.options.format].takes_marks(rules.kind)
        cold, often, told = cold_of(history.records, rules, whole=history.is_whole, asks=asks)
        most = most_tokens(rules, length, step, below)
        cold, is_deep = cold & told, often | most.is_cached  # what is not cached again may be short
        outgrown = below - most.in_a_tier if self.is_priced else 0
        return Spared(cold & is_deep, below - most.while_cold, cold & ~is_deep, below - most.briefly, told, outgrown)

    def _bounds(self, summary: Summary | None, cut: Cut | None) -> Bounds:
        """The bounds of history, and the options of the walk."""
        options, history = self.options, self.view.history
        is_told = history.covered and history.is_whole  # the messages that are not covered may be among older ones
        limit_seq = history.since(history.length - options.limit + 1) if options.limit else 1
        turns_seq = history.turn(options.turns) if options.turns else 1
        return Bounds(
            limit_seq=max(limit_seq, turns_seq, self.allowed.messages_seq),
            bytes_seq=self.allowed.bytes_seq,
            summary_seq=1 if not summary or is_told else summary.through_seq + 1,
            cut_seq=cut.seq if cut else 1,
            cut_for="price" if cut and cut.for_price else "budget",
            skip=options.overflow == "skip",
            dedupe=options.dedupe == "messages",
            user_first=options.start == "user",
            documents_everywhere=options.grounding == "all",
        )

    def wants_summary(self, selected: _Selected) -> bool:
        """Whether messages that the summary covers are left out, and the summary fits with the required parts."""
        summary = self.view.history.summary
        is_asked = self.options.summary == "auto" and selected.summary is None
        if not is_asked or summary is None or selected.taken.stop == "complete":
            return False
        covered = sum(1 for seq in selected.seqs if seq <= summary.through_seq)
        return covered < summary.through_seq and self._room(summary) >= self._beside_messages()

    def _seqs(self, taken: Walk) -> list[int]:
        """The seqs of the window's messages, ascending."""
        view = self.view
        first, starts = view.history.first_seq, view.units.starts
        indexes = sorted((*view.always, *taken.kept))
        whole = bool(indexes) and indexes[-1] - indexes[0] == len(indexes) - 1
        if whole and not view.outside:  # one run, as nearly always
            return list(range(first + starts[indexes[0]], first + starts[indexes[-1] + 1]))
        if not view.units.single:
            indexes = [i for index in indexes for i in range(starts[index], starts[index + 1])]
        return sorted(view.outside) + [first + index for index in indexes]

    def window(self, selected: _Selected) -> Window:
        """The window of the selected messages, with the note if it fits with the required parts."""
        taken, seqs, summary = selected.taken, selected.seqs, selected.summary
        missing = left_out(self.view, seqs, summary) if selected.noted else 0
        held = taken.spent + taken.taken + selected.opening
        noted = (
            missing
            if missing
            and self._room(summary, longest_note(self.view.history.length + self.view.history.unseen)) >= held
            else 0
        )
        lines = _lines((summary, note_measure(noted) if noted else None))
        # Remaining room extends the newest results again, if these were cut.
        view = self.trimming.grown(selected.view, taken.room)
        grounding = {seq: taken.grounding[seq] for seq in sorted(taken.grounding)}
        costs = self.documents.cost
        reasoning = {seq: view.reasoning[seq] for seq in seqs if seq in view.reasoning} if view.reasoning else {}
        compaction = summary if summary is not None and summary.compaction is not None else None
        stood = view.history.covered if compaction is not None else 0
        is_all = (
            taken.stop == "summary"
            if stood
            else taken.stop == "complete" and not lines and seqs[:1] == [view.history.beginning]
        )
        is_whole = (
            is_all and not (noted or self.allowed.is_lined) and not any(each.limit == 0 for each in view.edits.values())
        )
        fixed = self._fixed_costs(view, lines, selected.opening)
        accepted = 0
        if binds_reasoning(self.model.id):
            accepted = keeps_reasoning_from(
                view,
                model=self.model,
                options=self.options,
                documents=self.documents,
                room=self.budget - sum(fixed.values()),
                kept=frozenset((*view.always, *taken.kept)),
                is_whole=is_whole,
                # Recalled messages and a summary may be new, and then so is the text before the reasoning.
                cut=None if self.aside or (summary is not None and not stood) else selected.cut,
                stood=stood,
                since=self._since_compaction(seqs, compaction) if compaction else 0,
            )
            accepted = max(accepted, _behind_late(view.history), self.allowed.changed_seq + 1)
        sent = {seq: tokens for seq, tokens in reasoning.items() if seq >= accepted}
        tokens = {
            **fixed,
            "tools": self._tools_tokens(lines, seqs),
            "messages": taken.taken + sum(view.always_costs().values()) - sum(reasoning.values()),
            "grounding": sum(costs(view.record(seq), sent, self.model) for seq, sent in grounding.items()),
            "reasoning": sum(sent.values()),
        }
        left = {**view.reasoning_left, **{seq: each for seq, each in reasoning.items() if seq < accepted}}
        # Signatures go with ``reasoning=none``, except those of the newest turn, and where the model refuses the thoughts.
        unsigned = max(accepted, begins_turn(view.history) + 1 if self.options.reasoning == "none" else 0)
        without = {
            seq: msgspec.structs.replace(
                view.edits.get(seq, Edit()), without_reasoning=True, without_seals=seq < unsigned
            )
            for seq in seqs
            if seq in left
        }
        if (order := view.history.order) is not None and order.dropped:
            for seq in order.dropped.keys() & set(seqs):
                edit = without.get(seq) or view.edits.get(seq, Edit())
                without[seq] = msgspec.structs.replace(edit, without_calls=order.dropped[seq].calls)
        if (seen := view.history.seen) is not None:
            without |= {seq: Edit(only_text=True) for seq in seqs if view.history.numbered(seq) in seen.texts}
        return Window(
            budget=self.budget,
            seqs=seqs,
            grounding=grounding,
            summary=summary,
            note=noted,
            tokens={"total": sum(tokens.values()), **tokens},
            dropped={
                **dropped(view, taken, seqs, summary, grounding, self.model),
                "reasoning_tokens": sum(left.get(seq, 0) for seq in without),
            },
            stop_reason=taken.stop,
            explain=explain(view, taken, summary, sent, left) if self.options.explain else None,
            edits={**{seq: view.edits[seq] for seq in seqs if seq in view.edits}, **without} if view.edits else without,
            place=self.trimming.place,
            cut=selected.cut if selected.cut is not None and selected.cut.since_seq else None,
            passed=_passed(taken, view) if taken.reasons else frozenset(),
        )

    def _since_compaction(self, seqs: list[int], summary: Summary) -> int:
        """The first place that was written in a window with the compaction and what is sent between it and its reply.

        The reply that the compaction came with was written right behind it.
        """
        history = self.view.history
        stands = history.covered
        between = [seq for seq in seqs if history.numbered(seq) <= stands and history.role(seq) > DEVELOPER]
        asked = history.question + 1 if self.aside else 0  # another question had other recalled messages before it
        if not (between or self.fixed.few_shots):
            return asked
        if not summary.seq:  # it was put at an unknown time
            return history.length + 1
        behind = range(history.since(max(history.first_seq, stands + 1)), history.length + 1)
        return max(asked, next((seq for seq in behind if history.role(seq) != ASSISTANT), history.length + 1))

    def _tools_tokens(self, lines: Sequence[Line], seqs: list[int]) -> int:
        """The tokens of definitions. Where one stands in for tools, it is sent beside calls alone."""
        beside = (*(line.measure for line in lines), *self._leading(seqs))
        record = self.view.history.record
        stands_in = PROVIDERS[self.options.format].stand_in_tool is not None
        calls = stands_in and any(has_calls(record(seq).measure) for seq in seqs)
        return self.fixed.tools_tokens(self.model, beside, calls=calls)

    def _leading(self, seqs: list[int]) -> list[Measure]:
        """Measures of the messages on which the cost of definitions may depend: the first, and system messages."""
        if not self.fixed.defines(self.options.format) or not seqs:
            return []
        leading = {
            seqs[0],
            *(seq for seq in self.view.always_seqs() if self.view.history.role(seq) <= DEVELOPER),
        }
        return [self.view.record(seq).measure for seq in sorted(leading)]

    def _fixed_costs(self, view: View, lines: tuple[Line, ...], opening: int = 0) -> dict[str, int]:
        costs = fixed_costs(view, self.model, self.fixed, lines, self.options.format)
        return {**costs, "priming": costs["priming"] + opening} if opening else costs

    def _room(self, *lines: Measure | Summary | None) -> int:
        """The budget minus the required parts and these lines, in tokens; negative if they do not fit."""
        return self.budget - sum(self._fixed_costs(self.view, _lines(lines)).values()) - sum(self.always.values())


def _behind_late(history: History) -> int:
    """The first place behind all late results. Reasoning before it was made while they were not in the window."""
    late = history.order.late if history.order is not None else ()
    return history.since(max(map(history.numbered, late)) + 1) if late else 0


def _passed(taken: Walk, view: View) -> frozenset[int]:
    """The seqs of the units that the walk passed over although they would fit, or although it kept older ones."""
    first, starts = view.history.first_seq, view.units.starts
    oldest = taken.kept[-1] if taken.kept else len(view.units)
    units = (
        index for index, why in taken.reasons.items() if index > oldest or why in (Reason.UNANSWERED, Reason.DUPLICATE)
    )
    return frozenset(first + i for index in units for i in range(starts[index], starts[index + 1]))


def _lines(given: tuple[Measure | Summary | None, ...]) -> tuple[Line, ...]:
    return tuple(
        Line(line.measure, line.said) if isinstance(line, Summary) else Line(line) for line in given if line is not None
    )
