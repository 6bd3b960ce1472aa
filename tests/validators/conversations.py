"""NativeMessages conversations: turns of all forms beside one another, late results, and the settings."""

import json
from typing import Any

from hypothesis import strategies as st

from validators import chat_turns, claude_turns, converse_turns, gemini_turns, item_turns, ollama_turns, step_turns
from validators.logs import Group, Log, Object

MOST_TURNS = 8
TOOL: Object = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def late(log: Log) -> None:
    """Answer an earlier call, late or once more, in the call's form or as a chat message."""
    if not log.calls:
        return chat_turns.user(log)
    call = log.pick(log.calls[::-1])
    result = call.result if log.number(2) else chat_turns.result
    log.groups.append(result(log, call.identity, call.name))
    return None


_TURNS = (
    *chat_turns.TURNS,
    *(late,) * 4,
    *claude_turns.TURNS,
    *gemini_turns.TURNS,
    *item_turns.TURNS,
    *step_turns.TURNS,
    *converse_turns.TURNS,
    *ollama_turns.TURNS,
    *chat_turns.TURNS,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Group]:
    """Draw what is appended, request by request."""
    log = Log(draw)
    for _ in range(1 + log.number(MOST_TURNS)):
        log.pick(_TURNS)(log)
    return log.groups


SHOTS = [{"role": "user", "content": "ping zq9001z"}, {"role": "assistant", "content": "pong zq9002z"}]


def but_for_shots(refusals: list[str], messages: list[Any]) -> list[str]:
    """Return why a request is refused, without its ending where it ends with the few-shots: it waits for the next turn."""
    is_waiting = bool(messages) and SHOTS[-1]["content"] in json.dumps(messages[-1])
    return [why for why in refusals if not (is_waiting and why.endswith(": ending"))]


SETTINGS: tuple[dict[str, Any], ...] = (
    *({}, {}, {"system": "Be brief. zq9000z"}, {"system": " "}),
    {"system": "Be brief. zq9000z", "tools": [TOOL]},
    {"few_shots": SHOTS},
    {"system": "Be brief. zq9000z", "few_shots": SHOTS, "tools": [TOOL], "tool_choice": "auto"},
)
"""What a conversation has beside its messages."""
