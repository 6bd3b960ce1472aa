"""Members of messages that no provider takes: stored and given back, never sent, and told."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import http, lifespan
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import append, assistant, calling, history, result, user, window

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

NDJSON = {"Content-Type": "application/x-ndjson"}
FORMS = ["openai", "responses", "anthropic", "gemini"]
MODELS = {"anthropic": "claude-opus-4-8", "gemini": "gemini-2.5-flash"}
OURS: dict[str, Any] = {
    "createdAt": "2026-01-01T00:00:00Z",
    "timestamp": 1781949977.0,
    "parts": [],
    "modelInfo": {"id": "x"},
}
TOLD = {"messages": 1, "reasons": {"foreign_members": 1}}


@asynccontextmanager
async def service(store: EmbeddedStore, **given: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = {"redis_url": store.url, "store_connections": 1, "durability": "fast", **given}
    async with lifespan(create_app(Settings(**options))) as app, http(app) as client:
        yield client


def with_ours(entry: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**entry, "message": {**entry["message"], **OURS, **more}}


def model_of(form: str) -> str:
    return MODELS.get(form, "gpt-4o")


async def counted(client: httpx.AsyncClient, made: dict[str, Any]) -> int:
    answer = await client.post(
        "/count", params={"format": made["format"]}, json={"model": made["model"], **made["request"]}
    )
    assert answer.status_code == 200, answer.text
    tokens: int = answer.json()["tokens"]
    return tokens


@pytest.mark.parametrize("form", FORMS)
async def test_a_frontends_members_stay_here(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """They come back from a read, no window has them, what is counted is what is sent, and the window says so."""
    plain = await append(client, f"{conversation}-plain", user("is there a talk?"))
    body = await append(client, conversation, with_ours(user("is there a talk?")), format="openai")
    assert body["messages"][0]["tokens"] == plain["messages"][0]["tokens"]
    (stored,) = await history(client, conversation)
    assert stored["message"] == {"role": "user", "content": "is there a talk?", **OURS}
    made = await window(client, conversation, model=model_of(form), format=form, explain=True)
    same = await window(client, f"{conversation}-plain", model=model_of(form), format=form)
    assert made["request"] == same["request"]
    assert (made["tokens"], made["exact"]) == (same["tokens"], same["exact"])
    assert made["mended"] == TOLD
    assert made["explain"][0]["mended"] == ["foreign_members"]
    assert "mended" not in same


PART: dict[str, Any] = {"type": "text", "text": "look"}
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
CALL: dict[str, Any] = {"id": "c-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PLACES: list[Any] = [
    [{"role": "user", "content": [{**PART, "id": "p-1"}]}],
    [{"role": "user", "content": [PART, {**IMAGE, "alt": "a map"}]}],
    [{"role": "user", "content": [{**IMAGE, "image_url": {**IMAGE["image_url"], "alt": "a map"}}]}],
    [{"role": "assistant", "content": "x", "toolInvocations": [1], "model": "gpt-4o", "parsed": {"a": 1}}],
    [{"role": "system", "content": "x", "version": 3}],
    [{"role": "user", "content": "x", "refusal": None, "tool_calls": None}],
    [
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "result": "found"}]},
        {"role": "tool", "tool_call_id": "c-1", "content": "found", "isError": False},
    ],
    [
        {"role": "assistant", "tool_calls": [{**CALL, "function": {**CALL["function"], "parsed_arguments": {"a": 1}}}]},
        {"role": "tool", "tool_call_id": "c-1", "content": [{**PART, "elapsed": 1}]},
    ],
    [
        {"role": "assistant", "function_call": {"name": "look", "arguments": "{}", "parsed": {}}},
        {"role": "function", "name": "look", "content": "found", "seconds": 2},
    ],
]


def known(messages: Any) -> Any:
    """The messages without the members of ``PLACES`` that no provider takes."""
    theirs = {"id", "alt", "toolInvocations", "model", "parsed", "version", "result", "isError", "parsed_arguments"}
    match messages:
        case list():
            return [known(each) for each in messages]
        case dict():
            is_call = messages.get("type") == "function"
            gone = (theirs | {"elapsed", "seconds"}) - ({"id"} if is_call else set())
            gone |= {"refusal", "tool_calls"} if messages.get("role") == "user" else set()
            return {name: known(each) for name, each in messages.items() if name not in gone}
    return messages


@pytest.mark.parametrize("messages", PLACES)
async def test_members_anywhere_in_a_message(
    client: httpx.AsyncClient, conversation: str, messages: list[dict[str, Any]]
) -> None:
    """Members of parts, of what is in them, of calls and of functions are kept and not sent, too."""
    await append(client, conversation, *({"message": message} for message in messages))
    assert [each["message"] for each in await history(client, conversation)] == messages
    made = await window(client, conversation, model="gpt-4o")
    assert made["request"]["messages"] == known(messages)
    assert made["tokens"]["total"] == await counted(client, made)
    assert made["mended"]["reasons"] == {"foreign_members": len(messages)}


COMPATIBLE: list[dict[str, Any]] = [
    {"reasoning_content": "Hm."},
    {"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]},
    {"thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]},
    {"prefix": True},
    {"partial": True},
    {"annotations": [], "audio": None, "refusal": None, "function_call": None},
    {"provider_specific_fields": {"thought_signatures": ["s"]}},
    {"parsed": None},
]


@pytest.mark.parametrize("members", COMPATIBLE)
async def test_members_of_compatible_servers_are_sent(
    client: httpx.AsyncClient, conversation: str, members: dict[str, Any]
) -> None:
    """What OpenAI gives in its replies and what servers of its form document is sent as it came, and nothing is told."""
    reply = {"role": "assistant", "content": "He", **members}
    await append(client, conversation, user("Go."), {"message": reply})
    made = await window(client, conversation, model="deepseek-chat")
    assert made["request"]["messages"][1] == reply
    assert "mended" not in made


async def test_marks_of_a_cache_are_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """A part's mark for Claude's cache is sent to a server that has it; DeepSeek, whose cache needs none, gets the text."""
    part = {"type": "text", "text": "He", "cache_control": {"type": "ephemeral"}}
    reply = {"role": "assistant", "content": [part]}
    await append(client, conversation, user("Go."), {"message": reply}, user("On."))
    made = await window(client, conversation, model="openrouter/anthropic/claude-opus-4.8")
    assert made["request"]["messages"][1] == reply
    made = await window(client, conversation, model="deepseek-chat")
    assert made["request"]["messages"][1] == {"role": "assistant", "content": "He"}


async def test_few_shots_are_sent_without_them(client: httpx.AsyncClient, conversation: str) -> None:
    """Few-shots keep such members in the settings and are sent without them."""
    shots = [{"role": "user", "content": "a", **OURS}, {"role": "assistant", "content": "b"}]
    answer = await client.post("/conversations", json={"id": conversation, "few_shots": shots})
    assert answer.json()["few_shots"] == shots
    made = await window(client, conversation, model="gpt-4o")
    assert made["request"]["messages"] == [{"role": "user", "content": "a"}, shots[1]]
    assert made["tokens"]["total"] == await counted(client, made)
    assert made["mended"] == TOLD


async def test_documents_go_beside_them(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents are rendered into a message whatever members stand before and after its content."""
    grounding = {"documents": [{"text": "12:10"}]}
    message = {"createdAt": "x", "role": "user", "at": 1, "content": [{"id": 1, **PART}], "parts": [1]}
    await append(client, conversation, {"message": message, "grounding": grounding})
    made = await window(client, conversation, model="gpt-4o")
    (sent,) = made["request"]["messages"]
    texts = "".join(part["text"] for part in sent["content"])
    assert texts == "look\n\nSources:\n12:10"
    assert sent.keys() == {"role", "content"}
    assert made["tokens"]["total"] == await counted(client, made)


async def test_a_cut_result_is_sent_without_them(client: httpx.AsyncClient, conversation: str) -> None:
    """A result that is cut loses them as well, in every format."""
    await append(client, conversation, calling("c-1"), with_ours(result("c-1", "word " * 3000)))
    for form in FORMS:
        made = await window(client, conversation, model=model_of(form), format=form, tool_result_max_tokens=100)
        assert made["trimmed"]["messages"] == 1
        assert made["mended"]["reasons"]["foreign_members"] == 1
        assert not any(name in json.dumps(made["request"]) for name in OURS if name != "parts")


async def test_a_repeated_message_is_found_whatever_they_say(client: httpx.AsyncClient, conversation: str) -> None:
    """Messages with the same content are repeats, though their times differ."""
    entries = [with_ours(user("hi"), timestamp=n) for n in range(3)]
    await append(client, conversation, *entries)
    made = await window(client, conversation, model="gpt-4o", dedupe="messages")
    assert made["dropped"]["duplicates"] == 2


async def test_a_retry_with_other_members_is_a_conflict(client: httpx.AsyncClient, conversation: str) -> None:
    """They are content: the same id with another time is 409, with the same time a duplicate."""
    entry = with_ours(user("hi", id="m-1"))
    await append(client, conversation, entry)
    assert (await append(client, conversation, entry))["messages"][0]["duplicate"]
    body = {"messages": [with_ours(user("hi", id="m-1"), timestamp=1)]}
    assert (await client.post(f"/conversations/{conversation}/messages", json=body)).status_code == 409


async def test_copies_keep_them(client: httpx.AsyncClient, conversation: str, fresh: Callable[[], str]) -> None:
    """A fork, and an import of an export, give them back and leave them out of windows; a retry there is a duplicate."""
    entry = with_ours(user("hi", id="m-1"))
    await append(client, conversation, entry, assistant("Hello."))
    fork, copy = fresh(), fresh()
    await client.post(f"/conversations/{conversation}/fork", json={"id": fork, "at_seq": 1})
    exported = await client.get(f"/conversations/{conversation}/export")
    answer = await client.post(f"/conversations/import?id={copy}", content=exported.content, headers=NDJSON)
    assert answer.status_code == 201, answer.text
    for each in (fork, copy):
        assert (await history(client, each))[0]["message"] == entry["message"]
        assert (await window(client, each))["request"]["messages"][0] == {"role": "user", "content": "hi"}
        assert (await append(client, each, entry))["messages"][0]["duplicate"]
    again = (await client.get(f"/conversations/{copy}/export")).text.splitlines()[1:]
    assert again == exported.text.splitlines()[1:]


async def test_redaction_takes_them(client: httpx.AsyncClient, conversation: str) -> None:
    """A redacted message has none of them, and its windows tell no mend."""
    await append(client, conversation, with_ours(user("hi")))
    await client.delete(f"/conversations/{conversation}/messages/1")
    (stored,) = await history(client, conversation)
    assert stored["message"].keys() == {"role", "content"}
    assert "mended" not in await window(client, conversation)


async def test_a_history_in_the_body(client: httpx.AsyncClient) -> None:
    """POST /window leaves them out as a stored window does; POST /count counts a request as it is given."""
    message = with_ours(user("hi"))["message"]
    answer = await client.post("/window", json={"model": "gpt-4o", "messages": [message]})
    assert answer.json()["request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert answer.json()["mended"] == TOLD
    as_given = await client.post("/count", json={"model": "gpt-4o", "messages": [message]})
    assert as_given.json()["tokens"] > answer.json()["tokens"]["total"]


async def test_a_setting_names_members_to_send(
    store: EmbeddedStore, encryption_key: tuple[bytes, ...], conversation: str
) -> None:
    """Members in SASH_SEND_MEMBERS are sent and counted. A message stays as it was when it was appended."""
    key = {"encryption_key": encryption_key}
    async with service(store, **key) as client:
        await append(client, conversation, with_ours(user("one")))
    async with service(store, send_members=frozenset({"createdAt"}), **key) as client:
        await append(client, conversation, with_ours(user("two")))
        made = await window(client, conversation)
        assert [each.keys() for each in made["request"]["messages"]] == [
            {"role", "content"},
            {"role", "content", "createdAt"},
        ]
        assert made["tokens"]["total"] == await counted(client, made)
    async with service(store, send_members=frozenset({"*"}), **key) as client:
        await append(client, conversation, with_ours(user("three")))
        made = await window(client, conversation)
        assert made["request"]["messages"][2] == {"role": "user", "content": "three", **OURS}
        assert made["tokens"]["total"] == await counted(client, made)
        assert made["mended"]["messages"] == 2
        assert [each["message"].keys() >= OURS.keys() for each in await history(client, conversation)] == [True] * 3
        await client.delete(f"/conversations/{conversation}")


NATIVE: dict[str, list[Any]] = {
    "anthropic": [
        {"role": "user", "content": "Go.", "createdAt": "now"},
        {"role": "assistant", "content": [{"type": "text", "text": "Gone.", "uiState": "open"}]},
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "url", "url": "https://x/a.png"}, "alt": "a"}],
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Go.", "uiState": "open"}], "createdAt": "now"},
        {"role": "model", "parts": [{"text": "Gone.", "thoughtSignature": "c2ln"}], "modelInfo": {}},
    ],
    "responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go.", "uiState": "open"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": None},
        {"type": "function_call_output", "call_id": "c", "output": "x", "elapsed": 3},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Gone.", "annotations": [], "parsed": None}],
        },
    ],
}
THEIRS = {"createdAt", "uiState", "modelInfo", "parsed", "parsed_arguments", "elapsed", "alt"}


def without(value: Any) -> Any:
    match value:
        case list():
            return [without(each) for each in value]
        case dict():
            return {name: without(each) for name, each in value.items() if name not in THEIRS}
    return value


@pytest.mark.parametrize("form", NATIVE)
async def test_a_providers_messages_are_sent_without_them(
    client: httpx.AsyncClient, conversation: str, fresh: Callable[[], str], form: str
) -> None:
    """Members that the provider's types do not have are kept beside its message, also by copies, and not sent."""
    await append(client, conversation, *NATIVE[form], format=form)
    exported = await client.get(f"/conversations/{conversation}/export")
    copy = fresh()
    answer = await client.post(f"/conversations/import?id={copy}", content=exported.content, headers=NDJSON)
    assert answer.status_code == 201, answer.text
    for each in (conversation, copy):
        kept = [stored["message"]["native"]["beside"] for stored in await history(client, each)]
        assert {name for beside in kept for _, name, _ in beside} <= THEIRS
        made = await window(client, each, model=model_of(form), format=form)
        member = {"responses": "input", "gemini": "contents"}.get(form, "messages")
        assert made["request"][member] == without(NATIVE[form])
        assert made["mended"]["reasons"] == {"foreign_members": len(NATIVE[form])}
        assert await counted(client, made) <= made["tokens"]["total"]


# ---- anywhere, in any history

_NAMES = st.sampled_from(["createdAt", "ts", "parts", "modelInfo", "_id", "x/y", "", "~", "parentId", "isError", "$"])
_LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.sampled_from(["", "a", "zebra " * 40, "今天", "\0"])
)
_INNER = _LEAVES | st.lists(_LEAVES, max_size=2)
_VALUES = _INNER | st.dictionaries(st.sampled_from(["a", "type", "$", "id"]), _INNER, max_size=2)
_OURS = st.just({}) | st.dictionaries(_NAMES, _VALUES, min_size=1, max_size=3)
_TEXT = st.sampled_from(["a", "hello zebra", "12 talks", "Zürich", "今天天气很好"])


@st.composite
def _messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A turn of chat messages, with members of a client's own in any of its objects."""
    match draw(st.sampled_from(["text", "parts", "reply", "calls"])):
        case "text":
            role = draw(st.sampled_from(["user", "assistant", "system", "developer"]))
            return [{"role": role, "content": draw(_TEXT), **draw(_OURS)}]
        case "parts":
            parts = [{"type": "text", "text": draw(_TEXT), **draw(_OURS)} for _ in range(draw(st.integers(1, 3)))]
            return [{**draw(_OURS), "role": "user", "content": parts}]
        case "reply":
            return [{"role": "assistant", **draw(_OURS), "content": draw(_TEXT), "annotations": []}]
    called = {"name": "look", "arguments": "{}", **draw(_OURS)}
    call = {"id": "c", "type": "function", "function": called, **draw(_OURS)}
    answer = {"role": "tool", "tool_call_id": "c", "content": draw(_TEXT), **draw(_OURS)}
    return [{"role": "assistant", "content": None, "tool_calls": [call], **draw(_OURS)}, answer]


def _names(value: Any) -> set[str]:
    match value:
        case list():
            return {name for each in value for name in _names(each)}
        case dict():
            return {*value, *(name for each in value.values() for name in _names(each))}
    return set()


@examples(0.7)
@given(turns=st.lists(_messages(), min_size=1, max_size=5), most=st.sampled_from([60, 4000]))
async def test_no_window_has_members_of_a_clients_own(
    client: httpx.AsyncClient, fresh: Callable[[], str], turns: list[Any], most: int
) -> None:
    """Reads give them back wherever they stood; windows in all formats have none, cost their request, and tell it."""
    messages = [message for turn in turns for message in turn]
    name = fresh()
    await append(client, name, *({"message": message} for message in messages))
    assert [each["message"] for each in await history(client, name)] == messages
    ours = {"createdAt", "ts", "modelInfo", "_id", "x/y", "", "~", "parentId", "isError", "$"}
    for form in FORMS:
        query = {"model": model_of(form), "format": form, "max_tokens": most}
        answer = await client.get(f"/conversations/{name}/window", params=query)
        if answer.status_code == 422 and answer.json()["type"].endswith("window-does-not-fit"):
            continue
        assert answer.status_code == 200, answer.text
        made = answer.json()
        assert ours.isdisjoint(_names(made["request"]))
        exact = made["exact"] and form == "openai"
        total = made["tokens"]["total"]
        found = await counted(client, made)
        assert total == found if exact else total >= found
        body = {"messages": [{"message": message} for message in messages], **query}
        same = (await client.post("/window", json=body)).json()
        assert (same["request"], same["tokens"], same.get("mended")) == (
            made["request"],
            made["tokens"],
            made.get("mended"),
        )
    await client.delete(f"/conversations/{name}")


_OUR_NAMES = {"createdAt", "ts", "modelInfo", "_id", "x/y", "", "~", "parentId", "isError", "$"}
_BESIDE = st.just({}) | st.dictionaries(st.sampled_from(sorted(_OUR_NAMES)), _VALUES, min_size=1, max_size=3)


@st.composite
def _own_turn(draw: st.DrawFn, form: str) -> list[dict[str, Any]]:
    """A turn in a provider's form, with members of a client's own in its messages and in their parts."""
    said = draw(_TEXT)
    match form:
        case "anthropic":
            block = {"type": "text", "text": said, **draw(_BESIDE)}
            use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}, **draw(_BESIDE)}
            found = {"type": "tool_result", "tool_use_id": "toolu_1", "content": said, **draw(_BESIDE)}
            calling_it = {"role": "assistant", "content": [use], **draw(_BESIDE)}
            return draw(
                st.sampled_from(
                    [
                        [{"role": "user", "content": [block], **draw(_BESIDE)}],
                        [calling_it, {"role": "user", "content": [found, block]}],
                    ]
                )
            )
        case "gemini":
            part = {"text": said, **draw(_BESIDE)}
            return [{"role": draw(st.sampled_from(["user", "model"])), "parts": [part], **draw(_BESIDE)}]
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}", **draw(_BESIDE)}
    output = {"type": "function_call_output", "call_id": "c", "output": said, **draw(_BESIDE)}
    return draw(st.sampled_from([[{"role": "user", "content": said, **draw(_BESIDE)}], [call, output]]))


@pytest.mark.parametrize("form", ["anthropic", "gemini", "responses"])
@examples(0.3)
@given(data=st.data())
async def test_no_providers_message_is_sent_with_a_clients_own(
    client: httpx.AsyncClient, fresh: Callable[[], str], form: str, data: st.DataObject
) -> None:
    """Members of a client's own in a provider's messages are stored, and in no window of any format."""
    messages = [each for turn in data.draw(st.lists(_own_turn(form), min_size=1, max_size=4)) for each in turn]
    name = fresh()
    await append(client, name, *({"message": message} for message in messages), format=form)
    kept = json.dumps([each["message"] for each in await history(client, name)])
    assert all(json.dumps(each) in kept for message in messages for each in _names(message) & _OUR_NAMES)
    for other in FORMS:
        made = await window(client, name, model=model_of(other), format=other)
        assert _OUR_NAMES.isdisjoint(_names(made["request"]))
        assert await counted(client, made) <= made["tokens"]["total"]
    await client.delete(f"/conversations/{name}")
