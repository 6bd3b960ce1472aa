"""fitted: a window inside its provider's limits beside tokens.

* What it is for: bytes, pictures, pages, messages and tools of a request, and pictures that the provider would refuse by
  themselves, whose bytes are lost, or whose address cannot be read.
* When it can matter: where the model has limits, or with ``images_kept``.
* What wakes it: pictures, files and sounds, or messages that come near a limit (``build.py``).
* What it does: sends one line of text in place of a medium (``medium_line``), before any message is left out; then it bounds
  the messages (``Allowed``). What must be in the window counts first; if that is over a limit, there is no window. Then
  media are taken from the newest to the oldest, as long as the limits have room.

Pictures are chosen before messages, and bytes depend on the messages that are kept. So a window is made, measured, and made
again with fewer pictures if it is too large. Each time, less room is given to pictures, so that a larger limit never leads
to fewer messages, nor to fewer pictures beside as many messages.

With ``stable`` the beginning of the request must stay as it is. Then the cut is found first, and pictures become lines when
it moves, or else in steps (``media_steps``).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from sash.core.counts.measures.media_facts import IMAGE
from sash.core.counts.measures.without_media import without_media
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.enclosing import bytes_of, with_records
from sash.core.law.history.lines import medium_lines
from sash.core.law.history.results import Edit
from sash.core.law.history.view import History
from sash.core.law.limits.history_media import HistoryMedia
from sash.core.law.limits.media_room import LOST, Left, Room, newest_first
from sash.core.law.limits.media_steps import lines_in_steps
from sash.core.law.limits.unreadable import UNREADABLE, told_among
from sash.core.law.records.costs import message_costs, record_cost
from sash.core.law.records.explained import Explained
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.units import Units
from sash.core.law.selection.choice import choose
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import Allowed, Window
from sash.core.stored.record import Record
from sash.problems import WindowDoesNotFit

T = TypeVar("T", int, str)
_NOT_LIMITS: Final = {"images_kept", LOST, *(each.name for each in UNREADABLE)}
"""Reasons for a line beside the limits of a request."""


def fitted(history: History, units: Units, spec: WindowSpec) -> Window | NeedOlder:
    """The window inside the limits, or NeedOlder. Raises WindowDoesNotFit with the limit that required parts are over."""
    media = HistoryMedia(history, units, spec.plan)
    fitting = _Fitting(media, spec)
    if spec.plan.query.stable:
        return fitting.stable()
    return fitting.settled(media.refused | media.beyond_kept(media.found, media.required.keys()))


class _Fitting:
    """The making of one window."""

    def __init__(self, media: HistoryMedia, spec: WindowSpec) -> None:
        self.media, self.history, self.spec = media, media.history, spec
        self.model, self.path = spec.plan.model, spec.path
        self.lined: Mapping[int, Record] = {}

    def stable(self) -> Window | NeedOlder:
        """The window with a stable cut, which is found first."""
        dearest = self._dearest()
        first = choose(self.spec, dearest, self._allowed(0))
        if isinstance(first, NeedOlder):
            return first
        cut = first.cut or Cut(self.history.oldest_bound, None)
        left, changed = lines_in_steps(self.media, cut)
        if dearest is self.history and not left and self._bytes(first, left) <= self.media.most_bytes:
            return first
        return self.settled(left, cut, changed)

    def settled(self, left: Left, cut: Cut | None = None, changed: int = -1) -> Window | NeedOlder:
        """The window with these media and more as lines, until the request is not too large."""
        media = self.media
        whole = [each for each in media.found if each.key not in left]
        held = media.loaded(each for each in whole if each.row in media.required)
        begins = cut.row if cut is not None else 0
        ordinary = [each for each in whole if each.row not in media.required and each.row >= begins]
        text, documents = media.required_bytes, 0
        while True:
            room = Room(media.limits, media.most_bytes - text)
            lines = left | newest_first(ordinary, held, room)
            window = self._built(lines, self._allowed(documents, cut, changed))
            if isinstance(window, NeedOlder):
                return window
            more = max(documents, _documents_bytes(window))
            longer = max(text, more + media.text(window.rows))
            size = self._bytes(window, lines)
            if size <= media.most_bytes:
                return self._told(window, lines)
            if (more, longer) == (documents, text):  # all else has given way
                parts = {"text": size - documents, "documents": documents}
                raise WindowDoesNotFit.over("bytes", int(media.most_bytes), parts)
            documents, text = more, longer  # one of these is larger each time, and none than all that was read

    def _bytes(self, window: Window, lines: Left) -> int:
        """Bytes of the request of a window: an upper bound."""
        media, sent = self.media, set(window.rows)
        whole = (each for each in media.found if each.row in sent and each.key not in lines)
        texts = media.text(window.rows) + _documents_bytes(window)
        return texts + media.fixed.bytes + sum(bytes_of(each.medium) for each in whole)

    def _allowed(self, documents: int, cut: Cut | None = None, changed: int = -1) -> Allowed:
        """What the limits of bytes and of messages allow. ``documents`` are the bytes of those that are sent."""
        oldest, first = self.media.oldest_by_bytes(documents), self.media.oldest_by_number()
        return Allowed(bytes_row=oldest, messages_row=first, cut=cut, changed_row=changed)

    def _dearest(self) -> History:
        """The history with the records that cost more: with media, or with lines in their place."""
        numbers, always = _by_row(each.key for each in self.media.found), _by_row(self.media.refused)
        changed, records = {}, self.history.records
        for row in numbers.keys() | always.keys():
            shown = self._record(row, always.get(row, []))
            lined = self._record(row, [*always.get(row, []), *numbers.get(row, [])])
            changed[row] = max(shown, lined, key=lambda each: record_cost(each, self.model))
        return with_records(self.history, {row: each for row, each in changed.items() if each != records[row]})

    # ---- the window with lines

    def _built(self, lines: Left, allowed: Allowed) -> Window | NeedOlder:
        """The window of the history with these lines."""
        self.lined = {row: self._record(row, each) for row, each in _by_row(lines).items()}
        allowed = msgspec.structs.replace(allowed, is_lined=len(lines) > len(self.media.refused))
        return choose(self.spec, with_records(self.history, self.lined), allowed)

    def _record(self, row: int, numbers: Sequence[int]) -> Record:
        """The record of a message with lines in place of the media of these numbers."""
        record: Record = self.history.records[row]
        measure, extra = record.measure, record.measure.extra
        if not numbers or extra is None:
            return record
        media = tuple(record.enclosed)
        if media != extra.media:
            measure = msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, media=media))
        seq = self.history.seqs[row]
        told = told_among(media, numbers, self.model, self.history.now)
        lines = medium_lines(record, numbers, seq, self.path, self.history.lost.get(seq, ()), told)
        own_tokens = record.own_tokens
        if own_tokens is not None and self.model.vocabulary is not None:
            own_tokens += sum(map(self.model.vocabulary.count, lines.values())) + 2 * len(lines)
        return msgspec.structs.replace(record, measure=without_media(measure, lines), own_tokens=own_tokens)

    def _told(self, window: Window, lines: Left) -> Window:
        """The window with the lines among its edits and its figures."""
        sent, seqs = set(window.rows), self.history.seqs
        told = [(key, reason) for key, reason in sorted(lines.items()) if key[0] in sent]
        numbers = _by_row(key for key, _ in told)
        reasons = _by_row((seqs[row], reason) for (row, _), reason in told)
        if not numbers:
            return window
        edits, costs = dict(window.edits), message_costs(self.history.records, self.model)
        for row, each in numbers.items():
            saved = costs.item(row) - record_cost(self.lined[row], self.model)
            edit = edits.get(row, Edit())
            edits[row] = msgspec.structs.replace(edit, media=each, saved=edit.saved + saved)
        found = {each.key: each.medium for each in self.media.all}
        media = [found[key] for key, _ in told]
        images = sum(medium.kind == IMAGE for medium in media)
        why = {reason for _, reason in told} - _NOT_LIMITS
        stop = window.stop_reason
        if stop == "complete" and why:
            stop = "bytes" if "bytes" in why else "images"
        return msgspec.structs.replace(
            window,
            edits=edits,
            path=self.path,
            lined={row: self.lined[row] for row in numbers},
            stop_reason=stop,
            explain=window.explain and [_explained(line, reasons.get(line.seq, ())) for line in window.explain],
            dropped=msgspec.structs.replace(
                window.dropped,
                images=images,
                files=len(media) - images,
                media_bytes=sum(map(bytes_of, media)),
            ),
        )


def _by_row(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    """The second items of pairs, by the first."""
    found: dict[int, list[T]] = {}
    for row, item in pairs:
        found.setdefault(row, []).append(item)
    return found


def _explained(line: Explained, reasons: Sequence[str]) -> Explained:
    """A message's line with the number of its media that are sent as lines, by reason."""
    if not (reasons and line.kept):
        return line
    return msgspec.structs.replace(line, left_out={reason: reasons.count(reason) for reason in sorted(set(reasons))})


def _documents_bytes(window: Window) -> int:
    """Bytes of the documents that a window sends."""
    texts = (text for each in window.grounding.values() for text in (each.before, each.after))
    return sum(len(msgspec.json.encode(text)) for text in texts)
