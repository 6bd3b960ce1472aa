"""The fixed parts of a window, before its messages: priming, system prompt, few-shots, tool definitions, and lines for a
summary or a note."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

import msgspec

from sash.core.counts.costs.counting import bare_calls_tokens, first_system, has_calls, messages_tokens, tools_tokens
from sash.core.counts.costs.definitions import Declared, declared
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.costs.message_cost import is_left_out
from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.rows import row_of
from sash.core.counts.models.families import DEVELOPER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import ONE
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.law.history.fillers import came_in
from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.reading.native import read_request
from sash.core.providers.writing.turns import Outgoing
from sash.problems import FormatCannotCarry

_CALLING: Final[tuple[dict[str, Any], ...]] = (
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
)


@cache
def stand_in_tool(form: str) -> dict[str, Any] | None:
    """Return the tool, in chat form, that a form declares where messages have calls and no tool is sent; None if it needs
    none. Its own writing tells it."""
    request = render_request(form, [Outgoing(seq, message) for seq, message in enumerate(_CALLING, 1)])
    return next(iter(read_request(form, request).tools), None)


class Fixed(msgspec.Struct, frozen=True):
    """The parts of every window of a conversation: measures of the messages, and the tool definitions.

    ``messages`` are those of the system prompt and the few-shots, for models that are counted with their own vocabulary.
    """

    system: tuple[Measure, ...] = ()
    few_shots: tuple[Measure, ...] = ()
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    messages: tuple[Mapping[str, Any], ...] = ()
    _own_tokens: dict[Vocabulary, list[int]] = msgspec.field(default_factory=dict)
    _sent: dict[str, tuple[Declared, Any]] = msgspec.field(default_factory=dict)

    def message_costs(self, model: Model) -> tuple[int, int]:
        """Tokens of the system prompt and of the few-shots."""
        own_tokens, split = self._own_tokens_in(model.vocabulary), len(self.system)
        return (
            sum(messages_tokens(self.system, model, own_tokens[:split] if own_tokens else None)),
            sum(messages_tokens(self.few_shots, model, own_tokens[split:] if own_tokens else None)),
        )

    def _own_tokens_in(self, vocabulary: Vocabulary | None) -> list[int] | None:
        """Tokens of each message's text in a vocabulary. They are counted once, because every window has the same parts."""
        if vocabulary is None or not self.messages:
            return None
        if vocabulary not in self._own_tokens:
            self._own_tokens[vocabulary] = [spoken_tokens(message, vocabulary) for message in self.messages]
        return self._own_tokens[vocabulary]

    def defines(self, model: Model) -> bool:
        """Whether a request may have definitions, or is billed as if it had."""
        return bool(self.tools or bare_calls_tokens(model)) or stand_in_tool(model.format) is not None

    def tools_tokens(self, model: Model, messages: Sequence[Measure], *, calls: bool = True) -> int:
        """Tokens of the definitions in a request of the fixed parts and ``messages``; ``calls``: some message may call."""
        if not self.defines(model):
            return 0
        given = [*self.system, *self.few_shots, *messages]
        if not PROVIDERS[model.format].is_chat_form:
            given = [each for each in given if not is_left_out(row_of(each), model.format, ONE)]
        # System texts are sent before the messages, except in the provider's own form.
        if PROVIDERS[model.format].fills:
            given.sort(key=lambda each: each.role > DEVELOPER or came_in(each, model.format))
        first = first_system(given, model.rules)
        tools: Declared | list[dict[str, Any]] | None
        tools, choice = self.declared(model.format)
        bare = 0
        if not tools.functions and (calls or any(map(has_calls, (*self.system, *self.few_shots)))):
            stand_in = stand_in_tool(model.format)
            tools, bare = ([stand_in], 0) if stand_in is not None else (tools, bare_calls_tokens(model))
        return bare + tools_tokens(model, tools=tools, tool_choice=choice, first_system=first)

    def declared(self, form: str) -> tuple[Declared, Any]:
        """The definitions and the choice as a request in ``form`` has them. It may add members, or leave tools out.

        They are read once, because every window has the same.
        """
        found = self._sent.get(form)
        if found is None:
            tools, choice = self.tools, self.tool_choice
            if tools and not PROVIDERS[form].is_chat_form:
                with suppress(FormatCannotCarry):  # refused when the messages are rendered, with their own writing
                    sent = read_request(form, render_request(form, (), tools=tools, tool_choice=choice))
                    tools, choice = sent.tools, sent.tool_choice
            found = self._sent[form] = declared(tools), choice
        return found
