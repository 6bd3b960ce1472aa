"""Tests clients that are generated from openapi.json: each compiles in its language and talks to a running service.

Each program beside this file has the same conversation and prints its results as one JSON object. These tests are slow and
need npm and PyPI: ``python -m pytest -m clients tests/clients/test_generated.py``.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Served

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
CONTRACT = HERE.parent.parent / "openapi.json"
GENERATOR = "openapi-generator-cli==7.26.0"
KEY = "a-key-for-generated-clients"
_PACKAGES = {
    "node": "nodejs",
    "npm": "npm",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
MOST_GO_LINES = 42_000
SAW = {
    "created": 1,
    "appended": [1, 2, 3],
    "total": 76,
    "roles": ["system", "user", "assistant", "tool call-1"],
    "claude": ["user", "assistant", "user"],
    "status": 422,
    "near": True,
    "page": [3, 2],
    "more": True,
    "erased": 204,
}


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Return a command's output; if the command fails, fail the test and show the end of its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def needs(*programs: str) -> None:
    """Skip the test if a program is not installed, and name the packages to install."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        packages = " ".join(dict.fromkeys(_PACKAGES[program] for program in missing))
        pytest.skip(f"needs {' and '.join(missing)}: apt-get install {packages}")


def told(output: str) -> Any:
    """Return the JSON object in the last line of a program's output."""
    return json.loads(output.strip().splitlines()[-1])


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the TypeScript program, with its tools installed and its types generated."""
    needs("node", "npm")
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(HERE / "typescript", folder, dirs_exist_ok=True)
    shutil.copy(CONTRACT, folder)
    run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    run("npm", "run", "generate", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a program: the address of a service that requires keys, and a key."""
    served = Served(tmp_path_factory.mktemp("keyed") / "data", SASH_API_KEYS=f"clients:{KEY}")
    served.start()
    yield {"SASH_URL": served.url, "SASH_API_KEY": KEY}
    served.stop()


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jar of openapi-generator, from its wheel on PyPI; it contains the Jackson that its Java clients need."""
    needs("java")
    folder = tmp_path_factory.mktemp("generator")
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", ".", GENERATOR, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("openapi_generator_cli/openapi-generator.jar", folder))


def generate(jar: Path, language: str, into: Path) -> None:
    command = ["java", "-Xmx1g", "-jar", jar, "generate", "-i", CONTRACT, "-c", HERE / language / "config.yaml"]
    run(*command, "-o", into, cwd=jar.parent)


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The go command: the installed one, or Debian's Go 1.19, unpacked without installation."""
    if found := shutil.which("go"):
        return Path(found)
    needs("apt-get", "dpkg-deb")
    folder = tmp_path_factory.mktemp("golang")
    packages = ["golang-1.19-go", "golang-1.19-src"]
    if subprocess.run(["apt-get", "download", *packages], cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip(f"needs go; Debian's {' and '.join(packages)} cannot be downloaded here")
    for package in folder.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder, cwd=folder)
    return folder / "usr/lib/go-1.19/bin/go"


def test_the_document_lints(node: Path) -> None:
    """Redocly's recommended rules find no error in openapi.json."""
    found = json.loads(run("npm", "run", "--silent", "lint", "--", "--format", "json", cwd=node))
    assert found["totals"]["errors"] == 0


def test_typescript(node: Path, keyed: dict[str, str]) -> None:
    """A client of openapi-typescript and openapi-fetch passes its type checks, wrong calls included, and runs on Node."""
    run("npm", "run", "check", cwd=node)
    assert told(run("node", "built/talk.js", cwd=node, **keyed)) == SAW


def test_python(tmp_path: Path, keyed: dict[str, str]) -> None:
    """openapi-python-client generates a client without a warning; its program passes mypy and runs."""
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    binaries = tmp_path / "venv/bin"
    run(binaries / "pip", "install", "--quiet", "-r", HERE / "python/requirements.txt", cwd=tmp_path)
    options = ["--config", HERE / "python/config.yaml", "--output-path", "sash_client", "--meta", "none"]
    path = f"{binaries}:{os.environ['PATH']}"
    run(
        binaries / "openapi-python-client",
        "generate",
        "--path",
        CONTRACT,
        *options,
        "--fail-on-warning",
        cwd=tmp_path,
        PATH=path,
    )
    shutil.copy(HERE / "python/talk.py", tmp_path)
    checked = ["--strict", "--follow-imports=silent", "--python-executable", binaries / "python", "talk.py"]
    run(sys.executable, "-m", "mypy", *checked, cwd=tmp_path)
    assert told(run(binaries / "python", "talk.py", cwd=tmp_path, **keyed)) == SAW


def test_java(tmp_path: Path, jar: Path, keyed: dict[str, str]) -> None:
    """openapi-generator's Java client compiles against the generator's own Jackson, and runs."""
    needs("javac")
    generate(jar, "java", tmp_path / "generated")
    sources = [*(tmp_path / "generated/src/main/java").rglob("*.java"), *(HERE / "java").rglob("*.java")]
    (tmp_path / "sources").write_text("\n".join(f'"{source}"' for source in sources))
    run("javac", "-nowarn", "-cp", jar, "-d", "built", "@sources", cwd=tmp_path)
    assert told(run("java", "-cp", f"built:{jar}", "Talk", cwd=tmp_path, **keyed)) == SAW


def test_go(tmp_path: Path, jar: Path, go: Path, keyed: dict[str, str]) -> None:
    """openapi-generator's Go client passes ``go vet``, compiles, and runs. It has half the lines that it once had."""
    generate(jar, "go", tmp_path / "generated")
    (tmp_path / "sash").mkdir()
    for source in (tmp_path / "generated").glob("*.go"):
        shutil.copy(source, tmp_path / "sash")
    shutil.copy(HERE / "go/main.go", tmp_path)
    shutil.copytree(HERE / "go/validator", tmp_path / "validator")
    needed = "require gopkg.in/validator.v2 v2.0.1\n\nreplace gopkg.in/validator.v2 => ./validator\n"
    (tmp_path / "go.mod").write_text(f"module talk\n\ngo 1.19\n\n{needed}")
    lines = sum(len(source.read_bytes().splitlines()) for source in (tmp_path / "sash").glob("*.go"))
    assert lines < MOST_GO_LINES
    alone = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOCACHE": str(tmp_path / "cache"), "GOTOOLCHAIN": "local"}
    run(go, "vet", "./...", cwd=tmp_path, **alone)
    run(go, "build", "-o", "talk", ".", cwd=tmp_path, **alone)
    assert told(run(tmp_path / "talk", cwd=tmp_path, **keyed)) == SAW
