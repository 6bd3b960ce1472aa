"""A figure of the tables: the values of its rounds, and the bound that it must keep."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.rig import markdown

README = Path(__file__).parent / "README.md"


@dataclass(frozen=True)
class Figure:
    """A figure of several rounds; ``least`` or ``most`` bounds its median, and ``wanted`` is a goal beyond the bound."""

    name: str
    values: Sequence[float]
    least: float | None = None
    most: float | None = None
    wanted: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def holds(self) -> str:
        """Whether the median keeps its bound; empty where there is none."""
        if self.least is None and self.most is None:
            return ""
        reached = (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)
        return "yes" if reached else "**no**"

    @property
    def row(self) -> tuple[str, ...]:
        """The figure's row of a table."""
        sign, bound = ("≥", self.least) if self.least is not None else ("≤", self.most)
        must = "" if bound is None else f"{sign} {bound:,g}"
        wanted = "" if self.wanted is None else f"{self.wanted:,g}"
        spread = f"{_short(min(self.values))} to {_short(max(self.values))}" if len(self.values) > 1 else ""
        return self.name, _short(self.value), spread, must, wanted, self.holds, self.note


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as a table: the median, the least and the most of the rounds, and the bound."""
    head = ("", "median", "least to most", "must", "wanted", "holds", "")
    found = markdown(head, [figure.row for figure in figures])
    return found.replace("| ---: |\n", "| --- |\n", 1)


def into_readme(name: str, text: str) -> None:
    """Write a table into the README beside this file, between ``<!-- name -->`` and ``<!-- end -->``."""
    page = README.read_text("utf-8")
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(page):
        raise SystemExit(f"{README} has no place for the table {name}")
    README.write_text(place.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page), "utf-8")
