"""LiteLLM's proxy with SashHook: chats of the header ``x-sash-conversation`` are kept, and the model is sent windows.

``python -m pytest -m clients tests/clients/test_litellm.py``
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from readme_blocks import ROOT, SERVER, blocks, section
from readme_provider import ANSWER, TOPIC, Provider, provided
from rigs.servers import free_port
from test_readme import FOUND, environment

from sash_client.ids import safe_id

pytestmark = pytest.mark.clients
REQUIREMENTS = ROOT / "tests" / "clients" / "requirements-litellm.txt"
KEY = "sk-0123456789abcdef0123456789abcdef"
NAME = safe_id("default_user_id/talks-14")
SYSTEM = {"role": "system", "content": "You know the programme."}
TOOL = {"type": "function", "function": {"name": "find_talk", "parameters": {"type": "object", "properties": {}}}}
_START_SECONDS = 240


@pytest.fixture(scope="module")
def provider(served: Served) -> Iterator[Provider]:
    with provided(served.url) as provider:
        yield provider


@pytest.fixture(scope="module")
def proxy(served: Served, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a proxy that runs with the page's two files."""
    folder = tmp_path_factory.mktemp("litellm")
    text = section("service/docs/frameworks/litellm.md", "# LiteLLM's proxy").replace(SERVER, served.url)
    (folder / "sash_hook.py").write_text(blocks("python", text)[0])
    (folder / "config.yaml").write_text(blocks("yaml", text)[0])
    litellm = environment(tmp_path_factory.mktemp("litellm-env"), REQUIREMENTS).with_name("litellm")
    port = free_port()
    told = {**os.environ, **provider.environment, "PYTHONPATH": str(ROOT / "service"), "LITELLM_MASTER_KEY": KEY}
    with (folder / "log").open("wb") as log:
        command = [litellm, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=told, stdout=log, stderr=log)
    try:
        _wait(folder / "log", process)
        yield f"http://127.0.0.1:{port}/v1/chat/completions"
    finally:
        process.terminate()
        process.wait(30)


def _wait(log: Path, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while b"startup complete" not in log.read_bytes():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.2)


@pytest.fixture(autouse=True)
def _empty(served: Served, provider: Provider) -> None:
    httpx.delete(f"{served.url}/conversations/{NAME}")
    provider.requests.clear()
    provider.pause_seconds = 0


def body(*said: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "messages": [SYSTEM, *said], **more}


HEADERS = {"Authorization": f"Bearer {KEY}", "x-sash-conversation": "talks-14"}


def asked(proxy: str, *said: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Ask, and return the reply's message."""
    answer = httpx.post(proxy, json=body(*said, **more), headers=HEADERS, timeout=60).raise_for_status()
    message: dict[str, Any] = answer.json()["choices"][0]["message"]
    return message


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def stored(served: Served) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = httpx.get(f"{served.url}/conversations/{NAME}/messages").json()["messages"]
    return entries


def test_a_tool_loop_is_kept(proxy: str, served: Served, provider: Provider) -> None:
    """Calls, results and replies are stored once, and the next question is sent with the history."""
    call = asked(proxy, user("is there a talk about gradle?"), tools=[TOOL])
    (asks,) = call["tool_calls"]
    assert asks["function"]["arguments"] == TOPIC
    result = {"role": "tool", "tool_call_id": asks["id"], "content": FOUND}
    assert asked(proxy, user("is there a talk about gradle?"), call, result, tools=[TOOL])["content"] == ANSWER
    assert asked(proxy, user("and where is it?"), tools=[TOOL])["content"] == ANSWER

    roles = ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert [entry["message"]["role"] for entry in stored(served)] == roles
    assert [message["role"] for message in provider.requests[-1]["messages"]] == ["system", *roles[:-1]]


def test_a_stream_is_kept_before_it_ends(proxy: str, served: Served) -> None:
    """Whoever sees the last chunk finds the reply stored."""
    with httpx.stream("POST", proxy, json=body(user("where?"), stream=True), headers=HEADERS, timeout=60) as answer:
        for line in answer.iter_lines():
            if '"finish_reason":"stop"' in line:
                break
        assert [entry["message"]["content"] for entry in stored(served)] == ["where?", ANSWER]


def test_a_reader_that_goes_away_leaves_half_a_reply(proxy: str, served: Served, provider: Provider) -> None:
    """What came of the reply is stored as interrupted."""
    provider.pause_seconds = 0.5
    with httpx.stream("POST", proxy, json=body(user("where?"), stream=True), headers=HEADERS, timeout=60) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get(
                "content"
            ):
                break
    give_up = time.monotonic() + 30
    while (found := stored(served))[1]["status"] == "in_progress" and time.monotonic() < give_up:
        time.sleep(0.1)
    assert (found[1]["message"]["content"], found[1]["status"]) == ("At 12:10, in ", "interrupted")


def test_a_reply_that_was_taken_away_does_not_come_back(proxy: str, served: Served, provider: Provider) -> None:
    """A reply is in the log while it streams; after a rewind its end is not stored."""
    provider.pause_seconds = 0.5
    with httpx.stream("POST", proxy, json=body(user("where?"), stream=True), headers=HEADERS, timeout=60) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert [each.get("status") for each in stored(served)] == [None, "in_progress"]
        said = {"messages": [user("never mind")], "after_seq": 0}
        httpx.post(f"{served.url}/conversations/{NAME}/messages", json=said).raise_for_status()
        assert any("[DONE]" in line for line in lines)
    assert [each["message"]["content"] for each in stored(served)] == ["never mind"]


def test_a_model_that_fails_ends_its_reply(proxy: str, served: Served, provider: Provider) -> None:
    """The provider's error is the answer, and the log has an interrupted reply without a word."""
    provider.failures = 20
    try:
        assert httpx.post(proxy, json=body(user("where?")), headers=HEADERS, timeout=60).status_code >= 400
    finally:
        provider.failures = 0
    assert [each.get("status") for each in stored(served)] == [None, "interrupted"]
    assert asked(proxy, user("where?"))["content"] == ANSWER


def test_others_pass_and_refusals_are_told(proxy: str, served: Served) -> None:
    """A request without the header is not kept; what Sash refuses is the answer, with its status and sentence."""
    plain = httpx.post(proxy, json=body(user("hi")), headers={"Authorization": HEADERS["Authorization"]}, timeout=60)
    assert plain.json()["choices"][0]["message"]["content"] == ANSWER
    assert httpx.get(f"{served.url}/conversations/{NAME}").status_code == 404
    lost = {"role": "tool", "tool_call_id": "call_9", "content": "lost"}
    refused = httpx.post(proxy, json=body(user("hi"), lost), headers=HEADERS, timeout=60)
    assert refused.status_code == 422
    assert "orphan-tool-result" in refused.text
