"""A conversation that is lived again: the window before each reply, and what its input cost.

A window follows from the log up to it, so the windows are those that were sent, or would have been sent with other
parameters. What they cost is billed by the simulator of the provider's cache (``prompt_cache.py``), at list prices.
The cache of one conversation knows nothing of others.

Assumed: pins, settings and documents were from the beginning as they are now, and a summary was there as soon as the last
message that it covers. Messages that were erased are not there.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from sash.core.chat.messages import Entry
from sash.core.counts.models.families import ASSISTANT, ROLE_INDEX
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, fixed_parts
from sash.core.law.fixed_parts.cost import input_prices
from sash.core.law.history.compaction import newest_summary
from sash.core.law.records.costs import message_costs
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.render import Bodies
from sash.core.law.selection.caching import caching_of
from sash.core.stored.stored_grounding import decode_grounding
from sash.core.stored.stored_summary import Summary
from sash.problems import FormatCannotCarry, WindowDoesNotFit
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import window
from sash.windows.needs import SeenHistory
from sash.windows.stateless import (
    answer_from,
    measured_entries,
    newest_compaction,
    placed_entries,
    records_of,
    whole_history,
)
from sash_tools.replays.prompt_cache import Billed, PromptCache
from sash_tools.replays.window_blocks import CachedWindow, blocks_of_window


class LoggedChat(msgspec.Struct, frozen=True):
    """A conversation as it was: its checked entries, each once, with their times in milliseconds since 1970."""

    id: str
    settings: ConversationSettings
    entries: Sequence[Entry]
    times: Sequence[int]
    summary: Summary | None = None

    @property
    def lengths(self) -> list[int]:
        """The numbers of messages in the log when a window was asked for: before each reply, and of a log without one."""
        roles = [ROLE_INDEX[entry.message["role"]] for entry in self.entries]
        before = [place for place, role in enumerate(roles) if place and role == ASSISTANT]
        return before if not roles or roles[-1] == ASSISTANT else [*before, len(roles)]


class BilledRequest(msgspec.Struct, frozen=True):
    """One request: its tokens and how they are billed, what they cost in dollars, and what the window left out."""

    tokens: int
    billed: Billed
    dollars: float | None
    tier: int
    """The number of tokens that the request's price tier is above; 0 for the first one."""
    history: int
    dropped: int
    trimmed: int
    """Tool results that are sent shortened or as one line."""


class UnmadeWindow(msgspec.Struct, frozen=True):
    """A window that could not be made, and why."""

    why: str


class Replayed:
    """The windows of one conversation with one set of parameters. Raises UnknownModel, Unprocessable, and the problems of
    a history in a request."""

    def __init__(self, lived: LoggedChat, query: WindowQuery, models: Mapping[str, Model]) -> None:
        parts = fixed_parts(lived.settings)
        plan = plan_of(query, parts, limits_of(query, lived.settings, models))
        model = self._model = plan.model
        self._asked = Asked(plan, lived.id)
        self._lived = lived
        self._newest: frozenset[int] | None = None
        given = placed_entries([*enumerate(lived.entries)])
        self._kept = measured_entries(given, parts.template, model, digests=True)
        self._records = records_of(self._kept, given, model)
        message_costs(self._records, model)  # kept for all windows
        self._bodies = Bodies(1, [body for _, body, _ in self._kept], {})
        self._documents = {seq: decode_grounding(stored) for seq, (_, _, stored) in enumerate(self._kept, 1) if stored}

    def requests(self) -> Iterator[BilledRequest | UnmadeWindow]:
        """Each request in turn."""
        rules = caching_of(self._model)
        cache = PromptCache(rules) if rules else None
        for length in self._lived.lengths:
            try:
                made = self.window(length)
            except (WindowDoesNotFit, FormatCannotCarry) as problem:
                yield UnmadeWindow(problem.detail)
                continue
            yield self._request(made, cache, self._lived.times[length - 1])

    def window(self, length: int, recall_query: str | None = None) -> Made:
        """The window of the first ``length`` messages. Raises WindowDoesNotFit, FormatCannotCarry."""
        asked, seen = self._asked, self._seen(length)
        if recall_query is not None:
            replace = msgspec.structs.replace
            recalling = replace(asked.plan.query, recall_query=recall_query)
            asked = replace(asked, plan=replace(asked.plan, query=recalling))
        flow = window(asked, seen)
        found = flow.send(None)
        while not isinstance(found, Made):
            found = flow.send(answer_from(found, seen, None))
        return found

    def _seen(self, length: int) -> SeenHistory:
        form, view, records = self._asked.plan.query.format, self._asked.plan.query.view, self._records[:length]
        summary = self._lived.summary
        if summary is not None and summary.through_seq > length:
            summary = None
        if summary is not None:
            summary = summary.for_those(self._who_may_see(summary.through_seq))
        summary = newest_summary(summary, newest_compaction(self._kept[:length], form), form, view, self._model)
        documents = [record.grounding for record, _, _ in self._kept[:length] if record.grounding is not None]
        history = whole_history(records, self._model, documents, summary)
        sends = self._asked.plan.query.grounding
        seqs = {"latest": [history.asked + 1], "none": []}.get(sends, self._documents)
        found = {seq: self._documents[seq] for seq in seqs if seq <= length and seq in self._documents}
        return SeenHistory(history, self._bodies, found)

    def _who_may_see(self, last_seq: int) -> frozenset[str] | None:
        """The agents that may see all messages up to this one; None for everybody."""
        names = None
        for party in self._records[:last_seq].parties()[1]:
            names = party.narrowed(names)
        return names

    def _request(self, made: Made, cache: PromptCache | None, at_ms: int) -> BilledRequest:
        model, head, hints = self._model, made.head, made.hints
        total = head.tokens.total
        billed = Billed(0, 0, total)
        if cache is not None:
            places = hints.places if hints and hints.kind else None
            cached = CachedWindow(made.window, made.history, model, places)
            blocks = blocks_of_window(cache.rules.kind, cached)
            billed = cache.send(blocks, at_ms / 1000)
        prices = input_prices(model, total)
        return BilledRequest(
            tokens=total,
            billed=billed,
            dollars=prices.dollars(total, billed.read, billed.written) if prices else None,
            tier=prices.tier.above if prices else 0,
            history=head.tokens.messages,
            dropped=head.dropped.messages,
            trimmed=head.trimmed.messages if head.trimmed else 0,
        )

    def evidence(self, text: str, seqs: Sequence[int]) -> float:
        """The share of these messages that the newest window sends whole, if it is asked this question."""
        sent = self._sent_whole(text if self._asked.plan.query.recall_max_tokens else None)
        return sum(seq in sent for seq in seqs) / len(seqs)

    def _sent_whole(self, text: str | None) -> frozenset[int]:
        """The seqs of the messages that the newest window sends whole. Without recall the question changes nothing."""
        if text is None and self._newest is not None:
            return self._newest
        try:
            made = self.window(len(self._kept), text)
        except (WindowDoesNotFit, FormatCannotCarry):
            return frozenset()
        chosen = made.window
        cut = {made.history.seqs[row] for row, edit in chosen.edits.items() if edit.limit is not None}
        recalled = made.head.recalled.seqs if made.head.recalled else ()
        sent = frozenset(chosen.seqs) - cut | frozenset(recalled)
        if text is None:
            self._newest = sent
        return sent
