"""Long conversations whose third turn says a path and a command, and the calls by which a model looks for them.

``.venv/bin/python -m pytest -m nightly tests/api/test_far_back.py -s`` prints the share that is found.
"""

import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

TURNS = 400
_SERVICES = ("cart", "billing", "search", "login", "mailer", "stock", "reports", "gateway", "catalogue", "payments")
_TASKS = {
    "restart": "kubectl -n {place} rollout restart deploy/{service}",
    "back up": "pg_dump --format=custom --file=/backup/{service}-{number}.dump {place}",
    "migrate": "alembic -c {service}/alembic.ini upgrade head --tag {place}{number}",
    "profile": "py-spy record --pid {number} --output {service}.svg --subprocesses",
    "test": "pytest {service}/tests -k {place} --maxfail={number} --durations=5",
}
_PATHS = "/srv/{place}/{service}/conf.d/{number}-{task}.yaml"
_PLACES = ("harbour", "meadow", "quarry", "summit", "orchard")


class Fact(NamedTuple):
    """A command that was run and a path that its result names, with what a model would look for."""

    looks_for: str
    command: str
    path: str

    @property
    def turn(self) -> list[dict[str, Any]]:
        """The messages that say it."""
        identity = f"call-{crc32(self.command.encode())}"
        function = {"name": "run_command", "arguments": json.dumps({"command": self.command})}
        call = {"id": identity, "type": "function", "function": function}
        return [
            {"role": "user", "content": f"Please {self.looks_for}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": identity, "content": f"done, settings read from {self.path}"},
            {"role": "assistant", "content": "It is done."},
        ]


def facts(chance: random.Random) -> Iterator[Fact]:
    """Yield facts without end; no two have the same task and service."""
    wanted = [(task, service) for task in _TASKS for service in _SERVICES]
    chance.shuffle(wanted)
    for task, service in wanted:
        named = {"place": chance.choice(_PLACES), "service": service, "number": chance.randrange(10, 9999)}
        path = _PATHS.format(task=task.replace(" ", "-"), **named)
        yield Fact(f"{task} the {service} service", _TASKS[task].format(**named), path)


def talks(data: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of long conversations: people's, and those of an assistant with tools, several in one."""
    for line in (data / "recall.jsonl").read_text().splitlines():
        yield [each["message"] for each in json.loads(line)["messages"]]
    joined: list[dict[str, Any]] = []
    for number, line in enumerate((data / "sgd_tools.jsonl").read_text().splitlines()):
        joined += [_renamed(each["message"], number) for each in json.loads(line)["entries"]]
        if len(joined) >= 2 * TURNS:
            yield joined
            joined = []


def _renamed(message: dict[str, Any], number: int) -> dict[str, Any]:
    """A message whose calls have ids that no other conversation has."""
    if "tool_call_id" in message:
        return {**message, "tool_call_id": f"{number}-{message['tool_call_id']}"}
    if message.get("tool_calls"):
        return {**message, "tool_calls": [{**call, "id": f"{number}-{call['id']}"} for call in message["tool_calls"]]}
    return message


def with_facts(talk: list[dict[str, Any]], seed: int) -> tuple[list[dict[str, Any]], list[Fact]]:
    """Return the messages of 400 turns and more: a greeting, five facts, then the talk, with other facts between."""
    given = facts(random.Random(seed))
    told = [next(given) for _ in range(5)]
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    messages += [message for fact in told for message in fact.turn]
    turns = 1 + len(told)
    for number in count():
        for message in talk:
            if message["role"] == "user":
                if turns >= TURNS:
                    return messages, told
                if turns % 20 == 0:
                    messages += next(given).turn
                turns += 1
            messages.append(_renamed(message, number))
    raise AssertionError
