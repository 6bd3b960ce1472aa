"""Turns as Gemini's API and its SDKs write them: in camel case or in snake case."""

from typing import Any

from validators.logs import GIF, NAMES, PIXEL, SEAL, Call, Group, Log, Object

_SNAKE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "fileUri": "file_uri",
    "mimeType": "mime_type",
    "thoughtSignature": "thought_signature",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
}
INLINE: Object = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
MEDIA: tuple[Object, ...] = (
    INLINE,
    {"inlineData": {"mimeType": "audio/wav", "data": "UklGRgAAAABXQVZF"}},
    {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.test/a.pdf"}},
    {"fileData": {"mimeType": "image/gif", "fileUri": "https://x.test/a.gif"}},
    {"inlineData": {"mimeType": "image/gif", "data": GIF}},
    {"inlineData": {"mimeType": "image/svg+xml", "data": "PHN2Zy8+"}},
    {"inlineData": {"mimeType": "image/jpg", "data": "/9j/4AAQ"}},
    {"inlineData": {"mimeType": "image/png", "data": ""}},
)


def _spelled(value: Any, *, snake: bool) -> Any:
    if isinstance(value, dict):
        return {_SNAKE.get(name, name) if snake else name: _spelled(each, snake=snake) for name, each in value.items()}
    return [_spelled(each, snake=snake) for each in value] if isinstance(value, list) else value


def _add(log: Log, *contents: Object) -> None:
    snake = log.number(3) == 1
    log.add("gemini", *(_spelled(each, snake=snake) for each in contents))


def user(log: Log) -> None:
    """Ask, with texts, pictures, sounds or files, or nothing."""
    parts = [{"text": log.text()} for _ in range(log.number(2))]
    _add(log, {"role": "user", "parts": [*parts, *log.maybe(log.pick(MEDIA))]})


def _signed(log: Log) -> Object:
    return log.pick(
        ({}, {"thoughtSignature": SEAL}, {"thoughtSignature": "claude#EqoB"}, {"thoughtSignature": "aGk=aGk="})
    )


def _words(log: Log) -> list[Object]:
    thought = {"text": log.thought(), "thought": True}
    said = [{"text": log.text(), **_signed(log)}, {"text": "", **_signed(log)}]
    return [*log.maybe(thought), *log.maybe(said[0]), *log.maybe(said[1])]


def reply(log: Log) -> None:
    """Reply, perhaps with a picture, or with nothing."""
    _add(log, {"role": "model", "parts": [*_words(log), *([] if log.number(5) else [INLINE])]})


def hosted(log: Log) -> None:
    """Run code, as Gemini does it."""
    code = {"executableCode": {"language": "PYTHON", "code": f"print('{log.word()}')"}}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": f"out {log.word()}\n"}}
    _add(log, {"role": "model", "parts": [code, ran, *log.maybe({"text": log.text()})]})


def note(log: Log) -> None:
    """Instruct, anywhere."""
    _add(log, {"role": "system", "parts": [{"text": log.text()}, {"text": log.text()}]})


def _response(log: Log, identity: Object, name: str) -> Object:
    shot = log.pick(({}, {}, {"parts": [INLINE]}))
    said = log.pick(({"output": log.text()}, {"a": log.word(), "b": [1]}, {}))
    return {"functionResponse": {**identity, "name": name, "response": said, **shot}}


def result(log: Log, identity: str, name: str) -> Group:
    """Return a user's content with a response."""
    return "gemini", [{"role": "user", "parts": [_response(log, {"id": identity}, name)]}]


def calls(log: Log) -> None:
    """Call functions: with ids, or without, where the responses are paired by order in the same request."""
    ids: list[Object] = [{"id": log.word("fc-")} if log.number(1) else {} for _ in range(1)] * (1 + log.number(2))
    ids = [{"id": f"{each['id']}.{index}"} if each else {} for index, each in enumerate(ids)]
    names = [log.pick(NAMES) for _ in ids]
    called = [
        {"functionCall": {**each, "name": name, "args": {"mime_type": log.word()}}, **_signed(log)}
        for each, name in zip(ids, names, strict=True)
    ]
    asked = {"role": "model", "parts": [*_words(log), *called]}
    if ids[0] and log.number(1):
        _add(log, asked)
        log.called([Call(each["id"], name, result) for each, name in zip(ids, names, strict=True)])
        return
    answers = [_response(log, each, name) for each, name in zip(ids, names, strict=True)]
    _add(log, asked, *([{"role": "user", "parts": answers}] if log.number(4) else []))


TURNS = (user, user, reply, reply, calls, calls, hosted, note)
