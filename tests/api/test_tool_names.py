"""Names of tools that a destination refuses: a window sends others, tells them, and counts them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash import count, window
from sash.core.providers.destinations.tool_names import ALPHABETS, names_in

PLAIN, DOTTED = ALPHABETS["plain"], ALPHABETS["dotted"]
DESTINATIONS: list[tuple[str, str, re.Pattern[str] | None]] = [
    ("openai", "gpt-4o", PLAIN),
    ("openai", "mistral-large-latest", PLAIN),
    ("openai", "deepseek-v4-pro", PLAIN),
    ("openai", "qwen3-32b", None),
    ("responses", "gpt-5", PLAIN),
    ("anthropic", "claude-sonnet-4-5", PLAIN),
    ("gemini", "gemini-2.5-flash", DOTTED),
    ("interactions", "gemini-2.5-flash", DOTTED),
    ("converse", "amazon.nova-pro-v1:0", PLAIN),
    ("ollama", "qwen3:8b", None),
]
"""Forms and models with the names that are taken; None where no name is known to be refused."""
OWN = ("github.create issue", "2fa/reset code", "github_create_issue", "поиск", "look")


def tool(name: str) -> dict[str, Any]:
    """Return the definition of a function."""
    parameters = {"type": "object", "properties": {"day": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": "Do it.", "parameters": parameters}}


def called(number: int, name: str) -> list[dict[str, Any]]:
    """Return a question, a call of the function, its result, and a reply."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": '{"day": "1"}'}}
    return [
        {"role": "user", "content": f"Do {number}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "Done."},
        {"role": "assistant", "content": "It is done."},
    ]


def named(value: Any, own: tuple[str, ...]) -> Iterator[str]:
    """Yield the names in a request, wherever they stand."""
    match value:
        case list():
            for each in value:
                yield from named(each, own)
        case dict():
            for key, each in value.items():
                if key in ("name", "tool_name", "toolName") and isinstance(each, str):
                    yield each
                elif key in ("allowedFunctionNames", "allowed_function_names"):
                    yield from each
                else:
                    yield from named(each, own)


@pytest.mark.parametrize(("form", "model", "alphabet"), DESTINATIONS)
def test_each_name_is_sent_in_the_alphabet_everywhere_and_told(
    form: str, model: str, alphabet: re.Pattern[str] | None
) -> None:
    """Definitions, calls, results, examples and the choice have one name each, which ``names`` leads back to."""
    history = [*called(1, OWN[0]), *called(2, OWN[1]), *called(3, OWN[2]), {"role": "user", "content": "And now?"}]
    choice = {"type": "function", "function": {"name": OWN[0]}}
    made = window(
        history, model=model, format=form, tools=[*map(tool, OWN)], tool_choice=choice, few_shots=called(9, OWN[3])
    )
    sent = {*named(made.request, OWN)}
    own = [made.names.get(each, each) for each in sent]
    assert sorted(own) == sorted({*OWN[:4], *own})  # Bedrock declares the chosen tool alone
    assert alphabet is None or all(map(alphabet.fullmatch, sent))
    assert bool(made.names) == (alphabet is not None)
    if alphabet is not None:
        assert count(made.request, model=model, format=form).tokens == made.tokens.total
        assert made.mended.reasons["tool_names"] == 3  # two messages, and the fixed parts


@examples(1)
@given(
    st.lists(st.one_of(st.text(max_size=70), st.text("a._/ 2é", min_size=1, max_size=4)), max_size=8),
    st.sampled_from([*ALPHABETS]),
    st.sampled_from([16, 64, 128]),
)
def test_sent_names_are_valid_and_distinct_and_follow_from_the_names(
    declared: list[str], alphabet: str, longest: int
) -> None:
    """A sent name is in the alphabet and not too long, no two are alike, and their order does not matter."""
    found = names_in(alphabet, declared, longest)
    assert found == names_in(alphabet, declared[::-1], longest)
    odd = {each for each in declared if len(each) <= longest and not ALPHABETS[alphabet].fullmatch(each)}
    assert found.keys() == odd
    assert all(ALPHABETS[alphabet].fullmatch(each) and len(each) <= longest for each in found.values())
    assert len({*found.values(), *(each for each in declared if each not in odd)}) == len({*declared})


async def test_an_own_message_is_sent_with_the_name_and_a_reply_with_it_follows(client: httpx.AsyncClient) -> None:
    """Claude's own blocks get the sent name; a reply that has it goes on; each window has the same names."""
    settings = {"id": "named", "model": "claude-sonnet-4-5", "tools": [tool("files.read")]}
    assert (await client.post("/conversations", json=settings)).status_code == 201
    use = {"type": "tool_use", "id": "toolu_1", "name": "files.read", "input": {"name": "files.read"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "files.read"}]}
    messages = [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, use]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [{**use, "id": "toolu_2", "name": "files_read"}]},
    ]
    path = "/conversations/named/messages?format=anthropic"
    assert (await client.post(path, json={"messages": messages})).status_code == 201
    made = (await client.get("/conversations/named/window?format=anthropic")).json()
    assert made["names"] == {"files_read": "files.read"}
    assert made["mended"]["reasons"] == {"tool_names": 2}  # the definition, and the call
    blocks = [each for message in made["request"]["messages"] for each in message["content"] if isinstance(each, dict)]
    assert [each["name"] for each in blocks if each["type"] == "tool_use"] == ["files_read", "files_read"]
    assert [each["input"] for each in blocks if each["type"] == "tool_use"] == [{"name": "files.read"}] * 2
    assert json.dumps(made["request"]).count("files.read") == 3  # the arguments and the result's text
    counted = await client.post("/count?format=anthropic", json={"model": "claude-sonnet-4-5", **made["request"]})
    assert counted.json()["tokens"] == made["tokens"]["total"]
