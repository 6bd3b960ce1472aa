"""``python -m tests.faults fuzz`` plays scripts of every feature on two deployments, and judges each answer.

The seed and the number of a script give the script. What fails is made smaller and saved as JSON;
``--again FILE`` plays it once more.
"""

import argparse
import asyncio
import signal
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from faults.fuzz.features import FEATURES, script
from faults.fuzz.judge import KINDS, MEANINGS, Wrong
from faults.fuzz.play import Played, hangs, play
from faults.fuzz.scripts import Script, save, script_of
from faults.fuzz.smaller import signature, smallest
from faults.fuzz.stage import HangError, Place, RestartedError, staged

from sash.commands.terminal import progress_bar

_SMALLER_SECONDS = 20.0
_SMALLER = 4
"""Failures of each kind that are made smaller."""
_MOST_RESTARTS = 12
"""A run that restarted its services so often ends: its windows do not tell more."""
_TRIES = 3


class Run:
    """The results so far, by feature."""

    def __init__(self) -> None:
        self.windows: Counter[str] = Counter()
        self.scripts: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.otherwise: Counter[str] = Counter()
        self.without: Counter[str] = Counter()
        """Windows that were refused with a 4xx."""
        self.wrong: dict[str, Counter[str]] = defaultdict(Counter)
        self.found: dict[tuple[str, str], list[tuple[Script, Wrong]]] = defaultdict(list)
        self.suspects: list[Script] = []

    def add(self, made: Script, played: Played) -> None:
        name = made.feature
        self.scripts[name] += 1
        self.windows[name] += played.windows
        self.messages[name] += played.taken + played.refused
        self.refused[name] += played.refused
        self.otherwise[name] += played.otherwise
        self.without[name] += sum(number for status, number in played.answered.items() if 400 <= status < 500)
        for each in played.wrong:
            self.note(made, each)

    def note(self, made: Script, wrong: Wrong) -> None:
        self.wrong[made.feature][wrong.kind] += 1
        self.found[signature(wrong)].append((made, wrong))

    @property
    def failures(self) -> int:
        return sum(counter.total() for counter in self.wrong.values())

    def table(self) -> str:
        """Return the table of the run, in Markdown."""
        head = ("feature", "scripts", "messages", "refused", "windows", "4xx", *KINDS)
        lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        names = sorted(self.scripts, key=lambda name: (name.partition(" ")[0] == "hostile", name))
        for name in [*names, ""]:
            figures = [self._figure(each, name) for each in (self.scripts, self.messages, self.refused)]
            figures += [self._figure(each, name) for each in (self.windows, self.without)]
            figures += [self._wrong(kind, name) for kind in KINDS]
            lines.append(f"| {name or 'all'} | {' | '.join(f'{figure:,}' for figure in figures)} |")
        return "\n".join(lines)

    def sums(self, places: tuple[Place, Place]) -> str:
        """Return the run's totals, and how long the services' signs of life took."""
        asked, slowest = sum(place.requests for place in places), max(place.slowest_livez for place in places)
        return (
            f"{self.windows.total():,} windows, {asked:,} requests; `/livez` answered within {slowest:.2f} s; "
            f"{self.otherwise.total()} scripts have messages that are taken together and refused alone, or the reverse"
        )

    def _figure(self, counter: Counter[str], name: str) -> int:
        return counter[name] if name else counter.total()

    def _wrong(self, kind: str, name: str) -> int:
        return sum(counter[kind] for each, counter in self.wrong.items() if name in ("", each))


async def fuzz(options: argparse.Namespace, run: Run, places: tuple[Place, Place]) -> None:
    """Play scripts until there are enough windows; then play those alone at which something hung."""
    numbers = iter(range(10**9))
    with progress_bar() as bar:
        task = bar.add_task("windows", total=options.windows)

        async def player() -> None:
            while run.windows.total() < options.windows and max(each.restarts for each in places) < _MOST_RESTARTS:
                made = script(options.seed, next(numbers), options.feature)
                await _play(made, run, places)
                bar.update(task, completed=run.windows.total(), description=f"{run.failures} failures, windows")

        await asyncio.gather(*(player() for _ in range(options.at_once)))
    for made in run.suspects:
        if said := await hangs(made, places):
            run.note(made, Wrong("hangs", said))


async def _play(made: Script, run: Run, places: tuple[Place, Place]) -> None:
    for _ in range(_TRIES):
        restarts = [place.restarts for place in places]
        try:
            return run.add(made, await play(made, places))
        except HangError:
            for place, before in zip(places, restarts, strict=True):
                await place.mend(before)
            break
        except RestartedError:
            await asyncio.sleep(0.2)
    run.suspects.append(made)
    return None


async def _smaller(made: Script, wrong: Wrong, places: tuple[Place, Place]) -> Script:
    async def fails(tried: Script) -> bool:
        if wrong.kind == "hangs":
            return bool(await hangs(tried, places))
        try:
            played = await play(tried, places)
        except (HangError, RestartedError):
            return False
        return any(signature(each) == signature(wrong) for each in played.wrong)

    return await smallest(made, wrong, fails, seconds=_SMALLER_SECONDS * (3 if wrong.kind == "hangs" else 1))


async def _run(options: argparse.Namespace, again: Script | None) -> int:
    run, began = Run(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), options.deadline) as places:
            if again is not None:
                return await _again(again, places)
            await fuzz(options, run, places)
            seconds = time.monotonic() - began
            print(run.table())
            print(f"\n{run.sums(places)}, seed {options.seed}, {seconds:.0f} s")
            await _report(options, run, places)
    return 1 if run.failures else 0


async def _report(options: argparse.Namespace, run: Run, places: tuple[Place, Place]) -> None:
    """Print each kind of failure, and save the smallest script that was found of it."""
    told: Counter[str] = Counter()
    for (kind, _), cases in sorted(run.found.items(), key=lambda each: -len(each[1])):
        made, wrong = min(cases, key=lambda each: len(each[0].text()))
        told[kind] += 1
        small = await _smaller(made, wrong, places) if options.smaller and told[kind] <= _SMALLER else made
        path = save(small, options.failures, {"kind": kind, "detail": wrong.detail, "window": wrong.window})
        print(f"{len(cases)}x {kind} ({MEANINGS[kind]}), {made.feature}: {wrong.detail}\n   {path}")


async def _again(made: Script, places: tuple[Place, Place]) -> int:
    """Play one saved script, and print what is wrong."""
    if said := await hangs(made, places):
        print(f"hangs: {said}")
        return 1
    played = await play(made, places)
    for wrong in played.wrong:
        print(f"{wrong.kind}: {wrong.detail}\n   {wrong.window}")
    print(f"{played.windows} windows, by status {dict(played.answered)}; {played.refused} messages refused")
    return 1 if played.wrong else 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults fuzz", description=__doc__)
    parser.add_argument("--windows", type=int, default=3_000, help="how many windows are asked for, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--feature", default="", choices=["", *FEATURES], help="one generator alone")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds until a request hangs")
    parser.add_argument("--at-once", type=int, default=4, help="scripts that are played at the same time")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for failing scripts")
    parser.add_argument("--again", type=Path, help="play a saved script once more")
    parser.add_argument(
        "--smaller", action=argparse.BooleanOptionalAction, default=True, help="make failing scripts smaller"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the services end, too
    options = parser.parse_args(words)
    return asyncio.run(_run(options, script_of(options.again.read_text()) if options.again else None))
