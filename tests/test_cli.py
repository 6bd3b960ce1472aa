"""The command line: help, exit statuses, tables on a terminal, JSON on a pipe."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result
from conftest import ROOT

from sash import __version__
from sash.cli import main
from sash.core.law.records.parameters import WindowQuery
from sash.settings import GROUPS, VARIABLES
from sash.windows.stateless import window_of_request

SASH = [sys.executable, "-m", "sash"]
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which tables are free tonight?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "seven"},
    {"role": "user", "content": "[bold]Book[/bold] one\nfor two."},
]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]


def sash(*arguments: str, given: str | bytes | None = None, **environment: str) -> Result:
    """Run a command in this process, with a pipe as standard output."""
    return CliRunner().invoke(main, arguments, input=given, env=environment, catch_exceptions=False)


def answer(*arguments: str, given: str | bytes | None = None) -> Any:
    """Run a command that must succeed, and return its decoded JSON output."""
    result = sash(*arguments, given=given)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def chat(tmp_path: Path) -> str:
    """A file with a list of chat messages."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    return str(path)


def test_version_is_the_packages() -> None:
    """``--version`` names the program and its version."""
    assert f"sash, version {__version__}\n" == sash("--version").stdout


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_command_has_help(command: str) -> None:
    """``--help`` of each command exits with status 0 and prints more than five lines."""
    result = sash(command, "--help")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) > 5


def test_an_unknown_command_is_a_usage_error() -> None:
    """An unknown command exits with status 2 and is named on standard error."""
    result = sash("widow")
    assert result.exit_code == 2
    assert "No such command 'widow'" in result.stderr


# ---- window


def test_window_has_every_parameter_as_an_option() -> None:
    """``sash window`` has an option for each parameter of ``GET …/window``, with the same name and choices."""
    options = {parameter.name: parameter for parameter in main.commands["window"].params}
    assert all(f"--{name.replace('_', '-')}" in options[name].opts for name in WindowQuery.__struct_fields__)
    for field in msgspec.structs.fields(WindowQuery):
        option = options[field.name]
        choices = getattr(field.type, "__args__", ())
        if choices and all(isinstance(choice, str) for choice in choices):
            assert isinstance(option.type, click.Choice)
            assert list(choices) == list(option.type.choices)


def test_window_on_a_pipe_is_what_the_service_answers(chat: str) -> None:
    """On a pipe, ``sash window`` prints a window as JSON: request, dropped messages and budget."""
    window = answer("window", chat, "--model", "gpt-4o-mini", "--max-tokens", "50")
    assert window["request"]["messages"] == [CHAT[0], *CHAT[2:]]
    assert window["dropped"]["messages"] == 1
    assert window["budget"] == 50


def test_a_post_window_body_is_a_file_too_and_options_win() -> None:
    """Parameters in the file apply unless an option overrides them."""
    body = {"model": "gpt-4o", "reserve": 500, "limit": 1, "system": "No.", "tools": TOOLS, "messages": CHAT[4:]}
    window = answer("window", "-", "--reserve", "100", given=json.dumps(body))
    assert (window["model"], window["reserve"]) == ("gpt-4o", 100)
    assert answer("window", "-", given=json.dumps(body))["reserve"] == 500
    assert window["request"]["messages"] == [{"role": "system", "content": "No."}, CHAT[4]]
    assert window["request"]["tools"] == TOOLS


def test_tools_and_system_may_come_from_options(chat: str, tmp_path: Path) -> None:
    """``--tools`` reads an object with a list of tools, ``--system`` takes a text, and the window counts both."""
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps({"tools": TOOLS}))
    window = answer("window", chat, "--model", "gpt-4o", "--tools", str(tools), "--system", "Hello.")
    assert window["request"]["tools"] == TOOLS
    assert window["request"]["messages"] == [{"role": "system", "content": "Hello."}, *CHAT]
    body = {"model": "gpt-4o", "system": "Hello.", "tools": TOOLS, "messages": CHAT}
    assert window["tokens"] == answer("window", "-", given=json.dumps(body))["tokens"]
    plain = answer("window", chat, "--model", "gpt-4o")["tokens"]
    assert (plain["tools"], plain["system"]) == (0, 0)
    assert window["tokens"]["total"] == plain["total"] + window["tokens"]["tools"] + window["tokens"]["system"]
    assert min(window["tokens"]["tools"], window["tokens"]["system"]) > 0


def test_explain_is_a_line_a_message(chat: str) -> None:
    """``--explain`` says for each message whether the window keeps it."""
    window = answer("window", chat, "--model", "gpt-4o-mini", "--max-tokens", "50", "--explain")
    assert [line["kept"] for line in window["explain"]] == [True, False, True, True, True]


def test_the_table_shows_figures_and_reasons(chat: str) -> None:
    """``--table`` shows how many messages are left out and, with ``--explain``, each message; brackets stay text."""
    shown = sash("window", chat, "--model", "gpt-4o-mini", "--max-tokens", "50", "--explain", "--table", COLUMNS="120")
    assert shown.exit_code == 0
    assert "left out   1 messages" in shown.stdout
    assert "does not fit" in shown.stdout
    assert "[bold]Book[/bold] one for two." in shown.stdout
    assert "look(…)" in shown.stdout


def test_one_of_several_conversations_is_chosen_by_id() -> None:
    """A file with several conversations needs ``--conversation``; an unknown id is an error."""
    lines = "\n".join(json.dumps({"id": name, "messages": CHAT[:2]}) for name in ("a", "b"))
    arguments = ("window", "-", "--model", "gpt-4o")
    assert "holds 2 conversations (a, b, …)" in sash(*arguments, given=lines).stderr
    assert answer(*arguments, "--conversation", "b", given=lines)["kept"]["messages"] == 2
    assert "holds no conversation c" in sash(*arguments, "--conversation", "c", given=lines).stderr


def test_own_models_are_known(chat: str, tmp_path: Path) -> None:
    """``--models-file`` adds models, and an error in the file is reported."""
    models = tmp_path / "models.toml"
    models.write_text('[models."mine"]\ncontext_window = 5000\nlike = "gpt-4o"\n')
    window = answer("window", chat, "--model", "mine", "--models-file", str(models))
    assert window["context_window"] == 5000
    models.write_text("[models.mine]\n")
    assert (
        "models.toml', which cannot be used: model 'mine'"
        in sash("window", chat, "--model", "mine", "--models-file", str(models)).stderr
    )


def test_a_vocabulary_that_is_none_is_one_line(chat: str, tmp_path: Path) -> None:
    """A broken file in SASH_TOKENIZERS is named, as at the start of the service."""
    folder = tmp_path / "vocabularies"
    folder.mkdir()
    (folder / "llama.json").write_text("broken")
    refused = sash("count", chat, "--model", "llama-3.3-70b", SASH_TOKENIZERS=str(folder))
    assert "llama.json cannot be read as a vocabulary" in refused.stderr


@pytest.mark.parametrize(
    ("given", "arguments", "said"),
    [
        ("[", ["--model", "gpt-4o"], "not JSON"),
        ("", ["--model", "gpt-4o"], "is empty"),
        ("7", ["--model", "gpt-4o"], "not messages or conversations"),
        ("{}", ["--model", "gpt-4o"], "an object without messages"),
        ('[{"content": "x"}]', ["--model", "gpt-4o"], "element 1 is no chat message"),
        ('[{"role": "robot", "content": "x"}]', ["--model", "gpt-4o"], "Invalid value 'robot'"),
        (
            '[{"role": "tool", "content": "x", "tool_call_id": "a"}]',
            ["--model", "gpt-4o"],
            "No tool call of this conversation",
        ),
        ('[{"role": "user", "content": "x"}]', ["--model", "gtp-4o"], "did you mean 'gpt-4o"),
        ('[{"role": "user", "content": "x"}]', ["--model", "gpt-4o", "--max-tokens", "5"], "over."),
        ('{"messages": [{"role": "user", "content": "x"}], "modle": "x"}', [], "a window has no parameter 'modle'"),
        ('{"messages": [{"role": "user", "content": "x"}], "limit": -1}', ["--model", "gpt-4o"], "limit"),
        ("[" * 200, ["--model", "gpt-4o"], "nests too deep"),
        (b'["\xff"]', ["--model", "gpt-4o"], "not UTF-8"),
    ],
)
def test_what_a_user_gets_wrong_is_one_line(given: str | bytes, arguments: list[str], said: str) -> None:
    """Wrong input exits with status 1 and prints one line that begins with Error."""
    result = sash("window", "-", *arguments, given=given)
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith("Error: ")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["window", "--model", "gpt-4o"], "use POST /window?format=gemini to"),
        (["count", "--model", "gpt-4o"], "use POST /count?format=gemini to"),
        (["import"], "use --format=gemini to"),
    ],
)
def test_a_providers_message_names_the_way_that_takes_it(command: list[str], said: str) -> None:
    """A provider's own message is refused with the option or the call that takes it."""
    result = sash(command[0], "-", *command[1:], given='[{"role": "user", "parts": [{"text": "Hi"}]}]')
    assert result.exit_code == 1
    assert said in result.stderr


@pytest.mark.parametrize("command", ["window", "count"])
def test_no_model_is_a_usage_error(command: str, chat: str) -> None:
    """A missing model exits with status 2 and a message that shows ``--model``."""
    result = sash(command, chat)
    assert result.exit_code == 2
    assert "--model gpt-4o-mini" in result.stderr


@pytest.mark.parametrize("command", ["window", "count"])
def test_a_missing_file_is_one_line(command: str, tmp_path: Path) -> None:
    """A missing file exits with status 1 and a message with its name and the reason."""
    result = sash(command, str(tmp_path / "none.json"), "--model", "gpt-4o")
    assert result.exit_code == 1
    assert "none.json: No such file or directory" in result.stderr


# ---- count


def test_count_on_a_pipe_is_what_the_service_answers(chat: str) -> None:
    """``sash count`` prints the tokens of each message and the request's total, which equals the window's."""
    counted = answer("count", chat, "--model", "gpt-4o-mini")
    assert counted["tokens"] == 3 + sum(counted["messages"])
    assert counted["tokens"] == answer("window", chat, "--model", "gpt-4o-mini")["tokens"]["total"]


def test_count_takes_a_conversations_fixed_parts() -> None:
    """A file's system prompt and few-shots are counted as messages, and its tools as tools."""
    body = {"system": "Be brief.", "few_shots": CHAT[4:], "tools": TOOLS, "messages": CHAT[1:2], "model": "gpt-4o"}
    counted = answer("count", "-", given=json.dumps(body))
    listed = [{"role": "system", "content": "Be brief."}, CHAT[4], CHAT[1]]
    alone = answer("count", "-", "--model", "gpt-4o", given=json.dumps(listed))
    assert counted["messages"] == alone["messages"]
    assert counted["tools"] == counted["tokens"] - alone["tokens"] > 0


def test_count_of_a_text() -> None:
    """``--text`` counts standard input as plain text, special tokens included."""
    assert answer("count", "-", "--text", "--model", "gpt-4o", given="<|endoftext|>")["text"] == 7
    shown = sash("count", "-", "--text", "--model", "gpt-4o", "--table", given="<|endoftext|>")
    assert "7 tokens" in shown.stdout
    assert "not UTF-8 at byte 0" in sash("count", "-", "--text", "--model", "gpt-4o", given=b"\xff").stderr


def test_count_says_what_is_wrong_with_tools(chat: str, tmp_path: Path) -> None:
    """A tools file that holds no list, no JSON or no tool exits with status 1 and says why."""
    tools = tmp_path / "tools.json"
    for text, said in (("{}", "holds no list"), ("[", "not JSON"), ("[7]", "Expected")):
        tools.write_text(text)
        result = sash("count", chat, "--model", "gpt-4o", "--tools", str(tools))
        assert result.exit_code == 1
        assert said in result.stderr


def test_the_count_table_has_a_line_a_message(chat: str) -> None:
    """``--table`` shows each message's number and role, the total, and that the count is an estimate."""
    shown = sash("count", chat, "--model", "claude-sonnet-4-5", "--table").stdout
    counted = answer("count", chat, "--model", "claude-sonnet-4-5")
    assert "an estimate, on the high side" in shown
    lines = [line.split() for line in shown.splitlines()]
    rows = [line for line in lines if line and line[0].isdigit()]
    assert [line[:2] for line in rows] == [[str(place), message["role"]] for place, message in enumerate(CHAT, 1)]
    assert [line for line in lines if line and line[0] == "total"] == [["total", str(counted["tokens"])]]


# ---- terminals and pipes


def on_terminal(arguments: list[str], **environment: str) -> str:
    """Return what a command prints when its standard output is a terminal."""
    ours, theirs = pty.openpty()
    inherited = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    with subprocess.Popen(
        [*SASH, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm-256color", "COLUMNS": "120"} | environment,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux raises this when the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(ours)
    assert process.returncode == 0, shown.decode()
    return shown.decode()


def test_a_terminal_gets_a_table(chat: str) -> None:
    """On a terminal, ``sash window`` prints a coloured table by default."""
    shown = on_terminal(["window", chat, "--model", "gpt-4o-mini"])
    assert "budget" in shown
    assert "\x1b[" in shown


def test_no_color_is_obeyed(chat: str) -> None:
    """``NO_COLOR`` turns colours off; https://no-color.org."""
    shown = on_terminal(["window", chat, "--model", "gpt-4o-mini"], NO_COLOR="1")
    assert "budget" in shown
    assert not any(f"\x1b[{code}m" in shown for code in (31, 32, 33, 34, 35, 36))


def test_json_on_a_terminal_is_indented(chat: str) -> None:
    """On a terminal, ``--json`` prints JSON on several lines."""
    shown = on_terminal(["count", chat, "--model", "gpt-4o-mini", "--json"])
    assert json.loads(shown)["model"] == "gpt-4o-mini"
    assert len(shown.splitlines()) > 5


def test_a_closed_pipe_leaves_no_traceback(tmp_path: Path) -> None:
    """If the reader closes the pipe, as in ``sash … | head -c 1``, no traceback is printed."""
    many = tmp_path / "many.json"
    many.write_text(json.dumps([{"role": "user", "content": "word " * 200}] * 2000))
    command = f"{sys.executable} -m sash window {many} --model gpt-4.1 | head -c 1"
    result = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert result.stdout == b"{"
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("openapi >&-", "standard output is closed"),
        ("window - --model gpt-4o <&-", "standard input is closed"),
        ("count - --model gpt-4o >&-", "standard output is closed"),
    ],
)
def test_a_closed_stream_is_one_line(command: str, said: str) -> None:
    """If standard input or output is closed, one line says so, without a traceback."""
    result = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m sash {command}"], capture_output=True, check=False, text=True
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: {said}")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["openapi", "window", "count"])
def test_a_full_disk_is_one_line(chat: str, command: str) -> None:
    """If the output cannot be written because the disk is full, one line says so, without a traceback."""
    file = [] if command == "openapi" else [chat, "--model", "gpt-4o"]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run([*SASH, command, *file], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (1, b"sash: No space left on device\n")


def test_help_needs_no_tokeniser_no_server_and_no_store() -> None:
    """``sash.cli`` imports no heavy package, so that ``sash --help`` is quick."""
    heavy = ("litestar", "redis", "tiktoken", "granian", "httpx2")
    script = f"import sys, sash.cli; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_a_worker_imports_what_it_may_never_need_later() -> None:
    """The application without endpoints imports no HTTP client, no list of models and no vendor's tokeniser."""
    late = ("httpx2", "genai_prices", "tokenizers", "mistral_common", "opentelemetry.exporter")
    script = f"import sys, sash.app; print([name for name in {late} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_a_worker_counts_nothing_before_it_prepares_its_threads() -> None:
    """The application's modules count no text: who counts first takes the memory of pieces of the threads after it."""
    counting = "toktok.truncate = toktok.batch_count = lambda *given, **named: found.append(given[0]) or (0, 0)"
    script = f"import toktok; found = []; {counting}; import sash.serve, sash.app; print(found)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_command_and_the_function_agree(chat: str) -> None:
    """``sash window`` prints the bytes that ``window_of_request`` returns."""
    from sash.windows.request import WindowRequest  # noqa: PLC0415

    entries = [{"id": f"import-{place}", "message": message} for place, message in enumerate(CHAT, 1)]
    wanted = msgspec.convert({"model": "gpt-4o", "messages": entries}, WindowRequest)
    result = sash("window", chat, "--model", "gpt-4o")
    assert result.stdout_bytes.rstrip(b"\n") == window_of_request(wanted, {})[0].body


@pytest.mark.parametrize(
    "command",
    [
        ("keys", "create", "--tenant", "acme", "--rate"),
        ("import", "chat.json", "--every"),
        ("window", "chat.json", "--stable-step"),
    ],
)
def test_an_option_that_is_not_a_number_is_refused(command: tuple[str, ...]) -> None:
    """``nan`` for a number is refused with the option's name, before anything is made, sent or shown."""
    refused = sash(*command, "nan")
    assert refused.exit_code == 2
    assert f"'{command[-1]}': 'nan' is not a number" in refused.stderr


@pytest.mark.parametrize("command", [("serve",), ("keys", "list"), ("logs-hash", "c-1"), ("doctor", "--json")])
@pytest.mark.parametrize(
    ("url", "mistake"),
    [
        ("redis://host?colour=red", "a connection has no parameter 'colour'"),
        ("rediss://host?ssl_ca_certs=/nowhere/ca.pem", "ssl_ca_certs is '/nowhere/ca.pem', which cannot be read"),
        ("redis://host?ssl_ca_certs=ca.pem", "a connection has no parameter 'ssl_ca_certs'"),
        ("rediss+cluster://host?ssl_cert_reqs=perhaps", "Invalid SSL Certificate Requirements Flag: perhaps"),
        ("unix:///socket?db=one", "Invalid value for 'db' in connection URL"),
    ],
)
def test_a_wrong_parameter_of_the_stores_url_ends_the_command(command: tuple[str, ...], url: str, mistake: str) -> None:
    """A parameter of SASH_REDIS_URL that no connection takes is named at once, as any wrong setting is."""
    refused = sash(*command, SASH_REDIS_URL=url)
    assert refused.exit_code == (1 if command[0] == "doctor" else 2)
    assert mistake in (refused.stdout if command[0] == "doctor" else refused.stderr)


@pytest.mark.parametrize("command", [("keys", "list"), ("logs-hash", "c-1"), ("doctor", "--json")])
def test_a_data_directory_that_cannot_be_looked_into_is_named(command: tuple[str, ...]) -> None:
    """A data directory that the system does not let this user look into is reported without a traceback."""
    folder = "/tmp/" + "x" * 300
    refused = sash(*command, SASH_DATA_DIR=folder)
    assert refused.exception is None or isinstance(refused.exception, SystemExit)
    assert folder in refused.stdout + refused.stderr


def test_ctrl_c_while_the_modules_are_imported_shows_no_traceback() -> None:
    """Ctrl-C before the command has begun ends it with one line."""
    program = """import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "sash.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from sash.__main__ import main
main()"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")


def test_config_tells_what_is_in_force() -> None:
    """`sash config` prints every setting by who needs it, with its value, where it is from and why, without a secret."""
    given = {"SASH_PORT": "9000", "SASH_REDIS_URL": "redis://u:hunter2@cache:6379", "SASH_METRICS_KEY": "hunter2" * 4}

    lines = sash("config", **given).output.splitlines()

    assert [line for line in lines if line.startswith("#")] == [f"# {group.title}: for {group.who}" for group in GROUPS]
    settings = [line.partition("=")[0] for line in lines if not line.startswith("#")]
    assert settings == [variable.name for variable in VARIABLES]
    assert "SASH_PORT=9000  # environment" in lines
    assert "SASH_WORKERS=1  # default: one worker is one processor, and a laptop has other work for the rest" in lines
    assert "hunter2" not in "".join(lines)
    assert [line.partition("=")[0] for line in sash("config", "--changed", **given).output.splitlines()] == sorted(
        given, key=[variable.name for variable in VARIABLES].index
    )


def test_config_refuses_what_the_service_would() -> None:
    """`sash config` ends with status 2 and names the setting that cannot be used."""
    refused = sash("config", SASH_PORT="many")
    assert refused.exit_code == 2
    assert "SASH_PORT" in refused.output
