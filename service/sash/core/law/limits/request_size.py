"""The parts of a request that are the same in every window of a conversation, against the limits of its model."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts.costs.over_limits import tool_name
from sash.core.counts.models.models import Model
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.enclosing import all_text_bytes
from sash.core.law.history.view import History
from sash.core.law.limits.unreadable import has_unreadable
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers.form.request_limits import NO_LIMITS
from sash.problems import WindowDoesNotFit

_TOKEN_BYTES: Final = 16
"""Bytes of a token of recalled text, which is hardly ever longer."""
_OTHER_BYTES: Final = 4
"""Bytes of a character of a document, at most, as JSON mostly has it."""


def is_far_below(history: History, plan: Plan, documents: Documents) -> bool:
    """Whether no limit but that of tokens can matter, and each medium can be read: as in nearly every chat. Quick to tell.

    Raises WindowDoesNotFit for tools that are over a limit.
    """
    limits, records, fixed, options = plan.model.limits, history.records, plan.parts.fixed, plan.query
    if fixed.tools and not plan.tools_fit:
        check_tools(fixed.tools, plan.model)
    if history.lost or (history.records.details and has_unreadable(history, plan.model)):
        return False
    if limits is NO_LIMITS and options.images_kept is None:
        return True
    if fixed.has_media or (records.details and records.media):
        return False
    if limits.messages is not None and 2 * history.length + plan.fixed_messages > limits.messages:
        return False
    if limits.bytes is None:
        return True
    most = plan.fixed_bytes + (_documents_bytes(documents) if documents.sources else 0)
    if history.summary is not None or options.recall_max_tokens:
        most += told_bytes(history, options)
    return most + all_text_bytes(records, plan.model, options.format) <= limits.bytes


def check_tools(tools: Sequence[Mapping[str, Any]], model: Model, pointer: str = "") -> None:
    """Raise WindowDoesNotFit for more tools than the model's provider takes, or for a name that is too long.

    ``pointer`` is the place of the tools in a request that sets them.
    """
    limits = model.limits
    if limits.tools is not None and len(tools) > limits.tools:
        raise WindowDoesNotFit.over("tools", limits.tools, {"tools": len(tools)}, pointer)
    if limits.tool_name is None:
        return
    for index, tool in enumerate(tools):
        name = tool_name(tool)
        if name is not None and len(name) > limits.tool_name:
            place = f"{pointer}/{index}/{tool['type']}/name" if pointer else ""
            raise WindowDoesNotFit.over("tool_name", limits.tool_name, {"tool_name": len(name)}, place)


def told_bytes(history: History, options: WindowQuery) -> int:
    """Bytes of what a window says of messages that it leaves out: a summary, and recalled messages."""
    summary = history.summary
    told = len(msgspec.json.encode((summary.text, summary.compaction))) if summary is not None else 0
    return told + _TOKEN_BYTES * options.recall_max_tokens


def _documents_bytes(documents: Documents) -> int:
    """Bytes of all documents that the window may send, nearly always more than they have as JSON."""
    texts = (text for source in documents.sources.values() for _, text in source.grounding.documents)
    return _OTHER_BYTES * sum(map(len, texts))
