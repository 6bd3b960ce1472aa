"""The costs of messages as they are sent: with their reasoning if it is sent, and with long tool results cut."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec
import numpy as np

from sash.core.counts.counting import turn_place, whole_row
from sash.core.counts.families import FUNCTION, TOOL, USER
from sash.core.counts.models import Model
from sash.core.counts.numbers import MANY, ONE, Arithmetic, Number
from sash.core.counts.prices import reasoning_cost
from sash.core.counts.rows import Row
from sash.core.law.costs import for_each
from sash.core.law.fillers import blank_line_tokens, joined_systems, unseen_tokens, with_filler
from sash.core.law.parameters import WindowQuery
from sash.core.law.reasons import Reason
from sash.core.law.records import RESULTS, Flags
from sash.core.law.results import Edit, line_cost, line_costs, share_of, shared_limits
from sash.core.law.view import History, View, unit_at
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.chat_mends import STRICT_MAKER
from sash.core.providers.openai import OPENAI

Q = TypeVar("Q", bound=WindowQuery)
_WITHOUT_THOUGHTS: Final = frozenset({OPENAI.maker, STRICT_MAKER})


def without_thoughts(query: Q, model: Model) -> Q:
    """The query with ``reasoning=none`` for a model in chat form whose maker refuses members with reasoning."""
    if query.reasoning == "none" or model.provider not in _WITHOUT_THOUGHTS or not PROVIDERS[query.format].is_chat_form:
        return query
    return msgspec.structs.replace(query, reasoning="none")


def with_reasoning(view: View, model: Model, options: WindowQuery) -> View:
    """The view with the tokens of sent reasoning in its costs: of the newest turn, all, or none, as ``options`` say.

    Signatures on calls are always sent; with ``reasoning=none`` those of the newest turn, without which Gemini answers 400.
    """
    history = view.history
    if not history.outside and not (history.records.details and history.records.thinks):
        return view
    sent, whole = _of_each(view, model, partial(_sent_and_whole, view, model, options))
    left = {seq: tokens - sent.get(seq, 0) for seq, tokens in whole.items() if tokens > sent.get(seq, 0)}
    view = msgspec.structs.replace(dearer(view, sent), reasoning=sent, reasoning_left=left)
    if options.stable:
        lasting, passing = _of_each(view, model, partial(_lasting_and_passing, model, options))
        view = msgspec.structs.replace(view, lasting=lasting, passing=passing)
    return view


def _sent_and_whole(
    view: View, model: Model, options: WindowQuery, row: Row, seq: Number, by: Arithmetic
) -> tuple[Number, Number]:
    """Tokens of a message's reasoning that are sent, and of all that it has."""
    history, form = view.history, options.format
    # Another provider's form may leave out a blank question.
    knows_questions = PROVIDERS[form].is_chat_form or PROVIDERS[form].maker == model.provider
    is_forgotten = (seq < history.question) & (model.rules.forgets and knows_questions)
    tokens = reasoning_cost(row, model, form, by, is_forgotten=is_forgotten)
    whole = by.where(tokens > 0, tokens, reasoning_cost(row, model, CHAT, by, is_forgotten=is_forgotten))
    if options.reasoning == "all":
        return tokens, whole
    is_old = seq <= begins_turn(history)
    seals = reasoning_cost(row, model, form, by, seals_alone=True, is_forgotten=is_forgotten)
    is_left: Number = is_old
    if options.reasoning == "none":
        is_left, seals = True, by.where(is_old, 0, seals)
    if PROVIDERS[form].replies_are_items:  # free thoughts are left out too: they only make the request longer
        whole = by.where(is_left, reasoning_cost(row, model, CHAT, by), whole)
    return by.where(is_left, seals, tokens), whole


def _lasting_and_passing(
    model: Model, options: WindowQuery, row: Row, _seq: Number, by: Arithmetic
) -> tuple[Number, Number]:
    """Tokens of a message's reasoning that is sent in every turn, and of that which is sent in its turn only."""
    is_turn, is_forgotten = options.reasoning == "turn", model.rules.forgets
    if options.reasoning == "none":
        seals = reasoning_cost(row, model, options.format, by, seals_alone=True)
        return 0 * seals, seals
    later = reasoning_cost(row, model, options.format, by, seals_alone=is_turn, is_forgotten=is_forgotten)
    return later, reasoning_cost(row, model, options.format, by) - later


def _of_each(
    view: View, model: Model, rule: Callable[[Row, Number, Arithmetic], tuple[Number, Number]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Two figures of each message that was read, by seq, without zeros. ``rule`` gets its numbers and its seq."""
    history, records, first = view.history, view.history.records, view.history.first_seq
    apart = dict(history.outside)
    found: tuple[dict[int, int], dict[int, int]] = ({}, {})
    if records.details:
        apart |= {first + index: records[index] for index in records.rare}
        of_all = rule(records.columns_for(model), first + np.arange(len(records)), MANY)
        for figures, numbers in zip(found, of_all, strict=True):
            listed = for_each(numbers, len(records))
            places = np.flatnonzero(listed)
            figures.update(zip((places + first).tolist(), listed[places].tolist(), strict=True))
    for seq, record in apart.items():
        for figures, number in zip(found, rule(whole_row(record.measure, model), seq, ONE), strict=True):
            figures.pop(seq, None)
            if number:
                figures[seq] = number
    return found


def with_fillers(view: View, model: Model, form: str, *, has_system: bool) -> View:
    """The view with costs that include the words sent in ``form`` for the user's empty messages, and the blank lines
    between system texts. ``has_system``: a system prompt comes before the messages."""
    first, records = view.history.first_seq, view.history.records
    names_files = PROVIDERS[form].names_files
    is_empty = (records.tokens(0) <= names_files) & (np.frombuffer(records.roles, np.uint8) == USER)
    seqs = {*view.outside, *(first + np.flatnonzero(is_empty)).tolist()}
    if names_files and records.details:
        seqs.update(first + index for index in records.media)
    costs = {seq: with_filler(view.history.record(seq).measure, view.cost_of(seq), model, form) for seq in seqs}
    joined = joined_systems(view, model, form)[0 if has_system else 1 :]
    return recosted(view, costs | {seq: view.cost_of(seq) + blank_line_tokens(model) for seq in joined})


def with_links(view: View, model: Model) -> View:
    """The view with links to pictures at the cost of pictures of unknown size, for a form that sends a line in their place.

    The line has the link's beginning, which may cost more than a small picture.
    """
    first, history = view.history.first_seq, view.history
    seqs = [*view.outside, *(first + index for index in (history.records.media if history.records.details else ()))]
    return dearer(view, {seq: unseen_tokens(history.record(seq).measure, model) for seq in seqs})


def begins_turn(history: History) -> int:
    """Return the seq of the question that began the newest turn; of a question before the tail where that is not known."""
    roles, records = history.records.roles, history.records
    if records.marked:  # a late result, which is sent elsewhere or not at all, counts as the message before it
        shown = bytearray(roles)
        for index in np.flatnonzero(np.frombuffer(records.flags, np.uint8) & Flags.LATE).tolist():
            if roles[index] >= TOOL:
                shown[index] = shown[max(0, index - 1)]
        roles = bytes(shown)
    return history.first_seq + turn_place(roles, history.question - history.first_seq)


def is_turn_unknown(history: History, options: WindowQuery) -> bool:
    """Whether the tail does not show if messages before it are in the newest turn, and one of them has reasoning."""
    if options.reasoning == "all" or history.is_whole or begins_turn(history) > history.first_seq:
        return False
    extras = (record.measure.extra for seq, record in history.outside.items() if seq < history.question)
    return any(extra is not None and (extra.reasoning or extra.beside) for extra in extras)


def dearer(view: View, more: Mapping[int, int]) -> View:
    """The view in which messages cost so many tokens more, by seq."""
    return recosted(view, {seq: view.cost_of(seq) + tokens for seq, tokens in more.items() if tokens})


def recosted(view: View, costs: Mapping[int, int], edits: Mapping[int, Edit] | None = None) -> View:
    """The view with new costs and edits of some messages, by seq. An edit that saves nothing is none."""
    if not costs:
        return view
    first = view.history.first_seq
    inside, outside = view.costs.copy(), dict(view.outside)
    for seq, cost in costs.items():
        if seq >= first:
            inside[seq - first] = cost
        else:
            outside[seq] = cost
    sent = {seq: edit for seq, edit in {**view.edits, **(edits or {})}.items() if edit.saved}
    return msgspec.structs.replace(view, costs=inside, outside=outside, edits=sent)


class Trimming(msgspec.Struct, frozen=True):
    """The cutting of tool results. ``place`` is the path at which whole results can be read, or empty."""

    model: Model
    options: WindowQuery
    place: str

    def limited(self, view: View) -> View:
        """The view with results cut to ``tool_result_max_tokens``."""
        limit = self.options.tool_result_max_tokens
        if limit is None:
            return view
        results = _results_in(view, view.history.outside, _groups(view))
        return self._cut(view, [seq for seq in results if view.cost_of(seq) > limit], limit)

    def overlong(self, view: View, room: int) -> View:
        """The view with tool groups larger than their share of ``room`` cut to it, wherever they are in the history.

        So such a group is sent in the same form while it is the newest and afterwards.
        """
        share = share_of(room)
        if self.options.tool_result_overflow != "trim" or view.unit_costs.max(initial=0) <= share:
            return view
        for index in np.flatnonzero(view.unit_costs > share).tolist():
            is_pinned = view.always.get(index) not in (None, Reason.NEWEST)
            if not (is_pinned or index in view.units.broken):
                results = _results_in(view, (), [index])
                beside = int(view.unit_costs[index]) - sum(map(view.cost_of, results))
                view = self._shared(view, results, share - beside)
        return view

    def required(self, view: View, room: int, beside: Callable[[], int]) -> View:
        """The view with required results cut to their share of ``room``, or to less if the required messages do not fit.

        ``beside`` tells the smallest number of tokens for documents and an opening.
        """
        if self.options.tool_result_overflow != "trim":
            return view
        if self.options.stable:
            # Also pinned groups whose other results have not come yet.
            pinned = {unit_at(view.units, index) for index in view.history.records.pinned()}
            kept = _results_in(view, view.history.outside, sorted(pinned))
            view = self._shared(view, kept, share_of(room)) if kept else view
        results = _results_in(view, view.outside, view.always)
        if not results:
            return view
        cost = sum(map(view.cost_of, results))
        most = min(share_of(room), cost + room - beside() - sum(view.always_costs().values()))
        return self._shared(view, results, most) if cost > most else view

    def grown(self, view: View, room: int) -> View:
        """The view in which the cut results of required messages are longer by the remaining ``room``."""
        if room <= 0 or not view.edits or self.options.stable:
            return view
        cut = [seq for seq in _results_in(view, view.outside, view.always) if seq in view.edits]
        return self._shared(view, cut, sum(map(view.cost_of, cut)) + room) if cut else view

    def cleared(self, view: View, newest_seq: int) -> View:
        """The view with results as one line each, except those of the newest ``tool_results_kept`` groups.

        Groups are counted back from ``newest_seq``. Results of required groups are not changed.
        """
        kept = self.options.tool_results_kept
        if kept is None:
            return view
        counted = [index for index in _groups(view) if view.seq(index) <= newest_seq]
        if counted and newest_seq < view.seq(counted[-1] + 1):
            kept = max(kept, 1)  # the newest message is never cleared, and must not change until the cut moves
        old = [index for index in counted[: max(0, len(counted) - kept)] if index not in view.always]
        return self._cut(view, _results_in(view, (), old), 0)

    def _shared(self, view: View, results: Sequence[int], room: int) -> View:
        """The view with ``results`` cut so that together they cost ``room``, if possible."""
        lines, limit = self._lines(view, results), self.options.tool_result_max_tokens
        whole = view.history.whole_costs(results, self.model)
        if limit is not None:
            whole = {seq: min(cost, max(limit, lines[seq])) for seq, cost in whole.items()}
        least = [min(cost, lines[seq]) for seq, cost in whole.items()]
        return self._sent(view, dict(zip(whole, shared_limits([*whole.values()], least, room), strict=True)))

    def _cut(self, view: View, results: Sequence[int], limit: int) -> View:
        """The view with results cut to ``limit``, or to one line if that costs more or it is 0. None becomes longer."""
        lines = self._lines(view, results, alone=not limit)
        now = zip(results, view.costs_of(results), strict=True)
        costs = {seq: cost for seq, before in now if (cost := max(limit, lines[seq])) < before}
        return self._sent(view, costs, are_lines=not limit)

    def _sent(self, view: View, costs: Mapping[int, int], *, are_lines: bool = False) -> View:
        """The view with results cut so that they have these costs. One that has its whole cost is not cut."""
        whole, most = view.history.whole_costs(costs, self.model), self.options.tool_result_max_tokens
        edits = {
            seq: Edit(limit=0 if are_lines else min(cost, most or cost), saved=whole[seq] - cost)
            for seq, cost in costs.items()
        }
        return recosted(view, costs, edits)

    def _lines(self, view: View, results: Sequence[int], *, alone: bool = False) -> dict[int, int]:
        """Tokens of these results as one line each, with their images and files unless it is sent ``alone``."""
        history, first, records = view.history, view.history.first_seq, view.history.records
        plain = [seq for seq in results if seq >= first and seq - first not in records.with_parts]
        places, names = [seq - first for seq in plain], list(map(history.name, plain))
        costs = line_costs(records, places, names, self.place, self.model, alone=alone) if plain else []
        lines = dict(zip(plain, costs, strict=True))
        others = (seq for seq in results if seq not in lines)
        return lines | {
            seq: line_cost(history.record(seq), history.name(seq), self.place, self.model, alone=alone)
            for seq in others
        }


def _results_in(view: View, before: Iterable[int], indexes: Iterable[int]) -> list[int]:
    """Seqs of the tool results among messages before the tail, and of those in these units."""
    history, first, starts = view.history, view.history.first_seq, view.units.starts
    inside = [place for index in indexes for place in range(starts[index], starts[index + 1])]
    found = [seq for seq in before if history.role(seq) in RESULTS]
    return found + [first + place for place in inside if history.records.roles[place] in RESULTS]


def _groups(view: View) -> list[int]:
    """Indexes of the units that end with a tool result."""
    records = view.history.records
    roles, begins = np.frombuffer(records.roles, np.uint8), view.units.begins
    last = roles[np.append(begins[1:], len(records)) - 1] if len(begins) else roles
    found: list[int] = np.flatnonzero((last == TOOL) | (last == FUNCTION)).tolist()
    return found
