"""What Gemini's generateContent refuses with 400, and what Google's SDK for JavaScript drops in silence.

Sources: ai.google.dev/gemini-api/docs (function-calling, thought-signatures, api/caching#Content), and the error messages of
public reports, which are quoted. A request may end with calls that wait for results, of which some may be there, and with
the model's words: the client adds its next content.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

_DATA = frozenset(
    {
        *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
    }
)
_BESIDE = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
_USERS = frozenset({"args", "response", "partMetadata", "parametersJsonSchema", "parameters", "responseJsonSchema"})
"""Members whose inside is the user's own."""
_PICTURES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
"""ai.google.dev/gemini-api/docs/image-understanding."""
_STRICT = re.compile(r"gemini-(?:[3-9]|[1-9]\d)")
_SNAKE = re.compile(r"[a-z]+(_[a-z]+)+")


def refused(request: Object, model: str) -> list[str]:
    """Return why this request does not reach the model as it is; nothing where the provider and its SDKs take it."""
    return [*refused_by_server(request, model), *_spelling(request, "")]


def refused_by_server(request: Object, model: str) -> list[str]:
    """Return why the provider answers 400 to this request for this model. It reads camel case and snake case."""
    contents = request.get("contents") or []
    found = [] if contents else ["contents is not specified"]
    for index, content in enumerate(contents):
        found += _content(content, f"contents[{index}]")
    found += [*_turns(contents), *_config(request.get("config") or {})]
    if _STRICT.search(model) and "-image" not in model:
        found += _signed(contents)
    return found


def _parts(content: Object) -> list[Object]:
    return content.get("parts") or []


def _of(content: Object, kind: str) -> list[Any]:
    return [part[kind] for part in _parts(content) if part.get(kind) is not None]


def _content(content: Object, at: str) -> Iterator[str]:
    if unknown := content.keys() - {"role", "parts"}:
        yield f"{at}: Invalid JSON payload received. Unknown name {sorted(unknown)}"
    if content.get("role") not in ("user", "model", "function", None):
        yield f"{at}.role: Please use a valid role: user, model."
    if not _parts(content):
        yield f"{at}.parts: contents.parts must not be empty."
    for place, part in enumerate(_parts(content)):
        yield from _part(part, f"{at}.parts[{place}]")


def _part(part: Object, at: str) -> Iterator[str]:
    if unknown := part.keys() - _DATA - _BESIDE:
        yield f"{at}: Invalid JSON payload received. Unknown name {sorted(unknown)}"
    data = [name for name in _DATA if part.get(name) is not None]
    if len(data) != 1 or (data == ["text"] and not part["text"] and not part.get("thoughtSignature")):
        yield f"{at}.data: required oneof field 'data' must have one initialized field"
    if signature := part.get("thoughtSignature"):
        try:
            base64.b64decode(signature.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            yield f"{at}.thoughtSignature: Base64 decoding failed"
    for each in (part, *((part.get("functionResponse") or {}).get("parts") or ())):
        yield from _medium(each, at)
    for name, inner in (("functionCall", "args"), ("functionResponse", "response")):
        if isinstance(value := part.get(name), dict):
            if not value.get("name"):
                yield f"{at}.{name}.name: Name cannot be empty."
            if not isinstance(value.get(inner) or {}, dict):
                yield f"{at}.{name}.{inner}: Proto field is not repeating"


def _medium(part: Object, at: str) -> Iterator[str]:
    held = part.get("inlineData") or part.get("fileData") or {}
    if (kind := str(held.get("mimeType"))).startswith("image/") and kind not in _PICTURES:
        yield f"{at}: Unsupported MIME type: {kind}"
    if "inlineData" in part and not held.get("data"):
        yield f"{at}.inlineData.data: is empty"


def _turns(contents: list[Object]) -> Iterator[str]:
    if contents and _of(contents[0], "functionResponse"):
        yield "contents[0]: Please ensure that function response turn comes immediately after a function call turn."
    for index, content in enumerate(contents):
        before = contents[index - 1] if index else {}
        asked, answered = _of(before, "functionCall"), _of(content, "functionResponse")
        behind = [*_parts(content)[len(answered) :], *(part for each in contents[index + 1 :] for part in _parts(each))]
        if (
            answered
            and len(answered) < len(asked)
            and all("inlineData" in part or "fileData" in part for part in behind)
        ):
            continue  # the client adds the others; pictures stand behind their results
        if len(asked) != len(answered):
            yield (
                f"contents[{index}]: the number of function response parts is not equal to the number of function call "
                "parts of the function call turn"
            )
        elif sorted(map(_named, asked)) != sorted(map(_named, answered)):
            yield f"contents[{index}]: function responses are not those of the calls"
        elif not all(each.get("id") for each in asked) and [e["name"] for e in asked] != [e["name"] for e in answered]:
            yield f"contents[{index}]: function responses without ids are paired by order"
        if _of(content, "functionCall") and before.get("role", "model") == "model":
            yield (
                f"contents[{index}]: Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )


def _named(value: Object) -> tuple[str, str]:
    return str(value.get("name")), str(value.get("id") or "")


def _signed(contents: list[Object]) -> Iterator[str]:
    """The first call of each step since the user's newest content that is more than results."""
    asked = (
        index
        for index, content in enumerate(contents)
        if content.get("role") != "model" and any("functionResponse" not in part for part in _parts(content))
    )
    for index in range(max(asked, default=-1) + 1, len(contents)):
        first = next((part for part in _parts(contents[index]) if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            yield f"contents[{index}]: Function call is missing a thought_signature in functionCall parts."


def _spelling(value: Any, at: str) -> Iterator[str]:
    """Members in snake case, which @google/genai leaves out without a word."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _spelling(each, f"{at}[{index}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            if _SNAKE.fullmatch(name):
                yield f"{at}.{name}: dropped by @google/genai"
            elif name not in _USERS:
                yield from _spelling(each, f"{at}.{name}")


def _config(config: Object) -> Iterator[str]:
    if "systemInstruction" in config and not config["systemInstruction"]:
        yield "systemInstruction.parts[0].data: required oneof field 'data' must have one initialized field"
    names = [
        function.get("name")
        for tool in config.get("tools") or ()
        for function in tool.get("functionDeclarations") or ()
    ]
    if len(names) != len(set(names)):
        yield "tools: Duplicate function declaration found"
    if not all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.:-]*", name) for name in names):
        yield "tools: Invalid function name. Must start with a letter or an underscore."
    if "toolConfig" in config and not names:
        yield "toolConfig: Function calling config is set without function_declarations."
