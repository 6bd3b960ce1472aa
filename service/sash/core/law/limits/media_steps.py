"""Which media of a stable window are lines, so that the beginning of the request stays.

The messages since the cut are gone through, each as if it were the newest. Once the media that are whole are over a limit,
so many become lines that the newest take up ``1 - stable_step`` of it, and the next ones have room. Where the cut moved,
``images_kept`` is applied, and holds until it moves again. All follows from the history and the parameters.
"""

from typing import Final

import numpy as np

from sash.core.law.limits.history_media import HistoryMedia
from sash.core.law.limits.media_room import Left, Room, newest_first
from sash.core.law.selection.stable import Cut

_DOCUMENTS_SHARE: Final = 1 / 32
"""The share of the bytes that is kept free for the documents of any question."""


def lines_in_steps(media: HistoryMedia, cut: Cut) -> tuple[Left, int]:
    """What is a line since the cut, and the newest row whose message changed that; -1 for none."""
    limits, count = media.limits, len(media.history.records)
    since = min(cut.row if cut.since is None else max(cut.row, cut.since), count - 1)
    steady = media.steady(cut.row)
    found = [each for each in media.found if each.row >= cut.row and each.row not in steady]
    older, later = [each for each in found if each.row <= since], [each for each in found if each.row > since]
    left = media.beyond_kept(older, media.required_at(since)) if cut.since is not None else {}
    held = media.loaded(each for each in media.found if each.row in steady)
    whole = [each for each in older if each.key not in left]
    load = held.and_of((each.medium for each in whole), limits)
    behind = media.texts.copy()
    behind[: max(0, cut.row)] = 0
    behind[: media.history.records.front] = 0
    texts = media.text(row for row in steady if row < cut.row) + np.cumsum(behind)
    most, share, changed = media.most_bytes * (1 - _DOCUMENTS_SHARE), 1 - media.plan.query.stable_step, -1
    for row in range(max(0, since), count):
        while later and later[0].row <= row:
            whole.append(later.pop(0))
            load = load.and_of((whole[-1].medium,), limits)
        if Room(limits, most - texts[row]).over(load, load) is None:
            continue
        exempt = media.required_at(row)
        kept = held.and_of((each.medium for each in whole if each.row in exempt), limits)
        narrow = Room(limits, most * share - texts[row], share)
        left |= newest_first([each for each in whole if each.row not in exempt], kept, narrow)
        whole = [each for each in whole if each.key not in left]
        load = held.and_of((each.medium for each in whole), limits)
        changed = row
    return media.refused | left, changed
