"""The parts of every window that follow from a conversation's settings, and these as one destination takes them: tools with
names in its alphabet, examples without its untaken media."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.counts.costs.definitions import Declared, declared
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.costs.over_limits import tool_names
from sash.core.counts.measures.measures import Measure, measure
from sash.core.counts.models.models import Model
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.law.documents.grounding import Template
from sash.core.law.history.enclosing import is_taken
from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.tool_names import names_in, renamed
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import TOOL_NAMES, TOOL_SCHEMA, UNTAKEN_BY_MODEL
from sash.core.providers.reading.enclosures import enclosed, with_lines
from sash.core.providers.reading.native import read_request
from sash.core.providers.writing.tool_schemas import with_parameters
from sash.core.providers.writing.turns import Outgoing
from sash.core.providers.writing.typed_schemas import with_types
from sash.problems import FormatCannotCarry

_encode = msgspec.json.encode
_LONGEST: Final = 64
"""Characters of a tool's name, where the destination's limit is not known."""


@cache
def stand_in_tool(form: str) -> dict[str, Any] | None:
    """Return the tool, in chat form, that a form declares where messages have calls and no tool is sent; None if it needs
    none. Its own writing tells it."""
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    request = render_request(form, [Outgoing(1, {"role": "assistant", "content": None, "tool_calls": [call]})])
    return next(iter(read_request(form, request).tools), None)


class FixedParts(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The parts at the beginning of every window of a conversation, measured and encoded once."""

    template: Template
    recall_template: str
    messages: tuple[Mapping[str, Any], ...] = ()
    """The system prompt and the few-shots."""
    system: tuple[Measure, ...] = ()
    few_shots: tuple[Measure, ...] = ()
    sent_system: tuple[bytes, ...] = ()
    sent_few_shots: tuple[bytes, ...] = ()
    odd_shots: tuple[int, ...] = ()
    """What chat completions refuse in each few-shot (``chat_mends.oddities``); empty if nothing."""
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    names: Mapping[str, str] = MappingProxyType({})
    """The sent name of each tool that is not sent with its own (``tool_names.py``)."""
    mends: tuple[str, ...] = ()
    """The names of the mends of these parts: for all destinations, or for one (``at_destination``)."""
    plans: dict[Any, Any] = msgspec.field(default_factory=dict)
    """Plans of windows with these parts (``plan.py``), by what they were asked with."""
    _own_tokens: dict[Vocabulary, list[int]] = msgspec.field(default_factory=dict)
    _declared: dict[str, tuple[Declared, Any]] = msgspec.field(default_factory=dict)

    def with_few_shots(self, few_shots: Sequence[Mapping[str, Any]]) -> "FixedParts":
        """The parts with these examples."""
        measured = tuple(map(measure, few_shots))
        odd = tuple(each.extra.odd if each.extra is not None else 0 for each in measured)
        return msgspec.structs.replace(
            self,
            messages=(*self.messages[: len(self.system)], *few_shots),
            few_shots=measured,
            sent_few_shots=tuple(map(_encode, few_shots)),
            odd_shots=odd if any(odd) else (),
            plans={},
            _own_tokens={},
        )

    def with_tools(self, tools: list[dict[str, Any]], choice: Any) -> "FixedParts":
        """The parts with these definitions and this choice."""
        return msgspec.structs.replace(self, tools=tools or None, tool_choice=choice, plans={}, _declared={})

    @cached_property
    def chat_end(self) -> bytes:
        """What stands behind the messages of a chat completion's request."""
        if not self.tools:
            return b"]}"
        choice = b',"tool_choice":' + _encode(self.tool_choice) if self.tool_choice is not None else b""
        return b'],"tools":' + _encode(self.tools) + choice + b"}"

    def own_tokens(self, vocabulary: Vocabulary | None) -> list[int] | None:
        """Tokens of each message's text in a vocabulary. They are counted once, because every window has the same parts."""
        if vocabulary is None:
            return None
        if vocabulary not in self._own_tokens:
            self._own_tokens[vocabulary] = [spoken_tokens(message, vocabulary) for message in self.messages]
        return self._own_tokens[vocabulary]

    def declared(self, form: str) -> tuple[Declared, Any]:
        """The definitions and the choice as a request in ``form`` has them. It may add members, or leave tools out.

        They are read once, because every window has the same.
        """
        found = self._declared.get(form)
        if found is None:
            tools, choice = self.tools, self.tool_choice
            if tools and not PROVIDERS[form].is_chat_form:
                with suppress(FormatCannotCarry):  # refused when the messages are rendered, with their own writing
                    sent = read_request(form, render_request(form, (), tools=tools, tool_choice=choice))
                    tools, choice = sent.tools, sent.tool_choice
            found = self._declared[form] = declared(tools), choice
        return found


def at_destination(parts: FixedParts, model: Model) -> FixedParts:
    """Return the fixed parts for a model in its form; the same where nothing is changed, as nearly always."""
    wanted = meet(model.format, model.provider, model.known_as).values
    given, tools = [*parts.messages[len(parts.system) :]], parts.tools or []
    shots = [_taken(*each, model) for each in zip(given, parts.few_shots, strict=True)]
    defined = tools
    if "parameters" in wanted:
        defined = list(map(with_parameters, defined))
    if "schemas" in wanted:
        defined = list(map(with_types, defined))
    names: Mapping[str, str] = {}
    if tools and "tool_names" in wanted:
        names = names_in(wanted["tool_names"], tool_names(tools), model.limits.tool_name or _LONGEST)
    mends = (UNTAKEN_BY_MODEL, shots != given), (TOOL_SCHEMA, defined != tools), (TOOL_NAMES, bool(names))
    made = [mend.name for mend, is_made in mends if is_made]
    if not made:
        return parts
    shots, defined, choice = (renamed(each, names) for each in (shots, defined, parts.tool_choice))
    sent = parts.with_few_shots(shots).with_tools(defined, choice)
    return msgspec.structs.replace(sent, names=names, mends=(*parts.mends, *made))


def _taken(shot: Mapping[str, Any], measured: Measure, model: Model) -> Mapping[str, Any]:
    """An example with a line in place of each medium that the model does not take."""
    media = measured.extra.media if measured.extra is not None else ()
    numbers = [number for number, medium in enumerate(media) if not is_taken(medium, model)]
    if not numbers:
        return shot
    held = enclosed(shot)
    return with_lines(dict(shot), {each: media_line(held[each].part) for each in numbers})
