"""Media whose bytes the storage has lost: what stands in their places, and the message with a line for each.

::

    body with gaps ─┬─ a medium that is there   its text
                    └─ a lost one               a filler of the same length, which a line replaces

The filler is as long as the medium, so places in the message, as of documents, stay where they are. A medium that stands
where no provider has pictures, such as in a call's arguments, is not enclosed: words and white space stand in its place.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from sash.core.counts.measures.without_media import without_media
from sash.core.law.history.lines import medium_lines
from sash.core.law.history.view import History
from sash.core.law.selection.window import Window
from sash.core.providers.reading.enclosures import enclosed, with_lines
from sash.core.stored.record import Record
from sash.core.stored.split_media import GAP, Pieces, StoredMedium, Text, digest_in, fill, pieces_of, stand_in

WORDS: Final = b"[not stored any more]"
"""The text in place of a lost medium that is not enclosed."""


class Filled(NamedTuple):
    """A message in pieces, with its media in their places. ``lost`` are the numbers of those enclosed that have a filler."""

    pieces: Pieces
    lost: tuple[int, ...]


def filled_with(body: bytes, media: Sequence[StoredMedium], contents: Mapping[bytes, Text]) -> Filled:
    """Return a message with its media in their places, by stored name. Those that ``contents`` lacks are lost."""
    lost = {each.name for each in media} - contents.keys()
    if not lost:
        return Filled(pieces_of(body, media, contents), ())
    names = _enclosed_names(body, media)
    fillers: dict[bytes, Text] = {
        each.name: stand_in(each.name.hex()).ljust(each.length, b"A")
        if each.name in names
        else WORDS.ljust(each.length)
        for each in media
        if each.name in lost
    }
    numbers = tuple(number for number, name in enumerate(names) if name in lost)
    return Filled(pieces_of(body, media, {**contents, **fillers}), numbers)


def _enclosed_names(body: bytes, media: Sequence[StoredMedium]) -> list[bytes | None]:
    """The stored name of each medium that a message encloses, in order; None for one that stands in the message."""
    words = {each.name.hex(): each.name for each in media}
    filled = fill(body, media, {name: stand_in(word) for word, name in words.items()})
    return [words.get(each.data.rpartition(",")[2][:GAP]) for each in enclosed(msgspec.json.decode(filled))]


def instead_of(body: bytes, media: Sequence[StoredMedium], lined: Sequence[int]) -> dict[bytes, bytes]:
    """Return texts in place of the media of a message that need not be read, by their stored names.

    ``lined`` are the numbers of what is sent as lines. A medium that the message sends elsewhere, too, is read.
    """
    sent: set[bytes | None] = {None}
    replaced: set[bytes | None] = set()
    for number, name in enumerate(_enclosed_names(body, media)):
        (replaced if number in lined else sent).add(name)
    return {each.name: stand_in(each.name.hex()) for each in media if each.name in replaced - sent}


def told(record: Record, filled: Filled, seq: int) -> tuple[bytes, Record]:
    """Return a message with one line of text for each lost medium, and its record without these."""
    body, record = b"".join(filled.pieces), msgspec.structs.replace(record, media=())
    numbers = [number for number in filled.lost if number < len(record.enclosed)]
    if not numbers:
        return body, record
    lines = medium_lines(record, numbers, seq, "", numbers)
    message = with_lines(msgspec.json.decode(body), lines)
    return msgspec.json.encode(message), msgspec.structs.replace(record, measure=without_media(record.measure, lines))


def lost_among(body: bytes, media: Sequence[StoredMedium], contents: Mapping[bytes, Text]) -> dict[str, StoredMedium]:
    """Return a message's lost media by their digests, each once."""
    return {digest_in(body, each).decode(): each for each in media if each.name not in contents}


def lost_seqs(window: Window, history: History) -> list[int]:
    """Return the seqs of the window's messages that have a line in place of a lost picture, file or sound."""
    lined = ((history.seqs[row], window.edits[row].media) for row in window.lined)
    return [seq for seq, media in lined if not {*media}.isdisjoint(history.lost.get(seq, ()))]
