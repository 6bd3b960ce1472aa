"""Every speed figure of the README: ``python -m tests.bench``. Tables, JSON and two pictures, in about twenty minutes.

On a fresh machine it installs what it compares with, and what draws, into ``.venv-peers``.
"""

import argparse
import subprocess
from pathlib import Path

import uvloop
from rich.console import Console

from tests.bench import peers, speed

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 messages instead of a million")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the JSON files and the pictures")
    arguments = parser.parse_args()
    python = peers.peers_python()
    console = Console(width=160)
    figures = uvloop.run(speed.measure(full=not arguments.quick, only=""))
    speed.write(figures, arguments.out)
    console.print(speed.table(figures))
    rows = peers.compare()
    peers.write(rows, arguments.out)
    console.print(peers.table(rows))
    console.print(peers.SKIPPED)
    subprocess.run([python, Path(__file__).parent / "pictures.py", arguments.out], check=True)
    console.print(f"JSON and pictures are in {arguments.out}")


main()
