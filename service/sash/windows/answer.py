"""A window as JSON: the encoded figures, then the stored bodies, spliced in unchanged."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from sash.core.chat.messages import Metadata
from sash.core.counts.costs.counting import is_estimate
from sash.core.counts.costs.message_cost import is_guessed
from sash.core.counts.costs.request_shapes import parts_in, parts_of
from sash.core.counts.models.models import NO_WINDOW, Model
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.cost import Cost, cost_of, input_prices
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.enclosing import with_records
from sash.core.law.history.view import History, Order
from sash.core.law.limits.lost_media import lost_seqs
from sash.core.law.limits.unreadable import unreadable_in
from sash.core.law.recall import Recollection, Searched
from sash.core.law.records.explained import Explained
from sash.core.law.render import Bodies, Body, Marked, chat_messages, chat_request, other_messages
from sash.core.law.selection.explain import documents_told
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.messages.endings import REPLY_AT_END
from sash.core.providers.messages.mends import (
    FOREIGN_MEMBERS,
    LATE_RESULT,
    LOST_MEDIUM,
    TOOL_NAMES,
    TOOL_SCHEMA,
    UNANSWERED_CALL,
    Mends,
)
from sash.core.providers.messages.pieces import Object
from sash.core.providers.openai.server_mends import USER_FIRST
from sash.core.stored.stored_grounding import NO_SOURCE, StoredGrounding
from sash.windows.asked import Asked
from sash.windows.cache_hints import Hints
from sash.windows.edits import Trimmed, cheaper, sparing
from sash.windows.marked import marked_in, with_foreign_members
from sash.windows.tokens_sent import is_sent_as_counted, savings

_encode = msgspec.json.Encoder().encode


class WindowTokens(msgspec.Struct, frozen=True):
    """The prediction of ``prompt_tokens``: ``total`` is the sum of the other figures, which are tokens by kind of part."""

    total: int
    priming: int
    system: int
    few_shots: int
    tools: int
    summary: int
    messages: int
    grounding: int
    reasoning: int


class Kept(msgspec.Struct, frozen=True):
    """The messages that are sent: their number, and the first and last sequence number, which are null if there is none."""

    messages: int
    first_seq: int | None
    last_seq: int | None


class Dropped(msgspec.Struct, frozen=True):
    """Parts of the history that the window leaves out, in messages and in tokens of the encoding."""

    messages: int
    tokens: int
    duplicates: int
    grounding_messages: int
    grounding_tokens: int
    reasoning_tokens: Annotated[int, Meta(description="Reasoning of messages that are sent without it.")]
    images: Annotated[int, Meta(description="Pictures of sent messages that are sent as one line of text.")]
    files: Annotated[int, Meta(description="Files and sounds of sent messages that are sent as one line of text.")]
    media_bytes: Annotated[int, Meta(description="Bytes that these pictures, files and sounds have as JSON.")]


class SentDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A document that is sent, and where it is from, for citations. ``seq`` is its message's."""

    seq: int
    id: str | None = None
    title: str | None = None
    url: str | None = None
    metadata: Metadata | None = None


class WindowGrounding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Documents of the sent messages: their number, the number that is sent, and whether one was cut, shortened or left
    out."""

    documents: int
    documents_kept: int
    truncated: bool
    documents_shortened: Annotated[int, Meta(description="Kept documents that are sent at a shorter level.")]
    sources: Annotated[
        list[SentDocument],
        Meta(description="The kept documents, as they are sent. Only where one has a title, an address or metadata."),
    ] = []


class WindowRecalled(msgspec.Struct, frozen=True):
    """Older messages in the window that are relevant to the question, their tokens, and the range that was searched."""

    messages: int
    tokens: int
    seqs: list[int]
    searched: Searched


class Mended(msgspec.Struct, frozen=True):
    """Messages that are sent otherwise than they were stored, because their provider would refuse them."""

    messages: int
    reasons: Annotated[dict[str, int], Meta(title="MendReasons", description="The number of messages by mend.")]


class WindowHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A window's members, except ``request``, whose bytes are spliced in after them."""

    conversation_id: str | None
    version: int | None
    etag: Annotated[str | None, Meta(description="The conversation's state, as the header `ETag` has it.")]
    model: str
    encoding: Annotated[str, Meta(description="The vocabulary that the tokens were counted with.")]
    exact: Annotated[bool, Meta(description="Whether the count is the provider's own; false for an estimate.")]
    context_window: Annotated[
        int | None, Meta(description="The model's context window in tokens; null if Sash does not know it.")
    ]
    max_input_tokens: int | None
    reserve: int
    budget: Annotated[int, Meta(description="The largest number of tokens for the window.")]
    format: str
    tokens: WindowTokens
    kept: Kept
    dropped: Dropped
    grounding: WindowGrounding
    stop_reason: str
    summary_used: bool
    note: Annotated[int, Meta(description="The number of left-out messages that the note names; 0 without a note.")]
    trimmed: Trimmed | None = None
    mended: Mended | None = None
    names: Annotated[
        dict[str, str],
        Meta(
            title="SentNames",
            description="Tools that are sent with another name, because the model's server refuses their own: each sent "
            "name with the tool's own. A call of the reply has the sent name.",
        ),
    ] = {}
    waiting_for: Annotated[list[str], Meta(description="Ids of the calls at the end that wait for their results.")] = []
    cost: Cost | None = None
    correction: Annotated[
        float | None, Meta(description="The factor that corrects the estimate, computed from reported bills.")
    ] = None
    model_assumed: Annotated[
        str | None,
        Meta(description="The model or family whose figures stand in for a name that no source lists."),
    ] = None
    recalled: WindowRecalled | None = None
    unknown_view: Annotated[
        str | None,
        Meta(
            description="The view, where it is none of the conversation's `agents`: the window has what is for all, and may "
            "be meant for another. `GET /conversations/{conversation_id}` lists them."
        ),
    ] = None
    explain: list[Any] | None = None
    receipt: Annotated[
        str | None,
        Meta(
            description="The window's name, at most 160 characters: `GET …/window?receipt=` makes it again. Null without a "
            "stored conversation."
        ),
    ] = None


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


_NO_DOCUMENTS = WindowGrounding(0, 0, truncated=False, documents_shortened=0)


def made(
    asked: Asked,
    history: History,
    window: Window,
    bodies: Bodies,
    documents: Documents,
    hints: Hints | None,
    trimmed: Trimmed | None,
) -> Made:
    """The JSON of a window whose edits are applied. Raises FormatCannotCarry."""
    plan = asked.plan
    query, parts, model = plan.query, plan.parts, plan.model
    is_changed = history.order is not None or parts.changed or window.renamed or window.goes_on or window.lined
    mends = _told(window, history, plan) if is_changed else Mends()
    seqs = window.seqs
    request = _request(asked, history, window, bodies, documents, mends)
    is_opened = window.opening or (parts.few_shots and plan.opening)
    if is_opened and PROVIDERS[query.format].is_chat_form and USER_FIRST.name not in mends.of(0):
        window = sparing(sparing(window, "priming", window.opening), "few_shots", plan.opening)
    if plan.is_recounted or mends.sent or mends.joins:
        window = cheaper(window, *savings(window, history, plan, mends, bodies))
    if hints is not None:
        request = _with_hints(asked, request, hints)
    known, total = model.context_window < NO_WINDOW, window.tokens["total"]
    is_text = not history.records.details and window.summary is None
    exact = plan.text_is_exact if is_text else model.exact and _is_exact(plan, history, window)
    if exact and PROVIDERS[query.format].fills:
        exact = is_sent_as_counted(window, history, plan, mends, bodies)
    head = WindowHead(
        conversation_id=asked.conversation if asked.version is not None else None,
        version=asked.version,
        etag=asked.etag,
        model=model.id,
        encoding=model.counted_with,
        exact=exact,
        context_window=model.context_window if known else None,
        max_input_tokens=model.max_input_tokens if known else None,
        reserve=plan.reserve,
        budget=plan.budget,
        format=query.format,
        tokens=WindowTokens(**window.tokens),
        kept=Kept(len(seqs), seqs[0], max(seqs) if window.is_moved else seqs[-1]) if seqs else Kept(0, None, None),
        dropped=Dropped(**window.dropped),
        grounding=_documents_of(asked, window, documents) if documents.sources else _NO_DOCUMENTS,
        stop_reason=window.stop_reason,
        trimmed=trimmed,
        cost=cost_of(total, plan.flat_prices or input_prices(model, total)),
        correction=model.correction,
        model_assumed=model.assumed,
        summary_used=window.summary is not None,
        note=window.note,
        recalled=_recalled(window.recalled) if window.recalled else None,
        names={sent: own for own, sent in parts.names.items()} if parts.names else {},
        mended=Mended(len(mends.told), mends.reasons()) if mends.told else None,
        waiting_for=[*window.waiting_for],
        unknown_view=query.view if asked.is_unknown_view else None,
        explain=window.explain and _explain(asked, window, documents, mends),
    )
    before, named = _encode(head)[:-1] + b',"request":', asked.receipt
    after = b"}" if named is None else b""
    if isinstance(request, list):
        body = chat_request(parts, request, before=before, after=after)
    else:
        body = before + _encode(request) + after
    receipt = b""
    if named is not None:
        receipt = named(body, head.tokens.total)
        body = b"".join((body, b',"receipt":"', receipt, b'"}'))
    return Made(body, asked, history, window, head, documents, hints, bodies, receipt)


def _told(window: Window, history: History, plan: Plan) -> Mends:
    """The mends that are made before the request is written."""
    mends = Mends()
    if history.order is not None:
        _note(mends, history.order, history, window)
    if plan.parts.changed:
        mends.add_names(plan.parts.changed, 0)
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
        if row in order.lines or row in order.dropped:
            mends.add(UNANSWERED_CALL, seq)
    for seq in window.passed.intersection(history.seqs[row] for row in order.gone):
        mends.add(UNANSWERED_CALL, seq)


def _explain(asked: Asked, window: Window, documents: Documents, mends: Mends) -> list[Explained]:
    """A line for each message by ascending seq, with its documents and its mends."""
    lines, sources, sent, mode = window.explain or [], documents.sources, window.grounding, asked.plan.query.grounding
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
    asked: Asked, history: History, window: Window, bodies: Bodies, documents: Documents, mends: Mends
) -> Object | list[Body]:
    """The window's ``request``: its messages as JSON for chat completions, or an object to be encoded."""
    form, parts = asked.plan.query.format, asked.plan.parts
    sources = documents.sources
    grounding: Mapping[int, StoredGrounding] = {seq: each.grounding for seq, each in sources.items()} if sources else {}
    is_rich = history.records.details
    if parts.has_foreign:
        mends.add(FOREIGN_MEMBERS, 0)
    if parts.has_odd_tools:
        mends.add(TOOL_SCHEMA, 0)
    for seq in with_foreign_members(window, history, form) if is_rich else ():
        mends.add(FOREIGN_MEMBERS, seq)
    drops, model = asked.plan.query.uncarried == "drop", asked.plan.model
    if not PROVIDERS[form].is_chat_form:
        return render_request(
            form,
            other_messages(form, parts, window, bodies, grounding),
            tools=parts.fixed.tools,
            tool_choice=parts.fixed.tool_choice,
            mends=mends,
            model=model.known_as,
            maker=model.provider,
            drops=drops,
            hinted=asked.plan.query.cache == "auto",
            now=history.now,
            came=partial(_came, history),
        )
    if not (asked.plan.refused or is_rich or parts.odd_shots):
        return chat_messages(parts, window, bodies, grounding, Marked(), mends)
    return chat_messages(parts, window, bodies, grounding, marked_in(window, history, model, drops=drops), mends)


def _came(history: History, seq: int) -> int:
    """The time of a message that was read, in seconds since 1970; 0 where it is not known."""
    details = history.records.details
    return details[history.seqs.index(seq)].identity.created_ms // 1000 if seq and details else 0


def _with_hints(asked: Asked, request: Object | list[Body], hints: Hints) -> Object:
    """The request with hints for the prompt cache."""
    given: Object = (
        msgspec.json.decode(chat_request(asked.plan.parts, request)) if isinstance(request, list) else request
    )
    return PROVIDERS[asked.plan.query.format].mark(given, hints.kind, hints.places, hints.key)


def _recalled(recollection: Recollection) -> WindowRecalled:
    seqs = sorted(recollection.lines)
    return WindowRecalled(len(seqs), recollection.tokens, seqs, recollection.searched)


def _documents_of(asked: Asked, window: Window, documents: Documents) -> WindowGrounding:
    """The documents that the window may send. To explain, others were read too."""
    asks_all = asked.plan.query.grounding == "all"
    sources, sent = documents.sources, {window.question, *(window.seqs if asks_all else ())}
    if asked.plan.query.grounding == "none":
        return _NO_DOCUMENTS
    given = sum(len(source.grounding.documents) for seq, source in sources.items() if seq in sent)
    kept = sum(chosen.kept for chosen in window.grounding.values())
    cut = any(chosen.cut for chosen in window.grounding.values())
    shortened = sum(chosen.shortened for chosen in window.grounding.values())
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
    if not plan.fixed_is_exact or window.tokens["reasoning"]:
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
