"""The fixed parts of windows as one destination takes them: tools with names in its alphabet, examples without its untaken
media."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.counts.costs.over_limits import tool_names
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import FixedParts, with_sent
from sash.core.law.history.enclosing import is_taken
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.tool_names import names_in, renamed
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import TOOL_NAMES, UNTAKEN_BY_MODEL
from sash.core.providers.reading.enclosures import enclosed, with_lines
from sash.core.providers.writing.tool_schemas import with_parameters
from sash.core.providers.writing.typed_schemas import with_types

_LONGEST: Final = 64
"""Characters of a tool's name, where the destination's limit is not known."""
_DEFINED: Final[Mapping[Kind, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {"parameters": with_parameters, "schemas": with_types}
)
"""How a definition is sent where a destination has a fact of this kind."""


def at_destination(parts: FixedParts, model: Model) -> FixedParts:
    """Return the fixed parts for a model in its form; the same where nothing is changed, as nearly always."""
    if parts.fixed.has_media:
        parts = _without_untaken(parts, model)
    if parts.fixed.tools:
        wanted = meet(model.format, model.provider, model.known_as).values
        for kind, changed in _DEFINED.items():
            if kind in wanted:
                parts = _with_tools(parts, list(map(changed, parts.fixed.tools)))
    return _with_names(parts, model) if parts.fixed.has_odd_names else parts


def _with_tools(parts: FixedParts, tools: list[dict[str, Any]]) -> FixedParts:
    """The parts with other definitions of tools; the same where they are the same."""
    if tools == parts.fixed.tools:
        return parts
    sent = with_sent(parts, [*parts.fixed.messages[len(parts.system) :]], tools, parts.fixed.tool_choice)
    return msgspec.structs.replace(sent, has_odd_tools=True)


def _without_untaken(parts: FixedParts, model: Model) -> FixedParts:
    """The parts with a line in place of each medium of an example that the model does not take."""
    given, told = parts.fixed.messages[len(parts.system) :], []
    for shot, measured in zip(given, parts.fixed.few_shots, strict=True):
        media = measured.extra.media if measured.extra is not None else ()
        numbers = [number for number, medium in enumerate(media) if not is_taken(medium, model)]
        held = enclosed(shot) if numbers else ()
        lines = {each: media_line(held[each].part) for each in numbers}
        told.append(with_lines(dict(shot), lines) if lines else shot)
    if all(map(operator.is_, told, given)):
        return parts
    changed = with_sent(parts, told, parts.fixed.tools or [], parts.fixed.tool_choice)
    return msgspec.structs.replace(changed, changed=(*parts.changed, UNTAKEN_BY_MODEL.name))


def _with_names(parts: FixedParts, model: Model) -> FixedParts:
    """The parts with names of tools in the destination's alphabet, in definitions, the choice and examples."""
    wanted = meet(model.format, model.provider, model.known_as).values.get("tool_names")
    tools, shots = parts.fixed.tools or [], parts.fixed.messages[len(parts.system) :]
    names = names_in(wanted, tool_names(tools), model.limits.tool_name or _LONGEST) if wanted is not None else {}
    if not names:
        return parts
    sent = (renamed(each, names) for each in ([*shots], tools, parts.fixed.tool_choice))
    return msgspec.structs.replace(with_sent(parts, *sent), names=names, changed=(*parts.changed, TOOL_NAMES.name))
