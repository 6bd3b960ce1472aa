"""The programs of the pages, run unchanged against ``sash serve`` and a stand-in for the providers.

Frameworks need dozens of packages that no other test needs, so their tests have their own environments and the mark
``clients``. Tests that need npm have the mark too: ``python -m pytest -m clients tests/test_readme.py``.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients.standins.openai_responses import OpenAI
from clients.standins.serving import serving
from conftest import serving_alone
from readme_blocks import ROOT, SERVER, block, blocks, curl, printed, read, run, section
from readme_provider import ANSWER, TOPIC, Provider, provided
from rigs import recorder
from rigs.servers import free_port

from sash.extras import how_to_install
from sash_client.ids import safe_id

REQUIREMENTS = ROOT / "tests" / "clients" / "requirements-adapters.txt"
REQUIREMENTS_LLAMA_INDEX = ROOT / "tests" / "clients" / "requirements-llama-index.txt"
REQUIREMENTS_CLAUDE_AGENT = ROOT / "tests" / "clients" / "requirements-claude-agent.txt"
REQUIREMENTS_COHERE = ROOT / "tests" / "clients" / "requirements-cohere.txt"
REQUIREMENTS_ADK = ROOT / "tests" / "clients" / "requirements-adk.txt"
_NPM_SECONDS = 300
_NPM = pytest.mark.skipif(
    shutil.which("npm") is None, reason="needs node 20 and npm: apt-get install nodejs npm, or newer ones"
)
_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl")
LLAMA_INDEX = ("service/docs/frameworks/llama-index.md", "# LlamaIndex")
MICROSOFT = ("service/docs/frameworks/agent-framework.md", "# Microsoft Agent Framework")
LANGCHAIN = ("service/docs/frameworks/langchain.md", "# LangChain and LangGraph")
PYDANTIC = ("service/docs/frameworks/pydantic-ai.md", "# Pydantic AI")
AGENTS = ("service/docs/frameworks/openai-agents.md", "# OpenAI Agents SDK")
ADK = ("service/docs/frameworks/google-adk.md", "# Google ADK")
CLIENTS = "service/sash_client/README.md"
TYPED = "is there a talk about gradle?\nand where is it?\n\n"
FOUND = "gradle: The Network Latency Tax, 12:10, Robertson 2"
QUESTION = {"role": "user", "content": "is there a talk about gradle?"}
SECOND = {"role": "user", "content": "and where is it?"}
ANSWERED = {"role": "assistant", "content": ANSWER}
SYSTEM = {"role": "system", "content": "You know the programme."}
THEIR_TESTS = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
NOT_THE_PROTOCOL = [
    "connection",  # to post_commit: what their SQLite does with threads, locks, rows and commits
    "corrupt",
    "file_lock",
    "failed_add_items",
    "failed_clear",
    "failed_pop",
    "post_commit",
    "settings_default",  # their class makes settings of None, which the protocol allows
]


@pytest.fixture(scope="module")
def fresh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server that only this file uses, because README's conversation ids never change.

    Afterwards, fail if a program was answered well for a body that the OpenAPI document does not allow.
    """
    folder = tmp_path_factory.mktemp("readme")
    recorded = folder / "requests.ndjson"
    with serving_alone(folder, **{recorder.VARIABLE: str(recorded)}) as process:
        yield process.url
    assert not recorded.exists() or recorder.check_recorded(recorded)


@pytest.fixture
def provider(fresh_server: str) -> Iterator[Provider]:
    with provided(fresh_server) as provider:
        yield provider


def stored(server: str, conversation: str) -> list[dict[str, object]]:
    """Return the messages of a conversation, without ``annotations`` and null fields."""
    page = httpx.get(f"{server}/conversations/{conversation}/messages").raise_for_status().json()
    return [
        {name: value for name, value in entry["message"].items() if name != "annotations" and value is not None}
        for entry in page["messages"]
    ]


def call(identity: str) -> dict[str, object]:
    return {"id": identity, "type": "function", "function": {"name": "find_talk", "arguments": TOPIC}}


def holds(found: Any, shown: Any) -> bool:
    """Return whether ``found`` has all of ``shown``; its objects may have more members."""
    if isinstance(shown, dict):
        return all(name in found and holds(found[name], value) for name, value in shown.items())
    if isinstance(shown, list):
        return len(found) == len(shown) and all(map(holds, found, shown))
    return bool(found == shown)


def test_both_commands_install_in_the_same_way() -> None:
    """README's two commands differ only in the lock file and in what they run last, and CI runs the second."""
    serve, tests = (code.strip() for code in blocks("sh", section("README.md", "## Two commands")))
    assert serve.replace("requirements.lock", "requirements-test.lock").removesuffix(".venv/bin/sash serve") == (
        tests.removesuffix(".venv/bin/python -m tests")
    )
    (pattern,) = re.findall(r"grep -E '([^']+)' README\.md", (ROOT / ".ci" / "run").read_text())
    assert re.findall(pattern, read("README.md"), re.MULTILINE) == [tests]


@_CURL
def test_the_first_window_is_the_one_that_is_shown(fresh_server: str) -> None:
    """The answer to the first curl has all that the page shows."""
    (answer,) = curl(block("sh", "README.md", "## A first window"), server=fresh_server)
    shown = json.loads(block("json", "README.md", "## A first window"))
    assert holds(answer, shown), json.dumps(answer, indent=1)


@_CURL
def test_a_screen_s_list_begins_a_turn(fresh_server: str) -> None:
    """The screen's list is agreed to, once however often it is sent, and the answer has the window for its question."""
    command = block("sh", "README.md", "## Your frontend has its own list? PUT it")
    (first,), (again,) = curl(command, server=fresh_server), curl(command, server=fresh_server)
    assert [len(first["messages"]), again["version"]] == [2, first["version"]]
    assert first["window"]["request"]["messages"] == [{"role": "user", "content": "is there a talk about gradle?"}]


def test_the_stand_in_serves_what_the_environment_names() -> None:
    """The page's command starts the stand-in, and the exported variables point to the stand-in's default port."""
    started, exported, *_ = blocks("sh", section("README.md", "## A chat loop"))
    shown = dict(pair.split("=", 1) for line in exported.splitlines() for pair in line.removeprefix("export ").split())
    assert shown == {
        "OPENAI_BASE_URL": "http://127.0.0.1:8001/v1",
        "OPENAI_API_KEY": "none",
    }
    program, *arguments = started.split()
    assert program == ".venv/bin/python"
    with subprocess.Popen(
        [sys.executable, *arguments, str(free_port())], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("a stand-in for the provider: http://127.0.0.1:")
        process.terminate()


@pytest.mark.parametrize(
    ("arguments", "code", "said"), [(["--help"], 0, "the port on 127.0.0.1"), (["eight"], 2, "invalid int value")]
)
def test_the_stand_in_says_how_it_is_started(arguments: list[str], code: int, said: str) -> None:
    """``--help`` tells the arguments, and a wrong one is refused in a sentence, without a traceback."""
    command = [sys.executable, "tests/readme_provider.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, said in done.stdout + done.stderr, "Traceback" in done.stderr) == (code, True, False)


def test_turn_400_has_what_turn_3_said(fresh_server: str) -> None:
    """The window after 400 turns recalls turn 3."""
    done = run(
        [sys.executable], block("python", "service/docs/agents/memory.md", "# A long memory"), server=fresh_server
    )
    assert 3 in json.loads(printed(done)[0])


def test_the_stand_in_needs_what_readme_installs() -> None:
    """The stand-in provider starts without the packages that only the tests have."""
    only_tests = ("botocore", "boto3", "ollama", "anthropic", "google.genai", "pytest", "hypothesis")
    code = (
        f"import sys; sys.path.insert(0, 'tests'); sys.modules |= dict.fromkeys({only_tests!r}); import readme_provider"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_finds_what_its_window_leaves_out(fresh_server: str) -> None:
    """The page's window names the oldest message that the model sees, and the call finds the command of the first turn."""
    done = run(
        [sys.executable],
        block("python", "service/docs/agents/history-tools.md", "# Tools that read the history"),
        server=fresh_server,
    )
    seen, *found = printed(done)
    assert "You see message 000" in seen
    assert "We restart the cart with: kubectl rollout restart deploy/cart" in found
    over_mcp = run([sys.executable], block("python", "service/docs/frameworks/mcp.md", "# MCP"), server=fresh_server)
    assert "We restart the cart with: kubectl rollout restart deploy/cart" in printed(over_mcp)


def test_each_of_several_agents_sees_its_part(fresh_server: str) -> None:
    """The page's agents see what is for them, and of others' tools what was said."""
    done = run(
        [sys.executable],
        block("python", "service/docs/agents/several-agents.md", "# Several agents"),
        server=fresh_server,
    )
    asked, told = "Why was I billed twice?", "Invoice 7 was paid twice. Billing takes over."
    assert printed(done) == [
        f"billing {[asked, told, 'assistant', 'refunded']}",
        f"triage {[asked, 'assistant', '4 invoices of 2 pages each', told, 'The risk is low.']}",
        f"user {[asked, told]}",
    ]


def test_the_openai_loop_goes_through_a_tool_call(fresh_server: str, provider: Provider) -> None:
    """The SDK sends each window; a tool result follows its call, and the second question comes with the first turn."""
    code = block("python", "README.md", "### Python, with the OpenAI SDK")
    done = run([sys.executable], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert [[message["role"] for message in request["messages"]] for request in provider.requests] == [
        ["system", "user"],
        ["system", "user", "assistant", "tool"],
        ["system", "user", "assistant", "tool", "assistant", "user"],
    ]
    assert stored(fresh_server, "talks-1") == [
        QUESTION,
        {"role": "assistant", "tool_calls": [call("call_1")]},
        {"role": "tool", "tool_call_id": "call_1", "content": FOUND},
        ANSWERED,
        SECOND,
        ANSWERED,
    ]


def test_the_claude_loop_sends_windows_and_reports_the_bill(fresh_server: str, provider: Provider) -> None:
    """The SDK sends windows in Anthropic's format; both turns are stored, and both bills calibrate the model."""
    code = block("python", "service/docs/providers/anthropic.md", "# Claude, with the Anthropic SDK")
    done = run([sys.executable], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert [[message["role"] for message in request["messages"]] for request in provider.requests] == [
        ["user"],
        ["user", "assistant", "user"],
    ]
    told = [(message["role"], words_of(message["content"])) for message in stored(fresh_server, "talks-3")]
    assert told == [(message["role"], message["content"]) for message in (QUESTION, ANSWERED, SECOND, ANSWERED)]
    assert httpx.get(f"{fresh_server}/models/claude-sonnet-5").json()["calibration"]["n"] == 2


def test_the_responses_loop_sends_windows(fresh_server: str, provider: Provider) -> None:
    """The SDK sends windows of items, and both turns are stored."""
    code = block("python", "service/docs/providers/openai.md", "# OpenAI, with its SDK")
    done = run([sys.executable], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    sent = [[item.get("role") for item in request["input"] if "role" in item] for request in provider.requests]
    assert sent == [["user"], ["user", "assistant", "user"]]
    told = [(message["role"], words_of(message["content"])) for message in stored(fresh_server, "talks-15")]
    assert told == [(message["role"], message["content"]) for message in (QUESTION, ANSWERED, SECOND, ANSWERED)]


def test_the_gemini_loop_sends_windows_and_reports_the_bill(fresh_server: str, provider: Provider) -> None:
    """The SDK sends windows of contents; both turns are stored, and both bills calibrate the model."""
    code = block("python", "service/docs/providers/gemini.md", "# Gemini, with the Google GenAI SDK")
    done = run([sys.executable], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert [[content["role"] for content in request["contents"]] for request in provider.requests] == [
        ["user"],
        ["user", "model", "user"],
    ]
    told = [(message["role"], words_of(message["content"])) for message in stored(fresh_server, "talks-16")]
    assert told == [(message["role"], message["content"]) for message in (QUESTION, ANSWERED, SECOND, ANSWERED)]
    assert httpx.get(f"{fresh_server}/models/gemini-3-flash").json()["calibration"]["n"] == 2


def test_the_bedrock_loop_sends_windows_and_reports_the_bill(fresh_server: str, provider: Provider) -> None:
    """boto3 sends windows in the form of Converse; both turns are stored, and both bills calibrate the model."""
    code = block("python", "service/docs/providers/bedrock.md", "# Amazon Bedrock, with boto3")
    keys = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}  # boto3 takes a bearer token for https alone
    environment = {name: value for name, value in provider.environment.items() if "BEARER" not in name}
    done = run([sys.executable], code, server=fresh_server, environment=environment | keys, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert [[message["role"] for message in request["messages"]] for request in provider.requests] == [
        ["user"],
        ["user", "assistant", "user"],
    ]
    told = [(message["role"], message["content"]) for message in stored(fresh_server, "talks-9")]
    assert told == [(message["role"], message["content"]) for message in (QUESTION, ANSWERED, SECOND, ANSWERED)]
    model = httpx.get(f"{fresh_server}/models/us.anthropic.claude-sonnet-4-5-20250929-v1:0").json()
    assert model["calibration"]["n"] == 2


def test_the_ollama_loop_sends_windows(fresh_server: str, provider: Provider) -> None:
    """The client for Ollama sends windows in its form; both turns are stored."""
    code = block("python", "service/docs/providers/ollama.md", "# Ollama")
    done = run([sys.executable], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert stored(fresh_server, "talks-10") == [QUESTION, ANSWERED, SECOND, ANSWERED]


@pytest.mark.clients
def test_the_cohere_loop_sends_windows_and_reports_the_bill(
    fresh_server: str, provider: Provider, with_cohere: Path
) -> None:
    """Cohere's SDK sends windows in its form; both turns are stored, and both bills calibrate the model."""
    code = block("python", "service/docs/providers/cohere.md", "# Cohere, with its SDK")
    done = run([str(with_cohere)], code, server=fresh_server, environment=provider.environment, typed=TYPED)
    assert printed(done) == [f"> {ANSWER}", f"> {ANSWER}", "> "]
    assert [[message["role"] for message in request["messages"]] for request in provider.requests] == [
        ["user"],
        ["user", "assistant", "user"],
    ]
    told = [(message["role"], words_of(message["content"])) for message in stored(fresh_server, "talks-17")]
    assert told == [(message["role"], message["content"]) for message in (QUESTION, ANSWERED, SECOND, ANSWERED)]
    assert httpx.get(f"{fresh_server}/models/command-a-03-2025").json()["calibration"]["n"] == 2


@pytest.fixture(params=["an empty folder", "the project's root"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder in which a page's program runs: an empty one, and a copy of the project."""
    folder = tmp_path / "talks"
    if request.param == "an empty folder":
        folder.mkdir()
    else:
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "node_modules", "sash-data"))
    return folder


@pytest.mark.clients
@_NPM
@_CURL
def test_the_typescript_loop_runs_as_it_says(fresh_server: str, provider: Provider, anywhere: Path) -> None:
    """The page's program and command stream two answers, in an empty folder and in the project's root."""
    httpx.delete(f"{fresh_server}/conversations/talks-2")
    text = section("README.md", "### TypeScript").replace(SERVER, fresh_server)
    (program,), (command,) = blocks("ts", text), blocks("sh", text)
    (anywhere / "talk.mts").write_text(program)
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=anywhere,
        input=TYPED,
        env={**os.environ, **provider.environment},
        capture_output=True,
        text=True,
        timeout=_NPM_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (0, [ANSWER, ANSWER]), done.stdout + done.stderr
    assert provider.requests == [
        {"model": "gpt-4o-mini", "stream": True, "messages": [QUESTION]},
        {"model": "gpt-4o-mini", "stream": True, "messages": [QUESTION, ANSWERED, SECOND]},
    ]
    assert stored(fresh_server, "talks-2") == [QUESTION, ANSWERED, SECOND, ANSWERED]


@pytest.mark.clients
@_NPM
def test_a_typescript_client_is_generated_and_run(fresh_server: str, tmp_path: Path) -> None:
    """The section's commands run in order in a new folder, and the generated client prints the window's messages."""
    text = section(CLIENTS, "## A generated client").replace(SERVER, fresh_server)
    (program,) = blocks("ts", text)
    (tmp_path / "talk.ts").write_text(program)
    commands = "\n".join(["set -e", *blocks("sh", text)])
    done = subprocess.run(
        ["sh"], input=commands, cwd=tmp_path, capture_output=True, text=True, timeout=_NPM_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[ { role: 'user', content: 'is there a talk about gradle?' } ]"


def words_of(content: str | list[dict[str, str]]) -> str:
    """Return a message's text, which is a string or a list of parts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_the_page_names_every_adapter_that_is_shipped() -> None:
    """The page of frameworks names each class of service/sash_client that plugs into one."""
    text = read("service/docs/frameworks/README.md")
    assert [
        name
        for path in (ROOT / "service" / "sash_client").glob("*.py")
        for name in re.findall(
            r"^class (Sash\w+)\(\w+(?:\[.*\])?\):|^class (SashSession)\w*:", path.read_text(), re.MULTILINE
        )
        if "".join(name) not in text
    ] == []


def test_the_adapters_need_httpx2_alone() -> None:
    """The Agents SDK's adapter imports without the service and its packages; the command ``sash`` names a missing one."""
    blocked = ["sash", "msgspec", "numpy", "litestar", "granian", "redis", "click", "structlog", "tiktoken", "toktok"]
    program = f"""import sys
sys.modules |= dict.fromkeys({blocked})
from sash_client.agents import SashSession
SashSession("s")
del sys.modules["sash"]
from sash.__main__ import main
main()"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"sash: click is not installed: {how_to_install('server')}\n"


def test_an_agent_goes_on_behind_a_huge_result(fresh_server: str, tmp_path: Path) -> None:
    """The page's loop gets two windows within 4,000 tokens, and the second one has all five messages."""
    code = block("python", "service/docs/agents/tool-results.md", "# Huge tool results")
    done = run([sys.executable, "-"], code.replace(SERVER, fresh_server), server=fresh_server, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert int(first.split()[0]) <= 4000 < int(first.split()[2])
    assert second.startswith("5 messages,")
    assert int(second.split()[2]) <= 4000


def test_a_compaction_begins_the_next_window(fresh_server: str, tmp_path: Path) -> None:
    """The page's window has the reply with the compaction and the new question."""
    code = block("python", "service/docs/agents/compaction.md", "# A provider's own compaction")
    done = run([sys.executable, "-"], code.replace(SERVER, fresh_server), server=fresh_server, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 messages, ")


def sash(code: str) -> str:
    """Return a shell block in which ``sash`` runs this checkout."""
    told = f'sash() {{ {sys.executable} -m sash "$@"; }}\nset -eu\nexport PYTHONPATH={ROOT / "service"}\n'
    return told + code.replace(".venv/bin/python", sys.executable).replace(".venv/bin/sash", "sash")


def test_the_pure_commands_take_a_file(tmp_path: Path) -> None:
    """On a pipe, the window, the count and the count of a text are printed as JSON."""
    (tmp_path / "chat.json").write_text(json.dumps([QUESTION]))
    (tmp_path / "prompt.txt").write_text("is there a talk about gradle?")
    code = block("sh", "service/sash/commands/README.md", "## Windows and counts of a file")
    done = run(["sh"], sash(code), server=SERVER, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    decoder, text, answers = json.JSONDecoder(), done.stdout.strip(), []
    while text:
        answer, end = decoder.raw_decode(text)
        answers.append(answer)
        text = text[end:].strip()
    window, count, plain = answers
    assert (window["request"]["messages"], len(window["explain"])) == ([QUESTION], 1)
    assert count["tokens"] == window["tokens"]["total"]
    assert plain["text"] == 8


def test_a_conversation_flows_in_to_be_watched(fresh_server: str, tmp_path: Path) -> None:
    """The page's command imports all 80 messages, here with a shorter interval."""
    code = block("sh", "service/sash/commands/README.md", "## Watching a window move")
    assert "--every 0.5" in code
    quick = code.replace("--every 0.5", f"--every 0.001 --url {fresh_server}")
    done = run(["sh"], sash(quick), server=fresh_server, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 80


def environment(folder: Path, requirements: Path) -> Path:
    """Make an environment with the packages of a requirements file, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True, timeout=600)
    return python


@pytest.fixture(scope="session")
def adapters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with LangChain, Pydantic AI and the Agents SDK."""
    return environment(tmp_path_factory.mktemp("adapters"), REQUIREMENTS)


@pytest.fixture(scope="session")
def with_llama_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with LlamaIndex and Microsoft Agent Framework."""
    return environment(tmp_path_factory.mktemp("llama-index"), REQUIREMENTS_LLAMA_INDEX)


@pytest.fixture(scope="session")
def with_adk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the Google ADK, whose versions conflict with the other frameworks'."""
    return environment(tmp_path_factory.mktemp("adk"), REQUIREMENTS_ADK)


@pytest.fixture(scope="session")
def with_claude_agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with the Claude Agent SDK."""
    return environment(tmp_path_factory.mktemp("claude-agent"), REQUIREMENTS_CLAUDE_AGENT)


@pytest.fixture(scope="session")
def with_cohere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with Cohere's SDK."""
    return environment(tmp_path_factory.mktemp("cohere"), REQUIREMENTS_COHERE)


_ALONE = {
    "PYTHONPATH": str(ROOT / "service"),
    "PYTHONWARNINGS": "ignore",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
}
"""Environment variables of the frameworks: they import this project and send no traces."""


def quiet(provider: Provider) -> dict[str, str]:
    """Return the frameworks' variables and those that point SDKs to the provider."""
    return {**provider.environment, "OPENAI_API_BASE": provider.environment["OPENAI_BASE_URL"], **_ALONE}


@pytest.mark.clients
def test_the_agents_sdk_runs_on_windows(fresh_server: str, provider: Provider, adapters: Path) -> None:
    """The second run sends the window of the first, with its tool call, reasoning and ids."""
    code = block("python", *AGENTS)
    done = run([str(adapters), "-"], code, server=fresh_server, environment=quiet(provider))
    assert printed(done) == [ANSWER, ANSWER]
    sent = provider.requests[-1]["input"]
    assert [(item.get("type", "message"), item.get("id")) for item in sent] == [
        ("message", None),
        ("reasoning", "rs_1"),
        ("function_call", "fc_1"),
        ("function_call_output", None),
        ("reasoning", "rs_2"),
        ("message", "msg_2"),
        ("message", None),
    ]
    assert (sent[0], sent[3]["output"], sent[-1]["content"]) == (QUESTION, FOUND, "and where is it?")
    assert len(stored(fresh_server, "talks-6")) == 6


@pytest.mark.clients
def test_the_agents_sdk_is_never_refused(fresh_server: str, adapters: Path) -> None:
    """In 80 runs with calls and reasoning, stored by the provider or not, no request is refused and no item is lost."""
    code = (ROOT / "tests" / "clients" / "adapters" / "with_agents.py").read_text()
    with serving(OpenAI(window_tokens=3500)) as url:
        environment = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", **_ALONE}
        done = run([str(adapters), "-"], code, server=fresh_server, environment=environment)
    assert printed(done) == ["no request was refused", "refused 422", "items come back"]


@pytest.mark.clients
def test_the_agents_sdks_own_session_tests_pass(fresh_server: str, adapters: Path, tmp_path: Path) -> None:
    """The SDK's tests of SQLiteSession pass for SashSession, except those of SQLite itself and of its constructor."""
    version = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("openai-agents=="))
    pip = [adapters, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "openai-agents"]
    subprocess.run([*pip, "--no-build-isolation", "-d", tmp_path, version], check=True, timeout=300)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    chosen = f"not ({' or '.join(NOT_THE_PROTOCOL)})"
    paths = os.pathsep.join(map(str, (ROOT / "tests", ROOT / "service")))
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
    assert "53 passed" in done.stdout


TOOL_LOOP = [
    ("system", "You know the programme."),
    ("user", "is there a talk about gradle?"),
    ("assistant", None),
    ("tool", FOUND),
    ("assistant", ANSWER),
    ("user", "and where is it?"),
]


@pytest.mark.clients
@pytest.mark.parametrize(
    ("page", "conversation", "fixture"),
    [
        (LANGCHAIN, "talks-7", "adapters"),
        (PYDANTIC, "talks-9", "adapters"),
        (LLAMA_INDEX, "talks-12", "with_llama_index"),
        (MICROSOFT, "talks-13", "with_llama_index"),
    ],
)
def test_an_agent_of_chat_completions_runs_on_windows(
    fresh_server: str,
    provider: Provider,
    request: pytest.FixtureRequest,
    page: tuple[str, str],
    conversation: str,
    fixture: str,
) -> None:
    """The second run sends the agent's prompt and then the window of the first, including its tool call."""
    python = str(request.getfixturevalue(fixture))
    done = run([python, "-"], block("python", *page), server=fresh_server, environment=quiet(provider))
    assert printed(done) == [ANSWER, ANSWER]
    sent = provider.requests[-1]["messages"]
    assert [(message["role"], message.get("content") or None) for message in sent] == TOOL_LOOP
    assert len(stored(fresh_server, conversation)) == 6


@pytest.mark.clients
def test_the_adk_runs_on_windows(fresh_server: str, provider: Provider, with_adk: Path) -> None:
    """The second run sends the window of the first, with call and result; the user owns one conversation of six events."""
    done = run([str(with_adk), "-"], block("python", *ADK), server=fresh_server, environment=quiet(provider))
    assert printed(done) == [ANSWER, ANSWER]
    sent = provider.requests[-1]["contents"]
    assert [(content["role"], next(iter(content["parts"][0]))) for content in sent] == [
        ("user", "text"),
        ("model", "functionCall"),
        ("user", "functionResponse"),
        ("model", "text"),
        ("user", "text"),
    ]
    owned = httpx.get(f"{fresh_server}/conversations", params={"owner": safe_id("talks/ann")}).json()["conversations"]
    assert [each["messages"]["count"] for each in owned] == [6]


@pytest.mark.clients
@_NPM
def test_the_vercel_sdk_runs_on_windows(fresh_server: str, provider: Provider, tmp_path: Path) -> None:
    """The section's commands run in a new folder, and its program passes the compiler and sends the tool loop."""
    text = section("service/docs/frameworks/ai-sdk.md", "# AI SDK").replace(SERVER, fresh_server)
    (tmp_path / "agent.ts").write_text(blocks("ts", text)[0])
    options = "--noEmit --strict --skipLibCheck --module nodenext --target es2023 --allowImportingTsExtensions"
    commands = "\n".join(["set -e", *blocks("sh", text), f"npx tsc {options} agent.ts", "npx tsx agent.ts"])
    done = subprocess.run(
        ["sh"],
        input=commands,
        cwd=tmp_path,
        env={**os.environ, **provider.environment},
        capture_output=True,
        text=True,
        timeout=_NPM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == [ANSWER, ANSWER]
    sent = [item for item in provider.requests[-1]["input"] if item.get("type") != "reasoning"]
    assert [item.get("role") or item["type"] for item in sent] == [
        "system",
        "user",
        "function_call",
        "function_call_output",
        "assistant",
        "user",
    ]
    assert len(stored(fresh_server, "talks-11")) == 6


ADAPTED = {
    "with_langchain": [
        "a tool loop",
        "the next run, on another machine",
        "only what is new, and only what fits",
        "regenerated and edited",
        "refused",
    ],
    "with_pydantic_ai": [
        "a tool loop",
        "the next run, on another machine",
        "only what is new, and only what fits",
        "refused",
        "refused",
    ],
    "with_llama_index": [
        "a tool loop",
        "the next run, on another machine",
        "only what fits, and nothing after a reset",
        "a chat engine",
        "refused",
        "VideoBlock",
    ],
    "with_agent_framework": [
        "a tool loop",
        "a picture",
        "only what fits, on another machine too",
        "refused",
        "Name a conversation, or run the agent with a session.",
    ],
    "with_adk": [
        "events and state",
        "the last events",
        "the events of a window",
        "several sessions",
        "there already",
        "Sash lists the sessions of one user",
        "gone",
        "refused",
        "still running",
        "still running",
    ],
    "with_claude_agent": ["the contract's suite", "a transcript, and a window of its words"],
}


@pytest.mark.clients
@pytest.mark.parametrize("program", ADAPTED)
def test_an_adapter_gives_back_what_its_framework_added(
    fresh_server: str, provider: Provider, request: pytest.FixtureRequest, program: str
) -> None:
    """Each adapter's program passes its checks: of round trips, of windows and of refusals."""
    fixture = {
        "with_adk": "with_adk",
        "with_claude_agent": "with_claude_agent",
        "with_llama_index": "with_llama_index",
        "with_agent_framework": "with_llama_index",
    }
    python = request.getfixturevalue(fixture.get(program, "adapters"))
    code = (ROOT / "tests" / "clients" / "adapters" / f"{program}.py").read_text()
    done = run([str(python), "-"], code, server=fresh_server, environment=quiet(provider))
    assert printed(done) == ADAPTED[program]
