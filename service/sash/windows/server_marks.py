"""What servers of OpenAI's form may refuse in a window's messages, found by their roles and numbers."""

import numpy as np

from sash.core.counts.models.families import ASSISTANT, DEVELOPER, TOOL, USER
from sash.core.counts.text.numbers import Number
from sash.core.law.history.view import History
from sash.core.law.records.records import Records
from sash.core.law.selection.window import Window
from sash.core.providers.openai import server_mends
from sash.core.providers.openai.server_mends import refused_by


def refused_by_servers(window: Window, history: History, maker: str, model: str) -> dict[int, int]:
    """What servers of a maker's models may refuse in the window's messages, as bits, by seq; nothing for OpenAI's own."""
    bits = refused_by(maker, model)
    if not bits:
        return {}
    sent, marks = set(window.seqs), _marks(history.records) & bits
    places = np.flatnonzero(marks)
    marked = zip(history.seqs[places].tolist(), marks[places].tolist(), strict=True)
    return {seq: each for seq, each in marked if seq in sent}


def _marks(records: Records) -> Number:
    """What may be refused in each message, as an array."""
    roles, calls = np.frombuffer(records.roles, np.uint8), np.frombuffer(records.calls, np.uint8)
    marks = (roles == DEVELOPER) * server_mends.DEVELOPER
    marks |= ((roles == ASSISTANT) & (records.tokens(0) == 0) & (calls == 0)) * server_mends.EMPTY
    marks |= ((roles == USER) & (records.tokens(0) == 0)) * server_mends.SILENT
    marks |= ((roles == TOOL) | (calls > 0)) * server_mends.IDENTITY
    marks |= (calls > 0) * server_mends.OWING
    marks |= (roles <= DEVELOPER) * server_mends.PARTS
    marks |= (roles != USER) * server_mends.NAMED
    if records.details:
        thoughts = server_mends.THOUGHTS | server_mends.DETAILS
        marks |= ((roles == ASSISTANT) & (records.columns["plain0"] != 0)) * thoughts
        marks |= (records.columns["has_call_objects"] != 0) * server_mends.ARGUMENTS
        for index in records.rare:  # their columns are not complete
            extra = records[index].measure.extra
            if extra is not None and extra.call_objects is not None:
                marks[index] |= server_mends.ARGUMENTS
            if extra is not None and extra.reasoning is not None:
                marks[index] |= thoughts
    return marks
