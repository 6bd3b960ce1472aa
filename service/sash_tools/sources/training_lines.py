"""Read conversations that models are trained with: ShareGPT's, and the lines of a fine-tuning file.

ShareGPT, and LLaMA-Factory, which adds calls and their results::

    {"id", "conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}], "system", "tools"}
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sash.commands.source_error import SourceError
from sash_client.ids import safe_id
from sash_tools.sources.conversation import SourceConversation, Step, from_steps

_ROLES: Final = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bing", "bard", "claude"), "assistant"),
    "system": "system",
    **dict.fromkeys(("observation", "tool", "function_response"), "tool"),
    "function_call": "function_call",
}
FINE_TUNING: Final = frozenset({"parallel_tool_calls", "functions", "weight"})
"""Members of a fine-tuning line that are no settings of a conversation; ``functions`` become tools."""


def from_sharegpt(record: Mapping[str, Any], identity: str, where: str) -> SourceConversation:
    """Return the conversation of a record. Raises SourceError."""
    found = from_turns(record["conversations"], str(record.get("id") or identity), where)
    if isinstance(record.get("system"), str) and record["system"]:
        found.settings["system"] = record["system"]
    if tools := record.get("tools"):
        found.settings["tools"] = json.loads(tools) if isinstance(tools, str) else tools
    return found


def from_turns(turns: Sequence[Mapping[str, Any]], identity: str, where: str) -> SourceConversation:
    """Return the conversation of turns. Raises SourceError."""
    steps: list[Step] = []
    left_out: Counter[str] = Counter()
    called = ""
    for place, turn in enumerate(turns, 1):
        speaker = str(turn.get("from", turn.get("role")))
        said = turn.get("value", turn.get("content"))
        role = _ROLES.get(speaker.lower())
        if role is None or not isinstance(said, str):
            raise SourceError(f"{where}: turn {place} is from {speaker!r}: no chat role is known for it")
        match role:
            case "function_call":
                called = f"call_{place}"
                call = {"id": called, "type": "function", "function": _function(said, f"{where}: turn {place}")}
                steps.append(Step(place, {"role": "assistant", "content": None, "tool_calls": [call]}))
            case "tool":
                steps.append(Step(place, {"role": "tool", "tool_call_id": called or f"call_{place}", "content": said}))
            case _ if said.strip() or role == "user":
                steps.append(Step(place, {"role": role, "content": said}))
            case _:
                left_out["empty messages"] += 1
    return from_steps(safe_id(identity), steps, left_out)


def _function(said: str, where: str) -> dict[str, str]:
    try:
        call = json.loads(said)
        arguments = call.get("arguments", call.get("parameters", {}))
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return {"name": str(call["name"]), "arguments": text}
    except (ValueError, RecursionError, AttributeError, KeyError):
        raise SourceError(f"{where} is a call that is no JSON object with a name and arguments") from None
