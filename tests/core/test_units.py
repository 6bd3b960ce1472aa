"""Units: the messages that a window keeps or leaves out together."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from histories import calling, entries, groups, result, said, talk
from hypothesis import given

from sash.core.chat.messages import Entry
from sash.core.law.records.records import Records
from sash.core.stored.record import Record

LEGACY = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}


class Unit(NamedTuple):
    """Records ``start`` to ``end`` (exclusive); ``whole`` if they may be sent."""

    start: int
    end: int
    whole: bool


def units_of(records: Sequence[Record]) -> list[Unit]:
    found = Records.of(records).units
    return [Unit(*ends, index not in found.broken) for index, ends in enumerate(pairwise(found.starts))]


def units(*messages: dict[str, object]) -> list[Unit]:
    return units_of(talk(*messages).stored[0])


@given(entries(documents=False))
def test_every_record_once(drawn: tuple[Entry, ...]) -> None:
    """Units contain every record once, in order, and are the groups that the messages form."""
    found = talk(*drawn)
    seqs = [list(range(unit.start + 1, unit.end + 1)) for unit in units_of(found.stored[0])]
    assert seqs == groups(found.messages)


def test_parallel_calls() -> None:
    """Calls and all of their results are one unit."""
    assert units(said("user", "?"), calling("a", "b"), result("b"), result("a"), said("assistant", "x")) == [
        Unit(0, 1, whole=True),
        Unit(1, 4, whole=True),
        Unit(4, 5, whole=True),
    ]


def test_overtaken_calls() -> None:
    """Calls without all results before the next message are a unit that is not whole."""
    assert units(calling("a", "b"), result("b"), said("user", "x"))[0] == Unit(0, 2, whole=False)


def test_waiting_calls() -> None:
    """Calls at the end are a whole unit, because missing results may still come."""
    assert units(said("user", "?"), calling("a", "b"), result("b"))[1] == Unit(1, 3, whole=True)


def test_results_without_their_call() -> None:
    """Results at the beginning of a tail, without their call, are a unit that is not whole."""
    records = talk(calling("a", "b"), result("a"), result("b"), said("user", "?")).stored[0]
    assert units_of(records[1:])[0] == Unit(0, 2, whole=False)


def test_legacy_pair() -> None:
    """A ``function_call`` and the function message after it are one unit; either alone is a unit too."""
    function = said("function", "1", name="look")
    assert units(LEGACY, function, function, LEGACY, said("user", "?")) == [
        Unit(0, 2, whole=True),
        Unit(2, 3, whole=True),
        Unit(3, 4, whole=True),
        Unit(4, 5, whole=True),
    ]


def test_nothing() -> None:
    """No records give no units."""
    assert not Records(b"").units
