"""README's blocks, run as they stand against ``sash serve`` and a stand-in for the provider.

Those of LangChain and the Agents SDK need thirty packages that nothing else here needs, so they have an environment of
their own, and the mark ``clients``: ``python -m pytest -m clients tests/test_readme.py``.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Served
from readme_blocks import ROOT, SERVER, block, blocks, curl, printed, readme, run, section
from readme_provider import ANSWER, TOPIC, Provider, provided

REQUIREMENTS = ROOT / "tests" / "clients" / "requirements-adapters.txt"
_NPM_SECONDS = 300
FOUND = "gradle: The Network Latency Tax, 12:10, Robertson 2"
QUESTION = {"role": "user", "content": "is there a talk about gradle?"}
THEIR_TESTS = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
NOT_THE_PROTOCOL = [
    "connection",  # the rest of this list: what their SQLite does with threads, locks, rows and commits
    "closed_rejects",
    "corrupt",
    "file_lock",
    "failed_add_items",
    "failed_clear",
    "failed_pop",
    "post_commit",
    "settings_default",  # theirs makes SessionSettings of what it is given; the protocol allows None
    "normalizes_dictionary",
    "unknown_dictionary",
]


@pytest.fixture(scope="module")
def fresh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of these tests' own, for README's ids are the same each time."""
    process = Served(tmp_path_factory.mktemp("readme") / "data")
    process.start()
    yield process.url
    process.stop()


@pytest.fixture
def provider(fresh_server: str) -> Iterator[Provider]:
    with provided(fresh_server) as provider:
        yield provider


def stored(server: str, conversation: str) -> list[dict[str, object]]:
    """The messages of a conversation, without what the provider adds to them."""
    page = httpx.get(f"{server}/conversations/{conversation}/messages").raise_for_status().json()
    return [
        {name: value for name, value in entry["message"].items() if name != "annotations" and value is not None}
        for entry in page["messages"]
    ]


def call(identity: str) -> dict[str, object]:
    return {"id": identity, "type": "function", "function": {"name": "find_talk", "arguments": TOPIC}}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl")
def test_every_curl_of_the_readme_is_answered(fresh_server: str) -> None:
    """Each shell block with curl in it, anywhere in README, succeeds."""
    found = [code for code in blocks("sh", readme()) if "curl " in code and "127.0.0.1:8000" in code]
    assert len(found) >= 2
    httpx.delete(f"{fresh_server}/conversations/talks-1")  # another test makes it too
    answers = [curl(code, server=fresh_server) for code in found]
    assert all(answers)
    first = answers[0][0]
    assert first["window"]["request"]["messages"][0]["content"].startswith("is there a talk about gradle?")
    assert first["window"]["grounding"]["documents_kept"] == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl")
def test_curl_makes_a_conversation_and_reads_its_window(fresh_server: str) -> None:
    """Create, append, window, usage: the window holds the system prompt and the question, and predicts the bill."""
    httpx.delete(f"{fresh_server}/conversations/talks-1")
    created, appended, window, usage = curl(block("sh", "### curl"), server=fresh_server)
    assert (created["id"], appended["last_seq"]) == ("talks-1", 1)
    assert window["request"]["messages"] == [{"role": "system", "content": "You know the programme."}, QUESTION]
    assert window["budget"] == 2000
    assert usage["error"] == 0


def test_the_openai_loop_goes_through_a_tool_call(fresh_server: str, provider: Provider) -> None:
    """The window goes to the SDK as it is, the call's result follows its call, and the bill is what was predicted."""
    code = block("python", "### The OpenAI SDK")
    done = run([sys.executable, "-"], code, server=fresh_server, environment=provider.environment)
    assert printed(done) == [ANSWER]
    assert [[message["role"] for message in request["messages"]] for request in provider.requests] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
    ]
    assert stored(fresh_server, "talks-2") == [
        QUESTION,
        {"role": "assistant", "tool_calls": [call("call_1")]},
        {"role": "tool", "tool_call_id": "call_1", "content": FOUND},
        {"role": "assistant", "content": ANSWER},
    ]
    known = httpx.get(f"{fresh_server}/models/gpt-4o-mini").json()["calibration"]
    assert known["n"] >= 2
    assert known["worst_error"] == 0


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node 20: apt-get install nodejs, or a newer one")
def test_javascript_needs_no_client(fresh_server: str, provider: Provider) -> None:
    """Fetch appends, sends the window, and appends the reply."""
    code = block("js", "### JavaScript and TypeScript")
    done = run(["node", "--input-type=module", "-"], code, server=fresh_server, environment=provider.environment)
    assert printed(done) == [ANSWER]
    assert provider.requests == [{"model": "gpt-4o-mini", "messages": [QUESTION]}]
    assert [message["role"] for message in stored(fresh_server, "talks-5")] == ["user", "assistant"]


@pytest.mark.clients
@pytest.mark.skipif(
    shutil.which("npm") is None, reason="needs node 20 and npm: apt-get install nodejs npm, or newer ones"
)
def test_a_typescript_client_is_generated_and_run(fresh_server: str, tmp_path: Path) -> None:
    """The section's commands, one after the other in an empty folder; the client says what the window holds."""
    text = section("### A client generated from `openapi.json`").replace(SERVER, fresh_server)
    (program,) = blocks("ts", text)
    (tmp_path / "talk.ts").write_text(program)
    commands = "\n".join(["set -e", *blocks("sh", text)])
    done = subprocess.run(
        ["sh"], input=commands, cwd=tmp_path, capture_output=True, text=True, timeout=_NPM_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[ { role: 'user', content: 'is there a talk about gradle?' } ]"


def test_the_section_names_every_adapter_that_is_shipped() -> None:
    """Each class of service/clients that has a place in a framework has one in README."""
    shown = section("## In the tools you have")
    assert [name for name in ("SashSession", "SashChatMessageHistory") if f"import {name}" not in shown] == []


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with both frameworks."""
    folder = tmp_path_factory.mktemp("adapters")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS], check=True, timeout=600)
    return python


def quiet(provider: Provider) -> dict[str, str]:
    """The frameworks' environment: the project to import, and no traces to anybody's cloud."""
    return {
        **provider.environment,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LANGSMITH_TRACING": "false",
    }


@pytest.mark.clients
def test_the_agents_sdk_runs_on_windows(fresh_server: str, provider: Provider, adapters: Path) -> None:
    """Two runs with a tool call: the second begins with the window of the first, without its reasoning and ids."""
    code = block("python", "### OpenAI Agents SDK")
    done = run([str(adapters), "-"], code, server=fresh_server, environment=quiet(provider))
    assert printed(done) == [ANSWER, ANSWER]
    assert provider.requests[-1]["input"] == [
        QUESTION,
        {"type": "function_call", "call_id": "call_1", "name": "find_talk", "arguments": TOPIC},
        {"type": "function_call_output", "call_id": "call_1", "output": FOUND},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": "and where is it?"},
    ]
    assert len(stored(fresh_server, "talks-3")) == 6


@pytest.mark.clients
def test_the_agents_sdks_own_session_tests_pass(fresh_server: str, adapters: Path, tmp_path: Path) -> None:
    """Their tests of SQLiteSession hold for ours, but for those of SQLite itself and of its constructor."""
    version = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("openai-agents=="))
    pip = [adapters, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "openai-agents"]
    subprocess.run([*pip, "--no-build-isolation", "-d", tmp_path, version], check=True, timeout=300)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    chosen = f"not ({' or '.join(NOT_THE_PROTOCOL)})"
    paths = os.pathsep.join(map(str, (ROOT / "tests", ROOT)))
    done = subprocess.run(
        [adapters, "-m", "pytest", "-q", "-p", "readme_agents_sqlite", "-k", chosen, *THEIR_TESTS],
        cwd=unpacked,
        env={**os.environ, "SASH_URL": fresh_server, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "50 passed" in done.stdout


@pytest.mark.clients
def test_langchain_chains_on_windows(fresh_server: str, provider: Provider, adapters: Path) -> None:
    """RunnableWithMessageHistory sends the window between its own prompt and the question, and stores what was said."""
    done = run([str(adapters), "-"], block("python", "### LangChain"), server=fresh_server, environment=quiet(provider))
    noise = [line for line in done.stderr.splitlines() if "LangChainDeprecationWarning" not in line]
    assert (done.returncode, noise, done.stdout.splitlines()) == (0, [], [ANSWER, ANSWER])
    assert [(message["role"], message["content"]) for message in provider.requests[-1]["messages"]] == [
        ("system", "You know the programme."),
        ("user", "is there a talk about gradle?"),
        ("assistant", ANSWER),
        ("user", "and where is it?"),
    ]
    assert len(stored(fresh_server, "talks-4")) == 4


@pytest.mark.clients
def test_langchain_messages_come_back_whole(fresh_server: str, provider: Provider, adapters: Path) -> None:
    """Every kind of message equals itself after a round trip; an id is stored once; clear forgets."""
    program = (ROOT / "tests" / "readme_langchain_roundtrip.py").read_text()
    done = run([str(adapters), "-"], program, server=fresh_server, environment=quiet(provider))
    assert printed(done) == ["whole", "once", "clear", "refused"]
