"""The full fault run, in about ten minutes: ``python -m tests.faults [name …]`` prints its table; ``--short`` for CI's.

``python -m tests.faults fuzz``, ``mixed`` and ``migrate`` are runs of their own.
"""

import argparse
import asyncio
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent.parent)]

from faults import migrated  # noqa: E402
from faults.fuzz import command, mixed  # noqa: E402
from faults.runs import FULL, Row, Scale, default_binary  # noqa: E402
from faults.scenarios import SCENARIOS  # noqa: E402
from rigs.servers import binaries  # noqa: E402

_OWN = {"fuzz": command.main, "mixed": mixed.main, "migrate": migrated.main}


def main() -> int:
    if (own := _OWN.get(sys.argv[1] if len(sys.argv) > 1 else "")) is not None:
        return own(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(SCENARIOS))
    parser.add_argument("--short", action="store_true", help="the small numbers that CI runs")
    parser.add_argument("--store", default="valkey-9", choices=list(binaries()))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    binary = binaries()[options.store] or default_binary()
    scale = Scale(binary=binary, seed=options.seed, **({} if options.short else FULL))
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout.split(" sha")[0]
    print(f"{version.strip()}, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    print("| fault | turns | requests | lost | duplicated | reordered | foreign | failed requests | what was done |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    bad = 0
    for name in options.names or SCENARIOS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            row = asyncio.run(SCENARIOS[name](Path(folder), scale))
        bad += bool(row.verdict) or bool(row.broken)
        print(line(row, time.monotonic() - started), flush=True)
    return 1 if bad else 0


def line(row: Row, seconds: float) -> str:
    """Return a row of the table; what did not hold is last, after BROKEN."""
    verdict = row.verdict
    what = f"{row.note}; {seconds:.0f} s" + (f" BROKEN: {row.broken}" if row.broken else "")
    numbers = (row.turns, row.requests, verdict.lost, verdict.duplicated, verdict.reordered, verdict.foreign)
    return f"| {row.fault} | {' | '.join(f'{number:,}' for number in numbers)} | {row.failures} | {what} |"


if __name__ == "__main__":
    sys.exit(main())
