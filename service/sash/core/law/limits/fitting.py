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
it moves, or else in steps (``HistoryMedia.in_steps``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from sash.core.counts.costs.over_limits import tool_name
from sash.core.counts.measures.media_facts import IMAGE
from sash.core.counts.measures.without_media import without_media
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.enclosing import bytes_of, with_records
from sash.core.law.history.lines import medium_lines
from sash.core.law.history.results import Edit
from sash.core.law.history.view import History, View
from sash.core.law.limits.history_media import HistoryMedia
from sash.core.law.limits.media_room import Left, Room, newest_first
from sash.core.law.limits.unreadable import told_among
from sash.core.law.records.costs import record_cost
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.selection.choice import choose
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import ALL, Allowed, Window
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.stored.record import Record
from sash.problems import WindowDoesNotFit

T = TypeVar("T", int, str)
_replace = msgspec.structs.replace
_LIMITS: Final = frozenset(RequestLimits.__struct_fields__)
"""Reasons for a line that are limits of a request."""


def check_tools(tools: Sequence[Mapping[str, Any]], model: Model, pointer: str = "") -> None:
    """Raise WindowDoesNotFit for more tools than the model's provider takes, or for a name that is too long.

    ``pointer`` is the place of the tools in a request that sets them.
    """
    most, longest = model.limits.tools, model.limits.tool_name
    if most is not None and len(tools) > most:
        raise WindowDoesNotFit.over("tools", most, {"tools": len(tools)}, pointer)
    for index, tool in enumerate(tools):
        size = len(tool_name(tool) or "")
        if longest is not None and size > longest:
            place = f"{pointer}/{index}/{tool['type']}/name" if pointer else ""
            raise WindowDoesNotFit.over("tool_name", longest, {"tool_name": size}, place)


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
        first = choose(self.spec, self._dearest(), self._allowed({}, ALL))
        if isinstance(first, NeedOlder):
            return first
        cut = first.cut or Cut(self.history.oldest_bound, None)
        left, changed = self.media.in_steps(cut)
        return self.settled(left, Allowed(cut=cut, changed_row=changed))

    def settled(self, left: Left, known: Allowed = ALL) -> Window | NeedOlder:
        """The window with these media and more as lines, until the request is not too large. ``known`` has a stable cut."""
        media, begins = self.media, known.cut.row if known.cut is not None else 0
        whole = [each for each in media.found if each.key not in left]
        held = media.loaded(each for each in whole if each.row in media.required)
        ordinary = [each for each in whole if each.row not in media.required and each.row >= begins]
        text, documents = media.required_bytes, 0
        while True:
            lines = left | newest_first(ordinary, held, Room(media.limits, media.most_bytes - text))
            records = self._records(lines)
            window = choose(self.spec, with_records(self.history, records), self._allowed(lines, known, documents))
            if isinstance(window, NeedOlder):
                return window
            sent, texts, grounding = {*window.rows}, media.text(window.rows), _documents_bytes(window)
            shown = (each for each in media.found if each.row in sent and each.key not in lines)
            size = texts + grounding + media.loaded(shown).bytes  # an upper bound
            if size <= media.most_bytes:
                return self._told(window, lines, records)
            more = max(documents, grounding)
            longer = max(text, more + texts)
            if (more, longer) == (documents, text):  # all else has given way
                parts = {"text": size - documents, "documents": documents}
                raise WindowDoesNotFit.over("bytes", int(media.most_bytes), parts)
            documents, text = more, longer  # one of these is larger each time, and none than all that was read

    def _allowed(self, lines: Left, known: Allowed, documents: int = 0) -> Allowed:
        """What the limits of bytes and of messages allow. ``documents`` are the bytes of those that are sent."""
        firsts, is_lined = self.media.firsts(documents), len(lines) > len(self.media.refused)
        return _replace(known, firsts=firsts, is_lined=is_lined)

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
            measure = _replace(measure, extra=_replace(extra, media=media))
        seq = self.history.seqs[row]
        told = told_among(media, numbers, self.model, self.history.now)
        lines = medium_lines(record, numbers, seq, self.spec.path, self.history.lost.get(seq, ()), told)
        own_tokens = record.own_tokens
        if own_tokens is not None and self.model.vocabulary is not None:
            own_tokens += sum(map(self.model.vocabulary.count, lines.values())) + 2 * len(lines)
        return _replace(record, measure=without_media(measure, lines), own_tokens=own_tokens)

    def _told(self, window: Window, lines: Left, records: Mapping[int, Record]) -> Window:
        """The window with the lines among its edits and its figures. ``records`` have them."""
        sent, seqs = {*window.rows}, self.history.seqs
        told = {key: lines[key] for key in sorted(lines) if key[0] in sent}
        if not told:
            return window
        numbers, edits = _by_row(told), dict(window.edits)
        for row, each in numbers.items():
            edits[row] = _replace(edits.get(row, Edit()), media=each)
        media = [self.history.records[row].enclosed[number] for row, number in told]
        images, size = sum(medium.kind == IMAGE for medium in media), sum(map(bytes_of, media))
        stop, why = window.stop_reason, _LIMITS.intersection(told.values())
        if stop == "complete" and why:
            stop = "bytes" if "bytes" in why else "images"
        left_out = _by_row((seqs[row], reason) for (row, _), reason in sorted(told.items(), key=itemgetter(1)))
        counted = {seq: dict(Counter(reasons)) for seq, reasons in left_out.items()}
        explain = window.explain and [_replace(line, left_out=counted.get(line.seq, {})) for line in window.explain]
        return _replace(
            window,
            edits=edits,
            lined={row: records[row] for row in numbers},
            stop_reason=stop,
            explain=explain,
            dropped=_replace(window.dropped, images=images, files=len(media) - images, media_bytes=size),
        )


def _by_row(pairs: Iterable[tuple[int, T]]) -> dict[int, list[T]]:
    """The second items of pairs, by the first."""
    found: dict[int, list[T]] = {}
    for row, item in pairs:
        found.setdefault(row, []).append(item)
    return found


def _documents_bytes(window: Window) -> int:
    """Bytes of the documents that a window sends."""
    texts = (text for each in window.grounding.values() for text in (each.before, each.after))
    return sum(len(msgspec.json.encode(text)) for text in texts)
