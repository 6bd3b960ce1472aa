"""``sash import`` reads other programs' records, names those that it does not read, and reports no message in vain."""

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from conftest import Served
from rigs.other_programs import (
    ANSWER,
    CHATGPT,
    CLAUDE_AI,
    CLAUDE_CODE,
    CODEX,
    LANGCHAIN_DICT,
    LANGCHAIN_DUMPD,
    LANGCHAIN_MODEL_DUMP,
    LIBRECHAT,
    MODEL_MESSAGES,
    OPEN_WEBUI,
    QUESTION,
    SHAREGPT,
    UI_MESSAGES,
)

from sash.cli import main
from sash.core.chat.programs import recognise
from sash_tools.importing import check
from sash_tools.sources.conversation import SourceConversation, SourceError
from sash_tools.sources.detect import conversations_in


def sash(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def as_lines(values: list[Any]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def read(value: Any) -> list[SourceConversation]:
    found = conversations_in(value if isinstance(value, bytes) else json.dumps(value).encode(), "chat.json")
    for each in found:
        check(each)
    return found


def messages(conversation: SourceConversation) -> list[dict[str, Any]]:
    return [
        {name: held for name, held in entry["message"].items() if name != "native"} for entry in conversation.entries
    ]


def called(identity: str, name: str, arguments: str, text: str | None = None) -> dict[str, Any]:
    call = {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def result(identity: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": text}


USER, REPLY = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}
FINE_TUNING = {"messages": [USER, {**REPLY, "weight": 1}], "parallel_tool_calls": False, "functions": [{"name": "f"}]}
FILES: dict[str, Any] = {
    "codex": as_lines(CODEX),
    "claude code": as_lines(CLAUDE_CODE),
    "ui messages": UI_MESSAGES,
    "model messages": MODEL_MESSAGES,
    "ui messages, a line each": as_lines(UI_MESSAGES),
    "ui messages of a chat": {"id": "ui-1", "title": "An order", "messages": UI_MESSAGES},
    "open webui": OPEN_WEBUI,
    "open webui, one chat": OPEN_WEBUI[0],
    "librechat": LIBRECHAT,
    "sharegpt": SHAREGPT,
    "sharegpt, lines": as_lines([SHAREGPT, {**SHAREGPT, "id": "share-2"}]),
    "dumpd": LANGCHAIN_DUMPD,
    "model_dump": LANGCHAIN_MODEL_DUMP,
    "messages_to_dict": LANGCHAIN_DICT,
    "fine-tuning": as_lines([FINE_TUNING, FINE_TUNING]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_imported_and_can_be_sent(served: Served, tmp_path: Path, name: str) -> None:
    """What is reported as imported is stored once, and a window in chat form sends its question and its answer."""
    path = tmp_path / "chat.json"
    path.write_bytes(FILES[name] if isinstance(FILES[name], bytes) else json.dumps(FILES[name]).encode())
    first, again = (sash("import", str(path), "--url", served.url) for _ in range(2))
    assert first.exit_code == again.exit_code == 0, first.output + again.output
    told, second = json.loads(first.stdout), json.loads(again.stdout)
    assert told["messages"] == second["duplicates"] > 0
    assert second["messages"] == 0
    assert not told["failed"]
    stored = 0
    for each in read(FILES[name]):
        made = httpx.get(f"{served.url}/conversations/{each.id}/window", params={"model": "gpt-4o-mini"})
        assert made.status_code == 200, made.text
        sent = json.dumps(made.json()["request"])
        assert QUESTION in sent
        assert ANSWER in sent
        assert made.json()["kept"]["messages"] == len(each.entries)
        stored += made.json()["kept"]["messages"]
        assert httpx.delete(f"{served.url}/conversations/{each.id}").status_code == 204
    assert stored == told["messages"]


def test_a_codex_log_is_its_items() -> None:
    """A rollout's items become messages; its events and settings are counted as left out."""
    (conversation,) = read(as_lines(CODEX))
    assert conversation.id == "019c-codex"
    assert messages(conversation) == [
        {"role": "developer", "content": "Be brief."},
        USER,
        called("call_1", "exec_command", '{"cmd":"ls"}'),
        result("call_1", "17.json"),
        called("call_2", "local_shell", '{"type":"exec"}'),
        result("call_2", "sent"),
        REPLY,
    ]
    assert conversation.left_out == {"turn_context": 1, "event_msg": 1, "reasoning": 1, "ghost_snapshot": 1}


def test_a_local_shells_output_is_its_calls_result() -> None:
    """A shell's output in a rollout answers its call, also if it has the call's id as its own."""
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {
            "type": "local_shell_call",
            "call_id": "s1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "local_shell_call_output", "id": "s1", "output": "a.txt"},
    ]
    (found,) = read(as_lines([{"timestamp": "t", "type": "response_item", "payload": each} for each in items]))
    assert messages(found)[2] == {"role": "tool", "tool_call_id": "s1", "content": "a.txt"}
    assert not found.left_out


def test_calls_without_ids_in_a_file_are_answered() -> None:
    """A chat of Ollama's native API, whose calls and results have no ids, is read."""
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    chat = [{"role": "user", "content": "Look."}, call, {"role": "tool", "tool_name": "f", "content": "found"}]
    (found,) = read(chat)
    said = messages(found)
    assert said[2]["tool_call_id"].startswith("call_made_")


def test_a_claude_code_log_is_claudes_messages() -> None:
    """The blocks of a reply are one message again, with its thinking, without members of the log; subagents are left out."""
    (conversation,) = read(as_lines(CLAUDE_CODE))
    assert conversation.id == "5f0a-session"
    assert messages(conversation) == [
        USER,
        called("toolu_1", "Bash", '{"command":"ls"}'),
        result("toolu_1", "17.json"),
        REPLY,
    ]
    assert conversation.entries[1]["id"] == "0000-1"
    native = json.dumps([entry["message"]["native"] for entry in conversation.entries])
    assert '"thinking"' in native
    assert "usage" not in native
    left_out = {"file-history-snapshot": 1, "summary": 1, "messages of subagents": 1, "queue-operation": 1}
    assert conversation.left_out == left_out


def test_ui_messages_are_steps() -> None:
    """A step's text and calls are one message, with the results behind it; reasoning and data parts are counted."""
    (conversation,) = read(UI_MESSAGES)
    assert messages(conversation) == [
        USER,
        called("call_1", "findOrder", '{"id":17}', "One moment."),
        result("call_1", '{"status":"sent"}'),
        REPLY,
    ]
    assert conversation.left_out == {"reasoning": 1, "data-notification": 1}
    assert messages(read(MODEL_MESSAGES)[0]) == messages(conversation)


def test_parts_of_ui_messages() -> None:
    """Pictures and files of the user are kept; older tool parts, errors and unfinished calls are read."""
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,eA=="}
    pdf = {
        "type": "file",
        "mediaType": "application/pdf",
        "url": "data:application/pdf;base64,eA==",
        "filename": "a.pdf",
    }
    gone = {"type": "file", "mediaType": "text/plain", "url": "blob:x"}
    invoked = {"toolCallId": "c1", "toolName": "f", "state": "result", "args": {}, "result": "x"}
    parts = [
        {"type": "tool-invocation", "toolInvocation": invoked},
        {
            "type": "dynamic-tool",
            "toolName": "g",
            "toolCallId": "c2",
            "state": "output-error",
            "input": "i",
            "errorText": "e",
        },
        {"type": "tool-h", "toolCallId": "c3", "state": "input-streaming", "input": {}},
        {"type": "tool-h", "toolCallId": "c4", "state": "input-available", "input": {}},
    ]
    given = [
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "See."}, picture, pdf, gone]},
        {"id": "a", "role": "assistant", "parts": parts},
        {"id": "v", "role": "user", "parts": [gone]},
    ]
    (conversation,) = read(given)
    user, reply, *results = messages(conversation)
    assert user["content"] == [
        {"type": "text", "text": "See."},
        {"type": "image_url", "image_url": {"url": picture["url"]}},
        {"type": "file", "file": {"file_data": pdf["url"], "filename": "a.pdf"}},
    ]
    assert [call["id"] for call in reply["tool_calls"]] == ["c1", "c2", "c4"]
    assert reply["tool_calls"][1]["function"]["arguments"] == "i"
    assert results == [result("c1", "x"), result("c2", "e")]
    assert conversation.left_out == {"files without their bytes": 2, "unfinished calls": 1, "empty messages": 1}


def test_the_newest_branch_of_a_chat_is_read() -> None:
    """Open WebUI's and LibreChat's trees give the branch that was shown last, with calls, title and system prompt."""
    (webui,) = read(OPEN_WEBUI)
    assert (webui.id, webui.settings) == ("8c1e-chat", {"metadata": {"title": "An order"}})
    assert messages(webui) == [USER, REPLY]
    (libre,) = read(LIBRECHAT)
    assert (libre.id, libre.settings["system"]) == ("8c1e-libre", "Be brief.")
    assert messages(libre) == [USER, called("call_1", "find", '{"id":17}'), result("call_1", "sent"), REPLY]
    assert libre.left_out == {"think": 1}
    tree = copy.deepcopy(LIBRECHAT)
    first, second, third = tree["messages"]
    tree["messages"] = [{**first, "children": [second, third]}]
    assert messages(read(tree)[0]) == messages(libre)


def test_sharegpts_calls_are_calls() -> None:
    """ShareGPT's turns get roles; a call and its observation belong together."""
    (conversation,) = read(SHAREGPT)
    assert conversation.settings == {"system": "Be brief."}
    assert messages(conversation) == [USER, called("call_2", "find", '{"id": 17}'), result("call_2", "sent"), REPLY]
    assert messages(read(SHAREGPT["conversations"])[0]) == messages(conversation)


def test_a_fine_tuning_line_is_a_conversation() -> None:
    """Each line is a conversation of its own; its functions are tools, and members about training are no settings."""
    first, _ = read(as_lines([FINE_TUNING, FINE_TUNING]))
    assert first.settings == {"tools": [{"type": "function", "function": {"name": "f"}}]}
    assert messages(first) == [USER, {**REPLY, "weight": 1}]


@pytest.mark.parametrize("value", [LANGCHAIN_DUMPD, LANGCHAIN_MODEL_DUMP, LANGCHAIN_DICT])
def test_every_dump_of_langchain_is_read(value: Any) -> None:
    """LangChain's three dumps of the same messages are the same conversation."""
    assert messages(read(value)[0]) == [USER, REPLY]
    assert messages(read({"messages": value})[0]) == [USER, REPLY]


ADK_EVENT = {"id": "e", "invocationId": "i", "author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}}
LANGCHAIN_STATE = {"messages": [{"type": "human", "content": "Hi"}]}
BLOCKS = {"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}]}
STORE = {"store": {"alice": [BLOCKS]}, "class_name": "SimpleChatStore"}
MASTRA = {
    "id": "1",
    "role": "user",
    "threadId": "t",
    "content": {"format": 2, "parts": [{"type": "text", "text": "Hi"}]},
}


@pytest.mark.parametrize(
    ("value", "called"),
    [
        ([MASTRA], "Mastra"),
        ({"messages": [{**MASTRA, "content": json.dumps(MASTRA["content"])}]}, "Mastra"),
        (STORE, "LlamaIndex"),
        ([BLOCKS], "LlamaIndex"),
        ({"chat_store": STORE, "chat_store_key": "alice", "class_name": "ChatMemoryBuffer"}, "LlamaIndex"),
        ({"appName": "a", "events": [ADK_EVENT]}, "the ADK"),
        ([ADK_EVENT], "the ADK"),
        ({"sessions": [], "events": [ADK_EVENT]}, "the ADK"),
        ({"eval_set_id": "x", "eval_cases": []}, "the ADK"),
        ({"values": LANGCHAIN_STATE, "next": []}, "LangGraph"),
        ({"v": 1, "channel_values": LANGCHAIN_STATE}, "LangGraph"),
        ({"config": {}, "checkpoint": {"channel_values": LANGCHAIN_STATE}}, "LangGraph"),
        ({"data": {"resultData": {"runData": {}}}, "workflowData": {}}, "n8n"),
        ({"nodes": [], "connections": {}}, "n8n"),
    ],
)
def test_a_record_of_a_program_that_is_not_read_is_named(value: Any, called: str) -> None:
    """Records of frameworks are named with the way in, and never become a conversation by guessing."""
    with pytest.raises(SourceError, match=f"{called}.*which is not read"):
        read(value)


@pytest.mark.parametrize("name", ["history", "chat", "turns", "data", "alice", "messages_by_user"])
def test_an_object_of_lists_is_no_conversation(name: str) -> None:
    """Any object whose values are lists of messages is refused: its members may be people, or anything else."""
    with pytest.raises(SourceError, match="an object without messages"):
        read({name: [{"role": "user", "content": "Hello"}]})


@pytest.mark.parametrize("name", ["session_id", "sessionId", "conversation_id", "threadId"])
def test_messages_of_two_conversations_are_not_joined(name: str) -> None:
    """Messages whose members name two conversations are refused, and never become one."""
    with pytest.raises(SourceError, match="of two conversations"):
        read([{"role": "user", "content": "Hello", name: each} for each in "ab"])


def test_sessions_of_a_chat_memory_are_conversations() -> None:
    """A session that LangChain and n8n keep in a database of documents has its own name, and no settings."""
    sessions = [
        {"sessionId": each, "messages": [{"type": "human", "data": {"content": "Hi"}}]} for each in ("s-1", "s-2")
    ]
    assert [(each.id, each.settings, messages(each)) for each in read(sessions)] == [
        (name, {}, [{"role": "user", "content": "Hi"}]) for name in ("s-1", "s-2")
    ]


@pytest.mark.parametrize(("value", "called"), [(CHATGPT, "ChatGPT's export"), ([CLAUDE_AI], "claude.ai's export")])
@pytest.mark.parametrize("dry", ["--dry-run", "--url=http://127.0.0.1:1"])
def test_an_export_that_is_not_read_is_named(tmp_path: Path, value: Any, called: str, dry: str) -> None:
    """ChatGPT's and claude.ai's exports are named, with what to do, and nothing is sent."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(value))
    done = sash("import", str(path), dry)
    assert done.exit_code == 1
    assert called in done.output
    assert "write each message as" in done.output


@pytest.mark.parametrize(
    "value",
    [
        as_lines(CODEX[:2]),
        CODEX[0],
        as_lines([CLAUDE_CODE[0], CLAUDE_CODE[6]]),
        [{"id": "u", "role": "user", "parts": [{"type": "step-start"}]}],
        [{"id": "a", "chat": {"history": {"messages": {}, "currentId": None}}}],
        [{"type": "reasoning", "summary": []}],
    ],
)
def test_a_file_without_messages_says_so(tmp_path: Path, value: Any) -> None:
    """A file in which nothing can be imported ends with status 1, and says what was left out."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    for more in ((), ("--dry-run",)):
        done = sash("import", str(path), "--url", "http://127.0.0.1:1", *more)
        assert done.exit_code == 1
        assert "holds no message that can be imported" in done.output


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
def test_a_log_is_not_a_providers_file(tmp_path: Path, form: str) -> None:
    """With --format, a log's lines are named, and not taken for items of tomorrow."""
    for value in (CODEX, CLAUDE_CODE, UI_MESSAGES):
        path = tmp_path / "log.jsonl"
        path.write_bytes(as_lines(value))
        done = sash("import", str(path), "--format", form, "--dry-run")
        assert done.exit_code == 1
        assert "sash import FILE" in done.output


def test_an_unknown_item_of_a_file_is_refused_unless_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that OpenAI does not have is refused with the setting that opens it, which the command reads too."""
    path = tmp_path / "items.json"
    path.write_text(json.dumps([USER, {"type": "hologram", "id": "h"}]))
    asked = ("import", str(path), "--format", "responses", "--dry-run")
    refused = sash(*asked)
    assert refused.exit_code == 1
    assert "SASH_ALLOW_ITEMS=hologram" in refused.output
    for value, code in (("other, hologram", 0), ("*", 0), ("other", 1), ("a b", 1)):
        monkeypatch.setenv("SASH_ALLOW_ITEMS", value)
        assert sash(*asked).exit_code == code


def test_a_repeated_line_of_a_log_is_one_message() -> None:
    """A resumed session repeats lines of the earlier one."""
    (conversation,) = read(as_lines([*CLAUDE_CODE, *CLAUDE_CODE[2:4]]))
    assert conversation.left_out["repeated lines"] == 2
    assert len(conversation.entries) == 4


def test_what_is_broken_in_a_record_is_no_traceback() -> None:
    """A record with a value of another type is a SourceError, whichever member it is."""
    for value in (CODEX, CLAUDE_CODE, UI_MESSAGES, OPEN_WEBUI, [LIBRECHAT], [SHAREGPT]):
        for broken in _broken(value):
            with suppress(SourceError):
                read(broken)


def _broken(value: Any) -> list[Any]:
    """Return copies of a value in which one member each is replaced."""
    found = []
    places = [(value,)]
    while places:
        path = places.pop()
        inner = path[-1]
        for key in list(inner) if isinstance(inner, dict) else range(len(inner)):
            for other in (None, 7, [], {}, "x", [7]):
                held, inner[key] = inner[key], other
                found.append(json.loads(json.dumps(value)))
                inner[key] = held
            if isinstance(inner[key], dict | list):
                places.append((inner[key],))
    return found


def test_providers_messages_are_no_programs_records() -> None:
    """Messages of all formats, and entries with them, are of no other program."""
    for sound in (
        USER,
        {**USER, "timestamp": 1, "createdAt": "x", "parts": [{"type": "text", "text": QUESTION}]},
        {"role": "user", "parts": [{"text": QUESTION}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"id": "m-1", "message": USER, "metadata": {"sessionId": "s"}},
        {"id": "msg", "type": "message", "role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
        {"type": "system", "id": "x"},
        7,
    ):
        assert recognise(sound) is None
