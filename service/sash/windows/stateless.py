"""The window of a history in a request: the same window as if the history were stored."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.chat.messages import parallel_flags
from sash.core.chat.packed import Packed
from sash.core.counts.estimates import spoken_tokens
from sash.core.counts.families import USER
from sash.core.counts.models import Model
from sash.core.law.caching import settled
from sash.core.law.conversation_settings import ConversationSettings, check_settings, fixed_parts
from sash.core.law.costs import reference_costs
from sash.core.law.recall import bound
from sash.core.law.records import RECORD_BYTES, Flags, Record, Records, StoredGrounding
from sash.core.law.render import Bodies
from sash.core.law.view import History
from sash.core.law.words import pack_words, plain_number, said_in, words_of
from sash.core.providers.given import ReadEntries
from sash.problems import EntryConflict, Internal, Problem
from sash.store.data.entries import check_entries, opened_by, prepare
from sash.store.data.layout import decode_grounding
from sash.store.data.stored_messages import NewEntry
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of
from sash.windows.flow import advance, window
from sash.windows.needs import Apart, Need, Search, Searchable, SeenHistory, WholeRecords
from sash.windows.recalling import Old, Question
from sash.windows.request import WindowRequest


def window_of_request(
    wanted: WindowRequest, models: Mapping[str, Model], sent: ReadEntries | None = None
) -> tuple[Made, float]:
    """The window of the request's messages, the same as if they were stored, and the seconds spent on counting.

    ``sent`` makes problems point to the client's own entries.

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
    check_settings(settings)
    parts = fixed_parts(settings)
    limits = limits_of(wanted, settings, models)
    try:
        check_entries(wanted.messages)
        pointers = [f"/messages/{index}/message" for index in range(len(wanted.messages))]
        flags = parallel_flags([opened_by(entry) for entry in wanted.messages], pointers)
        started = time.perf_counter()
        entries = prepare(wanted.messages, parts.template, now_ms=0)
        counting_seconds = time.perf_counter() - started
        kept = _once(entries, flags)
    except Problem as problem:
        if sent is not None:
            sent.point(problem)
        raise
    history = _history(kept, limits.model)
    bodies = Bodies(1, [entry.body for entry, _ in kept], {})
    asked = Asked(settled(wanted, limits.model, limits.budget), limits, parts, wanted.conversation_id)
    seen = SeenHistory(history, bodies, _grounding(wanted, kept, history))
    flow = window(asked, seen)
    found = advance(flow)
    while not isinstance(found, Made):
        found = advance(flow, _answer(found, seen))
    return found, counting_seconds


def _answer(need: Need, seen: SeenHistory) -> Any:
    """What a flow needs, from memory: all of the history was sent."""
    history, bodies, _ = seen
    match need:
        case Search(text, last_seq):
            return _searchable(text, last_seq, history, bodies)
        case WholeRecords(seqs):
            return {seq: history.record(seq) for seq in seqs}
        case Apart(records):
            return {seq: bodies.body(seq) for seq in records}
        case _:
            raise Internal("A whole history was too short.")


def _searchable(text: str, last_seq: int, history: History, bodies: Bodies) -> Searchable:
    """What recall knows of these messages. Their words are computed here, without an index."""
    first = bound(history.length)
    said = [said_in(msgspec.json.decode(body)) for body in bodies.run(first, last_seq)]
    # The same as from the store: plain records of the searched messages only.
    records = Records(history.records.packed[(first - 1) * RECORD_BYTES : last_seq * RECORD_BYTES])
    question = Question([(plain_number(word),) for word in dict.fromkeys(words_of(text))])
    return Searchable(Old(first, records, Packed.of(pack_words(said))), question)


def _grounding(
    wanted: WindowRequest, kept: list[tuple[NewEntry, Record]], history: History
) -> dict[int, StoredGrounding]:
    """Documents that the window may send, by seq."""
    if wanted.grounding == "none":
        return {}
    return {
        seq: decode_grounding(entry.grounding)
        for seq, (entry, _) in enumerate(kept, 1)
        if entry.grounding and (wanted.grounding == "all" or seq == history.question)
    }


def _once(entries: list[NewEntry], flags: list[bool]) -> list[tuple[NewEntry, Record]]:
    """The entries, each id once, as in the store. Raises EntryConflict if one id has two contents."""
    kept: dict[str, tuple[NewEntry, Record]] = {}
    for index, (entry, parallel) in enumerate(zip(entries, flags, strict=True)):
        record, identity = entry.record, entry.identity
        if identity.id in kept:
            if kept[identity.id][0].identity.digest != identity.digest:
                raise EntryConflict.at(f"#/messages/{index}/id", "This id names another entry above")
            continue
        if parallel:
            record = msgspec.structs.replace(record, flags=record.flags | Flags.PARALLEL)
        kept[identity.id] = (entry, record)
    return list(kept.values())


def _history(kept: list[tuple[NewEntry, Record]], model: Model) -> History:
    column = model.column
    records = Records.of([record for _, record in kept])
    if (vocabulary := model.vocabulary) is not None:
        said = [spoken_tokens(msgspec.json.decode(entry.body), vocabulary) + 1 for entry, _ in kept]
        records = Records(records.packed, records.details, said)
    return History(
        first_seq=1,
        records=records,
        outside={},
        length=len(records),
        column=column,
        tokens=sum(reference_costs(records, column)),
        grounding_messages=sum(record.grounding is not None for _, record in kept),
        grounding_tokens=sum(entry.grounding_tokens[column] for entry, _ in kept),
        question=records.roles.rfind(USER) + 1,
    )
