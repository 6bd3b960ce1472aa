"""Reads a Dockerfile, and builds a stage of it in a folder, because the tests cannot start a container engine.

It supports the part of the language that Sash's Dockerfile uses. ``COPY``, ``RUN``, ``ENV`` and ``WORKDIR`` of a stage are
carried out, with every absolute path moved under the folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """A line of a Dockerfile, its continuation lines joined."""

    word: str
    rest: str


def read(text: str) -> list[Instruction]:
    """Return the instructions, without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [Instruction(word, rest) for word, rest in parts]


def stages(instructions: list[Instruction]) -> list[list[Instruction]]:
    """Return the instructions of each stage, without their FROM."""
    found: list[list[Instruction]] = []
    for each in instructions:
        if each.word == "FROM":
            found.append([])
        elif found:
            found[-1].append(each)
    return found


def variables(stage: list[Instruction]) -> dict[str, str]:
    """Return the variables that a stage's ENV sets."""
    return dict(pair.split("=", 1) for each in stage if each.word == "ENV" for pair in each.rest.split())


def command(stage: list[Instruction], word: str) -> list[str]:
    """Return the command of ENTRYPOINT, CMD or HEALTHCHECK, written in list form."""
    rest = next(each.rest for each in stage if each.word == word)
    found: list[str] = json.loads(rest[rest.index("[") :])
    return found


def ignored(path: Path, patterns: list[str]) -> bool:
    """Return whether .dockerignore leaves out a path of the build's context: the last pattern that matches decides."""
    out = False
    for pattern in patterns:
        plain = pattern.removeprefix("!").removeprefix("**/")
        if any(fnmatch(str(each), plain) or fnmatch(each.name, plain) for each in (path, *path.parents)):
            out = not pattern.startswith("!")
    return out


def build(stage: list[Instruction], context: Path, root: Path) -> None:
    """Carry out a stage, with ``root`` in place of /. Its python and pip come from the tests' interpreter."""
    patterns = [line for line in (context / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    subprocess.run([sys.executable, "-m", "venv", root / "base"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SASH_", "PYTHON"))}
    environment |= {**variables(stage), "PATH": f"{root / 'base' / 'bin'}:{os.environ['PATH']}"}
    place = root
    for word, rest in stage:
        moved = re.sub(r"(?<![\w./])/(?=\w)", f"{root}/", rest)
        if word == "WORKDIR":
            place = Path(moved)
            place.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = moved.split()
            if target.endswith("/"):
                (place / target).mkdir(parents=True, exist_ok=True)
            for found in (each for source in sources for each in sorted(context.glob(source))):
                copy(context, str(found.relative_to(context)), place / target, patterns)
        elif word == "RUN":
            done = subprocess.run(
                ["/bin/sh", "-ec", moved], cwd=place, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{rest}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"


def copy(context: Path, source: str, target: Path, patterns: list[str]) -> None:
    """Do COPY: a file into a folder, or a folder's content into another, without what .dockerignore leaves out."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if ignored(Path(folder, name).relative_to(context), patterns)]

    assert not ignored(Path(source), patterns), f".dockerignore leaves out {source}"
    if (context / source).is_dir():
        shutil.copytree(context / source, target, ignore=left_out)
    else:
        shutil.copy(context / source, target)
