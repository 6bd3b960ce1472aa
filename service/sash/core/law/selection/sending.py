"""Messages as they are sent: what they cost then, and what is changed in them.

* What it is for: reasoning that is sent or left out, words that a form adds, and names of tools in another alphabet.
* When it can matter: in every window, as ``reasoning`` and the destination say.
* What wakes it: a message that is more than text; or a destination that adds to texts, too (``Plan.is_dearer``).
* What it does: messages cost other tokens, and the view tells those of their reasoning (``Thoughts``).
"""

from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from sash.core.counts.costs.counting import turn_place, whole_row
from sash.core.counts.costs.message_cost import reasoning_cost
from sash.core.counts.measures.rows import Row
from sash.core.counts.models.families import TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import MANY, ONE, Arithmetic, Number
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.fillers import (
    as_note_tokens,
    blank_line_tokens,
    came_in,
    joined_systems,
    stands_first,
    unseen_tokens,
    with_filler,
)
from sash.core.law.history.lines import longest_lines
from sash.core.law.history.results import Edit
from sash.core.law.history.view import History, Order, Thoughts, View, view_history
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.cutting import limited
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.messages.references import is_readable
from sash.core.providers.openai.chat_mends import SEALED
from sash.core.providers.openai.openai import OPENAI
from sash.core.stored.record import Flags, WindowFlags


def decided_reasoning(query: WindowQuery, model: Model) -> WindowQuery:
    """The query with ``reasoning=none`` for a destination that refuses reasoning."""
    values = meet(model.format, model.provider, model.known_as).values
    return msgspec.structs.replace(query, reasoning="none") if values.get("reasoning") == "refused" else query


def as_sent(view: View, spec: WindowSpec) -> View:
    """The view with the costs of messages as they are sent."""
    plan, records = spec.plan, view.history.records
    if records.details and records.thinks:
        view = _with_reasoning(view, plan)
    if plan.query.tool_result_max_tokens is not None:
        view = limited(view, spec, plan.query.tool_result_max_tokens)
    if PROVIDERS[plan.model.format].tells_links:
        view = _with_links(view, plan.model)
    if PROVIDERS[plan.model.format].fills:
        view = _with_fillers(view, plan)
    if view.systems and plan.joint:
        view = view.dearer(dict.fromkeys(view.systems, plan.joint))
    if TOOL in records.roles and plan.bridge:
        questions = np.flatnonzero(np.frombuffer(records.roles, np.uint8) == USER).tolist()
        view = view.dearer(dict.fromkeys(questions, plan.bridge))
    if plan.renaming:
        view = view.dearer({row: calls * plan.renaming for row, calls in enumerate(records.calls) if calls})
    return view


def in_log_order(order: Order, spec: WindowSpec) -> View | None:
    """The messages in the order of the log, on which a stable cut is found: what was appended stays in its place there.
    None if older messages are needed.

    Lines in place of results count with the message that interrupted the calls, because they came with it; and while a late
    result is the newest message, its group counts with it.
    """
    model, records = spec.plan.model, order.original.records
    view = view_history(order.original, model)
    if view is None:
        return None
    view = as_sent(view, spec)
    lines = {row: longest_lines(records[caller], model) for row, (caller, *_) in order.brings.items()}
    brings = {row: int(view.costs[group].sum()) + lines[row] for row, group in order.brings.items()}
    waited = {row: longest_lines(records[caller], model, calls) for row, (caller, calls) in order.interrupted.items()}
    return msgspec.structs.replace(view.dearer(waited), brings=brings)


def edits_of(
    view: View, rows: Sequence[int], left: Sequence[int], accepted: int, options: WindowQuery
) -> dict[int, Edit]:
    """The changes to messages before they are sent, by row. ``left`` are their tokens of reasoning that is left out; the
    model accepts reasoning from the row ``accepted`` on."""
    edits = {row: view.edits[row] for row in rows if row in view.edits}
    order, replace = view.history.order, msgspec.structs.replace
    if any(left):
        # Signatures go with ``reasoning=none``, but those of the newest turn, and where the model refuses the reasoning.
        signed = max(accepted, begins_turn(view.history) + 1 if options.reasoning == "none" else 0)
        for row in (row for row, tokens in zip(rows, left, strict=True) if tokens):
            edits[row] = replace(edits.get(row, Edit()), without_reasoning=True, without_seals=row < signed)
    if order is not None:
        for row in order.missing["dropped"].keys() & set(rows):
            edits[row] = replace(edits.get(row, Edit()), without_calls=order.missing["dropped"][row])
    texts = {*view.history.records.flagged_rows(WindowFlags.TEXT_ONLY)}
    return edits | {row: Edit(only_text=True) for row in rows if row in texts}


def _with_reasoning(view: View, plan: Plan) -> View:
    """The view with the tokens of sent reasoning in its costs: of the newest turn, all, or none, as the query says.

    Signatures on calls are always sent; with ``reasoning=none`` those of the newest turn, without which Gemini answers 400.
    """
    history, records, model = view.history, view.history.records, plan.model
    rule = partial(_thoughts, plan, begins_turn(history), history.asked)
    figures = rule(records.columns_for(model), np.arange(len(records)), MANY)
    thoughts = Thoughts(*(np.full(len(records), each, np.int64) for each in figures))
    for index in records.rare:
        one = rule(whole_row(records[index].measure, model), index, ONE)
        thoughts.sent[index], thoughts.left[index], thoughts.lasting[index], thoughts.passing[index] = one
    return msgspec.structs.replace(view, priced=view.costs + thoughts.sent, thoughts=thoughts)


def _thoughts(
    plan: Plan, turn: int, asked: int, row: Row, index: Number, by: Arithmetic
) -> tuple[Number, Number, Number, Number]:
    """The figures of ``Thoughts``. ``turn`` is the row of the newest turn's question, ``asked`` of the newest question."""
    rule = partial(_sent_and_whole, row, plan, by)
    sent, whole = rule(is_old=index <= turn, is_before=index < asked)
    left = by.most(0, whole - sent)
    if not plan.query.stable:  # the other figures matter beside a stable cut alone
        return sent, left, 0, 0
    lasting, now = (rule(is_old=each, is_before=each)[0] for each in (True, False))
    return sent, left, lasting, now - lasting


def _sent_and_whole(
    row: Row, plan: Plan, by: Arithmetic, *, is_old: Number, is_before: Number
) -> tuple[Number, Number]:
    """Tokens of a message's reasoning that are sent, and of all that it has.

    ``is_old``: it is before the newest turn. ``is_before``: it is before the newest question.
    """
    model, form, sent_in, reasoning = plan.model, plan.model.format, PROVIDERS[plan.model.format], plan.query.reasoning
    # Another provider's form may leave out a blank question.
    knows_questions = sent_in.is_chat_form or sent_in.maker == model.provider
    is_forgotten = is_before & (model.rules.forgets and knows_questions)
    tokens = reasoning_cost(row, model, form, by, is_forgotten=is_forgotten)
    whole = by.where(tokens > 0, tokens, reasoning_cost(row, model, CHAT, by, is_forgotten=is_forgotten))
    if "odd" in row and not is_readable(OPENAI.maker, sent_in.maker, model.provider, model.known_as):
        tokens = by.where((row["odd"] & SEALED) != 0, 0, tokens)  # its issuer sealed it, and the model cannot read that
    if reasoning == "all":
        return tokens, whole
    seals = reasoning_cost(row, model, form, by, seals_alone=True, is_forgotten=is_forgotten)
    is_left = is_old
    if reasoning == "none":
        is_left, seals = is_old | True, by.where(is_old, 0, seals)
    if plan.wanted.get("reasoning") in ("with_calls", "filled"):
        is_left = by.where(row["calls"] > 0, False, is_left)  # noqa: FBT003 - a value of an array
    if sent_in.replies_are_items:  # free reasoning is left out too: it only makes the request longer
        whole = by.where(is_left, reasoning_cost(row, model, CHAT, by), whole)
    return by.where(is_left, seals, tokens), whole


def _with_fillers(view: View, plan: Plan) -> View:
    """The view with costs that include the words sent in the model's form for the user's empty messages, and the blank lines
    between system texts, or the words before them."""
    records, model, names_files = view.history.records, plan.model, "file_names" in plan.wanted
    is_empty = (records.tokens(0) <= names_files) & (np.frombuffer(records.roles, np.uint8) == USER)
    indexes = {*np.flatnonzero(is_empty).tolist()}
    if names_files and records.details:
        indexes.update(records.media)
    if "beside_calls" in plan.wanted:
        is_legacy = np.frombuffer(records.flags, np.uint8) & Flags.LEGACY_CALL
        indexes.update(np.flatnonzero(np.frombuffer(records.calls, np.uint8) | is_legacy).tolist())
    costs = view.costs.copy()
    for index in indexes - _without_files(view, model.format) if view.edits else indexes:
        costs[index] = with_filler(records[index].measure, costs.item(index), model)
    if systems := joined_systems(view, model):  # whether they stand first depends on the cut
        blank = blank_line_tokens(model)
        costs[systems] += [max(blank, as_note_tokens(records[row], model)) for row in systems]
        if not plan.parts.system and stands_first(view.history, systems[0]):
            costs[systems[0]] = view.costs[systems[0]]
    return msgspec.structs.replace(view, priced=costs)


def _with_links(view: View, model: Model) -> View:
    """The view with links to pictures at the cost of pictures of unknown size, for a form that sends a line in their place.

    The line has the link's beginning, which may cost more than a small picture.
    """
    records = view.history.records
    linked = {*records.media} - _without_files(view, model.format) if records.details else ()
    return view.dearer({row: unseen_tokens(records[row].measure, model) for row in linked}) if linked else view


def _without_files(view: View, form: str) -> set[int]:
    """The indexes of cut results that are sent without their pictures and files: as one line, or in their chat form."""
    history = view.history
    cut = ((row, each.limit) for row, each in view.edits.items() if each.limit is not None)
    return {index for index, limit in cut if not limit or not came_in(history.records[index].measure, form)}


def begins_turn(history: History) -> int:
    """Return the row of the question that began the newest turn; of a question before the tail where that is not known, or
    -1 without one."""
    records, front = history.records, history.records.front
    roles = records.roles[front:]
    if records.marked:  # a late result, which is sent elsewhere or not at all, counts as the message before it
        shown = bytearray(roles)
        for index in np.flatnonzero(np.frombuffer(records.flags[front:], np.uint8) & Flags.LATE).tolist():
            if roles[index] >= TOOL:
                shown[index] = shown[max(0, index - 1)]
        roles = bytes(shown)
    return front + turn_place(roles, history.asked - front)


def is_turn_unknown(history: History, options: WindowQuery) -> bool:
    """Whether the tail does not show if messages before it are in the newest turn, and one of them has reasoning."""
    if options.reasoning == "all" or history.is_whole or begins_turn(history) > history.records.front:
        return False
    earlier = min(history.asked, history.records.front)
    extras = (history.records[index].measure.extra for index in range(earlier))
    return any(extra is not None and (extra.reasoning or extra.beside) for extra in extras)
