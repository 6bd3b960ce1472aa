"""How a window's request ends, over HTTP: some servers take no reply there, and are asked to go on."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user, window

LINE = "Please continue."
HALF = {"message": {"role": "assistant", "content": "Roses are"}, "status": "interrupted"}
REFUSING = [
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-5"),
    ("openai", "claude-opus-4-8"),
    ("openai", "openrouter/anthropic/claude-sonnet-4.6"),
    ("openai", "mistral-large-latest"),
    ("openai", "mistral/magistral-medium-latest"),
    ("openai", "deepseek-reasoner"),
    ("converse", "us.anthropic.claude-opus-4-6-v1"),
    ("converse", "us.meta.llama4-maverick-17b-instruct-v1:0"),
]
TAKING = [
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-3-5-haiku-latest"),
    ("anthropic", "claude-sonnet-4-20250514"),
    ("anthropic", "deepseek-chat"),
    ("openai", "gpt-4o"),
    ("openai", "deepseek-chat"),
    ("responses", "gpt-5"),
    ("gemini", "gemini-2.5-flash"),
    ("ollama", "qwen3:8b"),
    ("converse", "amazon.nova-pro-v1:0"),
    ("converse", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
]


async def counted(client: httpx.AsyncClient, made: dict[str, Any], form: str) -> int:
    answer = await client.post("/count", params={"format": form}, json={"model": made["model"], **made["request"]})
    tokens: int = answer.json()["tokens"]
    return tokens


def texts(made: dict[str, Any], form: str) -> list[tuple[str, str]]:
    """Return the role and the text of each message of a request."""
    key = {"responses": "input", "gemini": "contents"}.get(form, "messages")
    found = []
    for message in made["request"][key]:
        content = message.get("content", message.get("parts"))
        said = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        found.append((message["role"], said))
    return found


@pytest.mark.parametrize("more", [{}, {"stable": "true"}, {"explain": "true", "max_tokens": 1200, "reserve": 0}])
@pytest.mark.parametrize(("form", "model"), REFUSING)
async def test_a_half_reply_is_asked_on(
    client: httpx.AsyncClient, conversation: str, form: str, model: str, more: dict[str, Any]
) -> None:
    """A line of the user's stands behind a reply at the end where the server takes none there, counted and told."""
    await append(client, conversation, user("hello"), {"role": "assistant", "content": "hi"}, user("a poem"), HALF)

    made = await window(client, conversation, model=model, format=form, **more)

    assert texts(made, form)[-2:] == [("assistant", "Roses are"), ("user", LINE)]
    assert made["mended"]["reasons"] == {"reply_at_end": 1}
    assert made["kept"]["last_seq"] == 4
    assert await counted(client, made, form) <= made["tokens"]["total"] <= made["budget"]
    await append(client, conversation, user("and?"))
    later = await window(client, conversation, model=model, format=form, **more)
    assert LINE not in str(later["request"])
    assert texts(later, form)[-1] == ("user", "and?")


@pytest.mark.parametrize(
    ("form", "model", "last"),
    [
        ("gemini", "gemini-3.6-flash", [("model", " \n"), ("user", LINE)]),
        ("openai", "claude-sonnet-5", [("assistant", " \n"), ("user", LINE)]),
        ("anthropic", "claude-sonnet-5", [("user", "a poem")]),
        ("converse", "us.anthropic.claude-opus-4-6-v1", [("user", "a poem")]),
    ],
)
async def test_a_blank_reply_is_asked_on_where_it_is_sent(
    client: httpx.AsyncClient, conversation: str, form: str, model: str, last: list[tuple[str, str]]
) -> None:
    """White space is a reply's beginning, but where it is left out: there the question is the end."""
    await append(client, conversation, user("a poem"), {"role": "assistant", "content": " \n"})
    made = await window(client, conversation, model=model, format=form)
    assert texts(made, form)[-len(last) :] == last
    assert ("reply_at_end" in made.get("mended", {"reasons": {}})["reasons"]) == (len(last) > 1)
    assert await counted(client, made, form) <= made["tokens"]["total"]


@pytest.mark.parametrize(("form", "model"), TAKING)
async def test_a_half_reply_stays_the_end_where_it_is_taken(
    client: httpx.AsyncClient, conversation: str, form: str, model: str
) -> None:
    """Servers that go on with a reply at the end get it, and nothing behind it."""
    await append(client, conversation, user("a poem"), HALF)
    made = await window(client, conversation, model=model, format=form)
    assert texts(made, form)[-1][1] == "Roses are"
    assert "mended" not in made


async def test_a_beginning_stays_the_end(client: httpx.AsyncClient, conversation: str) -> None:
    """Mistral goes on with a reply that says to be a prefix, and no line is counted for it."""
    reply = {"role": "assistant", "content": "Roses are", "prefix": True}
    await append(client, conversation, user("a poem"), reply)
    made = await window(client, conversation, model="mistral-large-latest")
    assert made["request"]["messages"][-1] == reply
    assert "mended" not in made
    assert made["tokens"]["total"] == await counted(client, made, "openai")


@pytest.mark.parametrize(
    ("form", "model"),
    [
        ("anthropic", "claude-opus-4-8"),
        ("openai", "claude-opus-4-8"),
        ("converse", "us.meta.llama4-scout-17b-instruct-v1:0"),
    ],
)
async def test_a_beginning_is_asked_on_where_none_is_taken(
    client: httpx.AsyncClient, conversation: str, form: str, model: str
) -> None:
    """A reply that says to be a prefix is a half reply to those who go on with none."""
    await append(client, conversation, user("a poem"), {"role": "assistant", "content": "Roses are", "prefix": True})
    made = await window(client, conversation, model=model, format=form)
    assert texts(made, form)[-2:] == [("assistant", "Roses are"), ("user", LINE)]


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "new"}}


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6"])
async def test_a_paused_search_goes_on_until_the_user_writes(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """A paused reply is sent back as it is; once the user has written, the open call is left out."""
    said = {"type": "text", "text": "I look."}
    asked = [user("news?"), {"role": "assistant", "content": [said, SEARCH]}]
    await append(client, conversation, *asked, format="anthropic")
    made = await window(client, conversation, model=model, format="anthropic")
    assert made["request"]["messages"][-1]["content"] == [said, SEARCH]
    assert "mended" not in made
    await append(client, conversation, user("never mind"), format="anthropic")
    made = await window(client, conversation, model=model, format="anthropic")
    assert [message["content"] for message in made["request"]["messages"][1:]] == [[said], "never mind"]
    assert made["mended"]["reasons"] == {"hosted_pair": 1}
    assert await counted(client, made, "anthropic") <= made["tokens"]["total"]


async def test_a_user_whose_results_have_no_call_says_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """A result of Claude's own tool alone, at the beginning of what is left of a chat, leaves a turn of the user's."""
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    asked = [{"role": "user", "content": [result]}, {"role": "assistant", "content": "Nothing new."}]
    await append(client, conversation, *asked, format="anthropic")
    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert [message["role"] for message in made["request"]["messages"]] == ["user", "assistant"]
    assert await counted(client, made, "anthropic") <= made["tokens"]["total"]


async def test_a_call_at_the_end_waits_and_is_not_asked_on(client: httpx.AsyncClient, conversation: str) -> None:
    """Behind calls no line is sent: the window says what it waits for."""
    call = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    await append(client, conversation, user("q"), {"role": "assistant", "content": "I look.", "tool_calls": [call]})
    made = await window(client, conversation, model="claude-opus-4-6", format="anthropic")
    assert made["waiting_for"] == ["toolu_1"]
    assert LINE not in str(made["request"])
    assert "mended" not in made


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
NOTE = {"role": "system", "content": "a note"}


@pytest.mark.parametrize(
    ("asked", "last"),
    [
        ([HALF, NOTE], "Roses are"),
        ([HALF, {"role": "assistant", "content": None, "tool_calls": [CALL]}, NOTE], "Roses are"),
        ([HALF, {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}, NOTE], "I look."),
        ([HALF, {"role": "assistant", "content": ""}, {"role": "developer", "content": "a note"}], "Roses are"),
        ([HALF, NOTE, {"role": "assistant", "content": ""}], "Roses are"),
    ],
    ids=["note", "call", "words beside a call", "empty", "note between"],
)
async def test_a_note_or_a_call_that_is_left_out_is_no_end(
    client: httpx.AsyncClient, conversation: str, asked: list[dict[str, Any]], last: str
) -> None:
    """What stands first or is left out does not hide the reply that the request would end with."""
    await append(client, conversation, user("a poem"), *asked)
    made = await window(client, conversation, model="mistral-large-latest", unanswered="drop")
    assert texts(made, "openai")[-2:] == [("assistant", last), ("user", LINE)]
    assert made["mended"]["reasons"]["reply_at_end"] == 1
    assert await counted(client, made, "openai") <= made["tokens"]["total"] <= made["budget"]
