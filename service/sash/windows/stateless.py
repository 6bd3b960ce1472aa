"""The window of a history in a request: the same window as if the history were stored."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sash.core.chat.messages import Entry, is_text_alone
from sash.core.chat.packed import Packed
from sash.core.chat.tool_groups import Place, calls_of, orphan, places_of
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.models.families import USER
from sash.core.counts.models.models import Model
from sash.core.law.documents.grounding import Template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, check_settings, fixed_parts
from sash.core.law.history.compaction import newest_summary, readable
from sash.core.law.history.view import History
from sash.core.law.recall import bound
from sash.core.law.records.costs import reference_costs
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.measured_entries import (
    check_entries,
    content_digest,
    entry_digest,
    in_place,
    measure_entry,
    opened_by,
)
from sash.core.providers.messages.members import NO_NAMES, Names, keep_foreign
from sash.core.providers.reading.native import compaction_of
from sash.core.providers.reading.native_entries import ReadEntries
from sash.core.search.words import pack_words, plain_number, said_in, words_of
from sash.core.stored.record import RECORD_BYTES, Flags, Record
from sash.core.stored.stored_grounding import StoredGrounding, decode_grounding
from sash.core.stored.stored_summary import Summary
from sash.problems import EntryConflict, Internal, Problem
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import window
from sash.windows.needs import (
    DocumentsOf,
    LongWork,
    Need,
    Older,
    Search,
    Searchable,
    SeenHistory,
    SingleBodies,
    WholeRecords,
)
from sash.windows.recalling import Old, Question
from sash.windows.request import TextsRequest, WindowRequest
from sash.windows.sent import SentChat, texts_of

Given = tuple[Entry, dict[str, Any], Place]
"""An entry, its message as it would be stored, and its place among the tool groups."""
Measured = tuple[Record, bytes, bytes]
"""A message's record, its body, and its documents as stored."""


def window_of_request(
    wanted: WindowRequest | TextsRequest,
    models: Mapping[str, Model],
    sent: ReadEntries | None = None,
    send: Names = NO_NAMES,
) -> tuple[Made, float]:
    """The window of the request's messages, the same as if they were stored, and the seconds spent on counting.

    ``sent`` makes problems point to the client's own entries. ``send`` are names of members that are sent although no
    provider is known to take them.

    Raises BadRequest, Unprocessable, EntryConflict, UnknownModel, WindowDoesNotFit, FormatCannotCarry.
    """
    settings = ConversationSettings(
        model=wanted.model,
        reserve=wanted.reserve,
        system=wanted.system,
        few_shots=wanted.few_shots,
        tools=wanted.tools,
        tool_choice=wanted.tool_choice,
        grounding_template=wanted.grounding_template,
        document_separator=wanted.document_separator,
        recall_template=wanted.recall_template,
    )
    settings = check_settings(settings)
    parts = fixed_parts(settings, send)
    plan = plan_of(wanted, parts, limits_of(wanted, settings, models))
    entries = [] if isinstance(wanted, TextsRequest) else wanted.messages
    asked = Asked(
        plan, wanted.conversation_id, is_unknown_view=wanted.view is not None and _is_unknown(wanted.view, entries)
    )
    texts = wanted.messages if isinstance(wanted, TextsRequest) else texts_of(entries)
    checked = _checked(entries, sent, send) if texts is None else []
    started = time.perf_counter()
    finds_repeated = wanted.dedupe == "messages" or wanted.recall_max_tokens > 0
    if texts is None:
        chat, seen = None, _whole(checked, asked, digests=finds_repeated)
    else:
        chat = SentChat(texts, plan.model, digests=finds_repeated)
        seen = chat.seen(1 if _needs_all(asked.plan.query) else chat.filling(plan.budget, wanted.limit))
    counting_seconds = time.perf_counter() - started
    flow = window(asked, seen)
    found = flow.send(None)
    while not isinstance(found, Made):
        found = flow.send(answer_from(found, seen, chat))
    return found, counting_seconds


def _is_unknown(view: str, entries: Sequence[Entry]) -> bool:
    """Whether a view is no author and in no audience of these entries."""
    return not any(view == entry.author or view in (entry.audience or ()) for entry in entries)


def _needs_all(query: WindowQuery) -> bool:
    """Whether the window depends on all messages, also on those that are not in it."""
    return query.explain or bool(query.stable) or query.recall_max_tokens > 0


def _checked(given: list[Entry], sent: ReadEntries | None, send: Names) -> list[Given]:
    """The entries, checked. Raises the problems of ``window_of_request``."""
    try:
        check_entries(given)
        return placed_entries(once_each(given), send)
    except Problem as problem:
        if sent is not None:
            sent.point(problem)
        raise


def _whole(entries: list[Given], asked: Asked, *, digests: bool) -> SeenHistory:
    """The whole history, measured for one model."""
    model = asked.plan.model
    kept = measured_entries(entries, asked.plan.parts.template, model, digests=digests)
    compaction = newest_compaction(kept, asked.plan.query.format)
    summary = newest_summary(None, compaction, asked.plan.query.format, asked.plan.query.view, model)
    documents = [record.grounding for record, _, _ in kept if record.grounding is not None]
    history = whole_history(records_of(kept, entries, model), model, documents, summary)
    return SeenHistory(
        history, Bodies(1, [body for _, body, _ in kept], {}), _grounding(asked.plan.query, kept, history)
    )


def answer_from(need: Need, seen: SeenHistory, chat: SentChat | None) -> Any:
    """What a flow needs, from memory. Only of a chat older messages than ``seen`` are needed, and only without recall."""
    history, bodies = seen.history, seen.bodies
    match need:
        case Older(first_seq) if chat is not None:
            return chat.seen(first_seq)
        case Search(text, last_seq):
            return _searchable(text, last_seq, history, bodies)
        case WholeRecords(seqs):
            return {seq: history.records[seq - 1] for seq in seqs}
        case DocumentsOf(records):
            return {seq: seen.grounding[seq] for seq in records}
        case SingleBodies(records):
            return {seq: bodies.body(seq) for seq in records}
        case LongWork():
            return None
        case _:
            raise Internal("A whole history was too short.")


def _searchable(text: str, last_seq: int, history: History, bodies: Bodies) -> Searchable:
    """What recall knows of these messages. Their words are computed here, without an index."""
    first = bound(history.length)
    said = [said_in(msgspec.json.decode(bodies.body(seq))) for seq in range(first, last_seq + 1)]
    # The same as from the store: plain records of the searched messages only.
    records = Records(history.records.packed[(first - 1) * RECORD_BYTES : last_seq * RECORD_BYTES])
    question = Question([(plain_number(word),) for word in dict.fromkeys(words_of(text))])
    return Searchable(Old(first, records, Packed.of(pack_words(said))), question)


def _grounding(query: WindowQuery, kept: list[Measured], history: History) -> dict[int, StoredGrounding]:
    """Documents that the window may send, by seq."""
    if query.grounding == "none" and not query.explain:
        return {}
    reads_all = query.grounding == "all" or query.explain or query.view is not None
    return {
        seq: decode_grounding(grounding)
        for seq, (_, _, grounding) in enumerate(kept, 1)
        if grounding and (reads_all or seq - 1 == history.asked)
    }


def placed_entries(entries: list[tuple[int, Entry]], send: Names = NO_NAMES) -> list[Given]:
    """The entries, each with its message as it is stored, and its place among the tool groups. Raises OrphanToolResult."""
    placed: list[Given] = []
    for (index, entry), place in zip(entries, places_of(opened_by(entry) for _, entry in entries), strict=True):
        if place is None:
            raise orphan(f"/messages/{index}/message")
        message = entry.message if is_text_alone(entry.message) else keep_foreign(entry.message, send)
        placed.append((entry, message, place))
    return placed


def once_each(entries: list[Entry]) -> list[tuple[int, Entry]]:
    """The entries, each id once, as in the store, with their numbers. Raises EntryConflict if one id has two contents."""
    kept: list[tuple[int, Entry]] = []
    named: dict[str, Entry] = {}
    for index, entry in enumerate(entries):
        first = entry if entry.id is None else named.setdefault(entry.id, entry)
        if first is entry:
            kept.append((index, entry))
        elif entry_digest(first) != entry_digest(entry):
            raise EntryConflict.at(f"#/messages/{index}/id", "This id names another entry above")
    return kept


def measured_entries(entries: list[Given], template: Template, model: Model, *, digests: bool) -> list[Measured]:
    """The entries, counted for this model alone; with digests of their contents, which tell repeated messages."""
    alone, found = model.counts_o200k_alone, []
    for index, (entry, message, place) in enumerate(entries):
        said = content_digest(message, str(index)) if digests else b""
        calls = calls_of(message)
        record, body, grounding = measure_entry(entry, message, calls, template, said, o200k_alone=alone)
        found.append((in_place(record, place), body, grounding))
    return found


def records_of(kept: list[Measured], entries: list[Given], model: Model) -> Records:
    """The records of measured entries, counted for the model, too."""
    records = Records.of([record for record, _, _ in kept])
    if (vocabulary := model.vocabulary) is None:
        return records
    said = [spoken_tokens(message, vocabulary) + 1 for _, message, _ in entries]
    return Records(records.packed, records.details, said)


def whole_history(
    records: Records,
    model: Model,
    documents: Sequence[tuple[int, int]],
    summary: Summary | None,
) -> History:
    """The history of these records, before which there is none. ``documents`` are the tokens of each message's documents,
    in both encodings."""
    column = model.column
    return History(
        first_seq=1,
        records=records,
        length=len(records),
        column=column,
        tokens=int(reference_costs(records, column).sum()),
        grounding_messages=len(documents),
        grounding_tokens=sum(tokens[column] for tokens in documents),
        seqs=range(1, len(records) + 1),
        asked=records.sent_roles.rfind(USER),
        summary=summary,
        now=int(time.time()),  # a window of the same messages changes once, as a reference ends
    )


def newest_compaction(kept: list[Measured], form: str) -> tuple[int, Record, bytes] | None:
    """The newest compaction that windows in ``form`` can have: its seq, its record and its body."""
    forms = readable(form).split()
    for seq in range(len(kept), 0, -1):
        record, body, _ = kept[seq - 1]
        found = compaction_of(msgspec.json.decode(body)) if record.flags & Flags.COMPACTION else None
        if found is not None and found.form in forms:
            return seq, record, body
    return None
