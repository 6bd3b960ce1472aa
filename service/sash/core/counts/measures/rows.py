"""A message's row: the numbers from which its tokens are computed, for every model and form.

A stored row is a mask, whose bits tell which of ``_FIELDS`` follow, and the numbers of these fields. So a short row takes
few bytes, and rows with the same mask are read as one table. Plain text has no row. Neither has a message whose parts are
counted one by one, such as images: its measure is stored whole::

    row      8 bytes mask (bit 0 is the first field) | 4 bytes for each number of these fields; little-endian
    columns  for each field that a message has: an array with the numbers of all messages, 0 for those without it
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import zip_longest
from operator import or_
from struct import error, pack, unpack_from
from typing import Any, Final, NamedTuple

import numpy as np

from sash.core.counts.measures.measures import Extra, Measure
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.measures.reasoning import Reasoning
from sash.core.counts.text.numbers import Number
from sash.core.counts.text.unicode_scripts import Mix
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.members import FOREIGN

_SAID: Final = (
    *("call_names", "call_arguments", "together", "listed", "unpriced", "opens_list", "closes_list", "heading"),
)
"""Pairs of ``Extra``: tokens of a text in both encodings, 0 where there is none."""
_GIVEN: Final = ("name", "padding", "bare_names", "call_objects", "together_objects", "call_compact")
"""Pairs of ``Extra`` that may be None."""
_COUNTED: Final = ("calls", "estimated", "pages", "paged")
_OF_REASONING: Final = ("plain", "blocks", "signatures")
"""Pairs of ``Reasoning``."""
_MENDED: Final = ("unfitted", "spoken", "pictured")
"""Pairs of ``Extra`` of messages that are not sent as they came."""
_BEFORE_TEXT: Final = ("named",)
"""Another such pair. Its place in a row is behind those of fields that were stored earlier."""
_NATIVE: Final = ("native_reasoning", "rest", "apart")
"""Pairs of ``NativeParts``."""
_SEALED: Final = ("reasoning_sealed", "rest_sealed", "wrappings")
_SOUNDS: Final = ("heard", "sounded")
_IDENTIFIED: Final = ("identified", "stored", "texts_sealed")
_MIXES: Final = ("mix", "calls_mix", "reasoning_mix", "beside_mix")
_WIDTHS: Final[Mapping[str, int]] = {
    **dict.fromkeys((*_SAID, *_GIVEN, *_OF_REASONING, *_NATIVE), 2),
    **dict.fromkeys((*_COUNTED, "legacy_call", "textless", *_SEALED, "beside_estimated"), 1),
    "beside": 2,  # its form, from 1 on, and its size in bytes
    **dict.fromkeys(_MIXES, 3),  # size, digits, characters
    **{f"{name}_shares": 3 for name in _MIXES},
    "odd": 1,
    **dict.fromkeys(_MENDED, 2),
    "told": 1,
    **dict.fromkeys(_IDENTIFIED, 1),
    "sent": 1,
    **{f"{name}_marks": 1 for name in _MIXES},
    **dict.fromkeys(_SOUNDS, 1),
    **{f"{name}_capitals": 1 for name in _MIXES},
    "lost": 1,
    **dict.fromkeys(_BEFORE_TEXT, 2),
}
_FIELDS: Final = tuple(_WIDTHS)
_BITS: Final = {name: 1 << place for place, name in enumerate(_FIELDS)}
_MIXED: Final = frozenset(f"{name}{end}" for name in _MIXES for end in ("", "_shares", "_marks", "_capitals"))
_OF_MIXES: Final = sum(map(_BITS.__getitem__, _MIXED))
_MASK_BYTES: Final = 8
_WORD: Final = 4
_SHARES: Final = 3
"""The most scripts beside Latin of a text with a row."""
_SHARE_BITS: Final = 10
_NUMBERS: Final = {**{form: number for number, form in enumerate(PROVIDERS, 1)}, FOREIGN: 255}
_FORMS: Final = {number: form for form, number in _NUMBERS.items()}

Fields = dict[str, tuple[int, ...]]


class Row(dict[str, Number]):
    """A message's numbers by name, or those of many messages as arrays. A number that is not there is 0.

    Names are ``role``, ``text0`` and ``text1`` (the text's tokens in both encodings), fields, with the column behind the
    name of a pair (``listed0``), and ``has_`` before the name of a pair that may be None. A mix of many texts has arrays,
    with the size 0 for a text without a mix.
    """

    def __missing__(self, name: str) -> int:
        return 0


def form_number(form: str) -> int:
    """Return the number of a form in rows; 0 stands for messages without native parts."""
    return _NUMBERS[form]


def form_named(number: int) -> str:
    """Return the name of the form that has this number. 0 is no form's number."""
    return _FORMS[number]


def row_of(measure: Measure) -> Row:
    """Return the numbers of one message, with its mixes. Its images and parts are not among them."""
    row = Row(role=measure.role, text0=measure.o200k, text1=measure.cl100k)
    if measure.extra is not None:
        for name, numbers in _fields(measure.extra).items():
            _add(row, name, numbers, has=True)
        if measure.extra.beside is not None and measure.extra.beside.only:
            row["only"] = 1
        row.update((name, mix) for name, mix in _mixes(measure.extra) if mix is not None)
    return row


def stored_row(extra: Extra) -> bytes | None:
    """Return a message's stored row; None if a row cannot have all that the message has."""
    beside = extra.beside
    if (
        extra.media
        or extra.images
        or extra.parts
        or (beside and (beside.images or beside.only or beside.reasoning_images or beside.told_parts))
    ):
        return None
    fields = _fields(extra)
    for name, mix in _mixes(extra):
        if mix is None:
            continue
        fields[name] = mix.size, mix.digits, mix.characters
        if mix.marks:
            fields[f"{name}_marks"] = (mix.marks,)
        if mix.capitals:
            fields[f"{name}_capitals"] = (mix.capitals,)
        if len(mix.shares) > _SHARES:
            return None
        if mix.shares:
            shares = [(place << _SHARE_BITS | a) << _SHARE_BITS | b for place, a, b in mix.shares]
            fields[f"{name}_shares"] = (*shares, *[0] * (_SHARES - len(shares)))
    numbers = [number for name in _FIELDS if name in fields for number in fields[name]]
    mask = sum(_BITS[name] for name in fields)
    try:
        return mask.to_bytes(_MASK_BYTES, "little") + pack(f"<{len(numbers)}i", *numbers)
    except error:  # a number of four billion tokens or bytes
        return None


def extra_of(row: bytes) -> Extra:
    """Return what a stored row was made from."""
    width, places = _layout(int.from_bytes(row[:_MASK_BYTES], "little"))
    numbers = unpack_from(f"<{width}i", row, _MASK_BYTES)
    fields: Fields = {name: numbers[start:end] for name, start, end in places}
    mixes: dict[str, Any] = {
        name: _mix(
            fields[name],
            fields.get(f"{name}_shares", ()),
            *fields.get(f"{name}_marks", (0,)),
            *fields.get(f"{name}_capitals", (0,)),
        )
        for name in _MIXES
        if name in fields
    }
    thought = _pairs(fields, _OF_REASONING)
    reasoning = Reasoning(**thought, mix=mixes.get("reasoning_mix")) if thought or "reasoning_mix" in mixes else None
    beside = None
    if "beside" in fields:
        form, size = fields["beside"]
        beside = NativeParts(
            format=form_named(form),
            size=size,
            **_pairs(fields, _NATIVE),
            **_counts(fields, (*_SEALED, *_IDENTIFIED)),
            estimated=fields.get("beside_estimated", (0,))[0],
            told=fields.get("told", (0,))[0],
            sent=fields.get("sent", (0,))[0],
            lost=fields.get("lost", (0,))[0],
            mix=mixes.get("beside_mix"),
        )
    return Extra(
        **_pairs(fields, (*_SAID, *_GIVEN, *_MENDED, *_BEFORE_TEXT)),
        **_counts(fields, (*_COUNTED, *_SOUNDS, "odd")),
        legacy_call="legacy_call" in fields,
        has_text="textless" not in fields,
        reasoning=reasoning,
        beside=beside,
        mix=mixes.get("mix"),
        calls_mix=mixes.get("calls_mix"),
    )


class Rows(NamedTuple):
    """The stored rows of many messages in one string: where each begins, and its length in bytes."""

    joined: bytes
    begins: Number
    lengths: Number

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> "Rows":
        """The rows of many messages."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(b"".join(rows), np.cumsum(lengths) - lengths, lengths)

    def numbers(self, places: Number, size: int, kind: str) -> Number:
        """The numbers in the first ``size`` bytes of the rows at these places, as an array for each row."""
        items: Number = np.ndarray(len(self.joined) - size + 1, f"V{size}", self.joined, strides=(1,))
        return items[self.begins[places]].view(kind).reshape(len(places), -1)

    def have(self, places: Number, names: Iterable[str]) -> Number:
        """Whether each of the rows at these places has one of these fields, as an array."""
        found = self.lengths[places] > 0
        bits = sum(_BITS[name] for name in names)
        if found.any():
            found[found] = self.numbers(places[found], _MASK_BYTES, "<u8")[:, 0] & np.uint64(bits) != 0
        return found


def columns_of(rows: Rows, roles: Number, texts: tuple[Number, Number], *, mixes: bool) -> Row:
    """Return the numbers of many messages as arrays, from their stored rows; a message of plain text has an empty one.

    ``mixes``: with the mixes, which only estimates need.
    """
    columns, count = Row(role=roles, text0=texts[0], text1=texts[1]), len(rows.lengths)
    given = np.flatnonzero(rows.lengths)
    if not len(given):
        return columns
    masks = rows.numbers(given, _MASK_BYTES, "<u8")[:, 0]
    kinds = {*masks.tolist()}
    union = reduce(or_, kinds, 0) & (-1 if mixes else ~_OF_MIXES)
    width, places = _layout(union)
    table = np.zeros((width, count), np.int64)
    for mask in kinds:
        at = given[masks == mask]
        taken, lines = _lines_of(mask, union)
        table[lines, at] = rows.numbers(at, _MASK_BYTES + _WORD * _layout(mask)[0], "<i4").T[taken]
    fields: dict[str, Any] = {name: table[start:end] for name, start, end in places}
    for name, numbers in fields.items():
        if name in _MIXES:
            shares = fields.get(f"{name}_shares", ())
            (marks,) = fields.get(f"{name}_marks", (np.zeros(count, np.int64),))
            (capitals,) = fields.get(f"{name}_capitals", (np.zeros(count, np.int64),))
            columns[name] = Mix(numbers[0], numbers[1], tuple(map(_share, shares)), numbers[2], marks, capitals)
        elif name in _GIVEN:
            has = np.zeros(count, bool)
            has[given] = masks & np.uint64(_BITS[name]) != 0
            _add(columns, name, numbers, has=has)
        elif name not in _MIXED:
            _add(columns, name, numbers, has=None)
    return columns


@lru_cache(maxsize=4096)
def _lines_of(mask: int, union: int) -> tuple[Number, Number]:
    """Which numbers of a row with this mask a table of the fields of ``union`` has, counted from the mask, and its lines."""
    ends = {name: range(start, end) for name, start, end in _layout(union)[1]}
    pairs = [
        (_MASK_BYTES // _WORD + number, line)
        for name, start, end in _layout(mask)[1]
        for number, line in zip(range(start, end), ends.get(name, ()), strict=False)
    ]
    found: Number = np.array(pairs, np.int64).reshape(len(pairs), 2).T
    return found[0], found[1][:, np.newaxis]


def of_these(columns: Row, places: Number) -> Row:
    """Return the columns of the messages at these places, without their mixes."""
    return Row({name: numbers[places] for name, numbers in columns.items() if not isinstance(numbers, Mix)})


def column_of_mixes(mixes: Sequence[Mix | None]) -> Mix:
    """Return the mixes of many texts as one, with arrays."""
    none = Mix(0)
    given = [mix or none for mix in mixes]
    shares = zip_longest(*(mix.shares for mix in given), fillvalue=(0, 0, 0))
    rows = [(mix.size, mix.digits, mix.characters, mix.marks, mix.capitals) for mix in given]
    numbers: Number = np.array(rows, np.int64).T
    joined = tuple(tuple(np.array(share, np.int64).T) for share in shares)
    return Mix(numbers[0], numbers[1], joined, *numbers[2:])


def taken(columns: Row, places: Number | slice) -> Row:
    """Return the columns of the messages at these places."""
    return Row({name: _taken(numbers, places) for name, numbers in columns.items()})


def _taken(numbers: Number, places: Number | slice) -> Number:
    if not isinstance(numbers, Mix):
        return numbers[places]
    sizes: Sequence[Any] = (numbers.size, numbers.digits, numbers.characters, numbers.marks, numbers.capitals)
    size, digits, *others = (each[places] for each in sizes)
    shares: Sequence[Sequence[Any]] = numbers.shares
    return Mix(size, digits, tuple((a[places], b[places], c[places]) for a, b, c in shares), *others)


def _add(row: Row, name: str, numbers: Sequence[Number], *, has: Number) -> None:
    """Add a field's numbers under their names."""
    if name == "beside":
        row["form"], row["beside_size"] = numbers
    elif len(numbers) == 1:
        row[name] = numbers[0]
    else:
        row[f"{name}0"], row[f"{name}1"] = numbers
    if name in _GIVEN:
        row[f"has_{name}"] = has


def _fields(extra: Extra) -> Fields:
    """The fields that a message has, without its mixes."""
    found: Fields = {name: pair for name in (*_SAID, *_MENDED, *_BEFORE_TEXT) if any(pair := getattr(extra, name))}
    found |= {name: pair for name in _GIVEN if (pair := getattr(extra, name)) is not None}
    found |= {name: (number,) for name in (*_COUNTED, *_SOUNDS, "odd") if (number := getattr(extra, name))}
    if extra.legacy_call:
        found["legacy_call"] = (1,)
    if not extra.has_text:
        found["textless"] = (1,)
    if (reasoning := extra.reasoning) is not None:
        found |= {name: pair for name in _OF_REASONING if any(pair := getattr(reasoning, name))}
    if (beside := extra.beside) is not None:
        found["beside"] = form_number(beside.format), beside.size
        found |= {name: pair for name in _NATIVE if any(pair := getattr(beside, name))}
        found |= {name: (number,) for name in (*_SEALED, *_IDENTIFIED) if (number := getattr(beside, name))}
        if beside.estimated:
            found["beside_estimated"] = (beside.estimated,)
        if beside.told:
            found["told"] = (beside.told,)
        if beside.sent:
            found["sent"] = (beside.sent,)
        if beside.lost:
            found["lost"] = (beside.lost,)
    return found


def _mixes(extra: Extra) -> Sequence[tuple[str, Mix | None]]:
    reasoning, beside = extra.reasoning, extra.beside
    return (
        ("mix", extra.mix),
        ("calls_mix", extra.calls_mix),
        ("reasoning_mix", reasoning.mix if reasoning is not None else None),
        ("beside_mix", beside.mix if beside is not None else None),
    )


def _pairs(fields: Fields, names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _counts(fields: Fields, names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name][0] for name in names if name in fields}


@lru_cache(maxsize=1024)
def _layout(mask: int) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    """The numbers of a row with this mask, and where each of its fields stands among them."""
    width, found = 0, []
    for name in _FIELDS:
        if mask & _BITS[name]:
            found.append((name, width, width + _WIDTHS[name]))
            width += _WIDTHS[name]
    return width, tuple(found)


def _share(share: Number) -> tuple[Number, Number, Number]:
    """A script's place, and its thousandths of the tokens in both encodings."""
    low = (1 << _SHARE_BITS) - 1
    return share >> 2 * _SHARE_BITS, share >> _SHARE_BITS & low, share & low


def _mix(numbers: Sequence[int], shares: Sequence[int], marks: int, capitals: int) -> Mix:
    size, digits, characters = numbers
    return Mix(size, digits, tuple(_share(share) for share in shares if share), characters, marks, capitals)
