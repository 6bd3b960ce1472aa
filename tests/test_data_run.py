"""The data run with two real conversations, on a server that is killed and stopped meanwhile."""

from pathlib import Path

import pytest
from bench import data_run
from recordings import NO_DATA
from rich.console import Console
from rich.progress import Progress

pytestmark = pytest.mark.long


def test_windows_of_real_conversations_are_counted_right_and_survive_restarts(tmp_path: Path) -> None:
    """Every window's total equals an independent count, and SIGKILL and SIGTERM lose no acknowledged message."""
    sources = data_run.load_conversations()
    if not sources:
        pytest.skip(NO_DATA)
    by_length = sorted(sources, key=lambda source: len(source["entries"]))
    with_tools = next(source for source in by_length if source.get("tools") and len(source["entries"]) > 40)
    with_documents = next(source for source in by_length if any("grounding" in e for e in source["entries"]))
    with Progress(console=Console(quiet=True), disable=True) as progress:
        run = data_run.run_all([with_documents, with_tools], tmp_path, progress)
    assert run.wrong == []
    assert run.conversations == 2
    assert len(run.checks) == 3
    assert run.budgets[1000].dropped_messages > 0
    assert run.budgets[None].saved_tokens > 0
    assert run.budgets[None].dropped_messages == 0


def test_a_count_that_is_off_by_one_is_noticed(tmp_path: Path) -> None:
    """A window whose total is one token more than the independent count is reported."""
    (tmp_path / "ranks").mkdir()
    reference = data_run.Reference(tmp_path / "ranks")
    entry = {"id": "a", "message": {"role": "user", "content": "hello"}}
    lived = data_run.Lived("c", {"system": "Be brief.", "entries": [entry]}, acknowledged=1)
    sent = b'[{"role":"system","content":"Be brief."},{"role":"user","content":"hello"}]'
    body = b'{"budget":100,"tokens":{"total":%d},"dropped":{},"kept":{},"request":{"messages":' + sent + b"}}"
    assert list(data_run._window_faults(reference, lived, data_run._window.decode(body % 15))) == []
    assert len(list(data_run._window_faults(reference, lived, data_run._window.decode(body % 16)))) == 1
