"""Chooses the parts and messages of a window, by all rules.

They are taken in this order:

1. The fixed parts: priming, system prompt, few-shots, tool definitions.
2. The required messages: system and developer messages, pinned messages, the newest user message, and the newest message
   with its tool group. If 1 and 2 do not fit, there is no window, and the problem has the cost of each part.
3. The newest question's documents, as many as fit.
4. History, from newest to oldest, in whole tool groups, until a unit does not fit (``overflow=skip`` skips the unit).

It uses records only: no body is decoded, and only a document that is being cut is tokenised.
"""

import msgspec

from sash.core.counts.costs.counting import reference_tokens
from sash.core.law.documents.grounding import Grounded
from sash.core.law.fixed_parts.fixed_costs import costs_beside, tools_beside
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.fillers import longest_opening, opening_tokens
from sash.core.law.history.notes import Line, longest_note, note_line
from sash.core.law.history.order import last_reply
from sash.core.law.history.view import NOTHING, History, View, since, view_history
from sash.core.law.lazily import lazy
from sash.core.law.records.costs import reference_costs
from sash.core.law.records.figures import NOTHING_DROPPED, Dropped, WindowTokens
from sash.core.law.records.need_older import NeedOlder, older
from sash.core.law.records.reasons import Reason
from sash.core.law.selection.binding import accepted_of
from sash.core.law.selection.cutting import cleared, grown, overlong_cut, required_cut
from sash.core.law.selection.explain import does_not_fit, explain
from sash.core.law.selection.sending import as_sent, edits_of, in_log_order, is_turn_unknown
from sash.core.law.selection.stable import Cut, cut_seq
from sash.core.law.selection.walk import SKIP_HORIZON, Walk, first_required, firsts_of, walk
from sash.core.law.selection.window import ALL, Allowed, Window
from sash.core.stored.stored_summary import Summary
from sash.problems import WindowDoesNotFit

BLOCK = 4
"""The size of a stable cut's block, in budgets. Larger blocks read more of a long history; smaller ones move the cut more
often."""
_replace = msgspec.structs.replace


def choose(spec: WindowSpec, history: History, allowed: Allowed) -> Window | NeedOlder:
    """The window by all rules inside what is ``allowed``, or NeedOlder. The problem is that of ``build_window``."""
    plan = spec.plan
    view = None if history.records.front and is_turn_unknown(history, plan.query) else view_history(history, plan.model)
    if view is None:
        return older(plan.budget)
    if plan.is_dearer or history.records.details:
        view = as_sent(view, spec)
    summary = history.summary if plan.query.summary == "always" else None
    goes_on = last_reply(view) if plan.going_on else None
    choice = _Choice(spec, allowed, view, plan.budget, summary, goes_on)
    if not view.units.single or view.units.front:
        choice = choice.with_cuts()
    if plan.below_a_tier < plan.budget:
        try:
            return _replace(choice, budget=plan.below_a_tier).chosen()
        except WindowDoesNotFit:  # then history has no part of what is above the tier
            choice = _replace(choice, spared=plan.budget - plan.below_a_tier)
    return choice.chosen()


class _Choice(msgspec.Struct, frozen=True, dict=True):
    """What stays the same while a window is chosen, and chosen again with a summary and a note."""

    spec: WindowSpec
    allowed: Allowed
    view: View
    budget: int
    """That of the plan, or what is below a price tier."""
    summary: Summary | None
    """The summary, if every window has it."""
    goes_on: int | None
    """The row of a reply at the end of a request that may not end with one: a line stands behind it. None without one."""
    spared: int = 0
    """Tokens above a price tier, which history leaves free: the required parts alone are above it."""

    def chosen(self) -> Window | NeedOlder:
        """The window, or NeedOlder. Raises WindowDoesNotFit."""
        options, history = self.spec.plan.query, self.view.history
        taken = self.select(self.summary, noted=False)
        # A summary or a note takes room, so the choice is made again with each.
        while (options.note or history.summary is not None) and isinstance(taken, Walk):
            if options.summary == "auto" and self.wants_summary(taken):
                taken = self.select(history.summary, noted=taken.noted)
            elif options.note and not taken.noted and len(taken.rows) < history.length:
                taken = self.select(taken.summary, noted=True)
            else:
                break
        if isinstance(taken, NeedOlder):
            return taken
        if taken.noted and (note := self._note(taken)):
            taken.note, line = note, note_line(note, self.spec.plan.model.vocabulary)
            taken.fixed = self._fixed(taken.summary, line).plus("priming", taken.opening)
        return self.composed(taken)

    def with_cuts(self) -> "_Choice":
        """The choice with results cut that are larger than the window, or required and do not fit beside other parts."""
        spec, room = self.spec, self._room_of_results
        view = required_cut(overlong_cut(self.view, spec, room), spec, room, self._beside_messages)
        return self if view is self.view else _replace(self, view=view)

    @property
    def _room_of_results(self) -> int:
        """The tokens by which results are cut: the plan's budget minus the fixed parts and the summary of every window."""
        return self.spec.plan.budget - self._fixed(self.summary).total

    def select(self, summary: Summary | None, *, noted: bool) -> Walk | NeedOlder:
        """Steps 1 to 4 of the module's docstring. Raises WindowDoesNotFit."""
        plan, view, fixed = self.spec.plan, self.view, self._fixed(summary)
        room, history = self.budget - fixed.total, view.history
        is_bounded = plan.is_bounded or self.allowed is not ALL or summary is not None or self.spec.documents.sources
        if plan.adds_up and not is_bounded and history.tokens <= room and view.is_whole:
            rows = range(len(history.records.roles))
            return Walk(view, (), fixed, room - history.tokens, history.tokens, kept=rows, rows=rows)
        costs = view.of_units(plan.around)
        required = sum(map(costs.__getitem__, view.required))
        if required > room:
            raise self._refusal(summary)
        taken = Walk(view, costs, fixed, room - required, required, cut=self.allowed.cut, summary=summary, noted=noted)
        if is_bounded and (need := self._bound(taken)) is not None:
            return need
        walk(taken)
        if taken.stop == "older":
            skips = 0 if taken.skipped is None else history.records.front - (taken.skipped - SKIP_HORIZON)
            return NeedOlder(max(older(taken.room).messages, skips))
        if taken.stop == "budget" and plan.below_a_tier < plan.budget:
            taken.stop = taken.rest = "price"
        if plan.is_opened and self._is_opened:  # leading few-shots are fixed costs
            self._open(taken)
        taken.rows = taken.kept if view.units.single else view.units.members(taken.kept)
        taken.left_out = history.length - len(taken.rows) - (summary is not None and summary.is_message)
        return taken

    def composed(self, taken: Walk) -> Window:
        """The window of a walk: its figures, the edits of its messages, and what it leaves out."""
        spec, plan, view, rows, summary = self.spec, self.spec.plan, taken.view, taken.rows, taken.summary
        history, seqs, fixed, goes_on = view.history, view.history.seqs, taken.fixed, self.goes_on
        thoughts, left, accepted, edits, dropped = view.thoughts, (), 0, NOTHING, NOTHING_DROPPED
        if view.edits:  # remaining room extends the newest results again
            view = grown(view, spec, taken.room)
            taken.view, taken.cost = view, taken.cost + int((view.costs - taken.view.costs).sum())
        total = fixed.total + taken.cost + taken.spent
        tokens = _replace(fixed, total=total, messages=taken.cost, grounding=taken.spent)
        if thoughts is not None:
            tokens = tokens.plus("messages", -int(thoughts.sent[rows].sum()))
            thoughts, accepted = accepted_of(thoughts, taken, spec, self.allowed, self.budget - fixed.total)
            tokens, left = tokens.plus("reasoning", int(thoughts.sent[rows].sum())), thoughts.left[rows].tolist()
        if taken.note or summary is not None or plan.stands_in or view.systems:
            note = note_line(taken.note, plan.model.vocabulary) if taken.note else None
            tokens = tokens.plus("tools", tools_beside(view, plan, rows, (summary, note)) - tokens.tools)
        if taken.left_out or left or history.grounding_messages:
            dropped = self._dropped(taken, sum(left))
        if left or view.edits or history.order is not None or history.seen is not None:
            edits = edits_of(view, rows, left, accepted, plan.query)
        sent, question = seqs, seqs[history.asked] if history.asked >= 0 else 0
        if len(rows) < len(seqs):
            sent = seqs[rows.start : rows.stop] if isinstance(rows, range) else [*map(seqs.__getitem__, rows)]
        grounding = dict(sorted(taken.grounding.items())) if taken.grounding else NOTHING
        return Window(  # Python makes a dict first where a call has more than fifteen keywords
            self.budget,
            rows,
            sent,
            question,
            tokens,
            dropped,
            taken.stop,
            summary,
            taken.note,
            grounding,
            edits,
            explain=explain(taken, thoughts) if plan.query.explain else None,
            is_moved=history.order is not None,
            path=spec.path,
            opening=taken.opening,
            cut=taken.cut if taken.cut is not None and taken.cut.since is not None else None,
            passed=taken.passed if taken.reasons else frozenset(),
            goes_on=seqs[goes_on] if goes_on is not None and goes_on in rows else 0,
        )

    def _dropped(self, taken: Walk, reasoning: int) -> Dropped:
        """The parts of the history that the window leaves out."""
        history, left_out, sent, summary = taken.view.history, taken.left_out, taken.grounding.values(), taken.summary
        tokens = taken.cost
        if left_out and (history.records.details or not self.spec.plan.adds_up):
            tokens = int(reference_costs(history.records, history.column)[[*taken.rows]].sum())
        if summary is not None and summary.is_message:
            tokens += reference_tokens(summary.measure)[history.column]
        gone, said_again = history.tokens - tokens, [*taken.reasons.values()].count(Reason.DUPLICATE)
        documents, without = history.grounding_tokens, history.grounding_messages - len(sent)
        if sent:
            documents = max(0, documents - sum(each.tokens for each in sent))
        return Dropped(left_out, gone if left_out else 0, said_again, without, documents, reasoning, 0, 0, 0)

    def _bound(self, taken: Walk) -> NeedOlder | None:
        """Take what else needs room, and find where history may begin. Raises WindowDoesNotFit."""
        spec, options, view = self.spec, self.spec.plan.query, self.view
        beside = self.budget - taken.fixed.total
        if taken.noted:
            # A note's length depends on the number of messages that it names, so history leaves room for the longest note.
            # Required parts may use this room. If they do, the window has no note.
            beside = self._room(taken.summary, self._longest_note())
            taken.room = max(beside - taken.cost, min(taken.room, self._beside_messages()))
        if spec.plan.picks:
            taken.skip, taken.user_first = options.overflow == "skip", options.start == "user"
            taken.dedupe = options.dedupe == "messages" and view.history.records.repeats()
            taken.documents = spec.documents if options.grounding == "all" else None
        if spec.documents.sources:
            self._ask(taken)
        recall_reserve = spec.recall_reserve + self.spared
        # Documents of required messages before the question may not take the opening's tokens.
        taken.held = min(taken.room, recall_reserve + (self._least_opening if taken.documents is not None else 0))
        taken.room -= taken.held
        if options.stable and taken.cut is None:
            found = self._cut(beside - recall_reserve)
            if isinstance(found, NeedOlder):
                return found
            taken.cut = found
        if options.tool_results_kept is not None:  # old results become lines when a stable cut moves, and not before
            newest = taken.cut.since if taken.cut is not None else len(view.history.records) - 1
            taken.view = cleared(view, spec, -1 if newest is None else newest)
            taken.costs = taken.view.of_units(spec.plan.around)
        taken.firsts = firsts_of(view.history, options, self.allowed, taken)
        return None

    def _open(self, taken: Walk) -> None:
        """Make room for the tokens that the request costs more because of its first message.

        The oldest kept units are taken away until they fit. Raises WindowDoesNotFit.
        """
        must, view = first_required(taken.view), taken.view
        while True:
            oldest = taken.oldest
            taken.opening = self._opening(min(must, view.units.starts[oldest]))
            if taken.opening <= taken.room or oldest == len(view.units):
                break
            taken.take_away(oldest, Reason.TOO_LARGE)
            taken.rest, taken.stop = taken.rest or taken.stop, "budget"
        if taken.opening > taken.room + taken.held:
            raise self._refusal(taken.summary)
        taken.fixed, taken.room = taken.fixed.plus("priming", taken.opening), max(0, taken.room - taken.opening)

    @lazy
    def _is_opened(self) -> bool:
        """Whether the request costs more if the first message of the history is the assistant's."""
        return self.spec.plan.is_opened and (self.summary is None or self.summary.compaction is None)

    def _opening(self, row: int) -> int:
        """The tokens that the request costs more if the message of a row is its first, beside system messages."""
        is_any = row < len(self.view.history.records)
        return opening_tokens(self.view, row, self.spec.plan.model) if is_any else 0

    def _beside_messages(self) -> int:
        """The tokens beside the required messages that a window of these alone needs: an opening, and whole documents."""
        return self._least_opening + self._whole_documents()

    @lazy
    def _least_opening(self) -> int:
        """The additional tokens of a request that has the required messages alone and begins with the assistant."""
        return self._opening(first_required(self.view)) if self._is_opened else 0

    def _whole_documents(self) -> int:
        """The tokens of the newest question's documents if they may not be trimmed."""
        chosen = self._asked_documents(0) if self.spec.documents.overflow == "error" else None
        return chosen.cost if chosen else 0

    def _asked_documents(self, room: int) -> Grounded | None:
        """The newest question's documents that fit the room."""
        spec, history, asked = self.spec, self.view.history, self.view.history.asked
        if asked < 0 or spec.plan.query.grounding == "none":
            return None
        return spec.documents.choose(history.seqs[asked], history.records[asked], spec.plan.model, room)

    def _refusal(self, summary: Summary | None) -> WindowDoesNotFit:
        """The problem with each part that a window must have, so that a budget of its ``needed`` is enough."""
        fixed = self._fixed(summary).plus("priming", self._least_opening).parts
        required = {why.part: cost for why, cost in self.view.required_costs().items()}
        return does_not_fit(self.budget, {**fixed, **required, "grounding": self._whole_documents()})

    def _ask(self, taken: Walk) -> None:
        """Step 3: the newest question with its documents. Raises WindowDoesNotFit."""
        chosen = self._asked_documents(max(0, taken.room - self._least_opening))
        if chosen is not None and chosen.cost > taken.room:
            raise self._refusal(taken.summary)
        if chosen is not None:
            taken.add_documents(self.view.history.asked, chosen)

    def _cut(self, room: int) -> Cut | NeedOlder:
        """The stable cut. ``room`` is the budget minus the fixed parts, in tokens."""
        spec, options, history = self.spec, self.spec.plan.query, self.view.history
        # These are kept free in each window with a stable cut.
        room -= longest_opening(spec.plan.model) if self._is_opened else 0
        room -= spec.plan.going_on if self.goes_on is None else 0
        length = max(1, spec.plan.below_a_tier)
        logged = self.view if history.order is None else self._logged
        if logged is None:
            return older()
        found = cut_seq(logged, room, length * options.stable_step, BLOCK * length, spec)
        if isinstance(found, NeedOlder) or history.order is None:
            return found
        seqs = history.order.original.seqs
        row = since(history, seqs[found.row]) if found.row < len(seqs) else found.row
        return Cut(row, None if found.since is None else since(history, seqs[found.since]))

    @lazy
    def _logged(self) -> View | None:
        """The messages in the order of the log, where they are sent in another one; None if older ones are needed."""
        order = self.view.history.order
        view = in_log_order(order, self.spec) if order is not None else None
        return view and overlong_cut(view, self.spec, self._room_of_results)

    def wants_summary(self, taken: Walk) -> bool:
        """Whether messages that the summary covers are left out, and the summary fits with the required parts."""
        history, summary = self.view.history, self.view.history.summary
        if summary is None or taken.summary is not None or taken.stop == "complete":
            return False
        behind, front = since(history, summary.through_seq + 1), history.records.front
        before = sum(history.seqs[row] <= summary.through_seq if row < front else row < behind for row in taken.rows)
        needed = sum(map(taken.costs.__getitem__, self.view.required)) + self._beside_messages()
        return before < behind - history.oldest_bound and self._room(summary) >= needed

    def _note(self, taken: Walk) -> int:
        """The number of messages in the note; 0 without a note."""
        held = taken.spent + taken.cost + taken.opening
        return taken.left_out if taken.left_out and self._room(taken.summary, self._longest_note()) >= held else 0

    def _longest_note(self) -> Line:
        return longest_note(self.view.history.length, self.spec.plan.model.vocabulary)

    def _room(self, *lines: Line | Summary | None) -> int:
        """The budget minus the fixed parts and these lines, in tokens."""
        return self.budget - self._fixed(*lines).total

    def _fixed(self, *lines: Line | Summary | None) -> WindowTokens:
        """Tokens of the fixed parts beside a summary and a note, with the line behind a reply at the end."""
        plan, fixed = self.spec.plan, self.spec.plan.bare_costs
        if any(lines) or self.view.systems or plan.bare_calls:
            fixed = costs_beside(self.view, plan, [line for line in lines if line is not None])
        return fixed if self.goes_on is None else fixed.plus("priming", plan.going_on)
