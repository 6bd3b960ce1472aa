"""Windows for models with a vendor's own vocabulary: all that they send is counted in it, from the first window on."""

import asyncio
import json
import time
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from sash.core.counts.models.models import find_model
from sash.core.counts.text.vocabularies import INSTALLED
from sash.core.providers import PROVIDERS

LANGUAGES: list[str] = list(
    tomllib.loads((Path(__file__).parents[1] / "truth" / "languages.toml").read_text("utf-8")).values()
)
MODEL = "qwen3.5-plus"
VOCABULARIES = (MODEL, "mistral-large-latest", "deepseek-chat")
BASE = "/conversations/words"


def said(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """Return ``count`` entries in many languages, alternately from user and assistant."""
    return [
        {"message": {"role": ("user", "assistant")[i % 2], "content": f"{LANGUAGES[i % len(LANGUAGES)]} {i}"}}
        for i in range(start, start + count)
    ]


async def append(client: httpx.AsyncClient, entries: list[dict[str, Any]]) -> None:
    """Append entries, at most 100 per request."""
    for first in range(0, len(entries), 100):
        answer = await client.post(f"{BASE}/messages", json={"messages": entries[first : first + 100]})
        assert answer.status_code == 201, answer.text


async def window(client: httpx.AsyncClient, base: str = BASE, **parameters: Any) -> dict[str, Any]:
    """Return a window; the request must succeed."""
    answer = await client.get(f"{base}/window", params={"model": MODEL, "max_tokens": 500_000, **parameters})
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def true_tokens(client: httpx.AsyncClient, made: dict[str, Any]) -> int:
    """Return the token count of the window's request from ``POST /count``."""
    answer = await client.post("/count", json={"model": MODEL, "messages": made["request"]["messages"]})
    assert answer.json()["encoding"] == "qwen3.5"
    return int(answer.json()["tokens"])


async def counted(client: httpx.AsyncClient, base: str = BASE) -> dict[str, Any]:
    """Return a window, whose total must equal the count of its request."""
    made = await window(client, base)
    assert made["tokens"]["total"] == await true_tokens(client, made)
    return made


@pytest.mark.parametrize("model", VOCABULARIES)
async def test_the_first_window_of_a_long_history_is_counted(client: httpx.AsyncClient, model: str) -> None:
    """The first window's total equals the count of its request, and that of the second window; so does a small window's."""
    await append(client, said(1100))

    first, second = [await window(client, model=model) for _ in range(2)]
    small = await window(client, model=model, max_tokens=2000)

    assert first["kept"]["messages"] > 512  # more than a block of stored counts
    assert first["tokens"] == second["tokens"]
    for made in (first, small):
        request = {"model": model, "messages": made["request"]["messages"]}
        assert made["tokens"]["total"] == (await client.post("/count", json=request)).json()["tokens"]
    assert small["tokens"]["total"] <= 2000


async def test_a_new_message_is_counted_at_once(client: httpx.AsyncClient) -> None:
    """The window in the answer to an append contains no estimate: its total equals the count of its request."""
    INSTALLED["qwen3.5"].count("loaded")
    await append(client, said(4))
    for turn in range(4, 8):
        answer = await client.post(
            f"{BASE}/messages", params={"model": MODEL, "max_tokens": 9000}, json={"messages": said(1, start=turn)}
        )
        made = answer.json()["window"]
        assert made["tokens"]["total"] == await true_tokens(client, made)


@pytest.mark.parametrize("why", ["pinned", "system", "question", "recalled"])
async def test_messages_before_the_tail_are_counted_too(client: httpx.AsyncClient, why: str) -> None:
    """Once counted, a required or recalled message far back makes the same window as a history in the body."""
    old = {"role": "system" if why == "system" else "user", "content": "नमस्ते दुनिया कैसे हो " * 40}
    roles = ("assistant", "assistant") if why == "question" else ("assistant", "user")
    rest = [{"role": roles[i % 2], "content": f"hello there number {i} " * 10} for i in range(300)]
    asked = [{"role": "user", "content": "दुनिया?"}] if why == "recalled" else []
    entries = [{"message": old, "pinned": why == "pinned"}, *({"message": each} for each in [*rest, *asked])]
    settings = {"recall": "lexical"} if why == "recalled" else {}
    assert (await client.post("/conversations", json={"id": "words", **settings})).status_code == 201
    await append(client, entries)
    await counted(client)
    if why == "recalled":
        for _ in range(1000):
            progress = (await client.get(BASE)).json()["recall_progress"]
            if progress["words"] == len(entries):
                break
            await asyncio.sleep(0.05)
    limits = {"max_tokens": 2000, "reserve": 0, **({"recall_max_tokens": 1000} if why == "recalled" else {})}

    made = await window(client, **limits)
    again = await client.post("/window", json={"model": MODEL, **limits, "messages": entries})

    assert made["request"] == again.json()["request"]
    assert made["tokens"] == again.json()["tokens"]
    assert made["tokens"]["total"] == await true_tokens(client, made)


async def test_counts_follow_a_rewind(client: httpx.AsyncClient) -> None:
    """Messages that take the place of rewound ones get their own counts."""
    await append(client, said(20))
    await counted(client)
    assert (await client.post(f"{BASE}/rewind", json={"to_seq": 5})).status_code == 200
    await append(client, said(9, start=40))
    assert (await counted(client))["kept"]["messages"] == 14


async def test_counts_follow_a_redaction(client: httpx.AsyncClient, server: redis.Redis) -> None:
    """A redaction deletes the stored counts, and the window then costs fewer tokens."""
    await append(client, said(6))
    before = await counted(client)
    key = b"sash:{default/words}:columns"
    await _until(lambda: server.exists(key))
    assert (await client.delete(f"{BASE}/messages/2")).status_code in (200, 204)
    assert not server.exists(key)
    assert (await counted(client))["tokens"]["total"] < before["tokens"]["total"]


async def test_a_fork_and_an_import_are_counted_anew(client: httpx.AsyncClient) -> None:
    """The windows of a fork and of an imported copy get the same total as the original's."""
    await append(client, said(30))
    total = (await counted(client))["tokens"]["total"]
    await client.post(f"{BASE}/fork", json={"id": "fork", "at_seq": 30})
    lines = (await client.get(f"{BASE}/export")).text.replace('"id":"words"', '"id":"copy"', 1)
    await client.delete(BASE)
    await client.post("/conversations/import", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert (await counted(client, "/conversations/fork"))["tokens"]["total"] == total
    assert (await counted(client, "/conversations/copy"))["tokens"]["total"] == total


async def test_counts_expire_with_the_conversation_and_go_with_it(
    client: httpx.AsyncClient, server: redis.Redis
) -> None:
    """Counts expire with their conversation and are erased with it; a new conversation with the same id is counted anew."""
    await client.post("/conversations", json={"id": "words", "ttl_seconds": 1000})
    await append(client, said(3))
    await counted(client)
    key = b"sash:{default/words}:columns"
    await _until(lambda: server.exists(key))
    assert 0 < server.pttl(key) <= 1_000_000
    assert (await client.delete(BASE)).status_code == 204
    assert not server.exists(key)
    await append(client, said(3, start=50))
    assert (await counted(client))["kept"]["messages"] == 3


async def test_counts_of_another_history_are_not_believed(client: httpx.AsyncClient, server: redis.Redis) -> None:
    """Counts left over from an erased conversation are not used for a new conversation with the same id."""
    await append(client, said(3))
    await counted(client)
    key = b"sash:{default/words}:columns"
    await _until(lambda: server.exists(key))
    left = server.dump(key)
    await client.delete(BASE)
    server.restore(key, 0, left)
    await append(client, said(3, start=30))
    assert (await counted(client))["kept"]["messages"] == 3


async def test_a_stateless_window_is_counted_in_the_vocabulary(client: httpx.AsyncClient) -> None:
    """The total of a stateless window equals the count of its request."""
    body = {"model": "deepseek-v4-pro", "messages": said(80), "max_tokens": 3000}
    made = (await client.post("/window", json=body)).json()
    answer = await client.post("/count", json={"model": body["model"], "messages": made["request"]["messages"]})
    assert made["tokens"]["total"] == answer.json()["tokens"] <= 3000


async def test_other_models_windows_are_as_before(client: httpx.AsyncClient) -> None:
    """Counts in one model's vocabulary do not change the windows of another model."""
    await append(client, said(10))
    before = await window(client, model="gpt-4o")
    await counted(client)
    assert {**await window(client, model="gpt-4o")} == before


async def _until(is_so: Any) -> None:
    for _ in range(3000):
        if is_so():
            return
        await asyncio.sleep(0.02)
    raise AssertionError


@pytest.mark.parametrize("model", VOCABULARIES)
async def test_a_summary_is_counted_in_the_vocabulary(client: httpx.AsyncClient, model: str) -> None:
    """A window with a summary costs what ``POST /count`` says of its request; capitals cost more than an estimate."""
    await append(client, said(2))
    summary = {"text": "THE QUICK BROWN FOX " * 100, "through_seq": 1}
    assert (await client.put(f"{BASE}/summary", json=summary)).status_code == 200

    made = await window(client, model=model, summary="always")

    request = {"model": model, "messages": made["request"]["messages"]}
    assert made["tokens"]["total"] == (await client.post("/count", json=request)).json()["tokens"]


ESCAPED = json.dumps({"city": "ಬೆಂಗಳೂರು " * 40})
PARTS = [{"type": "text", "text": f"{word} {'नमस्ते ' * 20}"} for word in ("one", "two", "three")]
HARD: list[dict[str, Any]] = [
    {"role": "user", "content": PARTS},
    {
        "role": "assistant",
        "content": PARTS,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find.talk", "arguments": ESCAPED}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": PARTS},
    {"role": "user", "content": "And now?"},
]


@pytest.mark.parametrize("model", VOCABULARIES)
@pytest.mark.parametrize("form", list(PROVIDERS))
async def test_the_first_window_is_never_short(client: httpx.AsyncClient, model: str, form: str) -> None:
    """Escaped arguments, and parts that a format joins, cost in the first window what they cost later and in a count."""
    await append(client, [{"message": message} for message in HARD])

    first, second = [await window(client, model=model, format=form) for _ in range(2)]

    body = first["request"] | {"model": model}
    answer = await client.post("/count", params={"format": form}, json=body | body.pop("config", {}))
    assert answer.status_code == 200, answer.text
    assert first["tokens"] == second["tokens"]
    assert first["tokens"]["total"] >= answer.json()["tokens"]


@pytest.mark.parametrize("model", VOCABULARIES)
async def test_a_huge_text_leaves_the_loop_free(client: httpx.AsyncClient, model: str) -> None:
    """While millions of spaces are counted in a vendor's vocabulary, other requests are answered."""
    INSTALLED[find_model(model).counted_with].count("loaded")
    await append(client, [{"message": {"role": "user", "content": " " * 2_000_000}}])
    asked = asyncio.create_task(window(client, model=model, max_tokens=5_000_000))
    waits = []
    while not asked.done():
        started = time.perf_counter()
        await asyncio.sleep(0.005)
        waits.append(time.perf_counter() - started)
    await asked
    assert max(waits) < 1, f"the loop stood for {max(waits):.1f} s"
