"""``sash import`` reads lists of OpenAI's API in their order, and joins no two conversations of a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.cli import main
from sash.commands.source_error import SourceError
from sash_tools.importing import check
from sash_tools.sources.conversation import SourceConversation
from sash_tools.sources.detect import conversations_in

CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "find",
    "arguments": "{}",
    "status": "completed",
}
OUTPUT = {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "seven", "status": "completed"}


def said(identity: str, role: str, text: str) -> dict[str, Any]:
    kind = {"type": "input_text", "text": text} if role == "user" else {"type": "output_text", "text": text}
    return {"type": "message", "id": identity, "status": "completed", "role": role, "content": [kind]}


def posted(place: int, role: str, *parts: Any, thread: str = "thread_1") -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": f"text {place}", "annotations": []}}, *parts]
    facts = {"id": f"msg_{place}", "object": "thread.message", "created_at": 1_700_000_000 + place, "thread_id": thread}
    return {**facts, "role": role, "content": content, "attachments": [], "metadata": {}}


def page(values: list[Any], **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": values, "has_more": False, **more}


def read(value: Any, order: Any = "auto") -> list[SourceConversation]:
    found = conversations_in(json.dumps(value).encode(), "chat.json", order=order)
    for each in found:
        check(each)
    return found


def texts(conversation: SourceConversation) -> list[Any]:
    return [entry["message"]["content"] for entry in conversation.entries]


def run(path: Path, value: Any, *more: str) -> Result:
    path.write_text(json.dumps(value))
    return CliRunner().invoke(main, ("import", str(path), "--dry-run", *more), catch_exceptions=False)


ITEMS = [said("m1", "user", "Seats?"), CALL, OUTPUT, said("m2", "assistant", "Seven.")]
TALK = [said("m1", "user", "Seats?"), said("m2", "assistant", "Seven.")]


def test_items_of_a_conversation_are_read_newest_first() -> None:
    """A page of items is read in the order that its calls tell, or with a reply before its question, newest first."""
    oldest = read({"items": ITEMS})[0].entries
    assert [entry["id"] for entry in oldest] == ["m1", "fc_1", "fco_1", "m2"]
    for value in (page(ITEMS), page(ITEMS[::-1])):
        assert read(value)[0].entries == oldest
    assert texts(read(page(TALK[::-1]))[0]) == texts(read({"items": TALK})[0])


def test_a_list_whose_order_nothing_says_is_refused_until_the_command_says_it(tmp_path: Path) -> None:
    """A page with a question before its reply may be either order: the error names the option, which then decides."""
    path = tmp_path / "items.json"
    refused = run(path, page(TALK))
    assert refused.exit_code == 1
    assert "--order oldest" in refused.output
    assert json.loads(run(path, page(TALK), "--order", "oldest").stdout)["messages"] == 2
    first, second = texts(read(page(TALK), "oldest")[0]), texts(read(page(TALK), "newest")[0])
    assert first == second[::-1]


def test_a_list_with_a_format_is_named(tmp_path: Path) -> None:
    """A list of OpenAI's API is no request: the error says that it is read without ``--format``, and so it is."""
    refused = run(tmp_path / "items.json", page(ITEMS), "--format", "responses")
    assert refused.exit_code == 1
    assert "without --format" in refused.output
    assert json.loads(run(tmp_path / "items.json", page(ITEMS)).stdout)["messages"] == len(read(page(ITEMS))[0].entries)


def test_a_page_that_is_not_the_last_says_so() -> None:
    """A page with ``has_more`` is read, and the report counts that pages lack."""
    (conversation,) = read(page(ITEMS, has_more=True))
    assert sum(conversation.left_out.values()) == 1


@given(st.lists(st.sampled_from(["user", "assistant"]), min_size=2, max_size=8), st.booleans(), st.booleans())
@examples(1)
def test_messages_of_a_thread_are_read_by_their_times(roles: list[str], newest: bool, whole: bool) -> None:  # noqa: FBT001
    """A thread's messages come oldest first, whichever order the list has, and the thread's id is the conversation's."""
    messages = [posted(place, role) for place, role in enumerate(roles, 1)]
    listed = messages[::-1] if newest else messages
    (conversation,) = read(page(listed) if whole else listed)
    assert conversation.id == "thread_1"
    assert [(e["id"], e["message"]) for e in conversation.entries] == [
        (f"msg_{place}", {"role": role, "content": f"text {place}"}) for place, role in enumerate(roles, 1)
    ]


def test_parts_of_a_threads_messages() -> None:
    """A user's files are parts, and what a chat message cannot hold is counted."""
    image = {"type": "image_file", "image_file": {"file_id": "file_1"}}
    (conversation,) = read([posted(1, "user", image), posted(2, "assistant", image)])
    assert texts(conversation)[0][1] == {"type": "file", "file": {"file_id": "file_1"}}
    assert conversation.left_out == {"image_file of a thread's message": 1}


def test_messages_of_two_threads_are_two_conversations() -> None:
    """A list with messages of several threads is a conversation for each."""
    found = read([posted(1, "user"), posted(2, "user", thread="thread_2"), posted(3, "assistant")])
    assert [(each.id, len(each.entries)) for each in found] == [("thread_1", 2), ("thread_2", 1)]


NAMES = ["session_id", "sessionId", "thread_id", "threadId", "conversation_id", "conversationId", "chat_id", "chatId"]


@given(st.sampled_from(NAMES), st.lists(st.integers(1, 2), min_size=1, max_size=4), st.booleans(), st.booleans())
@examples(1)
def test_messages_of_two_conversations_are_never_joined(name: str, owners: list[int], ui: bool, many: bool) -> None:  # noqa: FBT001
    """Messages that name different conversations are refused in every form of a file, and those of one are read."""
    said: dict[str, Any] = {"parts": [{"type": "text", "text": "Hi"}]} if ui else {"content": "Hi"}
    values = [{"id": f"m{n}", "role": "user", **said, name: f"c{owner}"} for n, owner in enumerate(owners)]
    data = b"\n".join(json.dumps(each).encode() for each in values) if many else json.dumps(values).encode()
    if len(set(owners)) == 1:
        assert len(conversations_in(data, "chat.json")[0].entries) == len(owners)
    else:
        with pytest.raises(SourceError, match="of two conversations"):
            conversations_in(data, "chat.json")


@pytest.mark.parametrize("text", [False, True])
def test_rows_of_a_chat_memory_are_sorted_into_sessions(text: bool) -> None:  # noqa: FBT001
    """Rows of n8n and of LangChain's SQL histories are a conversation for each session, in their order."""

    def row(session: str, kind: str, said: str) -> dict[str, Any]:
        message = {"type": kind, "content": said, "additional_kwargs": {}, "response_metadata": {}}
        return {"id": 1, "session_id": session, "message": json.dumps(message) if text else message}

    found = read([row("s1", "human", "Hi"), row("s2", "human", "Secret"), row("s1", "ai", "Hello")])
    assert [(each.id, texts(each)) for each in found] == [("s1", ["Hi", "Hello"]), ("s2", ["Secret"])]


PROGRAMS: dict[str, Any] = {
    "Mastra": [{"id": "m", "role": "user", "threadId": "t", "resourceId": "r", "content": {"format": 2, "parts": []}}],
    "LlamaIndex": [
        {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": "hi"}]},
        {"store": {"user1": []}, "class_name": "SimpleChatStore"},
    ],
    "the ADK": [
        {"id": "s", "appName": "a", "userId": "u", "events": [{"author": "user", "content": {"parts": []}}]},
        {"author": "user", "invocationId": "i", "content": {"role": "user", "parts": [{"text": "hi"}]}},
    ],
    "LangGraph": [
        {"values": {"messages": [{"type": "human", "content": "hi"}]}, "next": []},
        {"v": 1, "channel_values": {"messages": [{"type": "human", "content": "hi"}]}},
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"messages": [value]}])
def test_a_program_that_is_not_read_is_named(tmp_path: Path, name: str, wrap: Any) -> None:
    """A record of another agent framework ends with its name and what to do, alone, in a list or in ``messages``."""
    for value in PROGRAMS[name]:
        refused = run(tmp_path / "chat.json", wrap(value))
        assert refused.exit_code == 1
        assert name in refused.output
        assert "`" in refused.output


@given(
    st.dictionaries(st.sampled_from(["items", "data", "results", "chats", "input"]), st.just([{"a": 1}]), min_size=1)
)
@examples(1)
def test_an_object_of_unknown_lists_is_no_conversation(value: Any) -> None:
    """Lists under names that nobody knows are not keys of a Redis, which would make them conversations."""
    with pytest.raises(SourceError, match=r"an object without messages"):
        conversations_in(json.dumps(value).encode(), "chat.json")
    for members in value:
        with pytest.raises(SourceError):
            check(conversations_in(json.dumps({members: [{"text": "x"}]}).encode(), "chat.json")[0])
