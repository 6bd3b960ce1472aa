"""``sash import`` and ``sash export`` against a real server, and against servers that misbehave."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, Served, serving_alone
from rigs.misbehaving import Act, Reply, always, between, first, listening
from rigs.servers import free_port

from sash.cli import main
from sash.store.redis.embedded import EmbeddedStore
from sash_client.client import SashError
from sash_tools.server import post, read_key, server_at
from sash_tools.sources.conversation import SourceError

USER = {"role": "user", "content": "Two seats?"}
REPLY = {"role": "assistant", "content": "Yes."}


def sash(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=given, catch_exceptions=False)


def stored(served: Served, conversation: str) -> list[dict[str, Any]]:
    page = httpx.get(f"{served.url}/conversations/{conversation}/messages", params={"limit": 1000})
    messages: list[dict[str, Any]] = page.json()["messages"]
    return messages


def conversation_file(folder: Path, **fields: Any) -> str:
    path = folder / "conversations.jsonl"
    path.write_text(json.dumps(fields) + "\n")
    return str(path)


def test_an_import_stores_settings_and_entries_once(served: Served, tmp_path: Path, conversation: str) -> None:
    """An import stores 230 entries and the settings; a second run adds nothing, and a longer history adds its end."""
    entries: list[Any] = [{"id": f"m{n}", "message": USER if n % 2 else REPLY} for n in range(230)]
    file = conversation_file(tmp_path, id=conversation, system="Be brief.", entries=entries)
    first, second = (sash("import", file, "--url", served.url) for _ in range(2))
    assert first.exit_code == second.exit_code == 0
    told = json.loads(first.stdout)
    assert (told["conversations"], told["created"], told["messages"], told["duplicates"]) == (1, 1, 230, 0)
    again = json.loads(second.stdout)
    assert (again["created"], again["messages"], again["duplicates"]) == (0, 0, 230)
    assert again["tokens"] == told["tokens"] > 0
    assert [message["id"] for message in stored(served, conversation)] == [entry["id"] for entry in entries]
    assert httpx.get(f"{served.url}/conversations/{conversation}").json()["system"] == "Be brief."
    file = conversation_file(tmp_path, id=conversation, entries=[*entries, {"message": USER}])
    assert json.loads(sash("import", file, "--url", served.url).stdout)["messages"] == 1


def test_an_export_comes_back_as_it_was(
    served: Served, tmp_path: Path, conversation: str, fresh: Callable[[], str]
) -> None:
    """An export imported under another id differs only in the id; under its own id, no message is stored twice."""
    entry = {
        "message": USER,
        "grounding": {"documents": [{"text": "Open until ten."}]},
        "pinned": True,
        "metadata": {"a": 1},
    }
    file = conversation_file(tmp_path, id=conversation, owner="ada", entries=[entry, {"message": REPLY}])
    assert sash("import", file, "--url", served.url).exit_code == 0
    exported = tmp_path / "exported.ndjson"
    assert sash("export", conversation, "--url", served.url, "-o", str(exported)).exit_code == 0
    assert sash("export", conversation, "--url", served.url).stdout_bytes == exported.read_bytes()
    copy = fresh()
    assert json.loads(sash("import", str(exported), "--id", copy, "--url", served.url).stdout)["created"] == 1
    copied = sash("export", copy, "--url", served.url).stdout_bytes
    assert copied.replace(copy.encode(), conversation.encode()) == exported.read_bytes()
    again = json.loads(sash("import", str(exported), "--url", served.url).stdout)
    assert (again["messages"], again["duplicates"]) == (0, 2)


def test_an_export_has_its_branches(
    served: Served, tmp_path: Path, conversation: str, fresh: Callable[[], str]
) -> None:
    """A conversation with branches is exported and imported whole, alone and beside others."""
    copies: list[str] = []
    for each in (conversation, fresh()):
        file = conversation_file(tmp_path, id=each, entries=[{"message": USER}, {"message": REPLY}, {"message": USER}])
        assert sash("import", file, "--url", served.url).exit_code == 0
        for to_seq in (2, 1):
            httpx.post(f"{served.url}/conversations/{each}/rewind", json={"to_seq": to_seq}).raise_for_status()
        exported = sash("export", each, "--url", served.url)
        assert exported.exit_code == 0, exported.output
        copies.append(exported.stdout)
        branches = httpx.get(f"{served.url}/conversations/{each}/branches").json()["branches"]
        assert [branch["messages"] for branch in branches] == [1, 1]
        httpx.delete(f"{served.url}/conversations/{each}").raise_for_status()

    imported = sash("import", "-", "--url", served.url, given="".join(copies))

    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.stdout)["messages"] == 2
    assert [
        sash("export", json.loads(each.splitlines()[0])["id"], "--url", served.url).stdout for each in copies
    ] == copies


def test_an_older_export_does_not_undo_what_came_since(served: Served, tmp_path: Path, conversation: str) -> None:
    """An older export adds no entry, because its entries are stored already, and the newer entry stays."""
    file = conversation_file(tmp_path, id=conversation, entries=[{"message": USER}])
    assert sash("import", file, "--url", served.url).exit_code == 0
    exported = sash("export", conversation, "--url", served.url).stdout_bytes
    more = [{"message": USER}, {"message": REPLY}]
    assert (
        sash("import", conversation_file(tmp_path, id=conversation, entries=more), "--url", served.url).exit_code == 0
    )
    again = json.loads(sash("import", "-", "--url", served.url, given=exported).stdout)
    assert (again["messages"], again["duplicates"]) == (0, 1)
    assert len(stored(served, conversation)) == 2


def test_a_conversation_without_messages_is_created(served: Served, tmp_path: Path, conversation: str) -> None:
    """A conversation with settings and no entries is stored."""
    file = conversation_file(tmp_path, id=conversation, system="S", entries=[])
    shown = sash("import", file, "--url", served.url, "--table")
    assert shown.exit_code == 0
    assert ["conversations", "1"] in [line.split() for line in shown.stdout.splitlines()]
    assert httpx.get(f"{served.url}/conversations/{conversation}").json()["system"] == "S"


def test_a_refused_conversation_does_not_keep_others_from_going(
    served: Served, tmp_path: Path, fresh: Callable[[], str]
) -> None:
    """A refused conversation is one line and exit status 1, and the other conversation is stored."""
    one, two = fresh(), fresh()
    assert (
        sash("import", conversation_file(tmp_path, id=one, entries=[{"message": USER}]), "--url", served.url).exit_code
        == 0
    )
    path = tmp_path / "both.jsonl"
    changed = {"id": one, "entries": [{"message": REPLY}]}
    path.write_text(f"{json.dumps(changed)}\n{json.dumps({'id': two, 'entries': [{'message': USER}]})}\n")
    result = sash("import", str(path), "--url", served.url, "--table")
    assert result.exit_code == 1
    assert f"sash: {one}: " in result.stderr
    assert "1 of 2 conversations failed" in result.stderr
    assert [message["message"] for message in stored(served, two)] == [USER]
    assert [message["message"] for message in stored(served, one)] == [USER]


def test_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    """A dry run needs no server, shows the figures, and exits with status 1 on a wrong message."""
    file = conversation_file(tmp_path, id="c", entries=[{"message": USER}])
    shown = sash("import", file, "--dry-run", "--url", f"http://127.0.0.1:{free_port()}", "--table")
    assert shown.exit_code == 0
    assert ["messages", "1"] in [line.split() for line in shown.stdout.splitlines()]
    assert json.loads(sash("import", file, "--dry-run").stdout)["messages"] == 1
    file = conversation_file(tmp_path, id="c", entries=[{"message": {"role": "robot"}}])
    assert sash("import", file, "--dry-run").exit_code == 1


def test_an_import_can_be_watched(served: Served, tmp_path: Path, conversation: str) -> None:
    """``--every`` appends one message at a time, also from an export, and prints the dashboard's address."""
    file = conversation_file(tmp_path, id=conversation, entries=[{"id": f"m{n}", "message": USER} for n in range(3)])
    watched = sash("import", file, "--url", served.url, "--every", "0.001")
    told = json.loads(watched.stdout)
    assert (told["created"], told["messages"]) == (1, 3)
    assert f"{served.url}/dashboard#conversation?id={conversation}" in watched.stderr
    assert httpx.get(f"{served.url}/conversations/{conversation}").json()["version"] == 3
    exported = sash("export", conversation, "--url", served.url).stdout
    httpx.delete(f"{served.url}/conversations/{conversation}").raise_for_status()
    assert sash("import", "-", "--url", served.url, "--every", "0.001", given=exported).exit_code == 0
    assert [message["id"] for message in stored(served, conversation)] == ["m0", "m1", "m2"]


def test_what_is_watched_has_a_window(served: Served, tmp_path: Path, conversation: str) -> None:
    """``--model`` is stored if the source names no model, and the dashboard's address has the stored model."""
    (tmp_path / "chat.json").write_text(json.dumps([USER, REPLY]))
    options = ("--url", served.url, "--model", "gpt-4o-mini", "--every", "0.001")
    watched = sash("import", str(tmp_path / "chat.json"), "--id", conversation, *options)
    assert f"{served.url}/dashboard#conversation?id={conversation}&model=gpt-4o-mini shows it" in watched.stderr
    window = httpx.get(f"{served.url}/conversations/{conversation}/window").raise_for_status().json()
    assert (window["model"], window["kept"]["messages"]) == ("gpt-4o-mini", 2)

    file = conversation_file(tmp_path, id=f"{conversation}-own", model="gpt-4.1", entries=[{"message": USER}])
    watched = sash("import", file, *options)
    assert f"id={conversation}-own&model=gpt-4.1 shows it" in watched.stderr


def test_orphans_are_left_out_when_asked(tmp_path: Path) -> None:
    """``--drop-orphans`` leaves out tool results without a call; without the option they end the import."""
    orphan = {"role": "tool", "tool_call_id": "x", "content": "y"}
    file = conversation_file(tmp_path, id="c", entries=[{"message": orphan}, {"message": USER}])
    refused = sash("import", file, "--dry-run")
    assert refused.exit_code == 1
    assert "--drop-orphans" in refused.stderr
    shown = sash("import", file, "--dry-run", "--drop-orphans", "--table")
    rows = [line.rsplit(maxsplit=1) for line in shown.stdout.splitlines()]
    assert shown.exit_code == 0
    assert ["messages", "1"] in rows
    assert ["left out: tool results without a call", "1"] in rows


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        (("--id", "a b"), [USER], "an id is 1 to 128"),
        (("--id", "a"), [{"id": "x", "messages": []}, {"id": "y", "messages": []}], "the sources contain 2"),
        ((), [{"id": "x", "messages": []}, {"id": "x", "messages": []}], "two conversations are called x"),
        (("--url", "nowhere"), [USER], "is no URL of a server"),
        (("--url", "http://[::1"), [USER], "is no URL of a server"),
        (("--api-key-file", "/nonexistent"), [USER], "the key file /nonexistent cannot be read"),
    ],
)
def test_wrong_use_of_import_is_one_line(arguments: tuple[str, ...], given: Any, said: str) -> None:
    """Wrong arguments exit with status 1 and one line that says why."""
    result = sash("import", "-", *arguments, given=json.dumps(given))
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert said in line


def test_an_empty_redis_holds_no_conversation(store: Any) -> None:
    """Keys that match nothing, a Redis that does not answer, and a URL with a wrong parameter are errors that say so."""
    result = sash("import", store.url, "--keys", "no-such-prefix:*")
    assert result.exit_code == 1
    assert "the sources contain no conversation" in result.stderr
    for url in ("redis://127.0.0.1:1/0", "redis://127.0.0.1:1/0?colour=red"):
        result = sash("import", url)
        assert result.exit_code == 1
        assert "the Redis to import from cannot be read" in result.stderr


def test_a_sqlite_file_is_named_not_piped() -> None:
    """A SQLite file on standard input is refused, because SQLite can only open a named file."""
    result = sash("import", "-", given=b"SQLite format 3\0" + b"\0" * 100)
    assert result.exit_code == 1
    assert "cannot be read from standard input" in result.stderr


def test_all_of_an_owner_is_exported(served: Served, fresh: Callable[[], str]) -> None:
    """``--owner`` writes every conversation of the owner, once, and no others."""
    owner = f"{fresh()}@example.com"
    ids = [fresh() for _ in range(3)]
    for each in (*ids, fresh()):
        body = {"id": each, "owner": owner if each in ids else f"{owner}2"}
        assert httpx.post(f"{served.url}/conversations", json=body).status_code == 201
        httpx.post(f"{served.url}/conversations/{each}/messages", json={"messages": [USER, REPLY]})

    result = sash("export", "--owner", owner, "--url", served.url)

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(line["id"] for line in lines if "version" in line) == sorted(ids)
    assert [line["message"] for line in lines if "message" in line] == [USER, REPLY] * 3
    assert "3 conversations exported" in result.stderr


def test_from_trying_it_to_production(tmp_path: Path, fresh: Callable[[], str]) -> None:
    """The page's three commands move every conversation from the embedded store to another one, without losing a turn."""
    page = (ROOT / "deploy" / "README.md").read_text()
    commands = re.search(r"## From trying.*?```sh\n(.*?)```", page, re.DOTALL)[1].splitlines()  # type: ignore[index]
    words = [command.split() for command in commands]
    assert [word[0] for word in words] == [
        ".venv/bin/sash",
        "SASH_REDIS_URL=redis://127.0.0.1:6379",
        ".venv/bin/sash",
    ]
    ids = [fresh() for _ in range(3)]
    file = str(tmp_path / "chats.ndjson")
    (tmp_path / "production").mkdir()
    (tmp_path / "tried").mkdir()

    with (
        serving_alone(tmp_path / "tried") as tried,  # with --all, what other tests leave would come along
        EmbeddedStore(tmp_path / "redis") as store,
        serving_alone(tmp_path / "production", SASH_REDIS_URL=store.url) as production,
    ):
        for number, each in enumerate(ids):
            entries = [{"role": "user", "content": f"m{n}", "metadata": {"n": n}} for n in range(5 * number)]
            made = httpx.post(f"{tried.url}/conversations", json={"id": each, "owner": f"{each}@example.com"})
            assert made.status_code == 201
            if entries:
                body = {"messages": entries}
                httpx.post(f"{tried.url}/conversations/{each}/messages", json=body).raise_for_status()
                body = {"to_seq": 5 * number - 1}
                httpx.post(f"{tried.url}/conversations/{each}/rewind", json=body).raise_for_status()
        exported = sash(*words[0][1:-1], file, "--url", tried.url)
        imported, again = [sash(words[2][1], file, *words[2][3:-1], production.url) for _ in range(2)]
        for done in (exported, imported, again):
            assert done.exit_code == 0, done.output
        for each in ids:
            assert stored(production, each) == stored(tried, each)
            owner = httpx.get(f"{production.url}/conversations/{each}").json()["owner"]
            assert owner == f"{each}@example.com"
            branches, kept = [httpx.get(f"{on.url}/conversations/{each}/branches").json() for on in (tried, production)]
            assert kept["branches"] == branches["branches"]

    figures = [json.loads(done.stdout)["messages"] for done in (imported, again)]
    assert figures == [13, 0]


@pytest.mark.parametrize("arguments", [[], ["a", "--all"], ["--owner", "x", "--all"]])
def test_an_export_of_one_thing(arguments: list[str]) -> None:
    """Conversations, an owner and all of the tenant are three ways, of which one is to be chosen."""
    result = sash("export", *arguments)
    assert result.exit_code == 2
    assert "--owner" in result.stderr


@pytest.mark.parametrize(("name", "said"), [("a b", "no conversation's id"), ("absent", "absent: ")])
def test_an_export_that_cannot_be_is_one_line(served: Served, tmp_path: Path, name: str, said: str) -> None:
    """An export that fails exits with status 1 and leaves no file."""
    result = sash("export", name, "--url", served.url, "-o", str(tmp_path / "x"))
    assert result.exit_code == 1
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_keeps_a_pipe_and_a_link(served: Served, tmp_path: Path, conversation: str) -> None:
    """An export is written into a pipe, and into the file behind a link; neither is replaced by a new file."""
    httpx.post(f"{served.url}/conversations", json={"id": conversation}).raise_for_status()
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("file")
    (tmp_path / "file").touch()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, link):
        assert sash("export", conversation, "--url", served.url, "-o", str(path)).exit_code == 0
    written = os.read(reader, 65_536)
    os.close(reader)
    assert written.startswith(b'{"id":')
    assert (tmp_path / "file").read_bytes() == written
    assert pipe.is_fifo()
    assert link.is_symlink()
    httpx.delete(f"{served.url}/conversations/{conversation}").raise_for_status()


def test_an_export_to_nowhere_is_one_line(served: Served, tmp_path: Path) -> None:
    """An export reports a directory that does not exist and a server that does not answer."""
    result = sash("export", "x", "--url", served.url, "-o", str(tmp_path / "no" / "x"))
    assert "cannot be written: No such file or directory" in result.stderr
    assert "does not answer" in sash("export", "x", "--url", f"http://127.0.0.1:{free_port()}").stderr


# ---- servers that misbehave


@pytest.mark.parametrize("act", ["drop", "lose", "cut", Reply(503, b"{}"), Reply(500, b"{}", {"Retry-After": "1"})])
def test_an_import_stores_entries_once_after_a_fault(
    served: Served, tmp_path: Path, conversation: str, act: Act
) -> None:
    """After a fault of every second request, all entries are stored once and in order."""
    entries = [{"message": {"role": "user", "content": f"{n}"}} for n in range(250)]
    file = conversation_file(tmp_path, id=conversation, system="S", entries=entries)
    with between(served.url, lambda number, _: "pass" if number % 2 else act) as (url, _):
        assert sash("import", file, "--url", url).exit_code == 0
    assert [message["message"]["content"] for message in stored(served, conversation)] == [f"{n}" for n in range(250)]


@pytest.mark.parametrize("act", ["drop", "lose", "cut"])
def test_a_whole_import_takes_effect_once(served: Served, conversation: str, tmp_path: Path, act: Act) -> None:
    """An export whose import is not answered is sent again, and is the same conversation afterwards."""
    file = conversation_file(tmp_path, id=conversation, entries=[{"message": USER}, {"message": REPLY}])
    assert sash("import", file, "--url", served.url).exit_code == 0
    exported = sash("export", conversation, "--url", served.url).stdout
    httpx.delete(f"{served.url}/conversations/{conversation}").raise_for_status()
    with between(served.url, first(act)) as (url, _):
        assert sash("import", "-", "--url", url, given=exported).exit_code == 0
    assert sash("export", conversation, "--url", served.url).stdout == exported


def test_an_export_of_another_conversation_under_the_id_is_stored(served: Served, conversation: str) -> None:
    """Where another conversation with the same version has the id, the import does not claim that it stored the export."""
    path = f"{served.url}/conversations/{conversation}"
    httpx.post(f"{path}/messages", json={"messages": [{"id": "old", "message": USER}]}).raise_for_status()
    exported = sash("export", conversation, "--url", served.url).stdout
    httpx.delete(path).raise_for_status()
    httpx.post(f"{path}/messages", json={"messages": [{"id": "new", "message": REPLY}]}).raise_for_status()
    told = json.loads(sash("import", "-", "--url", served.url, given=exported).stdout)
    assert (told["messages"], told["duplicates"]) == (1, 0)
    assert [message["id"] for message in stored(served, conversation)] == ["new", "old"]


@pytest.mark.parametrize("act", ["drop", Reply(503, b"{}", {"Retry-After": "1"})])
def test_an_export_is_asked_for_again(served: Served, conversation: str, act: Act) -> None:
    """An export that does not begin, or is refused for a moment, is asked for again."""
    httpx.post(f"{served.url}/conversations", json={"id": conversation}).raise_for_status()
    with between(served.url, first(act)) as (url, seen):
        result = sash("export", conversation, "--url", url)
    assert (result.exit_code, len(seen)) == (0, 2)
    assert result.stdout == sash("export", conversation, "--url", served.url).stdout


def test_an_export_that_is_cut_leaves_no_file(served: Served, conversation: str, tmp_path: Path) -> None:
    """An export that breaks off is an error that says so, and keeps no short file."""
    httpx.post(f"{served.url}/conversations", json={"id": conversation}).raise_for_status()
    with between(served.url, always("cut")) as (url, _):
        result = sash("export", conversation, "--url", url, "-o", str(tmp_path / "x"))
    assert result.exit_code == 1
    assert "broke off in the middle of its answer" in result.stderr
    assert list(tmp_path.iterdir()) == []


@contextmanager
def stub(*answers: tuple[int, bytes, dict[str, str]]) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Yield the URL of a server that gives these answers in turn, repeating the last; and each request's key and body."""
    left, seen = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.headers.get("Authorization", ""), body))
            status, body, headers = left.pop(0) if len(left) > 1 else left[0]
            if status == 0:  # no answer at all
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with listening(Handler) as url:
        yield url, seen


def test_patience_ends() -> None:
    """A server that never answered is asked 3 times, one that did 7 times: the error then says which it is."""
    away = (0, b"", {})
    with stub(away) as (url, seen), closing(server_at(url, None)) as server:
        with pytest.raises(SashError, match=f"{url}/ does not answer"):
            post(server, "/x", {})
        assert len(seen) == 3
    with stub((200, b'{"conversation_id":"c"}', {}), away) as (url, seen), closing(server_at(url, "secret")) as server:
        post(server, "/x", {})
        with pytest.raises(SashError, match=f"{url}/ does not answer"):
            post(server, "/x", {})
        assert seen == [("Bearer secret", b"{}")] * (1 + 7)


@pytest.mark.parametrize("came", [0, 1, 3])
def test_a_short_export_is_no_file(tmp_path: Path, came: int) -> None:
    """An export with more or fewer lines than its first line announces is an error: a proxy may have cut it."""
    head = b'{"id":"c","messages":{"count":2,"first_seq":1,"last_seq":2}}\n'
    with stub((200, head + b"{}\n" * came, {})) as (url, _):
        result = sash("export", "c", "--url", url, "-o", str(tmp_path / "x"))
    assert result.exit_code == 1
    assert f"c: {came + 1} of 3 lines came; the export broke off" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", [b"", b"<html>\n", b"{}\n", b"\xff\n"])
def test_an_export_that_is_none_is_one_line(body: bytes) -> None:
    """An answer that is no export exits with status 1 and says that no Sash server sent it."""
    with stub((200, body, {})) as (url, _):
        result = sash("export", "c", "--url", url)
    assert result.exit_code == 1
    assert "that is no Sash server" in result.stderr


def test_a_smaller_servers_limit_halves_the_batches(tmp_path: Path) -> None:
    """After a 413 for 100 entries, the import sends the entries in two halves."""
    too_large = (413, b'{"detail": "A request may append 50 entries."}', {})
    message = {"duplicate": False, "tokens": {"o200k_base": 1}}
    stored_half = (201, json.dumps({"conversation_id": "c", "messages": [message] * 50}).encode(), {})
    entries = [{"id": f"m{n}", "message": USER} for n in range(100)]
    file = conversation_file(tmp_path, id="c", entries=entries)
    with stub(too_large, stored_half) as (url, seen):
        told = json.loads(sash("import", file, "--url", url).stdout)
    assert (told["messages"], told["duplicates"], told["tokens"]) == (100, 0, 100)
    sent = [[entry["id"] for entry in json.loads(body)["messages"]] for _, body in seen]
    ids = [entry["id"] for entry in entries]
    assert sent == [ids, ids[:50], ids[50:]]


def test_a_single_entry_that_is_too_large_fails(tmp_path: Path) -> None:
    """A 413 for a single entry, which cannot be halved, fails with the server's message."""
    file = conversation_file(tmp_path, id="c", entries=[{"message": USER}])
    with stub((413, b'{"detail": "Too large."}', {})) as (url, _):
        result = sash("import", file, "--url", url)
    assert result.exit_code == 1
    assert "sash: c: Too large." in result.stderr


def test_a_refused_key_ends_the_import(tmp_path: Path) -> None:
    """A 401 ends the import, because the next conversation would be refused too."""
    path = tmp_path / "two.jsonl"
    path.write_text("".join(json.dumps({"id": name, "entries": [{"message": USER}]}) + "\n" for name in "ab"))
    with stub((401, b'{"detail": "An API key is needed."}', {})) as (url, seen):
        result = sash("import", str(path), "--url", url)
    assert result.exit_code == 1
    assert "sash: a: An API key is needed." in result.stderr
    assert len(seen) == 1


def test_a_server_that_goes_away_says_how_far_it_came(tmp_path: Path) -> None:
    """If the server stops answering, the import says so, how many messages were stored, and what was not sent."""
    first, second = ({"id": name, "system": "S", "entries": [{"message": USER}] * 150} for name in "ab")
    (tmp_path / "two.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    message = {"duplicate": False, "tokens": {"o200k_base": 1}}
    batch = (201, json.dumps({"conversation_id": "a", "messages": [message] * 100}).encode(), {})
    with stub((201, b'{"created_at": "x"}', {}), batch, (0, b"", {})) as (url, _):
        result = sash("import", str(tmp_path / "two.jsonl"), "--url", url)
    assert result.exit_code == 1
    assert f"sash: a: {url}/ does not answer" in result.stderr
    assert "1 of 2 conversations failed, 1 were not sent: run it again" in result.stderr
    assert json.loads(result.stdout)["messages"] == 100


@pytest.mark.parametrize(
    ("refusal", "attempts"),
    [
        ((503, b'{"detail": "The store is away."}', {}), 3),
        ((429, b'{"detail": "Too many requests."}', {"Retry-After": "20"}), 1),
        ((507, b'{"detail": "The store is full."}', {"Retry-After": "30"}), 1),
        ((308, b"", {"Location": "https://sash.example/"}), 1),
    ],
)
def test_a_refusal_that_all_would_get_ends_the_import(
    tmp_path: Path, refusal: tuple[int, bytes, dict[str, str]], attempts: int
) -> None:
    """An import ends if the store is away or full, if the server asks for a long pause, or if it is elsewhere."""
    path = tmp_path / "two.jsonl"
    path.write_text("".join(json.dumps({"id": name, "entries": [{"message": USER}]}) + "\n" for name in "ab"))
    with stub(refusal) as (url, seen):
        result = sash("import", str(path), "--url", url)
    assert result.exit_code == 1
    assert len(seen) == attempts
    assert "1 of 2 conversations failed, 1 were not sent" in result.stderr


@pytest.mark.parametrize(
    "answer", [(200, b"<html>"), (404, b"<html>"), (200, b'{"version":"1"}'), (400, b'{"\xff":1}')]
)
def test_another_programs_server_is_noticed(tmp_path: Path, answer: tuple[int, bytes]) -> None:
    """An HTML page, other JSON, or JSON that is not UTF-8 is one line: it is not from a Sash server."""
    file = conversation_file(tmp_path, id="c", entries=[{"message": USER}])
    with stub((*answer, {})) as (url, _):
        for command in (("import", file), ("export", "c"), ("doctor",)):
            result = sash(*command, "--url", url)
            assert result.exit_code == 1
            if command[0] != "doctor":
                assert "no Sash server" in result.stderr


def test_a_key_is_the_first_line_that_is_no_remark(tmp_path: Path) -> None:
    """Empty lines and comments are skipped; a file without a key, or with an invalid one, is an error."""
    path = tmp_path / "key"
    path.write_text("# ours\n\n secret \nother\n")
    assert read_key(str(path)) == "secret"
    assert read_key(None) is None
    for text in ("", "# only\n", "two words\n", "schlüssel\n"):
        path.write_text(text)
        with pytest.raises(SourceError, match="holds no key"):
            read_key(str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(SourceError, match="it is not UTF-8"):
        read_key(str(path))
