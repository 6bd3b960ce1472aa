"""build_window ("the law"): the window of a history, with its summary, inside its provider's limits."""

import msgspec

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.fixed_parts.window_spec import WindowSpec
from sash.core.law.history.notes import summary_message
from sash.core.law.history.view import History
from sash.core.law.limits.fitting import fitted
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.selection.window import Window


def build_window(history: History, spec: WindowSpec) -> Window | NeedOlder:
    """The window of at most the budget's tokens, or NeedOlder.

    Raises:
        WindowDoesNotFit: the required parts are over the budget; the problem has each cost and the shortfall.
    """
    if history.summary is not None:
        history, plan = _summarized(history, spec.plan)
        spec = msgspec.structs.replace(spec, plan=plan)
    return fitted(history, spec)


def _summarized(history: History, plan: Plan) -> tuple[History, Plan]:
    """The summary's tokens in the model's own vocabulary. A compaction is in every window that can have it."""
    summary, model = history.summary, plan.model
    if summary is not None and summary.stands and plan.query.summary == "auto":
        plan = plan.telling_summary
    if summary is not None and summary.compaction is None and model.vocabulary is not None:
        own_tokens = spoken_tokens(summary_message(summary.text), model.vocabulary)
        summary = msgspec.structs.replace(summary, own_tokens=own_tokens)
    return msgspec.structs.replace(history, summary=summary), plan
