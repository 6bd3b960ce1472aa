"""The library: windows and counts without a server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from conftest import serving_alone
from hypothesis import event, given
from hypothesis import strategies as st
from readme_blocks import block, printed, run
from readme_provider import ANSWER, Said, provided

import sash
from sash.problems import BadRequest, UnknownModel, WindowDoesNotFit

PAGE = "service/sash/README.md"
TYPED = "is there a talk about gradle?\nand where is it?\n\n"
NEVER_IMPORTED = ("redis", "litestar", "granian", "structlog", "httpx", "httpx2", "requests", "aiohttp", "urllib3")
FIRST_WINDOW = f"""
import json, sys, time
from sash import count, window
imported = [name for name in {NEVER_IMPORTED!r} if name in sys.modules]
from sash.core.counts.text import count_text
began = time.process_time()
count_text("hello", "o200k_base")
loaded = time.process_time()
made = window([{{"role": "user", "content": "hello"}}], model="gpt-4o-mini")
count({{"messages": [{{"role": "user", "content": "hello"}}]}}, model="gpt-4o-mini")
print(json.dumps([loaded - began, time.process_time() - loaded, imported, made.tokens.total]))
"""
HISTORY = [
    {"role": "user", "content": "is there a talk about gradle?"},
    {"role": "assistant", "content": "The Network Latency Tax."},
    {
        "message": {"role": "user", "content": "where?"},
        "grounding": {"documents": [{"id": "s-12", "text": "Robertson 2"}]},
    },
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"max_tokens": 40},
    {"system": "You know the programme.", "few_shots": HISTORY[:2], "explain": True},
    {"format": "anthropic", "model": "claude-sonnet-5"},
    {"format": "gemini", "model": "gemini-2.5-flash", "limit": 1},
    {
        "tools": [
            {"type": "function", "function": {"name": "find_talk", "parameters": {"type": "object", "properties": {}}}}
        ]
    },
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_alone(tmp_path_factory.mktemp("library")) as process:
        yield process.url


def test_the_first_window_needs_no_server_and_no_network() -> None:
    """The import brings no store, server or HTTP client, and the first window and count load the model's vocabulary alone.

    All else takes less than a quarter of the time of loading it; loading another would take a third. Both are processor time
    of one process, one after the other: a busy machine changes both.
    """
    done = subprocess.run([sys.executable, "-c", FIRST_WINDOW], capture_output=True, text=True, check=True)
    vocabulary, all_else, imported, total = json.loads(done.stdout)
    assert imported == []
    assert total == 8
    assert all_else < vocabulary / 4


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_library_gives_the_service_s_answer(url: str, settings: dict[str, Any]) -> None:
    """``window`` has the members of the answer of ``POST /window``, and the same request."""
    asked = {"model": "gpt-4o-mini", **settings}
    answer = httpx.post(f"{url}/window", json={"messages": HISTORY, **asked}).raise_for_status().json()
    made = json.loads(msgspec.json.encode(sash.window(HISTORY, **asked)))
    assert {name: value for name, value in answer.items() if value is not None} == {
        name: value for name, value in made.items() if value is not None
    }


@pytest.mark.parametrize(
    ("form", "request_"),
    [
        ("openai", {"messages": HISTORY[:2], "tool_choice": "none"}),
        ("anthropic", {"system": "Be brief.", "messages": HISTORY[:1], "max_tokens": 10}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}),
    ],
)
def test_a_count_is_the_service_s(url: str, form: str, request_: dict[str, Any]) -> None:
    """``count`` returns what ``POST /count`` answers."""
    model = {"openai": "gpt-4o", "anthropic": "claude-sonnet-5", "gemini": "gemini-2.5-flash"}[form]
    answer = httpx.post(f"{url}/count", params={"format": form}, json={**request_, "model": model})
    counted = sash.count(request_, model=model, format=form)
    assert msgspec.to_builtins(counted) == answer.raise_for_status().json()


@given(st.lists(st.text(max_size=80), min_size=1, max_size=30), st.integers(40, 400))
def test_a_window_never_exceeds_its_budget(texts: list[str], budget: int) -> None:
    """A window's tokens are those of its request, and within the budget."""
    history = [{"role": "user", "content": text} for text in texts]
    needed = 1 + sash.count({"messages": history[-1:]}, model="gpt-4o").tokens
    if budget < needed:
        event("the newest question alone is too large")
        return
    made = sash.window(history, model="gpt-4o", max_tokens=budget)
    assert made.tokens.total == sash.count(made.request, model="gpt-4o").tokens <= budget


def test_a_problem_says_what_to_change() -> None:
    """A wrong parameter, an unknown model and a window that does not fit are exceptions with the problem's members."""
    with pytest.raises(BadRequest) as wrong:
        sash.window(HISTORY, model="gpt-4o-mini", reserv=10)
    assert wrong.value.errors[0].pointer == "#/reserv"
    with pytest.raises(UnknownModel) as unknown:
        sash.window(HISTORY, model="gpt-4o-mimi")
    assert "gpt-4o-mini" in unknown.value.detail
    with pytest.raises(WindowDoesNotFit) as large:
        sash.window(HISTORY, model="gpt-4o-mini", max_tokens=5)
    needed = large.value.members["needed"]
    assert sash.window(HISTORY, model="gpt-4o-mini", max_tokens=needed).kept.messages == 1


def test_what_is_no_message_is_told() -> None:
    """An object that is neither JSON nor an SDK's is a TypeError that names its type."""
    with pytest.raises(TypeError, match="object is no JSON"):
        sash.window([object()], model="gpt-4o-mini")


def _answers(_form: str, _body: dict[str, Any]) -> Said:
    return Said(ANSWER)


@pytest.mark.parametrize(
    ("heading", "roles"),
    [
        ("## OpenAI", ["system", "user", "assistant", "user"]),
        ("## Claude", ["user", "assistant", "user"]),
        ("## Gemini", ["user", "model", "user"]),
        ("## Documents", ["user", "assistant", "user"]),
    ],
)
def test_the_page_s_programs_talk(url: str, heading: str, roles: list[str]) -> None:
    """Each program answers both questions, and its second request has the first turn."""

    with provided(url, plan=_answers) as provider:
        done = run([sys.executable], block("python", PAGE, heading), server=url,
                   environment=provider.environment, typed=TYPED)  # fmt: skip
    told = " (2 documents)" if heading == "## Documents" else ""
    assert printed(done) == [f"> {ANSWER}{told}", f"> {ANSWER}{told}", "> "]
    request = provider.requests[-1]
    assert [each["role"] for each in request.get("messages") or request["contents"]] == roles


def test_readme_s_program_counts_what_it_sends() -> None:
    """README's program prints the window's tokens, its messages, and the same count."""
    done = run([sys.executable], block("python", "README.md", "## In your own process"), server="")
    first, last = printed(done)
    total, _, messages = first.partition(" ")
    assert total == last
    assert "You know the programme." in messages
