"""The fixed parts of windows as one destination takes them: tools with names in its alphabet, examples without its untaken
media."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sash.core.chat.messages import encode_message
from sash.core.counts.costs.over_limits import tool_names
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import FixedParts, encode_settings
from sash.core.law.records.untaken_media import is_taken
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.tool_names import names_in, renamed
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import TOOL_NAMES, UNTAKEN_BY_MODEL
from sash.core.providers.reading.enclosures import enclosed, with_lines

_LONGEST: Final = 64
"""Characters of a tool's name, where the destination's limit is not known."""


def at_destination(parts: FixedParts, model: Model) -> FixedParts:
    """Return the fixed parts for a model in its form; the same where nothing is changed, as nearly always."""
    if parts.fixed.has_media:
        parts = _without_untaken(parts, model)
    return _with_names(parts, model) if parts.fixed.has_odd_names else parts


def _without_untaken(parts: FixedParts, model: Model) -> FixedParts:
    """The parts with a line in place of each medium of an example that the model does not take."""
    shots = [msgspec.json.decode(body) for body in parts.few_shots]
    lines = [
        {
            number: media_line(each.part)
            for (number, each), medium in zip(enumerate(enclosed(shot)), extra.media, strict=True)
            if not is_taken(medium, model)
        }
        if (extra := measured.extra) is not None
        else {}
        for shot, measured in zip(shots, parts.fixed.few_shots, strict=True)
    ]
    if not any(lines):
        return parts
    told = [with_lines(shot, each) if each else shot for shot, each in zip(shots, lines, strict=True)]
    return _with_shots(parts, told, UNTAKEN_BY_MODEL.name)


def _with_names(parts: FixedParts, model: Model) -> FixedParts:
    """The parts with names of tools in the destination's alphabet, in definitions, the choice and examples."""
    wanted = meet(model.format, model.provider, model.known_as).values.get("tool_names")
    if wanted is None:
        return parts
    given = parts.fixed.tools or []
    names = names_in(wanted, tool_names(given), model.limits.tool_name or _LONGEST)
    if not names:
        return parts
    tools, choice = renamed(given, names), renamed(parts.fixed.tool_choice, names)
    encoded = encode_settings(tools)
    fixed = msgspec.structs.replace(parts.fixed, tools=tools, tool_choice=choice, has_odd_names=False, _sent={})
    parts = msgspec.structs.replace(
        parts,
        fixed=msgspec.structs.replace(fixed, size=fixed.size + len(encoded) - len(parts.tools)),
        tools=encoded,
        tool_choice=encode_settings(choice) if parts.tool_choice else parts.tool_choice,
        names=names,
    )
    shots = [msgspec.json.decode(body) for body in parts.few_shots]
    return _with_shots(parts, renamed(shots, names), TOOL_NAMES.name)


def _with_shots(parts: FixedParts, shots: list[Mapping[str, Any]], mend: str) -> FixedParts:
    """The parts with other examples, which are measured again."""
    measured = tuple(measure(shot) for shot in shots)
    bodies = tuple(encode_message(dict(shot))[0] for shot in shots)
    system = parts.fixed.messages[: len(parts.system)]
    odd = tuple(each.extra.odd if each.extra is not None else 0 for each in measured)
    fixed = msgspec.structs.replace(
        parts.fixed,
        few_shots=measured,
        messages=(*system, *shots),
        has_media=any(each.extra is not None and each.extra.media for each in measured),
        size=parts.fixed.size + sum(map(len, bodies)) - sum(map(len, parts.few_shots)),
        _own_tokens={},
    )
    return msgspec.structs.replace(
        parts,
        fixed=fixed,
        few_shots=bodies,
        odd_shots=odd if any(odd) else (),
        changed=(*parts.changed, mend),
        plans={},
    )
