"""Turns as Ollama's /api/chat writes them: calls without ids, and results that name their tools."""

from validators.logs import FOREIGN, NAMES, PIXEL, PNG, Call, Group, Log, Object


def _add(log: Log, *messages: Object) -> None:
    log.add("ollama", *({**message, **log.pick(FOREIGN)} for message in messages))


def _thinking(log: Log) -> Object:
    return {"thinking": log.thought()} if log.number(1) else {}


def user(log: Log) -> None:
    """Ask, with a text, with pictures, or with nothing."""
    _add(log, {"role": "user", "content": log.text(), **log.pick(({}, {"images": [PIXEL]}, {"images": [PIXEL, PNG]}))})


def reply(log: Log) -> None:
    """Reply, after a thought or at once."""
    _add(log, {"role": "assistant", "content": log.text(), **_thinking(log)})


def note(log: Log) -> None:
    """Instruct, anywhere."""
    _add(log, {"role": "system", "content": log.text()})


def result(log: Log, identity: str, name: str) -> Group:
    """Return a call's result, with a picture or without."""
    del identity
    picture = log.pick(({}, {}, {"images": [PIXEL]}, {"images": [PNG]}))
    return "ollama", [{"role": "tool", "tool_name": name, "content": log.text(), **picture}]


def calls(log: Log) -> None:
    """Call tools, some of them twice, with all results in the request, with some, or with none."""
    names = [log.pick(NAMES) for _ in range(1 + log.number(2))]
    made = [{"function": {"name": name, "arguments": {"day": log.word()}}} for name in names]
    asked = {"role": "assistant", "content": log.text() if log.number(1) else "", **_thinking(log), "tool_calls": made}
    if len({*names}) == len(names) and log.number(1):
        _add(log, asked)
        log.called([Call(f"call_{name[:200]}", name, result) for name in names])
        return
    answers = [result(log, "", name)[1][0] for name in names]
    _add(log, asked, *answers[: len(answers) - (log.number(4) == 4)])


TURNS = (user, user, reply, reply, calls, calls, note)
