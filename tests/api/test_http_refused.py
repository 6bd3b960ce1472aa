"""Bad requests: each is a 4xx problem that names the place, and nothing is stored."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import calling, history, problem, result, user

JSON = {"content-type": "application/json"}
LIMIT_BYTES = 4 * 1024 * 1024


def holding(value: bytes) -> bytes:
    """Return a body with these bytes as the message's content."""
    return b'{"messages":[{"message":{"role":"user","content":%s}}]}' % value


def beside(value: bytes) -> bytes:
    """Return a body with these bytes as an unknown field of the message."""
    return b'{"messages":[{"message":{"role":"user","content":"x","n":%s}}]}' % value


NOT_JSON: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n ",
    "cut": b'{"messages":[',
    "cut in a string": b'{"messages":[{"message":{"role":"us',
    "two values": b'{"messages":[]} {}',
    "python": b"{'messages': []}",
    "trailing comma": b'{"messages":[],}',
    "comment": b'{"messages":[]} // none',
    "byte order mark": b'\xef\xbb\xbf{"messages":[]}',
    "utf-16": '{"messages":[]}'.encode("utf-16"),
    "latin-1": holding(b'"caf\xe9"'),
    "overlong": holding(b'"\xc0\xaf"'),
    "surrogate bytes": holding(b'"\xed\xa0\x80"'),
    "invalid in a key": b'{"mess\xff":[]}',
    "invalid outside": b'{"messages":[]}\xff',
    "half of a surrogate pair, cut": b'{"messages":["\\ud83d',
    "raw newline": holding(b'"a\nb"'),
    "raw NUL": holding(b'"a\x00b"'),
    "NUL after": b'{"messages":[]}\x00',
    "bad escape": holding(b'"\\x41"'),
    "NaN": beside(b"NaN"),
    "Infinity": beside(b"-Infinity"),
    "leading zero": beside(b"01"),
    "hexadecimal": beside(b"0x10"),
    "5,000 digits": beside(b"9" * 5000),
    "1e999": beside(b"1e999"),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": beside(b"[" * 100_000 + b"]" * 100_000),
    "deep and hidden": beside(b'["]",' * 50_000 + b"1" + b"]" * 50_000),
    "101 deep": beside(b"[" * 260 + b"]" * 260),
    "unmatched": b"]" * 100_000,
}


@pytest.mark.parametrize("name", NOT_JSON)
@pytest.mark.parametrize("path", ["/conversations/{}/messages", "/conversations", "/window", "/count"])
async def test_what_is_not_json(client: httpx.AsyncClient, conversation: str, path: str, name: str) -> None:
    """A body that is not one JSON value in UTF-8, within bounds, is 400 and stores nothing."""
    answer = await client.post(path.format(conversation), content=NOT_JSON[name], headers=JSON)

    problem(answer, 400, "bad-request")
    assert await history(client, conversation) == []


@pytest.mark.parametrize("name", NOT_JSON)
@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", ""), ("PUT", "/summary"), ("POST", "/rewind"), ("POST", "/fork"), ("POST", "/usage")]
)
async def test_what_is_not_json_changes_nothing(
    client: httpx.AsyncClient, conversation: str, method: str, path: str, name: str
) -> None:
    """The same bytes in a request that changes a conversation are 400 and leave its version unchanged."""
    await client.post("/conversations", json={"id": conversation})

    answer = await client.request(method, f"/conversations/{conversation}{path}", content=NOT_JSON[name], headers=JSON)

    problem(answer, 400, "bad-request")
    assert (await client.get(f"/conversations/{conversation}")).json()["version"] == 1


@pytest.mark.parametrize("name", [name for name in NOT_JSON if name not in ("empty", "blank", "raw newline")])
@pytest.mark.parametrize("number", [1, 3])
async def test_lines_that_are_not_json(
    client: httpx.AsyncClient, conversation: str, server: Any, number: int, name: str
) -> None:
    """A bad line of an import, first or later, is 400 with its number, and no other line is stored."""
    good = [b'{"id":"%s"}' % conversation.encode(), json.dumps(user("x")).encode()]
    lines = {"content-type": "application/x-ndjson"}

    body = b"\n".join([*good, NOT_JSON[name]] if number == 3 else [NOT_JSON[name], *good])
    answer = await client.post("/conversations/import", content=body, headers=lines)

    assert problem(answer, 400, "bad-request")["line"] == number
    assert list(server.scan_iter(f"sash:*{conversation}*")) == []


async def test_the_byte_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A problem about invalid UTF-8 names the byte of the body."""
    body = holding(b'"\xff"')

    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=JSON)

    assert f"byte {body.index(0xFF)} " in problem(answer, 400, "bad-request")["detail"]


async def test_as_deep_as_allowed(client: httpx.AsyncClient, conversation: str) -> None:
    """A value nested 90 deep is accepted, and brackets in strings do not count as nesting."""
    for value in (b"[" * 90 + b"]" * 90, json.dumps("[{" * 10_000).encode(), json.dumps('\\"[' * 10_000).encode()):
        answer = await client.post(f"/conversations/{conversation}/messages", content=beside(value), headers=JSON)
        assert answer.status_code == 201, answer.text


SHAPES: list[tuple[Any, str]] = [
    (None, "#"),
    ([], "#"),
    ("x", "#"),
    ({}, "#"),
    ({"messages": None}, "#/messages"),
    ({"messages": {}}, "#/messages"),
    ({"messages": []}, "#/messages"),
    ({"messages": [5]}, "#/messages/0"),
    ({"messages": [{}]}, "#/messages/0"),
    ({"messages": [user("x")], "more": 1}, "#/more"),
    ({"messages": [user("x"), user("x", colour="red")]}, "#/messages/1/colour"),
    ({"messages": [user("x", **{"a/b~c": 1})]}, "#/messages/0/a~1b~0c"),
    ({"messages": [{"message": []}]}, "#/messages/0/message"),
    ({"messages": [user("x", id="a b")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="-a")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="a\n")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="\u0000")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="é")]}, "#/messages/0/id"),
    ({"messages": [user("x", id="a" * 129)]}, "#/messages/0/id"),
    ({"messages": [user("x", id=5)]}, "#/messages/0/id"),
    ({"messages": [user("x", pinned="yes")]}, "#/messages/0/pinned"),
    ({"messages": [user("x", metadata=[])]}, "#/messages/0/metadata"),
    ({"messages": [user("x", image_sizes=[[0, 1]])]}, "#/messages/0/image_sizes/0/0"),
    ({"messages": [user("x", grounding=[])]}, "#/messages/0/grounding"),
    ({"messages": [user("x", grounding={"documents": [{}]})]}, "#/messages/0/grounding/documents/0"),
    ({"messages": [user("x", grounding={"documents": [{"text": 1}]})]}, "#/messages/0/grounding/documents/0/text"),
    (
        {"messages": [user("x", grounding={"documents": [{"text": "", "score": 1}]})]},
        "#/messages/0/grounding/documents/0/score",
    ),
]


@pytest.mark.parametrize(("body", "pointer"), SHAPES)
async def test_envelopes(client: httpx.AsyncClient, conversation: str, body: Any, pointer: str) -> None:
    """An invalid envelope is 400, and the pointer names an unknown field itself."""
    content = json.dumps(body).encode()

    answer = await client.post(f"/conversations/{conversation}/messages", content=content, headers=JSON)

    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"].startswith(pointer)
    assert await history(client, conversation) == []


CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "x"}
MESSAGES: list[tuple[Any, str]] = [
    ({}, ""),
    ({"content": "x"}, ""),
    ({"role": "clown", "content": "x"}, "/role"),
    ({"role": "User", "content": "x"}, "/role"),
    ({"role": 1, "content": "x"}, "/role"),
    ({"role": "user"}, ""),
    ({"role": "user", "content": 5}, "/content"),
    ({"role": "user", "content": {}}, "/content"),
    ({"role": "user", "content": [{"text": "x"}]}, "/content/0"),
    ({"role": "user", "content": [{"type": "video"}]}, "/content/0/type"),
    ({"role": "user", "content": [{"type": "text"}]}, "/content/0"),
    ({"role": "user", "content": [{"type": "image_url", "image_url": 5}]}, "/content/0/image_url"),
    ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, "/content/0/input_audio"),
    ({"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, "/content/0/type"),
    ({"role": "system", "content": [{"text": "x"}]}, "/content/0"),
    ({"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}, {"text": "x"}]}, "/content/1"),
    ({"role": "assistant", "content": None, "tool_calls": {}}, "/tool_calls"),
    ({"role": "assistant", "content": None, "tool_calls": [{}]}, "/tool_calls/0"),
    ({"role": "assistant", "content": None, "tool_calls": [{**CALL, "type": "x"}]}, "/tool_calls/0/type"),
    (
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "function": {"arguments": "x"}}]},
        "/tool_calls/0/function",
    ),
    ({"role": "assistant", "content": None, "function_call": {"arguments": "x"}}, "/function_call"),
    ({"role": "tool", "content": "x"}, ""),
    ({"role": "tool", "tool_call_id": "", "content": "x"}, "/tool_call_id"),
    ({"role": "tool", "tool_call_id": "a", "output": "x"}, ""),
    ({"role": "function", "content": "x"}, ""),
    ({"role": "user", "content": "x", "name": 5}, "/name"),
]


@pytest.mark.parametrize(("message", "pointer"), MESSAGES)
async def test_messages(client: httpx.AsyncClient, conversation: str, message: Any, pointer: str) -> None:
    """An invalid chat message is 400 with its place in the batch, and no message is stored."""
    batch = {"messages": [user("before"), {"message": message}]}

    answer = await client.post(f"/conversations/{conversation}/messages", json=batch)

    assert problem(answer, 400, "invalid-entry")["errors"][0]["pointer"] == f"#/messages/1/message{pointer}"
    assert await history(client, conversation) == []


@pytest.mark.parametrize(
    "message", [CALLING, RESULT, {"role": "system", "content": "x"}], ids=lambda each: each["role"]
)
async def test_documents_of_nobody(client: httpx.AsyncClient, conversation: str, message: Any) -> None:
    """Documents on an assistant, tool or system message are 422 at their place, as no window would show them."""
    grounding = {"documents": [{"text": "Room 2."}]}
    entries = [user("x"), {"message": CALLING}, {"message": message, "grounding": grounding}]
    body = {"messages": entries if message["role"] == "tool" else [user("x"), *entries[2:]]}

    answers = [
        await client.post(f"/conversations/{conversation}/messages", json=body),
        await client.post("/window", json={**body, "model": "gpt-4o"}),
    ]

    for answer in answers:
        place = f"#/messages/{len(body['messages']) - 1}/grounding"
        assert problem(answer, 422, "unprocessable")["errors"][0]["pointer"] == place
    assert await history(client, conversation) == []


async def test_no_documents_are_nobodys(client: httpx.AsyncClient, conversation: str) -> None:
    """An empty list of documents is accepted on an assistant message: some clients send one envelope with every role."""
    entry = {"message": {"role": "assistant", "content": "x"}, "grounding": {"documents": []}}

    assert (await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})).status_code == 201


async def test_numbers_with_a_point(client: httpx.AsyncClient, conversation: str) -> None:
    """A number such as 5.0 is accepted as an integer, as in JSON Schema; in values kept verbatim it stays 5.0."""
    path = f"/conversations/{conversation}"
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "width": 512.0, "height": 512.0}}
    entry = user("x", image_sizes=[[512.0, 1e2]], metadata={"score": 5.0})
    entry["message"] = {"role": "user", "content": [image], "temperature": 1.0}
    created = await client.post(
        "/conversations", content=b'{"id":"%s","reserve":2048.0}' % conversation.encode(), headers=JSON
    )
    appended = await client.post(f"{path}/messages", json={"messages": [entry]})
    changed = await client.patch(path, content=b'{"ttl_seconds":3.6e3,"metadata":{"a":1.0}}', headers=JSON)

    assert (created.status_code, created.json()["reserve"]) == (201, 2048)
    assert appended.status_code == 201, appended.text
    assert (changed.json()["ttl_seconds"], changed.json()["metadata"]) == (3600, {"a": 1.0})
    kept = (await client.get(f"{path}/messages/1")).text
    assert '"score":5.0' in kept
    assert '"temperature":1.0' in kept
    assert '"width":512.0' in kept


@pytest.mark.parametrize("number", ["5.5", "1e40", "1e400", "-5.0", "NaN"])
async def test_numbers_that_are_not_whole(client: httpx.AsyncClient, number: str) -> None:
    """A number that is no integer within bounds is 400."""
    answer = await client.post("/conversations", content=b'{"reserve":%s}' % number.encode(), headers=JSON)

    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("window?model=gpt-4o&reserve=null", "reserve"),
        ("window?limit=NULL", "limit"),
    ],
)
async def test_null_in_a_query(client: httpx.AsyncClient, conversation: str, path: str, name: str) -> None:
    """The word ``null`` as a query parameter is 400: a query has no null, so its client has lost a value."""
    await client.post(f"/conversations/{conversation}/messages", json={"messages": [user("x")]})

    found = problem(await client.get(f"/conversations/{conversation}/{path}"), 400, "bad-request")

    assert found["errors"][0]["pointer"] == f"#/query/{name}"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/merge-patch+json"},
        {**JSON, "content-encoding": "gzip"},
        {**JSON, "content-encoding": "br, identity"},
    ],
)
async def test_media_types(client: httpx.AsyncClient, conversation: str, headers: dict[str, str]) -> None:
    """A body whose headers do not declare plain JSON is 415, whatever its bytes are."""
    body = json.dumps({"messages": [user("x")]}).encode()

    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=headers)

    problem(answer, 415, "unsupported-media-type")
    assert {"accept", "accept-encoding"} & set(answer.headers)
    assert await history(client, conversation) == []


@pytest.mark.parametrize(
    "value", ["application/json", "APPLICATION/JSON;charset=UTF-8", 'application/json; charset="utf8"']
)
async def test_ways_to_say_json(client: httpx.AsyncClient, conversation: str, value: str) -> None:
    """JSON may be declared in capitals, with UTF-8 as its charset, and with the identity encoding."""
    body = json.dumps({"messages": [user("x")]}).encode()

    answer = await client.post(
        f"/conversations/{conversation}/messages",
        content=body,
        headers={"content-type": value, "content-encoding": "identity"},
    )

    assert answer.status_code == 201


@pytest.mark.parametrize(("over", "status"), [(-1, 201), (0, 201), (1, 413)])
async def test_the_limit_of_a_body(client: httpx.AsyncClient, conversation: str, over: int, status: int) -> None:
    """A body of exactly the limit is accepted; one byte more is 413 with the limit."""
    empty = len(holding(b'""'))
    body = holding(b'"%s"' % (b"x " * LIMIT_BYTES)[: LIMIT_BYTES + over - empty])
    assert len(body) == LIMIT_BYTES + over

    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=JSON)

    assert answer.status_code == status
    if status == 413:
        found = problem(answer, 413, "too-large")
        assert (found["limit"], found["unit"]) == (LIMIT_BYTES, "bytes")
    assert len(await history(client, conversation)) == (status == 201)


async def test_a_body_without_its_length(client: httpx.AsyncClient, conversation: str) -> None:
    """A body in pieces without a Content-Length has the same limit."""

    async def pieces() -> Any:
        for _ in range(6):
            yield b" " * (1024 * 1024)

    answer = await client.post(f"/conversations/{conversation}/messages", content=pieces(), headers=JSON)

    problem(answer, 413, "too-large")


@pytest.mark.parametrize(("count", "status"), [(99, 201), (100, 201), (101, 413)])
async def test_the_limit_of_a_batch(client: httpx.AsyncClient, conversation: str, count: int, status: int) -> None:
    """A batch of 100 entries is accepted; one more is 413 with the limit and a pointer."""
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [user("x")] * count})

    assert answer.status_code == status
    if status == 413:
        found = problem(answer, 413, "too-large")
        assert (found["limit"], found["unit"]) == (100, "entries")
        assert found["errors"][0]["pointer"] == "#/messages"
    assert len(await history(client, conversation)) == (count if status == 201 else 0)


@pytest.mark.parametrize(("count", "status"), [(1000, 201), (1001, 413)])
async def test_the_limit_of_an_entrys_items(
    client: httpx.AsyncClient, conversation: str, count: int, status: int
) -> None:
    """An entry may be a list of items; the entries of a request may make 1,000 messages, ten times their own number."""
    items = [{"role": "user", "content": f"{number}"} for number in range(count)]
    path = f"/conversations/{conversation}/messages?format=responses"

    answer = await client.post(path, json={"messages": [{"message": items}]})

    assert answer.status_code == status
    if status == 413:
        found = problem(answer, 413, "too-large")
        assert (found["limit"], found["unit"]) == (1000, "messages")
    assert len(await history(client, conversation)) == (count if status == 201 else 0)


@pytest.mark.parametrize("identity", ["a%20b", "%C3%A9", "-a", ".a", "a" * 129, "a%00", "a%0A", "a{b}", "a:b"])
async def test_conversation_ids(client: httpx.AsyncClient, identity: str) -> None:
    """A conversation id with other characters, or longer than allowed, is 400 in every path."""
    path = f"/conversations/{identity}"
    for answer in (
        await client.get(path),
        await client.patch(path, json={}),
        await client.delete(path),
        await client.get(f"{path}/messages"),
        await client.post(f"{path}/messages", json={"messages": [user("x")]}),
        await client.get(f"{path}/window?model=gpt-4o"),
    ):
        assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == "#/path/conversation_id"


CREATE: list[tuple[dict[str, Any], str]] = [
    ({"id": "a b"}, "#/id"),
    ({"owner": "a\u0007b"}, "#/owner"),
    ({"reserve": -1}, "#/reserve"),
    ({"reserve": 10**12}, "#/reserve"),
    ({"reserve": "12"}, "#/reserve"),
    ({"ttl_seconds": 0}, "#/ttl_seconds"),
    ({"ttl_seconds": 10**12}, "#/ttl_seconds"),
    ({"model": ""}, "#/model"),
    ({"system": 5}, "#/system"),
    ({"metadata": 5}, "#/metadata"),
    ({"tools": [5]}, "#/tools/0"),
    ({"tools": [{"type": "function", "function": {}}]}, "#/tools/0/function"),
    ({"tool_choice": 5}, "#/tool_choice"),
    ({"tool_choice": "look"}, "#/tool_choice"),
    ({"few_shots": [{"role": "clown"}]}, "#/few_shots/0/role"),
    ({"few_shots": [result("x")["message"]]}, "#/few_shots/0/tool_call_id"),
    ({"few_shots": [calling("x")["message"], result("y")["message"]]}, "#/few_shots/1/tool_call_id"),
    ({"few_shots": [calling("x")["message"], {"role": "user", "content": "q"}]}, "#/few_shots/0"),
    ({"few_shots": [calling("x", "y")["message"], result("x")["message"]]}, "#/few_shots/1"),
    ({"grounding_template": "{content}"}, "#/grounding_template"),
    ({"grounding_template": ""}, "#/grounding_template"),
    ({"recall_template": ""}, "#/recall_template"),
    ({"grounding_template": "{content}{documents}{documents}"}, "#/grounding_template"),
    ({"messages": []}, "#/messages"),
]


@pytest.mark.parametrize(("settings", "pointer"), CREATE)
async def test_settings(client: httpx.AsyncClient, server: Any, settings: dict[str, Any], pointer: str) -> None:
    """Invalid settings are 400 when the conversation is created, not when a window is requested."""
    answer = await client.post("/conversations", json=settings)

    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert list(server.scan_iter("sash:*:conversation")) == []


async def test_a_name_that_is_taken(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """The name of a path is refused as a conversation's id, because requests could not read or erase that conversation."""
    await client.post("/conversations", json={"id": conversation})
    lines = {"content-type": "application/x-ndjson"}
    for answer, place in [
        (await client.post("/conversations", json={"id": "import"}), "#/id"),
        (await client.post(f"/conversations/{conversation}/fork", json={"id": "import"}), "#/id"),
        (await client.post("/conversations/import", content=b'{"id":"import"}', headers=lines), "#/lines/1/id"),
        (await client.post("/conversations/import?id=import", content=b"{}", headers=lines), "#/query/id"),
        (await client.post("/conversations/import/messages", json={"messages": [user("x")]}), "#/path/conversation_id"),
    ]:
        assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == place
    assert list(server.scan_iter("sash:{default/import}*")) == []
