"""What the first read of a window asks the store for, by the window's query: the tail that it likely needs."""

from collections.abc import Mapping

import msgspec

from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.core.law.fixed_parts.plan import below_a_tier
from sash.core.law.history.compaction import readable
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.choice import BLOCK
from sash.core.law.selection.walk import SKIP_HORIZON
from sash.store.data.tails import Reach
from sash.windows.asked import limits_of

_OF_A_VIEW = 2
"""Budgets of messages that are read first for a view, which is enough where it sees half of them."""
_NO_RESERVE = ConversationSettings(reserve=0)


class Asking(msgspec.Struct, frozen=True):
    """What follows from a window's query alone."""

    reach: Reach
    """What the first read asks for."""
    follows: bool
    """Whether the window depends on the conversation alone, and not on reported bills (estimated models) or on an index."""


def asking_of(models: Mapping[str, Model], query: WindowQuery) -> Asking:
    """What follows from a query. Raises UnknownModel, Unprocessable."""
    reach = reach_of_query(query, models)
    if query.model is None:  # then it depends on the conversation's settings
        return Asking(reach, follows=False)
    model = limits_of(query, _NO_RESERVE, models).model
    return Asking(reach, follows=model.exact and not model.vocabulary and not query.recall_max_tokens)


def reach_of_query(query: WindowQuery, models: Mapping[str, Model]) -> Reach:
    """What the first read asks for, before the conversation's settings are known. Raises UnknownModel, Unprocessable."""
    if query.model is None:
        return _of_any_model(query)
    limits = limits_of(query, _NO_RESERVE, models)
    return reach_of(query, limits.model, limits.budget)


def reach_of(query: WindowQuery, model: Model, budget: int) -> Reach:
    """The tail that the query's window likely needs."""
    budget = below_a_tier(query, model, budget)
    has_view = query.view is not None  # author and audience are in the details, as the writing systems are
    return msgspec.structs.replace(
        _of_any_model(query),
        budget=budget * _OF_A_VIEW if has_view else budget,
        column=model.column,
        scripts=int(model.ratios is not None or has_view),
        block=BLOCK * budget if query.stable else 0,
        more=SKIP_HORIZON if query.overflow == "skip" else 0,
        whole=int(query.tool_results_kept is not None),
    )


def _of_any_model(query: WindowQuery) -> Reach:
    """What a read asks for whichever the model is."""
    return Reach(
        query.max_tokens or 0,
        limit=query.limit or 0,
        compactions=readable(query.format) if query.summary != "never" else "",
        words=int(query.recall_max_tokens > 0),
        agents=int(query.view is not None),
    )
