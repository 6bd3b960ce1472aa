"""``sash import --format``: providers' own messages in files."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from conftest import Served
from recordings import NO_TRUTH, TRUTH

from sash.cli import main
from sash_tools.importing import check
from sash_tools.sources.conversation import SourceError
from sash_tools.sources.provider_files import native_conversations_in

TOOL = {"name": "weather", "description": "The weather.", "input_schema": {"type": "object"}}
REQUEST: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
    "tool_choice": {"type": "any"},
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look.", "signature": "c2ln"},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "sun"},
                {"type": "text", "text": "And tomorrow?"},
            ],
        },
    ],
}


def sash(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def read(value: Any, form: str) -> list[Any]:
    return native_conversations_in(json.dumps(value).encode(), "chat.json", form)


def test_a_request_is_imported_once(served: Served, tmp_path: Path, conversation: str) -> None:
    """A request becomes settings and messages, a second import adds nothing, and a window returns the request again."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    asked = ("import", str(file), "--format", "anthropic", "--id", conversation, "--url", served.url)

    told, again = (json.loads(sash(*asked).stdout) for _ in range(2))

    assert (told["messages"], told["left_out"]) == (4, {"a provider's own tools": 1})
    assert (again["messages"], again["duplicates"]) == (0, 4)
    window = httpx.get(f"{served.url}/conversations/{conversation}/window", params={"format": "anthropic"}).json()
    assert window["model"] == REQUEST["model"]
    assert window["request"]["messages"] == REQUEST["messages"]
    assert window["request"]["system"] == "Be brief."
    assert window["request"]["tools"][0]["name"] == "weather"
    assert window["request"]["tool_choice"] == {"type": "any"}


def test_messages_alone_in_a_list_or_a_line_each() -> None:
    """A list of messages, or one message per line, becomes one conversation named after the file."""
    items = [{"role": "user", "content": "Hi"}, {"type": "reasoning", "id": "rs_1", "summary": []}]
    items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ho"}]})
    lines = "\n".join(map(json.dumps, items)).encode()
    (listed,), (lined,) = read(items, "responses"), native_conversations_in(lines, "chat.jsonl", "responses")
    assert listed.id == "chat"
    assert listed.entries == lined.entries
    assert [entry["id"] for entry in listed.entries] == ["import-1", "import-2"]
    check(listed)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([1], "element 1 is no message"),
        ([{"role": "user", "content": [{"type": "text"}]}], "#/0/message/content/0"),
        ({"messages": [], "system": 5}, "system"),
    ],
)
def test_what_cannot_be_read_is_named(value: Any, said: str) -> None:
    """The error names the file and the place."""
    with pytest.raises(SourceError, match=f"chat.json: .*{said}"):
        read(value, "anthropic")


@pytest.mark.parametrize(
    ("request_members", "form"),
    [
        ({"model": "gemini-3-pro", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, "gemini"),
        ({"model": "gpt-5", "input": "Hi"}, "responses"),
        ({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}, "anthropic"),
    ],
)
def test_a_request_without_its_format_is_told_the_format(
    tmp_path: Path, request_members: dict[str, Any], form: str
) -> None:
    """The error about a provider's request without ``--format`` names the format, which then takes it."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request_members))
    assert f"--format={form} takes" in sash("import", str(file), "--dry-run").output
    told = json.loads(sash("import", str(file), "--dry-run", "--format", form).stdout)
    assert told["messages"] == 1


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize(
    ("name", "form"), [("more_anthropic", "anthropic"), ("more_gemini", "gemini"), ("kani_responses", "responses")]
)
def test_recorded_requests_can_be_imported(name: str, form: str) -> None:
    """At least 99% of recorded requests pass the checks that an import makes before it sends anything."""
    rows = json.loads((TRUTH / f"{name}.json").read_text())
    refused = []
    for row in rows:
        (conversation,) = read(row["request"], form)
        try:
            check(conversation)
        except SourceError as error:
            refused.append((row["id"], str(error)))
    assert len(refused) <= 0.01 * len(rows), refused
