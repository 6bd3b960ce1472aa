"""``sash truth``: recorded bills against predictions, and a provider asked for more of them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import Served, serving_alone
from readme_provider import Provider, provided

from sash.cli import main
from sash_tools.bills.probes import PROBES

ROWS: list[dict[str, Any]] = [
    {
        "id": "hello",
        "model": "gpt-4o-mini",
        "request": {"messages": [{"role": "user", "content": "Hello there"}]},
        "prompt_tokens": 9,
    },
    {
        "id": "called",
        "model": "gpt-4o-mini",
        "request": {
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "sky", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "sun"},
            ]
        },
        "prompt_tokens": 40,
    },
    {
        "id": "claude",
        "model": "claude-sonnet-4-5",
        "request": {"system": "Be brief.", "messages": [{"role": "user", "content": "Hello there"}]},
        "prompt_tokens": 1,
    },
]
NAMES = {
    "openai": "gpt-4.1-mini",
    "responses": "gpt-4.1-mini",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "interactions": "gemini-2.5-pro",
    "converse": "amazon.nova-pro-v1:0",
    "ollama": "llama3.2:3b",
}


def sash(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["truth", *arguments], input=given, catch_exceptions=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "rows.json"
    found.write_text(json.dumps(ROWS))
    return found


@pytest.fixture(scope="module")
def unbilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service that no other file's tests have told a bill: bills change what it counts."""
    with serving_alone(tmp_path_factory.mktemp("truth")) as served:
        yield served


@pytest.fixture
def provider(unbilled: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Yield a stand-in that bills three tokens more than Sash predicts, as the environment's provider."""
    with provided(unbilled.url) as found:
        found.surcharge = 3
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


def test_a_file_is_compared_without_a_provider(file: Path) -> None:
    """Each request has its predicted and billed tokens, and the rule that an error rests on."""
    hello, called, claude = json.loads(sash(str(file)).stdout)

    assert hello == {
        "id": "hello", "file": "rows", "vendor": "OpenAI", "model": "gpt-4o-mini", "family": "gpt-4o-mini", "kind": "text",
        "predicted": 9, "billed": 9, "exact": True,
    }  # fmt: skip
    assert (called["kind"], called["rests_on"]) == ("tool history", "one call: 13, its name bare and as the recipient")
    assert (claude["vendor"], claude["kind"]) == ("Claude", "text")


def test_tables_for_people_and_for_pages_have_the_same_figures(file: Path) -> None:
    """The tables name vendors, rules and misses; on a page they are Markdown."""
    shown, written = (sash(str(file), "--as", shape).stdout for shape in ("table", "markdown"))

    assert "| OpenAI | all | 2 | 1 |" in written
    assert "| called | gpt-4o-mini | tool history |" in written
    assert all(title in shown for title in ("Predicted and billed tokens", "bills of each rule", "Misses"))


def test_tables_are_written_into_a_page(file: Path, tmp_path: Path) -> None:
    """A table behind its mark is replaced, and nothing else; a page without a mark is refused."""
    page, mark = tmp_path / "page.md", "<!-- sash truth: Predicted and billed tokens -->"
    page.write_text(f"before\n{mark}\n\n| old |\n| --- |\n\nbehind\n")

    assert sash(str(file), "--into", str(page)).exit_code == 0

    text = page.read_text()
    assert (text.startswith(f"before\n{mark}\n\n| vendor |"), text.endswith("|\n\nbehind\n")) == (True, True)
    assert "old" not in text
    page.write_text("nothing")
    assert "has no mark for a table" in sash(str(file), "--into", str(page)).stderr


@pytest.fixture
def gemini_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with a bill of Gemini's, on a machine with a vocabulary for it, in which each byte is a token."""
    folder, found = tmp_path / "tokenizers", tmp_path / "gemini.json"
    folder.mkdir()
    ranks = b"".join(base64.b64encode(bytes([each])) + f" {each}\n".encode() for each in range(256))
    (folder / "gemini.tiktoken").write_bytes(ranks)
    monkeypatch.setenv("SASH_TOKENIZERS", str(folder))
    request = {"contents": [{"role": "user", "parts": [{"text": "Hello there"}]}]}
    found.write_text(json.dumps([{"id": "said", "model": "gemini-2.5-pro", "request": request, "prompt_tokens": 12}]))
    return found


def test_a_vocabulary_of_ones_own_is_compared_with_none(gemini_rows: Path) -> None:
    """A bill that the operator's vocabulary counts is compared without it and with it, in tables of their own."""
    without, counted = json.loads(sash(str(gemini_rows)).stdout)

    assert (without["predicted"], without["exact"], "counting" in without) == (3, False, False)
    assert (counted["predicted"], counted["exact"], counted["counting"]) == (12, True, "vocabulary")
    tables = sash(str(gemini_rows), "--as", "markdown").stdout
    assert "| Gemini, text: equal | ≥ 70.00% | none | 0.00% of 1 missed | 0.00% of 1 missed |" in tables
    assert "### Targets, with Gemini's vocabulary" in tables
    assert "| Gemini, text: equal | ≥ 70.00% | none | 100.00% of 1 | 100.00% of 1 |" in tables


def test_shapes_that_need_a_vocabulary_are_kept_without_it(
    gemini_rows: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of shapes keeps the lines of forms that this machine cannot count, and replaces all others."""
    shapes = tmp_path / "shapes.json"
    assert sash(str(gemini_rows), "--shapes", str(shapes)).exit_code == 0
    assert json.loads(shapes.read_text()) == [["gemini", "gemini-2.5", "", 1, 1, 0, 0]]
    monkeypatch.delenv("SASH_TOKENIZERS")

    assert sash(str(file), "--shapes", str(shapes)).exit_code == 0

    assert [line[0] for line in json.loads(shapes.read_text())] == ["gemini", "openai", "openai"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("[]", "holds no rows"),
        ("{", "not JSON"),
        ('[{"id": "a", "model": "gpt-4o"}]', 'row 1 has no "request"'),
        (
            '[{"id": "a", "model": "gpt-4o", "request": {"messages": []}, "prompt_tokens": -1}]',
            "row 1: Expected `int` >= 0",
        ),
        (
            '[{"id": "a", "model": "gpt-4o", "request": {"messages": []}}]',
            "a has no prompt_tokens; --live asks for them",
        ),
        (
            '[{"id": "a", "model": "azure/", "request": {"messages": []}, "prompt_tokens": 1}]',
            "a: No model is called",
        ),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, rows: str, said: str) -> None:
    """A file that cannot be read is named with the row, and nothing is printed."""
    file = tmp_path / "wrong.json"
    file.write_text(rows)

    told = sash(str(file))

    assert (told.exit_code, told.stdout) == (1, "")
    assert f"{file}" in told.stderr or "wrong: " in told.stderr or "wrong.json" in told.stderr
    assert said in told.stderr


@pytest.mark.parametrize("form", list(NAMES))
def test_a_provider_is_asked_in_every_format(provider: Provider, tmp_path: Path, form: str) -> None:
    """Sash's own requests are sent as the format's provider takes them; the answers are new rows, and are compared."""
    written = tmp_path / "new.json"

    told = sash("--live", "--model", NAMES[form], "--format", form, "--yes", "-o", str(written))

    assert (told.exit_code, provider.refusals) == (0, []), told.stderr
    bills = json.loads(told.stdout)
    assert {bill["id"] for bill in bills} == {f"{NAMES[form]}-{form}-{name}" for name in PROBES}
    assert {bill["billed"] - bill["predicted"] for bill in bills} == {3}
    assert all(bill["rests_on"] for bill in bills)
    again = json.loads(sash(str(written)).stdout)
    assert [(each["billed"], each["predicted"]) for each in again] == [(b["billed"], b["predicted"]) for b in bills]
    assert "none" not in written.read_text()  # the key


def test_recorded_requests_are_sent_to_another_model(provider: Provider, file: Path) -> None:
    """The requests of a file that are in the model's format are sent with its name, as many as --limit says.

    What no bill of the model's family has shown is asked first: here a call with its result, before a text.
    """
    told = sash(str(file), "--live", "--model", "gpt-4.1-nano", "--limit", "1", "--yes")

    (bill,) = json.loads(told.stdout)
    assert (bill["model"], bill["billed"]) == ("gpt-4.1-nano", 29)
    assert "1 of 1 requests have a shape that no bill has shown" in told.stderr
    assert [(each["model"], each["max_completion_tokens"]) for each in provider.requests] == [("gpt-4.1-nano", 16)]


def test_the_cost_is_told_before_anything_is_sent(provider: Provider, file: Path) -> None:
    """Without consent, nothing is sent; the question has the number of requests, the address, tokens and dollars."""
    told = sash(str(file), "--live", "--model", "gpt-4.1-nano", given="n\n")

    assert (told.exit_code, provider.requests) == (1, [])
    assert "2 requests about gpt-4.1-nano to" in told.stderr
    assert "replies of at most 32: about $0.0000" in told.stderr
    free = sash("--live", "--model", "claude-sonnet-4-5", given="n\n")
    assert "which counts and bills nothing" in free.stderr


def test_other_makers_need_an_address(provider: Provider, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of a maker without a format of its own is never sent to OpenAI; with an address it gets the shortest reply."""
    asked = (str(file), "--live", "--model", "llama-3.3-70b-instruct", "--yes")
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert "is not of openai: name its server, OPENAI_BASE_URL or --base-url" in sash(*asked).stderr

    told = sash(*asked, "--base-url", provider.environment["OPENAI_BASE_URL"])

    assert told.exit_code == 0, told.stderr
    assert {each["max_tokens"] for each in provider.requests} == {1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Name a FILE with recorded requests"),
        (("--live",), "Name the model to ask about"),
        (("--live", "--model", "gpt-4.1"), "set OPENAI_API_KEY to the provider's key"),
        (("--live", "--model", "gpt-4.1", "--key-variable", "MY_KEY"), "set MY_KEY"),
        (("--live", "--model", "gpt-4.1", "--base-url", "ftp://x"), "is no http:// or https:// address"),
    ],
)
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str) -> None:
    """Without a file, model, key or address the command says which one."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    told = sash(*arguments)
    assert told.exit_code in (1, 2)
    assert said in told.stderr


def test_refused_requests_are_told_and_the_others_compared(provider: Provider, tmp_path: Path) -> None:
    """What the provider refuses is named with its words; an address where nothing is ends the command."""
    wrong = {"messages": [{"role": "tool", "tool_call_id": "c", "content": "sun"}]}
    rows = [ROWS[0], {"id": "orphan", "model": "gpt-4o", "request": wrong}]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))

    told = sash(str(file), "--live", "--model", "gpt-4.1", "--yes")

    assert [bill["id"] for bill in json.loads(told.stdout)] == ["gpt-4.1-hello"]
    assert "not told: orphan: 400: " in told.stderr
    assert provider.refusals
    nobody = sash(str(file), "--live", "--model", "gpt-4.1", "--yes", "--base-url", "http://127.0.0.1:9")
    assert (nobody.exit_code, "does not answer" in nobody.stderr) == (1, True)


def test_answers_do_not_replace_a_file(provider: Provider, file: Path) -> None:
    """An output that exists is refused before anything is sent."""
    told = sash("--live", "--model", "gpt-4.1", "--yes", "-o", str(file))

    assert (told.exit_code, provider.requests) == (1, [])
    assert f"{file} exists already" in told.stderr
