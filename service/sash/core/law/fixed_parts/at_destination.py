"""The fixed parts of windows as one destination takes them: tools with names in its alphabet, examples without its untaken
media."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.counts.costs.over_limits import tool_names
from sash.core.counts.measures.measures import Measure
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.core.law.history.enclosing import is_taken
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.tool_names import names_in, renamed
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import TOOL_NAMES, TOOL_SCHEMA, UNTAKEN_BY_MODEL
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
    wanted = meet(model.format, model.provider, model.known_as).values
    given, tools = [*parts.messages[len(parts.system) :]], parts.tools or []
    shots = [_taken(*each, model) for each in zip(given, parts.few_shots, strict=True)]
    defined = tools
    for kind, changed in _DEFINED.items():
        if kind in wanted:
            defined = list(map(changed, defined))
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
