"""A stand-in for Gemini's generateContent that refuses the contents that Google's server refuses.

It refuses these contents (sources: ai.google.dev/gemini-api/docs/…, and the server's error messages):

- for Gemini 3, a step of the newest turn whose first call has no signature; a turn begins at the user's newest text
  (thought-signatures, "validation");
- a signature that the model did not make, or that was moved to another part;
- calls that follow neither the user nor results; results that do not directly follow their calls, or whose number, names
  or ids differ from the calls' (function-calling);
- contents without parts, parts without data, members that the API does not know, a first content by the model.
"""

import base64
import json
from typing import Any

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, seal, words

_DATA = {"text", "functionCall", "functionResponse", "inlineData", "fileData"}
_BESIDE = {"thought", "thoughtSignature"}
_SKIPS = "skip_thought_signature_validator"
"""What stands for the signature of a call that another model made (thought-signatures, FAQ)."""


class Gemini:
    """A thinking model; ``strict`` as Gemini 3: its calls have ids, and requests must return their signatures."""

    def __init__(self, window_tokens: int, *, strict: bool) -> None:
        self.window_tokens = window_tokens
        self.strict = strict
        self.replies = 0
        self._plan = Plan()

    def error(self, message: str) -> Object:
        return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}

    def reply(self, path: str, body: Object) -> Object:
        assert path.endswith(":generateContent")
        contents = body["contents"]
        refuse_if(not contents, "contents is not specified")
        refuse_too_long(body, self.window_tokens, "The input token count exceeds the maximum number of tokens allowed.")
        _check_parts(contents)
        _check_turns(contents)
        _check_seals(contents)
        question = max(index for index, content in enumerate(contents) if _question(content))
        if self.strict:
            _check_signed(contents[question:])
        self.replies += 1
        parts = self._parts(self._plan.calls(_question(contents[question])))
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": len(json.dumps(body)) // 4, "candidatesTokenCount": 50},
            "modelVersion": "stand-in",
        }

    def _parts(self, wanted: int) -> list[Object]:
        number = self.replies
        parts: list[Object] = [{"text": words(20, number), "thought": True}]
        if not wanted:
            parts.append({"text": words(60, number)})
            parts.append({"text": ""} if number % 2 else {"text": "Enough."})  # a signature may come on an empty text
            return [*parts[:-1], _sealed(parts[-1])]
        for index in range(wanted):
            call: Object = {"name": f"find_talk_{index % 2}", "args": {"topic": f"topic {number}", "number": number}}
            if self.strict:
                call["id"] = f"call_{number}_{index}"
            part = {"functionCall": call}
            parts.append(part if index else _sealed(part))
        return parts


def _sealed(part: Object) -> Object:
    return {**part, "thoughtSignature": base64.b64encode(_digest(part)).decode()}


def _digest(part: Object) -> bytes:
    return f"\x12{seal({name: value for name, value in part.items() if name not in _BESIDE})}".encode()


def _calls(content: Object) -> list[Any]:
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def _results(content: Object) -> list[Any]:
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def _question(content: Object) -> str:
    """Return the text of a content of the user; an empty string for the model's contents and for results."""
    return "" if content["role"] != "user" else "".join(part.get("text", "") for part in content["parts"])


def _check_parts(contents: list[Object]) -> None:
    for index, content in enumerate(contents):
        refuse_if(content.get("role") not in ("user", "model"), "Please use a valid role: user, model.")
        refuse_if(not content.get("parts"), f"contents[{index}].parts must not be empty.")
        for place, part in enumerate(content["parts"]):
            at = f"contents[{index}].parts[{place}]"
            unknown = part.keys() - _DATA - _BESIDE
            refuse_if(unknown, f"Invalid JSON payload received. Unknown name at {at}: {sorted(unknown)}")
            refuse_if(len(part.keys() & _DATA) != 1, f"{at}.data: required oneof field 'data' must have one field")


def _check_turns(contents: list[Object]) -> None:
    refuse_if(contents[0]["role"] != "user" or _results(contents[0]), "Please begin with a user turn.")
    refuse_if(contents[-1]["role"] != "user", "Please ensure that the last turn is of the user.")
    for before, content in zip([None, *contents], [*contents, None], strict=True):
        asked = _calls(before) if before else []
        answered = _results(content) if content else []
        refuse_if(
            len(asked) != len(answered),
            "Please ensure that the number of function response parts is equal to the number of function call parts of the "
            "function call turn.",
        )
        pairs = [(call["name"], call.get("id")) for call in asked]
        found = [(result["name"], result.get("id")) for result in answered]
        if all(identity is not None for _, identity in pairs):  # without ids, paired by order
            pairs, found = sorted(pairs), sorted(found)
        refuse_if(pairs != found, "function responses are not those of the calls")
        if content and _calls(content):
            refuse_if(
                not before or before["role"] != "user",
                "Please ensure that function call turn comes immediately after a user turn or a function response turn.",
            )


def _check_seals(contents: list[Object]) -> None:
    for content in contents:
        for part in content["parts"]:
            signature = part.get("thoughtSignature")
            if signature and signature != _SKIPS:
                found = base64.urlsafe_b64decode(signature.replace("+", "-").replace("/", "_"))
                refuse_if(found != _digest(part), "Corrupted thought signature.")


def _check_signed(turn: list[Object]) -> None:
    for content in turn:
        first = next((part for part in content["parts"] if "functionCall" in part), None)
        missing = first is not None and "thoughtSignature" not in first
        refuse_if(missing, "Function call is missing a thought_signature in functionCall parts.")
