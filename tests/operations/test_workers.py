"""Several workers of one machine answer as one."""

import os
import time
from pathlib import Path

import msgspec

from service.operations.exposition import Gauges
from service.operations.workers import WorkerFigures, Workers, resident_bytes

ONE = Gauges(1, 2, 3, 4)


def test_a_lone_worker_needs_no_folder():
    """Its figures are everybody's."""
    workers = Workers(None)
    workers.share({"reconnects": 1}, ONE)
    assert not workers.shared
    assert workers.together({"reconnects": 1}, ONE) == ({"reconnects": 1}, ONE)


def test_whichever_answers(tmp_path: Path):
    """Each gives the sum of what all have shared."""
    a, b = Workers(tmp_path), Workers(tmp_path)
    a.share({"reconnects": 2}, ONE)
    b.share({"reconnects": 3, "appended_messages": 1}, ONE)
    both = {"reconnects": 5, "appended_messages": 1}
    assert a.together({"reconnects": 2}, ONE) == (both, Gauges(2, 4, 6, 8))
    assert b.together({"reconnects": 3, "appended_messages": 1}, ONE) == (both, Gauges(2, 4, 6, 8))


def test_no_counter_goes_back(tmp_path: Path):
    """What one worker's answer showed of itself is in the other's next answer, because it was shared first."""
    a, b = Workers(tmp_path), Workers(tmp_path)
    b.share({}, ONE)
    assert a.together({"reconnects": 7}, ONE)[0] == {"reconnects": 7}
    assert b.together({"reconnects": 1}, ONE)[0] == {"reconnects": 8}


def test_what_an_ended_worker_counted_stays(tmp_path: Path):
    """Its counters do, its gauges do not: it holds no memory and answers nothing."""
    ended = WorkerFigures(time.time() - 60, {"reconnects": 4}, tuple(ONE))
    (tmp_path / "1-1.figures").write_bytes(msgspec.msgpack.encode(ended))
    assert Workers(tmp_path).together({"reconnects": 1}, ONE) == ({"reconnects": 5}, ONE)


def test_memory_is_known():
    """A Python process takes more than a megabyte."""
    assert resident_bytes() > 1_000_000 or not os.path.exists("/proc/self/statm")  # noqa: PTH110 - as the system has it
