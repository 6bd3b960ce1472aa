"""A window's plan: what follows from settings, query and model alone, and so is the same in many windows; and a window's
spec, which has its documents, too."""

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from math import ceil, inf
from operator import or_
from typing import Any, Final

import msgspec

from sash.core.counts.costs.counting import (
    REFERENCE_MODELS,
    bare_calls_tokens,
    first_system,
    has_calls,
    instructs,
    is_estimate,
    messages_tokens,
    plain_text_tokens,
    reasoning_tokens,
    tools_tokens,
)
from sash.core.counts.costs.definitions import Declared
from sash.core.counts.costs.message_cost import is_left_out
from sash.core.counts.costs.over_limits import over_limits
from sash.core.counts.costs.request_shapes import defined_parts, has_stood, parts_of, shape_of
from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.rows import row_of
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, SYSTEM, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import ONE
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.cost import InputPrices, input_prices
from sash.core.law.fixed_parts.fixed import FixedParts, stand_in_tool
from sash.core.law.history.enclosing import MESSAGE_BYTES
from sash.core.law.history.fillers import (
    bare_opening,
    blank_line_tokens,
    came_in,
    few_shots_fillers,
    filler_tokens,
    puts_user_first,
)
from sash.core.law.history.notes import Line
from sash.core.law.records.costs import text_costs, written_cost
from sash.core.law.records.figures import WindowTokens
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.form.request_limits import NO_LIMITS
from sash.core.providers.messages.endings import GO_ON
from sash.core.providers.openai.server_mends import UNSAID, refused_by
from sash.core.stored.stored_summary import Summary

ASIDE_BYTES: Final = 16_384
"""Bytes of a request for what its client adds: the model's name, the reply's limit and format."""
TOKEN_BYTES: Final = 128
"""Bytes of a token of a text as JSON, at most: those of so many blanks, in both encodings."""
ASIDE_MESSAGES: Final = 4
"""A summary, a note, a recalled block and an opening, which a window may have."""
_AROUND_A_NAME: Final = 2
"""Tokens by which a text around a name may differ with it."""


class Plan(msgspec.Struct, frozen=True, dict=True, eq=False):
    """A window's query, fixed parts and model, its reserve and budget in tokens, and what follows from these alone.

    It has nothing of a conversation. What follows is computed when it is first asked for, and kept with the plan.
    """

    query: WindowQuery
    """With ``stable=auto`` decided, and without reasoning that the model's server refuses."""
    parts: FixedParts
    model: Model
    reserve: int
    budget: int

    @cached_property
    def message_costs(self) -> tuple[int, int]:
        """Tokens of the system prompt and of the few-shots."""
        model, parts, first = self.model, self.parts, len(self.parts.system)
        own = parts.own_tokens(model.vocabulary)
        system = sum(messages_tokens(parts.system, model, own and own[:first]))
        few_shots = sum(messages_tokens(parts.few_shots, model, own and own[first:]))
        few_shots += few_shots_fillers(parts.few_shots, model) + self.joint * self.few_shot_systems
        return system, few_shots

    @cached_property
    def few_shot_systems(self) -> int:
        """The number of few-shots that are system messages."""
        return sum(each.role <= DEVELOPER for each in self.parts.few_shots)

    @cached_property
    def bare_costs(self) -> WindowTokens:
        """Tokens of the fixed parts, beside messages of which none is a system message."""
        return self.costs_beside((), (), self.tools_tokens((), calls=not self.bare_calls))

    def costs_beside(
        self, lines: Sequence[Line | Summary], required: Sequence[Measure], tools: int, joints: int = 0
    ) -> WindowTokens:
        """The same beside ``lines``, between the few-shots and the messages, and beside ``required`` messages; with the
        tokens of ``tools``, and with ``joints``, the number of blank lines between system texts."""
        model, (system, few_shots), measures = self.model, self.message_costs, [line.measure for line in lines]
        # A template adds a system text of its own where there is none.
        is_lone = model.lone and not any(
            map(instructs, (*self.parts.system, *self.parts.few_shots, *measures, *required))
        )
        # A provider's compaction comes before the few-shots.
        is_compacted = bool(lines) and measures[0].role == ASSISTANT
        between = len(lines) * self.joint or (joints and joints * blank_line_tokens(model))
        priming = model.priming + (model.lone if is_lone else 0) + (bare_opening(model) if is_compacted else 0)
        few_shots += 0 if is_compacted else self.opening
        summary = sum(messages_tokens(measures, model, [line.own_tokens for line in lines])) + between
        total = priming + system + few_shots + tools + summary
        return WindowTokens(total, priming, system, few_shots, tools, summary, 0, 0, 0)

    def tools_tokens(self, messages: Sequence[Measure], *, calls: bool) -> int:
        """Tokens of the definitions in a request of the fixed parts and ``messages``; ``calls``: some message may call."""
        if not (self.parts.tools or self.stands_in):
            return 0
        model, form, fixed = self.model, PROVIDERS[self.model.format], (*self.parts.system, *self.parts.few_shots)
        given = [*fixed, *messages]
        if not form.is_chat_form:
            given = [each for each in given if not is_left_out(row_of(each), model.format, ONE)]
        # System texts are sent before the messages, except in the provider's own form.
        if form.fills:
            given.sort(key=lambda each: each.role > DEVELOPER or came_in(each, model.format))
        tools: Declared | list[dict[str, Any]]
        (tools, choice), bare = self.parts.declared(model.format), 0
        if self.stands_in and (calls or any(map(has_calls, fixed))):
            stand_in = stand_in_tool(model.format)
            tools, bare = ([stand_in], 0) if stand_in is not None else (tools, bare_calls_tokens(model))
        return bare + tools_tokens(
            model, tools=tools, tool_choice=choice, first_system=first_system(given, model.rules)
        )

    @cached_property
    def opening(self) -> int:
        """Tokens of a turn of the user's before few-shots that begin with the assistant's."""
        first = next((each.role for each in self.parts.few_shots if each.role > DEVELOPER), USER)
        return filler_tokens(self.model) if first == ASSISTANT and puts_user_first(self.model) else 0

    @cached_property
    def is_opened(self) -> bool:
        """Whether the request may cost more if the first message of the history is the assistant's."""
        return self.few_shot_systems == len(self.parts.few_shots) and puts_user_first(self.model)

    @cached_property
    def bare_calls(self) -> bool:
        """Whether no tool is given, and the provider then bills calls as if definitions came with them."""
        return self.stands_in and stand_in_tool(self.model.format) is None

    @cached_property
    def stands_in(self) -> bool:
        """Whether no tool is given, and calls still cost definitions: Sash sends a tool, or the provider bills some."""
        costs_some = stand_in_tool(self.model.format) is not None or bare_calls_tokens(self.model) > 0
        return costs_some and not self.parts.declared(self.model.format)[0].functions

    @cached_property
    def fixed_messages(self) -> int:
        """The most messages beside the history's: a prompt, few-shots, and ``ASIDE_MESSAGES``."""
        return len(self.parts.messages) + ASIDE_MESSAGES

    @cached_property
    def most_messages(self) -> float:
        """The length of a history whose messages, each with a line behind it, are not too many for a request."""
        most = self.model.limits.messages
        return inf if most is None else (most - self.fixed_messages) // 2

    @cached_property
    def most_bytes(self) -> float | None:
        """The bytes of messages that a request has room for.

        None if only the limit of tokens can matter; less than 0 if few-shots have media, or tools are over a limit, so that
        all limits are looked at.
        """
        limits, parts = self.model.limits, self.parts
        if limits is NO_LIMITS and self.query.images_kept is None:
            return None
        has_media = any(each.extra is not None and each.extra.media for each in parts.few_shots)
        if has_media or over_limits((), parts.tools or (), limits):
            return -1
        return inf if limits.bytes is None else limits.bytes - self.fixed_bytes

    @cached_property
    def free_tokens(self) -> float:
        """The tokens, in the encoding's, up to which a history keeps all limits but the budget: a message has at least one.
        It is infinite where texts cost what was counted and the budget is no more than that: then every window does."""
        most, recalled = self.most_bytes, self.query.recall_max_tokens
        free = inf if most is None else min(most // TOKEN_BYTES - recalled, self.most_messages)
        return inf if self.around is not None and self.budget <= free else free

    @cached_property
    def fixed_bytes(self) -> int:
        """Bytes of the parts beside the messages, with the pictures of few-shots."""
        parts, pieces = self.parts, self.fixed_messages + len(self.parts.tools or ())
        given = (msgspec.json.encode(each) for each in (parts.tools, parts.tool_choice) if each is not None)
        size = sum(map(len, (*parts.sent_system, *parts.sent_few_shots, *given)))
        return ASIDE_BYTES + size + MESSAGE_BYTES * pieces

    @cached_property
    def telling_summary(self) -> "Plan":
        """The plan of the same window with the conversation's summary in it."""
        return msgspec.structs.replace(self, query=msgspec.structs.replace(self.query, summary="always"))

    @cached_property
    def is_recounted(self) -> bool:
        """Whether windows may cost less than their messages were chosen by: bounds are reserved for what a form adds."""
        return PROVIDERS[self.model.format].fills or "file_names" in self.wanted or self.joint > 0

    @cached_property
    def is_dearer(self) -> bool:
        """Whether a message that is only text may cost other tokens than its text and its role do (``choice._as_sent``)."""
        sent_in, is_cut = PROVIDERS[self.model.format], self.query.tool_result_max_tokens is not None
        return is_cut or sent_in.tells_links or sent_in.fills or self.joint > 0 or bool(self.parts.names)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether the query asks for more than the newest history that fits: a bound, a choice, or room for more."""
        query, is_kept = self.query, self.query.tool_results_kept is not None
        has_room = query.note or query.recall_max_tokens or self.below_a_tier < self.budget
        return bool(self.picks or query.limit or query.turns or query.stable or is_kept or has_room)

    @cached_property
    def picks(self) -> bool:
        """Whether the query leaves out single messages, or sends the documents of each."""
        query = self.query
        is_picked = query.overflow == "skip" or query.dedupe == "messages" or query.start == "user"
        return is_picked or query.grounding == "all"

    @cached_property
    def below_a_tier(self) -> int:
        """The budget, or with ``price=auto`` what is below a price tier."""
        return below_a_tier(self.query, self.model, self.budget)

    @cached_property
    def around(self) -> bytes | None:
        """The tokens around a text, by role, if a message of text costs these and its text as it was counted; else None."""
        return text_costs(self.model)

    @cached_property
    def adds_up(self) -> bool:
        """Whether each text costs the model as many tokens as it added to its conversation's totals."""
        as_counted = text_costs(REFERENCE_MODELS[self.model.column])
        return self.around == as_counted and not (self.is_dearer or self.is_opened)

    @cached_property
    def wanted(self) -> Mapping[Kind, str]:
        """What the model's server takes or refuses in a request of this form, by kind of fact."""
        return meet(self.model.format, self.model.provider, self.model.known_as).values

    @cached_property
    def joint(self) -> int:
        """Tokens that each system message beside the system prompt may cost more, because a server takes one alone: what
        stands around it may be less than the blank line that joins it."""
        if PROVIDERS[self.model.format].fills or self.wanted.get("system") != "one":
            return 0
        return max(0, blank_line_tokens(self.model) - ceil(self.model.rules.role_costs[SYSTEM] * self.model.margin))

    @cached_property
    def bridge(self) -> int:
        """Tokens that each question may cost more, because a server wants a reply between a result and a question."""
        return written_cost(UNSAID, self.model) if self.wanted.get("alternation") == "answered" else 0

    @cached_property
    def renaming(self) -> int:
        """Tokens that a call and its result may cost more with their tool's name as it is sent; 0 where none is changed."""
        names = self.parts.names.items()
        more = (plain_text_tokens(sent, self.model) - plain_text_tokens(own, self.model) for own, sent in names)
        return 2 * (max(0, *more) + _AROUND_A_NAME) if names else 0

    @cached_property
    def going_on(self) -> int:
        """Tokens of the line behind a reply at the end; 0 where the server takes a request that ends with a reply."""
        return written_cost(GO_ON, self.model) if "ending" in self.wanted else 0

    @cached_property
    def refused(self) -> int:
        """What the model's server refuses in single messages, as bits; 0 for OpenAI's own."""
        return refused_by(self.model.provider, self.model.known_as)

    @cached_property
    def fixed_bits(self) -> int:
        """The bits of what the prompt and the few-shots have, by ``parts_of``."""
        return reduce(or_, map(parts_of, (*self.parts.system, *self.parts.few_shots)), 0)

    @cached_property
    def fixed_is_exact(self) -> bool:
        """Whether what the fixed parts cost is what the provider bills."""
        model, parts = self.model, self.parts
        if not PROVIDERS[model.format].has_exact_bills:
            return False
        if parts.tools and (model.is_resold or not parts.declared(CHAT)[0].is_priced):
            return False
        return not any(
            is_estimate(each, model) or reasoning_tokens(each, model, model.format) for each in parts.few_shots
        )

    @cached_property
    def text_is_exact(self) -> bool:
        """Whether what a window of texts alone costs is what the provider bills."""
        return self.model.exact and self.fixed_is_exact and self.has_stood(self.fixed_bits)

    def has_stood(self, bits: int) -> bool:
        """Whether bills have shown a request with parts of these ``bits``, and with these definitions."""
        model, defined = self.model, defined_parts(*self.parts.declared(self.model.format))
        return has_stood(shape_of(model.format, model.rules.family, bits, defined))

    @cached_property
    def flat_prices(self) -> InputPrices | None:
        """The prices of every window's input; None where they depend on its tokens, or are unknown."""
        return None if self.model.price_tiers else input_prices(self.model, 0)

    @cached_property
    def no_documents(self) -> Documents:
        """The documents of a window whose messages have none, with the query's limits."""
        query = self.query
        return Documents(
            sources={},
            template=self.parts.template,
            max_tokens=query.grounding_max_tokens,
            overflow=query.grounding_overflow,
            dedupe=query.dedupe != "none",
        )


def below_a_tier(query: WindowQuery, model: Model, budget: int) -> int:
    """The tokens that a window may have, with ``price=auto`` without reaching a higher price tier."""
    return min(budget, model.price_tiers[0].above) if query.price == "auto" and model.price_tiers else budget


class WindowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A window's plan, and the documents that it may send.

    ``path`` is that of the conversation's messages, or empty. History leaves ``recall_reserve`` tokens free for
    recall, or fewer if the other parts need them.
    """

    plan: Plan
    documents: Documents
    path: str = ""
    recall_reserve: int = 0
