"""A chosen window's messages as they are sent: cut, renamed, with lines, at the tokens that they have then.

The messages were chosen by bounds. Each function here changes some of them, and gives the window with exact tokens.
"""

from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np

from sash.core.chat.messages import encode_message
from sash.core.counts.costs.counting import reasoning_tokens
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import Model
from sash.core.law.documents.document_costs import Joining
from sash.core.law.documents.grounding import Grounded
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.enclosing import with_records
from sash.core.law.history.lines import line_of, medium_lines
from sash.core.law.history.results import Edit, cut_result, left_out_line
from sash.core.law.history.view import History, Order
from sash.core.law.limits.unreadable import told_among
from sash.core.law.records.costs import message_costs, record_cost, written_cost
from sash.core.law.records.figures import Explained
from sash.core.law.render import Bodies
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.tool_names import renamed
from sash.core.providers.messages.endings import GO_ON, is_asked_on
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.pieces import Object
from sash.core.providers.reading.enclosures import enclosed, with_lines
from sash.core.providers.reading.interrupted import calls_in, text_alone, without_calls
from sash.core.providers.reading.own_parts import without_reasoning
from sash.core.providers.writing.turns import is_of
from sash.core.stored.record import RESULTS, Record
from sash.windows.asked import Asked
from sash.windows.head import Trimmed
from sash.windows.needs import LongWork
from sash.windows.recalling import first_seen

_encode = msgspec.json.Encoder().encode
_members: Any = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""A message of which no member is decoded."""
_replace = msgspec.structs.replace
_NOTHING: Final[Mapping[int, int]] = MappingProxyType({})
_FEW_EDITS: Final = 8
"""Messages that are changed within some ten milliseconds at most, such as results that are cut."""
_SMALL_BYTES: Final = 65_536
"""The bytes of messages that are changed within a few milliseconds."""


def as_sent(
    asked: Asked, window: Window, history: History, bodies: Bodies
) -> Generator[LongWork, None, tuple[Asked, Window, Bodies, Trimmed | None]]:
    """The window with what is sent in place of its messages as they are stored: lines, cuts and other names; and the
    request with what its tools tell of it."""
    plan, model, trimmed = asked.plan, asked.plan.model, None
    if history.order is not None:
        window = _with_result_lines(window, history, history.order, bodies, model)
    if window.edits:
        cut = [each for each in window.edits.values() if each.limit != 0]  # a line is soon written
        if len(cut) > _FEW_EDITS or int(history.records.sizes()[[*window.edits]].sum()) > _SMALL_BYTES:
            yield LongWork()
        window, bodies, trimmed = edited(window, history, bodies, model)
    if window.goes_on:  # a reply without its calls may end a request, so the messages as they are sent decide
        window = _with_line_to_go_on(window, bodies, plan.parts.sent_few_shots, model)
    if plan.parts.names:
        window, bodies = _with_sent_names(window, history, bodies, plan)
    if plan.query.history_tools:
        asked = asked.with_tools(first_seen(window, history), history.length)
    return asked, window, bodies, trimmed


def _with_result_lines(window: Window, history: History, order: Order, bodies: Bodies, model: Model) -> Window:
    """The window with the lines in place of missing results, and the ids of the calls that wait."""
    sent, seqs = set(window.rows), history.seqs
    lines: dict[int, list[bytes]] = {}
    less: dict[int, int] = {}
    for row in order.missing["line"].keys() & sent:
        missing, calls = order.missing["line"][row], calls_in(msgspec.json.decode(bodies.body(seqs[row])))
        messages = [line_of(calls[number]) for number in missing]
        lines[seqs[row + len(calls) - len(missing)]] = list(map(_encode, messages))  # behind the results that came
        if not history.records.calls[row]:  # its bound was of any name
            spare = history.lines_tokens(row, model) - sum(written_cost(message, model) for message in messages)
            less[seqs[row]] = spare
    waiting: list[str] = []
    for row in order.missing["waiting"].keys() & sent:
        calls = calls_in(msgspec.json.decode(bodies.body(seqs[row])))
        waiting = [calls[number].get("id") or calls[number]["name"] for number in order.missing["waiting"][row]]
    return _replace(cheaper(window, less), lines=lines, waiting_for=waiting)


def _with_line_to_go_on(window: Window, bodies: Bodies, few_shots: Sequence[bytes], model: Model) -> Window:
    """The window with the line that asks to go on behind its last reply.

    Where the reply may stand at the end, there is no line, and the line's tokens are taken off.
    """
    seqs = reversed(window.seqs[: window.seqs.index(window.goes_on) + 1])
    newest_first = chain(map(bodies.body, seqs), reversed(few_shots))
    to = meet(model.format, model.provider, model.known_as)
    if is_asked_on(map(msgspec.json.decode, newest_first), to):
        return _replace(window, lines={**window.lines, window.goes_on: [_encode(GO_ON)]})
    return _replace(sparing(window, "priming", written_cost(GO_ON, model)), goes_on=0)


def cheaper(window: Window, less: Mapping[int, int], thoughts: Mapping[int, int] = _NOTHING) -> Window:
    """The window with the exact tokens of messages whose cost was a bound: so much ``less`` each, and their ``thoughts``."""
    if not (less or thoughts):
        return window
    window = sparing(sparing(window, "messages", sum(less.values())), "reasoning", sum(thoughts.values()))
    if window.explain is None:
        return window
    return _replace(window, explain=[_cheaper_line(line, less, thoughts) for line in window.explain])


def _cheaper_line(line: Explained, less: Mapping[int, int], thoughts: Mapping[int, int]) -> Explained:
    thought = thoughts.get(line.seq, 0)
    saved = less.get(line.seq, 0) + thought
    return _replace(line, tokens=line.tokens - saved, reasoning=line.reasoning - thought) if saved else line


def sparing(window: Window, part: str, tokens: int) -> Window:
    """The window with so many tokens less in one part of its figures."""
    return _replace(window, tokens=window.tokens.plus(part, -tokens))


def _with_documents_priced(window: Window, priced: Mapping[int, Grounded]) -> Window:
    """The window with these documents, whose cost was a bound, at the cost that they have."""
    if not priced:
        return window
    grounding = {**window.grounding, **priced}
    less = window.tokens.grounding - sum(each.cost for each in grounding.values())
    return _replace(sparing(window, "grounding", less), grounding=grounding)


def edited(window: Window, history: History, bodies: Bodies, model: Model) -> tuple[Window, Bodies, Trimmed | None]:
    """Apply the window's edits. Returns the window with exact tokens, the edited bodies, and the figures of cut results."""
    if window.lined:
        window, bodies = _lined(window, history, bodies, model)
    return _without_lines(window, with_records(history, window.lined), bodies, model)


def _lined(window: Window, history: History, bodies: Bodies, model: Model) -> tuple[Window, Bodies]:
    """The window and the bodies with lines in place of media."""
    made: dict[int, bytes] = {}
    spans: dict[int, tuple[int, int]] = {}
    less: dict[int, int] = {}
    priced: dict[int, Grounded] = {}
    for row, bound in window.lined.items():
        seq, each, record = history.seqs[row], window.edits[row], history.records[row]
        message = msgspec.json.decode(bodies.body(seq))
        told = told_among(record.enclosed, each.media, model, history.now)
        lines = medium_lines(record, each.media, seq, window.path, history.lost.get(seq, ()), told)
        if told:
            found = enclosed(message)
            lines |= {number: media_line(found[number].part) for number in told if not found[number].form}
        message = with_lines(message, lines)
        if not is_of(message, model.format):
            message.pop("native", None)
        made[seq], *span = encode_message(message)
        spans[seq] = span[0], span[1]
        if each.limit is None and not each.without_calls:
            less[seq] = record_cost(bound, model) - written_cost(message, model, parallel=record.parallel)
        if chosen := window.grounding.get(seq):
            joining = Joining(_with_content(record, message, model), message["content"], model)
            priced[seq] = _replace(chosen, cost=joining.cost(chosen.before, chosen.after))
    bodies = _replace(bodies, edited=made, spans=spans)
    return _with_documents_priced(cheaper(window, less), priced), bodies


def _with_content(record: Record, message: Object, model: Model) -> Record:
    """The record of a message as it is written for this window, with all of its content."""
    own_tokens = None if model.vocabulary is None else spoken_tokens(message, model.vocabulary)
    return _replace(record, measure=measure(message), own_tokens=own_tokens, media=())


def _without_lines(
    window: Window, history: History, bodies: Bodies, model: Model
) -> tuple[Window, Bodies, Trimmed | None]:
    """The same, except lines in place of media."""
    edits = dict(window.edits)
    edited: dict[int, bytes] = {}
    trimmed: dict[int, int] = {}
    less: dict[int, int] = {}
    costs = message_costs(history.records, model)
    whole = {row: costs.item(row) for row in edits}
    plain = _plain_lines(window, history, model)
    for row, each in window.edits.items():
        seq = history.seqs[row]
        if each == Edit(media=each.media):
            continue
        if row in plain:
            message = _members(bodies.body(seq))
            message["content"], cost = plain[row]
        else:
            message = msgspec.json.decode(bodies.body(seq))
            record = history.records[row]
            is_signed_result = each.limit is not None and reasoning_tokens(record.measure, model)
            if is_signed_result or not is_of(message, model.format):
                message.pop("native", None)  # a cut result leaves no room for a signature: it is sent in its chat form
            if each.without_reasoning:
                message = without_reasoning(message, seals=each.without_seals)
            if each.limit is not None:
                message, cost = cut_result(message, record, each.limit, model, seq=seq, path=window.path)
            if each.without_calls or each.only_text:
                own = message.get("native")
                form = PROVIDERS[own["format"]] if own else None
                message = text_alone(message) if each.only_text else without_calls(message, each.without_calls, form)
                less[seq] = whole[row] - written_cost(message, model)
        if each.limit is not None:
            trimmed[seq] = whole[row] - cost
            if trimmed[seq] != each.saved or cost != each.cost:
                edits[row] = _replace(each, saved=trimmed[seq])
                less[seq] = each.cost - cost
        edited[seq] = _encode(message)
    window = cheaper(window, less)
    lines = window.explain and [_replace(line, trimmed=trimmed.get(line.seq, line.trimmed)) for line in window.explain]
    changed = _replace(window, explain=lines, edits=edits)
    bodies = _replace(bodies, edited={**bodies.edited, **edited})
    return changed, bodies, Trimmed(len(trimmed), sum(trimmed.values())) if trimmed else None


def _plain_lines(window: Window, history: History, model: Model) -> dict[int, tuple[str, int]]:
    """The results without native parts that are sent as one line: the line, and its tokens, by row."""
    records, edits = history.records, window.edits
    if model.vocabulary is not None or not records.details:
        return {}
    native, apart = records.columns["form"], records.with_parts
    lines = [row for row, each in edits.items() if each.limit == 0]
    rows = [row for row in lines if row not in apart and not (isinstance(native, np.ndarray) and native[row])]
    tokens = records.tokens(model.column)
    return {row: (left_out_line(tokens.item(row), history.seqs[row], window.path), edits[row].cost) for row in rows}


def _with_sent_names(window: Window, history: History, bodies: Bodies, plan: Plan) -> tuple[Window, Bodies]:
    """Return the window and the bodies with the sent names in calls and results, at the tokens that these have."""
    edited: dict[int, bytes] = {}
    less: dict[int, int] = {}
    records, model, names = history.records, plan.model, plan.parts.names
    for seq, row in zip(window.seqs, window.rows, strict=True):
        calls = records.calls[row]
        if not calls and records.roles[row] not in RESULTS:
            continue
        message, more = msgspec.json.decode(bodies.body(seq)), 0
        changed = renamed(message, names)
        if changed != message:
            edited[seq] = msgspec.json.encode(changed)
            cost, was = (written_cost(each, model, parallel=records[row].parallel) for each in (changed, message))
            more = cost - was
        less[seq] = calls * plan.renaming - more
    bodies = _replace(bodies, edited={**bodies.edited, **edited})
    return _replace(cheaper(window, less), renamed=(*edited,)), bodies
