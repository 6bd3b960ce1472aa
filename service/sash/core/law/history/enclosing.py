"""The pictures, files and sounds of a history, and the bytes of its messages, as a form sends them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import numpy as np

from sash.core.counts.measures.media_facts import AUDIO, FILE, IMAGE, REPLY, Medium
from sash.core.counts.measures.rows import form_number
from sash.core.counts.measures.without_media import LINE_BYTES
from sash.core.counts.models.families import TOOL
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.history.view import History
from sash.core.law.records.records import Records
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.writing.media_types import VIDEO
from sash.core.stored.record import Flags, Record

MESSAGE_BYTES: Final = 192
"""The most bytes around a message's own, in any form; and of a call's members in another form than its own."""

_KINDS: Final[Mapping[int, Kind]] = MappingProxyType({IMAGE: "pictures", FILE: "files", AUDIO: "sounds"})
"""The kind of the fact that a model takes none of a kind of media."""


class Enclosed(NamedTuple):
    """A medium of the message in a row; ``number`` is its place among all that the message encloses."""

    row: int
    number: int
    medium: Medium

    @property
    def key(self) -> tuple[int, int]:
        """Its row and number."""
        return self.row, self.number


def enclosures(history: History, form: str) -> list[Enclosed]:
    """What the messages enclose that a request in ``form`` sends, in the order of the messages."""
    records = history.records
    return [
        Enclosed(index, number, medium)
        for index, media in (records.media.items() if records.details else ())
        for number, medium in enumerate(media)
        if is_sent(medium, records.roles[index], form)
    ]


def is_sent(medium: Medium, role: int, form: str) -> bool:
    """Whether a request in ``form`` sends a medium of a message of this role. Chat completions take none in results."""
    if medium.form or medium.kind == REPLY:
        return medium.form == form
    return not (role == TOOL and PROVIDERS[form].is_chat_form)


def is_taken(medium: Medium, model: Model) -> bool:
    """Return whether a model takes a medium of this kind. A text file is sent to OpenAI's models as its text."""
    is_video = medium.kind == FILE and medium.media_type.startswith(VIDEO)
    kind = "videos" if is_video else _KINDS.get(medium.kind)
    values = meet(model.format, model.provider, model.known_as).values
    if medium.kind == IMAGE and medium.is_linked and "links" in values:
        return False
    if kind is None or kind not in values:
        return True
    is_words = medium.kind == FILE and medium.media_type.startswith("text/")
    return is_words and model.provider == PROVIDERS[model.format].maker


def text_bytes(records: Records, model: Model) -> Number:
    """Bytes of each message in a request, as an array: upper bounds, with lines in place of media."""
    calls = np.frombuffer(records.calls, np.uint8).astype(np.int64)
    sizes: Number = records.sizes() + MESSAGE_BYTES * (1 + calls)
    if records.details:
        columns = records.columns_for(model)
        is_own = columns["form"] == form_number(model.format)
        own = np.where(columns["sent"] > 0, columns["sent"] + MESSAGE_BYTES, sizes)
        sizes = np.where(is_own, own, sizes - columns["beside_size"])
        for index in {*records.rare, *records.where(Flags.MEDIA)}:
            sizes[index] = text_bytes_of(records[index], model.format)
    return sizes


def text_bytes_of(record: Record, form: str) -> int:
    """Bytes of one message in a request, with lines in place of its media."""
    extra = record.measure.extra
    media, beside = record.enclosed, extra.beside if extra is not None else None
    size = record.whole_size + MESSAGE_BYTES * (1 + record.calls)
    if beside is not None and beside.format == form and beside.sent:
        size = beside.sent + MESSAGE_BYTES
        media = [each for each in media if each.form in ("", form) and each.kind != REPLY]
    elif beside is not None:
        size -= beside.size
        media = [each for each in media if not each.form]
    return max(0, size - sum(map(bytes_of, media))) + LINE_BYTES * len(media)


def bytes_of(medium: Medium) -> int:
    """Bytes of a medium that a line saves; an address counts with the text."""
    return 0 if medium.is_linked else medium.size


def with_records(history: History, changed: Mapping[int, Record]) -> History:
    """The history with other records, by row."""
    if not changed:
        return history
    order = history.order
    if order is not None:
        rows = {seq: row for row, seq in enumerate(order.original.seqs)}
        original = {rows[history.seqs[row]]: record for row, record in changed.items()}
        order = msgspec.structs.replace(order, original=with_records(order.original, original))
    return msgspec.structs.replace(history, records=history.records.replaced({**changed}), order=order)
