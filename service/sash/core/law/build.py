"""build_window ("the law"): the window of a history, with its summary, inside its provider's limits."""

import msgspec
import numpy as np

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.law.fixed_parts.plan import TOKEN_BYTES, Plan, WindowSpec
from sash.core.law.history.enclosing import text_bytes
from sash.core.law.history.notes import summary_message
from sash.core.law.history.view import History, view_history
from sash.core.law.limits.fitting import fitted
from sash.core.law.limits.history_media import told_bytes
from sash.core.law.limits.unreadable import has_unreadable
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.selection.choice import choose
from sash.core.law.selection.window import ALL, Window
from sash.core.stored.stored_summary import Summary


def build_window(history: History, spec: WindowSpec) -> Window | NeedOlder:
    """The window of at most the budget's tokens, or NeedOlder.

    Raises:
        WindowDoesNotFit: the required parts are over the budget; the problem has each cost and the shortfall.
    """
    if history.summary is not None:
        history, spec = _summarized(history, history.summary, spec)
    view = view_history(history, spec.plan.model) if _is_near(history, spec.plan) else None
    return choose(spec, history, ALL) if view is None else fitted(view, spec)


def _summarized(history: History, summary: Summary, spec: WindowSpec) -> tuple[History, WindowSpec]:
    """The summary's tokens in the model's own vocabulary. A compaction is in every window that can have it."""
    plan, replace = spec.plan, msgspec.structs.replace
    if summary.stands and plan.query.summary == "auto":
        spec = replace(spec, plan=plan.telling_summary)
    if summary.compaction is None and plan.model.vocabulary is not None:
        own_tokens = spoken_tokens(summary_message(summary.text), plan.model.vocabulary)
        history = replace(history, summary=replace(summary, own_tokens=own_tokens))
    return history, spec


def _is_near(history: History, plan: Plan) -> bool:
    """Whether a limit beside that of tokens may matter, or a medium cannot be read, which is so in few chats."""
    records, details = history.records, history.records.details
    if not details and history.summary is None and history.tokens + history.grounding_tokens <= plan.free_tokens:
        return False
    if history.lost or (details and has_unreadable(history, plan.model)):
        return True
    most = plan.most_bytes
    if most is None:
        return False
    if history.length > plan.most_messages or (details and records.media):
        return True
    size = int(np.add.reduce(text_bytes(records, plan.model))) + TOKEN_BYTES * history.grounding_tokens
    if history.summary is not None or plan.query.recall_max_tokens:
        size += told_bytes(history, plan.query)
    return size > most
