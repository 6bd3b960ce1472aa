"""What the runbook says about a message that was not in an earlier window, done word for word."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from conftest import Served
from rigs.dialogue import user
from rigs.servers import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent


def logs_hash(served: Served, conversation: str) -> str:
    """Return what ``sash logs-hash`` prints, with the environment of the service."""
    environment = {**os.environ, **served.environment, "SASH_DATA_DIR": str(served.data_dir)}
    command = [sys.executable, "-m", "sash", "logs-hash", conversation]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def lines_of(served: Served, name: str) -> list[dict[str, object]]:
    """Return the log's lines that have the hash, as ``grep`` finds them."""
    text = (served.data_dir.parent / "serve.log").read_text()
    return [json.loads(line) for line in text.splitlines() if name in line]


@pytest.fixture
def served(tmp_path: Path) -> Served:
    one = Served(tmp_path / "data")
    one.start()
    yield one
    one.stop()


def test_the_log_leads_to_the_reason(served: Served) -> None:
    """The hash finds the window's line, its receipt gives the window again, and explain says why a message is left out."""
    entries = [{"message": {"role": "user", "content": f"message {n} " + "so " * 50}} for n in range(6)]
    path = f"{served.url}/conversations/c-1"
    httpx.post(f"{path}/messages", json={"messages": entries}, timeout=20).raise_for_status()
    yesterday = httpx.get(f"{path}/window", params={"model": "gpt-4o", "limit": 2}, timeout=20)
    httpx.post(f"{path}/messages", json={"messages": [user("a later one")]}, timeout=20).raise_for_status()

    name = logs_hash(served, "c-1")
    wait_until(lambda: any("receipt" in each for each in lines_of(served, name)), 10)
    (line,) = [each for each in lines_of(served, name) if "receipt" in each]
    assert (line["tenant"], line["kept"], line["dropped"]) == ("default", 2, 4)
    again = httpx.get(f"{path}/window", params={"receipt": line["receipt"], "explain": "true"}, timeout=20)

    assert again.status_code == 200, again.text
    told = again.json()
    assert {**told, "explain": None} == {**yesterday.json(), "explain": None}
    lines = [(each["seq"], each["kept"], each["reason"]) for each in told["explain"]]
    assert lines == [(4, False, "beyond the limit"), (5, True, "fits"), (6, True, "always: newest user message")]
    assert httpx.get(f"{path}/window", params={"receipt": line["receipt"]}, timeout=20).content == yesterday.content


def test_no_line_has_the_words_or_the_name(served: Served) -> None:
    """A window's line has the hash and the receipt, and neither the conversation's id nor a text."""
    httpx.post(f"{served.url}/conversations/secret-name/messages", json={"messages": [user("xyzzy")]}, timeout=20)
    httpx.get(
        f"{served.url}/conversations/secret-name/window", params={"model": "gpt-4o"}, timeout=20
    ).raise_for_status()
    log = served.data_dir.parent / "serve.log"
    wait_until(lambda: "receipt" in log.read_text(), 10)  # a line is written behind its answer
    text = log.read_text()
    assert "secret-name" not in text
    assert "xyzzy" not in text
