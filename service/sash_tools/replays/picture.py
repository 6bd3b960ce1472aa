"""The picture of a replay: an SVG of the dollars so far, and of the tokens of requests by what the cache makes of them."""

from collections.abc import Callable, Sequence
from html import escape
from itertools import accumulate

from sash_tools.replays.compared import RequestSums, Totals
from sash_tools.sheet import Sheet

_LEFT, _WIDTH, _HEIGHT, _TOP, _GAP = 76, 760, 170, 74, 58
_INK, _GREY = "#222222", "#dddddd"
_SIDES = ("#7a7a7a", "#0b6e8a")
_KINDS = (("read from the cache", "#8fc9a9"), ("written to the cache", "#e3b04b"), ("uncached", "#c8553d"))
_POINTS = 240
"""Requests of one number are drawn in at most so many points."""


def picture(against: Totals, wanted: Totals, titles: tuple[str, str]) -> str:
    """The SVG: dollars above, if they are known, then each side's tokens of a request by the request's number."""
    count = max(len(against.steps), len(wanted.steps), 1)
    sides = [_thinned(totals.steps, count) for totals in (against, wanted)]
    parts, top = [], _TOP
    if against.dollars is not None and wanted.dollars is not None:
        sums = [list(accumulate(step.dollars for step in steps)) for steps in sides]
        most = max((max(each, default=0.0) for each in sums), default=0.0) or 1.0
        parts += _frame(top, "dollars so far, all conversations", most, lambda value: f"{value:,.4g}")
        parts += [_line(top, each, most, colour) for each, colour in zip(sums, _SIDES, strict=True)]
        top += _HEIGHT + _GAP
    most = max((_tokens(step) for steps in sides for step in steps), default=0.0) or 1.0
    for steps, title in zip(sides, titles, strict=True):
        parts += _frame(top, f"tokens of a request, mean: {title}", most, lambda value: f"{value:,.0f}")
        parts += _areas(top, steps, most)
        top += _HEIGHT + _GAP
    bottom = top - _GAP
    parts += [_text(_LEFT, bottom + 16, "1", "middle"), _text(_LEFT + _WIDTH, bottom + 16, f"{count:,}", "middle")]
    parts.append(_text(_LEFT + _WIDTH / 2, bottom + 16, "number of the request in its conversation", "middle"))
    size = f"{_LEFT + _WIDTH + 28} {bottom + 30}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif" font-size="12">'
    legend = _legend([*zip(titles, _SIDES, strict=True)], 18) + _legend(_KINDS, 38)
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *legend, *parts, "</svg>"]) + "\n"


def page(found: Sheet, notes: Sequence[str], svg: str) -> str:
    """The HTML page with the table, the notes and the picture."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in ([column.lstrip("#") for column in found.columns], *found.rows)
    )
    said = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>sash replay</title>\n'
        "<style>body{font:15px sans-serif;margin:2em auto;max-width:60em;color:#222;background:#fff}"
        "td{padding:.15em 1.2em .15em 0;text-align:right}td:first-child{text-align:left}tr:first-child{font-weight:bold}"
        f"</style>\n<h1>sash replay</h1>\n<table>\n{rows}</table>\n{said}{svg}</html>\n"
    )


def _thinned(steps: Sequence[RequestSums], count: int) -> list[RequestSums]:
    """As many steps for both sides, with neighbours added up where there are more than can be drawn."""
    width = -(-count // _POINTS)
    found = []
    for first in range(0, count, width):
        part = steps[first : first + width]
        sums = {name: sum(getattr(step, name) for step in part) for name in RequestSums.__struct_fields__}
        found.append(RequestSums(**sums))
    return found


def _tokens(step: RequestSums) -> float:
    return (step.read + step.written + step.uncached) / max(1, step.requests)


def _x(place: int, count: int) -> float:
    return _LEFT + (place / (count - 1) if count > 1 else 0.5) * _WIDTH


def _y(top: float, value: float, most: float) -> float:
    return top + _HEIGHT * (1 - value / most)


def _line(top: float, values: Sequence[float], most: float, colour: str) -> str:
    points = " ".join(f"{_x(place, len(values)):.1f},{_y(top, value, most):.1f}" for place, value in enumerate(values))
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _areas(top: float, steps: Sequence[RequestSums], most: float) -> list[str]:
    """One area above the other: what is read, written, and neither."""
    below, found = [0.0] * len(steps), []
    for (_, colour), name in zip(_KINDS, ("read", "written", "uncached"), strict=True):
        above = [low + getattr(step, name) / max(1, step.requests) for low, step in zip(below, steps, strict=True)]
        edge = [(place, value) for place, value in enumerate(above)]
        edge += [(place, value) for place, value in reversed([*enumerate(below)])]
        points = " ".join(f"{_x(place, len(steps)):.1f},{_y(top, value, most):.1f}" for place, value in edge)
        found.append(f'<polygon points="{points}" fill="{colour}"/>')
        below = above
    return found


def _frame(top: float, title: str, most: float, said: Callable[[float], str]) -> list[str]:
    """A part's title, and lines with labels at none, half and all of ``most``."""
    found = [_text(_LEFT, top - 8, title, "start")]
    for part in (0.0, 0.5, 1.0):
        height = top + _HEIGHT * (1 - part)
        found.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{height:.1f}" y2="{height:.1f}" stroke="{_GREY}"/>')
        found.append(_text(_LEFT - 8, height + 4, said(part * most), "end"))
    return found


def _legend(named: Sequence[tuple[str, str]], y: int) -> list[str]:
    found, x = [], float(_LEFT)
    for name, colour in named:
        found.append(f'<rect x="{x:.1f}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        found.append(_text(x + 18, y, name, "start"))
        x += 40 + 6.6 * len(name)
    return found


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}">{escape(words)}</text>'
