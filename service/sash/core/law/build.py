"""build_window ("the law"): the window of a history, with its summary, inside its provider's limits."""

from typing import Final

import msgspec
import numpy as np

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.enclosing import MESSAGE_BYTES, text_bytes
from sash.core.law.history.notes import summary_message
from sash.core.law.history.view import History, grouped_units
from sash.core.law.limits.fitting import fitted
from sash.core.law.limits.request_size import check_tools, told_bytes
from sash.core.law.limits.unreadable import has_unreadable
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.selection.choice import choose
from sash.core.law.selection.window import ALL, Window
from sash.core.providers.form.request_limits import NO_LIMITS
from sash.core.stored.record import Flags

_OTHER_BYTES: Final = 4
"""Bytes of a character of a document, at most, as JSON mostly has it."""


def build_window(history: History, spec: WindowSpec) -> Window | NeedOlder:
    """The window of at most the budget's tokens, or NeedOlder.

    Raises:
        WindowDoesNotFit: the required parts are over the budget; the problem has each cost and the shortfall.
    """
    if history.summary is not None:
        history, plan = _summarized(history, spec.plan)
        spec = msgspec.structs.replace(spec, plan=plan)
    grouped = None if _is_far_below(history, spec.plan, spec.documents) else grouped_units(history)
    if grouped is None:  # or it asks for older messages
        return choose(spec, history, ALL)
    return fitted(history, grouped[0], spec)


def _summarized(history: History, plan: Plan) -> tuple[History, Plan]:
    """The summary's tokens in the model's own vocabulary. A compaction is in every window that can have it."""
    summary, model = history.summary, plan.model
    if summary is not None and summary.stands and plan.query.summary == "auto":
        plan = plan.telling_summary
    if summary is not None and summary.compaction is None and model.vocabulary is not None:
        own_tokens = spoken_tokens(summary_message(summary.text), model.vocabulary)
        summary = msgspec.structs.replace(summary, own_tokens=own_tokens)
    return msgspec.structs.replace(history, summary=summary), plan


def _is_far_below(history: History, plan: Plan, documents: Documents) -> bool:
    """Whether only the limit of tokens can matter, and all media can be read: as in nearly every chat. Quick to tell.

    Raises WindowDoesNotFit for tools that are over a limit.
    """
    limits, records, query = plan.model.limits, history.records, plan.query
    if not plan.tools_fit:
        check_tools(plan.parts.fixed.tools or (), plan.model)
    if history.lost or (records.details and has_unreadable(history, plan.model)):
        return False
    if limits is NO_LIMITS and query.images_kept is None:
        return True
    are_many = limits.messages is not None and 2 * history.length + plan.fixed_messages > limits.messages
    if are_many or plan.parts.fixed.has_media or (records.details and records.media):
        return False
    most = plan.fixed_bytes + (_documents_bytes(documents) if documents.sources else 0)
    if history.summary is not None or query.recall_max_tokens:
        most += told_bytes(history, query)
    if records.details and 1 in records.having(Flags.RICH):
        most += int(np.add.reduce(text_bytes(records, plan.model)))
    else:
        most += records.size() + MESSAGE_BYTES * (len(records.flags) + sum(records.calls))
    return limits.bytes is None or most <= limits.bytes


def _documents_bytes(documents: Documents) -> int:
    """Bytes of all documents that the window may send: nearly always more than their JSON has."""
    texts = (text for source in documents.sources.values() for _, text in source.grounding.documents)
    return _OTHER_BYTES * sum(map(len, texts))
