"""The parts of a request that are the same in every window of a conversation, against the limits of its model."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts.costs.over_limits import tool_name
from sash.core.counts.models.models import Model
from sash.core.law.history.view import History
from sash.core.law.records.parameters import WindowQuery
from sash.problems import WindowDoesNotFit

_TOKEN_BYTES: Final = 16
"""Bytes of a token of recalled text, which is hardly ever longer."""


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
