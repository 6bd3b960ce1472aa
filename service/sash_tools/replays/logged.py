"""Conversations of any source as logs with times, and questions whose answers stand in known messages."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from sash.api.import_lines import ImportLine, at_line, read_entry_line, read_head
from sash.commands.source_error import SourceError
from sash.commands.terminal import read_bytes
from sash.core.chat.messages import Entry
from sash.problems import Problem
from sash.windows.stateless import once_each
from sash_client.ids import safe_id
from sash_tools.importing import check, without_orphans
from sash_tools.replays.replayed import LoggedChat
from sash_tools.sources.conversation import SourceConversation
from sash_tools.sources.values import values_in

_BEGAN_MS = 1_750_000_000_000
ANSWERED_SECONDS = 8
"""The assumed time from a message to the reply or the result behind it."""


class EvidenceQuestion(msgspec.Struct, frozen=True):
    """A question, and the ids of the entries that answer it."""

    text: str
    evidence: list[str]


class _Asked(msgspec.Struct):
    id: str
    questions: list[EvidenceQuestion]


class LeftOutError(SourceError):
    """A conversation that has nothing to live again; ``kind`` is why, in the table's words."""

    def __init__(self, said: str, kind: str) -> None:
        super().__init__(said)
        self.kind = kind


class Replayable(NamedTuple):
    """A conversation that can be lived again. ``is_timed``: its messages have times, which are not assumed.

    ``questions`` have the seqs of their evidence.
    """

    chat: LoggedChat
    is_timed: bool
    questions: Sequence[tuple[str, Sequence[int]]]


def replayable(
    source: SourceConversation,
    pause_seconds: float,
    questions: Mapping[str, Sequence[EvidenceQuestion]],
    model: str | None,
    *,
    needs_model: bool,
) -> Replayable:
    """The conversation of a source. ``questions`` are by conversation, and ``model`` is for one that names none.

    Without times, a user's message comes ``pause_seconds`` after the one before it. Raises SourceError, LeftOutError.
    """
    asked = list(questions.get(source.id, ()))
    if (own := source.settings.pop("questions", None)) is not None:
        asked += _questions(own, source.id)
    source = without_orphans(source)
    check(source)
    lines = source.exported or [{"id": source.id, **source.settings}, *source.entries]
    read = [ImportLine(number, msgspec.json.encode(line)) for number, line in enumerate(lines, 1)]
    try:
        head = read_head(read[0])
        entries, times = _entries(read[1:])
    except Problem as problem:
        raise SourceError(f"{source.id}: {problem.detail}") from None
    is_timed = all(times)
    settings = head.settings
    if model is not None and settings.model is None:
        settings = msgspec.structs.replace(settings, model=model)
    if needs_model and settings.model is None:
        raise LeftOutError(f"{source.id} names no model: write --model NAME", "no model")
    if not entries:
        raise LeftOutError(f"{source.id} has no messages", "no messages")
    chat = LoggedChat(
        source.id, settings, entries, times if is_timed else _assumed(entries, pause_seconds), head.summary
    )
    return Replayable(chat, is_timed, _placed(asked, entries, source.id))


def _entries(lines: Sequence[ImportLine]) -> tuple[list[Entry], list[int]]:
    """The checked entries, each id once, and their times: 0 where there is none. Raises BadRequest, EntryConflict."""
    found: list[Entry] = []
    times = []
    for place, line in enumerate(lines, 1):
        try:
            entry, created_ms = read_entry_line(line, place)
        except Problem as problem:
            raise at_line(problem, line.number) from None
        found.append(entry)
        times.append(created_ms or 0)
    kept = once_each(found)
    return [entry for _, entry in kept], [times[index] for index, _ in kept]


def _assumed(entries: Sequence[Entry], pause_seconds: float) -> list[int]:
    """Times of messages that have none: each some seconds after the one before it, a user's after a pause."""
    steps = (pause_seconds if entry.message["role"] == "user" else ANSWERED_SECONDS for entry in entries)
    return [_BEGAN_MS + round(1000 * at) for at in accumulate(steps)]


# ---- questions


def questions_in(name: str) -> dict[str, list[EvidenceQuestion]]:
    """The questions of a file, by conversation: {"id", "questions": [{"text", "evidence": [ids]}]}, one a line or in a list.

    Raises SourceError.
    """
    found: dict[str, list[EvidenceQuestion]] = {}
    values, _ = values_in(read_bytes(name), name)
    for value in values[0] if len(values) == 1 and isinstance(values[0], list) else values:
        try:
            asked = msgspec.convert(value, _Asked)
        except msgspec.ValidationError as error:
            raise SourceError(f"{name}: {error}: {_EXPECTED}") from None
        found.setdefault(safe_id(asked.id), []).extend(asked.questions)
    return found


_EXPECTED = 'expected {"id": …, "questions": [{"text": …, "evidence": [ids of entries]}]}'


def _questions(given: Any, name: str) -> list[EvidenceQuestion]:
    try:
        return msgspec.convert(given, list[EvidenceQuestion])
    except msgspec.ValidationError as error:
        raise SourceError(f"{name}: questions: {error}: {_EXPECTED}") from None


def _placed(questions: Sequence[EvidenceQuestion], entries: Sequence[Entry], name: str) -> list[tuple[str, list[int]]]:
    """The questions that have evidence, with the seqs of that. Raises SourceError for the id of no entry."""
    seqs = {entry.id: seq for seq, entry in enumerate(entries, 1)}
    placed = []
    for each in questions:
        unknown = [one for one in each.evidence if safe_id(one) not in seqs]
        if unknown:
            raise SourceError(f"{name}: a question's evidence {unknown[0]!r} is no entry of the conversation")
        if each.evidence:
            placed.append((each.text, [seqs[safe_id(one)] for one in each.evidence]))
    return placed
