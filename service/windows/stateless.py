"""The window of a history in a request: the same window as if the history were stored."""

import time
from collections.abc import Mapping

import msgspec

from service.core.caching import settled
from service.core.costs import reference_costs
from service.core.documents import Documents
from service.core.estimates import spoken_tokens
from service.core.families import USER
from service.core.messages import parallel_flags
from service.core.models import Model
from service.core.native.entries import ReadEntries
from service.core.packed import Packed
from service.core.recall import Recollection, bound
from service.core.records import RECORD_BYTES, Flags, Record, Records, StoredGrounding
from service.core.render import Bodies
from service.core.settings import ConversationSettings, check_settings, fixed_parts
from service.core.view import History
from service.core.window import NeedOlder, Window
from service.core.words import pack_words, plain_number, said_in, words_of
from service.problems import EntryConflict, Internal, Problem, WindowDoesNotFit
from service.store.entries import check_entries, opened_by, prepare
from service.store.layout import decode_grounding
from service.store.messages import NewEntry
from service.windows.answer import Made, edit, make
from service.windows.asked import Asked, build, documents_of, limits_of
from service.windows.hints import hints_of
from service.windows.recall import (
    NOTHING,
    Old,
    Question,
    block_place,
    chosen,
    costs_of,
    in_block,
    in_places,
    last_left_out,
    recollected,
    shortlist,
)
from service.windows.request import WindowRequest


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
    documents = documents_of(asked, history, bodies, _grounding(wanted, kept, history))
    window = _window(asked, history, documents, bodies)
    if asked.query.stable and window.dropped["messages"]:
        asked = _with_aside(asked)
    if window.recalled is not None and not window.recalled.block:
        history = msgspec.structs.replace(history, recalled=window.recalled.lines.keys())
    window, bodies, trimmed = edit(window, history, bodies, limits.model)
    hints = hints_of(asked, history, window, documents) if asked.query.cache != "none" else None
    if isinstance(hints, NeedOlder):
        raise Internal("A whole history was too short.")
    return make(asked, history, window, bodies, documents, hints, trimmed), counting_seconds


def _with_aside(asked: Asked) -> Asked:
    """The request with the tokens reserved for recall."""
    return msgspec.structs.replace(asked, aside=asked.query.recall_max_tokens)


def _window(asked: Asked, history: History, documents: Documents, bodies: Bodies) -> Window:
    """The window, with recalled messages if requested. Raises WindowDoesNotFit."""
    window, query = _whole(build(asked, history, documents)), asked.query
    if not query.recall_max_tokens:
        return window
    if window.dropped["messages"] == 0:
        return recollected(window, NOTHING)
    draft = _whole(build(_with_aside(asked), history, documents))
    recollection = _recollection(asked, history, draft, bodies)
    if query.stable:
        return recollected(draft, recollection)
    recalled = msgspec.structs.replace(history, recalled=recollection.lines.keys())
    try:
        return recollected(_whole(build(asked, recalled, documents)), recollection)
    except WindowDoesNotFit:
        # A recalled message may bring words with it, such as a turn of the user before the assistant.
        return recollected(window, NOTHING)


def _whole(window: Window | NeedOlder) -> Window:
    """The window of a whole history, which never needs older messages."""
    if isinstance(window, NeedOlder):
        raise Internal("A whole history was too short.")
    return window


def _recollection(asked: Asked, history: History, draft: Window, bodies: Bodies) -> Recollection:
    """The messages that the draft leaves out and that are recalled. Their words are computed here, without an index."""
    wanted, model, first = asked.query, asked.limits.model, bound(history.length)
    room = min(wanted.recall_max_tokens, asked.limits.budget - draft.tokens["total"])
    if room <= 0:
        return NOTHING
    last = last_left_out(draft.seqs, history.length)
    said = [said_in(msgspec.json.decode(body)) for body in bodies.run(first, last)]
    # The same as from the store: plain records of the searched messages only.
    records = Records(history.records.packed[(first - 1) * RECORD_BYTES : last * RECORD_BYTES])
    old = Old(first, records, Packed.of(pack_words(said)))
    query = wanted.recall_query
    if query is None:
        query = said_in(msgspec.json.decode(bodies.body(history.question))) if history.question else ""
    question = Question([(plain_number(word),) for word in dict.fromkeys(words_of(query))])
    listed = shortlist(old, question, draft, room, history.column, user_first=wanted.start == "user")
    costs = costs_of({seq: history.record(seq) for each in listed for seq in each.seqs}, model, wanted)
    taken = chosen(listed, old, draft, room, costs)
    if not wanted.stable:
        return in_places(taken, old, costs)
    by_seq = {seq: bodies.body(seq) for each in taken for seq in each.seqs}
    before = block_place(history.question, history.records.roles, history.length)
    return in_block(taken, old, costs, by_seq, asked.parts.recall_template, model, room, before)


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
