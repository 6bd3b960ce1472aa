"""A window as JSON: the encoded figures, then the stored bodies, spliced in unchanged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from itertools import chain
from operator import or_
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from sash.core.chat.messages import Metadata
from sash.core.counts.costs.counting import is_estimate, reasoning_tokens
from sash.core.counts.costs.message_cost import is_guessed
from sash.core.counts.costs.request_shapes import parts_in, parts_of
from sash.core.counts.measures.measures import Extra
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.measures.rows import form_named, form_number
from sash.core.counts.models.models import NO_WINDOW, Model
from sash.core.law.documents.documents import Documents
from sash.core.law.documents.grounding import Grounded
from sash.core.law.fixed_parts.cost import Cost, cost_of, input_prices
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.enclosing import with_records
from sash.core.law.history.lines import go_on_tokens, line_of
from sash.core.law.history.results import Edit, cut_result, left_out_line, line_costs
from sash.core.law.history.view import History, Order
from sash.core.law.limits.lost_media import lost_seqs
from sash.core.law.limits.unreadable import unreadable_in
from sash.core.law.recall.recall import Recollection, Searched
from sash.core.law.records.costs import message_costs, written_cost
from sash.core.law.records.explained import Explained
from sash.core.law.records.records import NO_SOURCE, StoredGrounding
from sash.core.law.render import Bodies, Body, Marked, chat_messages, chat_request, other_messages
from sash.core.law.selection.explain import documents_told
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.messages.endings import GO_ON, REPLY_AT_END, is_asked_on
from sash.core.providers.messages.members import FOREIGN
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
from sash.core.providers.reading.interrupted import calls_in, text_alone, without_calls
from sash.core.providers.reading.own_parts import without_reasoning
from sash.core.providers.writing.turns import is_of
from sash.windows.asked import Asked
from sash.windows.cache_hints import Hints
from sash.windows.server_marks import refused_by_servers
from sash.windows.tokens_sent import saved_as_sent, saved_by_turns

_encode = msgspec.json.Encoder().encode
_members: Any = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""A message of which no member is decoded."""


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


class Trimmed(msgspec.Struct, frozen=True):
    """Tool results that are sent shortened or as one line: their number, and the tokens that were cut."""

    messages: int
    tokens: int


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
    if window.opening and PROVIDERS[query.format].is_chat_form and USER_FIRST.name not in mends.of(0):
        window = _unopened(window)
    less = saved_by_turns(window, history, plan, mends) if PROVIDERS[query.format].fills else None
    if mends.sent:
        as_sent = saved_as_sent(window, history, model, mends, bodies)
        less = Counter(less or {})
        less.update(as_sent)
    window = cheaper(window, less) if less else window
    if hints is not None:
        request = _with_hints(asked, request, hints)
    known, total = model.context_window < NO_WINDOW, window.tokens["total"]
    is_text = not history.records.details and window.summary is None
    head = WindowHead(
        conversation_id=asked.conversation if asked.version is not None else None,
        version=asked.version,
        etag=asked.etag,
        model=model.id,
        encoding=model.counted_with,
        exact=plan.text_is_exact if is_text else model.exact and _is_exact(plan, history, window),
        context_window=model.context_window if known else None,
        max_input_tokens=model.max_input_tokens if known else None,
        reserve=plan.reserve,
        budget=plan.budget,
        format=query.format,
        tokens=WindowTokens(**window.tokens),
        kept=Kept(len(seqs), seqs[0], max(seqs) if window.is_moved else seqs[-1]) if seqs else Kept(0, None, None),
        dropped=Dropped(**window.dropped),
        grounding=_documents_of(asked, window, history, documents) if documents.sources else _NO_DOCUMENTS,
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
        explain=window.explain and _explain(asked, window, history.question, documents, mends),
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
    for seq, row in window.row_of.items():
        if row in order.late:
            mends.add(LATE_RESULT, seq)
        if row in order.lines or row in order.dropped:
            mends.add(UNANSWERED_CALL, seq)
    for seq in window.passed & {*history.seqs[[*order.gone]].tolist()}:
        mends.add(UNANSWERED_CALL, seq)


def _explain(asked: Asked, window: Window, question: int, documents: Documents, mends: Mends) -> list[Explained]:
    """A line for each message by ascending seq, with its documents and its mends."""
    lines, sources, sent, mode = window.explain or [], documents.sources, window.grounding, asked.plan.query.grounding
    if not (sources or mends.told):
        return lines

    def told(line: Explained) -> Explained:
        source, given = sources.get(line.seq), line.documents
        if source is not None:
            is_asked = line.seq == question
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
    for seq in _with_foreign_members(window, history) if is_rich else ():
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
            came=history.came,
        )
    if not (asked.plan.refused or is_rich or parts.odd_shots):
        return chat_messages(parts, window, bodies, grounding, Marked(), mends)
    beside, odd = _marks(window, history)
    for seq, bits in refused_by_servers(window, history, model.provider, model.known_as).items():
        odd[seq] = odd.get(seq, 0) | bits
    marked = Marked(beside, odd, model.provider, model.known_as, drops)
    return chat_messages(parts, window, bodies, grounding, marked, mends)


def _with_hints(asked: Asked, request: Object | list[Body], hints: Hints) -> Object:
    """The request with hints for the prompt cache."""
    given: Object = (
        msgspec.json.decode(chat_request(asked.plan.parts, request)) if isinstance(request, list) else request
    )
    return PROVIDERS[asked.plan.query.format].mark(given, hints.kind, hints.places, hints.key)


def with_result_lines(window: Window, history: History, order: Order, bodies: Bodies, model: Model) -> Window:
    """The window with the lines in place of missing results, and the ids of the calls that wait."""
    sent, seqs = set(window.rows), history.seqs
    lines: dict[int, list[bytes]] = {}
    less: dict[int, int] = {}
    for row in order.lines.keys() & sent:
        gap, calls = order.lines[row], calls_in(msgspec.json.decode(bodies.body(seqs.item(row))))
        messages = [line_of(calls[number]) for number in gap.calls]
        lines[seqs.item(gap.last)] = list(map(_encode, messages))
        if not history.records.calls[row]:  # its bound was of any name
            spare = history.lines_tokens(row, model) - sum(written_cost(message, model) for message in messages)
            less[seqs.item(row)] = spare
    waiting: list[str] = []
    for row in order.waiting.keys() & sent:
        gap, calls = order.waiting[row], calls_in(msgspec.json.decode(bodies.body(seqs.item(row))))
        waiting = [calls[number].get("id") or calls[number]["name"] for number in gap.calls]
    return msgspec.structs.replace(cheaper(window, less), lines=lines, waiting_for=waiting)


def with_line_to_go_on(window: Window, bodies: Bodies, few_shots: Sequence[bytes], model: Model) -> Window:
    """The window with the line that asks to go on behind its last reply.

    Where the reply may stand at the end, there is no line, and the line's tokens are taken off.
    """
    seqs = reversed(window.seqs[: window.seqs.index(window.goes_on) + 1])
    newest_first = chain(map(bodies.body, seqs), reversed(few_shots))
    if is_asked_on(map(msgspec.json.decode, newest_first), model.format):
        return msgspec.structs.replace(window, lines={**window.lines, window.goes_on: [_encode(GO_ON)]})
    tokens, spared = window.tokens, go_on_tokens(model)
    changed = {**tokens, "total": tokens["total"] - spared, "priming": tokens["priming"] - spared}
    return msgspec.structs.replace(window, tokens=changed, goes_on=0)


def cheaper(window: Window, less: Mapping[int, int]) -> Window:
    """The window with the exact tokens of messages whose cost was a bound: so much ``less`` each."""
    if not less:
        return window
    tokens, spared = window.tokens, sum(less.values())
    lines = window.explain and [
        msgspec.structs.replace(line, tokens=line.tokens - less.get(line.seq, 0)) for line in window.explain
    ]
    changed = {**tokens, "total": tokens["total"] - spared, "messages": tokens["messages"] - spared}
    return msgspec.structs.replace(window, tokens=changed, explain=lines)


def _unopened(window: Window) -> Window:
    """The window without the tokens of a turn before its first message: that was empty, and is left out."""
    tokens, spared = window.tokens, window.opening
    changed = {**tokens, "total": tokens["total"] - spared, "priming": tokens["priming"] - spared}
    return msgspec.structs.replace(window, tokens=changed)


def with_documents_priced(window: Window, priced: Mapping[int, Grounded]) -> Window:
    """The window with these documents, whose cost was a bound, at the cost that they have."""
    if not priced:
        return window
    grounding = {**window.grounding, **priced}
    cost = sum(each.cost for each in grounding.values())
    less = window.tokens["grounding"] - cost
    tokens = {**window.tokens, "total": window.tokens["total"] - less, "grounding": cost}
    return msgspec.structs.replace(window, grounding=grounding, tokens=tokens)


def edit(window: Window, history: History, bodies: Bodies, model: Model) -> tuple[Window, Bodies, Trimmed | None]:
    """Apply the window's edits. Returns the window with exact tokens, the edited bodies, and the figures of cut results."""
    edits = dict(window.edits)
    edited: dict[int, bytes] = {}
    saved = count = 0
    trimmed: dict[int, int] = {}
    less: dict[int, int] = {}
    costs = message_costs(history.records, model)
    whole = {seq: costs.item(window.row_of[seq]) for seq in edits}
    plain = _plain_lines(window, history, model, whole)
    for seq, each in window.edits.items():
        if each.media and each == Edit(media=each.media, saved=each.saved):
            continue
        if seq in plain:
            message = _members(bodies.body(seq))
            message["content"], cost = plain[seq]
        else:
            message = msgspec.json.decode(bodies.body(seq))
            record = history.records[window.row_of[seq]]
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
                less[seq] = whole[seq] - written_cost(message, model)
        if each.limit is not None:
            trimmed[seq] = whole[seq] - cost
            if trimmed[seq] != each.saved:
                edits[seq] = msgspec.structs.replace(each, saved=trimmed[seq])
                less[seq] = trimmed[seq] - each.saved
            count, saved = count + 1, saved + trimmed[seq]
        edited[seq] = _encode(message)
    window = cheaper(window, less)
    lines = window.explain and [
        msgspec.structs.replace(line, trimmed=trimmed.get(line.seq, line.trimmed)) for line in window.explain
    ]
    changed = msgspec.structs.replace(window, explain=lines, edits=edits)
    bodies = msgspec.structs.replace(bodies, edited={**bodies.edited, **edited})
    return changed, bodies, Trimmed(count, saved) if count else None


def _plain_lines(
    window: Window, history: History, model: Model, whole: Mapping[int, int]
) -> dict[int, tuple[str, int]]:
    """The results without native parts that are sent as one line: the line, and its tokens. ``whole`` are the results'."""
    records, edits = history.records, window.edits
    if model.vocabulary is not None or not records.details:
        return {}
    native, apart = records.columns["form"], records.with_parts
    lines = {window.row_of[seq]: seq for seq, each in edits.items() if each.limit == 0}
    rows = [row for row in lines if row not in apart and not (isinstance(native, np.ndarray) and native[row])]
    tokens, other = (records.tokens(column).tolist() for column in (model.column, 1 - model.column))
    # The bound is of the larger number. It is exact where the other number has as many digits.
    unsure = [row for row in rows if other[row] > tokens[row] and _digits(other[row]) > _digits(tokens[row])]
    exact: dict[int, int] = {}
    if unsure:
        costs = line_costs(records, unsure, [lines[row] for row in unsure], window.path, model, exact=True)
        exact = dict(zip(unsure, costs, strict=True))
    found = {}
    for row in rows:
        seq = lines[row]
        bound = whole[seq] - edits[seq].saved
        found[seq] = left_out_line(tokens[row], seq, window.path), exact.get(row, bound)
    return found


def _digits(number: int) -> int:
    return len(str(number))


def _recalled(recollection: Recollection) -> WindowRecalled:
    seqs = sorted(recollection.lines)
    return WindowRecalled(len(seqs), recollection.tokens, seqs, recollection.searched)


def _documents_of(asked: Asked, window: Window, history: History, documents: Documents) -> WindowGrounding:
    """The documents that the window may send. To explain, others were read too."""
    asks_all = asked.plan.query.grounding == "all"
    sources, sent = documents.sources, {history.question, *(window.seqs if asks_all else ())}
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


def _marks(window: Window, history: History) -> tuple[dict[int, NativeParts], dict[int, int]]:
    """Native parts of the window's messages, and what chat completions refuse in them, by seq."""
    records, seqs = history.records, history.seqs
    if not records.details:
        return {}, {}
    sent = set(window.seqs)
    extras = ((seqs.item(index), records.details[index].extra) for index in records.rare)
    found = {seq: extra for seq, extra in extras if extra is not None and seq in sent}
    beside = {seq: extra.beside for seq, extra in found.items() if extra.beside is not None}
    odd = {seq: extra.odd for seq, extra in found.items() if extra.odd}
    forms, bits = records.columns["form"], records.columns["odd"]
    if isinstance(forms, np.ndarray):  # a message with a row has no parts that only its provider takes
        native, sizes = np.flatnonzero(forms), records.columns["beside_size"]
        rows = zip(seqs[native].tolist(), forms[native].tolist(), sizes[native].tolist(), strict=True)
        beside |= {seq: NativeParts(form_named(form), size) for seq, form, size in rows if seq in sent}
    if isinstance(bits, np.ndarray):
        places = np.flatnonzero(bits)
        marked = zip(seqs[places].tolist(), bits[places].tolist(), strict=True)
        odd |= {seq: each for seq, each in marked if seq in sent}
    return beside, odd


def _with_foreign_members(window: Window, history: History) -> list[int]:
    """The seqs of the window's messages that are sent without members of the client's own."""
    records = history.records
    found = np.flatnonzero(records.columns["form"] == form_number(FOREIGN)).tolist()
    found += [index for index in records.rare if _is_foreign(records.details[index].extra)]
    sent = dict(zip(window.rows, window.seqs, strict=True)) if found else {}
    return [sent[row] for row in found if row in sent]


def _is_foreign(extra: Extra | None) -> bool:
    return extra is not None and extra.beside is not None and extra.beside.format == FOREIGN


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
        history = with_records(history, {window.row_of[seq]: each for seq, each in window.lined.items()})
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
