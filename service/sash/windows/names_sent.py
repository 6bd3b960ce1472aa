"""Names of tools in the history as the window's destination takes them (``core.providers.destinations.tool_names``)."""

from collections.abc import Mapping

import msgspec

from sash.core.counts.models.models import Model
from sash.core.law.history.renaming import bound_of
from sash.core.law.history.view import History
from sash.core.law.records.costs import written_cost
from sash.core.law.records.records import RESULTS
from sash.core.law.render import Bodies
from sash.core.law.selection.window import Window
from sash.core.providers.destinations.tool_names import renamed
from sash.windows.answer import cheaper


def with_sent_names(
    window: Window, history: History, bodies: Bodies, names: Mapping[str, str], model: Model
) -> tuple[Window, Bodies]:
    """Return the window and the bodies with the sent names in calls and results, at the tokens that these have."""
    edited: dict[int, bytes] = {}
    less: dict[int, int] = {}
    records, bound = history.records, bound_of(names, model)
    for seq, row in window.row_of.items():
        calls = records.calls[row]
        if not calls and records.roles[row] not in RESULTS:
            continue
        message, more = msgspec.json.decode(bodies.body(seq)), 0
        changed = renamed(message, names)
        if changed != message:
            edited[seq] = msgspec.json.encode(changed)
            cost, was = (written_cost(each, model, parallel=records[row].parallel) for each in (changed, message))
            more = cost - was
        less[seq] = calls * bound - more
    bodies = msgspec.structs.replace(bodies, edited={**bodies.edited, **edited})
    return msgspec.structs.replace(cheaper(window, less), renamed=(*edited,)), bodies
