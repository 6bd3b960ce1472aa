"""Tables of bills: by vendor and kind, by rule, by family, and every miss; for a terminal and for pages."""

from collections.abc import Iterable, Sequence
from itertools import dropwhile
from statistics import median
from typing import Final

from sash.core.counts.models.templates import TEMPLATES
from sash_tools.bills.bill import OTHERS, Bill
from sash_tools.bills.bill_rules import RULES, doubtful_rules
from sash_tools.bills.bill_shapes import by_shape
from sash_tools.bills.bill_targets import by_target, by_target_of_gemini
from sash_tools.bills.blind_spots import blind_spots
from sash_tools.sheet import Sheet

_NEAR: Final = 0.05
FAR: Final = 1.35
"""A prediction with more tokens for each billed one is far off."""
_GATEWAYS: Final = "OpenAI, Claude and Gemini behind gateways"
_SHOWN: Final = "all that show what is billed"
_SAID: Final = ("said exact", "equal", "short")
"""Columns of the bills whose answer says ``exact: true``: how many, how many of them equal the bill, and are short."""


def by_kind(bills: Iterable[Bill]) -> Sheet:
    """Return a row for each kind of each vendor, for the kinds that show all that is billed, and for all bills of it."""
    groups: dict[tuple[str, str], list[Bill]] = {}
    for bill in bills:
        if bill.vendor != OTHERS:
            groups.setdefault((bill.vendor, bill.kind), []).append(bill)
        if bill.is_shown and bill.vendor != OTHERS:
            groups.setdefault((bill.vendor, _SHOWN), []).append(bill)
        groups.setdefault((bill.vendor, "all"), []).append(bill)
    vendors, last = list(RULES), ("", _SHOWN, "all")
    ordered = sorted(
        groups.items(),
        key=lambda group: (
            vendors.index(group[0][0]),
            last.index(group[0][1]) if group[0][1] in last else 0,
            group[0][1],
        ),
    )
    columns = ("cases", "exact", "within 5 %", "short", "worst", "median ratio", f"within {FAR}", *_SAID)
    rows = [(vendor, kind, *_figures(found)) for (vendor, kind), found in ordered]
    return Sheet("Predicted and billed tokens", ("vendor", "kind", *(f"#{column}" for column in columns)), rows)


def _figures(bills: Sequence[Bill]) -> tuple[str, ...]:
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
    return *map(str, counts), f"{worst:+d}", _median(bills), f"{far:.0%}", *map(str, said)


def _median(bills: Sequence[Bill]) -> str:
    return f"{median(bill.ratio for bill in bills):.2f}"


def by_rule(bills: Iterable[Bill], vendor: str) -> Sheet:
    """Return a row for each rule of a vendor that changes what a request costs.

    OpenAI's chat requests that are estimates, and requests that do not show all that is billed, are left out.
    """
    listed = [
        bill for bill in bills if bill.vendor == vendor and bill.is_shown and (bill.is_exact or vendor != "OpenAI")
    ]
    found = [(name, [bill for bill in listed if bears_on(bill)]) for name, bears_on in RULES[vendor].items()]
    rows = [(name, *_short_figures(own)) for name, own in found if own]
    return Sheet(f"{vendor}: bills of each rule", ("rule", *_SHORT_COLUMNS), rows)


_SHORT_COLUMNS: Final = ("#bills", "#exact", "#short", "#median ratio")


def _short_figures(bills: Sequence[Bill]) -> tuple[str, ...]:
    exact, short = sum(bill.error == 0 for bill in bills), sum(bill.error < 0 for bill in bills)
    return str(len(bills)), str(exact), str(short), _median(bills)


def by_family(bills: Iterable[Bill]) -> Sheet:
    """Return a row for each family of other makers' models, with the projects that recorded it."""
    groups: dict[str, list[Bill]] = {}
    for bill in bills:
        if bill.vendor == OTHERS:
            name = bill.family if bill.family in {*TEMPLATES, "gpt-oss"} else _GATEWAYS
            groups.setdefault(name, []).append(bill)
    ordered = sorted(groups.items(), key=lambda group: (group[0] == _GATEWAYS, group[0]))
    rows = [(family, *_with_projects(own)) for family, own in ordered]
    if rows:
        rows.append(("all", *_with_projects([bill for own in groups.values() for bill in own])))
    columns = ("#bills", "#projects", "#exact", "#short", "#median ratio")
    return Sheet("Other makers' families", ("family", *columns), rows)


def _with_projects(bills: Sequence[Bill]) -> tuple[str, ...]:
    count, *others = _short_figures(bills)
    return count, str(len({bill.row.source.repo for bill in bills})), *others


def misses(bills: Sequence[Bill], limit: int) -> Sheet:
    """Return a row for each miss, the worst of each vendor first, at most ``limit`` of each.

    A miss is a short prediction, one that is more than ``FAR`` times its bill, or any other error of an exact answer.
    """
    rules = doubtful_rules(bills)
    groups: dict[str, list[tuple[Bill, str]]] = {}
    for place, bill in enumerate(bills):
        if is_miss(bill):
            groups.setdefault(bill.vendor, []).append((bill, rules[place]))
    rows = [
        (bill.id, bill.row.model, bill.kind, str(bill.predicted), str(bill.billed), f"{bill.error:+d}", rule)
        for vendor in RULES
        for bill, rule in sorted(groups.get(vendor, ()), key=_first_short)[:limit]
    ]
    columns = ("case", "model", "kind", "#predicted", "#billed", "#error", "rests on")
    return Sheet("Misses", columns, rows)


def _first_short(found: tuple[Bill, str]) -> tuple[bool, int]:
    return found[0].error > 0, -abs(found[0].error)


def is_miss(bill: Bill) -> bool:
    """Return whether a prediction is short or far off, or an exact one wrong."""
    return bill.error < 0 or bill.ratio > FAR or (bill.is_exact and bill.error != 0)


def sheets(bills: Sequence[Bill], limit: int) -> list[Sheet]:
    """Return all tables of bills: targets, shapes, kinds, families, rules, blind spots, and at most ``limit`` misses of
    each vendor. Bills that the maker's own vocabulary counted have tables of their own.
    """
    own = [bill for bill in bills if bill.is_with_vocabulary]
    others = [bill for bill in bills if not bill.is_with_vocabulary]
    apart = (by_target_of_gemini(own), by_shape(own), by_kind(own), misses(own, limit)) if own else ()
    return [
        by_target(others),
        by_shape(others),
        by_kind(others),
        by_family(others),
        *(by_rule(others, vendor) for vendor in RULES),
        blind_spots(others),
        misses(others, limit),
        *(sheet._replace(title=f"{sheet.title}, with Gemini's vocabulary") for sheet in apart),
    ]


def with_sheets(page: str, drawn: Iterable[Sheet]) -> tuple[str, int]:
    """Return a Markdown page with tables in place of those behind marks, and how many.

    A mark is the line ``<!-- sash truth: TITLE -->``; the table stands behind it and an empty line.
    """
    count = 0
    for sheet in drawn:
        mark = f"<!-- sash truth: {sheet.title} -->\n\n"
        before, found, after = page.partition(mark)
        if found and sheet.rows:
            rest = after.splitlines(keepends=True)
            kept = "".join(dropwhile(lambda line: line.startswith("|"), rest))
            page, count = f"{before}{mark}{sheet.markdown()}\n{kept}", count + 1
    return page, count
