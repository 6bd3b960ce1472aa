"""What a message has only an address or a name of: who can read it, and until when. Else a window has its line."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.providers.messages.references import is_readable, reference_of

GOOGLES = "https://generativelanguage.googleapis.com/v1beta/files/abc123"
SIGNED = "https://b.s3.test/a.png?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date={}&X-Amz-Expires=3600&X-Amz-Signature=ab"
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
FILES = {
    "google": (
        "gemini",
        {"role": "user", "parts": [{"fileData": {"fileUri": GOOGLES, "mimeType": "application/pdf"}}]},
    ),
    "openai": ("responses", {"role": "user", "content": [{"type": "input_file", "file_id": "file-abc123"}]}),
    "anthropic": (
        "anthropic",
        {"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "file_011CNha8"}}]},
    ),
}


async def append(client: httpx.AsyncClient, conversation: str, form: str, *messages: Any) -> None:
    body = {"messages": list(messages)}
    answer = await client.post(f"/conversations/{conversation}/messages", params={"format": form}, json=body)
    assert answer.status_code == 201, answer.text


async def aged(client: httpx.AsyncClient, conversation: str, age: timedelta) -> str:
    """Return another conversation with the same messages, which are so old, and a new question."""
    exported = (await client.get(f"/conversations/{conversation}/export")).text
    head, *lines = map(json.loads, exported.splitlines())
    then = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    old = [{**head, "id": f"{conversation}-old"}, *({**line, "created_at": then} for line in lines)]
    body = "\n".join(map(json.dumps, old))
    answer = await client.post("/conversations/import", content=body, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code < 300, answer.text
    await append(client, f"{conversation}-old", "openai", {"role": "user", "content": "and now?"})
    return f"{conversation}-old"


async def window(client: httpx.AsyncClient, conversation: str, form: str, model: str) -> Any:
    query = {"format": form, "model": model, "explain": "true"}
    answer = await client.get(f"/conversations/{conversation}/window", params=query)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    counted = await client.post("/count", params={"format": form}, json={"model": model, **made["request"]})
    assert counted.status_code == 200, counted.text
    assert 0 <= made["tokens"]["total"] - counted.json()["tokens"] <= 8
    return made


def reasons(made: Any) -> dict[str, int]:
    found: dict[str, int] = made.get("mended", {}).get("reasons", {})
    return found


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("kind", FILES)
async def test_a_file_goes_to_its_issuer_alone(
    client: httpx.AsyncClient, conversation: str, kind: str, form: str
) -> None:
    """Another provider's model gets a line, which is told, and counted as the line."""
    came, message = FILES[kind]
    await append(client, conversation, came, message)
    made = await window(client, conversation, form, MODELS[form])

    issuer = {"openai": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "google"}[form]
    assert reasons(made) == ({} if kind == issuer else {"foreign_reference": 1})
    assert any(name in json.dumps(made["request"]) for name in ("abc123", "file_011")) is (kind == issuer)


async def test_a_picture_that_openai_keeps_is_a_line_in_its_own_form(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A part that only this form has is a line, too, for another maker's model."""
    kept = {"role": "user", "content": [{"type": "input_image", "file_id": "file-abc123", "detail": "auto"}]}
    await append(client, conversation, "responses", kept)

    assert (await window(client, conversation, "responses", "gpt-5"))["request"]["input"] == [kept]
    assert "file-abc123" not in json.dumps((await window(client, conversation, "responses", "grok-4"))["request"])


@pytest.mark.parametrize("model", ["grok-4", "qwen3-32b", "gpt-oss-120b"])
async def test_what_openai_sealed_goes_to_its_own_models(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """Reasoning that OpenAI encrypted goes to no other maker's model, nor to those that others run."""
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB" + "Z" * 1200}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    found = {"type": "function_call_output", "call_id": "c1", "output": "7"}
    await append(client, conversation, "responses", {"role": "user", "content": "q"}, sealed, call, found)

    others = await window(client, conversation, "responses", model)
    own = await window(client, conversation, "responses", "gpt-5")
    assert [item.get("type") for item in others["request"]["input"]] == [None, "function_call", "function_call_output"]
    assert sealed in own["request"]["input"]


@pytest.mark.parametrize(("hours", "is_there"), [(47, True), (49, False)])
async def test_googles_files_end_after_two_days(
    client: httpx.AsyncClient, conversation: str, hours: int, *, is_there: bool
) -> None:
    """The log knows when a file came; after 48 hours Google answers 403, so a line is sent."""
    came, message = FILES["google"]
    await append(client, conversation, came, message, {"role": "model", "parts": [{"text": "ok"}]})
    old = await aged(client, conversation, timedelta(hours=hours))
    made = await window(client, old, "gemini", MODELS["gemini"])

    assert (GOOGLES in json.dumps(made["request"])) is is_there
    assert reasons(made) == ({} if is_there else {"ended_reference": 1})


@pytest.mark.parametrize("form", MODELS)
async def test_a_signed_address_ends_when_it_says(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """An address whose time is over is a line; one that has time left is sent."""
    over, left = SIGNED.format("20240101T000000Z"), SIGNED.format(datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in (over, left)]
    await append(client, conversation, "openai", {"role": "user", "content": parts})
    made = await window(client, conversation, form, MODELS[form])

    assert "20240101T000000Z" not in json.dumps(made["request"])
    assert left in json.dumps(made["request"])
    assert reasons(made) == {"ended_reference": 1}


async def test_a_window_with_an_ended_file_stays_the_same(client: httpx.AsyncClient, conversation: str) -> None:
    """A window depends on the conversation alone: asked again, it has the same bytes, and its receipt makes it again."""
    came, message = FILES["google"]
    await append(client, conversation, came, message)
    old = await aged(client, conversation, timedelta(days=3))
    query = {"format": "gemini", "model": MODELS["gemini"]}
    one, other = [(await client.get(f"/conversations/{old}/window", params=query)) for _ in range(2)]

    assert one.content == other.content
    await append(client, old, "openai", {"role": "user", "content": "and later?"})
    again = await client.get(f"/conversations/{old}/window", params={"receipt": one.json()["receipt"]})
    assert (again.status_code, again.content) == (200, one.content)


@pytest.mark.parametrize(("minutes", "is_there"), [(-5, False), (5, True)])
async def test_a_stateless_window_knows_the_minute(client: httpx.AsyncClient, minutes: int, *, is_there: bool) -> None:
    """Messages in a request have no time of their own: what is over at the moment is a line, and nothing else changes."""
    ends = (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    url = f"https://a.blob.test/c/b.png?sv=2022&se={ends.replace(':', '%3A')}&sp=r&sig=abc"
    question = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    body = {"model": "gpt-4o", "messages": [{"message": question}, {"message": {"role": "user", "content": "and?"}}]}
    one, other = [(await client.post("/window", json=body)).json() for _ in range(2)]
    assert one == other
    assert (url in json.dumps(one["request"])) is is_there
    assert reasons(one) == ({} if is_there else {"ended_reference": 1})


async def test_what_has_ended_stays_a_line(client: httpx.AsyncClient, conversation: str) -> None:
    """The time of a conversation is that of its newest message: a prefix changes once, with the message after the end."""
    came, message = FILES["google"]
    await append(client, conversation, came, message, {"role": "model", "parts": [{"text": "ok"}]})
    old = await aged(client, conversation, timedelta(days=3))
    begins = []
    for question in ("and now?", "and then?"):
        made = await window(client, old, "gemini", MODELS["gemini"])
        begins.append(json.dumps(made["request"]["contents"][:2]))
        await append(
            client, old, "openai", {"role": "assistant", "content": "ok"}, {"role": "user", "content": question}
        )
    assert begins[0] == begins[1]
    assert GOOGLES not in begins[0]


@pytest.mark.parametrize(("minutes", "is_there"), [(15, True), (25, False)])
async def test_code_of_an_ended_container_is_its_line(
    client: httpx.AsyncClient, conversation: str, minutes: int, *, is_there: bool
) -> None:
    """A container ends 20 minutes after it was last used; then its call, and the reasoning before it, are words."""
    ran = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1+1",
        "container_id": "cntr_1",
    }
    ran["outputs"] = [{"type": "logs", "logs": "2"}]
    said = {"type": "output_text", "text": "It is 2.", "annotations": []}
    reply = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}
    await append(client, conversation, "responses", {"role": "user", "content": "calc"}, ran, reply)
    old = await aged(client, conversation, timedelta(minutes=minutes))
    made = await window(client, old, "responses", "gpt-5")

    assert (ran in made["request"]["input"]) is is_there
    assert "1+1" in json.dumps(made["request"])
    assert reasons(made) == ({} if is_there else {"hosted_state": 1})


@pytest.mark.parametrize("status", ["in_progress", "searching", "incomplete"])
async def test_an_open_hosted_call_of_openais_is_its_line(
    client: httpx.AsyncClient, conversation: str, status: str
) -> None:
    """A stream that broke leaves a call that the server has no item of."""
    search = {"type": "web_search_call", "id": "ws_1", "status": status, "action": {"type": "search", "query": "news"}}
    await append(client, conversation, "responses", {"role": "user", "content": "q"}, search)
    await append(client, conversation, "responses", {"role": "user", "content": "again"})
    made = await window(client, conversation, "responses", "gpt-5")

    assert [item.get("type") for item in made["request"]["input"]] == [None, None, None]
    assert "news" in made["request"]["input"][1]["content"]


async def test_a_failed_image_call_is_its_line(client: httpx.AsyncClient, conversation: str) -> None:
    """OpenAI answers 404 to the id of an image that was not made."""
    failed = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None}
    await append(client, conversation, "responses", {"role": "user", "content": "draw"}, failed)
    await append(client, conversation, "responses", {"role": "user", "content": "again"})
    made = await window(client, conversation, "responses", "gpt-5")

    assert "ig_1" not in json.dumps(made["request"])
    assert reasons(made)["hosted_state"] == 1


# ---- what an address tells


@pytest.mark.parametrize(
    ("address", "until"),
    [
        (SIGNED.format("20240101T000000Z"), 1704070800),
        ("https://storage.test/o?X-Goog-Date=20240101T000000Z&X-Goog-Expires=60&X-Goog-Signature=a", 1704067260),
        ("https://a.blob.test/c/b.pdf?sv=2022&se=2024-01-01T00%3A00%3A00Z&sp=r&sig=abc", 1704067200),
        ("https://d.cloudfront.test/a.png?Expires=1704067200&Signature=abc&Key-Pair-Id=K", 1704067200),
        ("https://x.test/a.png?expires=1704067200", 0),
        ("https://x.test/a.png?X-Amz-Expires=3600", 0),
        ("https://x.test/a.png?X-Amz-Date=tomorrow&X-Amz-Expires=3600", 0),
    ],
)
def test_a_signed_address_tells_its_end(address: str, until: int) -> None:
    """The end is in the address where it is signed; in others a number may be anything."""
    assert reference_of(address).until == until


@given(st.text() | st.from_regex(r"https://[a-z]+(\?[A-Za-z-]+=[^&]*)?(&(se|sig|Expires|X-Amz-Date)=[^&]*)*"))
def test_any_text_is_a_reference_or_none(text: str) -> None:
    """No address is too odd; what has no issuer can be read by all."""
    found = reference_of(text)
    assert found.until >= 0
    assert is_readable(found.issuer, "openai", "openai", "gpt-5") is (found.issuer in ("", "openai"))
