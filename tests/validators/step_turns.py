"""Turns as steps of Google's Interactions."""

from typing import Any

from validators.logs import NAMES, PDF, PIXEL, SEAL, Call, Group, Log, Object

IMAGE: Object = {"type": "image", "mime_type": "image/png", "data": PIXEL}
_MEDIA: tuple[Object, ...] = (
    IMAGE,
    {"type": "document", "mime_type": "application/pdf", "data": PDF},
    {"type": "document", "mime_type": "application/pdf", "uri": "https://x.test/a.pdf"},
    {"type": "audio", "mime_type": "audio/wav", "data": "UklGRgAAAABXQVZF"},
)


def _text(log: Log) -> Object:
    return {"type": "text", "text": log.text()}


def user(log: Log) -> None:
    """Ask, with texts and media, with nothing, or with a content alone."""
    if not log.number(4):
        log.add("interactions", _text(log))
        return
    content = [_text(log) for _ in range(log.number(2))]
    log.add("interactions", {"type": "user_input", "content": [*content, *log.maybe(log.pick(_MEDIA))]})


def _thought(log: Log) -> Object:
    summary = [{"type": "text", "text": log.thought()}]
    return {
        "type": "thought",
        **log.pick(
            ({"signature": SEAL}, {"signature": SEAL, "summary": summary}, {}, {"signature": "", "summary": summary})
        ),
    }


def _output(log: Log) -> Object:
    content = log.pick(
        ([_text(log)], [_text(log), _text(log)], [{**_text(log), "annotations": []}], [], [_text(log), IMAGE])
    )
    return {"type": "model_output", "content": content}


def _hosted(log: Log) -> list[Object]:
    number = log.word("h_")
    code = {
        "type": "code_execution_call",
        "id": number,
        "arguments": {"code": f"print('{log.word()}')", "language": "python"},
    }
    search = {
        "type": "google_search_call",
        "id": number,
        "arguments": {"queries": [f"talks {log.word()}"]},
        "signature": SEAL,
    }
    return list(
        log.pick(
            (
                [code, {"type": "code_execution_result", "call_id": number, "result": f"out {log.word()}"}],
                [
                    search,
                    {"type": "google_search_result", "call_id": number, "result": [{"search_suggestions": log.word()}]},
                ],
            )
        )
    )


def reply(log: Log) -> None:
    """Reply with thoughts, texts and what Google's own tools did."""
    steps: list[Object] = []
    for _ in range(1 + log.number(2)):
        steps += log.pick((lambda: [_output(log)], lambda: [_thought(log), _output(log)], lambda: _hosted(log)))()
    log.add("interactions", *steps)


def result(log: Log, identity: str, name: str) -> Group:
    """Return a call's result: a text, contents, or an object."""
    found: Any = log.pick((log.text(), [_text(log), IMAGE], {"day": log.word(), "n": 1}, {}, [_text(log)], ""))
    named = log.pick(({"name": name}, {}, {"name": name, "is_error": True}))
    return "interactions", [{"type": "function_result", "call_id": identity, "result": found, **named}]


def calls(log: Log) -> None:
    """Call functions, behind a thought or not."""
    ids = dict.fromkeys(log.identity() for _ in range(1 + log.number(1)))
    made = [Call(each, log.pick(NAMES), result) for each in ids]
    steps = [
        {"type": "function_call", "id": each.identity, "name": each.name, "arguments": {"day": log.word()}}
        for each in made
    ]
    log.add("interactions", *log.maybe(_thought(log)), *log.maybe(_output(log)), *steps)
    log.called(made)


TURNS = (user, user, reply, reply, calls, calls)
