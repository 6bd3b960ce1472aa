"""``sash replay``: stored and exported conversations lived again with other parameters, which changes nothing."""

import json
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from click.testing import CliRunner, Result
from conftest import Served, serving_alone
from readme_blocks import block
from rigs.misbehaving import Reply, always, between

from sash.cli import main
from sash.store.redis.embedded import socket_url

KEY = {"Authorization": "Bearer secret-1"}
MODEL = "gpt-5.2"
TOOL = {"type": "function", "function": {"name": "find_talk", "parameters": {"type": "object", "properties": {}}}}


def sash(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *arguments], input=given, catch_exceptions=False)


def told(*arguments: str) -> dict[str, Any]:
    result = sash(*arguments, "--as", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}, **more}


def reply(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def call(name: str) -> dict[str, Any]:
    made = {"id": name, "type": "function", "function": {"name": "find_talk", "arguments": "{}"}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [made]}}


def result(name: str, text: str) -> dict[str, Any]:
    return {"message": {"role": "tool", "tool_call_id": name, "content": text}}


def agent(turns: int, words: int = 60) -> list[dict[str, Any]]:
    """Turns with documents, a call with its result, and a reply; the first question is pinned."""
    found: list[dict[str, Any]] = []
    for turn in range(turns):
        documents = {"documents": [{"id": f"s-{turn}", "text": f"Talk {turn}. " * words}]}
        found += [
            user(f"what is on day {turn}? " * 8, grounding=documents, **({"pinned": True} if not turn else {})),
            call(f"call-{turn}"),
            result(f"call-{turn}", f"hall {turn}, " * words),
            reply(f"a talk on day {turn}. " * 12),
        ]
    return found


def exported(folder: Path, entries: Sequence[dict[str, Any]], minutes: float | None = None, **settings: Any) -> str:
    """The file of an export; with ``minutes`` between a reply and the next question."""
    lines: list[dict[str, Any]] = [{"id": "c-1", "model": MODEL, **settings}]
    at = 1_764_000_000.0
    for entry in entries:
        at += 60 * (minutes or 0) if entry["message"]["role"] == "user" else 5
        lines.append(entry | ({} if minutes is None else {"created_at": datetime.fromtimestamp(at, UTC).isoformat()}))
    if minutes is not None:
        lines[0] |= {"version": 1, "created_at": lines[1]["created_at"]}
    path = folder / f"c-{minutes}.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service that asks for a key, on a store of its own."""
    with serving_alone(tmp_path_factory.mktemp("replay"), SASH_API_KEYS="acme:secret-1") as process:
        yield process


@pytest.fixture
def access(guarded: Served, tmp_path: Path) -> tuple[str, ...]:
    """Return the options that name the service and the file with its key."""
    key = tmp_path / "key"
    key.write_text("secret-1\n")
    return "--url", guarded.url, "--api-key-file", str(key)


def lived(
    served: Served, name: str, entries: Sequence[dict[str, Any]], owner: str, **query: Any
) -> list[dict[str, Any]]:
    """Store a conversation as a chat does. Returns the windows that the service answered before each reply."""
    windows = []
    with httpx.Client(base_url=served.url, headers=KEY, timeout=60) as client:
        made = {"id": name, "owner": owner, "model": MODEL, "tools": [TOOL], "system": "You know the programme."}
        client.post("/conversations", json=made).raise_for_status()
        for place, entry in enumerate(entries):
            follows = entries[place + 1]["message"]["role"] if place + 1 < len(entries) else "assistant"
            is_asked = entry["message"]["role"] != "assistant" and follows == "assistant"
            params = {"model": MODEL, **query} if is_asked else {}
            answer = client.post(f"/conversations/{name}/messages", json={"messages": [entry]}, params=params)
            assert answer.status_code == 201, answer.text
            if is_asked:
                windows.append(answer.json()["window"])
    return windows


@pytest.mark.parametrize(
    "query",
    [
        {"max_tokens": 2_000},
        {"max_tokens": 2_000, "stable": "auto", "price": "auto", "cache": "auto"},
        {"max_tokens": 1_500, "tool_results_kept": 1, "grounding": "all", "note": "true"},
    ],
)
def test_a_replay_has_the_windows_that_were_sent(
    guarded: Served, access: tuple[str, ...], fresh: Callable[[], str], query: dict[str, Any]
) -> None:
    """The windows of a replay have the tokens and the left-out messages of those that the service answered at the time."""
    name = fresh()
    windows = lived(guarded, name, agent(12), name, **query)
    wanted = ",".join(f"{key}={value}" for key, value in query.items())

    found = told("--owner", name, *access, "--set", wanted)["set"]

    assert found["requests"] == len(windows) == 24
    assert found["tokens"] == sum(window["tokens"]["total"] for window in windows)
    assert found["dropped"] == sum(window["dropped"]["messages"] for window in windows)
    assert found["trimmed"] == sum(window.get("trimmed", {}).get("messages", 0) for window in windows)


def test_a_replay_reads_only(guarded: Served, access: tuple[str, ...], fresh: Callable[[], str]) -> None:
    """The store is the same byte for byte, and the service was asked with GET alone."""
    name = fresh()
    lived(guarded, name, agent(4), name)
    url, log = socket_url(guarded.data_dir), guarded.data_dir.parent / "serve.log"
    assert url is not None

    def dumped() -> dict[bytes, bytes | None]:
        with redis.Redis.from_url(url) as store:
            return {key: store.dump(key) for key in store.scan_iter(f"sash:{{acme/{name}}}*")}

    before, lines = dumped(), len(log.read_text().splitlines())
    told("--all", *access, "--set", "stable=auto,price=auto,tool_results_kept=1")
    asked = [json.loads(line) for line in log.read_text().splitlines()[lines:] if line.startswith("{")]
    assert len(before) > 3
    assert dumped() == before
    assert {line["method"] for line in asked if "method" in line} == {"GET"}


def test_an_export_gives_the_figures_of_the_service(
    guarded: Served, access: tuple[str, ...], fresh: Callable[[], str], tmp_path: Path
) -> None:
    """A file of ``sash export`` alone gives what the running service gives, money included."""
    name, file = fresh(), tmp_path / "export.ndjson"
    lived(guarded, name, agent(6), name)
    export = CliRunner().invoke(main, ["export", name, *access, "-o", str(file)], catch_exceptions=False)
    assert export.exit_code == 0
    wanted = ("--set", "max_tokens=1500,stable=auto")
    assert told(str(file), *wanted) == told("--conversation", name, *access, *wanted)


def test_the_page_s_commands_run(
    guarded: Served,
    access: tuple[str, ...],
    fresh: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page's commands work as they are written, with an export and with the conversations of an owner."""
    name = fresh()
    lived(guarded, name, agent(3), "user-42")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["export", name, *access, "-o", "export.ndjson"]).exit_code == 0
    for line in block("sh", "service/sash/commands/README.md", "## Trying other parameters").splitlines():
        command, *arguments = shlex.split(line)
        assert command == "sash"
        result = sash(*arguments[1:], *(access if "--owner" in arguments else ()))
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["set"]["requests"] == 6
    assert "</svg>" in Path("replay.html").read_text()


def test_pauses_decide_what_the_cache_serves(tmp_path: Path) -> None:
    """With an hour before each question the cache is cold, and the same tokens cost more."""
    entries = [each for n in range(40) for each in (user(f"and day {n}? " * 30), reply(f"talks on day {n}. " * 30))]
    quick, slow = (
        told(exported(tmp_path, entries, minutes), "--set", "max_tokens=5000,stable=auto")["set"]
        for minutes in (0.5, 60.0)
    )
    assert quick["reuse"] > 0.75 > 0.05 > slow["reuse"]
    assert quick["tokens"] == slow["tokens"]
    assert quick["dollars"] < slow["dollars"]


def test_without_times_pauses_are_assumed_and_told(tmp_path: Path) -> None:
    """A conversation without times has the pauses of ``--pause``, and the output says that they are assumed."""
    entries = [each for n in range(20) for each in (user(f"and day {n}? " * 40), reply(f"talks on day {n}. " * 40))]
    file = exported(tmp_path, entries)
    quick, slow = (told(file, "--set", "stable=auto", "--pause", pause) for pause in ("10", "7200"))
    assert quick["assumed_times"] == slow["assumed_times"] == 1
    assert quick["set"]["dollars"] < slow["set"]["dollars"]
    assert "1 without times: pauses are assumed" in sash(file, "--set", "stable=auto", "--as", "table").stdout
    assert told(exported(tmp_path, entries, 1.0), "--set", "stable=auto")["assumed_times"] == 0


def test_questions_tell_what_evidence_is_kept(tmp_path: Path) -> None:
    """The share of a question's evidence in the newest window is told; recall brings it back, a cleared result is lost."""
    entries = [{**user("my locker's code is 4711"), "id": "locker"}, reply("noted")]
    entries += [each for n in range(30) for each in (user(f"and day {n}? " * 20), reply(f"talks on day {n}. " * 20))]
    entries += [
        user("find a talk"),
        call("call-1"),
        {**result("call-1", "The Latency Tax " * 30), "id": "talk"},
        reply("it is"),
    ]
    entries += [user("and another?"), call("call-2"), result("call-2", "Vim " * 30), reply("that one"), user("thanks")]
    asked = [
        {"text": "what is the code of my locker?", "evidence": ["locker"]},
        {"text": "which talk?", "evidence": ["talk"]},
    ]
    file = exported(tmp_path, entries)
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"id": "c-1", "questions": asked}))
    options = (file, "--questions", str(questions), "--against", "max_tokens=2000")

    recalled = told(*options, "--set", "recall_max_tokens=600")
    cleared = told(*options, "--set", "tool_results_kept=1")

    assert recalled["against"]["questions"] == 2
    assert recalled["against"]["evidence_kept"] == 0.5
    assert recalled["set"]["evidence_kept"] == 1.0
    assert cleared["set"]["evidence_kept"] == 0.0
    beside = tmp_path / "beside.jsonl"
    beside.write_text(json.dumps({"id": "c-1", "model": MODEL, "entries": entries, "questions": asked}))
    assert told(str(beside), *options[3:], "--set", "recall_max_tokens=600")["set"]["evidence_kept"] == 1.0


@pytest.mark.parametrize("shape", ["table", "markdown"])
def test_people_get_a_table_and_a_picture(tmp_path: Path, shape: str) -> None:
    """Table, page and picture have the figures of the JSON; the picture is an SVG with a line for each side."""
    file = exported(tmp_path, agent(8), 1.0)
    arguments = (file, "--against", "max_tokens=1500", "--set", "stable=auto")
    found = told(*arguments)
    drawn, page = tmp_path / "replay.svg", tmp_path / "replay.html"
    shown = [sash(*arguments, "--as", shape, "-o", str(path)).stdout for path in (drawn, page)]
    assert shown[0] == shown[1]
    for figure in (
        f"{found['set']['tokens']:,}",
        f"{found['against']['dollars']:,.4f}",
        f"{found['set']['reuse']:.1%}",
    ):
        assert figure in shown[0]
        assert figure in page.read_text()
    picture = ET.fromstring(drawn.read_text())
    names = [each.tag.rpartition("}")[2] for each in picture.iter()]
    assert (names.count("polyline"), names.count("polygon")) == (2, 6)
    assert "max_tokens=1500" in drawn.read_text()
    assert drawn.read_text() in page.read_text()


def test_windows_that_do_not_fit_are_told(tmp_path: Path) -> None:
    """A window that cannot be made is counted, with its reason, and the others are compared."""
    entries = [user("hello"), reply("hi"), user("word " * 3_000), reply("well")]
    shown = sash(exported(tmp_path, entries), "--set", "max_tokens=1000", "--as", "table")
    assert shown.exit_code == 0
    assert ["windows", "that", "do", "not", "fit", "0", "1"] in [line.split() for line in shown.stdout.splitlines()]
    assert "1 windows of --set could not be made, first c-1: " in shown.stdout


def test_requests_above_a_price_tier_are_counted(tmp_path: Path) -> None:
    """A conversation that goes on above OpenAI's tier costs twice as much there, and less with ``price=auto``."""
    entries = [each for n in range(14) for each in (user("word " * 20_000), reply("talk " * 20_000))]
    found = told(exported(tmp_path, entries, 1.0, model="gpt-6-sol"), "--against", "stable=auto", "--set", "price=auto")
    assert found["against"]["above_tier"] > 5
    assert found["set"]["above_tier"] == 0
    assert found["set"]["dollars"] < found["against"]["dollars"]


def test_a_summary_is_there_from_its_last_message_on(tmp_path: Path) -> None:
    """A summary stands in for its messages in windows that were asked for after them, and in none before."""
    entries = [each for n in range(12) for each in (user(f"and day {n}? " * 40), reply(f"talks on day {n}. " * 40))]

    def figures(**settings: Any) -> dict[str, Any]:
        found: dict[str, Any] = told(exported(tmp_path, entries, 1.0, **settings), "--set", "max_tokens=1500")["set"]
        return found

    late, early = ({"text": "They asked for talks.", "through_seq": seq} for seq in (24, 20))
    assert figures(summary=late) == figures()
    assert 0 < figures()["tokens"] - figures(summary=early)["tokens"] < 2 * 1500


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("FILE",), "Missing option '--set'"),
        (("--set", "stable=auto"), "Name FILEs, or conversations of a service"),
        (("FILE", "--all", "--set", "stable=auto"), "Name FILEs, or conversations of a service"),
        (("FILE", "--set", "stable"), "--set stable: write NAME=VALUE"),
        (("FILE", "--set", "stabel=auto"), "'stable'"),
        (("FILE", "--set", "stable=often"), "--set: "),
        (("FILE", "--set", "stable=auto", "--against", "max_tokens=0"), "--against: "),
        (("FILE", "--set", "model=nobody-made-this"), "nobody-made-this"),
        (("FILE", "--set", "stable=auto", "-o", "x.png"), "ends in .svg or .html"),
        (("FILE", "--set", "stable=auto", "-o", "/nowhere/x.svg"), "is no folder"),
        (("absent.json", "--set", "stable=auto"), "absent.json"),
        (("FILE", "--set", "stable=auto", "--questions", "FILE"), "questions"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """A mistake ends the command with one line that says what to write, and nothing is printed."""
    file = exported(tmp_path, [user("hello"), reply("hi")])
    result = sash(*(file if each == "FILE" else each for each in arguments))
    assert result.exit_code in (1, 2)
    assert result.stdout == ""
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_conversation_needs_a_model(tmp_path: Path) -> None:
    """Where a conversation names no model, the command asks for one; ``--model`` and the parameters give it."""
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hello"}]))
    refused = sash(str(path), "--set", "stable=auto")
    assert refused.exit_code == 1
    assert "chat names no model: write --model NAME" in refused.stderr
    assert told(str(path), "--set", "stable=auto", "--model", MODEL)["set"]["requests"] == 1
    assert told(str(path), "--against", f"model={MODEL}", "--set", "model=gpt-6-sol")["set"]["requests"] == 1


def test_what_cannot_be_lived_again_is_left_out(tmp_path: Path) -> None:
    """A conversation without messages, or without a model, stops nothing: the table says how many there were."""
    whole = exported(tmp_path, [user("hello"), reply("hi")])
    (tmp_path / "empty").mkdir()
    empty, unnamed = (
        exported(tmp_path / "empty", [], version=1, created_at="2026-01-01T00:00:00Z"),
        tmp_path / "unnamed.json",
    )
    unnamed.write_text(json.dumps([{"role": "user", "content": "hello"}]))
    files = [empty, str(unnamed), whole]
    found = told(*files, "--set", "stable=auto")
    assert (found["left_out"], len(found["conversations"])) == ({"no messages": 1, "no model": 1}, 1)
    shown = sash(*files, "--set", "stable=auto", "--as", "markdown")
    assert shown.exit_code == 0
    assert "| conversations left out: no model | 1 | 1 |" in shown.stdout
    assert "--model NAME gives them one" in shown.stdout
    assert "has no messages" in sash(empty, "--set", "stable=auto").stderr


def test_a_server_that_is_none_of_ours_is_told() -> None:
    """Another program's answer, and no server, are one line each."""
    with between("", always(Reply(200, b"hello"))) as (url, _):
        refused = sash("--all", "--url", url, "--set", "stable=auto")
    assert refused.exit_code == 1
    assert "may be no Sash server" in refused.stderr
    absent = sash("--conversation", "c-1", "--url", url, "--set", "stable=auto")
    assert absent.exit_code == 1
    assert "does not answer" in absent.stderr
