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

from sash.core.counts.costs.counting import has_calls
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION
from sash.core.law.documents.grounding import Grounded
from sash.core.law.fixed_parts.conversation_settings import FixedParts
from sash.core.law.fixed_parts.fixed import Line
from sash.core.law.fixed_parts.fixed_costs import first_rows, fixed_costs
from sash.core.law.fixed_parts.window_spec import WindowSpec
from sash.core.law.history.fillers import came_in, longest_opening, opening_tokens
from sash.core.law.history.lines import longest_lines
from sash.core.law.history.notes import longest_note, note_measure
from sash.core.law.history.order import last_reply
from sash.core.law.history.renaming import renamed_calls
from sash.core.law.history.results import Edit
from sash.core.law.history.view import History, View, view_history
from sash.core.law.lazily import lazy
from sash.core.law.records.need_older import NeedOlder, older
from sash.core.law.records.reasons import Reason
from sash.core.law.records.records import Summary
from sash.core.law.selection.binding import accepted_from
from sash.core.law.selection.caching import below_a_tier, cut_length
from sash.core.law.selection.explain import does_not_fit, dropped, explain, left_out
from sash.core.law.selection.sending import (
    Trimming,
    begins_turn,
    dearer,
    is_turn_unknown,
    with_fillers,
    with_links,
    with_reasoning,
)
from sash.core.law.selection.stable import Before, Cut, cut_seq
from sash.core.law.selection.walk import SKIP_HORIZON, Bounds, Stop, Walk, first_required, open_request, walk
from sash.core.law.selection.window import Allowed, Selected, Window
from sash.core.providers import PROVIDERS, binds_reasoning
from sash.problems import WindowDoesNotFit

Lines = Sequence[Line | Summary | None]
BLOCK = 4
"""The size of a stable cut's block, in budgets. Larger blocks read more of a long history; smaller ones move the cut more
often."""


def choose(spec: WindowSpec, history: History, allowed: Allowed) -> Window | NeedOlder:
    """The window by all rules inside what is ``allowed``, or NeedOlder. The problem is that of ``build_window``."""
    model, budget, options = spec.plan.model, spec.plan.budget, spec.plan.query
    view = None if history.before and is_turn_unknown(history, options) else view_history(history, model)
    if view is None:
        return older(budget)
    trimming = Trimming(model, options, spec.path)
    view = _as_sent(view, trimming, spec.plan.parts)
    line = _line_of(history, trimming, spec.plan.parts) if options.stable and allowed.cut is None else None
    if isinstance(line, NeedOlder):
        return line
    frame = _Frame(spec, trimming, allowed, view, line or view, budget)
    if spec.plan.going_on and (row := last_reply(view.history)) is not None:
        frame = msgspec.structs.replace(frame, goes_on=row, ending=spec.plan.going_on)
    if not view.units.single or view.front or FUNCTION in history.records.roles:
        frame = frame.with_cuts()
    if (below := below_a_tier(options, model, budget)) < budget:
        try:
            return msgspec.structs.replace(frame, budget=below, is_priced=True).chosen()
        except WindowDoesNotFit:  # then history has no part of what is above the tier
            frame = msgspec.structs.replace(frame, spared=budget - below, is_priced=True)
    return frame.chosen()


def _as_sent(view: View, trimming: Trimming, parts: FixedParts) -> View:
    """The view with the costs of messages as they are sent."""
    model, options = trimming.model, trimming.options
    if view.history.records.details:
        view = with_reasoning(view, model, options)
    if options.tool_result_max_tokens is not None:
        view = trimming.limited(view, options.tool_result_max_tokens)
    if PROVIDERS[options.format].tells_links:
        view = with_links(view, model)
    if PROVIDERS[options.format].fills:
        view = with_fillers(view, model, options.format, has_system=bool(parts.fixed.system))
    return dearer(view, renamed_calls(view.history.records, parts.names, model)) if parts.names else view


def _line_of(history: History, trimming: Trimming, parts: FixedParts) -> View | NeedOlder | None:
    """The messages in the order of the log, on which a stable cut is found: what was appended stays in its place there.

    None if they are sent in this order. Lines in place of results count with the message that interrupted the calls, because
    they came with it; and while a late result is the newest message, its group counts with it.
    """
    order, model = history.order, trimming.model
    if order is None:
        return None
    view = view_history(order.original, model)
    if view is None:
        return older()
    view = _as_sent(view, trimming, parts)
    records = order.original.records
    lines = {row: longest_lines(records[group[0]], calls, model) for row, (group, calls) in order.brings.items()}
    brings = {row: int(view.costs[[*group]].sum()) + lines[row] for row, (group, _) in order.brings.items()}
    waited = {row: longest_lines(records[caller], calls, model) for row, (caller, calls) in order.interrupted.items()}
    return msgspec.structs.replace(dearer(view, waited), brings=brings)


class _Frame(msgspec.Struct, frozen=True, dict=True):
    """What stays the same while a window is chosen, and chosen again with a summary and a note."""

    spec: WindowSpec
    trimming: Trimming
    allowed: Allowed
    view: View
    line: View
    """The messages in the order of the log."""
    budget: int
    """That of the spec, or what is below a price tier."""
    spared: int = 0
    """Tokens above a price tier, which history leaves free: the required parts alone are above it."""
    goes_on: int | None = None
    """The row of a reply at the end of a request that may not end with one; None without one."""
    ending: int = 0
    """The tokens of the line behind a reply at the end; 0 without one."""
    is_priced: bool = False
    """Whether a price tier is below the budget, and decides where history ends."""

    def chosen(self) -> Window | NeedOlder:
        """The window, or NeedOlder. Raises WindowDoesNotFit."""
        options, history = self.spec.plan.query, self.view.history
        summary, noted = (history.summary if options.summary == "always" else None), False
        # A summary or a note takes room, so the choice is made again with each.
        while isinstance(selected := self.select(summary, noted=noted), Selected):
            if options.summary == "auto" and history.summary is not None and self.wants_summary(selected):
                summary = history.summary
            elif options.note and not noted and len(selected.rows) < history.length:
                noted = True
            else:
                return self.window(selected)
        return selected

    def with_cuts(self) -> "_Frame":
        """The frame with results cut that are larger than the window, or required and do not fit beside other parts."""
        view, history = self.view, self.view.history
        summary = history.summary if self.spec.plan.query.summary == "always" else None
        room = self._room(summary) + self.view.always_cost
        view = self.trimming.required(self.trimming.overlong(view, room), room, self._beside_messages)
        line = view if self.line is self.view else self.trimming.overlong(self.line, room)
        if view is self.view and line is self.line:
            return self
        return msgspec.structs.replace(self, view=view, line=line)

    def select(self, summary: Summary | None, *, noted: bool) -> Selected | NeedOlder:
        """Steps 1 to 4 of the module's docstring. Raises WindowDoesNotFit."""
        spec, options, room = self.spec, self.spec.plan.query, self._room(summary)
        if room < 0:
            raise self._refusal(summary)
        beside = room
        if noted:
            # A note's length depends on the number of messages that it names, so history leaves room for the longest note.
            # Required parts may use this room. If they do, the window has no note.
            beside = self._room(summary, self._longest_note())
            room = max(beside, min(room, self._beside_messages()))
        state = Walk(room=room, grounding={}, seen=set())
        if spec.documents.sources or spec.documents.unread:
            self._ask(state, summary)
        recall_reserve = spec.recall_reserve + self.spared
        # Documents of required messages before the question may not take the opening's tokens.
        held = recall_reserve + (self._least_opening if options.grounding == "all" else 0)
        held = min(state.room, held)
        state.room -= held
        cut = self.allowed.cut
        if options.stable and cut is None:
            found = self._cut(beside + self.view.always_cost - recall_reserve)
            if isinstance(found, NeedOlder):
                return found
            cut = found
        view = self.view
        if options.tool_results_kept is not None:  # old results become lines when a stable cut moves, and not before
            newest = cut.since if cut is not None else len(view.history.records) - 1
            view = self.trimming.cleared(view, -1 if newest is None else newest)
        taken = walk(state, view, self._bounds(summary, cut))
        if taken.stop == "older":
            skips = 0 if taken.skipped is None else view.history.records.front - (taken.skipped - SKIP_HORIZON)
            return NeedOlder(max(older(taken.room).messages, skips))
        if self.is_priced and taken.stop == "budget":
            taken.stop = taken.rest = "price"
        # Leading few-shots are fixed costs.
        opening = open_request(taken, view, self._opening) if self._is_opened else 0
        if opening > taken.room + held:
            raise self._refusal(summary)
        taken.room = max(0, taken.room - opening)
        rows = view.units.members([*view.always, *taken.kept])
        return Selected(taken, view, cut, opening, rows, summary, noted)

    @lazy
    def _is_opened(self) -> bool:
        """Whether the request costs more if the first message of the history is the assistant's."""
        if not self.spec.plan.is_opened:
            return False
        summary = self.view.history.summary if self.spec.plan.query.summary == "always" else None
        return summary is None or summary.compaction is None

    def _opening(self, row: int) -> int:
        """The tokens that the request costs more if the message of a row is its first, beside system messages."""
        model, form = self.spec.plan.model, self.spec.plan.query.format
        history, records, systems = self.view.history, self.view.history.records, self.view.systems
        own = [each for each in systems if came_in(records[each].measure, form)] if systems else []
        is_beside = bool(own) and PROVIDERS[form].has_system_messages(model.known_as)
        if records.roles[row] != ASSISTANT and not is_beside:  # as nearly always
            return 0
        behind = records.roles[row + 1 :] if row >= records.front else b""
        is_followed = next((role for role in behind if role > DEVELOPER), None) == ASSISTANT
        is_oldest = history.seq(row) == 1
        return opening_tokens(
            records[row], model, form, is_oldest=is_oldest, is_beside_system=is_beside, is_followed=is_followed
        )

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
            history.seq(row), history.records[row], self.spec.plan.model, room, seen, spent=spent
        )

    def _refusal(self, summary: Summary | None) -> WindowDoesNotFit:
        """The problem with each part that a window must have, so that a budget of its ``needed`` is enough."""
        fixed = self._fixed_costs((summary,), self._least_opening)
        return does_not_fit(self.budget, fixed, self.view.always_costs(), self._whole_documents())

    def _ask(self, state: Walk, summary: Summary | None) -> None:
        """Step 3: the newest question with its documents. Raises WindowDoesNotFit."""
        asked, room = self.view.history.asked, state.room
        if asked < 0 or self.spec.plan.query.grounding == "none":
            return
        chosen = self._documents(asked, max(0, room - self._least_opening))
        if chosen is not None and chosen.cost > room:
            raise self._refusal(summary)
        if chosen is not None:
            state.add_documents(asked, chosen)

    def _cut(self, room: int) -> Cut | NeedOlder:
        """The stable cut. ``room`` is the budget minus the fixed parts, in tokens."""
        spec, options, history = self.spec, self.spec.plan.query, self.view.history
        # These are kept free in each window with a stable cut.
        room -= longest_opening(spec.plan.model, options.format) if self._is_opened else 0
        room -= spec.plan.going_on - self.ending
        length = cut_length(options, spec.plan.model, spec.plan.budget)
        found = cut_seq(self.line, room, length * options.stable_step, BLOCK * length, spec)
        if isinstance(found, Before):
            return NeedOlder(place=found.place)
        if self.line.history is history:
            return found
        seqs = self.line.history.seqs
        row = history.since(seqs.item(found.row)) if found.row < len(seqs) else found.row
        return Cut(row, None if found.since is None else history.since(seqs.item(found.since)))

    def _bounds(self, summary: Summary | None, cut: Cut | None) -> Bounds:
        """The bounds of history, and the options of the walk."""
        options, history, allowed = self.spec.plan.query, self.view.history, self.allowed
        firsts: list[tuple[Stop, int]] = [] if cut is None else [("budget", cut.row)]
        if options.limit or options.turns or allowed.messages_row is not None:
            most = [self._limit_row(options.limit)] if options.limit else []
            most += [history.turn(options.turns)] if options.turns else []
            most += [allowed.messages_row] if allowed.messages_row is not None else []
            firsts.append(("limit", max(most)))
        if allowed.bytes_row is not None:
            firsts.append(("bytes", allowed.bytes_row))
        # The messages that are not covered may be among older ones.
        if summary is not None and not (history.covered and history.is_whole):
            firsts.append(("summary", history.since(summary.through_seq + 1)))
        return Bounds(
            tuple(firsts),
            skip=options.overflow == "skip",
            dedupe=options.dedupe == "messages",
            user_first=options.start == "user",
            documents=self._documents if options.grounding == "all" else None,
        )

    def _limit_row(self, limit: int) -> int:
        """The first row whose unit has, or is behind, the first of so many newest messages of the log."""
        history = self.view.history
        row = len(history.records) - limit
        if history.order is None or row < history.records.front:
            return row
        return history.since(history.order.original.seqs.item(row))

    def wants_summary(self, selected: Selected) -> bool:
        """Whether messages that the summary covers are left out, and the summary fits with the required parts."""
        summary = self.view.history.summary
        is_asked = self.spec.plan.query.summary == "auto" and selected.summary is None
        if not is_asked or summary is None or selected.taken.stop == "complete":
            return False
        history = self.view.history
        behind, front = history.since(summary.through_seq + 1), history.records.front
        rows = np.array(selected.rows, np.int64)
        is_before = np.where(rows < front, history.seqs[rows] <= summary.through_seq, rows < behind)
        return int(is_before.sum()) < behind - history.oldest and self._room(summary) >= self._beside_messages()

    def window(self, selected: Selected) -> Window:
        """The window of the selected messages, with the note if it fits with the required parts."""
        spec, taken, rows, summary = self.spec, selected.taken, selected.rows, selected.summary
        plan = spec.plan
        # Remaining room extends the newest results again, if these were cut.
        view = self.trimming.grown(selected.view, taken.room) if selected.view.edits else selected.view
        note = self._note(selected) if selected.noted else 0
        lines = (summary, Line(note_measure(note)) if note else None)
        fixed = self._fixed_costs(lines, selected.opening)
        messages = taken.taken + view.always_cost
        tokens = {"total": 0, **fixed, "messages": messages}
        if summary is not None or note or plan.stands_in or view.systems:
            tokens["tools"] = self._tools_tokens(lines, rows)
        tokens |= {"grounding": taken.spent, "reasoning": 0}
        sent = left = None
        accepted, left_of = 0, []
        if (thoughts := view.thoughts) is not None:
            sent, left = thoughts.sent, thoughts.left
            tokens["messages"] -= int(sent[rows].sum())
            if binds_reasoning(spec.plan.model.known_as):
                room = self.budget - sum(fixed.values())
                accepted = accepted_from(view, spec, selected, self.allowed, room, noted=bool(note))
                is_refused = (sent > 0) & (np.arange(len(sent)) < accepted)
                sent, left = np.where(is_refused, 0, sent), np.where(is_refused, sent, left)
            tokens["reasoning"], left_of = int(sent[rows].sum()), left[rows].tolist()
        tokens["total"] = sum(tokens.values())
        seq_of = view.history.seq
        grounding = {seq_of(row): taken.grounding[row] for row in sorted(taken.grounding)} if taken.grounding else {}
        return Window(
            budget=self.budget,
            rows=rows,
            seqs=view.history.seqs_of(rows),
            is_moved=view.history.order is not None,
            grounding=grounding,
            summary=summary,
            note=note,
            tokens=tokens,
            dropped=dropped(view, spec.plan.model, selected, messages, grounding, sum(left_of)),
            stop_reason=taken.stop,
            explain=explain(view, taken, summary, sent, left) if spec.plan.query.explain else None,
            edits=self._edits(view, rows, left_of, accepted)
            if left_of or view.edits or view.history.order is not None or view.history.seen is not None
            else {},
            path=spec.path,
            opening=selected.opening,
            cut=selected.cut if selected.cut is not None and selected.cut.since is not None else None,
            passed=_passed(taken, view) if taken.reasons else frozenset(),
            goes_on=seq_of(self.goes_on) if self.goes_on is not None and self.goes_on in rows else 0,
        )

    def _note(self, selected: Selected) -> int:
        """The number of messages in the note; 0 without a note."""
        missing = left_out(self.view, len(selected.rows), selected.summary)
        held = selected.taken.spent + selected.taken.taken + selected.opening
        return missing if missing and self._room(selected.summary, self._longest_note()) >= held else 0

    def _longest_note(self) -> Line:
        return Line(longest_note(self.view.history.length))

    def _edits(self, view: View, rows: list[int], left: Sequence[int], accepted: int) -> dict[int, Edit]:
        """The changes to messages before they are sent, by seq. ``left`` are their tokens of reasoning that is left out."""
        edits = {row: view.edits[row] for row in rows if row in view.edits} if view.edits else {}
        order, seen = view.history.order, view.history.seen
        if any(left):
            # Signatures go with ``reasoning=none``, but those of the newest turn, and where the model refuses the reasoning.
            turn = begins_turn(view.history) + 1 if self.spec.plan.query.reasoning == "none" else 0
            for row, tokens in zip(rows, left, strict=True):
                if tokens:
                    is_unsigned = row < max(accepted, turn)
                    edits[row] = msgspec.structs.replace(
                        edits.get(row, Edit()), without_reasoning=True, without_seals=is_unsigned
                    )
        if order is not None and order.dropped:
            for row in order.dropped.keys() & set(rows):
                edits[row] = msgspec.structs.replace(edits.get(row, Edit()), without_calls=order.dropped[row].calls)
        if seen is not None and seen.texts:
            seqs = view.history.seqs
            edits |= {row: Edit(only_text=True) for row in rows if seqs.item(row) in seen.texts}
        return {view.history.seq(row): each for row, each in edits.items()}

    def _tools_tokens(self, lines: Lines, rows: list[int]) -> int:
        """The tokens of definitions. They may depend on the first message and on system messages.

        Where one stands in for tools, it is sent beside calls alone; so it is with the cost of calls without definitions.
        """
        plan, view = self.spec.plan, self.view
        if not plan.parts.fixed.defines(plan.model):
            return 0
        records = view.history.records
        known = rows[:1] if not view.systems else first_rows(rows, records.roles, plan.query.format, view.systems)
        beside = [each.measure for each in (*lines, *(records[row] for row in known)) if each is not None]
        calls = plan.stands_in and any(has_calls(records[row].measure) for row in rows)
        return plan.parts.fixed.tools_tokens(plan.model, beside, calls=calls)

    @lazy
    def _costs_without_lines(self) -> dict[str, int]:
        return fixed_costs(self.view, self.spec.plan, ())

    def _fixed_costs(self, lines: Lines, opening: int = 0) -> dict[str, int]:
        """Tokens of the fixed parts by name. ``opening`` are those that the first message costs more."""
        if lines != (None,) and any(lines):
            costs = fixed_costs(self.view, self.spec.plan, [each for each in lines if each is not None])
        else:
            costs = self._costs_without_lines
        added = opening + self.ending
        return {**costs, "priming": costs["priming"] + added} if added else costs

    def _room(self, *lines: Line | Summary | None) -> int:
        """The budget minus the required parts and these lines, in tokens; negative if they do not fit."""
        if lines == (None,) and not self.ending and not self.view.systems and not self.spec.plan.bare_calls:
            return self.budget - self.spec.plan.bare_cost - self.view.always_cost
        return self.budget - sum(self._fixed_costs(lines).values()) - self.view.always_cost


def _passed(taken: Walk, view: View) -> frozenset[int]:
    """The seqs of the units that the walk passed over although they would fit, or although it kept older ones."""
    oldest = taken.kept[-1] if taken.kept else len(view.units)
    passed = (Reason.UNANSWERED, Reason.DUPLICATE)
    units = [index for index, why in taken.reasons.items() if index > oldest or why in passed]
    return frozenset(view.history.seqs_of(view.units.members(units)))
