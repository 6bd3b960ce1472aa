"""build_window ("the law"): the window of a plain chat, for which a sum is enough, or else by all rules (choice.py)."""

from collections.abc import Sequence
from functools import partial

import msgspec

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FUNCTION, SYSTEM, TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.fixed_parts.window_spec import WindowSpec
from sash.core.law.history.notes import summary_message
from sash.core.law.history.order import last_reply
from sash.core.law.history.results import share_of
from sash.core.law.history.view import History, unit_costs
from sash.core.law.limits.fitting import fitted
from sash.core.law.limits.request_size import is_far_below
from sash.core.law.records.costs import costs_as_counted, message_costs
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.records.units import group_units
from sash.core.law.selection.choice import choose
from sash.core.law.selection.explain import NO_MEDIA_LEFT, counted_tokens
from sash.core.law.selection.window import ALL, Allowed, Window
from sash.core.providers import PROVIDERS

_NOTHING_DROPPED = {
    **dict.fromkeys(
        ("messages", "tokens", "duplicates", "grounding_messages", "grounding_tokens", "reasoning_tokens"), 0
    ),
    **NO_MEDIA_LEFT,
}


def build_window(history: History, spec: WindowSpec) -> Window | NeedOlder:
    """The window of at most the budget's tokens, or NeedOlder.

    Raises:
        WindowDoesNotFit: the required parts are over the budget; the problem has each cost and the shortfall.
    """
    if history.summary is not None:
        history, plan = _summarized(history, spec.plan)
        spec = msgspec.structs.replace(spec, plan=plan)
    if is_far_below(history, spec.plan, spec.documents):
        return _plain_window(history, spec) or choose(spec, history, ALL)
    return fitted(history, spec, partial(_built, spec))


def _built(spec: WindowSpec, history: History, allowed: Allowed) -> Window | NeedOlder:
    """The window inside what is ``allowed``: a sum for a plain chat, or else all rules."""
    if allowed.is_all:
        plain = _plain_window(history, spec)
        if plain is not None:
            return plain
    return choose(spec, history, allowed)


def _summarized(history: History, plan: Plan) -> tuple[History, Plan]:
    """The summary's tokens in the model's own vocabulary. A compaction is in every window that can have it."""
    summary, model = history.summary, plan.model
    if summary is not None and summary.stands and plan.query.summary == "auto":
        plan = plan.telling_summary
    if summary is not None and summary.compaction is None and model.vocabulary is not None:
        own_tokens = spoken_tokens(summary_message(summary.text), model.vocabulary)
        summary = msgspec.structs.replace(summary, own_tokens=own_tokens)
    return msgspec.structs.replace(history, summary=summary), plan


def _plain_window(history: History, spec: WindowSpec) -> Window | None:
    """The window of a plain chat: as many of the newest messages as sum and limit allow. None if the chat is not plain.

    It is the same window as by the full rules. A chat is plain if its only required messages are the newest one, with its
    tool group, and the newest question, and it has no documents, summary, note, or result that is cut; and,
    where messages that repeat others are left out, no such message.
    """
    records, first, plan, options = history.records, history.first_seq, spec.plan, spec.plan.query
    if not _is_plain(history, plan):
        return None
    model = plan.model
    costs: list[int] = message_costs(records, model).tolist()
    fixed_tokens = plan.bare_costs
    if not plan.has_system and (SYSTEM in records.roles or DEVELOPER in records.roles):
        fixed_tokens = {**fixed_tokens, "priming": model.priming}
    room = plan.budget - sum(fixed_tokens.values())
    has_groups = TOOL in records.roles
    may_cut = has_groups and _may_cut(records, model, options, room)
    if room < 0 or may_cut:
        return None
    messages, left, limit = sum(costs), 0, options.limit or history.length + 1
    whole = first == 1 and messages <= room - spec.recall_reserve and len(costs) <= limit
    is_tail = plan.ends_with_budget and not spec.recall_reserve
    if not whole and (not is_tail or history.summary is not None or records.marks_any):
        return None
    while messages > room or (has_groups and 0 < left < len(costs) and records.roles[left] == TOOL):
        messages -= costs[left]  # from the oldest: most of what was read is kept
        left += 1
    kept = len(costs) - left
    limited = limit <= kept
    if limited:
        messages -= sum(costs[left : len(costs) - limit])
        kept = limit
    end = records.front + len(costs)
    begins = end - kept
    is_cut_off = first > 1 or (history.seen is not None and history.seen.horizon > 1)
    headless = records.leading_results if has_groups else 0  # where older messages were not read
    if not kept or history.asked < begins or (is_cut_off and len(costs) - kept <= headless):
        return None
    # The next one, too, would be passed if it repeats another.
    repeats = options.dedupe == "messages" and records.repeats(begins - 1)
    is_opened = plan.is_opened and _begins_with_reply(records, kept)
    if repeats or is_opened or (PROVIDERS[options.format].fills and _needs_fillers(records)):
        return None
    tokens = {"total": 0, **fixed_tokens, "messages": messages, "grounding": 0, "reasoning": 0}
    if plan.stands_in and not plan.bare_calls:  # beside calls alone
        tokens["tools"] = 0
    tokens["total"] = sum(tokens.values())
    rows = [*range(begins, end)]
    return Window(
        budget=spec.plan.budget,
        rows=rows,
        seqs=history.seqs_of(rows),
        grounding={},
        summary=None,
        note=0,
        tokens=tokens,
        dropped=_NOTHING_DROPPED if whole and history.seen is None else _dropped(history, model, messages, rows),
        stop_reason="complete" if whole else "limit" if limited else "budget",
        explain=None,
    )


def _is_plain(history: History, plan: Plan) -> bool:
    """Whether costs alone decide which messages are kept."""
    if not plan.may_be_plain:
        return False
    records, options, fixed, sent_in = history.records, plan.query, plan.parts.fixed, PROVIDERS[plan.query.format]
    return not (
        not records.flags
        or (plan.going_on and last_reply(history) is not None)
        or history.before
        or history.recalled
        or (history.seen is not None and history.seen.texts)
        or (options.note and history.seen is not None)
        or history.grounding_messages
        or (fixed.tools and records.marks_any)
        or plan.parts.names
        or ((plan.bare_calls or sent_in.stand_in_tool is not None) and (TOOL in records.roles or not records.plain))
        or (plan.stands_in and fixed.tools)
        or FUNCTION in records.roles
        or (records.details and records.thinks)
        or not (records.plain or _has_whole_groups(history, options))
        or ((sent_in.names_files or sent_in.tells_links) and records.details and records.with_parts)
        or (options.start == "user" and (history.first_seq > 1 or records.roles[0] != USER))
    )


def _has_whole_groups(history: History, options: WindowQuery) -> bool:
    """Whether each call has its results right behind it, no result is shortened, and no message is in every window."""
    records = history.records
    if options.tool_results_kept is not None or options.tool_result_max_tokens is not None or history.order is not None:
        return False
    is_odd = records.marked or records.marks_any or 1 in records.unsent
    return not is_odd and group_units(records).broken <= {
        0 if records.leading_results and history.first_seq > 1 else -1
    }


def _may_cut(records: Records, model: Model, options: WindowQuery, room: int) -> bool:
    """Whether a tool group is divided by a limit, or has results that are cut because it is larger than its share."""
    return bool(options.limit or unit_costs(group_units(records), message_costs(records, model)).max() > share_of(room))


def _begins_with_reply(records: Records, kept: int) -> bool:
    """Whether the first of the ``kept`` newest, beside system texts, is the assistant's."""
    return next((role for role in records.roles[len(records) - kept :] if role > DEVELOPER), None) == ASSISTANT


def _needs_fillers(records: Records) -> bool:
    """Whether the format adds text, because a message is empty or a system text."""
    return 0 in records.tokens(0) or SYSTEM in records.roles or DEVELOPER in records.roles


def _dropped(history: History, model: Model, messages: int, rows: Sequence[int]) -> dict[str, int]:
    """The figures of a plain chat's left-out messages. Those in these ``rows`` cost ``messages`` tokens."""
    is_counted = history.seen is None and costs_as_counted(history.records, model, history.column)
    return {
        **_NOTHING_DROPPED,
        "messages": history.length - len(rows),
        "tokens": history.tokens - (messages if is_counted else counted_tokens(history, rows)),
    }
