"""Paths of the recordings and the data set that tests and benchmarks read; the repository does not contain them.

``TEST_DATA`` names their folder; without it, a folder beside the checkout that holds the recordings is used::

    truth/*.json    requests as they were sent to a provider, with the prompt_tokens that it billed
    data/*.jsonl    whole conversations, one a line: {"id", "system"?, "tools"?, "entries": [as an append takes them]}

Tests whose data is missing are skipped, with a message that says so.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _folder() -> Path:
    if named := os.environ.get("TEST_DATA"):
        return Path(named).resolve()
    beside = sorted(path.parents[1] for path in ROOT.parent.glob("*/truth/vcr_chat.json"))
    return beside[0] if beside else ROOT / "no-test-data"


TRUTH = _folder() / "truth"
DATA = _folder() / "data"
NO_TRUTH = "needs recordings: TEST_DATA names the folder that holds truth/"
NO_DATA = "needs the data set: TEST_DATA names the folder that holds data/"
