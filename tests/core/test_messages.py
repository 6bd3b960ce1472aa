"""Entries and messages: which are refused and where, what is stored, and limits on slow or deep input."""

import contextlib
import threading
import time
from typing import Any

import msgspec
import pytest
from histories import calling, entries, result, said, talk
from hypothesis import given
from hypothesis import strategies as st

from sash.core.chat.bounds import IDS
from sash.core.chat.json_bodies import MAX_DEPTH, decode_json, refuse_deep
from sash.core.chat.messages import Entry, digest, encode_message, validate_message
from sash.core.chat.tool_groups import Calls, Place, calls_of, places_of
from sash.core.providers.reading.recognition import foreign
from sash.problems import BadRequest, InvalidEntry


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    messages: list[Entry]


BATCH = msgspec.json.Decoder(Batch)
ANYTHING = msgspec.json.Decoder()
OBJECT = msgspec.json.Decoder(dict[str, Any])


def refused(body: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        decode_json(body, BATCH)
    return caught.value


def batch(**entry: Any) -> bytes:
    return msgspec.json.encode({"messages": [{"message": said("user", "hi"), **entry}]})


# ---- bytes to values


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("where", [b"%s", b'{"messages":[{"message":{"role":"user","content":"x","x":%s}}]}'])
def test_depth_bombs(opening: bytes, where: bytes) -> None:
    """100,000 levels are refused without recursion, closed or not, at the top or in a field of a message."""
    for closing in (b"", b"]" if opening == b"[" else b"}"):
        bomb = where % (opening * 100_000 + b"1" + closing * 100_000)
        assert "deeper" in refused(bomb).detail


def test_depth_on_a_small_stack() -> None:
    """A body of MAX_DEPTH + 13 levels, which is accepted, decodes on a thread with a stack of 128 KiB."""
    body = b"[" * (MAX_DEPTH + 13) + b"]" * (MAX_DEPTH + 13)
    found: list[Any] = []
    before = threading.stack_size(128 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(decode_json(body, ANYTHING)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(found) == 1


@given(st.integers(0, 3 * MAX_DEPTH), st.text(st.sampled_from('[]{}"\\a'), max_size=40), st.integers(0, 60))
def test_depth_is_counted_outside_strings(depth: int, text: str, siblings: int) -> None:
    """Depth counts neither brackets in strings nor siblings, and the limit is accurate to 64 levels."""
    value: Any = [text]
    for _ in range(depth):
        value = [value, text]
    body = msgspec.json.encode([[text, [], {}]] * siblings + [value])
    if depth + 2 <= MAX_DEPTH:
        refuse_deep(body)
    elif depth + 2 > MAX_DEPTH + 64:
        with pytest.raises(BadRequest):
            refuse_deep(body)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "unit"),
    [(b'"', b'\\"'), (b"", b'"'), (b"", b"\\"), (b"", b'"\\'), (b"", b"[]"), (b"", b"[")],
    ids=["escaped quotes", "quotes", "backslashes", "both", "pairs", "brackets"],
)
def test_adversarial_bytes_take_linear_time(start: bytes, unit: bytes) -> None:
    """4 MB of quotes, backslashes or brackets take less than 10 times as long as 1 MB; quadratic is 16 times."""
    little, much = (
        min(refusing_seconds(start + unit * (size // len(unit))) for _ in range(3)) for size in (1_000_000, 4_000_000)
    )
    assert much < 10 * little + 0.01


def refusing_seconds(body: bytes) -> float:
    """Return the CPU seconds to refuse a body that begins with nested lists."""
    body = b"[[[[" * 30 + body
    started = time.thread_time()
    with pytest.raises(BadRequest):
        decode_json(body, ANYTHING)
    return time.thread_time() - started


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"\xff\xfe",
        b'{"messages":[{"message":{"role":"user","content":"\xff"}}]}',
        b'{"messages":[{"message":{"role":"user","content":"\xed\xa0\x80"}}]}',
        b'{"messages":[{"message":{"role":"user","content":"a\x00b"}}]}',
        b'{"messages":[{"message":{"role":"user","n":NaN}}]}',
        b'{"messages":[{"message":{"role":"user","n":1e999}}]}',
        b'{"messages":[],}',
        b'{"messages":[]}{}',
        b'\xef\xbb\xbf{"messages":[]}',
        "{}".encode("utf-16"),
        b"[]",
        b"null",
        b'{"messages":{}}',
        b'{"messages":[{}]}',
        b'{"messages":[{"message":"hi"}]}',
    ],
)
def test_what_cannot_be_read(body: bytes) -> None:
    """Invalid bytes, invalid JSON and wrong types are a 400 with a detail of one short line."""
    problem = refused(body)
    assert problem.status == 400
    assert "\n" not in problem.detail
    assert len(problem.detail) < 400


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({"id": ""}, "#/messages/0/id"),
        ({"id": "-a"}, "#/messages/0/id"),
        ({"id": "a/b"}, "#/messages/0/id"),
        ({"id": "a\n"}, "#/messages/0/id"),
        ({"id": "é"}, "#/messages/0/id"),
        ({"id": "a" * 129}, "#/messages/0/id"),
        ({"id": 7}, "#/messages/0/id"),
        ({"pinned": "yes"}, "#/messages/0/pinned"),
        ({"pinned": 1}, "#/messages/0/pinned"),
        ({"metadata": []}, "#/messages/0/metadata"),
        ({"grounding": {"documents": [{"text": 1}]}}, "#/messages/0/grounding/documents/0/text"),
        ({"grounding": {"documents": [{"text": "a", "id": ""}]}}, "#/messages/0/grounding/documents/0/id"),
        ({"image_sizes": [[0, 1]]}, "#/messages/0/image_sizes/0/0"),
        ({"grounding": {}}, "#/messages/0/grounding"),
    ],
)
def test_what_an_envelope_may_not_hold(entry: dict[str, Any], pointer: str) -> None:
    """Invalid ids and fields of the wrong type are refused with a pointer to the field."""
    assert [error.pointer for error in refused(batch(**entry)).errors] == [pointer]


@pytest.mark.parametrize(
    "entry",
    [{"colour": 1}, {"grounding": {"documents": [], "k": 1}}, {"grounding": {"documents": [{"text": "", "k": 1}]}}],
)
def test_unknown_fields_of_our_own(entry: dict[str, Any]) -> None:
    """An unknown field in an entry, its grounding or a document is refused."""
    assert "unknown field" in refused(batch(**entry)).detail


@given(st.text(st.sampled_from("aZ09._-/ \n{é"), max_size=6) | st.text("a", min_size=126, max_size=130))
def test_ids(text: str) -> None:
    """Ids in bodies are accepted exactly if they match the pattern of ids in paths."""
    try:
        decode_json(batch(id=text), BATCH)
    except BadRequest:
        assert IDS.fullmatch(text) is None
    else:
        assert IDS.fullmatch(text) is not None


# ---- messages


def pointer_of(message: dict[str, Any]) -> str:
    with pytest.raises(InvalidEntry) as caught:
        validate_message(message, "/messages/3/message", foreign)
    assert caught.value.status == 400
    return caught.value.errors[0].pointer.removeprefix("#/messages/3/message")


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ({}, ""),
        ({"content": "x"}, ""),
        (said("owner", "x"), "/role"),
        (said(1, "x"), "/role"),
        ({"role": "user"}, ""),
        (said("user", 5), "/content"),
        (said("user", [{"type": "text"}]), "/content/0"),
        (said("user", [{"type": "video"}]), "/content/0/type"),
        (said("user", [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]), "/content/1/image_url"),
        (said("user", [{"type": "image_url", "image_url": {"url": "x", "width": 0}}]), "/content/0/image_url/width"),
        (said("system", [{"type": "image_url", "image_url": {"url": "x"}}]), "/content/0/type"),
        (said("user", "x", name=1), "/name"),
        (said("assistant", None, tool_calls=[{}]), "/tool_calls/0"),
        (said("assistant", None, tool_calls=[{"type": "function", "id": "a"}]), "/tool_calls/0"),
        (calling(*(f"c{i}" for i in range(129))), "/tool_calls"),
        ({"role": "tool", "content": "x"}, ""),
        ({"role": "tool", "tool_call_id": "a", "output": "x"}, ""),
        ({"role": "function", "content": "x"}, ""),
        (said("function", "x", name=""), "/name"),
    ],
)
def test_what_is_not_a_message(message: dict[str, Any], pointer: str) -> None:
    """A message that no provider would accept is refused with a pointer to its wrong part."""
    assert pointer_of(message) == pointer


@pytest.mark.parametrize(
    "message",
    [
        said("user", "", name=None),
        said("user", [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]),
        said("user", [{"type": "file", "file": {"file_id": "f"}}]),
        said("assistant", None),
        said("assistant", [{"type": "refusal", "refusal": "no"}]),
        {"role": "assistant"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"role": "assistant", "tool_calls": [{"type": "custom", "id": "a", "custom": {"name": "f", "input": ""}}]},
        said("function", None, name="f"),
        said("developer", [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]),
    ],
)
def test_what_is_a_message(message: dict[str, Any]) -> None:
    """Every kind of message in the chat completions reference is accepted, and encoded as its JSON."""
    validate_message(message, "", foreign)
    assert encode_message(message)[0] == msgspec.json.encode(message)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=4), JSON, max_size=4), st.text(max_size=10))
def test_unknown_fields_of_a_message_are_kept(more: dict[str, Any], text: str) -> None:
    """Unknown fields of a message are stored as they came, and the place of the content in the bytes is correct."""
    text = text.encode(errors="replace").decode()
    message = {**dict(list(more.items())[:2]), "role": "user", "content": text, **more}
    validate_message(message, "", foreign)
    body, start, end = encode_message(message)
    assert body == msgspec.json.encode(message)
    assert body[start:end] == msgspec.json.encode(text)
    assert msgspec.json.decode(body) == message


def test_no_content() -> None:
    """The content's place is (0, 0) in a message without content."""
    assert encode_message({"role": "assistant"})[1:] == (0, 0)


def test_large_integers_are_kept() -> None:
    """An integer of 400 digits is stored with all its digits."""
    body = b'{"role":"user","content":"x","n":' + b"9" * 400 + b"}"
    assert encode_message(decode_json(body, OBJECT))[0] == body


def test_an_integer_of_too_many_digits() -> None:
    """An integer of 100,000 digits is a 400, because it would take long to read."""
    with pytest.raises(BadRequest):
        decode_json(b'{"n":' + b"9" * 100_000 + b"}", OBJECT)


@given(st.dictionaries(st.text("abcd", max_size=3), JSON, max_size=5))
def test_digest_does_not_depend_on_order(value: dict[str, Any]) -> None:
    """The digest of a value does not depend on the order of its keys."""

    def turned(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: turned(inner) for key, inner in reversed(each.items())}
        return [turned(inner) for inner in each] if isinstance(each, list) else each

    assert digest(turned(value), 16) == digest(value, 16)


@given(JSON, JSON)
def test_digest_tells_values_apart(a: Any, b: Any) -> None:
    """Two values have the same digest exactly if their JSON with sorted keys is the same."""
    alike = msgspec.json.encode(a, order="deterministic") == msgspec.json.encode(b, order="deterministic")
    assert (digest(a, 16) == digest(b, 16)) == alike


# ---- validation of tool groups


@given(entries())
def test_valid_groups_pass(drawn: tuple[Entry, ...]) -> None:
    """A result is parallel exactly when its call was one of several."""
    messages = talk(*drawn).messages
    several = False
    for message, place in zip(messages, places_of(map(calls_of, messages)), strict=True):
        if message["role"] == "assistant":
            several = len(message.get("tool_calls") or ()) > 1
        assert place is not None
        assert place.is_parallel == (message["role"] == "tool" and several)


@pytest.mark.parametrize("messages", [[result("a")], [calling("a"), result("b")]])
def test_a_result_without_a_call(messages: list[dict[str, Any]]) -> None:
    """A result has no place if its call is nowhere before it."""
    assert list(places_of(map(calls_of, messages)))[-1] is None


@pytest.mark.parametrize(
    "messages",
    [
        [calling("a"), result("a"), result("a")],
        [calling("a"), said("user", "x"), result("a")],
        [calling("a"), said("developer", "x"), result("a")],
        [calling("a"), calling("b"), result("a")],
    ],
)
def test_a_late_result(messages: list[dict[str, Any]]) -> None:
    """A result is late if other messages stand between, or its call has one already."""
    assert list(places_of(map(calls_of, messages)))[-1] == Place(is_parallel=False, is_late=True)


def test_calls() -> None:
    """``calls_of`` returns the calls that a message opens, the call that it answers, or that it is a legacy call."""
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    found = [
        calls_of(m)
        for m in (calling("a", "b"), result("a"), legacy, said("user", "x"), said("assistant", "x", tool_calls=[]))
    ]
    assert found == [
        Calls(opens=("a", "b")),
        Calls(answers="a"),
        Calls(legacy=True, function="f"),
        Calls(),
        Calls(),
    ]


# ---- arbitrary values


_WORDS = ["role", "content", "type", "text", "parts", "tool_calls", "image_url", "function", "name", "contents"]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["user", "assistant", "tool", "tool_use", "input_text", "text", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES, _VALUES)
def test_any_value_is_read_or_refused(content: Any, rest: Any) -> None:
    """Any value in place of a message, its content or a part's type is accepted or refused with a BadRequest."""
    user = {"role": "user", "content": content}
    for message in (content, user, {"role": "user", "content": [{"type": rest}]}, {**user, "extra": rest}):
        with contextlib.suppress(BadRequest):
            validate_message(message, "/message", foreign)
