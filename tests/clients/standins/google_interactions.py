"""A stand-in for Google's Interactions, without state, that refuses the steps that Google's server refuses.

Sources: the types of google-genai's SDK, ai.google.dev/gemini-api/docs/interactions/…, googleapis/js-genai 1735. It refuses:

- steps without the members that their types require, and members that the API does not know;
- for Gemini 3, a step of the newest turn whose first call has no signed thought before it;
- a thought without a signature;
- a signature that the model did not make, or that was moved before another step;
- calls that follow neither the user nor results; calls without their results, and results without their calls.
"""

import base64
import json
from collections.abc import Iterator
from typing import Any

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, seal, words

_MEMBERS = {
    "user_input": ({"content"}, set[str]()),
    "model_output": ({"content"}, {"error"}),
    "thought": ({"signature"}, {"summary"}),
    "function_call": ({"id", "name", "arguments"}, set[str]()),
    "function_result": ({"call_id", "result"}, {"name", "is_error"}),
}
"""Required and other members by the type of step."""
_SKIPS = "skip_thought_signature_validator"


class Interactions:
    """A thinking model; ``strict`` as Gemini 3, which requires the signatures of the running turn."""

    def __init__(self, window_tokens: int, *, strict: bool) -> None:
        self.window_tokens = window_tokens
        self.strict = strict
        self.replies = 0
        self._plan = Plan()

    def error(self, message: str) -> Object:
        return {"error": {"message": message, "code": "invalid_request"}}

    def reply(self, path: str, body: Object) -> Object:
        assert path.endswith("/interactions")
        steps = body["input"]
        refuse_if(not steps or body.get("store") is not False, "input is required, and store is false here")
        refuse_too_long(body, self.window_tokens, "The input token count exceeds the maximum number of tokens allowed.")
        for index, step in enumerate(steps):
            _check_step(step, f"input[{index}]", strict=self.strict)
        _check_turns(steps)
        asked = max(place for place, step in enumerate(steps) if step["type"] == "user_input")
        _check_seals(steps)
        if self.strict:
            _check_signed(steps[asked + 1 :])
        self.replies += 1
        made = list(self._steps(self._plan.calls("".join(part.get("text", "") for part in steps[asked]["content"]))))
        return {
            "id": f"v1_{self.replies}",
            "object": "interaction",
            "created": "2026-11-26T00:00:00Z",
            "updated": "2026-11-26T00:00:00Z",
            "model": "stand-in",
            "status": "requires_action" if made[-1]["type"] == "function_call" else "completed",
            "steps": made,
            "usage": {"total_input_tokens": len(json.dumps(body)) // 4, "total_output_tokens": 50},
        }

    def _steps(self, wanted: int) -> Iterator[Object]:
        number = self.replies
        summary = [{"type": "text", "text": words(20, number)}]
        if not wanted:
            output = {"type": "model_output", "content": [{"type": "text", "text": words(60, number)}]}
            yield {"type": "thought", "signature": _sealed(output), "summary": summary}
            yield output
            return
        for index in range(wanted):
            arguments = {"topic": f"topic {number}", "number": number}
            call: Object = {
                "type": "function_call",
                "id": f"call_{number}_{index}",
                "name": f"find_talk_{index % 2}",
                "arguments": arguments,
            }
            if not index:
                yield {"type": "thought", "signature": _sealed(call), "summary": summary}
            yield call


def _sealed(step: Object) -> str:
    """Return the signature of the thought before a step."""
    return base64.b64encode(f"\x12{seal(step)}".encode()).decode()


def _check_step(step: Object, at: str, *, strict: bool) -> None:
    refuse_if(step.get("type") not in _MEMBERS, f"{at}.type: unknown")
    required, others = _MEMBERS[step["type"]]
    missing = [
        name for name in required if step.get(name) in (None, "", []) and not (name == "result" and name in step)
    ]
    refuse_if(missing, f"Request contains an invalid argument. {at} lacks {missing}")
    refuse_if(step.keys() - required - others - {"type"}, f"{at}: unknown members")
    refuse_if(
        isinstance(step.get("result"), list) and not strict,
        "Multimodal function responses are not supported for this model",
    )
    contents: list[Any] = step.get("content") or []
    refuse_if(any(part["type"] == "text" and not part["text"] for part in contents), f"{at}: an empty text")


def _check_turns(steps: list[Object]) -> None:
    refuse_if(steps[0]["type"] not in ("user_input", "model_output", "thought"), "Please begin with the user's input.")
    refuse_if(steps[-1]["type"] not in ("user_input", "function_result"), "The last step is not the user's.")
    waiting: set[str] = set()
    for step in steps:
        match step["type"]:
            case "function_call":
                waiting.add(step["id"])
            case "function_result":
                refuse_if(step["call_id"] not in waiting, "A function result has no call.")
                waiting.discard(step["call_id"])
            case "user_input":
                refuse_if(waiting, "A function call has no result.")
    refuse_if(waiting, "A function call has no result.")


def _check_seals(steps: list[Object]) -> None:
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if step["type"] == "thought" and step["signature"] != _SKIPS:
            refuse_if(following is None or step["signature"] != _sealed(following), "Corrupted thought signature.")


def _check_signed(turn: list[Object]) -> None:
    signed = False
    for step in turn:
        refuse_if(step["type"] == "function_call" and not signed, "Function call is missing a thought_signature.")
        signed = step["type"] == "thought" or (signed and step["type"] == "function_call")
