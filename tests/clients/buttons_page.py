"""The clients' page's table of buttons, from what the programs in ``buttons`` print.

``python -m tests.clients.buttons_page folder`` presses all of them against a Sash on port 8000, or at ``SASH_URL``, and
writes the table. Their environments are in the folder, and made where they are missing.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "service" / "docs" / "frameworks" / "README.md"
PROGRAMS = ROOT / "tests" / "clients" / "buttons"
HEAD = "| adapter |"
NAMES = {
    "with_streaming": ("`StreamingChats`", None),
    "with_langchain": ("LangChain, LangGraph", "requirements-adapters.txt"),
    "with_pydantic_ai": ("Pydantic AI", "requirements-adapters.txt"),
    "with_agents": ("OpenAI Agents SDK", "requirements-adapters.txt"),
    "with_adk": ("Google ADK", "requirements-adk.txt"),
    "with_llama_index": ("LlamaIndex", "requirements-llama-index.txt"),
    "with_agent_framework": ("Agent Framework", "requirements-llama-index.txt"),
    "with_litellm": ("LiteLLM's proxy", "requirements-litellm.txt"),
    "with_assistant_ui": ("assistant-ui", "package.json"),
    "with_copilotkit": ("CopilotKit", "package.json"),
    "with_tanstack": ("TanStack AI", "package.json"),
}
"""For each program what the page calls its adapter, and what it needs besides Sash's own packages."""
_QUIET = {"PYTHONWARNINGS": "ignore", "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}


def pressed(program: str, folder: Path, url: str) -> dict[str, str]:
    """Return what each button did: ``yes``, or why the framework has none. Raises AssertionError where one failed.

    The frameworks' environments are in the folder.
    """
    needs = NAMES[program][1]
    command, at = (
        (["npx", "tsx", f"{program}.ts"], _npm_in(folder))
        if needs == "package.json"
        else ([str(_python_in(folder, needs)), f"{program}.py"], PROGRAMS)
    )
    told = {**os.environ, **_QUIET, "PYTHONPATH": str(ROOT / "service"), "SASH_URL": url, "OPENAI_API_KEY": "none"}
    done = subprocess.run(command, cwd=at, env=told, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    failed = {button: what for button, what in found.items() if what.startswith("FAILED")}
    assert not failed, "\n".join(f"{button}: {what}" for button, what in failed.items())
    return found


def row(program: str, found: Mapping[str, str]) -> str:
    """Return a program's line of the table."""
    return " | ".join([f"| {NAMES[program][0]}", *found.values()]) + " |"


def table(rows: Sequence[str], buttons: Sequence[str]) -> str:
    """Return the table's lines."""
    return "\n".join([" | ".join([HEAD[:-2], *buttons]) + " |", "| --- " * (len(buttons) + 1) + "|", *rows]) + "\n"


def written(page: str, lines: str) -> str:
    """Return the page with this table in place of the one that it has."""
    before, _, behind = page.partition(HEAD)
    rest = behind.splitlines(keepends=True)
    end = next((place for place, line in enumerate(rest) if place and not line.startswith("|")), len(rest))
    return before + lines + "".join(rest[end:])


def _python_in(folder: Path, needs: str | None) -> Path:
    """Return the Python of a program's environment, which is made where it is missing."""
    if needs is None:
        return Path(sys.executable)
    python = folder / needs / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / needs], check=True, timeout=120)
        pip = [python, "-m", "pip", "install", "-q", "-r", ROOT / "tests" / "clients" / needs]
        subprocess.run(pip, check=True, timeout=900)
    return python


def _npm_in(folder: Path) -> Path:
    """Return a folder with the programs in TypeScript and what they need."""
    at = folder / "npm"
    at.mkdir(parents=True, exist_ok=True)
    for each in (
        *PROGRAMS.glob("*.ts"),
        PROGRAMS / "package.json",
        ROOT / "service" / "sash_client" / "ts" / "sash.ts",
    ):
        shutil.copy(each, at)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=at, check=True, timeout=900)
    return at


def main(folder: Path) -> None:
    """Press every button, and write the page."""
    url = os.environ.get("SASH_URL", "http://127.0.0.1:8000")
    found = {program: pressed(program, folder, url) for program in NAMES}
    rows = [row(program, each) for program, each in found.items()]
    PAGE.write_text(written(PAGE.read_text("utf-8"), table(rows, [*found["with_streaming"]])), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
