"""Bills: requests as sent to a provider, with their billed and predicted tokens, and the tables of all vendors."""

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

_NEAR = 0.05
FAR = 1.35
_SAID = ("said exact", "equal", "short")
"""Columns of the bills whose answer says ``exact: true``: how many, how many of them equal the bill, and are short."""


class Bill(NamedTuple):
    """One recorded request: its ``kind`` of content, and its billed and predicted tokens."""

    vendor: str
    id: str
    file: str
    family: str
    kind: str
    billed: int
    predicted: int
    is_exact: bool
    request: Mapping[str, Any]

    @property
    def error(self) -> int:
        """Predicted minus billed tokens; negative if the prediction is short."""
        return self.predicted - self.billed

    @property
    def ratio(self) -> float:
        return self.predicted / max(1, self.billed)


def table(bills: Iterable[Bill]) -> Table:
    """Return a table with a row for each kind of each vendor, and a row for all bills of the vendor."""
    drawn = Table("vendor", "kind", "cases", "exact", "within 5 %", "short", "worst", "median", "within 1.35", *_SAID)
    groups: dict[tuple[str, str], list[Bill]] = {}
    for bill in bills:
        groups.setdefault((bill.vendor, bill.kind), []).append(bill)
        groups.setdefault((bill.vendor, "all"), []).append(bill)
    for (vendor, kind), found in sorted(
        groups.items(), key=lambda group: (group[0][0], group[0][1] == "all", group[0][1])
    ):
        drawn.add_row(vendor, kind, *_figures(found))
    return drawn


def _figures(bills: list[Bill]) -> tuple[str, ...]:
    counts = (
        len(bills),
        sum(bill.error == 0 for bill in bills),
        sum(abs(bill.error) <= _NEAR * bill.billed for bill in bills),
        sum(bill.error < 0 for bill in bills),
    )
    worst = max((bill.error for bill in bills), key=abs)
    far = sum(bill.ratio <= FAR for bill in bills) / len(bills)
    errors = [bill.error for bill in bills if bill.is_exact]
    said = len(errors), errors.count(0), sum(error < 0 for error in errors)
    middle = f"{median(bill.ratio for bill in bills):.2f}"
    return *map(str, counts), f"{worst:+d}", middle, f"{far:.0%}", *map(str, said)


def misses(bills: Iterable[Bill]) -> Table:
    """Return a table with a row for each bill that was not predicted to the token, short predictions first."""
    drawn = Table("case", "kind", "family", "billed", "error")
    for bill in sorted((bill for bill in bills if bill.error), key=lambda bill: bill.error):
        drawn.add_row(bill.id, bill.kind, bill.family, str(bill.billed), f"{bill.error:+d}")
    return drawn


def evidence(bills: Iterable[Bill], rules: Mapping[str, Callable[[Bill], bool]], *, estimates: bool = False) -> Table:
    """Return a table with a row for each rule: the bills it applies to, and how many are predicted to the token.

    Bills that the service marks as estimates (files, images of unknown size) are left out without ``estimates``.
    """
    drawn = Table("rule", "bills", "exact")
    listed = [bill for bill in bills if bill.is_exact or estimates]
    for name, bears_on in rules.items():
        found = [bill for bill in listed if bears_on(bill)]
        drawn.add_row(name, str(len(found)), str(sum(bill.error == 0 for bill in found)))
    return drawn
