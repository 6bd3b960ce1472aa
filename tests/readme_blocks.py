"""The pages' blocks of code as they stand, but for the address of the server."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = "http://127.0.0.1:8000"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} [^\n]+$", re.MULTILINE)
_OURS = ("SASH_", "OPENAI_", "ANTHROPIC_")
_SECONDS = 120


def pages() -> list[str]:
    """Every page of the project, by its path from the root."""
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*.md"))
    return sorted(
        str(path) for path in found if not any(part[0] == "." or part == "node_modules" for part in path.parts)
    )


def read(page: str) -> str:
    """A page's text."""
    return (ROOT / page).read_text()


def without_blocks(text: str) -> str:
    """A page's text without its fenced blocks."""
    return _BLOCK.sub("", text)


def headings(page: str) -> list[str]:
    """A page's headings with their marks; a remark in a block of shell is none."""
    return _HEADING.findall(without_blocks(read(page)))


def blocks(language: str, text: str) -> list[str]:
    """The fenced blocks of a language."""
    return [body for found, body in _BLOCK.findall(text) if found == language]


def places() -> Iterator[tuple[str, str, str]]:
    """Page, heading and language of each fenced block of each page."""
    for page in pages():
        text = read(page)
        above = ""
        for found in re.finditer(rf"{_BLOCK.pattern}|{_HEADING.pattern}", text, re.MULTILINE | re.DOTALL):
            if found[1] is None:
                above = found[0]
            else:
                yield page, above, found[1]


def section(page: str, heading: str) -> str:
    """The text under a heading, to the next heading of its level."""
    marks = heading.split(maxsplit=1)[0]
    start = re.search(rf"^{re.escape(heading)}$", read(page), re.MULTILINE)
    assert start is not None, f"{page} has no section {heading!r}"
    text = read(page)[start.end() :]
    hidden = _BLOCK.sub(lambda found: re.sub(r"^#", " ", found[0], flags=re.MULTILINE), text)
    end = re.search(rf"^#{{1,{len(marks)}}} ", hidden, re.MULTILINE)
    return text[: end.start()] if end else text


def block(language: str, page: str, heading: str) -> str:
    """The one block of a language under a heading."""
    (found,) = blocks(language, section(page, heading))
    return found


def rows(text: str) -> list[list[str]]:
    """The cells of each line of the tables in a text, heads and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rules = [place for place, line in enumerate(lines) if re.fullmatch(r"[|:\- ]+", line)]
    kept = [line for place, line in enumerate(lines) if place not in rules and place + 1 not in rules]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in kept]


def run(
    command: list[str],
    code: str,
    *,
    server: str,
    environment: dict[str, str] | None = None,
    typed: str | None = None,
    cwd: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run a block against ``server`` in place of the one it names.

    The command reads the block from standard input; where something is ``typed``, that is its standard input, and the block
    is a file, which is the command's last argument.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    code = code.replace(SERVER, server)
    with tempfile.TemporaryDirectory() as folder:
        if typed is not None:
            program = Path(folder) / "talk"
            program.write_text(code)
            command, code = [*command, str(program)], typed
        return subprocess.run(
            command,
            input=code,
            env={**inherited, **(environment or {})},
            cwd=cwd,
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
    return list(_decoded(answers[:-1]))


def _decoded(answers: list[str]) -> Iterator[Any]:
    for answer in answers:
        try:
            yield json.loads(answer)
        except ValueError:
            yield answer
