"""fitted: a window inside its provider's limits beside tokens.

* What it is for: bytes, pictures, pages, messages and tools of a request, and pictures that the provider would refuse by
  themselves, whose bytes are lost, or whose address cannot be read.
* When it can matter: where the model has limits, or with ``images_kept``.
* What wakes it: pictures, files and sounds, or messages that come near a limit (``build.py``).
* What it does: sends one line in place of a medium (``medium_lines``), before any message is left out; then it bounds
  the messages (``Allowed``). What must be in the window counts first; if that is over a limit, there is no window. Then
  media are taken from the newest to the oldest, as long as the limits have room.

Pictures are chosen before messages, and bytes depend on the messages that are kept. So a window is made, measured, and made
again with fewer pictures if it is too large. Each time, less room is given to pictures, so that a larger limit never leads
to fewer messages, nor to fewer pictures beside as many messages.

With ``stable`` the beginning of the request must stay as it is. Then the cut is found first, and pictures become lines when
it moves, or else in steps (``media_steps``).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from sash.core.counts.measures.media_facts import IMAGE
from sash.core.counts.measures.without_media import without_media
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.enclosing import bytes_of, with_records
from sash.core.law.history.lines import medium_lines
from sash.core.law.history.results import Edit
from sash.core.law.history.view import History, View
from sash.core.law.limits.history_media import HistoryMedia
from sash.core.law.limits.media_room import Left, Room, newest_first
from sash.core.law.limits.media_steps import lines_in_steps
from sash.core.law.limits.request_size import check_tools
from sash.core.law.limits.unreadable import told_among
from sash.core.law.records.costs import record_cost
from sash.core.law.records.figures import Explained
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.selection.choice import choose
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import Allowed, Stop, Window
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.stored.record import Record
from sash.problems import WindowDoesNotFit

T = TypeVar("T", int, str)
_LIMITS: Final = frozenset(RequestLimits.__struct_fields__)
"""Reasons for a line that are limits of a request."""


def fitted(view: View, spec: WindowSpec) -> Window | NeedOlder:
    """The window inside the limits, or NeedOlder. Raises WindowDoesNotFit with the limit that required parts are over."""
    check_tools(spec.plan.parts.tools or (), spec.plan.model)
    media = HistoryMedia(view, spec.plan)
    fitting = _Fitting(media, spec)
    if spec.plan.query.stable:
        return fitting.stable()
    return fitting.settled(media.refused | media.beyond_kept(media.found, media.required.keys()))


class _Fitting:
    """The making of one window."""

    def __init__(self, media: HistoryMedia, spec: WindowSpec) -> None:
        self.media, self.history, self.spec, self.model = media, media.history, spec, spec.plan.model

    def stable(self) -> Window | NeedOlder:
        """The window with a stable cut, which is found first."""
        first = choose(self.spec, self._dearest(), self._allowed({}))
        if isinstance(first, NeedOlder):
            return first
        cut = first.cut or Cut(self.history.oldest_bound, None)
        left, changed = lines_in_steps(self.media, cut)
        return self.settled(left, cut, changed)

    def settled(self, left: Left, cut: Cut | None = None, changed: int = -1) -> Window | NeedOlder:
        """The window with these media and more as lines, until the request is not too large."""
        media, begins = self.media, cut.row if cut is not None else 0
        whole = [each for each in media.found if each.key not in left]
        held = media.loaded(each for each in whole if each.row in media.required)
        ordinary = [each for each in whole if each.row not in media.required and each.row >= begins]
        text, documents = media.required_bytes, 0
        while True:
            lines = left | newest_first(ordinary, held, Room(media.limits, media.most_bytes - text))
            records = self._records(lines)
            allowed = self._allowed(lines, documents, cut, changed)
            window = choose(self.spec, with_records(self.history, records), allowed)
            if isinstance(window, NeedOlder):
                return window
            size = self._bytes(window, lines)
            if size <= media.most_bytes:
                return self._told(window, lines, records)
            more = max(documents, _documents_bytes(window))
            longer = max(text, more + media.text(window.rows))
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

    def _allowed(self, lines: Left, documents: int = 0, cut: Cut | None = None, changed: int = -1) -> Allowed:
        """What the limits of bytes and of messages allow. ``documents`` are the bytes of those that are sent."""
        messages, size = self.media.oldest_by_number(), self.media.oldest_by_bytes(documents)
        firsts: list[tuple[Stop, int]] = [] if messages is None else [("limit", messages)]
        return Allowed(
            firsts=firsts if size is None else [*firsts, ("bytes", size)],
            cut=cut,
            is_lined=len(lines) > len(self.media.refused),
            changed_row=changed,
        )

    def _dearest(self) -> History:
        """The history with the records that cost more: with media, or with lines in their place."""
        media, records = self.media, self.history.records
        shown = self._records(media.refused)
        lined = self._records([*media.refused, *(each.key for each in media.found)])
        pairs = {row: (shown.get(row) or records[row], each) for row, each in lined.items()}
        cost = partial(record_cost, model=self.model)
        return with_records(self.history, {row: max(pair, key=cost) for row, pair in pairs.items()})

    # ---- the window with lines

    def _records(self, lines: Iterable[tuple[int, int]]) -> dict[int, Record]:
        """The records of messages with lines in place of these media, by row."""
        return {row: self._record(row, numbers) for row, numbers in _by_row(lines).items()}

    def _record(self, row: int, numbers: Sequence[int]) -> Record:
        """That of one message, with lines in place of the media of these numbers."""
        record: Record = self.history.records[row]
        measure, extra, media = record.measure, record.measure.extra, tuple(record.enclosed)
        if extra is not None and media != extra.media:
            measure = msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, media=media))
        seq = self.history.seqs[row]
        told = told_among(media, numbers, self.model, self.history.now)
        lines = medium_lines(record, numbers, seq, self.spec.path, self.history.lost.get(seq, ()), told)
        own_tokens = record.own_tokens
        if own_tokens is not None and self.model.vocabulary is not None:
            own_tokens += sum(map(self.model.vocabulary.count, lines.values())) + 2 * len(lines)
        return msgspec.structs.replace(record, measure=without_media(measure, lines), own_tokens=own_tokens)

    def _told(self, window: Window, lines: Left, records: Mapping[int, Record]) -> Window:
        """The window with the lines among its edits and its figures. ``records`` have them."""
        sent, seqs = set(window.rows), self.history.seqs
        told = {key: lines[key] for key in sorted(lines) if key[0] in sent}
        if not told:
            return window
        numbers, edits = _by_row(told), dict(window.edits)
        for row, each in numbers.items():
            edits[row] = msgspec.structs.replace(edits.get(row, Edit()), media=each)
        media = [self.history.records[row].enclosed[number] for row, number in told]
        images = sum(medium.kind == IMAGE for medium in media)
        stop, why = window.stop_reason, _LIMITS.intersection(told.values())
        if stop == "complete" and why:
            stop = "bytes" if "bytes" in why else "images"
        reasons = _by_row((seqs[row], reason) for (row, _), reason in told.items())
        return msgspec.structs.replace(
            window,
            edits=edits,
            path=self.spec.path,
            lined={row: records[row] for row in numbers},
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
