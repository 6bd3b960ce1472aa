"""Which media of a stable window are lines, so that the beginning of the request stays.

The messages since the cut are gone through, each as if it were the newest. Once the media that are whole are over a limit,
so many become lines that the newest take up ``1 - stable_step`` of it, and the next ones have room. Where the cut moved,
``images_kept`` is applied, and holds until it moves again. All follows from the history and the parameters.
"""

from collections.abc import Sequence
from typing import Final

from sash.core.law.history.enclosing import Enclosed
from sash.core.law.limits.history_media import HistoryMedia
from sash.core.law.limits.media_room import Left, Room, newest_first
from sash.core.law.selection.stable import Cut

_DOCUMENTS_SHARE: Final = 1 / 32
"""The share of the bytes that is kept free for the documents of any question."""


def lines_in_steps(media: HistoryMedia, cut: Cut) -> tuple[Left, int]:
    """What is a line since the cut, and the newest row whose message changed that; -1 for none."""
    since = cut.row if cut.since is None else max(cut.row, cut.since)
    since = min(since, len(media.history.records) - 1)
    steady = media.steady(cut.row)
    found = [each for each in media.found if each.row >= cut.row and each.row not in steady]
    older = [each for each in found if each.row <= since]
    later = [each for each in found if each.row > since]
    left = media.beyond_kept(older, media.required_at(since)) if cut.since is not None else {}
    held = media.loaded(each for each in media.found if each.row in steady)
    whole = [each for each in older if each.key not in left]
    load = held.and_of((each.medium for each in whole), media.limits)
    text = media.text(row for row in steady if row < cut.row)
    changed = -1
    for row in _rows_since(media, since, later):
        while later and later[0].row <= row:
            whole.append(later.pop(0))
            load = load.and_of((whole[-1].medium,), media.limits)
        said = text + media.texts_from(cut.row, row)
        if Room(media.limits, _bytes(media, said)).over(load) is None:
            continue
        exempt = media.required_at(row)
        kept = held.and_of((each.medium for each in whole if each.row in exempt), media.limits)
        share = 1 - media.options.stable_step
        narrow = Room(media.limits, _bytes(media, said, share), share)
        left |= newest_first([each for each in whole if each.row not in exempt], kept, narrow)
        whole = [each for each in whole if each.key not in left]
        load = held.and_of((each.medium for each in whole), media.limits)
        changed = row
    return media.refused | left, changed


def _bytes(media: HistoryMedia, text: int, share: float = 1.0) -> float:
    """The bytes that fixed parts and media may have beside a text, and beside any question's documents."""
    return media.most_bytes * (1 - _DOCUMENTS_SHARE) * share - text


def _rows_since(media: HistoryMedia, since: int, later: Sequence[Enclosed]) -> Sequence[int]:
    """The rows, from ``since`` on, whose messages may bring the request over a limit."""
    if media.all_bytes <= _bytes(media, 0):
        return sorted({since, *(each.row for each in later)})
    return range(since, len(media.history.records))
