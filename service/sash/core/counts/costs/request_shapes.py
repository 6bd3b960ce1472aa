"""The shapes of requests that recorded bills have shown, which decide what is called exact.

::

    shape    form | family | parts          openai | gpt-4o | picture + tools
    exact    no part is a guess, and of the shape's bills none is short and at least half are equal

``billed_shapes.json`` is written by ``sash truth … --shapes``. It has a line for each shape: its bills, how many of them are
equal and short, and the worst error in tokens. A shape that no bill has is an estimate, however plain its parts are.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.counts.costs.definitions import Declared
from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.rows import Row
from sash.core.counts.models.families import FUNCTION, TOOL
from sash.core.counts.text.numbers import Number
from sash.core.providers import CHAT

CALL, CALLS, LEGACY, PICTURE, PICTURE_IN_RESULT, NAME = (1 << place for place in range(6))
_PARTS: Final = {
    CALL: "call",
    CALLS: "several calls",
    LEGACY: "legacy call",
    PICTURE: "picture",
    PICTURE_IN_RESULT: "picture in a result",
    NAME: "name",
}


class RequestShape(NamedTuple):
    """The form and the family of a request, and its parts in the order of their names; text is no part."""

    form: str
    family: str
    parts: str


class BilledShape(msgspec.Struct, array_like=True, frozen=True):
    """A shape's bills: how many, how many of them are equal and short, and the error with the largest amount, in tokens."""

    form: str
    family: str
    parts: str
    bills: int
    equal: int
    short: int
    worst: int


Stands = Callable[[RequestShape], bool]
"""Whether what has this shape may be called exact."""


def has_stood(shape: RequestShape) -> bool:
    """Return whether bills have shown this shape, none of them was higher than predicted, and at least half were equal."""
    return shape in _standing()


def standing(billed: Iterable[BilledShape]) -> frozenset[RequestShape]:
    """Return the shapes of which no bill is short, and at least half are equal."""
    stood = (each for each in billed if not each.short and 2 * each.equal >= each.bills > 0)
    return frozenset(RequestShape(each.form, each.family, each.parts) for each in stood)


def bills_of(shape: RequestShape) -> int:
    """Return how many bills have shown a shape."""
    return next((each.bills for each in _billed() if RequestShape(each.form, each.family, each.parts) == shape), 0)


@lru_cache(maxsize=1)
def _standing() -> frozenset[RequestShape]:
    return standing(_billed())


@lru_cache(maxsize=1)
def _billed() -> list[BilledShape]:
    text = (files(__package__) / "billed_shapes.json").read_bytes()
    return msgspec.json.decode(text, type=list[BilledShape])


def parts_of(measure: Measure) -> int:
    """Return the bits of the parts that a message has."""
    extra = measure.extra
    if extra is None:
        return 0
    bits = NAME if extra.name is not None else 0
    if extra.calls:
        bits |= LEGACY if extra.legacy_call else CALL if extra.calls == 1 else CALLS
    if measure.role == FUNCTION:
        bits |= LEGACY
    if extra.images:
        bits |= PICTURE_IN_RESULT if measure.role == TOOL else PICTURE
    return bits


def parts_in(columns: Row) -> list[tuple[int, Number]]:
    """Return each bit with whether each of many messages has its part, by their numbers; of pictures nothing."""
    calls, legacy = columns["calls"], columns["legacy_call"] != 0
    is_new = columns["legacy_call"] == 0
    return [
        (NAME, columns["has_name"] != 0),
        (LEGACY, legacy | (columns["role"] == FUNCTION)),
        (CALL, (calls == 1) & is_new),
        (CALLS, (calls > 1) & is_new),
    ]


@lru_cache(maxsize=4_096)
def shape_of(form: str, family: str, bits: int, defined: str = "") -> RequestShape:
    """Return the shape of a request with messages of these parts and with definitions, as ``defined_parts`` names them."""
    if bits & LEGACY and form != CHAT:  # an ordinary call there
        bits = bits & ~LEGACY | CALL
    named = [name for bit, name in _PARTS.items() if bits & bit]
    return RequestShape(form, family, " + ".join(sorted([*named, *filter(None, defined.split("|"))])))


def defined_parts(given: Declared, choice: Any, response_format: Mapping[str, Any] | None = None) -> str:
    """Return the names of a request's parts beside its messages: definitions, their choice, a reply's format."""
    found = []
    if given.functions:
        found.append("tools in Markdown" if given.is_marked else "tools")
        if choice in ("none", "required"):
            found.append(f"choice {choice}")
        elif choice and not isinstance(choice, str):
            found.append("choice of a function")
    if response_format and response_format.get("type") == "json_schema":
        found.append("format")
    return "|".join(found)
