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
import numpy as np

from sash.core.counts.models.families import TOOL, USER
from sash.core.law.documents.grounding import Grounded
from sash.core.law.fixed_parts.fixed_costs import costs_beside
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.fillers import longest_opening, opening_tokens
from sash.core.law.history.lines import longest_lines
from sash.core.law.history.notes import Line, longest_note, note_line
from sash.core.law.history.order import last_reply
from sash.core.law.history.view import Costs, History, Order, View, since, view_history
from sash.core.law.lazily import lazy
from sash.core.law.records.figures import WindowTokens
from sash.core.law.records.need_older import NeedOlder, older
from sash.core.law.selection.composed import composed, left_out
from sash.core.law.selection.cutting import cleared, limited, overlong_cut, required_cut
from sash.core.law.selection.explain import does_not_fit
from sash.core.law.selection.sending import (
    is_turn_unknown,
    renamed_calls,
    with_fillers,
    with_links,
    with_reasoning,
)
from sash.core.law.selection.stable import Cut, cut_seq
from sash.core.law.selection.walk import SKIP_HORIZON, Stop, Walk, first_required, open_request, walk
from sash.core.law.selection.window import ALL, Allowed, Window
from sash.core.providers import PROVIDERS
from sash.core.stored.stored_summary import Summary
from sash.problems import WindowDoesNotFit

BLOCK = 4
"""The size of a stable cut's block, in budgets. Larger blocks read more of a long history; smaller ones move the cut more
often."""


def choose(spec: WindowSpec, history: History, allowed: Allowed) -> Window | NeedOlder:
    """The window by all rules inside what is ``allowed``, or NeedOlder. The problem is that of ``build_window``."""
    plan = spec.plan
    view = None if history.records.front and is_turn_unknown(history, plan.query) else view_history(history, plan.model)
    if view is None:
        return older(plan.budget)
    if plan.is_dearer or history.records.details:
        view = _as_sent(view, spec)
    logged = None
    if history.order is not None and plan.query.stable and allowed.cut is None:
        logged = _in_log_order(history.order, spec)
        if logged is None:
            return older()
    goes_on = last_reply(view) if plan.going_on else None
    choice = _Choice(spec, allowed, view, view.of_units(plan.around), plan.budget, logged, goes_on)
    if not view.units.single or view.units.front:
        choice = choice.with_cuts()
    if plan.below_a_tier < plan.budget:
        try:
            return msgspec.structs.replace(choice, budget=plan.below_a_tier).chosen()
        except WindowDoesNotFit:  # then history has no part of what is above the tier
            choice = msgspec.structs.replace(choice, spared=plan.budget - plan.below_a_tier)
    return choice.chosen()


def _as_sent(view: View, spec: WindowSpec) -> View:
    """The view with the costs of messages as they are sent."""
    model, options, parts, records = spec.plan.model, spec.plan.query, spec.plan.parts, view.history.records
    if records.details:
        view = with_reasoning(view, model, options)
    if options.tool_result_max_tokens is not None:
        view = limited(view, spec, options.tool_result_max_tokens)
    if PROVIDERS[model.format].tells_links:
        view = with_links(view, model)
    if PROVIDERS[model.format].fills:
        view = with_fillers(view, model, has_system=bool(parts.fixed.system))
    if view.systems and spec.plan.joint:
        view = view.dearer(dict.fromkeys(view.systems, spec.plan.joint))
    if TOOL in records.roles and spec.plan.bridge:
        questions = np.flatnonzero(np.frombuffer(records.roles, np.uint8) == USER).tolist()
        view = view.dearer(dict.fromkeys(questions, spec.plan.bridge))
    return view.dearer(renamed_calls(records, parts.names, model)) if parts.names else view


def _in_log_order(order: Order, spec: WindowSpec) -> View | None:
    """The messages in the order of the log, on which a stable cut is found: what was appended stays in its place there.
    None if older messages are needed.

    Lines in place of results count with the message that interrupted the calls, because they came with it; and while a late
    result is the newest message, its group counts with it.
    """
    model, records = spec.plan.model, order.original.records
    view = view_history(order.original, model)
    if view is None:
        return None
    view = _as_sent(view, spec)
    lines = {row: longest_lines(records[caller], model) for row, (caller, *_) in order.brings.items()}
    brings = {row: int(view.costs[group].sum()) + lines[row] for row, group in order.brings.items()}
    waited = {row: longest_lines(records[caller], model, calls) for row, (caller, calls) in order.interrupted.items()}
    return msgspec.structs.replace(view.dearer(waited), brings=brings)


class _Choice(msgspec.Struct, frozen=True, dict=True):
    """What stays the same while a window is chosen, and chosen again with a summary and a note."""

    spec: WindowSpec
    allowed: Allowed
    view: View
    costs: Costs
    budget: int
    """That of the plan, or what is below a price tier."""
    in_log_order: View | None = None
    """The messages in the order of the log; None where the view has them so."""
    goes_on: int | None = None
    """The row of a reply at the end of a request that may not end with one: a line stands behind it. None without one."""
    spared: int = 0
    """Tokens above a price tier, which history leaves free: the required parts alone are above it."""

    def chosen(self) -> Window | NeedOlder:
        """The window, or NeedOlder. Raises WindowDoesNotFit."""
        options, history = self.spec.plan.query, self.view.history
        taken = self.select(history.summary if options.summary == "always" else None, noted=False)
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
        return composed(taken, self.spec, self.allowed, self.budget, self.goes_on)

    def with_cuts(self) -> "_Choice":
        """The choice with results cut that are larger than the window, or required and do not fit beside other parts."""
        spec = self.spec
        summary = self.view.history.summary if spec.plan.query.summary == "always" else None
        room = self._room(summary)
        view = required_cut(overlong_cut(self.view, spec, room), spec, room, self._beside_messages)
        logged = self.in_log_order and overlong_cut(self.in_log_order, spec, room)
        if view is self.view and logged is self.in_log_order:
            return self
        return msgspec.structs.replace(self, view=view, in_log_order=logged, costs=view.of_units(spec.plan.around))

    def select(self, summary: Summary | None, *, noted: bool) -> Walk | NeedOlder:
        """Steps 1 to 4 of the module's docstring. Raises WindowDoesNotFit."""
        spec, plan, view = self.spec, self.spec.plan, self.view
        fixed, required = self._fixed(summary), sum(map(self.costs.of, view.required))
        room = self.budget - fixed.total - required
        if room < 0:
            raise self._refusal(summary)
        taken = Walk(view, self.costs, fixed, room, required, cut=self.allowed.cut, summary=summary, noted=noted)
        is_bounded = plan.is_bounded or self.allowed is not ALL or summary is not None or noted
        if is_bounded or self.spared or spec.recall_reserve or spec.documents is not plan.no_documents:
            need = self._bound(taken)
            if need is not None:
                return need
        walk(taken)
        if taken.stop == "older":
            skips = 0 if taken.skipped is None else view.history.records.front - (taken.skipped - SKIP_HORIZON)
            return NeedOlder(max(older(taken.room).messages, skips))
        if taken.stop == "budget" and (self.spared or self.budget < plan.budget):
            taken.stop = taken.rest = "price"
        if plan.is_opened and self._is_opened:  # leading few-shots are fixed costs
            self._open(taken)
        taken.rows = view.units.members(taken.units)
        return taken

    def _bound(self, taken: Walk) -> NeedOlder | None:
        """Take what else needs room, and find where history may begin. Raises WindowDoesNotFit."""
        spec, options, view = self.spec, self.spec.plan.query, self.view
        beside = self.budget - taken.fixed.total
        if taken.noted:
            # A note's length depends on the number of messages that it names, so history leaves room for the longest note.
            # Required parts may use this room. If they do, the window has no note.
            beside = self._room(taken.summary, self._longest_note())
            taken.room = max(beside - taken.cost, min(taken.room, self._beside_messages()))
        taken.skip, taken.user_first = options.overflow == "skip", options.start == "user"
        taken.dedupe = options.dedupe == "messages" and view.history.records.repeats()
        taken.documents = self._documents if options.grounding == "all" else None
        if spec.documents.sources:
            self._ask(taken)
        recall_reserve = spec.recall_reserve + self.spared
        # Documents of required messages before the question may not take the opening's tokens.
        taken.held = min(taken.room, recall_reserve + (self._least_opening if options.grounding == "all" else 0))
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
        taken.firsts = self._firsts(taken)
        return None

    def _open(self, taken: Walk) -> None:
        """Make room for the tokens that the request costs more because of its first message. Raises WindowDoesNotFit."""
        taken.opening = open_request(taken, self._opening)
        if taken.opening > taken.room + taken.held:
            raise self._refusal(taken.summary)
        taken.fixed, taken.room = taken.fixed.plus("priming", taken.opening), max(0, taken.room - taken.opening)

    @lazy
    def _is_opened(self) -> bool:
        """Whether the request costs more if the first message of the history is the assistant's."""
        if not self.spec.plan.is_opened:
            return False
        summary = self.view.history.summary if self.spec.plan.query.summary == "always" else None
        return summary is None or summary.compaction is None

    def _opening(self, row: int) -> int:
        """The tokens that the request costs more if the message of a row is its first, beside system messages."""
        return opening_tokens(self.view, row, self.spec.plan.model)

    def _beside_messages(self) -> int:
        """The tokens beside the required messages that a window of these alone needs: an opening, and whole documents."""
        return self._least_opening + self._whole_documents()

    @lazy
    def _least_opening(self) -> int:
        """The additional tokens of a request that has the required messages alone and begins with the assistant."""
        first = first_required(self.view) if self._is_opened else len(self.view.history.records)
        return self._opening(first) if first < len(self.view.history.records) else 0

    def _whole_documents(self) -> int:
        """The tokens of the newest question's documents if they may not be trimmed."""
        asked = self.view.history.asked
        if asked < 0 or self.spec.plan.query.grounding == "none" or self.spec.documents.overflow != "error":
            return 0
        chosen = self._documents(asked, 0)
        return chosen.cost if chosen else 0

    def _documents(self, row: int, room: int, state: Walk | None = None) -> Grounded | None:
        """A message's documents that fit the room, without those that the walk has already."""
        seen, spent = (state.seen, state.spent) if state else (frozenset(), 0)
        history = self.view.history
        return self.spec.documents.choose(
            history.seqs[row], history.records[row], self.spec.plan.model, room, seen, spent=spent
        )

    def _refusal(self, summary: Summary | None) -> WindowDoesNotFit:
        """The problem with each part that a window must have, so that a budget of its ``needed`` is enough."""
        fixed = self._fixed(summary).plus("priming", self._least_opening)
        return does_not_fit(self.budget, fixed.parts, self.view.required_costs(), self._whole_documents())

    def _ask(self, taken: Walk) -> None:
        """Step 3: the newest question with its documents. Raises WindowDoesNotFit."""
        asked, room = self.view.history.asked, taken.room
        if asked < 0 or self.spec.plan.query.grounding == "none":
            return
        chosen = self._documents(asked, max(0, room - self._least_opening))
        if chosen is not None and chosen.cost > room:
            raise self._refusal(taken.summary)
        if chosen is not None:
            taken.add_documents(asked, chosen)

    def _cut(self, room: int) -> Cut | NeedOlder:
        """The stable cut. ``room`` is the budget minus the fixed parts, in tokens."""
        spec, options, history = self.spec, self.spec.plan.query, self.view.history
        # These are kept free in each window with a stable cut.
        room -= longest_opening(spec.plan.model) if self._is_opened else 0
        room -= spec.plan.going_on if self.goes_on is None else 0
        length = max(1, spec.plan.below_a_tier)
        found = cut_seq(self.in_log_order or self.view, room, length * options.stable_step, BLOCK * length, spec)
        if isinstance(found, NeedOlder) or self.in_log_order is None:
            return found
        seqs = self.in_log_order.history.seqs
        row = since(history, seqs[found.row]) if found.row < len(seqs) else found.row
        return Cut(row, None if found.since is None else since(history, seqs[found.since]))

    def _firsts(self, taken: Walk) -> Sequence[tuple[Stop, int]]:
        """The first rows that history may have, each with the reason."""
        options, history, allowed, summary = self.spec.plan.query, self.view.history, self.allowed, taken.summary
        firsts: list[tuple[Stop, int]] = [] if taken.cut is None else [("budget", taken.cut.row)]
        if options.limit or options.turns or allowed.messages_row is not None:
            most = [self._limit_row(options.limit)] if options.limit else []
            most += [self._turn_row(options.turns)] if options.turns else []
            most += [allowed.messages_row] if allowed.messages_row is not None else []
            firsts.append(("limit", max(most)))
        if allowed.bytes_row is not None:
            firsts.append(("bytes", allowed.bytes_row))
        # The messages that are not covered may be among older ones.
        if summary is not None and not (history.covered and history.is_whole):
            firsts.append(("summary", since(history, summary.through_seq + 1)))
        return firsts

    def _limit_row(self, limit: int) -> int:
        """The first row whose unit has, or is behind, the first of so many newest messages of the log."""
        history = self.view.history
        row = len(history.records) - limit
        if history.order is None or row < history.records.front:
            return row
        return since(history, history.order.original.seqs[row])

    def _turn_row(self, count: int) -> int:
        """The row of the user's message that begins the last ``count`` turns.

        If it was not read, this is the bound of the newest question for one turn, and ``oldest_bound`` for more.
        """
        history = self.view.history
        row, roles = len(history.records), history.records.sent_roles
        for _ in range(count):
            row = roles.rfind(USER, history.records.front, row)
            if row < 0:
                is_before = count == 1 and history.asked >= 0
                return since(history, history.seqs[history.asked]) if is_before else history.oldest_bound
        return row

    def wants_summary(self, taken: Walk) -> bool:
        """Whether messages that the summary covers are left out, and the summary fits with the required parts."""
        history, summary = self.view.history, self.view.history.summary
        if summary is None or taken.summary is not None or taken.stop == "complete":
            return False
        behind, front = since(history, summary.through_seq + 1), history.records.front
        before = sum(history.seqs[row] <= summary.through_seq if row < front else row < behind for row in taken.rows)
        needed = sum(map(self.costs.of, self.view.required)) + self._beside_messages()
        return before < behind - history.oldest_bound and self._room(summary) >= needed

    def _note(self, taken: Walk) -> int:
        """The number of messages in the note; 0 without a note."""
        missing = left_out(self.view, len(taken.rows), taken.summary)
        held = taken.spent + taken.cost + taken.opening
        return missing if missing and self._room(taken.summary, self._longest_note()) >= held else 0

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
