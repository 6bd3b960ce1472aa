"""Every speed figure of this folder's README: ``python -m tests.bench [speed|kinds|languages|footprint|peers|stages …]``.

Without a name it measures all tables, in about ten minutes. Prints each table and, with ``--readme``, puts it into the page.
The peers and the library that draws the picture are installed into ``.venv-peers`` the first time.
"""

import argparse
import json
import subprocess
from pathlib import Path

from tests.bench import figures, footprint, kinds, languages, peers, speed, stages

RESULTS = Path(__file__).parent / "results"
TABLES = ("speed", "kinds", "languages", "footprint", "peers", "stages")


def measured(name: str, options: argparse.Namespace) -> str:
    """Return a table with the note below it."""
    if name == "speed":
        found, points, where = speed.run(options.rounds, options.only, quick=options.quick)
        if options.readme and points:
            draw(points)
        return f"{figures.table(found)}\n\n{where}"
    if name == "kinds":
        found, where = kinds.run(min(options.rounds, kinds.ROUNDS), options.only)
        return f"{figures.table(found)}\n\n{where}"
    if name == "languages":
        return languages.run(min(options.rounds, languages.ROUNDS))
    if name == "footprint":
        return figures.table(footprint.run(options.only))
    if name == "peers":
        return peers.run()
    return stages.run(stages.REQUESTS)


def draw(points: dict[str, float]) -> None:
    """Draw the picture of latency against the length of the history."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latency.json").write_text(json.dumps(points) + "\n")
    subprocess.run([peers.peers_python(), Path(__file__).parent / "pictures.py", RESULTS], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(TABLES)}; all of them by default")
    parser.add_argument("--only", default="", help="calls whose name holds this, of the first two tables")
    parser.add_argument("--rounds", type=int, default=speed.ROUNDS, help="rounds of the first table")
    parser.add_argument("--quick", action="store_true", help="100,000 messages are the longest conversation")
    parser.add_argument("--readme", action="store_true", help="put the tables into README.md beside this file")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no such table: {', '.join(unknown)}")
    for name in options.tables or TABLES:
        text = measured(name, options)
        print(f"{text}\n", flush=True)
        if options.readme:
            figures.into_readme(name, text)


main()
