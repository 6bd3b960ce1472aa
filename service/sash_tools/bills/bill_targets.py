"""The table of targets: what predictions must show on recorded bills, on each half of them.

Constants are fitted to the one half, and tested on the other. A half holds whole recordings, by a hash of their paths, so it
is the same in every run, and requests that one test sent do not stand in both.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from sash.core.counts.costs.request_shapes import standing
from sash.core.providers.reading.enclosures import enclosed
from sash_tools.bills.bill import OTHERS, Bill
from sash_tools.bills.bill_shapes import billed_shapes
from sash_tools.bills.request_kinds import UNSIZED
from sash_tools.sheet import Sheet

_OPENAI: Final = ("OpenAI", "OpenAI Responses")


class Target(NamedTuple):
    """A row of the sheet: the bills that it is about, their figure, and the bound that the figure should keep."""

    title: str
    bears_on: Callable[[Bill], bool]
    figure: Callable[[Sequence[Bill]], float]
    least: float = float("-inf")
    most: float = float("inf")
    is_share: bool = True


def is_fitted(bill: Bill) -> bool:
    """Return whether a bill is of the half that constants are fitted to; the others test them."""
    source = bill.row.source
    recording = f"{source.repo}/{source.path}" if source.path else bill.id
    return hashlib.sha256(recording.encode()).digest()[0] % 2 == 0


def by_target(bills: Iterable[Bill]) -> Sheet:
    """Return a row for each target that bills bear on: its figure on the fitted half, the tested half, and all."""
    halves = _halves(bills)
    rows = [*_rows_of(TARGETS, halves), *_by_shapes_of_other_half(*halves[:2])]
    return Sheet("Targets", _COLUMNS, rows)


def by_target_of_gemini(bills: Iterable[Bill]) -> Sheet:
    """Return the rows of the targets that a vocabulary for Gemini changes."""
    return Sheet("Targets", _COLUMNS, _rows_of((*SAID, *OF_GEMINI, *OF_MEDIA), _halves(bills)))


_COLUMNS: Final = ("target", "#bound", "#fitted half", "#tested half", "#all")
_Halves = tuple[list[Bill], list[Bill], list[Bill]]


def _halves(bills: Iterable[Bill]) -> _Halves:
    """The fitted half, the tested half, and all."""
    found = list(bills)
    return [bill for bill in found if is_fitted(bill)], [bill for bill in found if not is_fitted(bill)], found


def _rows_of(targets: Iterable[Target], halves: _Halves) -> list[tuple[str, ...]]:
    rows = []
    for target in targets:
        bearing = [[bill for bill in half if target.bears_on(bill)] for half in halves]
        if bearing[-1]:
            rows.append((target.title, _bound(target), *(_shown(target, half) for half in bearing)))
    return rows


def _by_shapes_of_other_half(half: Sequence[Bill], other: Sequence[Bill]) -> list[tuple[str, ...]]:
    """Rows of what is called exact in each half by the shapes that the other half has shown."""
    claimed = [[bill for bill in each if bill.shape is not None] for each in (half, other)]
    shown = [standing(billed_shapes(each)) for each in claimed]
    called = [[bill for bill in own if bill.shape in known] for own, known in zip(claimed, shown[::-1], strict=True)]
    claimed.append([*claimed[0], *claimed[1]])
    called.append([*called[0], *called[1]])
    named = ("by the other half's shapes: called exact", "≥ 90.00%"), ("short", "≤ 0.05%"), ("equal", "≥ 97.00%")
    shares = [len(own) / max(1, len(of)) for own, of in zip(called, claimed, strict=True)]
    figures = shares, [_short(own) if own else 0.0 for own in called], [_equal(own) if own else 1.0 for own in called]
    return [
        (
            title if "called" in title else f"by the other half's shapes: {title}",
            bound,
            *(
                f"{figure:.2%} of {len(of)}"
                for figure, of in zip(each, claimed if each is shares else called, strict=True)
            ),
        )
        for (title, bound), each in zip(named, figures, strict=True)
    ]


def _bound(target: Target) -> str:
    if target.least == float("-inf"):
        return f"≤ {_written(target, target.most)}"
    return f"≥ {_written(target, target.least)}"


def _shown(target: Target, bills: Sequence[Bill]) -> str:
    if not bills:
        return "none"
    figure = target.figure(bills)
    missed = "" if target.least <= figure <= target.most else " missed"
    return f"{_written(target, figure)} of {len(bills)}{missed}"


def _written(target: Target, figure: float) -> str:
    return f"{figure:.2%}" if target.is_share else f"{figure:.3f}"


# ---- figures


def _share(is_so: Callable[[Bill], bool]) -> Callable[[Sequence[Bill]], float]:
    return lambda bills: sum(map(is_so, bills)) / len(bills)


_short: Final = _share(lambda bill: bill.error < 0)
_equal: Final = _share(lambda bill: bill.error == 0)
_said: Final = _share(lambda bill: bill.is_exact)


def _median(bills: Sequence[Bill]) -> float:
    return median(bill.ratio for bill in bills)


# ---- which bills


def _of(*vendors: str) -> Callable[[Bill], bool]:
    return lambda bill: bill.vendor in vendors and bill.is_shown


def _is_nova(bill: Bill) -> bool:
    return "nova-" in bill.row.model


def _strings(value: Any) -> Iterable[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


_WAV: Final = re.compile(r"UklGR.{6}XQVZF")
"""The beginning of a WAV sound in base64: RIFF, four bytes, WAVE."""


def has_wav(bill: Bill) -> bool:
    """Return whether a request holds the bytes of a WAV sound."""
    for text in _strings(bill.request):
        data = text.partition("base64,")[2] or text
        if _WAV.match(data):
            return True
    return False


def has_sized_picture(bill: Bill) -> bool:
    """Return whether a request has pictures, each with its bytes, and no file or sound."""
    found = [one for message in (bill.chat.messages if bill.chat else ()) for one in enclosed(message)]
    return bool(found) and all(one.kind == "image" and not one.is_linked for one in found) and bill.kind != UNSIZED


def _is_unknown(bill: Bill) -> bool:
    return bill.counting == "unknown"


def _is_geminis(*kinds: str) -> Callable[[Bill], bool]:
    return lambda bill: bill.vendor == "Gemini" and bill.kind in kinds


SAID: Final = (
    Target("said exact: short", lambda bill: bill.is_exact, _short, most=1 / 2000),
    Target("said exact: equal", lambda bill: bill.is_exact, _equal, least=0.97),
)
_TOOLS: Final = _is_geminis("tool definitions", "tool history")
OF_GEMINI: Final = (
    Target("Gemini, text: equal", _is_geminis("text"), _equal, least=0.70),
    Target("Gemini, text: short", _is_geminis("text"), _short, most=0.01),
    Target("Gemini, text: median ratio", _is_geminis("text"), _median, most=1.06, is_share=False),
    Target("Gemini, tools: short", _TOOLS, _short, most=0.03),
    Target("Gemini, tools: median ratio", _TOOLS, _median, most=1.05, is_share=False),
)
OF_MEDIA: Final = (
    Target("WAV: equal", has_wav, _equal, least=0.60),
    Target("pictures of known size: equal", has_sized_picture, _equal, least=0.60),
    Target("pictures of known size: short", has_sized_picture, _short, most=0.05),
)
TARGETS: Final = (
    Target("said exact", _of(*_OPENAI), _said, least=0),
    *SAID,
    Target("OpenAI: equal", _of("OpenAI"), _equal, least=0.97),
    Target("OpenAI: short", _of("OpenAI"), _short, most=0.002),
    Target("OpenAI Responses: equal", _of("OpenAI Responses"), _equal, least=0.91),
    Target("OpenAI Responses: short", _of("OpenAI Responses"), _short, most=0.05),
    Target("Claude: short", _of("Claude"), _short, most=0.01),
    Target("Claude: median ratio", _of("Claude"), _median, most=1.12, is_share=False),
    *OF_GEMINI,
    Target("Amazon Nova: short", _is_nova, _short, most=0.08),
    Target("Amazon Nova: median ratio", _is_nova, _median, most=1.25, is_share=False),
    Target("other makers: short", lambda bill: bill.vendor == OTHERS, _short, most=0.03),
    *OF_MEDIA,
    Target("names of unknown makers", lambda _: True, _share(_is_unknown), most=0.02),
)
