"""AG-UI's package for Python takes each event of a conversation, and each of its messages.

It needs PyPI: ``python -m pytest -m clients tests/clients/test_ag_ui_protocol.py``.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from rigs.dialogue import assistant, calling, result, user
from rigs.pictures import picture_part

HERE = Path(__file__).parent
PROGRAM = """
import json, sys
from ag_ui.core import Event
from pydantic import TypeAdapter
reads = TypeAdapter(Event)
print(json.dumps([reads.validate_python(each).type.value for each in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with AG-UI's package."""
    folder = tmp_path_factory.mktemp("ag-ui")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "-r", HERE / "requirements-ag-ui.txt"]
    subprocess.run(install, check=True, timeout=300)
    return python


def told(url: str, *said: tuple[dict[str, Any], ...]) -> list[Any]:
    """The events of a conversation in which this is said, version by version."""
    events: list[Any] = []
    left = list(said)
    with httpx.stream("GET", f"{url}/events", params={"format": "ag-ui"}, timeout=20) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: "):
                continue
            events.append(json.loads(line.removeprefix("data: ")))
            if events[-1].get("name") == "sash.version":
                if not left:
                    return events
                httpx.post(f"{url}/messages", json={"messages": left.pop(0)}).raise_for_status()
    return events


@pytest.mark.clients
def test_the_package_takes_each_event(python: Path, served: Served, conversation: str) -> None:
    """Texts, half replies, thoughts, calls, results, documents, pictures and a snapshot of them are events of AG-UI 1.0."""
    url = f"{served.url}/conversations/{conversation}"
    half = {"id": "R", "role": "assistant", "content": "At", "status": "in_progress"}
    thinking = {"role": "assistant", "content": "hm", "reasoning_content": "why not"}
    grounded = user("and?", grounding={"documents": [{"id": "d", "text": "A page."}]})
    said = ((grounded, half), (half | {"content": "At noon.", "status": "completed"},), (thinking,))
    pictured = {"role": "user", "content": [picture_part(1), {"type": "text", "text": "this?"}]}
    httpx.post(f"{url}/messages", json={"messages": [user("hello"), assistant("hi")]}).raise_for_status()
    events = told(url, *said, (calling("c1", "c2"),), (result("c1", "found"),), (pictured,))
    events += told(url)
    done = subprocess.run(
        [python, "-c", PROGRAM], input=json.dumps(events), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kinds = {*json.loads(done.stdout)}
    assert {
        "ACTIVITY_SNAPSHOT",
        "REASONING_MESSAGE_CONTENT",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_END",
    } <= kinds
