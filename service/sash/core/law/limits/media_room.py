"""The room that a request's limits give to pictures, files and sounds, and the choice of those that have it."""

import sys
from collections.abc import Iterable, Sequence
from operator import add
from typing import Final, NamedTuple

import msgspec

from sash.core.counts.measures.media_facts import IMAGE, Medium
from sash.core.law.history.enclosing import Enclosed, bytes_of
from sash.core.providers.form.request_limits import RequestLimits

Left = dict[tuple[int, int], str]
"""What is sent as a line, by row and number: the limit or the parameter that is the reason, or ``LOST``."""
LOST: Final = "lost"
"""The reason of a medium whose bytes the storage has lost."""


class Load(NamedTuple):
    """What was taken so far. ``large`` are the pictures whose sides are too large for a request with many pictures."""

    images: int = 0
    pages: int = 0
    bytes: int = 0
    large: int = 0

    def and_of(self, media: Iterable[Medium], limits: RequestLimits) -> "Load":
        """This load, and these media."""
        side = sys.maxsize if limits.many_images_side is None else limits.many_images_side
        each = [(one.kind == IMAGE, one.pages, bytes_of(one), one.kind == IMAGE and one.side > side) for one in media]
        return Load(*map(sum, zip(self, *each, strict=True)))


class Room(msgspec.Struct, frozen=True):
    """The room that a request has: a share of the limits, and of its bytes those that media may have."""

    limits: RequestLimits
    bytes: float
    share: float = 1.0

    def most(self, name: str) -> float:
        """The largest number of this, at least 1; without a limit, infinity."""
        limit = getattr(self.limits, name)
        return float("inf") if limit is None else max(1, int(limit * self.share))

    def over(self, load: Load, part: Load) -> str | None:
        """The limit that a load is over, of those that a part of it takes up; None if it is over none."""
        names = ("images", "many_images") if load.large else ("images",)
        most, name = min((self.most(name), name) for name in names)
        if part.images and load.images > most:
            return name
        if part.pages and load.pages > self.most("pages"):
            return "pages"
        return "bytes" if part.bytes and load.bytes > self.bytes else None


def refused(medium: Medium, limits: RequestLimits) -> dict[str, int]:
    """The limits of one picture that this one is over, each with the picture's figure."""
    figures = {"image_side": medium.side, "image_bytes": bytes_of(medium)} if medium.kind == IMAGE else {}
    return {name: size for name, size in figures.items() if (most := getattr(limits, name)) is not None and size > most}


def newest_first(found: Sequence[Enclosed], load: Load, room: Room) -> Left:
    """What has no room beside ``load``, if media are taken from the newest to the oldest.

    Where one has too many pages or bytes, no older one has any, however small it is.
    """
    left: Left = {}
    for each in reversed(found):
        own = Load().and_of((each.medium,), room.limits)
        more = Load(*map(add, load, own))
        if reason := room.over(more, own):
            left[each.key] = reason
            more = load._replace(**{reason: sys.maxsize}) if reason in ("pages", "bytes") else load
        load = more
    return left
