"""``sash import`` reads each format into conversations, and reports where a source cannot be read.

The stored forms of LangChain and of the Agents SDK are written out by hand here, as langchain-community 0.4,
langchain-redis 0.2 and openai-agents 0.24 write them, because the libraries have many dependencies.
"""

import json
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.bounds import IDS
from sash_tools.importing import batches, check, orphans, without_orphans
from sash_tools.sources import agents_sdk
from sash_tools.sources.conversation import SourceConversation, SourceError, safe_id
from sash_tools.sources.detect import conversations_in, from_redis, from_sqlite

USER = {"role": "user", "content": "Two seats?"}
REPLY = {"role": "assistant", "content": "Yes."}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"seats": 2}'}}


FIELDS = [
    "role", "content", "type", "data", "message", "messages", "entries", "id", "tool_calls", "tool_call_id", "name",
    "function", "additional_kwargs", "text", "call_id", "args", "source", "system", "tools", "version", "created_at",
    "session_id", "memories", "user_id",
]  # fmt: skip


def read(value: Any, name: str = "chat.json", **options: Any) -> list[SourceConversation]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return conversations_in(data, name, **options)


def messages(value: Any, **options: Any) -> list[dict[str, Any]]:
    (conversation,) = read(value, **options)
    check(conversation)
    return [entry["message"] for entry in conversation.entries]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def langchain(kind: str, content: Any, **data: Any) -> dict[str, Any]:
    """A message as ``message_to_dict`` writes it."""
    common = {"content": content, "additional_kwargs": {}, "response_metadata": {}, "type": kind, "name": None}
    return {"type": kind, "data": {**common, "id": None, **data}}


# ---- ids


def test_an_id_stays_what_it_is_and_other_names_become_ids() -> None:
    """A valid id stays unchanged; any other name becomes a valid id, always the same, and different names differ."""
    assert safe_id("user-1.a_B") == "user-1.a_B"
    made = [safe_id(name) for name in ("user:1", "user/1", "é", "", "x" * 300, "-a")]
    assert all(IDS.fullmatch(each) for each in made)
    assert len(set(made)) == len(made)
    assert safe_id("user:1") == made[0]


def test_entries_are_named_by_their_place_unless_they_have_an_id() -> None:
    """Entries without an id are named by place, so that a second import of a longer history adds only its end."""
    (conversation,) = read([USER, {"id": "mine", "message": REPLY}, USER])
    assert [entry["id"] for entry in conversation.entries] == ["import-1", "mine", "import-3"]


# ---- Sash's own formats


def test_a_message_alone_has_the_entrys_members_beside_it() -> None:
    """The id, the pin and the metadata of a chat message alone are the entry's; other members stay in the message."""
    (found,) = read([{**USER, "id": "m/1", "pinned": True, "metadata": {"page": 7}, "createdAt": "now"}])
    (entry,) = found.entries
    assert (entry["pinned"], entry["metadata"]) == (True, {"page": 7})
    assert entry["id"] != "import-1"
    assert entry["message"] == {**USER, "createdAt": "now"}


def test_a_list_of_messages_is_one_conversation_named_after_its_file() -> None:
    """A list of messages is one conversation whose id is made from the file's name."""
    (conversation,) = read([USER, REPLY], "some/where/my chat.json")
    assert conversation.id.startswith("my-chat-")
    assert [entry["message"] for entry in conversation.entries] == [USER, REPLY]


def test_lines_of_messages_and_entries_are_one_conversation() -> None:
    """Lines of messages and entries are one conversation; a byte order mark and empty lines are ignored."""
    (conversation,) = read(
        b"\xef\xbb\xbf" + lines(USER) + b"\n\n" + lines({"message": REPLY, "pinned": True}), "c.ndjson"
    )
    assert conversation.id == "c"
    assert conversation.entries[1] == {"id": "import-2", "message": REPLY, "pinned": True}


def test_conversations_are_lines_or_a_list_or_one_object() -> None:
    """Conversations have settings and ``entries`` or ``messages``, and come as lines, a list or one object."""
    first = {"id": "a", "system": "Be brief.", "entries": [{"id": "m", "message": USER}]}
    second = {"id": "b", "tools": None, "messages": []}
    for value in (lines(first, second), [first, second]):
        a, b = read(value)
        assert (a.id, a.settings, len(a.entries)) == ("a", {"system": "Be brief."}, 1)
        assert (b.id, b.settings, b.entries) == ("b", {}, [])
    assert read(first)[0].id == "a"
    assert read({"messages": [USER]}, "x.json")[0].id == "x"


def test_an_export_is_settings_and_then_entries() -> None:
    """Several exports may follow one another; fields that a listing adds to an entry are not sent."""
    settings = {"id": "a", "system": "S", "version": 3, "created_at": "2026-01-01T00:00:00.000Z", "summary": None}
    listed = {
        "seq": 1,
        "id": "m",
        "created_at": "x",
        "message": USER,
        "tokens": {},
        "digest": "00",
        "image_sizes": [None],
    }
    a, b = read(lines(settings, listed, {**settings, "id": "b"}, listed))
    assert [a.id, b.id] == ["a", "b"]
    assert a.entries == [{"id": "m", "message": USER}]
    assert a.exported == [settings, listed]


def test_an_export_without_entries_is_one_line() -> None:
    """An export without messages is a conversation without entries."""
    (conversation,) = read(lines({"id": "a", "version": 1, "created_at": "x", "messages": {"count": 0}}))
    assert (conversation.id, conversation.entries, len(conversation.exported)) == ("a", [], 1)


# ---- LangChain


def test_langchains_kinds_become_roles() -> None:
    """Each kind of message gets its role, including developer messages and chunks, and keeps its name."""
    given = [
        langchain("system", "S", additional_kwargs={"__openai_role__": "developer"}),
        langchain("human", "H", name="ada"),
        langchain("AIMessageChunk", "A"),
        langchain("chat", "C", role="user"),
        langchain("chat", "D", role="Human"),
        langchain("function", "F", name="f"),
        langchain("system", "T"),
    ]
    assert messages(given) == [
        {"role": "developer", "content": "S"},
        {"role": "user", "content": "H", "name": "ada"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "C"},
        {"role": "user", "content": "D"},
        {"role": "function", "content": "F", "name": "f"},
        {"role": "system", "content": "T"},
    ]


def test_langchains_tool_calls_become_the_providers() -> None:
    """Parsed and unparsable calls become tool calls, and tool results keep the ids of their calls."""
    calls = [{"name": "find", "args": {"seats": 2}, "id": "c1", "type": "tool_call"}]
    broken = [{"name": "menu", "args": "{oops", "id": "c2", "error": "x", "type": "invalid_tool_call"}]
    given = [
        langchain("ai", "", tool_calls=calls, invalid_tool_calls=broken),
        langchain("tool", "seven", tool_call_id="c1", artifact={"not": "sent"}),
        langchain("tool", [{"type": "text", "text": "pasta"}], tool_call_id="c2"),
    ]
    other = {"id": "c2", "type": "function", "function": {"name": "menu", "arguments": "{oops"}}
    assert messages(given) == [
        {"role": "assistant", "content": None, "tool_calls": [CALL, other]},
        {"role": "tool", "tool_call_id": "c1", "content": "seven"},
        {"role": "tool", "tool_call_id": "c2", "content": "pasta"},
    ]


def test_a_calls_own_bytes_win_over_its_parsed_form() -> None:
    """The call in ``additional_kwargs`` is used, because the provider sent and billed it in that form."""
    original = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"seats":2}'}}
    parsed = [{"name": "find", "args": {"seats": 2}, "id": "c1"}]
    for data in ({"tool_calls": parsed}, {}):  # langchain-redis keeps no parsed calls
        given = [langchain("ai", "", additional_kwargs={"tool_calls": [original]}, **data)]
        assert messages(given)[0]["tool_calls"] == [original]


def test_old_function_calls_and_refusals_are_kept() -> None:
    """A function call and a refusal in ``additional_kwargs`` are kept."""
    call = {"name": "find", "arguments": "{}"}
    given = [
        langchain("ai", "", additional_kwargs={"function_call": call}),
        langchain("ai", "", additional_kwargs={"refusal": "No."}),
    ]
    assert messages(given) == [
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]


def test_langchains_blocks_become_parts() -> None:
    """Text, images in all forms, audio and files become parts; tool calls and thinking in the content are left out."""
    blocks = [
        "plain",
        {"type": "text", "text": "more"},
        {"type": "image_url", "image_url": "https://example.org/a.png"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "url": "https://example.org/b.png"},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf"},
    ]
    answer = [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use"}, {"type": "text", "text": "A"}]
    (conversation,) = read([langchain("human", blocks), langchain("ai", answer)])
    check(conversation)
    parts = conversation.entries[0]["message"]["content"]
    inline = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert parts[:2] == [{"type": "text", "text": "plain"}, {"type": "text", "text": "more"}]
    assert parts[3:5] == [inline, inline]
    assert [part["type"] for part in parts[5:]] == ["image_url", "input_audio", "file", "file"]
    assert conversation.entries[1]["message"]["content"] == "A"
    assert conversation.left_out == {"thinking": 1}


def test_what_an_assistant_cannot_carry_is_left_out_and_counted() -> None:
    """An image in an assistant's message is left out and counted."""
    (conversation,) = read([langchain("ai", [{"type": "image", "url": "https://example.org/b.png"}])])
    assert conversation.entries[0]["message"]["content"] == ""
    assert conversation.left_out == {"image_url of assistant": 1}


def test_a_removal_is_left_out() -> None:
    """LangChain's RemoveMessage, which says what to delete, is left out and counted."""
    (conversation,) = read([langchain("human", "H"), langchain("remove", "", id="x")])
    assert len(conversation.entries) == 1
    assert conversation.left_out == {"remove": 1}


def test_a_list_as_redis_gives_it_begins_with_the_newest() -> None:
    """A Redis list begins with the newest message, a list of messages with the oldest; ``order`` overrides both."""
    old, new = langchain("human", "old"), langchain("ai", "new")
    stored = [json.dumps(new), json.dumps(old)]
    assert [m["content"] for m in messages(stored)] == ["old", "new"]
    assert [m["content"] for m in messages(stored, order="oldest")] == ["new", "old"]
    assert [m["content"] for m in messages([old, new])] == ["old", "new"]
    assert [m["content"] for m in messages([new, old], order="newest")] == ["old", "new"]
    (conversation,) = read({"message_store:u1": stored})
    assert conversation.id == "u1"
    assert conversation.entries == from_redis("k", "u1", [text.encode() for text in stored]).entries


def test_langchain_redis_documents_are_sorted_into_sessions_by_time() -> None:
    """Documents with one message each are grouped by session and sorted by time."""
    documents = [
        {**langchain("ai", "second"), "session_id": "s:1", "timestamp": 2.0},
        {**langchain("human", "other"), "session_id": "s2", "timestamp": 1.5},
        {**langchain("human", "first"), "session_id": "s:1", "timestamp": 1.0},
    ]
    one, two = read(lines(*documents))
    assert [entry["message"]["content"] for entry in one.entries] == ["first", "second"]
    assert (one.id, two.id) == (safe_id("s:1"), "s2")


# ---- the Agents SDK

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Two seats?"},
    {"type": "reasoning", "id": "rs", "summary": []},
    {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": "Let me look."}]},
    {"type": "function_call", "id": "f", "call_id": "c1", "name": "find", "arguments": '{"seats": 2}'},
    {"type": "custom_tool_call", "call_id": "c2", "name": "menu", "input": "all"},
    {"type": "function_call_output", "call_id": "c1", "output": "seven"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "pasta"}]},
    {"type": "web_search_call", "id": "w", "status": "completed"},
    {"type": "function_call", "call_id": "c3", "name": "book", "arguments": ""},
    {
        "type": "function_call_output",
        "call_id": "c3",
        "output": [{"type": "input_image", "image_url": "https://e.org/a"}],
    },
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://e.org/a", "detail": "low"}]},
    {"role": "user", "content": [{"type": "input_file", "file_id": "f1"}, {"type": "input_text", "text": "this"}]},
]


def test_agents_items_become_messages() -> None:
    """Calls join the text before them, outputs become tool messages, and items without a chat form are counted."""
    (conversation,) = read(ITEMS)
    check(conversation)
    custom = {"id": "c2", "type": "custom", "custom": {"name": "menu", "input": "all"}}
    book = {"id": "c3", "type": "function", "function": {"name": "book", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": "https://e.org/a", "detail": "low"}}
    file = {"type": "file", "file": {"file_id": "f1"}}
    assert [entry["message"] for entry in conversation.entries] == [
        USER,
        {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL, custom]},
        {"role": "tool", "tool_call_id": "c1", "content": "seven"},
        {"role": "tool", "tool_call_id": "c2", "content": "pasta"},
        {"role": "assistant", "content": None, "tool_calls": [book]},
        {"role": "tool", "tool_call_id": "c3", "content": ""},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "content": [image]},
        {"role": "user", "content": [file, {"type": "text", "text": "this"}]},
    ]
    assert conversation.left_out == {"reasoning": 1, "web_search_call": 1, "image_url of tool": 1}


def test_a_sqlite_session_file_is_read_session_by_session(tmp_path: Path) -> None:
    """Each session is a conversation; entries are named by row, so that later rows never rename earlier ones."""
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)")
        rows = [("b", ITEMS[0]), ("a", ITEMS[0]), ("b", {"role": "assistant", "content": "Yes."})]
        connection.executemany(
            "INSERT INTO agent_messages (session_id, message_data) VALUES (?, ?)", [(s, json.dumps(i)) for s, i in rows]
        )
    connection.close()
    a, b = from_sqlite(path)
    assert [(each.id, [entry["id"] for entry in each.entries]) for each in (a, b)] == [
        ("a", ["import-2"]),
        ("b", ["import-1", "import-3"]),
    ]


@pytest.mark.parametrize(("data", "said"), [(None, "row 1"), (5, "item 1"), (b"\xff", "row 1")])
def test_a_row_that_is_no_item_is_refused(tmp_path: Path, data: Any, said: str) -> None:
    """A row without text, with a number or with other bytes is an error that names it."""
    path = tmp_path / "sessions.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data)")
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('a', ?)", (data,))
    connection.close()
    with pytest.raises(SourceError, match=said):
        from_sqlite(path)


def test_another_sqlite_file_is_refused(tmp_path: Path) -> None:
    """A SQLite file without the Agents SDK's table is refused with a message that says so."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(SourceError, match="not a file of the Agents SDK"):
        from_sqlite(path)


# ---- errors


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"messages": [{"messages": []}, {"messages": []}]}, "2 conversations where one was expected"),
        (['["x"]', '"x"'], "JSON texts inside JSON texts"),
        ([langchain("robot", "x")], "message 1 has the type 'robot'"),
        ([langchain("ai", "", tool_calls=7)], "not as LangChain writes messages"),
        ([langchain("human", 7)], "neither text nor a list"),
        ([langchain("human", [{"type": "hologram"}])], "a block of type 'hologram'"),
        ([langchain("human", [{"type": "image", "id": "x"}])], "without its bytes"),
        ([*ITEMS[:2], 7], "item 3 is not as the Agents SDK writes items"),
        ([{"type": "function_call", "name": "x"}], "without its name or call_id"),
        ([{"type": "message", "role": "robot", "content": "x"}], "the role 'robot'"),
        ([{"type": "message", "role": "user"}], "has no content"),
        ([{"type": "message", "role": "user", "content": [{"type": "hologram"}]}], "a part of type 'hologram'"),
        ([{"type": "function_call_output", "call_id": "c", "output": 7}], "has no output"),
        (b"{}\n[]\n", "line 2 is not an object"),
        (b'{"role": "user"}\n{"role"\n', "line 2: not JSON"),
        ([USER, 7], "element 2 is no chat message"),
        ("text", "holds str"),
    ],
)
def test_a_source_that_cannot_be_read_names_the_place(given: Any, said: str) -> None:
    """The error names the file, the place, and what is wrong there."""
    with pytest.raises(SourceError, match=said) as caught:
        read(given)
    assert str(caught.value).startswith("chat.json")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"messages": [USER], "sytem": "x"}, "unknown field 'sytem'"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "/tools/0"),
        ([{"role": "user", "content": 7}], "entry import-1"),
        ([{"id": "e", "message": USER, "colour": 1}], "unknown field 'colour'"),
        ([{"role": "tool", "tool_call_id": "x", "content": "y"}], "--drop-orphans"),
    ],
)
def test_what_a_server_would_refuse_is_found_before_anything_is_sent(given: Any, said: str) -> None:
    """``check`` raises an error that names the wrong field or entry."""
    (conversation,) = read(given)
    with pytest.raises(SourceError, match=said):
        check(conversation)


def test_orphans_are_results_without_a_call() -> None:
    """An orphan's call is nowhere before it. Results may come late and again."""
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert orphans([result, call, result, result, USER, call, USER, result]) == [
        True, False, False, False, False, False, False, False,
    ]  # fmt: skip
    (conversation,) = read([result, USER])
    kept = without_orphans(conversation)
    assert [entry["message"] for entry in kept.entries] == [USER]
    assert kept.left_out == {"tool results without a call": 1}
    (sound,) = read([USER])
    assert without_orphans(sound) is sound
    (broken,) = read([{"role": "robot"}])
    assert without_orphans(broken) is broken


def test_batches_are_bounded_in_entries_and_bytes() -> None:
    """A batch has at most 100 entries and about 2 MiB, and no entry is left out."""
    small = [{"id": f"e{n}", "message": USER} for n in range(205)]
    assert [len(batch) for batch in batches(small)] == [100, 100, 5]
    large = [{"id": f"e{n}", "message": {"role": "user", "content": "x" * 900_000}} for n in range(5)]
    assert [len(batch) for batch in batches(large)] == [2, 2, 1]


def test_settings_with_a_type_are_no_agents_item() -> None:
    """Only an object with a type name of the Responses API is an item."""
    assert agents_sdk.is_item({"type": "mcp_call"})
    assert not agents_sdk.is_item({"type": "conversation"})
    assert not agents_sdk.is_item("text")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "user", "ai", "text", '{"a": 1}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Draw a valid source in which one value is replaced by arbitrary JSON."""
    call = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    sound: list[Any] = [
        [USER, call, {"role": "tool", "tool_call_id": "c1", "content": "x"}],
        {"id": "a", "system": "S", "entries": [{"id": "m", "message": USER, "image_sizes": [[1, 1]]}]},
        ITEMS,
        [
            langchain(
                "ai", [{"type": "image", "source": {"data": "x"}}], tool_calls=[{"id": "c1", "name": "f", "args": {}}]
            )
        ],
        [{**langchain("tool", "x", tool_call_id="c", additional_kwargs={"tool_calls": [CALL]}), "timestamp": 1}],
        {"message_store:a": [json.dumps(langchain("human", "H"))]},
    ]
    value = json.loads(json.dumps(draw(st.sampled_from(sound))))
    place: Any = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], list | dict) or not place[key] or draw(st.booleans()):
            place[key] = draw(JSON)
            return value
        place = place[key]


@given(st.one_of(JSON, damaged()), st.sampled_from(["auto", "oldest", "newest"]), st.booleans())
@example(
    value={"id": "a", "entries": [{"message": {"role": "user", "content": "x"}, "image_sizes": False}]},
    order="auto",
    as_lines=False,
)
@examples(3)
def test_whatever_a_file_holds_it_is_read_or_refused(value: Any, order: Any, as_lines: Any) -> None:
    """Any JSON is read as conversations that may be sent, or raises a SourceError."""
    data = lines(*value) if as_lines and isinstance(value, list) else json.dumps(value).encode()
    with suppress(SourceError):
        for conversation in conversations_in(data, "f.json", order=order):
            check(without_orphans(conversation))
            assert IDS.fullmatch(conversation.id)


# ---- agent-memory-server


def test_a_working_memory_is_a_conversation_of_its_user() -> None:
    """Sessions come as an object, a list or lines; settings that a session lacks are not set."""
    session = {"session_id": "user:1", "messages": [{"role": "human", "content": "Two seats?", "id": "m 1"}]}
    for value in (session, [session], lines(session, {**session, "session_id": "s-2"})):
        first = read(value)[0]
        check(first)
        assert (first.id, first.settings) == (safe_id("user:1"), {})
        assert first.entries == [{"id": safe_id("m 1"), "message": USER}]


def test_what_is_no_working_memory_says_so() -> None:
    """A message without text raises an error that names the session."""
    with pytest.raises(SourceError, match="session s is not as agent-memory-server"):
        read({"session_id": "s", "messages": [{"role": "user", "content": "Hi"}, {"role": "user"}]})
