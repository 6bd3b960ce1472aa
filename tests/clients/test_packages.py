"""The three packages, built and installed in empty folders: README's programs run on them as they do here.

``python -m pytest -m clients tests/clients/test_packages.py``, with PyPI and npm as pip and npm are configured.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from clients.test_generated import needs, run
from conftest import Served
from readme_blocks import ROOT, block, printed
from readme_blocks import run as run_block
from readme_provider import ANSWER, provided

import sash

pytestmark = pytest.mark.clients

CLIENT = ROOT / "service" / "sash_client"
TYPED = "is there a talk about gradle?\nand where is it?\n\n"
_OURS = ("PYTHONPATH", "PYTHONHOME")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of both wheels, built from a copy."""
    folder = tmp_path_factory.mktemp("wheels")
    project = folder / "project"
    shutil.copytree(
        ROOT, project, ignore=shutil.ignore_patterns(".*", "__pycache__", "node_modules", "sash-data", "dist", "tests")
    )
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*pip, str(project), str(project / "service" / "sash_client")], check=True, timeout=240)
    return folder


def installed(folder: Path, *packages: str) -> Path:
    """Return the folder of an empty environment's commands, with these packages in it."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    run(folder / "bin" / "pip", "install", "-q", *packages, cwd=folder.parent, PYTHONPATH="")
    return folder / "bin"


def test_the_wheel_of_the_service(wheels: Path, tmp_path: Path) -> None:
    """The installed service serves; README's loop runs against it, and its functions run in the same environment."""
    (wheel,) = wheels.glob("sash-*.whl")
    commands = installed(tmp_path / "venv", f"{wheel}[server]", "openai", "httpx")
    process = Served(tmp_path / "data")
    process.command = [str(commands / "sash")]
    process.start()
    loop, library = (
        block("python", "README.md", heading)
        for heading in ("### Python, with the OpenAI SDK", "## In your own process")
    )
    python = [str(commands / "python"), "-P"]
    with provided(process.url) as provider:
        apart = {**provider.environment, "PYTHONPATH": ""}
        done = run_block(python, loop, server=process.url, environment=apart, typed=TYPED, cwd=tmp_path)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert len(provider.requests) == 3
    lines = printed(run_block(python, library, server=process.url, environment=apart, cwd=tmp_path))
    assert process.stop() == 0
    assert lines[0].endswith("'content': 'is there a talk about gradle?'}]")
    assert lines[0].split()[0] == lines[1]
    where = run(*python, "-c", "import sash; print(sash.__file__)", cwd=tmp_path, PYTHONPATH="")
    assert Path(where.strip()).is_relative_to(commands.parent)


def test_the_wheel_of_the_clients(wheels: Path, served: Served, tmp_path: Path) -> None:
    """README's streaming chat runs on the clients' wheel, without the service."""
    (wheel,) = wheels.glob("sash_client-*.whl")
    commands = installed(tmp_path / "venv", str(wheel), "openai", "fastapi", "httpx")
    program = block("python", "README.md", "### Streaming, with FastAPI").replace("http://127.0.0.1:8000", served.url)
    (tmp_path / "chat.py").write_text(program)
    asking = (
        "from fastapi.testclient import TestClient\nfrom chat import app\n"
        "with TestClient(app) as client:\n"
        "    answer = client.post('/chats/packed-1', json={'id': 'q-1', 'text': 'is there a talk?'})\n"
        "    print(answer.status_code, answer.headers['content-type'])\n"
    )
    with provided(served.url) as provider:
        told = run(commands / "python", "-c", asking, cwd=tmp_path, PYTHONPATH="", **provider.environment)
    assert told.strip().startswith("200 text/event-stream")
    page = httpx.get(f"{served.url}/conversations/packed-1/messages").raise_for_status().json()["messages"]
    assert [(each["message"]["role"], each.get("status")) for each in page] == [
        ("user", None),
        ("assistant", "completed"),
    ]
    alone = subprocess.run(
        [commands / "python", "-P", "-c", "import sash"], cwd=tmp_path, env=_clean(), capture_output=True, check=False
    )
    assert alone.returncode == 1


def test_the_package_of_npm(served: Served, tmp_path: Path) -> None:
    """`npm pack` alone makes a package with types; README's program runs on it in an empty folder."""
    needs("node", "npm")
    source, empty = tmp_path / "ts", tmp_path / "empty"
    shutil.copytree(CLIENT / "ts", source)
    empty.mkdir()
    quiet = ("--no-package-lock", "--no-audit", "--no-fund", "--silent")
    run("npm", "pack", "--silent", cwd=source)
    (package,) = source.glob("sash-client-*.tgz")
    assert package.name == f"sash-client-{sash.__version__}.tgz"
    program = block("ts", "README.md", "### TypeScript").replace("http://127.0.0.1:8000", served.url)
    (empty / "talk.mts").write_text(program.replace('"./sash.ts"', '"sash-client"'))
    (empty / "package.json").write_text(json.dumps({"type": "module", "private": True}))
    run("npm", "install", *quiet, package, "tsx@4.23.15", "typescript@5.9.3", "@types/node@20.19.43", cwd=empty)
    check = (
        "tsc talk.mts --noEmit --strict --target es2022 --lib es2022,dom --module nodenext --types node --skipLibCheck"
    )
    run("npx", *check.split(), cwd=empty)
    with provided(served.url) as provider:
        done = subprocess.run(
            ["npx", "tsx", "talk.mts"],
            cwd=empty,
            input=TYPED,
            env={**os.environ, **provider.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stdout.splitlines()) == (0, [ANSWER, ANSWER]), done.stdout + done.stderr
    assert {path.name for path in (empty / "node_modules" / "sash-client").iterdir()} == {
        "package.json", "sash.ts", "sash.js", "sash.d.ts",
    }  # fmt: skip


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}
