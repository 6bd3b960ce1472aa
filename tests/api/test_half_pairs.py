r"""Half of a surrogate pair, as ``\ud83d`` of a text that was cut: every door takes it, and gives U+FFFD."""

import json
import re
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import history, problem, user

from sash.core.chat.half_pairs import with_whole_pairs

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
HALF, LOW, READ = "before \ud83d after", "\udf00\ud83d", "before \ufffd after"
ALPHABET = ["\\", "u", '"', "d83d", "dc00", "\ud83d", "\ude00", "\U0001f600", "\n", "é", "a"]


@given(st.lists(st.sampled_from(ALPHABET)).map("".join))
@examples(5)
def test_halves_are_read_as_the_replacement_character(text: str) -> None:
    """Any text, escaped by any writer of JSON, is read as Python reads it, with U+FFFD for each half that is left."""
    value = json.loads(json.dumps({text: [text]}))  # halves that stand side by side are a pair
    wanted = json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False)))
    body = json.dumps({text: [text]}).encode()
    assert json.loads(with_whole_pairs(body).decode()) == wanted
    assert len(with_whole_pairs(body)) == len(body)


@given(st.text().map(json.dumps) | st.binary().map(lambda each: each.decode("latin-1")))
@examples(2)
def test_what_has_no_half_stays(body: str) -> None:
    """JSON of whole characters stays as it is, byte by byte, and so does what is no JSON and has no escape."""
    if not re.search(r"\\u[dD][89a-fA-F]", body) or json.loads(body).isprintable():
        assert with_whole_pairs(body.encode()) == body.encode()


ESCAPES = ["\\\\", "\\u", "ud83d", "\\ud83d", "\\uDE00", "\\uD83D\\uDE00", '\\"', "\\n", "d83d", "a"]


@given(st.lists(st.sampled_from(ESCAPES)).map("".join))
@examples(5)
def test_every_way_of_escaping_is_read_as_python_reads_it(inner: str) -> None:
    """Whatever stands before a surrogate's escape, backslashes or pairs, JSON is read as Python reads it."""
    body = f'"{inner}"'
    with suppress(ValueError):
        wanted = re.sub("[\ud800-\udfff]", "\ufffd", json.loads(body))
        assert json.loads(with_whole_pairs(body.encode())) == wanted


MESSAGES: list[tuple[str, dict[str, Any]]] = [
    ("", {"role": "user", "content": HALF}),
    ("", {"message": {"role": "user", "content": HALF}}),
    ("?format=anthropic", {"role": "user", "content": [{"type": "text", "text": HALF}]}),
    ("?format=gemini", {"role": "user", "parts": [{"text": HALF}]}),
    ("?format=responses", {"role": "user", "content": [{"type": "input_text", "text": HALF}]}),
    ("?format=converse", {"role": "user", "content": [{"text": HALF}]}),
]


@pytest.mark.parametrize(("form", "message"), MESSAGES)
@pytest.mark.parametrize("more", [0, 20])
async def test_an_append_takes_a_half(
    client: httpx.AsyncClient, conversation: str, form: str, message: dict[str, Any], more: int
) -> None:
    """A message with half of a pair is stored, alone and among large ones, in every format, and given with U+FFFD."""
    messages = [message] + [{"role": "user", "content": "x" * 3000}] * (0 if form else more)
    path = f"/conversations/{conversation}/messages{form}"
    answer = await client.post(path, content=json.dumps({"messages": messages}), headers=JSON)
    assert answer.status_code == 201, answer.text
    stored = (await history(client, conversation))[0]["message"]["content"]
    assert (stored if isinstance(stored, str) else stored[0]["text"]) == READ
    window = (await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o"})).json()
    assert READ in json.dumps(window["request"], ensure_ascii=False)


async def test_a_tools_result_with_a_half_answers_its_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A result that was cut inside a character is stored, so that its call is answered."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    path = f"/conversations/{conversation}"
    for message in (
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": LOW},
    ):
        body = json.dumps({"messages": [{"role": "user", "content": "Read"}, message][-1:]})
        answer = await client.post(f"{path}/messages", content=body, headers=JSON)
        assert answer.status_code == 201, answer.text
    window = (await client.get(f"{path}/window", params={"model": "gpt-4o-mini"})).json()
    assert window["request"]["messages"][-1]["content"] == "\ufffd\ufffd"


async def test_an_import_takes_halves(client: httpx.AsyncClient, conversation: str) -> None:
    """The settings and the messages of an import may have halves."""
    lines = [{"id": conversation, "system": HALF}, user(HALF), {"role": "assistant", "content": HALF}]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    answer = await client.post("/conversations/import", content=body, headers=LINES)
    assert answer.status_code == 201, answer.text
    assert (await client.get(f"/conversations/{conversation}")).json()["system"] == READ
    assert [each["message"]["content"] for each in await history(client, conversation)] == [READ, READ]


@pytest.mark.parametrize(("form", "message"), MESSAGES)
async def test_a_window_and_a_count_of_a_request_take_halves(
    client: httpx.AsyncClient, form: str, message: dict[str, Any]
) -> None:
    """POST /window and POST /count read a half as U+FFFD, and count it so."""
    answers = []
    for each in (message, json.loads(json.dumps(message, ensure_ascii=False).replace("\ud83d", "\ufffd"))):
        body = json.dumps({"model": "gpt-4o", "messages": [each]})
        answer = await client.post(f"/window{form}", content=body, headers=JSON)
        assert answer.status_code == 200, answer.text
        assert READ in json.dumps(answer.json()["request"], ensure_ascii=False)
        answers.append(answer.json())
    assert answers[0] == answers[1]
    texts = [
        (await client.post("/count", content=json.dumps({"model": "gpt-4o", "text": text}), headers=JSON)).json()
        for text in (HALF, READ)
    ]
    assert texts[0] == texts[1]


async def test_settings_and_summaries_take_halves(client: httpx.AsyncClient, conversation: str) -> None:
    """Every body that is JSON is read so: of settings, of their changes, of a summary and of a fork."""
    created = await client.post(
        "/conversations", content=json.dumps({"id": conversation, "system": HALF}), headers=JSON
    )
    assert created.json()["system"] == READ
    path = f"/conversations/{conversation}"
    await client.post(f"{path}/messages", json={"messages": [user("Hi")]})
    changed = await client.patch(path, content=json.dumps({"metadata": {"note": HALF}}), headers=JSON)
    assert changed.json()["metadata"] == {"note": READ}
    summary = json.dumps({"text": HALF, "through_seq": 1})
    answer = await client.put(f"{path}/summary", content=summary, headers=JSON)
    assert answer.is_success, answer.text
    assert (await client.get(path)).json()["summary"]["text"] == READ


@pytest.mark.parametrize(
    "body", [b'{"messages":["\\ud83d', b'{"messages":["\\ud83d"],}', b"\\ud83d", b'{"a":"\\ud83d\\x"}']
)
async def test_what_is_not_json_is_refused_with_a_half_too(
    client: httpx.AsyncClient, conversation: str, body: bytes
) -> None:
    """A body that is not JSON is 400 and stores nothing, whatever halves it has, and says what else is wrong."""
    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=JSON)
    problem(answer, 400, "bad-request")
    assert "not JSON" in answer.json()["detail"]
    assert await history(client, conversation) == []
