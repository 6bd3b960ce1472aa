"""A finished window; and the request and the figures of one that is more than texts as they are stored."""

from collections.abc import Set as AbstractSet
from functools import partial, reduce
from operator import or_

import msgspec
import numpy as np

from sash.core.counts.costs.counting import is_estimate
from sash.core.counts.costs.message_cost import is_guessed
from sash.core.counts.costs.request_shapes import parts_in, parts_of
from sash.core.counts.models.models import Model
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.enclosing import with_records
from sash.core.law.history.view import History, Order
from sash.core.law.limits.unreadable import unreadable_in
from sash.core.law.recall import Recollection
from sash.core.law.records.figures import Explained
from sash.core.law.render import Bodies, Body, chat_messages, chat_request, other_messages
from sash.core.law.selection.explain import documents_told
from sash.core.law.selection.window import Window
from sash.core.providers import render_request
from sash.core.providers.messages.endings import REPLY_AT_END
from sash.core.providers.messages.mends import (
    FOREIGN_MEMBERS,
    LATE_RESULT,
    LOST_MEDIUM,
    TOOL_NAMES,
    UNANSWERED_CALL,
    Mends,
)
from sash.core.providers.messages.pieces import Object
from sash.core.providers.openai.server_mends import USER_FIRST
from sash.core.stored.stored_grounding import NO_SOURCE
from sash.windows.asked import Asked, WindowPlan
from sash.windows.cache_hints import Hints, hints_of
from sash.windows.edits import cheaper, sparing
from sash.windows.head import (
    NO_DOCUMENTS,
    Mended,
    SentDocument,
    Trimmed,
    WindowGrounding,
    WindowHead,
    WindowRecalled,
)
from sash.windows.lost_media import lost_seqs
from sash.windows.marked import marked_in, with_foreign_members
from sash.windows.tokens_sent import is_sent_as_counted, savings


class Made(msgspec.Struct, frozen=True):
    """A finished window: its JSON, and the objects that it was made from."""

    body: bytes
    asked: Asked
    history: History
    window: Window
    head: WindowHead
    documents: Documents
    hints: Hints | None
    bodies: Bodies
    receipt: bytes = b""
    """The window's receipt, if its history is stored."""


def woken(
    asked: Asked, history: History, window: Window, bodies: Bodies, documents: Documents, trimmed: Trimmed | None
) -> tuple[Object | list[Body], Window, Hints | None, WindowHead]:
    """The request, the window at the tokens that are sent, the hints for the prompt cache, and the head with what it tells.

    The window's edits are applied. Raises FormatCannotCarry.
    """
    plan, query, parts = asked.plan, asked.plan.query, asked.plan.parts
    mends = _told(window, history, plan)
    request = _request(plan, history, window, bodies, documents, mends)
    hints = hints_of(asked, window) if query.cache != "none" else None
    is_opened = window.opening or (parts.few_shots and plan.opening)
    if is_opened and plan.form.is_chat_form and USER_FIRST.name not in mends.of(0):
        window = sparing(sparing(window, "priming", window.opening), "few_shots", plan.opening)
    if plan.is_recounted or mends.sent or mends.joins:
        window = cheaper(window, *savings(window, history, plan, mends, bodies))
    if hints is not None:
        request = _with_hints(plan, request, hints)
    is_text = not history.records.details and window.summary is None
    exact = plan.text_is_exact if is_text else plan.model.exact and _is_exact(plan, history, window)
    if exact and plan.form.fills:
        exact = is_sent_as_counted(window, history, plan, mends, bodies)
    head = msgspec.structs.replace(
        plan.head,
        exact=exact,
        grounding=_grounding_of(plan, window, documents) if documents.sources else NO_DOCUMENTS,
        trimmed=trimmed,
        recalled=_recalled(window.recalled) if window.recalled else None,
        mended=Mended(len(mends.told), mends.reasons()) if mends.told else None,
        waiting_for=[*window.waiting_for],
        unknown_view=query.view if asked.is_unknown_view else None,
        explain=window.explain and _explain(plan, window, documents, mends),
    )
    return request, window, hints, head


def _told(window: Window, history: History, plan: WindowPlan) -> Mends:
    """The mends that are made before the request is written."""
    mends, parts = Mends(), plan.parts
    if history.order is not None:
        _note(mends, history.order, history, window)
    if parts.mends:
        mends.add_names(parts.mends, 0)
    for seq in window.renamed:
        mends.add(TOOL_NAMES, seq)
    if window.goes_on:
        mends.add(REPLY_AT_END, window.goes_on)
    if window.lined:
        for seq in lost_seqs(window, history):
            mends.add(LOST_MEDIUM, seq)
        for seq, mend in unreadable_in(window, history, plan.model):
            mends.add(mend, seq)
    return mends


def _note(mends: Mends, order: Order, history: History, window: Window) -> None:
    """Note the mends that follow from the order of the window's messages.

    A call that is left out is a mend where the window reaches back to it, and not where budget or limit end the window.
    """
    for seq, row in zip(window.seqs, window.rows, strict=True):
        if row in order.late:
            mends.add(LATE_RESULT, seq)
        if row in order.missing["line"] or row in order.missing["dropped"]:
            mends.add(UNANSWERED_CALL, seq)
    for seq in window.passed.intersection(history.seqs[row] for row in order.missing["gone"]):
        mends.add(UNANSWERED_CALL, seq)


def _explain(plan: Plan, window: Window, documents: Documents, mends: Mends) -> list[Explained]:
    """A line for each message by ascending seq, with its documents and its mends."""
    lines, sources, sent, mode = window.explain or [], documents.sources, window.grounding, plan.query.grounding
    if not (sources or mends.told):
        return lines

    def told(line: Explained) -> Explained:
        source, given = sources.get(line.seq), line.documents
        if source is not None:
            is_asked = line.seq == window.question
            fates = documents.fates(line.seq, sent, mode, is_asked=is_asked) if line.kept else None
            given = documents_told(source.grounding, fates)
        return msgspec.structs.replace(line, mended=mends.of(line.seq), documents=given)

    return [*map(told, lines)]


def _request(
    plan: WindowPlan, history: History, window: Window, bodies: Bodies, documents: Documents, mends: Mends
) -> Object | list[Body]:
    """The window's ``request``: its messages as JSON for chat completions, or an object to be encoded."""
    form, parts, model, drops = plan.query.format, plan.parts, plan.model, plan.query.uncarried == "drop"
    grounding = {seq: each.grounding for seq, each in documents.sources.items()}
    is_rich = history.records.details
    for seq in with_foreign_members(window, history, form) if is_rich else ():
        mends.add(FOREIGN_MEMBERS, seq)
    if not plan.form.is_chat_form:
        return render_request(
            form,
            other_messages(form, parts, window, bodies, grounding),
            tools=parts.tools,
            tool_choice=parts.tool_choice,
            mends=mends,
            model=model.known_as,
            maker=model.provider,
            drops=drops,
            hinted=plan.query.cache == "auto",
            now=history.now,
            came=partial(_came, history),
        )
    if not (plan.refused or is_rich or parts.odd_shots):
        return chat_messages(parts, window, bodies, grounding)
    return chat_messages(parts, window, bodies, grounding, marked_in(window, history, model, mends, drops=drops))


def _came(history: History, seq: int) -> int:
    """The time of a message that was read, in seconds since 1970; 0 where it is not known."""
    details = history.records.details
    return details[history.seqs.index(seq)].identity.created_ms // 1000 if seq and details else 0


def _with_hints(plan: WindowPlan, request: Object | list[Body], hints: Hints) -> Object:
    """The request with hints for the prompt cache."""
    given: Object = msgspec.json.decode(chat_request(plan.parts, request)) if isinstance(request, list) else request
    return plan.form.mark(given, hints.kind, hints.places, hints.key)


def _recalled(recollection: Recollection) -> WindowRecalled:
    seqs = sorted(recollection.lines)
    return WindowRecalled(len(seqs), recollection.tokens, seqs, recollection.searched)


def _grounding_of(plan: Plan, window: Window, documents: Documents) -> WindowGrounding:
    """The documents that the window may send. To explain, others were read too."""
    asks_all = plan.query.grounding == "all"
    sources, sent = documents.sources, {window.question, *(window.seqs if asks_all else ())}
    if plan.query.grounding == "none":
        return NO_DOCUMENTS
    given = sum(len(source.grounding.documents) for seq, source in sources.items() if seq in sent)
    kept = sum(len(chosen.places) for chosen in window.grounding.values())
    cut = any(chosen.cut for chosen in window.grounding.values())
    shortened = sum(level > 0 for chosen in window.grounding.values() for level in chosen.levels)
    is_less = kept < given or cut or shortened > 0
    return WindowGrounding(given, kept, is_less, shortened, _sent_documents(window, documents))


def _sent_documents(window: Window, documents: Documents) -> list[SentDocument]:
    """The documents that are sent, by their messages' seq; none where no one of them says where it is from."""
    found, is_told = [], False
    for seq, chosen in sorted(window.grounding.items()):
        stored = documents.sources[seq].grounding
        for place in chosen.places:
            source = stored.source(place)
            is_told = is_told or source != NO_SOURCE
            found.append(SentDocument(seq, stored.documents[place][0], source.title, source.url, source.metadata))
    return found if is_told else []


def _is_exact(plan: Plan, history: History, window: Window) -> bool:
    """Whether the total of an exact model's window is what the provider bills."""
    if not plan.fixed_is_exact or window.tokens.reasoning:
        return False
    summary, bits = window.summary, plan.fixed_bits
    if summary is not None:
        if is_estimate(summary.measure, plan.model):
            return False
        bits |= parts_of(summary.measure)
    if window.lined:  # they are sent as these are
        history = with_records(history, window.lined)
    if history.records.details:
        if _any_estimate(history, window, plan.model):
            return False
        bits |= _parts_sent(history, set(window.rows))
    return plan.has_stood(bits)


def _parts_sent(history: History, sent: AbstractSet[int]) -> int:
    """The bits of the parts that the messages of these rows have."""
    records, bits = history.records, 0
    for bit, has in parts_in(records.columns):
        found = np.flatnonzero(has).tolist() if isinstance(has, np.ndarray) else []
        bits |= 0 if sent.isdisjoint(found) else bit
    return reduce(or_, (parts_of(records[index].measure) for index in records.rare if index in sent), bits)


def _any_estimate(history: History, window: Window, model: Model) -> bool:
    records, sent = history.records, set(window.rows)
    guessed = is_guessed(records.columns, model)
    found = np.flatnonzero(guessed).tolist() if isinstance(guessed, np.ndarray) else []
    found += [index for index in records.rare if is_estimate(records[index].measure, model)]
    return not sent.isdisjoint(found)
