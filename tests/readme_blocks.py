"""README's blocks as they stand, but for the address of the server."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = "http://127.0.0.1:8000"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = 120


def readme() -> str:
    return (ROOT / "README.md").read_text()


def blocks(language: str, text: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for found, body in _BLOCK.findall(text) if found == language]


def section(heading: str) -> str:
    """What is under a heading of README, to the next of its level."""
    marks = heading.split(maxsplit=1)[0]
    found = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{len(marks)}}} |\Z)", readme(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"README.md has no section {heading!r}"
    return found[1]


def block(language: str, heading: str) -> str:
    """The one block of a language under a heading."""
    (found,) = blocks(language, section(heading))
    return found


def run(
    command: list[str], code: str, *, server: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a block by a command that reads it from standard input, against ``server`` in place of the one it names."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SASH_", "OPENAI_"))}
    return subprocess.run(
        command,
        input=code.replace(SERVER, server),
        env={**inherited, **(environment or {})},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that a block printed; one that failed or warned is a failed test that shows what it said."""
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


def curl(code: str, *, server: str) -> list[Any]:
    """Run a block of curl commands, each of which must succeed; their answers, text that is no JSON as text."""
    strict = 'set -eu\ncurl() { command curl --fail-with-body "$@"; printf "\\0"; }\n'
    answers = "\n".join(printed(run(["sh"], strict + code, server=server))).split("\0")
    return list(_read(answers[:-1]))


def _read(answers: list[str]) -> Iterator[Any]:
    for answer in answers:
        try:
            yield json.loads(answer)
        except ValueError:
            yield answer
