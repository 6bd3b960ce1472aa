"""Turns of chat completions, as OpenAI and servers that are compatible with it write them."""

import base64

from validators.logs import (
    FOREIGN,
    GIF,
    MARKS,
    NAMES,
    OF_ENTRIES,
    PDF,
    PIXEL,
    PNG,
    SIGNATURES,
    Call,
    Group,
    Log,
    Object,
)

ARGUMENTS = (
    *('{{"day": "{}"}}', '{{"n": 1.50, "a": ["{}", 1e5]}}', "{{}}", ""),
    *('{{"day": "{}', '["{}"]', '{{"day": "{} \\ud83d"}}', '{{"n": NaN, "day": "{}"}}'),
)
"""Of calls; the last four are no JSON objects: cut, a list, half of a surrogate pair, not a number."""
PEOPLE: tuple[Object, ...] = ({}, {}, {}, {"name": "bob"}, {"name": "Jane Doe"}, {"name": "<x>"}, {"name": "n" * 80})
TEXT_FILE = f"data:text/plain;base64,{base64.b64encode(b'Hi!').decode()}"
UNTAKEN = (
    "data:image/svg+xml;base64,PHN2Zy8+",
    "data:image/bmp;base64,Qk0AAAAA",
    "data:image/heic;base64,AAAA",
    "data:image/png;base64,",
    "",
    "a.png",
)
MEDIA: tuple[Object, ...] = (
    {"type": "image_url", "image_url": {"url": PNG}},
    {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
    {"type": "image_url", "image_url": PNG},
    {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{GIF}"}},
    {"type": "image_url", "image_url": {"url": f"data:IMAGE/PNG;charset=utf-8;base64,{PIXEL[:40]}\n{PIXEL[40:]}\n"}},
    {"type": "image_url", "image_url": {"url": f"data:application/octet-stream;base64,{PIXEL}"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    {"type": "file", "file": {"filename": "notes.txt", "file_data": TEXT_FILE}},
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "input_audio", "input_audio": {"data": "UklGRgAAAABXQVZF", "format": "wav"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "m4a"}},
    {"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}},
    *({"type": "image_url", "image_url": {"url": each}} for each in UNTAKEN),
    {"type": "document_url", "document_url": "https://x.test/a.pdf"},
    {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}},
)


def _entry(log: Log, message: Object) -> Object:
    """Return the message as an entry with documents or facts about it, or bare, perhaps with foreign members."""
    if message["role"] == "user" and not log.number(5):
        documents = [{"text": f"A talk {log.word('zd')} on Gradle. " * log.pick((1, 8))} for _ in range(log.number(2))]
        return {"message": message, "grounding": {"documents": documents}}
    more = log.pick(OF_ENTRIES)
    return {"message": message, **more} if more else {**message, **log.pick(FOREIGN)}


def _said(log: Log, role: str, content: object, **more: object) -> None:
    log.add("openai", _entry(log, {"role": role, "content": content, **more}))


def _parts(log: Log) -> list[Object]:
    return [{"type": "text", "text": log.text(), **log.pick(MARKS)} for _ in range(log.number(2))]


def user(log: Log) -> None:
    """Ask, with a text or with parts."""
    content = [*_parts(log), *log.maybe(log.pick(MEDIA))] if log.number(2) else []
    _said(log, "user", content or log.text(), **log.pick(PEOPLE))


def note(log: Log) -> None:
    """Instruct, anywhere."""
    content = _parts(log) if not log.number(4) else []
    _said(log, log.pick(("system", "developer")), content or log.text(), **log.pick(PEOPLE))


def reply(log: Log) -> None:
    """Reply, perhaps with nothing, a refusal, a spoken text or a picture."""
    drawn = {"type": "image_url", "image_url": {"url": f"https://x.test/{log.word()}.png"}}
    more = log.pick(
        (
            *({}, {}, {"tool_calls": []}, {"tool_calls": None}, {"refusal": f"No {log.word()}."}),
            {"audio": {"id": "audio_1", "expires_at": 1, "data": "AAAA", "transcript": f"heard {log.word()}"}},
            {"images": [drawn]},
        )
    )
    content = log.pick((log.text(), None, [], _parts(log))) if "audio" not in more else log.pick((None, "", []))
    _said(log, "assistant", content, **more, **_reasoning(log))


def half(log: Log) -> None:
    """Begin a reply, which may be stopped."""
    message = {"role": "assistant", "content": log.text()}
    log.add("openai", {"id": log.word("m-"), "message": message, "status": log.pick(("interrupted", "in_progress"))})


def _reasoning(log: Log) -> Object:
    kind = log.number(6)
    if kind == 1:
        return {"reasoning_content": log.thought()}
    if kind == 2:
        thought = {"type": "thinking", "thinking": log.thought(), "signature": log.pick(SIGNATURES)}
        return {"thinking_blocks": [thought, *log.maybe({"type": "redacted_thinking", "data": "x"})]}
    return {}


def _call(log: Log, call: Call) -> Object:
    arguments = log.pick(ARGUMENTS).format(log.word())
    made = {"id": call.identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}
    signed = {"extra_content": {"google": {"thought_signature": log.pick(SIGNATURES)}}}
    return made | log.pick(({}, {}, signed))


def result(log: Log, identity: str, name: str) -> Group:
    """Return a tool message."""
    del name
    content = log.text() if log.number(4) else _parts(log) or log.text()
    return "openai", [{"role": "tool", "tool_call_id": identity, "content": content, **log.pick(FOREIGN)}]


def calls(log: Log) -> None:
    """Call tools."""
    made = [Call(log.identity(), log.pick(NAMES), result) for _ in range(1 + log.number(2))]
    content = log.pick((None, "", log.text(), []))
    asked = {"role": "assistant", "content": content, "tool_calls": [_call(log, each) for each in made]}
    log.add("openai", asked | _reasoning(log))
    log.called(made)


def custom(log: Log) -> None:
    """Call a custom tool, which takes a text."""
    call = {"id": log.identity(), "type": "custom", "custom": {"name": "shell", "input": f"ls {log.word()}"}}
    log.add("openai", {"role": "assistant", "content": None, "tool_calls": [call]})
    log.called([Call(str(call["id"]), "shell", result)])


def legacy(log: Log) -> None:
    """Call a function as before there were tools; its result may stand behind a note, or never come."""
    name = log.pick(NAMES)
    call = {"name": name, "arguments": f'{{"day": "{log.word()}"}}'}
    log.add("openai", {"role": "assistant", "content": log.pick((None, "", log.text())), "function_call": call})
    if not log.number(3):
        note(log)
    if log.number(3):
        log.add("openai", {"role": "function", "name": name, "content": log.text()})


TURNS = (user, user, reply, calls, calls, note, half, legacy, custom)
