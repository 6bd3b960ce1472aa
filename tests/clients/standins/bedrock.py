"""A stand-in for Claude behind Bedrock's Converse, with thinking, that refuses what Bedrock and Claude refuse.

It refuses what ``validators/converse.py`` lists with its sources, and:

- a request that ends with the assistant;
- calls without their results, also at the request's end;
- reasoning that the model did not make, or that was changed;
- a tool loop whose last reply does not begin with reasoning (platform.claude.com, extended thinking: preserving blocks).
"""

import json
import re
from typing import Any
from urllib.parse import unquote

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, seal, words
from validators import converse

_PATH = re.compile(r"/model/([^/]+)/converse")


class Bedrock:
    """A model of Claude with thinking."""

    def __init__(self, window_tokens: int) -> None:
        self.window_tokens = window_tokens
        self.replies = 0
        self._plan = Plan()

    def error(self, message: str) -> Object:
        return {"__type": "ValidationException", "message": message}

    def reply(self, path: str, body: Object) -> Object:
        found = _PATH.fullmatch(unquote(path))
        assert found is not None, path
        refuse_too_long(body, self.window_tokens, "Input is too long for requested model.")
        messages = body.get("messages") or []
        request = {name: body[name] for name in ("messages", "system", "toolConfig") if name in body}
        told = converse.refused(request, found[1])
        refuse_if(told, "; ".join(told))
        refuse_if(messages[-1]["role"] != "user", "This model does not support assistant message prefill.")
        _check_answered(messages)
        _check_reasoning(messages)
        self.replies += 1
        question = max(index for index, message in enumerate(messages) if _asks(message))
        text = "".join(block.get("text", "") for block in messages[question]["content"])
        content = list(self._content(self._plan.calls(text)))
        return {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use" if "toolUse" in content[-1] else "end_turn",
            "usage": {"inputTokens": len(json.dumps(body)) // 4, "outputTokens": 50, "totalTokens": 50},
            "metrics": {"latencyMs": 1},
        }

    def _content(self, wanted: int) -> list[Object]:
        number = self.replies
        thought = words(20, number)
        reasoning: Object = {"reasoningText": {"text": thought, "signature": seal(thought)}}
        if not wanted:
            return [{"reasoningContent": reasoning}, {"text": words(60, number)}]
        uses = [
            {
                "toolUseId": f"tooluse_{number}_{index}",
                "name": f"find_talk_{index % 2}",
                "input": {"topic": f"topic {number}", "number": number},
            }
            for index in range(wanted)
        ]
        return [{"reasoningContent": reasoning}, *({"toolUse": use} for use in uses)]


def _asks(message: Object) -> bool:
    return message["role"] == "user" and any("text" in block for block in message["content"])


def _check_answered(messages: list[Object]) -> None:
    asked = {block["toolUse"]["toolUseId"] for each in messages for block in each["content"] if "toolUse" in block}
    answered = {
        block["toolResult"]["toolUseId"] for each in messages for block in each["content"] if "toolResult" in block
    }
    refuse_if(asked - answered, f"Expected toolResult blocks for the following Ids: {sorted(asked - answered)}")


def _check_reasoning(messages: list[Object]) -> None:
    for message in messages:
        for block in message["content"]:
            said: Any = (block.get("reasoningContent") or {}).get("reasoningText")
            refuse_if(said and seal(said["text"]) != said["signature"], "Invalid `signature` in `thinking` block")
    question = max((index for index, message in enumerate(messages) if _asks(message)), default=0)
    replies = [message for message in messages[question:] if message["role"] == "assistant"]
    refuse_if(
        replies and "reasoningContent" not in replies[-1]["content"][0],
        "Expected `thinking` or `redacted_thinking`, but found another block",
    )
