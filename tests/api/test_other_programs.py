"""Other programs' records are refused by name, in every format, before anything in them is stored."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from rigs.dialogue import append, history, problem, window
from rigs.other_programs import CLAUDE_CODE, CODEX, RECORDS

from sash.core.providers import PROVIDERS
from sash.core.providers.anthropic.claude_kinds import BLOCKS
from sash.core.providers.google.gemini_kinds import PARTS
from sash.core.providers.openai.item_kinds import CONTENTS, ITEMS

EACH = [(called, record) for called, records in RECORDS.values() for record in records]


@pytest.mark.parametrize("form", PROVIDERS)
async def test_a_record_is_refused_by_its_programs_name(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """A record, bare or in an entry, is 400 with the program's name and the way in, and advises no other format."""
    for called, record in EACH:
        for entry in (record, {"id": "m-1", "message": record}):
            answer = await client.post(
                f"/conversations/{conversation}/messages", params={"format": form}, json={"messages": [entry]}
            )
            told = problem(answer, 400, "invalid-entry")
            assert called in told["detail"], (record, told)
            assert "sash import" in told["detail"] or "write each message" in told["detail"]
            assert "to send it unchanged" not in told["detail"]
            assert told["errors"][0]["pointer"].startswith("#/messages/0")
    assert await history(client, conversation) == []


@pytest.mark.parametrize("form", PROVIDERS)
async def test_one_record_among_messages_is_named(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """The pointer leads to the record behind a message, and nothing is stored."""
    plain: dict[str, Any] = {"role": "user", "parts": [{"text": "Hi"}]} if form == "gemini" else {}
    plain = plain or {"role": "user", "content": "Hi"}
    for called, record in EACH:
        body = {"messages": [plain, record]}
        answer = await client.post(f"/conversations/{conversation}/messages", params={"format": form}, json=body)
        told = problem(answer, 400, "invalid-entry")
        assert called in told["detail"], (record, told)
        assert told["errors"][0]["pointer"].startswith("#/messages/1")
    assert await history(client, conversation) == []


async def test_what_is_in_a_log_can_be_appended(client: httpx.AsyncClient, conversation: str) -> None:
    """The payload of a Codex line, and the message of a Claude Code line, go in as the error says."""
    await append(client, conversation, CODEX[3]["payload"], format="responses")
    await append(client, conversation, CLAUDE_CODE[2]["message"], format="anthropic")
    assert [each["message"]["role"] for each in await history(client, conversation)] == ["user", "user"]


UNKNOWN = [
    ("responses", {"type": "function_cal", "call_id": "c", "name": "f", "arguments": "{}"}, "function_call", ITEMS),
    ("responses", {"type": "hologram", "id": "h"}, "", ITEMS),
    ("responses", {"role": "user", "content": [{"type": "input_txt", "text": "x"}]}, "input_text", CONTENTS),
    ("anthropic", {"role": "user", "content": [{"type": "txt", "text": "x"}]}, "text", BLOCKS),
    ("anthropic", {"role": "assistant", "content": [{"type": "tool-use", "id": "t"}]}, "tool_use", BLOCKS),
    ("gemini", {"role": "user", "parts": [{"functioncall": {"name": "f"}}]}, "functionCall", PARTS),
    ("gemini", {"role": "user", "parts": [{"text": "x"}, {"sparkle": 1}]}, "", PARTS),
    ("gemini", {"role": "user", "parts": [{"text": "x", "thought_signatur": "eA=="}]}, "thoughtSignature", PARTS),
    ("gemini", {"role": "assistant", "parts": [{"text": "x"}]}, "", ("user", "model")),
]


@pytest.mark.parametrize(("form", "message", "meant", "known"), UNKNOWN)
async def test_an_unknown_kind_is_refused_with_the_known_ones(
    client: httpx.AsyncClient, conversation: str, form: str, message: Any, meant: str, known: tuple[str, ...]
) -> None:
    """An item, block, part or role that the provider does not have is 400 with all that it has, the nearest first."""
    path = f"/conversations/{conversation}/messages"
    told = problem(await client.post(path, params={"format": form}, json={"messages": [message]}), 400, "invalid-entry")
    assert all(f"'{name}'" in told["detail"] for name in known)
    assert not meant or f"did you mean '{meant}'?" in told["detail"]
    assert "SASH_ALLOW_ITEMS" in told["detail"]
    assert told["errors"][0]["pointer"].startswith("#/messages/0/")
    answer = await client.post("/window", params={"format": form}, json={"model": "gpt-5", "messages": [message]})
    assert answer.status_code == 400


async def test_a_member_beside_a_known_one_is_the_clients_own(client: httpx.AsyncClient, conversation: str) -> None:
    """A part of Gemini that says what it is may have another member, as messages may."""
    await append(client, conversation, {"role": "user", "parts": [{"text": "x", "sparkle": 1}]}, format="gemini")


async def test_an_unknown_type_is_no_item_of_responses(client: httpx.AsyncClient, conversation: str) -> None:
    """A chat append with a type that no provider has does not advise format=responses."""
    body = {"messages": [{"type": "hologram", "data": 1}]}
    told = problem(await client.post(f"/conversations/{conversation}/messages", json=body), 400, "invalid-entry")
    assert "format=responses" not in told["detail"]


async def test_lines_of_an_import_are_named_too(client: httpx.AsyncClient) -> None:
    """A log that is sent to the import over HTTP is refused by its program's name, as its first line and as a later one."""
    headers = {"Content-Type": "application/x-ndjson"}
    for called, record in EACH:
        line = json.dumps(record)
        for body in (line, f"{{}}\n{line}"):
            answer = await client.post("/conversations/import", content=body, headers=headers)
            assert answer.status_code == 400
            assert called in answer.json()["detail"], (record, answer.text)


async def test_a_record_that_is_stored_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """An export with a record that an older service took is imported again."""
    await append(client, conversation, {"role": "user", "content": "Hi", "weight": 1})
    lines = (await client.get(f"/conversations/{conversation}/export")).text.replace('"weight"', '"childrenIds"')
    copy, headers = f"{conversation}-copy", {"Content-Type": "application/x-ndjson"}
    answer = await client.post("/conversations/import", params={"id": copy}, content=lines, headers=headers)
    assert answer.status_code == 201, answer.text
    assert (await client.delete(f"/conversations/{copy}")).status_code == 204


async def test_an_unknown_kind_that_is_stored_stays_readable(client: httpx.AsyncClient, conversation: str) -> None:
    """An export of an older service with an unknown item is imported, read, and sent as it came."""
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    await append(client, conversation, {"role": "user", "content": "Hi"}, item, format="responses")
    lines = (await client.get(f"/conversations/{conversation}/export")).text
    lines = lines.replace("web_search_call", "hologram").replace("web search call", "hologram")
    copy, headers = f"{conversation}-copy", {"Content-Type": "application/x-ndjson"}

    answer = await client.post("/conversations/import", params={"id": copy}, content=lines, headers=headers)

    assert answer.status_code == 201, answer.text
    made = await window(client, copy, model="gpt-5", format="responses")
    assert made["request"]["input"][1] == {**item, "type": "hologram"}
    copied = (await client.get(f"/conversations/{copy}/export")).text
    sent, came = ([json.loads(line).get("message") for line in text.splitlines()] for text in (lines, copied))
    assert came == sent
    assert (await client.delete(f"/conversations/{copy}")).status_code == 204


def test_an_unknown_kind_is_taken_where_the_operator_says_so(tmp_path: Path) -> None:
    """With SASH_ALLOW_ITEMS the kinds that it names are appended and sent as they came, and others are refused."""
    served = Served(tmp_path / "data", SASH_ALLOW_ITEMS="hologram,sparkle")
    served.start()
    try:
        with httpx.Client(base_url=served.url) as client:
            for form, message in (
                ("responses", {"type": "hologram", "id": "h"}),
                ("anthropic", {"role": "assistant", "content": [{"type": "hologram"}]}),
                ("gemini", {"role": "model", "parts": [{"sparkle": {}}]}),
            ):
                question = (
                    {"role": "user", "parts": [{"text": "x"}]} if form == "gemini" else {"role": "user", "content": "x"}
                )
                body = {"messages": [question, message]}
                answer = client.post(f"/conversations/c-{form}/messages", params={"format": form}, json=body)
                assert answer.status_code == 201, answer.text
                asked = {"model": "gpt-4o-mini", "format": form}
                made = client.get(f"/conversations/c-{form}/window", params=asked)
                assert json.dumps(message) in json.dumps(made.json()["request"])
                stateless = client.post("/window", params={"format": form}, json={**asked, **body})
                assert stateless.status_code == 200, stateless.text
            other = {"messages": [{"type": "holograms"}]}
            assert client.post("/conversations/c/messages?format=responses", json=other).status_code == 400
    finally:
        served.stop()
