"""A stand-in for Ollama's /api/chat, with a thinking model, which refuses what ``validators/ollama.py`` lists.

It refuses also what the server would read in silence: a request longer than ``options.num_ctx``, which it would cut, calls
without results at the end, and a last message that is neither the user's nor a result.
"""

import json
from typing import Any

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, words
from validators import ollama


class Ollama:
    """A model with ``window_tokens`` of context."""

    def __init__(self, window_tokens: int) -> None:
        self.window_tokens = window_tokens
        self.replies = 0
        self._plan = Plan()

    def error(self, message: str) -> Object:
        return {"error": message}

    def reply(self, path: str, body: Object) -> Object:
        assert path == "/api/chat", path
        messages: list[Any] = body["messages"]
        refuse_if((body.get("options") or {}).get("num_ctx") != self.window_tokens, "the context is of another length")
        refuse_too_long(body, self.window_tokens, "the prompt would be cut")
        told = ollama.refused({name: body[name] for name in ("messages", "tools") if name in body}, body["model"])
        refuse_if(told, "; ".join(told))
        refuse_if(not messages or messages[-1]["role"] not in ("user", "tool"), "the last message is the model's")
        _check_answered(messages)
        self.replies += 1
        asked = max(
            index for index, message in enumerate(messages) if message["role"] == "user" and message.get("content")
        )
        message = self._message(self._plan.calls(messages[asked]["content"]))
        return {
            "model": body["model"],
            "created_at": "2026-11-26T00:00:00Z",
            "message": message,
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": len(json.dumps(body)) // 4,
            "eval_count": 50,
        }

    def _message(self, wanted: int) -> Object:
        number = self.replies
        thought: Object = {"role": "assistant", "thinking": words(20, number)}
        if not wanted:
            return {**thought, "content": words(60, number)}
        calls = [
            {"function": {"name": f"find_talk_{index % 2}", "arguments": {"topic": f"topic {number}", "number": index}}}
            for index in range(wanted)
        ]
        return {**thought, "content": "", "tool_calls": calls}


def _check_answered(messages: list[Any]) -> None:
    waiting = 0
    for message in messages:
        waiting = waiting - 1 if message["role"] == "tool" else len(message.get("tool_calls") or ())
    refuse_if(waiting > 0, "calls wait for their results")
