"""The stored layout: bit fields have room, and the scripts have the same numbers as Python."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from sash.core.chat.audiences import PARTY_BYTES
from sash.core.counts.models.families import FUNCTION, TOOL, USER
from sash.core.stored.record import FLAG_BITS, RECORD_BYTES, STORED_FLAGS, Flags
from sash.store.data.changes import KIND_BITS, LINE, ChangeKind

_SCRIPTS = [*Path(str(files("sash.store")), "data", "scripts").rglob("*.lua")]
_CONSTANTS = re.compile(r"^ *local ([A-Z]\w*(?:, [A-Z]\w*)*) = ([^-\n]+)", re.MULTILINE)
_RECORDS = {
    "RECORD": RECORD_BYTES,
    "GROUNDED": Flags.GROUNDED,
    "NOTED": Flags.NOTED,
    "PARALLEL": Flags.PARALLEL,
    "REDACTED": Flags.REDACTED,
    "LEGACY_CALL": Flags.LEGACY_CALL,
    "LATE": Flags.LATE,
    "RICH": Flags.RICH,
    "MIXED": Flags.MIXED,
    "NAMED": Flags.NAMED >> 8,
    "IN_PROGRESS": Flags.IN_PROGRESS >> 8,
    "PARTY": PARTY_BYTES,
    "USER": USER,
    "TOOL": TOOL,
    "FUNCTION": FUNCTION,
}
_CHANGES = {
    "LINE": LINE.size,
    "FLOOR": ChangeKind.FLOOR,
    "DID_APPEND": ChangeKind.APPENDED,
    "DID_REPLACE": ChangeKind.REPLACED,
    "DID_REWIND": ChangeKind.REWOUND,
    "DID_REDACT": ChangeKind.REDACTED,
    "DID_AMEND": ChangeKind.AMENDED,
    "DID_SET": ChangeKind.SETTINGS,
    "DID_SUMMARIZE": ChangeKind.SUMMARY,
    "DID_BEGIN": ChangeKind.FLOOR,
}


@pytest.fixture(scope="module")
def constants() -> dict[str, set[str]]:
    """Return the values that the scripts give each constant, by its name."""
    found: dict[str, set[str]] = {}
    for path in _SCRIPTS:
        for names, values in _CONSTANTS.findall(path.read_text()):
            for name, value in zip(names.split(", "), values.strip().split(", "), strict=True):
                found.setdefault(name, set()).add(value)
    return found


@pytest.mark.parametrize(("name", "value"), [*_RECORDS.items(), *_CHANGES.items()])
def test_a_number_is_the_same_in_scripts(constants: dict[str, set[str]], name: str, value: int) -> None:
    """A number of the stored layout is the same in each script that has it as in Python."""
    assert constants[name] == {str(int(value))}


def test_a_line_of_changes_is_as_long_as_its_form_in_scripts(constants: dict[str, set[str]]) -> None:
    """The form by which scripts write a line of changes has the fields that Python reads, in bytes."""
    (form,) = constants["FORM"]
    sizes = {"B": 1, "H": 2, "I": 4}
    assert [*map(int, re.findall(r"I(\d)", form))] == [sizes[code] for code in LINE.format[1:]]


@pytest.mark.parametrize(
    ("used", "bits"),
    [(STORED_FLAGS, FLAG_BITS), (sum(ChangeKind), KIND_BITS)],
    ids=["flags of a record", "kinds of changes"],
)
def test_a_stored_bit_field_has_room(used: int, bits: int) -> None:
    """At most three quarters of a stored bit field have a meaning, so the next fact needs no new layout."""
    assert used < 1 << bits
    assert 4 * used.bit_count() <= 3 * bits
