"""A window's tokens as its request has them, where what is sent of a message costs less than the message.

The messages were chosen by bounds: a mend that looks at the whole request may leave out a part, or join two turns.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import msgspec
import numpy as np

from sash.core.counts.costs.counting import reasoning_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.measures.rows import form_number
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, SYSTEM, TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.fillers import (
    as_note_tokens,
    blank_line_tokens,
    came_in,
    stands_first,
    unseen_tokens,
    with_filler,
)
from sash.core.law.history.view import History
from sash.core.law.records.costs import message_costs, written_cost
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.mends import Mends
from sash.core.providers.reading.native import read_messages
from sash.core.search.words import said_in
from sash.core.stored.record import Flags

_ALIKE: Final = tuple(bytes((role, role)) for role in (USER, ASSISTANT))
"""Neighbours that a form may join."""
_ROUNDED: Final = 2
"""Tokens by which the estimate of a part alone may be higher than its share of a message: each text is rounded up."""


class _Turn(NamedTuple):
    """A message that is sent: its row, its role, and whether it came in the window's form, and so is joined with none."""

    row: int
    role: int
    is_own: bool


def savings(
    window: Window, history: History, plan: Plan, mends: Mends, bodies: Bodies
) -> tuple[Counter[int], Counter[int]]:
    """The tokens that messages cost less than they were chosen by, and those of their reasoning, by seq: they cost what is
    sent of them."""
    less, thoughts = Counter[int](), Counter[int]()
    if PROVIDERS[plan.model.format].fills:
        less.update(_by_turns(window, history, plan, mends))
    if "file_names" in plan.wanted and history.records.details:
        less.update(_by_names(window, history, plan.model, mends))
    if mends.sent:
        as_sent, thoughts = _as_sent(window, history, plan.model, mends, bodies)
        less.update(as_sent)
    if plan.joint or mends.joins:
        less[0] += _by_joins(window, history, plan, mends)
    return less, thoughts


def _by_turns(window: Window, history: History, plan: Plan, mends: Mends) -> Counter[int]:
    """The tokens that messages cost less than they were chosen by, by seq, in a form that fills.

    A message that is joined with the one before it has nothing around it. A system text was chosen by the dearest of its
    places: first, behind a blank line, or as a note (``with_fillers``).
    """
    roles = _roles_of(window.rows, history.records.roles)
    has_system = SYSTEM in roles or DEVELOPER in roles
    are_alike = any(alike in roles for alike in _ALIKE)
    if not (has_system or are_alike) and message_costs(history.records, plan.model).all():  # as nearly always
        return Counter()
    turns = list(_turns(window, history, plan.model, roles))
    leading = _leading(window, roles)
    saved = _by_systems(turns, history, plan, leading) if has_system else Counter[int]()
    if not PROVIDERS[plan.model.format].replies_are_items:  # items are joined with none
        saved += _by_joints(turns, history, plan.model, leading, mends.joined)
    return +saved


def is_sent_as_counted(window: Window, history: History, plan: Plan, mends: Mends, bodies: Bodies) -> bool:
    """Whether a form that fills sends a window's texts as they were counted one by one: a system text at most, and turns of
    the user's and the model's by turns. Nothing is joined, filled in, left out or mended."""
    records, fixed = history.records, plan.parts
    beside = (
        fixed.few_shots,
        window.summary,
        window.note,
        window.opening,
        window.goes_on,
        window.grounding,
        mends.told,
    )
    if any(beside) or records.own_tokens is None:
        return False
    roles = _roles_of(window.rows, records.roles)
    is_told = bool(roles) and roles[0] <= DEVELOPER
    turns = roles[is_told:]
    by_turns = bytes((USER, ASSISTANT)) * len(turns)
    if turns != by_turns[: len(turns)] or is_told + len(fixed.system) > 1:
        return False
    if is_told and not said_in(msgspec.json.decode(bodies.body(window.seqs[0]))).strip():
        return False  # a blank system text is left out
    return bool((records.own_tokens[list(window.rows)] > 1).all())


def _leading(window: Window, roles: bytes) -> frozenset[int]:
    """The rows of system texts before all other messages of the window, also those that are not sent, and before a
    provider's compaction."""
    begins = next((at for at, role in enumerate(roles) if role > DEVELOPER), len(roles))
    summary = window.summary
    is_compaction = summary is not None and summary.measure.role == ASSISTANT
    ends = summary.seq if summary is not None and is_compaction and summary.seq else math.inf
    return frozenset(row for row, seq in zip(window.rows[:begins], window.seqs, strict=False) if seq < ends)


def _turns(window: Window, history: History, model: Model, roles: bytes) -> Iterator[_Turn]:
    costs, own = message_costs(history.records, model), _are_own(history.records, model.format)
    for row, role in zip(window.rows, roles, strict=True):
        if role != ASSISTANT or costs[row]:  # else it is left out
            yield _Turn(row, role, own[row])


def _by_systems(turns: Sequence[_Turn], history: History, plan: Plan, leading: frozenset[int]) -> Counter[int]:
    """What system texts cost less than the dearest place; ``leading`` are sent as system texts, and the others as notes."""
    model, saved, blank = plan.model, Counter[int](), blank_line_tokens(plan.model)
    is_first = not plan.parts.system
    for row, role, is_own in turns:
        if role <= DEVELOPER and not (is_own and PROVIDERS[model.format].has_system_messages(model.known_as)):
            as_note = as_note_tokens(history.records[row], model)
            sent = as_note if row not in leading else 0 if is_first else blank
            seq = history.seqs[row]
            is_bare = is_first and stands_first(history, row)
            saved[seq] = 0 if is_bare else max(blank, as_note) - sent
            is_first = False
    return saved


def _by_joints(
    turns: Sequence[_Turn], history: History, model: Model, leading: frozenset[int], joined: AbstractSet[int]
) -> Counter[int]:
    """What messages cost less that are joined with the one before them. A call saves nothing: its cost is its own alone.

    Messages that came in the form are joined with none, but for those with the seqs ``joined``.
    """
    saved, before, ended, run = Counter[int](), -1, False, 0
    records = history.records
    is_note = not PROVIDERS[model.format].has_system_messages(model.known_as)
    for row, role, is_own in turns:
        if row in leading:
            continue
        joins, seq = USER if role <= DEVELOPER and is_note else role, history.seqs[row]
        is_call = role == ASSISTANT and (records.calls[row] or records.flags[row] & Flags.LEGACY_CALL)
        is_apart = is_own and role > DEVELOPER
        can_join = not (is_apart or ended) or seq in joined
        run = run + 1 if can_join and joins == before and joins in (USER, ASSISTANT) and not is_call else 0
        if run:
            around = math.floor(model.rules.role_costs[joins] * model.margin)
            saved[seq] = around - (run == 1 and model.ratios is not None)  # it is rounded once
        before, ended = -1 if is_call else joins, is_apart
    return saved


def _by_joins(window: Window, history: History, plan: Plan, mends: Mends) -> int:
    """The tokens that messages of a chat request cost less that are sent as one, and those of replies that no question
    needs before it; negative where a blank line between system texts was not reserved with them."""
    roles = _roles_of(window.rows, history.records.roles)
    systems = sum(role <= DEVELOPER for role in roles) + plan.few_shot_systems
    systems += (window.summary is not None) + bool(window.note)
    saved = plan.joint * systems
    if TOOL in history.records.roles:
        saved += plan.bridge * roles.count(USER)
    for parts, one in mends.joins:
        saved += sum(written_cost(part, plan.model) for part in parts) - (written_cost(one, plan.model) if one else 0)
    return saved


def _roles_of(rows: Sequence[int], roles: bytes) -> bytes:
    """The roles of rows, which are mostly a run."""
    if rows and rows[-1] - rows[0] == len(rows) - 1 and min(rows) == rows[0] and max(rows) == rows[-1]:
        return roles[rows[0] : rows[-1] + 1]
    return bytes([roles[row] for row in rows])


def _are_own(records: Records, form: str) -> Sequence[bool]:
    """Whether each message came in this form."""
    forms = records.columns["form"] if records.details else 0
    found = (forms == form_number(form)).tolist() if isinstance(forms, np.ndarray) else [False] * len(records)
    for row in records.rare if records.details else ():
        found[row] = came_in(records[row].measure, form)
    return found


def _by_names(window: Window, history: History, model: Model, mends: Mends) -> Counter[int]:
    """The tokens that were reserved for files' names and for words beside them, by seq, of messages that need none.

    They are reserved in forms in which each file has a name.
    """
    records, form = history.records, model.format
    saved = Counter[int]()
    for row, seq in zip(window.rows, window.seqs, strict=True):
        if row in records.media and seq not in mends.told and row not in window.edits:
            measured = records[row].measure
            if came_in(measured, form) or seq not in mends.changed:  # those that are changed are counted again
                saved[seq] = with_filler(measured, 0, model)
    return saved


def _as_sent(
    window: Window, history: History, model: Model, mends: Mends, bodies: Bodies
) -> tuple[Counter[int], Counter[int]]:
    """The tokens that changed messages, and their reasoning, cost less than they were chosen by, by seq."""
    records, form = history.records, model.format
    saved, thoughts, rows = Counter[int](), Counter[int](), dict(zip(window.seqs, window.rows, strict=True))
    for seq, sent in mends.sent.items():
        row = rows.get(seq)
        if row is None or seq not in mends.changed:
            continue
        if seq in window.grounding or seq in window.renamed or (sent and records.roles[row] <= DEVELOPER):
            continue
        if seq in window.lines and seq != window.goes_on:  # lines in place of its results have its seq
            continue
        if (chosen := _chosen_by(seq, row, window, history, model, bodies)) is not None:
            is_chat = PROVIDERS[form].is_chat_form
            said = sent if is_chat else [turn.message for turn in read_messages(form, sent, [""] * len(sent))]
            parallel = records[row].parallel
            saved[seq] = chosen - sum(written_cost(message, model, parallel=parallel) for message in said)
            if thought := _thought_by(row, window, history, model):
                thoughts[seq] = max(0, thought - sum(reasoning_tokens(measure(each), model, form) for each in said))
    return saved, thoughts


def _thought_by(row: int, window: Window, history: History, model: Model) -> int:
    """The tokens of the reasoning that a message was chosen with; 0 where an older turn's is not counted."""
    edit = window.edits.get(row)
    if not window.tokens.reasoning or model.rules.forgets or (edit is not None and edit.without_reasoning):
        return 0
    return reasoning_tokens(history.records[row].measure, model, model.format)


def _chosen_by(seq: int, row: int, window: Window, history: History, model: Model, bodies: Bodies) -> int | None:
    """The tokens that a message was chosen by, without reasoning; None where an edit counted it otherwise."""
    record, edit, sent_in = history.records[row], window.edits.get(row), PROVIDERS[model.format]
    if edit is not None and (edit.limit is not None or edit.without_calls or edit.only_text):
        return None
    if row in window.lined:
        return written_cost(msgspec.json.decode(bodies.body(seq)), model, parallel=record.parallel)
    cost = message_costs(history.records, model).item(row) - (edit.saved if edit else 0)
    more = unseen_tokens(record.measure, model) if sent_in.tells_links else 0
    return (with_filler(record.measure, cost, model) if sent_in.fills else cost) + more
