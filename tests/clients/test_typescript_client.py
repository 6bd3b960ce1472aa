"""Tests of ``service/sash_client/ts/sash.ts`` on Node: its types, its calls, its streams, and the AI SDK on it.

The programs are in ``sash_ts``. They need npm: ``python -m pytest -m clients tests/clients/test_typescript_client.py``.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import httpx
import msgspec
import pytest
from clients.test_generated import needs, run, told
from conftest import Served
from readme_blocks import ROOT, block
from readme_provider import ANSWER, provided
from rigs.misbehaving import always, between, first
from test_misbehaving import DEFECT, FULL, Reply

from sash.api.docs import TYPESCRIPT_CLIENT
from sash.core.law.records.parameters import WindowFormat, WindowQuery
from sash.core.providers import PROVIDERS

HERE = Path(__file__).parent
CLIENT = ROOT / "service" / "sash_client" / "ts" / "sash.ts"
_ROLES = {"function_call": "assistant", "function_call_output": "tool"}
QUESTION = {"role": "user", "content": "is there a talk?"}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs, with the client, the contract's types and the packages."""
    needs("node", "npm")
    folder = tmp_path_factory.mktemp("sash_ts")
    shutil.copytree(HERE / "sash_ts", folder, dirs_exist_ok=True)
    (folder / CLIENT.name).write_bytes(TYPESCRIPT_CLIENT)
    shutil.copy(ROOT / "openapi.json", folder)
    (folder / "talk.ts").write_text(block("ts", "README.md", "### TypeScript"))
    run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    run("npm", "run", "generate", cwd=folder)
    return folder


def seen(programs: Path, case: str, url: str = "") -> Any:
    """Return what a case of client.ts prints."""
    return told(run("npx", "tsx", "client.ts", case, url, cwd=programs))


def stored(url: str, conversation: str, form: str = "openai") -> list[dict[str, Any]]:
    page = httpx.get(f"{url}/conversations/{conversation}/messages", params={"format": form}).raise_for_status()
    entries: list[dict[str, Any]] = page.json()["messages"]
    return entries


def test_the_client_has_every_window_parameter() -> None:
    """The interface of a window's parameters has a line for each of them, in their order, with its values."""
    (members,) = re.findall(r"interface WindowQuery \{\n(.*?)\}", CLIENT.read_text(), re.DOTALL)
    fields = msgspec.structs.fields(WindowQuery)
    assert members.splitlines() == [f"  {field.name}?: {_typed(field.type)};" for field in fields]


def test_the_client_has_every_format() -> None:
    """The type of formats has each of them."""
    (formats,) = re.findall(r"type Format = (.*);", TYPESCRIPT_CLIENT.decode())
    assert {each.strip('"') for each in formats.split(" | ")} == set(PROVIDERS)


def _typed(kind: Any) -> str:
    """Return a parameter's type in TypeScript."""
    if hasattr(kind, "__metadata__"):
        return "Format" if kind is WindowFormat else _typed(kind.__origin__)
    if get_origin(kind) is Literal:
        return " | ".join(f'"{value}"' for value in get_args(kind))
    if args := get_args(kind):
        return " | ".join(_typed(each) for each in args if each is not type(None))
    return {int: "number", float: "number", str: "string", bool: "boolean"}[kind]


async def test_the_service_gives_the_client(client: httpx.AsyncClient) -> None:
    """A running service has the file, for everybody, at the path that README names."""
    answer = await client.get("/clients/sash.ts")
    assert (answer.status_code, answer.content) == (200, TYPESCRIPT_CLIENT)
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.clients
def test_the_types_are_those_of_the_contract(programs: Path) -> None:
    """The compiler accepts the client, README's program and those here, and the types are the contract's: with its strictest
    options, and with ``strict`` alone, which takes an optional member for one that may be undefined."""
    run("npm", "run", "check", cwd=programs)
    run("npm", "run", "check", "--", "--exactOptionalPropertyTypes", "false", cwd=programs)


@pytest.mark.clients
def test_events_are_whole_however_a_stream_is_cut(programs: Path) -> None:
    """Every cut gives the same events, with each kind of line end, several lines and letters of two bytes."""
    found = [["a", "é1\n2"], ["message", "3"], ["message", "4"], ["message", "5"]]
    assert seen(programs, "events") == [found]


@pytest.mark.clients
def test_a_stream_is_one_message(programs: Path) -> None:
    """Texts, reasoning and two calls in pieces are one message; a stream that fails or ends early is an error."""
    found = seen(programs, "collects")
    (message,) = found["whole"]
    assert (message["content"], message["reasoning_content"], found["texts"]) == ("I look.", "hm", "I look.")
    assert [(call["id"], call["function"]) for call in message["tool_calls"]] == [
        ("c1", {"name": "find_talk", "arguments": '{"topic": 1}'}),
        ("c2", {"name": "find_room", "arguments": '{"room": 2}'}),
    ]
    assert found["ended"] == "The provider's stream ended before the reply."
    assert (found["failed"], found["refused"]) == ("overloaded", "The provider answers 400: no")


@pytest.mark.clients
@pytest.mark.parametrize("act", ["drop", "lose", "cut", DEFECT], ids=["drop", "lose", "cut", "500"])
def test_an_append_is_stored_once_after_a_fault(programs: Path, served: Served, act: Any) -> None:
    """After a lost request, a lost or cut answer, or a temporary refusal, the same ids are sent again."""
    httpx.delete(f"{served.url}/conversations/ts-1")
    with between(served.url, first(act)) as (url, requests):
        places = seen(programs, "append", url)
    assert [seq for seq, _ in places] == [1, 2]
    assert [entry["message"] for entry in stored(served.url, "ts-1")] == [
        QUESTION,
        {"role": "user", "content": "or two?"},
    ]
    assert len(requests) == 2
    assert requests[0].body == requests[1].body


@pytest.mark.clients
def test_a_conversation_is_followed(programs: Path, served: Served) -> None:
    """Each change comes once, with its messages, until the conversation is erased; an owner's stream ends by a signal."""
    httpx.delete(f"{served.url}/conversations/ts-9")
    assert seen(programs, "follows", served.url) == [
        ["appended", 1, [[1, QUESTION["content"]]]],
        ["appended", 2, [[2, "yes"], [3, QUESTION["content"]]]],
        ["rewound", 3, []],
        ["erased", 0, None],
    ]
    assert seen(programs, "sidebar", served.url) == [["listed", ["ts-10"]], ["appended", "ts-10"]]


@pytest.mark.clients
def test_a_follower_comes_back(programs: Path) -> None:
    """A stream that ends or breaks is opened again with the last id; a refusal is an error."""
    found = seen(programs, "comes_back")
    path = "/conversations/c-1/events?after=0"
    assert found["asked"] == [[path, ""], [path, "1-life"], [path, "2-life"], [path, "2-life"]]
    assert (found["versions"], found["refused"]) == ([1, 2], 401)


@pytest.mark.clients
@pytest.mark.parametrize("answer", [FULL, Reply(200, b'{"name": "another"}'), Reply(200, b"<html>")])
def test_a_final_answer_is_not_asked_again(programs: Path, served: Served, answer: Reply) -> None:
    """A refusal with a long pause, and another server's answer, are errors at once."""
    with between(served.url, always(answer)) as (url, requests), pytest.raises(AssertionError, match="SashError"):
        seen(programs, "append", url)
    assert len(requests) == 1


@pytest.mark.clients
def test_refusals_are_errors_with_the_problem(programs: Path, served: Served) -> None:
    """Bad input, an unknown model, a window that does not fit (its question is stored) and a second creation."""
    httpx.delete(f"{served.url}/conversations/ts-2")
    assert seen(programs, "refused", served.url) == [
        [True, 400, "/problems/invalid-entry"],
        [True, 422, "/problems/unknown-model"],
        [True, 422, "/problems/window-does-not-fit"],
        [True, 409, "/problems/conversation-exists"],
    ]
    assert len(stored(served.url, "ts-2")) == 1


@pytest.mark.clients
def test_a_turn_has_its_calls(programs: Path, served: Served) -> None:
    """Create, append with a window, regenerate by an entry's id, page, bill and erase."""
    assert seen(programs, "turn", served.url) == {
        "first": 2,
        "other": ["You know the programme.", "is there a talk?", "no"],
        "page": [2, True],
        "window": 1,
    }


@pytest.mark.clients
def test_a_reply_that_was_taken_away_is_not_stored_anew(programs: Path, served: Served) -> None:
    """With ``continues`` the end of a reply that was regenerated meanwhile is 410, and the new reply stands alone."""
    httpx.delete(f"{served.url}/conversations/ts-9")
    found = seen(programs, "continued", served.url)
    assert found["refused"] == [410, "/problems/reply-gone"]
    assert found["stored"] == ["is there a talk?", "No."]


@pytest.mark.clients
def test_what_came_of_a_broken_stream_is_stored(programs: Path, served: Served) -> None:
    """A reader that goes away, a connection that breaks and a stream that ends early leave an interrupted reply."""
    for number in range(4, 8):
        httpx.delete(f"{served.url}/conversations/ts-{number}")
    found = seen(programs, "interrupted", served.url)
    replies = [entries[1] for entries in found["stored"]]
    assert [len(entries) for entries in found["stored"]] == [2, 2, 2, 3]
    assert {entries[-1]["status"] for entries in found["stored"]} == {"interrupted"}
    assert [reply["message"]["content"] for reply in replies] == ["I look.", "I look.", "I look.", None]
    assert found["stored"][3][2]["message"]["content"] == "I look"
    assert [len(reply["message"].get("tool_calls", ())) for reply in replies] == [0, 2, 0, 1]
    assert (found["broken"], found["ended"]) == ("TypeError", "The provider's stream ended before the reply.")


@pytest.mark.clients
def test_the_end_of_a_stream_waits_for_the_store(programs: Path, served: Served) -> None:
    """Whoever sees the last chunk finds the reply in the history. A question whose request is repeated is stored once."""
    httpx.delete(f"{served.url}/conversations/ts-8")
    found = seen(programs, "held", served.url)
    assert [message["role"] for message in found["stored"]] == ["user", "assistant", "assistant"]
    assert found["stored"][1]["content"] == ""  # the attempt that failed, which windows leave out
    assert (found["failed"], found["done"], found["passed"]) == ("TypeError", True, 200)


@pytest.mark.clients
def test_a_reply_that_was_taken_away_does_not_come_back(programs: Path, served: Served) -> None:
    """A reply is in the log while it streams; after a rewind its end is not stored."""
    httpx.delete(f"{served.url}/conversations/ts-11")
    assert seen(programs, "rewound", served.url) == {"status": ["", "in_progress"], "stored": ["never mind"]}


@pytest.mark.clients
@pytest.mark.parametrize("form", ["chat", "responses"])
@pytest.mark.parametrize("way", ["whole", "streamed"])
def test_the_ai_sdk_runs_on_windows(programs: Path, served: Served, form: str, way: str) -> None:
    """Three questions with two tool calls, in both forms, whole and streamed; each message is stored once."""
    conversation = f"ai-{form}-{way}"
    httpx.delete(f"{served.url}/conversations/{conversation}")
    with provided(served.url) as provider:
        done = subprocess.run(
            ["npx", "tsx", "agent.ts", form, way, served.url, conversation],
            cwd=programs,
            env={**os.environ, **provider.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.stdout.splitlines() == [ANSWER] * 3, done.stdout + done.stderr
    assert provider.refusals == []
    assert len(provider.requests) == 5
    assert {bool(request.get("stream")) for request in provider.requests} == {way == "streamed"}
    roles = [entry["message"]["role"] for entry in stored(served.url, conversation)]
    turn = ["user", "assistant", "tool", "assistant"]
    assert roles == [*turn, "user", "assistant", *turn]
    sent = provider.requests[-1]["messages" if form == "chat" else "input"]
    kinds = [_ROLES.get(kind, kind) for kind in (item.get("role") or item["type"] for item in sent)]
    assert [kind for kind in kinds if kind != "reasoning"] == ["system", *roles[:-1]]


@pytest.mark.clients
def test_a_tool_loop_that_breaks_off_is_asked_again(programs: Path, served: Served) -> None:
    """A loop goes on from its results, in the same process or another: they stand once, and half a reply makes room."""
    for name in ("fails", "again", "stopped", "anew"):
        httpx.delete(f"{served.url}/conversations/{name}")
    found = told(run("npx", "tsx", "loop.ts", served.url, cwd=programs))
    loop = [["user", "is there a talk?"], ["assistant", "call_1"], ["tool", "found"]]
    for name in ("fails", "again", "stopped"):
        assert found[name] == [*loop, ["assistant", "At noon."]], name
        assert found[f"{name} sent"] == [loop[0], ["assistant", ""], loop[2]], name
    assert found["anew"] == [loop[0], ["assistant", "At noon."]]
    assert found["anew sent"] == [loop[0]]


@pytest.mark.clients
def test_no_button_of_a_chat_page_doubles_a_question(programs: Path, served: Served) -> None:
    """Send, regenerate, retry after a 500, edit the last and the first, reload: page, log and window have the same words.

    A reply in progress goes on after a reload, in one message.
    """
    httpx.delete(f"{served.url}/conversations/buttons")
    found = told(run("npx", "tsx", "buttons.ts", served.url, cwd=programs))
    chats = {
        "send": ["one", "answer 1"],
        "send again": ["one", "answer 1", "two", "answer 2"],
        "regenerate": ["one", "answer 1", "two", "answer 3"],
        "fail": ["one", "answer 1", "two", "answer 3", "three"],
        "retry": ["one", "answer 1", "two", "answer 3", "three", "answer 5"],
        "edit the last": ["one", "answer 1", "two", "answer 3", "four", "answer 6"],
        "reload and send": ["one", "answer 1", "two", "answer 3", "four", "answer 6", "five", "answer 7"],
        "edit the first": ["one more", "answer 8"],
        "resume": ["one more", "answer 8", "and?", "It is at noon."],
    }
    for name, words in chats.items():
        assert found[name] == [words, words], name
    asked = [chats["fail"] if name == "fail" else chats[name][:-1] for name in chats if name != "resume"]
    assert found["windows"] == asked
    assert found["ids"][0] == found["ids"][1]
    assert found["ids"][0][1] == "half"
    assert (found["status"], found["nothing to resume"], found["none"]) == ("ready", 204, None)


@pytest.mark.clients
def test_ag_uis_client_has_the_messages(programs: Path, served: Served) -> None:
    """AG-UI's schemas take each event, and an agent that connects, or goes on following, has the messages of a page.

    CopilotKit connects to a thread so. A thread that does not exist is empty.
    """
    httpx.delete(f"{served.url}/conversations/ag-ui")
    found = told(run("npx", "tsx", "ag_ui.ts", served.url, cwd=programs))
    assert found["connected"] == found["first"]
    assert found["followed"] == found["then"]
    assert [each["id"] for each in found["then"]] == ["u1", "a1", "u2", "R", "a3-r", "a3", "t3", "a5"]
    assert {"TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"} <= {
        *found["kinds"]
    }
    assert found["none"] == []


@pytest.mark.clients
def test_assistant_ui_has_threads_and_every_branch(programs: Path, served: Served) -> None:
    """Its thread list creates, names, archives and erases conversations; its own tree of messages has each way once."""
    found = told(run("npx", "tsx", "assistant_ui.ts", served.url, "assistant-ui", cwd=programs))
    assert (found["listed"], found["archived"], found["title"]) == (
        [["Talks", "regular"]],
        "archived",
        "is there a talk?",
    )
    assert (found["empty"], found["generated"], found["left"]) == (0, 3, 0)
    assert found["path"] == ["q1", "a1", "q2 edited", "a4"]
    assert sorted(found["ways"]) == ["q2", "q2 edited"]
    assert found["answers"] == ["a2", "a3"]
    assert found["other"] == ["q1", "a1", "q2"]
