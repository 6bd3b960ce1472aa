"""Puts lines in place of the pictures, files and sounds that a window leaves out, and applies its other edits."""

from collections.abc import Mapping, Sequence

import msgspec

from sash.core.chat.messages import encode_message
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import Model
from sash.core.law.documents.document_costs import DocumentedContent
from sash.core.law.documents.grounding import Grounded
from sash.core.law.history.enclosing import with_records
from sash.core.law.history.lines import medium_lines
from sash.core.law.history.view import History
from sash.core.law.limits.lost_media import enclosed_names
from sash.core.law.limits.unreadable import told_among
from sash.core.law.records.costs import message_costs, record_cost, written_cost
from sash.core.law.records.records import Record
from sash.core.law.records.split_media import StoredMedium, stand_in
from sash.core.law.render import Bodies
from sash.core.law.selection.window import Window
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.pieces import Object
from sash.core.providers.reading.enclosures import enclosed, with_lines
from sash.core.providers.writing.turns import is_of
from sash.windows.answer import Trimmed, cheaper, edit, with_documents_priced


def edited(window: Window, history: History, bodies: Bodies, model: Model) -> tuple[Window, Bodies, Trimmed | None]:
    """Apply the window's edits. Returns the window with exact tokens, the edited bodies, and the figures of cut results."""
    if not window.lined:
        return edit(window, history, bodies, model)
    window, bodies = _lined(window, history, bodies, model)
    lined = {window.row_of[seq]: record for seq, record in window.lined.items()}
    costs = message_costs(history.records, model)
    saved = {seq: costs.item(window.row_of[seq]) - record_cost(record, model) for seq, record in window.lined.items()}
    window, bodies, trimmed = edit(_saving(window, saved, -1), with_records(history, lined), bodies, model)
    return _saving(window, saved, 1), bodies, trimmed


def instead_of(body: bytes, media: Sequence[StoredMedium], lined: Sequence[int]) -> dict[bytes, bytes]:
    """Return texts in place of the media of a message that need not be read, by their stored names.

    ``lined`` are the numbers of what is sent as lines. A medium that the message sends elsewhere, too, is read.
    """
    sent: set[bytes | None] = {None}
    replaced: set[bytes | None] = set()
    for number, name in enumerate(enclosed_names(body, media)):
        (replaced if number in lined else sent).add(name)
    return {each.name: stand_in(each.name.hex()) for each in media if each.name in replaced - sent}


def _saving(window: Window, saved: Mapping[int, int], sign: int) -> Window:
    """The window whose edits save more, or less, by what lines in place of media save. Cuts are told apart from them."""
    replace = msgspec.structs.replace
    edits = {
        seq: replace(window.edits[seq], saved=window.edits[seq].saved + sign * more) for seq, more in saved.items()
    }
    return replace(window, edits={**window.edits, **edits})


def _lined(window: Window, history: History, bodies: Bodies, model: Model) -> tuple[Window, Bodies]:
    """The window and the bodies with lines in place of media."""
    made: dict[int, bytes] = {}
    spans: dict[int, tuple[int, int]] = {}
    less: dict[int, int] = {}
    priced: dict[int, Grounded] = {}
    for seq, bound in window.lined.items():
        each, record = window.edits[seq], history.records[window.row_of[seq]]
        message = msgspec.json.decode(bodies.body(seq))
        told = told_among(record.enclosed, each.media, model, history.now)
        lines = medium_lines(record, each.media, seq, window.path, history.lost.get(seq, ()), told)
        if told:
            found = enclosed(message)
            lines |= {number: media_line(found[number].part) for number in told if not found[number].form}
        message = with_lines(message, lines)
        if not is_of(message, model.format):
            message.pop("native", None)
        made[seq], *span = encode_message(message)
        spans[seq] = span[0], span[1]
        if each.limit is None and not each.without_calls:
            less[seq] = record_cost(bound, model) - written_cost(message, model, parallel=record.parallel)
        if chosen := window.grounding.get(seq):
            content = DocumentedContent(_with_content(record, message, model), made[seq][span[0] : span[1]], model)
            cost = content.cost(chosen.before, chosen.after) - record_cost(content.record, model)
            priced[seq] = msgspec.structs.replace(chosen, cost=cost)
    bodies = msgspec.structs.replace(bodies, edited=made, spans=spans)
    return with_documents_priced(cheaper(window, less), priced), bodies


def _with_content(record: Record, message: Object, model: Model) -> Record:
    """The record of a message as it is written for this window, with all of its content."""
    own_tokens = None if model.vocabulary is None else spoken_tokens(message, model.vocabulary)
    return msgspec.structs.replace(record, measure=measure(message), own_tokens=own_tokens, media=())
