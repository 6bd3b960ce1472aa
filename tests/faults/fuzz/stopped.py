"""Replies that were stopped, in each form."""

import random
from typing import Any

from faults.fuzz.parameters import window
from faults.fuzz.scripts import Object, Script, Sent
from validators.conversations import SETTINGS


def broken_off(chance: random.Random) -> Script:
    """Replies that were stopped, in each form: before a word, after a thought, within a text."""
    sent: list[Sent] = []
    unsent: list[int] = []
    for number in range(chance.randint(1, 4)):
        sent.append(("openai", [{"role": "user", "content": f"q{number}"}]))
        form, reply = chance.choice(_STOPPED)
        status = chance.choice(("interrupted", "interrupted", "interrupted", "in_progress", "completed"))
        sent.append((form, [{"message": reply, "id": f"r{number}", "status": status}]))
        if status == "in_progress" or (status == "interrupted" and "half" not in str(reply) and "hm" not in str(reply)):
            unsent.append(len(sent))
        if status == "in_progress":
            break  # nothing follows a reply that is written
    else:
        if chance.random() < 0.6:
            sent.append(("openai", [{"role": "user", "content": "go on"}]))
    asked = [window(chance, max_tokens=chance.choice((100_000, 400)), explain="true") for _ in range(4)]
    return Script("broken off", dict(chance.choice(SETTINGS)), sent, windows=asked, unsent=unsent)


def _item(*content: Object, **more: Any) -> list[Object]:
    return [{"type": "message", "role": "assistant", "content": list(content), **more}]


_OF_REASONING = {"type": "reasoning", "id": "rs_hm", "summary": [], "encrypted_content": "gAAAAA" + "b" * 60}
_STOPPED: tuple[tuple[str, Any], ...] = (
    ("openai", {"role": "assistant", "content": ""}),
    ("openai", {"role": "assistant", "content": None}),
    ("openai", {"role": "assistant", "content": []}),
    ("openai", {"role": "assistant", "content": " \n"}),
    ("openai", {"role": "assistant", "content": [{"type": "text", "text": ""}]}),
    ("openai", {"role": "assistant", "content": "", "reasoning_content": "hm"}),
    ("openai", {"role": "assistant", "content": "half"}),
    ("responses", _item()),
    ("responses", _item({"type": "output_text", "text": "", "annotations": []})),
    ("responses", _item({"type": "output_text", "text": ""}, id="msg_1", status="incomplete")),
    ("responses", [_OF_REASONING, *_item({"type": "output_text", "text": ""})]),
    ("responses", [_OF_REASONING]),
    ("responses", _item({"type": "output_text", "text": "half"})),
    ("anthropic", {"role": "assistant", "content": []}),
    ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": ""}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "EqoB"}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": "half"}]}),
    ("gemini", {"role": "model", "parts": []}),
    ("gemini", {"role": "model", "parts": [{"text": ""}]}),
    ("gemini", {"role": "model", "parts": [{"text": "hm", "thought": True}]}),
    ("interactions", {"type": "model_output", "content": []}),
    ("interactions", {"type": "model_output", "content": [{"type": "text", "text": ""}]}),
    ("converse", {"role": "assistant", "content": []}),
    ("converse", {"role": "assistant", "content": [{"text": ""}]}),
    ("ollama", {"role": "assistant", "content": "", "thinking": "hm"}),
    ("ollama", {"role": "assistant", "content": ""}),
)
