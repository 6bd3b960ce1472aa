"""The shapes of requests that bills have shown, and how their predictions stood: what ``exact`` rests on."""

from collections.abc import Iterable

import msgspec

from sash.core.counts.costs.request_shapes import BilledShape, RequestShape, standing
from sash_tools.bills.bill import Bill
from sash_tools.sheet import Sheet


def billed_shapes(bills: Iterable[Bill]) -> list[BilledShape]:
    """Return the shapes of the bills without a guess, in alphabetical order.

    Bills of one and the same request count once, with the error that is nearest to 0: where they differ, no prediction can
    equal all.
    """
    nearest: dict[tuple[RequestShape, bytes], int] = {}
    for bill in bills:
        if bill.shape is not None:
            key = bill.shape, msgspec.json.encode(bill.request)
            nearest[key] = min(bill.error, nearest.get(key, bill.error), key=abs)
    errors: dict[RequestShape, list[int]] = {}
    for (shape, _), error in nearest.items():
        errors.setdefault(shape, []).append(error)
    return [
        BilledShape(*shape, len(found), found.count(0), sum(error < 0 for error in found), max(found, key=abs))
        for shape, found in sorted(errors.items())
    ]


def written_shapes(bills: Iterable[Bill], before: bytes = b"[]") -> bytes:
    """Return the file of shapes: a line each, in alphabetical order.

    Of the file ``before``, lines of forms of which these bills have no shape are kept: the vocabulary that counts such
    forms does not come with Sash.
    """
    found = billed_shapes(bills)
    forms = {each.form for each in found}
    kept = [each for each in msgspec.json.decode(before, type=list[BilledShape]) if each.form not in forms]
    lines = sorted(msgspec.structs.astuple(each) for each in [*found, *kept])
    return b"[\n" + b",\n".join(map(msgspec.json.encode, lines)) + b"\n]\n"


def by_shape(bills: Iterable[Bill]) -> Sheet:
    """Return a row for each shape: its bills, those equal and short, the worst error, and whether it may be called exact."""
    rows = [
        (
            each.form,
            each.family,
            each.parts or "text",
            str(each.bills),
            str(each.equal),
            str(each.short),
            f"{each.worst:+d}",
            "yes" if standing([each]) else "no",
        )
        for each in billed_shapes(bills)
    ]
    return Sheet("Shapes", ("form", "family", "parts", "#bills", "#equal", "#short", "#worst", "exact"), rows)
