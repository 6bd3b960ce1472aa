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
    """What is a line since the cut, and the newest place whose message changed that; 0 for none."""
    first, length = media.history.first_seq, media.history.length
    since = min(max(cut.seq, cut.since_seq), length)
    steady = media.steady(cut.seq)
    found = [each for each in media.found if each.place >= cut.seq and each.place not in steady]
    older = [each for each in found if each.place <= since]
    later = [each for each in found if each.place > since]
    left = media.beyond_kept(older, media.required_at(since)) if cut.since_seq else {}
    held = media.loaded(each for each in media.found if each.place in steady)
    whole = [each for each in older if each.key not in left]
    load = held.and_of((each.medium for each in whole), media.limits)
    text = media.text(place for place in steady if place < cut.seq)
    changed = 0
    for place in _places_since(media, since, later):
        while later and later[0].place <= place:
            whole.append(later.pop(0))
            load.add(whole[-1].medium, media.limits)
        said = text + media.texts_from(max(cut.seq, first), place)
        if Room(media.limits, _bytes(media, said)).over(load) is None:
            continue
        exempt = media.required_at(place)
        load = held.and_of((each.medium for each in whole if each.place in exempt), media.limits)
        share = 1 - media.options.stable_step
        narrow = Room(media.limits, _bytes(media, said, share), share)
        left |= newest_first([each for each in whole if each.place not in exempt], load, narrow)
        whole = [each for each in whole if each.key not in left]
        changed = place
    return media.refused | left, changed


def _bytes(media: HistoryMedia, text: int, share: float = 1.0) -> float:
    """The bytes that fixed parts and media may have beside a text, and beside any question's documents."""
    return media.most_bytes * (1 - _DOCUMENTS_SHARE) * share - text


def _places_since(media: HistoryMedia, since: int, later: Sequence[Enclosed]) -> Sequence[int]:
    """The places, from ``since`` on, whose messages may bring the request over a limit."""
    if media.all_bytes <= _bytes(media, 0):
        return sorted({since, *(each.place for each in later)})
    return range(since, media.history.length + 1)
