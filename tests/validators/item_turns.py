"""Turns as items of OpenAI's Responses."""

from typing import Any

from validators.chat_turns import UNTAKEN
from validators.logs import NAMES, PDF, PIXEL, PNG, Call, Group, Log, Object

_OF_REPLIES: tuple[Object, ...] = (
    {},
    {"id": "msg_1", "status": "completed"},
    {"id": "msg_" + "x" * 400, "status": "completed"},
    {"id": "msg_1", "status": "in_progress"},
    {"id": None, "status": None},
    {"id": "chatcmpl-1", "status": "completed"},
    {"id": "msg_é", "status": "completed"},
    {"phase": "commentary"},
)
_OF_CALLS: tuple[Object, ...] = (
    {},
    {"id": "fc_1", "status": "completed"},
    {"id": "fc_" + "y" * 90},
    {"id": None, "status": None},
    {"id": "call_1"},
    {"id": ""},
)
SCREEN = {"type": "computer_screenshot", "image_url": PNG}


def _input(log: Log) -> list[Object]:
    image = {
        "type": "input_image",
        "image_url": log.pick((PNG, PNG, {"url": PNG}, *UNTAKEN)),
        **log.pick(({}, {"detail": "auto"})),
    }
    nowhere = {"type": "input_image", "image_url": None, "file_id": None}
    file = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    texts: list[Any] = [{"type": "input_text", "text": log.text()} for _ in range(log.number(2))]
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    return [*texts, *log.maybe(log.pick((image, image, file, nowhere, sound)))]


def user(log: Log) -> None:
    """Ask, with a text or with parts."""
    content = _input(log) if log.number(2) else log.text()
    log.add("responses", {**log.pick(({}, {"type": "message"})), "role": "user", "content": content})


def note(log: Log) -> None:
    """Instruct, anywhere."""
    content = log.pick((log.text(), [{"type": "input_text", "text": log.text()}]))
    log.add("responses", {"type": "message", "role": log.pick(("developer", "system")), "content": content})


def _reasoning(log: Log) -> Object:
    summary = [{"type": "summary_text", "text": log.thought()}]
    sealed = {"summary": [], "encrypted_content": "gAAAAA" + "b" * 300, "content": None, "status": None}
    return {
        "type": "reasoning",
        **log.pick(
            ({"id": log.word("rs_"), "summary": summary}, sealed, {**sealed, "id": "rs_1"}, {**sealed, "id": "x.1"})
        ),
    }


def _message(log: Log) -> Object:
    part: Object = {
        "type": "output_text",
        "text": log.text(),
        **log.pick(({}, {"annotations": []}, {"annotations": None})),
    }
    refusal = {"type": "refusal", "refusal": f"No {log.word()}."}
    content = log.pick(([part], [part], [refusal], [part, part], log.text(), []))
    return {"type": "message", "role": "assistant", "content": content, **log.pick(_OF_REPLIES)}


def _hosted(log: Log) -> Object:
    search = {"type": "search", "query": f"talks {log.word()}", **log.pick(({}, {"queries": None, "sources": None}))}
    outputs = [{"type": "logs", "logs": f"out {log.word()}\n"}]
    code = {"container_id": "c", "code": f"print('{log.word()}')", "outputs": outputs}
    found: tuple[Object, ...] = (
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": search},
        {"type": "web_search_call", "action": search},
        {"type": "web_search_call", "id": log.word("x."), "status": "completed", "action": search},
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": [log.word(), "b"],
            "results": None,
        },
        {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", **code},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": log.word()},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [{"name": "n", "input_schema": {}}]},
    )
    return log.pick(found)


def reply(log: Log) -> None:
    """Reply with several items, or with parts of a reply."""
    items = [log.pick((_message, _reasoning, _hosted))(log) for _ in range(1 + log.number(3))]
    if log.number(3):
        log.add("responses", *items)
    else:
        log.add("responses", {"message": items, "status": log.pick(("completed", "interrupted"))})


def result(log: Log, identity: str, name: str) -> Group:
    """Return a call's output."""
    del name
    output = _input(log) if not log.number(3) else []
    named = log.pick(({}, {}, {"id": log.word("fc_")}, {"id": log.word("out_")}))
    made = {"type": "function_call_output", **named, "call_id": identity, "output": output or log.text()}
    return "responses", [made]


def calls(log: Log) -> None:
    """Call functions, behind a thought or before words."""
    ids = dict.fromkeys(log.identity() for _ in range(1 + log.number(1)))
    made = [Call(each, log.pick(NAMES), result) for each in ids]
    items = [
        {
            "type": "function_call",
            "call_id": each.identity,
            "name": each.name,
            "arguments": f'{{"day": "{log.word()}"}}',
            **log.pick(_OF_CALLS),
        }
        for each in made
    ]
    log.add("responses", *log.maybe(_reasoning(log)), *items, *([] if log.number(3) else [_message(log)]))
    log.called(made)


def custom(log: Log) -> None:
    """Call a tool that takes a text; some programs answer it as a function."""
    identity = log.word("call_")
    call = {"type": "custom_tool_call", "call_id": identity, "name": "shell", "input": f"ls {log.word()}"}
    kind = log.pick(("custom_tool_call_output", "function_call_output"))
    output = {"type": kind, "call_id": identity, "output": log.text()}
    log.add("responses", call, *([output] if log.number(4) else []))


def computer(log: Log) -> None:
    """Use a computer, whose screen comes back."""
    identity = log.word("cc_")
    more = log.pick(({"id": "cu_1", "status": "completed", "pending_safety_checks": []}, {}))
    call = {"type": "computer_call", "call_id": identity, "action": {"type": "wait"}, **more}
    output = {"type": "computer_call_output", "call_id": identity, "output": SCREEN}
    log.add("responses", call, *([output] if log.number(4) else []))


def compaction(log: Log) -> None:
    """Compact the conversation, before a reply or after a thought."""
    item = {"type": "compaction", **log.pick(({}, {"id": "cmp_1"})), "encrypted_content": "gAAAAA" + "d" * 200}
    log.add("responses", *log.maybe(_reasoning(log)), item, *log.maybe(_message(log)))


def shell(log: Log) -> None:
    """Call a local shell, whose output names the call by ``call_id``, by ``id``, or by both."""
    identity = log.word("call_")
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {
        "type": "local_shell_call",
        "id": log.word("lsh_"),
        "call_id": identity,
        "action": action,
        "status": "completed",
    }
    named = log.pick(({"call_id": identity}, {"id": identity}, {"id": log.word("out_"), "call_id": identity}))
    log.add("responses", call, {"type": "local_shell_call_output", **named, "output": log.text()})


TURNS = (shell, user, user, reply, reply, calls, calls, note, computer, compaction, custom)
