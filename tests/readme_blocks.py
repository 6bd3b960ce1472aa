"""Find the code blocks of the Markdown pages, and run them with only the server's address changed."""

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
    """Return the path of every page of the project, relative to the root."""
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
    """Return a page's headings with their ``#`` marks; a comment in a shell block is not a heading."""
    return _HEADING.findall(without_blocks(read(page)))


def blocks(language: str, text: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return [body for found, body in _BLOCK.findall(text) if found == language]


def places() -> Iterator[tuple[str, str, str]]:
    """Yield page, heading and language of each fenced block of each page."""
    for page in pages():
        text = read(page)
        above = ""
        for found in re.finditer(rf"{_BLOCK.pattern}|{_HEADING.pattern}", text, re.MULTILINE | re.DOTALL):
            if found[1] is None:
                above = found[0]
            else:
                yield page, above, found[1]


def section(page: str, heading: str) -> str:
    """Return the text under a heading, up to the next heading of the same or a higher level."""
    marks = heading.split(maxsplit=1)[0]
    start = re.search(rf"^{re.escape(heading)}$", read(page), re.MULTILINE)
    assert start is not None, f"{page} has no section {heading!r}"
    text = read(page)[start.end() :]
    hidden = _BLOCK.sub(lambda found: re.sub(r"^#", " ", found[0], flags=re.MULTILINE), text)
    end = re.search(rf"^#{{1,{len(marks)}}} ", hidden, re.MULTILINE)
    return text[: end.start()] if end else text


def block(language: str, page: str, heading: str) -> str:
    """Return the only block of a language under a heading."""
    (found,) = blocks(language, section(page, heading))
    return found


def rows(text: str) -> list[list[str]]:
    """Return the cells of each table row in a text, without header and separator rows."""
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
    """Run a block against ``server`` instead of the address in the block.

    The command reads the block from standard input. With ``typed``, the standard input is ``typed``, and the block is a
    file, named in the command's last argument.
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
    """Return the lines that a block printed; fail with its output if it failed or wrote to standard error."""
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


def curl(code: str, *, server: str) -> list[Any]:
    """Run a block of curl commands, which must all succeed; return their responses, as text if not JSON."""
    strict = 'set -eu\ncurl() { command curl --fail-with-body "$@"; printf "\\0"; }\n'
    answers = "\n".join(printed(run(["sh"], strict + code, server=server))).split("\0")
    return list(_decoded(answers[:-1]))


def _decoded(answers: list[str]) -> Iterator[Any]:
    for answer in answers:
        try:
            yield json.loads(answer)
        except ValueError:
            yield answer
