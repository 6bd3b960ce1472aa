"""What is known of a window's messages that are not sent as they are stored, found by their roles and numbers alone."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from sash.core.counts.measures.measures import Extra
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.measures.rows import form_named, form_number
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.history.view import History
from sash.core.law.records.records import Records
from sash.core.law.render import Marked
from sash.core.law.selection.window import Window
from sash.core.providers.messages.members import FOREIGN
from sash.core.providers.messages.mends import Mends
from sash.core.providers.openai import server_mends
from sash.core.providers.openai.server_mends import refused_by


def marked_in(window: Window, history: History, model: Model, mends: Mends, *, drops: bool) -> Marked:
    """What chat completions do not get as it is stored, of the window's messages. The rest is as in ``Marked``."""
    records, seqs, sent = history.records, history.seqs, set(window.seqs)
    bits = refused_by(model.provider, model.known_as)  # none by OpenAI's own
    marks: Number = _by_servers(records) & bits if bits else 0
    beside: dict[int, NativeParts] = {}
    odd: dict[int, int] = {}
    if records.details:
        marks = marks | records.columns["odd"]
        beside, odd = _in_details(records, seqs, sent)
    if isinstance(marks, np.ndarray):
        places = np.flatnonzero(marks)
        pairs = zip(map(seqs.__getitem__, places.tolist()), marks[places].tolist(), strict=True)
        odd |= {seq: odd.get(seq, 0) | each for seq, each in pairs if seq in sent}
    return Marked(mends, beside, odd, model.provider, model.known_as, bits, drops)


def _in_details(
    records: Records, seqs: Sequence[int], sent: AbstractSet[int]
) -> tuple[dict[int, NativeParts], dict[int, int]]:
    """Native parts of the messages ``sent``, and what chat completions refuse in those without a row, by seq."""
    extras = ((seqs[index], records.details[index].extra) for index in records.rare)
    found = {seq: extra for seq, extra in extras if extra is not None and seq in sent}
    beside = {seq: extra.beside for seq, extra in found.items() if extra.beside is not None}
    odd = {seq: extra.odd for seq, extra in found.items() if extra.odd}
    if isinstance(
        forms := records.columns["form"], np.ndarray
    ):  # a message with a row has no parts of its provider's only
        native = np.flatnonzero(forms)
        facts = np.array([seqs, forms, records.columns["beside_size"], records.columns["told"] + 0 * forms])[:, native]
        rows = facts.T.tolist()
        beside |= {seq: NativeParts(form_named(form), size, told=told) for seq, form, size, told in rows if seq in sent}
    return beside, odd


def _by_servers(records: Records) -> Number:
    """What servers of OpenAI's form may refuse in each message, as an array."""
    roles, calls = np.frombuffer(records.roles, np.uint8), np.frombuffer(records.calls, np.uint8)
    marks = (roles == DEVELOPER) * server_mends.DEVELOPER
    marks |= ((roles == ASSISTANT) & (records.tokens(0) == 0) & (calls == 0)) * server_mends.EMPTY
    marks |= ((roles <= USER) & (records.tokens(0) == 0)) * server_mends.SILENT
    marks |= ((roles == TOOL) | (calls > 0)) * server_mends.IDENTITY
    marks |= (calls > 0) * (server_mends.OWING | server_mends.TWICE)
    marks |= (roles != USER) * server_mends.NAMED
    if records.details:
        thoughts = server_mends.THOUGHTS | server_mends.DETAILS | server_mends.TWICE
        marks |= ((roles == ASSISTANT) & (records.columns["plain0"] != 0)) * thoughts
        marks |= (records.columns["has_call_objects"] != 0) * server_mends.ARGUMENTS
        for index in records.rare:  # their columns are not complete
            extra = records[index].measure.extra
            if extra is not None and extra.call_objects is not None:
                marks[index] |= server_mends.ARGUMENTS
            if extra is not None and extra.reasoning is not None:
                marks[index] |= thoughts
    return marks


def with_foreign_members(window: Window, history: History, form: str) -> list[int]:
    """The seqs of the window's messages that lose members of the client's own, or of another provider's form, such as
    citations. The details must have been read."""
    records, forms, lost = history.records, history.records.columns["form"], history.records.columns["lost"]
    is_less = (forms == form_number(FOREIGN)) | ((lost != 0) & (forms != form_number(form)))
    found = np.flatnonzero(is_less).tolist()
    found += [index for index in records.rare if _is_foreign(records.details[index].extra, form)]
    sent = dict(zip(window.rows, window.seqs, strict=True)) if found else {}
    return [sent[row] for row in found if row in sent]


def _is_foreign(extra: Extra | None, form: str) -> bool:
    beside = extra.beside if extra is not None else None
    return beside is not None and (beside.format == FOREIGN or (beside.lost > 0 and beside.format != form))
