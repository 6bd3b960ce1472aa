"""Export and import stream: the worker's memory does not grow with the history's length."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import serving_alone

from tests.bench.moving import moving, there_and_back
from tests.bench.rig import Server

MESSAGES = 14_000
PART = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b","detail":"low"}}' % (b"A" * 2500)
PICTURE = b'{"role":"user","content":[%b]}' % PART
MEGABYTE = 1024 * 1024
GROWTH = 16 * MEGABYTE


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is read as Linux tells it")
def test_memory_stands_still(tmp_path: Path) -> None:
    """The worker grows by less than 16 MiB while 14,000 messages (over 35 MB) are imported, exported and imported again."""
    with serving_alone(tmp_path) as served, moving(Server(urlsplit(served.url).port or 0, served.process)) as mover:
        there_and_back(mover, 1000, tmp_path, lambda _: PICTURE, "warm")
        moved = there_and_back(mover, MESSAGES, tmp_path, lambda _: PICTURE, "moved")

    assert [each.messages for each in moved] == [MESSAGES] * 3
    for each in moved:
        assert each.size_bytes > 2 * GROWTH
        assert each.most_bytes - each.before_bytes < GROWTH, each.row
