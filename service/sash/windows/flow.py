"""The flow of a window, from what was read to the answer: the same for stored histories and for those in a request.

::

    flow = window(asked, seen)          a generator: nothing is read here
    found = flow.send(None)             a Need, or the Made window, which is the last
    found = flow.send(answer)           … once the driver has read what was needed

``stored.py`` answers from the store and ``stateless.py`` from the request.
"""

from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.counts.models.families import FUNCTION, TOOL
from sash.core.law.build import build_window
from sash.core.law.documents.document_costs import Source
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.cost import Cost, input_prices
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.compaction import compacted
from sash.core.law.history.order import arranged
from sash.core.law.history.perspective import as_seen_by, back_for_view
from sash.core.law.history.view import History, with_recalled
from sash.core.law.recall import choose
from sash.core.law.records.costs import message_costs
from sash.core.law.records.need_older import NeedOlder, older
from sash.core.law.render import Bodies, Body, chat_messages, chat_request
from sash.core.law.selection.explain import does_not_fit
from sash.core.law.selection.window import Window
from sash.core.providers.messages.pieces import Object
from sash.core.search.words import said_in
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding
from sash.problems import WindowDoesNotFit
from sash.windows.answer import Made, woken
from sash.windows.asked import Asked
from sash.windows.cache_hints import Hints
from sash.windows.edits import as_sent
from sash.windows.head import Kept, WindowHead
from sash.windows.needs import (
    DocumentsOf,
    FilledBodies,
    Need,
    Search,
    Searchable,
    SeenHistory,
    SingleBodies,
    Texts,
    WholeRecords,
    WithMedia,
    with_lost,
)
from sash.windows.recalling import (
    NOTHING,
    beside_documents,
    costs_of,
    digests_of,
    in_block,
    in_places,
    last_left_out,
    recallable,
    recollected,
    shortlist,
)

Flow = Generator[Need | Made, Any, None]
"""Its needs, and at last the window."""
_MOST_TRIES = 8
"""Budgets that are tried for a refused window. The first is nearly always enough."""
_NO_RECORDS: Final[Mapping[int, Record]] = MappingProxyType({})
_encode, _replace = msgspec.json.Encoder().encode, msgspec.structs.replace


def window(asked: Asked, seen: SeenHistory) -> Flow:
    """Make the window that is asked for. Raises WindowDoesNotFit, FormatCannotCarry."""
    plan, recalled = asked.plan, _NO_RECORDS
    if plan.query.recall_max_tokens or plan.query.history_tools:
        asked, seen, recalled = yield from _begun(asked, seen)
    drafted = seen
    while True:
        seen = (yield from _with_recalled(asked, seen, recalled)) if recalled else seen
        try:
            choice, history, documents = _chosen(asked, seen)
        except WindowDoesNotFit:
            if not (asked.recollection and asked.recollection.lines):
                raise
            # A recalled message may bring words with it, such as a turn of the user before the assistant.
            asked, seen, recalled = _replace(asked, recollection=NOTHING), drafted, _NO_RECORDS
            continue
        if not isinstance(choice, Window):
            seen = yield seen.older(choice)
            continue
        bodies, seqs = seen.bodies, choice.seqs
        if seen.has_media:
            filled = yield _with_media(choice, history, seen)
            if filled.lost != seen.history.lost:  # lines take less room: older messages may come in
                seen = _replace(seen, history=with_lost(seen.history, filled.lost))
                continue
            bodies = filled.bodies
        elif seqs and (choice.is_moved or seqs[0] < bodies.first_seq):
            seqs = sorted(seqs)
            bodies = bodies if bodies.have(seqs) else (yield Texts(seqs, seen.history))
        is_rich = history.records.details or history.order is not None or choice.edits or documents.sources
        if plan.is_woken or is_rich or choice.summary is not None:
            asked, choice, bodies, trimmed = yield from as_sent(asked, choice, history, bodies)
            request, choice, hints, head = woken(asked, history, choice, bodies, documents, trimmed)
        else:
            request, hints, head = chat_messages(plan.parts, choice, bodies, {}), None, plan.head
        yield _made(asked, history, choice, bodies, documents, request, hints, head)
        return


def _made(
    asked: Asked,
    history: History,
    window: Window,
    bodies: Bodies,
    documents: Documents,
    request: Object | list[Body],
    hints: Hints | None,
    head: WindowHead,
) -> Made:
    """The window as JSON: ``head`` with its figures, and the request, into which stored bodies are spliced unchanged."""
    plan, seqs, total, receipt = asked.plan, window.seqs, window.tokens.total, b""
    prices = plan.flat_prices or input_prices(plan.model, total)
    head = _replace(
        head,
        conversation_id=asked.conversation if asked.version is not None else None,
        version=asked.version,
        etag=asked.etag,
        tokens=window.tokens,
        kept=Kept(len(seqs), seqs[0], max(seqs) if window.is_moved else seqs[-1]) if seqs else head.kept,
        dropped=window.dropped,
        stop_reason=window.stop_reason,
        summary_used=window.summary is not None,
        note=window.note,
        cost=Cost(round(total * prices.uncached * 1e3) / 1e9, prices.tier) if prices is not None else None,
    )
    before = _encode(head)[:-1] + b',"request":'
    body = chat_request(plan.parts, request, before) if isinstance(request, list) else before + _encode(request)
    if asked.receipt is not None:
        receipt = asked.receipt(body, total)
        body = b"".join((body, b',"receipt":"', receipt, b'"}'))
    else:
        body += b"}"
    return Made(body, asked, history, window, head, documents, hints, bodies, receipt)


def _begun(asked: Asked, seen: SeenHistory) -> Generator[Need, Any, tuple[Asked, SeenHistory, Mapping[int, Record]]]:
    """The request with the tools that read its history, and with its recollection, as ``_recall`` gives it."""
    if asked.plan.query.history_tools:
        asked = asked.with_tools(seen.history.length, seen.history.length)
    return (yield from _recall(asked, seen)) if asked.plan.query.recall_max_tokens else (asked, seen, _NO_RECORDS)


def _chosen(asked: Asked, seen: SeenHistory) -> tuple[Window | NeedOlder, History, Documents]:
    """The chosen messages, and the history and the documents that they were chosen from.

    Raises:
        WindowDoesNotFit: the required parts are over the budget. A budget of ``needed`` was tried and is enough, unless the
            model takes no such request, or eight budgets were not enough.
    """
    plan, view, read = asked.plan, asked.plan.query.view, seen.history
    documents = _documents_of(plan, seen.bodies, seen.grounding) if seen.grounding else plan.no_documents
    history: History | None = read
    if read.records.details or read.records.front or read.summary is not None or view is not None:
        history = _arranged(asked, read)
    if history is None:
        return older(plan.budget), read, documents
    spec = WindowSpec(
        plan=plan,
        documents=documents,
        # The path of the messages, to which a seq is added.
        path=f"/conversations/{asked.conversation}/messages/" if asked.conversation else "",
        recall_reserve=asked.recall_reserve,
    )
    try:
        choice = build_window(history, spec)
    except WindowDoesNotFit as problem:
        enough = _enough(history, spec, problem)
        if not isinstance(enough, NeedOlder):
            enough.model = plan.model.id
            raise enough from None
        choice = enough
    if isinstance(choice, Window):
        if asked.recollection is not None:
            choice = recollected(choice, asked.recollection, history)
    elif view is not None:
        choice = back_for_view(read, history, choice, plan.model, plan.budget, asked.block)
    return choice, history, documents


def _arranged(asked: Asked, history: History) -> History | None:
    """The history as the agent sees it, behind its compaction, in the order that is sent; None to ask for older messages."""
    plan = asked.plan
    found: History | None = history
    if plan.query.view is not None:
        found = as_seen_by(history, plan.query.view, plan.model, asked.block)
    if found is not None and found.summary is not None:
        found = compacted(found, plan.query)
    if found is not None and (found.records.details or found.records.front):
        found = arranged(found, drops=plan.query.unanswered == "drop")
    return found


def _enough(history: History, spec: WindowSpec, problem: WindowDoesNotFit) -> WindowDoesNotFit | NeedOlder:
    """The problem with a budget that is enough, or NeedOlder to find it.

    In a larger window results may be longer, and pictures sent as they are. Each budget that is tried is larger.
    """
    tried = problem
    for _ in range(_MOST_TRIES):
        if tried.members["limit"] != "tokens":
            return problem
        budget = tried.members["needed"]
        if budget > spec.plan.model.max_input_tokens:
            break
        plan = _replace(spec.plan, budget=budget)
        try:
            if isinstance(found := build_window(history, _replace(spec, plan=plan)), NeedOlder):
                return found
            break
        except WindowDoesNotFit as larger:
            tried = larger
    return problem if tried is problem else does_not_fit(spec.plan.budget, tried.members["costs"])


def _documents_of(plan: Plan, bodies: Bodies, grounding: Mapping[int, StoredGrounding]) -> Documents:
    """The documents that a window may send."""
    written = plan.parts.template.written
    sources = {
        seq: Source(written(stored), bodies.body(seq)[stored.start : stored.end]) for seq, stored in grounding.items()
    }
    return _replace(plan.no_documents, sources=sources)


def _with_media(choice: Window, history: History, seen: SeenHistory) -> WithMedia:
    """The need of a window's messages, with their pictures and files."""
    seqs = sorted(choice.seqs) if choice.is_moved else choice.seqs
    lines = {history.seqs[row] for row, each in choice.edits.items() if each.limit == 0}
    lined = {history.seqs[row]: each.media for row, each in choice.edits.items() if each.media}
    return WithMedia(seqs, [seq for seq in seqs if seq not in lines], lined, seen.history)


def _with_recalled(
    asked: Asked, seen: SeenHistory, recalled: Mapping[int, Record]
) -> Generator[Need, Any, SeenHistory]:
    """What was read, and the recalled messages, which must be in the window, with their documents if these are told."""
    history = seen.history
    before = {seq: record for seq, record in recalled.items() if seq < history.first_seq}
    history = with_recalled(history, recalled)
    has_media = seen.has_media or any(record.media for record in before.values())
    seen = _replace(seen, history=history, has_media=has_media)
    given = _having_documents(before) if asked.plan.query.explain or asked.plan.query.grounding == "all" else {}
    if given.keys() <= seen.grounding.keys():
        return seen
    grounding = yield DocumentsOf(given)
    seqs = sorted(given)
    if has_media:
        filled: FilledBodies = yield WithMedia(seqs, seqs, {}, history)
        bodies, seen = filled.bodies, _replace(seen, history=with_lost(history, filled.lost))
    else:
        bodies = yield Texts(seqs, history)
    return _replace(seen, grounding={**seen.grounding, **grounding}, bodies=bodies)


def _having_documents(records: Mapping[int, Record]) -> dict[int, Record]:
    """Those of the messages that have documents."""
    return {seq: record for seq, record in records.items() if record.grounding is not None}


def _recall(asked: Asked, seen: SeenHistory) -> Generator[Need, Any, tuple[Asked, SeenHistory, Mapping[int, Record]]]:
    """Find the messages to recall: the request with its recollection, what was read, and messages to put in their places."""
    query, recall_reserve = asked.plan.query, asked.plan.query.recall_max_tokens
    nothing = _replace(asked, recollection=NOTHING)
    if query.view is not None or not _is_too_long(asked, seen.history):
        draft, seen = yield from _draft(asked, seen)
        if not draft.dropped.messages or (query.view is not None and draft.stop_reason == "complete"):
            return nothing, seen, {}
    draft, seen = yield from _draft(_replace(asked, recall_reserve=recall_reserve), seen)
    history = seen.history
    asked = _replace(nothing, recall_reserve=recall_reserve if query.stable else 0)
    model, room = asked.plan.model, min(recall_reserve, asked.plan.budget - draft.tokens.total)
    if asked.recall == "off" or room <= 0:
        return asked, seen, {}
    text = query.recall_query
    if text is None:
        text, seen = yield from _text_of(draft.question, seen)
    found: Searchable = yield Search(text, last_left_out(sorted(draft.seqs), history.length))
    old, asks = found
    wanted = shortlist(old, asks, draft, room, model.column, user_first=query.start == "user", view=query.view)
    needed = {seq for each in wanted for seq in each.seqs}.union(old.late)
    records: Mapping[int, Record] = yield WholeRecords(sorted(needed), old)
    wanted = recallable(wanted, old, records, query.view)
    costs = costs_of(records, old, model, query)
    taken = choose(wanted, room, records, costs, digests_of(draft.seqs, history))
    recalled = {seq: records[seq] for seq in sorted({seq for each in taken for seq in each.seqs})}
    if not query.stable:
        return _replace(asked, recollection=in_places(taken, old, records, costs)), seen, recalled
    bodies = yield SingleBodies(recalled)
    block = in_block(taken, old, records, costs, bodies, asked.plan.parts.recall_template, model, room)
    if query.explain and (given := _having_documents({seq: recalled[seq] for seq in block.lines})):
        block = beside_documents(block, (yield DocumentsOf(given)))
    return _replace(asked, recollection=block), seen, {}


def _is_too_long(asked: Asked, history: History) -> bool:
    """Whether the messages that were read are more than the window can have, although no result of a tool is cut."""
    records, plan = history.records, asked.plan
    if TOOL in records.roles or FUNCTION in records.roles or history.summary is not None:
        return False
    return int(message_costs(records, plan.model).sum()) > plan.budget


def _draft(asked: Asked, seen: SeenHistory) -> Generator[Need, Any, tuple[Window, SeenHistory]]:
    """Choose the messages, without reading their bodies."""
    while True:
        draft, _, _ = _chosen(asked, seen)
        if isinstance(draft, Window):
            return draft, seen
        seen = yield seen.older(draft)


def _text_of(seq: int, seen: SeenHistory) -> Generator[Need, Any, tuple[str, SeenHistory]]:
    """Return a user message's text, and what was read."""
    if not seq:
        return "", seen
    if not seen.bodies.have([seq]):
        seen = _replace(seen, bodies=(yield Texts([seq], seen.history)))
    return said_in(msgspec.json.decode(seen.bodies.body(seq))), seen
